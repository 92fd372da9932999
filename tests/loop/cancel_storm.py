"""Stop a run in every way at every moment: nothing starts twice, each call has one result, the next request
is legal.

A moment is a turn of the event loop for a run that is cancelled, and an event for a stream that is left.
"""

import asyncio
import gc
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Any

import msgspec
from tests.loop.agents import (
    PROVIDERS,
    Wiretap,
    check,
    check_bodies,
    find_unpaired,
    hook,
    make_agent,
    outcome,
)

from toolglot.loop.agent.agent import Agent
from toolglot.tools.config import ToolConfig
from toolglot.tools.tool import Tool
from toolglot.values.approvals import ApprovalRequest

PROMPT = """think Which of them first?
say let me see
call read {"n": 1} call write {"n": 2} call read {"n": 3} call read {"n": 4}
then call write {"n": 5} call read {"n": 6}
then say done"""
WAYS = {
    "cancel": False,
    "cancel streamed": True,
    "cancel twice": False,
    "cancel twice streamed": True,
    "break": True,
    "aclose": True,
}
MAX_MOMENTS = 400


class Case(msgspec.Struct, frozen=True):
    """One run, and how and when it is stopped."""

    provider: str
    way: str
    is_eager: bool
    moment: int


class Stopped:
    """An agent whose run is stopped; counts which calls have started."""

    def __init__(self, case: Case) -> None:
        self.case, self.started, self.wiretap = case, Counter[str](), Wiretap()
        config = ToolConfig(eager_start=case.is_eager, ask={"write"})
        tools = [Tool(self._make("read"), effects="read"), Tool(self._make("write"), effects="write")]
        hooks = [hook(before_request=_wait, after_reply=_wait, before_tool=_wait, after_tool=_wait)]
        self.agent: Agent = make_agent(
            case.provider, self.wiretap, tools=tools, config=config, approve=_approve, hooks=hooks
        )

    def _make(self, name: str) -> Any:
        async def use(n: int) -> str:
            self.started[f"{name} {n}"] += 1
            for _ in range(3):
                await asyncio.sleep(0)
            return f"{name} {n}"

        use.__name__, use.__doc__ = name, "Uses a number."
        return use

    async def stop(self) -> bool:
        """Start the run and stop it; return False if it was over before."""
        way, moment = self.case.way, self.case.moment
        if way in ("break", "aclose"):
            return await self._leave(moment, closes=way == "aclose")
        task = asyncio.create_task(outcome(self.agent, PROMPT, streamed=WAYS[way]))
        for _ in range(moment):
            await asyncio.sleep(0)
        was_running = task.cancel()
        if way.startswith("cancel twice"):
            for _ in range(moment % 4):
                await asyncio.sleep(0)
            task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return was_running

    async def _leave(self, moment: int, *, closes: bool) -> bool:
        events = self.agent.stream(PROMPT)
        count = 0
        async for _ in events:
            if count == moment:
                break
            count += 1
        else:
            return False
        if closes:
            await events.aclose()
            assert find_unpaired(self.agent.conversation) == [], (
                "the calls of a closed stream have no results"
            )
        return True


async def _wait(value: Any) -> None:
    await asyncio.sleep(0)


async def _approve(request: ApprovalRequest) -> bool:
    await asyncio.sleep(0)
    return True


async def stop_once(case: Case) -> tuple[bool, str]:
    """Stop a run and go on; return whether it was stopped before its end, and what is wrong ("": nothing)."""
    stopped = Stopped(case)
    try:
        was_running = await stopped.stop()
        result = await stopped.agent.run("say on we go")
        assert result.text == "on we go", result.text
        assert not stopped.agent.has_pending_run, "a run is pending"
        twice = [call for call, count in stopped.started.items() if count > 1]
        assert not twice, f"started twice: {twice}"
        check(stopped.agent.conversation, everywhere=case.moment % 10 == 0)
        check_bodies(stopped.agent.view().engine, stopped.wiretap)
        assert not stopped.wiretap.open, f"{stopped.wiretap.open} replies are open"
    except Exception as e:
        return True, f"{case}: {type(e).__name__}: {e}"
    return was_running, ""


def list_cases(stride: int = 1) -> Iterator[Case]:
    """Return the first case of each series; `stop_everywhere` continues it at every `stride`-th moment."""
    for provider in PROVIDERS:
        for way in WAYS:
            for is_eager in (False, True):
                yield Case(provider, way, is_eager, hash_offset(provider, way) % stride)


def hash_offset(*words: str) -> int:
    """Return another start for each series, so that a large stride still meets all moments of some series."""
    return sum(map(ord, "".join(words)))


async def stop_everywhere(first: Case, stride: int = 1) -> tuple[int, list[str]]:
    """Stop runs at every `stride`-th moment; return how many there were, and what is wrong."""
    problems: list[str] = []
    case, count = first, 0
    while case.moment < MAX_MOMENTS:
        was_running, problem = await stop_once(case)
        problems += [problem] if problem else []
        if not was_running:
            break
        count += 1
        case = msgspec.structs.replace(case, moment=case.moment + stride)
    return count, problems


def storm(stride: int = 1) -> tuple[int, list[str]]:
    """Stop runs of every kind; return how many, and what is wrong, also with event loops and tasks."""
    total, problems = 0, list[str]()
    for case in list_cases(stride):
        (count, failures), complaints = run_watched(stop_everywhere(case, stride))
        total += count
        problems += [*failures, *(f"{case}: {complaint}" for complaint in complaints)]
    return total, problems


def run_watched(work: Coroutine[Any, Any, Any]) -> tuple[Any, list[str]]:
    """Run it in a loop of its own; return also what the loop complained of, and the tasks that were left
    over.
    """
    complaints: list[str] = []

    async def watch() -> Any:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(
            lambda _, context: complaints.append(f"{context['message']}: {context.get('exception')!r}")
        )
        result = await work
        gc.collect(1)
        for _ in range(20):
            await asyncio.sleep(0)
        mine = asyncio.current_task()
        complaints.extend(f"left over: {task!r}" for task in asyncio.all_tasks() if task is not mine)
        return result

    return asyncio.run(watch()), complaints
