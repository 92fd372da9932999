"""The law of prompt caches: in a growing tool loop every body starts with the bytes of the one before, up to
its closed part.

Closed: everything but the brackets at the end. Tools that are offered anew and another model start a new
prefix."""

import asyncio
from itertools import pairwise

import pytest

from toolglot.loop.agent.agent import Agent
from toolglot.loop.limits import RunLimits
from toolglot.providers.catalog import PROFILES
from toolglot.simulator.core import Script
from toolglot.tools.tool import Tool, tool
from toolglot.values.messages import Reply, Text, Thinking, ToolCall

from .harness import WIRE_PROFILES, list_refusals, make_engine, make_transport, run_agent

pytestmark = pytest.mark.untraced

LOOPS = 12
SCRIPT = Script(
    [
        *(
            Reply(
                (
                    Thinking(f"Step {number}."),
                    Text(f"Step {number}."),
                    ToolCall("", "add", {"a": number, "b": 1}),
                    ToolCall(
                        "",
                        "picture" if number % 3 == 0 else "broken" if number % 3 == 1 else "no_such",
                        {"n": number},
                    ),
                ),
                "tools",
            )
            for number in range(LOOPS)
        ),
        Reply((Text("The first part is done."),)),
        *(Reply((ToolCall("", "add", {"a": number, "b": 2}),), "tools") for number in range(3)),
        Reply((Text("All is done."),)),
    ]
)


def tools() -> list[Tool]:
    @tool
    async def add(a: int, b: int) -> int:
        """Adds two numbers."""
        return a + b

    @tool
    async def picture(n: int) -> bytes:
        """A small picture."""
        return b"\x89PNG\r\n\x1a\n" + bytes([n])

    @tool
    async def broken(n: int) -> str:
        """Fails."""
        raise ValueError(f"number {n}")

    return [add, picture, broken]


@pytest.mark.parametrize("live", [False, True], ids=["whole", "live"])
@pytest.mark.parametrize("profile", PROFILES)
async def test_every_body_extends_the_previous_one(profile: str, live: bool) -> None:
    transport, limits = make_transport(SCRIPT), RunLimits(max_iterations=30)
    agent = Agent(make_engine(profile, transport), tools=tools(), system="Be exact.", limits=limits)
    assert (await run_agent(agent, "Begin.", live=live)).text == "The first part is done."
    assert (await run_agent(agent, "Go on.", live=live)).text == "All is done."
    assert len(transport.sent) == LOOPS + 1 + 4
    assert list_refusals(transport.sent) == []
    for number, (before, after) in enumerate(pairwise(sent.request.body for sent in transport.sent)):
        same = next(
            (at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]),
            len(before),
        )
        assert same >= len(before) - len("]}"), (
            number,
            before[same - 60 : same + 60],
            after[same - 60 : same + 60],
        )


@pytest.mark.parametrize("profile", WIRE_PROFILES)
async def test_a_failure_and_an_interruption_keep_the_prefix(profile: str) -> None:
    """What was sent stays a prefix after a run that was cancelled, and the answer to it is in what follows."""
    started, transport = asyncio.Event(), make_transport()

    @tool
    async def hang() -> str:
        """Never comes back."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    agent = Agent(make_engine(profile, transport), tools=[*tools(), hang])
    await agent.run('call add {"a": 1, "b": 2}')
    run = asyncio.create_task(agent.run('call hang {} call add {"a": 3, "b": 4}'))
    await started.wait()
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    await agent.run("say I am back.")
    sent = transport.sent
    for before, after in pairwise(request.request.body for request in sent):
        assert after.startswith(before[: -len("]}")])


@pytest.mark.parametrize("profile", WIRE_PROFILES)
async def test_switching_starts_a_new_prefix_and_back_resumes_it(profile: str) -> None:
    """After a visit to another model, the bytes of the first are still a prefix of what it gets."""
    other = WIRE_PROFILES[(WIRE_PROFILES.index(profile) + 1) % 5]
    transport = make_transport()
    engine = make_engine(profile, transport)
    agent = Agent(engine, tools=tools(), system="Be exact.")
    await agent.run('call add {"a": 1, "b": 2}')
    agent.switch(make_engine(other, transport))
    await agent.run('call add {"a": 3, "b": 4}')
    agent.switch(engine)
    await agent.run('call add {"a": 5, "b": 6}')
    sent = [request for request in transport.sent if request.profile.id == profile]
    assert len(sent) == 4
    for before, after in pairwise(request.request.body for request in sent):
        assert after.startswith(before[: -len("]}")])
