"""Ollama chat: Request -> body. Arguments are objects, content is text, and there is no tool_choice."""

from collections.abc import Sequence
from typing import Any

from toolglot.values.messages import Block, Media, Message, Text, Thinking, ToolCall
from toolglot.values.request import Request
from toolglot.wire.cache_marks import report_lost_cache_option
from toolglot.wire.json_values import Doc, as_dict
from toolglot.wire.options import encode_effort, encode_sampling, select_extras
from toolglot.wire.tool_encoding import encode_function, native_definition, select_tools
from toolglot.wire.writer import Writer, format_result_text

__all__ = ["encode_body", "encode_message"]


def encode_message(message: Message, writer: Writer) -> list[Doc]:
    """Encode one neutral message."""
    # Encoded fields win over opaque state, except for a role: the state may have another name of it, such as
    # "developer".
    state = writer.echo_opaque(message.opaque)
    if message.role == "assistant":
        encoded: Doc = {"role": "assistant", **_encode_content(message.blocks, writer)}
        if thinking := "".join(block.text for block in message.blocks if isinstance(block, Thinking)):
            encoded["thinking"] = thinking  # templates such as those of gpt-oss and qwen use it
        if calls := [encode_call(call, writer) for call in message.calls]:
            encoded["tool_calls"] = calls
        return [{**state, **encoded}]
    if message.role != "tool":
        return [{"role": message.role, **state, **_encode_content(message.blocks, writer)}]
    messages: list[Doc] = []
    for result in message.results:
        id = writer.map_call_id(result.call_id)
        name = writer.result_tool_name(result)
        # The server has fields for both; Ollama's Python client (0.6.3) knows only the name.
        encoded = {
            "role": "tool",
            "content": format_result_text(result),
            "tool_call_id": id,
            "tool_name": name,
        }
        messages.append({**encoded, **writer.echo_opaque(result.opaque)})
    if media := writer.detach_media(message):
        messages.append({"role": "user", **_encode_content(media, writer)})
    return messages


def encode_call(call: ToolCall, writer: Writer) -> Doc:
    state = writer.echo_opaque(call.opaque)
    name = writer.map_tool_name(call.name, call.namespace)
    function: Doc = {"name": name, "arguments": writer.to_arguments_object(call)}
    return {"id": writer.map_call_id(call.id), "function": {**function, **as_dict(state.get("function"))}}


def _encode_content(blocks: Sequence[Block], writer: Writer) -> Doc:
    """Encode text and media: content is one string, and images are beside it."""
    texts: list[str] = []
    images: list[str] = []
    for block in blocks:
        if isinstance(block, Text):
            texts.append(block.text)
        elif isinstance(block, Media):
            if block.kind == "image" and block.data is not None:
                images.append(block.data)  # raw base64, without a data URL
            else:
                texts.append(
                    writer.replace_media(block, f"{writer.profile.title} accepts only images, as bytes")
                )
    content: Doc = {"content": "\n\n".join(texts)}
    return {**content, "images": images} if images else content


def encode_body(request: Request, writer: Writer, system: Sequence[Message], messages: list[Any]) -> Doc:
    """Encode the body around the encoded messages, which come last."""
    body: Doc = {"model": request.model or writer.model}
    extras = select_extras(request, writer)
    report_lost_cache_option(request.options, writer)
    options = encode_sampling(request.options, writer)
    if request.options.max_tokens is not None:
        options["num_predict"] = request.options.max_tokens
    if options := {**options, **as_dict(extras.pop("options", None))}:
        body["options"] = options
    if request.options.thinking_budget is not None:
        writer.record_loss("thinking_budget", f"{writer.profile.title} has no thinking budget", at="options")
    if effort := encode_effort(request.options, writer):
        # Ollama has no level "none". A model that cannot think refuses a level: 400 "does not support
        # thinking".
        body["think"] = False if effort == "none" else effort
    if request.output:
        body["format"] = request.output.schema if request.output.schema is not None else "json"
    if request.parallel is False:
        writer.record_loss(
            "parallel", f"{writer.profile.title} cannot be limited to one call at a time", at="request"
        )
    if request.stream is not None:
        body["stream"] = request.stream
    tools: list[Doc] = []
    for tool in select_tools(request, writer)[0]:
        if native := native_definition(tool, writer):
            tools.append(native)
        else:
            function = encode_function(tool, writer)
            fields: Doc = {
                "name": function.name,
                "description": function.description,
                "parameters": function.schema,
            }
            tools.append({"type": "function", "function": fields, **function.extra})
    if tools:
        body["tools"] = tools
    if writer.prompt_hints:
        messages = [{"role": "system", "content": " ".join(writer.prompt_hints)}, *messages]
    return {**body, **extras, "messages": messages}
