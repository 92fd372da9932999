"""Everything that is kept for one conversation between its runs, and what one of its runs has instead of the
agent's own.

An option of a run is declared as a key of `RunOptions`, and with its default in `RunSettings`.
"""

import asyncio
from collections.abc import Container, Iterable, Mapping, Sequence
from threading import Event
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypedDict

import msgspec
from msgspec.structs import replace

from toolglot.common.type_parameters import Data
from toolglot.common.value_checks import Accepts, as_items, check_arguments, find_accepted
from toolglot.engine.engine import Engine, EngineState
from toolglot.errors import MalformedData, UnknownName, UsageError
from toolglot.loop.context_window import ContextMeter, ConversationWindow, Truncation, can_start_at
from toolglot.loop.deferral import ToolTimeline
from toolglot.loop.inbox import Inbox, SavedDelivery
from toolglot.loop.limits import RunLimits
from toolglot.loop.model_view import Language, ModelView
from toolglot.loop.prompts import Prompt
from toolglot.loop.run import Run, RunState
from toolglot.loop.run_tools import SavedTool, read_run_tools, restore_run_tools, save_run_tools
from toolglot.loop.saved_runs import upgrade_run
from toolglot.schema.output import check_output_type
from toolglot.tools.caller import Caller
from toolglot.tools.calls import base_call
from toolglot.tools.config import ToolConfig
from toolglot.tools.host import HostState, ToolHost
from toolglot.tools.policy_names import PolicyNames
from toolglot.tools.tool import Tool
from toolglot.values.approvals import Suspended
from toolglot.values.deliveries import Delivery, DeliveryTime
from toolglot.values.events import RunResult, ToolOutcome
from toolglot.values.losses import Loss
from toolglot.values.messages import Conversation, Message
from toolglot.values.request import ToolChoice, ToolDefinition, parse_tool_choice

if TYPE_CHECKING:
    from toolglot.loop.agent.runs import Runs
    from toolglot.loop.driver import Driver
    from toolglot.loop.ledger import Ledger
    from toolglot.telemetry.runs import RunTelemetry

__all__ = ["ConversationState", "ResumeOptions", "RunOptions", "RunSettings"]


class _SavedState(HostState, frozen=True):
    """What the header of a saved conversation says beside the model."""

    run: RunState | None = None
    """A run that waits for approvals."""
    allow: frozenset[str] | None = None
    """The tools that this run may call, if it has fewer than the agent."""
    run_tools: tuple[SavedTool, ...] = ()
    """The tools that only this run has."""
    context: Truncation = Truncation()
    inbox: tuple[SavedDelivery, ...] = ()
    """Messages for the run that waits, and the ids of earlier ones."""
    handed_over: tuple[str, ...] = ()
    """The calls that have handed the conversation over, one after the other."""


class RunOptions(TypedDict, Generic[Data], total=False):
    """Options that override the agent's own for one run, besides its output type."""

    data: Data | None
    """Passed to tools. Concurrent runs, each with its own conversation, do not see each other's data."""
    conversation: Annotated[Conversation | None, Accepts((Conversation, NoneType), "a Conversation")]
    """The conversation to continue instead of the agent's own."""
    tool_choice: Annotated[
        ToolChoice | str | None, Accepts((ToolChoice, str, NoneType), "a ToolChoice, a mode or a tool's name")
    ]
    """For the first request; later requests use auto. A word is a mode (`required`) or a tool's name."""
    allow: Annotated[Iterable[str] | None, Accepts((Iterable, NoneType), "names of tools")]
    """The tools that may be called, out of those that the agent has and allows; those of `tools` always may."""
    tools: Annotated[Iterable[Tool[..., Any, Any] | ToolDefinition], Accepts(Iterable, "ToolDefinitions")]
    """Definitions of tools that only this run has, such as those of a front end: each call waits for an
    `Answer`. Functions are passed to the agent."""
    limits: Annotated[RunLimits | None, Accepts((RunLimits, NoneType), "RunLimits")]
    """How much the run may use, in place of all of the agent's limits."""


