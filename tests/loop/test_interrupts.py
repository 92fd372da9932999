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
from toolglot.tools.config import ToolConfig
from toolglot.tools.tool import tool
from toolglot.values.approvals import ApprovalRequest
from toolglot.values.events import RunEvent, TextDelta, ThinkingDelta, ToolFinished, ToolStarted
from toolglot.values.messages import Reply

from .agents import (
    PROVIDERS,
    StuckTool,
    Wiretap,
    agent,
    cancelled,
    check,
    check_bodies,
    hook,
    kinds_of,
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
    "plain": ToolConfig(),
    "early": ToolConfig(eager_start=True),
    "narrow": ToolConfig(max_parallel=1),
    "timed": ToolConfig(run_timeout=30),
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


def busy_agent(provider: str, config: ToolConfig) -> Agent:
    config = replace(config, approval_effects=frozenset({"write"}))
    return agent(provider, Wiretap(), tools=[read, write], config=config, system=_system, approve=_approve, hooks=[SLOW])


PROMPT = """say let me see
call read {"n": 1} call write {"n": 2} call read {"n": 3}
then call write {"n": 4}
then say done"""


async def cancelled_after(talker: Agent, steps: int, *, live: bool) -> bool:
    """A run that is cancelled after so many turns of the event loop; False where it was over before."""
    task = asyncio.create_task(outcome(talker, PROMPT, streamed=live))
    for _ in range(steps):
        await asyncio.sleep(0)
    if not task.cancel():
        await task
        return False
    with pytest.raises(asyncio.CancelledError):
        await task
    return True


CASES = [("plain", provider) for provider in PROVIDERS] + [(shape, "openai-chat") for shape in ("early", "narrow", "timed")]


@LIVE
@pytest.mark.parametrize(("shape", "provider"), CASES)
def test_a_run_may_be_cancelled_at_any_step(provider: str, live: bool, shape: str) -> None:
    async def all_points() -> int:
        steps = 0
        while True:
            talker = busy_agent(provider, SHAPES[shape])
            stopped = await cancelled_after(talker, steps, live=live)
            check(talker.conversation, everywhere=steps % 10 == 0)
            result = await talker.run("say on we go")
            assert result.text == "on we go"
            assert not talker.has_pending_run
            check(talker.conversation, everywhere=False)
            if not stopped:
                return steps
            steps += 1

    assert run(all_points()) > 20


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_what_was_sent_after_a_cancel_is_legal(provider: str) -> None:
    for steps in range(0, 60, 3):
        tap = Wiretap()
        talker = agent(provider, tap, tools=[read, write], system="Be brief.")
        await cancelled_after(talker, steps, live=True)
        await talker.run("say on we go")
        check_bodies(talker.view().engine, tap)
        assert tap.open == 0


@LIVE
async def test_an_interrupt_tells_what_ran_from_what_did_not(live: bool) -> None:
    """One call is over, one runs, one has not begun."""
    slow = StuckTool()
    talker = agent("anthropic", tools=[noting([], "quick"), slow.tool], config=ToolConfig(max_parallel=1))
    task = asyncio.create_task(outcome(talker, "call quick {} call slow {} call quick {}", streamed=live))
    await slow.inside.wait()
    await cancelled(task)
    assert kinds_of(talker.conversation) == [None, "interrupted", "cancelled"]
    texts = [result.text for result in results_of(talker.conversation)]
    assert "may have had effects" in texts[1]
    assert "not started" in texts[2]
    check(talker.conversation)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_what_was_said_before_an_interrupt_is_kept(provider: str) -> None:
    words = " ".join(f"word{number}" for number in range(60))
    talker = agent(provider, Wiretap(f"say {words}", faults=["stall"]))
    shown: list[str] = []
    stalled = asyncio.Event()

    async def read_on() -> None:
        async for event in talker.stream("go"):
            if isinstance(event, TextDelta):
                shown.append(event.text)
                stalled.set()
            elif isinstance(event, ThinkingDelta):
                stalled.set()

    task = asyncio.create_task(read_on())
    await stalled.wait()
    for _ in range(200):
        await asyncio.sleep(0)
    await cancelled(task)
    await talker.run("say on we go")
    assert "".join(shown).strip() in texts_of(talker.conversation)
    assert "interrupted" in texts_of(talker.conversation)
    check(talker.conversation)


@LIVE
async def test_an_interrupt_while_a_hook_reads_the_reply_is_reported(live: bool) -> None:
    """The reply was shown; the conversation must not look as if nobody had answered."""
    inside = asyncio.Event()

    async def stuck(reply: Reply) -> None:
        inside.set()
        await asyncio.Event().wait()

    talker = agent("anthropic", hooks=[hook(after_reply=stuck)])
    task = asyncio.create_task(outcome(talker, "say important words", streamed=live))
    await inside.wait()
    await cancelled(task)
    check(talker.conversation)
    assert "important words" in texts_of(talker.conversation[1:])


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
    tap = Wiretap()
    talker = agent(provider, tap, tools=[read, write])
    async with aclosing(talker.stream(PROMPT)) as events:
        await until(events, kind)
    check(talker.conversation)
    assert tap.open == 0
    assert (await talker.run("say on we go")).text == "on we go"
    check(talker.conversation)


@pytest.mark.parametrize("kind", [TextDelta, ToolStarted, ToolFinished], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_reader_that_breaks_out_of_the_stream_may_continue(provider: str, kind: type[Any]) -> None:
    """`break` is what people write: the next prompt must work."""
    tap = Wiretap()
    talker = agent(provider, tap, tools=[read, write])
    async for event in talker.stream(PROMPT):
        if isinstance(event, kind):
            break
    assert (await talker.run("say on we go")).text == "on we go"
    assert tap.open == 0
    check(talker.conversation)


async def test_no_tool_is_running_when_a_stream_is_closed() -> None:
    slow = StuckTool()
    talker = agent("anthropic", tools=[slow.tool])
    async with aclosing(talker.stream("call slow {}")) as events:
        await until(events, ToolStarted)
        await asyncio.sleep(0)
    assert slow.ended == 1
    assert kinds_of(talker.conversation) == ["interrupted"]
    check(talker.conversation)


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

    talker = agent("anthropic", tools=[stubborn, read])
    async with aclosing(talker.stream('call stubborn {} call read {"n": 1}')) as events:
        await until(events, ToolStarted)
        await asyncio.sleep(0)
    assert (await talker.run("say on")).text == "on"
    check(talker.conversation)


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

    talker = agent("anthropic", tools=[stubborn])
    task = asyncio.create_task(outcome(talker, "call stubborn {}", streamed=live))
    await inside.wait()
    task.cancel()
    await caught.wait()
    await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=5)
    assert done
    text = (await talker.run("say free")).text
    gate.set()
    assert text == "free"
    check(talker.conversation)


async def test_a_thread_that_continues_is_left_alone() -> None:
    """A sync tool cannot be stopped: the run ends at once, and its late result goes nowhere."""
    inside, gate = threading.Event(), threading.Event()

    @tool
    def slow() -> str:
        """Is slow."""
        inside.set()
        gate.wait(10)
        return "late"

    talker = agent("anthropic", tools=[slow])
    task = asyncio.create_task(talker.run("call slow {}"))
    while not inside.is_set():
        await asyncio.sleep(0)
    await cancelled(task)
    gate.set()
    await talker.run("say on")
    assert kinds_of(talker.conversation) == ["interrupted"]
    check(talker.conversation)


async def test_a_stream_that_was_never_started_costs_nothing() -> None:
    talker = agent("anthropic")
    await talker.stream("say never").aclose()
    assert (await talker.run("say on")).text == "on"
    assert len(talker.conversation) == 2


@pytest.mark.parametrize("kind", [TextDelta, ToolFinished], ids=lambda kind: kind.__name__)
def test_a_stream_whose_loop_is_closed_is_over(kind: type[Any]) -> None:
    """As where a program threw its loop away: nobody is left who could end the run, and the next one begins."""
    talker = agent("anthropic", tools=[read, write])
    events = talker.stream(PROMPT)
    gone = asyncio.new_event_loop()
    gone.run_until_complete(until(events, kind))
    gone.close()

    async def in_use() -> None:
        with pytest.raises(UsageError, match="a run is in progress"):
            await talker.run("say too early")

    run(in_use())
    del events
    gc.collect()

    async def again() -> str:
        async with asyncio.timeout(5):
            return (await talker.run("say on we go")).text

    assert run(again()) == "on we go"
    assert talker.run_sync("say and on").text == "and on"


async def test_a_group_of_runs_that_fails_stops_the_others_cleanly() -> None:
    """Structured concurrency: one run of a TaskGroup fails, all others are cancelled, all agents go on."""
    talkers = [agent(provider, tools=[read, write]) for provider in PROVIDERS]

    async def together() -> None:
        async with asyncio.TaskGroup() as group:
            for talker in talkers:
                group.create_task(outcome(talker, PROMPT, streamed=True))
            group.create_task(agent("anthropic").resume({}))

    with pytest.raises(ExceptionGroup):
        await together()
    for talker in talkers:
        check(talker.conversation)
        assert (await talker.run("say on")).text == "on"


async def test_a_caller_with_a_time_limit() -> None:
    talker = agent("anthropic", Wiretap(faults=["stall-first"]))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await talker.run("go")
    check(talker.conversation)
    assert (await talker.run("say on")).text == "on"
    assert "interrupted" in texts_of(talker.conversation)


async def test_resume_after_an_interrupt_has_nothing_to_resume() -> None:
    talker = agent("anthropic", tools=[write])
    await cancelled_after(talker, 5, live=False)
    with pytest.raises(UsageError):
        await talker.resume({})


@LIVE
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
def test_a_tool_that_wants_to_end_the_program(live: bool, error: BaseException) -> None:
    """sys.exit in a tool ends a call, not the program; under asyncio.run, where Ctrl-C cancels, KeyboardInterrupt does too."""

    @tool
    async def leave() -> str:
        """Leaves."""
        raise error

    talker = agent("anthropic", tools=[leave, read])
    try:
        asyncio.run(outcome(talker, 'call leave {} call read {"n": 1}', streamed=live))
    except BaseException as e:
        pytest.fail(f"{type(e).__name__} of a tool reached the caller")
    check(talker.conversation)
    assert kinds_of(talker.conversation) == ["execution", None]
