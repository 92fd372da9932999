"""How an approval is asked for: everything the call would do, nothing hidden, one key to answer."""

import difflib
import re
from typing import Any

from rich.text import Text as Line

from toolglot.cli.chat.screen import Screen
from toolglot.cli.sanitize import escape_invisible
from toolglot.jsontext import dumps_text
from toolglot.tools.executor import ApprovalRequest

__all__ = ["describe_approval", "show_approval"]

_MAX_LINES = 200
_DIFF = re.compile(r"^(diff --git |--- |\*\*\* Begin Patch|@@ )", re.MULTILINE)


def show_approval(approval: ApprovalRequest, screen: Screen, *, show_all: bool = False) -> bool:
    """Draws what somebody is asked about; whether all of it was shown."""
    effects = ", ".join(sorted(approval.effects))
    head = Line()
    head.append("? ", style="bold yellow")
    head.append(escape_invisible(approval.tool), style="bold")
    head.append(f" wants to run ({effects})" if len(approval.effects) < 4 else " wants to run", style="yellow")
    if approval.target:
        head.append(f": {_escape_line(approval.target)}")
    screen.console.print(head)
    lines = describe_approval(approval)
    shown = lines if show_all or len(lines) <= _MAX_LINES else lines[:_MAX_LINES]
    for line in shown:
        screen.console.print(line)
    if len(shown) < len(lines):
        screen.note(f"  … {len(lines) - len(shown)} more lines are not shown: s shows them", "bold red")
    return len(shown) == len(lines)


def describe_approval(approval: ApprovalRequest) -> list[Line]:
    """What the call would do, line by line: the tool's own preview, else its arguments."""
    if approval.preview:
        return _color_diff(approval.preview)
    found: list[Line] = []
    for name, value in _merge_edit_as_diff(approval.arguments).items():
        text = value if isinstance(value, str) else dumps_text(value)
        if "\n" in text:
            found.append(Line(f"  {_escape_line(name)}:", style="dim"))
            found += _color_diff(text)
        else:
            line = Line(f"  {_escape_line(name)}: ", style="dim")
            line.append(escape_invisible(text), style="not dim")
            found.append(line)
    if approval.call.freeform and approval.call.raw:
        found += _color_diff(approval.call.raw)
    return found


def _merge_edit_as_diff(arguments: dict[str, Any]) -> dict[str, Any]:
    """An old and a new text are easier to judge as a difference."""
    old, new = arguments.get("old_string"), arguments.get("new_string")
    if not isinstance(old, str) or not isinstance(new, str) or old == new:
        return arguments
    rest = {name: value for name, value in arguments.items() if name not in ("old_string", "new_string")}
    before, after = old.split("\n"), new.split("\n")
    lines = difflib.unified_diff(before, after, "old_string", "new_string", n=max(len(before), len(after)), lineterm="")
    return {**rest, "change": "\n".join(lines) + "\n"}


def _escape_line(text: str) -> str:
    """A name in one line, with its ends of lines shown."""
    return escape_invisible(text).replace("\n", "␊")


def _color_diff(text: str) -> list[Line]:
    lines, in_hunk = text.rstrip("\n").split("\n"), False
    if _DIFF.search(text) is None:
        return [Line(f"    {escape_invisible(line)}") for line in lines]
    found: list[Line] = []
    for line in lines:
        in_hunk = line.startswith("@@ ") or (in_hunk and not line.startswith(("diff ", "***")))
        found.append(Line(f"    {escape_invisible(line)}", style=_diff_line_style(line, in_hunk=in_hunk)))
    return found


def _diff_line_style(line: str, *, in_hunk: bool) -> str:
    if not in_hunk and line.startswith(("+++", "---", "diff ", "***")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