_ACCEPTED = find_accepted(RunOptions)
_UNDONE = "the run was undone"


class ResumeOptions(TypedDict, Generic[Data], total=False):
    """Options for the rest of a run; by default, those that it was started with."""

    data: Data | None
    """Passed to tools. It is not saved, so pass it again after `load`."""
    output_type: Any
    """A type, or a JSON Schema, for `result.output`. It is not saved either."""
    conversation: Conversation | None
    """The run's conversation, if it is not the agent's own."""
    prompt: Prompt | None
    """A message of the user for the rest of the run; it follows the results of the calls."""


class RunSettings(msgspec.Struct, frozen=True):
    """What a run has instead of the agent's own. None: the agent's."""

    data: Any = None
    output_type: Any = None
    tool_choice: ToolChoice | None = None
    allow: frozenset[str] | None = None
    limits: RunLimits | None = None
    tools: tuple[Tool, ...] = ()

    @classmethod
    def read(cls, options: Mapping[str, Any], output_type: Any) -> "RunSettings":
        """Return the settings in the options of a run. Raises UsageError."""
        fields = dict[str, Any]()
        for name, value in options.items():
            if name not in RunOptions.__annotations__:
                raise UnknownName("run option", name, ("output_type", *RunOptions.__annotations__))
            if name in _ACCEPTED:
                check_arguments({name: value}, {name: _ACCEPTED[name]})
            if name in cls.__struct_fields__:
                fields[name] = value
        if fields.get("allow") is not None:
            fields["allow"] = frozenset(_read_names(fields["allow"]))
        if "tools" in fields:
            fields["tools"] = read_run_tools(fields["tools"])
        if "tool_choice" in fields:
            fields["tool_choice"] = parse_tool_choice(fields["tool_choice"])
        if output_type is not None:
            check_output_type(output_type)
        return cls(output_type=output_type, **fields)

    def apply(self, config: ToolConfig, names: PolicyNames) -> ToolConfig:
        """Return how the tools of the run are run. It can allow fewer tools than the agent, not more."""
        allowed = self.allow
        if allowed is None and self.tool_choice is None:
            return config
        agents = config.allow
        if allowed is None:
            allowed = agents
        elif agents is not None:
            allowed = frozenset(name for name in allowed if names.is_listed(name, agents))
        return replace(config, tool_choice=self.tool_choice or config.tool_choice, allow=allowed)


def _read_names(allow: Iterable[Any]) -> list[str]:
    names = as_items(allow)
    for name in names:
        check_arguments({"allow": name}, {"allow": (str, "names of tools")})
    return names


