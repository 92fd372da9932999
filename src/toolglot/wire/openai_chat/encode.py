"""Chat Completions: Request -> body."""

from collections.abc import Iterable, Sequence
from typing import Any

from toolglot.jsontext import dumps_text as json_text
from toolglot.messages import Block, Foreign, Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from toolglot.request import Output, Request, ToolChoice, ToolDefinition
from toolglot.wire.media import data_url, text_of
from toolglot.wire.offer import as_function, as_hosted, chosen, offered
from toolglot.wire.openai_chat.reply import REASONING
from toolglot.wire.openai_common import strict_output
from toolglot.wire.options import effort_for, extras_for, sampling_for
from toolglot.wire.repair import FILLER
from toolglot.wire.shapes import Doc, as_dict, as_list, as_text, rest
from toolglot.wire.writer import Writer, media_beside, placeholder, result_text

__all__ = ["assemble", "call_to_wire", "hoisted", "items", "varies"]


_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}


def hoisted(messages: Sequence[Message]) -> int:
    """Instructions are messages here."""
    return 0


def varies(request: Request, writer: Writer) -> object:
    """Nothing in the body depends on the history."""
    return None


def items(message: Message, writer: Writer, where: str) -> list[Doc]:
    """One neutral message as wire messages."""
    match message.role:
        case "system":
            own = writer.opaque(message.opaque, message.origin, where)
            role = writer.profile.system_role
            if role == "user":
                writer.mend("system message", where, f"{writer.model} takes no instructions; said by the user")
            role = own.get("role", role) if role == "system" else role
            return [{"role": role, **_without(own, "role"), "content": _content(message, writer, where)}]
        case "user":
            own = writer.opaque(message.opaque, message.origin, where)
            return [{"role": "user", **own, "content": _content(message, writer, where)}]
        case "assistant":
            return _assistant(message, writer, where)
        case "tool":
            return _results(message, writer, where)


def _assistant(message: Message, writer: Writer, where: str) -> list[Doc]:
    own = writer.opaque(message.opaque, message.origin, where)
    said = [block for block in message.blocks if isinstance(block, Text | Foreign)]
    refused = [block for block in said if isinstance(block, Text) and writer.owns(message.origin) and _is_refusal(block)]
    said = [block for block in said if block not in refused]
    calls = [call_to_wire(block, message, writer, where) for block in message.calls]
    thoughts = _reasoning(message, writer, where, bool(calls))
    parts = as_list(thoughts.pop("content", None))
    out: Doc = {"role": "assistant"}
    if parts or any(isinstance(block, Foreign) for block in said):
        out["content"] = [*parts, *(part for block in said for part in _part(block, message, writer, where))]
    elif said:
        out["content"] = _parts_or_text(said, message, writer, where)
    elif calls and writer.profile.empty_content != "omit":
        out["content"] = None if writer.profile.empty_content == "null" else ""
    elif not calls and not refused:
        out["content"] = ""
    out.update(thoughts)
    if refused:
        out["refusal"] = "".join(block.text for block in refused)
    if calls:
        out["tool_calls"] = calls
    for block in message.blocks:
        if isinstance(block, Media):
            writer.lose(block.kind, where, f"{writer.profile.title} takes no media from the assistant")
    return [{**own, **out}]


def _is_refusal(block: Text) -> bool:
    return bool((block.opaque or {}).get("refusal"))


def call_to_wire(call: ToolCall, message: Message, writer: Writer, where: str, *, verbatim: bool = False) -> Doc:
    """One call of a message or a reply. `verbatim`: arguments that are no JSON stay as they are."""
    own = _without(writer.opaque(call.opaque, message.origin, where), "legacy")
    name = writer.tool_name(call.name, call.namespace, where)
    head: Doc = {"id": writer.call_id(call.id, where)}
    if call.freeform and writer.profile.features.freeform:
        return {**head, "type": "custom", "custom": {"name": name, "input": call.raw or ""}, **own}
    text = _arguments(call, writer, where, own=verbatim or writer.owns(message.origin))
    return {**head, "type": "function", "function": {"name": name, "arguments": text}, **own}


