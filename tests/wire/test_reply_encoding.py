"""Replies as a provider would send them: events, steps and the five writers, read back by our own reader.

tests/sdk reads the same bytes with the official clients.
"""

from collections.abc import Iterable
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from toolglot.events import (
    BlockReady,
    BlockStarted,
    Event,
    ReplyDone,
    ReplyStarted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallReady,
    ToolCallStarted,
)
from toolglot.jsontext import dumps
from toolglot.messages import Block, Foreign, Media, Origin, Reply, StopReason, Text, Thinking, ToolCall, ToolResult, Usage
from toolglot.wire.anthropic.reply_encode import AnthropicReplyEncoder
from toolglot.wire.codec import create_reader
from toolglot.wire.gemini.reply_encode import GeminiReplyEncoder
from toolglot.wire.ollama.reply_encode import OllamaReplyEncoder
from toolglot.wire.openai_chat.reply_encode import ChatReplyEncoder
from toolglot.wire.openai_responses.reply_encode import ResponsesReplyEncoder
from toolglot.wire.reply_encoding import (
    BlockBegin,
    BlockEnd,
    BlockPiece,
    EventSequencer,
    ReplyBegin,
    ReplyEncoder,
    ReplyEnd,
    split_reply,
)

ANSWERS: dict[str, tuple[type[ReplyEncoder], str]] = {
    "openai-chat": (ChatReplyEncoder, "gpt-4.1"),
    "openai-responses": (ResponsesReplyEncoder, "gpt-5"),
    "anthropic-messages": (AnthropicReplyEncoder, "claude-opus-4-5"),
    "gemini": (GeminiReplyEncoder, "gemini-3-pro-preview"),
    "ollama-chat": (OllamaReplyEncoder, "qwen3"),
}
WIRES = list(ANSWERS)
BOTH = [False, True]


def answering(wire: str, origin: Origin | None = None) -> ReplyEncoder:
    kind, model = ANSWERS[wire]
    return kind(model, origin=origin)


def written(answer: ReplyEncoder, reply: Reply, *, streaming: bool, piece: int = 24) -> bytes:
    if streaming:
        return b"".join(answer.feed(event) for event in split_reply(reply, piece))
    return dumps(answer.encode_reply(reply))


def read(wire: str, data: bytes, *, streaming: bool) -> Reply:
    reading = create_reader(wire, streaming=streaming)
    reading.feed(data)
    reading.close()
    assert reading.reply is not None
    return reading.reply


def back(wire: str, reply: Reply, *, streaming: bool, piece: int = 24) -> Reply:
    """The reply, written and read again."""
    return read(wire, written(answering(wire, reply.origin), reply, streaming=streaming, piece=piece), streaming=streaming)


def thoughts(reply: Reply) -> str:
    return "".join(block.text for block in reply.blocks if isinstance(block, Thinking))


def calls(reply: Reply) -> list[Any]:
    return [(call.id, call.name, call.arguments) for call in reply.calls]


# ---- a reply as events


def test_a_reply_becomes_deltas_of_the_asked_size_and_a_ready_for_each_block() -> None:
    text, thought, image = Text("abcde"), Thinking("why"), Media("image", data="aGk=")
    call, bare = ToolCall("c1", "f", {"a": 1}, '{"a":1}', opaque={"k": 1}), ToolCall("c2", "g", {})
    reply = Reply((thought, text, call, bare, image), "tools", origin=Origin("gemini", model="m"), id="r1")
    assert list(split_reply(reply, 4)) == [
        ReplyStarted("r1", "m"),
        ThinkingDelta(0, "why"),
        BlockReady(0, thought),
        TextDelta(1, "abcd"),
        TextDelta(1, "e"),
        BlockReady(1, text),
        ToolCallStarted(2, "c1", "f", opaque={"k": 1}),
        ToolCallDelta(2, '{"a"'),
        ToolCallDelta(2, ":1}"),
        ToolCallReady(2, call),
        ToolCallStarted(3, "c2", "g"),
        ToolCallReady(3, bare),
        BlockReady(4, image),
        ReplyDone(reply),
    ]


