"""Anthropic Messages: body -> Request. What has no neutral form stays in `extras` and `opaque`."""

import base64
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from toolglot.providers.profile import Profile
from toolglot.values.messages import (
    Block,
    Foreign,
    Media,
    Message,
    Origin,
    ResultBlock,
    Text,
    ToolResult,
    ToolsChanged,
)
from toolglot.values.request import (
    Options,
    Output,
    Request,
    ToolChoice,
    ToolDefinition,
    ToolExample,
    parse_effort,
)
from toolglot.wire.anthropic.reply_decode import AnthropicReplyDecoder
from toolglot.wire.cache_marks import read_mark
from toolglot.wire.json_values import Doc, as_dict, as_list, as_text, iter_dicts, unknown_fields
from toolglot.wire.request_decoding import OpenCalls, decode_options, define_tool, is_search_name, wrap_extras
from toolglot.wire.spec import ANTHROPIC_MESSAGES, SPECS
from toolglot.wire.tracker import ToolCallTracker

_NEUTRAL_FIELDS = {
    *("model", "messages", "system", "tools", "tool_choice", "stream", "thinking", "output_config"),
    *SPECS[ANTHROPIC_MESSAGES].options.values(),
}


def decode(body: Doc, profile: Profile) -> Request:
    """Decode a request body."""
    origin = Origin(ANTHROPIC_MESSAGES, profile.id, as_text(body.get("model")))
    extras = unknown_fields(body, _NEUTRAL_FIELDS) or {}
    thinking = as_dict(body.get("thinking"))
    budget = None
    if thinking.keys() == {"type", "budget_tokens"}:
        budget = thinking.get("budget_tokens")
    # adaptive thinking and its settings have no neutral equivalent: they stay as they are
    if thinking and budget is None:
        extras["thinking"] = thinking
    config = as_dict(body.get("output_config"))
    effort = parse_effort(config.get("effort"))
    is_new_level = "effort" in config and not effort  # kept verbatim
    known = ("format",) if is_new_level else ("effort", "format")
    if extra := unknown_fields(config, known):
        extras["output_config"] = extra
    schema = as_dict(config.get("format")).get("schema")
    output = None if schema is None else Output(as_dict(schema), strict=True)
    choice = as_dict(body.get("tool_choice"))
    is_single = choice.get("disable_parallel_tool_use")
    parallel = None if is_single is None else not is_single
    messages: list[Message] = []
    if system := body.get("system"):
        messages.append(Message("system", tuple(decode_blocks(system)), origin))
    messages += decode_messages(body.get("messages"), origin)
    cache = read_mark(body)
    return Request(
        model=as_text(body.get("model")),
        messages=messages,
        tools=_mark_searches([decode_tool(tool) for tool in iter_dicts(body.get("tools"))], messages),
        tool_choice=decode_choice(choice),
        parallel=parallel,
        options=Options(
            **decode_options(body, ANTHROPIC_MESSAGES), effort=effort, thinking_budget=budget, cache=cache
        ),
        output=output,
        stream=body.get("stream"),
        extras=wrap_extras(extras, ANTHROPIC_MESSAGES),
    )


def decode_messages(messages: Any, origin: Origin) -> Iterator[Message]:
    """Decode the history. A user message with results becomes tool and user messages, in order."""
    open_calls = OpenCalls()
    for message in iter_dicts(messages):
        if message.get("role") == "assistant":
            content = message.get("content")
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else as_list(content)
            decoder = AnthropicReplyDecoder(ToolCallTracker(origin))
            decoder.read_blocks(blocks)
            decoded = decoder.to_message()
            open_calls.add(decoded)
            yield decoded
            continue
        role = "system" if message.get("role") == "system" else "user"
        blocks = decode_blocks(message.get("content"), open_calls)
        for are_results, group in groupby(blocks, lambda block: isinstance(block, ToolResult)):
            if are_results:
                yield Message("tool", tuple(group), origin)
                continue
            decoded = Message(role, tuple(group), origin)
            open_calls.add(decoded)
            yield decoded


def decode_blocks(content: Any, open_calls: OpenCalls | None = None) -> Iterator[Block]:
    """Decode the content of a user or system message, or of a result.

    `open_calls`: results do not name their tool.
    """
    if isinstance(content, str):
        yield Text(content)
    for block in iter_dicts(content):
        match block.get("type"):
            case "text" if isinstance(block.get("text"), str):
                # citations and cache marks
                yield Text(block["text"], unknown_fields(block, ("type", "text")))
            case "tool_result":
                yield _decode_result(block, open_calls)
            case "image" | "document" if block.get("source"):
                yield decode_media(block)
            case "tool_reference":  # in a result: a search of the caller found it
                opaque = unknown_fields(block, ("type", "tool_name"))
                yield ToolsChanged(loaded=(as_text(block.get("tool_name")),), opaque=opaque)
            case "tool_addition" | "tool_removal" as kind if change := decode_change(kind, block):
                yield change
            case _:  # search_result, container_upload …
                yield Foreign(ANTHROPIC_MESSAGES, block)


