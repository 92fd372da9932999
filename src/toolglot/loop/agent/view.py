"""What the model of an agent sees at present, for programs that show it."""

from functools import cached_property
from typing import Any

from toolglot.engine.engine import Engine
from toolglot.loop.agent.setup import AgentSetup
from toolglot.loop.conversation_state import ConversationState
from toolglot.loop.deferral import Deferral
from toolglot.loop.model_view import ModelView
from toolglot.providers.profile import Profile
from toolglot.tools.policy import is_confined
from toolglot.tools.tool import Tool
from toolglot.values.definitions import BUILTIN_TAG
from toolglot.values.request import ToolDefinition

__all__ = ["AgentView"]


class AgentView:
    """What the current model sees in the agent's own conversation.

    It does not change: ask the agent for a new one.
    """

    def __init__(self, setup: AgentSetup, state: ConversationState) -> None:
        self._state = state
        self._loop_tools = setup.loop_tools(state)
        self._caller = setup.make_caller(state, setup.view(), self._loop_tools, {}, None)
        self.engine: Engine = setup.models.engine
        """Where requests go."""
        self.model_view: ModelView = setup.view()
        """Names, schemas and messages, as the model gets them."""
        self.tool_names: tuple[str, ...] = setup.config.tool_names
        """The names of all tools of the agent, including those that a provider runs."""
        self.when_full: str = setup.config.context.when_full
        """What happens when the context window is full."""

    @property
    def profile(self) -> Profile:
        """The facts about the model and its provider."""
        return self.engine.profile

    @property
    def deferral(self) -> Deferral | None:
        """The tools that the model must search for, why, and what that saves; None if it sees all tools."""
        return self.model_view.deferral

    @cached_property
    def visible_tools(self) -> tuple[ToolDefinition, ...]:
        """The tools as the model sees them, with those that the loop adds.

        Deferred tools are missing until they are loaded, and in code mode those that the model's code calls.
        """
        state, view = self._state, self.model_view
        tools = view.tools(self._loop_tools)
        offered = state.timeline.offered_tools(state.head_tools(view, tools), state.meter.truncation.start)
        names = {tool.qualified_name for tool in offered}
        return tuple(tool for tool in tools if not tool.deferred or tool.qualified_name in names)

    @cached_property
    def own_tools(self) -> frozenset[str]:
        """The names, ours and the model's, of the tools that the user has not written: built-in ones, and those
        that the loop adds.
        """
        tools = [tool for tool in self._caller.registry if BUILTIN_TAG in tool.tags]
        tools += self._loop_tools
        return frozenset(name for tool in tools for name in (tool.name, *self.model_view.names_for(tool)))

    @property
    def loaded_tools(self) -> tuple[str, ...]:
        """The deferred tools that were loaded in this conversation, under the names that the models used."""
        return self._state.timeline.loaded

    @property
    def calibration(self) -> float:
        """How many times more tokens the model's provider counts than are estimated."""
        return self._state.meter.calibration(self.profile)

    def scale_tokens(self, tokens: int) -> int:
        """Scale an estimate of tokens as the model's provider has counted this conversation."""
        return self._state.meter.scale_tokens(self.profile, tokens)

    def needs_approval(self, tool: Tool) -> bool:
        """Return whether calls to a tool need approval, unless their arguments or a rule say otherwise."""
        # what the sandbox confines is judged by a call's arguments; those of an ordinary call say nothing
        arguments: dict[str, Any] | None = {} if is_confined(tool, self._caller.config, {}) else None
        return self._state.host.judge(tool, self._caller, arguments).action != "run"
