"""Converts LangChain's messages to ours and back.

LangChain-only content is kept as `Foreign` with format "langchain".
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from msgspec.structs import replace

from toolglot.bridges.messages import (
    ExportedMessages,
    explain_missing,
    restore_original,
    store_original,
    visible_arguments,
)
from toolglot.errors import MalformedRequest
from toolglot.values.losses import Loss
from toolglot.values.messages import (
    Block,
    Conversation,
    Foreign,
    Media,
    Message,
    Origin,
    Reply,
    ResultBlock,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from toolglot.values.messages import system as system_message
from toolglot.wire.spec import ANTHROPIC_MESSAGES

try:
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        BaseMessageChunk,
        ChatMessage,
        HumanMessage,
        SystemMessage,
        ToolMessage,
        convert_to_messages,
        message_chunk_to_message,
    )
except ImportError as e:
    raise explain_missing(e, "langchain_core", "langchain-core") from None

FORMAT = "langchain"
INVALID = "the arguments are not a JSON object, or were truncated by the length limit"
ORIGINAL = "toolglot"
"""The key in `additional_kwargs` that holds the original reply."""
_ROLES: dict[str, Role] = {
    "human": "user",
    "system": "system",
    "ai": "assistant",
    "tool": "tool",
    "function": "tool",
}
_CHAT_ROLES: dict[str, Role] = {
    "user": "user",
    "system": "system",
    "developer": "system",
    "assistant": "assistant",
}
_MEDIA_TYPES = ("image", "audio", "video", "file")
# LangChain providers whose opaque state is in standard blocks: provider -> wire, profile.
_KNOWN_PROVIDERS = {"anthropic": (ANTHROPIC_MESSAGES, "anthropic")}


# ---- from LangChain


def import_messages(messages: Iterable[Any], *, system: str | None = None) -> Conversation:
    """Return LangChain messages, or whatever it accepts as such, as a conversation.

    Raises MalformedRequest.
    """
    conversation = [system_message(system)] if system else list[Message]()
    try:
        converted = convert_to_messages(cast(Sequence[Any], list(messages)))
    except (ValueError, TypeError, KeyError, AttributeError, NotImplementedError) as e:
        raise MalformedRequest(f"LangChain cannot read the messages: {str(e).partition(chr(10))[0]}") from e
    for message in converted:
        imported = import_message(message, len(conversation))
        if imported.role == "tool" and conversation and conversation[-1].role == "tool":
            previous = conversation.pop()
            imported = replace(previous, blocks=(*previous.blocks, *imported.blocks))
        conversation.append(imported)
    return Conversation(conversation)


def import_message(message: BaseMessage, index: int) -> Message:
    """Convert a message. `index`: used in ids for calls that have none. Raises MalformedRequest."""
    if isinstance(message, BaseMessageChunk):
        message = message_chunk_to_message(message)
    if isinstance(message, ChatMessage):
        name = message.role
        role = _CHAT_ROLES.get(name)
    else:
        name = message.type
        role = _ROLES.get(name)
    if role is None:
        raise MalformedRequest(f"a message of type {name!r} cannot be sent to a model")
    if role == "tool":
        return Message("tool", (_import_result(message),))
    if isinstance(message, AIMessage):
        return _import_reply(message, index)
    return Message(role, import_content(message))


def _import_result(message: BaseMessage) -> ToolResult:
    name = message.name or ""
    call_id = str(getattr(message, "tool_call_id", "") or name)
    is_error = getattr(message, "status", "") == "error"
    return ToolResult(call_id, import_content(message), name, is_error=is_error)


def _import_reply(message: AIMessage, index: int) -> Message:
    """Convert a reply: the stored original if the program left it as it was."""
    metadata = cast(dict[str, Any], message.response_metadata)
    provider = str(metadata.get("model_provider") or "")
    model = str(metadata.get("model_name") or "")
    wire, profile = _KNOWN_PROVIDERS.get(provider, (FORMAT, provider))
    blocks = [
        _import_block(part, f"call_{index}_{number}") for number, part in enumerate(_list_parts(message))
    ]
    has_thinking = any(isinstance(block, Thinking) for block in blocks)
    origin = Origin(wire, profile, model) if provider or model or has_thinking else None
    visible = Message("assistant", tuple(blocks), origin)
    return restore_original(cast(dict[str, Any], message.additional_kwargs).get(ORIGINAL), visible)


def _list_parts(message: AIMessage) -> list[dict[str, Any]]:
    """Return the parts of a reply.

    LangChain's own list omits calls without an id and with that of another call.
    """
    parts = [cast(dict[str, Any], block) for block in message.content_blocks]
    calls: list[dict[str, Any]] = [{**call, "type": "tool_call"} for call in message.tool_calls]
    calls += [{**call, "type": "invalid_tool_call"} for call in message.invalid_tool_calls]
    others = [part for part in parts if part.get("type") not in ("tool_call", "invalid_tool_call")]
    is_complete = len(others) + len(calls) == len(parts)
    return parts if is_complete else [*others, *calls]


def import_content(message: BaseMessage) -> tuple[ResultBlock, ...]:
    """Convert the content of a message that is not a reply: reasoning and calls in it stay LangChain's own."""
    parts = [cast(dict[str, Any], part) for part in message.content_blocks]
    blocks = [(part, _import_block(part, "")) for part in parts]
    return tuple(
        block if isinstance(block, Text | Media) else Foreign(FORMAT, dict(part)) for part, block in blocks
    )


