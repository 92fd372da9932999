"""What an agent is at present, and what follows from it: what a model sees, who makes its calls, and where
they run.
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from inspect import isawaitable
from types import NoneType
from typing import Any, cast

from msgspec.structs import replace

from toolglot.common.loggers import get_logger
from toolglot.common.value_checks import as_items
from toolglot.engine.engine import Engine
from toolglot.engine.factory import EngineOptions
from toolglot.errors import UnknownName, UsageError
from toolglot.facades.catalog import BASE_TOOLS, find_base_tools, find_named_tools
from toolglot.facades.validation import check_facade
from toolglot.facades.view import Facade
from toolglot.hosting.tool_view import resolve_policy_names
from toolglot.loop.agent.config import AgentConfig, PromptContext
from toolglot.loop.agent.models import Models
from toolglot.loop.conversation_state import ConversationState
from toolglot.loop.limits import RunLimits
from toolglot.loop.model_view import Language, ModelView
from toolglot.loop.run import Run, RunState
from toolglot.tools.caller import Caller
from toolglot.tools.config import ToolConfig
from toolglot.tools.host import HostOptions
from toolglot.tools.needs import fits, wrong_data_error
from toolglot.tools.policy import LOOP_TOOLS, RUN_CODE, find_allowed
from toolglot.tools.policy_names import PolicyNames, has_wildcard, may_come_later
from toolglot.tools.rules import parse_rule
from toolglot.tools.tool import Tool
from toolglot.values.approvals import Approve
from toolglot.values.definitions import BUILTIN_TAG, MCP_TAG, ToolDefinition
from toolglot.values.messages import Conversation
from toolglot.values.request import parse_tool_choice

__all__ = ["AgentSetup"]

log = get_logger("toolglot.loop")


class AgentSetup:
    """The configuration and the models of an agent.

    Its runs read them anew for each request, as both may change meanwhile.
    """

    config: AgentConfig
    names: PolicyNames
    """What the names in the agent's policies stand for."""
    host_options: HostOptions

    def __init__(self, config: AgentConfig, models: Models) -> None:
        self.models = models
        self._view: ModelView | None = None
        self._code_language: tuple[Any, Language | None] = (None, None)
        self._use(config)

    def change(self, **options: Any) -> None:
        """Use other options from the next request on. Raises UsageError."""
        self._use(self.config.change(options))

    def _use(self, config: AgentConfig) -> None:
        facade = config.facade
        if isinstance(facade, Facade):
            check_facade(facade, self.models.engine.model, [tool.name for tool in config.tools])
        self._check_names(config)
        names = resolve_policy_names(config.tools, facade, config.hosted.all_names)
        if config.data is not None:  # a run can pass its own
            _check_data(config, config.config, names, config.data)
        self.config, self.names = config, names
        self.host_options = HostOptions(
            approve=config.approve, hooks=config.hooks, audit=config.audit, metrics=config.metrics
        )

    def _check_names(self, config: AgentConfig) -> None:
        """Raise UnknownName for a name in the policies that is no tool."""
        _check_policy_names(config)

    def check_data(self, tool_config: ToolConfig, data: Any) -> None:
        """Raise UsageError for a tool that a run offers to the model, and that needs other data than the run has."""
        _check_data(self.config, tool_config, self.names, data)

    # ---- the model

    def switch(self, model: str | Engine, options: EngineOptions) -> None:
        """Ask another model from now on."""
        self.models.switch(model, options)
        self.adapt()

    def use_fallback(self, used: int) -> int | None:
        """Switch to the next fallback after the first `used`.

        Return the new number used, or None if none is left.
        """
        index = self.models.use_fallback(used)
        if index is not None:
            self.adapt()
        return index

    def adapt(self) -> None:
        """Adapt the configuration to the model and the tools, which have just changed.

        An agent's own is the same for all.
        """

    # ---- what a model sees

    def view(self, engine: Engine | None = None, tool_config: ToolConfig | None = None) -> ModelView:
        """Return what a model sees; by default, the current model with the agent's own configuration."""
        current = self.models.engine
        engine, own = engine or current, self.config.config
        tool_config = tool_config or own
        view = self._view
        if view is not None and self.is_current(view, engine, tool_config):
            return view
        view = ModelView(
            engine.profile,
            self.config.tools,
            facade=self.config.facade,
            config=tool_config,
            hosted=self.config.hosted,
            defer=self.config.defer,
            code_language=self.code_language(engine),
            names=self.names,
        )
        if engine is current and tool_config is own:
            self._view = view
        return view

    def is_current(self, view: ModelView, engine: Engine, tool_config: ToolConfig) -> bool:
        """Return whether a view is still what a model sees."""
        config = self.config
        return view.is_current(
            engine.profile, config.facade, tool_config, config.defer, self.code_language(engine)
        )

    def code_language(self, engine: Engine) -> Language | None:
        """Return the language in which a model writes code that calls its tools; None if it calls them
        directly.
        """
        config = self.config
        tools, facade = config.tools, config.facade
        if config.code_mode is False or not len(tools) or RUN_CODE in tools:
            return None
        key = (engine.model, facade, config.code_mode, tools.version)
        if self._code_language[0] == key:
            return self._code_language[1]
        has_base_tools = bool(BASE_TOOLS.intersection(config.tool_names)) or isinstance(facade, Facade)
        language: Language | None = None
        if config.code_mode or has_base_tools:
            from toolglot.loop.code_mode import choose_language  # not at the top: few agents need it

            language = choose_language(config.code_mode, facade if has_base_tools else None, engine.model)
        self._code_language = key, language
        return language

    def loop_tools(self, state: ConversationState, answer_tool: Tool | None = None) -> tuple[Tool, ...]:
        """Return the tools that the loop adds: those of the run, for structured output, to read the rest of
        long results, to run code.
        """
        tools = self._find_run_tools(state)
        if answer_tool is not None:
            tools.append(answer_tool)
        if len(state.host.store) and "read_result" not in self.config.tools:
            tools.append(state.host.read_result_tool)
        language = self.code_language(self.models.engine)
        if language is not None:
            tools.append(state.code_tool(language))
        return tuple(tools)

    def _find_run_tools(self, state: ConversationState) -> list[Tool]:
        """Return the tools that only the present run has.

        One of the agent's that has come since then, or that another model has, goes first under its name.
        """
        if not state.run_tools or not self.config.config.enabled:
            return []
        taken = self.find_taken_names(state.run_tools)
        if taken:
            log.warning("tools of the run are left out, as the agent has their names: %s", ", ".join(taken))
        return [tool for tool in state.run_tools if tool.qualified_name not in taken]

    def find_taken_names(self, tools: Iterable[Tool | ToolDefinition]) -> list[str]:
        """Return the names of those tools that would be taken for one of the agent's, or of the loop's."""
        view, others = self.view(), {*self.config.hosted.all_names, *LOOP_TOOLS}
        names = [tool.qualified_name for tool in tools]
        return [name for name in names if name in others or view.has_name(name)]

    async def system_prompt(self, state: ConversationState, data: Any) -> str:
        """Return the system prompt: the caller's text, or what the caller's function returns."""
        prompt = self.config.system
        if callable(prompt):
            tools = self.view(tool_config=state.apply_settings(self.config.config)).tools(
                self.loop_tools(state)
            )
            prompt = prompt(PromptContext(self.models.engine.name, data, state.conversation, tools))
            if isawaitable(prompt):
                prompt = await prompt
            if not isinstance(cast(Any, prompt), str):
                raise UsageError(
                    f"system: the function must return text, not {type(cast(Any, prompt)).__name__}"
                )
        return prompt or ""

    # ---- conversations and runs

    def open_state(self, conversation: Conversation, *, approve: Approve | None = None) -> ConversationState:
        """Return the state of a conversation that the agent has not seen before.

        `approve`: decides on calls in place of the agent's own approver.
        """
        config = self.config
        caller = Caller(
            registry=config.tools, config=config.config, names=self.names, can_ask=config.approve is not None
        )
        options = self.host_options if approve is None else replace(self.host_options, approve=approve)
        return ConversationState(conversation, options.open_host(), caller)

    def make_caller(
        self,
        state: ConversationState,
        view: ModelView,
        loop_tools: Iterable[Tool],
        unloaded_tools: Mapping[str, ToolDefinition],
        data: Any,
    ) -> Caller:
        """Return who makes the calls of the next reply.

        `unloaded_tools`: those whose definitions the model has not seen.
        """
        return view.tool_view.caller(
            model=self.models.engine.name,
            can_ask=self.config.approve is not None or state.has_approver,
            can_wait=True,
            data=data,
            added_tools={
                tool.qualified_name: tool for tool in (*loop_tools, view.search_tool) if tool is not None
            },
            unloaded_tools=unloaded_tools,
            inner_tools=view.inner_tools,
            telemetry=state.telemetry,
        )

    def open_run(
        self,
        conversation: Conversation,
        config: ToolConfig,
        limits: RunLimits | None = None,
        state: RunState | None = None,
        distrust_reason: str = "",
    ) -> Run:
        """Return a new or a saved run over a conversation.

        `limits`: by default, the agent's. `distrust_reason`: why a saved run cannot be trusted.
        """
        tool_choice = parse_tool_choice(config.tool_choice) if config.enabled else None
        return Run(
            conversation,
            max_iterations=(limits or self.config.limits).max_iterations,
            tool_choice=tool_choice,
            state=state,
            distrust_reason=distrust_reason,
        )


