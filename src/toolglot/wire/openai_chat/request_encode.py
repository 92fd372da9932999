"""Chat Completions: Request -> body."""

from collections.abc import Iterable, Sequence
from typing import Any

from toolglot.jsontext import dumps_text as json_text
from toolglot.messages import Block, Foreign, Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from toolglot.request import Output, Request, ToolChoice, ToolDefinition
from toolglot.wire.json_values import Doc, as_dict, as_list, as_text, unknown_fields
from toolglot.wire.media import extract_file_text, to_data_url
from toolglot.wire.openai_chat.reply_decode import REASONING_FIELDS
from toolglot.wire.openai_common import encode_output_schema
from toolglot.wire.options import encode_effort, encode_sampling, select_extras
from toolglot.wire.repair import FILLER_TEXT
from toolglot.wire.tool_encoding import encode_function, encode_hosted, select_chosen, select_tools
from toolglot.wire.writer import Writer, detach_media, format_result_text, media_placeholder

__all__ = ["encode_body", "encode_call", "encode_message", "head_key", "leading_count"]


_AUDIO_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}


def leading_count(messages: Sequence[Message]) -> int:
    """Instructions are messages here."""
    return 0


def head_key(request: Request, writer: Writer) -> object:
    """Nothing in the body depends on the history."""
    return None


def encode_message(message: Message, writer: Writer, where: str) -> list[Doc]:
    """One neutral message as wire messages."""
    match message.role:
        case "system":
            own = writer.echo_opaque(message.opaque, message.origin, where)
            role = writer.profile.system_role
            if role == "user":
                writer.record_repair("system message", where, f"{writer.model} takes no instructions; said by the user")
            role = own.get("role", role) if role == "system" else role
            return [{"role": role, **_without_keys(own, "role"), "content": _encode_content(message, writer, where)}]
        case "user":
            own = writer.echo_opaque(message.opaque, message.origin, where)
            return [{"role": "user", **own, "content": _encode_content(message, writer, where)}]
        case "assistant":
            return _encode_assistant(message, writer, where)
        case "tool":
            return _encode_results(message, writer, where)


def _encode_assistant(message: Message, writer: Writer, where: str) -> list[Doc]:
    own = writer.echo_opaque(message.opaque, message.origin, where)
    said = [block for block in message.blocks if isinstance(block, Text | Foreign)]
    refused = [block for block in said if isinstance(block, Text) and writer.owns_state(message.origin) and _is_refusal(block)]
    said = [block for block in said if block not in refused]
    calls = [encode_call(block, message, writer, where) for block in message.calls]
    thoughts = _encode_reasoning(message, writer, where, bool(calls))
    parts = as_list(thoughts.pop("content", None))
    out: Doc = {"role": "assistant"}
    if parts or any(isinstance(block, Foreign) for block in said):
        out["content"] = [*parts, *(part for block in said for part in _encode_part(block, message, writer, where))]
    elif said:
        out["content"] = _encode_texts(said, message, writer, where)
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
            writer.record_loss(block.kind, where, f"{writer.profile.title} takes no media from the assistant")
    return [{**own, **out}]


def _is_refusal(block: Text) -> bool:
    return bool((block.opaque or {}).get("refusal"))


def encode_call(call: ToolCall, message: Message, writer: Writer, where: str, *, verbatim: bool = False) -> Doc:
    """One call of a message or a reply. `verbatim`: arguments that are no JSON stay as they are."""
    own = _without_keys(writer.echo_opaque(call.opaque, message.origin, where), "legacy")
    name = writer.map_tool_name(call.name, call.namespace, where)
    head: Doc = {"id": writer.map_call_id(call.id, where)}
    if call.freeform and writer.profile.features.freeform:
        return {**head, "type": "custom", "custom": {"name": name, "input": call.raw or ""}, **own}
    text = _encode_arguments(call, writer, where, verbatim=verbatim or writer.owns_state(message.origin))
    return {**head, "type": "function", "function": {"name": name, "arguments": text}, **own}


