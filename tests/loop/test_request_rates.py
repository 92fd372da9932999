"""Limits on requests to models, as an agent and its users meet them."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.loop.agents import Wiretap, make_agent, run

from toolglot import RunLimits, errors
from toolglot.engine import rate_limit
from toolglot.engine.rate_limit import RequestRate
from toolglot.values.events import RequestDelayed, Retrying, RunDone
from toolglot.values.messages import Conversation

ONE_A_MINUTE = RunLimits(request_rates={"simulator": RequestRate(requests=1)})


@pytest.fixture(autouse=True)
def no_requests_yet() -> Iterator[None]:
    yield
    rate_limit._slots_of.cache_clear()  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
def delays(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    delays, real = list[float](), asyncio.sleep

    async def sleep(seconds: float) -> None:
        delays.append(seconds)
        await real(0)

    monkeypatch.setattr("toolglot.engine.engine.asyncio.sleep", sleep)
    return delays


def test_agents_share_a_limit_and_wait(delays: list[float]) -> None:
    for provider in ("anthropic", "gemini", "ollama"):
        assert make_agent(provider, limits=ONE_A_MINUTE).run_sync("hi").stop == "end"
    assert [round(delay / 60) for delay in delays if delay] == [1, 2]


def test_a_wait_is_an_event() -> None:
    agent = make_agent("anthropic", limits=ONE_A_MINUTE)

    async def watch() -> RequestDelayed:
        await agent.run("first")
        async for event in agent.stream("second", conversation=Conversation()):
            if isinstance(event, RequestDelayed):
                return event
        raise AssertionError("it did not wait")

    event = run(watch())
    assert event.reason == "simulator is limited to 1 request in 60 s"
    assert 0 < event.seconds <= 60


def test_a_model_that_fails_after_the_wait_is_replaced(delays: list[float]) -> None:
    rates = {"simulator:anthropic*": RequestRate(requests=1)}
    wiretap = Wiretap(
        errors=[None, errors.ConnectFailed("no"), errors.ConnectFailed("no"), errors.ConnectFailed("no")]
    )
    agent = make_agent(
        "anthropic", wiretap, limits=RunLimits(request_rates=rates), fallbacks=["simulator:gemini"]
    )

    async def ask() -> list[object]:
        await agent.run("first")
        return [event async for event in agent.stream("say second")]

    events = run(ask())
    assert [type(event) for event in events[:2]] == [RequestDelayed, Retrying]
    assert isinstance(events[-1], RunDone)
    assert (events[-1].result.text, agent.model) == ("second", "simulator:gemini/gemini-3-pro-preview")


def test_the_wait_ends_with_the_time_of_the_run() -> None:
    wiretap = Wiretap()
    agent = make_agent("anthropic", wiretap, limits=ONE_A_MINUTE)

    async def ask() -> list[object]:
        await agent.run("first")
        limits = RunLimits(request_rates=ONE_A_MINUTE.request_rates, run_timeout=0.05)
        return [event async for event in agent.stream("second", limits=limits)]

    *_, delayed, done = run(ask())
    assert isinstance(delayed, RequestDelayed)
    assert isinstance(done, RunDone)
    assert not done.result.text
    assert len(wiretap.requests) == 1


def test_a_wait_can_be_cancelled() -> None:
    wiretap = Wiretap()
    agent = make_agent("anthropic", wiretap, limits=ONE_A_MINUTE)

    async def ask() -> None:
        await agent.run("first")
        task = asyncio.create_task(agent.run("second"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await agent.run("third", limits=RunLimits())

    run(ask())
    assert len(wiretap.requests) == 2


def test_a_provider_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(errors.UnknownName, match="unknown provider 'antropic'; did you mean 'anthropic'"):
        RunLimits(request_rates={"antropic:claude-*": RequestRate(requests=1)})
