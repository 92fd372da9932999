"""Anthropic Messages: a Reply as a body, events as a stream."""

from collections.abc import Iterator
from typing import ClassVar

from toolglot.jsontext import dumps, dumps_text
from toolglot.messages import Block, Reply, Stop, Text, Thinking, ToolCall, Usage
from toolglot.wire.answer import Answer, Begin, End, Finish, Piece, Start, Step
from toolglot.wire.anthropic.encode import block_to_wire
from toolglot.wire.framing import one_line, sse
from toolglot.wire.shapes import Doc, as_list

__all__ = ["AnthropicAnswer"]

# kind of block -> (type of delta, its field)
_DELTAS = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "call": ("input_json_delta", "partial_json"),
}


class AnthropicAnswer(Answer):
    """Writes one answer."""

    provider = "anthropic"
    reasons: ClassVar[dict[Stop, str]] = {
        "end": "end_turn",
        "tools": "tool_use",
        "length": "max_tokens",
        "refusal": "refusal",
        "filtered": "refusal",
        "pause": "pause_turn",
        "error": "end_turn",
    }
    exact = frozenset[Stop]({"end", "tools", "length", "refusal", "pause"})
    _index = -1  # of the block on the wire: some are left out
    _held = False  # the arguments are no JSON object, and are written once they are whole

    def whole(self, reply: Reply) -> Doc:
        content = [self._block(block) for block in reply.blocks if not self.has_no_place(block)]
        return {**self._head(), "content": content, **self._stop(reply), "usage": usage_to_wire(reply.usage)}

    def frame(self, doc: Doc) -> bytes:
        return sse(one_line(dumps(doc)), doc["type"])

    def write(self, step: Step) -> Iterator[Doc]:
        match step:
            case Begin():
                start: Doc = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage_to_wire(Usage())}
                yield {"type": "message_start", "message": {**self._head(), **start}}
            case Start():
                self._skipped = step.block is not None and self.has_no_place(step.block)
                if not self._skipped:
                    self._index += 1
                    self._held = isinstance(step.block, ToolCall) and step.block.freeform
                    yield {"type": "content_block_start", "index": self._index, "content_block": self._started(step)}
            case Piece():
                if step.kind == "call" and not step.text.lstrip().startswith("{") and not self._begun_json:
                    self._held = True
                self._begun_json = True
                if not self._held:
                    yield self._delta(*_DELTAS[step.kind], step.text)
            case End():
                if not self._skipped:
                    yield from self._ended(step)
                    yield {"type": "content_block_stop", "index": self._index}
                self._begun_json = False
            case Finish(reply=reply):
                yield {"type": "message_delta", "delta": self._stop(reply), "usage": usage_to_wire(reply.usage)}
                yield {"type": "message_stop"}

    _begun_json = _skipped = False

    def _head(self) -> Doc:
        return {"id": self.id or "msg_0", "type": "message", "role": "assistant", "model": self.model}

    def _stop(self, reply: Reply) -> Doc:
        return {"stop_reason": self.reason(reply), "stop_sequence": None, **self.own_message(reply)}

    def _block(self, block: Block) -> Doc | None:
        if isinstance(block, Thinking) and not self.writer.owns(self.origin):
            return {"type": "thinking", "thinking": block.text, "signature": ""}
        return block_to_wire(block, self.origin, self.writer, "reply")

    def _started(self, step: Start) -> Doc | None:
        match step.block:
            case ToolCall() as call:
                id, name = self.call_head(call)
                return {"type": "tool_use", "id": id, "name": name, "input": {}, **self.own(call)}
            case Thinking() as thought if "redacted" in self.own(thought):
                return self._block(thought)
            case Text() | None if step.kind == "text":
                return {"type": "text", "text": ""}
            case Thinking() | None:
                return {"type": "thinking", "thinking": "", "signature": ""}
            case block:
                return self._block(block)

    def _ended(self, step: End) -> Iterator[Doc]:
        match step.block:
            case ToolCall() as call:
                if (self._held or not step.said) and call.arguments != {}:
                    yield self._delta(
                        "input_json_delta", "partial_json", dumps_text(self.writer.arguments_object(call, "reply"))
                    )
            case Text() | Thinking() as block:
                own = self.own(block)
                for citation in as_list(own.get("citations")):
                    yield self._delta("citations_delta", "citation", citation)
                if signature := own.get("signature"):
                    yield self._delta("signature_delta", "signature", signature)
            case _:
                pass

    def _delta(self, kind: str, field: str, value: object) -> Doc:
        return {"type": "content_block_delta", "index": self._index, "delta": {"type": kind, field: value}}


def usage_to_wire(usage: Usage) -> Doc:
    """`input_tokens` counts only what was not cached."""
    return {
        "input_tokens": usage.input - usage.cached - usage.cache_write,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
    }
