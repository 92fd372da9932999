"""The only assembler: tool calls, whatever the order and shape of their pieces."""

import re
from collections.abc import Hashable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reply_reading import assert_laws

from toolglot.values.events import Event, ToolCallDelta, ToolCallReady, ToolCallStarted
from toolglot.values.messages import Origin, Reply, ToolCall
from toolglot.wire.tracker import ToolCallTracker, make_call, parse_arguments


def tracker() -> ToolCallTracker:
    return ToolCallTracker(Origin("test"))


def finish(track: ToolCallTracker) -> tuple[Reply, list[Event]]:
    reply = track.finish()
    events = track.drain()
    assert_laws(events, reply)
    return reply, events


def test_a_name_is_set_once_and_never_concatenated() -> None:
    track = tracker()
    for piece in ('{"a"', ":1", "}"):
        track.update_call(0, "c", "find", piece)
    assert finish(track)[0].calls == (ToolCall("c", "find", {"a": 1}, '{"a":1}'),)


def test_a_name_may_be_corrected_until_arguments_come() -> None:
    track = tracker()
    track.update_call(0, "c", "wrong")
    track.update_call(0, "c", "right", '{"a":')
    track.update_call(0, "c", "other", "1}")
    assert track.finish().calls == (ToolCall("c", "right", {"a": 1}, '{"a":1}'),)


def test_the_first_id_counts_and_may_come_late() -> None:
    track = tracker()
    track.update_call(0, "", "f")
    track.update_call(0, None, None, "{}")
    track.update_call(0, "late", None)
    track.update_call(0, "later", None)
    assert finish(track)[0].calls == (ToolCall("late", "f", {}, "{}"),)


def test_arguments_before_the_name_are_reported_after_the_start() -> None:
    track = tracker()
    track.update_call(0, "c", None, '{"a":')
    track.update_call(0, "c", "f", "1}")
    assert finish(track)[0].calls == (ToolCall("c", "f", {"a": 1}, '{"a":1}'),)


@pytest.mark.parametrize("odd", [None, 7, ["x"], {"x": 1}, ""], ids=repr)
def test_an_id_or_a_name_that_is_no_text_is_none(odd: Any) -> None:
    track = tracker()
    track.update_call(0, odd, odd, "", namespace=odd)
    (call,) = finish(track)[0].calls
    assert (call.name, call.arguments, call.namespace) == ("", {}, "")
    assert re.fullmatch(r"[0-9A-Za-z]{9}", call.id)


def test_a_freeform_call_keeps_its_text_and_a_namespace_is_kept() -> None:
    track = tracker()
    track.update_call(0, "c", "patch", '{"not": "json for us"}', freeform=True, namespace="ns")
    reply, events = finish(track)
    assert reply.calls == (ToolCall("c", "patch", None, '{"not": "json for us"}', True, "ns"),)
    assert events[0] == ToolCallStarted(0, "c", "patch", True, "ns")


def test_a_closed_call_takes_nothing_more() -> None:
    track = tracker()
    track.update_call(0, "c", "f", "{}")
    track.close(0)
    track.close(0)
    track.update_call(0, "c", "f", '{"a":1}')
    track.add_arguments(0, "x")
    assert finish(track)[0].calls == (ToolCall("c", "f", {}, "{}"),)


def test_a_whole_call_has_a_start_a_delta_and_a_ready() -> None:
    track = tracker()
    call = ToolCall("c", "f", {"a": 1}, '{"a":1}', opaque={"x": 1})
    track.set_block(0, call)
    _, events = finish(track)
    assert events[:3] == [
        ToolCallStarted(0, "c", "f", opaque={"x": 1}),
        ToolCallDelta(0, '{"a":1}'),
        ToolCallReady(0, call),
    ]


def test_a_whole_call_after_its_pieces_repeats_nothing() -> None:
    track = tracker()
    call = ToolCall("c", "f", {"a": 1}, '{"a":1}')
    track.update_call(0, "c", "f")
    track.add_arguments(0, '{"a":1}')
    track.set_block(0, call)
    _, events = finish(track)
    assert events[:-1] == [ToolCallStarted(0, "c", "f"), ToolCallDelta(0, '{"a":1}'), ToolCallReady(0, call)]


ARGUMENTS: dict[str, tuple[Any, dict[str, Any] | None, str | None]] = {
    "text": ('{"a": 1}', {"a": 1}, '{"a": 1}'),
    "nothing": (None, {}, ""),
    "empty text": ("", {}, ""),
    "white space": (" \n", {}, " \n"),
    "null as text": ("null", {}, "null"),
    "an object": ({"a": 1}, {"a": 1}, None),
    "an empty object": ({}, {}, None),
    "a list": ([1], None, "[1]"),
    "a number": (7, None, "7"),
    "false": (False, None, "false"),
    "a list as text": ("[1]", None, "[1]"),
    "text as text": ('"x"', None, '"x"'),
    "broken text": ('{"a": ', None, '{"a": '),
    "two documents": ('{"a":1}{"a":1}', None, '{"a":1}{"a":1}'),
    "a lone surrogate": ('{"a":"\\ud800"}', {"a": "\ud800"}, '{"a":"\\ud800"}'),
}


