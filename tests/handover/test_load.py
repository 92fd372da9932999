"""Many conversations at once, and many turns in a row: no errors, and nothing is left behind.

The large numbers run with `make test-all`. `TOOLGLOT_SOAK=10000` sets the turns of the soak; `soak.py` prints what is held.
"""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable
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
from toolglot.tools.tool import tool

from .harness import MODELS, WIRE_PROFILES, list_unpaired, run_agent
from .soak import Sample, start_soak

pytestmark = pytest.mark.untraced

SIZES = [50, pytest.param(1000, marks=pytest.mark.slow)]
TURNS = int(os.environ.get("TOOLGLOT_SOAK", "1500"))
PROMPT = 'call weather {{"city": "{0}"}} call weather {{"city": "not {0}"}}\nthen say It is sunny in {0}.'


async def run_crowd(count: int, url: str, transport: Transport) -> None:
    """Run conversations at once: half of them have an orchestrator of their own, the others share one per wire."""
    ran: list[str] = []

    @tool
    async def weather(city: str) -> str:
        """The weather of a city."""
        ran.append(city)
        await asyncio.sleep(0)
        return f"sunny in {city}"

    engines = {
        profile: create_engine(f"{profile}:{MODELS[profile]}", base_url=f"{url}/@{profile}", key="k", transport=transport)
        for profile in WIRE_PROFILES
    }
    shared = {profile: Orchestrator(engine, tools=[weather]) for profile, engine in engines.items()}
    conversations: list[Conversation] = []
    runs: list[Awaitable[RunResult]] = []
    for number in range(count):
        profile, prompt = WIRE_PROFILES[number % 5], PROMPT.format(number)
        if number % 4 < 2:
            agent = Orchestrator(engines[profile], tools=[weather])
            conversations.append(agent.conversation)
            runs.append(run_agent(agent, prompt, live=number % 2 == 0))
        else:
            conversations.append(Conversation())
            runs.append(shared[profile].run(prompt, conversation=conversations[-1]))
    results = await asyncio.gather(*runs)
    assert [result.text for result in results] == [f"It is sunny in {number}." for number in range(count)]
    assert sorted(ran) == sorted(name for number in range(count) for name in (str(number), f"not {number}"))
    for number, conversation in enumerate(conversations):
        assert [message.role for message in conversation] == ["user", "assistant", "tool", "assistant"]
        assert [result.text for result in conversation[2].results] == [f"sunny in {number}", f"sunny in not {number}"]
        assert list_unpaired(conversation) == []


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("http", [False, True], ids=["in-process", "loopback"])
def test_many_conversations_at_once(count: int, http: bool) -> None:
    async def play() -> None:
        if http:
            transport = HttpTransport()
            async with SimulatorServer() as url:
                await run_crowd(count, url, transport)
                await transport.close()
        else:
            await run_crowd(count, "http://simulator", SimulatedTransport())
        assert len(asyncio.all_tasks()) == 1

    before = threading.active_count()
    asyncio.run(play())
    assert http or threading.active_count() == before


# ---- the soak


@pytest.mark.slow
@pytest.mark.parametrize("http", [False, True], ids=["in-process", "loopback"])
def test_a_soak_leaves_nothing_behind(http: bool) -> None:
    """Runs `soak.py` in a process of its own: nothing else in it holds memory, and nobody traces it."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    script = Path(__file__).with_name("soak.py")
    command = [sys.executable, script, str(TURNS), *(["--http"] if http else [])]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    _, *rows = [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]
    rows = [dict(zip(Sample.__struct_fields__, row, strict=True)) for row in rows]
    samples = [msgspec.convert(row, Sample, strict=False) for row in rows]
    first, *others = [sample for sample in samples if sample.turns >= TURNS // 4]  # after everything was used once
    last = others[-1]
    assert last.turns > first.turns
    assert last.threads == 1
    # A server has a task per connection, and objects come and go with them; what is kept per turn would be far more.
    assert last.objects - first.objects < (last.turns - first.turns) // 2
    assert last.kilobytes - first.kilobytes < 2048
    assert all(sample.descriptors <= first.descriptors + (4 if http else 0) for sample in others)
    assert all(sample.tasks <= first.tasks + (4 if http else 0) for sample in others)


@pytest.mark.parametrize("http", [False, True], ids=["in-process", "loopback"])
def test_a_short_soak_leaves_no_tasks_or_descriptors(http: bool) -> None:
    async def play() -> list[Sample]:
        async with start_soak(http) as soak:
            samples = [sample async for sample in soak.run(300, 3, at_once=5)]
            assert soak.failures == []
            return samples

    first, *_, last = asyncio.run(play())
    assert last.tasks <= first.tasks + (4 if http else 0)
    assert last.descriptors <= first.descriptors + (4 if http else 0)
