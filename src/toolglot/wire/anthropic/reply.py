"""Anthropic Messages: replies and streams <-> tracker."""

from typing import Any

from toolglot.messages import Foreign, Stop, Thinking, Usage
from toolglot.wire.failures import failure
from toolglot.wire.shapes import Doc, as_dict, as_int, as_list, as_text, rest
from toolglot.wire.tracker import ToolCallTracker, parsed

__all__ = ["WIRE", "AnthropicDecoder"]

WIRE = "anthropic-messages"

STOPS: dict[str, Stop] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tools",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "pause",
    "compaction": "pause",
    "refusal": "refusal",
}


class AnthropicDecoder:
    """Frames of a stream, or a whole body, to the tracker. A block's slot is its index."""

    def __init__(self, tracker: ToolCallTracker) -> None:
        self._tracker = tracker
        self._usage: Doc = {}
        self._foreign: dict[int, tuple[Doc, list[str]]] = {}  # blocks without a neutral form, and their input's pieces
        self._citations: dict[int, list[Any]] = {}
        self.complete = False

    def frame(self, doc: Doc, event: str) -> None:
        kind = doc.get("type")
        if kind != "content_block_delta":
            self._event(kind, doc, event)
            return
        delta, index = doc["delta"], doc["index"]
        kind = delta["type"]
        if kind == "text_delta":
            self._tracker.text(index, delta["text"])
        elif kind == "input_json_delta" and index not in self._foreign:
            if text := delta["partial_json"]:
                self._tracker.arguments(index, text)
        else:
            self._delta(index, delta)

    def _event(self, kind: Any, doc: Doc, event: str) -> None:
        match kind:
            case "content_block_start":
                self._start(doc["index"], doc["content_block"])
            case "content_block_stop":
                self._stop(doc["index"])
            case "message_start":
                self._open(doc["message"])
            case "message_delta":
                self._end(doc["delta"])
                self._used(doc.get("usage"))
            case "message_stop":
                self.complete = True
            case "message":
                self._open(doc)
                self.complete = True
            case _:
                if kind == "error" or doc.get("error") or event == "error":
                    raise failure(doc)

    def body(self, doc: Doc, event: str) -> None:
        self.frame(doc, event)

    def done(self) -> None: ...

    def end(self) -> None:
        for index in [*self._foreign, *self._citations]:
            self._stop(index)
        self._tracker.used(usage_of(self._usage))

    def content(self, blocks: list[Any]) -> None:
        """Blocks that are already whole: of a body, of a message in the history, or of a call that code execution made."""
        for index, block in enumerate(blocks):
            self._start(index, block)
            if block.get("type") != "tool_use" or block.get("input"):
                self._stop(index)

    def _open(self, message: Doc) -> None:
        self._tracker.begin(as_text(message.get("id")), as_text(message.get("model")))
        self.content(message["content"])
        self._used(message.get("usage"))
        self._end(message)

    def _start(self, index: int, block: Doc) -> None:
        tracker = self._tracker
        match block.get("type"):
            case "text":
                if len(block) > 2:
                    if citations := as_list(block.get("citations")):
                        self._citations[index] = list(citations)
                    tracker.note(index, "text", rest(block, ("type", "text", "citations")) or {})
                tracker.text(index, block["text"])
            case "thinking":
                tracker.note(index, "thinking", rest(block, ("type", "thinking")) or {})
                tracker.thinking(index, as_text(block.get("thinking")))
            case "redacted_thinking":
                tracker.block(index, Thinking("", {"redacted": block.get("data")}))
            case "tool_use":
                tracker.note(index, "call", rest(block, ("type", "id", "name", "input")) or {})
                tracker.call(index, block.get("id"), block.get("name"), block.get("input") or None)
            case _:
                tracker.reserve(index)
                self._foreign[index] = dict(block), []

    def _delta(self, index: int, delta: Doc) -> None:
        match delta.get("type"):
            case "input_json_delta":
                self._foreign[index][1].append(delta["partial_json"])
            case "thinking_delta":
                self._tracker.thinking(index, delta["thinking"])
            case "signature_delta":  # replaces, comes just before the stop
                self._tracker.note(index, "thinking", {"signature": delta["signature"]})
            case "citations_delta":
                self._citations.setdefault(index, []).append(delta["citation"])
            case _:
                if index in self._foreign:  # compaction_delta and what comes after it
                    self._foreign[index][0].update(rest(delta, ("type",)) or {})

    def _stop(self, index: int) -> None:
        if index not in self._foreign:
            if citations := self._citations.pop(index, None):
                self._tracker.note(index, "text", {"citations": citations})
            self._tracker.close(index)
            return
        block, pieces = self._foreign.pop(index)
        if text := "".join(pieces):
            block["input"] = parsed(text) or {}
        self._tracker.block(index, Foreign(WIRE, block))

    def _end(self, delta: Doc) -> None:
        if reason := delta.get("stop_reason"):
            self._tracker.stop(STOPS.get(reason, "end"))
        for field in ("container", "stop_details", "context_management"):
            if value := delta.get(field):
                self._tracker.note_message({field: value})

    def _used(self, usage: Any) -> None:
        """Counts are cumulative: a later field overwrites an earlier one."""
        self._usage.update({key: value for key, value in as_dict(usage).items() if value is not None})


def usage_of(usage: Doc) -> Usage:
    """`input_tokens` counts only what was not cached."""
    cached, written = as_int(usage.get("cache_read_input_tokens")), as_int(usage.get("cache_creation_input_tokens"))
    return Usage(
        input=as_int(usage.get("input_tokens")) + cached + written,
        output=as_int(usage.get("output_tokens")),
        cached=cached,
        cache_write=written,
        reasoning=as_int(as_dict(usage.get("output_tokens_details")).get("thinking_tokens")),
    )
