"""Anthropic Messages: Request <-> body. Results are blocks of a user message; instructions stand outside of the messages."""

import base64
from collections.abc import Iterator, Sequence
from typing import Any

from toolglot.messages import Block, Foreign, Media, Message, Origin, Text, Thinking, ToolCall, ToolResult
from toolglot.providers.profile import Profile
from toolglot.request import Options, Output, Request, ToolChoice, ToolDefinition, effort_of
from toolglot.schema import dialects
from toolglot.schema.lower import lower
from toolglot.wire.anthropic.reply import WIRE, AnthropicDecoder
from toolglot.wire.history import leading_system
from toolglot.wire.media import guessed_type, text_of
from toolglot.wire.shapes import Doc, as_dict, as_list, as_text, dicts, rest
from toolglot.wire.tracker import ToolCallTracker
from toolglot.wire.writer import Writer, placeholder

__all__ = ["assemble", "decode", "hoisted", "items", "varies"]

_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_LEAST_BUDGET = 1024

# ---- encode


def hoisted(messages: Sequence[Message]) -> int:
    """How many leading messages are sent as `system`."""
    return leading_system(messages)


def varies(request: Request, writer: Writer) -> object:
    """Thinking can be switched on only in a tool loop that began with it."""
    return request.options.thinking_budget is not None and _loop_without_thinking(request.messages, writer)


def items(message: Message, writer: Writer, where: str) -> list[Doc]:
    """One neutral message as wire messages. Neighbours of one role stay apart: the API joins them."""
    match message.role:
        case "system":
            if writer.owns(message.origin):
                return [{"role": "system", "content": _blocks(message.blocks, message, writer, where)}]
            writer.mend("system message", where, "it stands between turns; said by the user")
            return [{"role": "user", "content": f"<system>\n{message.text}\n</system>"}]
        case "tool":
            return [{"role": "user", "content": [_result(result, message, writer, where) for result in message.results]}]
        case _:
            return [{"role": message.role, "content": _content(message.blocks, message, writer, where)}]


def _content(blocks: Sequence[Block], message: Message, writer: Writer, where: str) -> Any:
    encoded = _blocks(blocks, message, writer, where)
    if len(encoded) == 1 and encoded[0].keys() == {"type", "text"}:
        return encoded[0]["text"]
    return encoded


def _blocks(blocks: Sequence[Block], message: Message, writer: Writer, where: str) -> list[Doc]:
    return [encoded for block in blocks if (encoded := block_to_wire(block, message.origin, writer, where))]


def block_to_wire(block: Block, origin: Origin | None, writer: Writer, where: str) -> Doc | None:
    """One block of a message or a reply."""
    match block:
        case Text():
            own = writer.opaque(block.opaque, origin, where)
            return {"type": "text", "text": block.text, **own}
        case Thinking():
            own = block.opaque or {}
            if "redacted" in own:
                return {"type": "redacted_thinking", "data": own["redacted"]}
            return {"type": "thinking", "thinking": block.text, **own}
        case ToolCall():
            name = writer.tool_name(block.name, block.namespace, where)
            head: Doc = {"type": "tool_use", "id": writer.call_id(block.id, where), "name": name}
            return {
                **head,
                "input": writer.arguments_object(block, where),
                **writer.opaque(block.opaque, origin, where),
            }
        case Media():
            return _media(block, origin, writer, where)
        case Foreign():
            return block.item
        case ToolResult():
            return None


def _result(result: ToolResult, message: Message, writer: Writer, where: str) -> Doc:
    out: Doc = {"type": "tool_result", "tool_use_id": writer.call_id(result.call_id, where)}
    blocks = [block for block in result.content if not (isinstance(block, Text) and not block.text.strip())]
    if blocks:
        out["content"] = _content(blocks, message, writer, where)
    if result.is_error:
        out["is_error"] = True
        out.setdefault("content", "Error")  # an error without content is refused
    return {**out, **writer.opaque(result.opaque, message.origin, where)}


def _media(media: Media, origin: Origin | None, writer: Writer, where: str) -> Doc:
    own = writer.opaque(media.opaque, origin, where)
    kind = "image" if media.kind == "image" else "document"
    more = rest(own, ("source",)) or {}
    if source := own.get("source") or _source(media):
        return {"type": kind, "source": source, **more}
    writer.lose(media.kind, where, f"{writer.profile.title} cannot be given {media.media_type or media.url or 'it'}")
    return {"type": "text", "text": placeholder(media).text}


def _source(media: Media) -> Doc | None:
    if media.url and media.url.startswith("http") and media.kind in ("image", "file"):
        return {"type": "url", "url": media.url}
    if media.data is None:
        return None
    media_type = media.media_type or guessed_type(media)
    if (media.kind == "image" and media_type in _IMAGES) or media_type == "application/pdf":
        return {"type": "base64", "media_type": media_type, "data": media.data}
    if (text := text_of(media)) is not None:
        return {"type": "text", "media_type": "text/plain", "data": text}
    return None


