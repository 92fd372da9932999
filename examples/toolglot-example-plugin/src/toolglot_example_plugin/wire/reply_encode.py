"""Replies as the provider sends them, for the simulator and the tests."""

from collections.abc import Iterator
from typing import Any, ClassVar

from toolglot import Reply, Text, ToolCall
from toolglot.wire.framing import encode_ndjson
from toolglot.wire.reply_encoding import ReplyEncoder
from toolglot.wire.tracker import ReplyBlock

__all__ = ["ParrotReplyEncoder"]


class ParrotReplyEncoder(ReplyEncoder):
    """Writes one line per piece of text and per call."""

    provider = "parrot"
    stop_reasons: ClassVar[dict[Any, str]] = {}

    def build_body(self, reply: Reply) -> dict[str, Any]:
        return {
            "text": reply.text,
            "calls": [self._encode_call(call) for call in reply.calls],
            "end": True,
        }

    def encode_frame(self, doc: dict[str, Any]) -> bytes:
        return encode_ndjson(doc)

    def add_piece(self, block: ReplyBlock, text: str) -> Iterator[dict[str, Any]]:
        if isinstance(block, Text):
            yield {"text": text}

    def end_block(self, block: ReplyBlock, has_pieces: bool) -> Iterator[dict[str, Any]]:
        if isinstance(block, ToolCall):
            yield {"calls": [self._encode_call(block)]}

    def end_reply(self, reply: Reply) -> Iterator[dict[str, Any]]:
        yield {"end": True}

    def _encode_call(self, call: ToolCall) -> dict[str, Any]:
        id, name = self.map_call_head(call)
        return {"id": id, "name": name, "text": call.text}
