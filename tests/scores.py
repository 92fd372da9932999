"""Prints the independent scores over the recordings, where those are present.

Exit 1 where anything is not as it should be.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from toolglot.facades.catalog import find_facade

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
SCORE, RESULTS = SHARED / "referee" / "score.py", SHARED / "facades" / "results"
TOOLGLOT = Path(sys.executable).parent / "toolglot"
REQUIRED_SHARE = 0.95
"""Of the recorded calls, how many must be answered like the program that was recorded."""


def start(*arguments: object) -> "subprocess.Popen[str]":
    """Starts a score."""
    env = {**os.environ, "TOOLGLOT": str(TOOLGLOT)}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8"
    )


def print_results(processes: dict[str, "subprocess.Popen[str]"], cases: dict[str, dict[str, str]]) -> bool:
    """Prints how many calls are answered like the real programs; tells whether that is enough, and the others
    are explained.
    """
    alike = total = 0
    unexplained: list[str] = []
    for run, process in processes.items():
        output, explained = process.communicate()[0], find_facade(cases[run]["facade"]).differences
        if (match := re.search(r"real programs': (\d+)/(\d+)", output)) is None:
            print(output)
            return False
        alike, total = alike + int(match[1]), total + int(match[2])
        misses = re.findall(rf"^  {re.escape(run)} (\S+) (\S+) ", output, re.MULTILINE)
        unexplained += [f"{run} {call} ({tool})" for call, tool in misses if tool not in explained]
        print(f"results of {cases[run]['program']} ({run}): {match[1]}/{match[2]} alike")
    print(
        f"results: {alike}/{total} alike; without a reason in Facade.differences: "
        f"{', '.join(unexplained) or 'none'}"
    )
    return alike >= REQUIRED_SHARE * total and not unexplained


def main() -> int:
    """Runs the scores."""
    if not SCORE.exists():
        print("scores: no recordings here (../shared is absent); the tests above cover the same rules")
        return 0
    wires = [start(SCORE, "decode"), start(SCORE, "convert", "--over-time")]
    cases: dict[str, dict[str, str]] = (
        json.loads((RESULTS / "cases.json").read_bytes()) if RESULTS.exists() else {}
    )
    results = {run: start(RESULTS / "score.py", TOOLGLOT, run, "-v") for run in cases}
    for process in wires:
        print(process.communicate()[0], end="", flush=True)
    is_good = print_results(results, cases) if results else True
    return int(any(process.returncode for process in wires) or not is_good)


if __name__ == "__main__":
    sys.exit(main())
