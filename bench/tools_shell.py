"""`python -m bench.tools_shell [--quick]`: what a sandbox costs a command, and whether it holds under load.

Wall time in milliseconds, medians, taken in turns. Below the table: a flood of output, and many limits of
time in a row."""

import argparse
import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from bench.measure import Figure, Table
from toolglot.builtin.files.workspace import Workspace
from toolglot.builtin.shell.manager import ShellOptions
from toolglot.builtin.shell.tools import close_shell, shell_tools
from toolglot.builtin.tool_state import ToolState
from toolglot.confine.sandbox import SandboxLevel
from toolglot.confine.sandbox_probe import probe_level
from toolglot.tools.context import Context
from toolglot.values.messages import ToolCall

MARKER = "27182"
DAEMONS = f"(setsid sleep {MARKER} &); (trap '' TERM; exec sleep {MARKER}) & sleep {MARKER}"


class ShellBench:
    """The shell of one level."""

    def __init__(self, base: Path, level: SandboxLevel) -> None:
        base.mkdir()
        (base / "work").mkdir()
        self.workspace = Workspace(base / "work")
        self.state = ToolState(self.workspace, state_dir=base / "state")
        self.tool = shell_tools(self.state, ShellOptions(level=level))[0]

    async def run(self, **arguments: Any) -> dict[str, Any]:
        call = ToolCall("1", "shell", arguments)
        return (await self.tool.invoke(self.tool.bind(call).values, Context(call))).data

    def close(self) -> None:
        close_shell(self.state)
        self.workspace.close()


def start_table(base: Path, rounds: int) -> Table:
    """One `true`, from the call of the tool to its result."""
    levels = [level for level in SandboxLevel if level is SandboxLevel.NONE or not probe_level(level)]
    benches = {level.label: ShellBench(base / level.name, level) for level in levels}
    runs: dict[str, Callable[[], object]] = {
        "bare bash": lambda: subprocess.run(["bash", "-c", "true"], check=True)
    }
    runs |= {
        f"shell, {label}": (lambda bench=bench: asyncio.run(bench.run(command="true")))
        for label, bench in benches.items()
    }
    took: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if number:  # the first one warms up
                took[name].append(1e3 * (time.perf_counter() - start))
    for bench in benches.values():
        bench.close()
    bare = median(took["bare bash"])
    table = Table("A command: ms from call to result", "ratio: against bare bash")
    for name, times in took.items():
        table.rows.append(
            {"": name, "÷ bare": Figure(median(times) / bare), "ms": Figure(median(times), " ms")}
        )
    return table


async def flood(bench: ShellBench, size: int) -> str:
    """A flood of output, more than fits in memory."""
    start = time.perf_counter()
    result = await bench.run(command=f"yes 0123456789abcdef | head -c {size}", timeout=600)
    took = time.perf_counter() - start
    held = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    if result["total_bytes"] != size:
        raise AssertionError(f"read {result['total_bytes']} of {size} bytes")
    return f"flood of {size / 1e9:g} GB: {took:.1f} s, {held / 2**20:.0f} MB held by this process"


async def run_timeouts(bench: ShellBench, times: int) -> str:
    """Limits of time, one after the other: daemons, and those who do not listen."""
    await bench.run(command="true")
    handles, late = len(os.listdir("/proc/self/fd")), list[float]()
    for _ in range(times):
        result = await bench.run(command=DAEMONS, timeout=0.1)
        late.append(1e3 * (result["seconds"] - 0.1))
    left = sum(MARKER.encode() in _command_line(name) for name in os.listdir("/proc") if name.isdigit())
    extra = len(os.listdir("/proc/self/fd")) - handles
    return (
        f"{times} limits of time: {left} survivors, {extra} more descriptors, ended {median(late):.1f} "
        "ms "
        "late"
    )


def _command_line(pid: str) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def shell_table(*, quick: bool) -> Table:
    """What it costs to start a command at each level."""
    with tempfile.TemporaryDirectory() as directory:
        return start_table(Path(directory), 5 if quick else 40)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.tools_shell")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, a smaller flood")
    quick: bool = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as directory:
        base = Path(directory)
        print(start_table(base, 5 if quick else 40), end="\n\n")
        for level in (SandboxLevel.BUBBLEWRAP, SandboxLevel.LANDLOCK):
            if reason := probe_level(level):
                print(f"{level.label}: {reason}")
                continue
            bench = ShellBench(base / f"load-{level.name}", level)
            print(f"{level.label}: {asyncio.run(flood(bench, 10**8 if quick else 2 * 10**9))}")
            print(f"{level.label}: {asyncio.run(run_timeouts(bench, 10 if quick else 200))}")
            bench.close()


if __name__ == "__main__":
    main()
