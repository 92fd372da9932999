"""A thousand conversations at once, and many turns after each other: no errors, and nothing is left behind.

`TOOLGLOT_SOAK=10000` sets the turns of the soak; `soak.py` prints what is held as it goes on.
"""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from toolglot.engine.factory import create_engine
from toolglot.engine.http import HttpTransport
from toolglot.engine.simulated import SimulatedTransport
from toolglot.engine.transport import Transport
from toolglot.events import RunResult
from toolglot.loop.orchestrator import Orchestrator
from toolglot.messages import Conversation
from toolglot.simulator.server import SimulatorServer
from toolglot.tools.tool import Tool, tool

from .harness import MODELS, WIRE_PROFILES, list_unpaired, run_agent
from .soak import Sample

pytestmark = pytest.mark.untraced

CONVERSATIONS = 1000
TURNS = int(os.environ.get("TOOLGLOT_SOAK", "1500"))
PROMPT = 'call weather {{"city": "{0}"}} call weather {{"city": "not {0}"}}\nthen say It is sunny in {0}.'


def weather_of(ran: list[str]) -> Tool:
    @tool
    async def weather(city: str) -> str:
        """The weather of a city."""
        ran.append(city)
        await asyncio.sleep(0)
        return f"sunny in {city}"

    return weather


async def talk(agent: Orchestrator, number: int, conversation: Conversation | None) -> RunResult:
    prompt = PROMPT.format(number)
    if conversation is not None:
        return await agent.run(prompt, conversation=conversation)
    return await run_agent(agent, prompt, live=number % 2 == 0)


async def a_thousand(url: str, transport: Transport) -> tuple[list[RunResult | BaseException], list[Conversation], list[str]]:
    """As many conversations at once: half of them have an orchestrator of their own, the others share one for each wire."""
    ran: list[str] = []
    engines = {
        profile: create_engine(f"{profile}:{MODELS[profile]}", base_url=f"{url}/@{profile}", key="k", transport=transport)
        for profile in WIRE_PROFILES
    }
    shared = {profile: Orchestrator(engine, tools=[weather_of(ran)]) for profile, engine in engines.items()}
    talks: list[tuple[Orchestrator, Conversation | None]] = []
    for number in range(CONVERSATIONS):
        profile = WIRE_PROFILES[number % 5]
        if number % 4 < 2:
            talks.append((Orchestrator(engines[profile], tools=[weather_of(ran)]), None))
        else:
            talks.append((shared[profile], Conversation()))
    results = await asyncio.gather(
        *(talk(agent, number, conversation) for number, (agent, conversation) in enumerate(talks)), return_exceptions=True
    )
    return results, [agent.conversation if found is None else found for agent, found in talks], ran


def check(results: Sequence[RunResult | BaseException], conversations: Sequence[Conversation], ran: Sequence[str]) -> None:
    assert [one for one in results if not isinstance(one, RunResult)][:5] == []
    texts = [one.text for one in results if isinstance(one, RunResult)]
    assert texts == [f"It is sunny in {number}." for number in range(CONVERSATIONS)]
    assert sorted(ran) == sorted([*map(str, range(CONVERSATIONS)), *(f"not {number}" for number in range(CONVERSATIONS))])
    for number, conversation in enumerate(conversations):
        assert [message.role for message in conversation] == ["user", "assistant", "tool", "assistant"]
        assert [result.text for result in conversation[2].results] == [f"sunny in {number}", f"sunny in not {number}"]
        assert list_unpaired(conversation) == []


def test_a_thousand_conversations_in_this_process() -> None:
    async def play() -> None:
        check(*await a_thousand("http://simulator", SimulatedTransport()))
        assert len(asyncio.all_tasks()) == 1

    before = threading.active_count()
    asyncio.run(play())
    assert threading.active_count() == before


def test_a_thousand_conversations_over_loopback() -> None:
    async def play() -> None:
        transport = HttpTransport()
        async with SimulatorServer() as url:
            check(*await a_thousand(url, transport))
            await transport.close()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(play())


# ---- the soak


def samples_of(turns: int, *more: str) -> list[Sample]:
    """What `soak.py` counts, in a process of its own: nothing else in it holds memory, and nobody traces it."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    script = Path(__file__).with_name("soak.py")
    done = subprocess.run([sys.executable, script, str(turns), *more], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    _, *rows = [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]
    return [msgspec.convert(row, Sample, strict=False) for row in map(_named, rows)]


def _named(row: list[str]) -> dict[str, str]:
    return dict(zip(Sample.__struct_fields__, row, strict=True))


@pytest.mark.parametrize("http", [False, True], ids=["in-process", "loopback"])
def test_a_soak_leaves_nothing_behind(http: bool) -> None:
    samples = samples_of(TURNS, *(["--http"] if http else []))
    first, *others = [sample for sample in samples if sample.turns >= TURNS // 4]  # after everything was used once
    last = others[-1]
    assert last.turns > first.turns
    assert last.threads == 1
    # a server has a task for each connection, and objects come and go with them; what is kept for a turn would be far more
    assert last.objects - first.objects < (last.turns - first.turns) // 2
    assert last.kilobytes - first.kilobytes < 2048
    assert all(sample.descriptors <= first.descriptors + (4 if http else 0) for sample in others)
    assert all(sample.tasks <= first.tasks + (4 if http else 0) for sample in others)
