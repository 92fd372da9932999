"""Gemini generateContent: Request -> body.

The model is in the URL, not in the body; the roles are user and model.
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

from toolglot.common.jsontext import dumps, dumps_text
from toolglot.values.messages import (
    Block,
    Foreign,
    Media,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolsChanged,
)
from toolglot.values.request import Request, ToolChoice, ToolDefinition
from toolglot.wire.cache_marks import report_lost_cache_option
from toolglot.wire.gemini.reply_decode import PLAIN_NAME, SIGNED_NAME
from toolglot.wire.history import count_leading_system as leading_count
from toolglot.wire.json_values import Doc, as_dict, as_text, unknown_fields
from toolglot.wire.media import guess_media_type
from toolglot.wire.options import encode_effort, encode_sampling, select_extras
from toolglot.wire.tool_encoding import encode_function, native_definition, select_chosen, select_tools
from toolglot.wire.writer import Writer

# `leading_count` is one of the names by which `wire.codec` finds the parts of a wire in its module.
__all__ = ["encode_block", "encode_body", "encode_message", "leading_count"]

# Base64 of "skip_thought_signature_validator": Google documents it for calls that this endpoint did not make.
DUMMY_SIGNATURE = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="


def encode_message(message: Message, writer: Writer) -> list[Doc]:
    """Encode one neutral message as contents."""
    if message.role == "system":
        writer.record_repair("system message", "not at the start; sent as a user message")
        return [{"role": "user", "parts": [{"text": f"<system>\n{message.text}\n</system>"}]}]
    if message.role == "tool":
        return list(encode_results(message, writer))
    parts = _encode_parts(message.blocks, writer)
    if not parts:
        return []
    if message.role != "assistant":
        return [{"role": "user", "parts": parts}]
    if writer.profile.signatures:
        _sign_first_call(parts, writer)
    return [{"role": "model", "parts": parts}]


def _encode_parts(blocks: Sequence[Block], writer: Writer) -> list[Doc]:
    parts: list[Doc] = []
    for block in blocks:
        if part := encode_block(block, writer):
            parts.append(part)
    return parts


def encode_block(block: Block, writer: Writer) -> Doc | None:
    """Encode one block of a message or a reply as a part."""
    match block:
        case Text():
            return {"text": block.text, **writer.echo_opaque(block.opaque)}
        case Thinking():
            # A signature is bound to this endpoint. Thinking of another origin is left out before this
            # (`wire.history`).
            return {"text": block.text, "thought": True, **(block.opaque or {})}
        case ToolCall():
            return _encode_call(block, writer)
        case Media():
            return encode_media(block, writer)
        case Foreign():
            return block.item
        case ToolResult() | ToolsChanged():  # results have a message of their own
            return None


def _encode_call(block: ToolCall, writer: Writer) -> Doc:
    state = dict(writer.echo_opaque(block.opaque))
    call: Doc = {"name": writer.map_tool_name(block.name, block.namespace)}
    call["args"] = writer.to_arguments_object(block)
    signed_name = state.pop(SIGNED_NAME, "")
    if "thoughtSignature" in state and not _is_signed_for(call["name"], block, signed_name):
        del state["thoughtSignature"]  # the documented dummy stands in for that of a first call
        writer.record_repair("thoughtSignature", f"dropped: the model called {signed_name or block.name!r}")
    # Gemini 3 returns ids and expects them back; older models send none and may refuse one.
    own_id = state.pop("id", None)
    if own_id and isinstance(own_id, str):
        call["id"] = writer.keep_call_id(block.id, own_id)
    elif own_id is not None:
        call["id"] = own_id
    elif writer.profile.call_ids and not writer.is_own:
        call["id"] = writer.map_call_id(block.id)
    writer.wire_call_ids[block.id] = as_text(call.get("id"))
    return {"functionCall": call, **state}


def _is_signed_for(name: str, call: ToolCall, signed_name: str) -> bool:
    """Return whether a call's signature was made for the name that it is sent with.

    A model can make up any name.
    """
    if signed_name:
        return name == signed_name
    # A legal name is changed only if a tool that came later has it on this wire.
    return name == call.name or bool(call.namespace) or not PLAIN_NAME.fullmatch(call.name)


def _sign_first_call(parts: list[Doc], writer: Writer) -> None:
    """Add a signature to the first call: 400 "Function call is missing a thought_signature in functionCall
    parts".
    """
    for index, part in enumerate(parts):
        if "functionCall" not in part:
            continue
        if not part.get("thoughtSignature"):
            reason = "the first call has no signature from this model; the placeholder that Gemini documents is sent"
            writer.record_repair("thoughtSignature", reason)
            parts[index] = {**part, "thoughtSignature": DUMMY_SIGNATURE}
        return


def encode_results(message: Message, writer: Writer) -> Iterator[Doc]:
    """Encode results, then their media in another content: Gemini treats a content with results as the
    model's.
    """
    parts: list[Doc] = []
    detached: list[Block] = []
    for result in message.results:
        state = writer.echo_opaque(result.opaque)
        name = writer.result_tool_name(result) or "unknown"
        response: Doc = {
            "name": name,
            "response": _response_object(result, writer, has_parts="parts" in state),
        }
        # A result has an id if and only if its call was sent with one. Without its call, it keeps what it
        # came with.
        is_call_known = result.call_id in writer.wire_call_ids
        wire_id = writer.wire_call_ids.get(result.call_id, "")
        if wire_id:
            state = {**state, "id": wire_id}
        elif is_call_known:
            state = unknown_fields(state, ("id",)) or {}
        inline: list[Block] = []
        others: list[Block] = []
        for block in result.content:
            if not isinstance(block, Media):
                continue
            if block.data and block.kind in writer.profile.features.result_media:
                inline.append(block)
            else:
                others.append(block)
        if inline and "parts" not in state:
            response["parts"] = _encode_parts(inline, writer)
        if others:
            detached += [Text(f"[media of the result of {name}]"), *others]
        parts.append({"functionResponse": {**response, **state}})
    yield {"role": "user", "parts": parts}
    if detached:
        model = writer.model or writer.profile.title
        writer.record_repair("media of a tool result", f"{model} accepts none there; sent in a user message")
        yield {"role": "user", "parts": _encode_parts(detached, writer)}


def _response_object(result: ToolResult, writer: Writer, *, has_parts: bool) -> Doc:
    """Return the result as an object. Gemini gives the keys `output` and `error` a meaning."""
    key = "error" if result.is_error else "output"
    data: Any = result.data
    response: Doc
    match data:
        case dict():
            response = cast(Doc, data)
            if result.is_error and "error" not in response:
                response = {"error": {"message": result.text, **response}}  # keeps the data of a failed call
        case list() if not result.is_error and result.text == dumps_text(cast(list[Any], data)):
            # the text says the same
            response = {key: cast(list[Any], data)}
        case _:
            return {key: result.text}
    # Gemini takes `$ref` for the name of one of the result's parts, and refuses the request if there is none.
    if not has_parts and b'"$ref":' in dumps(data):
        writer.record_repair(
            f"result of {result.call_id!r}", "Gemini gives the key '$ref' a meaning; sent as text"
        )
        return {key: result.text or dumps_text(data)}
    return response


def encode_media(media: Media, writer: Writer) -> Doc:
    state = writer.echo_opaque(media.opaque)
    extra = dict(as_dict(state.get("source")))
    if media.name and writer.is_own:
        extra["displayName"] = media.name
    siblings = unknown_fields(state, ("source", "more")) or {}
    media_type = media.media_type or guess_media_type(media)
    if media.data is not None:
        return {"inlineData": {"mimeType": media_type, "data": media.data, **extra}, **siblings}
    if media.url:  # also the URI of a file that was uploaded to Google
        return {"fileData": {"fileUri": media.url, "mimeType": media_type, **extra}, **siblings}
    return {"text": writer.replace_media(media, "a file of another provider cannot be sent")}


def encode_body(request: Request, writer: Writer, system: Sequence[Message], contents: list[Any]) -> Doc:
    """Encode the body around the encoded contents, which come last."""
    body: Doc = {}
    extras = select_extras(request, writer)
    report_lost_cache_option(request.options, writer)
    tools, choice = select_tools(request, writer)
    parts: list[Doc] = []
    for message in system:
        writer.enter("system", message.origin)
        parts += _encode_parts(message.blocks, writer)
    if parts := [*parts, *({"text": hint} for hint in writer.prompt_hints)]:
        body["systemInstruction"] = {"parts": parts}
    if encoded := encode_tools(tools, writer):
        body["tools"] = encoded
    config: Doc = {}
    # 400 "Function calling config is set without function_declarations"
    if choice and any("functionDeclarations" in tool for tool in encoded):
        config["functionCallingConfig"] = encode_choice(choice, tools, writer)
    if config := _deep_merge(config, as_dict(extras.pop("toolConfig", None))):
        body["toolConfig"] = config
    if request.parallel is False:
        writer.record_loss(
            "parallel", f"{writer.profile.title} cannot be limited to one call at a time", at="request"
        )
    if generation := _deep_merge(
        encode_generation(request, writer), as_dict(extras.pop("generationConfig", None))
    ):
        body["generationConfig"] = generation
    return {**body, **extras, "contents": contents}


def _deep_merge(ours: Doc, extra: Doc) -> Doc:
    """Merge two objects at every depth; `extra` wins."""
    merged = dict(ours)
    for key, value in extra.items():
        both_objects = isinstance(merged.get(key), dict) and isinstance(value, dict)
        merged[key] = _deep_merge(merged[key], cast(Doc, value)) if both_objects else value
    return merged


def encode_tools(tools: Sequence[ToolDefinition], writer: Writer) -> list[Doc]:
    declarations: list[Doc] = []
    hosted: Doc = {}
    for tool in tools:
        if native := native_definition(tool, writer):
            hosted.update(native)  # below, each key becomes a tool object of its own
            continue
        function = encode_function(tool, writer)
        # required
        declaration: Doc = {"name": function.name, "description": function.description or function.name}
        # An object without properties is refused ("should be non-empty for OBJECT type"): no schema means no
        # parameters.
        if as_dict(function.schema.get("properties")) or function.schema.keys() - {"type", "properties"}:
            declaration["parametersJsonSchema"] = function.schema
        declarations.append({**declaration, **function.extra})
    encoded = [{"functionDeclarations": declarations}] if declarations else []
    return [*encoded, *({key: value} for key, value in hosted.items())]


def encode_choice(choice: ToolChoice, tools: Sequence[ToolDefinition], writer: Writer) -> Doc:
    # names are allowed with ANY and VALIDATED only; VALIDATED is AUTO with constrained decoding
    if choice.names:
        names = [name for _, name in select_chosen(choice, tools, writer)]
        mode = "ANY" if choice.mode == "required" else "VALIDATED"
        return {"mode": mode, "allowedFunctionNames": names}
    return {"mode": {"auto": "AUTO", "none": "NONE", "required": "ANY"}[choice.mode]}


def encode_generation(request: Request, writer: Writer) -> Doc:
    options = request.options
    config: Doc = {}
    if options.max_tokens is not None:
        config["maxOutputTokens"] = options.max_tokens
    config.update(encode_sampling(options, writer))
    thinking: Doc = {}
    if effort := encode_effort(options, writer):
        thinking["thinkingLevel"] = effort.upper()
    if options.thinking_budget is not None:
        if effort:
            writer.record_loss(
                "thinking_budget", "a thinking level and a budget exclude each other", at="options"
            )
        else:
            thinking["thinkingBudget"] = options.thinking_budget
    if thinking:
        config["thinkingConfig"] = thinking
    if request.output:
        config["responseMimeType"] = "application/json"  # required with a schema
        if request.output.schema is not None:
            config["responseJsonSchema"] = request.output.schema
    return config
