"""Chat Completions: what is read, old forms included, and that it comes out again as it went in."""

from contextlib import suppress
from typing import Any

import pytest

from toolglot.errors import MalformedRequest
from toolglot.providers.catalog import resolve_profile
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
from toolglot.values.request import Options, Output, Request, ToolChoice, ToolDefinition
from toolglot.wire.codec import decode_request, encode_request

Doc = dict[str, Any]
ORIGIN = Origin("openai-chat", "openai-chat", "gpt-4o")
CALLS = [{"id": "c1", "type": "function", "function": {"name": "get", "arguments": "{}"}}]


def decode(*messages: Doc, **options: Any) -> Request:
    return decode_request("openai-chat", {"model": "gpt-4o", "messages": list(messages), **options})


def again(body: Doc, provider: str = "openai-chat") -> Doc:
    request = decode_request("openai-chat", body, profile=provider)
    encoded = encode_request(request, resolve_profile(provider, body["model"]))
    assert encoded.losses == ()
    return encoded.body


def test_results_without_ids_find_their_calls_in_order() -> None:
    """Calls of one name: the first result belongs to the first call, of the latest message that has one."""
    calls = [
        {"type": "function", "function": {"name": "get", "arguments": f'{{"x": {number}}}'}}
        for number in range(3)
    ]
    results = [{"role": "tool", "name": "get", "content": str(number)} for number in (1, 2)]
    request = decode(
        {"role": "assistant", "tool_calls": calls[:1]},
        {"role": "user", "content": "?"},
        {"role": "assistant", "tool_calls": calls[1:]},
        *results,
    )
    ids = {call.id: (call.arguments or {})["x"] for call in request.messages[2].calls}
    assert [(ids[result.call_id], result.text) for result in request.messages[3].results] == [
        (1, "1"),
        (2, "2"),
    ]


def test_results_of_one_id_have_the_names_of_their_calls() -> None:
    calls = [
        {"id": "0", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for name in ("get", "put")
    ]
    results = [{"role": "tool", "tool_call_id": "0", "content": "1"}] * 2
    request = decode({"role": "assistant", "content": None, "tool_calls": calls}, *results)
    assert [(result.call_id, result.name) for result in request.messages[1].results] == [
        ("0", "get"),
        ("0", "put"),
    ]


def test_rich_body_comes_out_as_it_went_in() -> None:
    body: Doc = {
        "model": "gpt-4o",
        "max_completion_tokens": 10,
        "temperature": 0.5,
        "stop": ["a", "b"],
        "seed": 7,
        "stream": True,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "o", "schema": {"type": "object"}, "strict": False},
        },
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "get",
                    "description": "Gets.",
                    "parameters": {"type": "object", "properties": {}},
                },
            },
            {
                "type": "custom",
                "custom": {
                    "name": "sql",
                    "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "x"}},
                },
            },
        ],
        "tool_choice": {
            "type": "allowed_tools",
            "allowed_tools": {
                "mode": "auto",
                "tools": [
                    {"type": "function", "function": {"name": "get"}},
                    {"type": "custom", "custom": {"name": "sql"}},
                ],
            },
        },
        "parallel_tool_calls": True,
        "stream_options": {"include_usage": True},
        "logit_bias": {"1": 2},
        "service_tier": "flex",
        "metadata": {"k": "v"},
        "messages": [
            {"role": "developer", "content": "Be kind."},
            {
                "role": "user",
                "name": "ann",
                "content": [
                    {"type": "text", "text": "a"},
                    {"type": "image_url", "image_url": {"url": "http://x", "detail": "low"}},
                    {"type": "file", "file": {"file_id": "file-1"}},
                    {"type": "video_url", "video_url": {"url": "u"}},
                ],
            },
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    *CALLS,
                    {"id": "c2", "type": "custom", "custom": {"name": "sql", "input": "select 1"}},
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "1"},
            {"role": "tool", "tool_call_id": "c2", "content": "2"},
            {"role": "assistant", "refusal": "No."},
            {"role": "user", "content": "why"},
        ],
    }
    assert again(body) == body


def test_fields_are_read_into_their_neutral_places() -> None:
    request = decode(
        max_tokens=5,
        temperature=0.1,
        top_p=0.2,
        top_k=3,
        stop="END",
        seed=4,
        presence_penalty=0.5,
        frequency_penalty=0.6,
        reasoning_effort="low",
        stream=False,
        parallel_tool_calls=False,
        user="u",
        logprobs=True,
        n=None,
    )
    assert request.options == Options(5, 0.1, 0.2, 3, ("END",), 4, 0.5, 0.6, "low")
    assert (request.model, request.stream, request.parallel) == ("gpt-4o", False, False)
    assert request.extras == {"openai": {"user": "u"}, "openai-chat": {"logprobs": True, "n": None}}
    assert decode(max_tokens=5, max_completion_tokens=7).options == Options(7)
    assert decode(max_completion_tokens=0, max_tokens=5).options.max_tokens == 0


