"""Calls that code makes, which another call runs: checked, approved, run and recorded as if the model had made them.

As in a turn: ordered calls keep their place, at most `max_parallel` calls run at a time, and one question is asked at a time.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolglot.approvals import ApprovalRequest, Ruling
from toolglot.events import ToolOutcome
from toolglot.messages import ToolCall
from toolglot.tools.execution import CallBatch
from toolglot.tools.turn import run_turn

if TYPE_CHECKING:
    from toolglot.tools.executor import ToolExecutor

__all__ = ["InnerCallQueue", "InnerCalls"]


class InnerCallQueue:
    """The inner calls of one conversation that run in one event loop."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.asking = asyncio.Lock()
        self._running: dict[asyncio.Future[None], bool] = {}

    async def enter(self, max_parallel: int, *, is_ordered: bool) -> asyncio.Future[None]:
        """Wait for the turn of a call; `leave` ends it."""
        place = self.loop.create_future()
        earlier = [other for other, is_other_ordered in self._running.items() if is_ordered or is_other_ordered]
        self._running[place] = is_ordered
        try:
            if earlier:
                await asyncio.wait(earlier)
            while len(before := [*self._running][: [*self._running].index(place)]) >= max_parallel:
                await asyncio.wait(before, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            self.leave(place)
            raise
        return place

    def leave(self, place: asyncio.Future[None]) -> None:
        del self._running[place]
        place.set_result(None)


class InnerCalls:
    """What the code of one call may call: the `inner_tools` of its context."""

    def __init__(self, executor: "ToolExecutor", batch: CallBatch, caller: str, ruling: Ruling | None) -> None:
        self._executor, self._batch, self._caller = executor, batch, caller
        self.definitions, self.ruling = executor.inner_tools, ruling

    async def call(
        self, call: ToolCall, ruling: Ruling | None = None, on_start: Callable[[], None] | None = None
    ) -> ToolOutcome | ApprovalRequest:
        """Run a call; returns the request if it has to wait for a decision."""
        executor, outcomes, requests = self._executor, dict[int, ToolOutcome](), list[ApprovalRequest]()
        interpreted = executor.interpret(replace(call, caller=self._caller))
        tool, queue = executor.find_tool(interpreted), executor.inner_queue
        if queue is None or queue.loop is not asyncio.get_running_loop():
            queue = executor.inner_queue = InnerCallQueue()
        place = await queue.enter(executor.config.max_parallel, is_ordered=tool is not None and tool.ordered)
        try:
            await queue.asking.acquire()

            def start(index: int = 0) -> None:
                nonlocal is_asking
                if is_asking:
                    is_asking = False
                    queue.asking.release()
                    if on_start is not None:
                        on_start()

            is_asking = True
            batch = CallBatch(
                executor, emit=self._batch.emit, messages=self._batch.messages, on_start=start, on_done=outcomes.__setitem__
            )
            try:
                await run_turn(
                    executor,
                    [(0, interpreted)],
                    batch,
                    rulings={} if ruling is None else {0: ruling},
                    defer=lambda index, request, is_held: requests.append(request),
                )
            finally:
                start()
        finally:
            queue.leave(place)
        return requests[0] if requests else outcomes[0]
