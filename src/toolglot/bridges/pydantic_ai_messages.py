"""Converts Pydantic AI's messages to ours and back.

Pydantic-AI-only content is kept as `Foreign` in its format.
"""

from base64 import b64decode
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, cast

from msgspec.structs import replace

from toolglot.bridges.messages import (
    ExportedMessages,
    explain_missing,
    find_truncated_calls,
    restore_original,
    store_original,
    visible_arguments,
)
from toolglot.common.jsontext import loads_object
from toolglot.errors import MalformedRequest
from toolglot.values.definitions import CacheMark
from toolglot.values.losses import Loss
from toolglot.values.messages import (
    Block,
    Conversation,
    Foreign,
    Media,
    MediaKind,
    Message,
    Origin,
    Reply,
    ResultBlock,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolsChanged,
    Usage,
)
from toolglot.values.messages import system as system_message
from toolglot.wire.spec import ANTHROPIC_MESSAGES

try:
    from pydantic import TypeAdapter
    from pydantic_ai.messages import (
        AudioUrl,
        BinaryContent,
        CachePoint,
        DocumentUrl,
        FilePart,
        FinishReason,
        ImageUrl,
        ModelMessage,
        ModelRequest,
        ModelRequestPart,
        ModelResponse,
        ModelResponsePart,
        SystemPromptPart,
        TextContent,
        TextPart,
        ThinkingPart,
        ToolCallPart,
        ToolReturnPart,
        UploadedFile,
        UserContent,
        UserPromptPart,
        VideoUrl,
    )
    from pydantic_ai.usage import RequestUsage
except ImportError as e:
    raise explain_missing(e, "pydantic_ai", "pydantic-ai-slim") from None

FORMAT = "pydantic-ai"
ORIGINAL = "toolglot"
"""The key in `provider_details` that holds the original reply."""
_URL_KINDS: tuple[tuple[type, MediaKind], ...] = (
    (ImageUrl, "image"), (AudioUrl, "audio"), (VideoUrl, "video"), (DocumentUrl, "file")
)  # fmt: skip
_KNOWN_PROVIDERS = {"anthropic": (ANTHROPIC_MESSAGES, "anthropic")}
_RESPONSE_PARTS: TypeAdapter[ModelResponsePart] = TypeAdapter(ModelResponsePart)
_FINISH_REASONS: dict[StopReason, FinishReason] = {
    "end": "stop",
    "tools": "tool_call",
    "length": "length",
    "refusal": "content_filter",
    "filtered": "content_filter",
    "pause": "stop",
    "error": "error",
}


# ---- from Pydantic AI


def import_messages(messages: Iterable[ModelMessage], *, system: str | None = None) -> Conversation:
    """Return Pydantic AI's messages as a conversation. `system`: defaults to the last request's instructions.

    Raises MalformedRequest.
    """
    messages = list(messages)
    for message in messages:
        if not isinstance(cast(Any, message), ModelRequest | ModelResponse):
            raise MalformedRequest(
                "a message must be a ModelRequest or a ModelResponse; read JSON with ModelMessagesTypeAdapter"
            )
    if system is None:
        system = _find_instructions(messages)
    conversation = Conversation([system_message(system)] if system else ())
    for message in messages:
        if isinstance(message, ModelRequest):
            conversation.append(*import_request(message))
        else:
            conversation.append(import_reply(message))
    return conversation


def _find_instructions(messages: list[ModelMessage]) -> str | None:
    """Return the instructions of the last request that has any."""
    for message in reversed(messages):
        if isinstance(message, ModelRequest) and message.instructions:
            return message.instructions
    return None


def import_request(message: ModelRequest) -> Iterator[Message]:
    """Yield a request's messages: its results first, in one message, then the rest."""
    results = [result for part in message.parts if (result := _import_result(part)) is not None]
    if results:
        yield Message("tool", tuple(results))
    for part in message.parts:
        if isinstance(part, SystemPromptPart):
            yield system_message(part.content)
        elif isinstance(part, UserPromptPart):
            content = [part.content] if isinstance(part.content, str) else part.content
            yield Message("user", import_content(content))
        elif _import_result(part) is None:
            yield Message("user", (_import_feedback(part),))


def _import_feedback(part: ModelRequestPart) -> Text | Foreign:
    """Convert feedback about a reply as a whole, or what we do not know."""
    explain: Any = getattr(part, "model_response", None)
    if explain is None:
        return Foreign(FORMAT, {"part_kind": part.part_kind})
    return Text(explain())