def test_a_reply_without_origin_and_with_a_stray_result_is_still_told() -> None:
    reply = Reply((ToolResult("c1"), Foreign("gemini", {"x": 1})))
    assert list(split_reply(reply)) == [ReplyStarted("", ""), BlockReady(1, Foreign("gemini", {"x": 1})), ReplyDone(reply)]


# ---- events as steps

A, B, T = Text("ab"), Text("x"), Thinking("t", {"signature": "s"})
F, G = ToolCall("c1", "f", {}, "{}"), ToolCall("c2", "g", {})
IMAGE, DONE, BEGIN = Media("image", data=""), Reply((A,)), ReplyBegin("", "")
# fmt: off
SEQUENCES: dict[str, tuple[list[Event], list[Any]]] = {
    "one text": (
        [ReplyStarted("r", "m"), TextDelta(0, "a"), TextDelta(0, "b"), BlockReady(0, A), ReplyDone(DONE)],
        [
            *(ReplyBegin("r", "m"), BlockBegin(0, "text"), BlockPiece(0, "text", "a"), BlockPiece(0, "text", "b")),
            *(BlockEnd(0, "text", True, A), ReplyEnd(DONE)),
        ],
    ),
    "state that is known at the start": (
        [BlockStarted(0, Text("", {"id": "m1"})), TextDelta(0, "ab"), BlockReady(0, Text("ab", {"id": "m1", "done": 1}))],
        [
            *(BEGIN, BlockBegin(0, "text", Text("", {"id": "m1"})), BlockPiece(0, "text", "ab")),
            BlockEnd(0, "text", True, Text("ab", {"id": "m1", "done": 1})),
        ],
    ),
    "blocks that come whole": (
        [BlockReady(0, T), BlockReady(1, B), BlockReady(2, IMAGE)],
        [
            *(
                BEGIN,
                BlockBegin(0, "thinking", Thinking("", T.opaque)),
                BlockPiece(0, "thinking", "t"),
                BlockEnd(0, "thinking", True, T),
            ),
            *(BlockBegin(1, "text", Text("")), BlockPiece(1, "text", "x"), BlockEnd(1, "text", True, B)),
            *(BlockBegin(2, "other", IMAGE), BlockEnd(2, "other", False, IMAGE)),
        ],
    ),
    "a call that comes whole": ([ToolCallReady(0, F)],
        [BEGIN, BlockBegin(0, "call", F), BlockPiece(0, "call", "{}"), BlockEnd(0, "call", True, F)]),
    "a call without an id waits until it has one": ([ToolCallStarted(0, "", "f"), ToolCallDelta(0, "{}"), ToolCallReady(0, F)],
        [BEGIN, BlockBegin(0, "call", F), BlockPiece(0, "call", "{}"), BlockEnd(0, "call", True, F)]),
    "text that is interrupted goes on in a new block": (
        [TextDelta(0, "a"), ThinkingDelta(1, "t"), TextDelta(0, "b"), BlockReady(1, T), ReplyDone(DONE)],
        [
            *(BEGIN, BlockBegin(0, "text"), BlockPiece(0, "text", "a"), BlockEnd(0, "text", True, Text("a"))),
            *(BlockBegin(1, "thinking"), BlockPiece(1, "thinking", "t"), BlockEnd(1, "thinking", True, Thinking("t"))),
            *(BlockBegin(2, "text"), BlockPiece(2, "text", "b"), BlockEnd(2, "text", True, Text("b")), ReplyEnd(DONE)),
        ],
    ),
    "a call ends the text before it": (
        [TextDelta(0, "ab"), ToolCallStarted(1, "c1", "f"), ToolCallDelta(1, "{}"), ToolCallReady(1, F), BlockReady(0, A)],
        [
            *(BEGIN, BlockBegin(0, "text"), BlockPiece(0, "text", "ab"), BlockEnd(0, "text", True, A)),
            *(BlockBegin(1, "call", ToolCall("c1", "f")), BlockPiece(1, "call", "{}"), BlockEnd(1, "call", True, F)),
        ],
    ),
    "a call holds back what comes between": (
        [
            *(ToolCallStarted(0, "c1", "f"), ToolCallStarted(1, "c2", "g"), TextDelta(2, "x"), ToolCallDelta(0, "{}")),
            *(BlockReady(2, B), ToolCallReady(0, F), ToolCallReady(1, G)),
        ],
        [
            *(BEGIN, BlockBegin(0, "call", ToolCall("c1", "f")), BlockPiece(0, "call", "{}"), BlockEnd(0, "call", True, F)),
            *(BlockBegin(1, "call", ToolCall("c2", "g")), BlockEnd(1, "call", False, G)),
            *(BlockBegin(2, "text"), BlockPiece(2, "text", "x"), BlockEnd(2, "text", True, B)),
        ],
    ),
    "the end closes what is open": ([TextDelta(0, "ab"), ReplyDone(DONE)],
        [BEGIN, BlockBegin(0, "text"), BlockPiece(0, "text", "ab"), BlockEnd(0, "text", True, A), ReplyEnd(DONE)]),
}
# fmt: on


