"""The public loop: a model, tools and a conversation.

agent = Agent("anthropic:claude-sonnet-5", tools=[get_weather])
result = agent.run_sync("Weather in Paris?")
agent.switch("gemini:gemini-3-pro-preview")
"""

from collections.abc import AsyncGenerator, Generator, Iterable, Mapping
from threading import Lock
from types import NoneType
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack, cast, get_args, overload
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from toolglot.common.jsontext import digest
from toolglot.common.loggers import get_logger
from toolglot.common.option_signatures import show_options
from toolglot.common.textutil import pluralize
from toolglot.common.type_parameters import Data, OtherData, OtherOutput, OutputValue
from toolglot.common.value_checks import as_items, check_arguments
from toolglot.engine.engine import Engine
from toolglot.engine.factory import EngineOptions
from toolglot.errors import MalformedData, UnknownName, UsageError
from toolglot.loop.agent.config import (
    AgentConfig,
    AgentOptions,
    AnyTools,
    OutputType,
    check_option,
    split_options,
)
from toolglot.loop.agent.models import Models
from toolglot.loop.agent.runs import Runs
from toolglot.loop.agent.setup import AgentSetup
from toolglot.loop.agent.view import AgentView
from toolglot.loop.agent.waiting_calls import Decisions, deliver_answers
from toolglot.loop.background_loop import blocking, iterate_sync
from toolglot.loop.context_window import ContextUsage, ConversationWindow
from toolglot.loop.conversation_state import ConversationState, ResumeOptions, RunOptions, RunSettings
from toolglot.loop.limits import RunLimits
from toolglot.loop.prompts import Prompt, read_message
from toolglot.loop.run import find_last_prompt
from toolglot.loop.saved_runs import CHANGED_SINCE_SAVED, is_intact, sign
from toolglot.providers.tokens import estimate_message, estimate_tool
from toolglot.tools.config import ToolConfig
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import Tool
from toolglot.values.approvals import Answer, Decision, Suspended
from toolglot.values.deliveries import Delivery, DeliveryTime
from toolglot.values.events import ContextTruncated, RunEvent, RunResult
from toolglot.values.messages import Conversation, Message, ToolResult, load, save, user
from toolglot.values.request import Request, Schema, ToolDefinition
from toolglot.wire.prefix import EncodedBody, PrefixEncoder

__all__ = ["Agent", "Orchestrator", "compact", "find_results", "find_taken_names"]

log = get_logger("toolglot.loop")
_attaching = Lock()
"""Held while a conversation gets its state: `deliver` comes from any thread."""