def _encode_arguments(call: ToolCall, writer: Writer, where: str, *, verbatim: bool) -> str:
    """Arguments as text, exactly as they came; text that is no JSON object only where it came from."""
    if call.freeform or (call.arguments is None and not verbatim):
        return json_text(writer.to_arguments_object(call, where))
    return call.text if call.text.strip() else "{}"


def _encode_reasoning(message: Message, writer: Writer, where: str, has_calls: bool) -> Doc:
    """Reasoning under the name it came by; what is not the target's own was taken out before."""
    thoughts = [block for block in message.blocks if isinstance(block, Thinking)]
    if thoughts:
        field = as_text((thoughts[0].opaque or {}).get("field")) or REASONING_FIELDS[0]
        text = "".join(thought.text for thought in thoughts)
        if field == "thinking_part":  # Mistral: a part of the content
            part: Doc = {"type": "thinking", "thinking": [{"type": "text", "text": text}]}
            return {"content": [{**part, **(unknown_fields(thoughts[0].opaque or {}, ("field",)) or {})}]}
        return {field: text}
    if writer.profile.reasoning_echo == "required" and has_calls:
        writer.record_repair("reasoning_content", where, "empty text added: a turn with calls must carry it")
        return {REASONING_FIELDS[0]: ""}
    return {}


def _encode_results(message: Message, writer: Writer, where: str) -> list[Doc]:
    out: list[Doc] = []
    media: list[Block] = []
    for result in message.results:
        own = writer.echo_opaque(result.opaque, message.origin, where)
        head: Doc = {"role": "tool", "tool_call_id": writer.map_call_id(result.call_id, where)}
        if writer.profile.result_name and (name := writer.result_tool_name(result)):
            head["name"] = name
        out.append({**head, **own, "content": format_result_text(result)})
        media += detach_media(result)
    if media:
        writer.record_repair("media of a tool result", where, f"{writer.profile.title} takes text only; sent in a user message")
        if writer.profile.history.filler_after_results:
            out.append({"role": "assistant", "content": FILLER_TEXT})
        out.append({"role": "user", "content": _encode_content(Message("user", tuple(media)), writer, where)})
    return out


def _encode_content(message: Message, writer: Writer, where: str) -> Any:
    blocks = [block for block in message.blocks if not isinstance(block, Thinking | ToolCall | ToolResult)]
    if all(isinstance(block, Text) for block in blocks):
        return _encode_texts(blocks, message, writer, where)
    return [part for block in blocks for part in _encode_part(block, message, writer, where)]


def _encode_texts(blocks: Sequence[Block], message: Message, writer: Writer, where: str) -> Any:
    texts = [block for block in blocks if isinstance(block, Text)]
    owned = [writer.echo_opaque(block.opaque, message.origin, where) for block in texts]
    if len(texts) == 1 and not owned[0]:
        return texts[0].text
    return [{"type": "text", "text": block.text, **own} for block, own in zip(texts, owned, strict=True)]


def _encode_part(block: Block, message: Message, writer: Writer, where: str) -> Iterable[Doc]:
    if isinstance(block, Text):
        yield {"type": "text", "text": block.text, **writer.echo_opaque(block.opaque, message.origin, where)}
    elif isinstance(block, Media):
        yield _encode_media(block, message, writer, where)
    elif isinstance(block, Foreign):
        yield block.item


def _encode_media(media: Media, message: Message, writer: Writer, where: str) -> Doc:
    own = writer.echo_opaque(media.opaque, message.origin, where)
    part = _native_media_part(media, own, writer)
    if part is not None:
        return part
    if (text := extract_file_text(media)) is not None:
        return {"type": "text", "text": text}
    writer.record_loss(media.kind, where, f"{writer.model or writer.profile.title} cannot be given it")
    return {"type": "text", "text": media_placeholder(media).text}


def _native_media_part(media: Media, state: Opaque, writer: Writer) -> Doc | None:
    allowed = media.kind in writer.profile.media
    more = as_dict(state.get("more"))
    if media.kind == "image" and allowed and (url := to_data_url(media)):
        return {"type": "image_url", "image_url": {"url": url, **more}}
    if media.kind == "audio" and allowed and media.data and media.media_type in _AUDIO_FORMATS:
        return {"type": "input_audio", "input_audio": {"data": media.data, "format": _AUDIO_FORMATS[media.media_type]}}
    if media.kind == "file" and allowed:
        if media.file_id and state:
            return {"type": "file", "file": {"file_id": media.file_id, **more}}
        if media.data and media.media_type == "application/pdf":  # recorded 400: anything but a PDF is refused
            return {
                "type": "file",
                "file": {"filename": media.name or "file.pdf", "file_data": to_data_url(media), **more},
            }
    return None


