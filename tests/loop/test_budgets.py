"""Limits of a whole run: tokens, time, money.

A run that reaches one ends with `budget`, and its conversation is valid.
"""

import asyncio
from itertools import count
from typing import Any

import pytest

from toolglot.loop.limits import RunLimits
from toolglot.tools.config import ToolConfig
from toolglot.tools.tool import tool
from toolglot.values.events import ToolFinished
from toolglot.values.messages import Reply, ToolCall
from toolglot.values.request import Request

from .agents import (
    PROVIDERS,
    StuckTool,
    Wiretap,
    check,
    collect_events,
    hook,
    kinds_of,
    make_agent,
    noting,
    outcome,
    run,
    texts_of,
)

LIVE = pytest.mark.parametrize("live", [False, True], ids=["whole", "streamed"])
EVERYWHERE = pytest.mark.parametrize("provider", PROVIDERS)


def for_ever() -> Any:
    """A model that calls and calls."""
    numbers = count()

    def reply(request: Request) -> Reply:
        return Reply((ToolCall("", "work", {"n": next(numbers)}),), "tools")

    return [reply] * 100


class Work:
    """A tool that counts."""

    def __init__(self) -> None:
        self.ran = 0

    @property
    def tool(self) -> Any:
        async def work(n: int) -> str:
            """Works."""
            self.ran += 1
            return f"did {n}"

        return tool(work)


@EVERYWHERE
@LIVE
def test_tokens_run_out(provider: str, live: bool) -> None:
    work = Work()
    agent = make_agent(
        provider,
        Wiretap(*for_ever()),
        tools=[work.tool],
        limits=RunLimits(max_total_tokens=1500, max_iterations=99),
    )
    result = run(outcome(agent, "go", streamed=live))
    assert result.stop == "budget"
    assert result.usage.input + result.usage.output >= 1500
    assert 0 < work.ran < 90
    assert kinds_of(agent.conversation)[-1] == "limit", "the calls that the budget did not allow"
    check(agent.conversation)
    after = make_agent(provider, conversation=agent.conversation)
    assert run(after.run("say on")).text == "on"


async def test_each_run_has_a_budget_of_its_own() -> None:
    agent = make_agent("anthropic", limits=RunLimits(max_total_tokens=40))
    assert [(await agent.run("say x")).stop for _ in range(3)] == ["end"] * 3


def test_no_tokens_at_all() -> None:
    wiretap = Wiretap()
    agent = make_agent("anthropic", wiretap, limits=RunLimits(max_total_tokens=0))
    result = run(agent.run("say x"))
    assert (result.stop, wiretap.requests) == ("budget", [])
    check(agent.conversation)


# ---- money


@LIVE
def test_money_runs_out(live: bool) -> None:
    work = Work()
    limits = RunLimits(max_cost=0.004, max_iterations=99)
    agent = make_agent("anthropic/claude-sonnet-4-5", Wiretap(*for_ever()), tools=[work.tool], limits=limits)
    result = run(outcome(agent, "go", streamed=live))
    assert result.stop == "budget"
    assert result.cost is not None
    assert result.cost >= 0.004
    assert 0 < work.ran < 90
    check(agent.conversation)


def test_the_cost_is_that_of_the_price_list() -> None:
    agent = make_agent("anthropic/claude-sonnet-4-5")
    result = run(agent.run("say x"))
    price = agent.view().engine.profile.price
    assert price is not None
    assert result.cost == pytest.approx(price.cost(result.usage))  # pyright: ignore[reportUnknownMemberType]


def test_a_model_without_a_price_has_no_cost_and_no_limit_of_it() -> None:
    agent = make_agent("ollama", limits=RunLimits(max_cost=0.0000001), tools=[Work().tool])
    result = run(agent.run('call work {"n": 1}'))
    assert (result.stop, result.cost) == ("end", None)


# ---- time


@EVERYWHERE
@LIVE
def test_a_model_that_stalls_is_stopped_in_time(provider: str, live: bool) -> None:
    wiretap = Wiretap("say some words that take their time", faults=["stall"])
    agent = make_agent(provider, wiretap, limits=RunLimits(run_timeout=0.05))
    result = run(outcome(agent, "go", streamed=live))
    assert result.stop == "timeout"
    assert wiretap.open == 0
    check(agent.conversation)
    after = make_agent(provider, conversation=agent.conversation)
    assert run(after.run("say on")).text == "on"


