"""Tools alone and results alone, in each provider's format, addressed by its name."""

from typing import Any, cast

import pytest

import toolglot
from toolglot.errors import UnknownName, UsageError
from toolglot.providers.catalog import resolve_profile
from toolglot.tools.config import ToolConfig
from toolglot.values.messages import Text, ToolCall, ToolResult
from toolglot.values.request import Request, ToolChoice, ToolDefinition

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = ToolDefinition("weather", "Weather.", PARAMETERS)
FIELDS = {"name": "weather", "description": "Weather."}
# fmt: off
TOOLS: dict[str, dict[str, Any]] = {
    "openai:gpt-4o": {"tools": [{"type": "function", "function": {**FIELDS, "parameters": PARAMETERS}}],
        "tool_choice": "required", "parallel_tool_calls": False},
    "openai:gpt-5": {"tools": [{"type": "function", **FIELDS, "parameters": PARAMETERS, "strict": False}],
        "tool_choice": "required", "parallel_tool_calls": False},
    "anthropic": {"tools": [{**FIELDS, "input_schema": PARAMETERS}],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True}},
    "gemini:gemini-3-pro": {"tools": [{"functionDeclarations": [{**FIELDS, "parametersJsonSchema": PARAMETERS}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
    "ollama": {"tools": [{"type": "function", "function": {**FIELDS, "parameters": PARAMETERS}}]},
}
RESULTS: dict[str, list[dict[str, Any]]] = {
    "openai:gpt-4o": [{"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        {"role": "tool", "tool_call_id": "c2", "content": "Error: no such city"}],
    "openai:gpt-5": [{"type": "function_call_output", "call_id": "c1", "output": "sunny"},
        {"type": "function_call_output", "call_id": "c2", "output": "Error: no such city"}],
    "anthropic": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "sunny"},
        {"type": "tool_result", "tool_use_id": "c2", "content": "no such city", "is_error": True}]}],
    "gemini:gemini-3-pro": [{"role": "user", "parts": [
        {"functionResponse": {"name": "weather", "response": {"output": "sunny"}, "id": "c1"}},
        {"functionResponse": {"name": "weather", "response": {"error": "no such city"}, "id": "c2"}}]}],
    "ollama": [{"role": "tool", "content": "sunny", "tool_call_id": "c1", "tool_name": "weather"},
        {"role": "tool", "content": "Error: no such city", "tool_call_id": "c2", "tool_name": "weather"}],
}
# fmt: on
SUNNY = ToolResult("c1", (Text("sunny"),), "weather")
FAILED = ToolResult("c2", (Text("no such city"),), is_error=True)


@pytest.mark.parametrize(("provider", "body"), TOOLS.items())
def test_tools_alone(provider: str, body: dict[str, Any]) -> None:
    encoded = toolglot.encode_tools([WEATHER], provider, tool_choice=ToolChoice("required"), parallel=False)
    assert encoded.body == body
    assert {loss.subject for loss in encoded.losses} <= {"parallel", "tool_choice"}
    assert encoded.repairs == ()  # not those of the request that was never made
    [decoded] = toolglot.decode_tools(body)
    assert (decoded.name, decoded.description, decoded.parameters) == ("weather", "Weather.", PARAMETERS)


@pytest.mark.parametrize("provider", ["openai-chat", "openai", "anthropic", "gemini"])
@pytest.mark.parametrize(("word", "choice"), [
    ("required", ToolChoice("required")), ("none", ToolChoice("none")), ("auto", ToolChoice("auto")),
    ("weather", ToolChoice("required", ("weather",))),
])  # fmt: skip
def test_a_tool_choice_may_be_a_word(provider: str, word: str, choice: ToolChoice) -> None:
    expected = toolglot.encode_tools([WEATHER], provider, tool_choice=choice)
    assert toolglot.encode_tools([WEATHER], provider, tool_choice=word) == expected
    assert (
        Request(tool_choice=cast(Any, word)).tool_choice == ToolConfig(tool_choice=word).tool_choice == choice
    )


@pytest.mark.parametrize(("provider", "messages"), RESULTS.items())
def test_results_alone(provider: str, messages: list[dict[str, Any]]) -> None:
    calls = [ToolCall("c1", "weather", {"city": "Rome"}), ToolCall("c2", "weather", {"city": "Rom"})]
    encoded = toolglot.encode_results([SUNNY, FAILED], provider, calls=calls)
    assert encoded.messages == messages
    assert toolglot.encode_results([SUNNY], provider).messages  # the result's own id and name are enough


@pytest.mark.parametrize(
    "provider", ["mistral", "gemini:gemini-3-pro", "ollama", "openai:gpt-4o", "anthropic"]
)
def test_results_of_calls_with_one_id(provider: str) -> None:
    """Each has the name of its own call, and the id under which the caller sends both."""
    calls = [
        ToolCall("c1", "weather", {}, opaque={"id": "c1"}),
        ToolCall("c1", "news", {}, opaque={"id": "c1"}),
    ]
    results = [ToolResult("c1", (Text("sunny"),)), ToolResult("c1", (Text("none"),))]
    messages = toolglot.encode_results(results, provider, calls=calls).messages
    single = [
        toolglot.encode_results([result], provider, calls=[call]).messages
        for result, call in zip(results, calls, strict=True)
    ]
    if provider in ("gemini:gemini-3-pro", "anthropic"):
        key = "parts" if provider != "anthropic" else "content"
        assert messages == [{"role": "user", key: [part for (message,) in single for part in message[key]]}]
    else:
        assert messages == [message for messages in single for message in messages]


def test_losses_and_repairs_of_the_parts() -> None:
    strict = ToolDefinition(
        "a.b", "", {"type": "object", "properties": {"x": {"type": "string", "pattern": "^a"}}}
    )
    encoded = toolglot.encode_tools([strict], resolve_profile("ollama"))
    assert [loss.subject for loss in encoded.losses] == ["pattern"]
    [repair] = toolglot.encode_tools([strict], "anthropic").repairs
    assert repair.subject == "tool name 'a.b'"
    results = toolglot.encode_results([ToolResult("c1", (Text("x"),))], "mistral")
    assert [(repair.subject, repair.where) for repair in results.repairs] == [("call id 'c1'", "results")]
    assert toolglot.encode_results([], "mistral").messages == []


def test_wrong_input() -> None:
    with pytest.raises(UnknownName, match="nowhere"):
        toolglot.encode_tools([WEATHER], "nowhere:m")
    with pytest.raises(UsageError, match="not a tool"):
        toolglot.decode_tools("weather")
