"""One JSON line per execution, refusal and pause: the tool, its target, who decided, the duration and the
outcome.

Arguments appear only as a hash; keys and secrets are redacted.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from toolglot.common.jsontext import dumps
from toolglot.common.redact import redact
from toolglot.errors import UsageError
from toolglot.tools.line_file import LineFile
from toolglot.values.events import ToolOutcome

__all__ = ["AuditLog", "AuditSink", "DecidedBy"]

_MAX_TEXT = 2000  # characters of a target or a reason
AuditSink = Callable[[bytes], object]
DecidedBy = Literal["user", "rule", "policy", "hook", "pending"]
"""Who or what decided whether a call runs; "pending": not decided yet, the run is waiting."""


class AuditLog:
    """Appends lines to a file, or passes them to a function. `secrets`: returns keys to redact in targets."""

    def __init__(
        self, destination: str | Path | AuditSink, *, secrets: Callable[[], Iterable[str]] = tuple
    ) -> None:
        self._lock, self._secrets = Lock(), secrets
        if callable(destination):
            self._sink: AuditSink = destination
            return

        file = LineFile(destination)
        try:
            file.append(b"")  # fail now, rather than after the first call, if the file is not writable
        except OSError as e:
            raise UsageError(f"the audit log {str(destination)!r} cannot be written: {e.strerror}") from None
        self._sink = file.append

    def write(
        self,
        outcome: ToolOutcome,
        *,
        run_id: str,
        target: str,
        effects: frozenset[str],
        approved: bool | None = None,
        decided_by: DecidedBy = "policy",
        reason: str = "",
    ) -> None:
        """Write an execution, a refusal or a waiting call. `approved`: None if no approval was needed."""
        secrets = [*self._secrets()]
        line: dict[str, Any] = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "run": run_id,
            "tool": outcome.call.name,
            "call": outcome.call.id,
            "ran": outcome.ran,
            "effects": sorted(effects),
            "target": redact(target[:_MAX_TEXT], secrets, by_name=True),
            "arguments": sha256(outcome.call.text.encode("utf-8", "surrogatepass")).hexdigest(),
            "outcome": _describe_outcome(outcome, decided_by),
            "seconds": round(outcome.seconds, 6),
            "retries": outcome.retries,
            "decided_by": decided_by,
            "reason": redact(reason[:_MAX_TEXT], secrets, by_name=True),
        }
        if approved is not None:
            line["approved"] = approved
        if outcome.call.caller:  # the call whose code made this one
            line["caller"] = outcome.call.caller
        with self._lock:
            self._sink(dumps(line) + b"\n")


def _describe_outcome(outcome: ToolOutcome, decided_by: DecidedBy) -> str:
    """Return "ok", "pending" or the kind of the error."""
    if decided_by == "pending":
        return "pending"
    if not outcome.result.is_error:
        return "ok"
    return outcome.result.error_kind or "execution"
