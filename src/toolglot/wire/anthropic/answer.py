"""Anthropic Messages: a Reply as a body, events as a stream."""

from collections.abc import Iterator

from toolglot.jsontext import dumps
from toolglot.messages import Block, Reply, Thinking, ToolCall, Usage
from toolglot.wire.answer import Answer, Begin, End, Finish, Piece, Start, Step
from toolglot.wire.anthropic.request import block_to_wire
from toolglot.wire.framing import sse
from toolglot.wire.shapes import Doc, as_list

__all__ = ["AnthropicAnswer"]

_REASONS = {
    "end": "end_turn",
    "tools": "tool_use",
    "length": "max_tokens",
    "refusal": "refusal",
    "filtered": "refusal",
    "pause": "pause_turn",
    "error": "end_turn",
}
# kind of block -> (type of delta, its field)
_DELTAS = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "call": ("input_json_delta", "partial_json"),
}


class AnthropicAnswer(Answer):
    """Writes one answer."""

    provider = "anthropic"

    def whole(self, reply: Reply) -> Doc:
        content = [encoded for block in reply.blocks if (encoded := self._block(block))]
        head = self._head(reply.id, reply.origin.model if reply.origin else "")
        return {**head, "content": content, **_stop(reply), "usage": usage_to_wire(reply.usage)}

    def frame(self, doc: Doc) -> bytes:
        return sse(dumps(doc), doc["type"])

    def write(self, step: Step) -> Iterator[Doc]:
        match step:
            case Begin():
                start: Doc = {
                    "content": [],
                    "stop_reason": None,
                    "stop_sequence": None,
                    "usage": usage_to_wire(Usage()),
                }
                yield {"type": "message_start", "message": {**self._head(step.id, step.model), **start}}
            case Start():
                yield {"type": "content_block_start", "index": step.number, "content_block": self._started(step)}
            case Piece():
                yield _delta(step.number, *_DELTAS[step.kind], step.text)
            case End():
                yield from self._ended(step)
                yield {"type": "content_block_stop", "index": step.number}
            case Finish(reply=reply):
                yield {"type": "message_delta", "delta": _stop(reply), "usage": usage_to_wire(reply.usage)}
                yield {"type": "message_stop"}

    def _head(self, id: str, model: str) -> Doc:
        return {"id": id or "msg_0", "type": "message", "role": "assistant", "model": model or self.model}

    def _block(self, block: Block) -> Doc | None:
        if self.is_foreign(block):
            return None
        if isinstance(block, Thinking) and not self.writer.owns(self.origin):
            return {"type": "thinking", "thinking": block.text, "signature": ""}
        return block_to_wire(block, self.origin, self.writer, "reply")

    def _started(self, step: Start) -> Doc:
        match step.block:
            case ToolCall() as call:
                id, name = self.call_head(call)
                return {"type": "tool_use", "id": id, "name": name, "input": {}, **self.own(call)}
            case None if step.kind == "text":
                return {"type": "text", "text": ""}
            case None:
                return {"type": "thinking", "thinking": "", "signature": ""}
            case block:
                return self._block(block) or {"type": "text", "text": ""}

    def _ended(self, step: End) -> Iterator[Doc]:
        block = step.block
        if isinstance(block, ToolCall) and not step.text and block.arguments != {}:
            yield _delta(step.number, "input_json_delta", "partial_json", self.json_arguments(block))
        elif step.text and block is not None:
            own = self.own(block)
            for citation in as_list(own.get("citations")):
                yield _delta(step.number, "citations_delta", "citation", citation)
            if signature := own.get("signature"):
                yield _delta(step.number, "signature_delta", "signature", signature)


def _delta(number: int, kind: str, field: str, value: object) -> Doc:
    return {"type": "content_block_delta", "index": number, "delta": {"type": kind, field: value}}


def _stop(reply: Reply) -> Doc:
    own = reply.opaque if reply.origin and reply.origin.wire == "anthropic-messages" else None
    return {"stop_reason": _REASONS[reply.stop], "stop_sequence": None, **(own or {})}


def usage_to_wire(usage: Usage) -> Doc:
    """`input_tokens` counts only what was not cached."""
    return {
        "input_tokens": usage.input - usage.cached - usage.cache_write,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
    }
