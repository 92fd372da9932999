"""One runner whose work is counted, not timed: `python -m bench.loop.counted SERVER WIRE RUNNER SCENARIO
WHAT`.

It prints one JSON line. WHAT is `instructions` (under callgrind, see `bench.instructions`), `garbage` or
`waiting`."""

import asyncio
import gc
import json
import os
import resource
import sys
from functools import wraps
from typing import Any

from bench.loop.floors import open_floor
from bench.loop.ours import open_ours, open_ours_shared
from bench.loop.replies import expected_outcome
from bench.loop.runner import CallLog, Job, read_memory
from bench.loop.scenarios import ALL, Scenario

OPEN = {"aiohttp": open_floor, "toolglot": open_ours, "toolglot-shared": open_ours_shared}
WARM_UPS = {"S3": 20, "S4": 4}
"""Conversations after which the adaptive interpreter and all caches are warm."""
COUNTED = {"S3": 40, "S4": 4}
FINISHED, WAITING = 50, 1000
"""Conversations that are held one after the other for their garbage, and at once for their memory."""


class _WaitingJob(Job):
    """A job whose tools wait for `gate`.

    All wait for the same future, so that waiting itself costs next to nothing.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.started, self.gate = 0, asyncio.get_running_loop().create_future()
        self.functions = [self._hold(function) for function in self.functions]
        self._by_name = {function.__name__: function for function in self.functions}

    def _hold(self, function: Any) -> Any:
        @wraps(function)
        async def call(**arguments: Any) -> str:
            self.started += 1
            await self.gate
            return await function(**arguments)

        return call


async def _count_instructions(job: Job) -> dict[str, float]:
    """callgrind begins a new total at each call of `getloadavg`, which nobody else calls."""
    talk, name = await OPEN[sys.argv[3]](job), job.scenario.name
    for _ in range(WARM_UPS[name]):
        await talk()
    gc.collect()
    os.getloadavg()
    for _ in range(COUNTED[name]):
        await talk()
    os.getloadavg()
    return {"conversations": COUNTED[name]}


async def _count_garbage(job: Job) -> dict[str, float]:
    """Objects that only the collector can free, for each finished conversation."""
    talk = await OPEN[sys.argv[3]](job)
    for _ in range(3):
        await talk()
    gc.collect()
    gc.disable()
    for _ in range(FINISHED):
        await talk()
    await asyncio.sleep(0)
    return {"unreachable": gc.collect() / FINISHED}


async def _count_waiting(job: _WaitingJob) -> dict[str, float]:
    """Objects that the collector has to look at, and memory, for each conversation that waits inside its
    tools.
    """
    talk = await OPEN[sys.argv[3]](job)
    job.gate.set_result(None)
    for _ in range(3):
        await talk()
    job.gate = asyncio.get_running_loop().create_future()
    gc.collect()
    job.started, objects, memory = 0, len(gc.get_objects()), read_memory("VmRSS")
    running = [asyncio.ensure_future(talk()) for _ in range(WAITING)]
    while job.started < WAITING * job.scenario.calls:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    gc.collect()
    objects, memory = len(gc.get_objects()) - objects, read_memory("VmRSS") - memory
    job.gate.set_result(None)
    await asyncio.gather(*running)
    return {"objects": objects / WAITING, "kB": 1024 * memory / WAITING}


async def _count(server: str, wire: str, scenario: Scenario, what: str) -> dict[str, float]:
    kind = _WaitingJob if what == "waiting" else Job
    job = kind(server, wire, scenario, CallLog())
    try:
        if isinstance(job, _WaitingJob):
            return await _count_waiting(job)
        counts = await (_count_instructions(job) if what == "instructions" else _count_garbage(job))
        job.ledger.clear()
        output = await (await OPEN[sys.argv[3]](job))()
        expected = expected_outcome(scenario)
        assert (output.text, job.ledger.calls) == expected[:2], output
        return counts
    finally:
        for close in job.close_callbacks:
            await close()


if __name__ == "__main__":
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
    print(json.dumps(asyncio.run(_count(sys.argv[1], sys.argv[2], ALL[sys.argv[4]], sys.argv[5]))))
