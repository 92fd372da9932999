"""Chat Completions: replies of OpenAI and of the many servers that are nearly like it."""

from typing import Any

import pytest
from reply_reading import Doc, Result, read, read_pieces, read_whole, sse_of

from toolglot.errors import ContentBlocked, InvalidRequest, MalformedReply, ProviderError, TruncatedStream
from toolglot.events import ReplyStarted, TextDelta, ToolCallDelta, ToolCallReady, ToolCallStarted
from toolglot.losses import Loss
from toolglot.messages import Origin, StopReason, Text, Thinking, ToolCall, Usage

WIRE = "openai-chat"


def chunk(delta: Any, reason: Any = None, **top: Any) -> Doc:
    return {"id": "c1", "model": "m1", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}], **top}


def calls(*deltas: Doc, reason: Any = None) -> Doc:
    return chunk({"tool_calls": list(deltas)}, reason)


def function(name: Any = None, arguments: Any = None, **fields: Any) -> Doc:
    body = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {"type": "function", "function": body, **fields}


END = chunk({}, "stop")


def stream(*docs: Doc | str) -> Result:
    return read(WIRE, sse_of(*docs))


def whole(message: Doc, reason: Any = "stop", **top: Any) -> Result:
    return read_whole(WIRE, {"id": "c1", "model": "m1", "choices": [{"message": message, "finish_reason": reason}], **top})


# ---- calls in a stream


def test_a_call_in_pieces_with_its_events() -> None:
    result = stream(
        chunk({"role": "assistant", "content": None}),
        calls(function("get", "", index=0, id="a")),
        calls(function(arguments='{"x"', index=0)),
        calls(function(arguments=":1}", index=0)),
        chunk({}, "tool_calls"),
        "[DONE]",
    )
    call = ToolCall("a", "get", {"x": 1}, '{"x":1}')
    assert result.events[:-1] == [
        ReplyStarted("c1", "m1"),
        ToolCallStarted(0, "a", "get"),
        ToolCallDelta(0, '{"x"'),
        ToolCallDelta(0, ":1}"),
        ToolCallReady(0, call),
    ]
    assert (result.reply.blocks, result.reply.stop, result.reply.id) == ((call,), "tools", "c1")
    assert result.reply.origin == Origin(WIRE, model="m1")


