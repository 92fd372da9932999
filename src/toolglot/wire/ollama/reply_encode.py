"""Ollama chat: a Reply as a body, events as a stream of lines. Calls are sent complete."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import ClassVar

from toolglot.values.messages import Block, Reply, StopReason, Text, Thinking, ToolCall
from toolglot.wire.framing import encode_ndjson
from toolglot.wire.json_values import Doc
from toolglot.wire.reply_encoding import ReplyEncoder
from toolglot.wire.tracker import ReplyBlock


class OllamaReplyEncoder(ReplyEncoder):
    """Encodes one reply."""

    provider = "ollama"
    stop_reasons: ClassVar[dict[StopReason, str]] = {"end": "stop", "tools": "stop", "length": "length"}

    def build_body(self, reply: Reply) -> Doc:
        message: Doc = {"role": "assistant", "content": ""}
        for block in reply.blocks:
            for key, value in self._message_fields(block).items():
                message[key] = message[key] + value if key in message else value
        return {**self._head(), "message": message, **self._final_fields(reply)}

    def encode_frame(self, doc: Doc) -> bytes:
        return encode_ndjson(doc)

    def add_piece(self, block: ReplyBlock, text: str) -> Iterator[Doc]:
        if isinstance(block, Text | Thinking):
            fields = {"content": text} if isinstance(block, Text) else {"content": "", "thinking": text}
            yield self._line(fields)

    def end_block(self, block: ReplyBlock, has_pieces: bool) -> Iterator[Doc]:
        if not isinstance(block, Text | Thinking) and (fields := self._message_fields(block)):
            yield self._line({"content": "", **fields})

    def end_reply(self, reply: Reply) -> Iterator[Doc]:
        yield {**self._head(), "message": {"role": "assistant", "content": ""}, **self._final_fields(reply)}

    def _message_fields(self, block: Block) -> Doc:
        """Return the fields of a message that express a block."""
        match block:
            case Text():
                return {"content": block.text}
            case Thinking():
                return {"thinking": block.text} if block.text else {}
            case ToolCall():
                id, name = self.map_call_head(block)
                arguments = self.writer.to_arguments_object(block)
                return {"tool_calls": [{"id": id, "function": {"name": name, "arguments": arguments}}]}
            case _:
                self.reject_unsupported(block)
                return {}

    def _head(self) -> Doc:
        return {"model": self.model, "created_at": datetime.fromtimestamp(self.created, UTC).isoformat()}

    def _line(self, fields: Doc) -> Doc:
        return {**self._head(), "message": {"role": "assistant", **fields}, "done": False}

    def _final_fields(self, reply: Reply) -> Doc:
        return {
            "done": True,
            "done_reason": self.encode_stop(reply),
            "total_duration": 0,  # nothing was measured; real answers have durations
            "load_duration": 0,
            "prompt_eval_count": reply.usage.input,
            "prompt_eval_duration": 0,
            "eval_count": reply.usage.output,
            "eval_duration": 0,
        }
