"""Chat Completions: a Reply as a body, events as a stream."""

from collections.abc import Iterator
from typing import ClassVar

from toolglot.common.jsontext import dumps_text
from toolglot.values.messages import Block, Foreign, Media, Reply, StopReason, Text, Thinking, ToolCall, Usage
from toolglot.wire.json_values import Doc, as_text
from toolglot.wire.media import to_data_url
from toolglot.wire.openai_chat.reply_decode import REASONING_FIELDS
from toolglot.wire.openai_chat.request_encode import encode_call
from toolglot.wire.reply_encoding import ReplyEncoder, is_refusal
from toolglot.wire.tracker import ReplyBlock


class ChatReplyEncoder(ReplyEncoder):
    """Encodes one reply."""

    provider = "openai-chat"
    stop_reasons: ClassVar[dict[StopReason, str]] = {
        "end": "stop",
        "tools": "tool_calls",
        "length": "length",
        "filtered": "content_filter",
    }
    _call_index = -1
    _kind = _field = ""  # where the pieces of the open block go

    def build_body(self, reply: Reply) -> Doc:
        message: Doc = {"role": "assistant", "content": None, "refusal": None, "annotations": []}
        message |= self.writer.echo_opaque(reply.opaque)
        blocks = [block for block in reply.blocks if not self.reject_unsupported(block)]
        parts = any(isinstance(block, Foreign) for block in blocks)
        for block in blocks:
            for field, value in self._message_fields(block, parts).items():
                if message.get(field):
                    value = message[field] + value  # several texts are one content here
                message[field] = value
        if calls := [encode_call(call, self.writer, verbatim=True) for call in reply.calls]:
            message["tool_calls"] = calls
        choice: Doc = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": self.encode_stop(reply),
        }
        return {**self._head("chat.completion"), "choices": [choice], "usage": encode_usage(reply.usage)}

    def encode_frame(self, doc: Doc) -> bytes:
        return super().encode_frame(doc) if doc else b"data: [DONE]\n\n"

    def begin_reply(self) -> Iterator[Doc]:
        yield self._chunk({"role": "assistant", "content": ""})  # clients take the role from the first chunk

    def begin_block(self, block: ReplyBlock) -> Iterator[Doc]:
        if isinstance(block, ToolCall):
            self._call_index += 1
            id, name = self.map_call_head(block)
            if block.freeform:
                self._kind = "custom"
                self._field = "input"
            else:
                self._kind = "function"
                self._field = "arguments"
            head = {"id": id, "type": self._kind, self._kind: {"name": name, self._field: ""}}
            yield self._call_chunk({**head, **self.echo_opaque(block)})
        elif isinstance(block, Text | Thinking):
            self._field = self._field_for(block)
        elif not self.reject_unsupported(block):
            yield self._chunk(self._message_fields(block, parts=True))

    def add_piece(self, block: ReplyBlock, text: str) -> Iterator[Doc]:
        if isinstance(block, ToolCall):
            yield self._call_chunk({self._kind: {self._field: text}})
        else:
            yield self._chunk({self._field: text})

    def end_block(self, block: ReplyBlock, has_pieces: bool) -> Iterator[Doc]:
        if has_pieces or not isinstance(block, ToolCall):
            return
        if block.raw is None:  # arguments came as an object
            text = dumps_text(block.arguments or {})
            yield self._call_chunk({self._kind: {self._field: text}})

    def end_reply(self, reply: Reply) -> Iterator[Doc]:
        if state := self.writer.echo_opaque(reply.opaque):
            yield self._chunk(state)
        yield self._chunk({}, self.encode_stop(reply))
        # As with stream_options.include_usage.
        yield {**self._head("chat.completion.chunk"), "choices": [], "usage": encode_usage(reply.usage)}
        yield {}  # [DONE]

    def supports_media(self, media: Media) -> bool:
        return media.kind == "image" and to_data_url(media) is not None  # OpenRouter's form

    def _message_fields(self, block: Block, parts: bool) -> Doc:
        """Return the fields of a message that express a block. `parts`: content is a list."""
        match block:
            case Text() | Thinking():
                field = self._field_for(block)  # also reports state that is lost
                if not block.text:
                    return {}
                if parts and field == "content":
                    return {field: [{"type": "text", "text": block.text}]}
                return {field: block.text}
            case Media():
                return {"images": [{"type": "image_url", "image_url": {"url": to_data_url(block)}}]}
            case Foreign():
                return {"content": [block.item]}
            case _:
                return {}

    def _field_for(self, block: Block) -> str:
        """Return the field that a text or a thought belongs in."""
        if isinstance(block, Text):
            return "refusal" if is_refusal(block) else "content"
        field = as_text(self.echo_opaque(block).get("field"))
        return field if field in REASONING_FIELDS else REASONING_FIELDS[0]

    def _head(self, kind: str) -> Doc:
        return {"id": self.id or "chatcmpl-0", "object": kind, "created": self.created, "model": self.model}

    def _chunk(self, delta: Doc, reason: str | None = None) -> Doc:
        choice: Doc = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return {**self._head("chat.completion.chunk"), "choices": [choice]}

    def _call_chunk(self, call: Doc) -> Doc:
        return self._chunk({"tool_calls": [{"index": self._call_index, **call}]})


def encode_usage(usage: Usage) -> Doc:
    """Encode usage under the names of this wire."""
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": usage.cache_write},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
