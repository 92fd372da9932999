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
from toolglot.messages import Block, Foreign, Media, Opaque, Origin, Reply, StopReason, Text, Thinking, ToolCall, ToolResult
from toolglot.providers.catalog import resolve_profile
from toolglot.wire.json_values import Doc
from toolglot.wire.writer import Writer

__all__ = [
    "BlockBegin",
    "BlockEnd",
    "BlockPiece",
    "EventSequencer",
    "ReplyBegin",
    "ReplyEncoder",
    "ReplyEnd",
    "ReplyStep",
    "is_refusal",
    "split_reply",
]

BlockKind = Literal["text", "thinking", "call", "other"]


class ReplyBegin(msgspec.Struct, frozen=True):
    """The answer begins."""

    id: str
    model: str


class BlockBegin(msgspec.Struct, frozen=True):
    """Block `number` begins."""

    number: int
    kind: BlockKind
    block: Text | Thinking | Media | ToolCall | Foreign | None = None
    """What is known of it already: a call's id and name, the state of a text, media and foreign content whole."""


class BlockPiece(msgspec.Struct, frozen=True):
    """More of the block that is open."""

    number: int
    kind: BlockKind
    text: str


class BlockEnd(msgspec.Struct, frozen=True):
    """The open block is whole: `block` is what its pieces were, with its state. A call of no pieces has its arguments here."""

    number: int
    kind: BlockKind
    has_pieces: bool
    """Whether there were pieces."""
    block: Text | Thinking | Media | ToolCall | Foreign


class ReplyEnd(msgspec.Struct, frozen=True):
    """The answer is whole."""

    reply: Reply


ReplyStep = ReplyBegin | BlockBegin | BlockPiece | BlockEnd | ReplyEnd


class ReplyEncoder(ABC):
    """Writes one answer of one wire: `body` for a whole reply, or `feed` for each event of a stream.

    `origin`: who made the reply; its opaque state is written only where that is this wire. `created`: seconds since 1970.
    """

    provider: ClassVar[str]
    stop_reasons: ClassVar[dict[StopReason, str]]
    """The wire's words for why a model stopped."""
    exact_stops: ClassVar[frozenset[StopReason]]
    """Those that a reader of the wire understands as they were meant."""

    def __init__(self, model: str = "", *, created: int = 0, origin: Origin | None = None) -> None:
        self.model = model
        self.id = ""
        self.created = created
        self.origin = origin
        self.writer = Writer(resolve_profile(self.provider, model), model)
        self.losses = self.writer.losses
        self._sequencer = EventSequencer()

    def encode_reply(self, reply: Reply) -> Doc:
        """A whole reply."""
        self.origin, self.id = reply.origin, reply.id
        self.model = self.model or (reply.origin.model if reply.origin else "")
        return self.build_body(reply)

    def feed(self, event: Event) -> bytes:
        """The bytes of the stream that an event becomes."""
        out: list[bytes] = []
        for step in self._sequencer.feed(event):
            if isinstance(step, ReplyBegin):
                self.id, self.model = step.id, step.model or self.model
            out += [self.encode_frame(doc) for doc in self.encode_step(step)]
        return b"".join(out)

    @abstractmethod
    def build_body(self, reply: Reply) -> Doc:
        """A whole reply."""

    @abstractmethod
    def encode_step(self, step: ReplyStep) -> Iterator[Doc]:
        """The documents of the stream that a step becomes."""

    @abstractmethod
    def encode_frame(self, doc: Doc) -> bytes:
        """A document as bytes of the stream."""

    def echo_opaque(self, block: Block | None) -> Opaque:
        """The opaque state of a block, where it is this wire's."""
        opaque = None if block is None or isinstance(block, Foreign) else block.opaque
        return self.writer.echo_opaque(opaque, self.origin, "reply")

    def echo_message_opaque(self, reply: Reply) -> Opaque:
        """The opaque state of the whole message, where it is this wire's."""
        return self.writer.echo_opaque(reply.opaque, reply.origin, "reply")

    def encode_stop(self, reply: Reply) -> str:
        """The wire's word for why the model stopped; a Loss where it has none."""
        word = self.stop_reasons[reply.stop]
        if reply.stop not in self.exact_stops and not (reply.stop == "refusal" and any(map(is_refusal, reply.blocks))):
            self.writer.record_loss(
                "stop", "reply", f"{self.writer.profile.title} has no word for {reply.stop!r}; sent as {word!r}"
            )
        return word

    def map_call_head(self, call: ToolCall) -> tuple[str, str]:
        """The id and the name of a call on the wire."""
        writer = self.writer
        return writer.map_call_id(call.id, "reply"), writer.map_tool_name(call.name, call.namespace, "reply")

    def is_unsupported(self, block: Block) -> bool:
        """Whether a block cannot be said in an answer of this wire: a Loss."""
        if isinstance(block, Foreign) and block.wire == self.writer.profile.wire:
            return False
        if isinstance(block, Foreign):
            self.writer.record_loss("content", "reply", f"only {block.wire} understands it")
        elif isinstance(block, Media) and not self.supports_media(block):
            self.writer.record_loss(block.kind, "reply", f"an answer of {self.writer.profile.title} has no place for it")
        else:
            return isinstance(block, ToolResult)
        return True

    def supports_media(self, media: Media) -> bool:
        """Whether an answer of this wire can hold such media."""
        return False


def is_refusal(block: Block) -> bool:
    """Whether a text was marked as a refusal, by either of OpenAI's wires."""
    return isinstance(block, Text) and bool((block.opaque or {}).get("refusal"))


