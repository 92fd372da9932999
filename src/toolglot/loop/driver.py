"""Does what a `Run` decides: asks the model, runs the tools, and waits. One driver for one run.

Laws: however it ends (done, error, cancelled, left by its reader), the conversation is valid and says what was interrupted.
Events are handed on in lists, one for each piece of an answer; nothing is done per event here.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from logging import getLogger
from typing import Any, Protocol, TypeVar, cast

from toolglot.engine.engine import EngineState
from toolglot.errors import (
    ContextTooLong,
    MalformedReply,
    ProviderError,
    QuotaExceeded,
    ToolError,
    ToolglotError,
    TransportError,
)
from toolglot.events import ApprovalNeeded, ContextCut, ModelSwitched, Retrying, RunEvent, RunResult, ToolFinished, ToolOutcome
from toolglot.loop.context_window import count_phrase
from toolglot.loop.eager_tools import EagerTools
from toolglot.loop.run import AskModel, CallTools, Done, NeedApproval, Run
from toolglot.loop.structured_output import StructuredOutput
from toolglot.losses import Loss, Repair
from toolglot.messages import Message, Reply, ToolCall, Usage
from toolglot.providers.profile import Price
from toolglot.request import Request
from toolglot.tools.concurrency import gather_or_cancel, split_by_order
from toolglot.tools.config import ToolConfig
from toolglot.tools.execution import Execution, PreparedCall, gather_outcomes
from toolglot.tools.executor import ToolExecutor
from toolglot.tools.hooks import HookChain

__all__ = ["Driver", "ModelClient"]

log = getLogger("toolglot.loop")
T = TypeVar("T")
Emit = Callable[[Any], None] | None
CallWork = PreparedCall | asyncio.Task[ToolOutcome]  # a call to be begun, or one that was begun early


class ModelClient(Protocol):
    """How the model is asked; it may be another one for each step."""

    def engine_state(self) -> EngineState:
        """The way to the model that is asked now."""
        ...

    def build_request(self, step: AskModel, stream: bool) -> Request:
        """What it is asked."""
        ...

    def use_fallback(self) -> EngineState | None:
        """Another model to go on with; None where there is none left."""
        ...

    async def fit_context(self, *, was_rejected: bool = False) -> tuple[ContextCut, Usage] | None:
        """Leaves out older messages where a request would be too long, or was refused as such; None where nothing was done."""
        ...

    def record_usage(self, usage: Usage) -> None:
        """The provider has counted a request."""
        ...

    def annotate_reply(self, reply: Reply) -> Reply:
        """A reply with what its calls mean beside them."""
        ...

    def history_losses(self) -> tuple[Loss, ...]:
        """What the model's own words could not say of the calls of others."""
        ...


