"""Ollama chat: what is written and what is read."""

from typing import Any

import pytest
from request_samples import CALL, DONE, GET, PNG, SCHEMA, Doc, lost_subjects

from toolglot.errors import MalformedRequest
from toolglot.providers.catalog import resolve_profile
from toolglot.values.messages import (
    Media,
    Message,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    system,
    user,
)
from toolglot.values.messages import tool_results as tool
from toolglot.values.request import Options, Output, Request, ToolChoice, ToolDefinition
from toolglot.wire.codec import decode_request, encode_request
from toolglot.wire.writer import EncodedRequest

PUT = ToolDefinition("put", "", SCHEMA)
OWN = Origin("ollama-chat", "ollama", "qwen3")
WIRE_GET: Doc = {
    "type": "function",
    "function": {"name": "get", "description": "Gets.", "parameters": SCHEMA},
}


def encode(messages: list[Message], model: str = "qwen3", **options: Any) -> EncodedRequest:
    return encode_request(Request(model, messages, **options), resolve_profile("ollama", model))


def messages_sent(*messages: Message, **options: Any) -> list[Doc]:
    return encode(list(messages), **options).body["messages"]


def decode(*messages: Any, **options: Any) -> Request:
    return decode_request("ollama-chat", {"model": "qwen3", "messages": list(messages), **options})


def test_a_call_without_a_result_does_not_shift_later_results() -> None:
    calls = [
        {"role": "assistant", "tool_calls": [{"function": {"name": "get", "arguments": {"x": n}}}]}
        for n in range(2)
    ]
    messages = decode(
        calls[0],
        {"role": "user", "content": "?"},
        calls[1],
        {"role": "tool", "tool_name": "get", "content": "1"},
    ).messages
    assert messages[3].results[0].call_id == messages[2].calls[0].id


# ---- written


def test_whole_request() -> None:
    options = Options(100, 0.5, 0.9, 4, ("END",), 7, 0.1, 0.2, "none")
    history = [system("Be kind."), user(["Look:", PNG, "Well?"]), assistant(["So.", CALL]), DONE]
    encoded = encode(history, tools=(GET,), options=options, output=Output(SCHEMA), stream=False)
    assert encoded.body == {
        "model": "qwen3",
        "options": {
            "temperature": 0.5,
            "top_p": 0.9,
            "top_k": 4,
            "stop": ["END"],
            "seed": 7,
            "presence_penalty": 0.1,
            "frequency_penalty": 0.2,
            "num_predict": 100,
        },
        "think": False,
        "format": SCHEMA,
        "stream": False,
        "tools": [WIRE_GET],
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Look:\n\nWell?", "images": ["iVBORw0KGgo="]},
            {
                "role": "assistant",
                "content": "So.",
                "tool_calls": [{"id": "c1", "function": {"name": "get", "arguments": {"x": "1"}}}],
            },
            {"role": "tool", "content": "one", "tool_call_id": "c1", "tool_name": "get"},
        ],
    }
    assert list(encoded.body)[-1] == "messages"
    assert (encoded.losses, encoded.repairs) == ((), ())


def test_model_of_the_profile_where_the_request_has_none() -> None:
    assert (
        encode_request(Request("", [user("hi")]), resolve_profile("ollama", "qwen3")).body["model"] == "qwen3"
    )


@pytest.mark.parametrize(("call", "arguments"), [
    (ToolCall("c1", "get", {}, ""), {}),
    (ToolCall("c1", "sql", None, "select 1", freeform=True), {"input": "select 1"}),
    (ToolCall("c1", "get", None, '{"x'), {"invalid_arguments": '{"x'}),
])  # fmt: skip
def test_arguments_are_an_object(call: ToolCall, arguments: Doc) -> None:
    assert messages_sent(assistant(call), DONE)[0]["tool_calls"][0]["function"]["arguments"] == arguments


def test_own_thinking_and_fields_go_back() -> None:
    call = ToolCall("c1", "get", {}, opaque={"function": {"index": 0}})
    message = Message("assistant", (Thinking("hm"), Text("x"), call), OWN, {"extra": 1})
    result = Message("tool", (ToolResult("c1", (Text("1"),), "get", opaque={"note": 2}),), OWN)
    assert messages_sent(message, result) == [
        {
            "extra": 1,
            "role": "assistant",
            "content": "x",
            "thinking": "hm",
            "tool_calls": [{"id": "c1", "function": {"name": "get", "arguments": {}, "index": 0}}],
        },
        {"role": "tool", "content": "1", "tool_call_id": "c1", "tool_name": "get", "note": 2},
    ]
    encoded = encode([Message("assistant", message.blocks, Origin("openai-chat"), {"audio": 1}), result])
    assert "hm" not in str(encoded.body)
    assert lost_subjects(encoded) == ["thinking", "audio", "function"]


