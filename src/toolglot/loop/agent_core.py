"""The parts of an agent, and how they are put together for a request or a run. Nothing is awaited here but a system prompt."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from inspect import isawaitable
from types import UnionType
from typing import Any, Generic, Self, Unpack

import msgspec
from msgspec.structs import replace

from toolglot.engine.engine import Engine
from toolglot.engine.factory import EngineOptions, create_engine
from toolglot.engine.transport import Transport
from toolglot.errors import UnknownName
from toolglot.facades.catalog import find_facade
from toolglot.facades.validation import check_facade
from toolglot.facades.view import Facade
from toolglot.loop.background_loop import run_sync
from toolglot.loop.context_window import ContextPolicy, Summarize
from toolglot.loop.conversation_state import ConversationState
from toolglot.loop.model_view import ModelView
from toolglot.loop.run import Run, RunState
from toolglot.messages import Conversation, Message
from toolglot.providers.catalog import select_row
from toolglot.request import Options, Schema, ToolDefinition
from toolglot.tools.audit import AuditLog
from toolglot.tools.config import ToolConfig
from toolglot.tools.executor import Approve, ToolExecutor
from toolglot.tools.hooks import HookChain, Hooks
from toolglot.tools.hosted import HostedTools
from toolglot.tools.metrics import ToolMetrics
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import Tool
from toolglot.type_parameters import Data, OutputValue

__all__ = ["AgentCore", "AgentOptions", "PromptContext", "SystemPrompt"]

_SHARED_ENGINE_OPTIONS = ("transport", "retry", "heal", "strict")  # options that are not about one provider
_NO_HOOKS = HookChain()
_DEFAULT_CONFIG, _DEFAULT_OPTIONS, _DEFAULT_CONTEXT = ToolConfig(), Options(), ContextPolicy()


class PromptContext(msgspec.Struct, Generic[Data], frozen=True):
    """What a function that writes the system prompt can use."""

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
    output_type: OutputType[OutputValue]
    approve: Approve | None
    summarize: Summarize | None
    hooks: Iterable[Hooks]
    fallbacks: Iterable[str | Engine]
    audit: AuditLog | None
    data: Data | None
    conversation: Conversation | None


class AgentCore(Generic[Data, OutputValue]):
    """A model, tools and settings. `Orchestrator` adds conversations and runs."""

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
        output_type: OutputType[OutputValue] = None,
        approve: Approve | None = None,
        summarize: Summarize | None = None,
        hooks: Iterable[Hooks] = (),
        fallbacks: Iterable[str | Engine] = (),
        audit: AuditLog | None = None,
        data: Data | None = None,
        conversation: Conversation | None = None,
        **engine: Unpack[EngineOptions],
    ) -> None:
        if unknown := engine.keys() - EngineOptions.__annotations__.keys():
            raise UnknownName("option of an agent", min(unknown), AgentOptions.__annotations__)
        self._opened_transports = set[Transport]()
        self.engine = self._open_engine(model, {**engine})
        self._engine_options: dict[str, Any] = {**engine}
        self._options_profile = self.engine.profile.id
        self.system, self.output_type, self.data = system, output_type, data
        # Other options than the default ones must not turn the cache off.
        self.options = replace(options, cache=True) if options.cache is None else options
        self.context, self.summarize = context, summarize
        self.facade: str | Facade = facade
        self.metrics = ToolMetrics()
        self.hooks = HookChain(hooks) if hooks else _NO_HOOKS
        self.approve = approve
        self._audit, self._fallbacks = audit, tuple(fallbacks)
        definitions: list[ToolDefinition] = []
        if not isinstance(tools, ToolRegistry):
            tools = list(tools)
            definitions = [item for item in tools if isinstance(item, ToolDefinition)]
            tools = ToolRegistry(item for item in tools if not isinstance(item, ToolDefinition))
        self.registry = tools
        self._hosted = HostedTools(hosted, definitions)
        if isinstance(facade, Facade):
            check_facade(facade, self.engine.model, [tool.name for tool in tools])
        elif facade != "auto":
            find_facade(facade)
        self._view: ModelView | None = None
        self._config = config
        self._state = self.new_state(conversation if conversation is not None else Conversation())

    # ---- the model

    @property
    def model(self) -> str:
        """PROVIDER:MODEL."""
        return self.engine.name

    def switch(self, model: str | Engine, **engine: Unpack[EngineOptions]) -> None:
        """Continue with another model: same conversation, same tools. The next result's losses say what it cannot receive."""
        if not engine:
            self.engine = self.create_engine(model)
            return
        shared = {name: value for name, value in self._engine_options.items() if name in _SHARED_ENGINE_OPTIONS}
        options: dict[str, Any] = {**shared, **engine}
        self.engine = self._open_engine(model, options)
        self._engine_options, self._options_profile = options, self.engine.profile.id

    def create_engine(self, model: str | Engine) -> Engine:
        """Return an engine for another model, with the options of the present one as far as they concern it."""
        if isinstance(model, Engine):
            return model
        provider, _, name = model.partition(":")
        options = self._engine_options
        if select_row(provider, name) != self._options_profile:  # another provider must not get this one's key
            options = {name: options[name] for name in _SHARED_ENGINE_OPTIONS if name in options}
        return self._open_engine(model, options)

    def _open_engine(self, model: str | Engine, options: dict[str, Any]) -> Engine:
        if isinstance(model, Engine):
            return model
        engine = create_engine(model, **options)
        if options.get("transport") is None:  # one that was passed is the caller's
            self._opened_transports.add(engine.transport)
        return engine

    def use_fallback(self, used: int) -> int | None:
        """Continue with the next fallback after the first `used`; the number used then, None if there is none left."""
        for index in range(used, len(self._fallbacks)):
            fallback = self._fallbacks[index]
            other = self.create_engine(fallback)
            if other is not self.engine if isinstance(fallback, Engine) else other.name != self.engine.name:
                self.engine = other
                return index + 1
        return None

    async def aclose(self) -> None:
        """Close the connections that the agent has opened in this event loop, to whatever models it used.

        It stays usable, and other agents keep what they are using. An engine or a transport that was passed to it stays open.
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
        """How tools are run; a new value counts from the next call on."""
        return self._config

    @config.setter
    def config(self, config: ToolConfig) -> None:
        self._config = config
        self._state.executor.configure(self._state.settings.apply(config))

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of all tools, including those that a provider runs."""
        return (*(tool.name for tool in self.registry), *self._hosted.all_names)

    def view(self, engine: Engine | None = None, config: ToolConfig | None = None) -> ModelView:
        """Return what a model sees of the agent; by default the present model, with the agent's own configuration."""
        engine, config = engine or self.engine, config or self._config
        if self._view is None or not self._view.is_current(engine.profile, self.facade, config):
            view = ModelView(engine.profile, self.registry, facade=self.facade, config=config, hosted=self._hosted)
            if engine is not self.engine or config is not self._config:
                return view
            self._view = view
        return self._view

    def loop_tools(self, state: ConversationState, answer_tool: Tool | None = None) -> tuple[Tool, ...]:
        """Return the tools that the loop adds: for structured output, and to read on in results that were too long."""
        has_results = len(state.executor.store) and "read_result" not in self.registry
        return tuple(tool for tool in (answer_tool, state.executor.read_result_tool if has_results else None) if tool)

    async def system_prompt(self, state: ConversationState, data: Any) -> str:
        """Return the system prompt; it is the caller's text, or written by the caller's function."""
        prompt = self.system
        if callable(prompt):
            tools = self.view(config=state.settings.apply(self._config)).tools(self.loop_tools(state))
            prompt = prompt(PromptContext(self.engine.name, data, state.conversation, tools))
            if isawaitable(prompt):
                prompt = await prompt
        return prompt or ""

    # ---- conversations and runs

    def new_state(self, conversation: Conversation) -> ConversationState:
        """Return the state of a conversation that the agent has not seen before."""
        executor = ToolExecutor(
            self.registry,
            self._config,
            approve=self.approve,
            hooks=self.hooks,
            audit=self._audit,
            metrics=self.metrics,
            data=self.data,
        )
        return ConversationState(conversation, executor)

    def new_run(self, conversation: Conversation, config: ToolConfig, state: RunState | None = None) -> Run:
        """Return a run over a conversation, or one that was saved."""
        tool_choice = config.tool_choice if config.enabled else None
        return Run(conversation, max_iterations=config.max_iterations, tool_choice=tool_choice, state=state)