class Driver:
    """Drives one run. `streaming`: events are wanted."""

    def __init__(
        self,
        run: Run,
        client: ModelClient,
        executor: ToolExecutor,
        config: ToolConfig,
        hooks: HookChain,
        structured_output: StructuredOutput | None,
        *,
        streaming: bool,
    ) -> None:
        self.run = run
        self._client, self._executor, self._config, self._hooks, self._structured_output = (
            client,
            executor,
            config,
            hooks,
            structured_output,
        )
        self._streaming = streaming
        self._start = len(run.conversation)
        self._usage, self._cost, self._is_priced = Usage(), 0.0, True
        self._outcomes: list[ToolOutcome] = []
        self._turn_outcomes: dict[int, ToolOutcome] = {}  # of the turn, by number
        self._losses: dict[Loss, None] = {}
        self._repairs: dict[Repair, None] = {}
        self._reading_from: EngineState | None = None  # the session whose answer is being read
        self._eager_tools = EagerTools(executor, run) if config.eager_start and streaming else None
        self._deadline = None if config.run_timeout is None else time.monotonic() + config.run_timeout
        self._pending: tuple[ToolCall, ...] = ()
        self._is_out_of_budget = self._was_rejected = False

    # ---- the loop

    async def run_to_end(self) -> None:
        """Runs until it is done or waits for a decision; nobody looks on."""
        try:
            self._record_refusals()
            while (step := self._next_step()) is not None:
                if isinstance(step, AskModel):
                    await self._ask_once(step)
                else:
                    await self._call_tools_once(step)
        except BaseException as error:
            if not self._handle_early_end(error):
                raise

    async def batches(self) -> AsyncGenerator[list[RunEvent]]:
        """What happens, until the run is done or waits for a decision."""
        try:
            self._record_refusals()
            while (step := self._next_step()) is not None:
                work = self._ask(step) if isinstance(step, AskModel) else self._call_tools(step)
                async with aclosing(work) as batches:
                    async for batch in batches:
                        yield batch
            if self._pending:
                yield [ApprovalNeeded(self._pending)]
        except BaseException as error:
            if not self._handle_early_end(error):
                raise
        finally:
            if self._eager_tools is not None:
                await self._eager_tools.stop()

    def _next_step(self) -> AskModel | CallTools | None:
        """What to do now; None where there is nothing."""
        while True:
            step = self.run.next()
            if isinstance(step, AskModel | CallTools):
                if not self._is_over_budget():
                    return step
                self._is_out_of_budget = True
                self.run.abandon("limit", "the run has used up its budget")
                self.run.finish("budget")
            elif isinstance(step, NeedApproval):
                self._pending = step.calls
                return None
            elif (wrong := self._check_output(step)) is not None:
                self.run.continue_with(wrong)
            else:
                return None

    def _handle_early_end(self, error: BaseException) -> bool:
        """Whatever ends a run early leaves a valid conversation. Whether that is all that is to be done."""
        run = self.run
        if isinstance(error, TimeoutError) and self._is_past_deadline():
            log.info("the run was stopped after %s s", self._config.run_timeout)
            self._is_out_of_budget = True
            run.interrupt(self._partial_text(), timed_out=True)
            return True
        if isinstance(error, asyncio.CancelledError | GeneratorExit | KeyboardInterrupt):
            run.interrupt(self._partial_text())
        else:
            run.abandon("cancelled", "the run ended with an error")
        return False

    def add_losses(self, losses: Sequence[Loss]) -> None:
        """Something is lost that no request tells of."""
        self._losses.update(dict.fromkeys(losses))

    def result(self) -> RunResult:
        """What came of the run so far."""
        self._close_turn()
        run, step = self.run, self.run.next()
        stop = step.stop if isinstance(step, Done) else "approval"
        return RunResult(
            run.reply.text if run.reply else "",
            "budget" if self._is_out_of_budget else stop,
            run.reply,
            self._structured_output.output if self._structured_output else None,
            self._usage,
            tuple(self._outcomes),
            tuple(self._losses),
            tuple(self._repairs),
            tuple(run.conversation[self._start :]),
            self._pending,
            run.iteration,
            self._cost if self._is_priced and run.iteration else None,
        )

    def _partial_text(self) -> str | None:
        """The visible text of the reply that is being read; None where none is."""
        return self._reading_from.partial_text if self._reading_from is not None else None

    def _check_output(self, step: Done) -> Message | None:
        """What the model is told where its answer is not of the shape that was asked for."""
        if self._structured_output is None or step.stop != "end" or step.reply is None:
            return None
        return self._structured_output.check_reply(step.reply)

    # ---- the model

    async def _ask_once(self, step: AskModel) -> None:
        session = self._client.engine_state()
        await self._fit_context()
        while True:
            request = await self._build_request(step, session)
            try:
                if self._deadline is None:
                    await session.ask(request)
                else:
                    await self._before_deadline(session.ask(request))
            except (ProviderError, TransportError, MalformedReply) as error:
                if not await self._shorten(error):
                    session = self._use_fallback(error, session)
                    await self._fit_context()
            else:
                await self._take_reply(session)
                return

    async def _ask(self, step: AskModel) -> AsyncGenerator[list[RunEvent]]:
        session = self._client.engine_state()
        if cut := await self._fit_context():
            yield cut
        while True:
            request, shown = await self._build_request(step, session), False
            try:
                async with aclosing(session.stream_batches(request)) as answers:
                    while (batch := await self._before_deadline(anext(answers, None))) is not None:
                        shown = shown or not isinstance(batch[0], Retrying)
                        yield cast(list[RunEvent], batch)
                        if self._eager_tools is not None and (events := self._eager_tools.observe(batch)):
                            yield events
                await self._take_reply(session)
                return
            except (ProviderError, TransportError, MalformedReply) as error:
                if shown:
                    raise
                news = await self._shorten(error)
                if not news:
                    session = self._use_fallback(error, session)
                    news += [ModelSwitched(session.engine.name, str(error)), *await self._fit_context()]
            yield news

    async def _fit_context(self, *, was_rejected: bool = False) -> list[RunEvent]:
        """Makes the conversation fit the model; what was done about it."""
        done = await self._before_deadline(self._client.fit_context(was_rejected=was_rejected))
        if done is None:
            return []
        cut, usage = done
        self._count_usage(usage, self._client.engine_state().engine.profile.price)
        self.add_losses([Loss(count_phrase(cut.left_out), "context", cut.said)])
        log.info(
            "the context was cut: %s", cut.said, extra={"left_out": cut.left_out, "before": cut.before, "after": cut.after}
        )
        return [cut]

    async def _shorten(self, error: ToolglotError) -> list[RunEvent]:
        """A request that was refused as too long is made shorter, once."""
        if not isinstance(error, ContextTooLong) or self._was_rejected:
            return []
        self._was_rejected = True
        return await self._fit_context(was_rejected=True)

    async def _build_request(self, step: AskModel, state: EngineState) -> Request:
        self._close_turn()
        request = self._client.build_request(step, self._streaming)
        if self._hooks.has_request_hooks:
            request = await self._before_deadline(self._hooks.before_request(request))
        self._reading_from = state
        return request

    async def _take_reply(self, state: EngineState) -> None:
        assert state.result is not None
        answered = state.result
        self._count_usage(answered.reply.usage, state.engine.profile.price)
        self._client.record_usage(answered.reply.usage)
        if answered.losses:
            self._losses.update(dict.fromkeys(answered.losses))
        if unsaid := self._client.history_losses():
            self.add_losses(unsaid)
        if answered.repairs:
            self._repairs.update(dict.fromkeys(answered.repairs))
        reply = answered.reply
        if self._hooks.has_request_hooks:
            reply = await self._before_deadline(self._hooks.after_reply(reply))
        self._reading_from = None
        self.run.add_reply(self._client.annotate_reply(reply))
        self._record_refusals()

    def _use_fallback(self, error: ProviderError | TransportError | MalformedReply, failed: EngineState) -> EngineState:
        """Another model to ask. Raises the error where there is none."""
        other = self._client.use_fallback() if _may_fall_back(error) else None
        if other is None:
            raise error
        name, fields = other.engine.name, {"model": failed.engine.name, "error": error.type}
        log.warning("%s failed: %s; going on with %s", failed.engine.name, error, name, extra=fields)
        return other

    async def _before_deadline(self, awaitable: Awaitable[T]) -> T:
        """Waits for as long as the run may still take."""
        if self._deadline is None:
            return await awaitable
        async with asyncio.timeout(max(0.0, self._deadline - time.monotonic())):
            return await awaitable

    def _is_past_deadline(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def _is_over_budget(self) -> bool:
        config, usage = self._config, self._usage
        if config.max_tokens is not None and usage.input + usage.output >= config.max_tokens:
            return True
        return config.max_cost is not None and self._is_priced and self._cost >= config.max_cost

    def _count_usage(self, usage: Usage, price: Price | None) -> None:
        before = self._usage
        self._usage = Usage(
            before.input + usage.input,
            before.output + usage.output,
            before.cached + usage.cached,
            before.cache_write + usage.cache_write,
            before.reasoning + usage.reasoning,
        )
        self._is_priced = self._is_priced and price is not None
        self._cost += price.cost(usage) if price else 0.0

    # ---- the tools

    async def _call_tools_once(self, step: CallTools) -> None:
        if self._deadline is None:
            await self._run_calls(step, None)
        else:
            await self._before_deadline(self._run_calls(step, None))
        self._after_tools()

    async def _call_tools(self, step: CallTools) -> AsyncGenerator[list[RunEvent]]:
        queue: asyncio.Queue[RunEvent | None] = asyncio.Queue()
        work = asyncio.create_task(self._before_deadline(self._run_calls(step, queue.put_nowait)))
        work.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield [event]
            await work
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
        self._after_tools()

    def _after_tools(self) -> None:
        """What the outcomes of a turn mean for the run."""
        self._close_turn()
        if self._config.on_error == "abort":
            self._abort()
        if self._structured_output is not None:
            self._structured_output.check_outcomes(self._outcomes)
            if self._structured_output.is_complete:
                self.run.finish()
        if self._executor.policy.is_exhausted:
            self.run.disable_tools()

    async def _run_calls(self, step: CallTools, emit: Emit) -> None:
        """Judges all calls, asks for approvals in call order, then runs what may run, at the same time."""
        self._executor.policy.begin_turn()
        if self._eager_tools is not None and emit is not None:
            self._eager_tools.redirect(emit)
        ready: list[tuple[int, CallWork]] = []
        held = False  # a call that keeps its place waits for a decision: those after it have their turn then
        for number, call in step.calls:
            if held:
                self._hold(number, call)
                continue
            found = await self._prepare_call(number, call)
            held = found is None and self._executor.is_ordered(call)
            if isinstance(found, ToolOutcome):
                self._add_outcome(number, found)
                if emit is not None:
                    emit(ToolFinished(found))
            elif found is not None:
                ready.append((number, found))
        if ready:
            await self._run_in_order(ready, emit)

    def _hold(self, index: int, call: ToolCall) -> None:
        """A call after one that waits: what has to be decided on is decided on together with it."""
        if self._executor.needs_approval(call) and not self.run.is_approved(index):
            self.run.wait_for_decision(index, blocks_later=self._executor.is_ordered(call))

    async def _prepare_call(self, index: int, call: ToolCall) -> "CallWork | ToolOutcome | None":
        """A call that may run or runs already, its outcome, or None where it waits for a decision."""
        executor = self._executor
        if self._eager_tools is not None and (task := self._eager_tools.take(call)) is not None:
            self.run.mark_started(index)
            return task
        found = await executor.prepare(call)
        if isinstance(found, ToolOutcome) or not found.needs_approval:
            return found
        if self.run.is_approved(index):
            return executor.apply_decision(found, "yes")
        answer = await executor.request_approval(found)
        if answer == "later":
            self.run.wait_for_decision(index, blocks_later=executor.is_ordered(call))
            return None
        return executor.apply_decision(found, answer)

    async def _run_in_order(self, ready: "Sequence[tuple[int, CallWork]]", emit: Emit) -> None:
        """Runs calls at the same time; those of tools that are `ordered` keep their place among the others."""
        for together in split_by_order(ready, _is_ordered):
            await self._run_parallel(together, emit)

    async def _run_parallel(self, ready: "Sequence[tuple[int, CallWork]]", emit: Emit) -> None:
        """Runs calls at the same time, at most so many of them."""
        most = self._config.max_parallel
        if len(ready) <= most:
            begun = [self._start_call(number, work, emit) for number, work in ready if isinstance(work, PreparedCall)]
            early = [self._await_eager(number, work) for number, work in ready if not isinstance(work, PreparedCall)]
            if early:
                await gather_or_cancel(map(asyncio.ensure_future, (gather_outcomes(begun), *early)))
            else:
                await gather_outcomes(begun)
            return
        slots = asyncio.Semaphore(most)
        early_first = sorted(ready, key=lambda pair: isinstance(pair[1], PreparedCall))  # they run: each has a slot already
        await gather_or_cancel(asyncio.create_task(self._run_in_slot(slots, *pair, emit)) for pair in early_first)

    async def _run_in_slot(self, slots: asyncio.Semaphore, index: int, work: "CallWork", emit: Emit) -> None:
        async with slots:
            if isinstance(work, PreparedCall):
                await gather_outcomes([self._start_call(index, work, emit)])
            else:
                await self._await_eager(index, work)

    def _start_call(self, index: int, prepared: PreparedCall, emit: Emit) -> Execution:
        self.run.mark_started(index)
        talk = self.run.conversation
        return self._executor.start(prepared, emit=emit, messages=talk, on_done=self._add_outcome, index=index)

    async def _await_eager(self, index: int, work: "asyncio.Task[ToolOutcome]") -> None:
        """A call that was begun early."""
        self._add_outcome(index, await work)

    def _add_outcome(self, index: int, outcome: ToolOutcome) -> None:
        self._turn_outcomes[index] = outcome
        self.run.add_result(index, outcome.result)

    def _record_refusals(self) -> None:
        """Calls that the run itself has answered are outcomes too, in their place among the others of the turn."""
        for number, call, result in self.run.take_refusals():
            self._turn_outcomes[number] = self._executor.record_refusal(call, result)

    def _close_turn(self) -> None:
        self._outcomes += [self._turn_outcomes[number] for number in sorted(self._turn_outcomes)]
        self._turn_outcomes = {}

    def _abort(self) -> None:
        """The first failure ends the run; a call that the user refused is none."""
        for outcome in self._outcomes:
            result = outcome.result
            if result.is_error and result.error_kind != "rejected":
                kind = result.error_kind or "execution"
                raise ToolError(result.text, kind=kind, tool=outcome.call.name, call_id=outcome.call.id)


def _is_ordered(ready: "tuple[int, CallWork]") -> bool:
    work = ready[1]
    return isinstance(work, PreparedCall) and work.tool.ordered


def _may_fall_back(error: Exception) -> bool:
    """Another model may help where this one cannot be reached, is busy, fails, or is not paid for."""
    return isinstance(error, TransportError | MalformedReply | QuotaExceeded) or bool(getattr(error, "retryable", False))