A: tuple[str, Doc] = ("f", {"x": 1})
B: tuple[str, Doc] = ("g", {})
STREAMS: dict[str, list[Doc]] = {
    "whole calls, a delta each": [
        calls(function("f", '{"x":1}', index=0, id="a")),
        calls(function("g", "{}", index=1, id="b")),
    ],
    "whole calls in one delta": [calls(function("f", '{"x":1}', index=0, id="a"), function("g", "{}", index=1, id="b"))],
    "whole calls in one delta, no index": [calls(function("f", '{"x":1}', id="a"), function("g", "{}", id="b"))],
    "whole calls in one delta, index 0 twice": [
        calls(function("f", '{"x":1}', index=0, id="a"), function("g", "{}", index=0, id="b"))
    ],
    "whole calls in one delta, no index, no id": [calls(function("f", '{"x":1}'), function("g", "{}"))],
    "names repeated": [
        calls(function("f", '{"x"', index=0, id="a")),
        calls(function("f", ":1}", index=0, id="a")),
        calls(function("g", "{", index=1, id="b")),
        calls(function("g", "}", index=1, id="b")),
    ],
    "empty ids and names go on": [
        calls(function("f", '{"x"', index=0, id="a")),
        calls(function("", ":1}", index=0, id="")),
        calls(function("g", "", index=1, id="b")),
    ],
    "no ids": [
        calls(function("f", '{"x"', index=0)),
        calls(function(None, ":1}", index=0)),
        calls(function("g", None, index=1, id="")),
    ],
    "ids that are null": [calls(function("f", '{"x":1}', index=0, id=None), function("g", "", index=1, id=None))],
    "index from 1": [calls(function("f", '{"x":1}', index=1, id="a")), calls(function("g", "{}", index=2, id="b"))],
    "arguments as objects": [calls(function("f", {"x": 1}, index=0, id="a"), function("g", {}, index=1, id="b"))],
    "arguments null": [
        calls(function("f", '{"x":1}', index=0, id="a")),
        calls({"index": 1, "id": "b", "function": {"name": "g", "arguments": None}}),
    ],
    "arguments null as text": [calls(function("f", '{"x":1}', index=0, id="a"), function("g", "null", index=1, id="b"))],
    "in the last delta, with the reason": [
        calls(function("f", '{"x":1}', index=0, id="a"), function("g", "{}", index=1, id="b"), reason="tool_calls")
    ],
    "no type": [calls({"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x":1}'}}, function("g", index=1))],
}


@pytest.mark.parametrize("docs", STREAMS.values(), ids=STREAMS.keys())
@pytest.mark.parametrize("reason", ["tool_calls", "stop", "", None], ids=repr)
def test_two_calls_however_they_come(docs: list[Doc], reason: str | None) -> None:
    result = stream(*docs, chunk({}, reason), "[DONE]")
    assert result.said == [A, B]
    assert result.reply.stop == "tools"
    assert len({call.id for call in result.reply.calls}) == 2
    given = [delta.get("id") for doc in docs for delta in doc["choices"][0]["delta"]["tool_calls"] if delta.get("id")]
    assert {call.id for call in result.reply.calls} >= set(given)


def test_a_custom_call_is_freeform() -> None:
    result = stream(
        calls({"index": 0, "id": "a", "type": "custom", "custom": {"name": "sql", "input": "select "}}),
        calls({"index": 0, "custom": {"input": "1"}}),
        chunk({}, "tool_calls"),
    )
    assert result.reply.blocks == (ToolCall("a", "sql", None, "select 1", True),)


def test_a_legacy_function_call_is_a_call() -> None:
    result = stream(
        chunk({"function_call": {"name": "f", "arguments": ""}}),
        chunk({"function_call": {"arguments": '{"x":1}'}}),
        chunk({}, "function_call"),
    )
    assert (result.call.name, result.call.arguments, result.call.opaque) == ("f", {"x": 1}, {"legacy": True})
    assert (len(result.call.id), result.reply.stop) == (9, "tools")
    assert whole({"function_call": {"name": "f", "arguments": '{"x":1}'}}).said == [("f", {"x": 1})]


def test_fields_of_a_call_that_only_its_server_knows_are_kept() -> None:
    extra = {"google": {"thought_signature": "s"}}
    result = stream(calls(function("f", "{}", index=0, id="a", extra_content=extra)), END)
    assert result.call.opaque == {"extra_content": extra}


@pytest.mark.parametrize("arguments", ["[1]", '"x"', '{"x":', '{"x":1}{"x":1}'], ids=["list", "text", "cut", "twice"])
def test_arguments_that_are_no_object_stay_text(arguments: str) -> None:
    assert stream(calls(function("f", arguments, index=0, id="a")), END).call == ToolCall("a", "f", None, arguments)


def test_a_list_as_arguments_stays_text() -> None:
    assert stream(calls(function("f", [1], index=0, id="a")), END).call == ToolCall("a", "f", None, "[1]")


# ---- whole bodies


def test_a_whole_body() -> None:
    result = whole(
        {
            "role": "assistant",
            "content": "hi",
            "reasoning_content": "hm",
            "tool_calls": [function("f", '{"x":1}', id="a"), {"id": "b", "custom": {"name": "sql", "input": "q"}}],
        },
        "tool_calls",
        usage={"prompt_tokens": 5, "completion_tokens": 7},
    )
    f, sql = ToolCall("a", "f", {"x": 1}, '{"x":1}'), ToolCall("b", "sql", None, "q", True)
    assert result.reply.blocks == (Thinking("hm", {"field": "reasoning_content"}), Text("hi"), f, sql)
    assert (result.reply.stop, result.reply.usage) == ("tools", Usage(5, 7))


@pytest.mark.parametrize("ids", [("a", "a"), ("", ""), (None, None), ("null", "null")], ids=repr)
def test_calls_of_a_whole_body_are_as_many_as_it_holds(ids: tuple[Any, Any]) -> None:
    result = whole({"tool_calls": [function("f", "{}", id=ids[0]), function("f", "{}", id=ids[1])]})
    assert result.said == [("f", {}), ("f", {})]


def test_a_whole_body_may_lack_index_object_and_reason() -> None:
    assert whole({"content": "hi"}, None).reply.text == "hi"
    assert read(WIRE, b'{\n"choices": [{"message": {"content": "hi"},\n"finish_reason": "stop"}]}').reply.text == "hi"


# ---- chunks that hold less, or other things, than one thinks

NOTHING: dict[str, Doc] = {
    "usage only": {"id": "c1", "model": "m1", "choices": [], "usage": {"prompt_tokens": 1}},
    "azure's first": {"id": "", "model": "", "object": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
    "choices null": {"id": "c1", "model": "m1", "choices": None, "copilot_references": []},
    "no choices": {"object": "chat.completion.chunk"},
    "delta null": chunk(None),
    "no delta": {"choices": [{"index": 0, "finish_reason": None, "content_filter_offsets": {"start": 0}}]},
    "delta empty": chunk({}),
    "zero values of Go": chunk(
        {
            "role": "",
            "content": "",
            "refusal": "",
            "reasoning_content": "",
            "tool_calls": None,
            "function_call": {"name": "", "arguments": ""},
            "audio": None,
        },
        "",
    ),
    "lists that are empty": chunk({"tool_calls": [], "annotations": [], "reasoning_details": []}),
    "padding": chunk({"content": "", "padding": "abc", "obfuscation": "x", "token_ids": [1], "index": 3}),
}


@pytest.mark.parametrize("doc", NOTHING.values(), ids=NOTHING.keys())
def test_a_chunk_that_says_nothing_changes_nothing(doc: Doc) -> None:
    docs = [chunk({"content": "a"}), calls(function("f", "{}", index=0, id="a")), chunk({"content": "b"}), END]
    for at in range(len(docs) + 1):
        reply = stream(*docs[:at], doc, *docs[at:], "[DONE]").reply
        assert reply.blocks == (Text("ab"), ToolCall("a", "f", {}, "{}"))
        assert (reply.id, reply.origin, reply.opaque, reply.stop) == ("c1", Origin(WIRE, model="m1"), None, "tools")


@pytest.mark.parametrize(
    ("top", "usage"),
    [
        ({"usage": {"prompt_tokens": 9, "completion_tokens": 4}}, Usage(9, 4)),
        (
            {
                "usage": {
                    "prompt_tokens": 9,
                    "completion_tokens": 4,
                    "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
                    "completion_tokens_details": {"reasoning_tokens": 1},
                }
            },
            Usage(9, 4, 3, 2, 1),
        ),
        ({"usage": {"prompt_tokens": 9, "prompt_cache_hit_tokens": 5}}, Usage(9, 0, 5)),
        ({"x_groq": {"id": "q", "usage": {"prompt_tokens": 9, "completion_tokens": 4}}}, Usage(9, 4)),
        ({"usage": None, "x_groq": None}, Usage()),
        ({"usage": {"prompt_tokens": None, "completion_tokens": 4.0, "prompt_tokens_details": None}}, Usage(0, 4)),
        ({"usage": {"prompt_tokens": "9", "completion_tokens": float("inf")}}, Usage()),
    ],
    ids=["openai", "details", "deepseek", "groq", "null", "odd", "no numbers"],
)
def test_usage(top: Doc, usage: Usage) -> None:
    assert stream(chunk({"content": "a"}), chunk({}, "stop", **top)).reply.usage == usage
    assert stream(END, {"id": "c1", "choices": [], **top}).reply.usage == usage


@pytest.mark.parametrize(("reason", "stop"), [
    ("stop", "end"),
    ("length", "length"),
    ("tool_calls", "end"),
    ("content_filter", "filtered"),
    ("model_length", "length"),
    ("insufficient_system_resource", "error"),
    ("error", "error"),
    ("eos", "end"),
])  # fmt: skip
def test_why_it_stopped(reason: str, stop: StopReason) -> None:
    assert stream(chunk({"content": "a"}, reason)).reply.stop == stop
    assert whole({"content": "a"}, reason).reply.stop == stop


def test_a_call_cut_by_the_length_limit_says_length() -> None:
    result = stream(calls(function("f", '{"x":', index=0, id="a")), chunk({}, "length"))
    assert (result.call.arguments, result.call.raw, result.reply.stop) == (None, '{"x":', "length")


def test_a_finish_reason_or_done_is_a_terminal_and_nothing_else() -> None:
    assert stream(chunk({"content": "a"}), "[DONE]").reply.stop == "end"
    usage: Doc = {"choices": [], "usage": {"prompt_tokens": 1}}
    for docs in ([], [usage]):
        with pytest.raises(TruncatedStream):
            read_pieces(WIRE, [sse_of(chunk({"content": "a"}), *docs)])


def test_a_refusal_is_text_and_the_reason_to_stop() -> None:
    for result in (
        stream(chunk({"refusal": "I "}), chunk({"refusal": "won't"}), END),
        whole({"content": None, "refusal": "I won't"}),
    ):
        assert (result.reply.blocks, result.reply.stop) == ((Text("I won't", {"refusal": True}),), "refusal")


def test_only_choice_0_is_read_and_the_others_are_a_loss() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "B"}, "finish_reason": "length"}]}
    result = stream(chunk({"content": "a"}), other, END, other)
    assert (result.reply.blocks, result.reply.stop) == ((Text("a"),), "end")
    assert result.losses == [Loss("choices", "reply", "only choice 0 of n > 1 is read")]
    both = {"choices": [{"index": 0, "message": {"content": "a"}}, {"index": 1, "message": {"content": "b"}}]}
    assert (read_whole(WIRE, both).reply.text, len(read_whole(WIRE, both).losses)) == ("a", 1)
    assert stream(chunk({"content": "a"}), END).losses == []