def split_reply(reply: Reply, piece_size: int = 24) -> Iterator[Event]:
    """A whole reply as the events of a stream, in pieces of so many characters."""
    yield ReplyStarted(reply.id, reply.origin.model if reply.origin else "")
    for index, block in enumerate(reply.blocks):
        match block:
            case Text() | Thinking():
                if block.opaque:
                    yield BlockStarted(index, replace(block, text=""))
                delta = TextDelta if isinstance(block, Text) else ThinkingDelta
                yield from (delta(index, part) for part in _split_text(block.text, piece_size))
                yield BlockReady(index, block)
            case ToolCall():
                yield ToolCallStarted(index, block.id, block.name, block.freeform, block.namespace, block.opaque)
                yield from (ToolCallDelta(index, part) for part in _split_text(block.raw or "", piece_size))
                yield ToolCallReady(index, block)
            case Media() | Foreign():
                yield BlockReady(index, block)
            case _:
                pass
    yield ReplyDone(reply)


def _split_text(text: str, size: int) -> Iterable[str]:
    return (text[at : at + size] for at in range(0, len(text), size))


class EventSequencer:
    """Events, which may interleave, as blocks one after another: text goes on in a new block, a call holds the rest back."""

    def __init__(self) -> None:
        self._has_begun = False
        self._number = -1
        self._open: tuple[int, BlockKind] | None = None  # the event's index and the kind of the open block
        self._pieces: list[str] = []
        self._states: dict[int, Text | Thinking] = {}  # what is known of texts, by index
        self._started_indexes: set[int] = set()
        self._held_events: list[Event] = []

    def feed(self, event: Event) -> list[ReplyStep]:
        """The steps that an event becomes."""
        if not self._has_begun and not isinstance(event, ReplyStarted):
            self._has_begun = True
            return [ReplyBegin("", ""), *self.feed(event)]
        match event:
            case ReplyStarted():
                self._has_begun = True
                return [ReplyBegin(event.id, event.model)]
            case ReplyDone():
                return [*self._close_block(), ReplyEnd(event.reply)]
            case _ if self._open and self._open[1] == "call" and self._open[0] != event.index:
                self._held_events.append(event)
                return []
            case BlockStarted():
                self._states[event.index] = event.block
                return []
            case TextDelta():
                return self._add_piece(event.index, "text", event.text)
            case ThinkingDelta():
                return self._add_piece(event.index, "thinking", event.text)
            case ToolCallStarted():
                return self._start_call(event)
            case ToolCallDelta():
                return self._add_piece(event.index, "call", event.text) if self._open == (event.index, "call") else []
            case ToolCallReady():
                return self._finish_block(event.index, "call", event.call)
            case BlockReady(block=block):
                kind: BlockKind = "text" if isinstance(block, Text) else "thinking" if isinstance(block, Thinking) else "other"
                return self._finish_block(event.index, kind, block)

    def _start_call(self, event: ToolCallStarted) -> list[ReplyStep]:
        if not event.id:  # it gets one when it is ready, and comes whole
            return []
        head = ToolCall(event.id, event.name, None, None, event.freeform, event.namespace, event.opaque)
        return [*self._close_block(), self._open_block(event.index, "call", head)]

    def _add_piece(self, index: int, kind: BlockKind, text: str) -> list[ReplyStep]:
        steps = (
            []
            if self._open == (index, kind)
            else [*self._close_block(), self._open_block(index, kind, self._states.get(index))]
        )
        self._pieces.append(text)
        return [*steps, BlockPiece(self._number, kind, text)]

    def _finish_block(
        self, index: int, kind: BlockKind, block: Text | Thinking | Media | ToolCall | Foreign
    ) -> list[ReplyStep]:
        steps: list[ReplyStep] = []
        if self._open != (index, kind):
            if index in self._started_indexes:  # all of its text was said, in earlier blocks
                return []
            steps = [*self._close_block(), self._open_block(index, kind, _without_text(block))]
            if text := _block_text(block):
                self._pieces.append(text)
                steps.append(BlockPiece(self._number, kind, text))
        steps += self._close_block(block)
        waiting, self._held_events = self._held_events, []
        for event in waiting:
            steps += self.feed(event)
        return steps

    def _open_block(
        self, index: int, kind: BlockKind, block: Text | Thinking | Media | ToolCall | Foreign | None
    ) -> BlockBegin:
        self._number += 1
        self._open, self._pieces = (index, kind), []
        self._started_indexes.add(index)
        return BlockBegin(self._number, kind, block)

    def _close_block(self, block: Text | Thinking | Media | ToolCall | Foreign | None = None) -> list[ReplyStep]:
        if self._open is None:
            return []
        (index, kind), self._open = self._open, None
        said = "".join(self._pieces)
        if block is None:
            block = self._states.get(index) or (Text("") if kind == "text" else Thinking(""))
        if isinstance(block, Text | Thinking):
            block = replace(block, text=said)
        return [BlockEnd(self._number, kind, bool(said), block)]


def _without_text(block: Text | Thinking | Media | ToolCall | Foreign) -> Text | Thinking | Media | ToolCall | Foreign:
    return replace(block, text="") if isinstance(block, Text | Thinking) else block


def _block_text(block: Text | Thinking | Media | ToolCall | Foreign) -> str:
    match block:
        case Text() | Thinking():
            return block.text
        case ToolCall():
            return block.raw or ""
        case _:
            return ""
