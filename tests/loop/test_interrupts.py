"""A run may be stopped anywhere: the conversation is valid, says what was interrupted, and goes on."""

import asyncio
import gc
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from msgspec.structs import replace

from toolglot.errors import UsageError
from toolglot.loop.agent.agent import Agent
from toolglot.loop.limits import RunLimits
from toolglot.tools.config import ToolConfig
from toolglot.tools.tool import tool
from toolglot.values.approvals import ApprovalRequest
from toolglot.values.events import RunEvent, TextDelta, ThinkingDelta, ToolFinished, ToolStarted
from toolglot.values.messages import Reply

from .agents import (
    PROVIDERS,
    StuckTool,
    Wiretap,
    cancel_and_wait,
    check,
    check_bodies,
    hook,
    kinds_of,
    make_agent,
    noting,
    outcome,
    results_of,
    run,
    texts_of,
)

pytestmark = pytest.mark.untraced

Events = AsyncGenerator[RunEvent, None]
LIVE = pytest.mark.parametrize("live", [False, True], ids=["whole", "streamed"])
SHAPES = {
    "plain": (ToolConfig(), RunLimits()),
    "early": (ToolConfig(eager_start=True), RunLimits()),
    "narrow": (ToolConfig(max_parallel=1), RunLimits()),
    "timed": (ToolConfig(), RunLimits(run_timeout=30)),
}


@tool(effects="read")
async def read(n: int) -> str:
    """Reads a number."""
    for _ in range(3):
        await asyncio.sleep(0)
    return f"read {n}"


@tool(effects="write")
async def write(n: int) -> str:
    """Writes a number."""
    for _ in range(3):
        await asyncio.sleep(0)
    return f"wrote {n}"


async def _wait(value: Any) -> None:
    await asyncio.sleep(0)


SLOW = hook(before_request=_wait, after_reply=_wait, before_tool=_wait, after_tool=_wait)


async def _system(context: Any) -> str:
    await asyncio.sleep(0)
    return "Be brief."


async def _approve(approval: ApprovalRequest) -> bool:
    await asyncio.sleep(0)
    return True


def busy_agent(provider: str, shape: str) -> Agent:
    config, limits = SHAPES[shape]
    config = replace(config, ask=frozenset({"write"}))
    parts: dict[str, Any] = {"tools": [read, write], "system": _system, "approve": _approve, "hooks": [SLOW]}
    return make_agent(provider, Wiretap(), config=config, limits=limits, **parts)


PROMPT = """say let me see
call read {"n": 1} call write {"n": 2} call read {"n": 3}
then call write {"n": 4}
then say done"""


async def cancel_after(agent: Agent, steps: int, *, live: bool) -> bool:
    """A run that is cancelled after so many turns of the event loop; False where it was over before."""
    task = asyncio.create_task(outcome(agent, PROMPT, streamed=live))
    for _ in range(steps):
        await asyncio.sleep(0)
    if not task.cancel():
        await task
        return False
    with pytest.raises(asyncio.CancelledError):
        await task
    return True


CASES = [("plain", provider) for provider in PROVIDERS] + [
    (shape, "openai-chat") for shape in ("early", "narrow", "timed")
]


@LIVE
@pytest.mark.parametrize(("shape", "provider"), CASES)
def test_a_run_may_be_cancelled_at_any_step(provider: str, live: bool, shape: str) -> None:
    async def all_points() -> int:
        steps = 0
        while True:
            agent = busy_agent(provider, shape)
            stopped = await cancel_after(agent, steps, live=live)
            check(agent.conversation, everywhere=steps % 10 == 0)
            result = await agent.run("say on we go")
            assert result.text == "on we go"
            assert not agent.has_pending_run
            check(agent.conversation, everywhere=False)
            if not stopped:
                return steps
            steps += 1

    assert run(all_points()) > 20


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_what_was_sent_after_a_cancel_is_legal(provider: str) -> None:
    for steps in range(0, 60, 3):
        wiretap = Wiretap()
        agent = make_agent(provider, wiretap, tools=[read, write], system="Be brief.")
        await cancel_after(agent, steps, live=True)
        await agent.run("say on we go")
        check_bodies(agent.view().engine, wiretap)
        assert wiretap.open == 0


