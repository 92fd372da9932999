"""`toolglot demo --bodies`: one tool and one awkward conversation in every wire, with what was lost and what was mended."""

from typing import Any

from rich.console import Console
from rich.highlighter import JSONHighlighter
from rich.text import Text as Line

from toolglot.jsontext import dumps_text
from toolglot.messages import Conversation, Media, Origin, Text, Thinking, ToolCall, ToolResult, assistant, system, user
from toolglot.messages import Message as Turn
from toolglot.providers.catalog import resolve_profile
from toolglot.request import Options, Request, ToolChoice, ToolDefinition
from toolglot.wire.codec import encode_request
from toolglot.wire.spec import ANTHROPIC_MESSAGES
from toolglot.wire.writer import EncodedRequest

__all__ = ["MODELS", "REQUEST", "show_wires"]

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

# Begun on Claude, cut off in the middle of a tool loop: two calls, one answered with a picture, one never.
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
        ToolDefinition("get_weather", "Weather of a city.", {"type": "object", "properties": {"city": {"type": "string"}}}),
    ),
    tool_choice=ToolChoice("auto", ("maps.plan_route",)),
    parallel=False,
    options=Options(temperature=1.5, top_k=40),
)


def show_wires(console: Console, *, only: str | None = None) -> None:
    """Prints the request as each provider gets it."""
    console.print("One tool, one awkward conversation: begun on Claude, cut off in the middle of a tool loop.", style="bold")
    console.print("Two calls, one result with a picture, one call whose arguments were cut and that was never answered.\n")
    for provider, model in MODELS.items():
        if only in (None, provider):
            profile = resolve_profile(provider, model)
            encoded = encode_request(_request_for(model), profile)
            console.rule(f"[bold cyan]{profile.title}[/] · {model}", align="left")
            console.print(JSONHighlighter()(Line(format_json(_shorten_texts(encoded.body), max(40, console.width - 2)))))
            _print_notes(console, encoded)


def _request_for(model: str) -> Request:
    from msgspec.structs import replace

    return replace(REQUEST, model=model)


def _print_notes(console: Console, encoded: EncodedRequest) -> None:
    for one in encoded.losses:
        console.print(Line.assemble(("  lost    ", "bold red"), f"{one.subject} at {one.where}: {one.reason}"))
    for one in encoded.repairs:
        console.print(Line.assemble(("  mended  ", "bold yellow"), f"{one.subject} at {one.where}: {one.reason}"))
    console.print()


def format_json(value: Any, width: int, indent: int = 0, used_columns: int = 0) -> str:
    """JSON with one line for what fits into it. `used`: columns that are taken on the first line."""
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
    """Long texts cut, for the eye."""
    if isinstance(value, str):
        return value if len(value) <= 72 else value[:60] + f"… ({len(value)} characters)"
    if isinstance(value, dict):
        return {key: _shorten_texts(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return [_shorten_texts(item) for item in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType]
