"""`toolglot demo --bodies`: one awkward request in every API format, with its losses and repairs."""

from typing import Any

from msgspec.structs import replace

from toolglot.cli.printer import Printer
from toolglot.jsontext import dumps_text
from toolglot.messages import Conversation, Media, Origin, Text, Thinking, ToolCall, ToolResult, assistant, system, user
from toolglot.messages import Message as Turn
from toolglot.providers.catalog import resolve_profile
from toolglot.request import Options, Request, ToolChoice, ToolDefinition
from toolglot.wire.codec import encode_request
from toolglot.wire.spec import ANTHROPIC_MESSAGES

__all__ = ["MODELS", "REQUEST", "format_json", "show_wires"]

MODELS = {
    "openai-chat": "gpt-4o",
    "openai-responses": "gpt-5.1",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-3-pro-preview",
    "ollama": "qwen3",
}
_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

TOOL = ToolDefinition(
    "maps.plan_route",
    "Plan a route.",
    {
        "type": "object",
        "properties": {
            "stops": {"type": "array", "items": {"$ref": "#/$defs/Place"}, "minItems": 2},
            "by": {"oneOf": [{"const": "train"}, {"const": "car"}], "default": "train"},
            "start": {"type": ["string", "null"], "format": "date-time"},
            "limits": {"type": "object", "additionalProperties": {"type": "number"}},
        },
        "required": ["stops"],
        "$defs": {
            "Place": {"type": "object", "properties": {"city": {"type": "string", "minLength": 1}}, "required": ["city"]}
        },
    },
)
_CLAUDE = Origin(ANTHROPIC_MESSAGES, "anthropic", "claude-sonnet-4-5")

# Started with Claude and interrupted in the middle of a tool loop: of two calls, one was answered with an image, one never.
REQUEST = Request(
    model="",
    messages=Conversation(
        [
            system("You plan journeys."),
            user("From Paris to Rome, and how is the weather there?"),
            Turn(
                "assistant",
                (
                    Thinking("Two tools at once.", {"signature": "EqQBCkYIBxgC"}),
                    Text("Let me look."),
                    ToolCall("toolu_01:route|1", "maps.plan_route", {"stops": [{"city": "Paris"}, {"city": "Rome"}]}),
                    ToolCall("toolu_02", "get_weather", None, '{"city": "Ro'),
                ),
                _CLAUDE,
            ),
            Turn(
                "tool",
                (
                    ToolResult(
                        "toolu_01:route|1", (Text("11 h by train"), Media("image", "image/png", _PIXEL)), "maps.plan_route"
                    ),
                ),
            ),
            assistant(" "),
            user("Go on."),
        ]
    ),
    tools=(
        TOOL,
        ToolDefinition("get_weather", "Weather in a city.", {"type": "object", "properties": {"city": {"type": "string"}}}),
    ),
    tool_choice=ToolChoice("auto", ("maps.plan_route",)),
    parallel=False,
    options=Options(temperature=1.5, top_k=40),
)


def show_wires(printer: Printer, *, only: str | None = None) -> None:
    """Print the request as each provider receives it."""
    printer.print_text("One tool and one awkward conversation: started with Claude, interrupted in a tool loop.", "bold")
    printer.print_text("It has two calls: one has a result with an image, the other has truncated arguments and no result.")
    for provider, model in MODELS.items():
        if only not in (None, provider):
            continue
        profile = resolve_profile(provider, model)
        encoded = encode_request(replace(REQUEST, model=model), profile)
        printer.print_rule(f"{profile.title} · {model}")
        for line in format_json(_shorten_texts(encoded.body), max(40, printer.width - 2)).splitlines():
            printer.print_line(line)
        for loss in encoded.losses:
            printer.print_text(str(loss), "red", "  lost      ")
        for repair in encoded.repairs:
            printer.print_text(str(repair), "yellow", "  repaired  ")
        printer.print_line("")


def format_json(value: Any, width: int, indent: int = 0, used_columns: int = 0) -> str:
    """Format JSON compactly: a value that fits on one line stays there.

    `used_columns` counts the columns that are already taken on the first line.
    """
    line = dumps_text(value)
    if indent + used_columns + len(line) < width or not isinstance(value, dict | list) or not value:
        return line
    if isinstance(value, dict):
        fields: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
        parts = [f"{dumps_text(key)}: {format_json(item, width, indent + 2, len(key) + 4)}" for key, item in fields.items()]
    else:
        parts = [format_json(item, width, indent + 2) for item in value]  # pyright: ignore[reportUnknownVariableType]
    inner, (opening, closing) = " " * (indent + 2), "{}" if isinstance(value, dict) else "[]"
    body = f",\n{inner}".join(parts)
    return f"{opening}\n{inner}{body}\n{' ' * indent}{closing}"


def _shorten_texts(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= 72 else value[:60] + f"… ({len(value)} characters)"
    if isinstance(value, dict):
        return {key: _shorten_texts(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return [_shorten_texts(item) for item in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType]
