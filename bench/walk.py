"""What a reader of one streamed turn walks through: functions, files, depth, and files that call each other.

The turn has one call of a built-in tool, under Claude's names, on the simulator. It is the second of its
conversation, so that what is made once does not count. The frames of the simulator, of comprehensions and of
other threads are left out."""

import asyncio
import sys
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import toolglot
from bench.measure import Figure, Table
from toolglot import Agent, RunDone, builtins

__all__ = ["Walk", "walk_table", "walk_turn"]

PACKAGE = Path(toolglot.__file__).parent
MODEL = "simulator:anthropic"
COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}
MAX_FILES = 63
"""Fewer than before tools had one seam."""


class Walk:
    """Follows the calls of one thread."""

    def __init__(self) -> None:
        self.calls: Counter[CodeType] = Counter()
        self.file_calls: Counter[tuple[str, str]] = Counter()
        """How often a function of one file called one of another."""
        self.depth = 0

    def __enter__(self) -> "Walk":
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    @property
    def files(self) -> list[str]:
        """The files of the functions that were called, within the package."""
        return sorted({_find_file(code) for code in self.calls})

    @property
    def mutual_files(self) -> list[tuple[str, str]]:
        """Pairs of files that call each other."""
        return sorted((a, b) for a, b in self.file_calls if a < b and (b, a) in self.file_calls)

    def _see(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not _is_ours(frame.f_code):
            return
        chain = [frame.f_code]
        caller = frame.f_back
        while caller is not None:
            if _is_ours(caller.f_code):
                chain.append(caller.f_code)
            caller = caller.f_back
        files = [_find_file(code) for code in chain]
        if any(file.startswith("simulator/") for file in files):
            return
        self.calls[frame.f_code] += 1
        self.depth = max(self.depth, len(chain))
        if len(files) > 1 and files[0] != files[1]:
            self.file_calls[files[1], files[0]] += 1


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(str(PACKAGE)) and code.co_name not in COMPREHENSIONS


def _find_file(code: CodeType) -> str:
    return Path(code.co_filename).relative_to(PACKAGE).as_posix()


async def walk_turn(directory: Path) -> Walk:
    """Walk through a turn in which a file of the directory is read."""
    file = directory / "notes.txt"
    file.write_text("one\ntwo\n")
    walk = Walk()
    prompt = f'call Read {{"file_path": "{file}"}}'
    with closing(builtins(directory)) as kit:
        async with Agent(MODEL, tools=kit.tools) as agent:
            await _read_stream(agent, prompt)
            with walk:
                await _read_stream(agent, prompt)
    return walk


async def _read_stream(agent: Agent[None, str], prompt: str) -> None:
    async for event in agent.stream(prompt):
        if isinstance(event, RunDone):
            [outcome] = event.result.outcomes
            if outcome.result.is_error:
                raise AssertionError(f"the call failed: {outcome.result}")


def walk_table(*, quick: bool) -> Table:
    """A streamed turn, as a reader would follow it."""
    with tempfile.TemporaryDirectory() as directory:
        walk = asyncio.run(walk_turn(Path(directory)))
    row = {
        "": "one streamed turn with one call",
        "functions": len(walk.calls),
        "files": Figure(len(walk.files), "", maximum=MAX_FILES),
        "calls": walk.calls.total(),
        "depth": walk.depth,
        "pairs of files that call each other": len(walk.mutual_files),
    }
    return Table(
        "The walk through one turn", "Functions of toolglot that run, without those of the simulator.", [row]
    )
