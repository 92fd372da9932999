"""How the tests of this folder read replies: however the bytes are cut the events are the same, and events
keep their laws.
"""

import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

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
from toolglot.values.losses import Loss
from toolglot.values.messages import Block, Reply, Text, Thinking, ToolCall
from toolglot.wire.codec import create_reader

Doc = dict[str, Any]


class Result(NamedTuple):
    """What came of an answer."""

    reply: Reply
    events: list[Event]
    losses: list[Loss]

    @property
    def call(self) -> ToolCall:
        """The only call."""
        (call,) = self.reply.calls
        return call

    @property
    def named_calls(self) -> list[tuple[str, Any]]:
        """The calls as (name, arguments), in order."""
        return [(call.name, call.arguments) for call in self.reply.calls]


def sse_of(*docs: Doc | str) -> bytes:
    """Server-sent events: the event's name is the document's type, as OpenAI and Anthropic have it."""
    out = ""
    for doc in docs:
        if isinstance(doc, str):
            out += f"data: {doc}\n\n"
        else:
            out += (
                f"event: {doc['type']}\n" if isinstance(doc.get("type"), str) else ""
            ) + f"data: {json.dumps(doc)}\n\n"
    return out.encode()


def lines_of(*docs: Doc) -> bytes:
    """A line each."""
    return "".join(json.dumps(doc) + "\n" for doc in docs).encode()


def read_pieces(
    wire: str, pieces: Iterable[bytes], *, streaming: bool = True, content_type: str = ""
) -> Result:
    """Reads an answer in the given pieces."""
    reading = create_reader(wire, streaming=streaming, content_type=content_type)
    events = [event for piece in pieces for event in reading.feed(piece)]
    events += reading.close()
    return Result(reading.reply, events, reading.losses)


def read(wire: str, body: bytes, *, streaming: bool = True) -> Result:
    """Reads an answer at once and byte by byte; checks that both say the same and keep the laws of events."""
    whole = read_pieces(wire, [body], streaming=streaming)
    assert read_pieces(wire, single(body), streaming=streaming) == whole
    assert_laws(whole.events, whole.reply)
    return whole


def read_whole(wire: str, doc: Doc) -> Result:
    """Reads a body that is one document."""
    return read(wire, json.dumps(doc).encode(), streaming=False)


def single(body: bytes) -> list[bytes]:
    """Every byte for itself."""
    return [body[at : at + 1] for at in range(len(body))]


def split_at(body: bytes, places: Iterable[int]) -> list[bytes]:
    """The body cut at these places."""
    ends = [0, *sorted(places), len(body)]
    return [body[a:b] for a, b in itertools.pairwise(ends)]


def assert_laws(events: Sequence[Event], reply: Reply) -> None:
    """Started, deltas, Ready, for every block; ReplyStarted is first, ReplyDone last; the pieces joined are
    the block, and its index is its place in the reply."""
    assert [event for event in events if isinstance(event, ReplyDone)] == [ReplyDone(reply)]
    assert events[-1] == ReplyDone(reply)
    assert [at for at, event in enumerate(events) if isinstance(event, ReplyStarted)] in ([], [0])
    blocks: dict[int, Block] = {}
    starts: dict[int, ToolCallStarted] = {}
    begun: dict[int, BlockStarted] = {}
    pieces: dict[int, list[str]] = defaultdict(list)
    for event in events:
        if isinstance(event, ReplyStarted | ReplyDone):
            continue
        assert event.index not in blocks, f"{event} after its block was ready"
        match event:
            case BlockStarted():
                assert event.index not in begun
                assert event.index not in pieces, "a delta came before its block started"
                assert event.block.text == ""
                begun[event.index] = event
            case ToolCallStarted():
                assert event.index not in starts
                assert event.index not in pieces, "a delta came before its call started"
                starts[event.index] = event
            case TextDelta() | ThinkingDelta() | ToolCallDelta():
                assert isinstance(event, ToolCallDelta) == (event.index in starts), (
                    f"{event} is of another kind than its block"
                )
                pieces[event.index].append(event.text)
            case ToolCallReady(call=call):
                start = starts[event.index]
                assert (start.name, start.freeform, start.namespace) == (
                    call.name,
                    call.freeform,
                    call.namespace,
                )
                assert start.id in (call.id, "")
                blocks[event.index] = call
            case BlockReady():
                assert event.index not in starts
                assert event.index not in begun or type(event.block) is type(begun[event.index].block)
                blocks[event.index] = event.block
    assert sorted(blocks) == list(range(len(blocks)))
    assert pieces.keys() | starts.keys() | begun.keys() <= blocks.keys()
    assert tuple(blocks[index] for index in sorted(blocks)) == reply.blocks
    for index, block in blocks.items():
        assert "".join(pieces[index]) == _text_of(block)


def _text_of(block: Block) -> str:
    match block:
        case Text() | Thinking():
            return block.text
        case ToolCall():
            return block.raw or ""
        case _:
            return ""
