"""Conversations as the message lists of providers and frameworks, and back."""

from collections.abc import Collection, Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from toolglot.common.jsontext import dumps, loads_object
from toolglot.errors import MalformedRequest, UsageError
from toolglot.providers.catalog import resolve_profile, split_model
from toolglot.providers.profile import Profile
from toolglot.values.losses import Loss, Repair
from toolglot.values.messages import Block, Conversation, Message, Opaque, Reply, Text, Thinking, ToolCall
from toolglot.values.request import Request
from toolglot.wire import spec
from toolglot.wire.codec import decode_request, encode_request

__all__ = ["ExportedMessages", "export_messages", "import_messages"]

FRAMEWORKS = {
    "langchain": "toolglot.bridges.langchain_messages",
    "pydantic-ai": "toolglot.bridges.pydantic_ai_messages",
}
"""Formats that are lists of a framework's own objects -> the modules that convert them."""
# The request fields that hold the system prompt, if it is not a message in the list.
_SYSTEM_FIELDS = {
    spec.ANTHROPIC_MESSAGES: "system",
    spec.OPENAI_RESPONSES: "instructions",
    spec.GEMINI: "systemInstruction",
}


_TURNS = frozenset({"user", "assistant"})
_CHAT_ROLES = _TURNS | {"system", "developer", "tool", "function"}
# Each format's roles, and which of the keys in _CONTENT_KEYS its messages have.
_FORMATS: dict[str, tuple[frozenset[Any], frozenset[str]]] = {
    spec.OPENAI_CHAT: (_CHAT_ROLES, frozenset({"content", "tool_calls"})),
    spec.OPENAI_RESPONSES: (_TURNS | {"system", "developer"}, frozenset({"content"})),
    spec.ANTHROPIC_MESSAGES: (_TURNS | {"system"}, frozenset({"content"})),
    # the role is optional
    spec.GEMINI: (frozenset({"user", "model", "function", "system", None}), frozenset({"parts"})),
    spec.OLLAMA_CHAT: (_CHAT_ROLES, frozenset({"content", "tool_calls"})),
}
_CONTENT_KEYS = ("content", "parts", "tool_calls")
_CALL_ID = attrgetter("id")


class ExportedMessages(msgspec.Struct, frozen=True):
    """A conversation in another format, and what that format cannot express."""

    messages: list[Any]
    system: Any = None
    """The system prompt, if the format keeps it outside the list: Anthropic's `system`, Responses'
    `instructions`."""
    losses: tuple[Loss, ...] = ()
    repairs: tuple[Repair, ...] = ()


def export_messages(conversation: Iterable[Message], format: str) -> ExportedMessages:
    """Return a conversation as a list of messages.

    `format`: a provider (`openai-chat`, `openai-responses`, `anthropic`, `gemini` …), optionally with a model
    so that its opaque state is kept (`anthropic:claude-opus-5`), or a framework (`langchain`, `pydantic-ai`).
    Raises UnknownName.
    """
    messages = list(conversation)
    if format in FRAMEWORKS:
        return import_module(FRAMEWORKS[format]).export_messages(messages)
    profile = _find_profile(format)
    if not messages:
        return ExportedMessages([])
    encoded = encode_request(Request(profile.model, messages), profile)
    fields = spec.SPECS[profile.wire].history_field, _SYSTEM_FIELDS.get(profile.wire, "")
    items, system = (encoded.body.get(field) for field in fields)
    repairs = tuple(repair for repair in encoded.repairs if repair.where != "options")  # there are none
    return ExportedMessages(items or [], system, encoded.losses, repairs)


def import_messages(messages: Iterable[Any], format: str, *, system: Any = None) -> Conversation:
    """Return a list of messages as a conversation.

    The items may be dicts, or objects from the provider's SDK.

    `format`: see `export_messages`. `system`: the system prompt, if it is not in the list. Raises
    UnknownName, MalformedRequest.
    """
    if isinstance(messages, str | bytes | Mapping) or not isinstance(cast(Any, messages), Iterable):
        raise MalformedRequest("messages must be a list")
    if format in FRAMEWORKS:
        return import_module(FRAMEWORKS[format]).import_messages(messages, system=system)
    profile = _find_profile(format)
    items = to_plain(list(messages))
    for number, item in enumerate(items):
        _check_item(item, number, profile.wire)
    body: dict[str, Any] = {spec.SPECS[profile.wire].history_field: items, "model": profile.model}
    if system is not None and profile.wire in _SYSTEM_FIELDS:
        body[_SYSTEM_FIELDS[profile.wire]] = to_plain(system)
    elif system is not None:
        items.insert(0, {"role": "system", "content": to_plain(system)})
    return Conversation(decode_request(profile.wire, body, profile=profile.id, model=profile.model).messages)


def _check_item(item: Any, number: int, wire: str) -> None:
    """Refuse messages in another format: decoding is tolerant, and would drop most of them.

    Raises MalformedRequest.
    """
    if not isinstance(item, dict):
        raise MalformedRequest("a message must be a dict or an object from the provider's SDK")
    problem = _find_problem(cast(dict[str, Any], item), wire)
    if problem:
        raise MalformedRequest(
            f"messages[{number}] is not in {wire} format: {problem}; is it in another format?"
        )