@LIVE
def test_a_tool_that_hangs_is_stopped_in_time(live: bool) -> None:
    hang = StuckTool("hang")
    agent = make_agent("anthropic", tools=[hang.tool, noting([], "quick")], limits=RunLimits(run_timeout=0.5))
    result = run(outcome(agent, "call quick {} call hang {}", streamed=live))
    assert result.stop == "timeout"
    assert hang.ended == 1
    assert kinds_of(agent.conversation) == [None, "interrupted"]
    check(agent.conversation)


@LIVE
@pytest.mark.parametrize("max_parallel", [1, 8])
def test_every_call_has_an_outcome_when_the_time_is_up(live: bool, max_parallel: int) -> None:
    hang = StuckTool("hang")
    config, limits = ToolConfig(max_parallel=max_parallel), RunLimits(run_timeout=0.3)
    agent = make_agent("anthropic", tools=[hang.tool, noting([], "quick")], config=config, limits=limits)
    result = run(outcome(agent, "call quick {} call hang {} call quick {}", streamed=live))
    expected = [("quick", None, True), ("hang", "interrupted", True), ("quick", None, True)]
    if max_parallel == 1:
        expected[2] = ("quick", "cancelled", False)
    assert [
        (outcome.call.name, outcome.result.error_kind, outcome.ran) for outcome in result.outcomes
    ] == expected


def test_a_call_that_the_time_limit_stopped_is_an_event_too() -> None:
    hang = StuckTool("hang")
    agent = make_agent("anthropic", tools=[hang.tool], limits=RunLimits(run_timeout=0.3))
    events = run(collect_events(agent.stream("call hang {}")))
    assert [event.outcome.result.error_kind for event in events if isinstance(event, ToolFinished)] == [
        "interrupted"
    ]


@LIVE
def test_a_call_that_the_budget_stopped_has_an_outcome(live: bool) -> None:
    ran: list[str] = []
    agent = make_agent("anthropic", tools=[noting(ran, "quick")], limits=RunLimits(max_total_tokens=1))
    result = run(outcome(agent, "call quick {}", streamed=live))
    assert ran == []
    assert [(outcome.result.error_kind, outcome.ran) for outcome in result.outcomes] == [("limit", False)]


@LIVE
def test_the_time_limit_is_not_told_as_an_act_of_the_user(live: bool) -> None:
    agent = make_agent("anthropic", Wiretap(faults=["stall-first"]), limits=RunLimits(run_timeout=0.02))
    run(outcome(agent, "go", streamed=live))
    assert "user interrupted" not in texts_of(agent.conversation)


@LIVE
def test_no_time_at_all(live: bool) -> None:
    agent = make_agent("anthropic", limits=RunLimits(run_timeout=0.0))
    assert run(outcome(agent, "say x", streamed=live)).stop == "timeout"
    check(agent.conversation)


@LIVE
def test_a_run_in_time_is_not_disturbed(live: bool) -> None:
    work = Work()
    agent = make_agent("anthropic", tools=[work.tool], limits=RunLimits(run_timeout=30))
    assert run(outcome(agent, 'call work {"n": 1}', streamed=live)).stop == "end"


async def never(_: Any) -> Any:
    await asyncio.Event().wait()


async def test_a_slow_hook_is_stopped_in_time() -> None:
    agent = make_agent("anthropic", hooks=[hook(before_request=never)], limits=RunLimits(run_timeout=0.05))
    async with asyncio.timeout(5):
        assert (await agent.run("say x")).stop == "timeout"
    check(agent.conversation)


async def test_a_timeout_of_somebody_else_is_not_ours() -> None:
    """A hook's own TimeoutError is an error; the time of the run is not over."""

    def fail(_: Request) -> None:
        raise TimeoutError("of the hook")

    agent = make_agent("anthropic", hooks=[hook(before_request=fail)], limits=RunLimits(run_timeout=30))
    with pytest.raises(TimeoutError, match="of the hook"):
        await agent.run("say x")
    check(agent.conversation)


@pytest.mark.parametrize("waits", [0.5, 60.0])
async def test_waiting_for_the_provider_counts_as_time(waits: float) -> None:
    agent = make_agent(
        "anthropic", Wiretap(faults=[f"rate-limit:{waits:g}"] * 9), limits=RunLimits(run_timeout=0.05)
    )
    assert (await agent.run("say x")).stop == "timeout"
    check(agent.conversation)


@LIVE
def test_calls_that_do_not_fit_into_the_budget_do_not_run(live: bool) -> None:
    work = Work()
    agent = make_agent(
        "anthropic", Wiretap(*for_ever()), tools=[work.tool], limits=RunLimits(max_total_tokens=1)
    )
    result = run(outcome(agent, "go", streamed=live))
    assert result.stop == "budget"
    assert work.ran == 0
    assert kinds_of(agent.conversation) == ["limit"]
    check(agent.conversation)
