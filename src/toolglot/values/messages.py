"""Neutral values of a conversation: immutable, and a superset of what every wire can express.

- A block stores what all wires share in typed fields. What only its own wire understands (signatures, item
ids, citations)
  is kept verbatim in `opaque`, and is sent back only to the `Origin` that produced it.
- `Foreign` is content without a neutral form: kept verbatim, and sent back only to its own wire.
- Nothing here is specific to a provider.
- Values hold plain data and can never be part of a reference cycle, so the garbage collector skips them
(`gc=False`).
"""

from binascii import b2a_base64
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Literal, cast, get_args, overload
from weakref import WeakKeyDictionary

import msgspec
from msgspec.structs import force_setattr

from toolglot.common.jsontext import dumps, loads_object, to_plain
from toolglot.common.media_types import detect_media
from toolglot.common.textutil import pluralize
from toolglot.common.value_checks import as_items, check_texts, check_values
from toolglot.errors import MalformedData, ToolErrorKind, UsageError
from toolglot.values.definitions import CacheMark, ToolDefinition, to_storable
from toolglot.values.definitions import Opaque as Opaque

FORMAT_VERSION = 1

Role = Literal["system", "user", "assistant", "tool"]
_ROLES: tuple[str, ...] = get_args(Role)
StopReason = Literal["end", "tools", "length", "refusal", "filtered", "pause", "error"]
MediaKind = Literal["image", "audio", "video", "file"]


def _keep_plain(block: msgspec.Struct, name: str, *, allow_nan: bool = False) -> None:
    """Keep a field as plain JSON.

    Raises UsageError. `allow_nan`: providers send NaN, which is written as null.
    """
    value = getattr(block, name)
    try:
        plain = to_plain(value, allow_nan=allow_nan)
    except ValueError as e:
        raise UsageError(f"{name} of {type(block).__name__} cannot be written as JSON: {e}") from None
    if plain is not value:
        force_setattr(block, name, plain)


def _keep_opaque(block: msgspec.Struct, opaque: Any) -> None:
    if type(opaque) is not dict:
        check_texts(block)
    _keep_plain(block, "opaque", allow_nan=True)


