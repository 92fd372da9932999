"""Anthropic Messages: Request -> body. Results are blocks of a user message; instructions stand outside of the messages."""

from collections.abc import Sequence
from typing import Any

from toolglot.messages import Block, Foreign, Media, Message, Origin, Text, Thinking, ToolCall, ToolResult
from toolglot.request import Options, Output, Request, ToolChoice, ToolDefinition
from toolglot.schema import dialects
from toolglot.schema.lower import lower
from toolglot.wire.history import count_leading_system
from toolglot.wire.json_values import Doc, as_dict, unknown_fields
from toolglot.wire.media import extract_file_text, guess_media_type
from toolglot.wire.options import encode_effort, encode_sampling, select_extras
from toolglot.wire.spec import ANTHROPIC_MESSAGES
from toolglot.wire.tool_encoding import encode_function, encode_hosted, native_definition, select_chosen, select_tools
from toolglot.wire.writer import Writer, media_placeholder

__all__ = ["encode_block", "encode_body", "encode_message", "head_key", "leading_count"]


_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_MIN_THINKING_BUDGET = 1024
_CACHE_CONTROL = {"type": "ephemeral"}


def leading_count(messages: Sequence[Message]) -> int:
    """How many leading messages are sent as `system`."""
    return count_leading_system(messages)


def head_key(request: Request, writer: Writer) -> object:
    """Thinking can be switched on only in a tool loop that began with it."""
    return request.options.thinking_budget is not None and _is_loop_without_thinking(request.messages, writer)


def encode_message(message: Message, writer: Writer, where: str) -> list[Doc]:
    """One neutral message as wire messages. Neighbours of one role stay apart: the API joins them."""
    match message.role:
        case "system":
            if writer.owns_state(message.origin):
                return [{"role": "system", "content": _encode_blocks(message.blocks, message, writer, where)}]
            writer.record_repair("system message", where, "it stands between turns; said by the user")
            return [{"role": "user", "content": f"<system>\n{message.text}\n</system>"}]
        case "tool":
            return [{"role": "user", "content": [_encode_result(result, message, writer, where) for result in message.results]}]
        case _:
            return [{"role": message.role, "content": _encode_content(message.blocks, message, writer, where)}]


def _encode_content(blocks: Sequence[Block], message: Message, writer: Writer, where: str) -> Any:
    encoded = _encode_blocks(blocks, message, writer, where)
    if len(encoded) == 1 and encoded[0].keys() == {"type", "text"}:
        return encoded[0]["text"]
    return encoded


def _encode_blocks(blocks: Sequence[Block], message: Message, writer: Writer, where: str) -> list[Doc]:
    return [encoded for block in blocks if (encoded := encode_block(block, message.origin, writer, where))]


def encode_block(block: Block, origin: Origin | None, writer: Writer, where: str) -> Doc | None:
    """One block of a message or a reply."""
    match block:
        case Text():
            own = writer.echo_opaque(block.opaque, origin, where)
            return {"type": "text", "text": block.text, **own}
        case Thinking():
            own = block.opaque or {}
            if "redacted" in own:
                return {"type": "redacted_thinking", "data": own["redacted"]}
            return {"type": "thinking", "thinking": block.text, **own}
        case ToolCall():
            name = writer.map_tool_name(block.name, block.namespace, where)
            head: Doc = {"type": "tool_use", "id": writer.map_call_id(block.id, where), "name": name}
            return {
                **head,
                "input": writer.to_arguments_object(block, where),
                **writer.echo_opaque(block.opaque, origin, where),
            }
        case Media():
            return _encode_media(block, origin, writer, where)
        case Foreign() | ToolResult():  # results have a message of their own
            return block.item if isinstance(block, Foreign) else None


