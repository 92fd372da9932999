"""The only assembler: pieces of a streamed or whole reply become events and, at the end, a Reply.

A wire's decoder says what it saw, in a few words: `text`, `thinking`, `call` and `arguments`, `block`, `note`, `close`, `used`,
`stop`. Blocks are named by a slot of the decoder's choice (a block index, an output index, "content") and keep the order in
which they first appeared.

Rules of tool calls that hold for all wires, each seen broken in the field:
- a name is set once and never concatenated; it may be corrected while there are no arguments yet;
- an index is never trusted alone: an id of its own makes a new call;
- "", null and missing arguments mean {}; text that is not a JSON object stays text.
"""

from collections.abc import Hashable
from typing import Any, cast

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
from toolglot.jsontext import dumps_text, loads
from toolglot.losses import Loss
from toolglot.messages import Block, Foreign, Media, Opaque, Origin, Reply, StopReason, Text, Thinking, ToolCall, Usage
from toolglot.wire.ids import hash_id

__all__ = ["ToolCallTracker", "make_call", "parse_arguments"]


class _SlotState:
    __slots__ = (
        *("block", "freeform", "id", "index", "kind", "name", "namespace", "opaque", "pieces", "place", "started", "value"),
    )

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.index = -1  # the place in the reply, once there is anything to show
        self.pieces: list[str] = []
        self.opaque: Opaque | None = None
        self.block: Block | None = None  # set when the slot is closed
        self.id = self.name = self.namespace = ""
        self.freeform = self.started = False
        self.value: Any = None  # arguments that came as a value, not as text
        self.place: Hashable = None  # the index that an OpenAI-style delta gave


