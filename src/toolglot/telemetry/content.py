"""Messages and tools as JSON, following OpenTelemetry's GenAI conventions: `gen_ai.input.messages` and
related attributes.

Every message is converted once, however many requests include it. Keys, and anything that looks like one, are
hidden.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from toolglot.common.jsontext import dumps_text, loads
from toolglot.common.redact import redact
from toolglot.values.messages import (
    Foreign,
    Media,
    Message,
    Reply,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolsChanged,
)
from toolglot.values.request import ToolDefinition

__all__ = ["FINISH_REASONS", "Captured", "ContentCache"]

FINISH_REASONS = {
    "end": "stop",
    "tools": "tool_call",
    "length": "length",
    "refusal": "content_filter",
    "filtered": "content_filter",
    "error": "error",
}
"""Stop reason -> its name in the conventions; others are kept as they are."""
_MODALITIES = {"file": "document"}


class Captured:
    """Values as JSON text for spans, and as plain values for events."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.text = f"[{','.join(texts)}]"

    @property
    def values(self) -> Any:
        """The values."""
        return loads(self.text)


class ContentCache:
    """The converted content of one run's requests."""

    def __init__(self) -> None:
        self.secrets = set[str]()
        """Keys to hide, of all models used so far: a tool may return the key of a model used before a
        switch."""
        self._messages: list[tuple[Message, str]] = []
        self._tools: tuple[Sequence[ToolDefinition], Captured] = ((), Captured(()))

    def capture_request(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition]
    ) -> dict[str, Captured]:
        """Return a request's content by attribute name."""
        known, system_count = self._messages, 0
        for index, message in enumerate(messages):
            if index < len(known) and known[index][0] is message:
                continue
            del known[index:]  # a different message here: those after it may differ, too
            known.append((message, self._to_json_items(message)))
        del known[len(messages) :]
        while system_count < len(known) and known[system_count][0].role == "system":
            system_count += 1
        content: dict[str, Captured] = {}
        if system_count:
            parts = [
                part for message, _ in known[:system_count] for part in _convert_message(message)["parts"]
            ]
            content["gen_ai.system_instructions"] = Captured(map(self.to_json, parts))
        if len(known) > system_count:
            content["gen_ai.input.messages"] = Captured(text for _, text in known[system_count:])
        if tools:
            if self._tools[0] is not tools:
                self._tools = tools, Captured(self.to_json(_convert_tool(tool)) for tool in tools)
            content["gen_ai.tool.definitions"] = self._tools[1]
        return content

    def capture_messages(self, messages: Iterable[Message]) -> Captured:
        """Return messages that are not part of a request."""
        return Captured(map(self._to_json_items, messages))

    def capture_reply(self, reply: Reply) -> Captured:
        """Return a reply as a model's output."""
        finish_reason = FINISH_REASONS.get(reply.stop, reply.stop)
        return Captured([self.to_json({**_convert_message(reply.message), "finish_reason": finish_reason})])

    def _to_json_items(self, message: Message) -> str:
        """Return a message as items of a JSON list: one item per result, because viewers show only one result
        per item.
        """
        item = _convert_message(message)
        items = [{**item, "parts": [part]} for part in item["parts"]] if message.role == "tool" else [item]
        return ",".join(map(self.to_json, items))

    def to_json(self, value: Any) -> str:
        """Return a value as JSON without keys."""
        return self.redact(dumps_text(value))

    def redact(self, text: str) -> str:
        """Return a text without keys."""
        return redact(text, self.secrets)


def _convert_message(message: Message) -> dict[str, Any]:
    return {"role": message.role, "parts": [_convert_block(block) for block in message.blocks]}


def _convert_block(block: Any) -> dict[str, Any]:
    match block:
        case Text(text):
            return {"type": "text", "content": text}
        case Thinking(text):
            return {"type": "reasoning", "content": text}
        case ToolCall():
            return _convert_call(block)
        case ToolResult():
            return _convert_result(block)
        case Media():
            return _convert_media(block)
        case ToolsChanged():
            return _convert_changes(block)
        case Foreign(wire, item):
            return {"type": "foreign", "wire": wire, "item": item}
        case _:
            return {"type": type(block).__name__}


def _convert_call(call: ToolCall) -> dict[str, Any]:
    arguments = call.text if call.arguments is None else call.arguments
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments}


def _convert_changes(changes: ToolsChanged) -> dict[str, Any]:
    added = [tool.qualified_name for tool in changes.added]
    return {
        "type": "tools_changed",
        "added": added,
        "loaded": [*changes.loaded],
        "removed": [*changes.removed],
    }


def _convert_result(result: ToolResult) -> dict[str, Any]:
    """Return a result: its text if it is only text, else its parts."""
    parts = [_convert_block(part) for part in result.content]
    is_text = all(part["type"] == "text" for part in parts)
    response = result.text if is_text else parts
    return {"type": "tool_call_response", "id": result.call_id, "response": response}


def _convert_media(block: Media) -> dict[str, Any]:
    """Return media in the form of OpenTelemetry: a URI, a file, or the data itself."""
    media = {"mime_type": block.media_type or None, "modality": _MODALITIES.get(block.kind, block.kind)}
    if block.url is not None:
        return {"type": "uri", **media, "uri": block.url}
    if block.file_id is not None:
        return {"type": "file", **media, "file_id": block.file_id}
    return {"type": "blob", **media, "content": block.data or ""}


def _convert_tool(tool: ToolDefinition) -> dict[str, Any]:
    if tool.kind == "hosted":
        return {"type": "hosted", "name": tool.qualified_name}
    fields = {"type": "function", "name": tool.qualified_name, "description": tool.description or None}
    return {**fields, "parameters": tool.parameters}
