"""The parts of an agent, and how they are combined for a request or a run. Only the system prompt is awaited here."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from inspect import isawaitable
from types import NoneType, UnionType
from typing import Any, Generic, Self, Unpack, cast, get_args

import msgspec
from msgspec.structs import replace

from toolglot.common.loggers import get_logger
from toolglot.common.option_signatures import show_options
from toolglot.common.type_parameters import Data, OutputValue
from toolglot.common.value_checks import as_items, check_arguments
from toolglot.engine.engine import Engine
from toolglot.engine.factory import EngineOptions, create_engine
from toolglot.engine.transport import Transport
from toolglot.errors import UnknownName, UsageError
from toolglot.facades.catalog import BASE_TOOLS, find_base_tools, find_facade, find_named_tools, is_facade_name
from toolglot.facades.validation import check_facade
from toolglot.facades.view import Facade
from toolglot.hosting.tool_view import resolve_policy_names
from toolglot.loop.background_loop import run_sync
from toolglot.loop.context_window import ContextPolicy, Summarize
from toolglot.loop.conversation_state import ConversationState
from toolglot.loop.deferral import Defer, parse_defer
from toolglot.loop.model_view import Language, ModelView
from toolglot.loop.run import Run, RunState
from toolglot.providers.catalog import select_row, split_model
from toolglot.telemetry.options import Telemetry, check_available
from toolglot.tools.audit import AuditLog
from toolglot.tools.caller import Caller
from toolglot.tools.config import ToolConfig
from toolglot.tools.hooks import HookChain, Hooks
from toolglot.tools.host import HostOptions
from toolglot.tools.hosted import HostedTools
from toolglot.tools.metrics import ToolMetrics
from toolglot.tools.policy import LOOP_TOOLS, RUN_CODE
from toolglot.tools.policy_names import has_wildcard, may_come_later
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.rules import parse_rule
from toolglot.tools.tool import Tool
from toolglot.values.approvals import Approve
from toolglot.values.definitions import BUILTIN_TAG, MCP_TAG
from toolglot.values.messages import Conversation, Message
from toolglot.values.request import Options, Schema, ToolDefinition, parse_tool_choice

__all__ = ["ARGUMENTS", "AgentCore", "AgentOptions", "PromptContext", "SystemPrompt"]

log = get_logger("toolglot.loop")
_SHARED_ENGINE_OPTIONS = ("transport", "retry", "heal", "strict")  # options that are not specific to a provider
_NO_HOOKS = HookChain()
_DEFAULT_CONFIG, _DEFAULT_OPTIONS, _DEFAULT_CONTEXT = ToolConfig(), Options(cache=True), ContextPolicy()


ARGUMENTS: dict[str, tuple[Any, str]] = {
    "model": ((str, Engine), "PROVIDER:MODEL, such as 'anthropic:claude-sonnet-5', or an Engine"),
    "system": ((str, Callable, NoneType), "a text, or a function that returns one"),
    "config": (ToolConfig, "a ToolConfig"),
    "options": (Options, "Options"),
    "context": (ContextPolicy, "a ContextPolicy"),
    "facade": ((str, Facade), "the name of a facade, or a Facade"),
    "code_mode": ((bool, str, NoneType), "True, False, None, 'javascript' or 'python'"),
    "approve": ((Callable, NoneType), "a function that takes an ApprovalRequest"),
    "summarize": ((Callable, NoneType), "a function that takes messages and returns a text"),
    "audit": ((AuditLog, NoneType), "an AuditLog"),
    "conversation": ((Conversation, NoneType), "a Conversation"),
    "defer": ((bool, str, Iterable, Callable, NoneType), "True, False, names or tags of tools, or a function"),
    "telemetry": ((bool, Telemetry, NoneType), "True, False, None or a Telemetry"),
}
"""The types of an agent's arguments, and how error messages describe them."""


def _unknown_option(name: str) -> UsageError:
    for parameter, kind in (("options", Options), ("config", ToolConfig), ("context", ContextPolicy)):
        if name in kind.__struct_fields__:
            return UsageError(f"unknown agent option {name!r}: pass {parameter}={kind.__name__}({name}=…)")
    return UnknownName("agent option", name, AgentOptions.__annotations__)


def _policy_names_by_field(config: ToolConfig) -> dict[str, Iterable[str]]:
    """Return the names and patterns of tools in a configuration."""
    choice = parse_tool_choice(config.tool_choice)
    return {
        "allowed_tools": config.allowed_tools or (),
        "max_uses": config.max_uses,
        "rates": config.rates,
        "approve": [parse_rule(rule).tool for rule in config.approve],
        "deny": [parse_rule(rule).tool for rule in config.deny],
        "tool_choice": choice.names if choice is not None else (),
    }