@pytest.mark.parametrize(("value", "arguments", "raw"), ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_arguments_of_every_shape(value: Any, arguments: dict[str, Any] | None, raw: str | None) -> None:
    track = tracker()
    track.update_call(0, "c", "f", value)
    assert finish(track)[0].calls == (ToolCall("c", "f", arguments, raw),)


def test_an_object_replaces_text_that_came_before() -> None:
    track = tracker()
    track.update_call(0, "c", "f", "")
    track.update_call(0, "c", "f", {"a": 1})
    assert finish(track)[0].calls == (ToolCall("c", "f", {"a": 1}),)


def test_call_of_and_parsed() -> None:
    assert make_call("i", "n", None) == ToolCall("i", "n", {})
    assert make_call("i", "n", "x", freeform=True) == ToolCall("i", "n", None, "x", True)
    assert make_call("i", "n", "x", namespace="s", opaque={"o": 1}) == ToolCall(
        "i", "n", None, "x", False, "s", {"o": 1}
    )
    assert [parse_arguments(text) for text in ("", "null", "{}", "[]", "{", "1")] == [
        {},
        {},
        {},
        None,
        None,
        None,
    ]


# ---- ids that are made up


def invent_ids(name: str, text: str, *, reply: str = "r", count: int = 1) -> list[str]:
    track = tracker()
    track.begin(reply, "m")
    for number in range(count):
        track.update_call(number, None, name, text)
    return [call.id for call in finish(track)[0].calls]


def test_a_made_up_id_is_the_same_for_the_same_bytes_and_else_another() -> None:
    assert invent_ids("f", "{}") == invent_ids("f", "{}")
    ids = [
        *invent_ids("f", "{}", count=3),
        *invent_ids("g", "{}"),
        *invent_ids("f", '{"a":1}'),
        *invent_ids("f", "{}", reply="s"),
    ]
    assert len(set(ids)) == 6
    assert all(re.fullmatch(r"[0-9A-Za-z]{9}", id) for id in ids)


def test_a_made_up_id_depends_on_arguments_that_came_as_an_object() -> None:
    tracks = [tracker(), tracker()]
    for number, track in enumerate(tracks):
        track.update_call(0, None, "f", {"a": number})
    assert len({track.finish().calls[0].id for track in tracks}) == 2


# ---- which call an OpenAI-style delta belongs to

Delta = tuple[int | None, str | None, str | None, str]  # index, id, name, arguments
SAME = {
    "index and id": [(0, "a", "f", "{"), (1, "b", "g", "{"), (0, "a", None, "}"), (1, "b", None, "}")],
    "index, continued without id": [
        (0, "a", "f", "{"),
        (1, "b", "g", "{"),
        (0, None, None, "}"),
        (1, "", "", "}"),
    ],
    "index from 1, with gaps": [
        (1, "a", "f", "{"),
        (7, "b", "g", "{"),
        (7, None, None, "}"),
        (1, None, None, "}"),
    ],
    "always index 0, ids differ": [(0, "a", "f", "{}"), (0, "b", "g", "{"), (0, None, None, "}")],
    "always index 0, ids in every delta": [
        (0, "a", "f", "{"),
        (0, "b", "g", "{"),
        (0, "a", None, "}"),
        (0, "b", None, "}"),
    ],
    "no index, ids": [
        (None, "a", "f", "{"),
        (None, "b", "g", "{"),
        (None, "a", None, "}"),
        (None, "b", None, "}"),
    ],
    "no index, no id": [(None, None, "f", "{"), (None, None, None, "}"), (None, None, "g", "{}")],
    "no index, id once": [(None, "a", "f", "{"), (None, None, None, "}"), (None, "b", "g", "{}")],
    "index moves, id stays": [(0, "a", "f", "{"), (1, "b", "g", "{}"), (2, "a", None, "}")],
    "no id at all": [(0, None, "f", "{"), (1, None, "g", "{}"), (0, None, None, "}")],
    "id after the first delta": [(0, None, "f", "{"), (0, "a", None, "}"), (1, "b", "g", "{}")],
    "one id for two indexes": [(0, "same", "f", "{}"), (1, "same", "g", "{}")],
    "name in every delta": [(0, "a", "f", "{"), (0, "a", "f", "}"), (1, "b", "g", "{"), (1, "b", "g", "}")],
}


def assemble(deltas: list[Delta]) -> Reply:
    track = tracker()
    for index, id, name, text in deltas:
        slot: Hashable = track.find_call_slot(index, id, name)
        track.update_call(slot, id, name, text)
    return finish(track)[0]


@pytest.mark.parametrize("deltas", SAME.values(), ids=SAME.keys())
def test_a_delta_finds_its_call(deltas: list[Delta]) -> None:
    assert [(call.name, call.raw) for call in assemble(deltas).calls] == [("f", "{}"), ("g", "{}")]


@given(
    calls=st.lists(st.lists(st.text('{}":a1', max_size=3), max_size=4), max_size=5),
    by=st.sampled_from(["index", "id", "both", "broken index"]),
    random=st.randoms(use_true_random=False),
)
def test_interleaved_calls_are_separated(calls: list[list[str]], by: str, random: Any) -> None:
    left = [
        [(number, "start"), *((number, piece) for piece in pieces)] for number, pieces in enumerate(calls)
    ]
    deltas: list[Delta] = []
    order: list[int] = []
    while any(left):
        number, piece = random.choice([queue for queue in left if queue]).pop(0)
        first = number not in order
        order += [number] if first else []
        index = None if by == "id" else 0 if by == "broken index" else number
        id = f"id{number}" if by != "index" or first else None
        deltas.append((index, id, f"f{number}" if first else None, "" if first else piece))
    got = [(call.id, call.name, call.raw) for call in assemble(deltas).calls]
    assert got == [(f"id{number}", f"f{number}", "".join(calls[number])) for number in order]
