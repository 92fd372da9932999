"""The public loop: one conversation with tools, on any model.

agent = Orchestrator("anthropic:claude-sonnet-5", tools=[get_weather])
result = agent.run_sync("Weather in Paris?")
agent.switch("gemini:gemini-3-pro-preview")
"""

from typing import Unpack, cast

from toolglot.common.jsontext import digest
from toolglot.common.loggers import get_logger
from toolglot.common.option_signatures import show_options
from toolglot.common.textutil import pluralize
from toolglot.common.type_parameters import Data, OtherData, OtherOutput, OutputValue
from toolglot.engine.engine import Engine
from toolglot.errors import MalformedData, UsageError
from toolglot.loop.agent_core import AgentOptions, PromptContext
from toolglot.loop.agent_runs import AgentRuns
from toolglot.loop.background_loop import run_sync
from toolglot.loop.context_window import ContextUsage, ConversationWindow
from toolglot.loop.deferral import Deferral
from toolglot.loop.run import find_last_prompt
from toolglot.loop.saved_runs import CHANGED_SINCE_SAVED, is_intact, sign
from toolglot.providers.tokens import estimate_message, estimate_tool
from toolglot.tools.tool import Tool
from toolglot.values.approvals import Suspended
from toolglot.values.messages import Conversation, Message, load, save, user
from toolglot.values.request import Request, ToolDefinition
from toolglot.wire.prefix import EncodedBody, PrefixEncoder

__all__ = ["Orchestrator", "PromptContext"]

log = get_logger("toolglot.loop")


