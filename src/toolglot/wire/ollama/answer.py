"""Ollama chat: a Reply as a body, events as a stream of lines. Calls come whole."""

from collections.abc import Iterator
from datetime import UTC, datetime

from toolglot.jsontext import dumps
from toolglot.messages import Block, Foreign, Media, Reply, Text, Thinking, ToolCall
from toolglot.wire.answer import Answer, Begin, End, Finish, Piece, Step
from toolglot.wire.framing import ndjson
from toolglot.wire.shapes import Doc

__all__ = ["OllamaAnswer"]


class OllamaAnswer(Answer):
    """Writes one answer."""

    provider = "ollama"

    def whole(self, reply: Reply) -> Doc:
        self.model = self.model or (reply.origin.model if reply.origin else "")
        message: Doc = {"role": "assistant", "content": ""}
        for block in reply.blocks:
            for key, value in self._block(block).items():
                message[key] = message[key] + value if key in message else value
        return {**self._head(), "message": message, **_last(reply)}

    def frame(self, doc: Doc) -> bytes:
        return ndjson(dumps(doc))

    def write(self, step: Step) -> Iterator[Doc]:
        match step:
            case Begin():
                self.model = step.model or self.model
            case Piece(kind="text"):
                yield self._line({"content": step.text})
            case Piece(kind="thinking"):
                yield self._line({"content": "", "thinking": step.text})
            case End(block=block) if block is not None and (isinstance(block, ToolCall) or not step.text):
                if fields := self._block(block):
                    yield self._line({"content": "", **fields})
            case Finish(reply=reply):
                yield {**self._head(), "message": {"role": "assistant", "content": ""}, **_last(reply)}
            case _:
                pass

    def _block(self, block: Block) -> Doc:
        match block:
            case Text():
                return {"content": block.text}
            case Thinking():
                return {"thinking": block.text} if block.text else {}
            case ToolCall():
                id, name = self.call_head(block)
                arguments = self.writer.arguments_object(block, "reply")
                return {"tool_calls": [{"id": id, "function": {"name": name, "arguments": arguments}}]}
            case Media(kind="image", data=str(data)):
                return {"images": [data]}
            case Media():
                self.writer.lose(block.kind, "reply", "only images as bytes have a place")
            case Foreign():
                self.is_foreign(block)
            case _:
                pass
        return {}

    def _head(self) -> Doc:
        return {"model": self.model, "created_at": datetime.fromtimestamp(self.created, UTC).isoformat()}

    def _line(self, fields: Doc) -> Doc:
        return {**self._head(), "message": {"role": "assistant", **fields}, "done": False}


def _last(reply: Reply) -> Doc:
    reason = "length" if reply.stop == "length" else "stop"
    return {
        "done": True,
        "done_reason": reason,
        "total_duration": 0,
        "load_duration": 0,
        "prompt_eval_count": reply.usage.input,
        "prompt_eval_duration": 0,
        "eval_count": reply.usage.output,
        "eval_duration": 0,
    }
