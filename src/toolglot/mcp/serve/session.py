"""One connection to the MCP server: its tool calls, the calls that wait for an answer, and progress."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from itertools import count

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from toolglot.tools.calls import AnyCall
from toolglot.tools.execution import CallBatch
from toolglot.tools.executor import ToolExecutor
from toolglot.tools.inner_calls import release_suspended
from toolglot.tools.turn import run_turn
from toolglot.values.approvals import ApprovalRequest, Ruling
from toolglot.values.events import ToolFinished, ToolOutcome, ToolProgress, ToolStarted

__all__ = ["ToolSession", "progress_reporter"]

# Calls that wait for an answer a client may never send; those of them that have started.
_MAX_WAITING, _MAX_SUSPENDED = 1000, 32
_MAX_REPORTS = 64  # reports that wait for a slow client; older ones are dropped


class ToolSession:
    """The tools of one connection, with their state."""

    def __init__(self, executor: ToolExecutor, resources: ExitStack) -> None:
        self.executor, self._resources = executor, resources
        self.version: int | None = None
        """The version of the registry whose rules and names the executor has."""
        self._waiting: dict[str, bool] = {}  # ids of calls that wait for an answer -> whether they have started

    async def run(self, call: AnyCall, ruling: Ruling | None, report: Callable[[str], None]) -> ToolOutcome | ApprovalRequest:
        """Run a call; return the approval request if it must wait for a decision."""
        outcomes, requests = dict[int, ToolOutcome](), list[ApprovalRequest]()

        def emit(event: ToolStarted | ToolProgress | ToolFinished) -> None:
            if isinstance(event, ToolProgress):
                report(event.text)

        batch = CallBatch(self.executor, emit=emit, on_done=outcomes.__setitem__)
        rulings = {} if ruling is None else {0: ruling}
        # Each call is its own batch, so a batch cannot limit them.
        async with self.executor.queue.turn(self.executor.config.max_parallel):
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
        """End a call if it has started and waits for a decision."""
        if (suspended := self.executor.suspended.pop(call_id, None)) is not None:
            suspended[1].release()

    def expect_answer(self, call_id: str) -> None:
        """Record that a call waits for an answer."""
        self._waiting[call_id] = call_id in self.executor.suspended
        while len(self._waiting) > _MAX_WAITING:
            self._waiting.pop(next(iter(self._waiting)))

    def take_answer(self, call_id: str) -> bool:
        """Return whether a call waits for an answer, which is used up. Raises MCPError if it had started and is gone."""
        has_started = self._waiting.pop(call_id, None)
        if has_started and call_id not in self.executor.suspended:  # it must not start again
            message = "the call ended while it waited for the answer, and may have had effects: make a new call to retry it"
            raise MCPError(INVALID_PARAMS, message)
        return has_started is not None

    async def close(self) -> None:
        release_suspended(self.executor)
        await asyncio.to_thread(self._resources.close)  # stopping commands may take a moment


@asynccontextmanager
async def progress_reporter(context: ServerRequestContext[None]) -> AsyncGenerator[Callable[[str], None]]:
    """Yield a function that reports progress to the client. All reports arrive before the result."""
    reports: asyncio.Queue[str | None] = asyncio.Queue()

    def report(text: str) -> None:
        if reports.qsize() >= _MAX_REPORTS:
            reports.get_nowait()
        reports.put_nowait(text)

    async def send() -> None:
        for number in count(1):
            if (text := await reports.get()) is None:
                return
            with suppress(Exception):  # the client has left, or does not support progress: the call continues
                await context.session.report_progress(number, None, text)

    sender = asyncio.create_task(send())
    try:
        yield report
        reports.put_nowait(None)
        await sender
    finally:
        sender.cancel()
