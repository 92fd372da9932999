"""Gemini generateContent: a Reply as a body, events as a stream. Calls come whole."""

from collections.abc import Iterator

from toolglot.jsontext import dumps
from toolglot.messages import Block, Reply, Text, Thinking, ToolCall, Usage
from toolglot.wire.answer import Answer, Begin, End, Finish, Piece, Step
from toolglot.wire.framing import sse
from toolglot.wire.gemini.request import block_to_part
from toolglot.wire.shapes import Doc

__all__ = ["GeminiAnswer"]

_REASONS = {
    "end": "STOP",
    "tools": "STOP",
    "length": "MAX_TOKENS",
    "refusal": "SAFETY",
    "filtered": "SAFETY",
    "pause": "CONTINUATION",
    "error": "OTHER",
}


class GeminiAnswer(Answer):
    """Writes one answer."""

    provider = "gemini"
    _id = ""

    def whole(self, reply: Reply) -> Doc:
        self._id = reply.id
        self.model = self.model or (reply.origin.model if reply.origin else "")
        parts = [part for block in reply.blocks if (part := self._part(block))]
        return self._finished(reply, parts)

    def frame(self, doc: Doc) -> bytes:
        return sse(dumps(doc))

    def write(self, step: Step) -> Iterator[Doc]:
        match step:
            case Begin():
                self._id, self.model = step.id, step.model or self.model
            case Piece(kind="text"):
                yield self._chunk([{"text": step.text}])
            case Piece(kind="thinking"):
                yield self._chunk([{"text": step.text, "thought": True}])
            case End(block=ToolCall() as call):
                yield self._chunk([self._part(call) or {}])
            case End(block=Text() | Thinking() as block) if step.text:
                if state := self.own(block):  # a signature comes on an empty part after its text
                    thought = {"thought": True} if step.kind == "thinking" else {}
                    yield self._chunk([{"text": "", **thought, **state}])
            case End(block=block) if block is not None:
                if part := self._part(block):
                    yield self._chunk([part])
            case Finish(reply=reply):
                yield self._finished(reply, [])
            case _:
                pass

    def _part(self, block: Block) -> Doc | None:
        if self.is_foreign(block):
            return None
        if isinstance(block, Thinking) and not self.writer.owns(self.origin):
            return {"text": block.text, "thought": True}
        return block_to_part(block, self.origin, self.writer, "reply")

    def _chunk(self, parts: list[Doc]) -> Doc:
        return {"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}], **self._head()}

    def _head(self) -> Doc:
        return {"modelVersion": self.model, **({"responseId": self._id} if self._id else {})}

    def _finished(self, reply: Reply, parts: list[Doc]) -> Doc:
        own = dict(reply.opaque or {}) if reply.origin and reply.origin.wire == self.writer.profile.wire else {}
        feedback = own.pop("promptFeedback", None)
        tail = {"usageMetadata": usage_to_wire(reply.usage), **self._head()}
        if feedback and not parts and not reply.blocks:
            return {"promptFeedback": feedback, **tail}
        content: Doc = {"role": "model", "parts": parts or [{"text": ""}]}
        return {"candidates": [{"content": content, "finishReason": _REASONS[reply.stop], "index": 0, **own}], **tail}


def usage_to_wire(usage: Usage) -> Doc:
    """`candidatesTokenCount` excludes the thoughts."""
    return {
        "promptTokenCount": usage.input,
        "candidatesTokenCount": usage.output - usage.reasoning,
        "thoughtsTokenCount": usage.reasoning,
        "cachedContentTokenCount": usage.cached,
        "totalTokenCount": usage.input + usage.output,
    }
