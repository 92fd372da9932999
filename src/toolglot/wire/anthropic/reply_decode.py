"""Anthropic Messages: replies and streams -> tracker."""

from typing import Any

from toolglot.errors import MalformedReply
from toolglot.values.messages import Foreign, Thinking, ToolsChanged, Usage
from toolglot.wire.json_values import (
    Doc,
    as_dict,
    as_int,
    as_list,
    as_text,
    iter_dicts,
    require_text,
    skip_empty,
    unknown_fields,
)
from toolglot.wire.provider_errors import error_from_body
from toolglot.wire.reader import ReplyDecoder
from toolglot.wire.spec import ANTHROPIC_MESSAGES
from toolglot.wire.stop_reasons import decode_stop_reason
from toolglot.wire.tracker import ToolCallTracker, parse_arguments


class AnthropicReplyDecoder(ReplyDecoder):
    """Frames of a stream, or a whole body. A block's slot is its index."""

    def __init__(self, tracker: ToolCallTracker) -> None:
        super().__init__(tracker)
        self._usage: Doc = {}
        self._has_blocks = False
        # blocks without a neutral form, and fragments of their input
        self._foreign: dict[int, tuple[Doc, list[str]]] = {}
        self._citations: dict[int, list[Any]] = {}

    def read_frame(self, doc: Doc, event: str) -> None:
        kind = doc.get("type") or event
        index = doc.get("index", 0)
        if kind == "content_block_delta":  # first, because nearly every frame is one
            delta: Doc = doc.get("delta") or {}
            if delta.get("type") == "text_delta":
                self._tracker.add_text(index, delta.get("text"))
            else:
                self._read_delta(index, delta)
            return
        match kind:
            case "content_block_start":
                if block := doc.get("content_block"):
                    self._start_block(index, block)
            case "content_block_stop":
                self._stop_block(index)
            case "message_start":
                if self._has_blocks:  # a proxy that retried in the middle: two replies must not become one
                    raise MalformedReply("a second message starts before the first one has ended")
                message: Doc = doc.get("message") or {}
                self._read_message(message)
            case "message_delta":
                changes: Doc = doc.get("delta") or {}
                self._read_stop(changes)
                self._merge_usage(doc.get("usage"))
            case "message_stop":
                self.is_complete = self.is_over = True
            case "message":
                self._read_message(doc)
                self.is_complete = True
            case _:  # `ping` and unknown events are ignored
                if "error" in (kind, event) or doc.get("error"):
                    raise error_from_body(doc)

    def finish(self) -> None:
        for index in [*self._foreign, *self._citations]:
            self._stop_block(index)
        usage = self._usage
        cached = as_int(usage.get("cache_read_input_tokens"))
        written = as_int(usage.get("cache_creation_input_tokens"))
        self._tracker.usage = Usage(
            # `input_tokens` counts only what was not cached
            input=as_int(usage.get("input_tokens")) + cached + written,
            output=as_int(usage.get("output_tokens")),
            cached=cached,
            cache_write=written,
            reasoning=as_int(as_dict(usage.get("output_tokens_details")).get("thinking_tokens")),
        )

    def read_blocks(self, blocks: list[Any]) -> None:
        """Read complete blocks: of a body, of a message in the history, or of a call that code execution
        made.
        """
        for index, block in enumerate(skip_empty(blocks)):
            self._start_block(index, block)
            # A `message_start` may already contain a tool_use; if its input is empty, deltas may follow.
            if block.get("type") != "tool_use" or block.get("input"):
                self._stop_block(index)

    def _read_message(self, message: Doc) -> None:
        self._tracker.begin(as_text(message.get("id")), as_text(message.get("model")))
        self.read_blocks(message.get("content") or [])
        self._merge_usage(message.get("usage"))
        self._read_stop(message)

    def _start_block(self, index: int, block: Doc) -> None:
        tracker = self._tracker
        self._has_blocks = True
        match block.get("type"):
            case "text":
                if len(block) > 2:
                    if citations := as_list(block.get("citations")):
                        self._citations[index] = list(citations)  # a copy: deltas are appended to it
                    state = unknown_fields(block, ("type", "text", "citations"))
                    tracker.merge_opaque(index, "text", state or {})
                tracker.add_text(index, block.get("text"))
            case "thinking":
                state = unknown_fields(block, ("type", "thinking"))
                tracker.merge_opaque(index, "thinking", state or {})
                tracker.add_thinking(index, as_text(block.get("thinking")))
            case "redacted_thinking":
                tracker.set_block(index, Thinking("", {"redacted": block.get("data")}))
            case "tool_use":
                # `caller`, `toolset_name`: must be echoed
                state = unknown_fields(block, ("type", "id", "name", "input"))
                tracker.merge_opaque(index, "call", state or {})
                arguments = block.get("input") or None
                tracker.update_call(index, block.get("id"), block.get("name"), arguments)
            case _:  # server tools and their results: kept whole, never run here
                tracker.reserve(index)
                self._foreign[index] = dict(block), []

    def _read_delta(self, index: int, delta: Doc) -> None:
        kind = delta.get("type")
        if kind == "input_json_delta":
            text = require_text(delta.get("partial_json"))
            if index in self._foreign:
                self._foreign[index][1].append(text)
            elif text:
                self._tracker.add_arguments(index, text)
        elif kind == "thinking_delta":
            self._tracker.add_thinking(index, delta.get("thinking"))
        elif kind == "signature_delta":  # complete, right before the block stops: it replaces an earlier one
            self._tracker.merge_opaque(index, "thinking", {"signature": require_text(delta.get("signature"))})
        elif kind == "citations_delta":
            self._citations.setdefault(index, []).append(delta.get("citation"))
        elif index in self._foreign:  # compaction_delta, and what is yet to come
            self._foreign[index][0].update(unknown_fields(delta, ("type",)) or {})

    def _stop_block(self, index: int) -> None:
        if index not in self._foreign:
            if citations := self._citations.pop(index, None):
                self._tracker.merge_opaque(index, "text", {"citations": citations})
            self._tracker.close(index)
            return
        block, pieces = self._foreign.pop(index)
        if text := "".join(pieces):  # results of server tools come whole, without deltas
            block["input"] = parse_arguments(text) or {}
        references = as_dict(block.get("content")).get("tool_references")
        if block.get("type") == "tool_search_tool_result" and isinstance(references, list):
            names = tuple(as_text(reference.get("tool_name")) for reference in iter_dicts(references))
            self._tracker.set_block(index, ToolsChanged(loaded=names, opaque={"item": block}))
            return
        self._tracker.set_block(index, Foreign(ANTHROPIC_MESSAGES, block))

    def _read_stop(self, delta: Doc) -> None:
        if reason := delta.get("stop_reason"):
            self._tracker.stop_reason = decode_stop_reason(reason) or "end"
        # the container is needed to continue code execution
        for field in ("container", "stop_details", "context_management"):
            if value := delta.get(field):
                self._tracker.merge_message_opaque({field: value})

    def _merge_usage(self, usage: Any) -> None:
        """Counts are cumulative: a later field overwrites an earlier one."""
        self._usage.update({key: value for key, value in as_dict(usage).items() if value is not None})
