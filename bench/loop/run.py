"""Take the measurements, round by round with all runners in turn, so that a slow moment affects them all;
report medians.
"""

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench.loop.peer_environments import DIRECTORY, find_python
from bench.loop.plan import FRAMEWORKS, GROUPS, OURS, RUNNERS, Plan, Runner
from bench.loop.scenarios import ALL, Scenario
from bench.loop.workers import Worker, environment, pin, run_server

Key = tuple[str, str, str]
"""Wire, runner, scenario."""


@dataclass
class Samples:
    """What one runner needed for one scenario on one wire."""

    scenario: Scenario
    samples: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    failure: str = ""
    wall_seconds: float = 0.0

    def add(self, answer: dict[str, Any]) -> None:
        if "error" in answer:
            self.failure = answer["error"]
        else:
            self.samples.append(answer)
            self.wall_seconds += answer["wall"] * answer["runs"]
            self.failure = answer.get("first_error", "")

    @property
    def unit_cost(self) -> float | None:
        """CPU seconds for one unit of the scenario."""
        if not self.samples or self.failure:  # who gives up early is not fast
            return None
        return median(sample["cpu"] for sample in self.samples) / self.scenario.units

    @property
    def wall(self) -> float | None:
        return median(sample["wall"] for sample in self.samples) if self.samples else None

    @property
    def peak(self) -> float | None:
        return max(sample["peak"] for sample in self.samples) if self.samples else None

    @property
    def growth(self) -> float | None:
        """MB over what was there before the first crowd of the process; later ones find memory ready."""
        return (
            max(sample["growth"] for sample in self.samples)
            if self.samples and "growth" in self.samples[0]
            else None
        )

    @property
    def errors(self) -> int | None:
        return sum(sample.get("errors", 0) for sample in self.samples) if self.samples else None

    @property
    def turns(self) -> list[float]:
        """CPU seconds of each turn."""
        return [median(times) for times in zip(*(sample["turns"] for sample in self.samples), strict=True)]

    @property
    def slope(self) -> float | None:
        """CPU seconds that each turn costs more than the one before: least squares over the turns that call a
        tool.
        """
        times = self.turns[1:-1]
        if len(times) < 3:
            return None
        middle, mean = (len(times) - 1) / 2, sum(times) / len(times)
        above = sum((at - middle) * (time - mean) for at, time in enumerate(times))
        return above / sum((at - middle) ** 2 for at in range(len(times)))

    @property
    def early_and_late_turns(self) -> tuple[float, float] | None:
        """The mean of turns 2 to 5, and of the last four."""
        times = self.turns
        return (sum(times[1:5]) / 4, sum(times[-4:]) / 4) if len(times) > 8 else None


@dataclass
class ImportCost:
    """CPU seconds and MB beyond a bare interpreter."""

    cpu: float
    memory: float


@dataclass
class Results:
    samples: dict[Key, Samples] = field(default_factory=dict[Key, Samples])
    imports: dict[str, ImportCost] = field(default_factory=dict[str, ImportCost])
    missing: list[str] = field(default_factory=list[str])
    """Peers that could not be installed."""

    def find_samples(self, wire: str, runner: str, scenario: str) -> Samples | None:
        return self.samples.get((wire, runner, scenario))


def run(plan: Plan, directory: Path = DIRECTORY) -> Results:
    """One whole run."""
    results = Results()
    pythons = _find_pythons(plan, directory, results)
    with run_server() as address:
        for wire in plan.wires:
            for group in GROUPS:
                _run_group(plan, wire, group, address, pythons, results)
    if plan.scenarios is None:
        _measure_imports(plan, pythons, results)
    return results


def _find_pythons(plan: Plan, directory: Path, results: Results) -> dict[str, str]:
    pythons: dict[str, str] = {}
    for runner in {runner.name: runner for wire in plan.wires for runner in plan.runners(wire)}.values():
        if python := find_python(runner.name, directory) if runner.is_peer else sys.executable:
            pythons[runner.name] = python
        else:
            results.missing.append(runner.name)
    return pythons


def _run_group(
    plan: Plan, wire: str, group: Iterable[str], address: str, pythons: dict[str, str], results: Results
) -> None:
    wanted: dict[str, list[tuple[Runner, Samples]]] = defaultdict(list)
    for runner in plan.runners(wire):
        if runner.name in pythons:
            for scenario in plan.scenarios_of(runner, wire, group):
                samples = results.samples[wire, runner.name, scenario.name] = Samples(scenario)
                wanted[scenario.name].append((runner, samples))
    taking_part = {runner.name: runner for pairs in wanted.values() for runner, _ in pairs}
    workers = {
        name: Worker([pythons[name], runner.module, *runner.extra_arguments], address, wire)
        for name, runner in taking_part.items()
    }
    try:
        for worker in workers.values():
            worker.wait()
        for name, pairs in wanted.items():
            print(f"{wire} {name}: {ALL[name].title}", file=sys.stderr, flush=True)
            _run_rounds(plan, name, pairs, workers)
    finally:
        for worker in workers.values():
            worker.close()


def _run_rounds(
    plan: Plan, name: str, pairs: list[tuple[Runner, Samples]], workers: dict[str, Worker]
) -> None:
    for number in range(plan.rounds_of(ALL[name])):
        for runner, samples in pairs:
            over = runner.is_peer and (
                number >= plan.peer_rounds or samples.wall_seconds > plan.max_peer_seconds
            )
            if not over and not samples.failure:
                samples.add(workers[runner.name].sample(name))
                if samples.failure:
                    print(f"  {runner.name} failed: {samples.failure}", file=sys.stderr, flush=True)


# ---- imports

READY = (
    "from toolglot import Agent; Agent('anthropic:claude-sonnet-4-6', base_url='http://127.0.0.1:1', key='k')"
)
PEAK = (
    "\nprint(next((int(line.split()[1]) for line in open('/proc/self/status') if "
    "line.startswith('VmHWM')), 0))"
)


def _measure_imports(plan: Plan, pythons: dict[str, str], results: Results) -> None:
    asked = [(OURS, sys.executable, "import toolglot"), (f"{OURS}, ready", sys.executable, READY)]
    asked += [
        (name, python, f"import {RUNNERS[name].package}")
        for name, python in pythons.items()
        if RUNNERS[name].is_peer and not (plan.quick and name in FRAMEWORKS)
    ]
    for name, python, code in asked:
        print(f"import {name}", file=sys.stderr, flush=True)
        try:
            _run_fresh(python, code)  # byte code and file cache
            took = [
                (_run_fresh(python, "pass"), _run_fresh(python, code)) for _ in range(1 if plan.quick else 5)
            ]
        except subprocess.CalledProcessError as error:
            print(f"  failed: {error}", file=sys.stderr, flush=True)
            continue
        cpu, memory = ([full[at] - bare[at] for bare, full in took] for at in (0, 1))
        results.imports[name] = ImportCost(median(cpu), median(memory))


def _run_fresh(python: str, code: str) -> tuple[float, float]:
    """CPU seconds and peak MB of a new process."""
    process = subprocess.Popen(
        [python, "-c", code + PEAK], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment()
    )
    pin(process.pid)
    assert process.stdout
    output = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, code)
    return used.ru_utime + used.ru_stime, int(output) / 1024
