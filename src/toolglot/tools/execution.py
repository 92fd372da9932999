"""Prepared calls while they run: each in a task of its own, with a time limit, retried if that is allowed.

Invariants: a call always has an outcome, whatever its function does. A function that never returns, or that
ignores its cancellation, is abandoned, so that whoever waits gets on in time. What would end the program is
an error like any other, unless it may be the user's Ctrl-C.
"""

import asyncio
import contextvars
import random
import signal
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec.structs import replace

from toolglot.common.jsontext import dumps_verbatim
from toolglot.common.loggers import get_logger
from toolglot.errors import ToolError
from toolglot.schema.arguments import deep_copy
from toolglot.tools.call_queue import UNLIMITED, CallQueue, Turn
from toolglot.tools.caller import Caller
from toolglot.tools.calls import AnyCall, InterpretedCall
from toolglot.tools.context import CallSuspended, CancelFlag, Context, Later
from toolglot.tools.external import check_can_wait, take_answer
from toolglot.tools.hooks import apply_hooks
from toolglot.tools.policy import Verdict
from toolglot.tools.results import as_result, describe_error, escape_surrogates, limit_result
from toolglot.tools.tool import Tool
from toolglot.values.approvals import Answer, Expired, Rulings, Suspended
from toolglot.values.events import InnerEvent, ToolFinished, ToolOutcome, ToolProgress, ToolStarted
from toolglot.values.losses import Repair
from toolglot.values.messages import Message, Text, ToolCall, ToolResult
from toolglot.values.request import BUILTIN_TAG
from toolglot.wire.repair import make_interrupted_result

if TYPE_CHECKING:
    from toolglot.tools.host import ToolHost

__all__ = ["CallBatch", "CallWork", "Emit", "PreparedCall", "TurnObserver", "error_outcome"]

log = get_logger("toolglot.tools")
Emit = Callable[[ToolStarted | ToolProgress | ToolFinished | InnerEvent], None]
CANCEL_GRACE = 0.1
"""Seconds that a cancelled function has to clean up before it is abandoned."""
_NO_CONTEXT = Context(ToolCall("", ""))  # for functions without a parameter for it


class PreparedCall(msgspec.Struct, frozen=True, gc=False):
    """A call that may run, or may run once somebody approves it (`needs_approval`)."""

    call: ToolCall
    tool: Tool
    caller: Caller
    values: dict[str, Any]
    arguments: dict[str, Any]
    """As they will be used."""
    repairs: tuple[Repair, ...]
    target: str
    interpreted: InterpretedCall | None
    """The call as the model made it, if a facade interpreted it."""
    verdict: Verdict
    approved: bool | None = None
    is_changed: bool = False
    """Whether the approver has changed the arguments."""
    reminder: str = ""
    """What the model is told besides the result."""
    rulings: Rulings = {}
    """It was suspended: the decisions on what it waited for, by the path below the call."""
    suspension: CallSuspended | None = None
    """What it raised then."""

    @property
    def answer(self) -> Answer | Expired | None:
        """The answer to the call, if it waited for one."""
        if self.suspension is None or (ruling := self.rulings.get(())) is None:
            return None
        return ruling.answer if isinstance(ruling.answer, Answer | Expired) else None

    @property
    def needs_approval(self) -> bool:
        """Whether it waits for a decision."""
        return self.verdict.action == "ask" and self.approved is None

    @property
    def shown_name(self) -> str:
        """The name under which the model called the tool."""
        return self.call.name if self.interpreted is None else self.interpreted.call.name


CallWork = PreparedCall | asyncio.Task[ToolOutcome]
"""A call to start, or one that was started while the reply still streamed."""


def error_outcome(call: ToolCall, error: ToolError, *, ran: bool = False) -> ToolOutcome:
    """Return the outcome of a call that failed."""
    text = describe_error(error)
    with suppress(Exception):  # its __str__ may fail
        text = str(error)
    content = (Text(escape_surrogates(text)),)
    result = ToolResult(
        call.id, content, call.name, is_error=True, error_kind=error.kind, error_code=error.code
    )
    return ToolOutcome(call, result, ran=ran, details=error.details)