def _find_problem(fields: Mapping[str, Any], wire: str) -> str:
    """Return what shows that a message is in another format than the wire's, or an empty text."""
    if wire not in _FORMATS:  # of a plug-in
        return ""
    if wire == spec.OPENAI_RESPONSES and fields.get("type", "message") != "message":
        return ""  # a call, a result, reasoning …
    roles, keys = _FORMATS[wire]
    role = fields.get("role")
    if not isinstance(role, str | None) or role not in roles:
        return f"its role is {role!r:.40}" if "role" in fields else "it has no role"
    for key in _CONTENT_KEYS:
        if fields.get(key) is not None and key not in keys:
            return f"it has the key {key!r}"
    if fields.get("content") is None and not _may_lack_content(role, keys):
        return "it has no content"
    return ""


def _may_lack_content(role: str | None, keys: Collection[str]) -> bool:
    """Whether a message of a format with these keys may hold calls only, or holds its content under another
    key.
    """
    if "parts" in keys:
        return True
    return "tool_calls" in keys and role not in ("user", "system")


def _find_profile(format: str) -> Profile:
    if format in spec.SPECS and ":" not in format:  # a wire stands for its own provider
        return resolve_profile(spec.SPECS[format].default_profile)
    return resolve_profile(*split_model(format))


def to_plain(value: Any) -> Any:
    """Convert an SDK's objects to dicts and lists, at any depth."""
    if callable(dump := getattr(value, "model_dump", None)):
        # Unset fields are not part of the message.
        return dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in cast(Iterable[Any], value)]
    return value


# ---- for the modules of frameworks


def explain_missing(error: ImportError, module: str, package: str) -> ImportError:
    """Return the error to raise if a framework cannot be imported: what to install or upgrade, or the
    original error.
    """
    if (error.name or "").partition(".")[0] != module:
        return error
    if find_spec(module) is None:
        return ImportError(f"this bridge needs {package}: run `pip install {package}`")
    return ImportError(
        f"this bridge needs a newer {package}: run `pip install --upgrade {package}` ({error})"
    )


def store_original(message: Message, broken: Collection[ToolCall] = ()) -> Opaque | None:
    """Return a reply as data for a framework to store, if it has more than the framework's own types can
    express.

    Signatures, ids and encrypted reasoning must be returned unchanged with the next request. `broken`: calls
    whose arguments the framework does not see.
    """
    blocks: list[Block] = []
    for block in message.blocks:
        if isinstance(block, ToolCall) and block in broken:
            block = replace(block, arguments=None, raw=block.text)
        blocks.append(block)
    if not message.opaque and all(map(_is_plain, blocks)):
        return None
    return loads_object(dumps(replace(message, blocks=tuple(blocks))))


def _is_plain(block: Block) -> bool:
    """Return whether a block consists only of text, or of a name and arguments."""
    if isinstance(block, ToolCall):
        has_more = any((block.opaque, block.base_call, block.freeform, block.namespace, block.caller))
        return not has_more and block.arguments is not None
    return isinstance(block, Text) and not block.opaque


def restore_original(stored: Any, visible: Message) -> Message:
    """Return the stored reply if it still matches the framework's message; otherwise the latter."""
    try:
        message = msgspec.convert(stored, Message)
    except (msgspec.ValidationError, UsageError):  # data from another source
        return visible
    if _list_words(message) != _list_words(visible) or len(message.calls) != len(visible.calls):
        return visible
    calls = sorted(message.calls, key=_CALL_ID)  # ids may repeat
    visible_calls = sorted(visible.calls, key=_CALL_ID)
    return message if all(map(_is_same_call, calls, visible_calls)) else visible


def _list_words(message: Message) -> tuple[str, str, str]:
    """Return who says what in a message, and thinks what: a framework keeps all of it."""
    thinking = [block.text for block in message.blocks if isinstance(block, Thinking)]
    return message.role, message.text, "".join(thinking)


def _is_same_call(stored: ToolCall, visible: ToolCall) -> bool:
    """Return whether a framework's call is the stored one: frameworks have no namespaces, and few have
    plain-text calls.
    """
    has_same_name = visible.qualified_name in (stored.name, stored.qualified_name)
    return (
        visible.id == stored.id
        and has_same_name
        and visible.arguments in (stored.arguments, visible_arguments(stored))
    )


def visible_arguments(call: ToolCall) -> dict[str, Any] | None:
    """Return the arguments for a framework without plain-text calls; None if they are invalid."""
    return {"input": call.raw or ""} if call.freeform else call.arguments


def find_truncated_calls(reply: Reply) -> tuple[ToolCall, ...]:
    """Return the calls that must not run: those truncated by the length limit, and those that are not JSON."""
    broken = [call for call in reply.calls if call.arguments is None and not call.freeform]
    if reply.stop == "length" and reply.blocks:
        last = reply.blocks[-1]
        if isinstance(last, ToolCall) and last not in broken:
            broken.append(last)  # even if it looks complete: a string in it may not be
    return tuple(broken)
