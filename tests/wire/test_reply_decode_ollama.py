"""Ollama chat: lines, calls that come whole, and servers that leave fields out."""

from typing import Any

import pytest
from reply_reading import Doc, Result, lines_of, read, read_pieces, read_whole

from toolglot.errors import MalformedReply, ServerFailed, TruncatedStream
from toolglot.events import BlockReady, ReplyDone, ReplyStarted, TextDelta, ThinkingDelta, ToolCallReady, ToolCallStarted
from toolglot.messages import Media, Origin, StopReason, Text, Thinking, ToolCall, Usage

WIRE = "ollama-chat"


def line(done: bool = False, *, reason: str | None = None, **message: Any) -> Doc:
    doc: Doc = {"model": "m1", "created_at": "t", "message": {"role": "assistant", "content": "", **message}, "done": done}
    return doc | ({"done_reason": reason} if reason else {})


def call(name: str, arguments: Any, **fields: Any) -> Doc:
    return {**fields, "function": {"index": 0, "name": name, "arguments": arguments}}


END = line(True, reason="stop")


def stream(*docs: Doc) -> Result:
    return read(WIRE, lines_of(*docs))


def test_thinking_text_and_a_call_with_their_events() -> None:
    result = stream(
        line(thinking="h"),
        line(thinking="m"),
        line(content="a"),
        line(content="b"),
        line(tool_calls=[call("get", {"x": 1}, id="call_1")]),
        END | {"prompt_eval_count": 5, "eval_count": 7},
    )
    made = ToolCall("call_1", "get", {"x": 1})
    assert result.events == [
        ReplyStarted("", "m1"),
        ThinkingDelta(0, "h"),
        ThinkingDelta(0, "m"),
        TextDelta(1, "a"),
        TextDelta(1, "b"),
        ToolCallStarted(2, "call_1", "get"),
        ToolCallReady(2, made),
        BlockReady(0, Thinking("hm")),
        BlockReady(1, Text("ab")),
        ReplyDone(result.reply),
    ]
    assert (result.reply.blocks, result.reply.stop) == ((Thinking("hm"), Text("ab"), made), "tools")
    assert (result.reply.origin, result.reply.usage) == (Origin(WIRE, model="m1"), Usage(5, 7))


CALLS: dict[str, list[Doc]] = {
    "a line each": [line(tool_calls=[call("f", {"x": 1})]), line(tool_calls=[call("g", {})])],
    "one line": [line(tool_calls=[call("f", {"x": 1}), call("g", {})])],
    "with the end": [line(True, reason="stop", tool_calls=[call("f", {"x": 1}), call("g", None)])],
    "arguments as text": [line(tool_calls=[call("f", '{"x":1}'), call("g", "")])],
    "no arguments": [line(tool_calls=[call("f", {"x": 1}), {"function": {"name": "g"}}])],
    "one id for both": [line(tool_calls=[call("f", {"x": 1}, id="same"), call("g", {}, id="same")])],
    "no content": [{"model": "m1", "message": {"role": "assistant", "tool_calls": [call("f", {"x": 1}), call("g", {})]}}],
    "calls only": [{"model": "m1", "message": {"tool_calls": [call("f", {"x": 1}), call("g", {})]}}],
}


@pytest.mark.parametrize("docs", CALLS.values(), ids=CALLS.keys())
def test_two_calls_however_they_come(docs: list[Doc]) -> None:
    result = stream(*docs, END)
    assert result.said == [("f", {"x": 1}), ("g", {})]
    assert result.reply.stop == "tools"


def test_calls_without_ids_get_different_ones() -> None:
    result = stream(
        line(tool_calls=[call("f", {"x": 1}), call("f", {"x": 1}, id="")]), line(tool_calls=[call("f", {"x": 1})]), END
    )
    ids = [made.id for made in result.reply.calls]
    assert (len(set(ids)), {len(id) for id in ids}) == (3, {9})


def test_a_call_is_ready_before_the_end_and_has_its_id_from_the_start() -> None:
    result = stream(line(tool_calls=[call("f", {}, id="a")]), line(content="x"), END)
    assert result.events[1:3] == [ToolCallStarted(0, "a", "f"), ToolCallReady(0, ToolCall("a", "f", {}))]


@pytest.mark.parametrize("message", [{"thinking": "hm"}, {"role": "assistant", "thinking": "hm"}], ids=["alone", "with a role"])
def test_thinking_without_content(message: Doc) -> None:
    assert stream({"model": "m1", "message": message, "done": False}, END).reply.blocks == (Thinking("hm"),)


def test_images_of_several_lines_are_all_kept() -> None:
    result = stream(line(images=["AA==", "BB=="]), line(images=["CC=="]), END)
    assert result.reply.blocks == tuple(Media("image", data=data) for data in ("AA==", "BB==", "CC=="))


def test_other_fields_of_the_message_are_kept() -> None:
    assert stream(line(content="a", mood="good"), line(content="b", tune=1), END).reply.opaque == {"mood": "good", "tune": 1}


@pytest.mark.parametrize(
    ("reason", "stop"), [("stop", "end"), ("length", "length"), ("load", "end"), ("unload", "end"), (None, "end")]
)
def test_why_it_stopped(reason: str | None, stop: StopReason) -> None:
    assert stream(line(content="a"), line(True, reason=reason)).reply.stop == stop
    assert read_whole(WIRE, line(True, reason=reason, content="a")).reply.stop == stop


def test_a_whole_body() -> None:
    body = line(True, reason="stop", content="a", thinking="hm", tool_calls=[call("f", {"x": 1}, id="c")])
    result = read_whole(WIRE, body | {"prompt_eval_count": 5})
    assert result.reply.blocks == (Thinking("hm"), Text("a"), ToolCall("c", "f", {"x": 1}))
    assert (result.reply.stop, result.reply.usage) == ("tools", Usage(5))


def test_done_is_the_only_terminal() -> None:
    for docs in ([line(content="a")], [line(tool_calls=[call("f", {})])], [END | {"done": False}]):
        with pytest.raises(TruncatedStream):
            read_pieces(WIRE, [lines_of(*docs)])
    assert stream(line(content="a"), {"model": "m1", "done": True}).reply.text == "a"
    assert read(WIRE, lines_of(line(content="a"), END)[:-1]).reply.text == "a"


@pytest.mark.parametrize("before", [[], [line(content="a")], [line(tool_calls=[call("f", {})])]], ids=["first", "text", "call"])
def test_an_error_line_is_an_error(before: list[Doc]) -> None:
    with pytest.raises(ServerFailed, match="out of memory"):
        read_pieces(WIRE, [lines_of(*before, {"error": "out of memory"})])


@pytest.mark.parametrize("doc", [
    {"message": "text"}, {"message": [1]}, line(content=7), line(content=["a"]), line(thinking={"a": 1}),
    line(tool_calls=[None]), line(tool_calls=["f"]),
])  # fmt: skip
def test_wrong_shapes_are_malformed(doc: Doc) -> None:
    with pytest.raises(MalformedReply):
        read_pieces(WIRE, [lines_of(doc, END)])