class Agent(Generic[Data, OutputValue]):
    """A model, tools and a conversation.

    `Agent[Data, OutputValue]`: the types of `data` and of `result.output`.

    Args:
        model: PROVIDER:MODEL, or an engine.
        options: See `AgentOptions`.
    """

    if TYPE_CHECKING:
        # pyright looks at `__new__` first. Thus it learns the type of the data from `data` alone, and compares it with
        # what each tool needs; otherwise, tools that need different things would have to agree on one type. Without
        # `data`, they may: then runs need what the tools do. The last form is for tools that need different things,
        # and for subclasses that are made with something else.
        @overload
        def __new__(
            cls,
            *args: Any,
            data: Data | None,
            output_type: OutputType[OutputValue] = None,
            **options: Any,
        ) -> Self: ...
        @overload
        def __new__(
            cls,
            *args: Any,
            tools: AnyTools[Data],
            output_type: OutputType[OutputValue] = None,
            **options: Any,
        ) -> Self: ...
        @overload
        def __new__(cls, *args: Any, output_type: OutputType[OutputValue] = None, **options: Any) -> Self: ...
        def __new__(cls, *args: Any, **options: Any) -> Self: ...

    @show_options(AgentOptions)
    def __init__(
        self, model: str | Engine = "simulator", **options: Unpack[AgentOptions[Data, OutputValue]]
    ) -> None:
        own, engine = split_options(options)
        conversation = own.get("conversation")
        check_option("conversation", conversation)
        models = Models(model, engine, as_items(own.get("fallbacks", ())))
        self._setup = self._make_setup(AgentConfig.read(own), models)
        self._runs = Runs(self._setup)
        self._state = self._setup.open_state(conversation if conversation is not None else Conversation())

    def _make_setup(self, config: AgentConfig, models: Models) -> AgentSetup:
        """Combine configuration and models; an agent from settings adapts the one to the other."""
        return AgentSetup(config, models)

    @property
    def model(self) -> str:
        """PROVIDER:MODEL."""
        return self._setup.models.engine.name

    @property
    def conversation(self) -> Conversation:
        """The agent's own conversation."""
        return self._state.conversation

    @property
    def tools(self) -> ToolRegistry:
        """The tools of the agent."""
        return self._setup.config.tools

    @property
    def config(self) -> ToolConfig:
        """How tools are run; a new value applies from the next call on."""
        return self._setup.config.config

    @config.setter
    def config(self, config: ToolConfig) -> None:
        self._setup.change(config=config)
        self._state.caller = replace(self._state.caller, config=self._state.apply_settings(config))

    def __repr__(self) -> str:
        tools = pluralize(len(self._setup.config.tool_names), "tool")
        messages = pluralize(len(self.conversation), "message")
        return f"<Agent {self.model}, {tools}, {messages}>"

    # ---- runs

    @overload
    async def run(self, prompt: Prompt, **options: Unpack[RunOptions[Data]]) -> RunResult[OutputValue]: ...
    @overload
    async def run(
        self, prompt: Prompt, *, output_type: OutputType[OtherOutput], **options: Unpack[RunOptions[Data]]
    ) -> RunResult[OtherOutput]: ...
    @show_options(RunOptions)
    async def run(
        self, prompt: Prompt, *, output_type: OutputType[Any] = None, **options: Unpack[RunOptions[Data]]
    ) -> RunResult[Any]:
        """Send the prompt, run the tools that the model calls and send it their results, until there is an
        answer.

        Args:
            prompt: Text, blocks or messages.
            output_type: A type, or a JSON Schema, for `result.output`. This and the options override the
                agent's own for this run.
            options: See `RunOptions`.
        """
        state, settings = self._read_run(options, output_type)
        runs = self._runs_of(state)
        return await runs.finish(state, lambda: runs.start(state, prompt, settings, streaming=False))

    if TYPE_CHECKING:  # mypy keeps no overloads of what a function returns

        @overload
        def run_sync(self, prompt: Prompt, **options: Unpack[RunOptions[Data]]) -> RunResult[OutputValue]: ...
        @overload
        def run_sync(
            self, prompt: Prompt, *, output_type: OutputType[OtherOutput], **options: Unpack[RunOptions[Data]]
        ) -> RunResult[OtherOutput]: ...
        def run_sync(
            self, prompt: Prompt, *, output_type: OutputType[Any] = None, **options: Unpack[RunOptions[Data]]
        ) -> RunResult[Any]: ...
    else:
        run_sync = blocking(run)

    @show_options(RunOptions)
    def stream(
        self, prompt: Prompt, *, output_type: OutputType[Any] = None, **options: Unpack[RunOptions[Data]]
    ) -> AsyncGenerator[RunEvent]:
        """Like `run`, but yield events as they happen; the last one is `RunDone`.

        Leaving the stream interrupts the run.
        """
        state, settings = self._read_run(options, output_type)
        runs = self._runs_of(state)
        return runs.watch(state, lambda: runs.start(state, prompt, settings, streaming=True))

    @show_options(RunOptions)
    def stream_sync(
        self, prompt: Prompt, *, output_type: OutputType[Any] = None, **options: Unpack[RunOptions[Data]]
    ) -> Generator[RunEvent, None, None]:
        """Like `stream`, for callers without an event loop: `for event in agent.stream_sync(prompt)`."""
        return iterate_sync(self.stream(prompt, output_type=output_type, **options))

    @show_options(ResumeOptions)
    async def resume(
        self, decisions: Decisions = None, **options: Unpack[ResumeOptions[Data]]
    ) -> RunResult[OutputValue]:
        """Continue a run that is waiting for decisions or answers.

        Args:
            decisions: Decisions and Answers, keyed by the fingerprint of a request, or by the id or the key of
                its call. If a call would no longer do what was shown, it needs a new decision, and the run
                pauses again. An id is accepted only for a run that was paused in this process, or whose saved
                form is intact.
            options: See `ResumeOptions`.
        """
        state, changes = self._read_resume(options)
        runs = self._runs_of(state)
        return await runs.finish(state, lambda: runs.resume(state, decisions, changes, streaming=False))

    resume_sync = blocking(resume)

    @show_options(ResumeOptions)
    def resume_stream(
        self, decisions: Decisions = None, **options: Unpack[ResumeOptions[Data]]
    ) -> AsyncGenerator[RunEvent]:
        """Like `resume`, but yield events as they happen."""
        state, changes = self._read_resume(options)
        runs = self._runs_of(state)
        return runs.watch(state, lambda: runs.resume(state, decisions, changes, streaming=True))

    def _read_run(self, options: RunOptions[Any], output_type: Any) -> tuple[ConversationState, RunSettings]:
        settings = RunSettings.read(options, output_type)
        return self._find_state(options.get("conversation")), settings

    def _read_resume(self, options: ResumeOptions[Any]) -> tuple[ConversationState, dict[str, Any]]:
        changes = {name: value for name, value in options.items() if value is not None}
        for name in changes.keys() - ResumeOptions.__annotations__.keys():
            raise UnknownName("option of resume", name, ResumeOptions.__annotations__)
        return self._find_state(cast(Any, changes.pop("conversation", None))), changes

    def _find_state(self, conversation: Conversation | None) -> ConversationState:
        """Return the state of a conversation; it lives as long as the conversation does."""
        if conversation is None:
            return self._state
        check_option("conversation", conversation)
        if conversation is self._state.conversation:
            return self._state
        with _attaching:
            if conversation.attachments is None:
                conversation.attachments = WeakKeyDictionary()
            state: ConversationState | None = conversation.attachments.get(self)
            if state is None:
                # Not with the conversation itself: the cycle would keep everything until the garbage
                # collector runs.
                state = conversation.attachments[self] = self._setup.open_state(conversation.share())
            return state

    def _runs_of(self, state: ConversationState) -> Runs:
        """Return what runs a conversation: this agent, or the one that it was handed over to."""
        return state.successor or self._runs

    # ---- messages for a run in progress

    def deliver(
        self,
        item: Prompt | Mapping[str, Decision | Answer],
        *,
        when: DeliveryTime = "soon",
        id: str = "",
        conversation: Conversation | None = None,
    ) -> Delivery:
        """Pass a message to the run that is in progress, or that waits; or decisions and answers for its calls.

        Can be called from any thread, and never waits. The message becomes one of the user's, after the
        results of all calls; the event `Delivered` tells when. If there is no such run, or it ends without
        another request, the state of the delivery becomes `refused`, with the reason. A run that waits goes on
        with `resume`.

        Args:
            item: Text, blocks or one message of the user; or decisions and Answers as for `resume`, of which
                the first for each call counts.
            when: `soon`: with the next request. `idle`: when the run would end, one message at a time.
            id: Your name for the message: delivered again under it, it counts once, also after `load`.
            conversation: The run's conversation, if it is not the agent's own.
        """
        check_arguments({"id": id, "when": when}, _DELIVER_ARGUMENTS)
        if when not in get_args(DeliveryTime):
            raise UnknownName("time of a delivery", when, get_args(DeliveryTime))
        if isinstance(item, Mapping) and "role" not in item:  # which a message has
            return deliver_answers(self._find_state(conversation), cast(Any, item), id)
        message = read_message(item)
        return self._find_state(conversation).deliver(message, when, id)

    # ---- calls that wait

    @property
    def has_pending_run(self) -> bool:
        """Whether a run is waiting to be resumed."""
        return self._state.paused is not None

    async def list_pending(self, conversation: Conversation | None = None) -> tuple[Suspended, ...]:
        """Return the calls that are waiting, each with what it would do now (`request`).

        Nothing runs.

        By default, those of the agent's own conversation. Works after `load`, too.
        """
        state = self._find_state(conversation)
        return await self._runs_of(state).list_pending(state)

    list_pending_sync = blocking(list_pending)

    # ---- changes during a conversation

    @show_options(EngineOptions)
    def switch(self, model: str | Engine, **engine: Unpack[EngineOptions]) -> None:
        """Continue with another model: same conversation, same tools.

        The next result's `losses` say what it cannot receive.
        """
        self._setup.switch(model, engine)

    def add_tools(self, tools: AnyTools[Data], *, replace: bool = False) -> None:
        """Add tools during a conversation; the model learns of them with the next request.

        Raises NameConflict.

        `replace`: they may replace tools of the same name.
        """
        self.tools.merge(as_items(tools), replace=replace)
        self._setup.adapt()

    def remove_tools(self, tools: Iterable[str | Tool]) -> None:
        """Remove tools, given by name or as Tools, during a conversation; calls made earlier stay in it.

        Raises UnknownName.
        """
        items = as_items(tools)
        for item in items:
            check_arguments(
                {"tools": item}, {"tools": ((str, Tool), "the names of tools, or the tools themselves")}
            )
        keys = [(item.name, item.namespace) if isinstance(item, Tool) else (item, "") for item in items]
        for tool in [self.tools.get(*key) for key in keys]:
            self.tools.unregister(tool.name, tool.namespace)

    # ---- agents as tools

    def as_tool(
        self,
        name: str,
        description: str,
        *,
        parameters: type | Schema | None = None,
        limits: RunLimits | None = None,
    ) -> Tool:
        """Return a tool with which another agent gives tasks to this one.

        Each call is a run of its own, in a conversation of its own. What it uses counts for the other run,
        too; the calls that need approval are shown there, with their real tools and arguments.

        Args:
            name: The name of the tool.
            description: What the agent does and when to use it, for the model.
            parameters: A type or a JSON Schema of what it is given, which it gets as JSON; by default, a prompt.
            limits: How much each call may use, in place of this agent's limits.
        """
        from toolglot.loop.agent.subagents import make_subagent_tool  # not at the top: few agents are tools

        check_arguments({"name": name, "description": description, "limits": limits}, _AS_TOOL_ARGUMENTS)
        return make_subagent_tool(self._setup, name, description, parameters, limits)

    def hand_off(self, name: str, description: str) -> Tool:
        """Return a tool with which another agent hands its conversation over to this one.

        From then on this agent answers in that conversation, with its own model, system prompt and tools. The
        limits of the run, its approver and its audit log stay those of the agent that was asked.

        Args:
            name: The name of the tool, such as `transfer_to_billing`.
            description: What this agent is for, for the model.
        """
        # Not at the top: few agents are handed to.
        from toolglot.loop.agent.hand_offs import make_hand_off_tool

        check_arguments({"name": name, "description": description}, _HAND_OFF_ARGUMENTS)
        return make_hand_off_tool(self._setup, name, description)

    # ---- state

    def save(self, conversation: Conversation | None = None) -> bytes:
        """Return a conversation and its paused run as JSON lines, which `Agent.load` can continue in any
        process.

        By default, the agent's own conversation.
        """
        state = self._find_state(conversation)
        data = save(state.conversation, model=self.model, **state.save_header(self._digest_tools()))
        # A saved run that was tampered with must not become trusted by being saved again.
        return sign(data) if state.paused is not None and not state.paused.distrust_reason else data

    def _digest_tools(self) -> str:
        return digest(self.tools.definitions())[:16]

    @classmethod
    @show_options(AgentOptions)
    def load(
        cls,
        saved: bytes | str,
        /,
        model: str | Engine | None = None,
        **options: Unpack[AgentOptions[OtherData, OtherOutput]],
    ) -> "Agent[OtherData, OtherOutput]":
        """Return an agent that continues what `save` wrote; pass all other options again.

        Raises MalformedData.
        """
        if model is None and not isinstance(model := load(saved)[1].get("model", "simulator"), str):
            raise MalformedData("line 1: the saved model is not a string")
        agent = cast(type[Agent[OtherData, OtherOutput]], cls)(model, **options)
        agent.restore(saved)
        return agent

    def restore(self, data: bytes | str) -> None:
        """Continue what `save` wrote, with the current model.

        Raises MalformedData, in which case nothing changes.
        """
        conversation, header = load(data)
        state = self._setup.open_state(conversation)
        run_state, handed_over = state.restore_header(header)
        if handed_over:
            from toolglot.loop.agent.hand_offs import continue_saved  # as in `hand_off`

            continue_saved(self._setup, state, handed_over)
        if run_state is not None:
            if run_state.tools != self._digest_tools():
                log.warning("the tools have changed since the run was saved")
            saved = data.encode() if isinstance(data, str) else data
            distrust_reason = "" if is_intact(saved) else CHANGED_SINCE_SAVED
            state.paused = self._setup.open_run(
                conversation, self.config, state=run_state, distrust_reason=distrust_reason
            )
            if distrust_reason:  # perhaps it said that they need approval
                state.distrust_tools()
            conversation.mark_waiting()
            state.has_approver = True  # a waiting run implies an approver, so later calls wait too
        self._check_idle()
        self._state = state

    def undo(self) -> tuple[Message, ...]:
        """Remove the last prompt and everything after it, and return the removed messages.

        Tool effects are not undone.
        """
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

    def view(self) -> AgentView:
        """Return what the model sees now."""
        return AgentView(self._runs_of(self._state).setup, self._state)

    async def context_usage(self) -> ContextUsage:
        """Estimate how full the model's context window is, and what fills it."""
        setup, state = self._runs_of(self._state).setup, self._state
        profile, view, config = setup.models.engine.profile, setup.view(), setup.config
        instructions = await setup.system_prompt(state, config.data)
        instruction_tokens = sum(map(estimate_message, view.system_messages(instructions)))
        head = state.head_tools(view, view.tools(setup.loop_tools(state)))
        tool_tokens = sum(
            map(estimate_tool, state.timeline.offered_tools(head, state.meter.truncation.start))
        )
        meter = state.meter
        parts = meter.tokens_by_part(state.conversation, profile)  # with tools that messages have added
        parts["instructions"] = meter.scale_tokens(profile, instruction_tokens)
        parts["tools"] = meter.scale_tokens(profile, tool_tokens) + parts.get("tools", 0)
        return ContextUsage(
            meter.estimate_tokens(state.conversation, profile, instruction_tokens + tool_tokens),
            {name: tokens for name, tokens in parts.items() if tokens},
            meter.token_budget(profile, config.context, config.options.max_tokens),
            profile.limits.context,
            meter.truncation.omitted_count(state.conversation),
        )

    async def preview_request(self, model: str | Engine | None = None) -> EncodedBody:
        """Return the next request, with a placeholder as the prompt, and its losses and repairs.

        Nothing is sent.
        """
        setup, state = self._runs_of(self._state).setup, self._state
        engine = setup.models.engine if model is None else setup.models.create_engine(model)
        view = setup.view(engine)
        system_messages = view.system_messages(await setup.system_prompt(state, setup.config.data))
        conversation = [*state.conversation, user("…")]
        messages = ConversationWindow(
            system_messages, conversation, state.meter.truncation, view.render_message
        )
        tools = state.head_tools(view, view.tools(setup.loop_tools(state)))
        request = Request(engine.model, messages, tools, options=setup.config.options)
        return PrefixEncoder(engine.profile).encode(request)

    # ---- connections

    async def aclose(self) -> None:
        """Close all connections that the agent has opened in this event loop, including those to earlier
        models.

        The agent stays usable, and connections that other agents are using stay open. So does an engine or a
        transport that was passed to the agent.
        """
        await self._setup.models.aclose()

    close = blocking(aclose, "close")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def compact(agent: Agent[Any, Any]) -> ContextTruncated | None:
    """Let the model summarize all but the last turn now, and return what requests omit from then on.

    The conversation itself keeps everything. None: there is nothing to summarize. Raises ToolglotError
    if the model gives no summary; nothing is omitted then.
    """
    # For programs like the chat: an agent has few methods, and those that people need every day.
    return await agent._runs.compact(agent._state)  # pyright: ignore[reportPrivateUsage]


