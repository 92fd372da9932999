"""MCP servers' forms: converts what the user types to the values of a form."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

from toolglot.cli.chat.input import PipeReader, TerminalReader
from toolglot.cli.chat.screen import Screen
from toolglot.cli.styled import Line
from toolglot.common.sanitize import escape_deceptive, escape_line
from toolglot.mcp.client.elicitation import find_problem
from toolglot.values.approvals import Allow, ApprovalRequest, Decision, Deny

__all__ = ["answer_form", "fill_form"]

_TRUE, _FALSE = frozenset({"y", "yes", "true", "1", "on"}), frozenset({"n", "no", "false", "0", "off"})
_SKIP = "-"


async def answer_form(
    approval: ApprovalRequest, form: dict[str, Any], screen: Screen, reader: PipeReader | TerminalReader
) -> Decision:
    """Let the user fill in a server's form while its call runs. Raises EndOfInput, KeyboardInterrupt."""
    lines = escape_deceptive(approval.preview.expandtabs(4)).split("\n")
    reason = escape_line(approval.reason)
    screen.print_rows(
        [Line("? ", "bold yellow").append(reason, "bold"), *(Line(f"    {line}") for line in lines)]
    )
    screen.note("  your answer will be sent to this MCP server", "dim")
    while not (answer := await reader.choose("  y answer · n decline: ", ("yes", "no"))):
        screen.note("please answer y or n", "dim")
    return Allow(await fill_form(form, reader.read_answer, screen.note)) if answer == "yes" else Deny()


async def fill_form(
    form: dict[str, Any], read: Callable[[str], Awaitable[str]], note: Callable[[str, str], None]
) -> dict[str, Any]:
    """Ask for each field until its value is valid. An empty answer, or `-`, skips a field.

    `read` shows a question and returns the answer; `note` shows what is wrong with it.
    """
    values: dict[str, Any] = {}
    fields = cast(dict[str, dict[str, Any]], form.get("properties", {}))
    for name, field in fields.items():
        is_required = name in form.get("required", ()) and "default" not in field
        hint = ""
        if "default" in field:
            hint = f" [{_format_value(field['default'])}]"
        elif not is_required:
            hint = f" [{_SKIP}]"
        while True:
            text = (await read(escape_line(f"  {name}{hint}: "))).strip()
            if text in ("", _SKIP):
                if not is_required:
                    break
                problem = f"{name} is required; Ctrl-C ends the call"
            else:
                values[name] = _parse_value(field, text)
                problem = find_problem(name, field, values[name])
                if not problem:
                    break
            note(f"  {escape_line(problem)}", "yellow")
    return values


def _parse_value(field: dict[str, Any], text: str) -> Any:
    match field.get("type"):
        case "array":
            return [part.strip() for part in text.split(",") if part.strip()]
        case "boolean" if text.lower() in _TRUE | _FALSE:
            return text.lower() in _TRUE
        case _:
            return text  # the caller converts it


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, cast(list[Any], value))) if isinstance(value, list) else str(value)