def _import_block(block: Mapping[str, Any], call_id: str) -> Block:
    match block.get("type"):
        case "text" | "text-plain" if isinstance(block.get("text"), str):
            return Text(block["text"])
        case "reasoning":
            return Thinking(_read_text(block, "reasoning"), block.get("extras") or None)
        case "tool_call":
            return ToolCall(_read_text(block, "id", call_id), block["name"], dict(block.get("args") or {}))
        case "invalid_tool_call":
            return ToolCall(
                _read_text(block, "id", call_id), _read_text(block, "name"), None, _read_text(block, "args")
            )
        case kind if kind in _MEDIA_TYPES:
            return _import_media(kind, block)
        case _:
            return Foreign(FORMAT, dict(block))


def _import_media(kind: Any, block: Mapping[str, Any]) -> Block:
    """Convert media; those without a source stay LangChain's own."""
    if not any(block.get(source) for source in ("base64", "url", "file_id")):
        return Foreign(FORMAT, dict(block))
    extras = cast(dict[str, Any], block.get("extras") or {})
    name = _read_text(block, "filename") or _read_text(extras, "filename")
    media_type = _read_text(block, "mime_type")
    return Media(kind, media_type, block.get("base64"), block.get("url"), block.get("file_id"), name)


def _read_text(fields: Mapping[str, Any], name: str, default: str = "") -> str:
    """Return a field as text; the default if it is missing or empty."""
    return str(fields.get(name) or default)


# ---- to LangChain


def export_messages(messages: Iterable[Message]) -> ExportedMessages:
    """Return messages as LangChain's. A reply keeps its opaque state in `additional_kwargs`."""
    losses: list[Loss] = []
    exported: list[BaseMessage] = []
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if message.role == "tool":
            for result in message.results:
                status = "error" if result.is_error else "success"
                content = cast(Any, export_content(result.content, where, losses))
                exported.append(
                    ToolMessage(content, tool_call_id=result.call_id, name=result.name or None, status=status)
                )
        elif message.role == "assistant":
            exported.append(AIMessage(**export_reply(message, where, losses)))
        else:
            content = cast(Any, export_content(message.blocks, where, losses))
            if content:
                kind = SystemMessage if message.role == "system" else HumanMessage
                exported.append(kind(content))
    return ExportedMessages(exported, losses=tuple(losses))