def _arguments(call: ToolCall, writer: Writer, where: str, *, own: bool) -> str:
    """Arguments as text, exactly as they came; text that is no JSON object only where it came from."""
    if call.freeform or (call.arguments is None and not own):
        return json_text(writer.arguments_object(call, where))
    return call.text if call.text.strip() else "{}"


def _reasoning(message: Message, writer: Writer, where: str, has_calls: bool) -> Doc:
    """Reasoning under the name it came by; what is not the target's own was taken out before."""
    thoughts = [block for block in message.blocks if isinstance(block, Thinking)]
    if thoughts:
        field = as_text((thoughts[0].opaque or {}).get("field")) or REASONING[0]
        text = "".join(thought.text for thought in thoughts)
        if field == "thinking_part":  # Mistral: a part of the content
            part: Doc = {"type": "thinking", "thinking": [{"type": "text", "text": text}]}
            return {"content": [{**part, **(rest(thoughts[0].opaque or {}, ("field",)) or {})}]}
        return {field: text}
    if writer.profile.reasoning_echo == "required" and has_calls:
        writer.mend("reasoning_content", where, "empty text added: a turn with calls must carry it")
        return {REASONING[0]: ""}
    return {}


def _results(message: Message, writer: Writer, where: str) -> list[Doc]:
    out: list[Doc] = []
    media: list[Block] = []
    for result in message.results:
        own = writer.opaque(result.opaque, message.origin, where)
        head: Doc = {"role": "tool", "tool_call_id": writer.call_id(result.call_id, where)}
        if writer.profile.result_name and (name := writer.result_name(result)):
            head["name"] = name
        out.append({**head, **own, "content": result_text(result)})
        media += media_beside(result)
    if media:
        writer.mend("media of a tool result", where, f"{writer.profile.title} takes text only; sent in a user message")
        if writer.profile.history.filler_after_results:
            out.append({"role": "assistant", "content": FILLER})
        out.append({"role": "user", "content": _content(Message("user", tuple(media)), writer, where)})
    return out


def _content(message: Message, writer: Writer, where: str) -> Any:
    blocks = [block for block in message.blocks if not isinstance(block, Thinking | ToolCall | ToolResult)]
    if all(isinstance(block, Text) for block in blocks):
        return _parts_or_text(blocks, message, writer, where)
    return [part for block in blocks for part in _part(block, message, writer, where)]


def _parts_or_text(blocks: Sequence[Block], message: Message, writer: Writer, where: str) -> Any:
    texts = [block for block in blocks if isinstance(block, Text)]
    owned = [writer.opaque(block.opaque, message.origin, where) for block in texts]
    if len(texts) == 1 and not owned[0]:
        return texts[0].text
    return [{"type": "text", "text": block.text, **own} for block, own in zip(texts, owned, strict=True)]


def _part(block: Block, message: Message, writer: Writer, where: str) -> Iterable[Doc]:
    if isinstance(block, Text):
        yield {"type": "text", "text": block.text, **writer.opaque(block.opaque, message.origin, where)}
    elif isinstance(block, Media):
        yield _media(block, message, writer, where)
    elif isinstance(block, Foreign):
        yield block.item


def _media(media: Media, message: Message, writer: Writer, where: str) -> Doc:
    own = writer.opaque(media.opaque, message.origin, where)
    part = _media_part(media, own, writer)
    if part is not None:
        return part
    if (text := text_of(media)) is not None:
        return {"type": "text", "text": text}
    writer.lose(media.kind, where, f"{writer.model or writer.profile.title} cannot be given it")
    return {"type": "text", "text": placeholder(media).text}


def _media_part(media: Media, own: Opaque, writer: Writer) -> Doc | None:
    allowed = media.kind in writer.profile.media
    more = as_dict(own.get("more"))
    if media.kind == "image" and allowed and (url := data_url(media)):
        return {"type": "image_url", "image_url": {"url": url, **more}}
    if media.kind == "audio" and allowed and media.data and media.media_type in _AUDIO:
        return {"type": "input_audio", "input_audio": {"data": media.data, "format": _AUDIO[media.media_type]}}
    if media.kind == "file" and allowed:
        if media.file_id and own:
            return {"type": "file", "file": {"file_id": media.file_id, **more}}
        if media.data and media.media_type == "application/pdf":  # recorded 400: anything but a PDF is refused
            return {
                "type": "file",
                "file": {"filename": media.name or "file.pdf", "file_data": data_url(media), **more},
            }
    return None


