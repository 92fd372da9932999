"""Many conversations at once, and many turns in a row: no errors, and nothing is left behind.

The large numbers run with `make test-all`. `TOOLGLOT_SOAK=10000` sets the turns of the soak; `soak.py` prints
what is held."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from .soak import Sample, start_soak

pytestmark = pytest.mark.untraced

SIZES = [50, pytest.param(1000, marks=pytest.mark.slow)]
TURNS = int(os.environ.get("TOOLGLOT_SOAK", "1500"))


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("http", [False, True], ids=["in-process", "loopback"])
async def test_many_conversations_at_once(count: int, http: bool) -> None:
    async with start_soak(http) as soak:
        await asyncio.gather(*(soak.run_session(number, prompts=2) for number in range(count)))
        assert soak.failures == []
    assert len(asyncio.all_tasks()) == 1


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
    # after everything was used once
    first, *others = [sample for sample in samples if sample.turns >= TURNS // 4]
    last = others[-1]
    assert last.turns > first.turns
    assert last.threads == 1
    # A server has a task per connection, and objects come and go with them; what is kept per turn would be
    # far more.
    assert last.objects - first.objects < (last.turns - first.turns) // 2
    assert last.kilobytes - first.kilobytes < 2048
    assert all(sample.descriptors <= first.descriptors + (4 if http else 0) for sample in others)
    assert all(sample.tasks <= first.tasks + (4 if http else 0) for sample in others)


@pytest.mark.parametrize("http", [False, True], ids=["in-process", "loopback"])
async def test_a_short_soak_leaves_no_threads_tasks_or_descriptors(http: bool) -> None:
    async with start_soak(http) as soak:
        first, *_, last = [sample async for sample in soak.run(300, 3, at_once=5)]
        assert soak.failures == []
    assert last.threads == first.threads
    assert last.tasks <= first.tasks + (4 if http else 0)
    assert last.descriptors <= first.descriptors + (4 if http else 0)
