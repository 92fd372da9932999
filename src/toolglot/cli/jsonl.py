"""Process batches: one JSON object per input line, one per output line, in the same order.

A line that cannot be processed gets an error record, is reported on stderr, and does not stop the batch.
"""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from toolglot.cli.printer import print_note, write_json_line
from toolglot.common.jsontext import loads_object
from toolglot.errors import MalformedData, ProviderError, ToolglotError, TruncatedStream

Record = dict[str, Any]
Struct = TypeVar("Struct", bound=msgspec.Struct)
ErrorFormatter = Callable[[Any, ToolglotError], Record]


@contextmanager
def _open_input(file: Path | None) -> Generator[BinaryIO]:
    if file is None or str(file) == "-":
        # left open: others still ask whether it is a terminal, and descriptor 0 must stay taken
        yield sys.stdin.buffer
        return
    with file.open("rb") as source:
        yield source


def read_input(file: Path | None) -> bytes:
    """Read a file, or stdin for None and `-`."""
    with _open_input(file) as source:
        return source.read()


def _error_record(id: Any, error: ToolglotError) -> Record:
    """Build the output record for an error."""
    retryable = isinstance(error, ProviderError) and error.retryable
    return {"id": id, "error": {"type": error.type, "message": str(error), "retryable": retryable}}


def process_lines(
    file: Path | None, handler: Callable[[Record], Record], format_error: ErrorFormatter = _error_record
) -> int:
    """Process every line; return 1 if one could not be read.

    `format_error` builds an error's record from the line's id.
    """
    exit_code = 0
    with _open_input(file) as source:
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
                # a recorded error of a provider is valid input
                is_valid = isinstance(e, ProviderError | TruncatedStream)
            write_json_line(sys.stdout, result, flush=not is_valid)
            if not is_valid:
                exit_code = 1
                print_note(f"line {number}: {result['error']['message']}")
    sys.stdout.buffer.flush()
    return exit_code


def convert_record(record: Record, type: type[Struct]) -> Struct:
    """Convert a record to a struct. Raises MalformedData."""
    try:
        return msgspec.convert(record, type)
    except msgspec.ValidationError as e:
        raise MalformedData(str(e)) from None
