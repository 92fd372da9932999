"""Streams of servers and proxies that break the rules: what counts is what the provider meant, and nothing
runs twice.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from reply_reading import Doc, lines_of, read, read_pieces, single, sse_of
from stream_samples import STREAMS, block, chunk, item, line, part, tool

from toolglot.errors import MalformedReply, TruncatedStream
from toolglot.values.events import TextDelta, ToolCallDelta
from toolglot.values.messages import Text
from toolglot.wire.codec import create_reader
from toolglot.wire.json_values import as_dict, as_list
from toolglot.wire.spec import WIRES

COMPLETED: Doc = {
    "type": "response.completed",
    "response": {"id": "r", "model": "m", "status": "completed", "output": []},
}
CALL_ITEM = {"type": "function_call", "call_id": "a", "name": "f", "arguments": '{"a":1}'}
USE = {"type": "tool_use", "id": "a", "name": "f", "input": {"a": 1}}
CALLS: dict[str, list[Doc]] = {  # one call; the last document ends the reply
    "openai-chat": [tool(0, '{"a":1}', name="f"), chunk({}, "tool_calls")],
    "openai-responses": [item(0, "done", **CALL_ITEM), COMPLETED],
    "anthropic-messages": [
        {"type": "message_start", "message": {"id": "m", "model": "m", "content": []}},
        block("start", 0, content_block=USE),
        block("stop", 0),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ],
    "gemini": [part({"functionCall": {"name": "f", "args": {"a": 1}}}), part(finishReason="STOP")],
    "ollama-chat": [
        line(content="", tool_calls=[{"function": {"name": "f", "arguments": {"a": 1}}}]),
        line(True, content=""),
    ],
}
EVERY_WIRE = pytest.mark.parametrize("wire", WIRES)


def stream(wire: str, *docs: Doc) -> bytes:
    end = ("[DONE]",) if wire == "openai-chat" else ()
    return lines_of(*docs) if wire == "ollama-chat" else sse_of(*docs, *end)


# ---- after the terminal


@EVERY_WIRE
def test_a_stream_that_a_proxy_replays_runs_nothing_twice(wire: str) -> None:
    body = stream(wire, *CALLS[wire])
    want = read(wire, body).reply
    assert len(want.calls) == 1
    again = read(wire, body * 2)
    assert (again.reply.blocks, again.reply.stop) == (want.blocks, "tools")


@pytest.mark.parametrize("id", [{}, {"id": "x"}], ids=["no id", "id"])
def test_a_call_of_gemini_that_comes_again_is_reported(id: Doc) -> None:
    call = part({"functionCall": {"name": "f", "args": {"a": 1}, **id}}, finishReason="STOP")
    other = part({"functionCall": {"name": "f", "args": {"a": 2}}}, finishReason="STOP")
    result = read("gemini", sse_of(call, other, call))
    assert result.named_calls == [("f", {"a": 1}), ("f", {"a": 2})]
    assert [str(loss) for loss in result.losses] == [
        "tool call at reply: it came again after the end of the reply"
    ]


@EVERY_WIRE
@pytest.mark.parametrize("garbage", ["<html>", '{"choices": [], "usa', "[1,2]", "null"])
def test_garbage_after_the_terminal_does_not_spoil_the_reply(wire: str, garbage: str) -> None:
    docs = CALLS[wire]
    want = read(wire, sse_of(*docs)).reply
    for body in (sse_of(*docs, garbage), sse_of(*docs, garbage)[:-2], sse_of(*docs, "[DONE]", garbage)):
        for pieces in ([body], single(body)):
            assert read_pieces(wire, pieces).reply == want


def test_a_connection_that_breaks_inside_the_usage_frame_loses_only_that() -> None:
    usage: Doc = {"id": "c", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}
    body = sse_of(chunk({"content": "hi"}, "stop"), usage, "[DONE]")
    start = len(sse_of(chunk({"content": "hi"}, "stop")))
    for size in range(start, len(body) + 1):
        result = read_pieces("openai-chat", [body[:size]])
        assert result.reply.text == "hi"
        assert (result.reply.usage.input == 3) == (size >= start + len(sse_of(usage)) - 2)
    assert [loss.subject for loss in read_pieces("openai-chat", [body[: start + 9]]).losses] == [
        "trailing data"
    ]


@EVERY_WIRE
def test_a_reader_says_when_nothing_more_counts(wire: str) -> None:
    reader = create_reader(wire)
    reader.feed(stream(wire, *CALLS[wire][:-1])[: -len(sse_of("[DONE]")) if wire == "openai-chat" else None])
    assert not reader.is_over
    reader.feed(stream(wire, CALLS[wire][-1]))
    assert reader.is_over == (wire != "gemini")  # text can follow a finishReason
    assert reader.is_complete


# ---- what is missing


def positions(value: Any, *above: Any) -> Iterator[tuple[Any, ...]]:
    """The places of all values in a document."""
    items = as_dict(value).items() or enumerate(as_list(value))
    for key, inner in items:
        yield (*above, key)
        yield from positions(inner, *above, key)


def leave_out(doc: Doc, position: tuple[Any, ...], *, as_null: bool) -> Doc:
    changed = parent = deepcopy(doc)
    for key in position[:-1]:
        parent = parent[key]
    if as_null:
        parent[position[-1]] = None
    else:
        del parent[position[-1]]
    return changed


@EVERY_WIRE
@pytest.mark.parametrize("as_null", [False, True])
def test_nothing_that_is_missing_spoils_a_stream(wire: str, as_null: bool) -> None:
    for docs in STREAMS[wire]:
        for at, doc in enumerate(docs):
            for position in positions(doc):
                if position[-1] == "jsonPath" or (wire == "openai-responses" and position == ("type",)):
                    continue  # an argument that has no place, a document that is no event
                body = stream(wire, *docs[:at], leave_out(doc, position, as_null=as_null), *docs[at + 1 :])
                with suppress(TruncatedStream):  # the end is missing
                    read_pieces(wire, [body])


def test_an_event_may_have_its_type_in_its_name() -> None:
    for wire in ("openai-responses", "anthropic-messages"):
        named = "".join(
            f"event: {doc.pop('type')}\ndata: {json.dumps(doc)}\n\n" for doc in deepcopy(CALLS[wire])
        )
        assert read(wire, named.encode()).reply == read(wire, sse_of(*CALLS[wire])).reply


# ---- a stream that was not asked for


@EVERY_WIRE
@pytest.mark.parametrize("content_type", ["", "text/event-stream; charset=utf-8"])
def test_a_stream_in_place_of_a_whole_reply_is_read(wire: str, content_type: str) -> None:
    body = sse_of(*CALLS[wire])
    want = read(wire, body).reply
    for before in (b"", b"\xef\xbb\xbf", b": keep-alive\n\n"):
        assert read_pieces(wire, [before + body], streaming=False, content_type=content_type).reply == want
    array = json.dumps(CALLS[wire], indent=2).encode()
    for other in (
        lines_of(*CALLS[wire]),
        b"\r\n" + lines_of(*CALLS[wire]).replace(b"\n", b"\r\n\r\n"),
        array,
    ):
        assert read_pieces(wire, [other], streaming=False).reply == want


# ---- the end in other words


@EVERY_WIRE
@pytest.mark.parametrize(("word", "stop"), [
    *(("max_tokens", "length"), ("MAX_TOKENS", "length"), ("length", "length"), ("model_context_window_exceeded", "length")),
    *(("sensitive", "filtered"), ("SAFETY", "filtered"), ("network_error", "error"), ("END_TURN", "end"), ("stop", "end")),
])  # fmt: skip
def test_finish_reasons_of_other_wires_mean_the_same(wire: str, word: str, stop: str) -> None:
    ends: dict[str, list[Doc]] = {
        "openai-chat": [chunk({"content": "a"}, word)],
        "anthropic-messages": [
            block("start", 0, content_block={"type": "text", "text": "a"}),
            {"type": "message_delta", "delta": {"stop_reason": word}},
            {"type": "message_stop"},
        ],
        "gemini": [part({"text": "a"}, finishReason=word)],
        "ollama-chat": [{**line(True, content="a"), "done_reason": word}],
    }
    if wire in ends:
        assert read(wire, stream(wire, *ends[wire])).reply.stop == stop


@pytest.mark.parametrize("word", ["FUNCTION_CALL", "stop", "tool_calls", "END_TURN", "SOMETHING_NEW"])
def test_calls_of_gemini_count_whatever_the_finish_reason(word: str) -> None:
    body = part({"functionCall": {"name": "f", "args": {}}}, finishReason=word)
    for streaming in (True, False):
        assert read("gemini", json.dumps(body).encode(), streaming=streaming).reply.stop == "tools"


# ---- halves of characters

DELTAS: dict[str, tuple[Callable[[str], Doc], Callable[[str], Doc] | None]] = {
    "openai-chat": (lambda text: chunk({"content": text}), lambda text: tool(0, text, name="f")),
    "openai-responses": (
        lambda text: {
            "type": "response.output_text.delta",
            "output_index": 1,
            "content_index": 0,
            "delta": text,
        },
        lambda text: {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": text},
    ),
    "anthropic-messages": (
        lambda text: block("delta", 1, delta={"type": "text_delta", "text": text}),
        lambda text: block("delta", 0, delta={"type": "input_json_delta", "partial_json": text}),
    ),
    "gemini": (lambda text: part({"text": text}), None),
    "ollama-chat": (lambda text: line(content=text), None),
}
STARTS: dict[str, list[Doc]] = {
    "openai-responses": [item(0, "added", **CALL_ITEM | {"arguments": ""})],
    "anthropic-messages": [block("start", 0, content_block=USE | {"input": {}})],
}


@EVERY_WIRE
def test_halves_of_a_character_in_two_deltas_are_one(wire: str) -> None:
    text, arguments = DELTAS[wire]
    docs = [text("a\ud83d"), text("\ude00b"), text("\ud83d"), text("\ude00")]
    result = read(wire, stream(wire, *docs, CALLS[wire][-1]))
    assert result.reply.text == "a😀b😀"
    assert [event.text for event in result.events if isinstance(event, TextDelta)] == ["a", "😀b", "😀"]
    if arguments:
        docs = [*STARTS.get(wire, []), arguments('{"k":"\ud83d'), arguments('\ude00"}')]
        result = read(wire, stream(wire, *docs, CALLS[wire][-1]))
        assert result.call.arguments == {"k": "😀"}
        assert (
            "".join(event.text for event in result.events if isinstance(event, ToolCallDelta)) == '{"k":"😀"}'
        )


@EVERY_WIRE
def test_half_a_character_that_stays_alone_is_kept(wire: str) -> None:
    result = read(wire, stream(wire, DELTAS[wire][0]("a\ud83d"), DELTAS[wire][0]("b\ud83d"), CALLS[wire][-1]))
    assert result.reply.text == "a\ud83db\ud83d"


# ---- Anthropic and Responses


def test_two_generations_of_claude_in_one_stream_are_not_merged() -> None:
    start: Doc = {"type": "message_start", "message": {"id": "m", "model": "m", "content": []}}
    text = block("start", 0, content_block={"type": "text", "text": "Hello worl"})
    with pytest.raises(MalformedReply, match="a second message starts before the first one has ended"):
        read_pieces("anthropic-messages", [sse_of(start, text, start, text, {"type": "message_stop"})])
    assert (
        read("anthropic-messages", sse_of(start, start, text, {"type": "message_stop"})).reply.text
        == "Hello worl"
    )


def test_deltas_win_over_the_input_at_the_start_of_a_call() -> None:
    delta = block("delta", 0, delta={"type": "input_json_delta", "partial_json": '{"a":2}'})
    docs = [block("start", 0, content_block=USE), delta, block("stop", 0), {"type": "message_stop"}]
    assert read_pieces("anthropic-messages", [sse_of(*docs)]).call.arguments == {"a": 2}


def test_texts_of_responses_are_told_apart_by_their_item() -> None:
    """Bedrock counts `content_index` across all items; others send no `output_index`."""

    def texts(index: Doc, content: int) -> list[Doc]:
        message = {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "ab"}],
            "id": "i1",
        }
        named = {"item_id": "i1", **index, "content_index": content}
        return [
            item(0, "done", **CALL_ITEM),
            {"type": "response.output_item.added", **index, "item": {**message, "content": []}},
            {"type": "response.content_part.added", **named, "part": {"type": "output_text", "text": ""}},
            {"type": "response.output_text.delta", **named, "delta": "a"},
            {"type": "response.output_text.delta", **named, "delta": "b"},
            {"type": "response.output_item.done", **index, "item": message},
            {
                **COMPLETED,
                "response": {**COMPLETED["response"], "output": [{"id": "i0", **CALL_ITEM}, message]},
            },
        ]

    for docs in (texts({"output_index": 1}, 0), texts({"output_index": 1}, 1), texts({}, 0), texts({}, 1)):
        for left_out in ([], [5], [2], [1, 2], [1, 2, 5]):
            reply = read(
                "openai-responses", sse_of(*(doc for at, doc in enumerate(docs) if at not in left_out))
            ).reply
            assert [type(part) for part in reply.blocks[1:]] == [Text]
            assert reply.text == "ab"
