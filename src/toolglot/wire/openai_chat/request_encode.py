"""Chat Completions: Request -> body."""

from collections.abc import Iterable, Sequence
from typing import Any

from toolglot.common.jsontext import dumps_text
from toolglot.values.messages import (
    Block,
    Foreign,
    Media,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from toolglot.values.request import Output, Request, ToolChoice, ToolDefinition
from toolglot.wire.cache_marks import encode_cache_option, encode_mark
from toolglot.wire.json_values import Doc, as_dict, as_list, as_text, unknown_fields
from toolglot.wire.media import to_data_url
from toolglot.wire.openai_chat.reply_decode import REASONING_FIELDS
from toolglot.wire.openai_common import encode_output_schema
from toolglot.wire.options import encode_effort, encode_sampling, select_extras
from toolglot.wire.repair import FILLER_TEXT
from toolglot.wire.reply_encoding import is_refusal
from toolglot.wire.tool_encoding import encode_function, native_definition, select_chosen, select_tools
from toolglot.wire.writer import Writer, format_result_text, join_plain

__all__ = ["encode_body", "encode_call", "encode_message"]

_AUDIO_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}


def encode_message(message: Message, writer: Writer) -> list[Doc]:
    """Encode one neutral message."""
    match message.role:
        case "system":
            state = dict(writer.echo_opaque(message.opaque))
            role = writer.profile.system_role
            own_role = state.pop("role", None)
            if role == "user":  # o1-mini: 400 "does not support 'system' with this model"
                writer.record_repair(
                    "system message", f"{writer.model} accepts no instructions; sent as a user message"
                )
            elif role == "system":
                role = own_role or role
            return [{"role": role, **state, "content": _encode_content(message.blocks, writer)}]
        case "user":
            state = writer.echo_opaque(message.opaque)
            return [{"role": "user", **state, "content": _encode_content(message.blocks, writer)}]
        case "assistant":
            return [encode_assistant(message, writer)]
        case "tool":
            return encode_results(message, writer)


# Servers disagree about a message of calls only.
_EMPTY_CONTENT: dict[str, Doc] = {"omit": {}, "null": {"content": None}, "empty": {"content": ""}}


def encode_assistant(message: Message, writer: Writer) -> Doc:
    state = writer.echo_opaque(message.opaque)
    texts: list[Text | Foreign] = []
    refusals: list[str] = []
    for block in message.blocks:
        if isinstance(block, Text) and writer.is_own and is_refusal(block):
            refusals.append(block.text)
        elif isinstance(block, Text | Foreign):
            texts.append(block)
    calls = [encode_call(block, writer) for block in message.calls]
    reasoning = encode_reasoning(message, writer, bool(calls))
    thoughts = as_list(reasoning.pop("content", None))
    encoded: Doc = {"role": "assistant"}
    if thoughts or texts:
        encoded["content"] = _encode_reply_content(thoughts, texts, writer)
    elif calls:
        encoded |= _EMPTY_CONTENT[writer.profile.empty_content]
    elif not refusals:
        encoded["content"] = ""
    encoded.update(reasoning)
    if refusals:
        encoded["refusal"] = "".join(refusals)
    if calls:  # an empty list is refused
        encoded["tool_calls"] = calls
    for block in message.blocks:
        if isinstance(block, Media):
            writer.record_loss(block.kind, f"{writer.profile.title} accepts no media from the assistant")
    return {**state, **encoded}


def _encode_reply_content(thoughts: list[Any], texts: list[Text | Foreign], writer: Writer) -> Any:
    """Return the content as text, or as a list if there is more in it."""
    parts: list[Doc] = []
    for block in texts:
        parts += _encode_part(block, writer)
    if thoughts or any(isinstance(block, Foreign) for block in texts):
        return [*thoughts, *parts]
    return join_plain(parts)


def encode_call(call: ToolCall, writer: Writer, *, verbatim: bool = False) -> Doc:
    """Encode one call of a message or a reply. `verbatim` keeps arguments that are not JSON."""
    state: Doc = {}
    if call.opaque:
        state = unknown_fields(writer.echo_opaque(call.opaque), ("legacy",)) or {}
    name = writer.map_tool_name(call.name, call.namespace)
    head: Doc = {"id": writer.map_call_id(call.id)}
    if call.freeform and writer.profile.features.freeform:
        return {**head, "type": "custom", "custom": {"name": name, "input": call.raw or ""}, **state}
    text = call.text
    if not text or text.isspace():  # otherwise exactly as it came: caches compare bytes
        text = "{}"
    takes_raw = verbatim or writer.takes_raw_arguments
    is_raw = call.arguments is None
    if call.freeform or (is_raw and not takes_raw):
        text = dumps_text(writer.to_arguments_object(call))
    return {**head, "type": "function", "function": {"name": name, "arguments": text}, **state}


