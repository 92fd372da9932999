"""Anthropic Messages: a Reply as a body, events as a stream."""

from collections.abc import Iterator
from typing import ClassVar

from toolglot.jsontext import dumps, dumps_text
from toolglot.messages import Block, Reply, StopReason, Text, Thinking, ToolCall, Usage
from toolglot.wire.anthropic.request_encode import encode_block
from toolglot.wire.framing import encode_sse, escape_line_separators
from toolglot.wire.json_values import Doc, as_list
from toolglot.wire.reply_encoding import BlockBegin, BlockEnd, BlockPiece, ReplyBegin, ReplyEncoder, ReplyEnd, ReplyStep

__all__ = ["AnthropicReplyEncoder"]

# kind of block -> (type of delta, its field)
_DELTA_FIELDS = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "call": ("input_json_delta", "partial_json"),
}


class AnthropicReplyEncoder(ReplyEncoder):
    """Encodes one reply."""

    provider = "anthropic"
    stop_reasons: ClassVar[dict[StopReason, str]] = {
        "end": "end_turn",
        "tools": "tool_use",
        "length": "max_tokens",
        "refusal": "refusal",
        "filtered": "refusal",  # there is no other reason for it
        "pause": "pause_turn",
        "error": "end_turn",
    }
    exact_stops = frozenset[StopReason]({"end", "tools", "length", "refusal", "pause"})
    _index = -1  # of the block on the wire: some blocks are left out
    _holds_arguments = False  # the arguments are not a JSON object; they are wrapped in one when they are complete
    _has_arguments = _is_skipped = False

    def build_body(self, reply: Reply) -> Doc:
        content = [self._encode_block(block) for block in reply.blocks if not self.is_unsupported(block)]
        return {**self._message_head(), "content": content, **self._stop_fields(reply), "usage": encode_usage(reply.usage)}

    def encode_frame(self, doc: Doc) -> bytes:
        return encode_sse(escape_line_separators(dumps(doc)), doc["type"])

    def encode_step(self, step: ReplyStep) -> Iterator[Doc]:
        match step:
            case ReplyBegin():
                # A message with everything that is not known yet left empty.
                start: Doc = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": encode_usage(Usage())}
                yield {"type": "message_start", "message": {**self._message_head(), **start}}
            case BlockBegin():
                self._is_skipped = step.block is not None and self.is_unsupported(step.block)
                if not self._is_skipped:
                    self._index += 1
                    self._holds_arguments = isinstance(step.block, ToolCall) and step.block.freeform
                    block = self._encode_block_start(step)
                    yield {"type": "content_block_start", "index": self._index, "content_block": block}
            case BlockPiece():
                if step.kind == "call" and not step.text.lstrip().startswith("{") and not self._has_arguments:
                    self._holds_arguments = True
                self._has_arguments = True
                if not self._holds_arguments:
                    yield self._block_delta(*_DELTA_FIELDS[step.kind], step.text)
            case BlockEnd():
                if not self._is_skipped:
                    yield from self._encode_block_end(step)
                    yield {"type": "content_block_stop", "index": self._index}
                self._has_arguments = False
            case ReplyEnd(reply=reply):
                yield {"type": "message_delta", "delta": self._stop_fields(reply), "usage": encode_usage(reply.usage)}
                yield {"type": "message_stop"}  # there is no [DONE]

    def _message_head(self) -> Doc:
        return {"id": self.id or "msg_0", "type": "message", "role": "assistant", "model": self.model}

    def _stop_fields(self, reply: Reply) -> Doc:
        return {"stop_reason": self.encode_stop(reply), "stop_sequence": None, **self.echo_message_opaque(reply)}

    def _encode_block(self, block: Block) -> Doc | None:
        if isinstance(block, Thinking) and not self.writer.owns_state(self.origin):
            return {"type": "thinking", "thinking": block.text, "signature": ""}  # the SDK's type requires the field
        return encode_block(block, self.origin, self.writer, "reply")

    def _encode_block_start(self, step: BlockBegin) -> Doc | None:
        match step.block:
            case ToolCall() as call:
                id, name = self.map_call_head(call)
                return {"type": "tool_use", "id": id, "name": name, "input": {}, **self.echo_opaque(call)}
            case Thinking() as thought if "redacted" in self.echo_opaque(thought):
                return self._encode_block(thought)
            case Text() | None if step.kind == "text":
                return {"type": "text", "text": ""}
            case Thinking() | None:
                return {"type": "thinking", "thinking": "", "signature": ""}
            case block:
                return self._encode_block(block)

    def _encode_block_end(self, step: BlockEnd) -> Iterator[Doc]:
        match step.block:
            case ToolCall() as call:
                if (self._holds_arguments or not step.has_pieces) and call.arguments != {}:
                    arguments = dumps_text(self.writer.to_arguments_object(call, "reply"))
                    yield self._block_delta("input_json_delta", "partial_json", arguments)
            case Text() | Thinking() as block:
                state = self.echo_opaque(block)
                for citation in as_list(state.get("citations")):
                    yield self._block_delta("citations_delta", "citation", citation)
                if signature := state.get("signature"):  # right before the block stops, as Anthropic sends it
                    yield self._block_delta("signature_delta", "signature", signature)
            case _:
                pass

    def _block_delta(self, kind: str, field: str, value: object) -> Doc:
        return {"type": "content_block_delta", "index": self._index, "delta": {"type": kind, field: value}}


def encode_usage(usage: Usage) -> Doc:
    """Encode usage. `input_tokens` counts only what was not cached."""
    return {
        "input_tokens": usage.input - usage.cached - usage.cache_write,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
    }
