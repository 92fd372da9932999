"""A prompt as messages: text, blocks, messages, and what programs for OpenAI's API have at hand."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from msgspec.structs import replace

from toolglot.errors import MalformedRequest, UsageError
from toolglot.values.messages import Block, Message, Text, user
from toolglot.wire.codec import decode_request
from toolglot.wire.spec import OPENAI_CHAT

__all__ = ["Prompt", "read_message", "to_messages"]

ChatMessage = Mapping[str, Any]
"""A message of Chat Completions: `{"role": "user", "content": …}`."""
Prompt = str | Message | Block | ChatMessage | Sequence[str | Block] | Sequence[str | Message | ChatMessage]

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_EXPECTED = 'a prompt is text, blocks, messages, or {"role": …, "content": …}'


def to_messages(prompt: Any) -> list[Message]:
    """Return the messages of a prompt. Raises UsageError for what cannot be one; nothing is left out."""
    if type(prompt) is str and prompt.strip():  # nearly every prompt
        return [user(prompt)]
    if isinstance(prompt, str | Block | Message | Mapping):
        prompt = [prompt]
    if isinstance(prompt, bytes | bytearray) or not isinstance(prompt, Iterable):
        raise UsageError(f"{_EXPECTED}, not {type(prompt).__name__}")
    items = list(cast(Iterable[Any], prompt))
    if all(map(_is_blank, items)):
        raise UsageError(f"the prompt is empty: {_EXPECTED}")
    if not any(map(_is_message, items)):
        # Parts of one message: text, blocks, or OpenAI's `{"type": "image_url", …}`.
        blocks: list[Block] = []
        for item in items:
            part = (
                _decode([{"role": "user", "content": item}])[0] if isinstance(item, Mapping) else user([item])
            )
            blocks += part.blocks
        return [user(blocks)]
    messages: list[Message] = []
    chat_messages: list[Any] = []  # decoded together: a result takes its tool's name from the call before it
    for item in items:
        if isinstance(item, Mapping):
            chat_messages.append(item)
            continue
        messages += _decode(chat_messages)
        chat_messages = []
        message = item if isinstance(item, Message) else user(item)
        messages.append(message)
    return messages + _decode(chat_messages)


def read_message(item: Any) -> Message:
    """Return one message of the user. Raises UsageError."""
    messages = to_messages(item)
    if len(messages) != 1 or messages[0].role != "user":
        raise UsageError("deliver takes one message of the user: call it once for each")
    return messages[0]


def _is_message(item: Any) -> bool:
    return isinstance(item, Message) or (isinstance(item, Mapping) and "role" in item)


def _is_blank(item: Any) -> bool:
    if isinstance(item, Message):
        return all(map(_is_blank, item.blocks))
    text = item.text if isinstance(item, Text) else item
    return isinstance(text, str) and not text.strip()


def _decode(messages: list[Any]) -> list[Message]:
    if not messages:
        return []
    for message in messages:
        role = message.get("role")
        if role not in _ROLES:
            raise UsageError(f"a message has one of the roles {', '.join(_ROLES)}, not {role!r}")
        if message.get("content") is None and role != "assistant":
            raise UsageError(f"the {role} message has no content")
    chat = [{**message, "content": _to_parts(message.get("content"))} for message in messages]
    try:
        decoded = decode_request(OPENAI_CHAT, {"model": "", "messages": chat}).messages
    except MalformedRequest as e:
        raise UsageError(f"the messages of the prompt cannot be read: {e}") from e
    return [_forget_origin(message) for message in decoded]


def _forget_origin(message: Message) -> Message:
    """Return a message without its origin; one with parts that only OpenAI understands stays OpenAI's."""
    if message.opaque or any(getattr(block, "opaque", True) for block in message.blocks):
        return message
    return replace(message, origin=None)


def _to_parts(content: Any) -> Any:
    if content is None or isinstance(content, str):
        return content
    parts = cast(list[Any], content if isinstance(content, list | tuple) else [content])
    return list(map(_to_part, parts))


def _to_part(part: Any) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if isinstance(part, Mapping) and "type" in part:
        return dict(cast(Mapping[str, Any], part))
    raise UsageError(f'a part of a message is text or {{"type": …}}, not {type(cast(Any, part)).__name__}')
