"""OpenAI Responses: Request -> body.

The history is a flat list of items; an assistant message is several of them.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

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
    ToolsChanged,
)
from toolglot.values.request import Request, ToolChoice, ToolDefinition
from toolglot.wire.cache_marks import encode_cache_option, encode_mark
from toolglot.wire.history import count_leading_system
from toolglot.wire.ids import hash_id
from toolglot.wire.json_values import Doc, as_dict, as_list, as_text, iter_dicts, unknown_fields
from toolglot.wire.media import to_data_url
from toolglot.wire.openai_common import encode_output_schema
from toolglot.wire.openai_responses.reply_decode import NATIVE_ITEMS
from toolglot.wire.options import encode_effort, encode_sampling, select_extras
from toolglot.wire.spec import OPENAI_RESPONSES
from toolglot.wire.tool_encoding import (
    encode_callers,
    encode_function,
    is_usable,
    native_definition,
    select_chosen,
    select_tools,
)
from toolglot.wire.tools_over_time import describe_loaded
from toolglot.wire.writer import Writer, format_result_text

__all__ = ["encode_body", "encode_call", "encode_message", "leading_count"]

_MIN_MAX_TOKENS = 16  # the least value that the API is believed to accept
# Ids of items that the API accepts (not of their `call_id`); compatible servers use others.
_ITEM_IDS = {
    kind: re.compile(rf"(?!.{{65}}){prefix}[a-zA-Z0-9_-]*")
    for kind, prefix in {
        "function_call": "fc",
        "custom_tool_call": "ctc",
        "message": "msg",
        "reasoning": "rs",
    }.items()
}
_SHELL_OUTPUT_KEYS = {"stdout", "stderr", "outcome"}
# Arguments without which a call cannot be sent as the native item of a trained tool.
_REQUIRED_ARGUMENTS = {
    "shell_call": ("commands",),
    "apply_patch_call": ("type", "path"),
    "tool_search_call": (),
}


def leading_count(messages: Sequence[Message]) -> int:
    """Count the leading system messages that are sent as `instructions`.

    Those that came as items stay items.
    """
    count = count_leading_system(messages)
    for index, message in enumerate(messages[:count]):
        if any(isinstance(block, ToolsChanged) for block in message.blocks):  # an item of its own
            return index
        is_own = message.origin is not None and message.origin.wire == OPENAI_RESPONSES
        came_as_instructions = "instructions" in (message.opaque or {})
        if is_own and not came_as_instructions:
            return index
    return count


def encode_message(message: Message, writer: Writer) -> list[Doc]:
    """Encode one neutral message as input items."""
    if message.role == "assistant":
        items = [_check_id(item, writer) for item in encode_assistant(message, writer)]
        return list(filter(None, items))
    if message.role == "tool":
        results = [encode_result(result, writer) for result in message.results]
        return [*results, *encode_loaded(message, writer)]
    changes = [encode_change(block, writer) for block in message.blocks if isinstance(block, ToolsChanged)]
    encoded = list(filter(None, changes))
    others = [block for block in message.blocks if not isinstance(block, ToolsChanged)]
    if others:
        state = {"role": message.role, **writer.echo_opaque(message.opaque)}
        state.pop("instructions", None)  # our own mark, not a field
        encoded.append({**state, "content": _encode_content(others, writer)})
    return encoded


def encode_assistant(message: Message, writer: Writer) -> Iterator[Doc]:
    """Encode a message of the assistant.

    Neighbouring texts with the same state (id, status, phase) were parts of one item.
    """
    group: list[Text] = []
    for index, block in enumerate(message.blocks):
        if group and not _continues(block, group[0]):
            yield _encode_texts(group, writer)
            group = []
        if isinstance(block, Text):
            group.append(block)
        elif item := _encode_block(block, message.blocks[index + 1 :], writer):
            yield item
    if group:
        yield _encode_texts(group, writer)


def _continues(block: Block, text: Text) -> bool:
    """Return whether a block belongs to the same item as a text before it."""
    return isinstance(block, Text) and _item_state(block) == _item_state(text)


def _encode_block(block: Block, following: Sequence[Block], writer: Writer) -> Doc | None:
    """Encode a block that is an item of its own; None if there is no form for it."""
    match block:
        case Thinking():
            return _encode_thinking(block, following, writer)
        case ToolCall():
            return encode_call(block, writer)
        case Media():
            writer.record_loss(block.kind, f"{writer.profile.title} accepts no media from the assistant")
            return None
        case Foreign():
            return block.item
        case ToolsChanged():
            return encode_change(block, writer)
        case _:  # results have a message of their own
            return None


def _encode_thinking(thinking: Thinking, following: Sequence[Block], writer: Writer) -> Doc | None:
    """Encode a reasoning item, unless nothing is left of what followed it."""
    # 400 "Item 'rs_…' of type 'reasoning' was provided without its required following item."
    if not any(isinstance(block, Text | ToolCall | Foreign) for block in following):
        writer.record_repair("reasoning item", "dropped: the item that followed it is missing")
        return None
    state = unknown_fields(thinking.opaque or {}, ("part",)) or {}
    summary = [{"type": "summary_text", "text": thinking.text}] if thinking.text else []
    return {"type": "reasoning", "summary": summary, **state}  # `summary` is required, even if empty


def _check_id(item: Doc, writer: Writer) -> Doc | None:
    """Drop the id of a call, or replace that of another item, if the API refuses it.

    A repeated item may be dropped whole.
    """
    kind = as_text(item.get("type"))
    id = item.get("id")
    if not isinstance(id, str):
        return item
    # 400 "Expected an ID that begins with 'fc'". 400 "Duplicate item found with id …".
    if kind in _ITEM_IDS and not _ITEM_IDS[kind].fullmatch(id):
        if kind.endswith("_call"):
            writer.record_repair(f"item id {id!r}", f"not valid for {writer.profile.title}; left out")
            return unknown_fields(item, ("id",)) or {}
        # Reasoning and the message after it are paired by their ids.
        writer.record_repair(f"item id {id!r}", f"not valid for {writer.profile.title}; replaced")
        prefix = "rs" if kind == "reasoning" else "msg"
        id = f"{prefix}_{hash_id(id, 20)}"
        item = {**item, "id": id}
    if id not in writer.item_ids:
        writer.item_ids.add(id)
        return item
    if kind == "reasoning" or kind not in _ITEM_IDS:
        writer.record_repair(f"item {id!r}", "dropped: it was already sent")
        return None
    writer.record_repair(f"item id {id!r}", "used twice; left out")
    return unknown_fields(item, ("id",)) or {}


def _item_state(block: Text) -> Opaque:
    return unknown_fields(block.opaque or {}, ("part", "refusal")) or {}


def _encode_texts(group: list[Text], writer: Writer) -> Doc:
    """Encode texts of one assistant item."""
    first = group[0]
    state = writer.echo_opaque(_item_state(first))
    has_state = bool(state) or (writer.is_own and bool(first.opaque))
    if len(group) == 1 and not has_state:
        # llama.cpp refuses it without the type
        return {"type": "message", "role": "assistant", "content": first.text}
    parts: list[Doc] = []
    for block in group:
        own_state = (block.opaque or {}) if writer.is_own else {}
        if own_state.get("refusal"):
            parts.append({"type": "refusal", "refusal": block.text})
        else:
            parts.append({"type": "output_text", "text": block.text, **as_dict(own_state.get("part"))})
    return {"type": "message", "role": "assistant", **state, "content": parts}


def encode_change(change: ToolsChanged, writer: Writer) -> Doc | None:
    """Encode tools that come from here on: what a search of the provider found, or an item of the caller."""
    state = writer.echo_opaque(change.opaque)
    tools = _bring_tools(change, writer)
    if "item" in state:
        return state["item"]
    encoded = _encode_definitions(tools, writer)
    if not encoded:
        return None
    return {"type": "additional_tools", "role": "developer", "tools": encoded, **state}


def encode_loaded(message: Message, writer: Writer) -> Iterator[Doc]:
    """Encode the tools that results loaded, unless the output of a `tool_search_call` has them."""
    for result in message.results:
        if writer.native_item_types.get(result.call_id) == "tool_search_call":
            continue
        for change in _list_changes(result):
            if item := encode_change(change, writer):
                yield item


def _list_changes(result: ToolResult) -> list[ToolsChanged]:
    """Return the changes of the tools that a result brings."""
    return [block for block in result.content if isinstance(block, ToolsChanged)]


def _list_parts(result: ToolResult) -> list[Block]:
    """Return the content of a result without the changes of the tools."""
    return [block for block in result.content if not isinstance(block, ToolsChanged)]


def _bring_tools(change: ToolsChanged, writer: Writer) -> list[ToolDefinition]:
    """Return the tools that a change brings. They are known from here on."""
    tools = {tool.qualified_name: tool for tool in change.added}
    writer.known_tools = {**writer.known_tools, **tools}
    for name in change.loaded:
        if name in writer.known_tools:
            tools[name] = replace(writer.known_tools[name], deferred=False)
    for name in writer.plan.removed:
        tools.pop(name, None)
    callable_names = {name for name, tool in tools.items() if not tool.deferred}
    writer.inline_names |= callable_names & writer.plan.inline.keys()
    return list(tools.values())


def _encode_definitions(tools: Sequence[ToolDefinition], writer: Writer) -> list[Doc]:
    return _group_tools([tool for tool in tools if is_usable(tool, writer)], writer)


def encode_call(call: ToolCall, writer: Writer, *, verbatim: bool = False) -> Doc:
    """Encode one call of a message or a reply. `verbatim` keeps arguments that are not JSON."""
    state = writer.echo_opaque(call.opaque)
    if item := state.get("item"):
        writer.native_item_types[call.id] = as_text(item["type"])
        return {**item, "call_id": writer.map_call_id(call.id)}
    native_type = _find_native_type(call, writer)
    if native_type is not None:
        writer.native_item_types[call.id] = native_type
        fields = {NATIVE_ITEMS[native_type][1]: call.arguments, "status": "completed"}
        if native_type == "tool_search_call":
            fields["execution"] = "client"
        return {"type": native_type, "call_id": writer.map_call_id(call.id), **fields}
    head: Doc = {
        "call_id": writer.map_call_id(call.id),
        "name": writer.map_tool_name(call.name, call.namespace),
    }
    if writer.profile.features.namespaces:
        if call.namespace:
            head["namespace"] = call.namespace  # required for tools that were found by tool_search
        elif call.name in writer.inline_names:
            # 400 "… does not exist in the default namespace": a tool of an item is in a namespace of its own
            # name.
            head["namespace"] = head["name"]
    if call.freeform:
        return {"type": "custom_tool_call", **head, "input": call.raw or "", **state}
    text = call.text if call.text.strip() else "{}"
    takes_raw = verbatim or writer.takes_raw_arguments
    if call.arguments is None and not takes_raw:
        text = dumps_text(writer.to_arguments_object(call))
    return {"type": "function_call", **head, "arguments": text, **state}


def _find_native_type(call: ToolCall, writer: Writer) -> str | None:
    """Return the item that a call of a native tool becomes; None for a function, and if the item's fields are
    missing.
    """
    tool = writer.known_tools.get(call.name)
    if tool is not None and _is_client_search(tool):
        native_type = "tool_search_call"
    else:
        native_type = f"{writer.native_types.get(call.name, '')}_call"
    required = _REQUIRED_ARGUMENTS.get(native_type)
    if required is None or call.arguments is None:
        return None
    if not all(name in call.arguments for name in required):
        return None
    return native_type


def encode_result(result: ToolResult, writer: Writer) -> Doc:
    state = dict(writer.echo_opaque(result.opaque))
    id = writer.map_call_id(result.call_id)
    native_type = writer.native_item_types.get(result.call_id, "")
    changes = _list_changes(result)
    loaded: list[ToolDefinition] = []
    if native_type == "tool_search_call":  # its output has the tools; otherwise they follow (`encode_loaded`)
        for change in changes:
            loaded += _bring_tools(change, writer)
    if item := state.get("item"):
        return {**item, "call_id": id}
    if native_type == "tool_search_call":
        tools = as_list(result.data)
        if changes:
            tools = _encode_definitions([replace(tool, deferred=True) for tool in loaded], writer)
        if changes or tools:
            head = {"type": "tool_search_output", "call_id": id, "execution": "client", "status": "completed"}
            return {**head, "tools": tools}
    call = writer.calls.get(result.call_id)
    # Codex (0.77) answers a local_shell_call as a function: the schema of its own output has no call_id.
    has_own_item = native_type not in ("", "tool_search_call", "local_shell_call")
    if has_own_item and "type" not in state:
        return {
            "type": NATIVE_ITEMS[native_type][2],
            "call_id": id,
            **_native_output(native_type, result, call),
        }
    own_type = state.pop("type", None)
    if call and not native_type:
        is_freeform = call.freeform
    else:
        is_freeform = own_type == "custom_tool_call_output"
    kind = "custom_tool_call_output" if is_freeform else "function_call_output"
    if changes and not result.text.strip():
        output = describe_loaded(changes, writer)
    elif _is_text(result):
        output = format_result_text(result)
    else:
        output = _encode_parts(result, writer)
    return {"type": kind, "call_id": id, "output": output, **state}


def _encode_parts(result: ToolResult, writer: Writer) -> Any:
    """Encode the content of a result that is more than text."""
    parts = _list_parts(result)
    last = parts[-1]
    # the mark of the whole result stands on its last part
    if result.cache and isinstance(last, Text | Media):
        parts[-1] = replace(last, cache=result.cache)
    if result.is_error and not result.is_rendered:
        parts.insert(0, Text("Error:"))
    return _encode_content(parts, writer)


def _is_text(result: ToolResult) -> bool:
    """Return whether text says all of a result: it has no media, and no marks for the prompt cache."""
    parts = _list_parts(result)
    if parts and _has_marks(result):
        return False
    return all(isinstance(block, Text) for block in parts)


def _has_marks(result: ToolResult) -> bool:
    """Return whether a part of a result, or the whole result, is marked for the prompt cache."""
    if result.cache:
        return True
    return any(isinstance(block, Text | Media) and block.cache for block in result.content)


def _native_output(native_type: str, result: ToolResult, call: ToolCall | None) -> Doc:
    """Encode the result of a built-in tool that the client runs, from the result's data if that has the form."""
    match native_type:
        case "shell_call":
            return _shell_output(result, call)
        case "apply_patch_call":
            status = "failed" if result.is_error else "completed"
            return {"status": status, "output": result.text}
        case _:
            return {"output": result.text}


