"""A call in progress, shared by the servers' event loop and the event loop that waits for the result.

The two may run in different threads, and a call that waits for the user's answer may continue in a third one.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Any

from toolglot.common.textutil import truncate
from toolglot.errors import ToolError, ToolglotError
from toolglot.mcp.client.elicitation import MAX_ATTEMPTS, check_question, make_request, read_answer
from toolglot.tools.context import CallSuspended, Context
from toolglot.tools.results import ToolOutput
from toolglot.values.approvals import Allow, ApprovalRequest, Deny

if TYPE_CHECKING:
    from mcp_types import ElicitRequestParams, ElicitResult

__all__ = ["CallWaits", "RemoteCall"]

_MAX_QUESTIONS = 20
"""Maximum questions to the user during one call."""
_REPORT_SECONDS = 0.1
"""Minimum interval between progress reports: a server may send thousands."""


class CallWaits(CallSuspended):
    """A call that waits for the user's answer."""

    def __init__(self, request: ApprovalRequest, call: "RemoteCall") -> None:
        super().__init__(request, release=call.cancel)
        self.request, self.call = request, call


class RemoteCall:
    """A tool call. Its work runs in the servers' event loop."""

    def __init__(
        self, server: str, context: Context, timeout: float, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.server, self.tool, self.notes = server, context.call.name, list[str]()
        self._id, self._timeout, self._loop = context.call.id, timeout, loop
        self._report = context.report
        self._reported_at = float("-inf")
        self._lock = Lock()
        self._news = self._new_future()
        # that arrived while the user was being asked
        self._later_news = deque[Callable[[Future[Any]], None]]()
        self._answers: dict[str, asyncio.Future[Allow | Deny]] = {}  # answers, by question id
        self._question_count = 0
        self._asking = asyncio.Lock()
        self._clock: asyncio.Timeout | None = None
        self._task: asyncio.Task[None] | None = None

    @staticmethod
    def _new_future() -> "Future[ApprovalRequest | ToolOutput]":
        future: Future[ApprovalRequest | ToolOutput] = Future()
        # a caller that stops waiting must not cancel it: `cancel` does that
        future.set_running_or_notify_cancel()
        return future

    # ---- in the servers' event loop

    def start(self, work: Coroutine[Any, Any, ToolOutput]) -> None:
        """Run the call, and publish its result or exception."""

        async def run() -> None:
            try:
                result = await work
            except asyncio.CancelledError:
                cancelled = ToolError(f"The call to {self.tool} was cancelled.", kind="cancelled")
                self._tell(lambda news: news.set_exception(cancelled))
                raise
            except Exception as e:
                error = e
                self._tell(lambda news: news.set_exception(error))
            else:
                self._tell(lambda news: news.set_result(result))

        self._task = self._loop.create_task(run())

    def _tell(self, news: Callable[[Future[Any]], None]) -> None:
        """Publish a question or the outcome, once the previous question has been answered."""
        with self._lock:
            if self._news.done():
                self._later_news.append(news)
            else:
                news(self._news)

    @asynccontextmanager
    async def limit_time(self) -> AsyncGenerator[None]:
        """Apply the call's timeout to the block; questions stop the clock. Raises TimeoutError."""
        try:
            async with asyncio.timeout(self._timeout) as self._clock:
                yield
        finally:
            self._clock = None

    async def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Report the server's progress to the user."""
        now = self._loop.time()
        if now - self._reported_at >= _REPORT_SECONDS or (total is not None and progress >= total):
            self._reported_at = now
            amount = f"{progress:g}/{total:g}" if total else f"{progress:g}"
            self._report(f"{amount} {message[:500]}" if message else amount)

    async def elicit(self, params: "ElicitRequestParams") -> "ElicitResult":
        """Ask the user the server's question."""
        from mcp_types import ElicitResult

        problem = ""
        try:
            check_question(params)
        except (ToolglotError, ValueError, RecursionError) as e:
            self.notes.append(
                f"{self.server} asked for more information in a way that cannot be shown: "
                f"{truncate(str(e), 200)}"
            )
            return ElicitResult(action="decline")
        async with self._asking:
            if self._question_count >= _MAX_QUESTIONS:
                self.notes.append(
                    f"{self.server} asked for more information too often; the question was declined"
                )
                return ElicitResult(action="decline")
            remaining = None
            if self._clock is not None and (deadline := self._clock.when()) is not None:
                remaining = deadline - self._loop.time()
                self._clock.reschedule(None)
            try:
                for _ in range(MAX_ATTEMPTS):
                    self._question_count += 1
                    request = make_request(
                        self.server, self.tool, f"{self._id}-question-{self._question_count}", params, problem
                    )
                    answer = await self._put_question(request)
                    result = read_answer(params, answer)
                    if not isinstance(result, str):
                        if isinstance(answer, Deny):
                            reason = f" ({answer.reason})" if answer.reason else ""
                            self.notes.append(
                                f"{self.server} asked for more information, which was declined{reason}"
                            )
                        return result
                    problem = f"the answer is not valid ({result})"
            finally:
                if self._clock is not None and remaining is not None:
                    with suppress(RuntimeError):  # the call has ended meanwhile
                        self._clock.reschedule(self._loop.time() + remaining)
        self.notes.append(f"{self.server} asked for more information; {problem}, so it was cancelled")
        return ElicitResult(action="cancel")

    async def _put_question(self, request: ApprovalRequest) -> Allow | Deny:
        self._answers[request.id] = self._loop.create_future()
        self._tell(lambda news: news.set_result(request))
        try:
            return await self._answers[request.id]
        finally:
            del self._answers[request.id]

    # ---- in the caller's event loop

    async def wait(self, context: Context) -> ToolOutput:
        """Wait for the result; ask the user any questions meanwhile. Raises CallSuspended, ToolError."""
        self._report = context.report
        inner = context.inner_tools
        request: ApprovalRequest | None = None
        # the call continues where it was suspended
        if inner is not None and isinstance(inner.suspension, CallWaits):
            ruling = inner.rulings.get((inner.suspension.request.id,))
            if ruling is not None and isinstance(ruling.answer, Allow | Deny):
                self._take_answer(inner.suspension.request, ruling.answer)
            else:
                request = inner.suspension.request
        try:
            while True:
                if request is not None:
                    answer = Deny("nobody can be asked") if inner is None else await inner.ask(request)
                    if answer is None:
                        raise CallWaits(request, self)
                    self._take_answer(request, answer)
                news = await asyncio.wrap_future(self._news)
                if not isinstance(news, ApprovalRequest):
                    return news
                request = news
        except CallWaits:
            raise
        except BaseException:  # cancelled, or asking failed: the server must not wait for an answer forever
            self.cancel()
            raise

    def _take_answer(self, request: ApprovalRequest, answer: Allow | Deny) -> None:
        with self._lock:
            self._news = self._new_future()
            if self._later_news:
                self._later_news.popleft()(self._news)

        def resolve() -> None:  # unless the server that asked is gone
            if (future := self._answers.get(request.id)) is not None and not future.done():
                future.set_result(answer)

        self._post(resolve)

    def cancel(self) -> None:
        """Cancel the call, also on the server: nobody waits for it any more."""

        def stop() -> None:  # queued after `start`, which may not have run yet
            if self._task is not None:
                self._task.cancel()

        self._post(stop)

    def _post(self, callback: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the servers are closed, and the call has ended with them
            self._loop.call_soon_threadsafe(callback)