def add_reminder(outcome: ToolOutcome, reminder: str) -> ToolOutcome:
    """Return the outcome of a call with a reminder for the model after the result."""
    if not reminder:
        return outcome
    result = outcome.result
    # a wire may send the data instead of the text
    data = None if isinstance(result.data, dict) else result.data
    content = (*result.content, Text(f"\n\n[{reminder}]"))
    return replace(outcome, result=replace(result, content=content, data=data))


# ---- several calls


class TurnObserver(Protocol):
    """Hears of the calls of a turn, each by its index."""

    def on_start(self, index: int) -> Awaitable[None] | None:
        """Note that a call is about to have effects. What is returned is awaited before it has any."""
        ...

    def on_finish(self, index: int, outcome: ToolOutcome) -> None:
        """Take the outcome of a call."""
        ...

    def on_suspend(self, index: int, waiting: Sequence[Suspended]) -> None:
        """Take a call that waits, and what it waits for: one thing, or all that its code or its sub-agent waits
        for.
        """
        ...

    def on_ask(self, is_asking: bool, /) -> None:
        """Note that somebody is asked about a call or by one, and again when there is an answer."""
        ...

    def take_started(self, index: int, call: AnyCall) -> "asyncio.Task[ToolOutcome] | None":
        """Return a call that runs already."""
        ...