def _shell_output(result: ToolResult, call: ToolCall | None) -> Doc:
    parts = [part for part in iter_dicts(result.data) if part.keys() >= _SHELL_OUTPUT_KEYS]
    if not parts:
        outcome: Doc = {"type": "exit", "exit_code": int(result.is_error)}
        parts = [{"stdout": result.text, "stderr": "", "outcome": outcome}]
    output: Doc = {"output": parts}
    # The call's limit should be passed back with the raw output (openai SDK 3.49).
    arguments = (call.arguments if call else None) or {}
    if arguments.get("max_output_length") is not None:
        output["max_output_length"] = arguments["max_output_length"]
    return output


def _encode_content(blocks: Sequence[Block], writer: Writer) -> Any:
    if len(blocks) == 1:
        only = blocks[0]
        if isinstance(only, Text) and not only.cache and not writer.echo_opaque(only.opaque):
            return only.text
    parts: list[Doc] = []
    for block in blocks:
        match block:
            case Text():
                mark = encode_mark(block, writer)
                parts.append(
                    {"type": "input_text", "text": block.text, **mark, **writer.echo_opaque(block.opaque)}
                )
            case Media():
                parts.append({**encode_media(block, writer), **encode_mark(block, writer)})
            case Foreign():
                parts.append(block.item)
            case _:
                pass
    return parts


