"""OpenAI Responses: Request -> body. History is a flat list of items; a turn of the assistant is several of them."""

from collections.abc import Iterator, Sequence
from typing import Any

from toolglot.jsontext import dumps_text
from toolglot.messages import Block, Foreign, Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from toolglot.request import Output, Request, ToolChoice, ToolDefinition
from toolglot.wire.history import count_leading_system
from toolglot.wire.json_values import Doc, as_dict, as_list, as_text, iter_dicts
from toolglot.wire.media import extract_file_text, to_data_url
from toolglot.wire.openai_common import encode_output_schema
from toolglot.wire.openai_responses.reply_decode import NATIVE_ITEMS
from toolglot.wire.options import encode_effort, encode_sampling, select_extras
from toolglot.wire.spec import OPENAI_RESPONSES
from toolglot.wire.tool_encoding import encode_function, encode_hosted, native_definition, select_chosen, select_tools
from toolglot.wire.writer import Writer, format_result_text, media_placeholder

__all__ = ["encode_body", "encode_call", "encode_message", "head_key", "leading_count"]


def leading_count(messages: Sequence[Message]) -> int:
    """How many leading messages are sent as `instructions`."""
    count = count_leading_system(messages)
    items = [index for index in range(count) if _came_as_item(messages[index])]
    return items[0] if items else count


def _came_as_item(message: Message) -> bool:
    """System and developer messages that came as items stay items."""
    return (
        message.origin is not None and message.origin.wire == OPENAI_RESPONSES and "instructions" not in (message.opaque or {})
    )


def head_key(request: Request, writer: Writer) -> object:
    """Nothing in the body depends on the history."""
    return None


def encode_message(message: Message, writer: Writer, where: str) -> list[Doc]:
    """One neutral message as input items."""
    match message.role:
        case "assistant":
            return list(_encode_assistant(message, writer, where))
        case "tool":
            return [_encode_result(result, message, writer, where) for result in message.results]
        case _:
            own = {"role": message.role, **writer.echo_opaque(message.opaque, message.origin, where)}
            own.pop("instructions", None)
            return [{**own, "content": _encode_content(message.blocks, message, writer, where)}]


def _encode_assistant(message: Message, writer: Writer, where: str) -> Iterator[Doc]:
    blocks = message.blocks
    at = 0
    while at < len(blocks):
        block = blocks[at]
        at += 1
        match block:
            case Text():
                group = [block]
                while (
                    at < len(blocks) and isinstance(more := blocks[at], Text) and _message_state(more) == _message_state(block)
                ):
                    group.append(more)
                    at += 1
                yield _encode_texts(group, message, writer, where)
            case Thinking():
                if not any(isinstance(later, Text | ToolCall | Foreign) for later in blocks[at:]):
                    writer.record_repair("reasoning item", where, "left out: what it led to is not there")
                else:
                    yield {"type": "reasoning", **_reasoning_fields(block)}
            case ToolCall():
                yield encode_call(block, message, writer, where)
            case Media():
                writer.record_loss(block.kind, where, f"{writer.profile.title} takes no media from the assistant")
            case Foreign() | ToolResult():  # results have a message of their own
                yield from [block.item] if isinstance(block, Foreign) else []


def _reasoning_fields(block: Thinking) -> Doc:
    own = {key: value for key, value in (block.opaque or {}).items() if key != "part"}
    return {"summary": [{"type": "summary_text", "text": block.text}] if block.text else [], **own}


def _message_state(block: Text) -> Opaque:
    return {key: value for key, value in (block.opaque or {}).items() if key not in ("part", "refusal")}


def _encode_texts(group: list[Text], message: Message, writer: Writer, where: str) -> Doc:
    """Texts of one assistant message."""
    state = writer.echo_opaque(_message_state(group[0]), message.origin, where)
    plain = not writer.owns_state(message.origin) or not (state or any(block.opaque for block in group))
    if plain and len(group) == 1:
        return {"role": "assistant", "content": group[0].text}
    parts: list[Doc] = []
    for block in group:
        own = {} if plain else block.opaque or {}
        if own.get("refusal"):
            parts.append({"type": "refusal", "refusal": block.text})
        else:
            parts.append({"type": "output_text", "text": block.text, **as_dict(own.get("part"))})
    return {"type": "message", "role": "assistant", **state, "content": parts}


def encode_call(call: ToolCall, message: Message, writer: Writer, where: str, *, verbatim: bool = False) -> Doc:
    """One call of a message or a reply. `verbatim`: arguments that are no JSON stay as they are."""
    own = writer.echo_opaque(call.opaque, message.origin, where)
    if item := own.get("item"):
        writer.built_in[call.id] = as_text(item["type"])
        return {**item, "call_id": writer.map_call_id(call.id, where)}
    if kind := _native_item_type(call, writer):
        writer.built_in[call.id] = kind
        value = {NATIVE_ITEMS[kind][1]: call.arguments, "status": "completed"}
        return {"type": kind, "call_id": writer.map_call_id(call.id, where), **value}
    head: Doc = {"call_id": writer.map_call_id(call.id, where), "name": writer.map_tool_name(call.name, call.namespace, where)}
    if call.namespace and writer.profile.features.namespaces:
        head["namespace"] = call.namespace
    if call.freeform:
        return {"type": "custom_tool_call", **head, "input": call.raw or "", **own}
    text = call.text if call.text.strip() else "{}"
    if call.arguments is None and not verbatim and not writer.owns_state(message.origin):
        text = dumps_text(writer.to_arguments_object(call, where))
    return {"type": "function_call", **head, "arguments": text, **own}


