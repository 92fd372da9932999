"""OpenAI Responses: replies and streams -> tracker.

`output_item.done` is the final version of an item: some calls exist only there, and `.added` may contain
incomplete ciphertext. The terminal event's `output` fills in what was never announced: some backends leave it
empty, others send nothing else.
"""

from collections.abc import Hashable, Iterator
from typing import Any

from toolglot.values.messages import Foreign, StopReason, Text, Thinking, ToolCall, ToolsChanged
from toolglot.wire.json_values import (
    Doc,
    as_dict,
    as_list,
    as_text,
    iter_dicts,
    require_list,
    require_text,
    unknown_fields,
)
from toolglot.wire.openai_common import decode_usage
from toolglot.wire.openai_responses.tool_decode import decode_tools
from toolglot.wire.provider_errors import error_from_body
from toolglot.wire.reader import ReplyDecoder
from toolglot.wire.spec import OPENAI_RESPONSES
from toolglot.wire.tracker import ReplyBlock, ToolCallTracker, make_call

_INCOMPLETE_REASONS: dict[str, StopReason] = {"max_output_tokens": "length", "content_filter": "filtered"}
_TERMINAL_EVENTS = (
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.done",
    "response.cancelled",
)
# Built-in tools that the client runs are calls like any other: item -> (name, field of the arguments, item of
# the result).
NATIVE_ITEMS = {
    "shell_call": ("shell", "action", "shell_call_output"),
    "local_shell_call": ("local_shell", "action", "local_shell_call_output"),
    "apply_patch_call": ("apply_patch", "operation", "apply_patch_call_output"),
    "computer_call": ("computer", "action", "computer_call_output"),
    "tool_search_call": ("tool_search", "arguments", "tool_search_output"),
}
_TEXT_PARTS = ("output_text", "text", "input_text", "refusal")
_CALL_FIELDS = ("type", "call_id", "name", "arguments", "input", "namespace")


class ResponsesReplyDecoder(ReplyDecoder):
    """Frames of a stream, or a whole body. An item's slot is its output index."""

    def __init__(self, tracker: ToolCallTracker) -> None:
        super().__init__(tracker)
        self._whole_items: set[Hashable] = set()  # output indexes and ids
        self._slot_by_id: dict[str, Hashable] = {}  # item id -> output index
        # output index -> content index -> which text of the item
        self._text_numbers: dict[Hashable, dict[Any, int]] = {}
        self._parts: dict[Hashable, Any] = {}  # the part of a reasoning item that is being written

    def read_frame(self, doc: Doc, event: str) -> None:
        tracker = self._tracker
        kind = doc.get("type")
        if not kind and event.startswith("response."):
            kind = event
        match kind:
            case "response.output_text.delta":
                tracker.add_text(self._find_text_slot(doc), doc.get("delta"))
            case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
                tracker.add_arguments(self._find_item_slot(doc), doc.get("delta"))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                slot = self._find_item_slot(doc)
                part = doc.get("summary_index", doc.get("content_index", 0))
                text = require_text(doc.get("delta"))
                if self._parts.setdefault(slot, part) != part:  # another part begins
                    text = "\n\n" + text
                self._parts[slot] = part
                tracker.add_thinking(slot, text)
            case "response.refusal.delta":
                slot = self._find_text_slot(doc)
                tracker.merge_opaque(slot, "text", {"refusal": True})
                tracker.add_text(slot, doc.get("delta"))
            case "response.output_item.added" | "response.output_item.done":
                if item := doc.get("item"):
                    read_item = self._start_item if kind.endswith("added") else self._finish_item
                    read_item(self._find_item_slot(doc, item), item)
            case "error":
                raise error_from_body(doc)
            case None:
                self._read_whole(doc)
            case _:
                self._read_notification(doc, as_text(kind))

    def _read_whole(self, doc: Doc) -> None:
        """Read a body that is a whole response. An error may come with status 200, too."""
        if doc.get("error"):
            raise error_from_body(doc)
        if "output" not in doc:
            raise error_from_body({"error": "the body is not a response", **doc})
        self._read_terminal(doc)

    def _read_notification(self, doc: Doc, kind: str) -> None:
        response = as_dict(doc.get("response"))
        if kind == "response.created":
            self._tracker.begin(as_text(response.get("id")), as_text(response.get("model")))
        elif kind == "response.content_part.added" and as_dict(doc.get("part")).get("type") in _TEXT_PARTS:
            self._find_text_slot(doc)
        elif kind in _TERMINAL_EVENTS:
            self._read_terminal({"status": kind.removeprefix("response."), **response})

    def _find_item_slot(self, doc: Doc, item: Doc | None = None) -> Hashable:
        """Return an item's output index or, if the server sends none, the one under which its id is known."""
        id = as_text(doc.get("item_id")) if item is None else as_text(item.get("id"))
        index = doc.get("output_index")
        if index is None:
            index = self._slot_by_id.get(id, id or 0)
        if id:
            self._slot_by_id[id] = index
        return index

    def _find_text_slot(self, doc: Doc) -> Hashable:
        """Return the slot of a text: its position among the texts of its item.

        `content_index` only tells them apart: Bedrock counts it across all items.
        """
        item = self._find_item_slot(doc)
        numbers = self._text_numbers.setdefault(item, {})
        return item, numbers.setdefault(doc.get("content_index", 0), len(numbers))

    def _start_item(self, index: Hashable, item: Doc) -> None:
        tracker = self._tracker
        match item.get("type"):
            case "function_call" | "custom_tool_call" as kind:
                namespace = _read_namespace(item)
                is_freeform = kind == "custom_tool_call"
                tracker.update_call(
                    index, item.get("call_id"), item.get("name"), freeform=is_freeform, namespace=namespace
                )
            case "reasoning":
                state = unknown_fields(item, ("type", "summary", "encrypted_content", "content"))
                tracker.merge_opaque(index, "thinking", state or {})
            case "message":  # its parts announce themselves
                state = unknown_fields(item, ("type", "role", "content", "status"))
                tracker.merge_opaque((index, 0), "text", state or {})
            case _:
                tracker.reserve(index)  # it comes complete

    def _finish_item(self, index: Hashable, item: Doc) -> None:
        # the terminal event may number items differently
        self._whole_items.update((index, item.get("id") or index))
        for slot, block in decode_item(item, index):
            self._tracker.set_block(slot, block)
            # there is no status for it
            if isinstance(block, Text) and block.opaque and "refusal" in block.opaque:
                self._tracker.stop_reason = "refusal"

    def _read_terminal(self, response: Doc) -> None:
        if response.get("error") or response.get("status") == "failed":
            raise error_from_body({"error": response.get("error") or "the response failed"})
        self._tracker.begin(as_text(response.get("id")), as_text(response.get("model")))
        for index, item in enumerate(iter_dicts(require_list(response.get("output")))):
            if index not in self._whole_items and item.get("id") not in self._whole_items:
                self._finish_item(self._slot_by_id.get(as_text(item.get("id")), index), item)
        if usage := response.get("usage"):
            self._tracker.usage = decode_usage(usage, "input", "output")
        status = response.get("status")
        if status == "incomplete":
            reason = as_text(as_dict(response.get("incomplete_details")).get("reason"))
            self._tracker.stop_reason = _INCOMPLETE_REASONS.get(reason, "length")
        elif status == "cancelled":
            self._tracker.stop_reason = "error"
        elif status in ("queued", "in_progress"):  # a background response
            self._tracker.stop_reason = "pause"
        self.is_complete = self.is_over = True


