"""OpenAI Responses: body -> Request. What has no neutral form stays in `extras` and `opaque`."""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from toolglot.providers.profile import Profile
from toolglot.values.messages import (
    Block,
    Foreign,
    Media,
    Message,
    Opaque,
    Origin,
    ResultBlock,
    Text,
    ToolResult,
    ToolsChanged,
)
from toolglot.values.request import Options, Request, ToolChoice, parse_effort
from toolglot.wire.cache_marks import decode_cache_option
from toolglot.wire.json_values import Doc, as_dict, as_text, iter_dicts, to_text, unknown_fields
from toolglot.wire.media import media_from_url
from toolglot.wire.openai_common import choose_among, decode_extras, decode_message, decode_output
from toolglot.wire.openai_responses.reply_decode import NATIVE_ITEMS, decode_item
from toolglot.wire.openai_responses.tool_decode import decode_tools, name_hosted_tool
from toolglot.wire.request_decoding import decode_options, join_messages
from toolglot.wire.spec import OPENAI_RESPONSES, SPECS

_NEUTRAL_FIELDS = {
    *(
        "model",
        "input",
        "instructions",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "stream",
        "reasoning",
        "text",
    ),
    *SPECS[OPENAI_RESPONSES].options.values(),
}
_NATIVE_OUTPUTS = tuple(result for _, _, result in NATIVE_ITEMS.values())
_FUNCTION_CALLS = ("function_call", "custom_tool_call")
_OUTPUT_TYPES = ("function_call_output", "custom_tool_call_output", *_NATIVE_OUTPUTS)


def decode(body: Doc, profile: Profile) -> Request:
    """Decode a request body."""
    origin = Origin(OPENAI_RESPONSES, profile.id, as_text(body.get("model")))
    extras = unknown_fields(body, _NEUTRAL_FIELDS) or {}
    choice = decode_choice(body.get("tool_choice"))
    if choice is None and body.get("tool_choice") is not None:  # a form that has no neutral equivalent
        extras["tool_choice"] = body["tool_choice"]
    reasoning = as_dict(body.get("reasoning"))
    effort = parse_effort(reasoning.get("effort"))
    known_reasoning = ("effort",) if effort else ()
    if extra := unknown_fields(reasoning, known_reasoning):
        extras["reasoning"] = extra
    text = as_dict(body.get("text"))
    format = as_dict(text.get("format"))
    output = decode_output(format)
    known_text = ("format",) if output or format.get("type") == "text" else ()
    if extra := unknown_fields(text, known_text):
        extras["text"] = extra
    return Request(
        model=as_text(body.get("model")),
        messages=[
            *decode_instructions(body.get("instructions"), origin),
            *decode_input(body.get("input"), origin),
        ],
        tools=decode_tools(body.get("tools")),
        tool_choice=choice,
        parallel=body.get("parallel_tool_calls"),
        options=Options(
            **decode_options(body, OPENAI_RESPONSES), effort=effort, cache=decode_cache_option(body)
        ),
        output=output,
        stream=body.get("stream"),
        extras=decode_extras(extras, OPENAI_RESPONSES),
    )


def decode_instructions(instructions: Any, origin: Origin) -> Iterator[Message]:
    """Decode `instructions`: text, or items."""
    if isinstance(instructions, str):
        # the mark tells it from a system item
        yield Message("system", (Text(instructions),), origin, {"instructions": True})
    elif instructions:
        yield from decode_input(instructions, origin)


def decode_input(input: Any, origin: Origin) -> Iterator[Message]:
    """Decode input items. Items of the assistant in a row are one message, and so are results."""
    if isinstance(input, str):
        return iter([Message("user", (Text(input),), origin)])
    return join_messages(decode_items(list(iter_dicts(input)), origin), "assistant", "tool")


