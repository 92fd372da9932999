"""Calls that code makes, which another call runs: checked, approved, run and recorded as if the model had
made them.

As in a turn: ordered calls keep their place, at most `max_parallel` calls run at a time, and one question is
asked at a time.
"""

from collections.abc import Callable, Sequence
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolglot.common.loggers import get_logger
from toolglot.errors import UsageError
from toolglot.tools.calls import AnyCall
from toolglot.tools.execution import CallBatch, PreparedCall
from toolglot.tools.turn import run_turn
from toolglot.values.approvals import Allow, ApprovalRequest, Approve, Deny, Ruling, Suspended, read_decision
from toolglot.values.events import ToolOutcome
from toolglot.values.messages import ToolCall

if TYPE_CHECKING:
    from toolglot.tools.host import ToolHost

__all__ = ["InnerCalls", "ask_approver"]

log = get_logger("toolglot.tools")


async def ask_approver(
    approve: Approve | None, request: ApprovalRequest, on_ask: Callable[[bool], None]
) -> Allow | Deny | None:
    """Ask whoever approves calls; None means later. Where there is nobody, the answer is no.

    `on_ask`: called before and after.
    """
    if approve is None:
        return Deny("nobody can be asked")
    on_ask(True)
    try:
        answer: Any = approve(request)
        if isawaitable(answer):
            answer = await answer
    finally:
        on_ask(False)
    try:
        return read_decision(answer)
    except UsageError as error:
        log.warning("approve: %s; it is treated as no", error)
        return Deny()


class _CodeCall:
    """Watches the one call of a batch. `on_start` is called when it begins to run.

    `on_ask`: hears of questions about the call, and of those that it asks.
    """

    def __init__(self, on_start: Callable[[], None], on_ask: Callable[[bool], None]) -> None:
        self._on_start, self.on_ask = on_start, on_ask
        self.result: ToolOutcome | Suspended | None = None

    def on_start(self, index: int) -> None:
        self._on_start()

    def on_finish(self, index: int, outcome: ToolOutcome) -> None:
        self.result = outcome

    def on_suspend(self, index: int, waiting: Sequence[Suspended]) -> None:
        self.result = waiting[0]

    def take_started(self, index: int, call: AnyCall) -> None:
        return None


class InnerCalls:
    """What the code of one call may call: the `inner_tools` of its context."""

    def __init__(self, host: "ToolHost", batch: CallBatch, outer: PreparedCall) -> None:
        self._host, self._batch, self._caller, self._outer_id = host, batch, outer.caller, outer.call.id
        self.definitions = outer.caller.inner_tools
        self.rulings = outer.rulings
        self.emit, self.owner = batch.emit, batch.owner
        self.suspension = outer.suspension
        self.can_ask = host.options.approve is not None
        self.on_ask = batch.observer.on_ask

    async def ask(self, request: ApprovalRequest) -> Allow | Deny | None:
        """Ask for a decision while the tool runs; None means later.

        Where nobody can be asked, it is denied.
        """
        telemetry, approve = self._caller.telemetry, self._host.options.approve
        if telemetry is not None:
            telemetry.note_approval_request(request)
        async with self._host.questions.turn(1):
            answer = await ask_approver(approve, request, self.on_ask)
        if telemetry is not None and answer is not None:
            telemetry.note_decision(request.call, "allow" if isinstance(answer, Allow) else "deny")
        return answer

    async def call(
        self,
        call: ToolCall,
        ruling: Ruling | None = None,
        on_asking: Callable[[bool], None] = lambda is_asking: None,
    ) -> ToolOutcome | Suspended:
        """Run a call; return it as `Suspended` if it has to wait."""
        host, caller = self._host, self._caller
        interpreted = caller.interpret(replace(call, caller=self._outer_id))
        turn = host.inner_queue.turn(
            caller.config.max_parallel, is_ordered=host.is_ordered(interpreted, caller)
        )
        # one call after the other is judged, so that one question is asked at a time
        question = host.questions.turn(1)

        def end_question() -> None:
            if question.state == "running":
                question.end()
                on_asking(False)

        observer = _CodeCall(end_question, self.on_ask)
        async with turn, question:
            on_asking(True)
            batch = CallBatch(
                host,
                observer,
                emit=self._batch.emit,
                messages=self._batch.messages,
                is_for_code=True,
                owner=self.owner,
            )
            try:
                await run_turn(
                    host, [(0, interpreted)], caller, batch, {} if ruling is None else {0: {(): ruling}}
                )
            finally:
                end_question()
        result = observer.result
        assert result is not None, "a call has an outcome"
        return result
