"""Gemini generateContent: a Reply as a body, events as a stream. Calls are sent complete."""

from collections.abc import Iterator
from typing import ClassVar

from toolglot.values.messages import Block, Media, Reply, StopReason, Text, Thinking, ToolCall
from toolglot.wire.gemini.request_encode import encode_block
from toolglot.wire.json_values import Doc
from toolglot.wire.reply_encoding import ReplyEncoder
from toolglot.wire.tracker import ReplyBlock


class GeminiReplyEncoder(ReplyEncoder):
    """Encodes one reply."""

    provider = "gemini"
    stop_reasons: ClassVar[dict[StopReason, str]] = {
        "end": "STOP",
        "tools": "STOP",
        "length": "MAX_TOKENS",
        "filtered": "SAFETY",
        "pause": "CONTINUATION",
        "error": "OTHER",
    }
    similar_stops: ClassVar[dict[StopReason, str]] = {"refusal": "SAFETY"}

    def build_body(self, reply: Reply) -> Doc:
        return self._final_chunk(
            reply, [part for block in reply.blocks if (part := self._encode_part(block))]
        )

    def add_piece(self, block: ReplyBlock, text: str) -> Iterator[Doc]:
        if not isinstance(block, ToolCall):
            yield self._chunk([{"text": text, **self._thought_flag(block)}])

    def end_block(self, block: ReplyBlock, has_pieces: bool) -> Iterator[Doc]:
        if not isinstance(block, Text | Thinking):
            if part := self._encode_part(block):
                yield self._chunk([part])
        elif state := self.echo_opaque(block):  # a signature comes on an empty part after its text
            yield self._chunk([{"text": "", **self._thought_flag(block), **state}])

    def end_reply(self, reply: Reply) -> Iterator[Doc]:
        yield self._final_chunk(reply, [])

    def _thought_flag(self, block: ReplyBlock) -> Doc:
        return {"thought": True} if isinstance(block, Thinking) else {}

    def supports_media(self, media: Media) -> bool:
        return media.data is not None or media.url is not None

    def _encode_part(self, block: Block) -> Doc | None:
        if self.reject_unsupported(block):
            return None
        if isinstance(block, Thinking) and not self.writer.is_own:
            return {"text": block.text, "thought": True}
        return encode_block(block, self.writer)

    def _chunk(self, parts: list[Doc]) -> Doc:
        return {"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}], **self._head()}

    def _head(self) -> Doc:
        head = {"modelVersion": self.model}
        if self.id:
            head["responseId"] = self.id
        return head

    def _final_chunk(self, reply: Reply, parts: list[Doc]) -> Doc:
        usage = reply.usage
        state = dict(self.writer.echo_opaque(reply.opaque))
        feedback = state.pop("promptFeedback", None)
        counts = {
            "promptTokenCount": usage.input,
            "candidatesTokenCount": usage.output - usage.reasoning,  # excludes the thoughts
            "thoughtsTokenCount": usage.reasoning,
            "cachedContentTokenCount": usage.cached,
            "totalTokenCount": usage.input + usage.output,
        }
        tail = {"usageMetadata": counts, **self._head()}
        if feedback and not reply.blocks:
            return {"promptFeedback": feedback, **tail}
        content: Doc = {"role": "model", "parts": parts or [{"text": ""}]}  # never without a part
        return {
            "candidates": [
                {"content": content, "finishReason": self.encode_stop(reply), "index": 0, **state}
            ],
            **tail,
        }
