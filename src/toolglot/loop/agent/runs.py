"""Starts and resumes the runs of an agent, and reads them to their end or as a stream of events."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from threading import Event
from typing import Any
from weakref import finalize

from msgspec.structs import replace

from toolglot.errors import NameConflict, UnknownName, UsageError
from toolglot.loop.agent.setup import AgentSetup
from toolglot.loop.agent.waiting_calls import Decisions, WaitingCalls
from toolglot.loop.conversation_state import ConversationState, RunSettings
from toolglot.loop.driver import Driver
from toolglot.loop.given_answers import NO_MESSAGE
from toolglot.loop.prompts import Prompt, read_message, to_messages
from toolglot.loop.request_builder import RequestBuilder, RunParts
from toolglot.loop.run import Run
from toolglot.loop.structured_output import FINAL_ANSWER_TOOL, StructuredOutput
from toolglot.loop.usable_answers import check_can_run, take_usable
from toolglot.telemetry.options import start_run
from toolglot.tools.calls import AnyCall
from toolglot.tools.policy import LOOP_TOOLS
from toolglot.tools.policy_names import PolicyNames, may_come_later
from toolglot.values.approvals import Answer, Suspended, SuspensionRecord
from toolglot.values.deliveries import Delivery
from toolglot.values.events import ContextTruncated, RunDone, RunEvent, RunResult, ToolOutcome
from toolglot.values.request import ToolChoice, parse_tool_choice

__all__ = ["Runs", "Start"]

_NOT_STARTED = "the run could not be started"
Start = Callable[[], Awaitable[Driver]]
"""Starts or resumes a run."""


class Runs:
    """Starts and resumes the runs of one agent."""

    def __init__(self, setup: AgentSetup) -> None:
        self.setup = self._setup = setup

    async def finish(self, state: ConversationState, start: Start) -> RunResult[Any]:
        """Start a run, and return its result."""
        active = await state.enter(None)
        try:
            driver = await start()
            state.begin(active, driver.run)
            async for _ in driver.batches():  # to its end, or to what it raises: it need not be closed
                pass
        finally:
            state.leave(active)
        return state.take_result(driver)

    def watch(self, state: ConversationState, start: Start) -> AsyncGenerator[RunEvent]:
        """Start a run when its events are read.

        If its reader goes away without closing it, the conversation is notified.
        """
        reader_gone = Event()
        events = _stream(state, start, reader_gone)
        finalize(events, reader_gone.set).atexit = False
        return events

    async def compact(self, state: ConversationState) -> ContextTruncated | None:
        """Summarize the older part of a conversation now."""
        active = await state.enter(None)
        try:
            data = self._setup.config.data
            parts = RunParts(self._setup, state, None, data, await self._setup.system_prompt(state, data))
            return await RequestBuilder(parts).compact()
        finally:
            state.leave(active)

    # ---- the beginning of a run

    async def start(
        self, state: ConversationState, prompt: Prompt, settings: RunSettings, *, streaming: bool
    ) -> Driver:
        """Begin a run with a prompt."""
        messages, names = to_messages(prompt), self._setup.names
        self._check_run_tools(settings)
        settings = self._resolve_allow(settings, names)
        config = settings.apply(self._setup.config.config, names)
        choice = parse_tool_choice(config.tool_choice)  # a word was parsed when the configuration was made
        if config.enabled and choice is not None:
            self._check_tool_choice(choice, names, settings)
        self._setup.check_data(config, self._setup.config.data if settings.data is None else settings.data)
        if state.paused is not None:
            await self._use_answers(state, state.paused)
            state.paused.interrupt()  # the user moved on, so the waiting calls never run
            state.record_refusals(state.paused)
            state.paused = None
        state.host.release_all()
        state.note_tool_changes(self._setup.view())
        state.prompt_start = len(state.conversation)
        state.conversation.record(*messages)
        state.inbox.open("a new prompt has replaced the run that the message was for")
        state.host.policy.begin_prompt()
        state.settings = settings
        try:
            run = self._setup.open_run(state.conversation, config, settings.limits)
            return await self._new_driver(state, run, streaming=streaming)
        except BaseException:  # the function that writes the system prompt failed
            state.retract()
            state.inbox.close(_NOT_STARTED)
            raise

    async def _new_driver(self, state: ConversationState, run: Run, *, streaming: bool) -> Driver:
        setup, settings = self._setup, state.settings
        config = setup.config
        output = None
        output_type = config.output_type if settings.output_type is None else settings.output_type
        if output_type is not None:
            if FINAL_ANSWER_TOOL in config.tools:
                raise NameConflict(
                    f"a tool is called {FINAL_ANSWER_TOOL!r}, the name of the tool for structured output"
                )
            output = StructuredOutput(output_type)
        data = config.data if settings.data is None else settings.data
        if config.telemetry is not False:
            host = state.host
            state.telemetry = start_run(
                config.telemetry, setup.models.engine, lambda: host.run_id, state.telemetry
            )
        parts = RunParts(setup, state, output, data, await setup.system_prompt(state, data))
        return Driver(run, RequestBuilder(parts), streaming=streaming)

    def _check_run_tools(self, settings: RunSettings) -> None:
        """Raise NameConflict for a tool of the run that would be taken for one of the agent's."""
        if settings.tools and (taken := self._setup.find_taken_names(settings.tools)):
            raise NameConflict(
                f"a tool of the run is called {taken[0]!r}, as one of the agent's, or of the loop's: rename it"
            )

    def _resolve_allow(self, settings: RunSettings, names: PolicyNames) -> RunSettings:
        """Return the settings with the agent's own names of the tools that the run may call.

        Raises UnknownName.
        """
        if settings.allow is None:
            return settings
        run_tools = {tool.qualified_name for tool in settings.tools}
        tools, allowed = self._setup.config.tool_names, settings.allow - run_tools
        for pattern in allowed:
            if not any(names.covers(pattern, tool) for tool in tools) and not may_come_later(pattern):
                raise UnknownName("tool in allow", pattern, (*tools, *run_tools))
        return replace(settings, allow=frozenset(tool for tool in tools if names.is_listed(tool, allowed)))

    def _check_tool_choice(self, choice: ToolChoice, names: PolicyNames, settings: RunSettings) -> None:
        """Raise UnknownName for a choice of a tool that there is not, by any of its names."""
        config = self._setup.config
        # by the caller's names, and by the model's
        definitions = (*config.tools.definitions(), *self._setup.view().tools(), *settings.tools)
        known = {
            *config.tool_names,
            *(name for item in definitions for name in (item.name, item.qualified_name)),
        }
        for name in {*choice.names}.difference(known, LOOP_TOOLS):
            if not any(names.covers(name, tool) for tool in config.tool_names):
                raise UnknownName("tool in tool_choice", name, known)

    # ---- the rest of a run

    async def _use_answers(self, state: ConversationState, run: Run) -> None:
        """Answer the calls of a run that is given up with the answers that have come for them."""
        answers = [
            ruling for (_, path), ruling in run.given.list() if not path and isinstance(ruling.answer, Answer)
        ]
        rulings = run.given.take([index for index, _ in run.waiting_calls], answers)
        if not rulings:
            return
        self._prepare_caller(state)
        await state.reopen_suspended(run, only=rulings)
        calls = [
            (index, state.caller.interpret(call)) for index, call in run.waiting_calls if index in rulings
        ]
        await state.host.run_turn(calls, state.caller, _LateAnswers(run), rulings=rulings)

    def _prepare_caller(self, state: ConversationState) -> None:
        """Note who makes the calls of a paused run: it may have been loaded."""
        setup = self._setup
        view = setup.view(tool_config=state.apply_settings(setup.config.config))
        added = {tool.qualified_name: tool for tool in setup.loop_tools(state)}
        added.update(state.caller.added_tools)
        state.caller = setup.make_caller(state, view, added.values(), {}, state.caller.data)

    async def list_pending(self, state: ConversationState) -> tuple[Suspended, ...]:
        """Return what a paused run waits for, as it would be shown now."""
        if state.paused is None:
            return ()
        self._prepare_caller(state)
        waiting = await state.list_suspended(state.paused)
        for index, suspended in waiting.items():
            state.paused.suspend(index, SuspensionRecord.of(suspended))
        return tuple([item for suspended in waiting.values() for item in suspended])

    async def resume(
        self, state: ConversationState, items: Decisions, changes: Mapping[str, Any], *, streaming: bool
    ) -> Driver:
        """Continue a run that waits.

        `changes`: what the rest of it has instead of the settings that it was started with.
        """
        run = state.paused
        if run is None:
            raise UsageError("no run is waiting to be resumed")
        if items is not None and not isinstance(items, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(
                f"resume takes decisions and answers by id, such as {{request.id: True}}, not {type(items).__name__}"
            )
        changes = dict(changes)
        prompt = changes.pop("prompt", None)
        message = None if prompt is None else read_message(prompt)
        settings = replace(state.settings, **changes)
        data = self._setup.config.data if settings.data is None else settings.data
        self._setup.check_data(settings.apply(self._setup.config.config, self._setup.names), data)
        state.settings = settings
        driver = await self._new_driver(state, run, streaming=streaming)
        await state.reopen_suspended(run)
        waiting = WaitingCalls(state, run)
        await waiting.look_again(items or {})
        # What a sub-agent is given came to the run that called it, which has seen to the time.
        rulings = waiting.read(items or {}, are_in_time=state.parent_ledger is not None)
        for index, call in run.waiting_calls:
            await check_can_run(state, run, call, rulings.get(index, {}))
        if rulings:
            run.given.add(rulings, Delivery("", NO_MESSAGE))
        if message is not None:
            _check_queued(state.inbox.add(message, "soon", ""))
        await take_usable(state, run)
        if state.host.options.approve is not None:
            run.reopen_waiting()
        return driver


class _LateAnswers:
    """Records the results of calls that were answered before their run was given up."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def on_start(self, index: int) -> None:
        return None

    def on_finish(self, index: int, outcome: ToolOutcome) -> None:
        self._run.add_result(index, outcome.result)

    def on_suspend(self, index: int, waiting: Sequence[Suspended]) -> None:
        return None

    def on_ask(self, is_asking: bool, /) -> None:
        return None

    def take_started(self, index: int, call: AnyCall) -> None:
        return None


def _check_queued(delivery: Delivery) -> None:
    """Raise UsageError for a message that the rest of a run cannot take."""
    if delivery.state == "refused":
        raise UsageError(delivery.reason)


async def _stream(state: ConversationState, start: Start, reader_gone: Event) -> AsyncGenerator[RunEvent]:
    active = await state.enter(reader_gone)
    try:
        driver = await start()
        state.begin(active, driver.run)
        async with aclosing(driver.batches()) as batches:
            async for batch in batches:
                for event in batch:
                    yield event
    finally:
        state.leave(active)
    yield RunDone(state.take_result(driver))
