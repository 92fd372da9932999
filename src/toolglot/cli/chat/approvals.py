"""Show an approval request: everything the call would do, with nothing hidden."""

import re
import sys
from collections.abc import Iterable

from toolglot.cli.chat.screen import Screen
from toolglot.cli.styled import Line, PlainConsole
from toolglot.common.jsontext import dumps_text
from toolglot.common.sanitize import escape_line
from toolglot.config.settings import ChatSettings
from toolglot.values.approvals import ApprovalRequest

_MAX_LINES = 200
_DIFF = re.compile(r"^(diff --git |--- |\*\*\* Begin Patch|@@ )", re.MULTILINE)


def show_approval(approval: ApprovalRequest, screen: Screen, *, show_all: bool = False) -> bool:
    """Print the request; return whether all of it was printed.

    Only its first line, and a warning, begin at the left edge: nothing in a call can look like another
    question.
    """
    effects = ", ".join(sorted(approval.effects))
    head = Line("? ", "bold yellow").append(_escape_line(approval.tool), "bold")
    kinds = f" ({effects})" if len(approval.effects) < 4 else ""
    agent = f" for {_escape_line(approval.agent)}" if approval.agent else ""
    head.append(f" wants to run{agent}{kinds}", "yellow")
    # A command is its own target: a long one is not shown twice. Text that a model writes cannot look like
    # one: it has no "$ ".
    commands = {line[2:] for line in approval.preview.split("\n") if line.startswith(("$ ", "> "))}
    is_repeated = len(approval.target) > 60 and commands.issuperset(approval.target.split("\n"))
    if approval.target and not is_repeated:
        head.append(f": {_escape_line(approval.target)}")
    lines = [head]
    if approval.reason:
        reason = _escape_line(approval.reason)
        if approval.each_time:
            lines.append(Line(f"! {reason}", "bold red"))
        else:
            lines.append(Line(f"  ({reason})", "dim"))
    described = describe_approval(approval)
    printed = described if show_all or len(described) <= _MAX_LINES else described[:_MAX_LINES]
    rows = screen.print_rows([*lines, *printed])
    if len(printed) < len(described):
        screen.note(
            f"  … {len(described) - len(printed)} more lines are not shown: press s to show them", "bold red"
        )
    if rows > screen.console.height - 2:
        screen.note(f"  ↑ the question has {rows} lines: scroll up to read all of it", "bold yellow")
    return len(printed) == len(described)


def print_approvals(approvals: Iterable[ApprovalRequest]) -> None:
    """Print requests in full to stderr."""
    for approval in approvals:
        show_approval(approval, Screen(PlainConsole(sys.stderr), ChatSettings()), show_all=True)


def describe_approval(approval: ApprovalRequest) -> list[Line]:
    """Describe what the call would do, line by line: the tool's own preview, or its arguments."""
    if approval.preview:
        return _color_diff(approval.preview)
    lines: list[Line] = []
    if approval.preview_error:
        lines.append(Line(f"  this would currently fail: {_escape_line(approval.preview_error)}", "yellow"))
    for name, value in approval.arguments.items():
        text = value if isinstance(value, str) else dumps_text(value)
        if "\n" in text:
            lines.append(Line(f"  {_escape_line(name)}:", "dim"))
            lines += _color_diff(text)
        else:
            lines.append(Line(f"  {_escape_line(name)}: ", "dim").append(_escape_line(text)))
    if approval.call.freeform and approval.call.raw:
        lines += _color_diff(approval.call.raw)
    return lines


def _escape_line(text: str) -> str:
    return escape_line(text.expandtabs(4))


def _color_diff(text: str) -> list[Line]:
    """Indent the lines of a text; if it is a diff or a patch, color them."""
    lines, in_hunk = text.removesuffix("\n").split("\n"), False
    if _DIFF.search(text) is None:
        return [Line(f"    {_escape_line(line)}") for line in lines]
    colored: list[Line] = []
    for line in lines:
        # Within a hunk, "--- x" is a removed line "-- x" and not a header.
        in_hunk = line.startswith("@@ ") or (in_hunk and not line.startswith(("diff ", "***")))
        if not in_hunk and line.startswith(("+++", "---", "diff ", "***")):
            style = "bold"
        else:
            style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        colored.append(Line(f"    {_escape_line(line)}", style))
    return colored
