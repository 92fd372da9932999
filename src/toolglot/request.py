"""A request to a model, in neutral values.

`extras` holds what has no neutral form, verbatim, under the name of the wire (or wire family) that understands it:
`{"anthropic-messages": {"container": …}, "openai": {"service_tier": "flex"}}`.
"""

from collections.abc import Sequence
from typing import Any, Literal, cast, get_args

import msgspec

from toolglot.messages import Message, Opaque

__all__ = ["BUILTIN_TAG", "Options", "Output", "Request", "ToolChoice", "ToolDefinition", "ToolExample"]

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Schema = dict[str, Any]
BUILTIN_TAG = "builtin"
"""The tag of tools that come with this library: facades show them to each model as its own."""


def parse_effort(value: object) -> Effort | None:
    """A level of effort, where it is one that is known."""
    return cast(Effort, value) if value in get_args(Effort) else None


class ToolExample(msgspec.Struct, frozen=True, omit_defaults=True):
    """One use of a tool."""

    input: dict[str, Any]
    output: Any = None
    description: str = ""


class ToolDefinition(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool as a model sees it.

    function: `parameters` is its JSON Schema. freeform: the input is plain text, `grammar` may bind it.
    hosted: the provider of `wire` runs it; `opaque` is its whole definition there.
    `typed`: wire -> what a vendor calls a function that its models know by themselves (`{"type": "bash_20250124", …}`): sent
    there in the place of description and schema, to models that do know it. It is run here.
    """

    name: str
    description: str = ""
    parameters: Schema | None = None
    kind: Literal["function", "freeform", "hosted"] = "function"
    strict: bool | None = None
    grammar: dict[str, Any] | None = None
    namespace: str = ""
    examples: tuple[ToolExample, ...] = ()
    tags: frozenset[str] = frozenset()
    version: str = ""
    wire: str = ""
    opaque: Opaque | None = None
    typed: dict[str, Opaque] = {}


class ToolChoice(msgspec.Struct, frozen=True, omit_defaults=True):
    """auto: the model decides. none: no calls. required: at least one call. With `names`: only these tools count."""

    mode: Literal["auto", "none", "required"] = "auto"
    names: tuple[str, ...] = ()


class Output(msgspec.Struct, frozen=True, omit_defaults=True):
    """The shape of the answer: JSON of `schema`, or any JSON object where it is None."""

    schema: Schema | None = None
    name: str = "output"
    description: str = ""
    strict: bool | None = None


class Options(msgspec.Struct, frozen=True, omit_defaults=True):
    """How to generate. None: the provider's default."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    effort: Effort | None = None
    thinking_budget: int | None = None
    cache: bool | None = None
    """True: marks for the prompt cache are placed on wires that need them; elsewhere caching needs no marks."""


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that is sent to a model."""

    model: str
    messages: Sequence[Message]
    tools: tuple[ToolDefinition, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel: bool | None = None
    options: Options = Options()
    output: Output | None = None
    stream: bool | None = None
    extras: dict[str, dict[str, Any]] = {}
