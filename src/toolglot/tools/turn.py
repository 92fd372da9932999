"""The calls of one turn: which of them run at the same time, and when each is asked about."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolglot.tools.caller import Caller
from toolglot.tools.calls import AnyCall
from toolglot.tools.execution import CallBatch, PreparedCall
from toolglot.values.approvals import Rulings, Suspended
from toolglot.values.events import ToolOutcome

if TYPE_CHECKING:
    from toolglot.tools.host import ToolHost

__all__ = ["run_turn"]

_NO_RULINGS: Mapping[int, Rulings] = {}
_NONE: Rulings = {}
_CHANGED = "its arguments were changed by the approver"


async def run_turn(
    host: "ToolHost",
    calls: Iterable[tuple[int, AnyCall]],
    caller: Caller,
    batch: CallBatch,
    rulings: Mapping[int, Rulings] = _NO_RULINGS,
    ask_reason: str = "",
) -> None:
    """Run the calls of a turn, each with its index; the observer of the batch hears of them.

    What a call is asked about, and whether it is, can depend on what the calls before it do. So an ordered
    call is judged when those before it have finished, and those after it when it has; a preview is made when
    nothing else runs. Other calls do not wait while somebody is asked.

    `rulings`: decisions that were made before, by index. `ask_reason`: why every call needs one, whatever the
    policy says.
    """
    try:
        await _run_in_order(host, calls, caller, batch, rulings, ask_reason)
        await batch.run_all()
    except BaseException:
        await batch.cancel()
        raise


async def _run_in_order(
    host: "ToolHost",
    calls: Iterable[tuple[int, AnyCall]],
    caller: Caller,
    batch: CallBatch,
    rulings: Mapping[int, Rulings],
    ask_reason: str,
) -> None:
    observer = batch.observer
    is_held = False
    for index, call in calls:
        if not is_held and (task := observer.take_started(index, call)) is not None:
            batch.add(index, task)
            continue
        tool = host.find_tool(call, caller)
        call_rulings = rulings.get(index, _NONE) if rulings else _NONE
        ruling = call_rulings.get(())
        is_ordered = tool is not None and tool.ordered
        if is_held:  # what needs a decision too is decided on together
            if not call_rulings and (suspended := await host.preview(call, caller, ask_reason)) is not None:
                observer.on_suspend(index, (replace(suspended, blocks_later=is_ordered),))
            continue
        if is_ordered:
            await batch.run_all()
        # Even if the policy would let it run by now, it must not run with arguments that somebody has
        # replaced.
        reason = ask_reason or (_CHANGED if ruling is not None and ruling.changes_arguments else "")
        work = await host.prepare(call, caller, reason, rulings=call_rulings, tool=tool)
        if isinstance(work, PreparedCall) and work.needs_approval:
            if work.tool.preview is not None:
                await batch.run_all()
            else:
                batch.start_ready()  # they need not wait for a person
            work = await host.decide(work, ruling, reason, on_ask=observer.on_ask)
        match work:
            case PreparedCall() if _runs_alone(work):
                await batch.run_all()
                batch.add(index, work)
                await batch.run_all()
            case PreparedCall():
                batch.add(index, work)
            case ToolOutcome():
                batch.report(index, work)
            case Suspended():
                observer.on_suspend(index, (replace(work, blocks_later=is_ordered),))
                is_held = is_ordered


def _runs_alone(prepared: PreparedCall) -> bool:
    """Return whether a call runs by itself: what was previewed runs before the next question takes its time."""
    was_previewed = prepared.approved is True and prepared.tool.preview is not None
    return was_previewed or prepared.tool.ordered  # which a hook may have changed
