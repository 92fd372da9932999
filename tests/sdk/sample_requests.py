"""Neutral requests to be written for every wire, and what must be left of them when they come back."""

from collections.abc import Iterator
from typing import Any

import msgspec

from toolglot.providers.catalog import resolve_profile
from toolglot.values.messages import (
    Media,
    Message,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    system,
    tool_results,
    user,
)
from toolglot.values.request import Options, Output, Request, ToolChoice, ToolDefinition
from toolglot.wire.codec import encode_request
from toolglot.wire.spec import SPECS
from toolglot.wire.writer import EncodedRequest

from .sample_replies import PIXEL, call

WEATHER = ToolDefinition(
    "get_weather",
    "The weather at a place.",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Name of the city"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            "days": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["city"],
    },
)
CLOCK = ToolDefinition("now", "The time.", {"type": "object", "properties": {}})
ADD = ToolDefinition(
    "add",
    "Adds.",
    {
        "type": "object",
        "properties": {"x": {"type": "number"}},
        "required": ["x"],
        "additionalProperties": False,
    },
    strict=True,
)
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
ASKED = user("Weather in Bergen?")
TOOLS = (WEATHER, CLOCK, ADD)


def _request(*messages: Message, tools: tuple[ToolDefinition, ...] = (), **fields: Any) -> Request:
    return Request(
        "", list(messages), tools, options=fields.pop("options", Options(max_tokens=1000)), **fields
    )


def _result(id: str, text: str, *, is_error: bool = False) -> ToolResult:
    return ToolResult(id, (Text(text),), is_error=is_error)


REQUESTS = {
    "user": _request(user("Hi.")),
    "system": _request(system("Be brief."), user("Hi."), assistant("Hello!"), user('Grüße 👋 \u2028 \\ "')),
    "image": _request(user(["What is this?", Media("image", "image/png", PIXEL)])),
    "tool-loop": _request(
        ASKED,
        assistant(["Let me look.", call("call_1", "get_weather", {"city": "Bergen", "tags": ["a"]})]),
        tool_results(_result("call_1", '{"degrees": 7}')),
        assistant("Seven degrees."),
        user("Thanks."),
        tools=TOOLS,
    ),
    "error-result": _request(
        ASKED,
        assistant([call("call_1", "get_weather", {"city": "?"})]),
        tool_results(_result("call_1", "no such city", is_error=True)),
        tools=TOOLS,
    ),
    "parallel-calls": _request(
        ASKED,
        assistant(
            [
                call("call_a", "add", {"x": 1}),
                call("call_b", "add", {"x": 2}),
                ToolCall("call_c", "now", {}),
                call("call_d", "add", {"x": 3}),
            ]
        ),
        tool_results(
            _result("call_a", "1"), _result("call_b", "2"), _result("call_c", "noon"), _result("call_d", "3")
        ),
        tools=TOOLS,
    ),
    "one-at-a-time": _request(ASKED, tools=TOOLS, parallel=False),
    "choice-auto": _request(ASKED, tools=TOOLS, tool_choice=ToolChoice("auto")),
    "choice-none": _request(ASKED, tools=TOOLS, tool_choice=ToolChoice("none")),
    "choice-required": _request(ASKED, tools=TOOLS, tool_choice=ToolChoice("required")),
    "choice-named": _request(ASKED, tools=TOOLS, tool_choice=ToolChoice("required", ("now",))),
    "choice-subset": _request(ASKED, tools=TOOLS, tool_choice=ToolChoice("auto", ("now", "add"))),
    "output": _request(user("Who?"), output=Output(PERSON, "person", strict=True)),
    "json": _request(user("Who? As JSON."), output=Output()),
    "options": _request(
        user("Hi."),
        options=Options(
            max_tokens=2000,
            temperature=0.5,
            top_p=0.9,
            top_k=20,
            stop=("END", "\n\n"),
            seed=7,
            presence_penalty=0.25,
            frequency_penalty=-0.5,
        ),
    ),
    "effort": _request(user("Hi."), options=Options(max_tokens=3000, effort="low")),
    "budget": _request(user("Hi."), options=Options(max_tokens=3000, thinking_budget=2000)),
    "freeform": _request(
        user("Patch it."),
        assistant([ToolCall("call_1", "patch", None, "+ a\n", freeform=True)]),
        tool_results(_result("call_1", "done")),
        tools=(
            ToolDefinition(
                "patch", "Patches.", kind="freeform", grammar={"syntax": "lark", "definition": "start: /.+/"}
            ),
            ToolDefinition("shout", "Shouts.", kind="freeform"),
        ),
    ),
}


def encode_sample(name: str, wire: str, model: str, **fields: Any) -> EncodedRequest:
    """One of the requests as a body of the wire's default profile."""
    request = msgspec.structs.replace(REQUESTS[name], model=model, **fields)
    return encode_request(request, resolve_profile(SPECS[wire].default_profile, model))


def exhaust(value: Any) -> Any:
    """A validated value with pydantic's lazy iterators read to their ends: only then everything in it was
    checked.
    """
    if isinstance(value, dict):
        return {key: exhaust(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, str | bytes | int | float | None):
        return value
    return [exhaust(item) for item in value]


class Gist(msgspec.Struct):
    """What a request says, whatever its ids are: calls and results are known by their place."""

    turns: list[Any]
    tools: list[Any]
    choice: ToolChoice
    output: Any


def gist(request: Request) -> Gist:
    """What must survive every wire."""
    return Gist(
        turns=list(_turns(request.messages)),
        tools=[(tool.name, tool.description.partition("\n")[0], _parameters(tool)) for tool in request.tools],
        choice=request.tool_choice or ToolChoice(),
        output=request.output and request.output.schema,
    )


def _turns(messages: Any) -> Iterator[Any]:
    places: dict[str, int] = {}
    for message in messages:
        for tool_call in message.calls:
            places[tool_call.id] = len(places)
        yield (
            message.role,
            message.text,
            [block.data for block in message.blocks if isinstance(block, Media)],
            [(places[tool_call.id], tool_call.name, _input(tool_call)) for tool_call in message.calls],
            [(places.get(result.call_id), result.text.removeprefix("Error: ")) for result in message.results],
        )


def _input(tool_call: ToolCall) -> Any:
    """Freeform input is text, or stands alone in an object where a wire has functions only."""
    return {"input": tool_call.raw} if tool_call.freeform else tool_call.arguments


def _parameters(tool: ToolDefinition) -> Any:
    """No parameters can be said in several ways; a freeform tool may have become a function with one text."""
    properties: dict[str, Any] = (tool.parameters or {}).get("properties", {})
    return tool.parameters if properties.keys() - {"input"} else None


def select_options(options: Options, names: set[str]) -> Options:
    """The options that a wire has."""
    return Options(**{name: getattr(options, name) for name in names})