_OUTPUT_PART_KEYS = {"stdout", "stderr", "outcome"}
# Arguments without which a call is none of a built-in.
_REQUIRED_ARGUMENTS = {"shell_call": ("commands",), "apply_patch_call": ("type", "path")}


def _native_item_type(call: ToolCall, writer: Writer) -> str:
    """The type of item that a call of a tool is which the model knows by itself; "" for all others."""
    kind = f"{writer.native_types.get(call.name, '')}_call"
    fits = (
        kind in _REQUIRED_ARGUMENTS
        and call.arguments is not None
        and all(name in call.arguments for name in _REQUIRED_ARGUMENTS[kind])
    )
    return kind if fits else ""


def _encode_result(result: ToolResult, message: Message, writer: Writer, where: str) -> Doc:
    own = writer.echo_opaque(result.opaque, message.origin, where)
    id = writer.map_call_id(result.call_id, where)
    if item := own.get("item"):
        return {**item, "call_id": id}
    kind = writer.built_in.get(result.call_id)
    if kind and "type" not in own:
        return {"type": NATIVE_ITEMS[kind][2], "call_id": id, **_encode_native_output(kind, result, writer)}
    call = writer.calls.get(result.call_id)
    freeform = call.freeform if call and not kind else own.get("type") == "custom_tool_call_output"
    own = {key: value for key, value in own.items() if key != "type"}
    kind = "custom_tool_call_output" if freeform else "function_call_output"
    output: Any = format_result_text(result)
    if any(not isinstance(block, Text) for block in result.content):
        flag: tuple[Block, ...] = (Text("Error:"),) if result.is_error and not result.is_rendered else ()
        output = _encode_content((*flag, *result.content), message, writer, where)
    return {"type": kind, "call_id": id, "output": output, **own}


def _encode_native_output(kind: str, result: ToolResult, writer: Writer) -> Doc:
    """The result of a built-in that the client runs, in its own form: from the result's data where that has it."""
    match kind:
        case "shell_call":
            call = writer.calls.get(result.call_id)
            most = (call.arguments or {}).get("max_output_length") if call else None
            outcome: Doc = {"type": "exit", "exit_code": int(result.is_error)}
            parts = [part for part in iter_dicts(result.data) if part.keys() >= _OUTPUT_PART_KEYS]
            # the API wants the limit of the call back with its output (OpenAI's guide to the shell tool)
            limit = {"max_output_length": most} if most is not None else {}
            return {"output": parts or [{"stdout": result.text, "stderr": "", "outcome": outcome}], **limit}
        case "apply_patch_call":
            return {"status": "failed" if result.is_error else "completed", "output": result.text}
        case "tool_search_call":
            return {"execution": "client", "status": "completed", "tools": as_list(result.data)}
        case _:
            return {"output": result.text}


def _encode_content(blocks: Sequence[Block], message: Message, writer: Writer, where: str) -> Any:
    if len(blocks) == 1 and isinstance(blocks[0], Text) and not writer.echo_opaque(blocks[0].opaque, message.origin, where):
        return blocks[0].text
    return [part for block in blocks for part in _encode_part(block, message, writer, where)]


def _encode_part(block: Block, message: Message, writer: Writer, where: str) -> Iterator[Doc]:
    match block:
        case Text():
            yield {"type": "input_text", "text": block.text, **writer.echo_opaque(block.opaque, message.origin, where)}
        case Media():
            yield _encode_media(block, message, writer, where)
        case _:
            yield from [block.item] if isinstance(block, Foreign) else []


def _encode_media(media: Media, message: Message, writer: Writer, where: str) -> Doc:
    own = writer.echo_opaque(media.opaque, message.origin, where)
    more = as_dict(own.get("more"))
    kind = "input_image" if media.kind == "image" else "input_file"
    if media.file_id and writer.owns_state(message.origin):
        return {"type": kind, "file_id": media.file_id, **more}
    url = to_data_url(media)
    if media.kind == "image" and url:
        return {"type": kind, "image_url": url, **more}
    if media.kind == "file" and media.data and media.media_type == "application/pdf":
        return {"type": kind, "filename": media.name or "file.pdf", "file_data": url, **more}
    if media.kind == "file" and media.url and media.url.startswith("http"):
        return {"type": kind, "file_url": media.url, **more}
    if (text := extract_file_text(media)) is not None:
        return {"type": "input_text", "text": text}
    writer.record_loss(
        media.kind, where, f"{writer.profile.title} cannot be given it"
    )  # recorded 400: audio and video as files
    return {"type": "input_text", "text": media_placeholder(media).text}


