"""Assembles a streamed or whole reply: pieces become events and, at the end, a Reply. All wires share it.

A decoder reports what it sees (`add_text`, `update_call`, `set_block`, `close` …), and sets `usage` and
`stop_reason`. It names a block by a slot of its own choice: a block index, an output index, "content". Blocks
keep the order of first appearance.

Rules for tool calls on all wires, each of which servers in the field break:
- a name is set and never concatenated (llama.cpp repeats the whole name in every delta); it may still change
before arguments;
- an index is not trusted alone: a different id makes a new call (lmdeploy and old vLLM send index 0 for all
parallel calls);
- "", null and missing arguments mean {}; text that is not a JSON object stays text.

A server may send anything as text. Null counts as "", and any other type raises TypeError, so that it never
enters a conversation, which could then be neither sent nor loaded.
"""

from collections.abc import Hashable
from typing import Any, cast

from toolglot.common.jsontext import (
    DECODE_ERRORS,
    MAX_DEPTH,
    decode_object,
    dumps_verbatim,
    is_portable,
    loads,
)
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
from toolglot.values.losses import Loss, Repair
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
    ToolsChanged,
    Usage,
)
from toolglot.wire.ids import hash_id
from toolglot.wire.json_values import as_dict, join_surrogates, require_text, to_text

_HIGH_SURROGATES = ("\ud800", "\udbff")
# The fields of a block that are text or null.
_TEXT_FIELDS: dict[type, tuple[str, ...]] = {
    Text: ("text",),
    Thinking: ("text",),
    Media: ("media_type", "data", "url", "file_id", "name"),
}

ReplyBlock = Text | Thinking | Media | ToolCall | ToolsChanged | Foreign


class _Slot:
    __slots__ = (
        *("block", "freeform", "half", "has_started", "id", "index", "kind", "name", "namespace", "opaque"),
        *("pieces", "value", "wire_index"),
    )

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.index = -1  # position in the reply, once there is anything to show
        self.pieces: list[str] = []
        self.opaque: Opaque | None = None
        self.block: Block | None = None  # set when the slot is closed
        self.half = ""  # the first half of a surrogate pair, whose second half is in the next delta
        self.id = self.name = self.namespace = ""
        self.freeform = self.has_started = False
        self.value: Any = None  # arguments that came as a JSON value, not as text
        self.wire_index: Hashable = None  # `index` of an OpenAI-style delta


