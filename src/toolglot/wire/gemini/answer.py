"""Gemini generateContent: a Reply as a body, events as a stream. Calls come whole."""

from collections.abc import Iterator
from typing import ClassVar

from toolglot.jsontext import dumps
from toolglot.messages import Block, Media, Reply, Stop, Text, Thinking, Usage
from toolglot.wire.answer import Answer, End, Finish, Piece, Step
from toolglot.wire.framing import one_line, sse
from toolglot.wire.gemini.encode import block_to_part
from toolglot.wire.shapes import Doc

__all__ = ["GeminiAnswer"]


class GeminiAnswer(Answer):
    """Writes one answer."""

    provider = "gemini"
    reasons: ClassVar[dict[Stop, str]] = {
        "end": "STOP",
        "tools": "STOP",
        "length": "MAX_TOKENS",
        "refusal": "SAFETY",
        "filtered": "SAFETY",
        "pause": "CONTINUATION",
        "error": "OTHER",
    }
    exact = frozenset[Stop]({"end", "tools", "length", "filtered", "pause", "error"})

    def whole(self, reply: Reply) -> Doc:
        return self._finished(reply, [part for block in reply.blocks if (part := self._part(block))])

    def frame(self, doc: Doc) -> bytes:
        return sse(one_line(dumps(doc)))

    def write(self, step: Step) -> Iterator[Doc]:
        match step:
            case Piece(kind="text"):
                yield self._chunk([{"text": step.text}])
            case Piece(kind="thinking"):
                yield self._chunk([{"text": step.text, "thought": True}])
            case End(block=Text() | Thinking() as block):
                if state := self.own(block):  # a signature comes on an empty part after its text
                    thought = {"thought": True} if step.kind == "thinking" else {}
                    yield self._chunk([{"text": "", **thought, **state}])
            case End(block=block):
                if part := self._part(block):
                    yield self._chunk([part])
            case Finish(reply=reply):
                yield self._finished(reply, [])
            case _:
                pass

    def takes(self, media: Media) -> bool:
        return media.data is not None or media.url is not None

    def _part(self, block: Block) -> Doc | None:
        if self.has_no_place(block):
            return None
        if isinstance(block, Thinking) and not self.writer.owns(self.origin):
            return {"text": block.text, "thought": True}
        return block_to_part(block, self.origin, self.writer, "reply")

    def _chunk(self, parts: list[Doc]) -> Doc:
        return {"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}], **self._head()}

    def _head(self) -> Doc:
        return {"modelVersion": self.model, **({"responseId": self.id} if self.id else {})}

    def _finished(self, reply: Reply, parts: list[Doc]) -> Doc:
        own = dict(self.own_message(reply))
        feedback = own.pop("promptFeedback", None)
        tail = {"usageMetadata": usage_to_wire(reply.usage), **self._head()}
        if feedback and not reply.blocks:
            return {"promptFeedback": feedback, **tail}
        content: Doc = {"role": "model", "parts": parts or [{"text": ""}]}
        return {"candidates": [{"content": content, "finishReason": self.reason(reply), "index": 0, **own}], **tail}


def usage_to_wire(usage: Usage) -> Doc:
    """`candidatesTokenCount` excludes the thoughts."""
    return {
        "promptTokenCount": usage.input,
        "candidatesTokenCount": usage.output - usage.reasoning,
        "thoughtsTokenCount": usage.reasoning,
        "cachedContentTokenCount": usage.cached,
        "totalTokenCount": usage.input + usage.output,
    }
