"""Anthropic Messages: blocks, their deltas, and what the server did itself."""

import json
from typing import Any

import pytest
from reply_reading import Doc, Result, read, read_pieces, read_whole, sse_of

from toolglot.errors import (
    InvalidRequest,
    MalformedReply,
    Overloaded,
    ProviderError,
    RateLimited,
    ServerFailed,
    TruncatedStream,
)
from toolglot.events import (
    BlockReady,
    BlockStarted,
    ReplyDone,
    ReplyStarted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallReady,
    ToolCallStarted,
)
from toolglot.messages import Foreign, Origin, StopReason, Text, Thinking, ToolCall, Usage
from toolglot.wire.framing import encode_aws_event

WIRE = "anthropic-messages"


def begin(*content: Doc, **fields: Any) -> Doc:
    message = {"type": "message", "id": "msg_1", "model": "m1", "role": "assistant", "content": list(content), **fields}
    return {"type": "message_start", "message": message}


def start(index: int, kind: str, **fields: Any) -> Doc:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **fields}}


def delta(index: int, kind: str, **fields: Any) -> Doc:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index: int) -> Doc:
    return {"type": "content_block_stop", "index": index}


def end(reason: str | None = "end_turn", usage: Doc | None = None, **fields: Any) -> list[Doc]:
    return [{"type": "message_delta", "delta": {"stop_reason": reason, **fields}, "usage": usage}, {"type": "message_stop"}]


def text(index: int, *pieces: str) -> list[Doc]:
    return [start(index, "text", text=""), *(delta(index, "text_delta", text=piece) for piece in pieces), stop(index)]


def tool(index: int, id: str, name: str, *pieces: str, input: Any = None) -> list[Doc]:
    deltas = [delta(index, "input_json_delta", partial_json=piece) for piece in pieces]
    return [start(index, "tool_use", id=id, name=name, input=input or {}), *deltas, stop(index)]


def stream(*docs: Doc) -> Result:
    return read(WIRE, sse_of(*docs))


def whole(*content: Doc, **fields: Any) -> Result:
    return read_whole(WIRE, begin(*content, **fields)["message"])


# ---- the usual stream


