"""One JSON line for every execution: what ran, on what, for how long, with what outcome. Arguments are there as a hash only;
keys and secrets are hidden.
"""

import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any

from toolglot.errors import UsageError
from toolglot.events import ToolOutcome
from toolglot.jsontext import dumps
from toolglot.redact import redact

__all__ = ["AuditLog", "AuditSink"]

_MAX_TARGET = 2000  # characters of a target
AuditSink = Callable[[bytes], object]


class AuditLog:
    """Writes to a file, which it only appends to, or hands each line to a function. `secrets`: keys to hide in targets."""

    def __init__(self, destination: str | Path | AuditSink, *, secrets: Callable[[], Iterable[str]] = tuple) -> None:
        self._lock, self._secrets = Lock(), secrets
        self._sink: AuditSink = destination if callable(destination) else _file_sink(Path(destination))

    def write(self, outcome: ToolOutcome, *, run_id: str, target: str, effects: frozenset[str], approved: bool | None) -> None:
        """One execution, or one refusal."""
        result = outcome.result
        line: dict[str, Any] = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "run": run_id,
            "tool": outcome.call.name,
            "call": outcome.call.id,
            "ran": outcome.ran,
            "effects": sorted(effects),
            "target": redact(target[:_MAX_TARGET], self._secrets(), by_name=True),
            "arguments": sha256(outcome.call.text.encode("utf-8", "surrogatepass")).hexdigest(),
            "outcome": (result.error_kind or "execution") if result.is_error else "ok",
            "seconds": round(outcome.seconds, 6),
            "retries": outcome.retries,
        }
        if approved is not None:
            line["approved"] = approved
        with self._lock:
            self._sink(dumps(line) + b"\n")


def _file_sink(path: Path) -> AuditSink:
    def write(line: bytes) -> None:
        with open(path, "ab", opener=lambda name, mode: os.open(name, mode, 0o600)) as file:
            file.write(line)

    try:
        write(b"")
    except OSError as e:
        raise UsageError(f"the audit log {str(path)!r} cannot be written: {e.strerror}") from None
    return write
