"""The only assembler: what a decoder says becomes events and a reply."""

from typing import Any

import pytest
from reply_reading import assert_laws

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
    Foreign,
    Media,
    Origin,
    Reply,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    Usage,
)
from toolglot.wire.tracker import ToolCallTracker

ORIGIN = Origin("test", "vendor", "asked")


def tracker() -> ToolCallTracker:
    return ToolCallTracker(ORIGIN)


def finish(track: ToolCallTracker) -> tuple[Reply, list[Event]]:
    reply = track.finish()
    events = track.drain()
    assert_laws(events, reply)
    return reply, events


# ---- the reply as a whole


def test_text_thinking_and_a_call_become_blocks_in_the_order_they_began() -> None:
    track = tracker()
    track.begin("id", "model")
    track.add_thinking("why", "hm")
    track.add_text("say", "a")
    track.update_call(0, "c1", "f")
    track.add_thinking("why", "!")
    track.add_arguments(0, '{"x"')
    track.add_text("say", "b")
    track.add_arguments(0, ":1}")
    track.usage = Usage(input=3)
    track.stop_reason = "tools"
    reply, events = finish(track)
    call = ToolCall("c1", "f", {"x": 1}, '{"x":1}')
    origin = Origin("test", "vendor", "model", "asked")
    assert reply == Reply((Thinking("hm!"), Text("ab"), call), "tools", Usage(input=3), origin, "id")
    assert events == [
        ReplyStarted("id", "model"),
        ThinkingDelta(0, "hm"),
        TextDelta(1, "a"),
        ToolCallStarted(2, "c1", "f"),
        ThinkingDelta(0, "!"),
        ToolCallDelta(2, '{"x"'),
        TextDelta(1, "b"),
        ToolCallDelta(2, ":1}"),
        BlockReady(0, Thinking("hm!")),
        BlockReady(1, Text("ab")),
        ToolCallReady(2, call),
        ReplyDone(reply),
    ]


def test_drain_gives_every_event_once() -> None:
    track = tracker()
    track.add_text(0, "a")
    assert track.drain() == [TextDelta(0, "a")]
    assert track.drain() == []
    track.add_text(0, "b")
    assert track.drain() == [TextDelta(0, "b")]


@pytest.mark.parametrize(("begins", "id", "model"), [
    ([("", "")], "", "asked"),
    ([("", ""), ("i", "m")], "i", "m"),
    ([("i", "m"), ("j", "n")], "i", "m"),
    ([("i", "")], "i", "asked"),
    ([("i", ""), ("", "m"), ("j", "n")], "i", "m"),
    ([], "", "asked"),
], ids=["empty", "empty, then full", "the first counts", "no model", "one after the other", "nothing"])  # fmt: skip
def test_an_id_and_a_model_count_once(begins: list[tuple[str, str]], id: str, model: str) -> None:
    track = tracker()
    for begin in begins:
        track.begin(*begin)
    reply, events = finish(track)
    assert (reply.id, reply.origin) == (
        id,
        Origin("test", "vendor", model, "asked" if model != "asked" else ""),
    )
    assert len([event for event in events if isinstance(event, ReplyStarted)]) == bool(id)


@pytest.mark.parametrize(("stop", "with_call", "without"), [
    (None, "tools", "end"),
    ("end", "tools", "end"),
    ("tools", "tools", "end"),
    ("length", "length", "length"),
    ("pause", "pause", "pause"),
    ("refusal", "refusal", "refusal"),
    ("filtered", "filtered", "filtered"),
    ("error", "error", "error"),
])  # fmt: skip
def test_the_presence_of_calls_decides_between_end_and_tools(
    stop: StopReason | None, with_call: StopReason, without: StopReason
) -> None:
    for calls, want in ((0, without), (1, with_call), (2, with_call)):
        track = tracker()
        track.add_text("t", "x")
        for number in range(calls):
            track.update_call(number, f"c{number}", "f")
        if stop:
            track.stop_reason = stop
        assert finish(track)[0].stop == want


