"""Ollama chat: replies and streams -> tracker. Calls come complete, possibly over several lines."""

from toolglot.values.messages import Media, Usage
from toolglot.wire.json_values import Doc, as_dict, as_int, as_text, require_list, skip_empty, unknown_fields
from toolglot.wire.provider_errors import error_from_body
from toolglot.wire.reader import ReplyDecoder
from toolglot.wire.stop_reasons import decode_stop_reason
from toolglot.wire.tracker import ToolCallTracker

_MESSAGE_FIELDS = ("role", "content", "thinking", "tool_calls", "images", "tool_name", "tool_call_id")


class OllamaReplyDecoder(ReplyDecoder):
    """Lines of a stream, or a whole body."""

    def __init__(self, tracker: ToolCallTracker) -> None:
        super().__init__(tracker)
        self._call_count = self._image_count = 0
        self._has_begun = False

    def read_frame(self, doc: Doc, event: str) -> None:
        if not self._has_begun and (model := doc.get("model")):
            self._has_begun = True
            self._tracker.begin("", as_text(model))
        if message := doc.get("message"):
            self.read_message(message)
        elif doc.get("error"):
            raise error_from_body(doc)
        if doc.get("done"):
            self.is_complete = self.is_over = True
            self._tracker.stop_reason = decode_stop_reason(as_text(doc.get("done_reason"))) or "end"
            # There is no count of cached tokens.
            self._tracker.usage = Usage(as_int(doc.get("prompt_eval_count")), as_int(doc.get("eval_count")))

    def read_message(self, message: Doc) -> None:
        """Read a message, or a piece of one."""
        tracker = self._tracker
        known_count = ("role" in message) + ("content" in message)
        if len(message) > known_count and "thinking" in message:
            known_count += 1
            if text := message["thinking"]:
                tracker.add_thinking("thinking", text)
        if text := message.get("content"):
            tracker.add_text("content", text)
        if len(message) == known_count:  # nearly every line
            return
        for call in skip_empty(require_list(message.get("tool_calls"))):
            function = as_dict(call.get("function"))
            slot = ("call", self._call_count)
            self._call_count += 1
            tracker.update_call(slot, call.get("id"), function.get("name"), function.get("arguments"))
            tracker.close(slot)
        for image in require_list(message.get("images")):
            self._image_count += 1
            tracker.set_block(("image", self._image_count), Media("image", data=image))
        if extra := unknown_fields(message, _MESSAGE_FIELDS):
            tracker.merge_message_opaque(extra)
