"""A reader leaves a stream, or a caller cancels a run, at any point.

Laws: when the exit returns, no tool of the run is running and nothing is read any more; the conversation is
valid and records what was interrupted; the next run works at once; no call ran twice.
"""

import asyncio
import gc
from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import Any

import pytest
from tests.loop.agents import Wiretap, check

from toolglot.loop.agent.agent import Agent
from toolglot.tools.config import ToolConfig
from toolglot.tools.tool import tool
from toolglot.values.events import (
    BlockReady,
    ReplyDone,
    ReplyStarted,
    Retrying,
    RunDone,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
    ToolFinished,
    ToolStarted,
)
from toolglot.values.messages import user
from toolglot.values.request import Request

from .harness import QUICK, WIRE_PROFILES, list_unpaired, make_engine, run_agent

pytestmark = pytest.mark.untraced

PROMPT = 'say I look.\ncall quick {"n": 1} call hang {"n": 2} call quick {"n": 3}'
MOMENTS: tuple[type[Any], ...] = (
    *(
        Retrying,
        ReplyStarted,
        TextDelta,
        BlockReady,
        ToolCallStarted,
        ToolCallReady,
        ReplyDone,
        ToolStarted,
        ToolFinished,
    ),
)
EXITS = ("closes", "breaks", "cancels")


class Scene:
    def __init__(self, profile: str, faults: Sequence[str] = ("overloaded",), **config: Any) -> None:
        self.transport = Wiretap(faults=faults)
        self.running, self.ran = 0, list[int]()

        @tool(effects="read")
        async def quick(n: int) -> int:
            """Comes back at once."""
            self.ran.append(n)
            return n

        @tool(effects="read")
        async def hang(n: int) -> int:
            """Never comes back."""
            self.ran.append(n)
            self.running += 1
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)  # cleaning up takes a moment
                self.running -= 1
            return n

        engine = make_engine(profile, self.transport, retry=QUICK)
        self.agent = Agent(engine, tools=[quick, hang], config=ToolConfig(retry=QUICK, **config))

    async def leave(self, moment: type[Any], exit: str) -> None:
        match exit:
            case "closes":
                stream: Any = self.agent.stream(PROMPT)
                async with aclosing(stream):
                    async for event in stream:
                        if isinstance(event, moment):
                            break
            case "breaks":
                async for event in self.agent.stream(PROMPT):
                    if isinstance(event, moment):
                        break
            case _:
                reached = asyncio.Event()
                task = asyncio.create_task(self.read(moment, reached))
                await reached.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

    async def read(self, moment: type[Any], reached: asyncio.Event) -> None:
        async for event in self.agent.stream(PROMPT):
            if isinstance(event, moment):
                reached.set()

    async def check_finished(self) -> None:
        """The next run works at once, and nothing is left over."""
        assert (await self.agent.run("say I am back.")).text == "I am back."
        assert self.running == 0
        assert self.transport.open == 0
        check(self.agent.conversation)
        assert len({*self.ran}) == len(self.ran)
        assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("exit", EXITS)
@pytest.mark.parametrize("profile", WIRE_PROFILES)
async def test_leaving_a_stream(profile: str, exit: str, moment: type[Any]) -> None:
    scene = Scene(profile)
    await scene.leave(moment, exit)
    if exit != "breaks":  # after a plain break, the event loop closes the stream later
        assert (scene.running, scene.transport.open) == (0, 0)
    await scene.check_finished()


@pytest.mark.parametrize("moment", MOMENTS[4:7], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("exit", EXITS)
async def test_leaving_with_eager_tools(exit: str, moment: type[Any]) -> None:
    scene = Scene("anthropic", eager_start=True)
    await scene.leave(moment, exit)
    await scene.check_finished()


@pytest.mark.parametrize("eager", [False, True], ids=["later", "eager"])
async def test_finished_and_interrupted_calls_are_recorded(eager: bool) -> None:
    """When the run is cancelled, two of three calls are done and one hangs."""
    scene = Scene("anthropic", eager_start=eager)
    run = asyncio.create_task(scene.read(RunDone, asyncio.Event()))
    async with asyncio.timeout(5):
        while len(scene.ran) < 3 or len(scene.agent.conversation) < 2:
            await asyncio.sleep(0)
    for _ in range(20):  # both results are in
        await asyncio.sleep(0)
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    assert [result.error_kind for result in scene.agent.conversation[-1].results] == [
        None,
        "interrupted",
        None,
    ]


@pytest.mark.parametrize("eager", [False, True], ids=["later", "eager"])
async def test_every_call_that_ran_has_a_start_event(eager: bool) -> None:
    agent = Scene("anthropic", eager_start=eager).agent
    events = [event async for event in agent.stream('call quick {"n": 1} call quick {"n": 2}')]
    assert sorted(
        [type(event).__name__ for event in events if isinstance(event, ToolStarted | ToolFinished)]
    ) == [
        "ToolFinished",
        "ToolFinished",
        "ToolStarted",
        "ToolStarted",
    ]


@pytest.mark.parametrize("profile", WIRE_PROFILES)
async def test_leaving_an_engine_stream_closes_it(profile: str) -> None:
    transport = Wiretap()
    stream: Any = make_engine(profile, transport).stream(
        Request("", [user("say one two three")], stream=True)
    )
    async with aclosing(stream):
        async for event in stream:
            if isinstance(event, TextDelta):
                break
    assert transport.open == 0


async def test_interruptions_are_in_the_conversation() -> None:
    scene = Scene("anthropic")
    await scene.leave(ToolFinished, "closes")
    assert [result.error_kind for result in scene.agent.conversation[-1].results] == [
        None,
        "interrupted",
        None,
    ]


@pytest.mark.parametrize("eager", [False, True], ids=["later", "eager"])
@pytest.mark.parametrize("live", [False, True], ids=["whole", "live"])
@pytest.mark.parametrize("profile", WIRE_PROFILES)
async def test_cancelling_at_any_step(profile: str, live: bool, eager: bool) -> None:
    """After 1, 2, … steps of the event loop, until the run is done.

    A coroutine that is never awaited is an error here.
    """
    prompt = 'say I look.\ncall quick {"n": 1} call quick {"n": 2}\nthen say Done.'

    async def cancel_after(steps: int) -> bool:
        scene = Scene(profile, (), eager_start=eager)
        run = asyncio.create_task(run_agent(scene.agent, prompt, live=live))
        for _ in range(steps):
            await asyncio.sleep(0)
        done = run.done()
        run.cancel()
        with suppress(asyncio.CancelledError):
            await run
        assert (scene.transport.open, len(asyncio.all_tasks())) == (0, 1), steps
        assert list_unpaired(scene.agent.conversation) == [], steps
        assert (await scene.agent.run("say I am back.")).text == "I am back.", steps
        assert len({*scene.ran}) == len(scene.ran)
        return done

    steps = 1
    while not await cancel_after(steps):
        steps += 1
    assert steps > 5
    gc.collect()
