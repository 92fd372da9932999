"""Encodes replies as a provider would send them: for the simulator and for replay.

`split_reply` splits a whole reply into events. `EventSequencer` turns any events into blocks that come one
after another, as most wires require. A wire's `reply_encode` module writes those blocks as its own frames.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import ClassVar

from msgspec.structs import replace

from toolglot.providers.catalog import resolve_profile
from toolglot.values import events
from toolglot.values.events import Event
from toolglot.values.messages import (
    Block,
    Foreign,
    Media,
    Opaque,
    Origin,
    Reply,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolsChanged,
)
from toolglot.wire.framing import encode_sse
from toolglot.wire.json_values import Doc
from toolglot.wire.tracker import ReplyBlock
from toolglot.wire.writer import Writer


class ReplyEncoder(ABC):
    """Encodes one reply of one wire: `encode_reply` for a whole one, or `feed` for each event of a stream.

    `origin` is where the reply comes from; its opaque state is written only on the same wire. `created` is a
    Unix time.
    """

    provider: ClassVar[str]
    stop_reasons: ClassVar[dict[StopReason, str]]
    """The stop reasons for which the wire has a name that is read back as the same reason. Any other is a
    Loss."""
    similar_stops: ClassVar[dict[StopReason, str]] = {}
    """What is sent for other stop reasons; for one that is not here either, the name of "end"."""

    def __init__(self, model: str = "", *, created: int = 0, origin: Origin | None = None) -> None:
        self.model = model
        self.id = ""
        self.created = created
        self.request_body: Doc = {}
        """The request's body, for wires whose replies repeat parts of it."""
        self.writer = Writer(resolve_profile(self.provider, model), model)
        self.writer.enter("reply", origin)
        self.losses = self.writer.losses
        self._sequencer = EventSequencer(self)

    def encode_reply(self, reply: Reply) -> Doc:
        """Encode a whole reply."""
        self.id = reply.id
        self.writer.enter("reply", reply.origin)
        self.model = self.model or (reply.origin.model if reply.origin else "")
        return self.build_body(reply)

    def feed(self, event: Event) -> bytes:
        """Return the bytes of the stream for an event."""
        return b"".join(map(self.encode_frame, self._sequencer.feed(event)))

    @abstractmethod
    def build_body(self, reply: Reply) -> Doc:
        """Build the document of a whole reply."""

    def encode_frame(self, doc: Doc) -> bytes:
        """Encode a document as bytes of the stream."""
        return encode_sse(doc, doc.get("type", ""))

    # ---- the documents of a stream, in the order of these methods

    def begin_reply(self) -> Iterable[Doc]:
        """Begin the reply: its id and model are known."""
        return ()

    def begin_block(self, block: ReplyBlock) -> Iterable[Doc]:
        """Begin a block with what is already known: a text without its text, a call without arguments,
        anything else whole.
        """
        return ()

    def add_piece(self, block: ReplyBlock, text: str) -> Iterable[Doc]:
        """Add text to the block that has begun, or arguments to the call."""
        return ()

    def end_block(self, block: ReplyBlock, has_pieces: bool) -> Iterable[Doc]:
        """End a block, which is now complete. A call without pieces has its arguments only here."""
        return ()

    @abstractmethod
    def end_reply(self, reply: Reply) -> Iterable[Doc]:
        """End the reply."""

    # ---- shared by the wires

    def echo_opaque(self, block: Block) -> Opaque:
        """Return the opaque state of a block if it belongs to this wire."""
        opaque = None if isinstance(block, Foreign) else block.opaque
        return self.writer.echo_opaque(opaque)

    def encode_stop(self, reply: Reply) -> str:
        """Return the wire's stop reason, with a Loss if it has no exact one."""
        if reply.stop in self.stop_reasons:
            return self.stop_reasons[reply.stop]
        reason = self.similar_stops.get(reply.stop, self.stop_reasons["end"])
        is_shown_by_text = reply.stop == "refusal" and any(map(is_refusal, reply.blocks))
        if not is_shown_by_text:
            title = self.writer.profile.title
            self.writer.record_loss("stop", f"{title} has no stop reason {reply.stop!r}; sent as {reason!r}")
        return reason

    def map_call_head(self, call: ToolCall) -> tuple[str, str]:
        """Return the id and the name of a call on the wire."""
        return self.writer.map_call_id(call.id), self.writer.map_tool_name(call.name, call.namespace)

    def reject_unsupported(self, block: Block) -> bool:
        """Record the Loss of a block that a reply of this wire cannot contain.

        Return whether it is one: leave it out.
        """
        if isinstance(block, Foreign) and block.wire != self.writer.profile.wire:
            self.writer.record_loss("content", f"only {block.wire} understands it")
            return True
        if isinstance(block, ToolsChanged) and not (block.opaque and self.writer.is_own):
            self.writer.record_loss("a search for tools", f"{self.writer.profile.title} did not run it")
            return True
        if isinstance(block, Media) and not self.supports_media(block):
            self.writer.record_loss(block.kind, f"a reply of {self.writer.profile.title} cannot contain it")
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

    model = reply.origin.model if reply.origin else ""
    yield events.ReplyStarted(reply.id, model)
    for index, block in enumerate(reply.blocks):
        match block:
            case Text() | Thinking():
                if block.opaque:
                    yield events.BlockStarted(index, replace(block, text=""))
                delta = events.TextDelta if isinstance(block, Text) else events.ThinkingDelta
                yield from (delta(index, piece) for piece in split(block.text))
                yield events.BlockReady(index, block)
            case ToolCall():
                yield events.ToolCallStarted(
                    index, block.id, block.name, block.freeform, block.namespace, block.opaque
                )
                yield from (events.ToolCallDelta(index, piece) for piece in split(block.raw or ""))
                yield events.ToolCallReady(index, block)
            case Media() | ToolsChanged() | Foreign():
                yield events.BlockReady(index, block)
            case ToolResult():
                pass
    yield events.ReplyDone(reply)


