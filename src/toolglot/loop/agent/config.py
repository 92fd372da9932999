"""What an agent is told when it is made: its options, and the frozen value that they become.

An option is declared once, as a key of `AgentOptions` with what to pass; its default stands in `AgentConfig`.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, cast, get_args

import msgspec
from msgspec.structs import replace

from toolglot.common.type_parameters import Data, OutputValue
from toolglot.common.value_checks import Accepts, as_items, check_arguments, find_accepted
from toolglot.engine.engine import Engine
from toolglot.engine.factory import EngineOptions
from toolglot.errors import UnknownName, UsageError
from toolglot.facades.catalog import find_facade, is_facade_name
from toolglot.facades.view import Facade
from toolglot.loop.context_window import ContextPolicy, Summarize
from toolglot.loop.deferral import Defer, parse_defer
from toolglot.loop.limits import RunLimits
from toolglot.loop.model_view import Language
from toolglot.schema.output import check_output_type
from toolglot.telemetry.options import Telemetry, check_available
from toolglot.tools.audit import AuditLog
from toolglot.tools.config import ToolConfig
from toolglot.tools.hooks import HookChain, Hooks
from toolglot.tools.hosted import HostedTools
from toolglot.tools.metrics import ToolMetrics
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import PlainFunction, Tool
from toolglot.values.approvals import ApprovalMode, Approve
from toolglot.values.messages import Conversation, Message
from toolglot.values.request import Options, Schema, ToolDefinition
from toolglot.wire.spec import check_extras

__all__ = [
    "AgentConfig",
    "AgentOptions",
    "AnyTools",
    "OutputType",
    "PromptContext",
    "SystemPrompt",
    "check_option",
    "split_options",
]


class PromptContext(msgspec.Struct, Generic[Data], frozen=True):
    """The argument of a function that writes the system prompt."""

    model: str
    """The model that is asked, as PROVIDER:MODEL."""
    data: Data
    """The data of the run."""
    messages: Sequence[Message]
    """The conversation so far."""
    tools: tuple[ToolDefinition, ...]
    """As the model sees them."""


SystemPrompt = str | Callable[[PromptContext[Data]], str | Awaitable[str]]
OutputType = type[OutputValue] | UnionType | Schema | None
AnyTools = Iterable[Tool[..., Any, Data] | PlainFunction | ToolDefinition] | ToolRegistry


class AgentOptions(EngineOptions, Generic[Data, OutputValue], total=False):
    """The options of an `Agent`, with those of `create_engine`."""

    tools: AnyTools[Data]
    """Functions, Tools, a ToolRegistry, or definitions: of tools that a provider runs, and of others, whose
    answers come from elsewhere, such as a browser."""
    hosted: Iterable[str]
    """Names of tools that the provider runs: web_search, code_execution."""
    system: Annotated[
        SystemPrompt[Data] | None,
        Accepts((str, Callable, NoneType), "a text, or a function that returns one"),
    ]
    """The system prompt, or a function that writes it."""
    config: Annotated[ToolConfig, Accepts(ToolConfig, "a ToolConfig")]
    """How tools are run: which may be called, approvals, limits for each, retries."""
    approval_mode: Annotated[ApprovalMode, Accepts(str, "'ask' or 'sandboxed'")]
    """"sandboxed": commands that a sandbox confines, without network, and edits of unprotected files in the
    workspace need no approval. The same as `ToolConfig(mode=…)`; an error where no sandbox works."""
    limits: Annotated[RunLimits, Accepts(RunLimits, "RunLimits")]
    """How much each run may use: requests, time, tokens, cost. A run can have its own: `run(prompt,
    limits=…)`."""
    options: Annotated[Options, Accepts(Options, "Options")]
    """How the model generates."""
    context: Annotated[ContextPolicy, Accepts(ContextPolicy, "a ContextPolicy")]
    """What to do when the conversation outgrows the model's context window."""
    facade: Annotated[str | Facade, Accepts((str, Facade), "the name of a facade, or a Facade")]
    """How the built-in tools are presented; by default as in the model's own harness, whose note on using
    them follows the system prompt."""
    code_mode: Annotated[
        bool | Language | None, Accepts((bool, str, NoneType), "True, False, None, 'javascript' or 'python'")
    ]
    """Have the model write code that calls the tools, in "javascript" or "python" (True: whichever can run
    here); None: only if its own harness works that way, as GPT-5.6's does. Needs `pip install
    'toolglot[code]'`."""
    output_type: OutputType[OutputValue]
    """A type, or a JSON Schema, for `result.output`."""
    approve: Annotated[
        Approve | None, Accepts((Callable, NoneType), "a function that takes an ApprovalRequest")
    ]
    """Called when a tool call needs approval; without it, the run pauses."""
    summarize: Annotated[
        Summarize | None, Accepts((Callable, NoneType), "a function that takes messages and returns a text")
    ]
    """Summarizes the omitted part of a long conversation, in place of the model."""
    hooks: Iterable[Hooks]
    """Observe or change requests, replies and calls."""
    fallbacks: Iterable[str | Engine]
    """Models to continue with when this one is busy or fails."""
    audit: Annotated[AuditLog | None, Accepts((AuditLog, NoneType), "an AuditLog")]
    """Logs every call."""
    metrics: Annotated[ToolMetrics | None, Accepts((ToolMetrics, NoneType), "a ToolMetrics")]
    """Counts the calls of each tool."""
    data: Data | None
    """Passed to tools in their Context, and to a function that writes the system prompt. A run can pass its
    own: `run(prompt, data=…)`."""
    conversation: Annotated[Conversation | None, Accepts((Conversation, NoneType), "a Conversation")]
    """A conversation to continue."""
    defer: Annotated[
        Defer,
        Accepts(
            (bool, str, Iterable, Callable, NoneType), "True, False, names or tags of tools, or a function"
        ),
    ]
    """Tools that the model must search for before it sees them: True, names or tags, or a function; by
    default ("auto"), all but the built-in ones if there are too many for the context window or the
    provider."""
    telemetry: Annotated[
        Telemetry | bool | None, Accepts((bool, Telemetry, NoneType), "True, False, None or a Telemetry")
    ]
    """Spans and metrics for OpenTelemetry: True, False or a `Telemetry`; by default, only if the program has
    set up OpenTelemetry."""