def _encode_result(result: ToolResult, message: Message, writer: Writer, where: str) -> Doc:
    out: Doc = {"type": "tool_result", "tool_use_id": writer.map_call_id(result.call_id, where)}
    blocks = [block for block in result.content if not (isinstance(block, Text) and not block.text.strip())]
    if blocks:
        out["content"] = _encode_content(blocks, message, writer, where)
    if result.is_error:
        out["is_error"] = True
        out.setdefault("content", "Error")  # an error without content is refused
    return {**out, **writer.echo_opaque(result.opaque, message.origin, where)}


def _encode_media(media: Media, origin: Origin | None, writer: Writer, where: str) -> Doc:
    own = writer.echo_opaque(media.opaque, origin, where)
    kind = "image" if media.kind == "image" else "document"
    more = unknown_fields(own, ("source",)) or {}
    if source := own.get("source") or _media_source(media):
        return {"type": kind, "source": source, **more}
    writer.record_loss(media.kind, where, f"{writer.profile.title} cannot be given {media.media_type or media.url or 'it'}")
    return {"type": "text", "text": media_placeholder(media).text}


def _media_source(media: Media) -> Doc | None:
    if media.url and media.url.startswith("http") and media.kind in ("image", "file"):
        return {"type": "url", "url": media.url}
    if media.data is None:
        return None
    media_type = media.media_type or guess_media_type(media)
    if (media.kind == "image" and media_type in _IMAGE_TYPES) or media_type == "application/pdf":
        return {"type": "base64", "media_type": media_type, "data": media.data}
    if (text := extract_file_text(media)) is not None:
        return {"type": "text", "media_type": "text/plain", "data": text}
    return None


def encode_body(request: Request, writer: Writer, system: Sequence[Message], messages: list[Any]) -> Doc:
    """The body around the encoded messages, which come last."""
    options, body = request.options, dict[str, Any]()
    extras = select_extras(request, writer)
    body["model"] = request.model
    body["max_tokens"] = _default_max_tokens(options, writer)
    tools, choice = select_tools(request, writer)
    blocks = [
        block for message in system for block in _encode_blocks(_drop_blank_text(message, writer), message, writer, "system")
    ]
    if blocks := [*blocks, *({"type": "text", "text": nudge} for nudge in writer.prompt_hints)]:
        plain = len(blocks) == 1 and blocks[0].keys() == {"type", "text"}
        body["system"] = blocks[0]["text"] if plain else blocks
    sampling = encode_sampling(options, writer)
    if "stop" in sampling:
        sampling["stop_sequences"] = [stop for stop in sampling.pop("stop") if _is_valid_stop(stop, writer)]
    encoded = [tool for definition in tools if (tool := _encode_tool(definition, writer))]
    wire_choice = _encode_choice(choice, tools, request.parallel, writer) if encoded else None
    thinking = _encode_thinking(request, wire_choice, body["max_tokens"], writer)
    if thinking:
        body["thinking"] = thinking
        if "temperature" in sampling and sampling["temperature"] != 1:
            writer.record_loss("temperature", "options", "it must be 1 while thinking is on")
            del sampling["temperature"]
    body.update(sampling)
    if config := _encode_output_config(request, as_dict(extras.pop("output_config", None)), writer):
        body["output_config"] = config
    if request.stream is not None:
        body["stream"] = request.stream
    if options.cache and "cache_control" not in extras:
        body["cache_control"] = _CACHE_CONTROL  # placed by the API on the last block: what was sent before stays as it was
        encoded[-1:] = [{"cache_control": _CACHE_CONTROL, **tool} for tool in encoded[-1:]]
    if encoded:
        body["tools"] = encoded
    if wire_choice:
        body["tool_choice"] = wire_choice
    return {**body, **extras, "messages": messages}


def _drop_blank_text(message: Message, writer: Writer) -> list[Block]:
    """Instructions without blank text, which is refused."""
    kept = [block for block in message.blocks if not (isinstance(block, Text) and not block.text.strip())]
    if len(kept) < len(message.blocks):
        writer.record_repair("blank text", "system", "left out")
    return kept


def _is_valid_stop(stop: str, writer: Writer) -> bool:
    if not stop.strip():
        writer.record_loss("stop", "options", "a stop sequence of white space is refused")
    return bool(stop.strip())


