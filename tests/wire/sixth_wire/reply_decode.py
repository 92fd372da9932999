from toolglot.wire.json_values import Doc
from toolglot.wire.reader import ReplyDecoder


class SixthReplyDecoder(ReplyDecoder):
    _count = 0

    def read_frame(self, doc: Doc, event: str) -> None:
        if text := doc.get("text"):
            self._tracker.add_text("text", text)
        for call in doc.get("calls", []):
            self._count += 1
            self._tracker.update_call(self._count, call["id"], call["name"], call["text"])
        self.is_complete = self.is_complete or "end" in doc
