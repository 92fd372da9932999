"""Numbers of every tool."""

import asyncio
import threading

import pytest

from toolglot.errors import ToolErrorKind
from toolglot.tools.config import RetryConfig, ToolConfig
from toolglot.tools.executor import ToolExecutor
from toolglot.tools.metrics import BUCKETS, ToolMetrics
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import tool
from toolglot.values.events import ToolOutcome
from toolglot.values.messages import Text, ToolCall, ToolResult


def outcome(
    name: str = "t", seconds: float = 0.0, kind: ToolErrorKind | None = None, retries: int = 0
) -> ToolOutcome:
    result = ToolResult("c", (Text(""),), name, is_error=kind is not None, error_kind=kind)
    return ToolOutcome(ToolCall("c", name, {}), result, seconds, retries)


def test_calls_errors_and_time_are_counted_by_tool() -> None:
    metrics = ToolMetrics()
    assert metrics.snapshot() == {}
    for finished in (
        outcome("a", 0.5),
        outcome("a", 1.5, "timeout", 2),
        outcome("a", 0.0, "timeout"),
        outcome("a", 0.0, "execution", 1),
        outcome("b"),
    ):
        metrics.add(finished)
    metrics_by_tool = metrics.snapshot()
    assert list(metrics_by_tool) == ["a", "b"]
    assert (metrics_by_tool["a"].calls, metrics_by_tool["a"].retries, metrics_by_tool["a"].seconds) == (
        4,
        3,
        2.0,
    )
    assert metrics_by_tool["a"].errors == {"timeout": 2, "execution": 1}
    assert (metrics_by_tool["b"].calls, metrics_by_tool["b"].errors) == (1, {})


def test_an_error_without_a_kind_is_one_of_execution() -> None:
    metrics = ToolMetrics()
    metrics.add(ToolOutcome(ToolCall("c", "t", {}), ToolResult("c", (), "t", is_error=True)))
    assert metrics.snapshot()["t"].errors == {"execution": 1}


@pytest.mark.parametrize(
    ("seconds", "bucket"),
    [
        (0.0, 0),
        (0.001, 0),
        (0.0011, 1),
        (0.05, 4),
        (1.0, 6),
        (1.0001, 7),
        (100.0, 10),
        (100.1, 11),
        (1e9, 11),
    ],
)
def test_latencies_fall_into_their_bucket(seconds: float, bucket: int) -> None:
    metrics = ToolMetrics()
    metrics.add(outcome(seconds=seconds))
    latency = metrics.snapshot()["t"].latency
    assert len(latency) == len(BUCKETS) + 1
    assert latency[bucket] == 1
    assert sum(latency) == 1


def test_buckets_are_in_order() -> None:
    assert list(ToolMetrics.bounds) == list(BUCKETS) == sorted(set(BUCKETS))


def test_a_snapshot_is_a_copy() -> None:
    metrics = ToolMetrics()
    metrics.add(outcome(kind="timeout"))
    before = metrics.snapshot()
    before["t"].calls = 99
    before["t"].latency[0] = 99
    before["t"].errors["timeout"] = 99
    metrics.add(outcome())
    after = metrics.snapshot()
    assert (after["t"].calls, after["t"].latency[0], after["t"].errors) == (2, 2, {"timeout": 1})
    assert before["t"].calls == 99


def test_threads_lose_nothing() -> None:
    metrics = ToolMetrics()
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        for n in range(500):
            metrics.add(outcome(f"t{n % 3}", 0.01, "timeout" if n % 2 else None, 1))
            if n % 50 == 0:
                metrics.snapshot()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    metrics_by_tool = metrics.snapshot().values()
    assert (
        sum(tool_metrics.calls for tool_metrics in metrics_by_tool)
        == sum(tool_metrics.retries for tool_metrics in metrics_by_tool)
        == 4000
    )
    assert sum(sum(tool_metrics.latency) for tool_metrics in metrics_by_tool) == 4000
    assert sum(tool_metrics.errors["timeout"] for tool_metrics in metrics_by_tool) == 2000


def test_an_executor_counts_what_ran_and_what_did_not() -> None:
    def work(n: int) -> int:
        if n == 0:
            raise ValueError("no")
        return n

    metrics = ToolMetrics()
    runner = ToolExecutor(
        ToolRegistry([tool(inline=True, max_uses=3, idempotent=True)(work)]),
        ToolConfig(on_error="retry", retry=RetryConfig(max_retries=1, base=0.0)),
        metrics=metrics,
    )
    calls = [ToolCall("c", "work", {"n": n}) for n in (1, 0, "x", 2, 3)]
    asyncio.run(runner.run_all(calls))
    metrics_by_tool = metrics.snapshot()["work"]
    assert metrics_by_tool.calls == 5
    assert metrics_by_tool.errors == {"execution": 1, "validation": 1, "limit": 1}
    assert metrics_by_tool.retries == 1
    assert sum(metrics_by_tool.latency) == 5
    assert runner.metrics is metrics


async def test_a_call_that_was_cancelled_is_counted() -> None:
    async def forever() -> None:
        started.set()
        await asyncio.Event().wait()

    started = asyncio.Event()
    runner = ToolExecutor(ToolRegistry([forever]))
    task = asyncio.create_task(runner.run(ToolCall("c", "forever", {})))
    await started.wait()
    task.cancel()
    await asyncio.wait([task])
    metrics_by_tool = runner.metrics.snapshot()
    assert metrics_by_tool["forever"].errors in ({"cancelled": 1}, {"interrupted": 1})