def test_thinking_text_and_a_call_with_their_events() -> None:
    result = stream(
        begin(),
        start(0, "thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="h"),
        delta(0, "thinking_delta", thinking="m"),
        delta(0, "signature_delta", signature="s"),
        stop(0),
        *text(1, "a", "b"),
        *tool(2, "toolu_1", "get", "", '{"x"', ":1}"),
        *end("tool_use"),
    )
    thinking, call = Thinking("hm", {"signature": "s"}), ToolCall("toolu_1", "get", {"x": 1}, '{"x":1}')
    assert result.events == [
        ReplyStarted("msg_1", "m1"),
        BlockStarted(0, Thinking("", {"signature": ""})),
        ThinkingDelta(0, "h"),
        ThinkingDelta(0, "m"),
        BlockReady(0, thinking),
        TextDelta(1, "a"),
        TextDelta(1, "b"),
        BlockReady(1, Text("ab")),
        ToolCallStarted(2, "toolu_1", "get"),
        ToolCallDelta(2, '{"x"'),
        ToolCallDelta(2, ":1}"),
        ToolCallReady(2, call),
        ReplyDone(result.reply),
    ]
    assert (result.reply.blocks, result.reply.stop) == ((thinking, Text("ab"), call), "tools")
    assert (result.reply.id, result.reply.origin) == ("msg_1", Origin(WIRE, model="m1"))


@pytest.mark.parametrize(("docs", "arguments", "raw"), [
    (tool(0, "a", "f", '{"x":', "1}"), {"x": 1}, '{"x":1}'),
    (tool(0, "a", "f"), {}, ""),
    (tool(0, "a", "f", "", ""), {}, ""),
    (tool(0, "a", "f", input={"x": 1}), {"x": 1}, None),
    (tool(0, "a", "f", "[1]"), None, "[1]"),
    (tool(0, "a", "f", '{"x":'), None, '{"x":'),
], ids=["pieces", "none", "empty pieces", "at the start", "a list", "cut"])  # fmt: skip
def test_arguments_of_a_call(docs: list[Doc], arguments: Any, raw: str | None) -> None:
    assert stream(begin(), *docs, *end("tool_use")).call == ToolCall("a", "f", arguments, raw)


def test_several_calls_even_when_they_are_woven() -> None:
    a, b = tool(0, "a", "f", '{"x":', "1}"), tool(1, "b", "f", '{"x":', "2}")
    woven = [doc for pair in zip(a, b, strict=True) for doc in pair]
    for docs in ([*a, *b], woven):
        result = stream(begin(), *docs, *end("tool_use"))
        assert [(call.id, call.arguments) for call in result.reply.calls] == [("a", {"x": 1}), ("b", {"x": 2})]


def test_pings_anywhere_change_nothing() -> None:
    docs = [begin(), *text(0, "a", "b"), *tool(1, "t", "f", '{"x"', ":1}"), *end("tool_use")]
    want = stream(*docs)
    for ping in ({"type": "ping"}, {"type": "vertex_event"}, {"type": "content_block_new", "index": 0}):
        for at in range(len(docs) + 1):
            assert stream(*docs[:at], ping, *docs[at:]) == want
    bare = sse_of(*docs).replace(b"event: content_block_stop", b"event: ping\ndata: \n\nevent: content_block_stop")
    assert read(WIRE, bare) == want


def test_the_last_event_needs_no_blank_line() -> None:
    body = sse_of(begin(), *text(0, "a"), *end())
    for cut in (1, 2):
        assert read(WIRE, body[:-cut]).reply.text == "a"
    with pytest.raises(TruncatedStream):
        read_pieces(WIRE, [sse_of(begin(), *text(0, "a"), *end()[:1])])


def test_blocks_that_are_never_stopped_are_whole_at_the_end() -> None:
    docs = [doc for doc in (*text(0, "a"), *tool(1, "t", "f", "{}")) if doc["type"] != "content_block_stop"]
    assert stream(begin(), *docs, *end()).reply.blocks == (Text("a"), ToolCall("t", "f", {}, "{}"))
    search = start(0, "server_tool_use", id="s", name="web_search", input={})
    result = stream(begin(), search, delta(0, "input_json_delta", partial_json='{"q":1}'), *end())
    assert result.reply.blocks == (
        Foreign(WIRE, {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": 1}}),
    )


def test_claude_on_bedrock_comes_in_aws_messages() -> None:
    docs = [begin(), *tool(0, "t", "f", '{"x"', ":1}"), *end("tool_use")]
    assert read(WIRE, b"".join(encode_aws_event(json.dumps(doc).encode()) for doc in docs)) == stream(*docs)


# ---- kinds of blocks


def test_a_signature_replaces_the_one_before() -> None:
    result = stream(
        begin(),
        start(0, "thinking", thinking="", signature="first"),
        delta(0, "thinking_delta", thinking="hm"),
        delta(0, "signature_delta", signature="second"),
        delta(0, "signature_delta", signature="third"),
        stop(0),
        *end(),
    )
    assert result.reply.blocks == (Thinking("hm", {"signature": "third"}),)


def test_thinking_that_is_only_a_signature_or_a_cipher_is_kept() -> None:
    result = stream(
        begin(),
        start(0, "thinking", thinking="", signature=""),
        delta(0, "signature_delta", signature="s"),
        stop(0),
        start(1, "redacted_thinking", data="cipher"),
        stop(1),
        *end(),
    )
    assert result.reply.blocks == (Thinking("", {"signature": "s"}), Thinking("", {"redacted": "cipher"}))
    body = whole({"type": "thinking", "thinking": "", "signature": "s"}, {"type": "redacted_thinking", "data": "cipher"})
    assert body.reply.blocks == result.reply.blocks


def test_citations_are_kept_with_their_text() -> None:
    one, two = {"type": "char_location", "cited_text": "x"}, {"type": "char_location", "cited_text": "y"}
    result = stream(
        begin(),
        start(0, "text", text="", citations=[]),
        delta(0, "citations_delta", citation=one),
        delta(0, "text_delta", text="a"),
        delta(0, "citations_delta", citation=two),
        stop(0),
        *text(1, "b"),
        *end(),
    )
    assert result.reply.blocks == (Text("a", {"citations": [one, two]}), Text("b"))
    assert whole({"type": "text", "text": "a", "citations": [one, two]}).reply.blocks == result.reply.blocks[:1]


def test_the_caller_of_a_call_is_kept() -> None:
    block = {"type": "tool_use", "id": "t", "name": "f", "input": {"x": 1}, "caller": {"type": "code_execution"}}
    call = ToolCall("t", "f", {"x": 1}, opaque={"caller": {"type": "code_execution"}})
    assert whole(block).reply.blocks == (call,)
    assert stream(begin(), {"type": "content_block_start", "index": 0, "content_block": block}, stop(0), *end()).call == call


def test_a_message_may_start_with_its_content() -> None:
    result = stream(
        begin(
            {"type": "text", "text": "a"},
            {"type": "tool_use", "id": "t", "name": "f", "input": {"x": 1}},
            stop_reason="tool_use",
            usage={"input_tokens": 3},
        ),
        {"type": "message_stop"},
    )
    assert result.reply.blocks == (Text("a"), ToolCall("t", "f", {"x": 1}))
    assert (result.reply.stop, result.reply.usage) == ("tools", Usage(3))


def test_a_call_that_the_message_starts_with_may_go_on() -> None:
    first: Doc = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    result = stream(begin(first), delta(0, "input_json_delta", partial_json='{"x":1}'), stop(0), *end())
    assert result.call == ToolCall("t", "f", {"x": 1}, '{"x":1}')


SERVER: list[Doc] = [
    {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {"q": 1}},
    {"type": "mcp_tool_use", "id": "mcp", "name": "f", "server_name": "s", "input": {}},
    {"type": "web_search_tool_result", "tool_use_id": "srv", "content": [{"title": "t"}]},
    {"type": "mcp_tool_result", "tool_use_id": "mcp", "content": []},
    {"type": "container_upload", "file_id": "f"},
    {"type": "of_next_year", "id": "n", "name": "f", "input": {"x": 1}},
]


@pytest.mark.parametrize("block", SERVER, ids=lambda block: block["type"])
def test_a_block_of_the_server_is_kept_whole_and_never_a_call(block: Doc) -> None:
    streamed = {"type": "content_block_start", "index": 0, "content_block": block}
    for result in (
        stream(begin(), streamed, stop(0), *text(1, "a"), *end()),
        stream(begin(block), *text(1, "a"), *end()),
        whole(block, {"type": "text", "text": "a"}, stop_reason="end_turn"),
    ):
        assert result.reply.blocks == (Foreign(WIRE, block), Text("a"))
        assert result.reply.stop == "end"


def test_the_streamed_input_of_a_server_tool_is_joined() -> None:
    result = stream(
        begin(),
        start(0, "server_tool_use", id="srv", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json=""),
        delta(0, "input_json_delta", partial_json='{"q"'),
        delta(0, "input_json_delta", partial_json=':"x"}'),
        stop(0),
        start(1, "server_tool_use", id="srv2", name="web_fetch", input={}),
        stop(1),
        *end(),
    )
    assert [block.item["input"] for block in result.reply.blocks if isinstance(block, Foreign)] == [{"q": "x"}, {}]
    assert result.events[1] == BlockReady(0, result.reply.blocks[0])  # pyright: ignore[reportArgumentType]


def test_deltas_of_unknown_kinds_are_added_to_unknown_blocks() -> None:
    result = stream(
        begin(), start(0, "compaction", content=""), delta(0, "compaction_delta", content="sum"), stop(0), *end("compaction")
    )
    assert result.reply.blocks == (Foreign(WIRE, {"type": "compaction", "content": "sum"}),)
    assert result.reply.stop == "pause"
    assert stream(begin(), start(0, "text", text="a"), delta(0, "shimmer_delta", x=1), stop(0), *end()).reply.text == "a"


# ---- how it ends


@pytest.mark.parametrize(("reason", "want"), [
    ("end_turn", "end"),
    ("stop_sequence", "end"),
    ("tool_use", "end"),
    ("max_tokens", "length"),
    ("model_context_window_exceeded", "length"),
    ("pause_turn", "pause"),
    ("refusal", "refusal"),
    ("of_next_year", "end"),
    (None, "end"),
])  # fmt: skip
def test_why_it_stopped(reason: str | None, want: StopReason) -> None:
    assert stream(begin(), *text(0, "a"), *end(reason)).reply.stop == want
    assert whole({"type": "text", "text": "a"}, stop_reason=reason).reply.stop == want


def test_a_pause_stays_a_pause_with_calls_and_server_tools() -> None:
    search = start(0, "server_tool_use", id="s", name="web_search", input={})
    assert stream(begin(), search, stop(0), *end("pause_turn")).reply.stop == "pause"
    assert stream(begin(), *tool(0, "t", "f"), *end("pause_turn")).reply.stop == "pause"


def test_state_of_the_message_is_kept() -> None:
    fields = {"container": {"id": "c"}, "stop_details": {"category": "x"}, "context_management": {"applied_edits": [1]}}
    assert stream(begin(container=None), *end("refusal", **fields)).reply.opaque == fields
    assert whole(**fields).reply.opaque == fields


def test_usage_is_cumulative_and_input_is_the_sum() -> None:
    first = {"input_tokens": 5, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2, "output_tokens": 1}
    last = {"output_tokens": 9, "input_tokens": None, "output_tokens_details": {"thinking_tokens": 4}}
    assert stream(begin(usage=first), *end("end_turn", last)).reply.usage == Usage(10, 9, 3, 2, 4)
    assert whole(usage=first).reply.usage == Usage(10, 1, 3, 2)
    assert stream(begin(usage=None), *end("end_turn", None)).reply.usage == Usage()


@pytest.mark.parametrize(("doc", "kind", "words"), [
    ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, Overloaded, "Overloaded"),
    ({"type": "error", "error": {"type": "rate_limit_error", "message": "wait"}}, RateLimited, "wait"),
    ({"type": "error", "error": {"type": "api_error", "message": "oops"}}, ServerFailed, "oops"),
    ({"error": {"type": "invalid_request_error", "message": "bad"}}, InvalidRequest, "bad"),
    ({"type": "error", "message": "unwrapped"}, ServerFailed, "unwrapped"),
], ids=["overloaded", "rate", "api", "no type", "bedrock"])  # fmt: skip
def test_errors_in_the_middle(doc: Doc, kind: type[ProviderError], words: str) -> None:
    for before in ([], [begin()], [begin(), *text(0, "a")]):
        with pytest.raises(kind, match=words) as caught:
            read_pieces(WIRE, [sse_of(*before, doc)])
        assert type(caught.value) is kind


@pytest.mark.parametrize("doc", [
    {"type": "message_start"}, {"type": "message_start", "message": {"content": [None]}},
    {"type": "content_block_start", "index": 0}, {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": None}, {"type": "content_block_delta", "index": 0, "delta": {}},
    delta(0, "text_delta"), delta(0, "text_delta", text=7), delta(0, "input_json_delta", partial_json=7),
    {"type": "content_block_start", "index": [], "content_block": {"type": "text", "text": ""}}, {"type": "message_delta"},
])  # fmt: skip
def test_wrong_shapes_are_malformed(doc: Doc) -> None:
    with pytest.raises(MalformedReply):
        read_pieces(WIRE, [sse_of(doc, *end())])
