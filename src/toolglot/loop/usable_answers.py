"""Which of the decisions that have come for the calls of a run can be carried out."""

from contextlib import suppress

from toolglot.errors import ToolError, UsageError
from toolglot.loop.conversation_state import ConversationState
from toolglot.loop.run import Run
from toolglot.tools.calls import base_call
from toolglot.tools.execution import PreparedCall
from toolglot.tools.external import missing_tool_error
from toolglot.values.approvals import Allow, Ruling, Rulings
from toolglot.values.messages import ToolCall

__all__ = ["check_can_run", "take_usable"]


async def take_usable(state: ConversationState, run: Run) -> bool:
    """Apply the decisions and answers that have come, and refuse decisions that cannot be carried out. Return
    whether there were any to apply.
    """
    calls, checked = dict(run.waiting_calls), list[Ruling]()
    for key, ruling in run.given.list():
        index, path = key
        if index not in calls:  # somebody else was faster
            continue
        try:
            await check_can_run(state, run, calls[index], {path: ruling})
        except UsageError as error:
            run.given.drop(key, str(error))
        else:
            checked.append(ruling)
    return run.take_given(checked)


async def check_can_run(state: ConversationState, run: Run, call: ToolCall, rulings: Rulings) -> None:
    """Raise UsageError for a call that cannot run: its tool is missing, or the approver's arguments are
    not valid. `rulings`: on it, and on those of its sub-agent.
    """
    host, caller = state.host, state.caller
    await host.check_rulings(call.id, rulings)
    ruling = rulings.get(())
    answer = None if ruling is None else ruling.answer
    will_run = isinstance(answer, Allow) or (answer is None and host.options.approve is not None)
    if not will_run or host.find_suspended(call.id):  # one that has started has its tool
        return
    interpreted = caller.interpret(call)
    if host.find_tool(interpreted, caller) is None:
        raise missing_tool_error(base_call(interpreted).name)
    if not isinstance(answer, Allow) or answer.arguments is None:
        return
    prepared = await host.prepare(interpreted, caller, run.distrust_reason, dry_run=True)
    if isinstance(prepared, PreparedCall):
        with suppress(ToolError):  # a rule forbids it: the model is told when it would run
            host.change_arguments(prepared, answer.arguments)
