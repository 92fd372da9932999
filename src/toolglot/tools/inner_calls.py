"""Calls that code makes, which another call runs: checked, approved, run and recorded as if the model had made them.

As in a turn: ordered calls keep their place, at most `max_parallel` calls run at a time, and one question is asked at a time.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolglot.approvals import Allow, ApprovalRequest, Approve, Deny, Ruling, read_decision
from toolglot.errors import UsageError
from toolglot.events import ToolOutcome
from toolglot.loggers import get_logger
from toolglot.messages import ToolCall
from toolglot.tools.context import CallSuspended
from toolglot.tools.execution import CallBatch
from toolglot.tools.turn import run_turn

if TYPE_CHECKING:
    from toolglot.tools.executor import ToolExecutor

__all__ = ["InnerCallQueue", "InnerCalls", "ask_approver", "release_suspended"]

log = get_logger("toolglot.tools")


async def ask_approver(approve: Approve | None, request: ApprovalRequest) -> Allow | Deny | None:
    """Ask whoever approves calls; None means later. Where there is nobody, the answer is no."""
    if approve is None:
        return Deny("nobody can be asked")
    answer: Any = approve(request)
    if isawaitable(answer):
        answer = await answer
    try:
        return read_decision(answer)
    except UsageError as error:
        log.warning("approve: %s; it is treated as no", error)
        return Deny()


class InnerCallQueue:
    """The inner calls of one conversation that run in one event loop."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.asking = asyncio.Lock()
        self._waiting: deque[tuple[asyncio.Future[None], bool]] = deque()
        self._running = 0
        self._max_parallel = 1
        self._is_ordered_running = False

    async def enter(self, max_parallel: int, *, is_ordered: bool) -> None:
        """Wait for the turn of a call; `leave` ends it."""
        self._max_parallel = max_parallel
        turn = self.loop.create_future()
        self._waiting.append((turn, is_ordered))
        self._start_more()
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.leave()
            else:
                self._waiting.remove((turn, is_ordered))
                self._start_more()
            raise

    def leave(self) -> None:
        self._running -= 1
        self._is_ordered_running = False  # such a call runs alone
        self._start_more()

    def _start_more(self) -> None:
        while self._waiting and not self._is_ordered_running and self._running < self._max_parallel:
            turn, is_ordered = self._waiting[0]
            if is_ordered and self._running:
                return
            self._waiting.popleft()
            self._running += 1
            self._is_ordered_running = is_ordered
            turn.set_result(None)


class InnerCalls:
    """What the code of one call may call: the `inner_tools` of its context."""

    def __init__(
        self,
        executor: "ToolExecutor",
        batch: CallBatch,
        caller: str,
        ruling: Ruling | None,
        suspension: CallSuspended | None = None,
    ) -> None:
        self._executor, self._batch, self._caller = executor, batch, caller
        self.definitions, self.ruling, self.suspension = executor.inner_tools, ruling, suspension
        self.can_ask = executor.approve is not None

    @property
    def _queue(self) -> InnerCallQueue:
        queue = self._executor.inner_queue
        if queue is None or queue.loop is not asyncio.get_running_loop():
            queue = self._executor.inner_queue = InnerCallQueue()
        return queue

    async def ask(self, request: ApprovalRequest) -> Allow | Deny | None:
        """Ask for a decision while the tool runs; None means later. Where nobody can be asked, it is denied."""
        telemetry = self._executor.telemetry
        if telemetry is not None:
            telemetry.note_approval_request(request)
        async with self._queue.asking:
            answer = await ask_approver(self._executor.approve, request)
        if telemetry is not None and answer is not None:
            telemetry.note_decision(request.call, "allow" if isinstance(answer, Allow) else "deny")
        return answer

    async def call(
        self, call: ToolCall, ruling: Ruling | None = None, on_asking: Callable[[bool], None] = lambda is_asking: None
    ) -> ToolOutcome | ApprovalRequest:
        """Run a call; returns the request if it has to wait for a decision."""
        executor, outcomes, requests = self._executor, dict[int, ToolOutcome](), list[ApprovalRequest]()
        interpreted = executor.interpret(replace(call, caller=self._caller))
        tool, queue = executor.find_tool(interpreted), self._queue
        await queue.enter(executor.config.max_parallel, is_ordered=tool is not None and tool.ordered)
        try:
            await queue.asking.acquire()
            is_asking = True
            on_asking(True)

            def start(index: int = 0) -> None:
                nonlocal is_asking
                if is_asking:
                    is_asking = False
                    queue.asking.release()
                    on_asking(False)

            batch = CallBatch(
                executor,
                emit=self._batch.emit,
                messages=self._batch.messages,
                on_start=start,
                on_done=outcomes.__setitem__,
                is_for_code=True,
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
            queue.leave()
        return requests[0] if requests else outcomes[0]


def release_suspended(executor: "ToolExecutor") -> None:
    """End what waits for a decision on a call of its code: nobody will make it any more."""
    while executor.suspended:
        executor.suspended.popitem()[1][1].release()
