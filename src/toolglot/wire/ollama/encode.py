"""Ollama chat: Request -> body. Arguments are objects, content is text, there is no tool_choice."""

from collections.abc import Iterator, Sequence
from typing import Any

from toolglot.messages import Block, Media, Message, Text, Thinking, ToolCall
from toolglot.request import Request, ToolDefinition
from toolglot.wire.media import text_of
from toolglot.wire.offer import as_function, as_hosted, offered
from toolglot.wire.options import effort_for, extras_for, sampling_for
from toolglot.wire.shapes import Doc, as_dict
from toolglot.wire.writer import Writer, media_beside, placeholder, result_text

__all__ = ["OPTIONS", "assemble", "hoisted", "items", "varies"]


# neutral -> Ollama's options
OPTIONS = {
    "max_tokens": "num_predict",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "stop": "stop",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}


def hoisted(messages: Sequence[Message]) -> int:
    """Instructions are messages here."""
    return 0


def varies(request: Request, writer: Writer) -> object:
    """Nothing in the body depends on the history."""
    return None


def items(message: Message, writer: Writer, where: str) -> list[Doc]:
    """One neutral message as wire messages."""
    own = writer.opaque(message.opaque, message.origin, where)
    match message.role:
        case "assistant":
            return [{**own, **_assistant(message, writer, where)}]
        case "tool":
            return list(_results(message, writer, where))
        case _:
            return [{"role": message.role, **own, **_said(message.blocks, writer, where)}]


def _assistant(message: Message, writer: Writer, where: str) -> Doc:
    out: Doc = {"role": "assistant", **_said(message.blocks, writer, where)}
    if thinking := "".join(block.text for block in message.blocks if isinstance(block, Thinking)):
        out["thinking"] = thinking
    if calls := [_call(call, message, writer, where) for call in message.calls]:
        out["tool_calls"] = calls
    return out


def _call(call: ToolCall, message: Message, writer: Writer, where: str) -> Doc:
    own = writer.opaque(call.opaque, message.origin, where)
    function: Doc = {"name": writer.tool_name(call.name, call.namespace, where)}
    function["arguments"] = writer.arguments_object(call, where)
    return {"id": writer.call_id(call.id, where), "function": {**function, **as_dict(own.get("function"))}}


def _results(message: Message, writer: Writer, where: str) -> Iterator[Doc]:
    media: list[Block] = []
    for result in message.results:
        out: Doc = {"role": "tool", "content": result_text(result), "tool_call_id": writer.call_id(result.call_id, where)}
        out["tool_name"] = writer.result_name(result)
        yield {**out, **writer.opaque(result.opaque, message.origin, where)}
        media += media_beside(result)
    if media:
        writer.mend("media of a tool result", where, f"{writer.profile.title} takes text only; sent in a user message")
        yield {"role": "user", **_said(media, writer, where)}


def _said(blocks: Sequence[Block], writer: Writer, where: str) -> Doc:
    """Content is one text; images lie beside it."""
    texts: list[str] = []
    images: list[str] = []
    for block in blocks:
        if isinstance(block, Text):
            texts.append(block.text)
        elif isinstance(block, Media):
            if block.kind == "image" and block.data is not None:
                images.append(block.data)
            elif (text := text_of(block)) is not None:
                texts.append(text)
            else:
                writer.lose(block.kind, where, f"{writer.profile.title} takes images as bytes and nothing else")
                texts.append(placeholder(block).text)
    out: Doc = {"content": "\n\n".join(texts)}
    if images:
        out["images"] = images
    return out


def assemble(request: Request, writer: Writer, system: Sequence[Message], messages: list[Any]) -> Doc:
    """The body around the encoded messages, which come last."""
    body: Doc = {"model": request.model or writer.model}
    extras = extras_for(request, writer)
    options = {OPTIONS[name]: value for name, value in sampling_for(request.options, writer).items()}
    if request.options.max_tokens is not None:
        options["num_predict"] = request.options.max_tokens
    if options := {**options, **as_dict(extras.pop("options", None))}:
        body["options"] = options
    if request.options.thinking_budget is not None:
        writer.lose("thinking_budget", "options", f"{writer.profile.title} has no budget for thinking")
    if effort := effort_for(request.options, writer):
        body["think"] = False if effort == "none" else effort
    if request.output:
        body["format"] = request.output.schema if request.output.schema is not None else "json"
    if request.parallel is False:
        writer.lose("parallel", "request", f"{writer.profile.title} cannot be held to one call at a time")
    if request.stream is not None:
        body["stream"] = request.stream
    tools, _ = offered(request, writer)
    if encoded := [tool for definition in tools if (tool := _tool(definition, writer))]:
        body["tools"] = encoded
    if writer.nudges:
        messages = [{"role": "system", "content": " ".join(writer.nudges)}, *messages]
    return {**body, **extras, "messages": messages}


def _tool(tool: ToolDefinition, writer: Writer) -> Doc | None:
    if tool.kind == "hosted":
        return as_hosted(tool, writer)
    function = as_function(tool, writer)
    body: Doc = {"name": function.name, "description": function.description, "parameters": function.schema}
    return {"type": "function", "function": body, **function.own}
