"""OpenAI Responses: a Reply as a body, events as a stream. A block of the reply is an item of the output."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from toolglot.values.messages import (
    Block,
    Foreign,
    Media,
    Origin,
    Reply,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolsChanged,
    Usage,
)
from toolglot.wire.json_values import Doc, as_dict, as_text, iter_dicts, unknown_fields
from toolglot.wire.openai_responses.request_encode import encode_call
from toolglot.wire.reply_encoding import ReplyEncoder, is_refusal
from toolglot.wire.tracker import ReplyBlock

_INCOMPLETE_REASONS: dict[StopReason, str] = {"length": "max_output_tokens", "filtered": "content_filter"}
# The settings of a request that its response repeats, with their defaults. The schema of Open Responses
# requires all of them.
_ECHOED_FIELDS: Doc = {
    "background": False,
    "frequency_penalty": 0,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1,
    "truncation": "disabled",
}
_Kind = Literal["text", "refusal", "thinking", "call", "custom", "whole"]
"""How an item is sent:
text: a message, announced with an empty text.
refusal: the same, with a refusal instead of a text.
thinking: reasoning, announced without a summary.
call: a call of a function, announced without arguments.
custom: a call of a freeform tool, announced without input.
whole: anything else; announced only when it is complete.
"""
# kind of item -> (event of its pieces, field of the complete text); "whole" ones have no pieces
_PIECE_EVENTS: dict[_Kind, tuple[str, str]] = {
    "text": ("response.output_text", "text"),
    "refusal": ("response.refusal", "refusal"),
    "thinking": ("response.reasoning_summary_text", "text"),
    "call": ("response.function_call_arguments", "arguments"),
    "custom": ("response.custom_tool_call_input", "input"),
}


class ResponsesReplyEncoder(ReplyEncoder):
    """Encodes one reply."""

    provider = "openai-responses"
    stop_reasons: ClassVar[dict[StopReason, str]] = {
        "end": "completed",
        "tools": "completed",
        "length": "incomplete",
        "filtered": "incomplete",
    }

    def __init__(self, model: str = "", *, created: int = 0, origin: Origin | None = None) -> None:
        super().__init__(model, created=created, origin=origin)
        self._sequence = -1
        self._output: list[Doc] = []
        self._ids: set[str] = set()
        # Of the open item. The id is "" until the item is announced.
        self._item_id = ""
        self._kind: _Kind = "whole"
        self._has_summary = False

    def build_body(self, reply: Reply) -> Doc:
        for block in reply.blocks:
            if item := self._encode_item(block):
                self._output.append(item)
        return self._response_object(reply)

    def encode_frame(self, doc: Doc) -> bytes:
        self._sequence += 1
        return super().encode_frame({**doc, "sequence_number": self._sequence})

    def supports_media(self, media: Media) -> bool:
        return media.kind == "image" and media.data is not None

    def begin_reply(self) -> Iterator[Doc]:
        for kind in ("created", "in_progress"):  # the openai SDK fails on a stream that starts otherwise
            yield {"type": f"response.{kind}", "response": self._response_object(None)}

    def begin_block(self, block: ReplyBlock) -> Iterator[Doc]:
        self._item_id = ""
        self._kind = "whole"
        self._has_summary = False
        is_native_call = isinstance(block, ToolCall) and "item" in self.echo_opaque(block)
        if is_native_call or isinstance(block, Media | ToolsChanged | Foreign):  # sent complete
            return
        encoded = self._encode_item(block)
        assert encoded is not None  # texts, thinking and calls are always supported
        item: Doc = encoded
        self._item_id = as_text(item.get("id"))
        part: Doc = {}
        match block:
            case Text():
                self._kind = "refusal" if is_refusal(block) else "text"
                part = item["content"][0]
                item = {**item, "content": []}
            case Thinking():  # its summary, if there is one, begins with the first piece
                self._kind = "thinking"
                item = {**item, "summary": list[Doc]()}
            case ToolCall():
                self._kind = "custom" if block.freeform else "call"
                item = {**item, _PIECE_EVENTS[self._kind][1]: ""}
        item["status"] = "in_progress"  # also for an item that is complete at once
        yield {"type": "response.output_item.added", "output_index": len(self._output), "item": item}
        if part:
            yield self._part_event("added", part)

    def add_piece(self, block: ReplyBlock, text: str) -> Iterator[Doc]:
        if self._kind == "thinking" and not self._has_summary:
            self._has_summary = True
            yield self._part_event("added", {"type": "summary_text", "text": ""})
        if self._kind != "whole":
            yield {"type": f"{_PIECE_EVENTS[self._kind][0]}.delta", **self._event_position(), "delta": text}

    def end_block(self, block: ReplyBlock, has_pieces: bool) -> Iterator[Doc]:
        item = self._encode_item(block, self._item_id)
        if item is None:
            return
        match block:
            case _ if self._kind == "whole":
                yield {"type": "response.output_item.added", "output_index": len(self._output), "item": item}
            case ToolCall():
                yield from self._end_call(item, has_pieces)
            case Text():
                yield from self._end_part(block.text, item["content"][0])
            case Thinking() if self._has_summary:
                yield from self._end_part(block.text, {"type": "summary_text", "text": block.text})
            case _:  # thinking without a summary has no part to end
                pass
        yield {"type": "response.output_item.done", "output_index": len(self._output), "item": item}
        self._output.append(item)

    def _end_call(self, item: Doc, has_pieces: bool) -> Iterator[Doc]:
        event, field = _PIECE_EVENTS[self._kind]
        if not has_pieces and item[field]:
            yield {"type": f"{event}.delta", **self._event_position(), "delta": item[field]}
        yield {"type": f"{event}.done", **self._event_position(), field: item[field], "name": item["name"]}

    def _end_part(self, text: str, part: Doc) -> Iterator[Doc]:
        """End the only part of a message or of a summary."""
        event, field = _PIECE_EVENTS[self._kind]
        yield {"type": f"{event}.done", **self._event_position(), field: text}
        yield self._part_event("done", part)

    def end_reply(self, reply: Reply) -> Iterator[Doc]:
        response = self._response_object(reply)
        yield {"type": f"response.{response['status']}", "response": response}

    def _part_event(self, step: str, part: Doc) -> Doc:
        kind = "reasoning_summary_part" if self._kind == "thinking" else "content_part"
        return {"type": f"response.{kind}.{step}", **self._event_position(), "part": part}

    def _event_position(self) -> Doc:
        """Return the fields that say which item, and which part of it, an event belongs to."""
        position: Doc = {"output_index": len(self._output), "item_id": self._item_id}
        match self._kind:
            case "text":
                position |= {"content_index": 0, "logprobs": []}
            case "refusal":
                position["content_index"] = 0
            case "thinking":
                position["summary_index"] = 0
            case _:
                pass
        return position

    def _encode_item(self, block: Block, announced_id: str = "") -> Doc | None:
        """Encode one block as an output item; None if it is not supported.

        `announced_id`: the id that it already has.
        """
        if self.reject_unsupported(block):
            return None
        state = self.echo_opaque(block)
        match block:
            case Text():
                if is_refusal(block):
                    part: Doc = {"type": "refusal", "refusal": block.text}
                else:
                    part = {
                        "type": "output_text",
                        "text": block.text,
                        "annotations": [],
                        **as_dict(state.get("part")),
                    }
                extra = unknown_fields(state, ("part", "refusal", "id")) or {}
                item = {
                    "type": "message",
                    "role": "assistant",
                    "id": "",
                    "status": "completed",
                    **extra,
                    "content": [part],
                }
                prefix = "msg"
            case Thinking():
                summary = [{"type": "summary_text", "text": block.text}] if block.text else []
                item = {"type": "reasoning", "summary": summary, **state}
                prefix = "rs"
            case ToolCall():
                item = encode_call(block, self.writer, verbatim=True)
                if "item" in state:  # an item of the provider's own, such as a call of its shell
                    return item
                item = {"status": "completed", **item}
                prefix = "ctc" if block.freeform else "fc"
            case Media():
                item = {
                    "type": "image_generation_call",
                    "id": "",
                    "status": "completed",
                    "result": block.data,
                }
                state = {}  # that of an image in a request, which is no item
                prefix = "ig"
            case ToolsChanged():
                return state["item"]
            case _:
                return block.item if isinstance(block, Foreign) else None
        # The opaque state may say more of an item and have another status, but its id may be taken.
        return {**item, "id": announced_id or self._make_item_id(prefix, as_text(state.get("id")))}

    def _make_item_id(self, prefix: str, id: str) -> str:
        """Return an item's own id, or a new one if that is taken."""
        if not id or id in self._ids:  # the parts of one message share its id, but are items here
            id = f"{prefix}_{self.id or 'resp'}_{len(self._output)}"
        self._ids.add(id)
        return id

    def _response_object(self, reply: Reply | None) -> Doc:
        """Return the response as far as it goes; without a reply, it is in progress."""
        response: Doc = {
            "id": self.id or "resp_0",
            "object": "response",
            "created_at": self.created,
            "completed_at": None,
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "model": self.model,
            "output": list(self._output),
            "usage": None,
            **self._echo_settings(),
        }
        if reply is None:
            return response
        status = response["status"] = self.encode_stop(reply)
        if status == "completed":
            response["completed_at"] = self.created
        if reply.stop in _INCOMPLETE_REASONS:
            response["incomplete_details"] = {"reason": _INCOMPLETE_REASONS[reply.stop]}
        response["usage"] = encode_usage(reply.usage)
        return response

    def _echo_settings(self) -> Doc:
        """Return the settings of the request, or their defaults, as a response repeats them."""
        settings = {
            **_ECHOED_FIELDS,
            **{name: self.request_body[name] for name in self.request_body.keys() & _ECHOED_FIELDS},
        }
        settings["reasoning"] = {**_ECHOED_FIELDS["reasoning"], **as_dict(settings["reasoning"])}
        tools: list[Doc] = []
        for tool in iter_dicts(settings["tools"]):
            if tool.get("type") == "function":
                tool = {"description": None, "parameters": None, "strict": None, **tool}
            tools.append(tool)
        settings["tools"] = tools
        return settings


def encode_usage(usage: Usage) -> Doc:
    """Encode usage. `input_tokens` includes the cached ones."""
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    }
