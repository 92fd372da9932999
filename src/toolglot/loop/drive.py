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

from toolglot.engine.engine import Session
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
from toolglot.loop.context import older
from toolglot.loop.early import EarlyStarts
from toolglot.loop.final import Final
from toolglot.loop.run import AskModel, CallTools, Done, NeedApproval, Run
from toolglot.losses import Loss, Repair
from toolglot.messages import Message, Reply, ToolCall, Usage
from toolglot.providers.profile import Price
from toolglot.request import Request
from toolglot.tools.config import ToolConfig
from toolglot.tools.execution import Execution, Prepared, outcomes_of
from toolglot.tools.executor import ToolExecutor
from toolglot.tools.hooks import HookChain
from toolglot.tools.waiting import all_of, in_order

__all__ = ["Asker", "Driver"]

log = getLogger("toolglot.loop")
T = TypeVar("T")
Emit = Callable[[Any], None] | None
Work = Prepared | asyncio.Task[ToolOutcome]  # a call to be begun, or one that was begun early


class Asker(Protocol):
    """How the model is asked; it may be another one for each step."""

    def session(self) -> Session:
        """The way to the model that is asked now."""
        ...

    def request(self, step: AskModel, stream: bool) -> Request:
        """What it is asked."""
        ...

    def fall_back(self) -> Session | None:
        """Another model to go on with; None where there is none left."""
        ...

    async def fit(self, *, refused: bool = False) -> tuple[ContextCut, Usage] | None:
        """Leaves out older messages where a request would be too long, or was refused as such; None where nothing was done."""
        ...

    def counted(self, usage: Usage) -> None:
        """The provider has counted a request."""
        ...

    def understood(self, reply: Reply) -> Reply:
        """A reply with what its calls mean beside them."""
        ...

    def unsaid(self) -> tuple[Loss, ...]:
        """What the model's own words could not say of the calls of others."""
        ...


