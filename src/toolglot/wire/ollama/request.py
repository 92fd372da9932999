"""Ollama chat: Request <-> body. Arguments are objects, content is text, there is no tool_choice."""

from collections.abc import Iterator, Sequence
from typing import Any

from toolglot.jsontext import dumps_text
from toolglot.messages import Block, Media, Message, Origin, Text, Thinking, ToolCall, ToolResult
from toolglot.providers.profile import Profile
from toolglot.request import Options, Output, Request, ToolDefinition, effort_of
from toolglot.wire.media import text_of
from toolglot.wire.ollama.reply import WIRE, OllamaDecoder
from toolglot.wire.shapes import Doc, as_dict, as_list, as_text, dicts, rest
from toolglot.wire.tracker import ToolCallTracker
from toolglot.wire.writer import Writer, media_beside, placeholder, result_text

__all__ = ["assemble", "decode", "hoisted", "items", "varies"]

# neutral -> Ollama's options
_OPTIONS = {
    "max_tokens": "num_predict",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "stop": "stop",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}

# ---- encode


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
        if name := writer.result_name(result):
            out["tool_name"] = name
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
    extras = writer.extras(request)
    options = {_OPTIONS[name]: value for name, value in writer.sampling(request.options).items()}
    if request.options.max_tokens is not None:
        options["num_predict"] = request.options.max_tokens
    if options := {**options, **as_dict(extras.pop("options", None))}:
        body["options"] = options
    if request.options.thinking_budget is not None:
        writer.lose("thinking_budget", "options", f"{writer.profile.title} has no budget for thinking")
    if effort := writer.effort(request.options):
        body["think"] = False if effort == "none" else effort
    if request.output:
        body["format"] = request.output.schema if request.output.schema is not None else "json"
    if request.parallel is False:
        writer.lose("parallel", "request", f"{writer.profile.title} cannot be held to one call at a time")
    if request.stream is not None:
        body["stream"] = request.stream
    tools, _ = writer.offered(request)
    if encoded := [tool for definition in tools if (tool := _tool(definition, writer))]:
        body["tools"] = encoded
    if writer.nudges:
        messages = [{"role": "system", "content": " ".join(writer.nudges)}, *messages]
    return {**body, **extras, "messages": messages}


def _tool(tool: ToolDefinition, writer: Writer) -> Doc | None:
    if tool.kind == "hosted":
        return writer.hosted(tool)
    function = writer.function(tool)
    body: Doc = {"name": function.name, "description": function.description, "parameters": function.schema}
    return {"type": "function", "function": body, **function.own}


# ---- decode

_KNOWN = ("model", "messages", "tools", "options", "format", "stream", "think")


def decode(body: Doc, profile: Profile) -> Request:
    """A body as a Request. What has no neutral form stays in `extras`."""
    origin = Origin(WIRE, profile.id, as_text(body.get("model")))
    extras = rest(body, _KNOWN) or {}
    given = as_dict(body.get("options"))
    neutral: Doc = {name: given[field] for name, field in _OPTIONS.items() if given.get(field) is not None}
    if more := rest(given, _OPTIONS.values()):
        extras["options"] = more
    if "stop" in neutral:
        neutral["stop"] = (neutral["stop"],) if isinstance(neutral["stop"], str) else tuple(neutral["stop"])
    think = body.get("think")
    effort = "none" if think is False else effort_of(think)
    if effort:
        neutral["effort"] = effort
    elif think is not None:
        extras["think"] = think
    return Request(
        model=as_text(body.get("model")),
        messages=list(_decode_messages(body.get("messages"), origin)),
        tools=tuple(_decode_tool(tool) for tool in dicts(body.get("tools"))),
        options=Options(**neutral),
        output=_decode_format(body.get("format")),
        stream=body.get("stream"),
        extras={WIRE: extras} if extras else {},
    )


def _decode_format(form: Any) -> Output | None:
    if isinstance(form, dict):
        return Output(as_dict(form))
    return Output() if form == "json" else None


def _decode_messages(messages: Any, origin: Origin) -> Iterator[Message]:
    """Results come without ids from older clients: they answer the calls of their name in order."""
    results: list[ToolResult] = []
    open_calls: list[ToolCall] = []
    for message in dicts(messages):
        if message.get("role") == "tool":
            results.append(_decode_result(message, open_calls))
            continue
        if results:
            yield Message("tool", tuple(results), origin)
            results = []
        tracker = ToolCallTracker(origin)
        OllamaDecoder(tracker).message(message)
        reply = tracker.finish()
        role = message.get("role")
        if role == "assistant":
            open_calls = [*open_calls, *reply.calls]
        neutral = role if role in ("assistant", "user") else "system"
        yield Message(neutral, reply.blocks, origin, reply.opaque)
    if results:
        yield Message("tool", tuple(results), origin)


def _decode_result(message: Doc, open_calls: list[ToolCall]) -> ToolResult:
    name, id = as_text(message.get("tool_name")), as_text(message.get("tool_call_id"))
    call = next((call for call in open_calls if call.id == id or (not id and name in ("", call.name))), None)
    if call:
        open_calls.remove(call)
    content = message.get("content")
    text = content if isinstance(content, str) else dumps_text(content)
    images = [Media("image", data=image) for image in as_list(message.get("images"))]
    own = rest(message, ("role", "content", "tool_name", "tool_call_id", "images"))
    return ToolResult(call.id if call else id or name, (Text(text), *images), name or (call.name if call else ""), opaque=own)


def _decode_tool(tool: Doc) -> ToolDefinition:
    function = as_dict(tool.get("function"))
    return ToolDefinition(
        as_text(function.get("name")),
        as_text(function.get("description")),
        function.get("parameters"),
        wire=WIRE,
        opaque=rest(tool, ("type", "function")),
    )