class Orchestrator(AgentRuns[Data, OutputValue]):
    """A model, tools and a conversation. `Orchestrator[Data, OutputValue]`: the types of `data` and of `result.output`.

    Args:
        model: PROVIDER:MODEL, or an engine.
        tools: Functions, Tools, a ToolRegistry, or definitions of hosted tools.
        hosted: Names of tools that the provider runs: web_search, code_execution.
        system: The system prompt, or a function that writes it.
        config: How tools are run: limits, approvals, retries.
        options: How the model generates.
        context: What to do when the conversation outgrows the model's context window.
        facade: How the built-in tools are presented; by default as in the model's own harness, whose note on using them
            follows the system prompt.
        code_mode: Have the model write code that calls the tools, in "javascript" or "python" (True: whichever can run here);
            None: only if its own harness works that way, as GPT-5.6's does. Needs `pip install 'toolglot[code]'`.
        output_type: A type, or a JSON Schema, for `result.output`.
        approve: Called when a tool call needs approval; without it, the run pauses.
        summarize: Summarizes the omitted part of a long conversation, in place of the model.
        hooks: Observe or change requests, replies and calls.
        fallbacks: Models to continue with when this one is busy or fails.
        audit: Logs every call.
        data: Passed to tools in their Context, and to a function that writes the system prompt. A run can pass its own:
            `run(prompt, data=…)`.
        conversation: A conversation to continue.
        defer: Tools that the model must search for before it sees them: True, names or tags, or a function; by default
            ("auto"), all but the built-in ones if there are too many for the context window or the provider.
        telemetry: Spans and metrics for OpenTelemetry: True, False or a `Telemetry`; by default, only if the program has set
            up OpenTelemetry.
        engine: Options of `create_engine`.
    """

    @property
    def conversation(self) -> Conversation:
        """The agent's own conversation."""
        return self._state.conversation

    @property
    def has_pending_run(self) -> bool:
        """Whether a run is waiting to be resumed."""
        return self._state.paused is not None

    def __repr__(self) -> str:
        tools, messages = pluralize(len(self.tool_names), "tool"), pluralize(len(self.conversation), "message")
        return f"<Orchestrator {self.model}, {tools}, {messages}>"

    # ---- approvals

    async def list_pending(self, conversation: Conversation | None = None) -> tuple[Suspended, ...]:
        """Return the calls that are waiting for a decision, each with what it would do now (`request`). Nothing runs.

        By default, those of the agent's own conversation. Works after `load`, too.
        """
        state = self._state_for(conversation)
        if state.paused is None:
            return ()
        view = self.view(config=state.apply_settings(self.config))
        state.caller = self.make_caller(state, view, state.caller.added_tools.values(), {}, state.caller.data)
        waiting = await state.list_suspended(state.paused)
        for index, suspended in waiting.items():
            state.paused.wait_for_decision(index, suspended.fingerprint)
        return tuple(waiting.values())

    def list_pending_sync(self, conversation: Conversation | None = None) -> tuple[Suspended, ...]:
        """Like `list_pending`, for callers without an event loop."""
        return run_sync(self.list_pending(conversation))

    # ---- state

    def save(self, conversation: Conversation | None = None) -> bytes:
        """Return a conversation and its paused run as JSON lines, which `Orchestrator.load` can continue in any process.

        By default, the agent's own conversation.
        """
        state = self._state_for(conversation)
        data = save(state.conversation, model=self.engine.name, **state.save_header(digest(self.registry.definitions())[:16]))
        # A saved run that was tampered with must not become trusted by being saved again.
        return sign(data) if state.paused is not None and not state.paused.distrust_reason else data

    @classmethod
    @show_options(AgentOptions)
    def load(
        cls, saved: bytes | str, /, model: str | Engine | None = None, **options: Unpack[AgentOptions[OtherData, OtherOutput]]
    ) -> "Orchestrator[OtherData, OtherOutput]":
        """Return an agent that continues what `save` wrote; pass all other options again. Raises MalformedData."""
        if model is None and not isinstance(model := load(saved)[1].get("model", "simulator"), str):
            raise MalformedData("line 1: the saved model is not a string")
        agent = cast(type[Orchestrator[OtherData, OtherOutput]], cls)(model, **options)
        agent.restore(saved)
        return agent

    def restore(self, data: bytes | str) -> None:
        """Continue what `save` wrote, with the current model. Raises MalformedData, in which case nothing changes."""
        conversation, header = load(data)
        state = self.new_state(conversation)
        run_state = state.restore_header(header)
        if run_state is not None:
            if run_state.tools != digest(self.registry.definitions())[:16]:
                log.warning("the tools have changed since the run was saved")
            distrust_reason = "" if is_intact(data.encode() if isinstance(data, str) else data) else CHANGED_SINCE_SAVED
            state.paused = self.new_run(conversation, self.config, run_state, distrust_reason)
            state.has_approver = True
        self._check_idle()
        self._state = state

    def undo(self) -> tuple[Message, ...]:
        """Remove the last prompt and everything after it, and return the removed messages. Tool effects are not undone."""
        start = find_last_prompt(self.conversation)
        if start is None:
            return ()
        removed = tuple(self.conversation[start:])
        self._check_idle()
        self._state.rewind(start)
        return removed

    def _check_idle(self) -> None:
        if self._state.is_busy:
            raise UsageError("a run is in progress on this conversation; wait for it")

    # ---- looking at the agent

    def needs_approval(self, tool: Tool) -> bool:
        """Return whether calls to a tool need approval."""
        return self._state.host.judge(tool, self._state.caller).action != "run"

    @property
    def deferral(self) -> Deferral | None:
        """The tools that the model must search for, why, and what that saves; None if it sees all tools."""
        return self.view().deferral

    @property
    def visible_tools(self) -> tuple[ToolDefinition, ...]:
        """The tools as the model sees them now, with those that the loop adds.

        Deferred tools are missing until they are loaded, and in code mode those that the model's code calls.
        """
        state, view = self._state, self.view()
        tools = view.tools(self.loop_tools(state))
        offered = state.timeline.offered_tools(state.head_tools(view, tools), state.meter.truncation.start)
        names = {tool.qualified_name for tool in offered}
        return tuple(tool for tool in tools if not tool.deferred or tool.qualified_name in names)

    @property
    def loaded_tools(self) -> tuple[str, ...]:
        """The deferred tools that were loaded in the agent's own conversation, under the names that the models used."""
        return self._state.timeline.loaded

    async def context_usage(self) -> ContextUsage:
        """Estimate how full the model's context window is, and what fills it."""
        state, profile, view = self._state, self.engine.profile, self.view()
        instructions = sum(map(estimate_message, view.system_messages(await self.system_prompt(state, self.data))))
        head = state.head_tools(view, view.tools(self.loop_tools(state)))
        tools = sum(map(estimate_tool, state.timeline.offered_tools(head, state.meter.truncation.start)))
        meter = state.meter
        parts = meter.tokens_by_part(state.conversation, profile)  # with tools that messages have added
        parts = {
            **parts,
            "instructions": meter.scale_tokens(profile, instructions),
            "tools": meter.scale_tokens(profile, tools) + parts.get("tools", 0),
        }
        return ContextUsage(
            meter.estimate_tokens(state.conversation, profile, instructions + tools),
            {name: tokens for name, tokens in parts.items() if tokens},
            meter.token_budget(profile, self.context, self.options.max_tokens),
            profile.limits.context,
            meter.truncation.omitted_count(state.conversation),
        )

    async def preview_request(self, model: str | Engine | None = None) -> EncodedBody:
        """Return the next request, with a placeholder as the prompt, and its losses and repairs. Nothing is sent."""
        engine = self.engine if model is None else self.create_engine(model)
        view, state = self.view(engine), self._state
        system_messages = view.system_messages(await self.system_prompt(state, self.data))
        conversation = [*state.conversation, user("…")]
        messages = ConversationWindow(system_messages, conversation, state.meter.truncation, view.render_message)
        tools = state.head_tools(view, view.tools(self.loop_tools(state)))
        request = Request(engine.model, messages, tools, options=self.options)
        return PrefixEncoder(engine.profile).encode(request)