def test_effort_of_tomorrow_goes_back() -> None:
    """Values that nobody knows yet are kept, not dropped."""
    body: Doc = {
        "model": "gpt-5",
        "reasoning_effort": "ultra",
        "messages": [{"role": "user", "content": "hi"}],
    }
    assert again(body) == body


@pytest.mark.parametrize(("form", "output"), [
    ({"type": "text"}, None),
    ({"type": "json_object"}, Output()),
    ({"type": "json_schema", "json_schema": {"name": "n", "description": "d", "schema": {"a": 1}, "strict": True}},
        Output({"a": 1}, "n", "d", True)),
    ({"type": "json_schema", "json_schema": {}}, Output({}, "output")),
])  # fmt: skip
def test_output(form: Doc, output: Output | None) -> None:
    assert decode(response_format=form).output == output


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        ("auto", ToolChoice("auto")),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        ("any", ToolChoice("required")),
        ({"type": "function", "function": {"name": "f"}}, ToolChoice("required", ("f",))),
        ({"type": "custom", "custom": {"name": "f"}}, ToolChoice("required", ("f",))),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [{"type": "function", "function": {"name": "f"}}],
                },
            },
            ToolChoice("required", ("f",)),
        ),
        ({"odd": 1}, None),
        (None, None),
    ],
)
def test_choice(choice: Any, wanted: ToolChoice | None) -> None:
    assert decode(tool_choice=choice).tool_choice == wanted


def test_functions_of_the_first_days() -> None:
    """`functions`, `function_call`, and the role `function`, whose results know only a name."""
    functions = [{"name": "get", "description": "Gets.", "parameters": {"type": "object"}}]
    request = decode(
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "function_call": {"name": "get", "arguments": '{"x": 1}'}},
        {"role": "function", "name": "get", "content": "one"},
        functions=functions,
        function_call={"name": "get"},
    )
    assert request.tools == (ToolDefinition("get", "Gets.", {"type": "object"}, wire="openai-chat"),)
    assert request.tool_choice == ToolChoice("required", ("get",))
    (call,), (result,) = request.messages[1].calls, request.messages[2].results
    assert (call.name, call.arguments) == ("get", {"x": 1})
    assert (result.call_id, result.name, result.text) == (call.id, "get", "one")
    assert decode(function_call="none").tool_choice == ToolChoice("none")
    sent = encode_request(request, resolve_profile("openai-chat", "gpt-4o")).body
    assert sent["messages"][1]["tool_calls"] == [
        {"id": call.id, "type": "function", "function": {"name": "get", "arguments": '{"x": 1}'}}
    ]
    assert sent["messages"][2] == {"role": "tool", "tool_call_id": call.id, "content": "one"}
    assert not {"functions", "function_call"} & {*sent}


def test_old_calls_of_one_name_are_answered_by_the_last_one() -> None:
    call = {"role": "assistant", "function_call": {"name": "get", "arguments": ""}}
    request = decode(
        call,
        {"role": "function", "name": "get", "content": "1"},
        call,
        {"role": "function", "name": "get", "content": "2"},
    )
    encoded = encode_request(request, resolve_profile("openai-chat", "gpt-4o")).body["messages"]
    assert [message.get("content") for message in encoded] == [None, "1", None, "2"]
    assert encoded[0]["tool_calls"][0]["id"] != encoded[2]["tool_calls"][0]["id"]


CONTENTS: list[tuple[Any, tuple[Block, ...]]] = [
    ("hi", (Text("hi"),)),
    (None, ()),
    ([], ()),
    ({"a": 1}, (Text('{"a":1}'),)),
    ([{"type": "text", "text": "a", "cache_control": {}}], (Text("a", {"cache_control": {}}, CacheMark()),)),
    ([{"type": "image_url", "image_url": "http://x"}], (Media("image", url="http://x"),)),
    (
        [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}],
        (Media("image", "image/png", "AA"),),
    ),
    (
        [{"type": "input_audio", "input_audio": {"data": "AA", "format": "mp3"}}],
        (Media("audio", "audio/mpeg", "AA"),),
    ),
    (
        [{"type": "input_audio", "input_audio": {"data": "AA", "format": "aiff"}}],
        (Media("audio", "audio/*", "AA"),),
    ),
    (
        [{"type": "file", "file": {"file_data": "data:application/pdf;base64,AA", "filename": "a.pdf"}}],
        (Media("file", "application/pdf", "AA", name="a.pdf"),),
    ),
    ([{"type": "file", "file": {"file_id": "f"}}], (Media("file", file_id="f", opaque={"more": {}}),)),
    (
        [{"type": "text"}, {"type": "new"}, "odd"],
        (Foreign("openai-chat", {"type": "text"}), Foreign("openai-chat", {"type": "new"})),
    ),
]