def _check_data(config: AgentConfig, tool_config: ToolConfig, names: PolicyNames, data: Any) -> None:
    # Few tools need any data, and this runs for every prompt.
    unfit = [tool for tool in config.tools if tool.needs is not Any and not fits(data, tool.needs)]
    if not unfit or not tool_config.enabled:
        return
    allowed = find_allowed(tool_config, config.tool_names, names)
    for tool in unfit:
        if allowed is None or tool.name in allowed:
            raise wrong_data_error(tool, data)


def _check_policy_names(config: AgentConfig) -> None:
    """Raise UnknownName for a name that is no tool: an allowed tool would be missing, a limit would not
    apply.

    Patterns, and the names in `defer`, may be for tools that come later: without a match, they are a warning.
    """
    for field, names in _policy_names_by_field(config.config).items():
        for name in sorted({*names}):
            if _is_known(config, name):
                continue
            error = UnknownName(f"tool in {field} of ToolConfig", name, config.tool_names)
            if not has_wildcard(name):
                raise error
            log.warning("%s of ToolConfig names no tool of this agent: %s", field, error.hint)
    _warn_of_unknown_deferred(config)


def _policy_names_by_field(config: ToolConfig) -> dict[str, Iterable[str]]:
    """Return the names and patterns of tools in a configuration."""
    choice = parse_tool_choice(config.tool_choice)
    return {
        "allow": config.allow or (),
        "max_uses": config.max_uses,
        "rates": config.rates,
        "approve": [parse_rule(rule).tool for rule in config.approve],
        "deny": [parse_rule(rule).tool for rule in config.deny],
        "tool_choice": choice.names if choice is not None else (),
    }


def _warn_of_unknown_deferred(config: AgentConfig) -> None:
    defer = config.defer
    if isinstance(defer, bool | NoneType) or callable(defer):
        return
    tags = {BUILTIN_TAG, MCP_TAG}.union(*(tool.tags for tool in config.tools))
    for name in sorted({*as_items(defer)} - tags):
        if not _is_known(config, name):
            hint = UnknownName("tool", name, config.tool_names).hint
            log.warning("defer names no tool and no tag of this agent: %s", hint)


def _is_known(config: AgentConfig, name: str) -> bool:
    """Return whether a name or pattern in a policy stands for a tool of this agent, or of an MCP server.

    Names of built-in tools are known to every agent, so that agents with different tools can share a
    configuration.
    """
    tools = (*config.tool_names, *(tool.definition.qualified_name for tool in config.tools), *LOOP_TOOLS)
    if any(fnmatchcase(tool, name) for tool in tools) or may_come_later(name):
        return True
    return bool(find_base_tools(name) or find_named_tools(name, config.tool_names, config.facade))