def encode_body(request: Request, writer: Writer, system: Sequence[Message], input: list[Any]) -> Doc:
    """The body around the encoded items, which come last."""
    options, body = request.options, dict[str, Any]()
    extras = select_extras(request, writer)
    tools = _encode_tools(request, writer)
    body["model"] = request.model
    if instructions := [*_instruction_texts(system, writer), *writer.prompt_hints]:
        body["instructions"] = "\n\n".join(instructions)
    if options.max_tokens is not None:
        body["max_output_tokens"] = _clamp_max_tokens(options.max_tokens, writer)
    body.update(encode_sampling(options, writer))
    reasoning = as_dict(extras.pop("reasoning", None))
    if effort := encode_effort(options, writer):
        reasoning = {"effort": effort, **reasoning}
    if reasoning:
        body["reasoning"] = reasoning
    if options.thinking_budget is not None:
        writer.record_loss("thinking_budget", "options", f"{writer.profile.title} has no budget for thinking")
    if request.stream is not None:
        body["stream"] = request.stream
    text = as_dict(extras.pop("text", None))
    if request.output:
        text = {"format": _encode_format(request.output, writer), **text}
    if text:
        body["text"] = text
    return {**body, **tools, **extras, "input": input}


def _instruction_texts(system: Sequence[Message], writer: Writer) -> Iterator[str]:
    for message in system:
        for block in message.blocks:
            if isinstance(block, Media):
                writer.record_loss(block.kind, "system", "instructions are text")
            elif isinstance(block, Foreign):
                writer.record_loss(as_text(as_dict(block.item).get("type")), "system", "instructions are text")
        if message.text:
            yield message.text


def _clamp_max_tokens(tokens: int, writer: Writer) -> int:
    if tokens < 16:
        writer.record_repair(
            "max_tokens", "options", f"{tokens} is below the least that {writer.profile.title} takes; sent as 16"
        )
    return max(16, tokens)


def _encode_format(output: Output, writer: Writer) -> Doc:
    if output.schema is None:
        return {"type": "json_object"}
    schema, strict = encode_output_schema(output, writer)
    shape: Doc = {"type": "json_schema", "name": output.name, "schema": schema}
    if output.description:
        shape["description"] = output.description
    if strict is not None:
        shape["strict"] = strict
    return shape


def _encode_tools(request: Request, writer: Writer) -> Doc:
    tools, choice = select_tools(request, writer)
    encoded: list[Doc] = []
    spaces: dict[str, Doc] = {}
    for tool in tools:
        item = _encode_tool(tool, writer) or {}
        if not tool.namespace or not writer.profile.features.namespaces:
            encoded.append(item)
        elif tool.namespace in spaces:
            spaces[tool.namespace]["tools"].append(item)
        else:
            own = as_dict((tool.opaque or {}).get("namespace")) if tool.wire == OPENAI_RESPONSES else {}
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
        body["tool_choice"] = _encode_choice(choice, tools, writer)
    if request.parallel is not None:
        body["parallel_tool_calls"] = request.parallel
    return body


def _encode_tool(tool: ToolDefinition, writer: Writer) -> Doc | None:
    if tool.kind == "hosted":
        return encode_hosted(tool, writer)
    if known := native_definition(tool, writer):
        return known
    if tool.kind == "freeform":
        own = (tool.opaque or {}) if tool.wire == OPENAI_RESPONSES else {}
        custom: Doc = {"type": "custom", "name": writer.map_tool_name(tool.name, tool.namespace)}
        if tool.description:
            custom["description"] = tool.description
        if tool.grammar:
            custom["format"] = {"type": "grammar", **tool.grammar}
        return {**custom, **_without_namespace(own)}
    function = encode_function(tool, writer)
    body: Doc = {"type": "function", "name": function.name}
    if function.description:
        body["description"] = function.description
    # `strict` is always said: left out, the server tries strict and may change the schema (OpenAI's OpenAPI document)
    return {**body, "parameters": function.schema, "strict": function.strict, **_without_namespace(function.extra)}


def _without_namespace(state: Opaque) -> Opaque:
    return {key: value for key, value in state.items() if key != "namespace"}


def _encode_choice(choice: ToolChoice, tools: Sequence[ToolDefinition], writer: Writer) -> Any:
    if not choice.names:
        return choice.mode
    kinds = {"function": "function", "freeform": "custom"}
    named: list[Doc] = [
        _encode_hosted_choice(tool) if tool.name in writer.native_types else {"type": kinds[tool.kind], "name": name}
        for tool, name in select_chosen(choice, tools, writer)
    ]
    if len(named) == 1 and choice.mode == "required":
        return named[0]
    return {"type": "allowed_tools", "mode": choice.mode, "tools": named}


def _encode_hosted_choice(tool: ToolDefinition) -> Doc:
    kind, _, label = tool.name.partition(":")
    return {"type": kind, "server_label": label} if label else {"type": kind}
