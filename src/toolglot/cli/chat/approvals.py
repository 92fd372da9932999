"""Show an approval request: everything the call would do, with nothing hidden."""

import re

from toolglot.cli.chat.screen import Screen
from toolglot.cli.sanitize import escape_invisible
from toolglot.cli.styled import Line
from toolglot.jsontext import dumps_text
from toolglot.tools.executor import ApprovalRequest

_MAX_LINES = 200
_DIFF = re.compile(r"^(diff --git |--- |\*\*\* Begin Patch|@@ )", re.MULTILINE)


def show_approval(approval: ApprovalRequest, screen: Screen, *, show_all: bool = False) -> bool:
    """Print the request; return whether all of it was printed."""
    effects = ", ".join(sorted(approval.effects))
    head = Line("? ", "bold yellow").append(escape_invisible(approval.tool), "bold")
    head.append(f" wants to run ({effects})" if len(approval.effects) < 4 else " wants to run", "yellow")
    if approval.target:
        head.append(f": {_escape_line(approval.target)}")
    screen.console.print(head)
    lines = describe_approval(approval)
    printed = lines if show_all or len(lines) <= _MAX_LINES else lines[:_MAX_LINES]
    for line in printed:
        screen.console.print(line)
    if len(printed) < len(lines):
        screen.note(f"  … {len(lines) - len(printed)} more lines are not shown: press s to show them", "bold red")
    return len(printed) == len(lines)


def describe_approval(approval: ApprovalRequest) -> list[Line]:
    """Describe what the call would do, line by line: the tool's own preview, or its arguments."""
    if approval.preview:
        return _color_diff(approval.preview)
    lines: list[Line] = []
    if approval.preview_error:
        lines.append(Line(f"  as things are now, this fails: {_escape_line(approval.preview_error)}", "yellow"))
    for name, value in approval.arguments.items():
        text = value if isinstance(value, str) else dumps_text(value)
        if "\n" in text:
            lines.append(Line(f"  {_escape_line(name)}:", "dim"))
            lines += _color_diff(text)
        else:
            lines.append(Line(f"  {_escape_line(name)}: ", "dim").append(escape_invisible(text)))
    if approval.call.freeform and approval.call.raw:
        lines += _color_diff(approval.call.raw)
    return lines


def _escape_line(text: str) -> str:
    return escape_invisible(text).replace("\n", "␊")


def _color_diff(text: str) -> list[Line]:
    """Indent the lines of a text; if it is a diff or a patch, color them."""
    lines, in_hunk = text.rstrip("\n").split("\n"), False
    if _DIFF.search(text) is None:
        return [Line(f"    {escape_invisible(line)}") for line in lines]
    colored: list[Line] = []
    for line in lines:
        # Within a hunk, "--- x" is a removed line "-- x" and not a header.
        in_hunk = line.startswith("@@ ") or (in_hunk and not line.startswith(("diff ", "***")))
        if not in_hunk and line.startswith(("+++", "---", "diff ", "***")):
            style = "bold"
        else:
            style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        colored.append(Line(f"    {escape_invisible(line)}", style))
    return colored
