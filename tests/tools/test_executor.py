"""Calls run to their outcome, whatever the tool, the model or the caller does."""

import asyncio
import contextvars
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import count
from typing import Any

import pytest

from toolglot.common.jsontext import dumps
from toolglot.errors import ToolError, ToolErrorKind
from toolglot.tools.config import RetryConfig, ToolConfig
from toolglot.tools.context import Context
from toolglot.tools.executor import ToolExecutor
from toolglot.tools.hooks import Hooks
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.results import ResultStore
from toolglot.tools.tool import Tool, tool, tool_from_schema
from toolglot.values.events import ToolFinished, ToolOutcome, ToolProgress, ToolStarted
from toolglot.values.messages import ToolCall

SOON = 5.0  # a guard against tests that hang; nothing waits for so long
QUICK = RetryConfig(base=0.0, jitter=0.0)
Function = Callable[..., Any]
Event = ToolStarted | ToolProgress | ToolFinished
_numbers = count(1)


def call(name: str, /, **arguments: Any) -> ToolCall:
    return ToolCall(f"c{next(_numbers)}", name, arguments)


def executor(
    *tools: Tool | Function, hooks: tuple[Hooks, ...] = (), store: ResultStore | None = None, **config: Any
) -> ToolExecutor:
    settings: dict[str, Any] = {"max_repeats": 0, **config}
    return ToolExecutor(ToolRegistry(tools), ToolConfig(**settings), hooks=hooks, store=store)


def outcome_of(
    function: Tool | Function, /, config: dict[str, Any] | None = None, **arguments: Any
) -> ToolOutcome:
    """What comes of one call of one tool."""
    runner = executor(function, **(config or {}))
    (registered,) = runner.registry
    return asyncio.run(asyncio.wait_for(runner.run(call(registered.name, **arguments)), SOON))


def kind_of(outcome: ToolOutcome) -> ToolErrorKind | None:
    assert outcome.result.is_error == (outcome.result.error_kind is not None)
    return outcome.result.error_kind


# ---- whatever can be called


class Doubler:
    """An object that can be called."""

    def __call__(self, n: int) -> int:
        """Doubles."""
        return n * 2


class AsyncDoubler:
    """An object that can be awaited for."""

    async def __call__(self, n: int) -> int:
        """Doubles."""
        await asyncio.sleep(0)
        return n * 2


def double(n: int) -> int:
    """Doubles."""
    return n * 2


async def double_later(n: int) -> int:
    """Doubles."""
    await asyncio.sleep(0)
    return n * 2


def returns_a_coroutine(n: int) -> Any:
    """Doubles."""
    return double_later(n)


def times(factor: int, n: int) -> int:
    """Multiplies."""
    return factor * n


async def times_later(factor: int, n: int) -> int:
    """Multiplies."""
    await asyncio.sleep(0)
    return factor * n


def pieces(n: int) -> Iterator[str]:
    """Gives two digits."""
    yield str(n)[:0]
    yield str(n * 2)


async def pieces_later(n: int) -> AsyncIterator[str]:
    """Gives digits."""
    yield str(n * 2)


@pytest.mark.parametrize("tool_made", [
    pytest.param(tool(double), id="sync"), pytest.param(tool(inline=True)(double), id="inline"),
    pytest.param(tool(double_later), id="async"), pytest.param(tool(inline=True)(double_later), id="async inline"),
    pytest.param(tool(returns_a_coroutine), id="sync that returns a coroutine"),
    pytest.param(tool(name="p")(partial(times, 2)), id="partial"),
    pytest.param(tool(name="p")(partial(times_later, 2)), id="async partial"),
    pytest.param(tool(name="p")(partial(times, factor=2)), id="partial with a keyword"),
    pytest.param(tool(name="o")(Doubler()), id="callable object"),
    pytest.param(tool(name="o")(AsyncDoubler()), id="async callable object"), pytest.param(tool(pieces), id="generator"),
    pytest.param(tool(pieces_later), id="async generator"), pytest.param(double, id="plain function"),
])  # fmt: skip
def test_every_kind_of_callable_runs(tool_made: Tool) -> None:
    outcome = outcome_of(tool_made, n=21)
    assert (outcome.result.text, kind_of(outcome), outcome.ran, outcome.retries) == ("42", None, True, 0)
    assert outcome.result.call_id == outcome.call.id
    assert outcome.result.name == outcome.call.name


def test_sync_tools_run_in_threads_and_the_others_do_not() -> None:
    def where() -> int:
        return threading.get_ident()

    async def where_async() -> int:
        return threading.get_ident()

    here = str(threading.get_ident())
    assert outcome_of(tool(where)).result.text != here
    assert outcome_of(tool(inline=True)(where)).result.text == here
    assert outcome_of(tool(where_async)).result.text == here


async def test_a_thread_sees_the_context_variables_of_its_caller() -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")

    def see() -> str:
        seen = who.get()
        who.set("the tool")
        return seen

    who.set("the caller")
    assert ((await executor(see).run(call("see"))).result.text, who.get()) == ("the caller", "the caller")


