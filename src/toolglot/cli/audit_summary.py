"""Summarizes the audit log by tool: calls, errors, and how long they took."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from toolglot.common.jsontext import loads_object
from toolglot.common.user_dirs import state_directory
from toolglot.config.settings import Settings

__all__ = ["MAX_LOG_BYTES", "AuditSummary", "AuditedTool", "read_audit_summary"]

MAX_LOG_BYTES = 5_000_000
"""How much is read, from the end of the log."""


class AuditedTool(msgspec.Struct, frozen=True):
    """Statistics of one tool in the audit log. The percentiles count only calls that ran, in seconds."""

    tool: str
    calls: int
    errors: dict[str, int]
    p50: float | None
    p95: float | None


class AuditSummary(msgspec.Struct, frozen=True):
    """The audit log. `whole` is False if only its end was read."""

    file: str | None
    tools: list[AuditedTool] = []
    damaged: int = 0
    whole: bool = True


class _AuditLine(msgspec.Struct, frozen=True):
    tool: str
    outcome: str
    seconds: float
    ran: bool = True


def read_audit_summary(settings: Settings, problems: list[str]) -> AuditSummary:
    """Summarize the audit log by tool; append to `problems` if it cannot be read."""
    if settings.audit is False:
        return AuditSummary(None)
    file = state_directory() / "audit.jsonl"
    if isinstance(settings.audit, str):
        file = Path(settings.audit).expanduser()
    if file.exists() and not file.is_file():  # a pipe would wait for ever
        problems.append(f"cannot read the audit log {str(file)!r}: it is not a regular file")
        return AuditSummary(str(file))
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
    is_whole = start == 0
    if not is_whole:
        del lines[0]  # it is probably incomplete
    by_tool: dict[str, list[_AuditLine]] = {}
    damaged = 0
    for line in filter(bytes.strip, lines):
        try:
            call = msgspec.convert(loads_object(line), _AuditLine)
        except (ValueError, msgspec.ValidationError):
            damaged += 1
        else:
            by_tool.setdefault(call.tool, []).append(call)
    tools = [_summarize(tool, calls) for tool, calls in by_tool.items()]
    tools.sort(key=lambda entry: (-entry.calls, entry.tool))
    return AuditSummary(str(file), tools, damaged, is_whole)


def _summarize(tool: str, calls: Sequence[_AuditLine]) -> AuditedTool:
    errors = Counter(call.outcome for call in calls if call.outcome != "ok")
    seconds = sorted(call.seconds for call in calls if call.ran)
    return AuditedTool(
        tool,
        len(calls),
        dict(errors.most_common()),
        p50=_percentile(seconds, 50),
        p95=_percentile(seconds, 95),
    )


def _percentile(sorted_values: list[float], percent: int) -> float | None:
    """Return the smallest value such that at least `percent` percent of the values are less than or equal to
    it.
    """
    if not sorted_values:
        return None
    rank = -(-len(sorted_values) * percent // 100)
    return sorted_values[max(0, rank - 1)]
