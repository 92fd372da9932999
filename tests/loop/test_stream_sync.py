"""The stream for callers without an event loop: the same events, and whoever leaves it interrupts the run."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from toolglot.errors import AuthenticationFailed, UsageError
from toolglot.loop.agent.agent import Agent
from toolglot.tools.tool import tool
from toolglot.values.events import ApprovalNeeded, ReplyStarted, RunDone, RunEvent, TextDelta, ToolStarted
from toolglot.values.messages import Conversation

from .agents import PROVIDERS, check, collect_events, kinds_of, make_agent, noting

CALL = "call look {} call look {}"


def text_of(events: list[RunEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_same_events_as_in_a_loop(provider: str) -> None:
    first, second = (make_agent(provider, tools=[noting([], "look")]) for _ in range(2))
    events = list(first.stream_sync(CALL))
    others = asyncio.run(collect_events(second.stream(CALL)))
    assert [type(event) for event in events] == [type(event) for event in others]
    assert (text_of(events), list(first.conversation)) == (text_of(others), list(second.conversation))
    assert isinstance(events[-1], RunDone)
    check(first.conversation)


async def test_inside_of_a_running_loop() -> None:
    """As in a notebook: the caller's loop waits, the work is done elsewhere."""
    assert text_of(list(make_agent("anthropic").stream_sync("say on"))) == "on"


def test_nothing_happens_before_the_first_event_is_read() -> None:
    agent = make_agent("anthropic")
    agent.stream_sync("say one").close()
    assert len(agent.conversation) == 0
    assert text_of(list(agent.stream_sync("say two"))) == "two"


@pytest.mark.parametrize("way", ["break", "error", "close"])
def test_leaving_it_interrupts_the_run_at_once(way: str) -> None:
    ended: list[bool] = []

    @tool
    async def wait() -> str:
        """Waits."""
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)
        return ""

    agent = make_agent("anthropic", tools=[wait])
    if way == "break":
        for event in agent.stream_sync("call wait {}"):
            if isinstance(event, ToolStarted):
                break
    elif way == "error":
        with pytest.raises(ZeroDivisionError):
            [1 / (not isinstance(event, ToolStarted)) for event in agent.stream_sync("call wait {}")]
    else:
        with closing(agent.stream_sync("call wait {}")) as events:
            assert any(isinstance(event, ToolStarted) for event in events)
    assert ended == [True]
    assert kinds_of(agent.conversation) == ["interrupted"]
    check(agent.conversation)
    assert agent.run_sync("say on").text == "on"


def test_many_threads() -> None:
    agent = make_agent("openai-chat", tools=[noting([], "look")])

    def read(conversation: Conversation) -> str:
        return text_of(list(agent.stream_sync(CALL, conversation=conversation)))

    conversations = [Conversation() for _ in range(12)]
    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(read, conversations))) == 1
    for conversation in conversations:
        check(conversation, everywhere=False)


def test_errors_reach_the_caller() -> None:
    events = make_agent("anthropic").stream_sync("fault unauthorized")
    with pytest.raises(AuthenticationFailed):
        list(events)
    busy = make_agent("anthropic")
    first = busy.stream_sync("say one two")
    assert isinstance(next(first), ReplyStarted)
    with pytest.raises(UsageError, match="a run is in progress"):
        next(busy.stream_sync("say three"))
    assert text_of(list(first)) == "one two"


def test_a_run_that_waits_is_resumed() -> None:
    agent = make_agent("anthropic", tools=[noting([], "write", approval=True)])
    (asked,) = (event for event in agent.stream_sync("call write {}") if isinstance(event, ApprovalNeeded))
    result = agent.resume_sync({asked.requests[0].id: "yes"})
    assert [outcome.result.text for outcome in result.outcomes] == ["ok"]


def test_inside_of_a_run_it_is_an_error_that_says_what_to_do() -> None:
    @tool
    async def nested() -> str:
        """Uses another agent."""
        return text_of(list(Agent("simulator").stream_sync("say inner")))

    result = make_agent("anthropic", tools=[nested]).run_sync("call nested {}")
    assert "was called inside a run; await run(…) there" in result.outcomes[0].result.text
