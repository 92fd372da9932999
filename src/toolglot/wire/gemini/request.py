"""Gemini generateContent: Request <-> body. The model is in the URL, not in the body; roles are user and model."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

from toolglot.jsontext import dumps_text
from toolglot.messages import Block, Foreign, Media, Message, Origin, Text, Thinking, ToolCall, ToolResult
from toolglot.providers.profile import Profile
from toolglot.request import Options, Output, Request, ToolChoice, ToolDefinition
from toolglot.schema.plain import from_openapi
from toolglot.wire.gemini.reply import WIRE, GeminiDecoder, media_of, snake_to_camel
from toolglot.wire.history import leading_system
from toolglot.wire.media import guessed_type
from toolglot.wire.shapes import Doc, as_dict, as_list, as_text, dicts, rest
from toolglot.wire.tracker import ToolCallTracker
from toolglot.wire.writer import Writer, placeholder

__all__ = ["DUMMY_SIGNATURE", "assemble", "decode", "hoisted", "items", "varies"]

# Google's documented signature for calls that this endpoint did not make: base64 of the words
# "skip_thought_signature_validator".
DUMMY_SIGNATURE = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
# neutral -> generationConfig
_OPTIONS = {
    "max_tokens": "maxOutputTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "stop": "stopSequences",
    "seed": "seed",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}

# ---- encode


def hoisted(messages: Sequence[Message]) -> int:
    """How many leading messages are sent as `systemInstruction`."""
    return leading_system(messages)


def varies(request: Request, writer: Writer) -> object:
    """Nothing in the body depends on the history."""
    return None


def items(message: Message, writer: Writer, where: str) -> list[Doc]:
    """One neutral message as contents. Results stand alone: a content that holds some counts as the model's."""
    match message.role:
        case "system":
            writer.mend("system message", where, "it stands between turns; said by the user")
            return [{"role": "user", "parts": [{"text": f"<system>\n{message.text}\n</system>"}]}]
        case "tool":
            return list(_results(message, writer, where))
        case role:
            parts = _signed(_parts(message.blocks, message, writer, where), message, writer, where)
            return [{"role": "model" if role == "assistant" else "user", "parts": parts}] if parts else []


def _parts(blocks: Sequence[Block], message: Message, writer: Writer, where: str) -> list[Doc]:
    return [part for block in blocks if (part := block_to_part(block, message.origin, writer, where))]


def block_to_part(block: Block, origin: Origin | None, writer: Writer, where: str) -> Doc | None:
    """One block of a message or a reply."""
    match block:
        case Text():
            return {"text": block.text, **writer.opaque(block.opaque, origin, where)}
        case Thinking():
            return {"text": block.text, "thought": True, **(block.opaque or {})}
        case ToolCall():
            own = dict(writer.opaque(block.opaque, origin, where))
            call: Doc = {"name": writer.tool_name(block.name, block.namespace, where)}
            call["args"] = writer.arguments_object(block, where)
            if "id" in own:
                call["id"] = own.pop("id")
            elif writer.profile.call_ids and not writer.owns(origin):
                call["id"] = writer.call_id(block.id, where)
            writer.sent[block.id] = as_text(call.get("id"))
            return {"functionCall": call, **own}
        case Media():
            return _media(block, origin, writer, where)
        case Foreign():
            return block.item
        case ToolResult():
            return None


def _signed(parts: list[Doc], message: Message, writer: Writer, where: str) -> list[Doc]:
    """The first call of a turn carries a signature, the documented dummy where there is none."""
    if not writer.profile.signatures or message.role != "assistant":
        return parts
    first = next((index for index, part in enumerate(parts) if "functionCall" in part), None)
    if first is None or parts[first].get("thoughtSignature"):
        return parts
    writer.mend("thoughtSignature", where, "the first call had none of this endpoint; the documented dummy is sent")
    return [*parts[:first], {**parts[first], "thoughtSignature": DUMMY_SIGNATURE}, *parts[first + 1 :]]