def test_results_are_text_and_media_follow() -> None:
    calls = [CALL, ToolCall("c2", "shot", {})]
    encoded = encode(
        [assistant(calls), tool(ToolResult("c1", (Text("boom"),), is_error=True), ToolResult("c2", (PNG,)))]
    )
    assert encoded.body["messages"][1:] == [
        {"role": "tool", "content": "Error: boom", "tool_call_id": "c1", "tool_name": "get"},
        {"role": "tool", "content": "", "tool_call_id": "c2", "tool_name": "shot"},
        {"role": "user", "content": "[media of the result of c2]", "images": ["iVBORw0KGgo="]},
    ]
    assert [done.subject for done in encoded.repairs] == ["media of a tool result"]


@pytest.mark.parametrize(("media", "content", "losses"), [
    (Media("file", "text/plain", "aGVsbG8="), "hello", []),
    (Media("image", url="http://x/y.png"), "[image not shown: http://x/y.png]", ["image"]),
    (Media("file", "application/pdf", "AA"), "[file not shown: application/pdf]", ["file"]),
])  # fmt: skip
def test_media_that_are_no_bytes_of_an_image(media: Media, content: str, losses: list[str]) -> None:
    encoded = encode([user(media)])
    assert encoded.body["messages"] == [{"role": "user", "content": content}]
    assert lost_subjects(encoded) == losses


@pytest.mark.parametrize(("choice", "names", "nudge"), [
    (ToolChoice("auto"), ["get", "put"], ""),
    (ToolChoice("none"), [], "These tools cannot be called now: get, put."),
    (ToolChoice("required"), ["get", "put"], "Answer with a call to get or put."),
    (ToolChoice("required", ("put",)), ["put"], "These tools cannot be called now: get. Answer with a call "
                                                "to put."),
    (ToolChoice("auto", ("get",)), ["get"], "These tools cannot be called now: put."),
], ids=["auto", "none", "required", "named", "subset"])  # fmt: skip
def test_choice_is_emulated(choice: ToolChoice, names: list[str], nudge: str) -> None:
    encoded = encode([user("hi")], tools=(GET, PUT), tool_choice=choice)
    assert [tool["function"]["name"] for tool in encoded.body.get("tools", [])] == names
    assert "tool_choice" not in encoded.body
    instructions = [{"role": "system", "content": nudge}] if nudge else []
    assert encoded.body["messages"] == [*instructions, {"role": "user", "content": "hi"}]
    assert bool(encoded.losses) is bool(nudge)


def test_what_has_no_place_is_a_loss() -> None:
    search = ToolDefinition("googleSearch", kind="hosted", wire="gemini", opaque={"googleSearch": {}})
    encoded = encode(
        [user("hi")], options=Options(thinking_budget=5, effort="xhigh"), parallel=False, tools=(search,)
    )
    assert encoded.body == {
        "model": "qwen3",
        "think": "high",
        "messages": [{"role": "user", "content": "hi"}],
    }
    assert lost_subjects(encoded) == ["thinking_budget", "effort", "parallel", "hosted tool 'googleSearch'"]


def test_hosted_tool_of_its_own_goes_back() -> None:
    definition = ToolDefinition("web", kind="hosted", wire="ollama-chat", opaque={"type": "web"})
    assert encode([user("hi")], tools=(definition,)).body["tools"] == [{"type": "web"}]


def test_json_without_a_schema_and_extras() -> None:
    extras = {"ollama-chat": {"keep_alive": "5m", "options": {"num_ctx": 9}}}
    body = encode([user("hi")], output=Output(), options=Options(temperature=0), extras=extras).body
    assert (body["format"], body["keep_alive"], body["options"]) == (
        "json",
        "5m",
        {"temperature": 0, "num_ctx": 9},
    )
    assert encode([user("hi")], options=Options(effort="max")).body["think"] == "max"


# ---- read