class ToolCallTracker:
    """Assembles one reply. `events` holds what happened since the last `drain`."""

    def __init__(self, origin: Origin, id_seed: str = "", *, wants_call_events: bool = True) -> None:
        self.origin = origin
        self._id_seed = id_seed
        self._wants_call_events = wants_call_events
        self.events: list[Event] = []
        self.losses: list[Loss] = []
        self.repairs: list[Repair] = []
        self.usage = Usage()
        self.opaque: Opaque | None = None  # of the whole message
        self.stop_reason: StopReason | None = None
        self._id = ""
        self._is_announced = self._has_model = False
        self._slots: dict[Hashable, _Slot] = {}
        self._ordered_slots: list[_Slot] = []  # in the order of the reply
        self._last_call: Hashable = None
        self._slot_by_index: dict[Hashable, Hashable] = {}  # `index` of a delta -> its latest slot
        self._slot_by_id: dict[str, Hashable] = {}

    # ---- for decoders

    def begin(self, id: str, model: str) -> None:
        """Set the reply's id and model as soon as they are known. The first value of each counts."""
        self._id = self._id or id
        if model and not self._has_model:
            self._has_model = True
            requested = self.origin.model if self.origin.model != model else ""
            self.origin = Origin(self.origin.wire, self.origin.profile, model, requested)
        if (id or model) and not self._is_announced:
            self._is_announced = True  # at most once
            if not self._ordered_slots:
                self.events.append(ReplyStarted(id, model))

    def add_text(self, slot: Hashable, text: Any) -> None:
        """Add visible text."""
        state = self._slots.get(slot) or self._open_slot(slot, "text")
        if type(text) is not str or state.half or _HIGH_SURROGATES[0] <= text[-1:] <= _HIGH_SURROGATES[1]:
            text = _complete_text(state, text)
        if text:
            if state.index < 0:
                self._assign_index(state)
            state.pieces.append(text)
            self.events.append(TextDelta(state.index, text))

    def add_thinking(self, slot: Hashable, text: Any) -> None:
        """Add reasoning."""
        state = self._slots.get(slot) or self._open_slot(slot, "thinking")
        if type(text) is not str or state.half or _HIGH_SURROGATES[0] <= text[-1:] <= _HIGH_SURROGATES[1]:
            text = _complete_text(state, text)
        if text:
            if state.index < 0:
                self._assign_index(state)
            state.pieces.append(text)
            self.events.append(ThinkingDelta(state.index, text))

    def add_arguments(self, slot: Hashable, text: Any) -> None:
        """Add a fragment of a call's arguments."""
        state = self._slots.get(slot) or self._open_slot(slot, "call")
        if type(text) is not str or state.half or _HIGH_SURROGATES[0] <= text[-1:] <= _HIGH_SURROGATES[1]:
            text = _complete_text(state, text)
        if text and state.block is None:
            state.pieces.append(text)
            if state.has_started:
                self.events.append(ToolCallDelta(state.index, text))

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
        """Start a call or add to it. `value` are arguments that came at once, as text or as a JSON value."""
        state = self._slots.get(slot) or self._open_slot(slot, "call")
        if state.block is not None:  # late deltas after the final version are ignored
            return
        if id and not state.id and isinstance(id, str):
            state.id = id  # set once: another id in a later delta does not replace it
            self._slot_by_id.setdefault(id, slot)
        is_name_final = state.has_started and bool(state.pieces)
        if name and not is_name_final and isinstance(name, str):
            state.name = name
        if freeform:
            state.freeform = True
        if isinstance(namespace, str):
            state.namespace = namespace
        if state.name and not state.has_started:
            self._start_call(state, state.id)
        if value is None:
            return
        if not isinstance(value, str):
            state.value = value
        elif value:
            self.add_arguments(slot, value)

    def find_call_slot(self, index: Hashable, id: object, name: object) -> Hashable:
        """Return the slot of an OpenAI-style delta, which may lack an index, repeat one, or lack an id."""
        id = id if isinstance(id, str) else ""
        by_id = self._slot_by_id.get(id) if id else None
        if index is None:
            if by_id is not None:
                return by_id
            names_no_call = not id and not name
            if names_no_call and self._last_call is not None:
                return self._last_call
        else:
            by_index = self._slot_by_index.get(index)
            if by_index is not None:
                if not id:
                    return by_index
                if self._slots[by_index].id in (id, ""):
                    return by_index
            if by_id is not None:
                if not name:  # a continuation that has only an id (Copilot)
                    return by_id
                if self._slots[by_id].wire_index == index:  # another call in between had the same index
                    return by_id
        slot = self._last_call = ("call", len(self._slots))
        self._open_slot(slot, "call").wire_index = index
        self._slot_by_index[index] = slot
        return slot

    def reserve(self, slot: Hashable) -> None:
        """Keep the place of a block that `set_block` will fill. A place that stays empty is left out."""
        if slot not in self._slots:
            self._assign_index(self._open_slot(slot, "block"))

    def set_block(self, slot: Hashable, block: ReplyBlock) -> None:
        """Set a block that came whole, or the provider's final version of one that came in pieces."""
        state = self._slots.get(slot) or self._open_slot(slot, "block")
        if state.block is None:
            self._finish_block(state, block)

    def merge_opaque(self, slot: Hashable, kind: str, opaque: Opaque) -> None:
        """Add opaque state of a block; later fields win."""
        state = self._slots.get(slot) or self._open_slot(slot, kind)
        if opaque:
            state.opaque = {**(state.opaque or {}), **opaque}

    def merge_message_opaque(self, opaque: Opaque) -> None:
        """Add opaque state of the whole message; later fields win."""
        self.opaque = {**(self.opaque or {}), **opaque}

    def has_slot(self, slot: Hashable) -> bool:
        """Return whether anything was reported for a slot."""
        return slot in self._slots

    def close(self, slot: Hashable) -> None:
        """Complete a block."""
        state = self._slots.get(slot)
        if state is None or state.block is not None:
            return
        text = "".join(state.pieces) + state.half
        match state.kind:
            case "call":
                self._assign_index(state)
                self._finish_block(state, self._make_call(state, text))
            case "thinking":
                self._finish_block(state, Thinking(text, state.opaque))
            case "text":
                self._finish_block(state, Text(text, state.opaque))
            case _:
                pass

    def _make_call(self, state: _Slot, text: str) -> ToolCall:
        """Make the call of a slot, whose deltas brought this text."""
        id = state.id
        if not id:  # Gemini 2 and many compatible servers send none
            seed = (
                self._id,
                self.origin.model,
                str(state.index),
                state.name,
                text,
                dumps_verbatim(state.value),
            )
            id = hash_id(self._id_seed + "\0".join(seed), 9)  # nine letters and digits are legal everywhere
        value: Any = text
        # deltas win over what came with the start, as in Anthropic's SDK
        if not text and state.value is not None:
            value = state.value
        return make_call(
            id, state.name, value, freeform=state.freeform, namespace=state.namespace, opaque=state.opaque
        )

    # ---- for readers

    @property
    def visible_text(self) -> str:
        """The visible text so far: what remains of a reply that was interrupted."""
        texts: list[str] = []
        for state in self._ordered_slots:
            if isinstance(state.block, Text):
                texts.append(state.block.text)
            elif state.block is None and state.kind == "text":
                texts += state.pieces
        return "".join(texts)

    @property
    def has_content(self) -> bool:
        """Whether anything of a reply was reported."""
        return bool(self._id or self._has_model or self._slots)

    def drain(self) -> list[Event]:
        """Return the events since the last call."""
        events, self.events = self.events, []
        return events

    def finish(self) -> Reply:
        """Close what is open and return the reply."""
        for slot in self._slots:
            self.close(slot)
        blocks = tuple(state.block for state in self._ordered_slots if state.block is not None)
        reason = self.stop_reason or "end"
        has_calls = any(isinstance(block, ToolCall) for block in blocks)
        # Finish reasons lie: Ollama and some vLLM builds say "stop" with calls. The presence of calls
        # decides.
        if reason == "end" and has_calls:
            reason = "tools"
        elif reason == "tools" and not has_calls:
            reason = "end"
        reply = Reply(blocks, reason, self.usage, self.origin, self._id, self.opaque)
        self.events.append(ReplyDone(reply))
        return reply

    # ---- blocks

    def _open_slot(self, slot: Hashable, kind: str) -> _Slot:
        state = self._slots[slot] = _Slot(kind)
        return state

    def _assign_index(self, state: _Slot) -> None:
        """Give a block its position in the reply when there is something to show of it."""
        if state.index < 0:
            state.index = len(self._ordered_slots)
            self._ordered_slots.append(state)
            if state.opaque and state.kind in ("text", "thinking"):
                block = Text if state.kind == "text" else Thinking
                self.events.append(BlockStarted(state.index, block("", state.opaque)))

    def _start_call(self, state: _Slot, id: str) -> None:
        self._assign_index(state)
        state.has_started = True
        self.events.append(
            ToolCallStarted(state.index, id, state.name, state.freeform, state.namespace, state.opaque)
        )
        if state.pieces:  # arguments came before the name
            self.events.append(ToolCallDelta(state.index, "".join(state.pieces)))

    def _finish_block(self, state: _Slot, block: ReplyBlock) -> None:
        """Complete a block, with a delta for content that did not come in pieces."""
        for field in _TEXT_FIELDS.get(type(block), ()):
            require_text(getattr(block, field))
        if state.half:
            self._add_half(state)
        state.block = block
        if isinstance(block, ToolCall):
            self._finish_call(state, block)
            return
        if isinstance(block, Text | Thinking):
            is_empty = not block.text and not block.opaque
            if is_empty and state.index < 0:
                return  # providers send empty text as padding
            state.kind = "text" if isinstance(block, Text) else "thinking"
            state.opaque = block.opaque
            self._assign_index(state)
            if block.text and not state.pieces:
                delta = TextDelta if isinstance(block, Text) else ThinkingDelta
                self.events.append(delta(state.index, block.text))
        self._assign_index(state)
        self.events.append(BlockReady(state.index, block))

    def _add_half(self, state: _Slot) -> None:
        """Show the first half of a character whose other half never came."""
        self._assign_index(state)
        state.pieces.append(state.half)
        match state.kind:
            case "text":
                self.events.append(TextDelta(state.index, state.half))
            case "call":
                if state.has_started:
                    self.events.append(ToolCallDelta(state.index, state.half))
            case _:
                self.events.append(ThinkingDelta(state.index, state.half))

    def _finish_call(self, state: _Slot, call: ToolCall) -> None:
        """Report a call that is complete, with what of it was not reported yet."""
        state.name = call.name
        state.freeform = call.freeform
        state.namespace = call.namespace
        state.opaque = call.opaque
        if not self._wants_call_events:
            self._assign_index(state)
            return
        if not state.has_started:
            self._start_call(state, call.id)
        if call.raw and not state.pieces:
            self.events.append(ToolCallDelta(state.index, call.raw))
        self.events.append(ToolCallReady(state.index, call))


