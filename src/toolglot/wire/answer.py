"""Replies as a provider would send them: for the simulator, the gateway and replay.

`events_of` splits a whole reply into events; `Sequencer` puts any events into blocks that come one after another, as most wires
require; a wire's `answer` module writes those steps as its own frames.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import ClassVar, Literal

import msgspec

from toolglot.events import (
    BlockReady,
    Event,
    ReplyDone,
    ReplyStarted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallReady,
    ToolCallStarted,
)
from toolglot.jsontext import dumps_text
from toolglot.messages import Block, Foreign, Media, Opaque, Origin, Reply, Text, Thinking, ToolCall
from toolglot.providers.catalog import resolve
from toolglot.wire.shapes import Doc
from toolglot.wire.writer import Writer

__all__ = ["Answer", "Begin", "End", "Finish", "Piece", "Sequencer", "Start", "Step", "events_of"]

Kind = Literal["text", "thinking", "call", "other"]


class Begin(msgspec.Struct, frozen=True):
    """The answer begins."""

    id: str
    model: str


class Start(msgspec.Struct, frozen=True):
    """Block `number` begins."""

    number: int
    kind: Kind
    block: Text | Thinking | Media | ToolCall | Foreign | None = None
    """A call's id and name, its arguments follow; a block that comes whole."""


class Piece(msgspec.Struct, frozen=True):
    """More of the block that is open."""

    number: int
    kind: Kind
    text: str


class End(msgspec.Struct, frozen=True):
    """The open block is whole. `block` is None where its text goes on in a later block."""

    number: int
    kind: Kind
    text: str
    """What was said of it in pieces."""
    block: Text | Thinking | Media | ToolCall | Foreign | None


class Finish(msgspec.Struct, frozen=True):
    """The answer is whole."""

    reply: Reply


Step = Begin | Start | Piece | End | Finish


class Answer(ABC):
    """Writes one answer of one wire: `body` for a whole reply, or `feed` for each event of a stream.

    `origin`: who made the reply; its opaque state is written only where that is this wire. `created`: seconds since 1970.
    """

    provider: ClassVar[str]

    def __init__(self, model: str = "", *, created: int = 0, origin: Origin | None = None) -> None:
        self.model = model
        self.created = created
        self.origin = origin
        self.writer = Writer(resolve(self.provider, model), model)
        self.losses = self.writer.losses
        self._sequencer = Sequencer()

    def body(self, reply: Reply) -> Doc:
        """A whole reply."""
        self.origin = reply.origin
        return self.whole(reply)

    def feed(self, event: Event) -> bytes:
        """The bytes of the stream that an event becomes."""
        return b"".join(self.frame(doc) for step in self._sequencer.feed(event) for doc in self.write(step))

    @abstractmethod
    def whole(self, reply: Reply) -> Doc:
        """A whole reply."""

    @abstractmethod
    def write(self, step: Step) -> Iterator[Doc]:
        """The documents of the stream that a step becomes."""

    @abstractmethod
    def frame(self, doc: Doc) -> bytes:
        """A document as bytes of the stream."""

    def own(self, block: Block | None) -> Opaque:
        """The opaque state of a block, where it is this wire's."""
        opaque = None if block is None or isinstance(block, Foreign) else block.opaque
        return self.writer.opaque(opaque, self.origin, "reply")

    def call_head(self, call: ToolCall) -> tuple[str, str]:
        """The id and the name of a call on the wire."""
        writer = self.writer
        return writer.call_id(call.id, "reply"), writer.tool_name(call.name, call.namespace, "reply")

    def json_arguments(self, call: ToolCall) -> str:
        """A call's arguments as text; freeform input as an object with one field."""
        return dumps_text(self.writer.arguments_object(call, "reply")) if call.freeform else call.text or "{}"

    def is_foreign(self, block: Block) -> bool:
        """Whether a block is another wire's content, which is lost."""
        if isinstance(block, Foreign) and block.wire != self.writer.profile.wire:
            self.writer.lose("content", "reply", f"only {block.wire} understands it")
            return True
        return False


def events_of(reply: Reply, piece: int = 24) -> Iterator[Event]:
    """A whole reply as the events of a stream, in pieces of so many characters."""
    yield ReplyStarted(reply.id, reply.origin.model if reply.origin else "")
    for index, block in enumerate(reply.blocks):
        match block:
            case Text() | Thinking():
                delta = TextDelta if isinstance(block, Text) else ThinkingDelta
                yield from (delta(index, part) for part in _cut(block.text, piece))
                yield BlockReady(index, block)
            case ToolCall():
                yield ToolCallStarted(index, block.id, block.name, block.freeform, block.opaque)
                yield from (ToolCallDelta(index, part) for part in _cut(block.raw or "", piece))
                yield ToolCallReady(index, block)
            case Media() | Foreign():
                yield BlockReady(index, block)
            case _:
                pass
    yield ReplyDone(reply)


def _cut(text: str, size: int) -> Iterable[str]:
    return (text[at : at + size] for at in range(0, len(text), size))


class Sequencer:
    """Events, which may interleave, as blocks one after another: text goes on in a new block, a call holds the rest back."""

    def __init__(self) -> None:
        self._number = -1
        self._open: tuple[int, Kind] | None = None  # the event's index and the kind of the open block
        self._pieces: list[str] = []
        self._begun: set[int] = set()
        self._waiting: list[Event] = []

    def feed(self, event: Event) -> list[Step]:
        """The steps that an event becomes."""
        match event:
            case ReplyStarted():
                return [Begin(event.id, event.model)]
            case ReplyDone():
                return [*self._close(None), Finish(event.reply)]
            case _ if self._open and self._open[1] == "call" and self._open[0] != event.index:
                self._waiting.append(event)
                return []
            case TextDelta():
                return self._piece(event.index, "text", event.text)
            case ThinkingDelta():
                return self._piece(event.index, "thinking", event.text)
            case ToolCallStarted():
                return [
                    *self._close(None),
                    self._start(
                        event.index, "call", ToolCall(event.id, event.name, freeform=event.freeform, opaque=event.opaque)
                    ),
                ]
            case ToolCallDelta():
                return self._piece(event.index, "call", event.text)
            case ToolCallReady():
                return self._ready(event.index, "call", event.call)
            case BlockReady(block=block):
                kind: Kind = "text" if isinstance(block, Text) else "thinking" if isinstance(block, Thinking) else "other"
                return self._ready(event.index, kind, block)

    def _piece(self, index: int, kind: Kind, text: str) -> list[Step]:
        steps = [] if self._open == (index, kind) else [*self._close(None), self._start(index, kind)]
        self._pieces.append(text)
        return [*steps, Piece(self._number, kind, text)]

    def _ready(self, index: int, kind: Kind, block: Text | Thinking | Media | ToolCall | Foreign) -> list[Step]:
        steps: list[Step] = []
        if self._open != (index, kind):
            if index in self._begun:  # all of its text was said, in earlier blocks
                return []
            steps = [*self._close(None), self._start(index, kind, block)]
        steps += self._close(block)
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            steps += self.feed(event)
        return steps

    def _start(self, index: int, kind: Kind, block: Text | Thinking | Media | ToolCall | Foreign | None = None) -> Start:
        self._number += 1
        self._open, self._pieces = (index, kind), []
        self._begun.add(index)
        return Start(self._number, kind, block)

    def _close(self, block: Text | Thinking | Media | ToolCall | Foreign | None) -> list[Step]:
        if self._open is None:
            return []
        (_, kind), self._open = self._open, None
        return [End(self._number, kind, "".join(self._pieces), block)]