class CallBatch:
    """Runs calls in parallel, at most `max_parallel` at a time.

    Results are limited for the model and whoever watches. `is_for_code`: the observer gets them whole, as
    code computes on them. `owner`: the run that they belong to.
    """

    def __init__(
        self,
        host: "ToolHost",
        observer: TurnObserver,
        *,
        max_parallel: int = UNLIMITED,
        emit: Emit | None = None,
        messages: Sequence[Message] = (),
        is_for_code: bool = False,
        owner: object = None,
    ) -> None:
        self.host, self.observer, self.emit, self.messages = host, observer, emit, messages
        self.owner = owner
        self.is_for_code = is_for_code
        self._queue: CallQueue | None = None  # once there are more calls than may run at the same time
        self._max_parallel = max_parallel
        self._loop = asyncio.get_running_loop()
        self._ready: list[tuple[int, CallWork]] = []
        self._waiting: set[Turn] = set()  # of calls that the queue has not admitted
        self._running: set[Execution | asyncio.Task[ToolOutcome]] = set()
        self._all_finished: asyncio.Future[None] | None = None  # while somebody waits for it
        self._failure: BaseException | None = None
        self._needs_clocks = False  # whether calls were started whose clocks do not run
        self._timer: asyncio.TimerHandle | None = None  # for the earliest deadline of all calls

    def add(self, index: int, work: CallWork) -> None:
        """Add a call to those that run next."""
        self._ready.append((index, work))

    def start_ready(self) -> None:
        """Run the calls that were added, as soon as their turns come; others may be added while they run."""
        self._queue = self._queue or CallQueue()
        self._start_added()

    def _start_added(self) -> None:
        for index, work in self._ready:
            if not isinstance(work, PreparedCall):
                self._watch(index, work)
        for index, work in self._ready:
            if isinstance(work, PreparedCall):
                self._start(index, work)
        self._ready.clear()
        self._start_clocks_soon()

    async def run_all(self) -> None:
        """Run all calls.

        If the wait is cancelled or a hook raises, the others are cancelled and given time to clean up.
        """
        if self._queue is None and len(self._ready) > self._max_parallel:
            self._queue = CallQueue()
        self._start_added()
        if self._failure is None and (self._running or self._waiting):
            self._all_finished = self._loop.create_future()
            try:
                await self._all_finished
            finally:
                self._all_finished = None
        if self._failure is not None:
            raise self._failure

    def _watch(self, index: int, task: "asyncio.Task[ToolOutcome]") -> None:
        """Take a call that runs already, and so has its turn before the others."""
        turn = self._queue.turn(self._max_parallel) if self._queue is not None else None
        if turn is not None:
            turn.call_when_admitted(lambda: None)
        self._running.add(task)
        task.add_done_callback(lambda task: self._finish_eager(index, task, turn))

    def _start(self, index: int, prepared: PreparedCall) -> None:
        """Run a call as soon as its turn comes."""
        if self._queue is None:
            self._execute(index, prepared, None)
            return
        turn = self._queue.turn(self._max_parallel)
        turn.call_when_admitted(partial(self._execute, index, prepared, turn))
        if turn.state == "waiting":
            self._waiting.add(turn)

    async def cancel(self) -> None:
        """Cancel all calls: nobody waits for them any more."""
        self._ready.clear()
        for turn in self._waiting:
            turn.end()
        self._waiting.clear()
        if running := [*self._running]:
            for execution in running:
                execution.cancel()
            tasks = {job.task if isinstance(job, Execution) else job: job for job in running}
            _, stuck = await asyncio.wait(tasks, timeout=CANCEL_GRACE)
            for task in stuck:
                if isinstance(execution := tasks[task], Execution):
                    execution.abandon()
        for execution in running:
            if isinstance(execution, Execution):
                execution.end_turn()
        self._running.clear()
        self._stop_timer()

    def report(self, index: int, outcome: ToolOutcome, whole: ToolOutcome | None = None) -> None:
        """Take the outcome of a call. `whole`: the same with its whole result, if it was limited."""
        if self.is_for_code and whole is not None:
            self.observer.on_finish(index, whole)
        else:
            self.observer.on_finish(index, outcome)
        if self.emit is not None:
            self.emit(ToolFinished(outcome))

    def complete(
        self, execution: "Execution", outcome: ToolOutcome, whole: ToolOutcome | None = None
    ) -> None:
        """Take the outcome of an execution."""
        self.report(execution.index, outcome, whole)
        self.remove(execution)

    def remove(self, execution: "Execution") -> None:
        """Forget an execution that has ended, and let others take its turn."""
        self._running.discard(execution)
        execution.end_turn()  # which may start others
        self._start_clocks_soon()
        self._check_finished()

    def fail(self, error: BaseException) -> None:
        """Note that something raised that is nobody's result, such as a hook: the others are cancelled."""
        self._failure = self._failure or error
        if self._all_finished is not None and not self._all_finished.done():
            self._all_finished.set_exception(error)

    def _execute(self, index: int, prepared: PreparedCall, turn: Turn | None) -> None:
        if turn is not None:
            self._waiting.discard(turn)
        self._running.add(Execution(self, prepared, index, turn))
        self._needs_clocks = True

    # ---- time limits

    def _start_clocks_soon(self) -> None:
        """Start the clocks of new executions once all of them have taken their first step.

        So a function that returns at once never costs a timer.
        """
        if self._needs_clocks:
            self._needs_clocks = False
            self._loop.call_soon(self._start_clocks)

    def _start_clocks(self) -> None:
        for execution in self._running:
            if isinstance(execution, Execution):
                execution.start_clock()

    def watch_deadline(self, deadline: float) -> None:
        """Call `pass_deadline` of an execution at a time of the event loop.

        One timer serves all calls of the batch.
        """
        if self._timer is not None:
            if self._timer.when() <= deadline:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._pass_deadlines)

    def _pass_deadlines(self) -> None:
        self._timer, now = None, self._loop.time()
        for execution in [*self._running]:
            if isinstance(execution, Execution) and execution.deadline is not None:
                if execution.deadline <= now:
                    execution.pass_deadline()
                else:
                    self.watch_deadline(execution.deadline)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # ---- the end of calls

    def _finish_eager(self, index: int, task: "asyncio.Task[ToolOutcome]", turn: Turn | None) -> None:
        self._running.discard(task)
        if turn is not None:
            turn.end()
            self._start_clocks_soon()
        if task.cancelled():
            self.fail(asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            self.fail(error)
        else:
            self.observer.on_finish(index, task.result())
            self._check_finished()

    def _check_finished(self) -> None:
        if self._running or self._waiting:
            return
        self._stop_timer()
        if self._all_finished is not None and not self._all_finished.done():
            self._all_finished.set_result(None)


# ---- one call


class Execution:
    """One call of a batch; it starts at once and hands its outcome to the batch."""

    def __init__(self, batch: CallBatch, prepared: PreparedCall, index: int, turn: Turn | None) -> None:
        self._batch, self._prepared, self.index = batch, prepared, index
        self._turn = turn
        self._cancel_flag: CancelFlag | None = None  # only for a function that can look at it
        self.deadline: float | None = None
        """When, by the clock of the event loop, `pass_deadline` is to be called."""
        self._in_attempt = self._expired = self._is_in_grace = self._has_started = False
        self._returned: Any = None  # the content as the tool itself returned it
        self._waiting: tuple[Suspended, ...] = ()
        self.is_abandoned = False  # whatever the call still does is ignored
        self._end_span: Callable[[ToolOutcome | Suspended | None], None] | None = None
        self._started_at = batch.host.clock()
        self.task = asyncio.get_running_loop().create_task(self._run())

    def cancel(self) -> None:
        """Cancel the call: nobody waits for it any more."""
        if self._cancel_flag is not None:
            self._cancel_flag.set()
        self.task.cancel()

    def end_turn(self) -> None:
        """Let another call run."""
        if self._turn is not None:
            self._turn.end()

    # ---- from the start to the outcome

    async def _run(self) -> None:
        batch, prepared = self._batch, self._prepared
        hooks = batch.host.options.hooks
        whole: ToolOutcome | None = None
        outcome: ToolOutcome | None = None
        try:
            # nothing of an external tool runs here, so nothing could be run twice
            if not prepared.tool.is_external:
                if (noted := batch.observer.on_start(self.index)) is not None:
                    await noted
                self._has_started = True
                self._tell_start()
            try:
                whole = await self._run_attempts()
                if hooks.after_tool and whole is not None:
                    whole = await apply_hooks(hooks.after_tool, whole)
            finally:  # also when it was cancelled or a hook failed: it has run
                # After the hooks: what they remove must not be readable with `read_result`.
                outcome = None if whole is None else self._limit_result(whole)
                self._record(outcome)
            if self.is_abandoned:
                return
            if self._waiting:
                batch.observer.on_suspend(self.index, self._waiting)
                batch.remove(self)
            elif outcome is not None:
                batch.complete(self, add_reminder(outcome, prepared.reminder), whole)
        except Exception as error:
            batch.fail(error)
        except BaseException as error:
            if notes := getattr(error, "__notes__", ()):
                batch.host.interruption_notes[prepared.call.id] = "\n".join(notes)
            # KeyboardInterrupt passes through the event loop
            if not isinstance(error, asyncio.CancelledError):
                batch.fail(error)
                self.task.add_done_callback(lambda task: task.exception())  # somebody has seen it
            raise

    def _tell_start(self) -> None:
        prepared, emit, telemetry = self._prepared, self._batch.emit, self._prepared.caller.telemetry
        if telemetry is not None:
            is_approved = prepared.approved is True
            self._end_span = telemetry.start_tool(
                prepared.tool.definition, prepared.call, prepared.shown_name, is_approved=is_approved
            )
        if emit is not None:
            emit(ToolStarted(prepared.call))

    def abandon(self, outcome: ToolOutcome | None = None) -> None:
        """Record a call that ignores its cancellation, and ignore whatever it still does."""
        if self._has_started:
            self._record(outcome)
        self.is_abandoned = True

    def _record(self, outcome: ToolOutcome | None) -> None:
        """Record an outcome; None: the call was interrupted, or it is suspended and has none yet."""
        if self.is_abandoned:
            return
        if self._end_span is not None:
            self._end_span(self._waiting[0] if self._waiting else outcome)
        if self._waiting:
            return
        prepared, verdict, host = self._prepared, self._prepared.verdict, self._batch.host
        if outcome is None:
            seconds = host.clock() - self._started_at
            outcome = ToolOutcome(prepared.call, make_interrupted_result(prepared.call), seconds)
        decided_by = verdict.decided_by if prepared.approved is None else "user"
        host.record(
            outcome,
            prepared.caller,
            prepared.tool,
            prepared.target,
            approved=prepared.approved,
            decided_by=decided_by,
            reason=verdict.reason,
            content=self._returned,
        )

    async def _run_attempts(self) -> ToolOutcome | None:
        """Call the function, again if that is allowed. Return None if the call waits."""
        prepared, host = self._prepared, self._batch.host
        call, tool, config = prepared.call, prepared.tool, prepared.caller.config
        retry = config.retry
        attempt = 0
        answer = None if prepared.suspension is None else prepared.answer
        details: Any = None
        while True:
            try:
                value = await self._attempt(attempt) if answer is None else take_answer(answer)
                if type(value) is Later:
                    check_can_wait(prepared.caller, tool)
                    self._waiting = host.wait_elsewhere(prepared, value)
                    return None
                result = as_result(value, call)
                break
            except ToolError as e:
                error = cause = e
            except CallSuspended as e:
                self._waiting = host.suspend(prepared, e)
                return None
            except Exception as e:
                message, cause = escape_surrogates(describe_error(e)), e
                log.warning(
                    "tool %s raised %s", tool.name, message, extra={"tool": tool.name, "call": call.id}
                )
                log.debug("tool %s raised", tool.name, exc_info=e)
                error = ToolError(message)
            delay = (
                error.retry_after if error.retry_after is not None else retry.delay(attempt, random.random())
            )
            may_retry = error.retryable or (
                config.on_error == "retry" and tool.idempotent and error.kind in ("execution", "timeout")
            )
            if answer is not None or attempt >= retry.max_retries or not may_retry or delay > retry.max_wait:
                result, details = error_outcome(call, error).result, error.details
                if config.on_error == "abort":
                    host.causes[call.id] = cause
                break
            fields = {"tool": tool.name, "call": call.id, "kind": error.kind, "attempt": attempt + 1}
            log.info("tool %s failed (%s); retried in %.2f s", tool.name, error.kind, delay, extra=fields)
            await asyncio.sleep(delay)
            attempt += 1
        self._returned = result.content
        result = self._render(result, details)
        if prepared.is_changed:
            note = f"[The user changed the arguments of this call to {dumps_verbatim(prepared.arguments)}]\n"
            result = replace(result, content=(Text(escape_surrogates(note)), *result.content))
        return ToolOutcome(
            call, result, host.clock() - self._started_at, attempt, prepared.repairs, details=details
        )

    def _limit_result(self, outcome: ToolOutcome) -> ToolOutcome:
        limit = self._prepared.tool.max_result or self._prepared.caller.config.max_result
        store = None if self._batch.is_for_code else self._batch.host.store
        result = limit_result(outcome.result, limit, store)
        return outcome if result is outcome.result else replace(outcome, result=result)

    def _render(self, result: ToolResult, details: Any) -> ToolResult:
        prepared = self._prepared
        # a built-in tool's data is for facades only
        data = None if BUILTIN_TAG in prepared.tool.tags else result.data
        interpreted = prepared.interpreted
        if interpreted is None or interpreted.render is None:
            return result if data is result.data else replace(result, data=data)
        rendered = interpreted.render(result, prepared.call.arguments or {}, details)
        if rendered.is_rendered or rendered.data is not None:
            return rendered
        return replace(rendered, data=data)

    async def _attempt(self, attempt: int) -> Any:
        """Call the function once. One that is inline and synchronous cannot be stopped."""
        prepared, tool = self._prepared, self._prepared.tool
        context = self._make_context(attempt) if tool.wants_context else _NO_CONTEXT
        self._in_attempt = True
        if attempt:
            self.start_clock()
        try:
            if tool.is_async or tool.inline:
                value = tool.call(prepared.values, context)
            else:
                # a closure would cost every call
                value = await _run_in_thread(partial(tool.call, prepared.values, context))
            return await value if isawaitable(value) else value
        except asyncio.CancelledError:
            if self._expired:
                self._expired = False
                self.task.uncancel()
                raise self._timeout_error(is_stopped=tool.is_async) from None  # a thread cannot be stopped
            if self.task.cancelling():
                raise
            raise ToolError("The tool cancelled itself.", kind="cancelled") from None
        except Exception:
            raise
        except BaseException as e:  # SystemExit in a tool must not end the program
            if isinstance(e, KeyboardInterrupt) and _may_be_ctrl_c():
                raise
            raise RuntimeError(f"{type(e).__name__} in a tool") from e
        finally:
            self._in_attempt = self._is_in_grace = False
            self.deadline = None

    def _make_context(self, attempt: int) -> Context:
        batch, prepared = self._batch, self._prepared
        flag = self._cancel_flag = CancelFlag()
        call, caller = prepared.call, prepared.caller
        return Context(
            replace(call, arguments=deep_copy(call.arguments)),  # the call itself is part of the history
            attempt=attempt + 1,
            approved=prepared.approved is True,
            data=caller.data,
            model=caller.model,
            messages=batch.messages,
            report=self._make_reporter(flag) if batch.emit is not None else None,
            cancel_flag=flag,
            open_inner_tools=partial(batch.host.open_inner_tools, batch, prepared),
        )

    def _make_reporter(self, flag: CancelFlag) -> Callable[[str], None]:
        """Return a function that reports progress from any thread, in order, as long as somebody waits for
        the call.
        """
        call, emit = self._prepared.call, self._batch.emit
        loop, home_thread = asyncio.get_running_loop(), threading.get_ident()

        def show(text: str) -> None:
            if emit is not None and not flag.is_set():
                emit(ToolProgress(call, text))

        def report(text: str) -> None:
            if threading.get_ident() == home_thread:
                show(text)
            else:
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(show, text)

        return report

    # ---- the time limit

    @property
    def _time_limit(self) -> float | None:
        own_limit = self._prepared.tool.timeout
        return own_limit if own_limit is not None else self._prepared.caller.config.timeout

    def start_clock(self) -> None:
        """Start the clock of the present attempt. Between attempts there is none."""
        if self._in_attempt and self.deadline is None and (limit := self._time_limit) is not None:
            self._set_deadline(limit)

    def _set_deadline(self, seconds: float) -> None:
        self.deadline = asyncio.get_running_loop().time() + seconds
        self._batch.watch_deadline(self.deadline)

    def pass_deadline(self) -> None:
        """Cancel the attempt, or give up on one that was cancelled and still runs."""
        self.deadline = None
        if self._is_in_grace:
            self._give_up()
            return
        self._expired = self._is_in_grace = True
        self.cancel()
        self._set_deadline(CANCEL_GRACE)

    def _give_up(self) -> None:
        """Answer for a function that ignores its cancellation."""
        prepared, host = self._prepared, self._batch.host
        log.warning("the tool %s ignores its cancellation; it is abandoned", prepared.tool.name)
        outcome = error_outcome(prepared.call, self._timeout_error(is_stopped=False), ran=True)
        outcome = replace(
            outcome, result=self._render(outcome.result, None), seconds=host.clock() - self._started_at
        )
        self.abandon(outcome)
        self._batch.complete(self, outcome)

    def _timeout_error(self, *, is_stopped: bool) -> ToolError:
        name, limit = self._prepared.shown_name, self._time_limit
        end = "was stopped" if is_stopped else "may still be running"
        message = f"The tool {name!r} did not finish within {limit:g} s and {end}. It may have had effects."
        return ToolError(message, kind="timeout")


def _may_be_ctrl_c() -> bool:
    """Return whether a KeyboardInterrupt that a tool raised may be the user's. If so, it has to end the run.

    Ctrl-C is raised in the main thread only; and under `asyncio.run` it cancels the main task instead.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    runner = getattr(getattr(signal.getsignal(signal.SIGINT), "func", None), "__self__", None)
    if not isinstance(runner, asyncio.Runner):
        return True
    try:
        return runner.get_loop() is not asyncio.get_running_loop()
    except RuntimeError:  # a closed runner, whose handler somebody has restored
        return True


async def _run_in_thread(function: Callable[[], Any]) -> Any:
    """Run a function in a daemon thread of its own.

    Unlike `asyncio.to_thread`, a function that never returns blocks neither a pool nor the end of the
    process.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def resolve(set_outcome: Callable[[Any], None], outcome: Any) -> None:
        if not future.done():
            set_outcome(outcome)

    def body() -> None:
        try:
            done = (future.set_result, context.run(function))
        except BaseException as e:
            if isinstance(e, StopIteration) or not isinstance(e, Exception):
                # a future refuses the one, the others end the loop
                e = RuntimeError(f"{type(e).__name__} in a tool")
            done = (future.set_exception, e)
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(resolve, *done)

    threading.Thread(target=body, name="toolglot-tool", daemon=True).start()
    return await future