def encode_body(request: Request, writer: Writer, system: Sequence[Message], messages: list[Any]) -> Doc:
    """The body around the encoded messages, which come last."""
    options, body = request.options, dict[str, Any]()
    body["model"] = request.model
    if options.max_tokens is not None:
        body[writer.profile.max_tokens] = options.max_tokens
    body.update(encode_sampling(options, writer))
    if effort := encode_effort(options, writer):
        body["reasoning_effort"] = effort
    if options.thinking_budget is not None:
        writer.record_loss("thinking_budget", "options", f"{writer.profile.title} has no budget for thinking")
    if request.stream is not None:
        body["stream"] = request.stream
    if request.output:
        body["response_format"] = _encode_format(request.output, writer)
    if options.cache and writer.profile.limits.cache_marks:  # a router that passes the mark on
        body["cache_control"] = {"type": "ephemeral"}
    body.update(_encode_tools(request, writer))
    if writer.prompt_hints:
        messages = [{"role": writer.profile.system_role, "content": " ".join(writer.prompt_hints)}, *messages]
    return {**body, **select_extras(request, writer), "messages": messages}


def _encode_tools(request: Request, writer: Writer) -> Doc:
    tools, choice = select_tools(request, writer)
    encoded = [tool for definition in tools if (tool := _encode_tool(definition, writer))]
    if not encoded:
        return {}
    body: Doc = {"tools": encoded}
    if choice:
        body["tool_choice"] = _encode_choice(choice, tools, writer)
    if request.parallel is not None and writer.profile.features.parallel_off:
        body["parallel_tool_calls"] = request.parallel
    elif request.parallel is False:
        writer.record_loss("parallel", "request", f"{writer.profile.title} cannot be held to one call at a time")
    return body


def _encode_tool(tool: ToolDefinition, writer: Writer) -> Doc | None:
    if tool.kind == "hosted":
        return encode_hosted(tool, writer)
    if tool.kind == "freeform" and writer.profile.features.freeform:
        custom: Doc = {"name": writer.map_tool_name(tool.name, tool.namespace)}
        if tool.description:
            custom["description"] = tool.description
        if tool.grammar:
            custom["format"] = {"type": "grammar", "grammar": tool.grammar}
        return {"type": "custom", "custom": custom}
    function = encode_function(tool, writer)
    body: Doc = {"name": function.name}
    if function.description:
        body["description"] = function.description
    body["parameters"] = function.schema
    if function.strict or (tool.strict is False and writer.profile.features.strict):
        body["strict"] = function.strict
    return {"type": "function", "function": body, **function.extra}


def _encode_choice(choice: ToolChoice, tools: Iterable[ToolDefinition], writer: Writer) -> Any:
    if not choice.names:
        return choice.mode
    named: list[Doc] = []
    for tool, name in select_chosen(choice, tools, writer):
        kind = "custom" if tool.kind == "freeform" and writer.profile.features.freeform else "function"
        named.append({"type": kind, kind: {"name": name}})
    if len(named) == 1 and choice.mode == "required":
        return named[0]
    return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": named}}


def _encode_format(output: Output, writer: Writer) -> Doc:
    if output.schema is None or writer.profile.json_output != "schema":
        if output.schema is not None:
            writer.record_loss("output schema", "output", f"{writer.profile.title} knows only JSON without a schema")
        return {"type": "json_object"}
    schema, strict = encode_output_schema(output, writer)
    shape: Doc = {"name": output.name, "schema": schema}
    if output.description:
        shape["description"] = output.description
    if strict is not None:
        shape["strict"] = strict
    return {"type": "json_schema", "json_schema": shape}


def _without_keys(doc: Doc, *keys: str) -> Doc:
    return {key: value for key, value in doc.items() if key not in keys}
