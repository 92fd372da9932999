"""OpenAI Responses: a Reply as a body, events as a stream."""

from collections.abc import Iterator

from toolglot.jsontext import dumps
from toolglot.messages import Block, Media, Message, Reply, Text, Thinking, ToolCall, Usage
from toolglot.wire.answer import Answer, Begin, End, Finish, Piece, Start, Step
from toolglot.wire.framing import sse
from toolglot.wire.openai_responses.request import call_to_wire
from toolglot.wire.shapes import Doc, as_dict, as_text, rest

__all__ = ["ResponsesAnswer"]

_INCOMPLETE = {"length": "max_output_tokens", "filtered": "content_filter"}


class ResponsesAnswer(Answer):
    """Writes one answer. An item of the output is a block of the reply."""

    provider = "openai-responses"
    _id = _item_id = ""
    _sequence = -1

    def whole(self, reply: Reply) -> Doc:
        self._id = reply.id
        self.model = self.model or (reply.origin.model if reply.origin else "")
        output = [item for number, block in enumerate(reply.blocks) if (item := self._item(block, number))]
        return self._response(reply, output)

    def frame(self, doc: Doc) -> bytes:
        self._sequence += 1
        return sse(dumps({**doc, "sequence_number": self._sequence}), doc["type"])

    def write(self, step: Step) -> Iterator[Doc]:
        match step:
            case Begin():
                self._id, self.model = step.id, step.model or self.model
                self._output: list[Doc] = []
                for kind in ("created", "in_progress"):
                    yield {"type": f"response.{kind}", "response": self._response(None, [])}
            case Start():
                yield from self._started(step)
            case Piece():
                yield {"type": _DELTAS[self._kind], **self._place(), "delta": step.text}
            case End():
                yield from self._ended(step)
            case Finish(reply=reply):
                response = self._response(reply, self._output)
                kind = "incomplete" if reply.stop in _INCOMPLETE else "completed"
                yield {"type": f"response.{kind}", "response": response}

    def _started(self, step: Start) -> Iterator[Doc]:
        head = step.block if isinstance(step.block, ToolCall) else None
        self._kind = "custom" if head and head.freeform else step.kind
        if step.kind == "other" or (head and "item" in self.own(head)):
            return
        empty = head or (Text("") if step.kind == "text" else Thinking(""))
        item = self._item(empty, len(self._output)) or {}
        self._item_id = as_text(item.get("id"))
        unfinished: Doc = {**item, "content": []} if step.kind == "text" else item
        if head and not head.freeform:
            unfinished = {**item, "arguments": ""}
        yield {
            "type": "response.output_item.added",
            "output_index": len(self._output),
            "item": {**unfinished, "status": "in_progress"},
        }
        if step.kind == "text":
            part: Doc = {"type": "output_text", "text": "", "annotations": []}
            yield {"type": "response.content_part.added", **self._place(), "part": part}
        elif step.kind == "thinking":
            part = {"type": "summary_text", "text": ""}
            yield {"type": "response.reasoning_summary_part.added", **self._place(), "part": part}

    def _ended(self, step: End) -> Iterator[Doc]:
        block: Block | None = step.block
        if block is None:
            block = Text(step.text) if step.kind == "text" else Thinking(step.text)
        item = self._item(block, len(self._output))
        if item is None:
            return
        place = self._place()
        if isinstance(block, ToolCall) and "name" in item:
            field = "input" if block.freeform else "arguments"
            if not step.text and item.get(field):
                yield {"type": _DELTAS[self._kind], **place, "delta": item[field]}
            if field in item:
                yield {
                    "type": _DELTAS[self._kind].replace(".delta", ".done"),
                    **place,
                    field: item[field],
                    "name": item["name"],
                }
        elif isinstance(block, Text):
            if block.text and not step.text:
                yield {"type": _DELTAS[self._kind], **place, "delta": block.text}
            yield {"type": "response.output_text.done", **place, "text": block.text, "logprobs": []}
            yield {"type": "response.content_part.done", **place, "part": item["content"][0]}
        elif isinstance(block, Thinking):
            yield {"type": "response.reasoning_summary_text.done", **place, "text": block.text}
            part: Doc = {"type": "summary_text", "text": block.text}
            yield {"type": "response.reasoning_summary_part.done", **place, "part": part}
        else:
            yield {"type": "response.output_item.added", "output_index": len(self._output), "item": item}
        yield {"type": "response.output_item.done", "output_index": len(self._output), "item": item}
        self._output.append(item)

    def _place(self) -> Doc:
        place: Doc = {"output_index": len(self._output), "item_id": self._item_id}
        if self._kind == "text":
            return {**place, "content_index": 0, "logprobs": []}
        return {**place, "summary_index": 0} if self._kind == "thinking" else place

    def _item(self, block: Block, number: int) -> Doc | None:
        """One block as an output item."""
        stem = f"{self._id or 'resp'}_{number}"
        match block:
            case Text():
                own = self.own(block)
                if own.get("refusal"):
                    part: Doc = {"type": "refusal", "refusal": block.text}
                else:
                    part = {"type": "output_text", "text": block.text, "annotations": [], **as_dict(own.get("part"))}
                state = {"id": f"msg_{stem}", "status": "completed", **(rest(own, ("part", "refusal")) or {})}
                return {"type": "message", "role": "assistant", **state, "content": [part]}
            case Thinking():
                summary = [{"type": "summary_text", "text": block.text}] if block.text else []
                return {"type": "reasoning", "id": f"rs_{stem}", "summary": summary, **self.own(block)}
            case ToolCall():
                item = call_to_wire(block, Message("assistant", (), self.origin), self.writer, "reply")
                prefix = "ctc" if block.freeform else "fc"
                return {"id": f"{prefix}_{stem}", "status": "completed", **item}
            case Media(kind="image", data=str(data)):
                return {"type": "image_generation_call", "id": f"ig_{stem}", "status": "completed", "result": data}
            case Media():
                self.writer.lose(block.kind, "reply", "it has no place in a response")
                return None
            case _:
                return None if self.is_foreign(block) else getattr(block, "item", None)

    def _response(self, reply: Reply | None, output: list[Doc]) -> Doc:
        stop = reply.stop if reply else None
        status = "in_progress" if reply is None else "incomplete" if stop in _INCOMPLETE else "completed"
        return {
            "id": self._id or "resp_0",
            "object": "response",
            "created_at": self.created,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": _INCOMPLETE[stop]} if stop in _INCOMPLETE else None,
            "instructions": None,
            "metadata": {},
            "model": self.model,
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": usage_to_wire(reply.usage) if reply else None,
        }


_DELTAS = {
    "text": "response.output_text.delta",
    "thinking": "response.reasoning_summary_text.delta",
    "call": "response.function_call_arguments.delta",
    "custom": "response.custom_tool_call_input.delta",
}


def usage_to_wire(usage: Usage) -> Doc:
    """`input_tokens` includes the cached ones."""
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    }