def assemble(request: Request, writer: Writer, system: Sequence[Message], messages: list[Any]) -> Doc:
    """The body around the encoded messages, which come last."""
    options, body = request.options, dict[str, Any]()
    body["model"] = request.model
    if options.max_tokens is not None:
        body[writer.profile.max_tokens] = options.max_tokens
    body.update(sampling_for(options, writer))
    if effort := effort_for(options, writer):
        body["reasoning_effort"] = effort
    if options.thinking_budget is not None:
        writer.lose("thinking_budget", "options", f"{writer.profile.title} has no budget for thinking")
    if request.stream is not None:
        body["stream"] = request.stream
    if request.output:
        body["response_format"] = _response_format(request.output, writer)
    if options.cache and writer.profile.limits.cache_marks:  # a router that passes the mark on
        body["cache_control"] = {"type": "ephemeral"}
    body.update(_tools(request, writer))
    if writer.nudges:
        messages = [{"role": writer.profile.system_role, "content": " ".join(writer.nudges)}, *messages]
    return {**body, **extras_for(request, writer, "openai"), "messages": messages}


def _tools(request: Request, writer: Writer) -> Doc:
    tools, choice = offered(request, writer)
    encoded = [tool for definition in tools if (tool := _tool(definition, writer))]
    if not encoded:
        return {}
    body: Doc = {"tools": encoded}
    if choice:
        body["tool_choice"] = _choice(choice, tools, writer)
    if request.parallel is not None and writer.profile.features.parallel_off:
        body["parallel_tool_calls"] = request.parallel
    elif request.parallel is False:
        writer.lose("parallel", "request", f"{writer.profile.title} cannot be held to one call at a time")
    return body


def _tool(tool: ToolDefinition, writer: Writer) -> Doc | None:
    if tool.kind == "hosted":
        return as_hosted(tool, writer)
    if tool.kind == "freeform" and writer.profile.features.freeform:
        custom: Doc = {"name": writer.tool_name(tool.name, tool.namespace)}
        if tool.description:
            custom["description"] = tool.description
        if tool.grammar:
            custom["format"] = {"type": "grammar", "grammar": tool.grammar}
        return {"type": "custom", "custom": custom}
    function = as_function(tool, writer)
    body: Doc = {"name": function.name}
    if function.description:
        body["description"] = function.description
    body["parameters"] = function.schema
    if function.strict or (tool.strict is False and writer.profile.features.strict):
        body["strict"] = function.strict
    return {"type": "function", "function": body, **function.own}


def _choice(choice: ToolChoice, tools: Iterable[ToolDefinition], writer: Writer) -> Any:
    if not choice.names:
        return choice.mode
    named: list[Doc] = []
    for tool, name in chosen(choice, tools, writer):
        kind = "custom" if tool.kind == "freeform" and writer.profile.features.freeform else "function"
        named.append({"type": kind, kind: {"name": name}})
    if len(named) == 1 and choice.mode == "required":
        return named[0]
    return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": named}}


def _response_format(output: Output, writer: Writer) -> Doc:
    if output.schema is None or writer.profile.json_output != "schema":
        if output.schema is not None:
            writer.lose("output schema", "output", f"{writer.profile.title} knows only JSON without a schema")
        return {"type": "json_object"}
    schema, strict = strict_output(output, writer)
    shape: Doc = {"name": output.name, "schema": schema}
    if output.description:
        shape["description"] = output.description
    if strict is not None:
        shape["strict"] = strict
    return {"type": "json_schema", "json_schema": shape}


def _without(doc: Doc, *keys: str) -> Doc:
    return {key: value for key, value in doc.items() if key not in keys}
