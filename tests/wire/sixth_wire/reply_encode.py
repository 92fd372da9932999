from collections.abc import Iterator
from typing import ClassVar

from toolglot.values.messages import Reply, StopReason, Text, ToolCall
from toolglot.wire.framing import encode_ndjson
from toolglot.wire.json_values import Doc
from toolglot.wire.reply_encoding import ReplyEncoder
from toolglot.wire.tracker import ReplyBlock


class SixthReplyEncoder(ReplyEncoder):
    provider = "sixth"
    stop_reasons: ClassVar[dict[StopReason, str]] = {}

    def build_body(self, reply: Reply) -> Doc:
        return {"text": reply.text, "calls": [self._encode_call(call) for call in reply.calls], "end": True}

    def encode_frame(self, doc: Doc) -> bytes:
        return encode_ndjson(doc)

    def add_piece(self, block: ReplyBlock, text: str) -> Iterator[Doc]:
        if isinstance(block, Text):
            yield {"text": text}

    def end_block(self, block: ReplyBlock, has_pieces: bool) -> Iterator[Doc]:
        if isinstance(block, ToolCall):
            yield {"calls": [self._encode_call(block)]}

    def end_reply(self, reply: Reply) -> Iterator[Doc]:
        yield {"end": True}

    def _encode_call(self, call: ToolCall) -> Doc:
        id, name = self.map_call_head(call)
        return {"id": id, "name": name, "text": call.text}
