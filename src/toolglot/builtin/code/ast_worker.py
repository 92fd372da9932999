"""The process that parses code: its inside (`worker`, `serve`) and its outside (`ParserProcess`).

Parsers are native code that reads hostile input: in a process of its own, one may hang, crash or eat memory
without harm.
"""

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import IO

import msgspec

from toolglot.confine.child_process import ProcessStopped, read_output, split_records, start_python_worker
from toolglot.confine.programs import find_package
from toolglot.confine.roots import Root
from toolglot.errors import ToolError

__all__ = [
    "METAVARIABLE",
    "NO_PARSER",
    "ParseAnswer",
    "ParseTask",
    "ParserFailed",
    "ParserProcess",
    "Span",
    "find_parser",
    "serve",
    "worker",
]

FILE_TIMEOUT, CPU_SECONDS = 5.0, 120
_MEMORY_LIMIT = 2 * 1024**3
METAVARIABLE = re.compile(r"\$\$\$([A-Z_][A-Z0-9_]*)|\$\$?([A-Z_][A-Z0-9_]*)")
_C_WRAPPER = "void f() {{ {}; }}"
_ERROR_TEXTS = (
    ("Multiple AST nodes", "it is more than one piece of code; give one expression or statement"),
    ("Standalone multi", "a `$$$NAME` cannot stand alone; put code around it"),
    ("No AST root", "it contains no code"),
)


class ParseTask(msgspec.Struct):
    """A text to search; without a text, only the pattern is checked."""

    language: str
    pattern: str
    text: str | None = None
    limit: int = 0
    single_names: list[str] = []
    multi_names: list[str] = []


class Span(msgspec.Struct, array_like=True):
    """A match, and what its metavariables captured, as character offsets."""

    start: int
    end: int
    captures: dict[str, tuple[int, int]] = {}


class ParseAnswer(msgspec.Struct):
    """The answer to a task."""

    spans: list[Span] = []
    is_truncated: bool = False
    error: str = ""
    has_errors: bool = False
    """Part of the pattern does not parse."""


# ---- inside of the process


def worker() -> None:
    """Run in the process: answer the tasks on stdin. `start_python_worker` calls it by this name."""
    _limit_resources()
    serve(sys.stdin.buffer, sys.stdout.buffer)


def _limit_resources() -> None:
    """Limit the memory and the processor time of this process, and let it leave no core dump."""
    import resource

    limits = {resource.RLIMIT_AS: _MEMORY_LIMIT, resource.RLIMIT_CORE: 0, resource.RLIMIT_CPU: CPU_SECONDS}
    for name, limit in limits.items():
        with suppress(OSError, ValueError):  # a system without this limit
            resource.setrlimit(name, (limit, limit))


def serve(source: IO[bytes], sink: IO[bytes]) -> None:
    """Answer tasks until the source ends: one line of JSON each way."""
    for line in source:
        task = msgspec.json.decode(line, type=ParseTask)
        try:
            answer = _check_pattern(task) if task.text is None else _find_matches(task, task.text)
        except (RuntimeError, ValueError) as e:
            error = str(e).strip() or type(e).__name__
            answer = ParseAnswer(
                error=next(
                    (text for sign, text in _ERROR_TEXTS if sign in error),
                    error.splitlines()[-1].strip()[:200],
                )
            )
        sink.write(msgspec.json.encode(answer) + b"\n")
        sink.flush()


def _find_matches(task: ParseTask, text: str) -> ParseAnswer:
    from ast_grep_py import SgRoot

    root = SgRoot(text, task.language).root()
    nodes = root.find_all(pattern=task.pattern)
    # Outside of a function, C reads a call as a type. Inside of one it is a statement, and what it consists
    # of is the selector. To find its kind, metavariables are replaced by a name, which C can read.
    if not nodes and task.language == "c":
        source = _C_WRAPPER.format(METAVARIABLE.sub("A", task.pattern))
        statements = SgRoot(source, "c").root().find_all(kind="expression_statement")
        if len(statements) == 1:
            kind = statements[0].children()[0].kind()
            context = _C_WRAPPER.format(task.pattern)
            nodes = root.find_all(pattern={"context": context, "selector": kind, "strictness": "smart"})
    spans: list[Span] = []
    for node in nodes[: task.limit]:
        captures: dict[str, tuple[int, int]] = {}
        for name in task.single_names:
            if (capture := node.get_match(name)) is not None:
                captures[name] = (capture.range().start.index, capture.range().end.index)
        for name in task.multi_names:
            if parts := node.get_multiple_matches(name):
                captures[name] = (parts[0].range().start.index, parts[-1].range().end.index)
        spans.append(Span(node.range().start.index, node.range().end.index, captures))
    return ParseAnswer(spans, len(nodes) > task.limit)


def _check_pattern(task: ParseTask) -> ParseAnswer:
    """Check that a pattern parses. The parser also accepts incomplete code, which then matches nothing."""
    from ast_grep_py import SgRoot

    # only for its errors: a pattern that cannot be read raises
    SgRoot("", task.language).root().find(pattern=task.pattern)
    is_whole = is_clean = False
    for reading in (task.pattern, METAVARIABLE.sub("A", task.pattern), METAVARIABLE.sub("a", task.pattern)):
        node = SgRoot(reading, task.language).root()
        while len(children := node.children()) == 1:
            node = children[0]
        is_whole = is_whole or node.kind() != "ERROR"
        is_clean = is_clean or (node.kind() != "ERROR" and node.find(kind="ERROR") is None)
    if not is_whole:
        return ParseAnswer(error="it is not a whole expression or statement")
    return ParseAnswer(has_errors=not is_clean)


# ---- outside of the process


NO_PARSER = "code cannot be parsed: run `pip install 'toolglot[ast]'`"


def find_parser(roots: Iterable[Root]) -> str:
    """Return the directory that has the parser's package; "" if it is not installed outside the roots."""
    return find_package("ast_grep_py", roots)


class ParserFailed(Exception):
    """The process ended, or did not answer in time."""


class ParserProcess:
    """A running worker. Raises ToolError without ast-grep."""

    def __init__(self, should_stop: Callable[[], bool], roots: Iterable[Root]) -> None:
        if not (directory := find_parser(roots)):
            raise ToolError(NO_PARSER, code="missing_program")
        self._process = start_python_worker(
            "toolglot.builtin.code.ast_worker", subprocess.PIPE, search_path=[directory]
        )
        self._deadline = 0.0
        output = read_output(
            self._process, lambda _: time.monotonic() > self._deadline or should_stop(), limit=sys.maxsize
        )
        self._answers = split_records(output, b"\n")

    def run(self, task: ParseTask) -> ParseAnswer:
        """Return the answer to a task. Raises ParserFailed, and ToolError when the call was cancelled."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode(task) + b"\n")
            self._process.stdin.flush()
            self._deadline = time.monotonic() + FILE_TIMEOUT
            return msgspec.json.decode(next(self._answers), type=ParseAnswer)
        except (OSError, ProcessStopped, StopIteration, msgspec.DecodeError):
            raise ParserFailed from None

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # data that was never read
                if stream:
                    stream.close()
        self._process.wait()