@pytest.mark.parametrize("inline", [False, True])
def test_a_tool_that_changes_its_arguments_changes_nothing_else(inline: bool) -> None:
    """The call is a part of the history, and the next attempt needs it as it was."""
    seen: list[list[int]] = []

    def take(items: list[int], more: dict[str, list[int]]) -> str:
        seen.append(list(items))
        items.clear()
        more["x"].append(9)
        raise ToolError("again", retryable=True)

    schema = {"type": "object", "properties": {"items": {"type": "array"}, "more": {"type": "object"}}}
    tool_call = call("take", items=[1, 2], more={"x": [1]})
    before = dumps(tool_call)
    for taker in (tool(inline=inline)(take), tool_from_schema("take", "Takes.", schema, take, inline=inline)):
        seen.clear()
        asyncio.run(executor(taker, retry=QUICK).run(tool_call))
        assert dumps(tool_call) == before
        assert seen == [[1, 2]] * 3


# ---- many at once


@pytest.mark.parametrize("flavour", ["async", "sync"])
def test_outcomes_come_in_call_order_however_fast_they_are(flavour: str) -> None:
    """Each call waits until the one after it is over: they finish last to first."""
    finished: list[int] = []
    over = [threading.Event() for _ in range(5)]
    over[4].set()

    def wait(n: int) -> int:
        assert over[n + 1].wait(SOON)
        finished.append(n)
        over[n].set()
        return n

    async def wait_async(n: int) -> int:
        while not over[n + 1].is_set():
            await asyncio.sleep(0)
        finished.append(n)
        over[n].set()
        return n

    waiter = tool(name="wait")(wait if flavour == "sync" else wait_async)
    outcomes = asyncio.run(executor(waiter).run_all([call("wait", n=n) for n in range(4)]))
    assert finished == [3, 2, 1, 0]
    assert [outcome.result.text for outcome in outcomes] == ["0", "1", "2", "3"]


def test_good_and_bad_calls_keep_their_places() -> None:
    def fine(n: int) -> int:
        return n

    async def fail() -> None:
        raise ValueError("no")

    calls = [call("fine", n=1), call("nobody"), call("fail"), call("fine", n="many"), call("fine", n=5)]
    outcomes = asyncio.run(executor(fine, fail).run_all(calls))
    assert [outcome.call.id for outcome in outcomes] == [call.id for call in calls]
    assert [outcome.result.call_id for outcome in outcomes] == [call.id for call in calls]
    assert [kind_of(outcome) for outcome in outcomes] == [None, "not_found", "execution", "validation", None]
    assert [outcome.ran for outcome in outcomes] == [True, False, True, False, True]


def test_no_calls_give_no_outcomes() -> None:
    assert asyncio.run(executor(double).run_all([])) == []


class Crowd:
    """Counts who is inside; lets them go once `size` are there."""

    def __init__(self, size: int) -> None:
        self.size, self.inside, self.peak = size, 0, 0
        self.lock, self.full = threading.Lock(), threading.Event()

    def enter(self) -> None:
        with self.lock:
            self.inside += 1
            self.peak = max(self.peak, self.inside)
            if self.inside == self.size:
                self.full.set()

    def leave(self) -> None:
        with self.lock:
            self.inside -= 1


@pytest.mark.parametrize("limit", [1, 3])
@pytest.mark.parametrize("flavour", ["async", "sync"])
def test_the_parallel_cap_is_reached_and_never_exceeded(flavour: str, limit: int) -> None:
    crowd = Crowd(limit)

    def work() -> None:
        crowd.enter()
        assert crowd.full.wait(SOON), "the cap is not reached"
        crowd.leave()

    async def work_async() -> None:
        crowd.enter()
        while not crowd.full.is_set():
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        crowd.leave()

    worker = tool(name="work")(work if flavour == "sync" else work_async)
    outcomes = asyncio.run(
        asyncio.wait_for(executor(worker, max_parallel=limit).run_all([call("work")] * 12), SOON)
    )
    assert [kind_of(outcome) for outcome in outcomes] == [None] * 12
    assert crowd.peak == limit


@pytest.mark.parametrize("limit", [1, 2, 8])
@pytest.mark.parametrize("inline", [False, True])
def test_ordered_calls_keep_their_place_and_the_others_run_at_once(inline: bool, limit: int) -> None:
    """Of the calls look look STEP look look, neighbours meet where that may be, and nobody meets the step."""
    inside: list[str] = []
    met: list[tuple[str, int]] = []

    async def look(n: int) -> int:
        inside.append("look")
        met.append(("look", len(inside)))
        for _ in range(50):
            await asyncio.sleep(0)
            assert "step" not in inside
        inside.remove("look")
        return n

    @tool(ordered=True, inline=inline)
    def step() -> str:
        inside.append("step")
        met.append(("step", len(inside)))
        inside.remove("step")
        return "done"

    calls = [call("look", n=0), call("look", n=1), call("step"), call("look", n=3), call("look", n=4)]
    runner = executor(look, step, max_parallel=limit)
    outcomes = asyncio.run(asyncio.wait_for(runner.run_all(calls), SOON))
    assert [outcome.result.text for outcome in outcomes] == ["0", "1", "done", "3", "4"]
    second = 2 if limit > 1 else 1
    assert met == [("look", 1), ("look", second), ("step", 1), ("look", 1), ("look", second)]