def _import_result(part: ModelRequestPart) -> ToolResult | None:
    if isinstance(part, ToolReturnPart):
        text = part.model_response_str(wrap_if_error=False)
        content = cast(tuple[ResultBlock, ...], import_content(part.files))
        if text or not content:
            content = (Text(text), *content)
        is_error = part.outcome in ("failed", "denied", "interrupted", "retried")
        return ToolResult(part.tool_call_id, content, part.tool_name, is_error=is_error)
    if part.part_kind == "retry-prompt" and part.tool_name:
        return ToolResult(part.tool_call_id, (Text(part.model_response()),), part.tool_name, is_error=True)
    return None


def import_content(content: Iterable[UserContent | Any]) -> tuple[Block, ...]:
    """Convert the content of a user's prompt or a tool's result."""
    blocks: list[Block] = []
    for item in content:
        match item:
            case str():
                blocks.append(Text(item))
            case TextContent():
                blocks.append(Text(item.content))
            case BinaryContent():
                blocks.append(Media.from_bytes(item.data, item.media_type))
            case CachePoint():
                if blocks and isinstance(last := blocks[-1], Text | Media):
                    blocks[-1] = replace(last, cache=CacheMark(item.ttl))
            case UploadedFile():
                family = item.media_type.partition("/")[0]
                kind: MediaKind = cast(MediaKind, family) if family in ("image", "audio", "video") else "file"
                blocks.append(Media(kind, item.media_type, file_id=item.file_id))
            case ImageUrl() | AudioUrl() | VideoUrl() | DocumentUrl():
                blocks.append(_import_url(item))
            case _:
                blocks.append(Foreign(FORMAT, {"kind": type(item).__name__}))
    return tuple(blocks)


def _import_url(file: ImageUrl | AudioUrl | VideoUrl | DocumentUrl) -> Media:
    kind: MediaKind = next(kind for cls, kind in _URL_KINDS if isinstance(file, cls))
    try:
        media_type = file.media_type
    except ValueError:  # the URL does not reveal it
        media_type = ""
    return Media(kind, media_type, url=file.url)


def import_reply(message: ModelResponse) -> Message:
    """Return a response's original reply, or convert its parts."""
    wire, profile = _KNOWN_PROVIDERS.get(message.provider_name or "", (FORMAT, message.provider_name or ""))
    visible = Message(
        "assistant", tuple(map(import_part, message.parts)), Origin(wire, profile, message.model_name or "")
    )
    return restore_original((message.provider_details or {}).get(ORIGINAL), visible)


def import_part(part: ModelResponsePart) -> Block:
    """Convert a part of a response."""
    match part:
        case TextPart():
            return Text(part.content)
        case ThinkingPart():
            opaque = {"signature": part.signature} if part.signature else None
            return Thinking(part.content, opaque)
        case ToolCallPart():
            return _import_call(part)
        case FilePart():
            return Media.from_bytes(part.content.data, part.content.media_type)
        case _:
            return Foreign(FORMAT, _RESPONSE_PARTS.dump_python(part, mode="json"))


def _import_call(part: ToolCallPart) -> ToolCall:
    if not isinstance(part.args, str):
        return ToolCall(part.tool_call_id, part.tool_name, part.args or {})
    try:
        arguments = loads_object(part.args or "{}")
    except ValueError:
        arguments = None
    return ToolCall(part.tool_call_id, part.tool_name, arguments, part.args)


# ---- to Pydantic AI


def export_messages(messages: Iterable[Message]) -> ExportedMessages:
    """Return messages as a Pydantic AI history. A reply keeps its opaque state in `provider_details`."""
    losses: list[Loss] = []
    exported: list[ModelMessage] = []
    parts: list[ModelRequestPart] = []
    names = dict[str, str]()
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if message.role == "assistant":
            if parts:
                exported.append(ModelRequest(parts))
                parts = []
            names |= {call.id: call.qualified_name for call in message.calls}
            exported.append(export_reply(message, where, losses))
        elif message.role == "system":
            if message.text:
                parts.append(SystemPromptPart(message.text))
            _record_changes(message.blocks, where, losses)
        elif message.role == "user":
            content = list(export_content(message.blocks, where, losses))
            if len(content) == 1 and isinstance(content[0], str):
                parts.append(UserPromptPart(content[0]))
            else:
                parts.append(UserPromptPart(content))
        for result in message.results:
            name = result.name or names.get(result.call_id, "")
            outcome = "failed" if result.is_error else "success"
            content = export_result(result.content, where, losses)
            parts.append(ToolReturnPart(name, content, result.call_id, outcome=outcome))
    if parts:
        exported.append(ModelRequest(parts))
    return ExportedMessages(exported, losses=tuple(losses))