@pytest.mark.parametrize(("content", "blocks"), CONTENTS)
def test_content_of_a_user(content: Any, blocks: tuple[Block, ...]) -> None:
    assert decode({"role": "user", "content": content}).messages == [Message("user", blocks, ORIGIN)]


def test_results_in_a_row_are_one_message_and_named_by_their_calls() -> None:
    request = decode(
        {"role": "assistant", "tool_calls": CALLS},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "1"}], "extra": 1},
        {"role": "tool", "tool_call_id": "zz", "name": "put", "content": "2"},
    )
    assert request.messages[1:] == [
        Message(
            "tool",
            (
                ToolResult("c1", (Text("1"),), "get", opaque={"extra": 1}),
                ToolResult("zz", (Text("2"),), "put"),
            ),
            ORIGIN,
        )
    ]


def test_assistant_is_read_as_a_reply_is() -> None:
    message = {
        "role": "assistant",
        "content": "x",
        "reasoning_content": "hm",
        "refusal": None,
        "tool_calls": [
            {"id": "c", "function": {"name": "f", "arguments": "{bad"}, "extra_content": {"g": 1}}
        ],
        "annotations": [{"type": "url_citation"}],
    }
    (read,) = decode(message).messages
    assert read.blocks == (
        Thinking("hm", {"field": "reasoning_content"}),
        Text("x"),
        ToolCall("c", "f", None, "{bad", opaque={"extra_content": {"g": 1}}),
    )
    assert read.opaque == {"annotations": [{"type": "url_citation"}]}
    sent = again(
        {"model": "m", "messages": [message, {"role": "tool", "tool_call_id": "c", "content": ""}]},
        "compatible",
    )
    assert sent["messages"][0]["reasoning_content"] == "hm"
    assert sent["messages"][0]["tool_calls"][0]["extra_content"] == {"g": 1}
    assert sent["messages"][0]["annotations"] == message["annotations"]


def test_tools() -> None:
    tools: list[Doc] = [
        {
            "type": "function",
            "function": {"name": "f", "strict": True},
            "cache_control": {"type": "ephemeral"},
        },
        {"function": {"name": "g", "parameters": {}}},
        {"type": "custom", "custom": {"name": "t", "format": {"type": "text"}}},
        {"type": "openrouter:web_search", "max_results": 3},
        {"type": "function"},
    ]
    assert decode(tools=tools).tools == (
        ToolDefinition(
            "f",
            strict=True,
            wire="openai-chat",
            opaque={"cache_control": {"type": "ephemeral"}},
            cache=CacheMark(),
        ),
        ToolDefinition("g", parameters={}, wire="openai-chat"),
        ToolDefinition("t", kind="freeform", wire="openai-chat"),
        ToolDefinition(
            "openrouter:web_search",
            kind="hosted",
            wire="openai-chat",
            opaque={"type": "openrouter:web_search", "max_results": 3},
        ),
        ToolDefinition("", wire="openai-chat"),
    )


@pytest.mark.parametrize("body", [[], "x", None, 3, {"messages": [{"role": "assistant", "tool_calls": [3]}]}])
def test_wrong_shapes_are_malformed_requests(body: Any) -> None:
    with pytest.raises(MalformedRequest):
        decode_request("openai-chat", body)


WRONG: list[tuple[str, Any]] = [("temperature", "hot"), ("stop", [{}]), ("max_tokens", []), ("top_p", {})]


@pytest.mark.parametrize(("field", "value"), WRONG)
@pytest.mark.parametrize("target", ["openai-chat", "openai-responses", "anthropic", "gemini", "ollama"])
def test_options_of_a_wrong_type_raise_no_foreign_error(field: str, value: Any, target: str) -> None:
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}], field: value}
    with suppress(MalformedRequest):
        encode_request(decode_request("openai-chat", body), resolve_profile(target, "gpt-4o"))