def encode_media(media: Media, writer: Writer) -> Doc:
    """Encode media as a part; as text if the API has no form for it (audio as a file: recorded 400)."""
    extra = as_dict(writer.echo_opaque(media.opaque).get("more"))
    kind = "input_image" if media.kind == "image" else "input_file"
    if media.file_id and writer.is_own:  # a file id means nothing elsewhere
        return {"type": kind, "file_id": media.file_id, **extra}
    url = to_data_url(media)
    if media.kind == "image" and url:
        image: Doc = {"type": kind, "image_url": url}
        if media.detail:
            image["detail"] = media.detail
        return image | extra
    if media.kind == "file":
        if media.data and media.media_type == "application/pdf":
            return {"type": kind, "filename": media.name or "file.pdf", "file_data": url, **extra}
        if media.url and media.url.startswith("http"):
            return {"type": kind, "file_url": media.url, **extra}
    return {"type": "input_text", "text": writer.replace_media(media)}


def encode_body(request: Request, writer: Writer, system: Sequence[Message], input: list[Any]) -> Doc:
    """Encode the body around the encoded items, which come last."""
    options = request.options
    extras = select_extras(request, writer)
    tools = encode_tools(request, writer)
    body: Doc = {"model": request.model}
    for message in system:
        _report_lost_media(message, writer)
    instructions = [message.text for message in system if message.text]
    instructions += writer.prompt_hints
    if instructions:
        body["instructions"] = "\n\n".join(instructions)
    if options.max_tokens is not None:
        body["max_output_tokens"] = max(_MIN_MAX_TOKENS, options.max_tokens)
        if options.max_tokens < _MIN_MAX_TOKENS:
            reason = (
                f"{options.max_tokens} is below the minimum of {writer.profile.title}; sent as "
                f"{_MIN_MAX_TOKENS}"
            )
            writer.record_repair("max_tokens", reason, at="options")
    body.update(encode_sampling(options, writer))
    body.update(encode_cache_option(options, writer))
    reasoning = as_dict(extras.pop("reasoning", None))
    if effort := encode_effort(options, writer):
        reasoning = {"effort": effort, **reasoning}
    if reasoning:
        body["reasoning"] = reasoning
    if options.thinking_budget is not None:
        writer.record_loss("thinking_budget", f"{writer.profile.title} has no thinking budget", at="options")
    if request.stream is not None:
        body["stream"] = request.stream
    text = as_dict(extras.pop("text", None))
    if request.output and request.output.schema is None:
        text = {"format": {"type": "json_object"}, **text}
    elif request.output:
        text = {"format": {"type": "json_schema", **encode_output_schema(request.output, writer)}, **text}
    if text:
        body["text"] = text
    return {**body, **tools, **extras, "input": input}


