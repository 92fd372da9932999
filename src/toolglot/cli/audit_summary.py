"""Statistics of the audit log for `toolglot doctor`."""

import os
from collections import Counter
from pathlib import Path

import msgspec

from toolglot.config.settings import Settings
from toolglot.jsontext import loads_object
from toolglot.user_dirs import state_directory

__all__ = ["MAX_LOG_BYTES", "AuditSummary", "read_audit"]

MAX_LOG_BYTES = 5_000_000  # read from the end of the audit log


class ToolStatistics(msgspec.Struct, frozen=True):
    """Statistics of one tool in the audit log. The percentiles count only calls that ran, in seconds."""

    tool: str
    calls: int
    errors: dict[str, int]
    p50: float | None
    p95: float | None


class AuditSummary(msgspec.Struct, frozen=True):
    """The audit log. `whole` is False if only its end was read."""

    file: str | None
    tools: list[ToolStatistics] = []
    damaged: int = 0
    whole: bool = True


class _AuditLine(msgspec.Struct, frozen=True):
    tool: str
    outcome: str
    seconds: float
    ran: bool = True


def read_audit(settings: Settings, problems: list[str]) -> AuditSummary:
    """Summarize the audit log by tool; append to `problems` if it cannot be read."""
    if settings.audit is False:
        return AuditSummary(None)
    file = state_directory() / "audit.jsonl" if settings.audit is True else Path(settings.audit).expanduser()
    try:
        with file.open("rb") as log:
            start = max(0, log.seek(0, os.SEEK_END) - MAX_LOG_BYTES)
            log.seek(start)
            lines = log.read(MAX_LOG_BYTES).split(b"\n")
    except FileNotFoundError:
        return AuditSummary(str(file))
    except OSError as e:
        problems.append(f"cannot read the audit log {str(file)!r}: {e.strerror}")
        return AuditSummary(str(file))
    by_tool: dict[str, list[_AuditLine]] = {}
    damaged = 0
    for line in filter(bytes.strip, lines[1:] if start else lines):  # the first line is probably incomplete
        try:
            call = msgspec.convert(loads_object(line), _AuditLine)
        except (ValueError, msgspec.ValidationError):
            damaged += 1
        else:
            by_tool.setdefault(call.tool, []).append(call)
    statistics: list[ToolStatistics] = []
    for tool, calls in by_tool.items():
        errors = Counter(call.outcome for call in calls if call.outcome != "ok")
        seconds = sorted(call.seconds for call in calls if call.ran)
        p50, p95 = _percentile(seconds, 50), _percentile(seconds, 95)
        statistics.append(ToolStatistics(tool, len(calls), dict(errors.most_common()), p50, p95))
    return AuditSummary(str(file), sorted(statistics, key=lambda entry: (-entry.calls, entry.tool)), damaged, not start)


def _percentile(sorted_values: list[float], percent: int) -> float | None:
    """Return the smallest value such that at least `percent` percent of the values are less than or equal to it."""
    return sorted_values[max(0, -(-len(sorted_values) * percent // 100) - 1)] if sorted_values else None
