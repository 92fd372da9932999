"""Anthropic Messages: what is read, and that it comes out again as it went in."""

from typing import Any

import pytest

from toolglot.common.jsontext import dumps_text
from toolglot.errors import MalformedRequest
from toolglot.providers.catalog import resolve_profile
from toolglot.providers.heal import heal_profile
from toolglot.values.definitions import CacheMark
from toolglot.values.messages import (
    Block,
    Foreign,
    Media,
    Message,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from toolglot.values.request import Options, Output, Request, ToolChoice, ToolDefinition, ToolExample
from toolglot.wire.codec import decode_request, encode_request
from toolglot.wire.converters import encode_tools

Doc = dict[str, Any]
MODEL = "claude-sonnet-4-5"
OWN = Origin("anthropic-messages", "anthropic", MODEL)
USE: Doc = {"type": "tool_use", "id": "c1", "name": "get", "input": {"x": 1}}


def decode(*messages: Doc, **options: Any) -> Request:
    return decode_request("anthropic-messages", {"model": MODEL, "messages": list(messages), **options})


def decode_content(content: Any, role: str = "user") -> list[Message]:
    return list(decode({"role": role, "content": content}).messages)


def test_rich_body_comes_out_as_it_went_in() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    body: Doc = {
        "model": MODEL,
        "max_tokens": 9000,
        "system": [{"type": "text", "text": "a", **mark}, {"type": "text", "text": "b"}],
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "top_k": 4,
        "stop_sequences": ["END"],
        "output_config": {
            "format": {
                "type": "json_schema",
                "schema": {"type": "object", "properties": {}, "additionalProperties": False},
            }
        },
        "stream": True,
        "tools": [
            {
                "type": "custom",
                "name": "get",
                "description": "Gets.",
                "input_schema": {"type": "object", "properties": {}},
                **mark,
            },
            {"type": "bash_20250124", "name": "bash"},
        ],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        "metadata": {"user_id": "u"},
        "mcp_servers": [{"name": "s"}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "hi", **mark},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}},
                    {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
                    {
                        "type": "document",
                        "source": {"type": "url", "url": "http://x"},
                        "title": "T",
                        "citations": {"enabled": True},
                    },
                    {
                        "type": "document",
                        "source": {"type": "text", "media_type": "text/plain", "data": "abc"},
                    },
                    {
                        "type": "document",
                        "source": {"type": "content", "content": [{"type": "text", "text": "abc"}]},
                    },
                    {"type": "container_upload", "file_id": "f"},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "redacted_thinking", "data": "d"},
                    {"type": "text", "text": "x", "citations": [{"type": "char_location"}]},
                    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": 1}},
                    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
                    {**USE, **mark},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c1",
                        "content": [
                            {"type": "text", "text": "1"},
                            {"type": "search_result", "title": "t", "source": "u", "content": []},
                        ],
                        "is_error": True,
                        **mark,
                    }
                ],
            },
            {"role": "user", "content": "and?"},
        ],
    }
    encoded = encode_request(decode_request("anthropic-messages", body), resolve_profile("anthropic", MODEL))
    assert encoded.body == body
    assert (encoded.losses, encoded.repairs) == ((), ())


