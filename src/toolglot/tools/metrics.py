"""Statistics for every tool: calls, errors by kind, durations. Cheap enough to be always on; thread-safe."""

from bisect import bisect_left
from collections.abc import Mapping
from copy import deepcopy
from threading import Lock

import msgspec

from toolglot.values.events import ToolOutcome

__all__ = ["BUCKETS", "ToolMetrics", "ToolStatistics"]

BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Upper bounds of the latency histogram in seconds; the last bucket has none."""
OTHER_TOOLS = "(others)"
_MAX_TOOLS = 1000  # a model can make up any number of names
# one for all: to count a call takes microseconds; only a snapshot, which copies everything, takes longer
_LOCK = Lock()


class ToolStatistics(msgspec.Struct):
    """The statistics of one tool.

    `latency[i]`: calls that took at most BUCKETS[i] seconds, but more than BUCKETS[i - 1].
    """

    calls: int = 0
    """Calls so far."""
    retries: int = 0
    """Repetitions after a failure."""
    seconds: float = 0.0
    """The total time."""
    errors: dict[str, int] = {}
    """Kind of error -> how often it occurred."""
    latency: list[int] = msgspec.field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    """How many calls took how long."""


class ToolMetrics:
    """Collects outcomes.

    `bounds`: upper bounds of the latency histograms in seconds; the last bucket has none.
    """

    bounds: tuple[float, ...] = BUCKETS

    def __init__(self) -> None:
        self._tools: dict[str, ToolStatistics] = {}

    def add(self, outcome: ToolOutcome) -> None:
        """Count one call."""
        with _LOCK:
            statistics = self._tools.get(outcome.call.name)
            if statistics is None:
                name = outcome.call.name if len(self._tools) < _MAX_TOOLS else OTHER_TOOLS
                statistics = self._tools.setdefault(name, ToolStatistics())
            statistics.calls += 1
            statistics.retries += outcome.retries
            statistics.seconds += outcome.seconds
            statistics.latency[bisect_left(BUCKETS, outcome.seconds)] += 1
            if outcome.result.is_error:
                kind = outcome.result.error_kind or "execution"
                statistics.errors[kind] = statistics.errors.get(kind, 0) + 1

    def snapshot(self) -> Mapping[str, ToolStatistics]:
        """Return a copy of the statistics so far, by tool."""
        with _LOCK:
            return deepcopy(self._tools)
