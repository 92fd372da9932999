"""The calls of one turn: which of them run at the same time, and when each is asked about."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from toolglot.approvals import ApprovalRequest, Deny, Ruling
from toolglot.events import ToolOutcome
from toolglot.tools.calls import AnyCall
from toolglot.tools.execution import CallBatch, CallWork, PreparedCall

if TYPE_CHECKING:
    from toolglot.tools.executor import ToolExecutor

__all__ = ["run_turn"]

_NO_RULINGS: Mapping[int, Ruling] = {}


async def run_turn(
    executor: "ToolExecutor",
    calls: Iterable[tuple[int, AnyCall]],
    batch: CallBatch,
    *,
    rulings: Mapping[int, Ruling] = _NO_RULINGS,
    doubt: str = "",
    take: Callable[[int, AnyCall], CallWork | None] | None = None,
    defer: Callable[[int, ApprovalRequest, bool], None] | None = None,
) -> None:
    """Run the calls of a turn, each with its index.

    What a call is asked about, and whether it is, can depend on what the calls before it do. So an ordered call is judged
    when those before it have finished, and those after it when it has; a preview is made when nothing else runs.

    Args:
        executor: Prepares them and asks about them.
        calls: The calls, each with its index.
        batch: Runs them, and takes their outcomes.
        rulings: Decisions that were made before, by index.
        doubt: Why every call needs a decision, whatever the policy says.
        take: Returns a call that runs already.
        defer: Takes the request for a call that has to wait for a decision, and whether the calls after it have to wait as
            well. Without it, the call is refused.
    """
    ready: list[tuple[int, CallWork]] = []
    is_held = False
    for index, call in calls:
        if take is not None and not is_held and (work := take(index, call)) is not None:
            ready.append((index, work))
            continue
        tool, ruling = executor.find_tool(call), rulings.get(index)
        is_ordered = tool is not None and tool.ordered
        if is_held:  # what needs a decision too is decided on together
            if defer is not None and ruling is None and (request := await executor.preview(call, doubt)) is not None:
                defer(index, request, is_ordered)
            continue
        if is_ordered:
            await batch.run(ready)
        work = await _settle(executor, call, ruling, doubt, lambda: batch.run(ready))
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
        ready.append((index, work))
        if runs_alone:
            await batch.run(ready)
    await batch.run(ready)


async def _settle(
    executor: "ToolExecutor", call: AnyCall, ruling: Ruling | None, doubt: str, finish_earlier: Callable[[], Awaitable[None]]
) -> PreparedCall | ToolOutcome | ApprovalRequest:
    """Prepare a call and get the decision that it needs: returns what runs, why it does not, or what it waits for."""
    if ruling is not None and isinstance(ruling.answer, Deny):
        return executor.deny(call, ruling.answer)
    prepared = await executor.prepare(call, doubt)
    if isinstance(prepared, ToolOutcome) or not prepared.needs_approval:
        return prepared
    if prepared.tool.preview is not None:
        await finish_earlier()
    return await executor.decide(prepared, ruling, doubt)
