"""Batches: an object in a line, an answer in a line, in input order. A bad line is answered, named on stderr, and passed."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from toolglot.errors import MalformedData, ProviderError, ToolglotError, TruncatedStream
from toolglot.jsontext import dumps, loads_object

__all__ = ["error_record", "open_input", "process_lines", "read_input"]

Record = dict[str, Any]
ErrorFormatter = Callable[[Any, ToolglotError], Record]


def open_input(file: Path | None) -> BinaryIO:
    """The file, or stdin for None and `-`."""
    return sys.stdin.buffer if file is None or str(file) == "-" else file.open("rb")


def read_input(file: Path | None) -> bytes:
    """All of the file, or of stdin."""
    with open_input(file) as source:
        return source.read()


def error_record(id: Any, error: ToolglotError) -> Record:
    """An error as an answer."""
    retryable = isinstance(error, ProviderError) and error.retryable
    return {"id": id, "error": {"type": error.type, "message": str(error), "retryable": retryable}}


def process_lines(file: Path | None, handler: Callable[[Record], Record], format_error: ErrorFormatter = error_record) -> int:
    """Answers every line; 1 where one could not be read. `refuse`: how an error is said, with the id of its line."""
    failed = 0
    with open_input(file) as source:
        for number, line in enumerate(source, 1):
            if not line.strip():
                continue
            said, read = _process_line(line, handler, format_error)
            sys.stdout.buffer.write(dumps(said) + b"\n")
            if not read:
                failed = 1
                sys.stdout.buffer.flush()
                print(f"line {number}: {said['error']['message']}", file=sys.stderr)
    sys.stdout.buffer.flush()
    return failed


def _process_line(line: bytes, handler: Callable[[Record], Record], format_error: ErrorFormatter) -> tuple[Record, bool]:
    try:
        given = loads_object(line)
    except ValueError as e:
        return format_error(None, MalformedData(f"not a JSON object: {e}")), False
    try:
        return {"id": given.get("id"), **handler(given)}, True
    except ToolglotError as e:
        return format_error(given.get("id"), e), isinstance(e, ProviderError | TruncatedStream)


def required_fields(record: Record, **kinds: type | tuple[type, ...]) -> Iterator[Any]:
    """Fields of a line that must be there, of these types. Raises MalformedData."""
    for name, kind in kinds.items():
        if not isinstance(record.get(name), kind):
            wanted = kind.__name__ if isinstance(kind, type) else " or ".join(k.__name__ for k in kind)
            raise MalformedData(f"field {name!r} must be {wanted}, got {type(record.get(name)).__name__}")
        yield record[name]