@pytest.mark.parametrize("name", SEQUENCES)
def test_events_become_blocks_one_after_another(name: str) -> None:
    events, steps = SEQUENCES[name]
    sequencer = EventSequencer()
    assert [step for event in events for step in sequencer.feed(event)] == steps


def test_a_freeform_call_starts_as_one() -> None:
    started = ToolCallStarted(0, "c1", "patch", freeform=True, namespace="ns", opaque={"id": "x"})
    head = ToolCall("c1", "patch", freeform=True, namespace="ns", opaque={"id": "x"})
    assert EventSequencer().feed(started) == [BEGIN, BlockBegin(0, "call", head)]


# ---- every wire: what is written is read again

ids, names = st.from_regex(r"[a-zA-Z0-9_-]{1,12}", fullmatch=True), st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True)
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20)
objects = st.dictionaries(st.text(max_size=8), scalars | st.lists(scalars, max_size=3), max_size=4)


@st.composite
def made_calls(draw: st.DrawFn) -> ToolCall:
    arguments = draw(objects)
    return ToolCall(draw(ids), draw(names), arguments, draw(st.sampled_from([None, dumps(arguments).decode()])))


blocks = st.builds(Text, st.text(max_size=60)) | st.builds(Thinking, st.text(max_size=60)) | made_calls()
block_lists = st.lists(blocks, max_size=6, unique_by=lambda block: getattr(block, "id", object()))


def replied(said: Iterable[Block], stop: StopReason = "end") -> Reply:
    """A reply whose stop agrees with its calls, as providers' do."""
    said = tuple(said)
    has_calls = any(isinstance(block, ToolCall) for block in said)
    return Reply(said, "tools" if has_calls and stop == "end" else stop, id="id_1")


@pytest.mark.untraced
@pytest.mark.parametrize("wire", WIRES)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(said=block_lists, streaming=st.booleans(), piece=st.integers(1, 30))
@example(said=[Text("lone \ud83d half")], streaming=True, piece=24)
@example(said=[ToolCall("c", "f", {"a": 1}), Text("after")], streaming=True, piece=24)
def test_texts_and_calls_survive(wire: str, said: list[Block], streaming: bool, piece: int) -> None:
    reply = replied(said)
    found = back(wire, reply, streaming=streaming, piece=piece)
    assert (found.text, thoughts(found)) == (reply.text, thoughts(reply))
    assert calls(found) == calls(reply)
    assert found.stop == reply.stop


