"""Runs the programs of a comparison, each in a process and a directory of its own, with a simulator each."""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.comparison.definition import (
    RIGHT_KEY,
    Answer,
    Comparison,
    LibraryResults,
    Mistake,
    Results,
    count_lines,
    find_version,
)
from toolglot.simulator.core import SimulatedResponse, Simulator
from toolglot.simulator.server import serve

WATCHED = Path(__file__).resolve().parent / "watched_program.py"
TIMEOUT = 120.0  # seconds for a program
MAX_LENGTH = 200  # characters of a message
URL = "http://127.0.0.1:8484"  # instead of the port that was free
_NO_SETTINGS = {"messages", "model", "tools", "stream", "stream_options"}  # of a request
_STRICT = {"typeCheckingMode": "strict", "pythonVersion": "3.11"}


class WatchedSimulator(Simulator):
    """What `toolglot simulate` serves, with one right key, and with a memory of what it was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[dict[str, Any]] = []

    def handle(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, *, connection: object = None
    ) -> SimulatedResponse:
        self.requests.append(json.loads(body))
        if headers.get("authorization") != f"Bearer {RIGHT_KEY}":
            headers = {**headers, "x-simulate": "unauthorized"}
        return super().handle(method, path, headers, body, connection=connection)


def compare(comparison: Comparison, libraries: Collection[str]) -> Results:
    """Run the programs of these libraries, as they are and with each mistake."""
    variants = {
        (library, mistake): comparison.read_program(library, mistake)
        for library in libraries
        for mistake in (None, *comparison.mistakes)
    }
    answers = asyncio.run(_run_all(comparison, variants))
    check_types(variants, answers)
    for (library, mistake), answer in answers.items():
        answer.change = mistake.edits.get(library) if mistake else None
    return Results(
        python=".".join(map(str, sys.version_info[:2])),
        pyright=version("pyright"),
        mypy=version("mypy"),
        titles={mistake.id: mistake.title for mistake in comparison.mistakes},
        libraries={
            library: LibraryResults(
                version=find_version(library) or "",
                lines=count_lines(comparison.read_program(library)),
                right=answers[library, None],
                mistakes={mistake.id: answers[library, mistake] for mistake in comparison.mistakes},
            )
            for library in libraries
        },
    )


Variant = tuple[str, Mistake | None]


async def _run_all(comparison: Comparison, variants: Mapping[Variant, str]) -> dict[Variant, Answer]:
    free = asyncio.Semaphore(2)

    async def run_one(variant: Variant) -> tuple[Variant, Answer]:
        _, mistake = variant
        key, starts = mistake.key if mistake else RIGHT_KEY, comparison.list_starts(mistake)
        async with free:
            return variant, await run_program(variants[variant], key, *starts)

    return dict(await asyncio.gather(*map(run_one, variants)))


async def run_program(
    source: str, key: str, *starts: str, simulator: WatchedSimulator | None = None
) -> Answer:
    """Run a program against a simulator of its own, once for each of `starts`, which is what the person types.

    All starts are in one directory: what a program keeps between them is in its files.
    """
    simulator = simulator or WatchedSimulator()
    printed: list[str] = []
    logged = raised = ""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        program, report = directory / "program.py", directory / "report.txt"
        program.write_text(source, encoding="utf-8")
        async with serve(simulator) as url:
            environment = {
                "MODEL_URL": f"{url}/v1",
                "MODEL_KEY": key,
                "NO_PROXY": "127.0.0.1",
                "PYTHONHASHSEED": "0",  # some messages contain sets
                "XDG_DATA_HOME": str(directory / "data"),  # with the key that signs saved runs
            }
            for typed in starts:
                out, err = await _run_once(program, report, environment, typed)
                printed += out.splitlines()
                logged = logged or err
                if report.exists():
                    raised = report.read_text(encoding="utf-8")
                    break
    clean = {url: URL, f"{directory}{os.sep}": ""}
    return Answer(
        raised=shorten(raised, clean),
        told=shorten(_find_first_result(simulator.requests), clean),
        logged=shorten(logged, clean),
        printed=tuple(shorten(line, clean) for line in printed),
        sent=tuple(len(request["messages"]) for request in simulator.requests),
        settings=tuple(sorted(set(simulator.requests[0]) - _NO_SETTINGS)) if simulator.requests else (),
    )


async def _run_once(program: Path, report: Path, environment: dict[str, str], typed: str) -> tuple[str, str]:
    """Run a program in its directory; return what it wrote to stdout and to stderr."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, WATCHED, program, report),
        cwd=program.parent,
        env=_clean_environment() | environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(TIMEOUT):
            out, err = await process.communicate(typed.encode())
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    return out.decode(), err.decode()


def _clean_environment() -> dict[str, str]:
    """This process's, without keys and addresses of providers and settings of toolglot."""
    secret = re.compile(r"(OPENAI|TOOLGLOT|PYDANTIC|LOGFIRE|.*PROXY$|.*_API_KEY$)", re.IGNORECASE)
    return {name: value for name, value in os.environ.items() if not secret.match(name)}


def _find_first_result(requests: list[dict[str, Any]]) -> str:
    """The first tool result that the model was sent."""
    for request in requests:
        for message in request["messages"]:
            if message["role"] == "tool":
                return str(message["content"])
    return ""


def shorten(text: str, clean: Mapping[str, str]) -> str:
    """The first line, without what differs from run to run, and at most 200 characters of it."""
    for found, replacement in clean.items():
        text = text.replace(found, replacement)
    line = text.strip().partition("\n")[0]
    return line if len(line) <= MAX_LENGTH else line[: MAX_LENGTH - 1] + "…"


def check_types(variants: Mapping[Variant, str], answers: Mapping[Variant, Answer]) -> None:
    """Write down what the strict modes of pyright and mypy say first about each program."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name).resolve()
        by_file: dict[str, Answer] = {}
        for number, (variant, source) in enumerate(variants.items()):
            path = directory / f"program_{number}.py"
            path.write_text(source, encoding="utf-8")
            by_file[path.name] = answers[variant]
        (directory / "pyrightconfig.json").write_text(json.dumps(_STRICT), encoding="utf-8")
        found = _run_checker("pyright", "--outputjson", "--pythonpath", sys.executable, directory=directory)
        for entry in json.loads(found)["generalDiagnostics"]:
            answer = by_file[Path(entry["file"]).name]
            if entry["severity"] == "error":
                answer.pyright = answer.pyright or shorten(entry["message"], {})
        found = _run_checker("mypy", "--strict", "--output=json", *by_file, directory=directory)
        for line in filter(None, found.splitlines()):  # without errors, a blank line
            entry = json.loads(line)
            answer = by_file[Path(entry["file"]).name]
            if entry["severity"] == "error":
                answer.mypy = answer.mypy or shorten(entry["message"], {})


def _run_checker(*command: str, directory: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=directory, capture_output=True, text=True, encoding="utf-8"
    )
    if done.returncode not in (0, 1):  # 1: there are errors
        raise RuntimeError(f"{command[0]}: {done.stdout}{done.stderr}")
    return done.stdout
