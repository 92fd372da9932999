"""Chat Completions: Request <-> body."""

from collections.abc import Iterable, Sequence
from typing import Any

from toolglot.jsontext import dumps_text as json_text
from toolglot.messages import Block, Foreign, Media, Message, Opaque, Origin, Text, Thinking, ToolCall, ToolResult
from toolglot.providers.profile import Profile
from toolglot.request import Options, Output, Request, ToolChoice, ToolDefinition, effort_of
from toolglot.wire.media import data_url, from_url, text_of
from toolglot.wire.openai_chat.reply import REASONING, WIRE, ChatDecoder
from toolglot.wire.openai_common import SHARED, output_of, strict_output
from toolglot.wire.repair import FILLER
from toolglot.wire.shapes import Doc, as_dict, as_list, as_text, dicts, rest
from toolglot.wire.tracker import ToolCallTracker
from toolglot.wire.writer import Writer, media_beside, placeholder, result_text

__all__ = ["assemble", "decode", "hoisted", "items", "varies"]

_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}

# ---- encode


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
    body.update(writer.sampling(options))
    if effort := writer.effort(options):
        body["reasoning_effort"] = effort
    if options.thinking_budget is not None:
        writer.lose("thinking_budget", "options", f"{writer.profile.title} has no budget for thinking")
    if request.stream is not None:
        body["stream"] = request.stream
    if request.output:
        body["response_format"] = _response_format(request.output, writer)
    body.update(_tools(request, writer))
    if writer.nudges:
        messages = [{"role": writer.profile.system_role, "content": " ".join(writer.nudges)}, *messages]
    return {**body, **writer.extras(request, "openai"), "messages": messages}


def _tools(request: Request, writer: Writer) -> Doc:
    tools, choice = writer.offered(request)
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
        return writer.hosted(tool)
    if tool.kind == "freeform" and writer.profile.features.freeform:
        custom: Doc = {"name": writer.tool_name(tool.name, tool.namespace)}
        if tool.description:
            custom["description"] = tool.description
        if tool.grammar:
            custom["format"] = {"type": "grammar", "grammar": tool.grammar}
        return {"type": "custom", "custom": custom}
    function = writer.function(tool)
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
    for tool, name in writer.chosen(choice, tools):
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


# ---- decode

_KNOWN = {
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
    *("temperature", "top_p", "top_k", "stop", "seed", "presence_penalty", "frequency_penalty", "reasoning_effort"),
    *("response_format", "functions", "function_call"),
}


def decode(body: Doc, profile: Profile) -> Request:
    """A body as a Request. What has no neutral form stays in `extras`."""
    origin = Origin(WIRE, profile.id, as_text(body.get("model")))
    extras: dict[str, Doc] = {}
    effort = effort_of(body.get("reasoning_effort"))
    for key, value in body.items():
        if key not in _KNOWN or (key == "reasoning_effort" and value is not None and not effort):
            extras.setdefault("openai" if key in SHARED else WIRE, {})[key] = value
    tools = [_decode_tool(tool) for tool in dicts(body.get("tools"))]
    tools += [_decode_tool({"type": "function", "function": function}) for function in dicts(body.get("functions"))]
    return Request(
        model=as_text(body.get("model")),
        messages=list(_decode_messages(body.get("messages"), origin)),
        tools=tuple(tools),
        tool_choice=_decode_choice(body.get("tool_choice", body.get("function_call"))),
        parallel=body.get("parallel_tool_calls"),
        options=_decode_options(body),
        output=output_of(as_dict(body.get("response_format")), "json_schema"),
        stream=body.get("stream"),
        extras=extras,
    )


def _decode_options(body: Doc) -> Options:
    stop = body.get("stop")
    most = body.get("max_completion_tokens")
    return Options(
        max_tokens=most if most is not None else body.get("max_tokens"),
        temperature=body.get("temperature"),
        top_p=body.get("top_p"),
        top_k=body.get("top_k"),
        stop=(stop,) if isinstance(stop, str) else tuple(as_list(stop)),
        seed=body.get("seed"),
        presence_penalty=body.get("presence_penalty"),
        frequency_penalty=body.get("frequency_penalty"),
        effort=effort_of(body.get("reasoning_effort")),
    )