def test_rich_body_comes_out_as_it_went_in() -> None:
    body: Doc = {
        "model": "qwen3",
        "options": {"temperature": 0.5, "stop": ["a"], "num_predict": 9, "num_ctx": 4096},
        "think": "low",
        "format": {"type": "object"},
        "stream": True,
        "tools": [WIRE_GET],
        "keep_alive": "5m",
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "hi", "images": ["AA"]},
            {
                "role": "assistant",
                "content": "x",
                "thinking": "hm",
                "tool_calls": [{"id": "c1", "function": {"name": "get", "arguments": {"x": "1"}}}],
            },
            {"role": "tool", "content": "1", "tool_call_id": "c1", "tool_name": "get"},
            {"role": "user", "content": "bye"},
        ],
    }
    encoded = encode_request(decode_request("ollama-chat", body), resolve_profile("ollama", "qwen3"))
    assert encoded.body == body
    assert (encoded.losses, encoded.repairs) == ((), ())


@pytest.mark.parametrize("think", [True, False, "high"])
def test_switch_of_thinking_goes_back(think: bool | str) -> None:
    request = decode({"role": "user", "content": "hi"}, think=think)
    assert encode_request(request, resolve_profile("ollama", "qwen3")).body["think"] == think


def test_thinking_of_tomorrow_goes_back() -> None:
    """Values that nobody knows yet are kept, not refused."""
    request = decode({"role": "user", "content": "hi"}, think="ultra")
    assert encode_request(request, resolve_profile("ollama", "qwen3")).body["think"] == "ultra"


def test_fields_are_read_into_their_neutral_places() -> None:
    native_options = {
        "num_predict": 5,
        "temperature": 0.1,
        "top_p": 0.2,
        "top_k": 3,
        "stop": "END",
        "seed": 4,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.6,
        "num_ctx": 9,
        "mirostat": None,
    }
    request = decode(
        options=native_options,
        think=False,
        format="json",
        stream=False,
        keep_alive=0,
        tools=[{**WIRE_GET, "more": 1}],
    )
    assert request.options == Options(5, 0.1, 0.2, 3, ("END",), 4, 0.5, 0.6, "none")
    assert (request.output, request.stream) == (Output(), False)
    assert request.extras == {"ollama-chat": {"keep_alive": 0, "options": {"num_ctx": 9, "mirostat": None}}}
    assert request.tools == (ToolDefinition("get", "Gets.", SCHEMA, wire="ollama-chat", opaque={"more": 1}),)
    assert decode(format={"type": "object"}).output == Output({"type": "object"})
    assert decode(format="").output is None
    assert decode(think=True).extras == {"ollama-chat": {"think": True}}


def test_results_without_ids_answer_the_calls_of_their_name_in_order() -> None:
    calls = [
        {"function": {"name": name, "arguments": {"n": n}}} for n, name in enumerate(("get", "put", "get"))
    ]
    results = [
        {"role": "tool", "tool_name": name, "content": text}
        for name, text in (("put", "b"), ("get", "a"), ("", "c"))
    ]
    request = decode({"role": "assistant", "content": "", "tool_calls": calls}, *results)
    numbers = {call.id: (call.arguments or {})["n"] for call in request.messages[0].calls}
    assert [
        (numbers[result.call_id], result.name, result.text) for result in request.messages[1].results
    ] == [
        (1, "put", "b"),
        (0, "get", "a"),
        (2, "get", "c"),
    ]


def test_results_that_answer_nothing_keep_what_they_say_of_themselves() -> None:
    request = decode(
        {"role": "tool", "content": {"a": 1}, "tool_call_id": "zz", "images": ["AA"]},
        {"role": "tool", "tool_name": "get", "content": ""},
        {"role": "user", "content": "hi"},
    )
    assert request.messages[0].results == (
        ToolResult("zz", (Text('{"a":1}'), Media("image", data="AA"))),
        ToolResult("get", (Text(""),), "get"),
    )
    assert [message.role for message in request.messages] == ["tool", "user"]


def test_roles() -> None:
    request = decode(
        {"role": "developer", "content": "d"},
        {"role": "assistant", "content": "", "tool_calls": [], "extra": 1},
    )
    assert request.messages == [
        Message("system", (Text("d"),), OWN),
        Message("assistant", (), OWN, {"extra": 1}),
    ]


def test_tool_without_a_function() -> None:
    assert decode(tools=[{"type": "function"}]).tools == (ToolDefinition("", wire="ollama-chat"),)


@pytest.mark.parametrize(
    "message", [{"role": "user", "content": [{"type": "text"}]}, {"role": "assistant", "tool_calls": [3]}]
)
def test_wrong_shapes_are_malformed_requests(message: Doc) -> None:
    with pytest.raises(MalformedRequest):
        decode(message)
