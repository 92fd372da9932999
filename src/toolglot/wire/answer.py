"""Replies as a provider would send them: for the simulator, the gateway and replay.

`events_of` splits a whole reply into events; `Sequencer` puts any events into blocks that come one after another, as most wires
require; a wire's `answer` module writes those steps as its own frames.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import ClassVar, Literal

import msgspec
from msgspec.structs import replace

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
from toolglot.messages import Block, Foreign, Media, Opaque, Origin, Reply, Stop, Text, Thinking, ToolCall, ToolResult
from toolglot.providers.catalog import resolve
from toolglot.wire.shapes import Doc
from toolglot.wire.writer import Writer

__all__ = ["Answer", "Begin", "End", "Finish", "Piece", "Sequencer", "Start", "Step", "events_of", "is_refusal"]

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
    """What is known of it already: a call's id and name, the state of a text, media and foreign content whole."""


class Piece(msgspec.Struct, frozen=True):
    """More of the block that is open."""

    number: int
    kind: Kind
    text: str


class End(msgspec.Struct, frozen=True):
    """The open block is whole: `block` is what its pieces were, with its state. A call of no pieces has its arguments here."""

    number: int
    kind: Kind
    said: bool
    """Whether there were pieces."""
    block: Text | Thinking | Media | ToolCall | Foreign


class Finish(msgspec.Struct, frozen=True):
    """The answer is whole."""

    reply: Reply


Step = Begin | Start | Piece | End | Finish


class Answer(ABC):
    """Writes one answer of one wire: `body` for a whole reply, or `feed` for each event of a stream.

    `origin`: who made the reply; its opaque state is written only where that is this wire. `created`: seconds since 1970.
    """

    provider: ClassVar[str]
    reasons: ClassVar[dict[Stop, str]]
    """The wire's words for why a model stopped."""
    exact: ClassVar[frozenset[Stop]]
    """Those that a reader of the wire understands as they were meant."""

    def __init__(self, model: str = "", *, created: int = 0, origin: Origin | None = None) -> None:
        self.model = model
        self.id = ""
        self.created = created
        self.origin = origin
        self.writer = Writer(resolve(self.provider, model), model)
        self.losses = self.writer.losses
        self._sequencer = Sequencer()

    def body(self, reply: Reply) -> Doc:
        """A whole reply."""
        self.origin, self.id = reply.origin, reply.id
        self.model = self.model or (reply.origin.model if reply.origin else "")
        return self.whole(reply)

    def feed(self, event: Event) -> bytes:
        """The bytes of the stream that an event becomes."""
        out: list[bytes] = []
        for step in self._sequencer.feed(event):
            if isinstance(step, Begin):
                self.id, self.model = step.id, step.model or self.model
            out += [self.frame(doc) for doc in self.write(step)]
        return b"".join(out)

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

    def own_message(self, reply: Reply) -> Opaque:
        """The opaque state of the whole message, where it is this wire's."""
        return self.writer.opaque(reply.opaque, reply.origin, "reply")

    def reason(self, reply: Reply) -> str:
        """The wire's word for why the model stopped; a Loss where it has none."""
        word = self.reasons[reply.stop]
        if reply.stop not in self.exact and not (reply.stop == "refusal" and any(map(is_refusal, reply.blocks))):
            self.writer.lose("stop", "reply", f"{self.writer.profile.title} has no word for {reply.stop!r}; sent as {word!r}")
        return word

    def call_head(self, call: ToolCall) -> tuple[str, str]:
        """The id and the name of a call on the wire."""
        writer = self.writer
        return writer.call_id(call.id, "reply"), writer.tool_name(call.name, call.namespace, "reply")

    def has_no_place(self, block: Block) -> bool:
        """Whether a block cannot be said in an answer of this wire: a Loss."""
        if isinstance(block, Foreign) and block.wire == self.writer.profile.wire:
            return False
        if isinstance(block, Foreign):
            self.writer.lose("content", "reply", f"only {block.wire} understands it")
        elif isinstance(block, Media) and not self.takes(block):
            self.writer.lose(block.kind, "reply", f"an answer of {self.writer.profile.title} has no place for it")
        else:
            return isinstance(block, ToolResult)
        return True

    def takes(self, media: Media) -> bool:
        """Whether an answer of this wire can hold such media."""
        return False


def is_refusal(block: Block) -> bool:
    """Whether a text was marked as a refusal, by either of OpenAI's wires."""
    return isinstance(block, Text) and bool((block.opaque or {}).get("refusal"))


