"""Replies of the provider: the decoder reports what it sees, line by line, and the tracker assembles it."""

from typing import Any

from toolglot.wire.reader import ReplyDecoder

__all__ = ["ParrotReplyDecoder"]


class ParrotReplyDecoder(ReplyDecoder):
    """Reads lines of text, of calls, and the last one."""

    _call_count = 0

    def read_frame(self, doc: dict[str, Any], event: str) -> None:
        if text := doc.get("text"):
            self._tracker.add_text("text", text)
        for call in doc.get("calls", []):
            self._call_count += 1
            self._tracker.update_call(self._call_count, call["id"], call["name"], call["text"])
        self.is_complete = self.is_complete or "end" in doc
