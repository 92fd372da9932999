"""The only assembler: pieces of a streamed or whole reply become events and, at the end, a Reply.

A wire's decoder says what it saw, in a few words: `text`, `thinking`, `call` and `arguments`, `block`, `note`, `close`, `used`,
`stop`. Blocks are named by a slot of the decoder's choice (a block index, an output index, "content") and keep the order in
which they first appeared.

Rules of tool calls that hold for all wires (facts/PROVIDERS §19):
- a name is set once and never concatenated; it may be corrected while there are no arguments yet;
- an index is never trusted alone: an id of its own makes a new call;
- "", null and missing arguments mean {}; text that is not a JSON object stays text.
"""

from collections.abc import Hashable
from hashlib import sha256
from typing import Any, cast

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
from toolglot.jsontext import dumps_text, loads
from toolglot.losses import Loss
from toolglot.messages import Block, Foreign, Media, Opaque, Origin, Reply, Stop, Text, Thinking, ToolCall, Usage

__all__ = ["ToolCallTracker", "call_of", "parsed"]

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class _Slot:
    __slots__ = (
        *("block", "freeform", "id", "index", "kind", "name", "namespace", "opaque", "pieces", "place", "started", "value"),
    )

    def __init__(self, index: int, kind: str) -> None:
        self.index = index
        self.kind = kind
        self.pieces: list[str] = []
        self.opaque: Opaque | None = None
        self.block: Block | None = None  # set when the slot is closed
        self.id = self.name = self.namespace = ""
        self.freeform = self.started = False
        self.value: Any = None  # arguments that came as a value, not as text
        self.place: object = None  # the index that an OpenAI-style delta gave


