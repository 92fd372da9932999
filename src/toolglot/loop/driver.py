"""Does what a `Run` decides: asks the model, runs the tools, and waits. One driver for one run.

Invariants: however a run ends (done, error, cancelled, left by its reader), the conversation is valid and
says what was interrupted. Events are passed on in lists, one for each piece of a reply; nothing is done per
event here.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from toolglot.common.loggers import get_logger
from toolglot.engine.engine import EngineState
from toolglot.errors import (
    STOP_REASONS,
    ContextTooLong,
    InvalidRequest,
    MalformedReply,
    MissingOutput,
    ProviderError,
    QuotaExceeded,
    ToolError,
    TransportError,
)
from toolglot.loop.context_window import count_phrase
from toolglot.loop.conversation_state import ConversationState
from toolglot.loop.eager_tools import EagerTools
from toolglot.loop.ledger import Ledger, TimeIsUp
from toolglot.loop.request_builder import RequestBuilder
from toolglot.loop.run import AskModel, CallTools, Done, NeedApproval, Run, with_unique_ids
from toolglot.loop.usable_answers import take_usable
from toolglot.tools.calls import AnyCall, InterpretedCall
from toolglot.tools.hooks import apply_hooks
from toolglot.values.approvals import Suspended, SuspensionRecord
from toolglot.values.deliveries import Delivery
from toolglot.values.events import (
    AnswerNeeded,
    ApprovalNeeded,
    Delivered,
    ModelSwitched,
    RequestDelayed,
    Retrying,
    RunEvent,
    RunResult,
    RunStop,
    ToolFinished,
    ToolOutcome,
)
from toolglot.values.losses import Loss, Repair

if TYPE_CHECKING:
    from toolglot.loop.agent.setup import AgentSetup

__all__ = ["Driver"]

log = get_logger("toolglot.loop")
Emit = Callable[[Any], None] | None
_FAILED = "the run ended with an error"


class Driver:
    """Drives one run. `streaming`: somebody reads the events."""

    def __init__(self, run: Run, requests: RequestBuilder, *, streaming: bool) -> None:
        self.run, self._requests, self._streaming = run, requests, streaming
        self._state = requests.state
        self._host = requests.state.host
        self._structured_output = requests.parts.output
        config = requests.setup.config
        self._config, self._hooks = config.config, config.hooks
        self.ledger = Ledger(
            requests.limits, run.spent, parent=self._state.parent_ledger, read_clock=self._host.clock
        )
        self._start = len(run.conversation)
        self._earlier_iterations = run.iteration
        self._outcomes: list[ToolOutcome] = []
        self._turn_outcomes: dict[int, ToolOutcome] = {}  # of the open turn, by the index of the call
        self._interpreted: Mapping[str, InterpretedCall] = {}  # of the open turn, by call id
        self._losses: dict[Loss, None] = dict.fromkeys(requests.view.hosted_losses)
        self._repairs: dict[Repair, None] = {}
        self._reading_from: EngineState | None = None  # whose reply is being read
        self._eager_tools: EagerTools | None = None
        if self._config.eager_start and streaming:
            self._eager_tools = EagerTools(run, requests, self.on_ask)
        self._pending: tuple[Suspended, ...] = ()
        # calls of the open turn that have just begun to wait, by index
        self._suspended: dict[int, tuple[Suspended, ...]] = {}
        self._inbox = self._state.inbox
        self._delivered: list[RunEvent] = []  # not yet passed on
        self._successor: tuple[AgentSetup, str] | None = None  # the agent that continues
        self._was_rejected = False
        self._fallbacks_used = 0

    @property
    def state(self) -> ConversationState:
        """The conversation that the run belongs to."""
        return self._state

    def hand_over(self, setup: "AgentSetup", name: str) -> bool:
        """Continue with another agent from the next request on; return False if that was called for already.

        `name`: of the call that wants it.
        """
        if self._successor is not None:
            return False
        self._successor = setup, name
        return True

    # ---- the loop

    def batches(self) -> AsyncGenerator[list[RunEvent]]:
        """Run until it is done or waits for a decision.

        Without a reader (`streaming`), nothing is yielded on the way.
        """
        telemetry = self._state.telemetry
        prompt = self.run.conversation[self._state.prompt_start : self._start]
        return (
            self._drive()
            if telemetry is None
            else telemetry.watch_run(self._drive(), prompt, self._leg_result)
        )

    async def _drive(self) -> AsyncGenerator[list[RunEvent]]:
        try:
            if (events := self._record_refusals()) and self._streaming:
                yield events
            while (step := self._next_step()) is not None:
                if self._delivered:
                    yield self._delivered
                    self._delivered = []
                # a generator would cost more than a call
                if not (self._streaming or isinstance(step, AskModel)):
                    await self.ledger.in_time(self._run_calls(step, None))
                    self._finish_tools()
                    continue
                work = self._ask(step) if isinstance(step, AskModel) else self._call_tools(step)
                async with aclosing(work) as batches:
                    async for batch in batches:
                        yield batch
            if (events := self._record_refusals()) and self._streaming:
                yield events
            if self.run.waiting_calls:
                yield await self._pause()
        except BaseException as error:
            is_handled = self._handle_early_end(error)
            events = self._record_refusals()
            if not is_handled:
                raise
            if events and self._streaming:
                yield events
        finally:
            self._close_inbox()
            if self._eager_tools is not None:
                await self._eager_tools.stop()
            self.run.spent = self.ledger.spent

    async def _pause(self) -> list[RunEvent]:
        """Record the calls that wait; the events that tell of them."""
        indexes, suspended_calls = [index for index, _ in self.run.waiting_calls], self._suspended
        if not suspended_calls.keys() >= {*indexes}:  # resumed, and still waiting
            suspended_calls = await self._state.list_suspended(self.run)
        for index in indexes:
            self.run.suspend(index, SuspensionRecord.of(suspended_calls[index]))
        self._pending = tuple([suspended for index in indexes for suspended in suspended_calls[index]])
        self._host.record_pending([suspended.request for suspended in self._pending])
        return list(_tell_waiting(self._pending))

    def _next_step(self) -> AskModel | CallTools | NeedApproval | None:
        """Return what to do now; None when the run is over or waits. Raises TimeIsUp."""
        while True:
            step = self.run.next()
            if isinstance(step, AskModel | CallTools):
                if not (exceeded := self._find_exceeded()):
                    if self._inbox.urgent and self.run.takes_messages:
                        self._add_messages(self._inbox.take_urgent(len(self.run.conversation)))
                    return step
                self.run.abandon("limit", exceeded)
                self.run.finish("budget")
            elif isinstance(step, NeedApproval):
                return step if self.run.has_given else None
            else:
                output, complaint = self._structured_output, None
                if output is not None and step.stop == "end" and step.reply is not None:
                    complaint = output.check_reply(step.reply, self._requests.view.profile)
                if complaint is not None:
                    self.run.continue_with(complaint)
                elif not self._continue_with_messages(step.stop):
                    return None

    def _find_exceeded(self) -> str:
        """Return what the run, or one above it, has used up; "" if nothing. Raises TimeIsUp."""
        if self.ledger.is_unlimited:
            return ""
        if self.ledger.is_time_up:
            raise TimeIsUp
        return self.ledger.find_exceeded()

    # ---- messages that arrive meanwhile

    def _continue_with_messages(self, stop: RunStop) -> bool:
        """Continue a run that would end with what is queued for it, if anything is and a request is left.

        Otherwise its inbox is closed: what arrives from now on is refused.
        """
        if self._inbox.close_if_empty():
            return False
        output = self._structured_output
        if stop not in ("end", "length"):
            self._inbox.close(STOP_REASONS[stop])
        elif not self.run.can_ask:
            self._inbox.close(STOP_REASONS["max_iterations"])
        elif self.ledger.is_time_up:
            self._inbox.close(STOP_REASONS["timeout"])
        elif exceeded := self.ledger.find_exceeded():
            self._inbox.close(exceeded)
        elif output is not None and output.problem:
            self._inbox.close(output.problem)
        elif deliveries := self._inbox.take_or_close(len(self.run.conversation)):
            if output is not None:
                output.reopen()
            self._add_messages(deliveries)
            return True
        return False

    def _close_inbox(self) -> None:
        """Refuse what is queued, unless the run waits and its rest will take it."""
        if self._inbox.is_open and not self.run.waiting_calls:
            self._inbox.close(STOP_REASONS.get(self.run.stop or "", _FAILED))

    def _add_messages(self, deliveries: list[Delivery]) -> None:
        """Append messages to the conversation, and tell of them with the next events."""
        for delivery in deliveries:
            self._delivered.append(Delivered(delivery.id, len(self.run.conversation), delivery.message))
            self.run.add_message(delivery.message)

    def _handle_early_end(self, error: BaseException) -> bool:
        """Record an early end so that the conversation stays valid.

        Return True if the error was fully handled.
        """
        run = self.run
        if run.is_interrupted:
            return False
        partial_text = self._reading_from.partial_text if self._reading_from is not None else None
        if isinstance(error, TimeIsUp):
            log.info("the run was stopped after %s s", self.ledger.limits.run_timeout)
            run.interrupt(partial_text, timed_out=True, notes=self._host.interruption_notes)
            return True
        is_prompt_last = not run.iteration and len(run.conversation) == self._start
        if is_prompt_last and (self._reading_from is None or isinstance(error, InvalidRequest)):
            self._state.retract()  # it was never sent, or would be refused for ever
        elif isinstance(error, asyncio.CancelledError | GeneratorExit | KeyboardInterrupt):
            # the run that started this one may have no time left, and has cancelled it
            timed_out = self.ledger.is_time_up_above
            run.interrupt(partial_text, timed_out=timed_out, notes=self._host.interruption_notes)
        else:
            run.abandon("cancelled", "the run ended with an error")
        return False

    def result(self) -> RunResult:
        """Return the result of the run so far.

        Raises MissingOutput if it is over without the output that was requested.
        """
        self._close_turn()
        run, step = self.run, self.run.next()
        stop = step.stop if isinstance(step, Done) else _pause_reason(self._pending)
        output = self._structured_output
        if output is not None:
            self._repairs |= dict.fromkeys(output.repairs)
        result = RunResult(
            run.reply.text if run.reply else "",
            stop,
            run.reply,
            output.output if output else None,
            self.ledger.usage,
            tuple(self._outcomes),
            tuple(self._losses),
            tuple(self._repairs),
            tuple(run.conversation[self._start :]),
            self._pending,
            run.iteration,
            self.ledger.cost if run.iteration else None,
            self._inbox.refused,
        )
        if output is not None and not output.is_complete and not result.is_paused:
            raise MissingOutput(result, output.problem)
        return result

    def _leg_result(self) -> RunResult:
        """Return the result with what was used since the run was started or resumed: each leg has a span of
        its own.
        """
        result, (usage, cost) = self.result(), self.ledger.spent_in_leg
        iterations = result.iterations - self._earlier_iterations
        return replace(result, usage=usage, cost=cost if iterations else None, iterations=iterations)

    # ---- the model

    async def _ask(self, step: AskModel) -> AsyncGenerator[list[RunEvent]]:
        news = [] if self._successor is None else [await self._change_agents(*self._successor)]
        requests = self._requests
        requests.state.note_tool_changes(requests.view)  # a tool may have registered another one
        state = requests.prepare()
        if news := [*news, *await self._fit_context()]:
            yield news
            if self.ledger.find_exceeded():  # the summary has used up the rest
                return
        while True:
            self._close_turn()
            request, has_shown = requests.build_request(step, self._streaming), False
            if self._hooks.before_request:
                request = await self.ledger.in_time(apply_hooks(self._hooks.before_request, request))
            requests.note_sent(request)
            self._reading_from = state
            try:
                if not (self._streaming or request.stream):
                    await self.ledger.in_time(state.ask(request))
                else:
                    async with aclosing(state.stream_batches(request)) as batches:
                        while (batch := await self.ledger.in_time(anext(batches, None))) is not None:
                            if self._streaming:
                                has_shown = has_shown or not isinstance(batch[0], Retrying | RequestDelayed)
                                yield cast(list[RunEvent], batch)
                                if self._eager_tools is not None and (
                                    events := self._eager_tools.observe(batch)
                                ):
                                    yield events
                if (events := await self._take_reply(state)) and self._streaming:
                    yield events
                return
            except (ProviderError, TransportError, MalformedReply) as error:
                if has_shown:  # what was shown is never taken back
                    raise
                state, news = await self._recover(error, state)
            yield news

    async def _change_agents(self, setup: "AgentSetup", name: str) -> RunEvent:
        """Continue with another agent: its model, its system prompt, its tools."""
        self._successor, parts = None, self._requests.parts
        instructions = await setup.system_prompt(self._state, parts.data)
        self._requests = RequestBuilder(replace(parts, setup=setup, instructions=instructions))
        self._config, self._hooks = setup.config.config, setup.config.hooks
        self._fallbacks_used = 0
        if self._eager_tools is not None:
            await self._eager_tools.stop()
        self._eager_tools = None
        if self._config.eager_start and self._streaming:
            self._eager_tools = EagerTools(self.run, self._requests, self.on_ask)
        return ModelSwitched(setup.models.engine.name, f"the conversation was handed over ({name})")

    async def _recover(
        self, error: ProviderError | TransportError | MalformedReply, state: EngineState
    ) -> tuple[EngineState, list[RunEvent]]:
        """Shorten the conversation or switch to another model; the events that tell of it.

        Raises the error if that fails.
        """
        if isinstance(error, ContextTooLong) and not self._was_rejected:  # shortened once in a run
            self._was_rejected = True
            if news := await self._fit_context(was_rejected=True):
                return state, news
        state = self._use_fallback(error, state)
        return state, [ModelSwitched(state.engine.name, error.message), *await self._fit_context()]

    async def _fit_context(self, *, was_rejected: bool = False) -> list[RunEvent]:
        """Make the conversation fit the model; the events that tell of it."""
        event = await self.ledger.in_time(self._requests.fit_context(was_rejected=was_rejected))
        if event is None:
            return []
        self.ledger.spend(event.usage, self._requests.prepare().engine.profile.price)
        self._losses[Loss(count_phrase(event.omitted_messages), "context", event.message)] = None
        fields = {"left_out": event.omitted_messages, "before": event.before, "after": event.after}
        log.info("the context was truncated: %s", event.message, extra=fields)
        return [event]

    async def _take_reply(self, state: EngineState) -> list[RunEvent]:
        """Add the reply to the run; the events of calls that may not run."""
        result = state.result
        assert result is not None
        profile, usage = state.engine.profile, result.reply.usage
        self.ledger.spend(usage, profile.price)
        self._state.meter.calibrate(profile, self._requests.estimated_tokens, usage.input)
        self._losses |= dict.fromkeys((*result.losses, *self._state.history_losses))
        self._repairs |= dict.fromkeys((*result.repairs, *self._requests.view.deferral_repairs))
        reply = result.reply
        if self._hooks.after_reply:
            reply = await self.ledger.in_time(apply_hooks(self._hooks.after_reply, reply))
        self._reading_from = None
        reply, self._interpreted = self._requests.view.annotate(with_unique_ids(reply))
        self.run.add_reply(reply, self._requests.offer.find_refusals(reply))
        return self._record_refusals()

    def _use_fallback(
        self, error: ProviderError | TransportError | MalformedReply, failed: EngineState
    ) -> EngineState:
        """Switch to another model. Raises the error if there is none."""
        # Another model may help if this one cannot be reached, is busy, fails, or is not paid for.
        may_help = isinstance(error, TransportError | MalformedReply | QuotaExceeded) or error.retryable
        used = self._requests.setup.use_fallback(self._fallbacks_used) if may_help else None
        if used is None:
            raise error
        self._fallbacks_used, other = used, self._requests.prepare()
        name, fields = other.engine.name, {"model": failed.engine.name, "error": error.type}
        log.warning("%s failed: %s; continuing with %s", failed.engine.name, error, name, extra=fields)
        return other

    # ---- the tools

    async def _call_tools(self, step: CallTools | NeedApproval) -> AsyncGenerator[list[RunEvent]]:
        queue: asyncio.Queue[RunEvent | None] = asyncio.Queue()
        work = asyncio.ensure_future(self.ledger.in_time(self._run_calls(step, queue.put_nowait)))
        work.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield [event]
            await work
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
        self._finish_tools()

    def _finish_tools(self) -> None:
        """Close the turn, and see whether the run may go on.

        Raises ToolError for a failure that is to end it.
        """
        self._close_turn()
        for outcome in self._outcomes if self._config.on_error == "abort" else ():
            result, call = outcome.result, outcome.call
            # a call that the user refused did not fail
            if result.is_error and result.error_kind != "rejected":
                kind, details = result.error_kind or "execution", outcome.details
                name = result.name or call.name  # what the model called it
                raise ToolError(
                    result.text,
                    kind=kind,
                    code=result.error_code,
                    tool=name,
                    call_id=call.id,
                    details=details,
                ) from self._host.causes.pop(call.id, None)
        if (output := self._structured_output) is not None:
            output.check_outcomes(self._outcomes)
            if output.is_over:
                self.run.finish()
        if self._host.policy.is_exhausted:
            self.run.disable_tools()

    async def _run_calls(self, step: CallTools | NeedApproval, emit: Emit) -> None:
        run, caller = self.run, self._state.caller
        if isinstance(step, NeedApproval):  # and something has come
            await take_usable(self._state, run)
            return
        if self._eager_tools is not None and emit is not None:
            self._eager_tools.redirect(emit)
        calls = [
            (index, self._interpreted.get(call.id) or caller.interpret(call)) for index, call in step.calls
        ]
        self._suspended = {}
        await self._host.run_turn(
            calls,
            caller,
            self,
            rulings=run.rulings,
            ask_reason=run.distrust_reason,
            emit=emit,
            messages=run.conversation,
            owner=self,
        )

    # What the host tells of the calls of a turn (`TurnObserver`).

    def on_start(self, index: int) -> None:
        """Record that a call is about to have effects."""
        self.run.mark_started(index)

    def on_finish(self, index: int, outcome: ToolOutcome) -> None:
        """Record the result of a call."""
        self._turn_outcomes[index] = outcome
        self.run.add_result(index, outcome.result)

    def on_suspend(self, index: int, waiting: Sequence[Suspended]) -> None:
        """Record that a call waits."""
        self._suspended[index] = tuple(waiting)
        self.run.suspend(index, SuspensionRecord.of(waiting))

    def on_ask(self, is_asking: bool) -> None:
        """Stop the run's clock while somebody is asked."""
        self.ledger.clock.note_question(is_asking)

    def take_started(self, index: int, call: AnyCall) -> asyncio.Task[ToolOutcome] | None:
        """Return a call that was started while the reply still streamed."""
        task = self._eager_tools.take(call) if self._eager_tools is not None else None
        if task is not None:
            self.run.mark_started(index)
        return task

    def _record_refusals(self) -> list[RunEvent]:
        """Calls that the run itself has answered are outcomes too, in their place among the others of the
        turn.
        """
        outcomes = self._state.record_refusals(self.run)
        self._turn_outcomes |= outcomes
        return [ToolFinished(outcome) for outcome in outcomes.values()]

    def _close_turn(self) -> None:
        if self._turn_outcomes:
            self._outcomes += [self._turn_outcomes[index] for index in sorted(self._turn_outcomes)]
            self._turn_outcomes = {}


def _tell_waiting(pending: Sequence[Suspended]) -> Iterable[RunEvent]:
    """Return the events that tell of calls that wait."""
    calls = tuple([item for item in pending if item.kind == "external"])
    requests = tuple([item.request for item in pending if item.kind != "external"])
    if requests:
        yield ApprovalNeeded(requests)
    if calls:
        yield AnswerNeeded(calls)


def _pause_reason(pending: Iterable[Suspended]) -> RunStop:
    is_elsewhere = [item.kind == "external" for item in pending]
    return "waiting" if is_elsewhere and all(is_elsewhere) else "approval"
