"""Limits on requests to models: how long a request waits, and which limits are its own."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_transport import (
    ScriptedReply,
    ScriptedTransport,
    chat_engine,
    error_reply,
    stream_request,
    text_request,
    whole_reply,
)

from toolglot import errors
from toolglot.common.jsontext import dumps
from toolglot.engine import rate_limit
from toolglot.engine.rate_limit import RequestRate, Slot, cancel_slot, reserve_slot
from toolglot.tools.config import RetryConfig
from toolglot.values.events import RequestDelayed, Retrying

MODEL = "anthropic:claude-sonnet-4-5"


@pytest.fixture(autouse=True)
def no_requests_yet() -> Iterator[None]:
    yield
    rate_limit._slots_of.cache_clear()  # pyright: ignore[reportPrivateUsage]


def times(rates: dict[str, RequestRate], *moments: float, tokens: int = 0, name: str = MODEL) -> list[float]:
    return [reserve_slot(rates, name, moment, tokens).time for moment in moments]


def test_requests_beyond_the_limit_wait_in_their_order() -> None:
    assert times({"anthropic": RequestRate(requests=2)}, 0, 30, 31, 32, 33, 34) == [0, 30, 60, 90, 120, 150]


def test_a_request_that_is_old_enough_does_not_count() -> None:
    assert times({"anthropic": RequestRate(requests=2, seconds=10)}, 0, 4, 10, 14, 40) == [0, 4, 10, 14, 40]


def test_tokens_count_as_estimated_until_the_reply_tells() -> None:
    rates = {"anthropic": RequestRate(tokens=100)}
    first = reserve_slot(rates, MODEL, 0, 40)
    assert times(rates, 1, tokens=60) == [1]
    assert times(rates, 2, tokens=1) == [60]
    first.tokens = 5
    assert times(rates, 3, tokens=30) == [3]


def test_a_request_that_is_larger_than_the_limit_is_sent_alone() -> None:
    assert times({"anthropic": RequestRate(tokens=100)}, 0, 1, 200, tokens=500) == [0, 60, 200]


def test_all_limits_of_a_model_hold() -> None:
    rates = {"anthropic": RequestRate(requests=2), "anthropic:*opus*": RequestRate(requests=1, seconds=600)}
    opus, sonnet = "anthropic:claude-opus-4-5", MODEL
    order = [(opus, 0), (opus, 1), (sonnet, 2), (sonnet, 3), (sonnet, 4)]
    # What waits for its own limit does not hold up the other model.
    assert [reserve_slot(rates, name, moment, 0).time for name, moment in order] == [0, 600, 2, 60, 62]
    slot = reserve_slot(rates, opus, 5, 0)
    assert (slot.time, slot.pattern) == (1200, "anthropic:*opus*")


@pytest.mark.parametrize(
    ("pattern", "name", "is_limited"),
    [
        ("anthropic", MODEL, True),
        ("claude", MODEL, True),
        ("anthropic:claude-sonnet-*", MODEL, True),
        ("anthropic:claude-opus-*", MODEL, False),
        ("openai", "openai-chat:gpt-4o", True),
        ("openai", "openai-responses:gpt-5.1", True),
        ("openai-chat", "openai-responses:gpt-5.1", False),
        ("openai:gpt-5*", "openai-responses:gpt-5.1", True),
        ("ollama:qwen3:8b", "ollama:qwen3:8b", True),
        ("simulator", "simulator:anthropic/claude-sonnet-4-5", True),
        ("anthropic", "simulator:anthropic/claude-sonnet-4-5", False),
    ],
)
def test_limits_are_by_provider_or_model(pattern: str, name: str, is_limited: bool) -> None:
    assert times({pattern: RequestRate(requests=1)}, 0, 0, name=name) == [0, 60 if is_limited else 0]


def test_both_apis_of_a_provider_share_its_limit() -> None:
    rates = {"openai": RequestRate(requests=1)}
    assert [
        reserve_slot(rates, name, 0, 0).time for name in ("openai-chat:gpt-4o", "openai-responses:gpt-5.1")
    ] == [0, 60]


def test_a_slot_that_was_not_used_is_free_again() -> None:
    rates = {"anthropic": RequestRate(requests=1)}
    times(rates, 0)
    waiting = reserve_slot(rates, MODEL, 1, 0)
    cancel_slot(rates, MODEL, waiting)
    cancel_slot(rates, MODEL, waiting)
    assert times(rates, 2) == [60]


@given(
    st.lists(st.tuples(st.floats(0, 5), st.integers(0, 60), st.booleans()), max_size=30),
    st.integers(1, 4),
    st.integers(30, 100),
)
def test_no_span_of_time_has_more_than_the_limit(
    steps: list[tuple[float, int, bool]], requests: int, tokens: int
) -> None:
    rate_limit._slots_of.cache_clear()  # pyright: ignore[reportPrivateUsage]
    rates = {"anthropic": RequestRate(requests=requests, tokens=tokens, seconds=10)}
    now = 0.0
    slots = list[Slot]()
    for wait, size, cancels in steps:
        now += wait
        slot = reserve_slot(rates, MODEL, now, size)
        assert slot.time >= now
        if cancels and slot.time > now:
            cancel_slot(rates, MODEL, slot)
        else:
            slots.append(slot)
    for slot in slots:
        span = [other for other in slots if slot.time <= other.time < slot.time + 10]
        assert len(span) <= requests
        assert len(span) == 1 or sum(other.tokens for other in span) <= tokens


# ---- in the engine


@pytest.fixture
def delays(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    delays, real = list[float](), asyncio.sleep

    async def sleep(seconds: float, *_: Any) -> None:
        delays.append(seconds)
        await real(0)

    monkeypatch.setattr("toolglot.engine.engine.asyncio.sleep", sleep)
    return delays


def test_every_attempt_counts_and_says_why_it_waits(
    delays: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    transport = ScriptedTransport(error_reply(500), whole_reply())
    state = chat_engine(transport, retry=RetryConfig(base=0)).new_state({"openai": RequestRate(requests=1)})

    async def collect() -> list[Any]:
        return [event async for batch in state.stream_batches(text_request()) for event in batch]

    with caplog.at_level(logging.INFO, "toolglot.engine"):
        events = asyncio.run(collect())
    assert [type(event) for event in events[:2]] == [Retrying, RequestDelayed]
    assert events[1].reason == "openai is limited to 1 request in 60 s"
    assert delays == [0.0, events[1].seconds]
    assert 0 < events[1].seconds <= 60
    assert "openai-chat:gpt-4o: openai is limited to 1 request in 60 s; waiting for" in caplog.text
    assert len(transport.requests) == 2


def test_the_usage_of_a_reply_replaces_the_estimate(delays: list[float]) -> None:
    rates = {"openai": RequestRate(tokens=1_000)}
    message = {"role": "assistant", "content": "short"}
    usage = {"prompt_tokens": 90, "completion_tokens": 10, "total_tokens": 100}
    body = dumps(
        {"id": "c1", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
    )
    transport = ScriptedTransport(ScriptedReply((body,)), ScriptedReply((body,)))

    async def ask_twice(text: str) -> None:
        for _ in range(2):
            await chat_engine(transport).new_state(rates).ask(text_request(text))

    asyncio.run(ask_twice("word " * 700))  # more than half of the limit, but the provider counts less
    assert delays == []


def test_leaving_while_it_waits_gives_the_slot_back(delays: list[float]) -> None:
    rates = {"openai": RequestRate(requests=1)}
    transport = ScriptedTransport(whole_reply(), whole_reply())

    async def leave() -> None:
        await chat_engine(transport).new_state(rates).ask(text_request())
        for _ in range(3):
            stream = chat_engine(transport).new_state(rates).stream_batches(stream_request())
            assert isinstance((await anext(stream))[0], RequestDelayed)
            await stream.aclose()
        await chat_engine(transport).new_state(rates).ask(text_request())

    asyncio.run(leave())
    assert len(transport.requests) == 2
    assert len(delays) == 1
    assert delays[0] <= 60


# ---- values


@pytest.mark.parametrize("values", [{"requests": 0}, {"tokens": 0}, {"seconds": 0}, {"requests": "5"}])
def test_values_are_checked(values: dict[str, Any]) -> None:
    with pytest.raises(errors.UsageError, match=f"{next(iter(values))} of RequestRate: expected"):
        RequestRate(**values)
