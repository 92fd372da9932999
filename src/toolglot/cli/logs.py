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
from toolglot.redact import HIDDEN, redact

__all__ = ["configure", "shown_level"]

Secrets = Callable[[], Iterable[str]]
LEVELS = ("debug", "info", "warning", "error")
_OTHERS = ("aiohttp", "asyncio")  # heard at debug only
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
# Fields that a line's words say already, or that only machines read.
_SAID = frozenset({"model", "seconds", "stop", "error", "attempt", "bytes", "method", "stream", "tool", "kind"})


def shown_level(verbosity: int, configured: str) -> str:
    """The level that counts: -v is info, -vv is debug, and neither makes it quieter than it is configured."""
    asked = "debug" if verbosity > 1 else "info" if verbosity else configured
    return min(asked, configured, key=_rank)


def configure(level: str, file: Path | None, *, secrets: Secrets) -> None:
    """Begins to write, and ends what was begun before. `secrets`: keys to hide, asked for each line. Raises UsageError."""
    rank = _rank(level)
    handler = _ToStderr(secrets) if file is None else _ToFile(file.expanduser(), secrets)
    own = logging.getLogger("toolglot")
    own.setLevel(LEVELS[rank].upper())
    _put(own, handler)
    for name in _OTHERS:
        _put(logging.getLogger(name), handler if level == "debug" else _Silent())


def _rank(level: str) -> int:
    if level not in LEVELS:
        raise UnknownName("log level", level, LEVELS)
    return LEVELS.index(level)


def _put(logger: logging.Logger, handler: logging.Handler) -> None:
    for old in [old for old in logger.handlers if isinstance(old, _Silent)]:
        logger.removeHandler(old)
        old.close()
    logger.addHandler(handler)


# ---- where lines go


class _Silent(logging.Handler):
    """Says nothing; with it Python does not speak in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        pass

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        pass


class _ToStderr(_Silent):
    """A line for people. Whatever stderr is at the moment gets it."""

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets

    def emit(self, record: logging.LogRecord) -> None:
        out = sys.stderr
        try:
            line = _line(_Cleaner(self._secrets()).fields(record))
            out.write((f"\x1b[2m{line}\x1b[0m" if _is_colourful(out) else line) + "\n")
            out.flush()
        except Exception:
            self.handleError(record)


class _ToFile(_Silent):
    """A JSON line, appended in one piece. Only the user may read a file that is made here."""

    def __init__(self, path: Path, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets
        try:
            self._file = open(path, "ab", buffering=0, opener=_private)  # noqa: SIM115 - closed with the handler
        except OSError as e:
            raise UsageError(f"the log {str(path)!r} cannot be written ({e.strerror}): name another file in log.file") from None

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._file.write(dumps(_Cleaner(self._secrets()).fields(record)) + b"\n")
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        self._file.close()
        super().close()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _is_colourful(out: Any) -> bool:
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


# ---- what lines say


class _Cleaner:
    """A record as plain values, without secrets."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = tuple(known)

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """Time, level, logger, message; then everything that was given with it, and the exception as text."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        found = {"time": time, "level": record.levelname.lower(), "logger": record.name, "message": self._text(_said(record))}
        for name, value in vars(record).items():
            if name not in _STANDARD and name not in found:
                found[name] = self._named(name, value)
        if record.exc_info and record.exc_info[0] is not None:
            found["exception"] = self._text("".join(traceback.format_exception(*record.exc_info)).rstrip())
        if record.stack_info:
            found["stack"] = self._text(record.stack_info)
        return found

    def _text(self, text: str) -> str:
        return redact(text, self._known, named=True)

    def _named(self, name: str, value: Any) -> Any:
        """A value of this name; what is called a secret is one, whatever it looks like."""
        if isinstance(value, str) and HIDDEN in self._text(f"{name}: x"):
            return HIDDEN
        return self._value(_plain(value))

    def _value(self, value: Any) -> Any:
        match value:
            case str():
                return self._text(value)
            case dict():
                items = cast(dict[Any, Any], value).items()
                return {self._text(str(name)): self._named(str(name), item) for name, item in items}
            case list():
                return [self._value(item) for item in cast(list[Any], value)]
            case _:
                return value


def _said(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # words and arguments that do not fit
        return str(record.msg)


def _plain(value: Any) -> Any:
    """Anything as JSON could say it."""
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=str)
    except Exception:  # in a circle, or with keys that are no text
        return repr(value)


def _line(fields: dict[str, Any]) -> str:
    """`12:03:04 engine  anthropic:… answered in 1.200 s: end  request=…`, and an exception below it."""
    clock = datetime.fromisoformat(fields.pop("time")).astimezone().strftime("%H:%M:%S")
    level, logger, message = (fields.pop(name) for name in ("level", "logger", "message"))
    below = [text for name in ("exception", "stack") if (text := fields.pop(name, ""))]
    word = "" if level in ("debug", "info") else f"{level}: "
    more = "".join(f"  {name}={_short(value)}" for name, value in fields.items() if name not in _SAID and value)
    first = f"{clock} {logger.rpartition('.')[2]:7} {word}{message}{more}"
    return "\n".join([_harmless(first), *(_harmless(line) for text in below for line in text.splitlines())])


def _short(value: Any) -> str:
    match value:
        case float():
            return f"{value:.3f}"
        case dict():
            return ",".join(f"{name}:{_short(item)}" for name, item in cast(dict[str, Any], value).items() if item)
        case list():
            return ",".join(map(_short, cast(list[Any], value)))
        case _:
            return str(value)


def _harmless(line: str) -> str:
    return "".join(character if character.isprintable() else " " for character in line)
