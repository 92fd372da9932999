"""What all runners share: commands come in on standard input, one JSON line of figures goes out for each.

Only the standard library. A sample is a run of one scenario, repeated where it is short, in CPU seconds (user
+ system, all threads) of this process. Every run is checked: the final text, the number of calls, what the
tools were given, and that a stream was seen piece by piece. Clients are opened before the clock starts; a
crowd gets a new one for each sample, so that making its connections counts.
"""

import asyncio
import gc
import json
import os
import resource
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from time import perf_counter, process_time
from typing import Any, NamedTuple

from bench.loop.scenarios import ALL, ANTHROPIC, MODELS, Scenario, tool_names

# CPU seconds that a sample should have: what a process needs to get warm after a pause must not weigh
SAMPLE_SECONDS = 0.3
CONNECTIONS = 2000


class RunOutput(NamedTuple):
    text: str
    pieces: int = 0
    """Pieces of text or arguments that were seen while they streamed."""


RunConversation = Callable[[], Awaitable[RunOutput]]
Expected = tuple[str, int, int, int]
"""The final text, calls, characters that the tools were given, pieces that were seen at least."""


@dataclass
class CallLog:
    """What the tools were asked; `timed`: and when, in CPU time."""

    keeps_times: bool = False
    calls: int = 0
    characters: int = 0
    stamps: list[float] = field(default_factory=list[float])

    def record(self, text: str) -> None:
        self.calls += 1
        self.characters += len(text)
        if self.keeps_times:
            self.stamps.append(process_time())

    def clear(self) -> None:
        self.calls = self.characters = 0
        self.stamps.clear()


@dataclass
class Job:
    """One scenario on one wire of the server."""

    server: str
    wire: str
    scenario: Scenario
    ledger: CallLog
    close_callbacks: list[Callable[[], Awaitable[object]]] = field(
        default_factory=list[Callable[[], Awaitable[object]]]
    )

    def __post_init__(self) -> None:
        self.functions = functions(self.scenario, self.ledger)
        self._by_name = {function.__name__: function for function in self.functions}

    @property
    def base_url(self) -> str:
        """As the vendors' SDKs want it: with /v1, except Anthropic's."""
        return f"{self.server}/{self.scenario.path}" + ("" if self.wire == ANTHROPIC else "/v1")

    @property
    def model(self) -> str:
        return MODELS[self.wire]

    async def call(self, name: str, arguments: str | dict[str, Any]) -> str:
        """Runs a tool by hand, for those who have no loop of their own."""
        values = json.loads(arguments) if isinstance(arguments, str) else arguments
        function = self._by_name[name]
        if self.scenario.has_sync_tools:
            return await asyncio.to_thread(function, **values)
        return await function(**values)

    async def call_all(self, calls: Iterable[tuple[str, str | dict[str, Any]]]) -> list[str]:
        return await asyncio.gather(*(self.call(name, arguments) for name, arguments in calls))


OpenRunner = Callable[[Job], Awaitable[RunConversation]]


# ---- the tools, as functions and as data

FILLER = "Light wind from the west, 12 degrees, no rain before noon. " * 100
PARAMETERS = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Name of the city."},
        "days": {"type": "integer", "description": "How many days to look ahead."},
        "units": {"type": "string", "description": "celsius or fahrenheit."},
    },
    "required": ["city", "days"],
}
FILE_PARAMETERS = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Where to write."},
        "text": {"type": "string", "description": "What to write."},
    },
    "required": ["path", "text"],
}


def functions(scenario: Scenario, ledger: CallLog) -> list[Callable[..., Any]]:
    """The scenario's tools."""
    make = _write_file if scenario.fragments else _weather
    return [make(name, scenario, ledger) for name in tool_names(scenario)]


def definitions(scenario: Scenario) -> list[tuple[str, str, dict[str, Any]]]:
    """Name, description and parameters of the tools, for those who pass JSON Schema."""
    if scenario.fragments:
        return [(name, "Writes a file.", FILE_PARAMETERS) for name in tool_names(scenario)]
    return [(name, "Weather of a city.", PARAMETERS) for name in tool_names(scenario)]


def _weather(name: str, scenario: Scenario, ledger: CallLog) -> Callable[..., Any]:
    def look(city: str, days: int) -> str:
        ledger.record(city)
        short = f"Sunny in {city} for {days} days. "
        return (short + FILLER)[: scenario.result] if scenario.result else short

    async def weather(city: str, days: int, units: str = "celsius") -> str:
        """Weather of a city.

        Args:
            city: Name of the city.
            days: How many days to look ahead.
            units: celsius or fahrenheit.
        """
        return look(city, days)

    def weather_sync(city: str, days: int, units: str = "celsius") -> str:
        return look(city, days)

    weather_sync.__doc__ = weather.__doc__
    return _rename_function(weather_sync if scenario.has_sync_tools else weather, name)


def _write_file(name: str, scenario: Scenario, ledger: CallLog) -> Callable[..., Any]:
    async def write_file(path: str, text: str) -> str:
        """Writes a file.

        Args:
            path: Where to write.
            text: What to write.
        """
        ledger.record(path + text)
        return "written"

    return _rename_function(write_file, name)