@LIVE
async def test_an_interrupt_tells_what_ran_from_what_did_not(live: bool) -> None:
    """One call is over, one runs, one has not begun."""
    slow = StuckTool()
    agent = make_agent("anthropic", tools=[noting([], "quick"), slow.tool], config=ToolConfig(max_parallel=1))
    task = asyncio.create_task(outcome(agent, "call quick {} call slow {} call quick {}", streamed=live))
    await slow.inside.wait()
    await cancel_and_wait(task)
    assert kinds_of(agent.conversation) == [None, "interrupted", "cancelled"]
    texts = [result.text for result in results_of(agent.conversation)]
    assert "may have had effects" in texts[1]
    assert "not started" in texts[2]
    check(agent.conversation)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_what_was_said_before_an_interrupt_is_kept(provider: str) -> None:
    words = " ".join(f"word{number}" for number in range(60))
    agent = make_agent(provider, Wiretap(f"say {words}", faults=["stall"]))
    shown: list[str] = []
    stalled = asyncio.Event()

    async def read_on() -> None:
        async for event in agent.stream("go"):
            if isinstance(event, TextDelta):
                shown.append(event.text)
                stalled.set()
            elif isinstance(event, ThinkingDelta):
                stalled.set()

    task = asyncio.create_task(read_on())
    await stalled.wait()
    for _ in range(200):
        await asyncio.sleep(0)
    await cancel_and_wait(task)
    await agent.run("say on we go")
    assert "".join(shown).strip() in texts_of(agent.conversation)
    assert "interrupted" in texts_of(agent.conversation)
    check(agent.conversation)


@LIVE
async def test_an_interrupt_while_a_hook_reads_the_reply_is_reported(live: bool) -> None:
    """The reply was shown; the conversation must not look as if nobody had answered."""
    inside = asyncio.Event()

    async def stuck(reply: Reply) -> None:
        inside.set()
        await asyncio.Event().wait()

    agent = make_agent("anthropic", hooks=[hook(after_reply=stuck)])
    task = asyncio.create_task(outcome(agent, "say important words", streamed=live))
    await inside.wait()
    await cancel_and_wait(task)
    check(agent.conversation)
    assert "important words" in texts_of(agent.conversation[1:])


# ---- leaving a stream


async def until(events: AsyncIterator[RunEvent], kind: type[Any]) -> None:
    """Reads a stream and leaves it at an event."""
    async for event in events:
        if isinstance(event, kind):
            return
    raise AssertionError(f"no {kind.__name__} came")


