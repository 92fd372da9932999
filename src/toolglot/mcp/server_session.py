"""The tools of one connection of the MCP server: their calls, the calls that wait for an answer, and progress."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from itertools import count

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from toolglot.approvals import ApprovalRequest, Ruling
from toolglot.events import ToolFinished, ToolOutcome, ToolProgress, ToolStarted
from toolglot.tools.calls import AnyCall
from toolglot.tools.execution import CallBatch
from toolglot.tools.executor import ToolExecutor
from toolglot.tools.inner_calls import release_suspended
from toolglot.tools.turn import run_turn

__all__ = ["ToolSession", "progress_reporter"]

_MAX_WAITING, _MAX_SUSPENDED = 1000, 32  # calls that wait for an answer which a client may never send; running ones of these
_MAX_REPORTS = 64  # that wait for a slow client; older ones are left out


class ToolSession:
    """The tools of one connection, and what they remember of it."""

    def __init__(self, executor: ToolExecutor, resources: ExitStack) -> None:
        self.executor, self._resources = executor, resources
        self.version: int | None = None
        """Of the registry whose rules and names the executor has."""
        # Each call has a batch of its own, which cannot count them.
        self._slots = asyncio.Semaphore(executor.config.max_parallel)
        self._waiting: dict[str, bool] = {}  # ids of calls that wait for an answer -> whether they have started

    async def run(self, call: AnyCall, ruling: Ruling | None, report: Callable[[str], None]) -> ToolOutcome | ApprovalRequest:
        """Run a call; returns the request if it has to wait for a decision."""
        outcomes, requests = dict[int, ToolOutcome](), list[ApprovalRequest]()

        def emit(event: ToolStarted | ToolProgress | ToolFinished) -> None:
            if isinstance(event, ToolProgress):
                report(event.text)

        batch = CallBatch(self.executor, emit=emit, on_done=outcomes.__setitem__)
        rulings = {} if ruling is None else {0: ruling}
        async with self._slots:
            await run_turn(
                self.executor,
                [(0, call)],
                batch,
                rulings=rulings,
                defer=lambda index, request, is_held: requests.append(request),
            )
        while len(self.executor.suspended) > _MAX_SUSPENDED:
            self.release(next(iter(self.executor.suspended)))
        return requests[0] if requests else outcomes[0].suspended or outcomes[0]

    def release(self, call_id: str) -> None:
        """End a call that has started and waits for a decision, if it is one."""
        if (suspended := self.executor.suspended.pop(call_id, None)) is not None:
            suspended[1].release()

    def expect_answer(self, call_id: str) -> None:
        """Note that a call waits for an answer."""
        self._waiting[call_id] = call_id in self.executor.suspended
        while len(self._waiting) > _MAX_WAITING:
            self._waiting.pop(next(iter(self._waiting)))

    def take_answer(self, call_id: str) -> bool:
        """Return whether a call waits for an answer, which counts once. Raises MCPError if it has started and is gone."""
        has_started = self._waiting.pop(call_id, None)
        if has_started and call_id not in self.executor.suspended:  # it must not start again
            message = "the call ended while it waited for the answer, and may have had effects: make a new call to repeat it"
            raise MCPError(INVALID_PARAMS, message)
        return has_started is not None

    async def close(self) -> None:
        release_suspended(self.executor)
        await asyncio.to_thread(self._resources.close)  # commands are ended, which may take a moment


@asynccontextmanager
async def progress_reporter(context: ServerRequestContext[None]) -> AsyncGenerator[Callable[[str], None]]:
    """Yield a function that reports progress to the client. What was reported arrives before the result."""
    reports: asyncio.Queue[str | None] = asyncio.Queue()

    def report(text: str) -> None:
        if reports.qsize() >= _MAX_REPORTS:
            reports.get_nowait()
        reports.put_nowait(text)

    async def send() -> None:
        for number in count(1):
            if (text := await reports.get()) is None:
                return
            with suppress(Exception):  # the client has left, or does not understand it: the call goes on
                await context.session.report_progress(number, None, text)

    sender = asyncio.create_task(send())
    try:
        yield report
        reports.put_nowait(None)
        await sender
    finally:
        sender.cancel()
