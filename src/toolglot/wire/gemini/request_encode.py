"""Gemini generateContent: Request -> body. The model is in the URL, not in the body; roles are user and model."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

from toolglot.messages import Block, Foreign, Media, Message, Origin, Text, Thinking, ToolCall, ToolResult
from toolglot.request import Request, ToolChoice, ToolDefinition
from toolglot.wire.history import count_leading_system
from toolglot.wire.json_values import Doc, as_dict, as_text, unknown_fields
from toolglot.wire.media import guess_media_type
from toolglot.wire.options import encode_effort, encode_sampling, select_extras
from toolglot.wire.tool_encoding import encode_function, encode_hosted, select_chosen, select_tools
from toolglot.wire.writer import Writer, media_placeholder

__all__ = ["DUMMY_SIGNATURE", "GENERATION_FIELDS", "encode_block", "encode_body", "encode_message", "head_key", "leading_count"]


# Google's documented signature for calls that this endpoint did not make: base64 of the words
# "skip_thought_signature_validator".
DUMMY_SIGNATURE = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
# neutral -> generationConfig
GENERATION_FIELDS = {
    "max_tokens": "maxOutputTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "stop": "stopSequences",
    "seed": "seed",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}


def leading_count(messages: Sequence[Message]) -> int:
    """How many leading messages are sent as `systemInstruction`."""
    return count_leading_system(messages)


def head_key(request: Request, writer: Writer) -> object:
    """Nothing in the body depends on the history."""
    return None


def encode_message(message: Message, writer: Writer, where: str) -> list[Doc]:
    """One neutral message as contents. Results stand alone: a content that holds some counts as the model's."""
    match message.role:
        case "system":
            writer.record_repair("system message", where, "it stands between turns; said by the user")
            return [{"role": "user", "parts": [{"text": f"<system>\n{message.text}\n</system>"}]}]
        case "tool":
            return list(_encode_results(message, writer, where))
        case role:
            parts = _sign_first_call(_encode_parts(message.blocks, message, writer, where), message, writer, where)
            return [{"role": "model" if role == "assistant" else "user", "parts": parts}] if parts else []


def _encode_parts(blocks: Sequence[Block], message: Message, writer: Writer, where: str) -> list[Doc]:
    return [part for block in blocks if (part := encode_block(block, message.origin, writer, where))]


def encode_block(block: Block, origin: Origin | None, writer: Writer, where: str) -> Doc | None:
    """One block of a message or a reply."""
    match block:
        case Text():
            return {"text": block.text, **writer.echo_opaque(block.opaque, origin, where)}
        case Thinking():
            return {"text": block.text, "thought": True, **(block.opaque or {})}
        case ToolCall():
            own = dict(writer.echo_opaque(block.opaque, origin, where))
            call: Doc = {"name": writer.map_tool_name(block.name, block.namespace, where)}
            call["args"] = writer.to_arguments_object(block, where)
            if "id" in own:
                call["id"] = own.pop("id")
            elif writer.profile.call_ids and not writer.owns_state(origin):
                call["id"] = writer.map_call_id(block.id, where)
            writer.sent[block.id] = as_text(call.get("id"))
            return {"functionCall": call, **own}
        case Media():
            return _encode_media(block, origin, writer, where)
        case Foreign() | ToolResult():  # results have a message of their own
            return block.item if isinstance(block, Foreign) else None


def _sign_first_call(parts: list[Doc], message: Message, writer: Writer, where: str) -> list[Doc]:
    """The first call of a turn carries a signature, the documented dummy where there is none."""
    if not writer.profile.signatures or message.role != "assistant":
        return parts
    first = next((index for index, part in enumerate(parts) if "functionCall" in part), None)
    if first is None or parts[first].get("thoughtSignature"):
        return parts
    writer.record_repair("thoughtSignature", where, "the first call had none of this endpoint; the documented dummy is sent")
    return [*parts[:first], {**parts[first], "thoughtSignature": DUMMY_SIGNATURE}, *parts[first + 1 :]]


def _encode_results(message: Message, writer: Writer, where: str) -> Iterator[Doc]:
    parts: list[Doc] = []
    beside: list[Block] = []
    for result in message.results:
        own = writer.echo_opaque(result.opaque, message.origin, where)
        name = writer.result_tool_name(result) or "unknown"
        answer: Doc = {"name": name, "response": _response_object(result)}
        own = {**own, **({"id": id} if (id := writer.sent.get(result.call_id, "")) else {})}
        if "id" in own and result.call_id in writer.sent and not writer.sent[result.call_id]:
            del own["id"]  # a result has an id where its call has one
        media = [block for block in result.content if isinstance(block, Media)]
        inside = [block for block in media if block.kind in writer.profile.features.result_media and block.data]
        if inside and "parts" not in own:
            answer["parts"] = _encode_parts(inside, message, writer, where)
        outside = [block for block in media if block not in inside]
        if outside:
            beside += [Text(f"[media of the result of {name}]"), *outside]
        parts.append({"functionResponse": {**answer, **own}})
    yield {"role": "user", "parts": parts}
    if beside:
        writer.record_repair(
            "media of a tool result", where, f"{writer.model or writer.profile.title} takes none; sent beside it"
        )
        yield {"role": "user", "parts": _encode_parts(beside, message, writer, where)}