@pytest.mark.parametrize("kind", [TextDelta, ToolStarted, ToolFinished], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_reader_that_closes_the_stream_may_continue_at_once(provider: str, kind: type[Any]) -> None:
    wiretap = Wiretap()
    agent = make_agent(provider, wiretap, tools=[read, write])
    async with aclosing(agent.stream(PROMPT)) as events:
        await until(events, kind)
    check(agent.conversation)
    assert wiretap.open == 0
    assert (await agent.run("say on we go")).text == "on we go"
    check(agent.conversation)


@pytest.mark.parametrize("kind", [TextDelta, ToolStarted, ToolFinished], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_reader_that_breaks_out_of_the_stream_may_continue(provider: str, kind: type[Any]) -> None:
    """`break` is what people write: the next prompt must work."""
    wiretap = Wiretap()
    agent = make_agent(provider, wiretap, tools=[read, write])
    async for event in agent.stream(PROMPT):
        if isinstance(event, kind):
            break
    assert (await agent.run("say on we go")).text == "on we go"
    assert wiretap.open == 0
    check(agent.conversation)


async def test_no_tool_is_running_when_a_stream_is_closed() -> None:
    slow = StuckTool()
    agent = make_agent("anthropic", tools=[slow.tool])
    async with aclosing(agent.stream("call slow {}")) as events:
        await until(events, ToolStarted)
        await asyncio.sleep(0)
    assert slow.ended == 1
    assert kinds_of(agent.conversation) == ["interrupted"]
    check(agent.conversation)


async def test_a_tool_that_finishes_while_the_stream_is_closed_is_quiet() -> None:
    """It swallows the cancellation and answers: nobody waits for it, and nothing complains."""

    @tool
    async def stubborn() -> str:
        """Does not stop."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "I did it anyway"
        return "never"

    agent = make_agent("anthropic", tools=[stubborn, read])
    async with aclosing(agent.stream('call stubborn {} call read {"n": 1}')) as events:
        await until(events, ToolStarted)
        await asyncio.sleep(0)
    assert (await agent.run("say on")).text == "on"
    check(agent.conversation)


@LIVE
async def test_a_stubborn_tool_does_not_hold_a_cancelled_run(live: bool) -> None:
    """It swallows the cancellation and goes on: the run ends all the same, at the latest when asked twice."""
    inside = asyncio.Event()
    caught, gate = asyncio.Event(), asyncio.Event()

    @tool
    async def stubborn() -> str:
        """Does not stop."""
        inside.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            caught.set()
        await gate.wait()
        return "never"

    agent = make_agent("anthropic", tools=[stubborn])
    task = asyncio.create_task(outcome(agent, "call stubborn {}", streamed=live))
    await inside.wait()
    task.cancel()
    await caught.wait()
    await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=5)
    assert done
    text = (await agent.run("say free")).text
    gate.set()
    assert text == "free"
    check(agent.conversation)


async def test_a_thread_that_continues_is_left_alone() -> None:
    """A sync tool cannot be stopped: the run ends at once, and its late result goes nowhere."""
    inside, gate = threading.Event(), threading.Event()

    @tool
    def slow() -> str:
        """Is slow."""
        inside.set()
        gate.wait(10)
        return "late"

    agent = make_agent("anthropic", tools=[slow])
    task = asyncio.create_task(agent.run("call slow {}"))
    while not inside.is_set():
        await asyncio.sleep(0)
    await cancel_and_wait(task)
    gate.set()
    await agent.run("say on")
    assert kinds_of(agent.conversation) == ["interrupted"]
    check(agent.conversation)


async def test_a_stream_that_was_never_started_costs_nothing() -> None:
    agent = make_agent("anthropic")
    await agent.stream("say never").aclose()
    assert (await agent.run("say on")).text == "on"
    assert len(agent.conversation) == 2


@pytest.mark.parametrize("kind", [TextDelta, ToolFinished], ids=lambda kind: kind.__name__)
def test_a_stream_whose_loop_is_closed_is_over(kind: type[Any]) -> None:
    """As where a program threw its loop away: nobody is left who could end the run, and the next one begins."""
    agent = make_agent("anthropic", tools=[read, write])
    events = agent.stream(PROMPT)
    gone = asyncio.new_event_loop()
    gone.run_until_complete(until(events, kind))
    gone.close()

    async def in_use() -> None:
        with pytest.raises(UsageError, match="a run is in progress"):
            await agent.run("say too early")

    run(in_use())
    del events
    gc.collect()

    async def again() -> str:
        async with asyncio.timeout(5):
            return (await agent.run("say on we go")).text

    assert run(again()) == "on we go"
    assert agent.run_sync("say and on").text == "and on"


async def test_a_group_of_runs_that_fails_stops_the_others_cleanly() -> None:
    """Structured concurrency: one run of a TaskGroup fails, all others are cancelled, all agents go on."""
    agents = [make_agent(provider, tools=[read, write]) for provider in PROVIDERS]

    async def together() -> None:
        async with asyncio.TaskGroup() as group:
            for agent in agents:
                group.create_task(outcome(agent, PROMPT, streamed=True))
            group.create_task(make_agent("anthropic").resume({}))

    with pytest.raises(ExceptionGroup):
        await together()
    for agent in agents:
        check(agent.conversation)
        assert (await agent.run("say on")).text == "on"


async def test_a_caller_with_a_time_limit() -> None:
    agent = make_agent("anthropic", Wiretap(faults=["stall-first"]))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await agent.run("go")
    check(agent.conversation)
    assert (await agent.run("say on")).text == "on"
    assert "interrupted" in texts_of(agent.conversation)


async def test_resume_after_an_interrupt_has_nothing_to_resume() -> None:
    agent = make_agent("anthropic", tools=[write])
    await cancel_after(agent, 5, live=False)
    with pytest.raises(UsageError):
        await agent.resume({})


@LIVE
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
def test_a_tool_that_wants_to_end_the_program(live: bool, error: BaseException) -> None:
    """sys.exit in a tool ends a call, not the program; under asyncio.run, where Ctrl-C cancels,
    KeyboardInterrupt does too.
    """

    @tool
    async def leave() -> str:
        """Leaves."""
        raise error

    agent = make_agent("anthropic", tools=[leave, read])
    try:
        asyncio.run(outcome(agent, 'call leave {} call read {"n": 1}', streamed=live))
    except BaseException as e:
        pytest.fail(f"{type(e).__name__} of a tool reached the caller")
    check(agent.conversation)
    assert kinds_of(agent.conversation) == ["execution", None]