async def test_a_cancel_while_an_ordered_call_runs_leaves_the_later_ones_alone() -> None:
    ran: list[int] = []
    inside = asyncio.Event()

    @tool(ordered=True)
    async def step(n: int) -> int:
        ran.append(n)
        if n == 1:
            inside.set()
            await asyncio.Event().wait()
        return n

    runner = executor(step)
    task = asyncio.create_task(runner.run_all([call("step", n=n) for n in range(4)]))
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ran == [0, 1]
    assert [outcome.result.text for outcome in await runner.run_all([call("step", n=7)])] == ["7"]
    assert alone()


# ---- time


@pytest.mark.parametrize(("timeout", "general"), [(0.02, 60.0), (None, 0.02), (0.02, None)])
def test_an_async_tool_is_stopped_in_time(timeout: float | None, general: float | None) -> None:
    stopped: list[bool] = []

    async def forever(context: Context) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(context.is_cancelled)

    outcome = outcome_of(tool(timeout=timeout)(forever), {"timeout": general})
    assert kind_of(outcome) == "timeout"
    assert "0.02 s" in outcome.result.text
    assert "'forever'" in outcome.result.text
    assert "and was stopped" in outcome.result.text
    assert outcome.ran
    assert len(stopped) == 1


def test_a_tools_own_time_limit_overrides_the_general_one() -> None:
    async def work() -> str:
        for _ in range(20):
            await asyncio.sleep(0.005)
        return "done"

    assert outcome_of(tool(timeout=SOON)(work), {"timeout": 0.01}).result.text == "done"


def test_a_sync_tool_is_left_alone_and_notified() -> None:
    cancelled, release = threading.Event(), threading.Event()

    def slow(context: Context) -> str:
        assert not context.is_cancelled
        while not context.is_cancelled:
            release.wait(0.001)
        cancelled.set()
        return "too late"

    outcome = outcome_of(tool(timeout=0.05)(slow))
    assert kind_of(outcome) == "timeout"
    assert "and may still be running" in outcome.result.text
    assert cancelled.wait(SOON), "a tool in a thread sees that nobody waits any more"


def test_one_tool_that_never_returns_blocks_nobody() -> None:
    release = threading.Event()

    def stuck() -> None:
        release.wait()

    async def main() -> list[ToolOutcome]:
        runner = executor(tool(timeout=0.1)(stuck), double, double_later)
        return await runner.run_all([call("stuck"), call("double", n=1), call("double_later", n=2)])

    try:
        outcomes = asyncio.run(asyncio.wait_for(main(), SOON))
    finally:
        release.set()
    assert [kind_of(outcome) for outcome in outcomes] == ["timeout", None, None]


def test_a_late_answer_of_a_thread_is_dropped_quietly() -> None:
    """Also one that comes when the loop is gone."""
    release, over = threading.Event(), threading.Event()

    def late() -> str:
        try:
            release.wait(SOON)
            return "late"
        finally:
            over.set()

    outcome = outcome_of(tool(timeout=0.02)(late))
    release.set()
    assert over.wait(SOON)
    assert kind_of(outcome) == "timeout"
    for thread in threading.enumerate():
        if thread.name == "toolglot-tool":
            thread.join(SOON)