def events_of(reply: Reply, piece: int = 24) -> Iterator[Event]:
    """A whole reply as the events of a stream, in pieces of so many characters."""
    yield ReplyStarted(reply.id, reply.origin.model if reply.origin else "")
    for index, block in enumerate(reply.blocks):
        match block:
            case Text() | Thinking():
                if block.opaque:
                    yield BlockStarted(index, replace(block, text=""))
                delta = TextDelta if isinstance(block, Text) else ThinkingDelta
                yield from (delta(index, part) for part in _cut(block.text, piece))
                yield BlockReady(index, block)
            case ToolCall():
                yield ToolCallStarted(index, block.id, block.name, block.freeform, block.namespace, block.opaque)
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
        self._begun = False
        self._number = -1
        self._open: tuple[int, Kind] | None = None  # the event's index and the kind of the open block
        self._pieces: list[str] = []
        self._states: dict[int, Text | Thinking] = {}  # what is known of texts, by index
        self._shown: set[int] = set()
        self._waiting: list[Event] = []

    def feed(self, event: Event) -> list[Step]:
        """The steps that an event becomes."""
        if not self._begun and not isinstance(event, ReplyStarted):
            self._begun = True
            return [Begin("", ""), *self.feed(event)]
        match event:
            case ReplyStarted():
                self._begun = True
                return [Begin(event.id, event.model)]
            case ReplyDone():
                return [*self._close(), Finish(event.reply)]
            case _ if self._open and self._open[1] == "call" and self._open[0] != event.index:
                self._waiting.append(event)
                return []
            case BlockStarted():
                self._states[event.index] = event.block
                return []
            case TextDelta():
                return self._piece(event.index, "text", event.text)
            case ThinkingDelta():
                return self._piece(event.index, "thinking", event.text)
            case ToolCallStarted():
                return self._call_started(event)
            case ToolCallDelta():
                return self._piece(event.index, "call", event.text) if self._open == (event.index, "call") else []
            case ToolCallReady():
                return self._ready(event.index, "call", event.call)
            case BlockReady(block=block):
                kind: Kind = "text" if isinstance(block, Text) else "thinking" if isinstance(block, Thinking) else "other"
                return self._ready(event.index, kind, block)

    def _call_started(self, event: ToolCallStarted) -> list[Step]:
        if not event.id:  # it gets one when it is ready, and comes whole
            return []
        head = ToolCall(event.id, event.name, None, None, event.freeform, event.namespace, event.opaque)
        return [*self._close(), self._start(event.index, "call", head)]

    def _piece(self, index: int, kind: Kind, text: str) -> list[Step]:
        steps = [] if self._open == (index, kind) else [*self._close(), self._start(index, kind, self._states.get(index))]
        self._pieces.append(text)
        return [*steps, Piece(self._number, kind, text)]

    def _ready(self, index: int, kind: Kind, block: Text | Thinking | Media | ToolCall | Foreign) -> list[Step]:
        steps: list[Step] = []
        if self._open != (index, kind):
            if index in self._shown:  # all of its text was said, in earlier blocks
                return []
            steps = [*self._close(), self._start(index, kind, _emptied(block))]
            if text := _text(block):
                self._pieces.append(text)
                steps.append(Piece(self._number, kind, text))
        steps += self._close(block)
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            steps += self.feed(event)
        return steps

    def _start(self, index: int, kind: Kind, block: Text | Thinking | Media | ToolCall | Foreign | None) -> Start:
        self._number += 1
        self._open, self._pieces = (index, kind), []
        self._shown.add(index)
        return Start(self._number, kind, block)

    def _close(self, block: Text | Thinking | Media | ToolCall | Foreign | None = None) -> list[Step]:
        if self._open is None:
            return []
        (index, kind), self._open = self._open, None
        said = "".join(self._pieces)
        if block is None:
            block = self._states.get(index) or (Text("") if kind == "text" else Thinking(""))
        if isinstance(block, Text | Thinking):
            block = replace(block, text=said)
        return [End(self._number, kind, bool(said), block)]


def _emptied(block: Text | Thinking | Media | ToolCall | Foreign) -> Text | Thinking | Media | ToolCall | Foreign:
    return replace(block, text="") if isinstance(block, Text | Thinking) else block


def _text(block: Text | Thinking | Media | ToolCall | Foreign) -> str:
    match block:
        case Text() | Thinking():
            return block.text
        case ToolCall():
            return block.raw or ""
        case _:
            return ""
