"""Replies as a provider would send them: events, blocks and the five encoders, read back by our own reader.

tests/sdk reads the same bytes with the official clients.
"""

from collections.abc import Iterable
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from reply_writing import MODELS, each_way, each_wire, make_encoder, read, write, write_and_read, write_events

from toolglot.common.jsontext import dumps
from toolglot.values.events import (
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
from toolglot.values.messages import (
    Block,
    Foreign,
    Media,
    Origin,
    Reply,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from toolglot.wire.codec import create_reader, load_reply_encoder
from toolglot.wire.reply_encoding import EventSequencer, ReplyEncoder, split_reply
from toolglot.wire.tracker import ReplyBlock


def thoughts(reply: Reply) -> str:
    return "".join(block.text for block in reply.blocks if isinstance(block, Thinking))


def calls(reply: Reply) -> list[Any]:
    return [(call.id, call.name, call.arguments) for call in reply.calls]


# ---- a reply as events


def test_a_reply_becomes_deltas_of_the_requested_size_and_a_ready_for_each_block() -> None:
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


def test_a_reply_without_origin_and_with_a_stray_result_is_split() -> None:
    reply = Reply((ToolResult("c1"), Foreign("gemini", {"x": 1})))
    assert list(split_reply(reply)) == [
        ReplyStarted("", ""),
        BlockReady(1, Foreign("gemini", {"x": 1})),
        ReplyDone(reply),
    ]


# ---- events as blocks


class Recorder(ReplyEncoder):
    """An encoder whose documents are what it is told."""

    provider = "openai-chat"

    def build_body(self, reply: Reply) -> Any: ...

    def begin_reply(self) -> Any:
        yield "begin", self.id, self.model

    def begin_block(self, block: ReplyBlock) -> Any:
        yield "block", block

    def add_piece(self, block: ReplyBlock, text: str) -> Any:
        yield text

    def end_block(self, block: ReplyBlock, has_pieces: bool) -> Any:
        yield block, has_pieces

    def end_reply(self, reply: Reply) -> Any:
        yield reply


A, B, T = Text("ab"), Text("x"), Thinking("t", {"signature": "s"})
F, G = ToolCall("c1", "f", {}, "{}"), ToolCall("c2", "g", {})
IMAGE, DONE = Media("image", data=""), Reply((A,))
BEGIN, TEXT, THOUGHT = ("begin", "", ""), ("block", Text("")), ("block", Thinking(""))
SEQUENCES: dict[str, tuple[list[Event], list[Any]]] = {
    "one text": (
        [ReplyStarted("r", "m"), TextDelta(0, "a"), TextDelta(0, "b"), BlockReady(0, A), ReplyDone(DONE)],
        [("begin", "r", "m"), TEXT, "a", "b", (A, True), DONE],
    ),
    "state that is known at the start": (
        [
            BlockStarted(0, Text("", {"id": "m1"})),
            TextDelta(0, "ab"),
            BlockReady(0, Text("ab", {"id": "m1", "done": 1})),
        ],
        [BEGIN, ("block", Text("", {"id": "m1"})), "ab", (Text("ab", {"id": "m1", "done": 1}), True)],
    ),
    "blocks that come whole": (
        [BlockReady(0, T), BlockReady(1, B), BlockReady(2, IMAGE)],
        [
            BEGIN,
            ("block", Thinking("", T.opaque)),
            "t",
            (T, True),
            TEXT,
            "x",
            (B, True),
            ("block", IMAGE),
            (IMAGE, False),
        ],
    ),
    "a call that comes whole": ([ToolCallReady(0, F)], [BEGIN, ("block", F), "{}", (F, True)]),
    "a call without an id waits until it has one": (
        [ToolCallStarted(0, "", "f"), ToolCallDelta(0, "{}"), ToolCallReady(0, F)],
        [BEGIN, ("block", F), "{}", (F, True)],
    ),
    "text that is interrupted continues in a new block": (
        [TextDelta(0, "a"), ThinkingDelta(1, "t"), TextDelta(0, "b"), BlockReady(1, T), ReplyDone(DONE)],
        [
            BEGIN,
            TEXT,
            "a",
            (Text("a"), True),
            THOUGHT,
            "t",
            (Thinking("t"), True),
            TEXT,
            "b",
            (Text("b"), True),
            DONE,
        ],
    ),
    "a call ends the text before it": (
        [
            TextDelta(0, "ab"),
            ToolCallStarted(1, "c1", "f"),
            ToolCallDelta(1, "{}"),
            ToolCallReady(1, F),
            BlockReady(0, A),
        ],
        [BEGIN, TEXT, "ab", (A, True), ("block", ToolCall("c1", "f")), "{}", (F, True)],
    ),
    "a call holds back what comes between": (
        [
            *(
                ToolCallStarted(0, "c1", "f"),
                ToolCallStarted(1, "c2", "g"),
                TextDelta(2, "x"),
                ToolCallDelta(0, "{}"),
            ),
            *(BlockReady(2, B), ToolCallReady(0, F), ToolCallReady(1, G)),
        ],
        [
            *(
                BEGIN,
                ("block", ToolCall("c1", "f")),
                "{}",
                (F, True),
                ("block", ToolCall("c2", "g")),
                (G, False),
            ),
            *(TEXT, "x", (B, True)),
        ],
    ),
    "the end closes what is open": (
        [TextDelta(0, "ab"), ReplyDone(DONE)],
        [BEGIN, TEXT, "ab", (A, True), DONE],
    ),
    "a freeform call starts as one": (
        [ToolCallStarted(0, "c1", "patch", freeform=True, namespace="ns", opaque={"id": "x"})],
        [BEGIN, ("block", ToolCall("c1", "patch", freeform=True, namespace="ns", opaque={"id": "x"}))],
    ),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_events_become_blocks_one_after_another(name: str) -> None:
    events, steps = SEQUENCES[name]
    sequencer = EventSequencer(Recorder())
    assert [step for event in events for step in sequencer.feed(event)] == steps


# ---- every wire: what is written is read again

ids = st.from_regex(r"[a-zA-Z0-9_-]{1,12}", fullmatch=True)
names = st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True)
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20)
objects = st.dictionaries(st.text(max_size=8), scalars | st.lists(scalars, max_size=3), max_size=4)


@st.composite
def made_calls(draw: st.DrawFn) -> ToolCall:
    arguments = draw(objects)
    return ToolCall(
        draw(ids), draw(names), arguments, draw(st.sampled_from([None, dumps(arguments).decode()]))
    )


blocks = st.builds(Text, st.text(max_size=60)) | st.builds(Thinking, st.text(max_size=60)) | made_calls()
block_lists = st.lists(blocks, max_size=6, unique_by=lambda block: getattr(block, "id", object()))


def make_reply(blocks: Iterable[Block], stop: StopReason = "end") -> Reply:
    """A reply whose stop agrees with its calls, as providers' do."""
    blocks = tuple(blocks)
    has_calls = any(isinstance(block, ToolCall) for block in blocks)
    return Reply(blocks, "tools" if has_calls and stop == "end" else stop, id="id_1")


@pytest.mark.untraced
@each_wire
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(blocks=block_lists, streaming=st.booleans(), piece=st.integers(1, 30))
@example(blocks=[Text("lone \ud83d half")], streaming=True, piece=24)
@example(blocks=[ToolCall("c", "f", {"a": 1}), Text("after")], streaming=True, piece=24)
def test_texts_and_calls_survive(wire: str, blocks: list[Block], streaming: bool, piece: int) -> None:
    reply = make_reply(blocks)
    decoded = write_and_read(wire, reply, streaming=streaming, piece_size=piece)
    assert (decoded.text, thoughts(decoded)) == (reply.text, thoughts(reply))
    assert calls(decoded) == calls(reply)
    assert decoded.stop == reply.stop


@pytest.mark.untraced
@each_wire
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(blocks=block_lists, order=st.randoms(use_true_random=False))
def test_interleaved_events_lose_nothing(wire: str, blocks: list[Block], order: Any) -> None:
    """Events of several blocks at once, each block's own in order."""
    reply = make_reply(blocks)
    first, *middle, last = split_reply(reply, 5)
    queues = [
        [event for event in middle if getattr(event, "index", -1) == index] for index in range(len(blocks))
    ]
    mixed: list[Event] = []
    while queues := [queue for queue in queues if queue]:
        mixed.append(order.choice(queues).pop(0))
    decoded = write_events(wire, [first, *mixed, last])
    assert sorted(calls(decoded), key=repr) == sorted(calls(reply), key=repr)
    assert sorted(decoded.text) == sorted(reply.text)
    assert sorted(thoughts(decoded)) == sorted(thoughts(reply))


@each_wire
def test_text_around_a_thought_is_sent_once(wire: str) -> None:
    text, thought = Text("one two"), Thinking("hm")
    events = [
        TextDelta(0, "one "),
        ThinkingDelta(1, "hm"),
        TextDelta(0, "two"),
        BlockReady(0, text),
        BlockReady(1, thought),
    ]
    decoded = write_events(wire, [ReplyStarted("r", "m"), *events, ReplyDone(Reply((text, thought)))])
    assert (decoded.text, thoughts(decoded)) == ("one two", "hm")


USAGE = Usage(1000, 200, cached=600, cache_write=100, reasoning=150)
COUNTED = {
    "openai-chat": USAGE,
    "openai-responses": USAGE,
    "anthropic-messages": USAGE,
    "gemini": Usage(1000, 200, cached=600, reasoning=150),
    "ollama-chat": Usage(1000, 200),
}


@each_way
@each_wire
def test_id_model_and_usage_survive(wire: str, streaming: bool) -> None:
    decoded = write_and_read(wire, Reply((Text("x"),), usage=USAGE, id="id_1"), streaming=streaming)
    assert decoded.usage == COUNTED[wire]
    assert decoded.origin == Origin(wire, model=MODELS[wire])
    assert decoded.id == ("id_1" if wire != "ollama-chat" else "")


@each_wire
def test_a_body_names_the_replys_model_where_the_writer_has_none(wire: str) -> None:
    body = load_reply_encoder(wire)().encode_reply(Reply((), origin=Origin("x", model="m1")))
    decoded = read(wire, dumps(body), streaming=False)
    assert decoded.origin == Origin(wire, model="m1")


@each_way
@pytest.mark.parametrize("stop", get_args(StopReason))
@each_wire
def test_a_stop_reason_survives_or_is_a_loss(wire: str, stop: StopReason, streaming: bool) -> None:
    """A wire without a word for it must not turn an error or a refusal into a success in silence."""
    blocks = (ToolCall("c1", "f", {}),) if stop == "tools" else (Text("x"),)
    data, encoder = write(wire, Reply(blocks, stop), streaming=streaming)
    is_lost = "stop" in {loss.subject for loss in encoder.losses}
    assert (read(wire, data, streaming=streaming).stop == stop) != is_lost


@each_wire
def test_a_stream_that_begins_without_a_word_is_begun(wire: str) -> None:
    """Some servers name neither id nor model: their replies start with the first delta."""
    _, *events = split_reply(Reply((Text("x"),)))
    data = b"".join(map(make_encoder(wire).feed, events))
    assert read(wire, data).text == "x"
    if wire == "anthropic-messages":
        assert data.startswith(b"event: message_start\n")


@each_wire
def test_calls_that_came_without_an_id_keep_the_ones_they_were_given(wire: str) -> None:
    """Gemini before 3 and others send no ids: a call has one only when it is ready."""
    source = create_reader("gemini", streaming=False)
    parts = [
        {"functionCall": {"name": "f", "args": {"x": 1}}},
        {"functionCall": {"name": "f", "args": {"x": 2}}},
    ]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    events = [
        *source.feed(dumps({"candidates": [candidate], "responseId": "r", "modelVersion": "m"})),
        *source.close(),
    ]
    assert calls(write_events(wire, events)) == calls(source.reply)


@each_way
@each_wire
def test_a_namespace_is_sent_the_same_way_in_body_and_stream(wire: str, streaming: bool) -> None:
    reply = Reply((ToolCall("c1", "f", {"a": 1}, '{"a":1}', namespace="ns"),), "tools")
    (call,) = write_and_read(wire, reply, streaming=streaming).calls
    assert (call.namespace, call.name) == (("ns", "f") if wire == "openai-responses" else ("", "ns__f"))
