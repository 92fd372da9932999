"""Neutral values of a conversation: immutable, a superset of what every wire can say.

Laws of this file:
- A block holds what all wires share in typed fields. What only its own wire understands (signatures, item ids, citations,
  cache marks) lies in `opaque`, exactly as it came, and goes back to the `Origin` that made it and to nobody else.
- `Foreign` is content that has no neutral form: kept whole, echoed only to its own wire.
- Nothing here knows a provider.
- A value holds plain data only, so it can never be part of a cycle: the garbage collector need not look at it (`gc=False`).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, cast, overload
from weakref import WeakKeyDictionary

import msgspec

from toolglot.errors import MalformedData, ToolErrorKind
from toolglot.jsontext import dumps, json_type_name, loads

__all__ = [
    "BaseCall",
    "Block",
    "Conversation",
    "Foreign",
    "Media",
    "Message",
    "Opaque",
    "Origin",
    "Reply",
    "Role",
    "StopReason",
    "Text",
    "Thinking",
    "ToolCall",
    "ToolErrorKind",
    "ToolResult",
    "Usage",
    "assistant",
    "load",
    "save",
    "system",
    "tool_results",
    "user",
]

FORMAT_VERSION = 1

Opaque = dict[str, Any]
Role = Literal["system", "user", "assistant", "tool"]
StopReason = Literal["end", "tools", "length", "refusal", "filtered", "pause", "error"]
MediaKind = Literal["image", "audio", "video", "file"]


class Origin(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Who made a message: the wire it was read from, the vendor's profile, the model."""

    wire: str
    profile: str = ""
    model: str = ""


