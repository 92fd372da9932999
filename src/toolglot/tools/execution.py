"""One call on its way: the function runs in a task of its own, with a time limit, again where that is allowed.

Laws: there is always an outcome, whatever the function does. One that never returns, or does not let itself be cancelled, is
left behind: whoever waits gets on in time. What would take the event loop down is an error like any other.
"""

import asyncio
import random
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from inspect import isawaitable
from logging import getLogger
from typing import TYPE_CHECKING, Any

import msgspec

from toolglot.errors import ToolError
from toolglot.events import ToolFinished, ToolOutcome, ToolProgress, ToolStarted
from toolglot.losses import Repair
from toolglot.messages import Message, Text, ToolCall, ToolErrorKind, ToolResult
from toolglot.request import BUILTIN_TAG
from toolglot.tools.concurrency import CancelFlag, run_in_thread
from toolglot.tools.context import Context
from toolglot.tools.results import as_result, escape_surrogates, limit_result
from toolglot.tools.tool import Tool
from toolglot.wire.repair import make_interrupted_result

if TYPE_CHECKING:
    from toolglot.tools.executor import ToolExecutor

__all__ = ["Emit", "Execution", "PreparedCall", "error_outcome", "gather_outcomes"]

log = getLogger("toolglot.tools")
Emit = Callable[[ToolStarted | ToolProgress | ToolFinished], None]
CANCEL_GRACE = 0.1
"""Seconds that a cancelled function has to clean up before it is left behind."""


class PreparedCall(msgspec.Struct, frozen=True, gc=False):
    """A call that may run, or (`asks`) may run once somebody approves."""

    call: ToolCall
    tool: Tool
    values: dict[str, Any]
    repairs: tuple[Repair, ...]
    target: str
    needs_approval: bool
    approved: bool | None = None
    arguments: dict[str, Any] | None = None
    """As they will be used, where somebody is asked about them."""
    native_call: ToolCall | None = None
    """As the model made it, where that was in words of its own harness."""


def error_outcome(call: ToolCall, kind: ToolErrorKind, message: str, *, ran: bool = False) -> ToolOutcome:
    """The outcome of a call that went wrong."""
    return ToolOutcome(call, ToolResult(call.id, (Text(message),), call.name, is_error=True, error_kind=kind), ran=ran)


_NO_CONTEXT = Context(ToolCall("", ""))  # for tools that do not ask for one


class _TimeLimitReached(Exception):
    """Our limit was reached; not a timeout of the function's own."""