def find_taken_names(agent: Agent[Any, Any], tools: Iterable[ToolDefinition]) -> list[str]:
    """Return the names of those tools that a run cannot have besides the agent's own."""
    return agent._setup.find_taken_names(tools)  # pyright: ignore[reportPrivateUsage]


def find_results(agent: Agent[Any, Any], conversation: Conversation) -> dict[str, ToolResult]:
    """Return the results of the last calls of a conversation, by call id, also those of a turn that is open."""
    run = agent._find_state(conversation).paused  # pyright: ignore[reportPrivateUsage]
    if run is not None:
        results: Iterable[ToolResult | None] = run.snapshot().results
    else:
        results = next((message.results for message in reversed(conversation) if message.results), ())
    return {result.call_id: result for result in results if result is not None}


_HAND_OFF_ARGUMENTS: dict[str, tuple[Any, str]] = {"name": (str, "a text"), "description": (str, "a text")}
_AS_TOOL_ARGUMENTS = {**_HAND_OFF_ARGUMENTS, "limits": ((RunLimits, NoneType), "RunLimits, or None")}
_DELIVER_ARGUMENTS = {"id": (str, "a string"), "when": (str, "'soon' or 'idle'")}


Orchestrator = Agent
"""The word of the design documents for an `Agent`."""
