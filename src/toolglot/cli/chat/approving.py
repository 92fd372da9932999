"""How an approval is asked for: everything the call would do, nothing hidden, one key to answer."""

import difflib
import re
from typing import Any

from rich.text import Text as Line

from toolglot.cli.chat.screen import Screen
from toolglot.cli.visible import visible
from toolglot.jsontext import dumps_text
from toolglot.tools.executor import Approval

__all__ = ["described", "show"]

_MOST_LINES = 200
_DIFF = re.compile(r"^(diff --git |--- |\*\*\* Begin Patch|@@ )", re.MULTILINE)


def show(approval: Approval, screen: Screen, *, whole: bool = False) -> bool:
    """Draws what somebody is asked about; whether all of it was shown."""
    effects = ", ".join(sorted(approval.effects))
    head = Line()
    head.append("? ", style="bold yellow")
    head.append(visible(approval.tool), style="bold")
    head.append(f" wants to run ({effects})" if len(approval.effects) < 4 else " wants to run", style="yellow")
    if approval.target:
        head.append(f": {_line(approval.target)}")
    screen.console.print(head)
    lines = described(approval)
    shown = lines if whole or len(lines) <= _MOST_LINES else lines[:_MOST_LINES]
    for line in shown:
        screen.console.print(line)
    if len(shown) < len(lines):
        screen.note(f"  … {len(lines) - len(shown)} more lines are not shown: s shows them", "bold red")
    return len(shown) == len(lines)


def described(approval: Approval) -> list[Line]:
    """What the call would do, line by line: the tool's own preview, else its arguments."""
    if approval.preview:
        return _coloured(approval.preview)
    found: list[Line] = []
    for name, value in _as_diff(approval.arguments).items():
        text = value if isinstance(value, str) else dumps_text(value)
        if "\n" in text:
            found.append(Line(f"  {_line(name)}:", style="dim"))
            found += _coloured(text)
        else:
            line = Line(f"  {_line(name)}: ", style="dim")
            line.append(visible(text), style="not dim")
            found.append(line)
    if approval.call.freeform and approval.call.raw:
        found += _coloured(approval.call.raw)
    return found


def _as_diff(arguments: dict[str, Any]) -> dict[str, Any]:
    """An old and a new text are easier to judge as a difference."""
    old, new = arguments.get("old_string"), arguments.get("new_string")
    if not isinstance(old, str) or not isinstance(new, str) or old == new:
        return arguments
    rest = {name: value for name, value in arguments.items() if name not in ("old_string", "new_string")}
    before, after = old.split("\n"), new.split("\n")
    lines = difflib.unified_diff(before, after, "old_string", "new_string", n=max(len(before), len(after)), lineterm="")
    return {**rest, "change": "\n".join(lines) + "\n"}


def _line(text: str) -> str:
    """A name in one line, with its ends of lines shown."""
    return visible(text).replace("\n", "␊")


def _coloured(text: str) -> list[Line]:
    lines, in_hunk = text.rstrip("\n").split("\n"), False
    if _DIFF.search(text) is None:
        return [Line(f"    {visible(line)}") for line in lines]
    found: list[Line] = []
    for line in lines:
        in_hunk = line.startswith("@@ ") or (in_hunk and not line.startswith(("diff ", "***")))
        found.append(Line(f"    {visible(line)}", style=_colour(line, in_hunk=in_hunk)))
    return found


def _colour(line: str, *, in_hunk: bool) -> str:
    if not in_hunk and line.startswith(("+++", "---", "diff ", "***")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