def _results(message: Message, writer: Writer, where: str) -> Iterator[Doc]:
    parts: list[Doc] = []
    beside: list[Block] = []
    for result in message.results:
        own = writer.opaque(result.opaque, message.origin, where)
        name = writer.result_name(result) or "unknown"
        answer: Doc = {"name": name, "response": _response(result)}
        own = {**own, **({"id": id} if (id := writer.sent.get(result.call_id, "")) else {})}
        if "id" in own and result.call_id in writer.sent and not writer.sent[result.call_id]:
            del own["id"]  # a result has an id where its call has one
        media = [block for block in result.content if isinstance(block, Media)]
        inside = [block for block in media if block.kind in writer.profile.features.result_media and block.data]
        if inside and "parts" not in own:
            answer["parts"] = _parts(inside, message, writer, where)
        outside = [block for block in media if block not in inside]
        if outside:
            beside += [Text(f"[media of the result of {name}]"), *outside]
        parts.append({"functionResponse": {**answer, **own}})
    yield {"role": "user", "parts": parts}
    if beside:
        writer.mend("media of a tool result", where, f"{writer.model or writer.profile.title} takes none; sent beside it")
        yield {"role": "user", "parts": _parts(beside, message, writer, where)}


def _response(result: ToolResult) -> Doc:
    """The result as an object: `output` and `error` are the keys that Gemini reads."""
    data: Any = result.data
    if isinstance(data, dict):
        response = cast(Doc, data)
        if not result.is_error or "error" in response:
            return response
        return {"error": {"message": result.text, **response}}
    return {"error" if result.is_error else "output": result.text}


def _media(media: Media, origin: Origin | None, writer: Writer, where: str) -> Doc:
    own = writer.opaque(media.opaque, origin, where)
    more = {**as_dict(own.get("source")), **({"displayName": media.name} if media.name and writer.owns(origin) else {})}
    beside = rest(own, ("source", "more")) or {}
    media_type = media.media_type or guessed_type(media)
    if media.data is not None:
        return {"inlineData": {"mimeType": media_type, "data": media.data, **more}, **beside}
    if media.url:
        return {"fileData": {"fileUri": media.url, "mimeType": media_type, **more}, **beside}
    writer.lose(media.kind, where, "a file of another provider cannot be sent")
    return {"text": placeholder(media).text}


def assemble(request: Request, writer: Writer, system: Sequence[Message], contents: list[Any]) -> Doc:
    """The body around the encoded contents, which come last."""
    body: Doc = {}
    extras = writer.extras(request)
    tools, choice = writer.offered(request)
    parts = [part for message in system for part in _parts(message.blocks, message, writer, "system")]
    if parts := [*parts, *({"text": nudge} for nudge in writer.nudges)]:
        body["systemInstruction"] = {"parts": parts}
    if encoded := _tools(tools, writer):
        body["tools"] = encoded
    config: Doc = {}
    if choice and any("functionDeclarations" in tool for tool in encoded):
        config["functionCallingConfig"] = _choice(choice, tools, writer)
    if config := _merged(config, as_dict(extras.pop("toolConfig", None))):
        body["toolConfig"] = config
    if request.parallel is False:
        writer.lose("parallel", "request", f"{writer.profile.title} cannot be held to one call at a time")
    if generation := _merged(_generation(request, writer), as_dict(extras.pop("generationConfig", None))):
        body["generationConfig"] = generation
    return {**body, **extras, "contents": contents}


def _merged(ours: Doc, extra: Doc) -> Doc:
    """Two objects as one, at every depth; the extra's word is the last."""
    out = {**ours}
    for key, value in extra.items():
        both = isinstance(out.get(key), dict) and isinstance(value, dict)
        out[key] = _merged(out[key], cast(Doc, value)) if both else value
    return out


def _tools(tools: Sequence[ToolDefinition], writer: Writer) -> list[Doc]:
    declared: list[Doc] = []
    hosted: Doc = {}
    for tool in tools:
        if tool.kind == "hosted":
            hosted.update(writer.hosted(tool) or {})
            continue
        function = writer.function(tool)
        body: Doc = {"name": function.name, "description": function.description or function.name}
        if as_dict(function.schema.get("properties")) or function.schema.keys() - {"type", "properties"}:
            body["parametersJsonSchema"] = function.schema
        declared.append({**body, **function.own})
    out = [{"functionDeclarations": declared}] if declared else []
    return [*out, *({key: value} for key, value in hosted.items())]


