"""One connection to the MCP server: its tool calls, the calls that wait for an answer, and progress."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from itertools import count

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from toolglot.tools.caller import Caller
from toolglot.tools.calls import AnyCall
from toolglot.tools.host import ToolHost
from toolglot.tools.registry import ToolRegistry
from toolglot.values.approvals import Ruling, Suspended
from toolglot.values.events import ToolOutcome, ToolProgress

__all__ = ["ToolSession", "progress_reporter"]

# Calls that wait for an answer a client may never send; those of them that have started.
_MAX_WAITING, _MAX_SUSPENDED = 1000, 32
_MAX_REPORTS = 64  # reports that wait for a slow client; older ones are dropped


class ToolSession:
    """The tools of one connection, with their state."""

    def __init__(self, host: ToolHost, registry: ToolRegistry, resources: ExitStack) -> None:
        self.host, self.registry, self._resources = host, registry, resources
        # ids of calls that wait for an answer -> whether they have started
        self._waiting: dict[str, bool] = {}

    async def run(
        self, call: AnyCall, caller: Caller, ruling: Ruling | None, report: Callable[[str], None]
    ) -> ToolOutcome | Suspended:
        """Run a call; return it as `Suspended` if it must wait for a decision."""

        def emit(event: object) -> None:
            if isinstance(event, ToolProgress):
                report(event.text)

        async with self.host.queue.turn(caller.config.max_parallel):
            outcome = await self.host.run_or_suspend(call, caller, ruling, emit=emit)
        while self.host.count_suspended() > _MAX_SUSPENDED:
            self.host.release_oldest()
        return outcome

    def expect_answer(self, call_id: str) -> None:
        """Record that a call waits for an answer."""
        self._waiting[call_id] = bool(self.host.find_suspended(call_id))
        while len(self._waiting) > _MAX_WAITING:
            self._waiting.pop(next(iter(self._waiting)))

    def take_answer(self, call_id: str) -> bool:
        """Return whether a call waits for an answer, which is used up.

        Raises MCPError if it had started and is gone.
        """
        has_started = self._waiting.pop(call_id, None)
        if has_started and not self.host.find_suspended(call_id):  # it must not start again
            message = (
                "the call ended while it waited for the answer, and may have had effects: make a new "
                "call to retry it"
            )
            raise MCPError(INVALID_PARAMS, message)
        return has_started is not None

    async def close(self) -> None:
        self.host.release_all()
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