# fmt: off
CONTENTS: list[tuple[Any, tuple[Block, ...]]] = [
    ("hi", (Text("hi"),)),
    ([{"type": "text", "text": "a", "cache_control": {}}], (Text("a", {"cache_control": {}}, CacheMark()),)),
    ([{"type": "text"}, {"type": "new"}],
        (Foreign("anthropic-messages", {"type": "text"}), Foreign("anthropic-messages", {"type": "new"}))),
    ([{"type": "image"}], (Foreign("anthropic-messages", {"type": "image"}),)),
    ([{"type": "document", "title": "T", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA"}}],
        (Media("file", "application/pdf", "AA", name="T", opaque={"title": "T"}),)),
    ([{"type": "image", "source": {"type": "url", "url": "http://x"}}], (Media("image", url="http://x"),)),
    (
        [{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "hello"}}],
        (
            Media(
                "file",
                "text/plain",
                "aGVsbG8=",
                opaque={"source": {"type": "text", "media_type": "text/plain", "data": "hello"}},
            ),
        ),
    ),
    (
        [{"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}}],
        (
            Media(
                "file",
                "text/plain",
                "YQo=",
                opaque={"source": {"type": "content", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}},
            ),
        ),
    ),
    ([{"type": "document", "source": {"type": "file", "file_id": "f"}, "context": "c"}],
        (Media("file", file_id="f", opaque={"context": "c", "source": {"type": "file", "file_id": "f"}}),)),
]
# fmt: on


@pytest.mark.parametrize(("content", "blocks"), CONTENTS)
def test_content_of_a_user(content: Any, blocks: tuple[Block, ...]) -> None:
    assert decode_content(content) == [Message("user", blocks, OWN)]


def test_results_and_text_of_one_message_are_taken_apart_in_order() -> None:
    result: Doc = {"type": "tool_result", "tool_use_id": "c1"}
    read = decode(
        {"role": "assistant", "content": [USE]},
        {
            "role": "user",
            "content": [
                "odd",
                {"type": "text", "text": "a"},
                result,
                {**result, "tool_use_id": "zz", "content": "2", "is_error": True},
                {"type": "text", "text": "b"},
            ],
        },
    ).messages
    assert read[1:] == [
        Message("user", (Text("a"),), OWN),
        Message("tool", (ToolResult("c1", (), "get"), ToolResult("zz", (Text("2"),), is_error=True)), OWN),
        Message("user", (Text("b"),), OWN),
    ]
    assert decode_content([result, {"type": "text", "text": "b"}, result])[-1].role == "tool"
    assert decode_content([]) == []


def test_assistant_is_read_as_a_reply_is() -> None:
    blocks: list[Doc] = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
        {**USE, "input": {}},
        {"type": "text", "text": "x"},
    ]
    (message,) = decode_content(blocks, "assistant")
    assert message.blocks == (
        Thinking("hm", {"signature": "s"}),
        Thinking("", {"redacted": "d"}),
        ToolCall("c1", "get", {}, ""),
        Text("x"),
    )
    assert decode_content("x", "assistant") == [Message("assistant", (Text("x"),), OWN)]


def test_instructions_before_and_between_turns() -> None:
    assert decode(system="s").messages == [Message("system", (Text("s"),), OWN)]
    assert decode(system=[]).messages == []
    assert decode_content("now", "system") == [Message("system", (Text("now"),), OWN)]


@pytest.mark.parametrize(("choice", "wanted", "parallel"), [
    ({"type": "auto"}, ToolChoice("auto"), None),
    ({"type": "none"}, ToolChoice("none"), None),
    ({"type": "any", "disable_parallel_tool_use": True}, ToolChoice("required"), False),
    ({"type": "tool", "name": "f", "disable_parallel_tool_use": False}, ToolChoice("required", ("f",)), True),
    ({"type": "odd"}, None, None),
    (None, None, None),
])  # fmt: skip
def test_choice(choice: Any, wanted: ToolChoice | None, parallel: bool | None) -> None:
    request = decode(tool_choice=choice)
    assert (request.tool_choice, request.parallel) == (wanted, parallel)


def test_fields_are_read_into_their_neutral_places() -> None:
    request = decode(
        max_tokens=5,
        temperature=0.1,
        top_p=0.2,
        top_k=3,
        stop_sequences=["a"],
        stream=True,
        thinking={"type": "enabled", "budget_tokens": 2000},
        output_config={"effort": "low", "format": {"type": "json_schema", "schema": {"a": 1}}, "more": 1},
        service_tier="auto",
    )
    assert request.options == Options(5, 0.1, 0.2, 3, ("a",), effort="low", thinking_budget=2000)
    assert request.output == Output({"a": 1}, strict=True)
    assert request.stream is True
    assert request.extras == {"anthropic-messages": {"service_tier": "auto", "output_config": {"more": 1}}}


@pytest.mark.parametrize(
    "thinking",
    [
        {"type": "adaptive"},
        {"type": "disabled"},
        {"type": "enabled", "budget_tokens": 2000, "display": "omitted"},
    ],
)
def test_other_forms_of_thinking_go_back_verbatim(thinking: Doc) -> None:
    request = decode({"role": "user", "content": "hi"}, max_tokens=9000, thinking=thinking)
    assert request.options.thinking_budget is None
    assert encode_request(request, resolve_profile("anthropic", MODEL)).body["thinking"] == thinking


def test_effort_of_tomorrow_goes_back_and_is_a_loss_elsewhere() -> None:
    """Values that nobody knows yet are kept, not refused."""
    request = decode({"role": "user", "content": "hi"}, output_config={"effort": "ultra"})
    assert encode_request(request, resolve_profile("anthropic", MODEL)).body["output_config"] == {
        "effort": "ultra"
    }
    for provider, model in (("openai-responses", "gpt-5"), ("gemini", "gemini-3-pro"), ("ollama", "qwen3")):
        encoded = encode_request(request, resolve_profile(provider, model))
        assert len(encoded.losses) == 1
        assert "ultra" not in str(encoded.body)


def test_examples_of_calls_have_a_field_of_their_own() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    examples = (
        ToolExample({"city": "Paris"}),
        ToolExample({"town": 1}),
        ToolExample({"city": "Rome"}, description="the capital"),
    )
    tool = ToolDefinition("f", "Weather.", schema, examples=examples)
    profile = resolve_profile("anthropic", MODEL)
    (encoded,) = encode_tools([tool], profile).body["tools"]
    assert encoded["input_examples"] == [{"city": "Paris"}]
    # What does not fit the schema would be refused; a caption has no field.
    assert encoded["description"] == 'Weather.\nExample: {"town":1}\nExample (the capital): {"city":"Rome"}'
    (decoded,) = decode(tools=[encoded]).tools
    assert (decoded.examples, decoded.opaque) == (examples[:1], None)
    for other in ("openai-chat", "openai-responses", "gemini", "ollama"):
        (encoded,) = encode_tools([decoded], resolve_profile(other, "m")).body["tools"]
        assert (
            "input_examples" in str(encoded),
            'Example: {"city":"Paris"}' in dumps_text(encoded).replace("\\", ""),
        ) == (
            False,
            True,
        )


def test_a_server_without_the_field_gets_examples_in_the_description() -> None:
    healed = heal_profile(
        "tools.0.custom.input_examples: Extra inputs are not permitted", resolve_profile("anthropic", MODEL)
    )
    assert healed is not None
    (encoded,) = encode_tools([ToolDefinition("f", examples=(ToolExample({"a": 1}),))], healed.profile).body[
        "tools"
    ]
    assert encoded["description"] == 'Example: {"a":1}'
    assert "input_examples" not in encoded


def test_tools() -> None:
    tools: list[Doc] = [
        {"name": "f", "strict": True, "input_examples": [1]},
        {"type": "computer_toolset_20260801"},
        {"type": None, "name": "g", "input_schema": {}},
    ]
    assert decode(tools=tools).tools == (
        ToolDefinition("f", strict=True, wire="anthropic-messages", opaque={"input_examples": [1]}),
        ToolDefinition(
            "computer_toolset_20260801",
            kind="hosted",
            wire="anthropic-messages",
            opaque={"type": "computer_toolset_20260801"},
        ),
        ToolDefinition("g", parameters={}, wire="anthropic-messages", opaque={"type": None}),
    )


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "assistant", "content": [3]}],
        [{"role": "assistant", "content": [{"type": "text", "text": 7}]}],
    ],
)
def test_wrong_shapes_are_malformed_requests(messages: Any) -> None:
    with pytest.raises(MalformedRequest):
        decode(*messages)