@pytest.mark.untraced
@pytest.mark.parametrize("wire", WIRES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(said=block_lists, order=st.randoms(use_true_random=False))
def test_interleaved_events_lose_nothing(wire: str, said: list[Block], order: Any) -> None:
    """Events of several blocks at once, each block's own in order."""
    reply = replied(said)
    first, *middle, last = split_reply(reply, 5)
    queues = [[event for event in middle if getattr(event, "index", -1) == index] for index in range(len(said))]
    mixed: list[Event] = []
    while queues := [queue for queue in queues if queue]:
        mixed.append(order.choice(queues).pop(0))
    answer = answering(wire)
    found = read(wire, b"".join(answer.feed(event) for event in [first, *mixed, last]), streaming=True)
    assert sorted(calls(found), key=repr) == sorted(calls(reply), key=repr)
    assert sorted(found.text) == sorted(reply.text)
    assert sorted(thoughts(found)) == sorted(thoughts(reply))


@pytest.mark.parametrize("wire", WIRES)
def test_text_around_a_thought_is_said_once(wire: str) -> None:
    text, thought = Text("one two"), Thinking("hm")
    events = [TextDelta(0, "one "), ThinkingDelta(1, "hm"), TextDelta(0, "two"), BlockReady(0, text), BlockReady(1, thought)]
    answer = answering(wire)
    data = b"".join(answer.feed(event) for event in [ReplyStarted("r", "m"), *events, ReplyDone(Reply((text, thought)))])
    found = read(wire, data, streaming=True)
    assert (found.text, thoughts(found)) == ("one two", "hm")


USAGE = Usage(1000, 200, cached=600, cache_write=100, reasoning=150)
COUNTED = {
    "openai-chat": USAGE,
    "openai-responses": USAGE,
    "anthropic-messages": USAGE,
    "gemini": Usage(1000, 200, cached=600, reasoning=150),
    "ollama-chat": Usage(1000, 200),
}


@pytest.mark.parametrize("streaming", BOTH, ids=["body", "stream"])
@pytest.mark.parametrize("wire", WIRES)
def test_id_model_and_usage_survive(wire: str, streaming: bool) -> None:
    found = back(wire, Reply((Text("x"),), usage=USAGE, id="id_1"), streaming=streaming)
    assert found.usage == COUNTED[wire]
    assert found.origin == Origin(wire, model=ANSWERS[wire][1])
    assert found.id == ("id_1" if wire != "ollama-chat" else "")


@pytest.mark.parametrize("wire", WIRES)
def test_a_body_names_the_replys_model_where_the_writer_has_none(wire: str) -> None:
    kind, _ = ANSWERS[wire]
    found = read(wire, dumps(kind().encode_reply(Reply((), origin=Origin("x", model="m1")))), streaming=False)
    assert found.origin == Origin(wire, model="m1")


@pytest.mark.parametrize("streaming", BOTH, ids=["body", "stream"])
@pytest.mark.parametrize("stop", get_args(StopReason))
@pytest.mark.parametrize("wire", WIRES)
def test_why_it_stopped_is_said_or_a_loss(wire: str, stop: StopReason, streaming: bool) -> None:
    """A wire without a word for it must not turn an error or a refusal into a success in silence."""
    said = (ToolCall("c1", "f", {}),) if stop == "tools" else (Text("x"),)
    answer = answering(wire)
    found = read(wire, written(answer, Reply(said, stop), streaming=streaming), streaming=streaming)
    assert found.stop == stop or "stop" in {loss.subject for loss in answer.losses}


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_that_begins_without_a_word_is_begun(wire: str) -> None:
    """Some servers name neither id nor model: their replies start with the first delta."""
    reply = Reply((Text("x"),))
    answer = answering(wire)
    data = b"".join(answer.feed(event) for event in split_reply(reply) if not isinstance(event, ReplyStarted))
    assert read(wire, data, streaming=True).text == "x"
    if wire == "anthropic-messages":
        assert data.startswith(b"event: message_start\n")


@pytest.mark.parametrize("wire", WIRES)
def test_calls_that_came_without_an_id_keep_the_ones_they_were_given(wire: str) -> None:
    """Gemini before 3 and others send no ids: a call has one only when it is ready."""
    source = create_reader("gemini", streaming=False)
    parts = [{"functionCall": {"name": "f", "args": {"x": 1}}}, {"functionCall": {"name": "f", "args": {"x": 2}}}]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    answer = answering(wire)
    events = [*source.feed(dumps({"candidates": [candidate], "responseId": "r", "modelVersion": "m"})), *source.close()]
    found = read(wire, b"".join(answer.feed(event) for event in events), streaming=True)
    assert source.reply is not None
    assert calls(found) == calls(source.reply)


@pytest.mark.parametrize("streaming", BOTH, ids=["body", "stream"])
@pytest.mark.parametrize("wire", WIRES)
def test_a_namespace_is_said_the_same_way_in_body_and_stream(wire: str, streaming: bool) -> None:
    reply = Reply((ToolCall("c1", "f", {"a": 1}, '{"a":1}', namespace="ns"),), "tools")
    (call,) = back(wire, reply, streaming=streaming).calls
    assert (call.namespace, call.name) == (("ns", "f") if wire == "openai-responses" else ("", "ns__f"))