def export_result(content: Sequence[Block], where: str, losses: list[Loss]) -> Any:
    """Return a result's content: a single text as a string, anything else as a list."""
    items = list(export_content(content, where, losses))
    return items[0] if len(items) == 1 else items or ""


def export_content(blocks: Iterable[Block], where: str, losses: list[Loss]) -> Iterator[UserContent]:
    """Yield the content of a user's prompt or a tool's result."""
    for block in blocks:
        match block:
            case Text():
                yield block.text
            case Media():
                content = _export_media(block)
                if content is None:
                    losses.append(
                        Loss(
                            block.kind,
                            where,
                            "it is stored at the provider, and Pydantic AI cannot refer to it",
                        )
                    )
                else:
                    yield content
            case _:
                _record_changes([block], where, losses)
                continue
        if block.cache is not None:
            yield CachePoint(ttl="1h" if block.cache.ttl == "1h" else "5m")


def _export_media(block: Media) -> UserContent | None:
    """Return media by its data or URL; None if it has neither."""
    if block.data is not None:
        return BinaryContent.narrow_type(BinaryContent(b64decode(block.data), media_type=block.media_type))
    if block.url is None:
        return None
    url_class = next(cls for cls, kind in _URL_KINDS if kind == block.kind)
    return url_class(block.url, media_type=block.media_type or None)


def _record_changes(blocks: Iterable[Block], where: str, losses: list[Loss]) -> None:
    for block in blocks:
        if isinstance(block, ToolsChanged):
            losses.append(Loss("a change of the tools", where, "Pydantic AI's messages cannot express it"))
        elif isinstance(block, Foreign):
            losses.append(Loss("content", where, f"only {block.wire} understands it"))


def export_reply(message: Message, where: str, losses: list[Loss]) -> ModelResponse:
    """Convert a message of the history to a response."""
    original = store_original(message)
    if original is None:
        _record_changes(message.blocks, where, losses)
    parts = [export_part(block) for block in message.blocks]
    response = ModelResponse([part for part in parts if part is not None])
    if message.origin is not None:
        response.model_name = message.origin.model
        response.provider_name = message.origin.profile or None
    if original is not None:
        response.provider_details = {ORIGINAL: original}
    return response


def export_part(block: Block, broken: Collection[ToolCall] = ()) -> ModelResponsePart | None:
    """Return a block of a reply as a part; None if there is none for it.

    `broken`: calls that must not run.
    """
    match block:
        case Text():
            return TextPart(block.text)
        case Thinking():
            return ThinkingPart(block.text)
        case ToolCall():
            arguments = visible_arguments(block)
            # A truncated call may look complete, and would run.
            is_broken = block in broken or arguments is None
            if is_broken:
                return ToolCallPart(block.qualified_name, f"(invalid) {block.text}", block.id)
            return ToolCallPart(block.qualified_name, arguments, block.id)
        case Media() if block.data is not None:
            return FilePart(
                BinaryContent.narrow_type(BinaryContent(b64decode(block.data), media_type=block.media_type))
            )
        case Foreign(wire="pydantic-ai"):
            return _RESPONSE_PARTS.validate_python(block.item)
        case _:
            return None


def export_usage(usage: Usage) -> RequestUsage:
    """Return token counts as Pydantic AI's request usage."""
    return RequestUsage(
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cached,
        cache_write_tokens=usage.cache_write,
        details={"reasoning_tokens": usage.reasoning} if usage.reasoning else {},
    )


def export_details(reply: Reply, notes: Iterable[Any]) -> dict[str, Any]:
    """Return `provider_details`: the original reply, the stop reason, and losses and repairs."""
    original = store_original(reply.message, find_truncated_calls(reply))
    texts = [str(note) for note in notes]
    details: dict[str, Any] = {"finish_reason": reply.stop}
    return (
        details | ({"notes": texts} if texts else {}) | ({ORIGINAL: original} if original is not None else {})
    )


def export_stop(reply: Reply) -> FinishReason:
    """Return why a reply ended."""
    return _FINISH_REASONS[reply.stop]
