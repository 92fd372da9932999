"""What a conversation costs in instructions, garbage and memory: figures that do not depend on how busy the
machine is.

Instructions are those of user mode, counted by callgrind (package `valgrind`); repeated runs agree to about
0.1 %. They hold for one interpreter, one type of CPU and one version of the packages below, so the totals
that are kept in `instructions.json` are compared only where all of these are the same. `python -m bench
instructions --keep` writes the file."""

import json
import platform
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.loop.scenarios import ALL, CHAT
from bench.loop.workers import environment, run_server
from bench.measure import Figure, Table

KEPT = Path(__file__).with_suffix(".json")
PACKAGES = ("aiohttp", "msgspec")
MAX_INCREASE = 1.01
"""More than callgrind's noise, less than a change that costs something."""
MAX_RATIOS = {"S3": 3.1, "S4": 2.3}
"""toolglot's instructions ÷ those of the hand-written loop on aiohttp."""
MAX_UNREACHABLE, MAX_OBJECTS, MAX_MEMORY = 0, 250, 45
"""For each conversation: that is over, and that waits inside its eight tools (objects and kB)."""
MEASURED = ("aiohttp", "toolglot", "toolglot-shared")
TITLES = {
    "aiohttp": "hand-written loop on aiohttp",
    "toolglot": "toolglot, an agent for each conversation",
    "toolglot-shared": "toolglot, one agent for all",
}


def instructions_table(*, quick: bool = False, keep: bool = False) -> Table:
    """Instructions of S3 and S4 for toolglot and the floor, then objects and memory.

    `quick`: without the shared agent.
    """
    problem = "valgrind is not installed" if shutil.which("valgrind") is None else ""
    here, kept = describe_environment(), read_kept()
    runners = MEASURED[:2] if quick else MEASURED
    table = Table(
        "Instructions, garbage and memory of one conversation",
        "thousands of instructions (kIr) in user mode; S4: a turn",
    )
    counts: dict[str, dict[str, float]] = {}
    with run_server() as address:
        for runner in runners:
            counts[runner] = (
                {} if problem else {name: _count_instructions(address, runner, name) for name in MAX_RATIOS}
            )
            counts[runner] |= _run(address, runner, "S3", "garbage") | _run(address, runner, "S3", "waiting")
    if not problem:
        problem = find_difference(here, kept.get("environment", {}))
    totals = kept.get("totals", {}) if not problem else {}
    for runner in runners:
        table.rows.append(_row(runner, counts, totals.get(runner, {})))
    if problem:
        table.note += f"\nnot compared with the totals that are kept: {problem}"
    if keep:
        rounded = {
            runner: {name: round(count, 1) for name, count in counts[runner].items()} for runner in runners
        }
        KEPT.write_text(
            json.dumps({"environment": here, "totals": rounded}, indent=2) + "\n", encoding="utf-8"
        )
    return table


def _row(runner: str, counts: dict[str, dict[str, float]], totals: dict[str, float]) -> dict[str, Any]:
    own, floor = counts[runner], counts["aiohttp"]
    is_ours, row = runner != "aiohttp", dict[str, Any]({"": TITLES[runner]})
    for name, maximum in MAX_RATIOS.items():
        if name not in own:
            continue
        limit = MAX_INCREASE * totals[name] if is_ours and name in totals else None
        row[f"{name} kIr"] = Figure(own[name], "", maximum=None if limit is None else round(limit))
        row[f"{name} ÷ aiohttp"] = Figure(
            own[name] / floor[name], maximum=maximum if runner == "toolglot" else None
        )
    row["unreachable objects"] = Figure(own["unreachable"], "", maximum=MAX_UNREACHABLE if is_ours else None)
    row["waiting: objects"] = Figure(own["objects"], "", maximum=MAX_OBJECTS if is_ours else None)
    row["waiting: kB"] = Figure(own["kB"], "", maximum=MAX_MEMORY if is_ours else None)
    return row


def describe_environment() -> dict[str, str]:
    """Return what the number of instructions depends on, besides the code."""
    python = f"{platform.python_implementation()} {platform.python_version()}, {platform.python_compiler()}"
    return {"python": python, "cpu": _find_cpu(), **{name: version(name) for name in PACKAGES}}


def _find_cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return f"{platform.machine()} {name}".strip()


def read_kept() -> dict[str, Any]:
    """Return the totals that are kept in the repository, and where they were measured."""
    return json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}


def find_difference(here: dict[str, str], there: dict[str, str]) -> str:
    """Return why totals from there say nothing about here; "" if they do."""
    if not there:
        return "there are none"
    different = [
        f"{name} is {value}, not {there.get(name)}"
        for name, value in here.items()
        if value != there.get(name)
    ]
    return "; ".join(different)


def _run(
    address: str, runner: str, scenario: str, what: str, prefix: tuple[str, ...] = ()
) -> dict[str, float]:
    command = [*prefix, sys.executable, "-m", "bench.loop.counted", address, CHAT, runner, scenario, what]
    variables = {**environment(), "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=variables)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr[-1000:]}")
    return json.loads(done.stdout)


def _count_instructions(address: str, runner: str, scenario: str) -> float:
    """Return the kIr of a conversation of S3, or a turn of S4."""
    with tempfile.TemporaryDirectory() as directory:
        output = f"--callgrind-out-file={directory}/out"
        prefix = ("valgrind", "--tool=callgrind", "--dump-before=getloadavg", output)
        conversations = _run(address, runner, scenario, "instructions", prefix)["conversations"]
        lines = Path(directory, "out.2").read_text(encoding="utf-8").splitlines()
    total = next(int(line.partition(":")[2]) for line in lines if line.startswith("totals:"))
    units = ALL[scenario].turns if scenario == "S4" else 1
    return total / conversations / units / 1000