class Execution:
    """Begins at once; `answer` has the outcome."""

    __slots__ = (
        *(
            "_details",
            "_done",
            "_emit",
            "_executor",
            "_expired",
            "_flag",
            "_grace",
            "_left",
            "_loop",
            "_messages",
            "_number",
            "_prepared",
        ),
        *("_started", "answer", "task"),
    )

    def __init__(
        self,
        executor: "ToolExecutor",
        prepared: PreparedCall,
        emit: Emit | None,
        messages: Sequence[Message],
        on_done: Callable[[int, ToolOutcome], None] | None,
        index: int,
    ) -> None:
        self._executor, self._prepared, self._emit, self._messages = executor, prepared, emit, messages
        self._done, self._number = on_done, index
        self._details: Any = None  # of the last failure
        self._loop = asyncio.get_running_loop()
        self._flag: CancelFlag | None = None  # there is one where the tool may look at it
        self._expired = self._left = False
        self._grace: asyncio.TimerHandle | None = None
        self._started = executor.clock()
        self.answer: asyncio.Future[ToolOutcome] = self._loop.create_future()
        self.task = self._loop.create_task(self._run())
        self.task.add_done_callback(self._transfer_result)

    def cancel(self) -> None:
        """Nobody waits any more."""
        self._signal_cancel()
        self.task.cancel()

    def _signal_cancel(self) -> None:
        if self._flag is not None:
            self._flag.set()

    # ---- from the beginning to the outcome

    async def _run(self) -> ToolOutcome:
        executor, prepared = self._executor, self._prepared
        if self._emit is not None:
            self._emit(ToolStarted(prepared.call))
        outcome = ToolOutcome(prepared.call, make_interrupted_result(prepared.call))
        try:
            try:
                result, retries = as_result(await self._attempt(0), prepared.call), 0
            except Exception as error:
                result, retries = await self._retry(error)
            if prepared.native_call is not None and executor.facade is not None:
                result = executor.facade.render_result(
                    prepared.native_call, prepared.call.arguments or {}, result, self._details
                )
            elif BUILTIN_TAG in prepared.tool.tags:
                result = msgspec.structs.replace(result, data=None)  # it was for the words; the model reads the text
            result = limit_result(result, prepared.tool.max_result or executor.config.max_result, executor.store)
            outcome = ToolOutcome(prepared.call, result, executor.clock() - self._started, retries, prepared.repairs)
            if executor.hooks.has_outcome_hooks:
                outcome = await executor.hooks.after_tool(outcome)
        finally:  # also where it was cancelled, or a hook failed: it has run
            self._record(outcome)
        self._publish(outcome)
        return outcome

    def _record(self, outcome: ToolOutcome) -> None:
        """Everybody who keeps count."""
        prepared = self._prepared
        if not self._left:
            self._executor.record(outcome, prepared.tool, prepared.target, approved=prepared.approved)

    def _publish(self, outcome: ToolOutcome) -> None:
        if self._left:
            return
        if self._done is not None:
            self._done(self._number, outcome)
        if self._emit is not None:
            self._emit(ToolFinished(outcome))

    def _transfer_result(self, task: "asyncio.Task[ToolOutcome]") -> None:
        if self.answer.done():  # nobody waits: an error that came too late is nobody's
            if not task.cancelled():
                task.exception()
        elif task.cancelled():
            self.answer.cancel()
        elif (error := task.exception()) is not None:
            self.answer.set_exception(error)
        else:
            self.answer.set_result(task.result())

    # ---- attempts

    async def _retry(self, failure: Exception) -> tuple[ToolResult, int]:
        """More attempts, where they are allowed; the result of the last one, and how many there were."""
        call, tool, retry = self._prepared.call, self._prepared.tool, self._executor.config.retry
        attempt = 0
        while True:
            error = self._to_tool_error(failure)
            self._details = error.details
            wait = error.retry_after if error.retry_after is not None else retry.delay(attempt, random.random())
            if attempt >= retry.max_retries or not self._may_retry(error) or wait > retry.max_wait:
                return error_outcome(call, error.kind, escape_surrogates(_error_text(error))).result, attempt
            fields = {"tool": tool.name, "call": call.id, "kind": error.kind, "attempt": attempt + 1}
            log.info("tool %s failed (%s); tried again in %.2f s", tool.name, error.kind, wait, extra=fields)
            await asyncio.sleep(wait)
            attempt += 1
            try:
                return as_result(await self._attempt(attempt), call), attempt
            except Exception as e:
                failure = e

    async def _attempt(self, attempt: int) -> Any:
        """What the function returns, for as long as it may take. One that is inline and sync cannot be stopped."""
        prepared, limit = self._prepared, self._time_limit
        tool = prepared.tool
        context = self._make_context(attempt) if tool.wants_context else _NO_CONTEXT
        timer = self._loop.call_later(limit, self._expire) if limit is not None else None
        try:
            if tool.is_async or tool.inline:
                value = tool.call(prepared.values, context)
            else:
                value = await run_in_thread(lambda: tool.call(prepared.values, context))
            return await value if isawaitable(value) else value
        except asyncio.CancelledError:
            if self._expired:
                self._expired = False
                self.task.uncancel()
                raise _TimeLimitReached from None
            if self.task.cancelling():
                raise
            raise ToolError("The tool cancelled itself.", kind="cancelled") from None
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as e:
            raise RuntimeError(f"{type(e).__name__} in a tool") from e
        finally:
            if timer is not None:
                timer.cancel()
            if self._grace is not None:
                self._grace.cancel()

    def _make_context(self, attempt: int) -> Context:
        self._flag = CancelFlag()
        return Context(
            self._prepared.call,
            attempt=attempt + 1,
            data=self._executor.data,
            model=self._executor.model,
            messages=self._messages,
            report=self._make_reporter(self._flag) if self._emit is not None else _discard_progress,
            cancel_flag=self._flag,
        )

    @property
    def _time_limit(self) -> float | None:
        own = self._prepared.tool.timeout
        return own if own is not None else self._executor.config.timeout

    def _may_retry(self, error: ToolError) -> bool:
        if error.retryable:
            return True
        may = self._executor.config.on_error == "retry" and self._prepared.tool.idempotent
        return may and error.kind in ("execution", "timeout")

    # ---- out of time

    def _expire(self) -> None:
        self._expired = True
        self._signal_cancel()
        self.task.cancel()
        self._grace = self._loop.call_later(CANCEL_GRACE, self._give_up)

    def _give_up(self) -> None:
        """It does not let itself be cancelled."""
        log.warning("the tool %s does not let itself be cancelled; it is left behind", self._prepared.tool.name)
        outcome = error_outcome(self._prepared.call, "timeout", str(self._to_tool_error(_TimeLimitReached())), ran=True)
        outcome = self._executor.render_outcome(outcome, self._prepared.native_call)
        outcome = msgspec.structs.replace(outcome, seconds=self._executor.clock() - self._started)
        self._record(outcome)
        self._publish(outcome)
        self._left = True
        if not self.answer.done():
            self.answer.set_result(outcome)

    def abandon(self) -> None:
        """Nobody waits, and nobody is told any more."""
        self._left = True

    # ---- words

    def _to_tool_error(self, error: Exception) -> ToolError:
        """What went wrong, in one sentence for the model."""
        tool, call = self._prepared.tool, self._prepared.call
        if isinstance(error, ToolError):
            error.tool, error.call_id = error.tool or tool.name, error.call_id or call.id
            return error
        if isinstance(error, _TimeLimitReached):
            text = (
                f"The tool {tool.name!r} did not finish within {self._time_limit:g} s and was stopped. It may have had effects."
            )
            return ToolError(text, kind="timeout", tool=tool.name, call_id=call.id)
        log.debug("tool %s raised", tool.name, exc_info=error)
        first = _error_text(error).strip().partition("\n")[0][:500]
        return ToolError(f"{type(error).__name__}: {first}" if first else type(error).__name__, tool=tool.name, call_id=call.id)

    def _make_reporter(self, flag: CancelFlag) -> Callable[[str], None]:
        """Progress of a tool, from any thread, in order; of one that nobody waits for, nothing more."""
        call, emit, loop, here = self._prepared.call, self._emit, self._loop, threading.get_ident()

        def show(text: str) -> None:
            if emit is not None and not flag.is_set():
                emit(ToolProgress(call, text))

        def report(text: str) -> None:
            if threading.get_ident() == here:
                show(text)
            else:
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(show, text)

        return report


def _discard_progress(text: str) -> None:
    """Progress that nobody listens to."""


def _error_text(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # an exception that cannot be shown
        return f"{type(error).__name__} (it cannot be shown)" if isinstance(error, ToolError) else ""


async def gather_outcomes(executions: Sequence[Execution]) -> list[ToolOutcome]:
    """The outcomes, in order. Where the wait is cancelled or a hook fails, the others are cancelled and waited for a while."""
    try:
        if len(executions) == 1:
            return [await executions[0].answer]
        return await asyncio.gather(*[execution.answer for execution in executions])
    except BaseException:
        if running := [execution for execution in executions if not execution.task.done()]:
            for execution in running:
                execution.cancel()
            _, stuck = await asyncio.wait([execution.task for execution in running], timeout=CANCEL_GRACE)
            for execution in running:
                if execution.task in stuck:
                    execution.abandon()
        raise
