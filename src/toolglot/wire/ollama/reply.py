"""Ollama chat: replies and streams <-> tracker. Calls come whole, over several lines; `done_reason` is "stop" with them too."""

from toolglot.messages import Media, Stop, Usage
from toolglot.wire.failures import failure
from toolglot.wire.shapes import Doc, as_dict, as_int, as_list, as_text, rest
from toolglot.wire.tracker import ToolCallTracker

__all__ = ["WIRE", "OllamaDecoder"]

WIRE = "ollama-chat"

STOPS: dict[str, Stop] = {"stop": "end", "length": "length"}
_MESSAGE_FIELDS = ("role", "content", "thinking", "tool_calls", "images", "tool_name", "tool_call_id")


class OllamaDecoder:
    """Lines of a stream, or a whole body, to the tracker."""

    def __init__(self, tracker: ToolCallTracker) -> None:
        self._tracker = tracker
        self._calls = self._images = 0
        self._begun = False
        self.complete = False

    def frame(self, doc: Doc, event: str) -> None:
        if not self._begun and (model := doc.get("model")):
            self._begun = True
            self._tracker.begin("", as_text(model))
        if message := doc.get("message"):
            self.message(message)
        elif doc.get("error"):
            raise failure(doc)
        if doc.get("done"):
            self.complete = True
            self._tracker.stop(STOPS.get(as_text(doc.get("done_reason")), "end"))
            self._tracker.used(usage_of(doc))

    def body(self, doc: Doc, event: str) -> None:
        self.frame(doc, event)

    def done(self) -> None: ...

    def end(self) -> None: ...

    def message(self, message: Doc) -> None:
        """One message, or a piece of it."""
        known = ("role" in message) + ("content" in message)
        if len(message) > known and "thinking" in message:
            known += 1
            if text := message["thinking"]:
                self._tracker.thinking("thinking", text)
        if text := message.get("content"):
            self._tracker.text("content", text)
        if len(message) > known:
            self._more(message)

    def _more(self, message: Doc) -> None:
        tracker = self._tracker
        for call in as_list(message.get("tool_calls")):
            function = as_dict(call.get("function"))
            slot = ("call", self._calls)
            self._calls += 1
            tracker.call(slot, call.get("id"), function.get("name"), function.get("arguments"))
            tracker.close(slot)
        for image in as_list(message.get("images")):
            self._images += 1
            tracker.block(("image", self._images), Media("image", data=image))
        if extra := rest(message, _MESSAGE_FIELDS):
            tracker.note_message(extra)


def usage_of(doc: Doc) -> Usage:
    """Ollama does not count cached tokens."""
    return Usage(input=as_int(doc.get("prompt_eval_count")), output=as_int(doc.get("eval_count")))
