"""Forms that MCP servers have filled in: what the user typed, as the values of a form."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

from toolglot.approvals import Allow, ApprovalRequest, Decision, Deny
from toolglot.cli.chat.input import PipeReader, TerminalReader
from toolglot.cli.chat.screen import Screen
from toolglot.cli.styled import Line
from toolglot.sanitize import escape_deceptive, escape_line

__all__ = ["answer_form", "fill_form"]

_TRUE, _FALSE = frozenset({"y", "yes", "true", "1", "on"}), frozenset({"n", "no", "false", "0", "off"})
_SKIP = "-"


async def answer_form(
    approval: ApprovalRequest, form: dict[str, Any], screen: Screen, reader: PipeReader | TerminalReader
) -> Decision:
    """Let the user fill in what a server asks for while its call runs. Raises EndOfInput, KeyboardInterrupt."""
    lines = escape_deceptive(approval.preview.expandtabs(4)).split("\n")
    reason = escape_line(approval.reason)
    screen.print_rows([Line("? ", "bold yellow").append(reason, "bold"), *(Line(f"    {line}") for line in lines)])
    screen.note("  your answer is sent to this MCP server", "dim")
    while not (answer := await reader.choose("  y answer · n decline: ", ("yes", "no"))):
        screen.note("please answer y, n", "dim")
    return Allow(await fill_form(form, reader.read_answer)) if answer == "yes" else Deny()


async def fill_form(form: dict[str, Any], read: Callable[[str], Awaitable[str]]) -> dict[str, Any]:
    """Ask for each field; `read` shows a question and returns what was typed. Nothing, or `-`, leaves a field out."""
    values: dict[str, Any] = {}
    fields = cast(dict[str, dict[str, Any]], form.get("properties", {}))
    for name, field in fields.items():
        hint = f" [{field['default']}]" if "default" in field else "" if name in form.get("required", ()) else f" [{_SKIP}]"
        label = escape_line(f"  {name}{hint}: ")
        text = (await read(label)).strip()
        if text and text != _SKIP:
            values[name] = _parse_value(field, text)
    return values


def _parse_value(field: dict[str, Any], text: str) -> Any:
    match field.get("type"):
        case "array":
            return [part.strip() for part in text.split(",") if part.strip()]
        case "boolean" if text.lower() in _TRUE | _FALSE:
            return text.lower() in _TRUE
        case _:
            return text  # whoever asked converts it, and asks again if it does not fit