def encode_reasoning(message: Message, writer: Writer, has_calls: bool) -> Doc:
    """Encode reasoning under the field it came in. Reasoning of others was removed before."""
    thoughts = [block for block in message.blocks if isinstance(block, Thinking)]
    if not thoughts:
        if not has_calls or writer.profile.reasoning_echo != "required":
            return {}
        # DeepSeek: 400 "The `reasoning_content` in the thinking mode must be passed back to the API."; "" is
        # accepted.
        writer.record_repair("reasoning_content", "empty text added: a message with calls must have it")
        return {REASONING_FIELDS[0]: ""}
    state = thoughts[0].opaque or {}
    field = as_text(state.get("field")) or REASONING_FIELDS[0]
    text = "".join(thought.text for thought in thoughts)
    if field != "thinking_part":
        return {field: text}
    # Mistral: a part of the content
    part: Doc = {"type": "thinking", "thinking": [{"type": "text", "text": text}]}
    part |= unknown_fields(state, ("field",)) or {}
    return {"content": [part]}


def encode_results(message: Message, writer: Writer) -> list[Doc]:
    """Encode results, and their media after them."""
    messages: list[Doc] = []
    for result in message.results:
        state = writer.echo_opaque(result.opaque)
        head: Doc = {"role": "tool", "tool_call_id": writer.map_call_id(result.call_id)}
        if writer.profile.result_name and (name := writer.result_tool_name(result)):
            head["name"] = name  # Mistral
        messages.append({**head, **state, "content": _encode_result_content(result, writer)})
    # text only (openai SDK 3.49); the media must follow all results
    if media := writer.detach_media(message):
        if writer.profile.history.filler_after_results:
            messages.append({"role": "assistant", "content": FILLER_TEXT})
        messages.append({"role": "user", "content": _encode_content(media, writer)})
    return messages


def _encode_result_content(result: ToolResult, writer: Writer) -> str | list[Doc]:
    """Encode the text of a result; as parts if it is marked for the prompt cache, because only they have
    marks.
    """
    content = format_result_text(result)
    if result.cache is None and not _have_marks(result.content):
        return content
    texts: list[Text] = []
    for block in result.content:
        if isinstance(block, Text) and block.text:
            texts.append(block)
    mark = encode_mark(result, writer)
    has_marks = bool(mark) or _have_marks(texts)
    if not texts or not has_marks:
        return content
    parts: list[Doc] = []
    for text in texts:
        parts.append({"type": "text", "text": text.text} | encode_mark(text, writer))
    for part, text in zip(parts, texts, strict=True):
        part |= writer.echo_opaque(text.opaque)
    flag = content[: len(content) - len(result.text)]
    parts[0]["text"] = flag + parts[0]["text"]
    parts[-1] |= mark
    return parts


def _have_marks(blocks: Sequence[Block]) -> bool:
    """Return whether a text is marked for the prompt cache."""
    for block in blocks:  # noqa: SIM110 - a generator would cost more than all it does
        if type(block) is Text and block.cache:
            return True
    return False


def _encode_content(blocks: Sequence[Block], writer: Writer) -> Any:
    parts: list[Doc] = []
    for block in blocks:
        parts += _encode_part(block, writer)
    are_texts = all(isinstance(block, Text) for block in blocks)
    return join_plain(parts) if are_texts else parts


def _encode_part(block: Block, writer: Writer) -> Iterable[Doc]:
    if isinstance(block, Text):
        yield {
            "type": "text",
            "text": block.text,
            **encode_mark(block, writer),
            **writer.echo_opaque(block.opaque),
        }
    elif isinstance(block, Foreign):
        yield block.item
    elif isinstance(block, Media):
        part = encode_media(block, writer.echo_opaque(block.opaque), writer)
        reason = f"{writer.model or writer.profile.title} does not accept it"
        part = part or {"type": "text", "text": writer.replace_media(block, reason)}
        yield {**part, **encode_mark(block, writer)}


