"""Encodes replies as a provider would send them: for the simulator and for replay.

`split_reply` splits a whole reply into events. `EventSequencer` turns any events into blocks that come one after another, as
most wires require. A wire's `reply_encode` module writes those steps as its own frames.
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

__all__ = ["BlockBegin", "BlockEnd", "BlockPiece", "EventSequencer", "ReplyBegin", "ReplyEncoder", "ReplyEnd", "split_reply"]

BlockKind = Literal["text", "thinking", "call", "other"]
ReplyBlock = Text | Thinking | Media | ToolCall | Foreign


class ReplyBegin(msgspec.Struct, frozen=True):
    """The reply begins."""

    id: str
    model: str


class BlockBegin(msgspec.Struct, frozen=True):
    """A block begins."""

    number: int
    kind: BlockKind
    block: ReplyBlock | None = None
    """What is already known: a call's id and name, the state of a text; media and foreign content are complete."""


class BlockPiece(msgspec.Struct, frozen=True):
    """Adds text to the open block."""

    number: int
    kind: BlockKind
    text: str


class BlockEnd(msgspec.Struct, frozen=True):
    """The open block is complete. `block` joins its pieces; a call without pieces has its arguments only here."""

    number: int
    kind: BlockKind
    has_pieces: bool
    block: ReplyBlock


class ReplyEnd(msgspec.Struct, frozen=True):
    """The reply is complete."""

    reply: Reply


ReplyStep = ReplyBegin | BlockBegin | BlockPiece | BlockEnd | ReplyEnd


class ReplyEncoder(ABC):
    """Encodes one reply of one wire: `encode_reply` for a whole one, or `feed` for each event of a stream.

    `origin` is where the reply comes from; its opaque state is written only on the same wire. `created` is a Unix time.
    """

    provider: ClassVar[str]
    stop_reasons: ClassVar[dict[StopReason, str]]
    """The wire's name of each stop reason."""
    exact_stops: ClassVar[frozenset[StopReason]]
    """The stop reasons that survive the round trip; any other is a Loss."""

    def __init__(self, model: str = "", *, created: int = 0, origin: Origin | None = None) -> None:
        self.model = model
        self.id = ""
        self.created = created
        self.origin = origin
        self.writer = Writer(resolve_profile(self.provider, model), model)
        self.losses = self.writer.losses
        self._sequencer = EventSequencer()

    def encode_reply(self, reply: Reply) -> Doc:
        """Encode a whole reply."""
        self.origin, self.id = reply.origin, reply.id
        self.model = self.model or (reply.origin.model if reply.origin else "")
        return self.build_body(reply)

    def feed(self, event: Event) -> bytes:
        """Return the bytes of the stream for an event."""
        frames: list[bytes] = []
        for step in self._sequencer.feed(event):
            if isinstance(step, ReplyBegin):
                self.id, self.model = step.id, step.model or self.model
            frames += [self.encode_frame(doc) for doc in self.encode_step(step)]
        return b"".join(frames)

    @abstractmethod
    def build_body(self, reply: Reply) -> Doc:
        """Build the document of a whole reply."""

    @abstractmethod
    def encode_step(self, step: ReplyStep) -> Iterator[Doc]:
        """Return the documents of the stream for a step."""

    @abstractmethod
    def encode_frame(self, doc: Doc) -> bytes:
        """Encode a document as bytes of the stream."""

    def echo_opaque(self, block: Block | None) -> Opaque:
        """Return the opaque state of a block if it belongs to this wire."""
        opaque = None if block is None or isinstance(block, Foreign) else block.opaque
        return self.writer.echo_opaque(opaque, self.origin, "reply")

    def echo_message_opaque(self, reply: Reply) -> Opaque:
        """Return the opaque state of the whole message if it belongs to this wire."""
        return self.writer.echo_opaque(reply.opaque, reply.origin, "reply")

    def encode_stop(self, reply: Reply) -> str:
        """Return the wire's stop reason, with a Loss if it has no exact one."""
        reason = self.stop_reasons[reply.stop]
        if reply.stop not in self.exact_stops and not (reply.stop == "refusal" and any(map(is_refusal, reply.blocks))):
            title = self.writer.profile.title
            self.writer.record_loss("stop", "reply", f"{title} has no stop reason {reply.stop!r}; sent as {reason!r}")
        return reason

    def map_call_head(self, call: ToolCall) -> tuple[str, str]:
        """Return the id and the name of a call on the wire."""
        writer = self.writer
        return writer.map_call_id(call.id, "reply"), writer.map_tool_name(call.name, call.namespace, "reply")

    def is_unsupported(self, block: Block) -> bool:
        """Return whether a reply of this wire cannot contain the block, and record the Loss."""
        if isinstance(block, Foreign) and block.wire != self.writer.profile.wire:
            self.writer.record_loss("content", "reply", f"only {block.wire} understands it")
            return True
        if isinstance(block, Media) and not self.supports_media(block):
            self.writer.record_loss(block.kind, "reply", f"a reply of {self.writer.profile.title} cannot contain it")
            return True
        return isinstance(block, ToolResult)

    def supports_media(self, media: Media) -> bool:
        """Return whether a reply of this wire can contain such media."""
        return False


