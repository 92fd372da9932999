"""Chat Completions: body -> Request. What has no neutral form stays in `extras` and `opaque`."""

from collections.abc import Iterable
from typing import Any, cast

from msgspec.structs import replace

from toolglot.providers.profile import Profile
from toolglot.values.messages import Block, Foreign, Media, Message, Origin, Text, ToolResult
from toolglot.values.request import Options, Request, ToolChoice, ToolDefinition, parse_effort
from toolglot.wire.cache_marks import decode_cache_option, read_mark
from toolglot.wire.json_values import Doc, as_dict, as_text, iter_dicts, to_text, unknown_fields
from toolglot.wire.media import media_from_url
from toolglot.wire.openai_chat.reply_decode import ChatReplyDecoder
from toolglot.wire.openai_common import choose_among, decode_extras, decode_message, decode_output
from toolglot.wire.request_decoding import OpenCalls, decode_options, define_tool, join_messages
from toolglot.wire.spec import OPENAI_CHAT, SPECS
from toolglot.wire.tracker import ToolCallTracker

_NEUTRAL_FIELDS = {
    *(
        "model",
        "messages",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "max_tokens",
        "max_completion_tokens",
        "stream",
    ),
    *("reasoning_effort", "response_format", "functions", "function_call"),
    *SPECS[OPENAI_CHAT].options.values(),
}


def decode(body: Doc, profile: Profile) -> Request:
    """Decode a request body."""
    origin = Origin(OPENAI_CHAT, profile.id, as_text(body.get("model")))
    max_tokens = body.get("max_completion_tokens")
    if max_tokens is None:  # the deprecated field
        max_tokens = body.get("max_tokens")
    effort = parse_effort(body.get("reasoning_effort"))
    is_unknown_effort = body.get("reasoning_effort") is not None and not effort
    known = _NEUTRAL_FIELDS - {"reasoning_effort"} if is_unknown_effort else _NEUTRAL_FIELDS
    tools = [decode_tool(tool) for tool in iter_dicts(body.get("tools"))]
    functions = iter_dicts(body.get("functions"))  # deprecated in 2023, still sent by old clients
    tools += [decode_tool({"type": "function", "function": function}) for function in functions]
    return Request(
        model=as_text(body.get("model")),
        messages=list(join_messages(decode_messages(body.get("messages"), origin), "tool")),
        tools=tuple(tools),
        tool_choice=decode_choice(body.get("tool_choice", body.get("function_call"))),
        parallel=body.get("parallel_tool_calls"),
        options=Options(
            **decode_options(body, OPENAI_CHAT),
            max_tokens=max_tokens,
            effort=effort,
            cache=read_mark(body) or decode_cache_option(body),
        ),
        output=decode_output(as_dict(body.get("response_format")), "json_schema"),
        stream=body.get("stream"),
        extras=decode_extras(unknown_fields(body, known) or {}, OPENAI_CHAT),
    )


def decode_messages(messages: Any, origin: Origin) -> Iterable[Message]:
    """Decode the history."""
    open_calls = OpenCalls()
    for message in iter_dicts(messages):
        role = message.get("role")
        if role in ("tool", "function"):
            yield Message("tool", (decode_result(message, open_calls),), origin)
        elif role == "assistant":
            decoder = ChatReplyDecoder(ToolCallTracker(origin))
            decoder.read_message(message, whole=True)
            decoded = decoder.to_message()
            open_calls.add(decoded)
            yield decoded
        else:
            decoded = decode_message(message, decode_content(message.get("content")), origin)
            open_calls.add(decoded)
            yield decoded


def decode_result(message: Doc, open_calls: OpenCalls) -> ToolResult:
    """Decode a result, which need not name its tool. The deprecated `function` role has a name and no id."""
    id = as_text(message.get("tool_call_id"))
    name = as_text(message.get("name"))
    content = tuple(
        b for b in decode_content(message.get("content")) if isinstance(b, Text | Media | Foreign)
    )
    opaque = unknown_fields(message, ("role", "content", "tool_call_id", "name"))
    call = open_calls.take(id, name)
    if call is None:
        return ToolResult(id or name, content, name, opaque=opaque)
    return ToolResult(call.id, content, name or call.name, opaque=opaque)


def decode_content(content: Any) -> Iterable[Block]:
    """Decode content: text, parts, or a JSON value."""
    if isinstance(content, list):
        yield from map(decode_part, iter_dicts(cast(Any, content)))
    elif content is not None:
        yield Text(to_text(content))


def decode_part(part: Doc) -> Block:
    """Decode one part of the content, with its mark for the prompt cache."""
    block = _decode_part(part)
    if not isinstance(block, Media):
        return block
    mark = read_mark(part)
    return replace(block, cache=mark) if mark else block


def _decode_part(part: Doc) -> Block:
    match part.get("type"):
        case "text" if isinstance(part.get("text"), str):
            return Text(part["text"], unknown_fields(part, ("type", "text")))
        case "image_url":
            image = part.get("image_url")
            image = {"url": image} if isinstance(image, str) else as_dict(image)
            return media_from_url("image", as_text(image.get("url")), extra=unknown_fields(image, ("url",)))
        case "input_audio":
            audio = as_dict(part.get("input_audio"))
            # The API has no others.
            media_type = {"wav": "audio/wav", "mp3": "audio/mpeg"}.get(
                as_text(audio.get("format")), "audio/*"
            )
            return Media("audio", media_type, audio.get("data"))
        case "file":
            file = as_dict(part.get("file"))
            if data := file.get("file_data"):
                extra = unknown_fields(file, ("file_data", "filename"))
                return media_from_url("file", data, name=as_text(file.get("filename")), extra=extra)
            return Media(
                "file", file_id=file.get("file_id"), opaque={"more": unknown_fields(file, ("file_id",)) or {}}
            )
        case _:
            return Foreign(OPENAI_CHAT, part)


def decode_tool(tool: Doc) -> ToolDefinition:
    """Decode a function, a custom tool or a hosted one."""
    if custom := as_dict(tool.get("custom")):
        form = as_dict(custom.get("format"))
        grammar = form.get("grammar") or unknown_fields(form, ("type",))
        return define_tool(
            custom, OPENAI_CHAT, unknown_fields(tool, ("type", "custom")), kind="freeform", grammar=grammar
        )
    function = as_dict(tool.get("function"))
    if not function and tool.get("type") != "function":
        return ToolDefinition(as_text(tool.get("type")), kind="hosted", wire=OPENAI_CHAT, opaque=tool)
    return define_tool(
        function, OPENAI_CHAT, unknown_fields(tool, ("type", "function")), strict=function.get("strict")
    )


def decode_choice(choice: Any) -> ToolChoice | None:
    """Decode the tool choice."""
    match choice:
        case "auto" | "none" | "required":
            return ToolChoice(choice)
        case "any":  # Mistral
            return ToolChoice("required")
        case {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}:
            functions = [as_dict(tool.get("function") or tool.get("custom")) for tool in iter_dicts(tools)]
            names = tuple(as_text(function.get("name")) for function in functions)
            return choose_among(mode, names)
        case {"function": {"name": str(name)}} | {"custom": {"name": str(name)}} | {"name": str(name)}:
            return ToolChoice("required", (name,))
        case _:
            return None
