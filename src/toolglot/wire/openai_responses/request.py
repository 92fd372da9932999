"""OpenAI Responses: Request <-> body. History is a flat list of items; a turn of the assistant is several of them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from toolglot.jsontext import dumps_text
from toolglot.messages import Block, Foreign, Media, Message, Opaque, Origin, Text, Thinking, ToolCall, ToolResult
from toolglot.providers.profile import Profile
from toolglot.request import Options, Output, Request, ToolChoice, ToolDefinition, effort_of
from toolglot.wire.history import leading_system
from toolglot.wire.media import data_url, from_url, text_of
from toolglot.wire.openai_common import SHARED, output_of, strict_output
from toolglot.wire.openai_responses.reply import BUILT_INS, WIRE, item_blocks
from toolglot.wire.shapes import Doc, as_dict, as_list, as_text, dicts, rest
from toolglot.wire.writer import Writer, placeholder, result_text

__all__ = ["assemble", "decode", "hoisted", "items", "varies"]

# ---- encode


def hoisted(messages: Sequence[Message]) -> int:
    """How many leading messages are sent as `instructions`."""
    count = leading_system(messages)
    items = [index for index in range(count) if _is_item(messages[index])]
    return items[0] if items else count


def _is_item(message: Message) -> bool:
    """System and developer messages that came as items stay items."""
    return message.origin is not None and message.origin.wire == WIRE and "instructions" not in (message.opaque or {})


def varies(request: Request, writer: Writer) -> object:
    """Nothing in the body depends on the history."""
    return None


def items(message: Message, writer: Writer, where: str) -> list[Doc]:
    """One neutral message as input items."""
    match message.role:
        case "assistant":
            return list(_assistant(message, writer, where))
        case "tool":
            return [_result(result, message, writer, where) for result in message.results]
        case _:
            own = {"role": message.role, **writer.opaque(message.opaque, message.origin, where)}
            own.pop("instructions", None)
            return [{**own, "content": _content(message.blocks, message, writer, where)}]


def _assistant(message: Message, writer: Writer, where: str) -> Iterator[Doc]:
    blocks = message.blocks
    at = 0
    while at < len(blocks):
        block = blocks[at]
        at += 1
        match block:
            case Text():
                group = [block]
                while at < len(blocks) and isinstance(more := blocks[at], Text) and _state(more) == _state(block):
                    group.append(more)
                    at += 1
                yield _said(group, message, writer, where)
            case Thinking():
                if not any(isinstance(later, Text | ToolCall | Foreign) for later in blocks[at:]):
                    writer.mend("reasoning item", where, "left out: what it led to is not there")
                else:
                    yield {"type": "reasoning", **_reasoning(block)}
            case ToolCall():
                yield call_to_wire(block, message, writer, where)
            case Media():
                writer.lose(block.kind, where, f"{writer.profile.title} takes no media from the assistant")
            case Foreign():
                yield block.item
            case _:
                pass


def _reasoning(block: Thinking) -> Doc:
    own = {key: value for key, value in (block.opaque or {}).items() if key != "part"}
    return {"summary": [{"type": "summary_text", "text": block.text}] if block.text else [], **own}


def _state(block: Text) -> Opaque:
    return {key: value for key, value in (block.opaque or {}).items() if key not in ("part", "refusal")}


def _said(group: list[Text], message: Message, writer: Writer, where: str) -> Doc:
    """Texts of one assistant message."""
    state = writer.opaque(_state(group[0]), message.origin, where)
    if not writer.owns(message.origin) or not (state or any(block.opaque for block in group)):
        return {"role": "assistant", "content": "".join(block.text for block in group)}
    parts: list[Doc] = []
    for block in group:
        own = block.opaque or {}
        if own.get("refusal"):
            parts.append({"type": "refusal", "refusal": block.text})
        else:
            parts.append({"type": "output_text", "text": block.text, **as_dict(own.get("part"))})
    return {"type": "message", "role": "assistant", **state, "content": parts}


def call_to_wire(call: ToolCall, message: Message, writer: Writer, where: str, *, verbatim: bool = False) -> Doc:
    """One call of a message or a reply. `verbatim`: arguments that are no JSON stay as they are."""
    own = writer.opaque(call.opaque, message.origin, where)
    if item := own.get("item"):
        writer.built_in[call.id] = as_text(item["type"])
        return {**item, "call_id": writer.call_id(call.id, where)}
    head: Doc = {"call_id": writer.call_id(call.id, where), "name": writer.tool_name(call.name, call.namespace, where)}
    if call.namespace and writer.profile.features.namespaces:
        head["namespace"] = call.namespace
    if call.freeform:
        return {"type": "custom_tool_call", **head, "input": call.raw or "", **own}
    text = call.text if call.text.strip() else "{}"
    if call.arguments is None and not verbatim and not writer.owns(message.origin):
        text = dumps_text(writer.arguments_object(call, where))
    return {"type": "function_call", **head, "arguments": text, **own}


def _result(result: ToolResult, message: Message, writer: Writer, where: str) -> Doc:
    own = writer.opaque(result.opaque, message.origin, where)
    id = writer.call_id(result.call_id, where)
    if item := own.get("item"):
        return {**item, "call_id": id}
    kind = writer.built_in.get(result.call_id)
    if kind and "type" not in own:
        return {"type": BUILT_INS[kind][2], "call_id": id, **_built_in_output(kind, result)}
    call = writer.calls.get(result.call_id)
    freeform = call.freeform if call and not kind else own.get("type") == "custom_tool_call_output"
    own = {key: value for key, value in own.items() if key != "type"}
    kind = "custom_tool_call_output" if freeform else "function_call_output"
    output: Any = result_text(result)
    if any(not isinstance(block, Text) for block in result.content):
        flag: tuple[Block, ...] = (Text("Error:"),) if result.is_error else ()
        output = _content((*flag, *result.content), message, writer, where)
    return {"type": kind, "call_id": id, "output": output, **own}


def _built_in_output(kind: str, result: ToolResult) -> Doc:
    """The result of a built-in that the client runs, in its own form."""
    match kind:
        case "shell_call":
            outcome: Doc = {"type": "exit", "exit_code": int(result.is_error)}
            return {"output": [{"stdout": result.text, "stderr": "", "outcome": outcome}]}
        case "apply_patch_call":
            return {"status": "failed" if result.is_error else "completed", "output": result.text}
        case "tool_search_call":
            return {"execution": "client", "status": "completed", "tools": as_list(result.data)}
        case _:
            return {"output": result.text}


def _content(blocks: Sequence[Block], message: Message, writer: Writer, where: str) -> Any:
    if len(blocks) == 1 and isinstance(blocks[0], Text) and not writer.opaque(blocks[0].opaque, message.origin, where):
        return blocks[0].text
    return [part for block in blocks for part in _part(block, message, writer, where)]


def _part(block: Block, message: Message, writer: Writer, where: str) -> Iterator[Doc]:
    match block:
        case Text():
            yield {"type": "input_text", "text": block.text, **writer.opaque(block.opaque, message.origin, where)}
        case Media():
            yield _media(block, message, writer, where)
        case Foreign():
            yield block.item
        case _:
            pass


def _media(media: Media, message: Message, writer: Writer, where: str) -> Doc:
    own = writer.opaque(media.opaque, message.origin, where)
    more = as_dict(own.get("more"))
    kind = "input_image" if media.kind == "image" else "input_file"
    if media.file_id and writer.owns(message.origin):
        return {"type": kind, "file_id": media.file_id, **more}
    url = data_url(media)
    if media.kind == "image" and url:
        return {"type": kind, "image_url": url, **more}
    if media.kind == "file" and media.data and media.media_type == "application/pdf":
        return {"type": kind, "filename": media.name or "file.pdf", "file_data": url, **more}
    if media.kind == "file" and media.url and media.url.startswith("http"):
        return {"type": kind, "file_url": media.url, **more}
    if (text := text_of(media)) is not None:
        return {"type": "input_text", "text": text}
    writer.lose(media.kind, where, f"{writer.profile.title} cannot be given it")  # recorded 400: audio and video as files
    return {"type": "input_text", "text": placeholder(media).text}


def assemble(request: Request, writer: Writer, system: Sequence[Message], input: list[Any]) -> Doc:
    """The body around the encoded items, which come last."""
    options, body = request.options, dict[str, Any]()
    extras = writer.extras(request, "openai")
    tools = _tools(request, writer)
    body["model"] = request.model
    if instructions := [*_instructions(system, writer), *writer.nudges]:
        body["instructions"] = "\n\n".join(instructions)
    if options.max_tokens is not None:
        body["max_output_tokens"] = _at_least_16(options.max_tokens, writer)
    body.update(writer.sampling(options))
    reasoning = as_dict(extras.pop("reasoning", None))
    if effort := writer.effort(options):
        reasoning = {"effort": effort, **reasoning}
    if reasoning:
        body["reasoning"] = reasoning
    if options.thinking_budget is not None:
        writer.lose("thinking_budget", "options", f"{writer.profile.title} has no budget for thinking")
    if request.stream is not None:
        body["stream"] = request.stream
    text = as_dict(extras.pop("text", None))
    if request.output:
        text = {"format": _format(request.output, writer), **text}
    if text:
        body["text"] = text
    return {**body, **tools, **extras, "input": input}


def _instructions(system: Sequence[Message], writer: Writer) -> Iterator[str]:
    for message in system:
        for block in message.blocks:
            if isinstance(block, Media):
                writer.lose(block.kind, "system", "instructions are text")
            elif isinstance(block, Foreign):
                writer.lose(as_text(as_dict(block.item).get("type")), "system", "instructions are text")
        if message.text:
            yield message.text


def _at_least_16(tokens: int, writer: Writer) -> int:
    if tokens < 16:
        writer.mend("max_tokens", "options", f"{tokens} is below the least that {writer.profile.title} takes; sent as 16")
    return max(16, tokens)


def _format(output: Output, writer: Writer) -> Doc:
    if output.schema is None:
        return {"type": "json_object"}
    schema, strict = strict_output(output, writer)
    shape: Doc = {"type": "json_schema", "name": output.name, "schema": schema}
    if output.description:
        shape["description"] = output.description
    if strict is not None:
        shape["strict"] = strict
    return shape


def _tools(request: Request, writer: Writer) -> Doc:
    tools, choice = writer.offered(request)
    encoded: list[Doc] = []
    spaces: dict[str, Doc] = {}
    for tool in tools:
        if (item := _tool(tool, writer)) is None:
            continue
        if not tool.namespace or not writer.profile.features.namespaces:
            encoded.append(item)
        elif tool.namespace in spaces:
            spaces[tool.namespace]["tools"].append(item)
        else:
            own = as_dict((tool.opaque or {}).get("namespace")) if tool.wire == WIRE else {}
            space: Doc = {
                "type": "namespace",
                "name": tool.namespace,
                "description": tool.namespace,
                **own,
                "tools": [item],
            }
            spaces[tool.namespace] = space
            encoded.append(space)
    if not encoded:
        return {}
    body: Doc = {"tools": encoded}
    if choice:
        body["tool_choice"] = _choice(choice, tools, writer)
    if request.parallel is not None:
        body["parallel_tool_calls"] = request.parallel
    return body


def _tool(tool: ToolDefinition, writer: Writer) -> Doc | None:
    if tool.kind == "hosted":
        return writer.hosted(tool)
    if tool.kind == "freeform":
        own = (tool.opaque or {}) if tool.wire == WIRE else {}
        custom: Doc = {"type": "custom", "name": writer.tool_name(tool.name, tool.namespace)}
        if tool.description:
            custom["description"] = tool.description
        if tool.grammar:
            custom["format"] = {"type": "grammar", **tool.grammar}
        return {**custom, **_without_space(own)}
    function = writer.function(tool)
    body: Doc = {"type": "function", "name": function.name}
    if function.description:
        body["description"] = function.description
    # `strict` is always said: left out, the server tries strict and may change the schema (OpenAI's OpenAPI document)
    return {**body, "parameters": function.schema, "strict": function.strict, **_without_space(function.own)}


def _without_space(own: Opaque) -> Opaque:
    return {key: value for key, value in own.items() if key != "namespace"}


def _choice(choice: ToolChoice, tools: Sequence[ToolDefinition], writer: Writer) -> Any:
    if not choice.names:
        return choice.mode
    kinds = {"function": "function", "freeform": "custom"}
    named: list[Doc] = [
        _hosted_choice(tool) if tool.kind == "hosted" else {"type": kinds[tool.kind], "name": name}
        for tool, name in writer.chosen(choice, tools)
    ]
    if len(named) == 1 and choice.mode == "required":
        return named[0]
    return {"type": "allowed_tools", "mode": choice.mode, "tools": named}


def _hosted_choice(tool: ToolDefinition) -> Doc:
    kind, _, label = tool.name.partition(":")
    return {"type": kind, "server_label": label} if label else {"type": kind}


# ---- decode

_KNOWN = {
    *("model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "max_output_tokens", "stream"),
    *("temperature", "top_p", "reasoning", "text"),
}
_BUILT_IN_OUTPUTS = tuple(result for _, _, result in BUILT_INS.values())
_OUTPUTS = ("function_call_output", "custom_tool_call_output", *_BUILT_IN_OUTPUTS)


def decode(body: Doc, profile: Profile) -> Request:
    """A body as a Request. What has no neutral form stays in `extras`."""
    origin = Origin(WIRE, profile.id, as_text(body.get("model")))
    extras: dict[str, Doc] = {}
    for key, value in body.items():
        if key not in _KNOWN:
            extras.setdefault("openai" if key in SHARED else WIRE, {})[key] = value
    choice = _decode_choice(body.get("tool_choice"))
    if choice is None and body.get("tool_choice") is not None:  # of a hosted tool
        extras.setdefault(WIRE, {})["tool_choice"] = body["tool_choice"]
    reasoning, text = as_dict(body.get("reasoning")), as_dict(body.get("text"))
    effort = effort_of(reasoning.get("effort"))
    output = output_of(as_dict(text.get("format")))
    if more := rest(reasoning, ("effort",) if effort else ()):
        extras.setdefault(WIRE, {})["reasoning"] = more
    if more := rest(text, ("format",) if output or as_dict(text.get("format")).get("type") == "text" else ()):
        extras.setdefault(WIRE, {})["text"] = more
    return Request(
        model=as_text(body.get("model")),
        messages=[*_decode_instructions(body.get("instructions"), origin), *_decode_input(body.get("input"), origin)],
        tools=tuple(tool for item in dicts(body.get("tools")) for tool in _decode_tool(item)),
        tool_choice=choice,
        parallel=body.get("parallel_tool_calls"),
        options=Options(
            max_tokens=body.get("max_output_tokens"),
            temperature=body.get("temperature"),
            top_p=body.get("top_p"),
            effort=effort,
        ),
        output=output,
        stream=body.get("stream"),
        extras=extras,
    )


def _decode_instructions(instructions: Any, origin: Origin) -> Iterator[Message]:
    if isinstance(instructions, str):
        yield Message("system", (Text(instructions),), origin, {"instructions": True})
    elif instructions:
        yield from _decode_input(instructions, origin)


def _decode_input(input: Any, origin: Origin) -> Iterator[Message]:
    """Items of one speaker in a row are one message."""
    if isinstance(input, str):
        yield Message("user", (Text(input),), origin)
        return
    said: list[Block] = []
    results: list[ToolResult] = []
    built_in = {item.get("call_id") for item in dicts(input) if item.get("type") in BUILT_INS}
    for item in dicts(input):
        kind = item.get("type") or "message"
        if kind in _OUTPUTS and item.get("call_id"):
            if said:
                yield Message("assistant", tuple(said), origin)
                said = []
            results.append(_decode_result(item, of_built_in=item["call_id"] in built_in))
            continue
        if results:
            yield Message("tool", tuple(results), origin)
            results = []
        if kind == "message" and item.get("role") != "assistant":
            if said:
                yield Message("assistant", tuple(said), origin)
                said = []
            yield _decode_message(item, origin)
        else:
            said += [block for _, block in item_blocks({"type": "message", **item})]
    if said:
        yield Message("assistant", tuple(said), origin)
    if results:
        yield Message("tool", tuple(results), origin)


def _decode_message(item: Doc, origin: Origin) -> Message:
    role = as_text(item.get("role"))
    own = rest(item, ("role", "content")) or {}
    if role not in ("user", "system"):
        own["role"] = role
    return Message("user" if role == "user" else "system", tuple(_decode_content(item.get("content"))), origin, own or None)


def _decode_content(content: Any) -> Iterable[Block]:
    if isinstance(content, str):
        yield Text(content)
    for part in dicts(content):
        yield _decode_part(part)


def _decode_part(part: Doc) -> Text | Media | Foreign:
    match part.get("type"):
        case "input_text" | "output_text" | "text" if isinstance(part.get("text"), str):
            return Text(part["text"], rest(part, ("type", "text")))
        case "input_image" if part.get("image_url"):
            return from_url("image", part["image_url"], more=rest(part, ("type", "image_url")))
        case "input_file" if part.get("file_data"):
            more = rest(part, ("type", "file_data", "filename"))
            return from_url("file", part["file_data"], name=as_text(part.get("filename")), more=more)
        case "input_file" if part.get("file_url"):
            return Media("file", url=part["file_url"], opaque={"more": rest(part, ("type", "file_url")) or {}})
        case "input_image" | "input_file" as kind if part.get("file_id"):
            media = "image" if kind == "input_image" else "file"
            return Media(media, file_id=part["file_id"], opaque={"more": rest(part, ("type", "file_id")) or {}})
        case _:
            return Foreign(WIRE, part)


def _decode_result(item: Doc, *, of_built_in: bool) -> ToolResult:
    if item["type"] in _BUILT_IN_OUTPUTS:
        return ToolResult(item["call_id"], (Text(_built_in_text(item)),), opaque={"item": item})
    output = item.get("output")
    content = tuple(_decode_part(part) for part in dicts(output)) if isinstance(output, list) else (Text(_text(output)),)
    own = rest(item, ("type", "call_id", "output")) or {}
    if of_built_in or item["type"] == "custom_tool_call_output":
        own["type"] = item["type"]
    return ToolResult(as_text(item.get("call_id")), content, opaque=own or None)


def _built_in_text(item: Doc) -> str:
    output = item.get("output", item.get("tools"))
    parts = [as_text(part.get("stdout")) + as_text(part.get("stderr")) for part in dicts(output)]
    return "\n".join(parts) if any(parts) else _text(output)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else dumps_text(value)


def _decode_tool(item: Doc) -> Iterator[ToolDefinition]:
    match item.get("type"):
        case "function" | None:
            yield ToolDefinition(
                as_text(item.get("name")),
                as_text(item.get("description")),
                item.get("parameters"),
                strict=item.get("strict"),
                wire=WIRE,
                opaque=rest(item, ("type", "name", "description", "parameters", "strict")),
            )
        case "custom":
            form = rest(as_dict(item.get("format")), ("type",))
            yield ToolDefinition(
                as_text(item.get("name")),
                as_text(item.get("description")),
                kind="freeform",
                grammar=form,
                wire=WIRE,
                opaque=rest(item, ("type", "name", "description", "format")),
            )
        case "namespace":
            space = rest(item, ("type", "name", "tools"))
            for inner in dicts(item.get("tools")):
                for tool in _decode_tool(inner):
                    own = {**(tool.opaque or {}), **({"namespace": space} if space else {})}
                    yield replace(tool, namespace=as_text(item.get("name")), opaque=own or None)
        case _:
            yield ToolDefinition(_hosted_name(item), kind="hosted", wire=WIRE, opaque=item)


def _hosted_name(item: Doc) -> str:
    """The name of a hosted tool: its type; there may be several MCP servers, each with a label."""
    label = as_text(item.get("server_label"))
    return f"{as_text(item.get('type'))}:{label}" if label else as_text(item.get("type"))


def _decode_choice(choice: Any) -> ToolChoice | None:
    match choice:
        case "auto" | "none" | "required":
            return ToolChoice(choice)
        case {"type": "allowed_tools", "mode": mode, "tools": tools}:
            names = tuple(as_text(tool.get("name")) or _hosted_name(tool) for tool in dicts(tools))
            return ToolChoice("required" if mode == "required" else "auto", names)
        case {"type": "function" | "custom", "name": str(name)}:
            return ToolChoice("required", (name,))
        case {"type": str()} if "name" not in choice:
            return ToolChoice("required", (_hosted_name(choice),))
        case _:
            return None
