"""Run MCP's official conformance suite (npm @modelcontextprotocol/conformance) against our client or our
server.

A requirement set names the scenarios of a revision of the specification; those that it runs without scoring
are extensions, or newer than the revision. Every message is also checked against the revision's JSON schema
by the suite itself."""

import asyncio
import re
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml
from tests.npm.packages import npm_package, npm_program

from toolglot.common.jsontext import loads

REVISIONS = ("2025-11-25", "2026-07-28")
_SUMMARY = re.compile(r"^[✓✗] (\S+): (\d+) passed, (\d+) failed", re.MULTILINE)
_TIME = re.compile(r"-\d{4}-\d\d-\d\dT[\d-]+Z$")


class Outcome(NamedTuple):
    """What the suite said about one scenario."""

    passed: int
    failed: int
    problems: tuple[str, ...]
    """Each failed check, with the suite's reason; what our side printed, if it failed."""

    @property
    def is_good(self) -> bool:
        return self.passed > 0 and self.failed == 0


class Report(NamedTuple):
    """What the suite said about all scenarios of a requirement set, for one side."""

    side: str
    revision: str
    required: dict[str, Outcome]
    not_scored: dict[str, Outcome]
    log: str

    @property
    def failures(self) -> dict[str, Outcome]:
        return {name: outcome for name, outcome in self.required.items() if not outcome.is_good}

    def __str__(self) -> str:
        """Return the counts, for the summary of the test run."""
        counts = [
            f"{sum(o.is_good for o in part.values())} of {len(part)}"
            for part in (self.required, self.not_scored)
        ]
        checks = sum(outcome.passed for outcome in self.required.values())
        return (
            f"MCP conformance {self.revision}, {self.side}: {counts[0]} required scenarios pass ({checks} "
            "checks), "
            f"and {counts[1]} that are not scored"
        )


async def run_conformance(
    side: Literal["client", "server"], revision: str, directory: Path, *words: str
) -> Report:
    """Run a requirement set against the client that `--command …` starts, or the server at `--url …`."""
    command = [*npm_program("conformance"), side, *words, "--requirements", revision, "-o", str(directory)]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=directory, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        log = (await process.communicate())[0].decode()
    finally:
        if process.returncode is None:
            process.kill()
    counts = {name: (int(passed), int(failed)) for name, passed, failed in _SUMMARY.findall(log)}
    outcomes = {
        name: Outcome(*counts.get(name, (0, 1)), problems)
        for name, problems in _read_problems(directory).items()
    }
    missing = Outcome(0, 1, ("the suite did not run it",))
    required, extra = read_requirements(side, revision)
    return Report(
        side,
        revision,
        {n: outcomes.get(n, missing) for n in required},
        {n: outcomes.get(n, missing) for n in extra},
        log,
    )


def read_requirements(side: str, revision: str) -> tuple[list[str], dict[str, str]]:
    """Return the scenarios that a revision requires of a side, and those that are run but not scored, with
    the reason.
    """
    file = npm_package("@modelcontextprotocol/conformance") / "requirements" / f"{revision}.yaml"
    listed: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return listed[side], {
        row["scenario"]: row["reason"] for row in listed["not_scored"] if row["leg"] == side
    }


def _read_problems(directory: Path) -> dict[str, tuple[str, ...]]:
    problems = dict[str, tuple[str, ...]]()
    for file in directory.rglob("checks.json"):
        name = _TIME.sub("", str(file.parent.relative_to(directory)))
        checks: Any = loads(file.read_bytes())
        failed = [
            f"{check['id']}: {check.get('errorMessage')}" for check in checks if check["status"] == "FAILURE"
        ]
        printed = [
            path.read_text()
            for path in (file.with_name("stdout.txt"), file.with_name("stderr.txt"))
            if path.is_file()
        ]
        problems[name.removeprefix("server-")] = (
            *failed,
            *(text[-2000:] for text in printed if failed and text),
        )
    return problems