def _complete_text(state: _Slot, text: Any) -> str:
    """Check a piece of text, and hold back the first half of a surrogate pair until its second half comes."""
    text = join_surrogates(state.half + require_text(text))
    is_half = _HIGH_SURROGATES[0] <= text[-1:] <= _HIGH_SURROGATES[1]
    state.half = text[-1] if is_half else ""
    return text[:-1] if is_half else text


def parse_arguments(text: str) -> dict[str, Any] | None:
    """Parse arguments as a JSON object.

    Nothing and null mean {}; None if the text is not an object that can be stored.
    """
    try:
        value: Any = decode_object(text)
        # not too deep; and the decoder refuses NaN and infinity
        if text.count("{") + text.count("[") <= MAX_DEPTH:
            return value
    except DECODE_ERRORS:
        try:
            value = loads(text) if text.strip() else None
        except ValueError:
            return None
    if value is None:
        return {}
    if not isinstance(value, dict) or not is_portable(value):
        return None
    return cast(dict[str, Any], value)


def make_call(
    id: str,
    name: str,
    value: Any,
    *,
    freeform: bool = False,
    namespace: str = "",
    opaque: Opaque | None = None,
) -> ToolCall:
    """Make a call from arguments as a wire has them: text, an object, or nothing."""
    arguments: dict[str, Any] | None = None
    raw: str | None = None
    if value is None:
        arguments = {}
    elif not isinstance(value, dict):
        raw = to_text(value)
        if isinstance(value, str) and not freeform:
            arguments = parse_arguments(raw)
    elif is_portable(value):
        arguments = cast(dict[str, Any], value)
    else:
        raw = dumps_verbatim(value)
    return ToolCall(id, name, arguments, raw, freeform, namespace, opaque, caller=_find_caller(opaque))


def _find_caller(opaque: Opaque | None) -> str:
    """Return the id of the program that made a call: OpenAI's `caller_id`, or the `tool_id` of Anthropic's
    code execution.
    """
    if not opaque:
        return ""
    caller = as_dict(opaque.get("caller"))
    id = caller.get("caller_id") or caller.get("tool_id")
    return id if isinstance(id, str) else ""
