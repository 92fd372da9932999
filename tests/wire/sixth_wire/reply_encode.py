from collections.abc import Iterator
from typing import ClassVar

from toolglot.jsontext import dumps
from toolglot.messages import Reply, StopReason, ToolCall
from toolglot.wire.framing import encode_ndjson
from toolglot.wire.json_values import Doc
from toolglot.wire.reply_encoding import BlockEnd, BlockPiece, ReplyEncoder, ReplyEnd, ReplyStep


class SixthReplyEncoder(ReplyEncoder):
    provider = "sixth"
    stop_reasons: ClassVar[dict[StopReason, str]] = {}
    exact_stops = frozenset[StopReason]()

    def build_body(self, reply: Reply) -> Doc:
        return {"text": reply.text, "calls": [self._encode_call(call) for call in reply.calls], "end": True}

    def encode_frame(self, doc: Doc) -> bytes:
        return encode_ndjson(dumps(doc))

    def encode_step(self, step: ReplyStep) -> Iterator[Doc]:
        match step:
            case BlockPiece(kind="text"):
                yield {"text": step.text}
            case BlockEnd(block=ToolCall() as call):
                yield {"calls": [self._encode_call(call)]}
            case ReplyEnd():
                yield {"end": True}
            case _:
                pass

    def _encode_call(self, call: ToolCall) -> Doc:
        id, name = self.map_call_head(call)
        return {"id": id, "name": name, "text": call.text}
