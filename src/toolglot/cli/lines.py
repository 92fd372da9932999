"""Batches: an object in a line, an answer in a line, in input order. A bad line is answered, named on stderr, and passed."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from toolglot.errors import MalformedData, ProviderError, ToolglotError, TruncatedStream
from toolglot.jsontext import dumps, loads_object

__all__ = ["answer_lines", "error_answer", "open_input", "read_input"]

Answer = dict[str, Any]
Refuse = Callable[[Any, ToolglotError], Answer]


def open_input(file: Path | None) -> BinaryIO:
    """The file, or stdin for None and `-`."""
    return sys.stdin.buffer if file is None or str(file) == "-" else file.open("rb")


def read_input(file: Path | None) -> bytes:
    """All of the file, or of stdin."""
    with open_input(file) as source:
        return source.read()


def error_answer(id: Any, error: ToolglotError) -> Answer:
    """An error as an answer."""
    retryable = isinstance(error, ProviderError) and error.retryable
    return {"id": id, "error": {"type": error.type, "message": str(error), "retryable": retryable}}


def answer_lines(file: Path | None, answer: Callable[[Answer], Answer], refuse: Refuse = error_answer) -> int:
    """Answers every line; 1 where one could not be read. `refuse`: how an error is said, with the id of its line."""
    failed = 0
    with open_input(file) as source:
        for number, line in enumerate(source, 1):
            if not line.strip():
                continue
            said, read = _answered(line, answer, refuse)
            sys.stdout.buffer.write(dumps(said) + b"\n")
            if not read:
                failed = 1
                sys.stdout.buffer.flush()
                print(f"line {number}: {said['error']['message']}", file=sys.stderr)
    sys.stdout.buffer.flush()
    return failed


def _answered(line: bytes, answer: Callable[[Answer], Answer], refuse: Refuse) -> tuple[Answer, bool]:
    try:
        given = loads_object(line)
    except ValueError as e:
        return refuse(None, MalformedData(f"not a JSON object: {e}")), False
    try:
        return {"id": given.get("id"), **answer(given)}, True
    except ToolglotError as e:
        return refuse(given.get("id"), e), isinstance(e, ProviderError | TruncatedStream)


def fields(given: Answer, **kinds: type | tuple[type, ...]) -> Iterator[Any]:
    """Fields of a line that must be there, of these types. Raises MalformedData."""
    for name, kind in kinds.items():
        if not isinstance(given.get(name), kind):
            wanted = kind.__name__ if isinstance(kind, type) else " or ".join(k.__name__ for k in kind)
            raise MalformedData(f"field {name!r} must be {wanted}, got {type(given.get(name)).__name__}")
        yield given[name]
