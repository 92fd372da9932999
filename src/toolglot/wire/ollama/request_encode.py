"""Ollama chat: Request -> body. Arguments are objects, content is text, there is no tool_choice."""

from collections.abc import Iterator, Sequence
from typing import Any

from toolglot.messages import Block, Media, Message, Text, Thinking, ToolCall
from toolglot.request import Request, ToolDefinition
from toolglot.wire.json_values import Doc, as_dict
from toolglot.wire.media import extract_file_text
from toolglot.wire.options import encode_effort, encode_sampling, select_extras
from toolglot.wire.tool_encoding import encode_function, encode_hosted, select_tools
from toolglot.wire.writer import Writer, detach_media, format_result_text, media_placeholder

__all__ = ["OPTION_FIELDS", "encode_body", "encode_message", "head_key", "leading_count"]


# neutral -> Ollama's options
OPTION_FIELDS = {
    "max_tokens": "num_predict",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "stop": "stop",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}


def leading_count(messages: Sequence[Message]) -> int:
    """Instructions are messages here."""
    return 0


def head_key(request: Request, writer: Writer) -> object:
    """Nothing in the body depends on the history."""
    return None


def encode_message(message: Message, writer: Writer, where: str) -> list[Doc]:
    """One neutral message as wire messages."""
    own = writer.echo_opaque(message.opaque, message.origin, where)
    match message.role:
        case "assistant":
            return [{**own, **_encode_assistant(message, writer, where)}]
        case "tool":
            return list(_encode_results(message, writer, where))
        case _:
            return [{"role": message.role, **own, **_encode_content(message.blocks, writer, where)}]


def _encode_assistant(message: Message, writer: Writer, where: str) -> Doc:
    out: Doc = {"role": "assistant", **_encode_content(message.blocks, writer, where)}
    if thinking := "".join(block.text for block in message.blocks if isinstance(block, Thinking)):
        out["thinking"] = thinking
    if calls := [_encode_call(call, message, writer, where) for call in message.calls]:
        out["tool_calls"] = calls
    return out


def _encode_call(call: ToolCall, message: Message, writer: Writer, where: str) -> Doc:
    own = writer.echo_opaque(call.opaque, message.origin, where)
    function: Doc = {"name": writer.map_tool_name(call.name, call.namespace, where)}
    function["arguments"] = writer.to_arguments_object(call, where)
    return {"id": writer.map_call_id(call.id, where), "function": {**function, **as_dict(own.get("function"))}}


def _encode_results(message: Message, writer: Writer, where: str) -> Iterator[Doc]:
    media: list[Block] = []
    for result in message.results:
        out: Doc = {
            "role": "tool",
            "content": format_result_text(result),
            "tool_call_id": writer.map_call_id(result.call_id, where),
        }
        out["tool_name"] = writer.result_tool_name(result)
        yield {**out, **writer.echo_opaque(result.opaque, message.origin, where)}
        media += detach_media(result)
    if media:
        writer.record_repair("media of a tool result", where, f"{writer.profile.title} takes text only; sent in a user message")
        yield {"role": "user", **_encode_content(media, writer, where)}


def _encode_content(blocks: Sequence[Block], writer: Writer, where: str) -> Doc:
    """Content is one text; images lie beside it."""
    texts: list[str] = []
    images: list[str] = []
    for block in blocks:
        if isinstance(block, Text):
            texts.append(block.text)
        elif isinstance(block, Media):
            if block.kind == "image" and block.data is not None:
                images.append(block.data)
            elif (text := extract_file_text(block)) is not None:
                texts.append(text)
            else:
                writer.record_loss(block.kind, where, f"{writer.profile.title} takes images as bytes and nothing else")
                texts.append(media_placeholder(block).text)
    out: Doc = {"content": "\n\n".join(texts)}
    if images:
        out["images"] = images
    return out


def encode_body(request: Request, writer: Writer, system: Sequence[Message], messages: list[Any]) -> Doc:
    """The body around the encoded messages, which come last."""
    body: Doc = {"model": request.model or writer.model}
    extras = select_extras(request, writer)
    options = {OPTION_FIELDS[name]: value for name, value in encode_sampling(request.options, writer).items()}
    if request.options.max_tokens is not None:
        options["num_predict"] = request.options.max_tokens
    if options := {**options, **as_dict(extras.pop("options", None))}:
        body["options"] = options
    if request.options.thinking_budget is not None:
        writer.record_loss("thinking_budget", "options", f"{writer.profile.title} has no budget for thinking")
    if effort := encode_effort(request.options, writer):
        body["think"] = False if effort == "none" else effort
    if request.output:
        body["format"] = request.output.schema if request.output.schema is not None else "json"
    if request.parallel is False:
        writer.record_loss("parallel", "request", f"{writer.profile.title} cannot be held to one call at a time")
    if request.stream is not None:
        body["stream"] = request.stream
    tools, _ = select_tools(request, writer)
    if encoded := [tool for definition in tools if (tool := _encode_tool(definition, writer))]:
        body["tools"] = encoded
    if writer.prompt_hints:
        messages = [{"role": "system", "content": " ".join(writer.prompt_hints)}, *messages]
    return {**body, **extras, "messages": messages}


def _encode_tool(tool: ToolDefinition, writer: Writer) -> Doc | None:
    if tool.kind == "hosted":
        return encode_hosted(tool, writer)
    function = encode_function(tool, writer)
    body: Doc = {"name": function.name, "description": function.description, "parameters": function.schema}
    return {"type": "function", "function": body, **function.extra}
