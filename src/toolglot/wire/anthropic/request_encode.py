"""Anthropic Messages: Request -> body.

Results are blocks of a user message; instructions are outside of the messages.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from toolglot.schema import dialects
from toolglot.schema.lower import lower
from toolglot.values.definitions import CacheMark
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
from toolglot.values.request import Options, Request, ToolChoice, ToolDefinition
from toolglot.wire.cache_marks import encode_mark, format_mark
from toolglot.wire.history import count_leading_system as leading_count
from toolglot.wire.json_values import Doc, as_dict, unknown_fields
from toolglot.wire.media import extract_file_text, guess_media_type
from toolglot.wire.options import encode_effort, encode_sampling, select_extras
from toolglot.wire.spec import ANTHROPIC_MESSAGES, SPECS
from toolglot.wire.tool_encoding import encode_function, native_definition, select_chosen, select_tools
from toolglot.wire.writer import Writer, is_blank, join_plain

__all__ = ["encode_block", "encode_body", "encode_end", "encode_message", "head_key", "leading_count"]

_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")  # the types that the API knows
_MIN_THINKING_BUDGET = 1024
_DEFAULT_MAX_TOKENS = 4096
_CHOICES = {"auto": "auto", "none": "none", "required": "any"}


def head_key(request: Request, writer: Writer) -> object:
    """Thinking can be enabled only in a tool loop that began with it."""
    return request.options.thinking_budget is not None and _is_loop_without_thinking(request.messages, writer)


def encode_message(message: Message, writer: Writer) -> list[Doc]:
    """Encode one neutral message. Consecutive messages of one role stay separate: the API merges them."""
    if message.role == "system":
        return _encode_late_system(message, writer)
    if message.role == "tool":
        # All results of a turn must be in one message: 400 "`tool_use` ids were found without `tool_result`
        # blocks".
        return [{"role": "user", "content": [encode_result(result, writer) for result in message.results]}]
    before: list[Doc] = []
    if message.role == "assistant":
        before = encode_end(writer)
        writer.held_items = []
    content = join_plain(_encode_blocks(message.blocks, writer, message.role))
    return [*before, {"role": message.role, "content": content}]


def _encode_late_system(message: Message, writer: Writer) -> list[Doc]:
    """Encode a system message in the middle: Anthropic's own, changes of the tools, or else the words of a
    user.
    """
    if writer.is_own:
        return [{"role": "system", "content": _encode_blocks(message.blocks, writer, "system")}]
    changes = [block for block in message.blocks if isinstance(block, ToolsChanged)]
    for change in changes:
        writer.held_items += _encode_change(change, writer, "system")
    if len(changes) == len(message.blocks):
        return []
    # Older models: 400 "role 'system' is not supported on this model"; Sonnet 5 accepts and ignores it.
    writer.record_repair("system message", "not at the start; sent as a user message")
    return [{"role": "user", "content": f"<system>\n{message.text}\n</system>"}]


def encode_end(writer: Writer) -> list[Doc]:
    """Encode changes of the tools: they stand right before an assistant message, or at the end (Anthropic's
    documentation).
    """
    return [{"role": "system", "content": list(writer.held_items)}] if writer.held_items else []


def _encode_blocks(blocks: Sequence[Block], writer: Writer, place: str) -> list[Doc]:
    encoded: list[Doc] = []
    for block in blocks:
        if isinstance(block, ToolsChanged):
            encoded += _encode_change(block, writer, place)
        elif item := encode_block(block, writer, is_head=place == "start"):
            encoded.append(item)
    return encoded


def _encode_change(change: ToolsChanged, writer: Writer, place: str) -> list[Doc]:
    """Encode references to tools of the head: of a result, or of a system message."""
    state = writer.echo_opaque(change.opaque)
    if "item" in state:  # what a search of the provider found
        return [state["item"]]
    if "tool" in state:
        return [{"type": "tool_addition", **state}]
    if place in ("user", "assistant"):  # of a result without its call: there is no form for it
        return []
    added = [tool.qualified_name for tool in change.added]
    brought = _name_references(dict.fromkeys((*added, *change.loaded)), writer)
    if place == "tool":
        return [{"type": "tool_reference", "tool_name": name, **state} for name in brought]
    removed = _name_references(change.removed, writer)
    items = [
        {"type": "tool_addition", "tool": {"type": "tool_reference", "name": name}, **state}
        for name in brought
    ]
    items += [
        {"type": "tool_removal", "tool": {"type": "tool_reference", "name": name}, **state}
        for name in removed
    ]
    return items


def _name_references(names: Iterable[str], writer: Writer) -> list[str]:
    """Return the names on the wire of the tools that may be referred to."""
    # a reference to a tool that is not in the head is refused (`tool_reference_unresolved`)
    if not writer.is_own:
        names = [name for name in names if name in writer.plan.referable]
    return [_reference_name(name, writer) for name in names]


def _reference_name(name: str, writer: Writer) -> str:
    tool = writer.plan.known.get(name)
    return writer.map_tool_name(tool.name, tool.namespace) if tool else writer.map_tool_name(name)


def encode_block(block: Block, writer: Writer, *, is_head: bool = False) -> Doc | None:
    """Encode one block of a message or a reply. `is_head`: it is sent outside of the history."""
    match block:
        case Text():
            mark = encode_mark(block, writer, is_head=is_head)
            return {"type": "text", "text": block.text, **mark, **writer.echo_opaque(block.opaque)}
        case Thinking():
            # Sent back byte for byte, even without text: 400 "`thinking` or `redacted_thinking` blocks …
            # cannot be modified".
            state = block.opaque or {}
            if "redacted" in state:
                return {"type": "redacted_thinking", "data": state["redacted"]}
            return {"type": "thinking", "thinking": block.text, **state}
        case ToolCall():
            name = writer.map_tool_name(block.name, block.namespace)
            head: Doc = {"type": "tool_use", "id": writer.map_call_id(block.id), "name": name}
            arguments = writer.to_arguments_object(block)
            return {
                **head,
                "input": arguments,
                **encode_mark(block, writer),
                **writer.echo_opaque(block.opaque),
            }
        case Media():
            return {**encode_media(block, writer), **encode_mark(block, writer, is_head=is_head)}
        case Foreign():
            return block.item
        case ToolsChanged():  # of a reply
            return writer.echo_opaque(block.opaque).get("item")
        case ToolResult():  # results have a message of their own
            return None


def encode_result(result: ToolResult, writer: Writer) -> Doc:
    encoded: Doc = {"type": "tool_result", "tool_use_id": writer.map_call_id(result.call_id)}
    blocks = [block for block in result.content if not is_blank(block)]
    if blocks:  # omitted rather than []: an empty list is not portable
        parts = _encode_blocks(blocks, writer, "tool")
        encoded["content"] = join_plain(parts) if parts else "No tools were loaded."
    if result.is_error:
        encoded["is_error"] = True
        encoded.setdefault("content", "Error")  # an error without content is believed to be refused
    return {**encoded, **encode_mark(result, writer), **writer.echo_opaque(result.opaque)}


def encode_media(media: Media, writer: Writer) -> Doc:
    state = writer.echo_opaque(media.opaque)
    source = state.get("source") or _encode_source(media)
    if source:
        kind = "image" if media.kind == "image" else "document"
        return {"type": kind, "source": source, **(unknown_fields(state, ("source",)) or {})}
    reason = f"{writer.profile.title} does not accept {media.media_type or media.url or 'it'}"
    return {"type": "text", "text": writer.replace_media(media, reason)}


def _encode_source(media: Media) -> Doc | None:
    """Return where the API finds the data of an image or a document; None if it takes no such data."""
    has_address = media.url is not None and media.url.startswith("http")
    if has_address and media.kind in ("image", "file"):
        return {"type": "url", "url": media.url}
    media_type = media.media_type or guess_media_type(media)
    if media.data is not None and _is_accepted_type(media, media_type):
        return {"type": "base64", "media_type": media_type, "data": media.data}
    text = extract_file_text(media)
    if text is None:
        return None
    return {"type": "text", "media_type": "text/plain", "data": text}


def _is_accepted_type(media: Media, media_type: str) -> bool:
    """Return whether the API takes data of this type: of images, and PDF whatever it is called."""
    if media_type == "application/pdf":
        return True
    return media.kind == "image" and media_type in _IMAGE_TYPES


def encode_body(request: Request, writer: Writer, system: Sequence[Message], messages: list[Any]) -> Doc:
    """Encode the body around the encoded messages, which come last."""
    options = request.options
    extras = select_extras(request, writer)
    max_tokens = options.max_tokens
    if max_tokens is None:
        max_tokens = writer.profile.default_max_tokens or _DEFAULT_MAX_TOKENS
        writer.record_repair(
            "max_tokens", f"{writer.profile.title} requires it; {max_tokens} was added", at="options"
        )
    body: Doc = {"model": request.model, "max_tokens": max_tokens}
    tools, choice = select_tools(request, writer)
    if instructions := _encode_system(system, writer):
        body["system"] = instructions
    sampling = encode_sampling(options, writer)
    # blank ones are left out: they are believed to be refused
    if stops := sampling.pop("stop_sequences", None):
        sampling["stop_sequences"] = [stop for stop in stops if stop.strip()]
        for _ in range(len(stops) - len(sampling["stop_sequences"])):
            writer.record_loss("stop", "a stop sequence must not be blank", at="options")
    encoded = [encode_tool(tool, writer) for tool in tools]
    wire_choice = encode_choice(choice, tools, request.parallel, writer) if encoded else None
    if thinking := encode_thinking(request, wire_choice, max_tokens, writer):
        body["thinking"] = thinking
        if "temperature" in sampling and sampling["temperature"] != 1:
            writer.record_loss("temperature", "it must be 1 while thinking is enabled", at="options")
            del sampling["temperature"]
    body.update(sampling)
    if config := encode_output_config(request, as_dict(extras.pop("output_config", None)), writer):
        body["output_config"] = config
    if request.stream is not None:
        body["stream"] = request.stream
    if options.cache and "cache_control" not in extras:
        # The API moves the top-level mark to the last block by itself: what was sent before stays
        # byte-identical.
        body |= _mark_head(options, encoded, writer)
    if encoded:
        body["tools"] = encoded
    if wire_choice:
        body["tool_choice"] = wire_choice
    return {**body, **extras, "messages": messages}


def _mark_head(options: Options, tools: list[Doc], writer: Writer) -> Doc:
    """Return the mark of the body, and put one on the last tool that is a part of the cached prompt: not a
    deferred one.
    """
    writer.enter("options")
    wanted = options.cache if isinstance(options.cache, CacheMark) else CacheMark()
    mark = format_mark(wanted, writer)
    for index in reversed(range(len(tools))):
        if not tools[index].get("defer_loading"):
            tools[index] = {**mark, **tools[index]}
            break
    return mark


def _encode_system(system: Sequence[Message], writer: Writer) -> Any:
    """Encode instructions and prompt hints, without blank text, which is refused."""
    encoded: list[Doc] = []
    for message in system:
        writer.enter("system", message.origin)
        blocks = [block for block in message.blocks if not is_blank(block)]
        if len(blocks) < len(message.blocks):
            writer.record_repair("blank text", "dropped")
        encoded += _encode_blocks(blocks, writer, "start")
    encoded += ({"type": "text", "text": hint} for hint in writer.prompt_hints)
    return join_plain(encoded)


def encode_thinking(request: Request, choice: Doc | None, max_tokens: int, writer: Writer) -> Doc | None:
    """Encode extended thinking if the rest of the request permits it."""
    budget = request.options.thinking_budget
    if budget is None or budget <= 0:
        return None
    reason = ""
    if not writer.profile.thinking_budget:  # Opus 4.7 and all 5.x models decide themselves how much to think
        reason = f"{writer.model} accepts no thinking budget"
    elif choice and choice["type"] in ("any", "tool"):
        # 400 "Thinking may not be enabled when tool_choice forces tool use"
        reason = "a forced tool choice excludes thinking"
    elif max_tokens <= _MIN_THINKING_BUDGET:
        reason = f"max_tokens ({max_tokens}) leaves no room for it"
    elif _is_loop_without_thinking(request.messages, writer):
        reason = "the current tool loop began without thinking"
    if reason:
        writer.record_loss("thinking_budget", reason, at="options")
        return None
    return {"type": "enabled", "budget_tokens": max(_MIN_THINKING_BUDGET, min(budget, max_tokens - 1))}


def _is_loop_without_thinking(messages: Sequence[Message], writer: Writer) -> bool:
    """Return whether the conversation ends in a tool loop whose first message does not start with thinking.

    400 "a final `assistant` message must start with a thinking block". A user message after results belongs
    to the loop: the API merges the two. So do messages that follow each other without one.
    """
    first: Message | None = None
    is_adjacent = True  # nothing of the user stands between the message and the loop after it
    for message in reversed(messages):
        # What is not sent separates nothing: blank messages, and those that only hold the thinking of another
        # model.
        if not any(_is_sent(block, message, writer) for block in message.blocks):
            continue
        if message.role != "assistant":
            is_adjacent = False
        elif message.calls or is_adjacent:
            first = message
            is_adjacent = True
        else:
            break
    if first is None:
        return False
    starts_with_thinking = bool(first.blocks) and isinstance(first.blocks[0], Thinking)
    return not starts_with_thinking or not writer.owns_state(first.origin)


def _is_sent(block: Block, message: Message, writer: Writer) -> bool:
    if isinstance(block, Thinking):
        return writer.owns_state(message.origin)
    return not is_blank(block)


def encode_output_config(request: Request, extra: Doc, writer: Writer) -> Doc:
    """Encode effort and structured output."""
    config = dict(extra)
    if effort := encode_effort(request.options, writer):
        config = {"effort": effort, **config}
    if (output := request.output) is None:
        return config
    if output.schema is None:
        writer.record_loss("output", f"{writer.profile.title} has no JSON mode without a schema", at="output")
        return config
    # always constrained: there is no lax mode
    dialect = getattr(dialects, SPECS[ANTHROPIC_MESSAGES].output_dialect)
    lowered = lower(output.schema, dialect, tool_name=output.name)
    writer.losses.extend(lowered.losses)
    return {**config, "format": {"type": "json_schema", "schema": lowered.schema}}


def encode_tool(tool: ToolDefinition, writer: Writer) -> Doc:
    mark = encode_mark(tool, writer, is_head=True)
    if native := native_definition(tool, writer):  # `bash_20250124` and the like: sent without a schema
        return {**native, **mark, **native}
    function = encode_function(tool, writer)
    encoded = function.to_fields("input_schema")
    if function.strict or (tool.strict is False and tool.wire == ANTHROPIC_MESSAGES):
        encoded["strict"] = function.strict
    if function.examples:
        encoded["input_examples"] = function.examples
    if tool.deferred:
        encoded["defer_loading"] = True
    # The extra fields are its own `cache_control`, `eager_input_streaming` …
    return {**encoded, **mark, **function.extra}


def encode_choice(
    choice: ToolChoice | None, tools: Sequence[ToolDefinition], parallel: bool | None, writer: Writer
) -> Doc | None:
    if choice is None:
        if parallel is False:
            return {"type": "auto", "disable_parallel_tool_use": True}
        return None
    encoded: Doc = {"type": _CHOICES[choice.mode]}
    if choice.names:
        # Only one name: a subset is emulated before.
        encoded = {"type": "tool", "name": select_chosen(choice, tools, writer)[0][1]}
    if parallel is False and choice.mode != "none":
        encoded["disable_parallel_tool_use"] = True  # with "any" and "tool" it means exactly one call
    return encoded
