"""Runs of an agent: awaited, blocking for callers without an event loop, or as a stream of events."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import aclosing, suppress
from threading import Event
from typing import Any, Generic, TypedDict, Unpack, cast, overload
from weakref import WeakKeyDictionary, finalize

from msgspec.structs import replace

from toolglot.common.type_parameters import Data, OtherOutput, OutputValue
from toolglot.common.value_checks import check_arguments
from toolglot.errors import NameConflict, ToolError, UnknownName, UsageError
from toolglot.loop.agent_core import ARGUMENTS, AgentCore, OutputType
from toolglot.loop.background_loop import iterate_sync, run_sync
from toolglot.loop.conversation_state import ConversationState, RunSettings
from toolglot.loop.driver import Driver
from toolglot.loop.prompts import Prompt, to_messages
from toolglot.loop.request_builder import RequestBuilder
from toolglot.loop.run import Run
from toolglot.loop.structured_output import FINAL_ANSWER_TOOL, StructuredOutput
from toolglot.telemetry.options import start_run
from toolglot.tools.calls import base_call
from toolglot.tools.execution import PreparedCall
from toolglot.tools.policy import LOOP_TOOLS
from toolglot.tools.policy_names import PolicyNames, may_come_later
from toolglot.values.approvals import Decision, Deny, Ruling, Suspended, read_decision
from toolglot.values.events import RunDone, RunEvent, RunResult
from toolglot.values.messages import Conversation, ToolCall
from toolglot.values.request import ToolChoice, parse_tool_choice

__all__ = ["AgentRuns", "RunOptions"]

Decisions = Mapping[str, Decision] | None
Start = Callable[[bool], Awaitable[Driver]]
"""Starts or resumes a run; the argument says whether its events are streamed."""


class RunOptions(TypedDict, Generic[Data], total=False):
    """Options that override the agent's own for one run, besides its output type."""

    data: Data | None
    """Passed to tools. Concurrent runs, each with its own conversation, do not see each other's data."""
    conversation: Conversation | None
    tool_choice: ToolChoice | str | None
    """For the first request; later requests use auto."""
    allowed_tools: Iterable[str] | None
    """The tools that may be called, out of those that the agent has and allows."""