def _response_object(result: ToolResult) -> Doc:
    """The result as an object: `output` and `error` are the keys that Gemini reads."""
    data: Any = result.data
    if isinstance(data, dict):
        response = cast(Doc, data)
        if not result.is_error or "error" in response:
            return response
        return {"error": {"message": result.text, **response}}
    return {"error" if result.is_error else "output": result.text}


def _encode_media(media: Media, origin: Origin | None, writer: Writer, where: str) -> Doc:
    own = writer.echo_opaque(media.opaque, origin, where)
    more = {**as_dict(own.get("source")), **({"displayName": media.name} if media.name and writer.owns_state(origin) else {})}
    beside = unknown_fields(own, ("source", "more")) or {}
    media_type = media.media_type or guess_media_type(media)
    if media.data is not None:
        return {"inlineData": {"mimeType": media_type, "data": media.data, **more}, **beside}
    if media.url:
        return {"fileData": {"fileUri": media.url, "mimeType": media_type, **more}, **beside}
    writer.record_loss(media.kind, where, "a file of another provider cannot be sent")
    return {"text": media_placeholder(media).text}


def encode_body(request: Request, writer: Writer, system: Sequence[Message], contents: list[Any]) -> Doc:
    """The body around the encoded contents, which come last."""
    body: Doc = {}
    extras = select_extras(request, writer)
    tools, choice = select_tools(request, writer)
    parts = [part for message in system for part in _encode_parts(message.blocks, message, writer, "system")]
    if parts := [*parts, *({"text": nudge} for nudge in writer.prompt_hints)]:
        body["systemInstruction"] = {"parts": parts}
    if encoded := _encode_tools(tools, writer):
        body["tools"] = encoded
    config: Doc = {}
    if choice and any("functionDeclarations" in tool for tool in encoded):
        config["functionCallingConfig"] = _encode_choice(choice, tools, writer)
    if config := _deep_merge(config, as_dict(extras.pop("toolConfig", None))):
        body["toolConfig"] = config
    if request.parallel is False:
        writer.record_loss("parallel", "request", f"{writer.profile.title} cannot be held to one call at a time")
    if generation := _deep_merge(_encode_generation(request, writer), as_dict(extras.pop("generationConfig", None))):
        body["generationConfig"] = generation
    return {**body, **extras, "contents": contents}


def _deep_merge(ours: Doc, extra: Doc) -> Doc:
    """Two objects as one, at every depth; the extra's word is the last."""
    out = {**ours}
    for key, value in extra.items():
        both = isinstance(out.get(key), dict) and isinstance(value, dict)
        out[key] = _deep_merge(out[key], cast(Doc, value)) if both else value
    return out


def _encode_tools(tools: Sequence[ToolDefinition], writer: Writer) -> list[Doc]:
    declared: list[Doc] = []
    hosted: Doc = {}
    for tool in tools:
        if tool.kind == "hosted":
            hosted.update(encode_hosted(tool, writer) or {})
            continue
        function = encode_function(tool, writer)
        body: Doc = {"name": function.name, "description": function.description or function.name}
        if as_dict(function.schema.get("properties")) or function.schema.keys() - {"type", "properties"}:
            body["parametersJsonSchema"] = function.schema
        declared.append({**body, **function.extra})
    out = [{"functionDeclarations": declared}] if declared else []
    return [*out, *({key: value} for key, value in hosted.items())]


def _encode_choice(choice: ToolChoice, tools: Sequence[ToolDefinition], writer: Writer) -> Doc:
    if choice.names:
        names = [name for _, name in select_chosen(choice, tools, writer)]
        return {"mode": "ANY" if choice.mode == "required" else "VALIDATED", "allowedFunctionNames": names}
    return {"mode": {"auto": "AUTO", "none": "NONE", "required": "ANY"}[choice.mode]}


def _encode_generation(request: Request, writer: Writer) -> Doc:
    options, out = request.options, dict[str, Any]()
    if options.max_tokens is not None:
        out["maxOutputTokens"] = options.max_tokens
    for name, value in encode_sampling(options, writer).items():
        out[GENERATION_FIELDS[name]] = value
    thinking: Doc = {}
    if effort := encode_effort(options, writer):
        thinking["thinkingLevel"] = effort.upper()
    if options.thinking_budget is not None:
        if "thinkingLevel" not in thinking:
            thinking["thinkingBudget"] = options.thinking_budget
        else:
            writer.record_loss("thinking_budget", "options", "a level of thinking and a budget exclude each other")
    if thinking:
        out["thinkingConfig"] = thinking
    if request.output:
        out["responseMimeType"] = "application/json"
        if request.output.schema is not None:
            out["responseJsonSchema"] = request.output.schema
    return out
