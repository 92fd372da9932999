"""A request to a model, in neutral values.

`extras` holds fields without a neutral form, verbatim, under the name of the wire or the wire family that
understands them: `{"gemini": {"cachedContent": …}, "openai": {"service_tier": "flex"}}`.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple, cast, get_args

import msgspec
from msgspec import Meta

from toolglot.common.jsontext import to_plain
from toolglot.common.value_checks import OptionMeta, check_values
from toolglot.errors import UsageError
from toolglot.values.definitions import BUILTIN_TAG, CacheMark, Schema, ToolDefinition, ToolExample
from toolglot.values.messages import Message, ToolResult, ToolsChanged

__all__ = [
    "BUILTIN_TAG",
    "Effort",
    "OfferedTools",
    "Options",
    "Output",
    "Request",
    "Schema",
    "ToolChoice",
    "ToolDefinition",
    "ToolExample",
    "effective_tools",
    "iter_changes",
    "parse_effort",
    "parse_tool_choice",
]

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


def parse_effort(value: object) -> Effort | None:
    """Return the value if it is a known effort level, else None."""
    return cast(Effort, value) if value in get_args(Effort) else None


_Mode = Literal["auto", "none", "required"]


class ToolChoice(msgspec.Struct, frozen=True, omit_defaults=True):
    """`auto`: the model decides.

    `none`: no calls. `required`: at least one call. `names` limits the choice to these tools.

    A tool is named with or without its namespace (`crm.find`, `find`). Wherever a choice is expected, a mode
    can be given as a word, and so can the name of the one tool that must be called.
    """

    mode: _Mode = "auto"
    """Whether the model calls a tool."""
    names: Sequence[str] = ()
    """The only tools that it may call; empty: all."""

    def __post_init__(self) -> None:
        check_values(self)

    def includes(self, tool: ToolDefinition) -> bool:
        """Return whether `names` contains the tool."""
        return tool.name in self.names or tool.qualified_name in self.names


def parse_tool_choice(choice: ToolChoice | str | None) -> ToolChoice | None:
    """Return a choice that may be given as a word: one of the modes, or the name of the tool that must be
    called.
    """
    if not isinstance(choice, str):
        return choice
    if choice in get_args(_Mode):
        return ToolChoice(cast(_Mode, choice))
    return ToolChoice("required", (choice,))


class Output(msgspec.Struct, frozen=True, omit_defaults=True):
    """Structured output: JSON that follows `schema`, or any JSON object if it is None."""

    schema: Schema | None = None
    """The JSON Schema; None: any object."""
    name: str = "output"
    """A name for the schema, which some providers require."""
    description: str = ""
    """What the output is, for the model."""
    strict: bool | None = None
    """Whether the provider holds the answer to the schema; None: its default."""


class Options(msgspec.Struct, metaclass=OptionMeta, frozen=True, omit_defaults=True):
    """Generation options. None means the provider's default."""

    max_tokens: Annotated[int, Meta(ge=0)] | None = None
    """Maximum tokens of a reply."""
    temperature: Annotated[float, Meta(ge=0)] | None = None
    """How random the reply is; 0: as little as possible."""
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Choose only from the likeliest tokens that together have this probability."""
    top_k: Annotated[float, Meta(ge=0)] | None = None
    """Choose only from this many of the likeliest tokens."""
    stop: Sequence[str] = ()
    """Texts at which the reply ends."""
    seed: int | None = None
    """Makes replies repeatable, as far as the provider can."""
    presence_penalty: float | None = None
    """How much a token is avoided that has occurred already."""
    frequency_penalty: float | None = None
    """How much a token is avoided for each time that it has occurred."""
    effort: Effort | None = None
    """How much the model should reason: none, minimal, low, medium, high, xhigh or max."""
    thinking_budget: Annotated[int, Meta(ge=-1)] | None = None
    """Maximum tokens of reasoning; -1: the model decides, where the provider supports that."""
    cache: bool | CacheMark | None = None
    """Place prompt-cache marks on wires that need them, with the CacheMark's time to live if given; agents do
    so unless this is False. Other wires cache without marks."""
    extras: dict[str, dict[str, Any]] = {}
    """A provider's own parameters, by wire or family of wires: `{"openai": {"service_tier": "flex"}}`. They
    are sent as they are; on another wire, they are a Loss."""

    def __post_init__(self) -> None:
        check_values(self)
        try:
            msgspec.structs.force_setattr(self, "extras", to_plain(self.extras))
        except ValueError as e:
            raise UsageError(f"extras of Options: {e}") from None


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that is sent to a model."""

    model: str = ""
    """"": the model of the engine or profile used to send it."""
    messages: Sequence[Message] = ()
    """The conversation, with system messages."""
    tools: Sequence[ToolDefinition] = ()
    """The tools that the model may call."""
    tool_choice: ToolChoice | None = None
    """Whether it must call one, and which; None: the model decides."""
    parallel: bool | None = None
    """False: one call at a time; None: the provider's default."""
    options: Options = Options()
    """How the model generates."""
    output: Output | None = None
    """The shape of the answer; None: text."""
    stream: bool | None = None
    """Whether the reply is streamed; None: whatever sends the request decides."""
    extras: dict[str, dict[str, Any]] = {}
    """A provider's own parameters, by wire or family of wires."""

    def __post_init__(self) -> None:
        if isinstance(self.messages, str | Message):
            raise UsageError("messages of Request: pass a list, such as [user('hi')]")
        if not isinstance(self.tools, tuple):
            msgspec.structs.force_setattr(self, "tools", tuple(self.tools))
        if isinstance(self.tool_choice, str):
            msgspec.structs.force_setattr(self, "tool_choice", parse_tool_choice(self.tool_choice))
        if self.options.extras:
            msgspec.structs.force_setattr(self, "extras", _merge_extras(self.options.extras, self.extras))