def is_refusal(block: Block) -> bool:
    """Return whether a text is marked as a refusal, as both of OpenAI's wires do."""
    return isinstance(block, Text) and bool((block.opaque or {}).get("refusal"))


def split_reply(reply: Reply, piece_size: int = 24) -> Iterator[Event]:
    """Split a whole reply into the events of a stream, with pieces of `piece_size` characters."""

    def split(text: str) -> Iterable[str]:
        return (text[at : at + piece_size] for at in range(0, len(text), piece_size))

    yield ReplyStarted(reply.id, reply.origin.model if reply.origin else "")
    for index, block in enumerate(reply.blocks):
        match block:
            case Text() | Thinking():
                if block.opaque:
                    yield BlockStarted(index, replace(block, text=""))
                delta = TextDelta if isinstance(block, Text) else ThinkingDelta
                yield from (delta(index, piece) for piece in split(block.text))
                yield BlockReady(index, block)
            case ToolCall():
                yield ToolCallStarted(index, block.id, block.name, block.freeform, block.namespace, block.opaque)
                yield from (ToolCallDelta(index, piece) for piece in split(block.raw or ""))
                yield ToolCallReady(index, block)
            case Media() | Foreign():
                yield BlockReady(index, block)
            case _:
                pass
    yield ReplyDone(reply)


class EventSequencer:
    """Turns events, which may interleave, into consecutive blocks. Text continues in a new block; a call holds others back."""

    def __init__(self) -> None:
        self._has_begun = False
        self._number = -1
        self._open: tuple[int, BlockKind] | None = None  # index of the event and kind of the open block
        self._pieces: list[str] = []
        self._states: dict[int, Text | Thinking] = {}  # what is known of texts, by index
        self._started_indexes: set[int] = set()
        self._held_events: list[Event] = []

    def feed(self, event: Event) -> list[ReplyStep]:
        """Return the steps for an event."""
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
            case TextDelta() | ThinkingDelta():
                return self._add_piece(event.index, "text" if isinstance(event, TextDelta) else "thinking", event.text)
            case ToolCallStarted():
                # A call without an id gets one when it is ready, and is sent complete.
                head = ToolCall(event.id, event.name, None, None, event.freeform, event.namespace, event.opaque)
                return [*self._close_block(), self._open_block(event.index, "call", head)] if event.id else []
            case ToolCallDelta():
                return self._add_piece(event.index, "call", event.text) if self._open == (event.index, "call") else []
            case ToolCallReady():
                return self._finish_block(event.index, "call", event.call)
            case BlockReady(block=block):
                kind: BlockKind = "text" if isinstance(block, Text) else "thinking" if isinstance(block, Thinking) else "other"
                return self._finish_block(event.index, kind, block)

    def _add_piece(self, index: int, kind: BlockKind, text: str) -> list[ReplyStep]:
        steps: list[ReplyStep] = []
        if self._open != (index, kind):
            steps = [*self._close_block(), self._open_block(index, kind, self._states.get(index))]
        self._pieces.append(text)
        return [*steps, BlockPiece(self._number, kind, text)]

    def _finish_block(self, index: int, kind: BlockKind, block: ReplyBlock) -> list[ReplyStep]:
        steps: list[ReplyStep] = []
        if self._open != (index, kind):
            if index in self._started_indexes:  # all of its text was sent in earlier blocks
                return []
            head = replace(block, text="") if isinstance(block, Text | Thinking) else block
            steps = [*self._close_block(), self._open_block(index, kind, head)]
            if isinstance(block, Text | Thinking | ToolCall):
                text = (block.raw or "") if isinstance(block, ToolCall) else block.text
                if text:
                    self._pieces.append(text)
                    steps.append(BlockPiece(self._number, kind, text))
        steps += self._close_block(block)
        held_events, self._held_events = self._held_events, []
        for event in held_events:
            steps += self.feed(event)
        return steps

    def _open_block(self, index: int, kind: BlockKind, block: ReplyBlock | None) -> BlockBegin:
        self._number += 1
        self._open, self._pieces = (index, kind), []
        self._started_indexes.add(index)
        return BlockBegin(self._number, kind, block)

    def _close_block(self, block: ReplyBlock | None = None) -> list[ReplyStep]:
        if self._open is None:
            return []
        (index, kind), self._open = self._open, None
        text = "".join(self._pieces)
        if block is None:
            block = self._states.get(index) or (Text("") if kind == "text" else Thinking(""))
        if isinstance(block, Text | Thinking):
            block = replace(block, text=text)
        return [BlockEnd(self._number, kind, bool(text), block)]