class AgentRuns(AgentCore[Data, OutputValue]):
    """Starts and resumes runs."""

    @overload
    async def run(self, prompt: Prompt, **options: Unpack[RunOptions[Data]]) -> RunResult[OutputValue]: ...
    @overload
    async def run(
        self, prompt: Prompt, *, output_type: OutputType[OtherOutput], **options: Unpack[RunOptions[Data]]
    ) -> RunResult[OtherOutput]: ...
    async def run(
        self,
        prompt: Prompt,
        *,
        output_type: OutputType[Any] = None,
        data: Data | None = None,
        conversation: Conversation | None = None,
        tool_choice: ToolChoice | str | None = None,
        allowed_tools: Iterable[str] | None = None,
    ) -> RunResult[Any]:
        """Send the prompt, run the tools that the model calls and send it their results, until there is an answer.

        Args:
            prompt: Text, blocks or messages.
            output_type: A type, or a JSON Schema, for `result.output`. This and the following options override the agent's
                own for this run.
            data: Passed to tools. Concurrent runs, each with its own conversation, do not see each other's data.
            conversation: The conversation to continue instead of the agent's own.
            tool_choice: For the first request; later requests use auto. A word is a mode (`required`) or a tool's name.
            allowed_tools: The tools that may be called, out of those that the agent has and allows.
        """
        return await _finish(*self._plan(prompt, conversation, output_type, data, tool_choice, allowed_tools))

    @overload
    def run_sync(self, prompt: Prompt, **options: Unpack[RunOptions[Data]]) -> RunResult[OutputValue]: ...
    @overload
    def run_sync(
        self, prompt: Prompt, *, output_type: OutputType[OtherOutput], **options: Unpack[RunOptions[Data]]
    ) -> RunResult[OtherOutput]: ...
    def run_sync(
        self,
        prompt: Prompt,
        *,
        output_type: OutputType[Any] = None,
        data: Data | None = None,
        conversation: Conversation | None = None,
        tool_choice: ToolChoice | str | None = None,
        allowed_tools: Iterable[str] | None = None,
    ) -> RunResult[Any]:
        """Like `run`, for callers without an event loop. Ctrl-C leaves a valid conversation."""
        return run_sync(_finish(*self._plan(prompt, conversation, output_type, data, tool_choice, allowed_tools)))

    def stream(
        self,
        prompt: Prompt,
        *,
        output_type: OutputType[Any] = None,
        data: Data | None = None,
        conversation: Conversation | None = None,
        tool_choice: ToolChoice | str | None = None,
        allowed_tools: Iterable[str] | None = None,
    ) -> AsyncGenerator[RunEvent]:
        """Like `run`, but yield events as they happen; the last one is `RunDone`. Leaving the stream interrupts the run."""
        return _watch(*self._plan(prompt, conversation, output_type, data, tool_choice, allowed_tools))

    def stream_sync(
        self,
        prompt: Prompt,
        *,
        output_type: OutputType[Any] = None,
        data: Data | None = None,
        conversation: Conversation | None = None,
        tool_choice: ToolChoice | str | None = None,
        allowed_tools: Iterable[str] | None = None,
    ) -> Generator[RunEvent, None, None]:
        """Like `stream`, for callers without an event loop: `for event in agent.stream_sync(prompt)`."""
        return iterate_sync(_watch(*self._plan(prompt, conversation, output_type, data, tool_choice, allowed_tools)))

    async def resume(
        self,
        decisions: Decisions = None,
        *,
        data: Data | None = None,
        output_type: OutputType[Any] = None,
        conversation: Conversation | None = None,
    ) -> RunResult[OutputValue]:
        """Continue a run that is waiting for approvals.

        Args:
            decisions: Keyed by the fingerprint of a request, or by the id of its call. If a call would no longer do what was
                shown, it needs a new decision, and the run pauses again. An id is accepted only for a run that was paused in
                this process, or whose saved form is intact.
            data: Passed to tools; by default what the run was started with. It is not saved, so pass it again after `load`.
            output_type: Likewise, the type of `result.output`.
            conversation: The run's conversation, if it is not the agent's own.
        """
        return await _finish(*self._plan_resume(decisions, conversation, data=data, output_type=output_type))

    def resume_sync(
        self,
        decisions: Decisions = None,
        *,
        data: Data | None = None,
        output_type: OutputType[Any] = None,
        conversation: Conversation | None = None,
    ) -> RunResult[OutputValue]:
        """Like `resume`, for callers without an event loop."""
        return run_sync(_finish(*self._plan_resume(decisions, conversation, data=data, output_type=output_type)))

    def resume_stream(
        self,
        decisions: Decisions = None,
        *,
        data: Data | None = None,
        output_type: OutputType[Any] = None,
        conversation: Conversation | None = None,
    ) -> AsyncGenerator[RunEvent]:
        """Like `resume`, but yield events as they happen."""
        return _watch(*self._plan_resume(decisions, conversation, data=data, output_type=output_type))

    def resume_stream_sync(
        self,
        decisions: Decisions = None,
        *,
        data: Data | None = None,
        output_type: OutputType[Any] = None,
        conversation: Conversation | None = None,
    ) -> Generator[RunEvent, None, None]:
        """Like `resume_stream`, for callers without an event loop."""
        return iterate_sync(_watch(*self._plan_resume(decisions, conversation, data=data, output_type=output_type)))

    # ---- inside

    def _plan(
        self,
        prompt: Prompt,
        conversation: Conversation | None,
        output_type: Any,
        data: Any,
        tool_choice: ToolChoice | str | None,
        allowed_tools: Iterable[str] | None,
    ) -> tuple[ConversationState, Start]:
        state, names = self._state_for(conversation), allowed_tools
        allowed = None if names is None else frozenset([names] if isinstance(names, str) else names)
        settings = RunSettings(data, output_type, parse_tool_choice(tool_choice), allowed)
        return state, lambda streaming: self._start(state, prompt, settings, streaming)

    def _plan_resume(
        self, decisions: Decisions, conversation: Conversation | None, **options: Any
    ) -> tuple[ConversationState, Start]:
        state = self._state_for(conversation)
        changes = {name: value for name, value in options.items() if value is not None}
        return state, lambda streaming: self._resume(state, decisions, changes, streaming)

    def _state_for(self, conversation: Conversation | None) -> ConversationState:
        """Return the state of a conversation; it lives as long as the conversation does."""
        check_arguments({"conversation": conversation}, {"conversation": ARGUMENTS["conversation"]})
        if conversation is None or conversation is self._state.conversation:
            return self._state
        if conversation.attachments is None:
            conversation.attachments = WeakKeyDictionary()
        state: ConversationState | None = conversation.attachments.get(self)
        if state is None:
            state = conversation.attachments[self] = self.new_state(conversation)
        return state

    async def _start(self, state: ConversationState, prompt: Prompt, settings: RunSettings, streaming: bool) -> Driver:
        messages, names = to_messages(prompt), state.caller.names
        settings = self._resolve_allowed_tools(settings, names)
        config = settings.apply(self.config, names)
        choice = parse_tool_choice(config.tool_choice)  # a word was parsed when the configuration was made
        if config.enabled and choice is not None:
            self._check_tool_choice(choice, names)
        if state.paused is not None:
            state.paused.interrupt()  # the user moved on, so the waiting calls never run
            state.record_refusals(state.paused)
            state.paused = None
        state.host.release_all()
        state.note_tool_changes(self.view())
        state.prompt_start = len(state.conversation)
        state.conversation.append(*messages)
        state.host.policy.begin_prompt()
        state.settings = settings
        try:
            return await self._new_driver(state, self.new_run(state.conversation, config), streaming)
        except BaseException:  # the function that writes the system prompt failed
            state.retract()
            raise

    def _resolve_allowed_tools(self, settings: RunSettings, names: PolicyNames) -> RunSettings:
        """Return the settings with the agent's own names of the tools that the run may call. Raises UnknownName."""
        allowed, tools = settings.allowed_tools, self.tool_names
        if allowed is None:
            return settings
        for pattern in allowed:
            if not any(names.covers(pattern, tool) for tool in tools) and not may_come_later(pattern):
                raise UnknownName("tool in allowed_tools", pattern, tools)
        return replace(settings, allowed_tools=frozenset(tool for tool in tools if names.is_listed(tool, allowed)))

    def _check_tool_choice(self, choice: ToolChoice, names: PolicyNames) -> None:
        """Raise UnknownName for a choice of a tool that there is not, by any of its names."""
        definitions = (*self.registry.definitions(), *self.view().tools())  # by the caller's names, and by the model's
        known = {*self.tool_names, *(name for item in definitions for name in (item.name, item.qualified_name))}
        for name in {*choice.names}.difference(known, LOOP_TOOLS):
            if not any(names.covers(name, tool) for tool in self.tool_names):
                raise UnknownName("tool in tool_choice", name, known)

    async def _resume(
        self, state: ConversationState, decisions: Decisions, changes: Mapping[str, Any], streaming: bool
    ) -> Driver:
        run = state.paused
        if run is None:
            raise UsageError("no run is waiting to be resumed")
        state.settings = replace(state.settings, **changes)
        driver = await self._new_driver(state, run, streaming)
        run.decide(await self._read_decisions(state, run, decisions or {}))
        if self.approve is not None:
            run.reopen_waiting()
        state.paused = None
        return driver

    async def _read_decisions(self, state: ConversationState, run: Run, decisions: Mapping[str, Decision]) -> dict[int, Ruling]:
        """Return the decisions by call index, each with the fingerprint of the request it is about. Raises UsageError."""
        rulings = dict[int, Ruling]()
        # A call that has started waits for one that its code has made, or asks a question itself.
        started = {index: state.host.find_suspended(call.id) for index, call in run.waiting_calls}
        waiting = dict(run.waiting_calls) | {index: item.call for index, item in started.items() if item is not None}
        ids = {call.id: index for index, call in waiting.items()}
        ids |= {item.id: index for index, item in started.items() if item is not None}
        fingerprints = {run.shown[index]: index for index in waiting if index in run.shown}
        if not decisions.keys() <= ids.keys() | fingerprints.keys():  # perhaps fingerprints of what the calls would do now
            suspended_calls = await state.list_suspended(run)
            fingerprints |= {suspended.fingerprint: index for index, suspended in suspended_calls.items()}
        for key, decision in decisions.items():
            answer, is_fingerprint = read_decision(decision), key in fingerprints
            index = fingerprints[key] if is_fingerprint else ids.get(key)
            if index is None:
                names = ", ".join(sorted(ids)) or "none"
                raise UsageError(f"no call {key} is waiting for a decision; agent.list_pending() lists those that are: {names}")
            if run.distrust_reason and not is_fingerprint:
                hint = "use a fingerprint from agent.list_pending(), or share a TOOLGLOT_APPROVAL_KEY between machines"
                raise UsageError(f"the id {key} is not enough to decide on a call, as {run.distrust_reason}: {hint}")
            if answer is not None:
                rulings[index] = Ruling(key if is_fingerprint else run.shown[index], answer)
        await self._check_can_run(state, run, waiting, started, rulings)
        return rulings

    async def _check_can_run(
        self,
        state: ConversationState,
        run: Run,
        waiting: Mapping[int, ToolCall],
        started: Mapping[int, Suspended | None],
        rulings: Mapping[int, Ruling],
    ) -> None:
        """Raise UsageError for a call that cannot run: its tool is missing, or the approver's arguments are not valid."""
        host, caller = state.host, state.caller
        for index, call in waiting.items():
            suspended, answer = started[index], rulings[index].answer if index in rulings else None
            will_run = answer is not None or self.approve is not None
            if isinstance(answer, Deny) or not will_run:
                continue
            interpreted = call if suspended is not None else caller.interpret(call)
            if host.find_tool(interpreted, caller) is None:
                name = base_call(interpreted).name
                raise UsageError(f"the run is waiting to call {name}, which is not among the agent's tools: pass tools=[…]")
            is_question = suspended is not None and suspended.needs == "answer"
            if answer is None or answer.arguments is None or is_question:
                continue
            prepared = await host.prepare(interpreted, caller, run.distrust_reason, dry_run=True)
            if isinstance(prepared, PreparedCall):
                with suppress(ToolError):  # a rule forbids it: the model is told when it would run
                    host.change_arguments(prepared, answer.arguments)

    async def _new_driver(self, state: ConversationState, run: Run, streaming: bool) -> Driver:
        output, output_type = None, state.settings.output_type
        if (output_type := self.output_type if output_type is None else output_type) is not None:
            if FINAL_ANSWER_TOOL in self.registry:
                raise NameConflict(f"a tool is called {FINAL_ANSWER_TOOL!r}, the name of the tool for structured output")
            output = StructuredOutput(cast(Any, output_type))
        data = self.data if state.settings.data is None else state.settings.data
        if self.telemetry is not False:
            host = state.host
            state.telemetry = start_run(self.telemetry, self.engine, lambda: host.run_id, state.telemetry)
        requests = RequestBuilder(self, state, output, await self.system_prompt(state, data), data)
        return Driver(run, requests, streaming=streaming)


async def _finish(state: ConversationState, start: Start) -> RunResult:
    active = await state.enter(None)
    try:
        driver = await start(False)
        active.run = driver.run
        async with aclosing(driver.batches()) as batches:
            async for _ in batches:
                pass
    finally:
        state.leave(active)
    return state.take_result(driver)


def _watch(state: ConversationState, start: Start) -> AsyncGenerator[RunEvent]:
    """Return a stream that notifies the conversation if its reader goes away without closing it."""
    reader_gone = Event()
    events = _stream(state, start, reader_gone)
    finalize(events, reader_gone.set).atexit = False
    return events


async def _stream(state: ConversationState, start: Start, reader_gone: Event) -> AsyncGenerator[RunEvent]:
    active = await state.enter(reader_gone)
    try:
        driver = await start(True)
        active.run = driver.run
        async with aclosing(driver.batches()) as batches:
            async for batch in batches:
                for event in batch:
                    yield event
    finally:
        state.leave(active)
    yield RunDone(state.take_result(driver))
