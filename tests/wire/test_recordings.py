"""Every recorded stream: the same events however its bytes are cut, and truncated wherever it is cut before
its terminal.
"""

import random
from bisect import bisect
from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest
from reply_reading import assert_laws, single, split_at

from toolglot.errors import ToolglotError, TruncatedStream
from toolglot.values.events import Event
from toolglot.values.messages import Reply
from toolglot.wire.codec import create_reader
from toolglot.wire.reader import ReplyReader

Recording = dict[str, Any]
LONG = 20_000  # bytes; longer streams are not read byte by byte

# The extractor of the recordings counted other things as calls.
COUNTED_OTHERWISE = {
    "openai-chat-64d0da9cf25c": 1,  # n = 2: it counted the calls of both choices
    "anthropic-messages-2b89a1c72d0f": 1,  # the call lies in message_start
}


def open_reader(record: Recording) -> ReplyReader:
    return create_reader(record["api"], content_type=record["response_content_type"] or "")


class Outcome(NamedTuple):
    """The events, the reply, the error where there was one, and after each piece whether the reply was
    complete.
    """

    events: list[Event]
    reply: Reply | None
    error: str
    complete: list[bool]


def outcome(record: Recording, pieces: Iterable[bytes]) -> Outcome:
    reading = open_reader(record)
    events: list[Event] = []
    complete: list[bool] = []
    error = ""
    try:
        for piece in pieces:
            events += reading.feed(piece)
            complete.append(reading.is_complete)
        events += reading.close()
        complete.append(reading.is_complete)
    except ToolglotError as e:
        error = repr(e)
    return Outcome(events, None if error else reading.reply, error, complete)


def random_cuts(record: Recording) -> list[bytes]:
    body: bytes = record["bytes"]
    chance = random.Random(record["id"])
    count = chance.choice([3, 30, 300])
    return split_at(body, (chance.randrange(len(body) + 1) for _ in range(count)))


@pytest.mark.untraced
def test_the_events_do_not_depend_on_how_the_bytes_are_cut_and_complete_turns_true_once(
    streamed: Recording,
) -> None:
    body: bytes = streamed["bytes"]
    whole = outcome(streamed, [body])
    cuts = [random_cuts(streamed), *([single(body)] if len(body) <= LONG else [])]
    others = [outcome(streamed, pieces) for pieces in cuts]
    for other in others:
        assert (other.reply, other.error) == (whole.reply, whole.error)
        assert whole.error or other.events == whole.events
    if not whole.error:
        assert whole.reply is not None
        assert_laws(whole.events, whole.reply)
        states = others[-1].complete
        assert (states, states[0], states[-1]) == (sorted(states), False, True)


@pytest.mark.untraced
def test_line_ends_do_not_matter(streamed: Recording) -> None:
    body: bytes = streamed["bytes"]
    if streamed.get("response_body_encoding") == "base64":
        pytest.skip("a binary stream has no lines")
    other = body.replace(b"\r\n", b"\n") if b"\r\n" in body else body.replace(b"\n", b"\r\n")
    assert other != body or b"\n" not in body
    assert outcome(streamed, [other]) == outcome(streamed, [body])


def complete_after(record: Recording, size: int) -> bool:
    reading = open_reader(record)
    reading.feed(record["bytes"][:size])
    return reading.is_complete


@pytest.mark.untraced
def test_a_stream_cut_before_its_terminal_is_truncated(streamed: Recording) -> None:
    body: bytes = streamed["bytes"]
    if outcome(streamed, [body]).error:
        pytest.skip("the stream ends with an error")
    # the first size that is complete
    known = bisect(range(len(body)), False, key=lambda size: complete_after(streamed, size))
    if streamed.get("response_body_encoding") == "base64":
        before = known
    else:  # line breaks, or the end of an array, may follow the terminal event before it is known
        ends = (b"}",) if body[:1] == b"[" else (b"}", b"]")
        before = max(body.rfind(end, 0, known) for end in ends) + 1
    assert outcome(streamed, [body[:before]]).error == ""
    chance = random.Random(streamed["id"])
    for size in {0, before - 1, *(chance.randrange(before) for _ in range(18))}:
        reading = open_reader(streamed)
        reading.feed(body[:size])
        assert not reading.is_complete
        with pytest.raises(TruncatedStream):
            reading.close()


@pytest.mark.untraced
def test_the_number_of_calls_equals_an_independent_count(streamed: Recording) -> None:
    result = outcome(streamed, [streamed["bytes"]])
    if result.error:
        pytest.skip("the stream ends with an error")
    assert result.reply is not None
    assert len(result.reply.calls) == COUNTED_OTHERWISE.get(streamed["id"], streamed["n_tool_calls"])
