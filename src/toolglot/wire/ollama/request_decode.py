"""Ollama chat: body -> Request. What has no neutral form stays in `extras` and `opaque`."""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from toolglot.providers.profile import Profile
from toolglot.values.messages import Media, Message, Origin, Role, Text, ToolResult
from toolglot.values.request import Options, Output, Request, parse_effort
from toolglot.wire.json_values import (
    Doc,
    as_dict,
    as_int,
    as_list,
    as_text,
    iter_dicts,
    to_text,
    unknown_fields,
)
from toolglot.wire.ollama.reply_decode import OllamaReplyDecoder
from toolglot.wire.request_decoding import OpenCalls, decode_options, define_tool, join_messages, wrap_extras
from toolglot.wire.spec import OLLAMA_CHAT, SPECS
from toolglot.wire.tracker import ToolCallTracker

_NEUTRAL_FIELDS = ("model", "messages", "tools", "options", "format", "stream", "think")
_ROLES: dict[str, Role] = {"assistant": "assistant", "system": "system", "developer": "system"}


def decode(body: Doc, profile: Profile) -> Request:
    """Decode a request body."""
    origin = Origin(OLLAMA_CHAT, profile.id, as_text(body.get("model")))
    extras = unknown_fields(body, _NEUTRAL_FIELDS) or {}
    options = as_dict(body.get("options"))
    neutral = decode_options(options, OLLAMA_CHAT)
    extra = unknown_fields(options, SPECS[OLLAMA_CHAT].options.values()) or {}  # num_ctx, mirostat …
    if as_int(neutral.get("max_tokens", 1)) < 1:  # no limit, which other wires express by omitting it
        extra["num_predict"] = neutral.pop("max_tokens")
    if extra:
        extras["options"] = extra
    think = body.get("think")
    effort = "none" if think is False else parse_effort(think)
    if effort:
        neutral["effort"] = effort
    elif think is not None:  # true has no level
        extras["think"] = think
    output: Output | None = None
    format = body.get("format")
    if isinstance(format, dict):
        output = Output(as_dict(format))
    elif format == "json":
        output = Output()
    return Request(
        model=as_text(body.get("model")),
        messages=list(join_messages(decode_messages(body.get("messages"), origin), "tool")),
        tools=tuple(
            define_tool(
                as_dict(tool.get("function")), OLLAMA_CHAT, unknown_fields(tool, ("type", "function"))
            )
            for tool in iter_dicts(body.get("tools"))
        ),
        options=Options(**neutral),
        output=output,
        stream=body.get("stream"),
        extras=wrap_extras(extras, OLLAMA_CHAT),
    )


def decode_messages(messages: Any, origin: Origin) -> Iterator[Message]:
    """Decode the history."""
    open_calls = OpenCalls()
    for message in iter_dicts(messages):
        if message.get("role") == "tool":
            yield Message("tool", (decode_result(message, open_calls),), origin)
            continue
        decoder = OllamaReplyDecoder(ToolCallTracker(origin))
        decoder.read_message(message)
        role = as_text(message.get("role"))
        # text of an unknown role must not become an instruction
        decoded = decoder.to_message(_ROLES.get(role, "user"))
        open_calls.add(decoded)
        if role not in (decoded.role, "developer", ""):
            decoded = replace(decoded, opaque={**(decoded.opaque or {}), "role": role})
        yield decoded


def decode_result(message: Doc, open_calls: OpenCalls) -> ToolResult:
    """Decode a result. Older clients send no ids: then it belongs to the first open call of its name."""
    name = as_text(message.get("tool_name"))
    id = as_text(message.get("tool_call_id"))
    call = open_calls.take(id, name)
    text = to_text(message.get("content"))
    images = [Media("image", data=image) for image in as_list(message.get("images"))]
    opaque = unknown_fields(message, ("role", "content", "tool_name", "tool_call_id", "images"))
    call_id = id or name
    if call is not None:
        call_id = call.id
        name = name or call.name
    return ToolResult(call_id, (Text(text), *images), name, opaque=opaque)