def _choice(choice: ToolChoice, tools: Sequence[ToolDefinition], writer: Writer) -> Doc:
    if choice.names:
        names = [name for _, name in writer.chosen(choice, tools)]
        return {"mode": "ANY" if choice.mode == "required" else "VALIDATED", "allowedFunctionNames": names}
    return {"mode": {"auto": "AUTO", "none": "NONE", "required": "ANY"}[choice.mode]}


def _generation(request: Request, writer: Writer) -> Doc:
    options, out = request.options, dict[str, Any]()
    if options.max_tokens is not None:
        out["maxOutputTokens"] = options.max_tokens
    for name, value in writer.sampling(options).items():
        out[_OPTIONS[name]] = value
    thinking: Doc = {}
    if effort := writer.effort(options):
        thinking["thinkingLevel"] = effort.upper()
    if options.thinking_budget is not None:
        if writer.profile.thinking_budget or not writer.profile.efforts:
            thinking["thinkingBudget"] = options.thinking_budget
        else:
            writer.lose("thinking_budget", "options", f"{writer.model} has levels of thinking, no budget")
    if thinking:
        out["thinkingConfig"] = thinking
    if request.output:
        out["responseMimeType"] = "application/json"
        if request.output.schema is not None:
            out["responseJsonSchema"] = request.output.schema
    return out


# ---- decode

_KNOWN = ("model", "contents", "systemInstruction", "tools", "toolConfig", "generationConfig")


def decode(body: Doc, profile: Profile) -> Request:
    """A body as a Request. What has no neutral form stays in `extras`."""
    body = _camel(body)
    model = profile.model or as_text(body.get("model")).removeprefix("models/")
    origin = Origin(WIRE, profile.id, model)
    extras = rest(body, _KNOWN) or {}
    config = _camel(as_dict(body.get("toolConfig")))
    choice, calling = _decode_choice(_camel(as_dict(config.get("functionCallingConfig"))))
    if more := {**(rest(config, ("functionCallingConfig",)) or {}), **calling}:
        extras["toolConfig"] = more
    options, output, generation = _decode_generation(_camel(as_dict(body.get("generationConfig"))))
    if generation:
        extras["generationConfig"] = generation
    return Request(
        model=model,
        messages=[
            *_decode_system(body.get("systemInstruction"), origin),
            *_decode_contents(body.get("contents"), origin),
        ],
        tools=tuple(_decode_tools(body.get("tools"))),
        tool_choice=choice,
        options=options,
        output=output,
        extras={WIRE: extras} if extras else {},
    )


def _camel(doc: Doc) -> Doc:
    """Google's JSON takes snake_case keys too."""
    return {snake_to_camel(key): value for key, value in doc.items()}


def _each(value: Any) -> Iterator[Doc]:
    """A repeated field may also be one bare value."""
    return (_camel(item) for item in dicts(value if isinstance(value, list) else [value]))


def _decode_system(system: Any, origin: Origin) -> Iterator[Message]:
    if isinstance(system, str):
        system = {"parts": [{"text": system}]}
    blocks = tuple(
        Text(as_text(part.get("text")), rest(part, ("text", "thought"))) for part in _each(as_dict(system).get("parts"))
    )
    if blocks:
        yield Message("system", blocks, origin)


def _decode_contents(contents: Any, origin: Origin) -> Iterator[Message]:
    open_calls: list[tuple[str, str, str]] = []  # (id as sent, name, neutral id) of calls without a result
    for number, content in enumerate(_each(contents)):
        parts = list(_each(content.get("parts")))
        if content.get("role") == "model":
            message = _decode_model(parts, origin, number)
            open_calls += [(as_text((call.opaque or {}).get("id")), call.name, call.id) for call in message.calls]
            yield message
            continue
        results = tuple(_decode_result(_camel(p["functionResponse"]), open_calls) for p in parts if p.get("functionResponse"))
        if results:
            yield Message("tool", results, origin)
        if said := tuple(_decode_part(part) for part in parts if not part.get("functionResponse")):
            yield Message("user", said, origin)


def _decode_model(parts: list[Doc], origin: Origin, number: int) -> Message:
    """A model's content of the history: read as a reply is."""
    tracker = ToolCallTracker(origin)
    tracker.begin(f"contents[{number}]", origin.model)
    decoder = GeminiDecoder(tracker)
    for part in parts:
        if "functionCall" in part:
            part = {**part, "functionCall": _camel(as_dict(part["functionCall"]))}
            if part.get("thought") is False:
                del part["thought"]
        decoder.part(part)
    decoder.end()
    return Message("assistant", tracker.finish().blocks, origin)