def test_a_process_ends_though_a_tool_never_returns() -> None:
    program = """
import asyncio, threading
from toolglot.values.messages import ToolCall
from toolglot.tools.executor import ToolExecutor
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import tool

@tool(timeout=0.05)
def stuck() -> None:
    while True:
        threading.Event().wait()

print(asyncio.run(ToolExecutor(ToolRegistry([stuck])).run(ToolCall("c", "stuck", {}))).result.error_kind)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "timeout", "")


async def test_a_tool_that_does_not_let_itself_be_cancelled_blocks_nobody() -> None:
    async def stubborn() -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "in my own time"

    release = asyncio.Event()
    task = asyncio.create_task(executor(tool(timeout=0.02)(stubborn)).run(call("stubborn")))
    done, _ = await asyncio.wait([task], timeout=SOON)
    release.set()
    assert kind_of(await task) == "timeout"
    assert done, "the call goes on for as long as the tool likes"


async def _inner_timeout() -> None:
    async with asyncio.timeout(0.001):
        await asyncio.Event().wait()


async def _inner_wait_for() -> None:
    await asyncio.wait_for(asyncio.Event().wait(), 0.001)


def _bare() -> None:
    raise TimeoutError


def _with_words() -> None:
    raise TimeoutError("the server did not answer")


@pytest.mark.parametrize("limit", [None, 60.0])
@pytest.mark.parametrize("function", [_inner_timeout, _inner_wait_for, _bare, _with_words])
@pytest.mark.parametrize("inline", [False, True])
def test_a_timeout_inside_a_tool_is_its_own_affair(
    function: Function, limit: float | None, inline: bool
) -> None:
    outcome = outcome_of(tool(name="t", inline=inline)(function), {"timeout": limit})
    assert outcome.result.is_error
    assert "TimeoutError" in outcome.result.text
    assert "60 s" not in outcome.result.text, "it was not we who stopped it"
    assert "stopped" not in outcome.result.text


def test_the_time_that_a_call_took_is_reported() -> None:
    now = 100.0

    def work() -> None:
        nonlocal now
        now += 2.5

    runner = ToolExecutor(ToolRegistry([work]), clock=lambda: now)
    assert asyncio.run(runner.run(call("work"))).seconds == 2.5


# ---- trying again


class Flaky:
    """Fails with these errors, then works."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors, self.attempts = list(errors), list[int]()

    def __call__(self, context: Context) -> str:
        """Fails, then works."""
        self.attempts.append(context.attempt)
        if self.errors:
            raise self.errors.pop(0)
        return "done"


AGAIN = partial(ToolError, "busy", retryable=True)


@pytest.mark.parametrize("on_error", ["continue", "abort", "retry"])
@pytest.mark.parametrize("idempotent", [False, True])
def test_errors_that_are_marked_are_retried_always(on_error: str, idempotent: bool) -> None:
    flaky = Flaky(AGAIN(), AGAIN())
    outcome = outcome_of(tool(name="f", idempotent=idempotent)(flaky), {"on_error": on_error, "retry": QUICK})
    assert (outcome.result.text, outcome.retries, flaky.attempts) == ("done", 2, [1, 2, 3])


@pytest.mark.parametrize(("error", "on_error", "idempotent", "attempts"), [
    (ValueError("x"), "retry", True, 2),
    (ToolError("x"), "retry", True, 2),
    (ToolError("x", kind="timeout"), "retry", True, 2),
    (ValueError("x"), "retry", False, 1),
    (ValueError("x"), "continue", True, 1),
    (ValueError("x"), "abort", True, 1),
    (ToolError("x", kind="validation"), "retry", True, 1),
    (ToolError("x", kind="not_found"), "retry", True, 1),
    (ToolError("x", kind="rejected"), "retry", True, 1),
    (ToolError("x", kind="unknown_outcome"), "retry", True, 1),
])  # fmt: skip
def test_other_errors_only_if_that_is_allowed(
    error: Exception, on_error: str, idempotent: bool, attempts: int
) -> None:
    flaky = Flaky(error)
    outcome = outcome_of(tool(name="f", idempotent=idempotent)(flaky), {"on_error": on_error, "retry": QUICK})
    assert len(flaky.attempts) == attempts
    assert outcome.retries == attempts - 1
    assert outcome.result.is_error == (attempts == 1)


def test_arguments_that_are_not_valid_are_never_retried() -> None:
    ran: list[int] = []

    def work(n: int) -> None:
        ran.append(n)

    outcome = outcome_of(tool(idempotent=True)(work), {"on_error": "retry", "retry": QUICK}, n="many")
    assert (kind_of(outcome), outcome.retries, outcome.ran, ran) == ("validation", 0, False, [])


def test_a_timeout_is_retried_if_that_does_no_harm() -> None:
    attempts: list[Context] = []

    async def slow(context: Context) -> str:
        attempts.append(context)
        if len(attempts) == 1:
            await asyncio.Event().wait()
        return "done"

    outcome = outcome_of(tool(timeout=0.02, idempotent=True)(slow), {"on_error": "retry", "retry": QUICK})
    assert (outcome.result.text, outcome.retries) == ("done", 1)
    assert [context.is_cancelled for context in attempts] == [True, False], (
        "each attempt has a flag of its own"
    )


def test_a_tool_that_cancels_itself_after_a_timeout_is_not_taken_for_a_cancelled_run() -> None:
    attempts: list[int] = []

    async def slow() -> None:
        attempts.append(1)
        if len(attempts) == 1:
            await asyncio.Event().wait()
        raise asyncio.CancelledError

    outcome = outcome_of(tool(timeout=0.02, idempotent=True)(slow), {"on_error": "retry", "retry": QUICK})
    assert (kind_of(outcome), outcome.retries) == ("cancelled", 1)
    assert outcome.result.text == "The tool cancelled itself."


