"""Calls that code makes, which another call runs: checked, approved, run and recorded as if the model had made them.

As in a turn: ordered calls keep their place, at most `max_parallel` calls run at a time, and one question is asked at a time.
"""

from collections.abc import Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolglot.common.loggers import get_logger
from toolglot.errors import UsageError
from toolglot.tools.context import CallSuspended
from toolglot.tools.execution import CallBatch
from toolglot.tools.turn import run_turn
from toolglot.values.approvals import Allow, ApprovalRequest, Approve, Deny, Ruling, read_decision
from toolglot.values.events import ToolOutcome
from toolglot.values.messages import ToolCall

if TYPE_CHECKING:
    from toolglot.tools.executor import ToolExecutor

__all__ = ["InnerCalls", "ask_approver", "release_suspended"]

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

    async def ask(self, request: ApprovalRequest) -> Allow | Deny | None:
        """Ask for a decision while the tool runs; None means later. Where nobody can be asked, it is denied."""
        telemetry = self._executor.telemetry
        if telemetry is not None:
            telemetry.note_approval_request(request)
        async with self._executor.questions.turn(1):
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
        tool = executor.find_tool(interpreted)
        is_ordered = tool is not None and tool.ordered
        # One call after the other is judged, so that one question is asked at a time.
        turn, question = executor.queue.turn(executor.config.max_parallel, is_ordered=is_ordered), executor.questions.turn(1)

        def start(index: int = 0) -> None:
            if question.state == "running":
                question.end()
                on_asking(False)

        async with turn, question:
            on_asking(True)
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
        return requests[0] if requests else outcomes[0]


def release_suspended(executor: "ToolExecutor") -> None:
    """End what waits for a decision on a call of its code: nobody will make it any more."""
    while executor.suspended:
        executor.suspended.popitem()[1][1].release()
