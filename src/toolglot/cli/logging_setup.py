"""Configure toolglot's logging: short lines on stderr, or JSON lines in a file.

The root logger is never touched.

No key is written, neither in a field nor in a traceback. A line that cannot be written is dropped: logging
never stops the work. Text from outside is shown without anything that a terminal would interpret.
"""

import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from toolglot.cli.printer import supports_color
from toolglot.common.jsontext import dumps, dumps_text
from toolglot.common.loggers import STANDARD_ATTRIBUTES, hide_keys
from toolglot.errors import UsageError

Secrets = Callable[[], Iterable[str]]
LEVELS = ("debug", "info", "warning", "error")
THIRD_PARTY_LOGGERS = ("aiohttp", "asyncio", "mcp", "client")  # enabled at debug only; "client" is MCP's, too
# Fields that the message already contains, or that only machines read: left out of lines on stderr.
_REDUNDANT_FIELDS = frozenset(
    {"model", "seconds", "stop", "error", "attempt", "bytes", "method", "stream", "tool", "kind"}
)


def effective_level(verbosity: int, configured: str) -> str:
    """Combine -v (info) and -vv (debug) with the configured level; the more verbose one wins."""
    if verbosity > 1:
        return "debug"
    if verbosity == 0:
        return configured
    return min("info", configured, key=LEVELS.index)


def configure_logging(level: str, file: Path | None, *, secrets: Secrets) -> None:
    """Start logging, replacing an earlier configuration. Raises UsageError.

    `secrets` returns the keys to hide; it is called for each line, because keys appear while the program
    runs.
    """
    handler = _LogHandler(file, secrets)
    logger = logging.getLogger("toolglot")
    logger.setLevel(level.upper())
    _replace_handler(logger, handler)
    for name in THIRD_PARTY_LOGGERS:
        _replace_handler(logging.getLogger(name), handler if level == "debug" else _QuietHandler())


def _replace_handler(logger: logging.Logger, handler: logging.Handler) -> None:
    for old in [old for old in logger.handlers if isinstance(old, _QuietHandler)]:
        logger.removeHandler(old)
        old.close()
    logger.addHandler(handler)


class _QuietHandler(logging.Handler):
    """Discards records. Without any handler, Python would print warnings to stderr itself."""

    def emit(self, record: logging.LogRecord) -> None:
        pass

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        pass


class _LogHandler(_QuietHandler):
    """Appends JSON lines to a file, or writes readable lines to whatever `sys.stderr` is at the moment."""

    def __init__(self, path: Path | None, secrets: Secrets) -> None:
        super().__init__()
        self._secrets, self._file = secrets, None
        if path is not None:
            try:  # unbuffered, so that each line is a single write; a new file is readable by the user only
                opener = partial(os.open, mode=0o600)
                self._file = open(path.expanduser(), "ab", buffering=0, opener=opener)  # noqa: SIM115 - closed with the handler
            except OSError as e:
                reason = f"cannot write the log {str(path)!r} ({e.strerror})"
                raise UsageError(f"{reason}: pass another --log-file, or set log.file") from None

    def emit(self, record: logging.LogRecord) -> None:
        try:
            fields = _record_fields(record, self._secrets())
            if self._file is not None:
                self._file.write(dumps(fields) + b"\n")
                return
            out, line = sys.stderr, _format_line(fields)
            out.write((f"\x1b[2m{line}\x1b[0m" if supports_color(out) else line) + "\n")
            out.flush()
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()


def _record_fields(record: logging.LogRecord, secrets: Iterable[str]) -> dict[str, Any]:
    """Return time, level, logger and message, then all extra fields, and the exception as text, without
    secrets.
    """
    secrets = tuple(secrets)

    try:
        message = record.getMessage()
    except Exception:  # the arguments do not match the format string
        message = str(record.msg)
    time = (
        datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )
    fields = {
        "time": time,
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": hide_keys(message, secrets),
    }
    for name, value in vars(record).items():
        if name not in STANDARD_ATTRIBUTES and name not in fields:
            try:
                fields[name] = hide_keys(
                    msgspec.to_builtins(value, str_keys=True, enc_hook=str), secrets, name
                )
            except Exception:  # a cycle, or keys that are not text
                fields[name] = hide_keys(repr(value), secrets, name)
    if record.exc_info and record.exc_info[0] is not None:
        fields["exception"] = hide_keys(
            "".join(traceback.format_exception(*record.exc_info)).rstrip(), secrets
        )
    elif record.exc_text:  # our own loggers have hidden a key in it
        fields["exception"] = hide_keys(record.exc_text, secrets)
    if record.stack_info:
        fields["stack"] = hide_keys(record.stack_info, secrets)
    return fields


def _format_line(fields: dict[str, Any]) -> str:
    """Format as `12:03:04 engine  anthropic:… answered in 1.200 s: end  request=…`, followed by the
    exception.
    """
    clock = datetime.fromisoformat(fields.pop("time")).astimezone().strftime("%H:%M:%S")
    level, logger, message = (fields.pop(name) for name in ("level", "logger", "message"))
    details: list[str] = []
    for name in ("exception", "stack"):
        details += fields.pop(name, "").splitlines()
    first = f"{clock} {logger.rpartition('.')[2]:7} "
    if level not in ("debug", "info"):
        first += f"{level}: "
    first += message
    for name, value in fields.items():
        if value and name not in _REDUNDANT_FIELDS:
            first += f"  {name}={value if isinstance(value, str) else dumps_text(value)}"
    return "\n".join(_replace_unprintable(line) for line in (first, *details))


def _replace_unprintable(line: str) -> str:
    """Replace what would move the cursor or hide text, so that a record is the lines that it seems to be."""
    return "".join(character if character.isprintable() else " " for character in line)