class Driver:
    """Drives one run. `streaming`: events are wanted."""

    def __init__(
        self,
        run: Run,
        asker: Asker,
        executor: ToolExecutor,
        config: ToolConfig,
        hooks: HookChain,
        final: Final | None,
        *,
        streaming: bool,
    ) -> None:
        self.run = run
        self._asker, self._executor, self._config, self._hooks, self._final = asker, executor, config, hooks, final
        self._streaming = streaming
        self._start = len(run.conversation)
        self._usage, self._cost, self._priced = Usage(), 0.0, True
        self._outcomes: list[ToolOutcome] = []
        self._over: dict[int, ToolOutcome] = {}  # of the turn, by number
        self._losses: dict[Loss, None] = {}
        self._repairs: dict[Repair, None] = {}
        self._asked: Session | None = None  # the session whose answer is being read
        self._early = EarlyStarts(executor, run) if config.early_start and streaming else None
        self._deadline = None if config.run_timeout is None else time.monotonic() + config.run_timeout
        self._pending: tuple[ToolCall, ...] = ()
        self._out_of_budget = self._was_refused = False

    # ---- the loop

    async def finish(self) -> None:
        """Runs until it is done or waits for a decision; nobody looks on."""
        try:
            self._take_refused()
            while (step := self._next()) is not None:
                if isinstance(step, AskModel):
                    await self._ask_whole(step)
                else:
                    await self._call_whole(step)
        except BaseException as error:
            if not self._ended_by(error):
                raise

    async def batches(self) -> AsyncGenerator[list[RunEvent]]:
        """What happens, until the run is done or waits for a decision."""
        try:
            self._take_refused()
            while (step := self._next()) is not None:
                work = self._ask(step) if isinstance(step, AskModel) else self._call(step)
                async with aclosing(work) as batches:
                    async for batch in batches:
                        yield batch
            if self._pending:
                yield [ApprovalNeeded(self._pending)]
        except BaseException as error:
            if not self._ended_by(error):
                raise
        finally:
            if self._early is not None:
                await self._early.stop()

    def _next(self) -> AskModel | CallTools | None:
        """What to do now; None where there is nothing."""
        while True:
            step = self.run.next()
            if isinstance(step, AskModel | CallTools):
                if not self._is_over_budget():
                    return step
                self._out_of_budget = True
                self.run.abandon("limit", "the run has used up its budget")
                self.run.finish("budget")
            elif isinstance(step, NeedApproval):
                self._pending = step.calls
                return None
            elif (wrong := self._unfinished(step)) is not None:
                self.run.go_on(wrong)
            else:
                return None

    def _ended_by(self, error: BaseException) -> bool:
        """Whatever ends a run early leaves a valid conversation. Whether that is all that is to be done."""
        run = self.run
        if isinstance(error, TimeoutError) and self._is_late():
            log.info("the run was stopped after %s s", self._config.run_timeout)
            self._out_of_budget = True
            run.interrupted(self._said(), late=True)
            return True
        if isinstance(error, asyncio.CancelledError | GeneratorExit | KeyboardInterrupt):
            run.interrupted(self._said())
        else:
            run.abandon("cancelled", "the run ended with an error")
        return False

    def note(self, losses: Sequence[Loss]) -> None:
        """Something is lost that no request tells of."""
        self._losses.update(dict.fromkeys(losses))

    def result(self) -> RunResult:
        """What came of the run so far."""
        self._close_turn()
        run, step = self.run, self.run.next()
        stop = step.stop if isinstance(step, Done) else "approval"
        return RunResult(
            run.reply.text if run.reply else "",
            "budget" if self._out_of_budget else stop,
            run.reply,
            self._final.output if self._final else None,
            self._usage,
            tuple(self._outcomes),
            tuple(self._losses),
            tuple(self._repairs),
            tuple(run.conversation[self._start :]),
            self._pending,
            run.iteration,
            self._cost if self._priced and run.iteration else None,
        )

    def _said(self) -> str | None:
        """The visible text of the reply that is being read; None where none is."""
        return self._asked.said if self._asked is not None else None

    def _unfinished(self, step: Done) -> Message | None:
        """What the model is told where its answer is not of the shape that was asked for."""
        if self._final is None or step.stop != "end" or step.reply is None:
            return None
        return self._final.check(step.reply)

    # ---- the model

    async def _ask_whole(self, step: AskModel) -> None:
        session = self._asker.session()
        await self._fit()
        while True:
            request = await self._request(step, session)
            try:
                if self._deadline is None:
                    await session.ask(request)
                else:
                    await self._in_time(session.ask(request))
            except (ProviderError, TransportError, MalformedReply) as error:
                if not await self._shortened(error):
                    session = self._fall_back(error, session)
                    await self._fit()
            else:
                await self._replied(session)
                return

    async def _ask(self, step: AskModel) -> AsyncGenerator[list[RunEvent]]:
        session = self._asker.session()
        if cut := await self._fit():
            yield cut
        while True:
            request, shown = await self._request(step, session), False
            try:
                async with aclosing(session.batches(request)) as answers:
                    while (batch := await self._in_time(anext(answers, None))) is not None:
                        shown = shown or not isinstance(batch[0], Retrying)
                        yield cast(list[RunEvent], batch)
                        if self._early is not None and (events := self._early.watch(batch)):
                            yield events
                await self._replied(session)
                return
            except (ProviderError, TransportError, MalformedReply) as error:
                if shown:
                    raise
                news = await self._shortened(error)
                if not news:
                    session = self._fall_back(error, session)
                    news += [ModelSwitched(session.engine.name, str(error)), *await self._fit()]
            yield news

    async def _fit(self, *, refused: bool = False) -> list[RunEvent]:
        """Makes the conversation fit the model; what was done about it."""
        done = await self._in_time(self._asker.fit(refused=refused))
        if done is None:
            return []
        cut, usage = done
        self._count(usage, self._asker.session().engine.profile.price)
        self.note([Loss(older(cut.left_out), "context", cut.said)])
        log.info(
            "the context was cut: %s", cut.said, extra={"left_out": cut.left_out, "before": cut.before, "after": cut.after}
        )
        return [cut]

    async def _shortened(self, error: ToolglotError) -> list[RunEvent]:
        """A request that was refused as too long is made shorter, once."""
        if not isinstance(error, ContextTooLong) or self._was_refused:
            return []
        self._was_refused = True
        return await self._fit(refused=True)

    async def _request(self, step: AskModel, session: Session) -> Request:
        self._close_turn()
        request = self._asker.request(step, self._streaming)
        if self._hooks.watches_requests:
            request = await self._in_time(self._hooks.before_request(request))
        self._asked = session
        return request

    async def _replied(self, session: Session) -> None:
        assert session.answered is not None
        answered = session.answered
        self._count(answered.reply.usage, session.engine.profile.price)
        self._asker.counted(answered.reply.usage)
        if answered.losses:
            self._losses.update(dict.fromkeys(answered.losses))
        if unsaid := self._asker.unsaid():
            self.note(unsaid)
        if answered.repairs:
            self._repairs.update(dict.fromkeys(answered.repairs))
        reply = answered.reply
        if self._hooks.watches_requests:
            reply = await self._in_time(self._hooks.after_reply(reply))
        self._asked = None
        self.run.replied(self._asker.understood(reply))
        self._take_refused()

    def _fall_back(self, error: ProviderError | TransportError | MalformedReply, failed: Session) -> Session:
        """Another model to ask. Raises the error where there is none."""
        other = self._asker.fall_back() if _may_fall_back(error) else None
        if other is None:
            raise error
        name, fields = other.engine.name, {"model": failed.engine.name, "error": error.type}
        log.warning("%s failed: %s; going on with %s", failed.engine.name, error, name, extra=fields)
        return other

    async def _in_time(self, work: Awaitable[T]) -> T:
        """Waits for as long as the run may still take."""
        if self._deadline is None:
            return await work
        async with asyncio.timeout(max(0.0, self._deadline - time.monotonic())):
            return await work

    def _is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def _is_over_budget(self) -> bool:
        config, usage = self._config, self._usage
        if config.max_tokens is not None and usage.input + usage.output >= config.max_tokens:
            return True
        return config.max_cost is not None and self._priced and self._cost >= config.max_cost

    def _count(self, usage: Usage, price: Price | None) -> None:
        before = self._usage
        self._usage = Usage(
            before.input + usage.input,
            before.output + usage.output,
            before.cached + usage.cached,
            before.cache_write + usage.cache_write,
            before.reasoning + usage.reasoning,
        )
        self._priced = self._priced and price is not None
        self._cost += price.of(usage) if price else 0.0

    # ---- the tools

    async def _call_whole(self, step: CallTools) -> None:
        if self._deadline is None:
            await self._run_all(step, None)
        else:
            await self._in_time(self._run_all(step, None))
        self._after_tools()

    async def _call(self, step: CallTools) -> AsyncGenerator[list[RunEvent]]:
        queue: asyncio.Queue[RunEvent | None] = asyncio.Queue()
        work = asyncio.create_task(self._in_time(self._run_all(step, queue.put_nowait)))
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
        if self._final is not None:
            self._final.tried(self._outcomes)
            if self._final.given:
                self.run.finish()
        if self._executor.guard.exhausted:
            self.run.last_turn()

    async def _run_all(self, step: CallTools, emit: Emit) -> None:
        """Judges all calls, asks for approvals in call order, then runs what may run, at the same time."""
        self._executor.guard.new_turn()
        if self._early is not None and emit is not None:
            self._early.follow(emit)
        ready: list[tuple[int, Work]] = []
        held = False  # a call that keeps its place waits for a decision: those after it have their turn then
        for number, call in step.calls:
            if held:
                self._hold(number, call)
                continue
            found = await self._prepared(number, call)
            held = found is None and self._executor.is_ordered(call)
            if isinstance(found, ToolOutcome):
                self._answered(number, found)
                if emit is not None:
                    emit(ToolFinished(found))
            elif found is not None:
                ready.append((number, found))
        if ready:
            await self._run_ready(ready, emit)

    def _hold(self, number: int, call: ToolCall) -> None:
        """A call after one that waits: what has to be decided on is decided on together with it."""
        if self._executor.asks(call) and not self.run.is_approved(number):
            self.run.wait_for(number, holds=self._executor.is_ordered(call))

    async def _prepared(self, number: int, call: ToolCall) -> "Work | ToolOutcome | None":
        """A call that may run or runs already, its outcome, or None where it waits for a decision."""
        executor = self._executor
        if self._early is not None and (task := self._early.take(call)) is not None:
            self.run.started(number)
            return task
        found = await executor.prepare(call)
        if isinstance(found, ToolOutcome) or not found.asks:
            return found
        if self.run.is_approved(number):
            return executor.settle(found, "yes")
        answer = await executor.answer(found)
        if answer == "later":
            self.run.wait_for(number, holds=executor.is_ordered(call))
            return None
        return executor.settle(found, answer)

    async def _run_ready(self, ready: "Sequence[tuple[int, Work]]", emit: Emit) -> None:
        """Runs calls at the same time; those of tools that are `ordered` keep their place among the others."""
        for together in in_order(ready, _is_ordered):
            await self._run_together(together, emit)

    async def _run_together(self, ready: "Sequence[tuple[int, Work]]", emit: Emit) -> None:
        """Runs calls at the same time, at most so many of them."""
        most = self._config.max_parallel
        if len(ready) <= most:
            begun = [self._begin(number, work, emit) for number, work in ready if isinstance(work, Prepared)]
            early = [self._taken(number, work) for number, work in ready if not isinstance(work, Prepared)]
            if early:
                await all_of(map(asyncio.ensure_future, (outcomes_of(begun), *early)))
            else:
                await outcomes_of(begun)
            return
        slots = asyncio.Semaphore(most)
        early_first = sorted(ready, key=lambda pair: isinstance(pair[1], Prepared))  # they run: each has a slot already
        await all_of(asyncio.create_task(self._in_turn(slots, *pair, emit)) for pair in early_first)

    async def _in_turn(self, slots: asyncio.Semaphore, number: int, work: "Work", emit: Emit) -> None:
        async with slots:
            if isinstance(work, Prepared):
                await outcomes_of([self._begin(number, work, emit)])
            else:
                await self._taken(number, work)

    def _begin(self, number: int, prepared: Prepared, emit: Emit) -> Execution:
        self.run.started(number)
        talk = self.run.conversation
        return self._executor.start(prepared, emit=emit, messages=talk, done=self._answered, number=number)

    async def _taken(self, number: int, work: "asyncio.Task[ToolOutcome]") -> None:
        """A call that was begun early."""
        self._answered(number, await work)

    def _answered(self, number: int, outcome: ToolOutcome) -> None:
        self._over[number] = outcome
        self.run.answered(number, outcome.result)

    def _take_refused(self) -> None:
        """Calls that the run itself has answered are outcomes too, in their place among the others of the turn."""
        for number, call, result in self.run.take_refused():
            self._over[number] = self._executor.refused(call, result)

    def _close_turn(self) -> None:
        self._outcomes += [self._over[number] for number in sorted(self._over)]
        self._over = {}

    def _abort(self) -> None:
        """The first failure ends the run; a call that the user refused is none."""
        for outcome in self._outcomes:
            result = outcome.result
            if result.is_error and result.error_kind != "rejected":
                kind = result.error_kind or "execution"
                raise ToolError(result.text, kind=kind, tool=outcome.call.name, call_id=outcome.call.id)


def _is_ordered(ready: "tuple[int, Work]") -> bool:
    work = ready[1]
    return isinstance(work, Prepared) and work.tool.ordered


def _may_fall_back(error: Exception) -> bool:
    """Another model may help where this one cannot be reached, is busy, fails, or is not paid for."""
    return isinstance(error, TransportError | MalformedReply | QuotaExceeded) or bool(getattr(error, "retryable", False))