@pytest.mark.parametrize("limit", [0, 1, 4])
def test_the_number_of_retries_is_limited_and_told(limit: int) -> None:
    flaky = Flaky(*(AGAIN() for _ in range(10)))
    outcome = outcome_of(tool(name="f")(flaky), {"retry": RetryConfig(max_retries=limit, base=0.0)})
    assert (kind_of(outcome), outcome.retries, len(flaky.attempts)) == ("execution", limit, limit + 1)
    assert outcome.result.text == "busy"


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits of the executor, which take no time."""
    waited: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float, result: Any = None) -> Any:
        if seconds:
            waited.append(seconds)
        return await real(0, result)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return waited


def test_what_an_error_says_about_waiting_is_obeyed(waits: list[float]) -> None:
    flaky = Flaky(AGAIN(retry_after=7.5), AGAIN(retry_after=30.0))
    outcome = outcome_of(tool(name="f")(flaky))
    assert (outcome.result.text, waits) == ("done", [7.5, 30.0])


def test_an_error_that_asks_for_too_much_patience_is_reported_at_once(waits: list[float]) -> None:
    flaky = Flaky(AGAIN(retry_after=121.0))
    outcome = outcome_of(tool(name="f")(flaky))
    assert (kind_of(outcome), outcome.retries, waits) == ("execution", 0, [])


def test_waits_grow_and_stay_in_bounds(waits: list[float]) -> None:
    flaky = Flaky(*(AGAIN() for _ in range(8)))
    outcome_of(
        tool(name="f")(flaky),
        {"retry": RetryConfig(max_retries=8, base=0.5, factor=2, max_delay=8, jitter=0.25)},
    )
    bounds = [0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0]
    assert len(waits) == len(bounds)
    for waited, limit in zip(waits, bounds, strict=True):
        assert limit * 0.75 <= waited <= limit
    assert len(set(waits)) > 4, "the waits are spread"


@pytest.mark.parametrize("attempt", [0, 1, 5, 50, 5000])
@pytest.mark.parametrize("chance", [0.0, 0.999])
def test_a_delay_is_never_out_of_bounds(attempt: int, chance: float) -> None:
    retry = RetryConfig()
    assert 0 <= retry.delay(attempt, chance) <= retry.max_delay


# ---- cancelled


def alone() -> bool:
    """Whether no task is left but this one."""
    return asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("flavour", ["async", "sync"])
def test_cancelling_tells_the_tools_and_leaves_nothing(flavour: str) -> None:
    contexts: list[Context] = []
    release, running = threading.Event(), threading.Semaphore(0)

    def work(context: Context) -> None:
        contexts.append(context)
        running.release()
        release.wait(SOON)

    async def work_async(context: Context) -> None:
        contexts.append(context)
        running.release()
        await asyncio.Event().wait()

    async def main() -> None:
        runner = executor(tool(name="work")(work if flavour == "sync" else work_async), max_parallel=2)
        task = asyncio.create_task(runner.run_all([call("work")] * 4))
        for _ in range(2):
            while not running.acquire(blocking=False):
                await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert alone()

    try:
        asyncio.run(main())
    finally:
        release.set()
    assert [context.is_cancelled for context in contexts] == [True, True], "and the two others never started"


async def test_cancelled_while_it_waits_to_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, real = asyncio.Event(), asyncio.sleep

    async def sleep(seconds: float) -> None:
        waiting.set()
        await real(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    flaky = Flaky(AGAIN(retry_after=100.0))
    task = asyncio.create_task(executor(tool(name="f")(flaky)).run(call("f")))
    await asyncio.wait_for(waiting.wait(), SOON)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert flaky.attempts == [1]
    assert alone()


@pytest.mark.parametrize("steps", range(12))
async def test_cancelled_at_any_point_the_executor_stays_usable(steps: int) -> None:
    async def work(n: int) -> int:
        for _ in range(3):
            await asyncio.sleep(0)
        return n

    class Watch(Hooks):
        async def before_tool(self, call: ToolCall) -> None:
            await asyncio.sleep(0)

        async def after_tool(self, outcome: ToolOutcome) -> None:
            await asyncio.sleep(0)

    runner = executor(work, hooks=(Watch(),), max_parallel=2)
    task = asyncio.create_task(runner.run_all([call("work", n=n) for n in range(3)]))
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert alone()
    assert [outcome.result.text for outcome in await runner.run_all([call("work", n=7)] * 3)] == ["7"] * 3


async def test_an_outer_time_limit_is_not_taken_for_the_tools_own() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await executor(tool(timeout=60)(forever)).run(call("forever"))


async def test_an_error_in_one_call_leaves_no_other_running() -> None:
    """Errors of hooks surface; the other calls of the turn do not go on behind the caller's back."""

    class Broken(Hooks):
        def after_tool(self, outcome: ToolOutcome) -> None:
            raise LookupError("the hook is broken")

    async def forever() -> None:
        await asyncio.Event().wait()

    runner = executor(double, forever, hooks=(Broken(),))
    with pytest.raises(LookupError, match="the hook is broken"):
        await runner.run_all([call("forever"), call("double", n=1)])
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    assert not left


# ---- tools that behave badly