# ---- errors under a status of 200


ERRORS: dict[str, tuple[Doc, type[ProviderError], str]] = {
    "text": ({"error": "quite wrong", "code": "invalid"}, InvalidRequest, "quite wrong"),
    "nested": ({"error": {"error": {"message": "inside", "type": "invalid_request_error"}}}, InvalidRequest, "inside"),
    "openrouter": (chunk({}, "error", error={"code": 400, "message": "x"}), InvalidRequest, "x"),
    "filter": ({"error": {"code": "content_filter", "message": "blocked"}}, ContentBlocked, "blocked"),
    "groq": (chunk({}, x_groq={"id": "q", "error": "over capacity"}), ProviderError, "over capacity"),
}


@pytest.mark.parametrize(("doc", "kind", "words"), ERRORS.values(), ids=ERRORS.keys())
def test_errors_in_the_middle(doc: Doc, kind: type[ProviderError], words: str) -> None:
    with pytest.raises(kind, match=words):
        read_pieces(WIRE, [sse_of(chunk({"content": "a"}), doc)])


@pytest.mark.parametrize("body", [sse_of({"id": "x"}, "[DONE]"), sse_of("[DONE]")], ids=["no choices", "nothing"])
def test_done_without_any_choice_is_an_error_and_not_an_empty_reply(body: bytes) -> None:
    with pytest.raises(ProviderError, match="no choices"):
        read_pieces(WIRE, [body])