def decode_item(item: Doc, slot: Hashable = 0) -> Iterator[tuple[Hashable, ReplyBlock]]:
    """Decode one output item into blocks, each with its slot."""
    match item.get("type"):
        case "message":
            yield from _decode_message(item, slot)
        case "reasoning":
            yield slot, _decode_reasoning(item)
        case "function_call" | "custom_tool_call":
            yield slot, _decode_call(item)
        case str(kind) if _is_native_call(kind, item):
            name, field, _ = NATIVE_ITEMS[kind]
            yield slot, make_call(as_text(item["call_id"]), name, item.get(field), opaque={"item": item})
        case "tool_search_output":  # the provider searched
            names = tuple(tool.qualified_name for tool in decode_tools(item.get("tools")))
            yield slot, ToolsChanged(loaded=names, opaque={"item": item})
        case _:  # run by the provider, sent back unchanged
            yield slot, Foreign(OPENAI_RESPONSES, item)


def _decode_reasoning(item: Doc) -> Thinking:
    """Decode reasoning. Its text is the summary, or that of a model that shows what it really thinks."""
    parts = as_list(item.get("summary")) or as_list(item.get("content"))
    text = "\n\n".join(as_text(part.get("text")) for part in iter_dicts(parts))
    return Thinking(text, unknown_fields(item, ("type",)))


def _is_native_call(kind: str, item: Doc) -> bool:
    """Return whether an item of this type is a call of a built-in tool that the client runs."""
    if kind not in NATIVE_ITEMS or not item.get("call_id"):
        return False
    return item.get("execution") != "server"


def _decode_message(item: Doc, slot: Hashable) -> Iterator[tuple[Hashable, ReplyBlock]]:
    """Decode the parts of a message, each with its slot."""
    # Every part keeps the item's state (id, status, phase): that makes them one item again.
    state = unknown_fields(item, ("type", "role", "content")) or {}
    content = item.get("content")
    parts = (
        [{"type": "output_text", "text": content}] if isinstance(content, str) else list(iter_dicts(content))
    )
    number = -1  # of the text, see `_find_text_slot`
    for position, part in enumerate(parts):
        number += part.get("type") in _TEXT_PARTS
        match part.get("type"):
            case "output_text" | "text" | "input_text":
                extra = unknown_fields(part, ("type", "text"))
                opaque = {"part": extra, **state} if extra else state
                yield (slot, number), Text(require_text(part.get("text")), opaque or None)
            case "refusal":
                yield (slot, number), Text(require_text(part.get("refusal")), {"refusal": True, **state})
            case _:
                whole = {"type": "message", "role": "assistant", **state, "content": [part]}
                yield (slot, "part", position), Foreign(OPENAI_RESPONSES, whole)


def _decode_call(item: Doc) -> ToolCall:
    """Return the call of a function or of a freeform tool."""
    id = as_text(item.get("call_id")) or as_text(item.get("id"))  # in case the call_id is missing
    is_freeform = item["type"] == "custom_tool_call"
    value = item.get("input") or "" if is_freeform else item.get("arguments")
    namespace = _read_namespace(item)
    known = _CALL_FIELDS
    if item.get("namespace") and not namespace:  # echoed: a loaded tool is not in the default namespace
        known = _CALL_FIELDS[:-1]
    opaque = unknown_fields(item, known)
    return make_call(
        id, as_text(item.get("name")), value, freeform=is_freeform, namespace=namespace, opaque=opaque
    )


def _read_namespace(item: Doc) -> str:
    """Return the namespace of a call's tool.

    A tool that was loaded has its own name there, which is none (recorded).
    """
    namespace = as_text(item.get("namespace"))
    return namespace if namespace != item.get("name") else ""