def _rename_function(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    return function


# ---- commands


def serve(open: OpenRunner) -> None:
    """Answers commands until standard input ends.

    Arguments of the program: the server's address and the wire.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    sys.stdout = sys.stderr  # libraries may say what they like
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
    bench = _Sampler(open, *sys.argv[1:3])
    answers.write("ready\n")
    with asyncio.Runner() as runner:  # one event loop for all: clients belong to it
        for line in sys.stdin:
            try:
                answer = runner.run(bench.sample(**json.loads(line)))
            except Exception as e:
                traceback.print_exc()
                answer = {"error": f"{type(e).__name__}: {e}"[:300]}
            answers.write(json.dumps(answer) + "\n")
        runner.run(bench.close())


@dataclass
class _WarmJob:
    job: Job
    run_conversation: RunConversation
    repeats: int = 1


class _Sampler:
    def __init__(self, open: OpenRunner, server: str, wire: str) -> None:
        self._open, self._server, self._wire = open, server, wire
        self._warm_jobs: dict[str, _WarmJob] = {}
        self._base_memory: float | None = None  # MB, before the first crowd

    async def sample(self, scenario: str, expected: Expected) -> dict[str, Any]:
        """One sample; the first of a scenario comes after a warm-up."""
        if ALL[scenario].conversations > 1:
            return await self._sample_crowd(ALL[scenario], expected)
        ready = self._warm_jobs.get(scenario) or await self._warm_up(ALL[scenario], expected)
        gc.collect()
        _reset_peak()
        if ready.repeats > 1:  # the first after a pause pays for cold caches, whoever makes it
            for _ in range(1 + ready.repeats // 10):
                await _run(ready, expected)
        runs = [await _run(ready, expected) for _ in range(ready.repeats)]
        cpu, wall, turns = zip(*runs, strict=True)
        return {
            "cpu": sum(cpu) / len(cpu),
            "wall": sum(wall) / len(wall),
            "runs": len(runs),
            "peak": read_memory("VmHWM"),
            "turns": [median(times) for times in zip(*turns, strict=True)],
        }

    async def close(self) -> None:
        for ready in self._warm_jobs.values():
            await _close(ready.job)

    async def _warm_up(self, scenario: Scenario, expected: Expected) -> _WarmJob:
        job = Job(self._server, self._wire, scenario, CallLog(keeps_times=scenario.turns > 2))
        ready = self._warm_jobs[scenario.name] = _WarmJob(job, await self._open(job))
        took, _, _ = await _run(ready, expected)
        if not scenario.is_paced:
            # short: caches and the adaptive interpreter must be warm, whoever is measured
            if took < SAMPLE_SECONDS:
                took = min(
                    [
                        (await _run(ready, expected))[0]
                        for _ in range(max(3, min(20, int(SAMPLE_SECONDS / took))))
                    ]
                )
            ready.repeats = max(1, min(500, int(SAMPLE_SECONDS / took)))
        return ready

    async def _sample_crowd(self, scenario: Scenario, expected: Expected) -> dict[str, Any]:
        if self._base_memory is None:
            alone = ALL["S3"]
            await self._warm_up(
                alone, (expected[0], alone.total_calls, expected[2] // scenario.conversations, 0)
            )
            gc.collect()
            _reset_peak()
            self._base_memory = read_memory("VmRSS")
        job = Job(self._server, self._wire, scenario, CallLog())
        talk = await self._open(job)
        gc.collect()
        wall, cpu = perf_counter(), process_time()
        output = await asyncio.gather(
            *(talk() for _ in range(scenario.conversations)), return_exceptions=True
        )
        cpu, wall = process_time() - cpu, perf_counter() - wall
        peak = read_memory("VmHWM")
        errors = [item for item in output if isinstance(item, BaseException) or item.text != expected[0]]
        first = repr(errors[0])[:300] if errors else ""
        if not errors:
            _check_calls(job.ledger, expected)
        await _close(job)
        return {
            "cpu": cpu,
            "wall": wall,
            "runs": 1,
            "peak": peak,
            "growth": peak - self._base_memory,
            "errors": len(errors),
            "first_error": first,
        }


async def _run(ready: _WarmJob, expected: Expected) -> tuple[float, float, list[float]]:
    ledger = ready.job.ledger
    ledger.clear()
    wall, start = perf_counter(), process_time()
    output = await ready.run_conversation()
    end, wall = process_time(), perf_counter() - wall
    text, pieces = expected[0], expected[3]
    if output.text != text or output.pieces < pieces:
        seen = f"{output.text[:100]!r} ({len(output.text)}) in {output.pieces} pieces"
        raise AssertionError(f"got {seen}, expected {text[:100]!r} ({len(text)}) in {pieces}")
    _check_calls(ledger, expected)
    stamps = [start, *ledger.stamps, end] if ledger.keeps_times else []
    return end - start, wall, [after - before for before, after in pairwise(stamps)]


def _check_calls(ledger: CallLog, expected: Expected) -> None:
    _, calls, characters, _ = expected
    if (ledger.calls, ledger.characters) != (calls, characters):
        raise AssertionError(
            f"tools saw {ledger.calls} calls, {ledger.characters} characters, not {calls}, {characters}"
        )


async def _close(job: Job) -> None:
    for close in job.close_callbacks:
        await close()
    await asyncio.sleep(0)


def _reset_peak() -> None:
    with suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def read_memory(field_name: str) -> float:
    """MB, from the kernel; elsewhere than on Linux the highest so far."""
    with suppress(OSError), open("/proc/self/status") as file:
        for line in file:
            if line.startswith(field_name):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