class ToolCallTracker:
    """Assembles one reply. `events` holds what happened since `drain` was last called."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.events: list[Event] = []
        self.losses: list[Loss] = []
        self.usage = Usage()
        self.opaque: Opaque | None = None  # of the whole message
        self.stop_reason: StopReason | None = None
        self._id = ""
        self._is_announced = self._has_model = False
        self._slots: dict[Hashable, _SlotState] = {}
        self._ordered_slots: list[_SlotState] = []  # in the order of the reply
        self._last_call: Hashable = None
        self._slot_by_index: dict[Hashable, Hashable] = {}  # an OpenAI-style index -> its latest slot
        self._slot_by_id: dict[str, Hashable] = {}

    # ---- what a decoder says

    def begin(self, id: str, model: str) -> None:
        """The reply's id and model, as soon as they are known; each counts once."""
        self._id = self._id or id
        if model and not self._has_model:
            self._has_model = True
            self.origin = Origin(self.origin.wire, self.origin.profile, model)
        if (id or model) and not self._is_announced:
            self._is_announced = True
            if not self._ordered_slots:
                self.events.append(ReplyStarted(id, model))

    def add_text(self, slot: Hashable, text: str) -> None:
        """More visible text."""
        found = self._slots.get(slot) or self._open_slot(slot, "text")
        if text:
            if found.index < 0:
                self._assign_index(found)
            found.pieces.append(text)
            self.events.append(TextDelta(found.index, text))

    def add_thinking(self, slot: Hashable, text: str) -> None:
        """More reasoning."""
        found = self._slots.get(slot) or self._open_slot(slot, "thinking")
        if text:
            if found.index < 0:
                self._assign_index(found)
            found.pieces.append(text)
            self.events.append(ThinkingDelta(found.index, text))

    def add_arguments(self, slot: Hashable, text: str) -> None:
        """More of a call's arguments."""
        found = self._slots.get(slot) or self._open_slot(slot, "call")
        if found.block is None:
            found.pieces.append(text)
            if found.started:
                self.events.append(ToolCallDelta(found.index, text))

    def update_call(
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
        found = self._slots.get(slot) or self._open_slot(slot, "call")
        if found.block is not None:
            return
        if isinstance(id, str) and id and not found.id:
            found.id = id
            self._slot_by_id.setdefault(id, slot)
        if isinstance(name, str) and name and not (found.started and found.pieces):
            found.name = name
        found.freeform = found.freeform or freeform
        if isinstance(namespace, str):
            found.namespace = namespace
        if found.name and not found.started:
            self._start_call(found, found.id)
        if isinstance(value, str):
            if value:
                self.add_arguments(slot, value)
        elif value is not None:
            found.value = value

    def find_call_slot(self, index: Hashable, id: object, name: object) -> Hashable:
        """The slot of an OpenAI-style delta, which may lack an index, repeat one, or lack an id."""
        id = id if isinstance(id, str) else ""
        by_id = self._slot_by_id.get(id) if id else None
        if index is not None:
            slot = self._slot_by_index.get(index)
            if slot is not None and (not id or self._slots[slot].id in (id, "")):
                return slot
            if by_id is not None and self._slots[by_id].place == index:
                return by_id
        if by_id is not None and (index is None or not name):  # a continuation that is known by its id only
            return by_id
        if index is None and not id and not name and self._last_call is not None:
            return self._last_call
        slot = self._last_call = ("call", len(self._slots))
        self._open_slot(slot, "call").place = index
        self._slot_by_index[index] = slot
        return slot

    def reserve(self, slot: Hashable) -> None:
        """A block begins here; what it is, `block` will say. A place that stays empty is left out."""
        if slot not in self._slots:
            self._assign_index(self._open_slot(slot, "block"))

    def set_block(self, slot: Hashable, block: Text | Thinking | Media | ToolCall | Foreign) -> None:
        """A block that came whole, or the provider's last word on one that came in pieces."""
        found = self._slots.get(slot) or self._open_slot(slot, "block")
        if found.block is None:
            self._finish_block(found, block)

    def merge_opaque(self, slot: Hashable, kind: str, opaque: Opaque) -> None:
        """Opaque state of a block; later fields win."""
        found = self._slots.get(slot) or self._open_slot(slot, kind)
        if opaque:
            found.opaque = {**(found.opaque or {}), **opaque}

    def merge_message_opaque(self, opaque: Opaque) -> None:
        """Opaque state of the whole message; later fields win."""
        self.opaque = {**(self.opaque or {}), **opaque}

    def has_slot(self, slot: Hashable) -> bool:
        """Whether anything came for a slot."""
        return slot in self._slots

    def close(self, slot: Hashable) -> None:
        """A block is whole."""
        found = self._slots.get(slot)
        if found is None or found.block is not None:
            return
        text = "".join(found.pieces)
        match found.kind:
            case "call":
                self._assign_index(found)
                id, value = found.id or self._generate_id(found, text), found.value if found.value is not None else text
                free, space, state = found.freeform, found.namespace, found.opaque
                self._finish_block(found, make_call(id, found.name, value, freeform=free, namespace=space, opaque=state))
            case "thinking":
                self._finish_block(found, Thinking(text, found.opaque))
            case "text":
                self._finish_block(found, Text(text, found.opaque))
            case _:
                pass

    def set_usage(self, usage: Usage) -> None:
        """What it cost so far; the last word counts."""
        self.usage = usage

    def set_stop_reason(self, reason: StopReason) -> None:
        """Why the model stopped; the last word counts."""
        self.stop_reason = reason

    # ---- what a reader takes

    @property
    def visible_text(self) -> str:
        """The visible text so far: what is left of a reply that was interrupted."""
        return "".join(
            found.block.text if isinstance(found.block, Text) else "".join(found.pieces)
            for found in self._ordered_slots
            if isinstance(found.block, Text) or (found.kind == "text" and found.block is None)
        )

    def drain(self) -> list[Event]:
        """The events since the last call."""
        events, self.events = self.events, []
        return events

    def finish(self) -> Reply:
        """Closes what is open; the reply is whole."""
        for slot in self._slots:
            self.close(slot)
        blocks = tuple(found.block for found in self._ordered_slots if found.block is not None)
        reason = self.stop_reason or "end"
        has_calls = any(isinstance(block, ToolCall) for block in blocks)
        if reason == "end" and has_calls:  # finish reasons lie: the presence of calls decides
            reason = "tools"
        elif reason == "tools" and not has_calls:
            reason = "end"
        reply = Reply(blocks, reason, self.usage, self.origin, self._id, self.opaque)
        self.events.append(ReplyDone(reply))
        return reply

    def _open_slot(self, slot: Hashable, kind: str) -> _SlotState:
        found = self._slots[slot] = _SlotState(kind)
        return found

    def _assign_index(self, state: _SlotState) -> None:
        """A block gets its place in the reply with the first that can be seen of it."""
        if state.index < 0:
            state.index = len(self._ordered_slots)
            self._ordered_slots.append(state)
            if state.opaque and state.kind in ("text", "thinking"):
                empty = (Text if state.kind == "text" else Thinking)("", state.opaque)
                self.events.append(BlockStarted(state.index, empty))

    def _start_call(self, state: _SlotState, id: str) -> None:
        self._assign_index(state)
        state.started = True
        self.events.append(ToolCallStarted(state.index, id, state.name, state.freeform, state.namespace, state.opaque))
        if state.pieces:  # arguments came before the name
            self.events.append(ToolCallDelta(state.index, "".join(state.pieces)))

    def _finish_block(self, state: _SlotState, block: Text | Thinking | Media | ToolCall | Foreign) -> None:
        """The block is whole: what was not said of it in pieces is said now."""
        state.block = block
        if isinstance(block, ToolCall):
            state.name, state.freeform, state.namespace = block.name, block.freeform, block.namespace
            state.opaque = block.opaque
            if not state.started:
                self._start_call(state, block.id)
            if block.raw and not state.pieces:
                self.events.append(ToolCallDelta(state.index, block.raw))
            self.events.append(ToolCallReady(state.index, block))
            return
        if isinstance(block, Text | Thinking):
            if not block.text and not block.opaque and state.index < 0:
                return  # empty text without state says nothing: providers send it as padding
            state.kind, state.opaque = "text" if isinstance(block, Text) else "thinking", block.opaque
            self._assign_index(state)
            if block.text and not state.pieces:
                delta = TextDelta if isinstance(block, Text) else ThinkingDelta
                self.events.append(delta(state.index, block.text))
        self._assign_index(state)
        self.events.append(BlockReady(state.index, block))

    def _generate_id(self, slot: _SlotState, text: str) -> str:
        """An id for a call that has none: nine letters and digits, which all accept, the same for the same bytes."""
        seed = f"{self._id}\0{self.origin.model}\0{slot.index}\0{slot.name}\0{text}\0{dumps_text(slot.value)}"
        return hash_id(seed, 9)


def parse_arguments(text: str) -> dict[str, Any] | None:
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


def make_call(
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
        arguments = None if freeform else parse_arguments(value)
    elif value is None:
        arguments = {}
    elif isinstance(value, dict):
        arguments = cast(dict[str, Any], value)
    else:
        raw = dumps_text(value)
    return ToolCall(id, name, arguments, raw, freeform, namespace, opaque)
