"""The processes of a run: the server on one core, the runners on another, one sample at a time."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from select import select
from typing import Any

from bench.loop.replies import expected_outcome
from bench.loop.scenarios import ALL

ROOT = Path(__file__).resolve().parent.parent.parent
SILENCE_TIMEOUT = 240
"""Seconds without a word, after which a runner is given up."""
DROPPED_VARIABLES = (
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONPATH",
    "PYTHONHOME",
    "ALL_PROXY",
    "HTTP_PROXY",
    "HTTPS_PROXY",
)


def environment() -> dict[str, str]:
    """No proxies, and byte code may be written, whatever the environment says."""
    return {name: value for name, value in os.environ.items() if name.upper() not in DROPPED_VARIABLES}


def _cores() -> tuple[int, int] | None:
    """One for the server, one for the rest; None where that cannot be said or there is only one."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    before = os.sched_getaffinity(0)
    # the whole of what is allowed: the bench may have been pinned
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, before)
    return (allowed[-1], allowed[0]) if len(allowed) > 1 else None


CORES = _cores()


def start_process(arguments: list[str], log: Any = None) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        arguments, stdin=pipe, stdout=pipe, stderr=log, text=True, cwd=ROOT, env=environment()
    )


def pin(process: int, *, server: bool = False) -> None:
    """All threads of a process stay on their core, and so will those that they start."""
    if CORES:
        for thread in os.listdir(f"/proc/{process}/task"):
            os.sched_setaffinity(int(thread), {CORES[0 if server else 1]})


@contextmanager
def run_server() -> Iterator[str]:
    """The address of a server that runs meanwhile."""
    process = start_process([sys.executable, "-m", "bench.loop.server"])
    assert process.stdout
    try:
        port = int(process.stdout.readline())
        pin(process.pid, server=True)
        yield f"http://127.0.0.1:{port}"
    finally:
        _stop_process(process)


def _stop_process(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    with suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Worker:
    """A runner's process. A scenario that fails once is not asked for again."""

    def __init__(self, command: list[str], address: str, wire: str) -> None:
        python, module, *extra = command
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self._process = start_process([python, "-m", module, address, wire, *extra], self._log)
        self._failures: dict[str, str] = {}

    def wait(self) -> None:
        """Wait until everything is imported: nothing is measured meanwhile."""
        if self._read_line() == "ready\n":
            pin(self._process.pid)

    def sample(self, scenario: str) -> dict[str, Any]:
        """The figures of one sample, or {"error": …}."""
        if scenario in self._failures:
            return {"error": self._failures[scenario]}
        stdin = self._process.stdin
        assert stdin
        try:
            stdin.write(
                json.dumps({"scenario": scenario, "expected": expected_outcome(ALL[scenario])}) + "\n"
            )
            stdin.flush()
            answer = json.loads(self._read_line())
        except (OSError, ValueError):
            answer = {"error": f"the process has ended: {self._last_log_line()}"}
        if "error" in answer:
            self._failures[scenario] = answer["error"]
        return answer

    def _read_line(self) -> str:
        stdout = self._process.stdout
        assert stdout
        if not select([stdout], [], [], SILENCE_TIMEOUT)[0]:
            self._process.kill()
        return stdout.readline()

    def _last_log_line(self) -> str:
        self._log.seek(0)
        return (self._log.read().strip().splitlines() or ["nothing was said"])[-1][:200]

    def close(self) -> None:
        _stop_process(self._process)
        self._log.close()
