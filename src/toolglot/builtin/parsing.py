"""The process that parses code, from inside (`worker`) and from outside (`Parser`).

Law: it holds nothing but a text and may hang, crash or eat memory without harm.
"""

import re
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import msgspec

from toolglot.builtin.programs import Stopped, output, own_python, pieces
from toolglot.errors import ToolError

__all__ = ["VARIABLE", "Answer", "Lost", "Parser", "Span", "Task", "reason", "worker"]

FILE_SECONDS, CPU_SECONDS = 5.0, 120
_MEMORY = 2 * 1024**3
VARIABLE = re.compile(r"\$\$\$([A-Z_][A-Z0-9_]*)|\$\$?([A-Z_][A-Z0-9_]*)")


class Task(msgspec.Struct):
    """A text to search. No text: only the pattern is looked at."""

    language: str
    pattern: str
    text: str | None = None
    most: int = 0
    single: list[str] = []
    several: list[str] = []


class Span(msgspec.Struct, array_like=True):
    """Where a match is, and what its names took."""

    start: int
    end: int
    captures: dict[str, tuple[int, int]] = {}


class Answer(msgspec.Struct):
    """What was found. `more`: not all of it is told."""

    spans: list[Span] = []
    more: bool = False
    error: str = ""
    broken: bool = False
    """Parts of the pattern do not parse."""


def worker(source: IO[bytes] | None = None, sink: IO[bytes] | None = None) -> None:
    """The life of the process that parses: a task a line on stdin, an answer a line on stdout."""
    if source is None:
        _limit()
    answers = sink or sys.stdout.buffer
    for line in source or sys.stdin.buffer:
        task = msgspec.json.decode(line, type=Task)
        try:
            answer = _checked(task) if task.text is None else _matched(task, task.text)
        except (RuntimeError, ValueError) as e:
            answer = Answer(error=str(e) or type(e).__name__)
        answers.write(msgspec.json.encode(answer) + b"\n")
        answers.flush()


def _limit() -> None:
    """What a parser that has lost its way may take from the machine."""
    import resource

    for what, most in ((resource.RLIMIT_AS, _MEMORY), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_CPU, CPU_SECONDS)):
        with suppress(OSError, ValueError):  # a system that does not count this
            resource.setrlimit(what, (most, most))


def _matched(task: Task, text: str) -> Answer:
    from ast_grep_py import SgRoot

    root = SgRoot(text, task.language).root()
    found = root.find_all(pattern=task.pattern)
    if not found and task.language == "c" and (kind := _kind_in_c(task.pattern)):
        found = root.find_all(pattern={"context": _IN_C.format(task.pattern), "selector": kind, "strictness": "smart"})
    spans: list[Span] = []
    for node in found[: task.most]:
        captures: dict[str, tuple[int, int]] = {}
        for name in task.single:
            if (one := node.get_match(name)) is not None:
                captures[name] = (one.range().start.index, one.range().end.index)
        for name in task.several:
            if several := node.get_multiple_matches(name):
                captures[name] = (several[0].range().start.index, several[-1].range().end.index)
        spans.append(Span(node.range().start.index, node.range().end.index, captures))
    return Answer(spans, len(found) > task.most)


_IN_C = "void f() {{ {}; }}"


def _kind_in_c(pattern: str) -> str:
    """What an expression of C is inside of a function: outside of one a call reads as a type. "" where it is none."""
    from ast_grep_py import SgRoot

    found = SgRoot(_IN_C.format(VARIABLE.sub("A", pattern)), "c").root().find_all(kind="expression_statement")
    return found[0].children()[0].kind() if len(found) == 1 else ""


def _checked(task: Task) -> Answer:
    """Whether a pattern is one. The parser takes half a piece of code too, which then matches nothing."""
    from ast_grep_py import SgRoot

    SgRoot("", task.language).root().find(pattern=task.pattern)
    readings = [task.pattern, VARIABLE.sub("A", task.pattern), VARIABLE.sub("a", task.pattern)]
    whole = inside = False
    for reading in readings:
        node = SgRoot(reading, task.language).root()
        while len(children := node.children()) == 1:
            node = children[0]
        whole = whole or node.kind() != "ERROR"
        inside = inside or (node.kind() != "ERROR" and node.find(kind="ERROR") is None)
    if not whole:
        return Answer(error="it is not whole")
    return Answer(broken=not inside)


_REASONS = (
    ("Multiple AST nodes", "it is more than one piece of code; give one expression or statement"),
    ("Standalone multi", "a `$$$NAME` cannot stand alone; put code around it"),
    ("No AST root", "it holds no code"),
    ("it is not whole", "it is not a whole expression or statement"),
)


def reason(error: str) -> str:
    """What the parser says of a pattern, in our words."""
    last = error.strip().splitlines()[-1].strip() if error.strip() else error
    return next((said for sign, said in _REASONS if sign in error), last[:200])


class Lost(Exception):
    """The process ended, or did not answer in time."""


class Parser:
    """The process that parses, from outside."""

    def __init__(self, wait: Callable[[], bool]) -> None:
        spec = find_spec("ast_grep_py")
        if spec is None or spec.origin is None:
            raise ToolError("code cannot be parsed here: install toolglot[ast] (pip install 'toolglot[ast]')", kind="execution")
        folder = str(Path(spec.origin).parents[1])
        self._process = own_python("toolglot.builtin.parsing", subprocess.PIPE, folders=[folder])
        self._until = 0.0
        said = output(self._process, lambda _: time.monotonic() > self._until or wait(), most=sys.maxsize)
        self._answers = pieces(said, b"\n")

    def ask(self, task: Task) -> Answer:
        """The answer to a task. Raises Lost; ToolError, where nobody waits any more."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode(task) + b"\n")
            self._process.stdin.flush()
            self._until = time.monotonic() + FILE_SECONDS
            return msgspec.json.decode(next(self._answers), type=Answer)
        except (OSError, Stopped, StopIteration, msgspec.DecodeError):
            raise Lost from None

    def close(self) -> None:
        """Ends the process, whatever it does."""
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # what was never read
                if stream:
                    stream.close()
        self._process.wait()
