"""Anthropic Messages: a Reply as a body, events as a stream."""

from collections.abc import Iterator
from typing import ClassVar

from toolglot.common.jsontext import dumps_text
from toolglot.values.messages import Block, Reply, StopReason, Text, Thinking, ToolCall, Usage
from toolglot.wire.anthropic.request_encode import encode_block
from toolglot.wire.json_values import Doc, as_list
from toolglot.wire.reply_encoding import ReplyEncoder
from toolglot.wire.tracker import ReplyBlock

# block -> (type of delta, its field)
_DELTA_FIELDS: dict[type[Block], tuple[str, str]] = {
    Text: ("text_delta", "text"),
    Thinking: ("thinking_delta", "thinking"),
    ToolCall: ("input_json_delta", "partial_json"),
}


# Required by Anthropic's published schema, as are the nulls of blocks and of usage.
_NULL_FIELDS: Doc = {"stop_sequence": None, "stop_details": None, "container": None}
_BLOCK_FIELDS: dict[type[Block], Doc] = {Text: {"citations": None}, ToolCall: {"caller": {"type": "direct"}}}


class AnthropicReplyEncoder(ReplyEncoder):
    """Encodes one reply."""

    provider = "anthropic"
    stop_reasons: ClassVar[dict[StopReason, str]] = {
        "end": "end_turn",
        "tools": "tool_use",
        "length": "max_tokens",
        "refusal": "refusal",
        "pause": "pause_turn",
    }
    similar_stops: ClassVar[dict[StopReason, str]] = {"filtered": "refusal"}
    _index = -1  # of the block on the wire: some blocks are left out
    # the arguments are not a JSON object; they are wrapped in one when they are complete
    _holds_arguments = False
    _has_arguments = _is_skipped = False

    def build_body(self, reply: Reply) -> Doc:
        content = [self._encode_block(block) for block in reply.blocks if not self.reject_unsupported(block)]
        return {
            **self._message_head(),
            "content": content,
            **self._stop_fields(reply),
            "usage": encode_usage(reply.usage),
        }

    def begin_reply(self) -> Iterator[Doc]:
        # A message with everything that is not known yet left empty.
        start: Doc = {"content": [], "stop_reason": None, **_NULL_FIELDS, "usage": encode_usage(Usage())}
        yield {"type": "message_start", "message": {**self._message_head(), **start}}

    def begin_block(self, block: ReplyBlock) -> Iterator[Doc]:
        self._is_skipped = self.reject_unsupported(block)
        if self._is_skipped:
            return
        self._index += 1
        self._holds_arguments = isinstance(block, ToolCall) and block.freeform
        encoded: Doc | None
        match block:
            case ToolCall():
                id, name = self.map_call_head(block)
                encoded = {"type": "tool_use", "id": id, "name": name, "input": {}, **self.echo_opaque(block)}
            case Text():
                encoded = {"type": "text", "text": ""}
            case Thinking() if "redacted" not in self.echo_opaque(block):
                encoded = {"type": "thinking", "thinking": "", "signature": ""}
            case _:
                encoded = self._encode_block(block)
        encoded = {**_BLOCK_FIELDS.get(type(block), {}), **(encoded or {})}
        yield {"type": "content_block_start", "index": self._index, "content_block": encoded}

    def add_piece(self, block: ReplyBlock, text: str) -> Iterator[Doc]:
        if isinstance(block, ToolCall) and not text.lstrip().startswith("{") and not self._has_arguments:
            self._holds_arguments = True
        self._has_arguments = True
        if not self._holds_arguments:
            yield self._block_delta(*_DELTA_FIELDS[type(block)], text)

    def end_block(self, block: ReplyBlock, has_pieces: bool) -> Iterator[Doc]:
        self._has_arguments = False
        if self._is_skipped:
            return
        if isinstance(block, ToolCall):
            if (self._holds_arguments or not has_pieces) and block.arguments != {}:
                arguments = dumps_text(self.writer.to_arguments_object(block))
                yield self._block_delta("input_json_delta", "partial_json", arguments)
        elif isinstance(block, Text | Thinking):
            state = self.echo_opaque(block)
            for citation in as_list(state.get("citations")):
                yield self._block_delta("citations_delta", "citation", citation)
            if signature := state.get("signature"):  # right before the block stops, as Anthropic sends it
                yield self._block_delta("signature_delta", "signature", signature)
        yield {"type": "content_block_stop", "index": self._index}

    def end_reply(self, reply: Reply) -> Iterator[Doc]:
        yield {"type": "message_delta", "delta": self._stop_fields(reply), "usage": encode_usage(reply.usage)}
        yield {"type": "message_stop"}  # there is no [DONE]

    def _message_head(self) -> Doc:
        return {"id": self.id or "msg_0", "type": "message", "role": "assistant", "model": self.model}

    def _stop_fields(self, reply: Reply) -> Doc:
        return {
            "stop_reason": self.encode_stop(reply),
            **_NULL_FIELDS,
            **self.writer.echo_opaque(reply.opaque),
        }

    def _encode_block(self, block: Block) -> Doc | None:
        if isinstance(block, Thinking) and not self.writer.is_own:
            # the SDK's type requires the field
            return {"type": "thinking", "thinking": block.text, "signature": ""}
        encoded = encode_block(block, self.writer)
        return encoded and {**_BLOCK_FIELDS.get(type(block), {}), **encoded}

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
        "cache_creation": {"ephemeral_5m_input_tokens": usage.cache_write, "ephemeral_1h_input_tokens": 0},
        "inference_geo": None,
        "server_tool_use": None,
        "service_tier": "standard",
    }
