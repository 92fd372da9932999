"""The calls of one turn: which of them run at the same time, and when each is asked about."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from toolglot.tools.calls import AnyCall
from toolglot.tools.execution import CallBatch, CallWork, PreparedCall
from toolglot.values.approvals import ApprovalRequest, Ruling
from toolglot.values.events import ToolOutcome

if TYPE_CHECKING:
    from toolglot.tools.executor import ToolExecutor

__all__ = ["run_turn"]

_NO_RULINGS: Mapping[int, Ruling] = {}
_CHANGED = "its arguments were changed by the approver"


async def run_turn(
    executor: "ToolExecutor",
    calls: Iterable[tuple[int, AnyCall]],
    batch: CallBatch,
    *,
    rulings: Mapping[int, Ruling] = _NO_RULINGS,
    ask_reason: str = "",
    take_started: Callable[[int, AnyCall], CallWork | None] | None = None,
    defer: Callable[[int, ApprovalRequest, bool], None] | None = None,
) -> None:
    """Run the calls of a turn, each with its index; the batch takes their outcomes.

    What a call is asked about, and whether it is, can depend on what the calls before it do. So an ordered call is judged
    when those before it have finished, and those after it when it has; a preview is made when nothing else runs.

    `rulings`: decisions that were made before, by index. `ask_reason`: why every call needs one, whatever the policy says.
    `take_started` returns a call that runs already. `defer` takes the request for a call that has to wait, and whether those
    after it have to wait as well; without it, such a call is refused.
    """
    ready: list[tuple[int, CallWork]] = []
    is_held = False
    for index, call in calls:
        if take_started is not None and not is_held and (work := take_started(index, call)) is not None:
            ready.append((index, work))
            continue
        tool, ruling = executor.find_tool(call), rulings.get(index)
        is_ordered = tool is not None and tool.ordered
        if is_held:  # what needs a decision too is decided on together
            if defer is not None and ruling is None and (request := await executor.preview(call, ask_reason)) is not None:
                defer(index, request, is_ordered)
            continue
        if is_ordered:
            await batch.run(ready)
        # Even if the policy would let it run by now, it must not run with arguments that somebody has replaced.
        reason = ask_reason or (_CHANGED if ruling is not None and ruling.changes_arguments else "")
        work = await executor.prepare(call, reason, ruling=ruling)
        if isinstance(work, PreparedCall) and work.needs_approval:
            if work.tool.preview is not None:
                await batch.run(ready)
            work = await executor.decide(work, ruling, reason)
        if isinstance(work, ApprovalRequest):
            if defer is not None:
                defer(index, work, is_ordered)
                is_held = is_ordered
                continue
            work = executor.deny(call, None)
        if isinstance(work, ToolOutcome):
            batch.add(index, work)
            continue
        # What was previewed runs before the next question takes its time. A hook may have changed the tool.
        runs_alone = work.tool.ordered or bool(work.approved and work.tool.preview is not None)
        if runs_alone:
            await batch.run(ready)
            await batch.run([(index, work)])
        else:
            ready.append((index, work))
    await batch.run(ready)
