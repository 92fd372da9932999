"""A request to a model, in neutral values.

`extras` holds what has no neutral form, verbatim, under the name of the wire or the family of wires that understands it:
`{"gemini": {"cachedContent": …}, "openai": {"service_tier": "flex"}}`.
"""

from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal, cast, get_args

import msgspec
from msgspec import Meta

from toolglot.errors import UsageError
from toolglot.messages import Message, Opaque
from toolglot.value_checks import check_values, keep_iterables

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Schema = dict[str, Any]
BUILTIN_TAG = "builtin"
"""Tag of the tools that come with this library. Facades present them to each model under its native names."""


def parse_effort(value: object) -> Effort | None:
    """Return the value if it is a known level of effort, else None."""
    return cast(Effort, value) if value in get_args(Effort) else None


class ToolExample(msgspec.Struct, frozen=True, omit_defaults=True):
    """An example of a tool's use."""

    input: dict[str, Any]
    output: Any = None
    description: str = ""


class ToolDefinition(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool as a model sees it.

    A `function` has a JSON Schema in `parameters`. A `freeform` tool takes plain text, which `grammar` may constrain.
    A `hosted` tool is run by the provider of `wire`; `opaque` is its complete definition there.
    `typed` maps a wire to a definition that the vendor's models are trained on (`{"type": "bash_20250124", …}`). It replaces
    description and schema for models that know it; the tool still runs here.
    """

    name: str
    description: str = ""
    parameters: Schema | None = None
    kind: Literal["function", "freeform", "hosted"] = "function"
    strict: bool | None = None
    grammar: dict[str, Any] | None = None
    namespace: str = ""
    examples: Sequence[ToolExample] = ()
    tags: Collection[str] = frozenset()
    version: str = ""
    wire: str = ""
    opaque: Opaque | None = None
    typed: dict[str, Opaque] = {}

    def __post_init__(self) -> None:
        keep_iterables(self)

    @property
    def qualified_name(self) -> str:
        """The name with its namespace, if it has one."""
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


class ToolChoice(msgspec.Struct, frozen=True, omit_defaults=True):
    """`auto`: the model decides. `none`: no calls. `required`: at least one call. `names` limits the choice to these tools.

    A tool is named with or without its namespace (`crm.find`, `find`).
    """

    mode: Literal["auto", "none", "required"] = "auto"
    names: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_values(self)

    def includes(self, tool: ToolDefinition) -> bool:
        """Return whether `names` contains the tool."""
        return tool.name in self.names or tool.qualified_name in self.names


class Output(msgspec.Struct, frozen=True, omit_defaults=True):
    """Structured output: JSON that follows `schema`, or any JSON object if it is None."""

    schema: Schema | None = None
    name: str = "output"
    description: str = ""
    strict: bool | None = None


class Options(msgspec.Struct, frozen=True, omit_defaults=True):
    """Generation options. None means the provider's default."""

    max_tokens: Annotated[int, Meta(ge=0)] | None = None
    temperature: Annotated[float, Meta(ge=0)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_k: Annotated[float, Meta(ge=0)] | None = None
    stop: Sequence[str] = ()
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    effort: Effort | None = None
    thinking_budget: Annotated[int, Meta(ge=-1)] | None = None
    cache: bool | None = None
    """Place prompt-cache marks on wires that need them; agents do unless this is False. Other wires cache without marks."""

    def __post_init__(self) -> None:
        check_values(self)


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that is sent to a model."""

    model: str = ""
    """"" is the model of the engine or profile that it is sent with."""
    messages: Sequence[Message] = ()
    tools: Sequence[ToolDefinition] = ()
    tool_choice: ToolChoice | None = None
    parallel: bool | None = None
    options: Options = Options()
    output: Output | None = None
    stream: bool | None = None
    extras: dict[str, dict[str, Any]] = {}

    def __post_init__(self) -> None:
        if isinstance(self.messages, str | Message):
            raise UsageError("messages of Request: pass a list, such as [user('hi')]")
        if not isinstance(self.tools, tuple):
            msgspec.structs.force_setattr(self, "tools", tuple(self.tools))
