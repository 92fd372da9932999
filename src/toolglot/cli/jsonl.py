"""Process batches: one JSON object per input line, one per output line, in the same order.

A line that cannot be processed gets an error record, is reported on stderr, and does not stop the batch.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from toolglot.errors import MalformedData, ProviderError, ToolglotError, TruncatedStream
from toolglot.jsontext import dumps, loads_object

__all__ = ["Record", "error_record", "open_input", "process_lines", "read_input", "required_fields"]

Record = dict[str, Any]
ErrorFormatter = Callable[[Any, ToolglotError], Record]


def open_input(file: Path | None) -> BinaryIO:
    """Open a file, or stdin for None and `-`."""
    return sys.stdin.buffer if file is None or str(file) == "-" else file.open("rb")


def read_input(file: Path | None) -> bytes:
    """Read a file, or stdin for None and `-`."""
    with open_input(file) as source:
        return source.read()


def error_record(id: Any, error: ToolglotError) -> Record:
    """Build the output record for an error."""
    retryable = isinstance(error, ProviderError) and error.retryable
    return {"id": id, "error": {"type": error.type, "message": str(error), "retryable": retryable}}


def process_lines(file: Path | None, handler: Callable[[Record], Record], format_error: ErrorFormatter = error_record) -> int:
    """Process every line; return 1 if a line could not be read.

    `format_error` builds the record of an error from the id of its line.
    """
    exit_code = 0
    with open_input(file) as source:
        for number, line in enumerate(source, 1):
            if not line.strip():
                continue
            id: Any = None
            is_valid = True
            try:
                try:
                    record = loads_object(line)
                except ValueError as e:
                    raise MalformedData(f"not a JSON object: {e}") from None
                id = record.get("id")
                result: Record = {"id": id, **handler(record)}
            except ToolglotError as e:
                result = format_error(id, e)
                is_valid = isinstance(e, ProviderError | TruncatedStream)  # a recorded error of a provider is valid input
            sys.stdout.buffer.write(dumps(result) + b"\n")
            if not is_valid:
                exit_code = 1
                sys.stdout.buffer.flush()
                print(f"line {number}: {result['error']['message']}", file=sys.stderr)
    sys.stdout.buffer.flush()
    return exit_code


def required_fields(record: Record, **types: type) -> Iterator[Any]:
    """Yield fields of a record after checking their types. Raises MalformedData."""
    for name, expected in types.items():
        if not isinstance(record.get(name), expected):
            raise MalformedData(f"field {name!r} must be {expected.__name__}, got {type(record.get(name)).__name__}")
        yield record[name]
