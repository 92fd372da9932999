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

from toolglot.builtin.child_process import ProcessStopped, read_output, split_records, start_python_worker
from toolglot.errors import ToolError

__all__ = ["METAVARIABLE", "ParseAnswer", "ParseTask", "ParserFailed", "ParserProcess", "Span", "explain_error", "worker"]

FILE_TIMEOUT, CPU_SECONDS = 5.0, 120
_MEMORY_LIMIT = 2 * 1024**3
METAVARIABLE = re.compile(r"\$\$\$([A-Z_][A-Z0-9_]*)|\$\$?([A-Z_][A-Z0-9_]*)")


class ParseTask(msgspec.Struct):
    """A text to search. No text: only the pattern is looked at."""

    language: str
    pattern: str
    text: str | None = None
    limit: int = 0
    single: list[str] = []
    several: list[str] = []


class Span(msgspec.Struct, array_like=True):
    """Where a match is, and what its names took."""

    start: int
    end: int
    captures: dict[str, tuple[int, int]] = {}


class ParseAnswer(msgspec.Struct):
    """What was found. `more`: not all of it is told."""

    spans: list[Span] = []
    is_truncated: bool = False
    error: str = ""
    has_errors: bool = False
    """Parts of the pattern do not parse."""


def worker(source: IO[bytes] | None = None, sink: IO[bytes] | None = None) -> None:
    """The life of the process that parses: a task a line on stdin, an answer a line on stdout."""
    if source is None:
        _set_limits()
    answers = sink or sys.stdout.buffer
    for line in source or sys.stdin.buffer:
        task = msgspec.json.decode(line, type=ParseTask)
        try:
            answer = _check_pattern(task) if task.text is None else _find_matches(task, task.text)
        except (RuntimeError, ValueError) as e:
            answer = ParseAnswer(error=str(e) or type(e).__name__)
        answers.write(msgspec.json.encode(answer) + b"\n")
        answers.flush()


def _set_limits() -> None:
    """What a parser that has lost its way may take from the machine."""
    import resource

    for what, most in ((resource.RLIMIT_AS, _MEMORY_LIMIT), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_CPU, CPU_SECONDS)):
        with suppress(OSError, ValueError):  # a system that does not count this
            resource.setrlimit(what, (most, most))


def _find_matches(task: ParseTask, text: str) -> ParseAnswer:
    from ast_grep_py import SgRoot

    root = SgRoot(text, task.language).root()
    found = root.find_all(pattern=task.pattern)
    if not found and task.language == "c" and (kind := _c_expression_kind(task.pattern)):
        found = root.find_all(pattern={"context": _C_WRAPPER.format(task.pattern), "selector": kind, "strictness": "smart"})
    spans: list[Span] = []
    for node in found[: task.limit]:
        captures: dict[str, tuple[int, int]] = {}
        for name in task.single:
            if (one := node.get_match(name)) is not None:
                captures[name] = (one.range().start.index, one.range().end.index)
        for name in task.several:
            if several := node.get_multiple_matches(name):
                captures[name] = (several[0].range().start.index, several[-1].range().end.index)
        spans.append(Span(node.range().start.index, node.range().end.index, captures))
    return ParseAnswer(spans, len(found) > task.limit)


_C_WRAPPER = "void f() {{ {}; }}"


def _c_expression_kind(pattern: str) -> str:
    """What an expression of C is inside of a function: outside of one a call reads as a type. "" where it is none."""
    from ast_grep_py import SgRoot

    found = SgRoot(_C_WRAPPER.format(METAVARIABLE.sub("A", pattern)), "c").root().find_all(kind="expression_statement")
    return found[0].children()[0].kind() if len(found) == 1 else ""


def _check_pattern(task: ParseTask) -> ParseAnswer:
    """Whether a pattern is one. The parser takes half a piece of code too, which then matches nothing."""
    from ast_grep_py import SgRoot

    SgRoot("", task.language).root().find(pattern=task.pattern)
    readings = [task.pattern, METAVARIABLE.sub("A", task.pattern), METAVARIABLE.sub("a", task.pattern)]
    whole = inside = False
    for reading in readings:
        node = SgRoot(reading, task.language).root()
        while len(children := node.children()) == 1:
            node = children[0]
        whole = whole or node.kind() != "ERROR"
        inside = inside or (node.kind() != "ERROR" and node.find(kind="ERROR") is None)
    if not whole:
        return ParseAnswer(error="it is not whole")
    return ParseAnswer(has_errors=not inside)


_ERROR_TEXTS = (
    ("Multiple AST nodes", "it is more than one piece of code; give one expression or statement"),
    ("Standalone multi", "a `$$$NAME` cannot stand alone; put code around it"),
    ("No AST root", "it holds no code"),
    ("it is not whole", "it is not a whole expression or statement"),
)


def explain_error(error: str) -> str:
    """What the parser says of a pattern, in our words."""
    last = error.strip().splitlines()[-1].strip() if error.strip() else error
    return next((said for sign, said in _ERROR_TEXTS if sign in error), last[:200])


class ParserFailed(Exception):
    """The process ended, or did not answer in time."""


class ParserProcess:
    """The process that parses, from outside."""

    def __init__(self, should_stop: Callable[[], bool]) -> None:
        spec = find_spec("ast_grep_py")
        if spec is None or spec.origin is None:
            raise ToolError("code cannot be parsed here: install toolglot[ast] (pip install 'toolglot[ast]')", kind="execution")
        folder = str(Path(spec.origin).parents[1])
        self._process = start_python_worker("toolglot.builtin.code.ast_worker", subprocess.PIPE, search_path=[folder])
        self._deadline = 0.0
        said = read_output(self._process, lambda _: time.monotonic() > self._deadline or should_stop(), limit=sys.maxsize)
        self._answers = split_records(said, b"\n")

    def run(self, task: ParseTask) -> ParseAnswer:
        """The answer to a task. Raises Lost; ToolError, where nobody waits any more."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode(task) + b"\n")
            self._process.stdin.flush()
            self._deadline = time.monotonic() + FILE_TIMEOUT
            return msgspec.json.decode(next(self._answers), type=ParseAnswer)
        except (OSError, ProcessStopped, StopIteration, msgspec.DecodeError):
            raise ParserFailed from None

    def close(self) -> None:
        """Ends the process, whatever it does."""
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # what was never read
                if stream:
                    stream.close()
        self._process.wait()
