"""Tools as models see them, and marks for prompt caches: values used by both messages and requests."""

from collections.abc import Collection, Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import force_setattr, replace

from toolglot.common.jsontext import to_plain
from toolglot.common.value_checks import check_texts, check_values, keep_iterables
from toolglot.errors import UsageError

Opaque = dict[str, Any]
Schema = dict[str, Any]
BUILTIN_TAG = "builtin"
"""Tag of the tools included in this library. Facades present them to each model under its native names."""
MCP_TAG = "mcp"
"""Tag of tools from MCP servers. Like built-in tools, they need approval for anything but reading."""
ALWAYS_SHOWN_TAG = "always_shown"
"""Tag of tools that are not deferred, however many tools there are, unless the agent defers them by name."""


class CacheMark(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A mark for the provider's prompt cache: everything up to and including the marked part is worth
    caching.

    `ttl` is the time to live, such as `5m` or `1h`; "" is the provider's default.
    """

    ttl: str = ""
    """How long the part is worth keeping; "": the provider's default."""

    def __post_init__(self) -> None:
        if type(self.ttl) is not str:
            check_texts(self)


class ToolExample(msgspec.Struct, frozen=True, omit_defaults=True):
    """An example call of a tool."""

    input: dict[str, Any]
    """The arguments."""
    output: Any = None
    """What the tool returns for them, if that helps."""
    description: str = ""
    """What the example shows."""


class ToolDefinition(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool as a model sees it.

    A `function` has a JSON Schema in `parameters`. A `freeform` tool takes plain text, which `grammar` may
    constrain. A `hosted` tool is run by the provider of `wire`; `opaque` is its complete definition there.
    `typed` maps a wire to a definition that the vendor's models are trained on (`{"type": "bash_20250124",
    …}`). It replaces description and schema for models that know it; the tool still runs here.
    """

    name: str
    """The name that the model calls."""
    description: str = ""
    """What the tool does and when to use it, for the model."""
    parameters: Schema | None = None
    """The JSON Schema of the arguments."""
    kind: Literal["function", "freeform", "hosted"] = "function"
    """What it takes, or who runs it."""
    strict: bool | None = None
    """True: have the provider hold calls to the schema, where it can."""
    grammar: dict[str, Any] | None = None
    """Constrains the text of a freeform tool, in the format of OpenAI's API."""
    namespace: str = ""
    """A group of tools that the name belongs to."""
    examples: Sequence[ToolExample] = ()
    """Calls that the model is shown."""
    tags: Collection[str] = frozenset()
    """Words to select tools by."""
    version: str = ""
    """The version of the tool, for people and logs."""
    wire: str = ""
    """The wire of a hosted tool."""
    opaque: Opaque | None = None
    """The complete definition of a hosted tool."""
    typed: dict[str, Opaque] = {}
    """Wire -> a definition that the vendor's models are trained on."""
    output_schema: Schema | None = None
    """The schema of a successful result; code that calls the tool relies on it."""
    deferred: bool = False
    """Known by name only: the model gets the description and the schema once it finds the tool."""
    finds_tools: bool = False
    """Results of this tool load deferred tools."""
    callers: tuple[Literal["model", "code"], ...] = ()
    """Who may call it: the model itself, or code that the model runs. Empty: the provider's default."""
    cache: CacheMark | None = None
    """A mark for the provider's prompt cache."""

    def __post_init__(self) -> None:
        keep_iterables(self)
        if self.cache is not None and type(self.cache) is not CacheMark:
            check_values(self)

    @property
    def qualified_name(self) -> str:
        """The name with its namespace, if it has one."""
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


def to_storable(tool: ToolDefinition) -> ToolDefinition:
    """Return a definition as a conversation stores it: with plain JSON in its fields. Raises UsageError."""
    stored = replace(tool, examples=tuple([replace(example) for example in tool.examples]))
    check_texts(stored)
    _keep_plain_fields(stored, "parameters", "grammar", "opaque", "typed", "output_schema")
    for example in stored.examples:
        check_texts(example)
        _keep_plain_fields(example, "input", "output")
    force_setattr(stored, "tags", frozenset(map(to_plain, stored.tags)))
    return stored


def _keep_plain_fields(value: msgspec.Struct, *names: str) -> None:
    for name in names:
        try:
            # A NaN of an MCP server's schema is written as null.
            force_setattr(value, name, to_plain(getattr(value, name), allow_nan=True))
        except ValueError as e:
            raise UsageError(f"{name} of {type(value).__name__} cannot be written as JSON: {e}") from None