_EXPECTED: dict[str, tuple[Any, str]] = {
    "model": ((str, Engine), "PROVIDER:MODEL, such as 'anthropic:claude-sonnet-5', or an Engine"),
    **find_accepted(AgentOptions),
}
_DEFAULT_OPTIONS = Options(cache=True)
_NO_HOOKS = HookChain()


def check_option(name: str, value: Any, *, shown_as: str = "") -> None:
    """Raise UsageError if an option has a value of another type.

    `shown_as`: another option that takes the same.
    """
    if name in _EXPECTED:
        shown_as = shown_as or name
        check_arguments({shown_as: value}, {shown_as: _EXPECTED[name]})


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The configuration of an agent, without its models and conversations.

    A change replaces it as a whole.
    """

    tools: ToolRegistry
    hosted: HostedTools
    system: SystemPrompt[Any] | None = None
    config: ToolConfig = ToolConfig()
    limits: RunLimits = RunLimits()
    options: Options = _DEFAULT_OPTIONS
    context: ContextPolicy = ContextPolicy()
    facade: str | Facade = "auto"
    code_mode: bool | Language | None = None
    output_type: Any = None
    approve: Approve | None = None
    summarize: Summarize | None = None
    hooks: HookChain = _NO_HOOKS
    audit: AuditLog | None = None
    metrics: ToolMetrics
    data: Any = None
    defer: Defer = None
    telemetry: Telemetry | bool | None = None

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> "AgentConfig":
        """Return the configuration in the options of an agent. Raises UsageError."""
        tools, definitions = options.get("tools", ()), list[ToolDefinition]()
        if not isinstance(tools, ToolRegistry):
            items = as_items(tools)
            definitions = [item for item in items if _is_hosted(item)]
            tools = ToolRegistry(item for item in items if not _is_hosted(item))
        config = cls(
            tools=tools,
            hosted=HostedTools(as_items(options.get("hosted", ())), definitions),
            metrics=options.get("metrics") or ToolMetrics(),
        )
        return config.change(
            {name: options[name] for name in (*_CHANGEABLE, "approval_mode") if name in options}
        )

    def change(self, options: Mapping[str, Any]) -> "AgentConfig":
        """Return this configuration with other options. Raises UsageError."""
        fields = dict(options)
        for name, value in fields.items():
            check_option(name, value)
        if "approval_mode" in fields:
            fields["config"] = _use_mode(fields.get("config", self.config), fields.pop("approval_mode"))
        _check_mode(fields.get("config", self.config))
        # options that do not mention the cache keep it on
        if "options" in fields and fields["options"].cache is None:
            fields["options"] = replace(fields["options"], cache=True)
        if "options" in fields:
            check_extras(fields["options"].extras)
        if "facade" in fields:
            fields["facade"] = _read_facade(fields["facade"])
        if "defer" in fields:
            fields["defer"] = parse_defer(fields["defer"])
        if "hooks" in fields:
            fields["hooks"] = HookChain(as_items(fields["hooks"])) if fields["hooks"] else _NO_HOOKS
        if "code_mode" in fields:
            _check_language(fields["code_mode"])
        if fields.get("output_type") is not None:
            check_output_type(fields["output_type"])
        if "telemetry" in fields:
            check_available(fields["telemetry"])
        return replace(self, **fields)

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of all tools, including those that a provider runs."""
        return (*(tool.name for tool in self.tools), *self.hosted.all_names)