class Odd(Exception):
    """An exception that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class OddTimeout(TimeoutError):
    """The same, of a type that is looked at closely."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class OddToolError(ToolError):
    """The same, of our own."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class NotAnError(BaseException):
    """Not an Exception."""


def raiser(error: BaseException, flavour: str) -> Tool:
    def fail() -> None:
        raise error

    async def fail_async() -> None:
        raise error

    async def fail_later() -> None:
        await asyncio.sleep(0)
        raise error

    match flavour:
        case "thread":
            return tool(name="fail")(fail)
        case "inline":
            return tool(name="fail", inline=True)(fail)
        case "async":
            return tool(name="fail")(fail_async)
        case _:
            return tool(name="fail")(fail_later)


FLAVOURS = ["thread", "inline", "async", "later"]


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize(("error", "words"), [
    pytest.param(ValueError("the disk is full"), "ValueError: the disk is full", id="words"),
    pytest.param(KeyError("name"), "KeyError: 'name'", id="KeyError"), pytest.param(ValueError(), "ValueError", id="no words"),
    pytest.param(ToolError("Say the city."), "Say the city.", id="ToolError"),
    pytest.param(StopIteration("x"), "StopIteration", id="StopIteration"),
    pytest.param(StopAsyncIteration("x"), "StopAsyncIteration", id="StopAsyncIteration"),
    pytest.param(ExceptionGroup("two", [ValueError("a"), ValueError("b")]), "two", id="group"),
    pytest.param(Odd(), "Odd", id="str() raises"), pytest.param(OddTimeout(), "OddTimeout", id="str() of a timeout raises"),
    pytest.param(OddToolError("x"), "", id="str() of a ToolError raises"),
    pytest.param(RecursionError("deep"), "RecursionError: deep", id="RecursionError"),
    pytest.param(MemoryError(), "MemoryError", id="MemoryError"), pytest.param(SystemExit(3), "SystemExit", id="SystemExit"),
    pytest.param(NotAnError("x"), "NotAnError", id="BaseException"),
])  # fmt: skip
def test_a_tool_that_raises_has_an_outcome(error: BaseException, words: str, flavour: str) -> None:
    try:
        outcome = outcome_of(raiser(error, flavour))
    except BaseException as e:  # SystemExit would end the test run
        pytest.fail(f"{type(e).__name__} of a tool reached the caller")
    assert kind_of(outcome) == "execution"
    assert words in outcome.result.text
    assert "Traceback" not in outcome.result.text
    assert "\n" not in outcome.result.text
    assert outcome.ran


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_keyboard_interrupt_that_cannot_be_the_users_is_an_outcome(flavour: str) -> None:
    """Under asyncio.run Ctrl-C cancels instead; in another thread there is none."""
    for outcome in (
        outcome_of(raiser(KeyboardInterrupt(), flavour)),
        in_thread(raiser(KeyboardInterrupt(), flavour)),
    ):
        assert kind_of(outcome) == "execution"
        assert "KeyboardInterrupt" in outcome.result.text


def in_thread(tool: Tool) -> ToolOutcome:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(outcome_of, tool).result()


@pytest.mark.parametrize("flavour", ["async", "inline"])
def test_a_keyboard_interrupt_that_may_be_the_users_gets_through(flavour: str) -> None:
    with closing(asyncio.new_event_loop()) as loop:
        task = loop.create_task(executor(raiser(KeyboardInterrupt(), flavour)).run(call("fail")))
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(task)
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(task)


def test_a_keyboard_interrupt_gets_through_after_another_loop_has_left_its_handler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with asyncio.Runner() as runner:
        pass
    left: Any = partial(getattr(runner, "_on_sigint"), main_task=None)  # noqa: B009 - private, but what asyncio installs

    def getsignal(number: int) -> Any:
        return left

    monkeypatch.setattr(signal, "getsignal", getsignal)
    test_a_keyboard_interrupt_that_may_be_the_users_gets_through("async")


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_tool_that_cancels_itself_cancels_nobody_else(flavour: str) -> None:
    outcome = outcome_of(raiser(asyncio.CancelledError(), flavour))
    assert kind_of(outcome) in ("cancelled", "execution")
    assert "ancel" in outcome.result.text


def test_a_tool_that_waits_for_a_cancelled_task_cancels_nobody_else() -> None:
    async def work() -> None:
        task = asyncio.create_task(asyncio.sleep(60))
        task.cancel()
        await task

    outcomes = asyncio.run(executor(work, double_later).run_all([call("work"), call("double_later", n=4)]))
    assert [kind_of(outcome) for outcome in outcomes] == ["cancelled", None]


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_words_of_an_error_are_short_and_can_be_sent(flavour: str) -> None:
    outcome = outcome_of(raiser(ValueError("half \ud800 " + "long " * 1000 + "\nand a second line"), flavour))
    assert len(outcome.result.text) < 600
    assert "second line" not in outcome.result.text
    outcome.result.text.encode()


@pytest.mark.parametrize("flavour", ["thread", "async"])
def test_words_that_a_tool_chose_are_truncated_like_a_result_and_can_be_sent(flavour: str) -> None:
    outcome = outcome_of(raiser(ToolError("\udcff" + "x" * 5000), flavour), {"max_result": 1000})
    assert len(outcome.result.text) < 1200
    assert 'read_result(handle="r' in outcome.result.text
    outcome.result.text.encode()


def test_a_tool_may_say_what_kind_of_error_it_is() -> None:
    outcome = outcome_of(raiser(ToolError("no such file", kind="not_found"), "thread"))
    assert (kind_of(outcome), outcome.result.text, outcome.ran) == ("not_found", "no such file", True)


def test_prints_of_a_tool_are_not_its_result(capsys: pytest.CaptureFixture[str]) -> None:
    def chatty() -> str:
        print("to stdout")
        print("to stderr", file=sys.stderr)
        return "the result"

    assert outcome_of(chatty).result.text == "the result"
    assert capsys.readouterr() == ("to stdout\n", "to stderr\n")


# ---- results that are garbage


def test_an_async_generator_that_is_returned_is_read_or_reported() -> None:
    def give() -> Any:
        return pieces_later(2)

    assert outcome_of(give).result.text


def test_a_generator_that_is_returned_is_not_read_on_the_loop() -> None:
    """It may wait, and then everybody would."""
    where: list[int] = []

    def give() -> Any:
        def lines() -> Iterator[str]:
            where.append(threading.get_ident())
            yield "a"

        return lines()

    assert outcome_of(give).result.text == "a"
    assert where != [threading.get_ident()]


def test_a_generator_without_end_is_stopped() -> None:
    closed: list[bool] = []

    def flood() -> Iterator[str]:
        try:
            while True:
                yield "x" * 100_000
        finally:
            closed.append(True)

    outcome = outcome_of(flood)
    assert not outcome.result.is_error
    assert len(outcome.result.text) < 61_000
    assert closed == [True]


# ---- calls that behave badly


def test_an_unknown_tool_is_reported_with_the_nearest_names() -> None:
    def get_weather() -> None: ...
    def set_weather() -> None: ...
    def unrelated() -> None: ...

    runner = executor(get_weather, set_weather, unrelated)
    outcome = asyncio.run(runner.run(call("get_wether")))
    assert (kind_of(outcome), outcome.ran) == ("not_found", False)
    assert "'get_wether'" in outcome.result.text
    assert "'get_weather'" in outcome.result.text
    assert "unrelated" not in outcome.result.text


def test_an_unknown_tool_if_there_are_none() -> None:
    outcome = asyncio.run(executor().run(call("look")))
    assert kind_of(outcome) == "not_found"
    assert outcome.result.text == "There is no tool 'look': no tools are available."


@pytest.mark.parametrize("name", ["nothing_like_it", "x" * 1_000_000, "", "\ud800", "tool_1000"])
def test_an_unknown_tool_among_a_thousand_is_reported_in_a_few_words(name: str) -> None:
    tools = [tool(name=f"tool_{n}")(double) for n in range(1000)]
    outcome = asyncio.run(executor(*tools).run(call(name)))
    assert kind_of(outcome) == "not_found"
    assert len(outcome.result.text) < 1000
    outcome.result.text.encode()


@pytest.mark.parametrize(
    "raw",
    [
        "{'n': 4}",
        '{"n": 4,}',
        '```json\n{"n": 4}\n```',
        '{"n": 4}}',
        "{n: 4}",
        '"{\\"n\\": 4}"',
        '{"n": "4"}',
    ],
)
def test_broken_json_is_repaired_and_that_is_reported(raw: str) -> None:
    outcome = asyncio.run(executor(double).run(ToolCall("c", "double", None, raw)))
    assert outcome.result.text == "8"
    assert bool(outcome.repairs) == (raw != '{"n": "4"}')


@pytest.mark.parametrize("raw", [
    '{"path": "README.md", "content": "half of it', '{"path": "README.md", "content": "all of it"',
    '{"path": "README.md", "content": ', '{"path": "README.md", "cont', "{", "not JSON at all", "[1, 2]", '"text"', "\ud800",
    "[" * 100_000,
], ids=lambda raw: raw[:20].encode("ascii", "replace").decode())  # fmt: skip
def test_arguments_that_cannot_be_known_never_run(raw: str) -> None:
    ran: list[str] = []

    def write(path: str, content: str = "") -> None:
        ran.append(content)

    outcome = asyncio.run(executor(write).run(ToolCall("c", "write", None, raw)))
    assert (kind_of(outcome), outcome.ran, ran) == ("validation", False, [])
    assert "write" in outcome.result.text
    assert len(outcome.result.text) < 2000
    outcome.result.text.encode()


@pytest.mark.parametrize("depth", [10, 300, 900, 20_000])
def test_arguments_that_are_nested_deeply_have_an_outcome(depth: int) -> None:
    def take(x: Any = None) -> str:
        return "taken"

    raw = f'{{"x": {"[" * depth}1{"]" * depth}}}'  # a ToolCall cannot hold the value itself
    for taker in (tool(take), tool_from_schema("take", "Takes.", {"type": "object"}, take)):
        outcome = asyncio.run(executor(taker, max_repeats=3).run(ToolCall("c", "take", None, raw)))
        assert kind_of(outcome) == (None if depth == 10 else "validation")


# ---- results that are long


def test_a_flood_is_truncated_too() -> None:
    """50 MB, and all of it can be read."""

    def flood() -> str:
        return "0123456789" * 5_000_000

    runner = executor(flood)
    outcome = asyncio.run(runner.run(call("flood")))
    assert len(outcome.result.text) < 61_000
    handle = outcome.result.text.partition('handle="')[2].partition('"')[0]
    page = asyncio.run(runner.run(call("read_result", handle=handle, offset=49_999_995)))
    assert page.result.text == "56789\n[characters 49999995 to 50000000 of 50000000; this is the end]"


@pytest.mark.parametrize(
    ("own_limit", "general", "limit"), [(None, 500, 500), (300, 500, 300), (900, 500, 900)]
)
def test_a_tools_own_length_overrides_the_general_one(
    own_limit: int | None, general: int, limit: int
) -> None:
    def long() -> str:
        return "x" * 10_000

    shown = outcome_of(tool(max_result=own_limit)(long), {"max_result": general}).result.text
    assert limit <= len(shown) <= limit + 120


def test_structured_data_is_not_a_way_around_the_length() -> None:
    def rows() -> list[int]:
        return list(range(100_000))

    result = outcome_of(rows, {"max_result": 1000}).result
    assert len(dumps(result)) < 2000


# ---- progress


def events_of(tool: Tool, count: int = 1) -> list[Event]:
    events: list[Event] = []

    async def main() -> None:
        await executor(tool).run_all([call(tool.name) for _ in range(count)], emit=events.append)
        await asyncio.sleep(0)

    asyncio.run(main())
    return events


def words(events: list[Event]) -> list[str]:
    return [event.text if isinstance(event, ToolProgress) else type(event).__name__ for event in events]


@pytest.mark.parametrize("flavour", ["thread", "inline", "async", "later"])
def test_progress_comes_in_order_between_start_and_end(flavour: str) -> None:
    def work(context: Context) -> None:
        for n in range(50):
            context.report(str(n))

    async def work_async(context: Context) -> None:
        work(context)

    async def work_later(context: Context) -> None:
        for n in range(50):
            context.report(str(n))
            await asyncio.sleep(0)

    functions: dict[str, Function] = {
        "thread": work,
        "inline": work,
        "async": work_async,
        "later": work_later,
    }
    worker = tool(name="work", inline=flavour == "inline")(functions[flavour])
    assert words(events_of(worker)) == ["ToolStarted", *map(str, range(50)), "ToolFinished"]


def test_progress_of_calls_at_the_same_time_is_each_in_order() -> None:
    together = threading.Barrier(3)

    def work(context: Context) -> None:
        for n in range(20):
            together.wait(SOON)
            context.report(f"{n}")

    events = events_of(tool(work), 3)
    by_call: dict[str, list[Event]] = {}
    for event in events:
        by_call.setdefault(
            event.outcome.call.id if isinstance(event, ToolFinished) else event.call.id, []
        ).append(event)
    assert len(by_call) == 3
    for own_events in by_call.values():
        assert words(own_events) == ["ToolStarted", *map(str, range(20)), "ToolFinished"]


async def test_a_tool_that_was_given_up_reports_no_more() -> None:
    release, over = threading.Event(), threading.Event()
    wrong: list[BaseException] = []

    def work(context: Context) -> None:
        context.report("begun")
        release.wait(SOON)
        try:
            context.report("too late")
        except BaseException as e:
            wrong.append(e)
        over.set()

    events: list[Event] = []
    await executor(tool(timeout=0.05)(work)).run(call("work"), emit=events.append)
    release.set()
    while not over.is_set():
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert wrong == []
    assert words(events) == ["ToolStarted", "begun", "ToolFinished"]


def test_a_tool_that_outlives_its_loop_may_still_report() -> None:
    release, over = threading.Event(), threading.Event()
    wrong: list[BaseException] = []

    def work(context: Context) -> None:
        release.wait(SOON)
        try:
            context.report("too late")
        except BaseException as e:
            wrong.append(e)
        over.set()

    events: list[Event] = []
    asyncio.run(executor(tool(timeout=0.05)(work)).run(call("work"), emit=events.append))
    release.set()
    assert over.wait(SOON)
    assert wrong == []


async def test_start_and_end_are_reported_for_every_call_that_ran() -> None:
    events: list[Event] = []

    async def fail() -> None:
        raise ValueError

    await executor(double, fail).run_all([call("double", n=1), call("fail")], emit=events.append)
    assert Counter(words(events)) == {"ToolStarted": 2, "ToolFinished": 2}
    assert all(event.outcome.result.content for event in events if isinstance(event, ToolFinished))