def decode_items(items: list[Doc], origin: Origin) -> Iterator[Message]:
    """Decode each item as a message."""
    call_types: dict[Any, Any] = {}  # an id may come again with a call of another type
    for item in items:
        kind = item.get("type") or "message"
        if kind in NATIVE_ITEMS or kind in _FUNCTION_CALLS:
            call_types[as_text(item.get("call_id"))] = kind
        if kind == "additional_tools":
            opaque = unknown_fields(item, ("type", "role", "tools"))
            change = ToolsChanged(decode_tools(item.get("tools")), opaque=opaque)
            yield Message("system", (change,), origin)
        elif kind in _OUTPUT_TYPES and item.get("call_id"):
            is_native = call_types.get(as_text(item["call_id"])) in NATIVE_ITEMS
            yield Message("tool", (decode_result(item, is_native=is_native),), origin)
        elif kind == "message" and item.get("role") != "assistant":
            yield decode_message(item, decode_content(item.get("content")), origin)
        else:
            blocks = tuple(block for _, block in decode_item({"type": "message", **item}))
            if blocks:
                yield Message("assistant", blocks, origin)


def decode_content(content: Any) -> Iterable[Block]:
    """Decode content: text or parts."""
    if isinstance(content, str):
        yield Text(content)
    yield from map(decode_part, iter_dicts(content))


def decode_part(part: Doc) -> Text | Media | Foreign:
    """Decode one part of the content."""
    match part.get("type"):
        case "input_text" | "output_text" | "text" if isinstance(part.get("text"), str):
            return Text(part["text"], unknown_fields(part, ("type", "text")))
        case "input_image" if part.get("image_url"):
            return media_from_url(
                "image", part["image_url"], extra=unknown_fields(part, ("type", "image_url"))
            )
        case "input_file" if part.get("file_data"):
            extra = unknown_fields(part, ("type", "file_data", "filename"))
            return media_from_url("file", part["file_data"], name=as_text(part.get("filename")), extra=extra)
        case "input_file" if part.get("file_url"):
            return Media("file", url=part["file_url"], opaque=_read_more(part, "file_url"))
        case "input_image" if part.get("file_id"):
            return Media("image", file_id=part["file_id"], opaque=_read_more(part, "file_id"))
        case "input_file" if part.get("file_id"):
            return Media("file", file_id=part["file_id"], opaque=_read_more(part, "file_id"))
        case _:
            return Foreign(OPENAI_RESPONSES, part)


def _read_more(part: Doc, source: str) -> Opaque:
    """Return the fields of a part that has no data, to be sent back to the origin."""
    return {"more": unknown_fields(part, ("type", source)) or {}}


def decode_result(item: Doc, *, is_native: bool) -> ToolResult:
    """Decode the output of a call."""
    output = item.get("output")
    # as `defer_loading` says, the caller had not declared them: now they are there
    if item["type"] == "tool_search_output":
        added = tuple(replace(tool, deferred=False) for tool in decode_tools(item.get("tools")))
        return ToolResult(item["call_id"], (ToolsChanged(added),), opaque={"item": item})
    if item["type"] in _NATIVE_OUTPUTS:
        texts = [as_text(part.get("stdout")) + as_text(part.get("stderr")) for part in iter_dicts(output)]
        text = "\n".join(texts) if any(texts) else to_text(output)
        return ToolResult(item["call_id"], (Text(text),), opaque={"item": item})
    content: tuple[ResultBlock, ...]
    if isinstance(output, list):
        content = tuple(map(decode_part, iter_dicts(output)))
    else:
        content = (Text(to_text(output)),)
    opaque = unknown_fields(item, ("type", "call_id", "output")) or {}
    if is_native or item["type"] == "custom_tool_call_output":
        opaque["type"] = item["type"]
    return ToolResult(as_text(item.get("call_id")), content, opaque=opaque or None)


def decode_choice(choice: Any) -> ToolChoice | None:
    """Decode the tool choice."""
    match choice:
        case "auto" | "none" | "required":
            return ToolChoice(choice)
        case {"type": "allowed_tools", "mode": mode, "tools": tools}:
            names = tuple(as_text(tool.get("name")) or name_hosted_tool(tool) for tool in iter_dicts(tools))
            return choose_among(mode, names)
        case {"type": "function" | "custom", "name": str(name)}:
            return ToolChoice("required", (name,))
        case {"type": str()} if "name" not in choice:
            return ToolChoice("required", (name_hosted_tool(choice),))
        case _:
            return None