class ToolCallTracker:
    """Assembles one reply. `events` holds what happened since `drain` was last called."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.events: list[Event] = []
        self.losses: list[Loss] = []
        self.usage = Usage()
        self.opaque: Opaque | None = None  # of the whole message
        self.reason: Stop | None = None
        self._id = ""
        self._slots: dict[Hashable, _Slot] = {}

    # ---- what a decoder says

    def begin(self, id: str, model: str) -> None:
        """The reply has an id and a model; only the first time counts."""
        if not self._id and (id or model):
            self._id = id or model
            self.origin = Origin(self.origin.wire, self.origin.profile, model or self.origin.model)
            self.events.append(ReplyStarted(id, model))

    def text(self, slot: Hashable, text: str) -> None:
        """More visible text."""
        found = self._slots.get(slot) or self._open(slot, "text")
        found.pieces.append(text)
        self.events.append(TextDelta(found.index, text))

    def thinking(self, slot: Hashable, text: str) -> None:
        """More reasoning."""
        found = self._slots.get(slot) or self._open(slot, "thinking")
        found.pieces.append(text)
        self.events.append(ThinkingDelta(found.index, text))

    def arguments(self, slot: Hashable, text: str) -> None:
        """More of a call's arguments."""
        found = self._slots.get(slot) or self._open(slot, "call")
        if found.block is None:
            found.pieces.append(text)
            self.events.append(ToolCallDelta(found.index, text))

    def call(
        self,
        slot: Hashable,
        id: object = None,
        name: object = None,
        value: Any = None,
        *,
        freeform: bool = False,
        namespace: object = None,
    ) -> None:
        """A call, or more about it. `value`: arguments that came at once, as text or as a JSON value."""
        found = self._slots.get(slot) or self._open(slot, "call")
        if found.block is not None:
            return
        if isinstance(id, str) and id and not found.id:
            found.id = id
        if isinstance(name, str) and name and name != found.name and not (found.pieces and found.name):
            found.name = name
        found.freeform = found.freeform or freeform
        if isinstance(namespace, str):
            found.namespace = namespace
        if found.name and not found.started:
            found.started = True
            self.events.append(ToolCallStarted(found.index, found.id, found.name, found.freeform, found.opaque))
        if isinstance(value, str):
            if value:
                found.pieces.append(value)
                self.events.append(ToolCallDelta(found.index, value))
        elif value is not None:
            found.value = value

    def call_slot(self, index: object, id: object, name: object) -> Hashable:
        """The slot of an OpenAI-style delta, which may lack an index, repeat one, or lack an id (facts/PROVIDERS §19)."""
        id = id if isinstance(id, str) else ""
        calls = [(slot, found) for slot, found in self._slots.items() if found.kind == "call"]
        if index is not None:
            for slot, found in reversed(calls):
                if found.place == index and (not id or found.id in (id, "")):
                    return slot
        if id and (index is None or not name):  # a continuation that is known by its id only
            for slot, found in calls:
                if found.id == id:
                    return slot
        if index is None and not id and not name and calls:
            return calls[-1][0]
        slot = ("call", len(calls))
        self._open(slot, "call").place = index
        return slot

    def reserve(self, slot: Hashable) -> None:
        """A block begins here; what it is, `block` will say."""
        if slot not in self._slots:
            self._open(slot, "block")

    def block(self, slot: Hashable, block: Text | Thinking | Media | ToolCall | Foreign) -> None:
        """A block that came whole, or the provider's last word on one that came in pieces."""
        found = self._slots.get(slot) or self._open(slot, "block")
        if found.block is not None:
            return
        found.block = block
        if isinstance(block, ToolCall):
            if not found.started:
                self.events.append(ToolCallStarted(found.index, block.id, block.name, block.freeform, block.opaque))
            if not found.pieces and block.raw:
                self.events.append(ToolCallDelta(found.index, block.raw))
            self.events.append(ToolCallReady(found.index, block))
            return
        if isinstance(block, Text | Thinking) and block.text and not found.pieces:
            delta = TextDelta if isinstance(block, Text) else ThinkingDelta
            self.events.append(delta(found.index, block.text))
        self.events.append(BlockReady(found.index, block))

    def note(self, slot: Hashable, kind: str, opaque: Opaque) -> None:
        """Opaque state of a block; later fields win."""
        found = self._slots.get(slot) or self._open(slot, kind)
        if opaque:
            found.opaque = {**(found.opaque or {}), **opaque}

    def noted(self, slot: Hashable) -> Opaque:
        """The opaque state of a block so far."""
        found = self._slots.get(slot)
        return (found and found.opaque) or {}

    def note_message(self, opaque: Opaque) -> None:
        """Opaque state of the whole message; later fields win."""
        self.opaque = {**(self.opaque or {}), **opaque}

    def has(self, slot: Hashable) -> bool:
        """Whether anything came for a slot."""
        return slot in self._slots

    def close(self, slot: Hashable) -> None:
        """A block is whole."""
        found = self._slots.get(slot)
        if found is None or found.block is not None:
            return
        text = "".join(found.pieces)
        found.pieces = [text]
        match found.kind:
            case "call":
                id = found.id or self._made_up_id(found, text)
                value = found.value if found.value is not None else text
                call = call_of(id, found.name, value, freeform=found.freeform, namespace=found.namespace, opaque=found.opaque)
                if not found.started:
                    self.events.append(ToolCallStarted(found.index, id, found.name, found.freeform, found.opaque))
                found.block = call
                self.events.append(ToolCallReady(found.index, call))
            case "thinking":
                found.block = Thinking(text, found.opaque)
                self.events.append(BlockReady(found.index, found.block))
            case _:
                found.block = Text(text, found.opaque)
                self.events.append(BlockReady(found.index, found.block))

    def used(self, usage: Usage) -> None:
        """What it cost so far; the last word counts."""
        self.usage = usage

    def stop(self, reason: Stop) -> None:
        """Why the model stopped; the last word counts."""
        self.reason = reason

    # ---- what a reader takes

    def drain(self) -> list[Event]:
        """The events since the last call."""
        events, self.events = self.events, []
        return events

    def finish(self) -> Reply:
        """Closes what is open; the reply is whole."""
        for slot in self._slots:
            self.close(slot)
        blocks = tuple(cast(Block, found.block) for found in self._slots.values() if not _is_void(found))
        reason = self.reason or "end"
        has_calls = any(isinstance(block, ToolCall) for block in blocks)
        if reason == "end" and has_calls:  # finish reasons lie: the presence of calls decides
            reason = "tools"
        elif reason == "tools" and not has_calls:
            reason = "end"
        reply = Reply(blocks, reason, self.usage, self.origin, self._id, self.opaque)
        self.events.append(ReplyDone(reply))
        return reply

    def _open(self, slot: Hashable, kind: str) -> _Slot:
        found = self._slots[slot] = _Slot(len(self._slots), kind)
        return found

    def _made_up_id(self, slot: _Slot, text: str) -> str:
        """An id for a call that has none: nine letters and digits, which all accept, the same for the same bytes."""
        seed = f"{self._id}\0{slot.index}\0{slot.name}\0{text}\0{slot.value!r}"
        number = int.from_bytes(sha256(seed.encode("utf-8", "surrogatepass")).digest()[:8], "big")
        digits = ""
        for _ in range(9):
            number, digit = divmod(number, len(_ALPHABET))
            digits += _ALPHABET[digit]
        return digits


def _is_void(slot: _Slot) -> bool:
    """Empty text without state says nothing: providers send it as padding."""
    return isinstance(slot.block, Text | Thinking) and not slot.block.text and not slot.block.opaque


def parsed(text: str) -> dict[str, Any] | None:
    """Arguments as a JSON object; None where they are not one."""
    if not text.strip():
        return {}
    try:
        value = loads(text)
    except ValueError:
        return None
    if value is None:
        return {}
    return cast(dict[str, Any], value) if isinstance(value, dict) else None


def call_of(
    id: str,
    name: str,
    value: Any,
    *,
    freeform: bool = False,
    namespace: str = "",
    opaque: Opaque | None = None,
) -> ToolCall:
    """A call from its arguments as a wire holds them: text, an object, or nothing."""
    raw: str | None = None
    arguments: dict[str, Any] | None = None
    if isinstance(value, str):
        raw = value
        arguments = None if freeform else parsed(value)
    elif value is None:
        arguments = {}
    elif isinstance(value, dict):
        arguments = cast(dict[str, Any], value)
    else:
        raw = dumps_text(value)
    return ToolCall(id, name, arguments, raw, freeform, namespace, opaque)
