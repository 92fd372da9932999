"""What toolglot tells of itself: short lines on stderr, or JSON lines in a file. The root logger is never touched.

Laws: no key is written, not in a field, not in a traceback. A line that cannot be written is lost in silence: no work ends
because of it. What came from outside is shown without anything that a terminal would obey.
"""

import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import msgspec

from toolglot.errors import UnknownName, UsageError
from toolglot.jsontext import dumps
from toolglot.redact import REDACTED, redact

__all__ = ["configure_logging", "effective_level"]

Secrets = Callable[[], Iterable[str]]
LEVELS = ("debug", "info", "warning", "error")
_THIRD_PARTY_LOGGERS = ("aiohttp", "asyncio")  # heard at debug only
_STANDARD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
# Fields that a line's words say already, or that only machines read.
_REDUNDANT_FIELDS = frozenset({"model", "seconds", "stop", "error", "attempt", "bytes", "method", "stream", "tool", "kind"})


def effective_level(verbosity: int, configured: str) -> str:
    """The level that counts: -v is info, -vv is debug, and neither makes it quieter than it is configured."""
    asked = "debug" if verbosity > 1 else "info" if verbosity else configured
    return min(asked, configured, key=_rank)


def configure_logging(level: str, file: Path | None, *, secrets: Secrets) -> None:
    """Begins to write, and ends what was begun before. `secrets`: keys to hide, asked for each line. Raises UsageError."""
    rank = _rank(level)
    handler = _StderrHandler(secrets) if file is None else _FileHandler(file.expanduser(), secrets)
    own = logging.getLogger("toolglot")
    own.setLevel(LEVELS[rank].upper())
    _replace_handler(own, handler)
    for name in _THIRD_PARTY_LOGGERS:
        _replace_handler(logging.getLogger(name), handler if level == "debug" else _QuietHandler())


def _rank(level: str) -> int:
    if level not in LEVELS:
        raise UnknownName("log level", level, LEVELS)
    return LEVELS.index(level)


def _replace_handler(logger: logging.Logger, handler: logging.Handler) -> None:
    for old in [old for old in logger.handlers if isinstance(old, _QuietHandler)]:
        logger.removeHandler(old)
        old.close()
    logger.addHandler(handler)


# ---- where lines go


class _QuietHandler(logging.Handler):
    """Says nothing; with it Python does not speak in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        pass

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        pass


class _StderrHandler(_QuietHandler):
    """A line for people. Whatever stderr is at the moment gets it."""

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets

    def emit(self, record: logging.LogRecord) -> None:
        out = sys.stderr
        try:
            line = _format_line(_RecordRedactor(self._secrets()).fields(record))
            out.write((f"\x1b[2m{line}\x1b[0m" if _supports_color(out) else line) + "\n")
            out.flush()
        except Exception:
            self.handleError(record)


class _FileHandler(_QuietHandler):
    """A JSON line, appended in one piece. Only the user may read a file that is made here."""

    def __init__(self, path: Path, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets
        try:
            self._file = open(path, "ab", buffering=0, opener=_open_private)  # noqa: SIM115 - closed with the handler
        except OSError as e:
            raise UsageError(f"the log {str(path)!r} cannot be written ({e.strerror}): name another file in log.file") from None

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._file.write(dumps(_RecordRedactor(self._secrets()).fields(record)) + b"\n")
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        self._file.close()
        super().close()


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _supports_color(out: Any) -> bool:
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


# ---- what lines say


class _RecordRedactor:
    """A record as plain values, without secrets."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = tuple(secrets)

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """Time, level, logger, message; then everything that was given with it, and the exception as text."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        found = {
            "time": time,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._redact_text(_render_message(record)),
        }
        for name, value in vars(record).items():
            if name not in _STANDARD_ATTRIBUTES and name not in found:
                found[name] = self._redact_field(name, value)
        if record.exc_info and record.exc_info[0] is not None:
            found["exception"] = self._redact_text("".join(traceback.format_exception(*record.exc_info)).rstrip())
        if record.stack_info:
            found["stack"] = self._redact_text(record.stack_info)
        return found

    def _redact_text(self, text: str) -> str:
        return redact(text, self._secrets, by_name=True)

    def _redact_field(self, name: str, value: Any) -> Any:
        """A value of this name; what is called a secret is one, whatever it looks like."""
        if isinstance(value, str) and REDACTED in self._redact_text(f"{name}: x"):
            return REDACTED
        return self._redact_value(_to_json_value(value))

    def _redact_value(self, value: Any) -> Any:
        match value:
            case str():
                return self._redact_text(value)
            case dict():
                items = cast(dict[Any, Any], value).items()
                return {self._redact_text(str(name)): self._redact_field(str(name), item) for name, item in items}
            case list():
                return [self._redact_value(item) for item in cast(list[Any], value)]
            case _:
                return value


def _render_message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # words and arguments that do not fit
        return str(record.msg)


def _to_json_value(value: Any) -> Any:
    """Anything as JSON could say it."""
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=str)
    except Exception:  # in a circle, or with keys that are no text
        return repr(value)


def _format_line(fields: dict[str, Any]) -> str:
    """`12:03:04 engine  anthropic:… answered in 1.200 s: end  request=…`, and an exception below it."""
    clock = datetime.fromisoformat(fields.pop("time")).astimezone().strftime("%H:%M:%S")
    level, logger, message = (fields.pop(name) for name in ("level", "logger", "message"))
    below = [text for name in ("exception", "stack") if (text := fields.pop(name, ""))]
    word = "" if level in ("debug", "info") else f"{level}: "
    more = "".join(
        f"  {name}={_format_value(value)}" for name, value in fields.items() if name not in _REDUNDANT_FIELDS and value
    )
    first = f"{clock} {logger.rpartition('.')[2]:7} {word}{message}{more}"
    return "\n".join(
        [_replace_unprintable(first), *(_replace_unprintable(line) for text in below for line in text.splitlines())]
    )


def _format_value(value: Any) -> str:
    match value:
        case float():
            return f"{value:.3f}"
        case dict():
            return ",".join(f"{name}:{_format_value(item)}" for name, item in cast(dict[str, Any], value).items() if item)
        case list():
            return ",".join(map(_format_value, cast(list[Any], value)))
        case _:
            return str(value)


def _replace_unprintable(line: str) -> str:
    return "".join(character if character.isprintable() else " " for character in line)