def assemble(request: Request, writer: Writer, system: Sequence[Message], messages: list[Any]) -> Doc:
    """The body around the encoded messages, which come last."""
    options, body = request.options, dict[str, Any]()
    extras = writer.extras(request)
    body["model"] = request.model
    body["max_tokens"] = _max_tokens(options, writer)
    tools, choice = writer.offered(request)
    blocks = [block for message in system for block in _blocks(_spoken(message, writer), message, writer, "system")]
    if blocks := [*blocks, *({"type": "text", "text": nudge} for nudge in writer.nudges)]:
        plain = len(blocks) == 1 and blocks[0].keys() == {"type", "text"}
        body["system"] = blocks[0]["text"] if plain else blocks
    sampling = writer.sampling(options)
    if "stop" in sampling:
        sampling["stop_sequences"] = [stop for stop in sampling.pop("stop") if _is_sequence(stop, writer)]
    encoded = [tool for definition in tools if (tool := _tool(definition, writer))]
    wire_choice = _choice(choice, tools, request.parallel, writer) if encoded else None
    thinking = _thinking(request, wire_choice, body["max_tokens"], writer)
    if thinking:
        body["thinking"] = thinking
        if "temperature" in sampling and sampling["temperature"] != 1:
            writer.lose("temperature", "options", "it must be 1 while thinking is on")
            del sampling["temperature"]
    body.update(sampling)
    config = {**as_dict(extras.pop("output_config", None))}
    if effort := writer.effort(options):
        config = {"effort": effort, **config}
    if request.output:
        config.update(_format(request.output, writer))
    if config:
        body["output_config"] = config
    if request.stream is not None:
        body["stream"] = request.stream
    if encoded:
        body["tools"] = encoded
    if wire_choice:
        body["tool_choice"] = wire_choice
    return {**body, **extras, "messages": messages}


def _spoken(message: Message, writer: Writer) -> list[Block]:
    """Instructions without blank text, which is refused."""
    kept = [block for block in message.blocks if not (isinstance(block, Text) and not block.text.strip())]
    if len(kept) < len(message.blocks):
        writer.mend("blank text", "system", "left out")
    return kept


def _is_sequence(stop: str, writer: Writer) -> bool:
    if not stop.strip():
        writer.lose("stop", "options", "a stop sequence of white space is refused")
    return bool(stop.strip())


def _max_tokens(options: Options, writer: Writer) -> int:
    if options.max_tokens is not None:
        return options.max_tokens
    default = writer.profile.default_max_tokens or 4096
    writer.mend("max_tokens", "options", f"{writer.profile.title} requires it; {default} was added")
    return default


def _thinking(request: Request, choice: Doc | None, max_tokens: int, writer: Writer) -> Doc | None:
    """Extended thinking, where the rest of the request allows it."""
    budget = request.options.thinking_budget
    if budget is None or budget <= 0:
        return None
    why = ""
    if not writer.profile.thinking_budget:
        why = f"{writer.model} takes no budget for thinking"
    elif choice and choice["type"] in ("any", "tool"):
        why = "a forced tool choice forbids thinking"
    elif max_tokens <= _LEAST_BUDGET:
        why = f"max_tokens ({max_tokens}) leaves no room for it"
    elif _loop_without_thinking(request.messages, writer):
        why = "the tool loop in progress was begun without thinking"
    if why:
        writer.lose("thinking_budget", "options", why)
        return None
    return {
        "type": "enabled",
        "budget_tokens": max(_LEAST_BUDGET, min(budget, max_tokens - 1) if budget >= max_tokens else budget),
    }


def _loop_without_thinking(messages: Sequence[Message], writer: Writer) -> bool:
    """Whether the last messages are a tool loop whose first turn does not start with thinking, which is refused.

    What the user says right after results belongs to the loop: the API joins the two.
    """
    first: Message | None = None
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.role == "assistant" and (message.calls or first is not None or index == len(messages) - 1):
            first = message
        elif message.role == "assistant" or (message.role == "user" and not _after_calls(messages, index)):
            break
    if first is None:
        return False
    return not (first.blocks and isinstance(first.blocks[0], Thinking) and writer.owns(first.origin))


def _after_calls(messages: Sequence[Message], index: int) -> bool:
    before = messages[index - 1] if index else None
    return before is not None and (before.role == "tool" or bool(before.calls))


def _format(output: Output, writer: Writer) -> Doc:
    if output.schema is None:
        writer.lose("output", "output", f"{writer.profile.title} has no JSON mode without a schema")
        return {}
    lowered = lower(output.schema, dialects.ANTHROPIC_STRICT, tool=output.name)
    writer.losses.extend(lowered.losses)
    return {"format": {"type": "json_schema", "schema": lowered.schema}}


def _tool(tool: ToolDefinition, writer: Writer) -> Doc | None:
    if tool.kind == "hosted":
        return writer.hosted(tool)
    function = writer.function(tool)
    body: Doc = {"name": function.name}
    if function.description:
        body["description"] = function.description
    body["input_schema"] = function.schema
    if function.strict or (tool.strict is False and tool.wire == WIRE):
        body["strict"] = function.strict
    return {**body, **function.own}


