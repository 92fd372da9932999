"""Numbers of every tool: calls, errors by kind, how long they took. Cheap enough to be always on; safe under threads."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from threading import Lock

import msgspec

from toolglot.events import ToolOutcome

__all__ = ["BUCKETS", "ToolMetrics", "ToolStatistics"]

BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Upper bounds of the latency histogram in seconds; the last bucket has none."""


OTHER_TOOLS = "(others)"
_MAX_TOOLS = 1000  # names: a model may invent any number of them


class ToolStatistics(msgspec.Struct):
    """What is known of one tool. `latency[i]`: calls that took at most BUCKETS[i] seconds and longer than the bound before."""

    calls: int = 0
    retries: int = 0
    seconds: float = 0.0
    errors: dict[str, int] = {}
    latency: list[int] = msgspec.field(default_factory=lambda: [0] * (len(BUCKETS) + 1))


class ToolMetrics:
    """Collects outcomes."""

    def __init__(self) -> None:
        self._tools: dict[str, ToolStatistics] = {}
        self._lock = Lock()

    def add(self, outcome: ToolOutcome) -> None:
        """Counts one call."""
        with self._lock:
            name = outcome.call.name
            if name not in self._tools and len(self._tools) >= _MAX_TOOLS:
                name = OTHER_TOOLS
            found = self._tools.setdefault(name, ToolStatistics())
            found.calls += 1
            found.retries += outcome.retries
            found.seconds += outcome.seconds
            found.latency[bisect_left(BUCKETS, outcome.seconds)] += 1
            if outcome.result.is_error:
                kind = outcome.result.error_kind or "execution"
                found.errors = Counter(found.errors) + Counter({kind: 1})

    def snapshot(self) -> Mapping[str, ToolStatistics]:
        """The numbers so far, by tool; a copy."""
        with self._lock:
            return {name: msgspec.convert(msgspec.to_builtins(found), ToolStatistics) for name, found in self._tools.items()}
