"""The built-in search tools on a tree of 50,000 files, against ripgrep itself and against what one writes in
a minute.

CPU time of this process and of those that it starts, and the time on the clock; medians of rounds in which
all take turns."""

import argparse
import os
import re
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter

from bench.measure import Figure, Table
from toolglot.builtin.files.workspace import Workspace
from toolglot.builtin.search.glob import glob_tools
from toolglot.builtin.search.grep import grep_tools
from toolglot.builtin.tool_state import ToolState

NEEDLE = "needle"
IGNORED = "*.log\n/top3/\nbuild/\n!keep.log\n"
ENDINGS = ("py", "txt", "md", "js", "log")
GREP_GOAL, FALLBACK_GOAL, GLOB_GOAL = 1.15, 2.0, 1.2
RG = ("rg", "--no-config", "--hidden", "--no-require-git", "--no-ignore-parent", "--no-ignore-global")


def create_tree(root: Path, files: int) -> None:
    """A tree of that many small files, one in 500 with the needle."""
    random = Random(1)
    words = [f"word{number}" for number in range(400)]
    texts = ["\n".join(" ".join(random.choices(words, k=8)) for _ in range(25)) + "\n" for _ in range(200)]
    for number in range(files):
        directory = root / f"top{number // 1000}" / f"sub{number // 50 % 20}"
        if number % 50 == 0:
            directory.mkdir(parents=True)
        extra = f"{NEEDLE} here\n" if number % 500 == 0 else ""
        (directory / f"file{number}.{random.choice(ENDINGS)}").write_text(random.choice(texts) + extra)
    (root / ".gitignore").write_text(IGNORED)


def count_with_ripgrep(root: Path, *arguments: str) -> int:
    """How many lines ripgrep writes by itself."""
    return subprocess.run(
        [*RG, *arguments, "./"], cwd=root, stdout=subprocess.PIPE, check=False
    ).stdout.count(b"\n")


def naive_grep(root: Path) -> int:
    """As one writes it in a minute: no ignore files, no limits, links followed."""
    regex, count = re.compile(NEEDLE), 0
    for path in root.rglob("*"):
        if path.is_file():
            with open(path, encoding="utf-8", errors="replace") as file:
                count += sum(1 for line in file if regex.search(line))
    return count


def naive_glob(root: Path) -> int:
    return sum(fnmatch(name, "*.py") for _, _, names in os.walk(root) for name in names)


def cpu_time() -> float:
    """CPU seconds of this process and of those that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def time_runs(runs: dict[str, Callable[[], int]], rounds: int) -> dict[str, tuple[float, float, int]]:
    """Clock and CPU milliseconds of each, and what it found."""
    counts = {name: run() for name, run in runs.items()}  # warm-up
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            clock, cpu = perf_counter(), cpu_time()
            run()
            took[name].append((1e3 * (perf_counter() - clock), 1e3 * (cpu_time() - cpu)))
    return {
        name: (median(a for a, _ in times), median(b for _, b in times), counts[name])
        for name, times in took.items()
    }


def tools_search_table(*, quick: bool) -> Table:
    """Ratios against ripgrep; a machine without it has none."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        create_tree(root, 5_000 if quick else 50_000)
        box = ToolState(Workspace(root))
        grep, fallback, glob = grep_tools(box)[0], grep_tools(box, use_ripgrep=False)[0], glob_tools(box)[0]
        runs: dict[str, Callable[[], int]] = {
            "grep": lambda: grep(pattern=NEEDLE).data["total"],
            "grep, without ripgrep": lambda: fallback(pattern=NEEDLE).data["total"],
            "naive grep": lambda: naive_grep(root),
            "glob **/*.py by name": lambda: glob(pattern="**/*.py", order="name").data["total"],
            "glob **/*.py by time": lambda: glob(pattern="**/*.py").data["total"],
            "glob ** by name": lambda: glob(pattern="**", order="name").data["total"],
            "naive glob": lambda: naive_glob(root),
        }
        if shutil.which("rg"):
            runs["rg needle"] = lambda: count_with_ripgrep(root, "--line-number", "--regexp", NEEDLE)
            runs["rg --files"] = lambda: count_with_ripgrep(root, "--files")
            runs["rg --files --sort=modified"] = lambda: count_with_ripgrep(
                root, "--files", "--sort=modified"
            )
        took = time_runs(runs, 3 if quick else 9)
        box.workspace.close()
    return _build_table(took)


GOALS = {
    "grep": ("rg needle", GREP_GOAL, None),
    "grep, without ripgrep": ("rg needle", None, FALLBACK_GOAL),
    "naive grep": ("rg needle", None, None),
    "glob **/*.py by name": ("rg --files", GLOB_GOAL, None),
    "glob **/*.py by time": ("rg --files --sort=modified", GLOB_GOAL, None),
    "glob ** by name": ("rg --files", GLOB_GOAL, None),
    "naive glob": ("rg --files", None, None),
}


def _build_table(took: dict[str, tuple[float, float, int]]) -> Table:
    table = Table(
        "Search: 50,000 files", "÷ rg: against ripgrep on the same tree, on the clock and in CPU time"
    )
    for name, (clock, cpu, count) in took.items():
        peer, most_clock, most_cpu = GOALS.get(name, ("", None, None))
        against = took.get(peer)
        table.rows.append(
            {
                "": name,
                "÷ rg, clock": Figure(clock / against[0], maximum=most_clock) if against else None,
                "÷ rg, CPU": Figure(cpu / against[1], maximum=most_cpu) if against else None,
                "ms": clock,
                "CPU ms": cpu,
                "found": count,
            }
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.tools_search")
    parser.add_argument("--quick", action="store_true", help="a tenth of the files, fewer rounds")
    print(tools_search_table(quick=parser.parse_args().quick))


if __name__ == "__main__":
    main()
