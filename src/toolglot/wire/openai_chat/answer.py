"""Chat Completions: a Reply as a body, events as a stream."""

from collections.abc import Iterator

from toolglot.jsontext import dumps
from toolglot.messages import Foreign, Media, Message, Reply, Text, Thinking, ToolCall, Usage
from toolglot.wire.answer import Answer, Begin, End, Finish, Piece, Start, Step
from toolglot.wire.framing import sse
from toolglot.wire.media import data_url
from toolglot.wire.openai_chat.reply import REASONING
from toolglot.wire.openai_chat.request import call_to_wire
from toolglot.wire.shapes import Doc, as_text

__all__ = ["ChatAnswer"]

_REASONS = {
    "end": "stop",
    "tools": "tool_calls",
    "length": "length",
    "refusal": "stop",
    "filtered": "content_filter",
    "pause": "stop",
    "error": "stop",
}


class ChatAnswer(Answer):
    """Writes one answer."""

    provider = "openai-chat"
    _id = ""
    _calls = -1

    def whole(self, reply: Reply) -> Doc:
        message: Doc = {"role": "assistant", "content": None, "refusal": None, **self._message_state(reply)}
        texts, refusals = self._spoken(reply)
        if texts:
            message["content"] = "".join(texts)
        if refusals:
            message["refusal"] = "".join(refusals)
        for block in reply.blocks:
            if isinstance(block, Thinking):
                field = self._field(block)
                message[field] = message.get(field, "") + block.text
            elif isinstance(block, Media) and (url := data_url(block)):
                message.setdefault("images", []).append({"type": "image_url", "image_url": {"url": url}})
            elif isinstance(block, Foreign):
                self.is_foreign(block)
        said = Message("assistant", reply.blocks, reply.origin)
        if calls := [call_to_wire(call, said, self.writer, "reply") for call in reply.calls]:
            message["tool_calls"] = calls
        choice: Doc = {"index": 0, "message": message, "logprobs": None, "finish_reason": _REASONS[reply.stop]}
        self._id = reply.id
        return {**self._head("chat.completion"), "choices": [choice], "usage": usage_to_wire(reply.usage)}

    def frame(self, doc: Doc) -> bytes:
        return sse(dumps(doc)) if doc else sse(b"[DONE]")

    def write(self, step: Step) -> Iterator[Doc]:
        match step:
            case Begin():
                self._id, self.model = step.id, step.model or self.model
                yield self._chunk({"role": "assistant", "content": ""})
            case Start(block=ToolCall() as call):
                self._calls += 1
                id, name = self.call_head(call)
                custom = call.freeform and self.writer.profile.features.freeform
                body: Doc = {"name": name, "input" if custom else "arguments": ""}
                kind = "custom" if custom else "function"
                yield self._call({"id": id, "type": kind, kind: body, **self.own(call)})
                self._kind = kind, "input" if custom else "arguments"
            case Start(block=Text() as text):
                yield from self._said(text)
            case Start(block=Thinking() as thought) if thought.text:
                yield self._chunk({self._field(thought): thought.text})
            case Start(block=Media() as media):
                yield self._chunk({"images": [{"type": "image_url", "image_url": {"url": data_url(media)}}]})
            case Start(block=Foreign() as foreign):
                self.is_foreign(foreign)
            case Piece(kind="call"):
                kind, field = self._kind
                yield self._call({kind: {field: step.text}})
            case Piece():
                yield self._chunk({"content" if step.kind == "text" else REASONING[0]: step.text})
            case End(block=ToolCall() as call) if not step.text:
                kind, field = self._kind
                yield self._call({kind: {field: self.json_arguments(call) if kind == "function" else call.raw or ""}})
            case Finish(reply=reply):
                if state := self._message_state(reply):
                    yield self._chunk(state)
                yield self._chunk({}, _REASONS[reply.stop])
                yield {**self._head("chat.completion.chunk"), "choices": [], "usage": usage_to_wire(reply.usage)}
                yield {}
            case _:
                pass

    def _said(self, text: Text) -> Iterator[Doc]:
        if text.text:
            refusal = (text.opaque or {}).get("refusal")
            yield self._chunk({"refusal" if refusal else "content": text.text})

    def _spoken(self, reply: Reply) -> tuple[list[str], list[str]]:
        texts = [block for block in reply.blocks if isinstance(block, Text)]
        refused = [(block.opaque or {}).get("refusal") for block in texts]
        return (
            [block.text for block, refusal in zip(texts, refused, strict=True) if not refusal],
            [block.text for block, refusal in zip(texts, refused, strict=True) if refusal],
        )

    def _field(self, thought: Thinking) -> str:
        field = as_text(self.own(thought).get("field"))
        return field if field in REASONING else REASONING[0]

    def _message_state(self, reply: Reply) -> Doc:
        """reasoning_details, annotations, audio: what belongs to the whole message."""
        own = reply.origin is not None and reply.origin.wire == self.writer.profile.wire
        return dict(reply.opaque or {}) if own else {}

    def _head(self, kind: str) -> Doc:
        return {"id": self._id or "chatcmpl-0", "object": kind, "created": self.created, "model": self.model}

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