def test_the_last_word_on_stop_usage_and_state_counts() -> None:
    track = tracker()
    track.stop_reason = "end"
    track.stop_reason = "length"
    track.usage = Usage(1, 2)
    track.usage = Usage(3, 4)
    track.merge_message_opaque({"a": 1, "b": 1})
    track.merge_message_opaque({"b": 2})
    reply, _ = finish(track)
    assert (reply.stop, reply.usage, reply.opaque) == ("length", Usage(3, 4), {"a": 1, "b": 2})


def test_the_index_of_an_event_is_the_place_of_its_block_in_the_reply() -> None:
    track = tracker()
    track.add_text("padding", "")
    track.close("padding")
    track.update_call(0, "c", "f")
    reply, events = finish(track)
    assert reply.calls == (ToolCall("c", "f", {}, ""),)
    assert [reply.blocks[event.index] for event in events if isinstance(event, ToolCallReady)] == list(
        reply.calls
    )


# ---- blocks other than calls


def test_empty_text_without_state_is_padding_and_with_state_is_not() -> None:
    track = tracker()
    track.add_text("a", "")
    track.add_thinking("b", "")
    track.merge_opaque("c", "text", {"sig": 1})
    track.merge_opaque("d", "thinking", {"sig": 2})
    track.merge_opaque("e", "thinking", {})
    assert finish(track)[0].blocks == (Text("", {"sig": 1}), Thinking("", {"sig": 2}))


def test_state_of_a_block_is_kept_and_its_last_fields_win() -> None:
    track = tracker()
    assert not track.has_slot("a")
    track.merge_opaque("a", "text", {})
    assert track.has_slot("a")
    track.merge_opaque("a", "thinking", {"x": 1, "y": 1})
    track.merge_opaque("a", "text", {"y": 2})
    assert track.drain() == []
    track.add_text("a", "t")
    track.merge_opaque("a", "text", {"z": 3})
    reply, events = finish(track)
    assert events[:2] == [BlockStarted(0, Text("", {"x": 1, "y": 2})), TextDelta(0, "t")]
    assert reply.blocks == (Text("t", {"x": 1, "y": 2, "z": 3}),)


@pytest.mark.parametrize(("block", "events"), [
    (Text("abc"), [TextDelta(0, "abc")]),
    (Thinking("abc", {"s": 1}), [ThinkingDelta(0, "abc")]),
    (Text(""), []),
    (Thinking("", {"cipher": "x"}), []),
    (Media("image", url="u"), []),
    (Foreign("w", {"a": 1}), []),
], ids=["text", "thinking", "empty text", "cipher", "media", "foreign"])  # fmt: skip
def test_a_whole_block_has_a_delta_and_is_ready_at_once(block: Any, events: list[Event]) -> None:
    track = tracker()
    track.reserve(0)
    assert track.drain() == []
    track.set_block(0, block)
    assert track.drain() == [*events, BlockReady(0, block)]


def test_the_providers_last_word_on_a_block_replaces_its_pieces() -> None:
    track = tracker()
    track.add_text(0, "ab")
    track.merge_opaque(0, "text", {"x": 1})
    track.set_block(0, Text("ab", {"id": "m"}))
    track.set_block(0, Text("again"))
    track.close(0)
    reply, events = finish(track)
    assert reply.blocks == (Text("ab", {"id": "m"}),)
    assert events[:2] == [TextDelta(0, "ab"), BlockReady(0, Text("ab", {"id": "m"}))]


def test_a_reserved_place_keeps_its_order() -> None:
    track = tracker()
    track.reserve("first")
    track.add_text("second", "b")
    track.reserve("second")
    track.set_block("first", Foreign("w", 1))
    assert finish(track)[0].blocks == (Foreign("w", 1), Text("b"))


def test_a_place_that_stays_empty_is_left_out() -> None:
    track = tracker()
    track.reserve(0)
    track.close("unknown")
    assert finish(track)[0].blocks == ()
