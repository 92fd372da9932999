"""Attack everything, and print one table: `python -m tests.attack [--quick]`.

Exit code 1: something got through.

A million swap races through the tools, 900 kills, over 900 probes of the sandboxes, 22,600 odd histories of
conversations, 2,800 runs that are stopped, 5,500 saved runs that are damaged, 2,000 histories of runs that eight
threads answer, storms of misbehaving MCP servers, all tests that attack, and the hostile model of `tests/game`;
as root and as an ordinary user where both are possible. Takes over half an hour on two cores.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import ceil
from pathlib import Path
from subprocess import PIPE, run
from tempfile import TemporaryDirectory
from time import monotonic
from typing import get_args
from xml.etree import ElementTree

import msgspec

from toolglot.values.approvals import ApprovalMode

TESTS = Path(__file__).parents[1]
NOBODY = 65534
USERS = {"root": 0, "user": NOBODY} if os.getuid() == 0 else {"user": os.getuid()}
# Tries of each tool: a million together.
RACES = {
    "read": 300_000,
    "write": 120_000,
    "edit": 120_000,
    "glob": 100_000,
    "list_dir": 100_000,
    "patch": 80_000,
    "notebook_edit": 40_000,
    "read_many": 20_000,
    "ast_search": 20_000,
    "ast_rewrite": 20_000,
    "grep": 5_000,  # a process for each
}
WALK_RACES = dict.fromkeys(("read", "glob", "write", "edit"), 25_000)
CONTROL = 20_000
KILLS = 225  # of each of four scenarios
CORRUPTIONS, MUTATIONS = 4000, 1500  # of saved runs
OPEN_LOOPS = 2000  # histories of runs whose calls are answered from elsewhere
STORMS = 20  # rounds, with over 200 calls each
HISTORIES = {"ids": 20_000, "tools": 2_600}  # see `histories`
ATTACK_TESTS = (
    *("builtin/files", "builtin/shell", "builtin/web", "builtin/test_bad_input.py", "test_programs.py"),
    *(
        "builtin/search/test_grep.py",
        "config",
        "tools",
        "cli",
        "test_secrets.py",
        "test_redact.py",
        "simulator/test_server.py",
    ),
    "test_web_address.py",
)


class Row(msgspec.Struct):
    """What was tried, how often, and how often it got through."""

    name: str
    user: str
    tries: int
    leaks: int
    seconds: float = 0.0


def run_python(*arguments: str, path: tuple[str, ...] = ()) -> str:
    """Run a module; return what it prints. `path`: directories of tests whose modules it imports."""
    variables = (
        {**os.environ, "PYTHONPATH": os.pathsep.join(str(TESTS / name) for name in path)} if path else None
    )
    process = run(
        [sys.executable, *arguments], cwd=TESTS.parent, env=variables, stdout=PIPE, text=True, check=False
    )
    if process.returncode not in (0, 1) or not process.stdout:
        sys.exit(f"{' '.join(arguments)} ended with {process.returncode}")
    return process.stdout


def attack(user: str, module: str, *arguments: str) -> list[Row]:
    """Run a module of ours that prints rows, as this user."""
    begin = monotonic()
    words = ("-m", f"tests.attack.{module}", "--user", str(USERS[user]), *arguments)
    lines = run_python(*words, path=("builtin", "builtin/shell")).splitlines()
    seconds = (monotonic() - begin) / max(1, len(lines))
    return [
        msgspec.convert({**msgspec.json.decode(line), "user": user, "seconds": seconds}, Row)
        for line in lines
    ]


def race(user: str, tries: float, *arguments: str) -> list[Row]:
    return attack(user, "races", "--tries", str(ceil(tries)), *arguments)


def kill(user: str, kills: float) -> list[Row]:
    return attack(user, "kills", "--kills", str(ceil(kills)))


def damage(user: str, scale: float) -> list[Row]:
    counts = ("--corruptions", str(ceil(CORRUPTIONS * scale)), "--mutations", str(ceil(MUTATIONS * scale)))
    return attack(user, "runs", "--stride", str(ceil(0.2 / scale)), *counts)


def answer(user: str, histories: float) -> list[Row]:
    return attack(user, "open_loop", "--count", str(ceil(histories)))


def storm(rounds: float) -> list[Row]:
    return attack(next(iter(USERS)), "storms", "--rounds", str(ceil(rounds)))


def play_histories(user: str, histories: float, kind: str) -> list[Row]:
    return attack(user, "histories", f"--{kind}", str(ceil(histories)))


def plan(scale: float) -> Iterator[Callable[[], list[Row]]]:
    yield partial(damage, next(iter(USERS)), scale)
    yield partial(answer, next(iter(USERS)), OPEN_LOOPS * scale)
    yield partial(storm, STORMS * scale)
    yield from (
        partial(play_histories, next(iter(USERS)), count * scale, kind) for kind, count in HISTORIES.items()
    )
    for user in USERS:
        share = scale / len(USERS)
        yield partial(race, user, CONTROL * share, "control")
        yield from (partial(race, user, tries * share, tool) for tool, tries in RACES.items())
        yield from (partial(race, user, tries * share, "--walk", tool) for tool, tries in WALK_RACES.items())
        yield partial(kill, user, KILLS * share)
        yield from (partial(attack, user, "probes", level) for level in ("bwrap", "landlock"))


def run_tests() -> Row:
    begin = monotonic()
    with TemporaryDirectory() as directory:
        report = Path(directory, "report.xml")
        paths = [str(TESTS / name) for name in ATTACK_TESTS]
        words = (
            "-q",
            "--numprocesses=auto",
            "--dist=worksteal",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
        )
        output = run_python("-m", "pytest", *words, *paths)
        print(
            *(line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))),
            sep="\n",
            file=sys.stderr,
        )
        suite = next(ElementTree.parse(report).iter("testsuite")).attrib
    tries = int(suite["tests"]) - int(suite["skipped"])
    failed = int(suite["failures"]) + int(suite["errors"])
    return Row("tests that attack", next(iter(USERS)), tries, failed, monotonic() - begin)


def play(user: str, level: int, mode: str) -> Row:
    begin = monotonic()
    words = ("--level", str(level), "--user", user, "--approval-mode", mode)
    lines = run_python("-m", "tests.game", *words).splitlines()
    failed = sum(line.startswith("FAILED") for line in lines)
    if failed:  # with what happened
        print(*(line for line in lines if not line.startswith("held")), sep="\n", file=sys.stderr)
    tries = failed + sum(line.startswith("held") for line in lines)
    return Row(
        f"hostile model: {'bubblewrap' if level == 2 else 'Landlock'}, mode {mode}",
        user,
        tries,
        failed,
        monotonic() - begin,
    )


def play_games() -> Iterator[Row]:
    """Play all plans as each user, at each level of the sandbox, in each approval mode."""
    for mode in get_args(ApprovalMode):
        yield from (play(user, level, mode) for user in USERS for level in (2, 1))


def execute(scale: float, *, everything: bool) -> Iterator[Row]:
    def call(step: Callable[[], list[Row]]) -> list[Row]:
        return step()

    with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 2)) as executor:  # a race takes two processors
        for rows in executor.map(call, plan(scale)):
            yield from rows
    if everything:
        yield run_tests()
        yield from play_games()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a hundredth of everything; no tests, no game")
    quick = parser.parse_args().quick
    totals: dict[str, list[int]] = {}
    for row in execute(0.01 if quick else 1, everything=not quick):
        print(
            f"{row.name:42}{row.user:8}{row.tries:10,} tries{row.leaks:6,} got through{row.seconds:9.1f} s",
            flush=True,
        )
        total = totals.setdefault(
            row.name if row.name == "race: control" else row.name.partition(":")[0], [0, 0]
        )
        total[0], total[1] = total[0] + row.tries, total[1] + row.leaks
    print(f"\n{'attack':30}{'tries':>12}{'got through':>14}")
    for name, (tries, leaks) in totals.items():
        print(
            f"{name:30}{tries:12,}{leaks:14,}{'   (no tool: the race is real)' if name == 'race: control' else ''}"
        )
    sys.exit(any(leaks for name, (_, leaks) in totals.items() if name != "race: control"))


if __name__ == "__main__":
    main()