def _decode_result(block: Doc, open_calls: OpenCalls | None) -> ToolResult:
    """Decode a result. The name of its tool is that of the call."""
    id = as_text(block.get("tool_use_id"))
    parts = tuple(part for part in decode_blocks(block.get("content")) if isinstance(part, ResultBlock))
    opaque = unknown_fields(block, ("type", "tool_use_id", "content", "is_error"))
    call = open_calls.take(id, "") if open_calls else None
    name = call.name if call else ""
    return ToolResult(id, parts, name, is_error=bool(block.get("is_error")), opaque=opaque)


def decode_change(kind: str, block: Doc) -> ToolsChanged | None:
    """Decode a tool that is offered or withdrawn from here on; None if it is one of an MCP server."""
    tool = as_dict(block.get("tool"))
    opaque = unknown_fields(block, ("type", "tool"))
    match tool.get("type"):
        case "tool_reference":
            names = (as_text(tool.get("name")),)
            change = ToolsChanged(loaded=names) if kind == "tool_addition" else ToolsChanged(removed=names)
            return replace(change, opaque=opaque)
        case "tool_definition":
            return ToolsChanged(
                (decode_tool(as_dict(tool.get("definition"))),), opaque={**(opaque or {}), "tool": tool}
            )
        case _:
            return None


def _mark_searches(tools: list[ToolDefinition], messages: list[Message]) -> tuple[ToolDefinition, ...]:
    """Mark the caller's own search for deferred tools: its results refer to tools, or it is named like one."""
    if not any(tool.deferred for tool in tools):
        return tuple(tools)
    searches: set[str] = set()
    for message in messages:
        for result in message.results:
            if any(isinstance(part, ToolsChanged) for part in result.content):
                searches.add(result.name)
    marked: list[ToolDefinition] = []
    for tool in tools:
        may_search = tool.kind == "function" and not tool.deferred
        if may_search and (tool.name in searches or is_search_name(tool.name)):
            tool = replace(tool, finds_tools=True)
        marked.append(tool)
    return tuple(marked)


def decode_media(block: Doc) -> Media:
    """Decode an image or a document."""
    source = as_dict(block["source"])
    kind = "image" if block["type"] == "image" else "file"
    name = as_text(block.get("title"))
    opaque = unknown_fields(block, ("type", "source"))
    match source.get("type"):
        case "base64":
            return Media(
                kind, as_text(source.get("media_type")), source.get("data"), name=name, opaque=opaque
            )
        case "url":
            return Media(kind, url=source.get("url"), name=name, opaque=opaque)
        case "text" | "content":  # the exact source goes back to Anthropic; others get a text file
            data = base64.b64encode(_read_source(source).encode("utf-8", "surrogatepass")).decode()
            return Media(kind, "text/plain", data, name=name, opaque={**(opaque or {}), "source": source})
        case _:
            return Media(
                kind, file_id=source.get("file_id"), name=name, opaque={**(opaque or {}), "source": source}
            )


def _read_source(source: Doc) -> str:
    """Return the text of a source: one text, or a list of parts."""
    content = source.get("data") or source.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(as_text(part.get("text")) for part in iter_dicts(content))


def decode_tool(tool: Doc) -> ToolDefinition:
    """Decode a tool. One with a type of its own is the vendor's: its definition is kept whole."""
    if tool.get("type") not in (None, "custom"):
        name = as_text(tool.get("name")) or as_text(tool.get("type"))
        finds_tools = as_text(tool.get("type")).startswith("tool_search_tool")
        return ToolDefinition(
            name, kind="hosted", wire=ANTHROPIC_MESSAGES, opaque=tool, finds_tools=finds_tools
        )
    inputs = as_list(tool.get("input_examples"))
    known = ["name", "description", "input_schema", "strict"]
    examples: tuple[ToolExample, ...] = ()
    if inputs and all(isinstance(value, dict) for value in inputs):
        examples = tuple(map(ToolExample, inputs))
        known.append("input_examples")
    is_deferred = tool.get("defer_loading") is True
    if is_deferred:
        known.append("defer_loading")
    more: Doc = {"strict": tool.get("strict"), "examples": examples, "deferred": is_deferred}
    return define_tool(
        tool, ANTHROPIC_MESSAGES, unknown_fields(tool, known), schema_key="input_schema", **more
    )


def decode_choice(choice: Doc) -> ToolChoice | None:
    """Decode the tool choice."""
    match choice.get("type"):
        case "auto" | "none" as mode:
            return ToolChoice(mode)
        case "any":
            return ToolChoice("required")
        case "tool":
            return ToolChoice("required", (as_text(choice.get("name")),))
        case _:
            return None
