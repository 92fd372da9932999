"""Ollama chat: a Reply as a body, events as a stream of lines. Calls come whole."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import ClassVar

from toolglot.jsontext import dumps
from toolglot.messages import Block, Reply, Stop, Text, Thinking, ToolCall
from toolglot.wire.answer import Answer, End, Finish, Piece, Step
from toolglot.wire.framing import ndjson, one_line
from toolglot.wire.shapes import Doc

__all__ = ["OllamaAnswer"]


class OllamaAnswer(Answer):
    """Writes one answer."""

    provider = "ollama"
    reasons: ClassVar[dict[Stop, str]] = {
        **dict.fromkeys(("end", "tools", "refusal", "filtered", "pause", "error"), "stop"),
        "length": "length",
    }
    exact = frozenset[Stop]({"end", "tools", "length"})

    def whole(self, reply: Reply) -> Doc:
        message: Doc = {"role": "assistant", "content": ""}
        for block in reply.blocks:
            for key, value in self._fields(block).items():
                message[key] = message[key] + value if key in message else value
        return {**self._head(), "message": message, **self._last(reply)}

    def frame(self, doc: Doc) -> bytes:
        return ndjson(one_line(dumps(doc)))

    def write(self, step: Step) -> Iterator[Doc]:
        match step:
            case Piece(kind="text"):
                yield self._line({"content": step.text})
            case Piece(kind="thinking"):
                yield self._line({"content": "", "thinking": step.text})
            case End(block=block) if step.kind in ("call", "other"):
                if fields := self._fields(block):
                    yield self._line({"content": "", **fields})
            case Finish(reply=reply):
                yield {**self._head(), "message": {"role": "assistant", "content": ""}, **self._last(reply)}
            case _:
                pass

    def _fields(self, block: Block) -> Doc:
        """The fields of a message that hold a block."""
        match block:
            case Text():
                return {"content": block.text}
            case Thinking():
                return {"thinking": block.text} if block.text else {}
            case ToolCall():
                id, name = self.call_head(block)
                arguments = self.writer.arguments_object(block, "reply")
                return {"tool_calls": [{"id": id, "function": {"name": name, "arguments": arguments}}]}
            case _:
                self.has_no_place(block)
                return {}

    def _head(self) -> Doc:
        return {"model": self.model, "created_at": datetime.fromtimestamp(self.created, UTC).isoformat()}

    def _line(self, fields: Doc) -> Doc:
        return {**self._head(), "message": {"role": "assistant", **fields}, "done": False}

    def _last(self, reply: Reply) -> Doc:
        return {
            "done": True,
            "done_reason": self.reason(reply),
            "total_duration": 0,
            "load_duration": 0,
            "prompt_eval_count": reply.usage.input,
            "prompt_eval_duration": 0,
            "eval_count": reply.usage.output,
            "eval_duration": 0,
        }
