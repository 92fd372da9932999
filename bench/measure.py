"""The clock and the tables.

Time is CPU time of one process on one core. Figures that are compared are taken in turns, round after round,
so that a slow moment of the machine hits all of them; the median round counts. A run returns what it read,
and is refused where that is not what was expected.
"""

import gc
import os
import resource
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from time import process_time
from typing import Any

Run = Callable[[], object]
_MAX_WIDTH = 100  # the column of the documentation
ROUND_SECONDS = 0.01  # seconds that a run gets in each round: a short one is repeated


def pin() -> None:
    """This process and its children stay on one core, where the system can do that."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def cpu_seconds(runs: Mapping[str, Run], expected: Mapping[str, object], rounds: int) -> dict[str, float]:
    """The median CPU time of each run, after a warm-up."""
    gc.collect()
    gc.freeze()  # nobody pays for what others have imported
    repeats = {
        name: max(1, int(ROUND_SECONDS / _time_run(name, run, expected[name], 1)))
        for name, run in runs.items()
    }
    took: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            took[name].append(_time_run(name, run, expected[name], repeats[name]))
    return {name: median(times) for name, times in took.items()}


def _time_run(name: str, run: Run, expected: object, repeats: int) -> float:
    start = process_time()
    results = [run() for _ in range(repeats)]
    took = (process_time() - start) / repeats
    for result in results:
        if result != expected:
            raise AssertionError(f"{name} read {_short(result)}, not {_short(expected)}")
    return took


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) < 200 else f"{text[:100]} … {text[-100:]}"


def child_cpu(arguments: list[str]) -> tuple[float, bytes]:
    """CPU time (user + system) of Python with these arguments in a new process, and what it wrote.

    Byte code may be written, whatever the environment says: an installed package has its own, as the others
    have."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.PIPE, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, done.stdout


@dataclass(frozen=True)
class Figure:
    """A figure, how much it should be at most or at least, and whether it is.

    Without a unit: how many times one is another.
    """

    value: float
    unit: str = "\N{MULTIPLICATION SIGN}"
    maximum: float | None = None
    minimum: float | None = None

    @property
    def goal_text(self) -> str:
        return (
            f"≤ {self.maximum:g}"
            if self.maximum is not None
            else f"≥ {self.minimum:g}"
            if self.minimum is not None
            else ""
        )

    @property
    def is_met(self) -> bool:
        return (self.maximum is None or self.value <= self.maximum) and (
            self.minimum is None or self.value >= self.minimum
        )

    def __str__(self) -> str:
        return (
            _digits(self.value)
            + self.unit
            + (f" {'ok' if self.is_met else 'MISS'} ({self.goal_text})" if self.goal_text else "")
        )


@dataclass
class Table:
    title: str
    note: str = ""
    rows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def __str__(self) -> str:
        lines = [list(self.rows[0]), *([_cell(value) for value in row.values()] for row in self.rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
        parts = [f"\n{self.title}", *_wrap(self.note)]
        for columns in _split_columns(widths):
            head, *body = (
                "  ".join(
                    [line[0].ljust(widths[0]), *(line[column].rjust(widths[column]) for column in columns)]
                )
                for line in lines
            )
            parts += ["", head, "─" * len(head), *body]
        return "\n".join(parts)

    def as_json(self) -> list[dict[str, Any]]:
        return [{key: _to_json(value) for key, value in row.items()} for row in self.rows]


def _wrap(text: str) -> list[str]:
    return [part for line in text.splitlines() for part in textwrap.wrap(line, _MAX_WIDTH)]


def _split_columns(widths: list[int]) -> list[list[int]]:
    """Distribute the columns after the first, which has the names of the rows, among parts that are not too wide."""
    parts: list[list[int]] = []
    room = 0
    for column in range(1, len(widths)):
        room -= widths[column] + 2
        if not parts or room < 0:
            parts.append([])
            room = _MAX_WIDTH - widths[0] - widths[column] - 2
        parts[-1].append(column)
    return parts


def _cell(value: object) -> str:
    return "-" if value is None else _digits(value) if isinstance(value, float) else str(value)


def _digits(value: float) -> str:
    return f"{value:,.{2 if value < 10 else 1 if value < 100 else 0}f}"


def _to_json(value: object) -> object:
    if isinstance(value, Figure):
        return {
            "value": round(value.value, 3),
            "goal": value.goal_text or None,
            "met": value.is_met if value.goal_text else None,
        }
    return round(value, 3) if isinstance(value, float) else value