def export_reply(
    message: Message, where: str, losses: list[Loss], broken: Collection[ToolCall] = ()
) -> dict[str, Any]:
    """Return the fields of an AIMessage, without usage and metadata. `broken`: calls that must not run."""
    original = store_original(message, broken)
    others = [block for block in message.blocks if not isinstance(block, ToolCall)]
    if original is not None:  # content that LangChain cannot express is restored from the original
        others = [block for block in others if isinstance(block, Text | Thinking | Media)]
    valid: list[Any] = []
    invalid: list[dict[str, Any]] = []
    for call in message.calls:
        if visible_arguments(call) is not None and call not in broken:
            valid.append(export_call(call))
            continue
        # LangChain completes truncated JSON and would run the call, so it must not look like JSON.
        arguments = f"(not valid) {call.text}"
        invalid.append(
            {
                "name": call.name,
                "args": arguments,
                "id": call.id,
                "error": INVALID,
                "type": "invalid_tool_call",
            }
        )
    return {
        "content": export_content(others, where, losses),
        "tool_calls": valid,
        "invalid_tool_calls": invalid,
        "additional_kwargs": {} if original is None else {ORIGINAL: original},
    }


def export_call(call: ToolCall) -> dict[str, Any]:
    """Return a call as LangChain's."""
    return {
        "name": call.qualified_name,
        "args": visible_arguments(call) or {},
        "id": call.id,
        "type": "tool_call",
    }


def export_content(blocks: Iterable[Block], where: str, losses: list[Loss]) -> str | list[Any]:
    """Return content: a single text as a string, anything else as standard blocks."""
    parts = list(export_blocks(blocks, where, losses))
    if all(part["type"] == "text" and part.keys() == {"type", "text"} for part in parts) and len(parts) <= 1:
        return parts[0]["text"] if parts else ""
    return parts


def export_blocks(blocks: Iterable[Block], where: str, losses: list[Loss]) -> Iterator[dict[str, Any]]:
    """Yield LangChain's standard blocks."""
    for block in blocks:
        if isinstance(block, Text | Media) and block.cache is not None:
            losses.append(Loss("cache mark", where, "LangChain's messages cannot express it"))
        part = _export_block(block, where, losses)
        if part is not None:
            yield part


def _export_block(block: Block, where: str, losses: list[Loss]) -> dict[str, Any] | None:
    match block:
        case Text():
            return {"type": "text", "text": block.text}
        case Thinking(text=""):
            return None
        case Thinking():
            part = {"type": "reasoning", "reasoning": block.text}
            return {**part, "extras": block.opaque} if block.opaque else part
        case Media():
            return _export_media(block)
        case Foreign(wire="langchain"):
            return block.item
        case Foreign():
            losses.append(Loss("content", where, f"only {block.wire} understands it"))
            return None
        case _:
            losses.append(Loss("a change of the tools", where, "LangChain's messages cannot express it"))
            return None


def _export_media(block: Media) -> dict[str, Any]:
    """Return media with the fields that it has."""
    fields = {
        "type": block.kind,
        "base64": block.data,
        "url": block.url,
        "file_id": block.file_id,
        "mime_type": block.media_type,
        "filename": block.name,
    }
    return {name: value for name, value in fields.items() if value}


# ---- replies of our models


def export_usage(usage: Usage) -> dict[str, Any]:
    """Return token counts as LangChain's `usage_metadata`."""
    return {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "input_token_details": {"cache_read": usage.cached, "cache_creation": usage.cache_write},
        "output_token_details": {"reasoning": usage.reasoning},
    }


def export_metadata(reply: Reply, model: str, notes: Iterable[Any]) -> dict[str, Any]:
    """Return `response_metadata`, for what LangChain has no field for. `notes`: losses and repairs."""
    texts = [str(note) for note in notes]
    metadata = {"model_name": model, "finish_reason": reply.stop, "id": reply.id}
    return {**metadata, **({"notes": texts} if texts else {})}