class PromptContext(msgspec.Struct, Generic[Data], frozen=True):
    """The argument of a function that writes the system prompt."""

    model: str
    data: Data
    messages: Sequence[Message]
    tools: tuple[ToolDefinition, ...]
    """As the model sees them."""


SystemPrompt = str | Callable[[PromptContext[Data]], str | Awaitable[str]]
OutputType = type[OutputValue] | UnionType | Schema | None
AnyTools = Iterable[Tool | Callable[..., Any] | ToolDefinition] | ToolRegistry


class AgentOptions(EngineOptions, Generic[Data, OutputValue], total=False):
    """The options of `Orchestrator`, for functions that pass them on."""

    tools: AnyTools
    hosted: Iterable[str]
    system: SystemPrompt[Data] | None
    config: ToolConfig
    options: Options
    context: ContextPolicy
    facade: str | Facade
    code_mode: bool | Language | None
    output_type: OutputType[OutputValue]
    approve: Approve | None
    summarize: Summarize | None
    hooks: Iterable[Hooks]
    fallbacks: Iterable[str | Engine]
    audit: AuditLog | None
    data: Data | None
    conversation: Conversation | None
    defer: Defer
    telemetry: Telemetry | bool | None


class AgentCore(Generic[Data, OutputValue]):
    """A model, tools and settings. `Orchestrator` adds conversations and runs."""

    @show_options(EngineOptions)
    def __init__(
        self,
        model: str | Engine = "simulator",
        *,
        tools: AnyTools = (),
        hosted: Iterable[str] = (),
        system: SystemPrompt[Data] | None = None,
        config: ToolConfig = _DEFAULT_CONFIG,
        options: Options = _DEFAULT_OPTIONS,
        context: ContextPolicy = _DEFAULT_CONTEXT,
        facade: str | Facade = "auto",
        code_mode: bool | Language | None = None,
        output_type: OutputType[OutputValue] = None,
        approve: Approve | None = None,
        summarize: Summarize | None = None,
        hooks: Iterable[Hooks] = (),
        fallbacks: Iterable[str | Engine] = (),
        audit: AuditLog | None = None,
        data: Data | None = None,
        conversation: Conversation | None = None,
        defer: Defer = None,
        telemetry: Telemetry | bool | None = None,
        **engine: Unpack[EngineOptions],
    ) -> None:
        check_arguments(locals(), ARGUMENTS)
        if unknown := engine.keys() - EngineOptions.__annotations__.keys():
            raise _unknown_option(min(unknown))
        self._opened_transports = set[Transport]()
        self.engine = self._open_engine(model, {**engine})
        self._engine_options: dict[str, Any] = {**engine}
        self._options_profile = self.engine.profile.id
        self.system, self.output_type, self.data = system, output_type, data
        # Options that do not mention the cache must not turn it off.
        self.options = replace(options, cache=True) if options.cache is None else options
        self.context, self.summarize = context, summarize
        self.facade: str | Facade = facade
        self.defer: Defer = parse_defer(defer)
        if isinstance(code_mode, str) and code_mode not in get_args(Language):
            raise UnknownName("language for code_mode", code_mode, get_args(Language))
        self.code_mode: bool | Language | None = code_mode
        self._code_language: tuple[Any, Language | None] = (None, None)
        self.metrics = ToolMetrics()
        self.hooks = HookChain(as_items(hooks)) if hooks else _NO_HOOKS
        self.approve = approve
        self._fallbacks = tuple(as_items(fallbacks))
        check_available(telemetry)
        self.telemetry: Telemetry | bool | None = telemetry
        for fallback in self._fallbacks:
            check_arguments({"fallbacks": fallback}, {"fallbacks": ARGUMENTS["model"]})
        definitions: list[ToolDefinition] = []
        if not isinstance(tools, ToolRegistry):
            tools = as_items(tools)
            definitions = [item for item in tools if isinstance(item, ToolDefinition)]
            tools = ToolRegistry(item for item in tools if not isinstance(item, ToolDefinition))
        self.registry = tools
        self._hosted = HostedTools(as_items(hosted), definitions)
        if isinstance(facade, str) and facade != "auto":
            table = find_facade(facade)
            if not is_facade_name(facade):  # from a plug-in, the same for all models
                self.facade = facade = table
        if isinstance(facade, Facade):
            check_facade(facade, self.engine.model, [tool.name for tool in tools])
        self._names = resolve_policy_names(self.registry, self.facade, self._hosted.all_names)
        self._host_options = HostOptions(approve=approve, hooks=self.hooks, audit=audit, metrics=self.metrics)
        self._view: ModelView | None = None
        self._config = config
        self._check_policy_names(config)
        self._state = self.new_state(conversation if conversation is not None else Conversation())

    # ---- the model

    @property
    def model(self) -> str:
        """PROVIDER:MODEL."""
        return self.engine.name

    @show_options(EngineOptions)
    def switch(self, model: str | Engine, **engine: Unpack[EngineOptions]) -> None:
        """Continue with another model: same conversation, same tools. The next result's `losses` say what it cannot receive."""
        if not engine:
            self.engine = self.create_engine(model)
            return
        shared = {name: value for name, value in self._engine_options.items() if name in _SHARED_ENGINE_OPTIONS}
        options: dict[str, Any] = {**shared, **engine}
        self.engine = self._open_engine(model, options)
        self._engine_options, self._options_profile = options, self.engine.profile.id

    def create_engine(self, model: str | Engine) -> Engine:
        """Return an engine for another model, with those options of the current engine that apply to it."""
        if isinstance(model, Engine):
            return model
        options = self._engine_options
        if select_row(*split_model(model)) != self._options_profile:  # another provider must not get this one's key
            options = {name: options[name] for name in _SHARED_ENGINE_OPTIONS if name in options}
        return self._open_engine(model, options)

    def _open_engine(self, model: str | Engine, options: dict[str, Any]) -> Engine:
        if isinstance(model, Engine):
            return model
        engine = create_engine(model, **options)
        if options.get("transport") is None:  # a transport that was passed belongs to the caller
            self._opened_transports.add(engine.transport)
        return engine

    def use_fallback(self, used: int) -> int | None:
        """Switch to the next fallback after the first `used`. Return the new number used, or None if none is left."""
        for index in range(used, len(self._fallbacks)):
            fallback = self._fallbacks[index]
            other = self.create_engine(fallback)
            if other is not self.engine if isinstance(fallback, Engine) else other.name != self.engine.name:
                self.engine = other
                return index + 1
        return None

    async def aclose(self) -> None:
        """Close all connections that the agent has opened in this event loop, including those to earlier models.

        The agent stays usable, and connections that other agents are using stay open. So does an engine or a transport that
        was passed to the agent.
        """
        for transport in self._opened_transports:
            if (close := getattr(transport, "close", None)) is not None:
                await close()

    def close(self) -> None:
        """Like `aclose`, for callers without an event loop."""
        run_sync(self.aclose())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- the tools and what the model sees

    @property
    def config(self) -> ToolConfig:
        """How tools are run; a new value applies from the next call on."""
        return self._config

    @config.setter
    def config(self, config: ToolConfig) -> None:
        check_arguments({"config": config}, {"config": ARGUMENTS["config"]})
        self._check_policy_names(config)
        self._config = config
        self._state.caller = replace(self._state.caller, config=self._state.apply_settings(config))

    def _check_policy_names(self, config: ToolConfig) -> None:
        """Raise UnknownName for a name that is no tool: an allowed tool would be missing, a limit would not apply.

        Patterns, and the names in `defer`, may be for tools that come later: without a match, they are a warning.
        """
        for field, names in _policy_names_by_field(config).items():
            for name in sorted({*names}):
                if self._is_known(name):
                    continue
                error = UnknownName(f"tool in {field} of ToolConfig", name, self.tool_names)
                if not has_wildcard(name):
                    raise error
                log.warning("%s of ToolConfig names no tool of this agent: %s", field, error.hint)
        self._warn_of_unknown_deferred()

    def _warn_of_unknown_deferred(self) -> None:
        defer = self.defer
        if isinstance(defer, bool | NoneType) or callable(defer):
            return
        tags = {BUILTIN_TAG, MCP_TAG}.union(*(tool.tags for tool in self.registry))
        for name in sorted({*as_items(defer)} - tags):
            if not self._is_known(name):
                hint = UnknownName("tool", name, self.tool_names).hint
                log.warning("defer names no tool and no tag of this agent: %s", hint)

    def _is_known(self, name: str) -> bool:
        """Return whether a name or pattern in a policy stands for a tool of this agent, or of an MCP server.

        Names of built-in tools are known to every agent, so that agents with different tools can share a configuration.
        """
        tools = (*self.tool_names, *(tool.definition.qualified_name for tool in self.registry), *LOOP_TOOLS)
        if any(fnmatchcase(tool, name) for tool in tools) or may_come_later(name):
            return True
        return bool(find_base_tools(name) or find_named_tools(name, self.tool_names, self.facade))

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of all tools, including those that a provider runs."""
        return (*(tool.name for tool in self.registry), *self._hosted.all_names)

    def view(self, engine: Engine | None = None, config: ToolConfig | None = None) -> ModelView:
        """Return what a model sees of the agent; by default, the current model with the agent's own configuration."""
        engine, config = engine or self.engine, config or self._config
        language = self.code_language(engine)
        if self._view is None or not self._view.is_current(engine.profile, self.facade, config, self.defer, language):
            view = ModelView(
                engine.profile,
                self.registry,
                facade=self.facade,
                config=config,
                hosted=self._hosted,
                defer=self.defer,
                code_language=language,
                names=self._names,
            )
            if engine is not self.engine or config is not self._config:
                return view
            self._view = view
        return self._view

    def add_tools(self, tools: AnyTools, *, replace: bool = False) -> None:
        """Add tools during a conversation; the model learns of them with the next request. Raises NameConflict.

        `replace`: they may replace tools of the same name.
        """
        self.registry.merge(as_items(tools), replace=replace)

    def remove_tools(self, tools: Iterable[str | Tool]) -> None:
        """Remove tools, given by name or as Tools, during a conversation; calls made earlier stay in it.

        Raises UnknownName.
        """
        items = as_items(tools)
        for item in items:
            check_arguments({"tools": item}, {"tools": ((str, Tool), "the names of tools, or the tools themselves")})
        keys = [(item.name, item.namespace) if isinstance(item, Tool) else (item, "") for item in items]
        for tool in [self.registry.get(*key) for key in keys]:
            self.registry.unregister(tool.name, tool.namespace)

    def code_language(self, engine: Engine) -> Language | None:
        """Return the language in which a model writes code that calls its tools; None if it calls them directly."""
        if self.code_mode is False or not len(self.registry) or RUN_CODE in self.registry:
            return None
        key = (engine.model, self.facade, self.code_mode, self.registry.version)
        if self._code_language[0] != key:
            facade = self.facade if BASE_TOOLS.intersection(self.tool_names) or isinstance(self.facade, Facade) else None
            language: Language | None = None
            if self.code_mode or facade is not None:
                from toolglot.loop.code_mode import choose_language  # not at the top: few agents need it

                language = choose_language(self.code_mode, facade, engine.model)
            self._code_language = key, language
        return self._code_language[1]

    def loop_tools(self, state: ConversationState, answer_tool: Tool | None = None) -> tuple[Tool, ...]:
        """Return the tools that the loop adds: for structured output, to read the rest of long results, to run code."""
        has_results = len(state.host.store) and "read_result" not in self.registry
        language = self.code_language(self.engine)
        code_tool = state.code_tool(language) if language is not None else None
        return tuple(tool for tool in (answer_tool, state.host.read_result_tool if has_results else None, code_tool) if tool)

    async def system_prompt(self, state: ConversationState, data: Any) -> str:
        """Return the system prompt: the caller's text, or what the caller's function returns."""
        prompt = self.system
        if callable(prompt):
            tools = self.view(config=state.apply_settings(self._config)).tools(self.loop_tools(state))
            prompt = prompt(PromptContext(self.engine.name, data, state.conversation, tools))
            if isawaitable(prompt):
                prompt = await prompt
            if not isinstance(cast(Any, prompt), str):
                raise UsageError(f"system: the function must return text, not {type(cast(Any, prompt)).__name__}")
        return prompt or ""

    # ---- conversations and runs

    def new_state(self, conversation: Conversation) -> ConversationState:
        """Return the state of a conversation that the agent has not seen before."""
        caller = Caller(registry=self.registry, config=self._config, names=self._names, can_ask=self.approve is not None)
        return ConversationState(conversation, self._host_options.open_host(), caller)

    def make_caller(
        self,
        state: ConversationState,
        view: ModelView,
        loop_tools: Iterable[Tool],
        unloaded_tools: Mapping[str, ToolDefinition],
        data: Any,
    ) -> Caller:
        """Return who makes the calls of the next reply. `unloaded_tools`: those whose definitions the model has not seen."""
        return view.tool_view.caller(
            model=self.engine.name,
            can_ask=self.approve is not None or state.has_approver,
            data=data,
            added_tools={tool.name: tool for tool in (*loop_tools, view.search_tool) if tool is not None},
            unloaded_tools=unloaded_tools,
            inner_tools=view.inner_tools,
            telemetry=state.telemetry,
        )

    def new_run(
        self, conversation: Conversation, config: ToolConfig, state: RunState | None = None, distrust_reason: str = ""
    ) -> Run:
        """Return a new or a saved run over a conversation. `distrust_reason`: why a saved run cannot be trusted."""
        tool_choice = parse_tool_choice(config.tool_choice) if config.enabled else None
        return Run(
            conversation,
            max_iterations=config.max_iterations,
            tool_choice=tool_choice,
            state=state,
            distrust_reason=distrust_reason,
        )
