"""Which calls of a turn run while a person is asked about another one."""

import asyncio

import pytest

from toolglot.tools.executor import ToolExecutor
from toolglot.tools.hooks import Hooks
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import Tool
from toolglot.values.approvals import ApprovalRequest
from toolglot.values.events import ToolOutcome
from toolglot.values.messages import ToolCall

SOON = 5.0  # a guard against tests that hang; nothing waits for so long
CALLS = [ToolCall("1", "look", {}), ToolCall("2", "write", {})]


class Turn:
    """A call that needs nobody, and one that a person is asked about."""

    def __init__(self, *, has_preview: bool = False, hooks: tuple[Hooks, ...] = ()) -> None:
        self.log: list[str] = []
        self.has_looked = asyncio.Event()

        async def look() -> str:
            """Looks."""
            self.log.append("look begins")
            await asyncio.sleep(0)
            self.log.append("look ends")
            self.has_looked.set()
            return "seen"

        async def write() -> str:
            """Writes."""
            self.log.append("write")
            return "written"

        def preview(arguments: dict[str, object]) -> str:
            self.log.append("preview")
            return "what it would write"

        writing = Tool(write, approval=True, preview=preview) if has_preview else Tool(write, approval=True)
        self.executor = ToolExecutor(ToolRegistry([Tool(look), writing]), approve=self.approve, hooks=hooks)

    async def approve(self, request: ApprovalRequest) -> bool:
        """Wait until the other call has run, as a slow person would."""
        self.log.append("asked")
        await asyncio.wait_for(self.has_looked.wait(), SOON)
        self.log.append("answered")
        return True

    async def run(self) -> list[str]:
        outcomes = await asyncio.wait_for(self.executor.run_all(CALLS), SOON)
        return [outcome.result.text for outcome in outcomes]


async def test_a_call_that_needs_nobody_does_not_wait_for_the_person() -> None:
    turn = Turn()
    assert await turn.run() == ["seen", "written"]
    assert turn.log == ["asked", "look begins", "look ends", "answered", "write"]


async def test_a_preview_is_made_when_nothing_else_runs() -> None:
    turn = Turn(has_preview=True)
    assert await turn.run() == ["seen", "written"]
    # Once more before the call runs: it must still do what was shown.
    assert turn.log == ["look begins", "look ends", "preview", "asked", "answered", "preview", "write"]


async def test_a_cancellation_while_the_person_is_asked_ends_what_runs() -> None:
    turn = Turn()
    forever = asyncio.Event()

    async def wait() -> str:
        """Waits."""
        turn.log.append("wait begins")
        try:
            await forever.wait()
        finally:
            turn.log.append("wait ends")
        return ""

    turn.executor.registry.register(Tool(wait))
    calls = [ToolCall("0", "wait", {}), CALLS[1]]
    task = asyncio.create_task(turn.executor.run_all(calls))
    while "wait begins" not in turn.log:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert turn.log == ["asked", "wait begins", "wait ends"]


async def test_a_hook_that_fails_meanwhile_ends_the_turn() -> None:
    class Broken(Hooks):
        def after_tool(self, outcome: ToolOutcome) -> None:
            raise LookupError("the hook is broken")

    turn = Turn(hooks=(Broken(),))
    with pytest.raises(LookupError, match="the hook is broken"):
        await turn.run()
    assert "write" not in turn.log