class ActiveRun:
    """A run in progress. `reader_gone` is set when its stream was garbage collected without being closed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, reader_gone: Event | None, inbox: Inbox) -> None:
        self.loop, self.reader_gone, self.inbox = loop, reader_gone, inbox
        self.run: Run | None = None

    @property
    def is_unread(self) -> bool:
        """Whether the run is a stream that nobody reads any more."""
        return self.reader_gone is not None and self.reader_gone.is_set()

    @property
    def is_dead(self) -> bool:
        """Whether nobody is left who could end the run.

        A stream that somebody still has could be read in another loop.
        """
        return self.loop.is_closed() and (self.reader_gone is None or self.is_unread)


class ConversationState:
    """One conversation with the host of its calls, its encoding, its context window and a run that is paused."""

    def __init__(self, conversation: Conversation, host: ToolHost, caller: Caller) -> None:
        self.conversation, self.host = conversation, host
        self.caller = caller
        """Who makes calls: the model that is asked now, or was asked last."""
        self.telemetry: RunTelemetry | None = None
        """Of the present run, or of the last one."""
        self.has_approver = False
        """Whether a run was restored that waits: somebody decided then, so later calls wait, too."""
        self._handed_over: tuple[tuple[str, Runs], ...] = ()
        # the tools that have handed it over, one after the other, each with the agent that took over
        self.parent_ledger: Ledger | None = None
        """Of the run whose tool this one is, while it runs."""
        self.meter = ContextMeter()
        self.timeline = ToolTimeline(conversation)
        self.paused: Run | None = None
        self.inbox = Inbox()
        """Messages for the run in progress, or for the paused one."""
        self.settings = RunSettings()
        """Of the present run, or of the paused one."""
        self.system_messages: tuple[Message, ...] = ()
        self.prompt_start = 0
        """Where the prompt of the present run begins."""
        self._code_tool: tuple[Language, Tool] | None = None
        self._engine_state: EngineState | None = None
        self._window: ConversationWindow | None = None

    def code_tool(self, language: Language) -> Tool:
        """Return the tool that runs code; its scripts belong to this conversation."""
        if self._code_tool is None or self._code_tool[0] != language:
            from toolglot.loop.code_mode import make_code_tool  # not at the top: few conversations need it

            self._code_tool = language, make_code_tool(language)
        return self._code_tool[1]

    # ---- hand-offs

    @property
    def successor(self) -> "Runs | None":
        """What runs the agent that the conversation was handed over to."""
        return self._handed_over[-1][1] if self._handed_over else None

    def hand_over(self, tool: str, runs: "Runs") -> None:
        """Let another agent go on. One that had the conversation before has it by the same way again."""
        agents = [earlier.setup for _, earlier in self._handed_over]
        if runs.setup in agents:
            self._handed_over = self._handed_over[: agents.index(runs.setup) + 1]
        else:
            self._handed_over = (*self._handed_over, (tool, runs))

    # ---- one run at a time

    @property
    def is_busy(self) -> bool:
        """Whether a run is in progress on the conversation, of this agent or of another one."""
        active: ActiveRun | None = self.conversation.active_run
        return active is not None and not active.is_dead

    @property
    def run_tools(self) -> tuple[Tool, ...]:
        """The tools that only the present or the paused run has."""
        return self.settings.tools if self.paused is not None or self.is_busy else ()

    async def enter(self, reader_gone: Event | None) -> ActiveRun:
        """Start a run. A stream that nobody reads any more is about to end, and is waited for."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise UsageError(
                "run and stream need a running asyncio event loop; elsewhere, as with trio, use run_sync"
            ) from None
        active: ActiveRun | None
        while (active := self.conversation.active_run) is not None and not active.is_dead:
            if not active.is_unread:
                raise UsageError(
                    "a run is in progress on this conversation; wait for it, or pass another conversation"
                )
            await asyncio.sleep(0.001)
        if active is not None and active.run is not None:
            active.run.interrupt()
            self.record_refusals(active.run)
        active = self.conversation.active_run = ActiveRun(loop, reader_gone, self.inbox)
        return active

    def begin(self, active: ActiveRun, run: Run) -> None:
        """Note the run that has begun, or goes on. At no moment is there none that answers could be for."""
        active.run = run
        self.paused = None

    def leave(self, active: ActiveRun) -> None:
        """End a run, unless it was taken for dead and another one has begun."""
        if self.conversation.active_run is active:
            self.conversation.active_run = None
            if self.paused is not None:  # it could not be resumed
                self.conversation.mark_waiting()

    def deliver(self, message: Message, when: DeliveryTime, id: str) -> Delivery:
        """Queue a message for the run in progress, perhaps another agent's, or refuse it.

        Can be called from any thread.
        """
        active: ActiveRun | None = self.conversation.active_run
        if active is None:
            return self.inbox.add(message, when, id)
        if active.is_dead:
            active.inbox.close("the run has ended without a word: its event loop was closed")
        return active.inbox.add(message, when, id)

    # ---- what a model is sent. Equal values stay the same objects, so that what was encoded stays valid.

    def apply_settings(self, config: ToolConfig) -> ToolConfig:
        """Return how the tools of the current run are run, for an agent with this configuration."""
        return self.settings.apply(config, self.caller.names)

    def engine_state(self, engine: Engine, limits: RunLimits) -> EngineState:
        """Return the encoding state of the engine that is asked now."""
        if self._engine_state is None or self._engine_state.engine is not engine:
            self._engine_state = engine.new_state()
        self._engine_state.request_rates = limits.request_rates
        return self._engine_state

    def visible_messages(self, view: ModelView, instructions: str) -> Sequence[Message]:
        """Return the messages of the next request: system messages, then what is shown of the conversation,
        rendered.
        """
        if (system_messages := view.system_messages(instructions)) != self.system_messages:
            self.system_messages = system_messages
        render = view.render_message if view.facade is not None or self.timeline.change_count else None
        key = (self.system_messages, self.meter.truncation, render)
        if not (self.system_messages or self.meter.truncation.start or render):
            self._window = None
            return self.conversation
        if (
            self._window is None
            or (self._window.system_messages, self._window.truncation, self._window.render) != key
        ):
            self._window = ConversationWindow(
                self.system_messages, self.conversation, self.meter.truncation, render
            )
        return self._window

    def head_tools(self, view: ModelView, tools: tuple[ToolDefinition, ...]) -> tuple[ToolDefinition, ...]:
        """Return the tools that the next request declares. `tools`: all that the model sees."""
        start, limit = self.meter.truncation.start, view.profile.limits.tools
        return self.timeline.head_tools(tools, start, limit, view.translate_name)

    def note_tool_changes(self, view: ModelView) -> None:
        """Write into the conversation which tools were registered or removed since the last request."""
        deferral = view.deferral
        message = self.timeline.find_changes(
            view.registry.definitions(), deferral.names if deferral is not None else ()
        )
        if message is not None:
            self.conversation.record(message)

    @property
    def history_losses(self) -> tuple[Loss, ...]:
        """What the present model's tools could not express of the calls of other models."""
        return tuple(self._window.losses) if self._window is not None else ()

    # ---- approvals

    async def reopen_suspended(self, run: Run, only: Container[int] | None = None) -> None:
        """Continue to wait with the calls of a saved run that have run up to a question. `only`: with these."""
        for index, call in run.waiting_calls:
            if only is not None and index not in only:
                continue
            record = run.suspended[index]
            if record.state is not None and not self.host.find_suspended(call.id):
                call = self.caller.interpret(call)
                await self.host.reopen(call, self.caller, record, run.distrust_reason)

    async def list_suspended(self, run: Run) -> dict[int, tuple[Suspended, ...]]:
        """Return what the calls of a run wait for, by index: what each would do now, or what its code or its
        sub-agent waits for.
        """
        await self.reopen_suspended(run)
        waiting: dict[int, tuple[Suspended, ...]] = {}
        for index, call in run.waiting_calls:
            waiting[index] = self.host.find_suspended(call.id)
            if not waiting[index]:
                reason = run.distrust_reason or "the run was paused for it"
                suspended = await self.host.preview(self.caller.interpret(call), self.caller, reason)
                assert suspended is not None, "there is a reason to ask"
                waiting[index] = (replace(suspended, blocks_later=run.suspended[index].blocks_later),)
        return waiting

    def record_refusals(self, run: Run) -> dict[int, ToolOutcome]:
        """Record the calls that a run has answered itself; returns their outcomes by index."""
        outcomes: dict[int, ToolOutcome] = {}
        for index, call, result in run.take_refusals():
            outcome = ToolOutcome(
                base_call(call), result, ran=result.error_kind in ("interrupted", "unknown_outcome")
            )
            if not outcome.ran:  # one that ran was recorded when it was stopped
                reason = result.error_code or result.error_kind or ""
                tool = self.host.find_tool(call, self.caller)
                outcome = self.host.record(outcome, self.caller, tool, reason=reason)
            outcomes[index] = outcome
        return outcomes

    # ---- save, restore, undo

    def save_header(self, tools: str) -> dict[str, Any]:
        """Return what the header of the saved conversation says. `tools`: a fingerprint of the tools."""
        header: dict[str, Any] = msgspec.to_builtins(self.host.snapshot())
        if self.paused is not None:
            header["run"] = self._save_run(self.paused, tools)
            if self.settings.allow is not None:
                header["allow"] = sorted(self.settings.allow)
            if self.settings.tools:
                header["run_tools"] = save_run_tools(self.settings.tools)
        if self.meter.truncation.start:
            header["context"] = self.meter.truncation
        if deliveries := self.inbox.snapshot():
            header["inbox"] = deliveries
        if self._handed_over:
            header["handed_over"] = [name for name, _ in self._handed_over]
        return header

    def _save_run(self, run: Run, tools: str) -> RunState:
        state = run.snapshot(tools)
        for index, record in state.suspended.items():
            saved = self.host.save_suspended(state.calls[index].id)
            if saved is not None:
                state.suspended[index] = replace(record, state=saved)
        return state

    def restore_header(self, header: dict[str, Any]) -> tuple[RunState | None, tuple[str, ...]]:
        """Take over what `save_header` wrote; returns the run that was paused, and which calls have handed the
        conversation over. Raises MalformedData.
        """
        header = {"allow": header.get("allowed_tools"), **header}  # its name before the first release
        try:
            header = {**header, "run": upgrade_run(header.get("run"))}
            saved = msgspec.convert(header, _SavedState, str_keys=True)
        except (msgspec.ValidationError, UsageError) as e:
            raise MalformedData(f"line 1: the saved state has an unexpected shape: {e}") from None
        start, length = saved.context.start, len(self.conversation)
        is_start = start in (0, length) or (0 < start < length and can_start_at(self.conversation, start))
        kept = saved.context.kept
        is_kept = [*kept] == sorted({*kept}) and all(
            0 <= index < start and self.conversation[index].role == "user" for index in kept
        )
        if not is_start or not is_kept:
            raise MalformedData("line 1: the saved context does not fit the conversation")
        tools = restore_run_tools(saved.run_tools)
        self.inbox.restore(saved.inbox, is_waiting=saved.run is not None)
        self.host.restore(saved)
        self.meter = ContextMeter(saved.context)
        self.settings = RunSettings(allow=saved.allow, tools=tools)
        return saved.run, saved.handed_over

    def distrust_tools(self) -> None:
        """Have each call of the tools of the run approved: what was saved of them cannot be trusted."""
        tools = tuple([tool.replace(approval=True) for tool in self.settings.tools])
        self.settings = replace(self.settings, tools=tools)

    def take_result(self, driver: "Driver") -> RunResult:
        """Return the result of a run that has ended; one that waits for approvals is kept."""
        result = driver.result()
        self.paused = None
        if result.is_paused:
            self.paused = driver.run
            self.conversation.mark_waiting()
        return result

    def retract(self) -> None:
        """Take back the prompt of a run that failed before it was sent, or that the provider refused as
        invalid.
        """
        self.conversation.retract(self.prompt_start)
        self.meter.rewind(self.prompt_start)
        self.timeline = ToolTimeline(self.conversation)
        self._engine_state = self._window = None

    def rewind(self, length: int) -> None:
        """Continue with the first `length` messages only; what was learned, counted and allowed is kept."""
        self.inbox.close(_UNDONE)
        if self.paused is not None:
            self.paused.given.end(_UNDONE)
        delivered = [index for index in self.conversation.delivered if index < length]
        self.conversation = Conversation(self.conversation[:length])
        self.conversation.mark_delivered(*delivered)
        self.host.release_all()
        self.meter.rewind(length)
        self.timeline = ToolTimeline(self.conversation)
        self.paused = self._engine_state = self._window = None