class EventSequencer:
    """Gives an encoder one block after another, whatever the order of events.

    Text that is interrupted continues in a new block; a call holds other blocks back until it is ready.
    """

    def __init__(self, encoder: ReplyEncoder) -> None:
        self._encoder = encoder
        self._has_begun = False
        # index of the open block in the events, and what it began with
        self._open: tuple[int, ReplyBlock] | None = None
        self._pieces: list[str] = []
        # by index: texts without their text, but with opaque state
        self._announced_texts: dict[int, Text | Thinking] = {}
        self._started_indexes: set[int] = set()
        self._held_events: list[Event] = []

    def feed(self, event: Event) -> Iterator[Doc]:
        """Return the encoder's documents for an event."""
        if not self._has_begun:
            self._has_begun = True
            if isinstance(event, events.ReplyStarted):
                self._encoder.id = event.id
                self._encoder.model = event.model or self._encoder.model
            yield from self._encoder.begin_reply()
        match event:
            case events.ReplyDone(reply=reply):
                yield from self._close_block()
                yield from self._encoder.end_reply(reply)
            case events.ReplyStarted():
                pass
            case _ if self._is_held_back(event.index):
                self._held_events.append(event)
            case events.BlockStarted(index=index, block=block):
                self._announced_texts[index] = block
            case events.TextDelta(index=index, text=text) | events.ThinkingDelta(index=index, text=text):
                kind = Text if isinstance(event, events.TextDelta) else Thinking
                yield from self._add_piece(index, kind, text)
            case events.ToolCallStarted(index=index, id=id):
                if id:  # a call without an id gets one when it is ready, and is sent complete
                    head = ToolCall(id, event.name, None, None, event.freeform, event.namespace, event.opaque)
                    yield from self._open_block(index, head)
            case events.ToolCallDelta(index=index, text=text):
                yield from self._add_piece(index, ToolCall, text)
            case events.ToolCallReady(index=index, call=block) | events.BlockReady(index=index, block=block):
                yield from self._finish_block(index, block)

    def _is_open(self, index: int, kind: type[ReplyBlock]) -> bool:
        if self._open is None or self._open[0] != index:
            return False
        return isinstance(self._open[1], kind)

    def _open_block(self, index: int, block: ReplyBlock) -> Iterator[Doc]:
        yield from self._close_block()
        self._open = (index, block)
        self._pieces = []
        self._started_indexes.add(index)
        yield from self._encoder.begin_block(block)

    def _is_held_back(self, index: int) -> bool:
        """Return whether a block must wait, because the call of another one is open."""
        if self._open is None or self._open[0] == index:
            return False
        return isinstance(self._open[1], ToolCall)

    def _add_piece(self, index: int, kind: type[ReplyBlock], text: str) -> Iterator[Doc]:
        if kind is not ToolCall and not self._is_open(index, kind):
            head = self._announced_texts.get(index)
            if head is None:
                head = Text("") if kind is Text else Thinking("")
            yield from self._open_block(index, head)
        if self._open and self._open[0] == index:
            self._pieces.append(text)
            yield from self._encoder.add_piece(self._open[1], text)

    def _finish_block(self, index: int, block: ReplyBlock) -> Iterator[Doc]:
        """End a block that is ready, then send what it held back."""
        if not self._is_open(index, type(block)):
            if index in self._started_indexes:  # all of its text was sent in earlier blocks
                return
            yield from self._open_whole_block(index, block)
        yield from self._close_block(block)
        held_events = self._held_events
        self._held_events = []
        for event in held_events:
            yield from self.feed(event)

    def _open_whole_block(self, index: int, block: ReplyBlock) -> Iterator[Doc]:
        """Open a block of which nothing was sent yet, with all of its text or arguments as one piece."""
        head = block
        text = None
        if isinstance(block, Text | Thinking):
            head = replace(block, text="")
            text = block.text
        elif isinstance(block, ToolCall):
            text = block.raw
        yield from self._open_block(index, head)
        if text:
            yield from self._add_piece(index, type(block), text)

    def _close_block(self, block: ReplyBlock | None = None) -> Iterator[Doc]:
        """End the open block. `block`: it as a whole, if it is ready and not only interrupted.

        A text that was interrupted becomes several blocks on the wire: each ends with only those pieces that
        were sent in it.
        """
        if self._open is None:
            return
        _, head = self._open
        self._open = None
        block = block or head
        text = "".join(self._pieces)
        if isinstance(block, Text | Thinking):
            block = replace(block, text=text)
        yield from self._encoder.end_block(block, bool(text))
