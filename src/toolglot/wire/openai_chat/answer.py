"""Chat Completions: a Reply as a body, events as a stream."""

from collections.abc import Iterator
from typing import Any, ClassVar

from toolglot.jsontext import dumps, dumps_text
from toolglot.messages import Block, Foreign, Media, Message, Reply, Stop, Text, Thinking, ToolCall, Usage
from toolglot.wire.answer import Answer, Begin, End, Finish, Piece, Start, Step, is_refusal
from toolglot.wire.framing import one_line, sse
from toolglot.wire.media import data_url
from toolglot.wire.openai_chat.encode import call_to_wire
from toolglot.wire.openai_chat.reply import REASONING
from toolglot.wire.shapes import Doc, as_text

__all__ = ["ChatAnswer"]


class ChatAnswer(Answer):
    """Writes one answer."""

    provider = "openai-chat"
    reasons: ClassVar[dict[Stop, str]] = {
        "end": "stop",
        "tools": "tool_calls",
        "length": "length",
        "refusal": "stop",
        "filtered": "content_filter",
        "pause": "stop",
        "error": "stop",
    }
    exact = frozenset[Stop]({"end", "tools", "length", "filtered"})
    _calls = -1
    _field = ""  # where the pieces of the open block go

    def whole(self, reply: Reply) -> Doc:
        message: Doc = {"role": "assistant", "content": None, "refusal": None, **self.own_message(reply)}
        blocks = [block for block in reply.blocks if not self.has_no_place(block)]
        parts = any(isinstance(block, Foreign) for block in blocks)
        for block in blocks:
            for field, value in self._fields(block, parts).items():
                message[field] = message[field] + value if message.get(field) else value
        said = Message("assistant", reply.blocks, reply.origin)
        if calls := [call_to_wire(call, said, self.writer, "reply", verbatim=True) for call in reply.calls]:
            message["tool_calls"] = calls
        choice: Doc = {"index": 0, "message": message, "logprobs": None, "finish_reason": self.reason(reply)}
        return {**self._head("chat.completion"), "choices": [choice], "usage": usage_to_wire(reply.usage)}

    def frame(self, doc: Doc) -> bytes:
        return sse(one_line(dumps(doc))) if doc else sse(b"[DONE]")

    def write(self, step: Step) -> Iterator[Doc]:
        match step:
            case Begin():
                yield self._chunk({"role": "assistant", "content": ""})
            case Start(block=ToolCall() as call):
                yield self._started(call)
            case Start(kind="other", block=block):
                if block is not None and not self.has_no_place(block):
                    yield self._chunk(self._fields(block, parts=True))
            case Start():
                self._field = self._place(step.block) if step.block else "content" if step.kind == "text" else REASONING[0]
            case Piece(kind="call"):
                yield self._call({self._kind: {self._field: step.text}})
            case Piece():
                yield self._chunk({self._field: step.text})
            case End(block=ToolCall() as call) if not step.said and call.raw is None:
                yield self._call({self._kind: {self._field: dumps_text(call.arguments or {})}})
            case Finish(reply=reply):
                if state := self.own_message(reply):
                    yield self._chunk(state)
                yield self._chunk({}, self.reason(reply))
                yield {**self._head("chat.completion.chunk"), "choices": [], "usage": usage_to_wire(reply.usage)}
                yield {}
            case _:
                pass

    def takes(self, media: Media) -> bool:
        return media.kind == "image" and data_url(media) is not None  # OpenRouter's form

    def _started(self, call: ToolCall) -> Doc:
        self._calls += 1
        id, name = self.call_head(call)
        self._kind, self._field = ("custom", "input") if call.freeform else ("function", "arguments")
        return self._call({"id": id, "type": self._kind, self._kind: {"name": name, self._field: ""}, **self.own(call)})

    def _fields(self, block: Block, parts: bool) -> Doc:
        """The fields of a message that hold a block. `parts`: content is a list."""
        match block:
            case Text() | Thinking():
                field = self._place(block)
                listed: Any = [{"type": "text", "text": block.text}] if parts and field == "content" else block.text
                return {field: listed} if block.text else {}
            case Media():
                return {"images": [{"type": "image_url", "image_url": {"url": data_url(block)}}]}
            case Foreign():
                return {"content": [block.item]}
            case _:
                return {}

    def _place(self, block: Block) -> str:
        """The field that a text or a thought belongs in."""
        if isinstance(block, Text):
            return "refusal" if is_refusal(block) else "content"
        field = as_text(self.own(block).get("field"))
        return field if field in REASONING else REASONING[0]

    def _head(self, kind: str) -> Doc:
        return {"id": self.id or "chatcmpl-0", "object": kind, "created": self.created, "model": self.model}

    def _chunk(self, delta: Doc, reason: str | None = None) -> Doc:
        choice: Doc = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return {**self._head("chat.completion.chunk"), "choices": [choice]}

    def _call(self, call: Doc) -> Doc:
        return self._chunk({"tool_calls": [{"index": self._calls, **call}]})


def usage_to_wire(usage: Usage) -> Doc:
    """Counts under their names here."""
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": usage.cache_write},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