class Origin(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Where a message comes from: the wire it was read from, the vendor's profile and the model."""

    wire: str
    """The wire it was read from."""
    profile: str = ""
    """The id of the vendor's profile."""
    model: str = ""
    """The model that the reply names."""
    requested: str = ""
    """The requested model, if the reply names another one because of an alias, a snapshot or a router."""

    def __post_init__(self) -> None:
        if (type(self.wire), type(self.profile), type(self.model), type(self.requested)) != _ORIGIN_KINDS:
            check_texts(self)


class _Block(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type"):
    pass


class Text(_Block, frozen=True, gc=False, tag="text"):
    """Visible text."""

    text: str
    """The text."""
    opaque: Opaque | None = None
    """State of the provider that belongs to the block."""
    cache: CacheMark | None = None
    """A mark for the provider's prompt cache."""

    def __post_init__(self) -> None:
        if type(self.text) is not str or (self.cache is not None and type(self.cache) is not CacheMark):
            check_texts(self)
        if self.opaque is not None:
            _keep_opaque(self, self.opaque)


class Thinking(_Block, frozen=True, gc=False, tag="thinking"):
    """The model's reasoning. `text` is empty if the provider sent only a signature or ciphertext."""

    text: str
    """The reasoning, or the provider's summary of it."""
    opaque: Opaque | None = None
    """State of the provider that belongs to the block, such as a signature."""

    def __post_init__(self) -> None:
        if type(self.text) is not str:
            check_texts(self)
        if self.opaque is not None:
            _keep_opaque(self, self.opaque)


class Media(_Block, frozen=True, gc=False, tag="media"):
    """An image, audio, video or file: base64 `data`, a URL, or a file id at the origin.

    Create one with `Media.from_bytes`, or with `load_attachment` from a file.
    """

    kind: MediaKind
    """What it is: an image, audio, video or another file."""
    media_type: str = ""
    """The MIME type, such as `image/png`."""
    data: str | None = None
    """The content in base64."""
    url: str | None = None
    """Where the provider finds the content."""
    file_id: str | None = None
    """The id of a file that was uploaded to the provider."""
    name: str = ""
    """The name of the file."""
    opaque: Opaque | None = None
    """State of the provider that belongs to the block."""
    cache: CacheMark | None = None
    """A mark for the provider's prompt cache."""
    detail: Literal["", "auto", "low", "high", "original"] = ""
    """A hint for the resolution at which the model sees an image; only OpenAI's APIs support it."""

    def __post_init__(self) -> None:
        check_texts(self)
        if self.opaque is not None:
            _keep_opaque(self, self.opaque)

    @classmethod
    def from_bytes(cls, data: bytes, media_type: str = "", *, name: str = "") -> "Media":
        """Create a block from raw bytes.

        PNG, JPEG, GIF, WebP and PDF are recognized; others need a `media_type`.
        """
        if not media_type:
            _, media_type = detect_media(data[:16]) or ("", "")
        if not media_type:
            raise UsageError("the media type of the bytes is unknown; pass media_type, such as 'audio/wav'")
        family = media_type.partition("/")[0]
        kind = cast(MediaKind, family) if family in get_args(MediaKind) else "file"
        return cls(kind, media_type, b2a_base64(data, newline=False).decode(), name=name)


class BaseCall(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A call translated from a model's native tool names: the base tool, its arguments, and the facade that
    translated it.
    """

    tool: str
    arguments: dict[str, Any]
    facade: str = ""

    def __post_init__(self) -> None:
        if type(self.tool) is not str or type(self.arguments) is not dict or type(self.facade) is not str:
            check_texts(self)
        _keep_plain(self, "arguments")


class ToolCall(_Block, frozen=True, gc=False, tag="tool_call"):
    """A tool call by the model.

    `arguments` is None for a freeform call and for text that is not a JSON object; `raw` is the text exactly
    as sent.
    """

    id: str
    """Identifies the call; its result has the same id."""
    name: str
    """The name of the tool."""
    arguments: dict[str, Any] | None = None
    """The arguments; None for a freeform call, and for text that is not a JSON object."""
    raw: str | None = None
    """The text exactly as sent, if it is known."""
    freeform: bool = False
    """The input is plain text instead of JSON."""
    namespace: str = ""
    """The namespace of the tool, if it has one."""
    opaque: Opaque | None = None
    """State of the provider that belongs to the block."""
    base_call: BaseCall | None = None
    """Set if the model made the call under the native tool names of a facade."""
    caller: str = ""
    """The id of the code execution that made the call; "": the model itself."""
    cache: CacheMark | None = None
    """A mark for the provider's prompt cache."""

    def __post_init__(self) -> None:
        kinds = (type(self.id), type(self.name), type(self.namespace), type(self.caller), type(self.freeform))
        has_fields = type(self.arguments) in _MAYBE_OBJECT and type(self.raw) in _MAYBE_TEXT
        has_extras = type(self.base_call) in _MAYBE_CALL and type(self.cache) in _MAYBE_MARK
        if kinds != _CALL_KINDS or not has_fields or not has_extras:
            check_texts(self)
        if self.arguments is not None:
            _keep_plain(self, "arguments")
        if self.opaque is not None:
            _keep_opaque(self, self.opaque)

    @property
    def qualified_name(self) -> str:
        """The name with its namespace, if it has one."""
        return f"{self.namespace}.{self.name}" if self.namespace else self.name

    @property
    def text(self) -> str:
        """The arguments as JSON text, for wires that send them as a string."""
        if self.raw is not None:
            return self.raw
        return dumps(self.arguments or {}).decode()


class ToolResult(_Block, frozen=True, gc=False, tag="tool_result"):
    """The result of one call.

    `content` is what the model reads; `data` is the tool's structured output, if any.

    For a failed call, `error_kind` is the category and `error_code` the stable identifier that the tool
    raised.
    """

    call_id: str
    """The id of the call."""
    content: "tuple[ResultBlock, ...]" = ()
    """What the model reads."""
    name: str = ""
    """The name of the tool."""
    data: Any = None
    """What the tool returned, as JSON data; None if that was only text."""
    is_error: bool = False
    """Whether the call failed."""
    error_kind: ToolErrorKind | None = None
    """The category of the failure."""
    opaque: Opaque | None = None
    """State of the provider that belongs to the block."""
    is_rendered: bool = False
    """A facade rendered the text, so it already tells the model whether the call failed."""
    error_code: str = ""
    """The stable name of the failure, as the tool raised it."""
    cache: CacheMark | None = None
    """A mark for the provider's prompt cache."""

    def __post_init__(self) -> None:
        if type(self.content) is not tuple:
            force_setattr(self, "content", _to_blocks(self.content))
        for block in self.content:
            if type(block) not in _RESULT_CLASSES:
                raise UsageError(
                    f"a part of a tool result is text, media or foreign, not {type(block).__name__}"
                )
        kinds = (
            type(self.call_id),
            type(self.name),
            type(self.error_code),
            type(self.is_error),
            type(self.is_rendered),
        )
        has_extras = type(self.error_kind) in _MAYBE_TEXT and type(self.cache) in _MAYBE_MARK
        if kinds != _RESULT_KINDS or self.error_kind not in _ERROR_KINDS or not has_extras:
            check_texts(self)
        if self.data is not None:
            _keep_plain(self, "data", allow_nan=True)
        if self.opaque is not None:
            _keep_opaque(self, self.opaque)

    @property
    def text(self) -> str:
        """The text of the result."""
        return "".join([block.text for block in self.content if type(block) is Text])


class Foreign(_Block, frozen=True, gc=False, tag="foreign"):
    """Content from one wire that has no neutral form, verbatim."""

    wire: str
    """The wire that it comes from, and to which alone it can be sent."""
    item: Any
    """The content, as JSON."""

    def __post_init__(self) -> None:
        if type(self.wire) is not str:
            check_texts(self)
        _keep_plain(self, "item", allow_nan=True)


class ToolsChanged(_Block, frozen=True, gc=False, tag="tools_changed"):
    """A change to the model's tools from this point in the conversation on.

    Names are qualified (`namespace.name`).

    It is part of a system message, of an assistant message if the provider searched for tools, or of the
    result of a tool that searched for them (`ToolDefinition.finds_tools`).
    """

    added: tuple[ToolDefinition, ...] = ()
    """Tools that the request did not declare, or that replace one of the same name."""
    loaded: tuple[str, ...] = ()
    """Deferred tools that the model may now call."""
    removed: tuple[str, ...] = ()
    """Tools that the model may no longer call."""
    opaque: Opaque | None = None
    """State of the provider that belongs to the block."""

    def __post_init__(self) -> None:
        check_values(self)
        for name in ("loaded", "removed"):
            names: tuple[str, ...] = getattr(self, name)
            force_setattr(self, name, tuple([to_plain(item) for item in names]))
        force_setattr(self, "added", tuple([to_storable(tool) for tool in self.added]))
        if self.opaque is not None:
            _keep_opaque(self, self.opaque)


ResultBlock = Text | Media | Foreign | ToolsChanged
"""A part of a tool result."""
Block = Text | Thinking | Media | ToolCall | ToolResult | ToolsChanged | Foreign
"""A part of a message."""
_BLOCK_CLASSES = frozenset(get_args(Block))
_RESULT_CLASSES = frozenset(get_args(ResultBlock))
_ERROR_KINDS = (None, *get_args(ToolErrorKind))
# What `check_values` would find, without its cost: calls and results are made on hot paths.
_CALL_KINDS, _RESULT_KINDS = (str, str, str, str, bool), (str, str, str, bool, bool)
_ORIGIN_KINDS = (str, str, str, str)
_MAYBE_TEXT, _MAYBE_OBJECT = (str, type(None)), (dict, type(None))
_MAYBE_CALL, _MAYBE_MARK = (BaseCall, type(None)), (CacheMark, type(None))


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Token counts. `input` includes `cached` and `cache_write`; `output` includes `reasoning`."""

    input: int = 0
    """All input tokens."""
    output: int = 0
    """All output tokens."""
    cached: int = 0
    """Input tokens read from the prompt cache."""
    cache_write: int = 0
    """Input tokens written to the prompt cache."""
    reasoning: int = 0
    """Output tokens of reasoning."""


class Message(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A message with a role.

    A `tool` message holds the results for the calls in the assistant message before it.
    """

    role: Role
    """Who speaks: system, user, assistant or tool."""
    blocks: tuple[Block, ...]
    """The content, in order."""
    origin: Origin | None = None
    """Where the message comes from; None: from the caller."""
    opaque: Opaque | None = None
    """State of the provider that belongs to the message."""

    def __post_init__(self) -> None:
        if self.role not in _ROLES:
            raise UsageError(
                f"the role of a message is {', '.join(_ROLES[:-1])} or {_ROLES[-1]}, not {self.role!r:.80}"
            )
        if type(self.role) is not str:
            force_setattr(self, "role", to_plain(self.role))
        blocks: Any = self.blocks
        is_valid = type(blocks) is tuple
        for block in blocks if is_valid else ():  # no generator: this runs for every message
            if type(block) not in _BLOCK_CLASSES:
                is_valid = False
        if not is_valid:
            force_setattr(self, "blocks", _to_blocks(blocks))
        if self.origin is not None and type(self.origin) is not Origin:
            check_texts(self)
        if self.opaque is not None:
            _keep_opaque(self, self.opaque)

    @property
    def text(self) -> str:
        """The visible text."""
        return "".join([block.text for block in self.blocks if type(block) is Text])

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, in order."""
        # twice as fast as a generator
        return tuple([block for block in self.blocks if type(block) is ToolCall])

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results, in order."""
        return tuple([block for block in self.blocks if type(block) is ToolResult])

    def _repr_markdown_(self) -> str:
        """For notebooks: the role and text, and the calls with their results."""
        calls = [f"`{call.name}({call.text:.200})`" for call in self.calls]
        results = [f"`{result.name}` → {result.text:.500}" for result in self.results]
        media = [f"*{block.kind}*" for block in self.blocks if isinstance(block, Media)]
        return f"**{self.role}** " + "\n\n".join(filter(None, [self.text, *media, *calls, *results]))


class Reply(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A model's reply: one assistant message, why it stopped, and its token usage."""

    blocks: tuple[Block, ...]
    """The content of the assistant message, in order."""
    stop: StopReason = "end"
    """Why the model stopped."""
    usage: Usage = Usage()
    """The tokens of the request and the reply."""
    origin: Origin | None = None
    """Where the reply comes from."""
    id: str = ""
    """The provider's id of the reply."""
    opaque: Opaque | None = None
    """State of the provider that belongs to the message."""

    def __post_init__(self) -> None:
        if type(self.blocks) is not tuple:
            force_setattr(self, "blocks", _to_blocks(self.blocks))

    @property
    def message(self) -> Message:
        """The reply as a message for the history."""
        return Message("assistant", self.blocks, self.origin, self.opaque)

    @property
    def text(self) -> str:
        """The visible text."""
        return "".join([block.text for block in self.blocks if type(block) is Text])

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, in order."""
        return tuple([block for block in self.blocks if type(block) is ToolCall])

    def _repr_markdown_(self) -> str:
        """For notebooks: the reply as a message."""
        return self.message._repr_markdown_()  # pyright: ignore[reportPrivateUsage]


class Conversation(Sequence[Message]):
    """An append-only list of messages. Messages never change, so encodings can be cached."""

    __slots__ = ("__weakref__", "_active_runs", "_delivered", "_messages", "attachments")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._messages = list[Message]()
        self._active_runs: list[Any] = []  # one at most; a list, to be shared
        self._delivered: dict[int, None] = {}
        self.record(*messages)
        self.attachments: WeakKeyDictionary[Any, Any] | None = None
        """Per-owner state for this conversation; it lives as long as both the owner and the conversation."""

    def share(self) -> "Conversation":
        """Return another object for the same conversation.

        What is attached to this one may keep it without a cycle.
        """
        other = Conversation()
        other._messages, other._active_runs = self._messages, self._active_runs
        other._delivered = self._delivered
        return other

    @property
    def active_run(self) -> Any:
        """The run in progress; a conversation has at most one at a time, across all agents."""
        return self._active_runs[0] if self._active_runs else None

    @active_run.setter
    def active_run(self, run: Any) -> None:
        self._active_runs[:] = () if run is None else (run,)

    def mark_waiting(self) -> None:
        """Note that a run waits: the results of its calls come next. For the loop."""
        self._active_runs[:] = (None,)

    def append(self, *messages: Message) -> None:
        """Append messages. Raises UsageError.

        While a run is in progress, only the run appends: `Agent.deliver` passes a message to it.
        """
        if self._active_runs:
            run = self._active_runs[0]
            if run is None:
                raise UsageError(
                    "a run waits on this conversation: pass the message to it with agent.deliver(…)"
                )
            if not run.is_dead:
                raise UsageError(
                    "a run is in progress on this conversation: pass the message to it with agent.deliver(…)"
                )
        self.record(*messages)

    def record(self, *messages: Message) -> None:
        """Append messages of the run in progress. For the loop: only it knows where one may stand."""
        for message in messages:
            if not isinstance(message, Message):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise UsageError(f"a conversation holds messages, not {type(message).__name__}; use user(…)")
        self._messages.extend(messages)

    def retract(self, length: int) -> None:
        """Remove the messages from `length` on because they were refused.

        Cached encodings of them become invalid.
        """
        del self._messages[length:]
        for index in [index for index in self._delivered if index >= length]:
            del self._delivered[index]

    @property
    def delivered(self) -> Collection[int]:
        """The positions of messages that have reached a run in progress: no prompt begins with them."""
        return self._delivered.keys()

    def mark_delivered(self, *indexes: int) -> None:
        """Note that messages have reached, or will reach, a run in progress. For the loop."""
        self._delivered |= dict.fromkeys(indexes)

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
        last = f", last: {self._messages[-1].role} {self._messages[-1].text!r:.60}" if self._messages else ""
        return f"<Conversation of {pluralize(len(self), 'message')}{last}>"

    def _repr_markdown_(self) -> str:
        """For notebooks: the messages, and the calls with their results."""
        return "\n\n".join(map(Message._repr_markdown_, self._messages))  # pyright: ignore[reportPrivateUsage]


def _to_blocks(content: Any) -> tuple[Block, ...]:
    if isinstance(content, str | _Block):
        content = (content,)
    elif isinstance(content, bytes | dict) or not isinstance(content, Iterable):
        # bytes and dicts hold no blocks
        raise UsageError(
            f"the content of a message is text or blocks, not {type(cast(Any, content)).__name__}"
        )
    parts = [Text(part) if isinstance(part, str) else part for part in cast(Iterable[Any], content)]
    for part in parts:
        if type(part) not in _BLOCK_CLASSES:
            hint = "; use Media.from_bytes" if isinstance(part, bytes) else ""
            raise UsageError(f"a part of a message is text or a block, not {type(part).__name__}{hint}")
    return tuple(parts)


def system(content: "str | Block | Iterable[str | Block]") -> Message:
    """Create a system message."""
    return Message("system", _to_blocks(content))


def user(content: "str | Block | Iterable[str | Block]") -> Message:
    """Create a user message."""
    return Message("user", _to_blocks(content))


def assistant(content: "str | Block | Iterable[str | Block]") -> Message:
    """Create an assistant message."""
    return Message("assistant", _to_blocks(content))


def tool_results(*results: ToolResult | Iterable[ToolResult]) -> Message:
    """Create a tool message with the results for the calls in the assistant message before it.

    Raises UsageError.

    The results may also be given as a list, as the parts of other messages are.
    """
    blocks: list[ToolResult] = []
    for item in results:
        blocks += [item] if isinstance(item, ToolResult) else as_items(item)
    for block in blocks:
        if not isinstance(block, ToolResult):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(
                f"a tool message holds tool results, not {type(block).__name__}; use ToolResult(call.id, …)"
            )
    return Message("tool", tuple(blocks))


# ---- save and load: a header line, then one message per line

_DELIVERED = "delivered"  # the key of the positions in the header
_BLOCK_TYPES = {"text", "thinking", "media", "tool_call", "tool_result", "tools_changed", "foreign"}
# Keys of format 1 that were renamed before the first release, by type of block.
_RENAMED_KEYS = {"tool_call": {"meant": "base_call"}, "tool_result": {"worded": "is_rendered"}}


def save(conversation: Iterable[Message], **header: Any) -> bytes:
    """Serialize the conversation as JSON lines: `{"toolglot": 1, …}`, then one message per line."""
    if isinstance(conversation, Conversation) and conversation.delivered:
        header[_DELIVERED] = [*conversation.delivered]
    lines = [dumps({"toolglot": FORMAT_VERSION, **header}), *map(dumps, conversation)]
    return b"\n".join(lines) + b"\n"


def load(data: bytes | str) -> tuple[Conversation, dict[str, Any]]:
    """Load what `save` wrote.

    Return the conversation and its header. Unknown types of blocks load as `Foreign`.
    """
    if isinstance(data, str):
        data = data.encode()
    lines = [line for line in data.split(b"\n") if line.strip()]
    header: dict[str, Any] = {}
    if lines:
        header = _parse_line(lines[0], 1)
    version = header.pop("toolglot", None)
    if version != FORMAT_VERSION:
        raise MalformedData(
            f"line 1: expected a conversation of format {FORMAT_VERSION}, but its header has {version!r}"
        )
    messages = [_parse_message(line, number) for number, line in enumerate(lines[1:], 2)]
    # a saved run has calls and results in it
    header = {key: _upgrade(value) for key, value in header.items()}
    conversation = Conversation(messages)
    conversation.mark_delivered(*_read_delivered(header.pop(_DELIVERED, []), messages))
    return conversation, header


def _read_delivered(value: Any, messages: list[Message]) -> list[int]:
    """Return the positions of messages that were delivered to a run. Raises MalformedData."""
    users = [index for index, message in enumerate(messages) if message.role == "user"]
    if not isinstance(value, list) or not all(type(index) is int for index in cast(list[Any], value)):
        raise MalformedData(f"line 1: {_DELIVERED} is not a list of numbers")
    delivered = cast(list[int], value)
    if not {*delivered} <= {*users}:
        raise MalformedData("line 1: the saved deliveries do not fit the conversation")
    return delivered


def _parse_line(line: bytes, number: int) -> dict[str, Any]:
    try:
        return loads_object(line)
    except ValueError as e:
        raise MalformedData(f"line {number}: {e}") from None


def _parse_message(line: bytes, number: int) -> Message:
    value = _parse_line(line, number)
    if isinstance(value.get("blocks"), list):
        value["blocks"] = _upgrade(value["blocks"], wraps=True)
    try:
        return msgspec.convert(value, Message)
    except (msgspec.ValidationError, UsageError) as e:
        raise MalformedData(f"line {number}: {e}") from None


def _upgrade(value: Any, *, wraps: bool = False) -> Any:
    """Rename keys from older files in blocks, including those in a header.

    `wraps`: other objects become foreign blocks.
    """
    if isinstance(value, list):
        return [_upgrade(item, wraps=wraps) for item in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    fields = cast(dict[str, Any], value)
    tag = fields.get("type")
    if isinstance(tag, str) and tag in _BLOCK_TYPES:  # do not touch the data of tools inside a block
        renamed = _RENAMED_KEYS.get(tag, {})
        fields = {renamed.get(key, key): item for key, item in fields.items()}
        if "content" in fields:
            fields["content"] = _upgrade(fields["content"], wraps=True)
        return fields
    if wraps:  # a type that this version does not know
        return {"type": "foreign", "wire": "toolglot", "item": fields}
    return {key: _upgrade(item) for key, item in fields.items()}