def _decode_messages(messages: Any, origin: Origin) -> Iterable[Message]:
    results: list[ToolResult] = []
    names: dict[str, str] = {}
    for message in dicts(messages):
        role = message.get("role")
        if role in ("tool", "function"):
            results.append(_decode_result(message, names))
            continue
        if results:
            yield Message("tool", tuple(results), origin)
            results = []
        if role == "assistant":
            decoded = decode_assistant(message, origin)
            names.update({call.id: call.name for call in decoded.calls})
            yield decoded
        else:
            kept = rest(message, ("role", "content")) or {}
            if role not in ("system", "user"):
                kept["role"] = role
            neutral = "user" if role == "user" else "system"
            yield Message(neutral, tuple(_decode_content(message.get("content"))), origin, kept or None)
    if results:
        yield Message("tool", tuple(results), origin)


def decode_assistant(message: Doc, origin: Origin) -> Message:
    """An assistant message of the history: read as a reply is."""
    tracker = ToolCallTracker(origin)
    decoder = ChatDecoder(tracker)
    decoder.message(message, whole=True)
    decoder.end()
    reply = tracker.finish()
    return Message("assistant", reply.blocks, origin, reply.opaque)


def _decode_result(message: Doc, names: dict[str, str]) -> ToolResult:
    name = as_text(message.get("name"))
    id = as_text(message.get("tool_call_id")) or next((i for i, n in reversed(names.items()) if n == name), name)
    content = tuple(b for b in _decode_content(message.get("content")) if isinstance(b, Text | Media | Foreign))
    return ToolResult(id, content, name or names.get(id, ""), opaque=rest(message, ("role", "content", "tool_call_id", "name")))


def _decode_content(content: Any) -> Iterable[Block]:
    if isinstance(content, str):
        yield Text(content)
    elif isinstance(content, list):
        for part in dicts(content):  # pyright: ignore[reportUnknownArgumentType]
            yield _decode_part(part)
    elif content is not None:
        yield Text(json_text(content))


def _decode_part(part: Doc) -> Block:
    match part.get("type"):
        case "text" if isinstance(part.get("text"), str):
            return Text(part["text"], rest(part, ("type", "text")))
        case "image_url":
            image = part.get("image_url")
            image = {"url": image} if isinstance(image, str) else as_dict(image)
            return from_url("image", as_text(image.get("url")), more=rest(image, ("url",)))
        case "input_audio":
            audio = as_dict(part.get("input_audio"))
            media_type = {"wav": "audio/wav", "mp3": "audio/mpeg"}.get(as_text(audio.get("format")), "audio/*")
            return Media("audio", media_type, audio.get("data"))
        case "file" if as_dict(part.get("file")).get("file_data"):
            file = as_dict(part.get("file"))
            return from_url(
                "file",
                file["file_data"],
                name=as_text(file.get("filename")),
                more=rest(file, ("file_data", "filename")),
            )
        case "file":
            file = as_dict(part.get("file"))
            return Media("file", file_id=file.get("file_id"), opaque={"more": rest(file, ("file_id",)) or {}})
        case _:
            return Foreign(WIRE, part)


def _decode_tool(tool: Doc) -> ToolDefinition:
    if custom := as_dict(tool.get("custom")):
        form = as_dict(custom.get("format"))
        return ToolDefinition(
            as_text(custom.get("name")),
            as_text(custom.get("description")),
            kind="freeform",
            grammar=form.get("grammar") or rest(form, ("type",)),
            wire=WIRE,
            opaque=rest(tool, ("type", "custom")),
        )
    function = as_dict(tool.get("function"))
    if not function and tool.get("type") != "function":
        return ToolDefinition(as_text(tool.get("type")), kind="hosted", wire=WIRE, opaque=tool)
    return ToolDefinition(
        as_text(function.get("name")),
        as_text(function.get("description")),
        function.get("parameters"),
        strict=function.get("strict"),
        wire=WIRE,
        opaque=rest(tool, ("type", "function")),
    )


def _decode_choice(choice: Any) -> ToolChoice | None:
    match choice:
        case "auto" | "none" | "required":
            return ToolChoice(choice)
        case "any":
            return ToolChoice("required")
        case {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}:
            names = (as_dict(tool.get("function") or tool.get("custom")).get("name") for tool in dicts(tools))
            return ToolChoice("required" if mode == "required" else "auto", tuple(as_text(name) for name in names))
        case {"function": {"name": str(name)}} | {"custom": {"name": str(name)}} | {"name": str(name)}:
            return ToolChoice("required", (name,))
        case _:
            return None