def _decode_part(part: Doc) -> Block:
    if isinstance(part.get("text"), str):
        return Text(part["text"], rest(part, ("text", "thought")))
    if media := part.get("inlineData") or part.get("fileData"):
        return media_of(_camel(as_dict(media)), rest(part, ("inlineData", "fileData", "thought")))
    return Foreign(WIRE, part)


def _decode_result(answer: Doc, open_calls: list[tuple[str, str, str]]) -> ToolResult:
    id, name = as_text(answer.get("id")), as_text(answer.get("name"))
    found = next((call for call in open_calls if id and call[0] == id), None)
    found = found or next((call for call in open_calls if call[1] == name), None)
    if found:
        open_calls.remove(found)
    response = answer.get("response")
    own = rest(answer, ("name", "response"))
    media = tuple(block for part in _each(answer.get("parts")) if isinstance(block := _decode_part(part), Media | Foreign))
    is_error = isinstance(response, dict) and set(cast(Doc, response)) == {"error"}
    return ToolResult(
        found[2] if found else id or name,
        (Text(_flat(response)), *media),
        name,
        response,
        is_error=is_error,
        opaque=own,
    )


def _flat(response: Any) -> str:
    """The text of a response object: what stands under a lone `output` or `error`, else all of it."""
    if isinstance(response, dict) and len(cast(Doc, response)) == 1:
        key, value = next(iter(cast(Doc, response).items()))
        if key in ("output", "error", "result"):
            response = value
    return response if isinstance(response, str) else "" if response in (None, {}) else dumps_text(response)


def _decode_tools(tools: Any) -> Iterator[ToolDefinition]:
    for tool in _each(tools):
        for declared in _each(tool.get("functionDeclarations") or []):
            schema = declared.get("parametersJsonSchema")
            if schema is None and declared.get("parameters") is not None:
                schema = from_openapi(as_dict(declared["parameters"]))
            yield ToolDefinition(
                as_text(declared.get("name")),
                as_text(declared.get("description")),
                schema,
                wire=WIRE,
                opaque=rest(declared, ("name", "description", "parameters", "parametersJsonSchema")),
            )
        for key, value in tool.items():
            if key != "functionDeclarations":
                yield ToolDefinition(key, kind="hosted", wire=WIRE, opaque={key: value})


def _decode_choice(calling: Doc) -> tuple[ToolChoice | None, Doc]:
    """The choice, and what of functionCallingConfig it does not say."""
    mode = as_text(calling.get("mode")).upper()
    names = tuple(as_text(name) for name in as_list(calling.get("allowedFunctionNames")))
    choice: ToolChoice | None = None
    if mode in ("ANY", "NONE", "AUTO"):
        choice = ToolChoice({"ANY": "required", "NONE": "none"}.get(mode, "auto"), names if mode == "ANY" else ())  # pyright: ignore[reportArgumentType]
    elif mode == "VALIDATED" and names:
        choice = ToolChoice("auto", names)
    more = rest(calling, ("mode", "allowedFunctionNames") if choice else ())
    return choice, {"functionCallingConfig": more} if more else {}


def _decode_generation(config: Doc) -> tuple[Options, Output | None, Doc]:
    neutral: Doc = {name: config[field] for name, field in _OPTIONS.items() if config.get(field) is not None}
    if "stop" in neutral:
        neutral["stop"] = tuple(neutral["stop"])
    left = rest(config, _OPTIONS.values()) or {}
    thinking = _camel(as_dict(left.pop("thinkingConfig", None)))
    neutral["thinking_budget"] = thinking.pop("thinkingBudget", None)
    if as_text(thinking.get("thinkingLevel")).lower() in ("minimal", "low", "medium", "high"):
        neutral["effort"] = thinking.pop("thinkingLevel").lower()
    if thinking:
        left["thinkingConfig"] = thinking
    output = None
    if left.get("responseMimeType") == "application/json":
        del left["responseMimeType"]
        schema = left.pop("responseJsonSchema", None)
        if (openapi := left.pop("responseSchema", None)) and schema is None:
            schema = from_openapi(as_dict(openapi))
        output = Output(schema)
    return Options(**neutral), output, left