_Extras = dict[str, dict[str, Any]]


def _merge_extras(extras: _Extras, own: _Extras) -> _Extras:
    """Return extras of options and of a request, which take precedence."""
    return {**own, **{wire: {**fields, **own.get(wire, {})} for wire, fields in extras.items()}}


class OfferedTools(NamedTuple):
    """The tools at the end of a request: those that the model may call, and those that are still deferred."""

    declared: tuple[ToolDefinition, ...]
    deferred: tuple[ToolDefinition, ...]


def effective_tools(request: Request) -> OfferedTools:
    """Return the tools at the end of a request: its own, with those that the conversation has added, loaded
    and removed.

    Later tools come after earlier ones, so that earlier declarations keep their positions.
    """
    known = {tool.qualified_name: tool for tool in request.tools}
    declared: dict[str, ToolDefinition] = {}
    deferred: dict[str, ToolDefinition] = {}
    for name, tool in known.items():
        if tool.deferred:
            deferred[name] = tool
        else:
            declared[name] = tool
    for change in iter_changes(request.messages):
        for name in change.removed:
            declared.pop(name, None)
            deferred.pop(name, None)
        for tool in change.added:
            name = tool.qualified_name
            known[name] = tool
            if tool.deferred and name not in change.loaded:
                declared.pop(name, None)
                deferred[name] = tool
            else:
                deferred.pop(name, None)
                declared[name] = tool
        for name in change.loaded:
            deferred.pop(name, None)
            if name in known:
                declared.setdefault(name, known[name])
    return OfferedTools(tuple(declared.values()), tuple(deferred.values()))


def iter_changes(messages: Sequence[Message]) -> Iterator[ToolsChanged]:
    """Yield every change to the tools in a conversation, in order."""
    for message in messages:
        for block in message.blocks:
            if type(block) is ToolsChanged:
                yield block
            elif type(block) is ToolResult:
                for part in block.content:
                    if type(part) is ToolsChanged:
                        yield part
