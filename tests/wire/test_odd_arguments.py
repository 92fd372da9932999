"""Arguments that cannot be stored or sent again (NaN, infinity, a thousand levels) never enter a conversation
as values.
"""

import json
from typing import Any

import pytest

from toolglot import errors
from toolglot.common.jsontext import MAX_DEPTH, is_portable
from toolglot.providers.catalog import resolve_profile
from toolglot.schema.tolerant_json import tolerant_loads
from toolglot.tools.tool import tool
from toolglot.values.messages import Conversation, ToolCall, assistant, load, save, tool_results, user
from toolglot.values.messages import ToolResult as Result
from toolglot.values.request import Request
from toolglot.wire.codec import create_reader, encode_request
from toolglot.wire.spec import WIRES

# OBJECT is replaced by JSON, TEXT by JSON in a string.
REPLIES = {
    "openai-chat": '{"choices":[{"message":{"tool_calls":[{"id":"c","function":{"name":"f","arguments":TEXT}}]},'
    '"finish_reason":"tool_calls"}]}',
    "openai-responses": '{"status":"completed","output":[{"type":"function_call","call_id":"c","name":"f","arguments":TEXT}]}',
    "anthropic-messages": '{"type":"message","content":[{"type":"tool_use","id":"c","name":"f","input":OBJECT}],'
    '"stop_reason":"tool_use"}',
    "gemini": '{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":OBJECT}}]},"finishReason":"STOP"}]}',
    "ollama-chat": '{"message":{"tool_calls":[{"function":{"name":"f","arguments":OBJECT}}]},"done":true}',
}
DEEP = '{"x":' + "[" * 600 + "]" * 600 + "}"
NUMBERS = ["NaN", "Infinity", "-Infinity", "1e400"]


@tool
def f(x: float | str | list[Any]) -> str:
    """Takes anything."""
    return repr(x)


def read_call(wire: str, arguments: str) -> ToolCall:
    reader = create_reader(wire, streaming=False)
    reader.feed(REPLIES[wire].replace("TEXT", json.dumps(arguments)).replace("OBJECT", arguments).encode())
    reader.close()
    [call] = reader.reply.calls
    return call


def in_deeper_stack(frames: int, function: Any) -> Any:
    return function() if frames == 0 else in_deeper_stack(frames - 1, function)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_that_are_none_are_explained_to_the_model(wire: str, number: str) -> None:
    call = read_call(wire, f'{{"x": {number}}}')
    assert call.arguments is None
    with pytest.raises(errors.ToolError, match="not valid JSON") as caught:
        f.bind(call)
    assert caught.value.kind == "validation"
    assert load(save(Conversation([assistant(call)])))[0][0].calls == (call,)


@pytest.mark.parametrize("text", ["NaN", "inf"])
def test_text_that_pydantic_takes_for_such_a_number(text: str) -> None:
    @tool
    def half(x: float) -> float:
        """Halves."""
        return x / 2

    with pytest.raises(errors.ToolError, match="finite number"):
        half.bind(ToolCall("c", "half", {"x": text}))


@pytest.mark.parametrize("wire", WIRES)
def test_deep_arguments_are_refused_and_the_conversation_can_be_saved_and_sent_from_any_stack(
    wire: str,
) -> None:
    call = read_call(wire, DEEP)
    assert call.arguments is None
    with pytest.raises(errors.ToolError, match="not valid JSON"):
        f.bind(call)
    conversation = Conversation([user("x"), assistant(call), tool_results(Result(call.id))])
    assert in_deeper_stack(400, lambda: save(conversation))
    for profile in ("openai-chat", "anthropic", "gemini", "ollama"):
        assert in_deeper_stack(
            400, lambda p=profile: encode_request(Request("m", conversation), resolve_profile(p)).body
        )


def test_the_deepest_arguments() -> None:
    def nest(levels: int) -> Any:
        return json.loads('{"x":' + "[" * (levels - 1) + "]" * (levels - 1) + "}")

    assert is_portable(nest(MAX_DEPTH))
    assert not is_portable(nest(MAX_DEPTH + 1))
    assert tolerant_loads(json.dumps(nest(MAX_DEPTH)))[0] == nest(MAX_DEPTH)
    with pytest.raises(ValueError, match=f"at most {MAX_DEPTH} levels"):
        tolerant_loads(json.dumps(nest(MAX_DEPTH + 1)))