def encode_media(media: Media, state: Opaque, writer: Writer) -> Doc | None:
    """Encode media as a part; None if the target has no form for it."""
    if media.kind not in writer.profile.media:
        return None
    extra = as_dict(state.get("more"))
    match media.kind:
        case "image":
            url = to_data_url(media)
            if not url:
                return None
            image: Doc = {"url": url}
            if media.detail:
                image["detail"] = media.detail
            return {"type": "image_url", "image_url": image | extra}
        case "audio":
            format = _AUDIO_FORMATS.get(media.media_type)
            if not media.data or format is None:
                return None
            return {"type": "input_audio", "input_audio": {"data": media.data, "format": format}}
        case "file":
            if media.file_id and state:
                return {"type": "file", "file": {"file_id": media.file_id, **extra}}
            if not media.data or media.media_type != "application/pdf":  # other files are not sent as files
                return None
            file = {"filename": media.name or "file.pdf", "file_data": to_data_url(media), **extra}
            return {"type": "file", "file": file}
        case _:
            return None


def encode_body(request: Request, writer: Writer, system: Sequence[Message], messages: list[Any]) -> Doc:
    """Encode the body around the encoded messages, which come last."""
    options = request.options
    body: Doc = {"model": request.model}
    if options.max_tokens is not None:
        body[writer.profile.max_tokens] = options.max_tokens  # reasoning models refuse `max_tokens`
    body.update(encode_sampling(options, writer))
    if effort := encode_effort(options, writer):
        body["reasoning_effort"] = effort
    if options.thinking_budget is not None:
        writer.record_loss("thinking_budget", f"{writer.profile.title} has no thinking budget", at="options")
    if request.stream is not None:
        body["stream"] = request.stream
    if request.output:
        body["response_format"] = _encode_output(request.output, writer)
    body.update(encode_cache_option(options, writer))
    body.update(encode_tools(request, writer))
    if writer.prompt_hints:
        messages = [{"role": writer.profile.system_role, "content": " ".join(writer.prompt_hints)}, *messages]
    return {**body, **select_extras(request, writer), "messages": messages}


def _encode_output(output: Output, writer: Writer) -> Doc:
    """Encode the form of the output, as precisely as the target can take it."""
    if output.schema is None:
        return {"type": "json_object"}
    if writer.profile.json_output != "schema":
        writer.record_loss(
            "output schema", f"{writer.profile.title} supports only JSON without a schema", at="output"
        )
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": encode_output_schema(output, writer)}


def encode_tools(request: Request, writer: Writer) -> Doc:
    tools, choice = select_tools(request, writer)
    if not tools:  # parallel_tool_calls is refused without tools, and a choice means nothing
        return {}
    body: Doc = {"tools": [encode_tool(tool, writer) for tool in tools]}
    if choice:
        body["tool_choice"] = encode_choice(choice, tools, writer)
    if request.parallel is not None and writer.profile.features.parallel_off:
        body["parallel_tool_calls"] = request.parallel
    elif request.parallel is False:
        writer.record_loss(
            "parallel", f"{writer.profile.title} cannot be limited to one call at a time", at="request"
        )
    return body


def encode_tool(tool: ToolDefinition, writer: Writer) -> Doc:
    mark = encode_mark(tool, writer, is_head=True)
    if native := native_definition(tool, writer):
        return {**native, **mark, **native}
    if tool.kind == "freeform" and writer.profile.features.freeform:
        custom: Doc = {"name": writer.map_tool_name(tool.name, tool.namespace)}
        if tool.description:
            custom["description"] = tool.description
        if tool.grammar:
            custom["format"] = {"type": "grammar", "grammar": tool.grammar}  # nested here, flat on Responses
        return {"type": "custom", "custom": custom, **mark}
    function = encode_function(tool, writer)
    fields = function.to_fields()
    if function.strict or (tool.strict is False and writer.profile.features.strict):
        fields["strict"] = function.strict
    return {"type": "function", "function": fields, **mark, **function.extra}


def encode_choice(choice: ToolChoice, tools: Iterable[ToolDefinition], writer: Writer) -> Any:
    if not choice.names:
        return choice.mode
    named: list[Doc] = []
    for tool, name in select_chosen(choice, tools, writer):
        is_custom = tool.kind == "freeform" and writer.profile.features.freeform
        kind = "custom" if is_custom else "function"
        named.append({"type": kind, kind: {"name": name}})
    if len(named) == 1 and choice.mode == "required":
        return named[0]
    # Routers ignore it; their profiles have no subset.
    return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": named}}