def _report_lost_media(message: Message, writer: Writer) -> None:
    """Record what a message has besides text: instructions have no place for it."""
    for block in message.blocks:
        if isinstance(block, Text):
            continue
        subject = (
            block.kind
            if isinstance(block, Media)
            else as_text(as_dict(getattr(block, "item", None)).get("type"))
        )
        writer.record_loss(subject, "instructions are text", at="system")


def encode_tools(request: Request, writer: Writer) -> Doc:
    tools, choice = select_tools(request, writer)
    encoded = _group_tools(tools, writer)
    if not encoded and not writer.plan.inline:
        return {}
    body: Doc = {"tools": encoded} if encoded else {}
    if choice:
        body["tool_choice"] = encode_choice(choice, tools, writer)
    if request.parallel is not None:
        body["parallel_tool_calls"] = request.parallel
    return body


def _group_tools(tools: Sequence[ToolDefinition], writer: Writer) -> list[Doc]:
    """Encode tools, those of a namespace together."""
    encoded: list[Doc] = []
    namespaces: dict[str, Doc] = {}
    for tool in tools:
        item = encode_tool(tool, writer)
        if not tool.namespace or not writer.profile.features.namespaces:
            encoded.append(item)
        elif tool.namespace in namespaces:
            namespaces[tool.namespace]["tools"].append(item)
        else:
            extra = as_dict(_own_fields(tool).get("namespace"))
            head: Doc = {"type": "namespace", "name": tool.namespace, "description": tool.namespace}
            namespace: Doc = {**head, **extra, "tools": [item]}
            namespaces[tool.namespace] = namespace
            encoded.append(namespace)
    return encoded