def _is_hosted(item: Any) -> bool:
    return isinstance(item, ToolDefinition) and item.kind == "hosted"


_CHANGEABLE = tuple(
    name for name in AgentConfig.__struct_fields__ if name not in ("tools", "hosted", "metrics")
)


def _use_mode(config: ToolConfig, mode: ApprovalMode) -> ToolConfig:
    if mode not in get_args(ApprovalMode):
        raise UnknownName("approval mode", mode, get_args(ApprovalMode))
    return replace(config, mode=mode)


def _check_mode(config: ToolConfig) -> None:
    """Raise UsageError for a mode that cannot be kept here."""
    if config.mode == "sandboxed":
        from toolglot.confine.sandbox_probe import check_sandbox  # few programs need it

        check_sandbox("the approval mode 'sandboxed'")


def _read_facade(facade: str | Facade) -> str | Facade:
    """Return a facade from a plug-in as the table itself, which is the same for all models."""
    if isinstance(facade, Facade) or facade == "auto":
        return facade
    table = find_facade(facade)
    return facade if is_facade_name(facade) else table


def _check_language(code_mode: Any) -> None:
    if isinstance(code_mode, str) and code_mode not in get_args(Language):
        raise UnknownName("language for code_mode", code_mode, get_args(Language))


def split_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], EngineOptions]:
    """Return an agent's own options, and those of its engine. Raises UsageError for one that there is not."""
    own, engine = dict[str, Any](), dict[str, Any]()
    for name, value in options.items():
        if name in EngineOptions.__annotations__:
            engine[name] = value
        elif name in AgentOptions.__annotations__:
            own[name] = value
        else:
            raise _unknown_option(name)
    return own, cast(EngineOptions, engine)


_OPTION_STRUCTS = {"options": Options, "config": ToolConfig, "limits": RunLimits, "context": ContextPolicy}


def _unknown_option(name: str) -> UsageError:
    for parameter, kind in _OPTION_STRUCTS.items():
        if name in kind.__struct_fields__:
            return UsageError(f"unknown agent option {name!r}: pass {parameter}={kind.__name__}({name}=…)")
    return UnknownName("agent option", name, AgentOptions.__annotations__)