class _Block(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type"):
    pass


class Text(_Block, frozen=True, gc=False, tag="text"):
    """Visible text."""

    text: str
    opaque: Opaque | None = None


class Thinking(_Block, frozen=True, gc=False, tag="thinking"):
    """The model's reasoning. `text` may be empty where a provider sends only a signature or a cipher."""

    text: str
    opaque: Opaque | None = None


class Media(_Block, frozen=True, gc=False, tag="media"):
    """An image, sound, video or file: its bytes in base64, or where they are (a URL, a file id of the origin)."""

    kind: MediaKind
    media_type: str = ""
    data: str | None = None
    url: str | None = None
    file_id: str | None = None
    name: str = ""
    opaque: Opaque | None = None


class BaseCall(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a call under a model's own names means: a base tool, its arguments, and the facade that the model spoke through."""

    tool: str
    arguments: dict[str, Any]
    facade: str = ""


class ToolCall(_Block, frozen=True, gc=False, tag="tool_call"):
    """A call the model made.

    `arguments` is None for a freeform call and for text that is not a JSON object; `raw` is the text exactly as sent.
    """

    id: str
    name: str
    arguments: dict[str, Any] | None = None
    raw: str | None = None
    freeform: bool = False
    namespace: str = ""
    opaque: Opaque | None = None
    meant: BaseCall | None = None
    """Where the model has made the call in the words of its own harness."""

    @property
    def text(self) -> str:
        """The arguments as the text that wires with textual arguments send."""
        if self.raw is not None:
            return self.raw
        return dumps(self.arguments or {}).decode()


class ToolResult(_Block, frozen=True, gc=False, tag="tool_result"):
    """The answer to one call. `data` is structured output where a tool gave some; `content` is what the model reads."""

    call_id: str
    content: "tuple[Text | Media | Foreign, ...]" = ()
    name: str = ""
    data: Any = None
    is_error: bool = False
    error_kind: ToolErrorKind | None = None
    opaque: Opaque | None = None
    worded: bool = False
    """The text is as the model's own harness says it: also that it is an error."""

    @property
    def text(self) -> str:
        """The readable text of the result."""
        return "".join(block.text for block in self.content if isinstance(block, Text))


class Foreign(_Block, frozen=True, gc=False, tag="foreign"):
    """Content of one wire that has no neutral form: the item as it came."""

    wire: str
    item: Any


Block = Text | Thinking | Media | ToolCall | ToolResult | Foreign


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens. `input` includes `cached` and `cache_write`; `output` includes `reasoning`."""

    input: int = 0
    output: int = 0
    cached: int = 0
    cache_write: int = 0
    reasoning: int = 0


class Message(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One turn of one speaker. A `tool` message holds the results of the assistant message before it."""

    role: Role
    blocks: tuple[Block, ...]
    origin: Origin | None = None
    opaque: Opaque | None = None

    @property
    def text(self) -> str:
        """The visible text."""
        return "".join(block.text for block in self.blocks if isinstance(block, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, in order."""
        return tuple(block for block in self.blocks if isinstance(block, ToolCall))

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results, in order."""
        return tuple(block for block in self.blocks if isinstance(block, ToolResult))


class Reply(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a model answered: one assistant message, why it stopped and what it cost."""

    blocks: tuple[Block, ...]
    stop: StopReason = "end"
    usage: Usage = Usage()
    origin: Origin | None = None
    id: str = ""
    opaque: Opaque | None = None

    @property
    def message(self) -> Message:
        """The reply as a message of the history."""
        return Message("assistant", self.blocks, self.origin, self.opaque)

    @property
    def text(self) -> str:
        """The visible text."""
        return self.message.text

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, in order."""
        return self.message.calls


class Conversation(Sequence[Message]):
    """An append-only list of messages: what was said stays said, so that its encoding can be cached."""

    __slots__ = ("__weakref__", "_messages", "attachments")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._messages = list(messages)
        self.attachments: WeakKeyDictionary[Any, Any] | None = None
        """What somebody keeps for this conversation, for as long as both live."""

    def append(self, *messages: Message) -> None:
        """Adds messages at the end."""
        self._messages.extend(messages)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        return self._messages[index]

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Conversation) and self._messages == other._messages

    __hash__ = None  # pyright: ignore[reportAssignmentType]  # a growing list has no stable hash

    def __repr__(self) -> str:
        return f"Conversation({self._messages!r})"


def _to_blocks(content: "str | Block | Iterable[str | Block]") -> tuple[Block, ...]:
    if isinstance(content, str):
        return (Text(content),)
    if isinstance(content, _Block):
        return (content,)
    return tuple(Text(part) if isinstance(part, str) else part for part in content)


def system(content: "str | Block | Iterable[str | Block]") -> Message:
    """An instruction to the model."""
    return Message("system", _to_blocks(content))


def user(content: "str | Block | Iterable[str | Block]") -> Message:
    """What the user says."""
    return Message("user", _to_blocks(content))


def assistant(content: "str | Block | Iterable[str | Block]") -> Message:
    """What the model said."""
    return Message("assistant", _to_blocks(content))


def tool_results(*results: ToolResult) -> Message:
    """The answers to the calls of the assistant message before."""
    return Message("tool", results)


# ---- save and load: a header line, then one message a line

_BLOCK_TAGS = {"text", "thinking", "media", "tool_call", "tool_result", "foreign"}


def save(conversation: Iterable[Message], **header: Any) -> bytes:
    """The conversation as JSON lines: `{"toolglot": 1, …}`, then one message a line."""
    lines = [dumps({"toolglot": FORMAT_VERSION, **header}), *map(dumps, conversation)]
    return b"\n".join(lines) + b"\n"


def load(data: bytes) -> tuple[Conversation, dict[str, Any]]:
    """What `save` wrote: the conversation and the rest of its header. Blocks of unknown types load as `Foreign`."""
    lines = [line for line in data.split(b"\n") if line.strip()]
    header = _parse_line(lines[0], 1) if lines else {}
    version = header.pop("toolglot", None)
    if version != FORMAT_VERSION:
        raise MalformedData(f"line 1: not a conversation of format {FORMAT_VERSION}: its header says {version!r}")
    return Conversation(_parse_message(line, number) for number, line in enumerate(lines[1:], 2)), header


def _parse_line(line: bytes, number: int) -> dict[str, Any]:
    try:
        value = loads(line)
    except ValueError as e:
        raise MalformedData(f"line {number}: {e}") from None
    if not isinstance(value, dict):
        raise MalformedData(f"line {number}: expected an object, got {json_type_name(value)}")
    return cast(dict[str, Any], value)


def _wrap_unknown_block(block: Any) -> Any:
    """A block of a type that this version does not know is kept as Foreign."""
    if not isinstance(block, dict):
        return block
    fields = cast(dict[str, Any], block)
    tag, content = fields.get("type"), fields.get("content")
    if not isinstance(tag, str) or tag not in _BLOCK_TAGS:
        return {"type": "foreign", "wire": "toolglot", "item": fields}
    return (
        {**fields, "content": [_wrap_unknown_block(part) for part in cast(list[Any], content)]}
        if isinstance(content, list)
        else fields
    )


def _parse_message(line: bytes, number: int) -> Message:
    value = _parse_line(line, number)
    blocks = value.get("blocks")
    if isinstance(blocks, list):
        value["blocks"] = [_wrap_unknown_block(block) for block in cast(list[Any], blocks)]
    try:
        return msgspec.convert(value, Message)
    except msgspec.ValidationError as e:
        raise MalformedData(f"line {number}: {e}") from None