def encode_tool(tool: ToolDefinition, writer: Writer) -> Doc:
    if native := native_definition(tool, writer):
        return native
    if _is_client_search(tool):
        fields = {"description": tool.description, "parameters": tool.parameters}
        given = {key: value for key, value in fields.items() if value}
        return {"type": "tool_search", "execution": "client", **given, **(tool.opaque or {})}
    if tool.kind == "freeform":
        extra = {**encode_callers(tool, writer), **_own_fields(tool)}
        encoded: Doc = {"type": "custom", "name": writer.map_tool_name(tool.name, tool.namespace)}
        if tool.description:
            encoded["description"] = tool.description
        if tool.grammar:
            encoded["format"] = {"type": "grammar", **tool.grammar}
    else:
        function = encode_function(tool, writer)
        extra = function.extra
        # `strict` is always sent: if it is missing, the server tries strict and may change the schema
        # (OpenAPI document).
        encoded = {"type": "function", **function.to_fields(), "strict": function.strict}
    if tool.deferred:
        encoded["defer_loading"] = True
    return {**encoded, **(unknown_fields(extra, ("namespace",)) or {})}


def _own_fields(tool: ToolDefinition) -> Doc:
    """Return the fields without a neutral form that a tool of this wire came with."""
    if tool.wire != OPENAI_RESPONSES:
        return {}
    return tool.opaque or {}


def _is_client_search(tool: ToolDefinition) -> bool:
    """Return whether a tool came as a `tool_search` that the caller runs.

    Any other search stays a function.
    """
    return tool.finds_tools and tool.kind == "function" and tool.wire == OPENAI_RESPONSES


def encode_choice(choice: ToolChoice, tools: Sequence[ToolDefinition], writer: Writer) -> Any:
    if not choice.names:
        return choice.mode
    named: list[Doc] = []
    for tool, name in select_chosen(choice, tools, writer):
        # hosted and trained tools are chosen by type; an MCP server has a label
        if tool.name in writer.native_types:
            kind, _, label = tool.name.partition(":")
            reference = {"type": kind}
            if label:
                reference["server_label"] = label
        else:
            kind = "custom" if tool.kind == "freeform" else "function"
            reference = {"type": kind, "name": name}
        named.append(reference)
    if len(named) == 1 and choice.mode == "required":
        return named[0]
    return {"type": "allowed_tools", "mode": choice.mode, "tools": named}