def _choice(choice: ToolChoice | None, tools: Sequence[ToolDefinition], parallel: bool | None, writer: Writer) -> Doc | None:
    if choice is None:
        return {"type": "auto", "disable_parallel_tool_use": True} if parallel is False else None
    out: Doc = {"type": {"auto": "auto", "none": "none", "required": "any"}[choice.mode]}
    if choice.names:
        out = {"type": "tool", "name": writer.chosen(choice, tools)[0][1]}
    if parallel is False and choice.mode != "none":
        out["disable_parallel_tool_use"] = True
    return out


# ---- decode

_KNOWN = {
    *("model", "messages", "system", "tools", "tool_choice", "max_tokens", "stop_sequences", "stream"),
    *("temperature", "top_p", "top_k", "thinking", "output_config"),
}


def decode(body: Doc, profile: Profile) -> Request:
    """A body as a Request. What has no neutral form stays in `extras`."""
    origin = Origin(WIRE, profile.id, as_text(body.get("model")))
    extras = rest(body, _KNOWN) or {}
    thinking, config = as_dict(body.get("thinking")), as_dict(body.get("output_config"))
    budget = thinking.get("budget_tokens") if thinking.keys() == {"type", "budget_tokens"} else None
    if thinking and budget is None:
        extras["thinking"] = thinking
    effort = effort_of(config.get("effort"))
    if more := rest(config, ("effort", "format") if effort or "effort" not in config else ("format",)):
        extras["output_config"] = more
    choice = as_dict(body.get("tool_choice"))
    parallel = choice.get("disable_parallel_tool_use")
    return Request(
        model=as_text(body.get("model")),
        messages=[*_decode_system(body.get("system"), origin), *_decode_messages(body.get("messages"), origin)],
        tools=tuple(_decode_tool(tool) for tool in dicts(body.get("tools"))),
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
        extras={WIRE: extras} if extras else {},
    )


def _decode_format(form: Any) -> Output | None:
    schema = as_dict(form).get("schema")
    return Output(as_dict(schema), strict=True) if schema is not None else None


def _decode_system(system: Any, origin: Origin) -> Iterator[Message]:
    if system:
        yield Message("system", tuple(_decode_blocks(system)), origin)


def _decode_messages(messages: Any, origin: Origin) -> Iterator[Message]:
    names: dict[str, str] = {}
    for message in dicts(messages):
        content = message.get("content")
        if message.get("role") == "assistant":
            decoded = decode_assistant(content, origin)
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


def decode_assistant(content: Any, origin: Origin) -> Message:
    """An assistant message of the history: read as a reply is."""
    tracker = ToolCallTracker(origin)
    decoder = AnthropicDecoder(tracker)
    decoder.content([{"type": "text", "text": content}] if isinstance(content, str) else as_list(content))
    decoder.end()
    reply = tracker.finish()
    return Message("assistant", reply.blocks, origin)


def _decode_blocks(content: Any, names: dict[str, str] | None = None) -> Iterator[Block]:
    if isinstance(content, str):
        yield Text(content)
    for block in dicts(content):
        match block.get("type"):
            case "text" if isinstance(block.get("text"), str):
                yield Text(block["text"], rest(block, ("type", "text")))
            case "tool_result":
                yield _decode_result(block, names or {})
            case "image" | "document" if block.get("source"):
                yield _decode_media(block)
            case _:
                yield Foreign(WIRE, block)


def _decode_result(block: Doc, names: dict[str, str]) -> ToolResult:
    id = as_text(block.get("tool_use_id"))
    content = tuple(b for b in _decode_blocks(block.get("content")) if isinstance(b, Text | Media | Foreign))
    own = rest(block, ("type", "tool_use_id", "content", "is_error"))
    return ToolResult(id, content, names.get(id, ""), is_error=bool(block.get("is_error")), opaque=own)


def _decode_media(block: Doc) -> Media:
    source = as_dict(block["source"])
    kind = "image" if block["type"] == "image" else "file"
    own = rest(block, ("type", "source"))
    name = as_text(block.get("title"))
    match source.get("type"):
        case "base64":
            return Media(kind, as_text(source.get("media_type")), source.get("data"), name=name, opaque=own)
        case "url":
            return Media(kind, url=source.get("url"), name=name, opaque=own)
        case "text" | "content":
            texts = source.get("data") or source.get("content")
            text = texts if isinstance(texts, str) else "\n".join(as_text(part.get("text")) for part in dicts(texts))
            data = base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()
            return Media(kind, "text/plain", data, name=name, opaque={**(own or {}), "source": source})
        case _:
            return Media(kind, file_id=source.get("file_id"), name=name, opaque={**(own or {}), "source": source})


def _decode_tool(tool: Doc) -> ToolDefinition:
    if tool.get("type") not in (None, "custom"):
        return ToolDefinition(as_text(tool.get("name")) or as_text(tool.get("type")), kind="hosted", wire=WIRE, opaque=tool)
    return ToolDefinition(
        as_text(tool.get("name")),
        as_text(tool.get("description")),
        tool.get("input_schema"),
        strict=tool.get("strict"),
        wire=WIRE,
        opaque=rest(tool, ("name", "description", "input_schema", "strict")),
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
