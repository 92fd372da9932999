"""Anthropic Messages: body -> Request. What has no neutral form stays in `extras` and `opaque`."""

import base64
from collections.abc import Iterator
from typing import Any

from toolglot.messages import Block, Foreign, Media, Message, Origin, Text, ToolResult
from toolglot.providers.profile import Profile
from toolglot.request import Options, Output, Request, ToolChoice, ToolDefinition, parse_effort
from toolglot.wire.anthropic.reply_decode import AnthropicReplyDecoder
from toolglot.wire.json_values import Doc, as_dict, as_list, as_text, iter_dicts, unknown_fields
from toolglot.wire.spec import ANTHROPIC_MESSAGES
from toolglot.wire.tracker import ToolCallTracker

__all__ = ["decode", "decode_assistant_content"]

_NEUTRAL_FIELDS = {
    *("model", "messages", "system", "tools", "tool_choice", "max_tokens", "stop_sequences", "stream"),
    *("temperature", "top_p", "top_k", "thinking", "output_config"),
}


def decode(body: Doc, profile: Profile) -> Request:
    """A body as a Request. What has no neutral form stays in `extras`."""
    origin = Origin(ANTHROPIC_MESSAGES, profile.id, as_text(body.get("model")))
    extras = unknown_fields(body, _NEUTRAL_FIELDS) or {}
    thinking, config = as_dict(body.get("thinking")), as_dict(body.get("output_config"))
    budget = thinking.get("budget_tokens") if thinking.keys() == {"type", "budget_tokens"} else None
    if thinking and budget is None:
        extras["thinking"] = thinking
    effort = parse_effort(config.get("effort"))
    if more := unknown_fields(config, ("effort", "format") if effort or "effort" not in config else ("format",)):
        extras["output_config"] = more
    choice = as_dict(body.get("tool_choice"))
    parallel = choice.get("disable_parallel_tool_use")
    return Request(
        model=as_text(body.get("model")),
        messages=[*_decode_system(body.get("system"), origin), *_decode_messages(body.get("messages"), origin)],
        tools=tuple(_decode_tool(tool) for tool in iter_dicts(body.get("tools"))),
        tool_choice=_decode_choice(choice),
        parallel=None if parallel is None else not parallel,
        options=Options(
            max_tokens=body.get("max_tokens"),
            temperature=body.get("temperature"),
            top_p=body.get("top_p"),
            top_k=body.get("top_k"),
            stop=tuple(as_list(body.get("stop_sequences"))),
            effort=effort,
            thinking_budget=budget,
        ),
        output=_decode_format(config.get("format")),
        stream=body.get("stream"),
        extras={ANTHROPIC_MESSAGES: extras} if extras else {},
    )


def _decode_format(form: Any) -> Output | None:
    schema = as_dict(form).get("schema")
    return Output(as_dict(schema), strict=True) if schema is not None else None


def _decode_system(system: Any, origin: Origin) -> Iterator[Message]:
    if system:
        yield Message("system", tuple(_decode_blocks(system)), origin)


def _decode_messages(messages: Any, origin: Origin) -> Iterator[Message]:
    names: dict[str, str] = {}
    for message in iter_dicts(messages):
        content = message.get("content")
        if message.get("role") == "assistant":
            decoded = decode_assistant_content(content, origin)
            names.update({call.id: call.name for call in decoded.calls})
            yield decoded
            continue
        role = "system" if message.get("role") == "system" else "user"
        said: list[Block] = []
        results: list[ToolResult] = []
        for block in _decode_blocks(content, names):
            if isinstance(block, ToolResult):
                if said:
                    yield Message(role, tuple(said), origin)
                    said = []
                results.append(block)
            else:
                if results:
                    yield Message("tool", tuple(results), origin)
                    results = []
                said.append(block)
        if results:
            yield Message("tool", tuple(results), origin)
        if said:
            yield Message(role, tuple(said), origin)


def decode_assistant_content(content: Any, origin: Origin) -> Message:
    """An assistant message of the history: read as a reply is."""
    tracker = ToolCallTracker(origin)
    decoder = AnthropicReplyDecoder(tracker)
    decoder.read_blocks([{"type": "text", "text": content}] if isinstance(content, str) else as_list(content))
    decoder.finish()
    reply = tracker.finish()
    return Message("assistant", reply.blocks, origin)


def _decode_blocks(content: Any, names: dict[str, str] | None = None) -> Iterator[Block]:
    if isinstance(content, str):
        yield Text(content)
    for block in iter_dicts(content):
        match block.get("type"):
            case "text" if isinstance(block.get("text"), str):
                yield Text(block["text"], unknown_fields(block, ("type", "text")))
            case "tool_result":
                yield _decode_result(block, names or {})
            case "image" | "document" if block.get("source"):
                yield _decode_media(block)
            case _:
                yield Foreign(ANTHROPIC_MESSAGES, block)


def _decode_result(block: Doc, names: dict[str, str]) -> ToolResult:
    id = as_text(block.get("tool_use_id"))
    content = tuple(b for b in _decode_blocks(block.get("content")) if isinstance(b, Text | Media | Foreign))
    own = unknown_fields(block, ("type", "tool_use_id", "content", "is_error"))
    return ToolResult(id, content, names.get(id, ""), is_error=bool(block.get("is_error")), opaque=own)


def _decode_media(block: Doc) -> Media:
    source = as_dict(block["source"])
    kind = "image" if block["type"] == "image" else "file"
    own = unknown_fields(block, ("type", "source"))
    name = as_text(block.get("title"))
    match source.get("type"):
        case "base64":
            return Media(kind, as_text(source.get("media_type")), source.get("data"), name=name, opaque=own)
        case "url":
            return Media(kind, url=source.get("url"), name=name, opaque=own)
        case "text" | "content":
            texts = source.get("data") or source.get("content")
            text = texts if isinstance(texts, str) else "\n".join(as_text(part.get("text")) for part in iter_dicts(texts))
            data = base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()
            return Media(kind, "text/plain", data, name=name, opaque={**(own or {}), "source": source})
        case _:
            return Media(kind, file_id=source.get("file_id"), name=name, opaque={**(own or {}), "source": source})


def _decode_tool(tool: Doc) -> ToolDefinition:
    if tool.get("type") not in (None, "custom"):
        name = as_text(tool.get("name")) or as_text(tool.get("type"))
        return ToolDefinition(name, kind="hosted", wire=ANTHROPIC_MESSAGES, opaque=tool)
    return ToolDefinition(
        as_text(tool.get("name")),
        as_text(tool.get("description")),
        tool.get("input_schema"),
        strict=tool.get("strict"),
        wire=ANTHROPIC_MESSAGES,
        opaque=unknown_fields(tool, ("name", "description", "input_schema", "strict")),
    )


def _decode_choice(choice: Doc) -> ToolChoice | None:
    match choice.get("type"):
        case "auto" | "none" as mode:
            return ToolChoice(mode)
        case "any":
            return ToolChoice("required")
        case "tool":
            return ToolChoice("required", (as_text(choice.get("name")),))
        case _:
            return None