def _default_max_tokens(options: Options, writer: Writer) -> int:
    if options.max_tokens is not None:
        return options.max_tokens
    default = writer.profile.default_max_tokens or 4096
    writer.record_repair("max_tokens", "options", f"{writer.profile.title} requires it; {default} was added")
    return default


def _encode_thinking(request: Request, choice: Doc | None, max_tokens: int, writer: Writer) -> Doc | None:
    """Extended thinking, where the rest of the request allows it."""
    budget = request.options.thinking_budget
    if budget is None or budget <= 0:
        return None
    why = ""
    if not writer.profile.thinking_budget:
        why = f"{writer.model} takes no budget for thinking"
    elif choice and choice["type"] in ("any", "tool"):
        why = "a forced tool choice forbids thinking"
    elif max_tokens <= _MIN_THINKING_BUDGET:
        why = f"max_tokens ({max_tokens}) leaves no room for it"
    elif _is_loop_without_thinking(request.messages, writer):
        why = "the tool loop in progress was begun without thinking"
    if why:
        writer.record_loss("thinking_budget", "options", why)
        return None
    return {
        "type": "enabled",
        "budget_tokens": max(_MIN_THINKING_BUDGET, min(budget, max_tokens - 1) if budget >= max_tokens else budget),
    }


def _is_loop_without_thinking(messages: Sequence[Message], writer: Writer) -> bool:
    """Whether the last messages are a tool loop whose first turn does not start with thinking, which is refused.

    What the user says right after results belongs to the loop: the API joins the two.
    """
    first: Message | None = None
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.role == "assistant" and (message.calls or first is not None or index == len(messages) - 1):
            first = message
        elif message.role == "assistant" or (message.role == "user" and not _follows_calls(messages, index)):
            break
    if first is None:
        return False
    return not (first.blocks and isinstance(first.blocks[0], Thinking) and writer.owns_state(first.origin))


def _follows_calls(messages: Sequence[Message], index: int) -> bool:
    before = messages[index - 1] if index else None
    return before is not None and (before.role == "tool" or bool(before.calls))


def _encode_output_config(request: Request, extra: Doc, writer: Writer) -> Doc:
    config = {**extra}
    if effort := encode_effort(request.options, writer):
        config = {"effort": effort, **config}
    return {**config, **_encode_format(request.output, writer)} if request.output else config


def _encode_format(output: Output, writer: Writer) -> Doc:
    if output.schema is None:
        writer.record_loss("output", "output", f"{writer.profile.title} has no JSON mode without a schema")
        return {}
    lowered = lower(output.schema, dialects.ANTHROPIC_STRICT, tool_name=output.name)
    writer.losses.extend(lowered.losses)
    return {"format": {"type": "json_schema", "schema": lowered.schema}}


def _encode_tool(tool: ToolDefinition, writer: Writer) -> Doc | None:
    if tool.kind == "hosted":
        return encode_hosted(tool, writer)
    if known := native_definition(tool, writer):
        return known
    function = encode_function(tool, writer)
    body: Doc = {"name": function.name}
    if function.description:
        body["description"] = function.description
    body["input_schema"] = function.schema
    if function.strict or (tool.strict is False and tool.wire == ANTHROPIC_MESSAGES):
        body["strict"] = function.strict
    return {**body, **function.extra}


def _encode_choice(
    choice: ToolChoice | None, tools: Sequence[ToolDefinition], parallel: bool | None, writer: Writer
) -> Doc | None:
    if choice is None:
        return {"type": "auto", "disable_parallel_tool_use": True} if parallel is False else None
    out: Doc = {"type": {"auto": "auto", "none": "none", "required": "any"}[choice.mode]}
    if choice.names:
        out = {"type": "tool", "name": select_chosen(choice, tools, writer)[0][1]}
    if parallel is False and choice.mode != "none":
        out["disable_parallel_tool_use"] = True
    return out