@pytest.mark.parametrize("doc", [
    {"choices": [None]}, {"choices": 7}, {"choices": {"a": 1}}, chunk("text"), chunk({"tool_calls": [None]}),
    chunk({"content": [{"type": "text"}]}), chunk({"content": [{"type": "text", "text": 7}]}), chunk({"function_call": "f"}),
    chunk({}, ["stop"]), {"choices": [], "usage": [1]},
])  # fmt: skip
def test_wrong_shapes_are_malformed(doc: Doc) -> None:
    with pytest.raises(MalformedReply):
        read_pieces(WIRE, [sse_of(doc, END)])


def test_an_id_or_a_model_alone_is_known() -> None:
    end: Doc = {"choices": END["choices"]}
    assert stream(end | {"id": "c1"}).reply.id == "c1"
    assert stream(end | {"model": "m1"}).reply.origin == Origin(WIRE, model="m1")
    reply = stream(end | {"id": "c1"}, end | {"model": "m1"}).reply
    assert (reply.id, reply.origin) == ("c1", Origin(WIRE, model="m1"))


def test_a_model_that_comes_late_is_known() -> None:
    events = stream({"id": "", "model": "", "choices": []}, chunk({"content": "a"}), END).events
    assert events[:2] == [ReplyStarted("c1", "m1"), TextDelta(0, "a")]
