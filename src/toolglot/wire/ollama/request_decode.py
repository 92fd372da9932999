"""Ollama chat: body -> Request. What has no neutral form stays in `extras` and `opaque`."""

from collections.abc import Iterator
from typing import Any

from toolglot.jsontext import dumps_text
from toolglot.messages import Media, Message, Origin, Text, ToolCall, ToolResult
from toolglot.providers.profile import Profile
from toolglot.request import Options, Output, Request, ToolDefinition, parse_effort
from toolglot.wire.json_values import Doc, as_dict, as_list, as_text, iter_dicts, unknown_fields
from toolglot.wire.ollama.reply_decode import OllamaReplyDecoder
from toolglot.wire.ollama.request_encode import OPTION_FIELDS
from toolglot.wire.spec import OLLAMA_CHAT
from toolglot.wire.tracker import ToolCallTracker

__all__ = ["decode"]

_NEUTRAL_FIELDS = ("model", "messages", "tools", "options", "format", "stream", "think")


def decode(body: Doc, profile: Profile) -> Request:
    """A body as a Request. What has no neutral form stays in `extras`."""
    origin = Origin(OLLAMA_CHAT, profile.id, as_text(body.get("model")))
    extras = unknown_fields(body, _NEUTRAL_FIELDS) or {}
    given = as_dict(body.get("options"))
    neutral: Doc = {name: given[field] for name, field in OPTION_FIELDS.items() if given.get(field) is not None}
    if more := unknown_fields(given, OPTION_FIELDS.values()):
        extras["options"] = more
    if "stop" in neutral:
        neutral["stop"] = (neutral["stop"],) if isinstance(neutral["stop"], str) else tuple(neutral["stop"])
    think = body.get("think")
    effort = "none" if think is False else parse_effort(think)
    if effort:
        neutral["effort"] = effort
    elif think is not None:
        extras["think"] = think
    return Request(
        model=as_text(body.get("model")),
        messages=list(_decode_messages(body.get("messages"), origin)),
        tools=tuple(_decode_tool(tool) for tool in iter_dicts(body.get("tools"))),
        options=Options(**neutral),
        output=_decode_format(body.get("format")),
        stream=body.get("stream"),
        extras={OLLAMA_CHAT: extras} if extras else {},
    )


def _decode_format(form: Any) -> Output | None:
    if isinstance(form, dict):
        return Output(as_dict(form))
    return Output() if form == "json" else None


def _decode_messages(messages: Any, origin: Origin) -> Iterator[Message]:
    """Results come without ids from older clients: they answer the calls of their name in order."""
    results: list[ToolResult] = []
    open_calls: list[ToolCall] = []
    for message in iter_dicts(messages):
        if message.get("role") == "tool":
            results.append(_decode_result(message, open_calls))
            continue
        if results:
            yield Message("tool", tuple(results), origin)
            results = []
        tracker = ToolCallTracker(origin)
        OllamaReplyDecoder(tracker).read_message(message)
        reply = tracker.finish()
        role = message.get("role")
        if role == "assistant":
            open_calls = [*open_calls, *reply.calls]
        neutral = role if role in ("assistant", "user") else "system"
        yield Message(neutral, reply.blocks, origin, reply.opaque)
    if results:
        yield Message("tool", tuple(results), origin)


def _decode_result(message: Doc, open_calls: list[ToolCall]) -> ToolResult:
    name, id = as_text(message.get("tool_name")), as_text(message.get("tool_call_id"))
    call = next((call for call in open_calls if call.id == id or (not id and name in ("", call.name))), None)
    if call:
        open_calls.remove(call)
    content = message.get("content")
    text = content if isinstance(content, str) else dumps_text(content)
    images = [Media("image", data=image) for image in as_list(message.get("images"))]
    own = unknown_fields(message, ("role", "content", "tool_name", "tool_call_id", "images"))
    return ToolResult(call.id if call else id or name, (Text(text), *images), name or (call.name if call else ""), opaque=own)


def _decode_tool(tool: Doc) -> ToolDefinition:
    function = as_dict(tool.get("function"))
    return ToolDefinition(
        as_text(function.get("name")),
        as_text(function.get("description")),
        function.get("parameters"),
        wire=OLLAMA_CHAT,
        opaque=unknown_fields(tool, ("type", "function")),
    )
