"""Conversations that outgrow their model, with everything around them: requests stay valid, nothing is silent
or lost.
"""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from tests.agent_kit import change

from toolglot.common.jsontext import dumps_text, loads_object
from toolglot.engine.engine import Engine
from toolglot.engine.factory import create_engine
from toolglot.errors import ConnectFailed, ContextTooLong, ProviderError, ToolglotError
from toolglot.loop.agent.agent import Agent
from toolglot.loop.context_window import SUMMARY_PROMPT, ContextPolicy
from toolglot.loop.limits import RunLimits
from toolglot.providers.tokens import estimate_message, estimate_text
from toolglot.simulator.prompt_cache import count_prompt
from toolglot.tools.config import ToolConfig
from toolglot.tools.tool import Tool, tool
from toolglot.values.events import (
    ContextTruncated,
    ModelSwitched,
    ReplyDone,
    ReplyStarted,
    RunDone,
    RunEvent,
    RunResult,
    ToolFinished,
)
from toolglot.values.messages import (
    Conversation,
    Message,
    Reply,
    Text,
    ToolCall,
    Usage,
    assistant,
    system,
    user,
)
from toolglot.values.request import Request

from .agents import (
    PROVIDERS,
    QUICK,
    Wiretap,
    cancel_and_wait,
    check,
    check_bodies,
    collect_events,
    find_unpaired,
    make_agent,
    outcome,
    run,
    texts_of,
)

LIVE = pytest.mark.parametrize("live", [False, True], ids=["whole", "streamed"])
EVERYWHERE = pytest.mark.parametrize("provider", PROVIDERS)
TRIM = ContextPolicy(when_full="trim", budget=1_500)
COMPACT = ContextPolicy(budget=1_500)
OFF = ContextPolicy(when_full="off", budget=1)
MANY = RunLimits(max_iterations=60)
HERE = "no longer shown"


class Model:
    """A model that calls `look` so many times in a turn and then answers; it keeps what it is asked to sum
    up.
    """

    def __init__(self, steps: int = 0, *, summary: str | Reply = "They looked at things.") -> None:
        self.steps, self.summary = steps, summary
        self.summed: list[str] = []
        self.seen: list[Request] = []
        self._done = 0

    def __call__(self, request: Request) -> Reply:
        text = request.messages[-1].text
        if text.startswith(SUMMARY_PROMPT):
            self.summed.append(text.removeprefix(SUMMARY_PROMPT))
            return self.summary if isinstance(self.summary, Reply) else Reply((Text(self.summary),))
        self.seen.append(request)
        if request.messages[-1].role == "user":
            self._done = 0
        self._done += 1
        if self._done > self.steps or not request.tools:
            return Reply((Text("done"),))
        number = len(self.seen)
        return Reply((ToolCall("", "look", {"n": number}), ToolCall("", "look", {"n": -number})), "tools")

    def wiretap(self, **options: Any) -> Wiretap:
        """The way to it."""
        return Wiretap(*[self] * 400, **options)


@tool(effects="read", inline=True)
def look(n: int) -> str:
    """Looks at something."""
    return f"seen {n} " + "s" * 300


def old(turns: int = 8, size: int = 1_200) -> Conversation:
    """A conversation of some length: about 300 tokens a turn."""
    return Conversation(
        [
            message
            for n in range(turns)
            for message in (user(f"prompt {n}"), assistant(f"answer {n} " + "a" * size))
        ]
    )


def cuts_of(events: Sequence[RunEvent]) -> list[ContextTruncated]:
    return [event for event in events if isinstance(event, ContextTruncated)]


def stream_events(agent: Agent, prompt: str = "go") -> list[RunEvent]:
    return run(collect_events(agent.stream(prompt)))


def result_of(events: Sequence[RunEvent]) -> RunResult:
    assert isinstance(events[-1], RunDone)
    return events[-1].result


def sim(provider: str, wiretap: Wiretap) -> Engine:
    return create_engine(f"simulator:{provider}", transport=wiretap, retry=QUICK)


def priced_engine(wiretap: Wiretap) -> Engine:
    """A model with a price, at the simulator."""
    base = "http://simulator/@anthropic"
    return create_engine(
        "anthropic:claude-sonnet-4-5", key="k", base_url=base, transport=wiretap, retry=QUICK
    )


def keeps(messages: Sequence[Message], before: Sequence[Message]) -> bool:
    """Whether a conversation still begins with what it had."""
    return all(message is other for message, other in zip(messages, before, strict=False)) and len(
        messages
    ) >= len(before)


def find_unpaired_calls(messages: Sequence[Message]) -> list[str]:
    """Calls and results that stand alone, by id; wires without names or with a message for each result are
    fine.
    """
    waiting: list[str] = []
    problems: list[str] = []
    for message in messages:
        if message.role == "tool":
            problems += [
                f"result {result.call_id}" for result in message.results if result.call_id not in waiting
            ]
            waiting = [id for id in waiting if id not in {result.call_id for result in message.results}]
        else:
            problems += [f"call {id}" for id in waiting if message.role == "user"]
            waiting += [call.id for call in message.calls]
    return [*problems, *(f"call {id}" for id in waiting)]


async def error_of(work: Any) -> ToolglotError:
    with pytest.raises(ToolglotError) as info:
        await work
    return info.value


# ---- a conversation that grows, on every wire


@pytest.mark.untraced
@EVERYWHERE
@LIVE
@pytest.mark.parametrize("context", [TRIM, COMPACT], ids=["trim", "compact"])
async def test_long_loops_and_many_turns_stay_valid(
    provider: str, live: bool, context: ContextPolicy
) -> None:
    """Parallel calls, two turns, several cuts: each body is judged, the simulator is strict, the conversation
    is whole.
    """
    model = Model(8)
    wiretap = model.wiretap()
    agent = make_agent(provider, wiretap, tools=[look], context=context, system="Be brief.", limits=MANY)
    results = [await outcome(agent, f"turn {number}", streamed=live) for number in range(2)]
    assert [result.text for result in results] == ["done"] * 2
    assert [len(result.outcomes) for result in results] == [16] * 2
    check_bodies(agent.view().engine, wiretap)
    check(agent.conversation, everywhere=False)
    assert len(agent.conversation) == 2 * (1 + 16 + 1)
    assert sum(loss.where == "context" for result in results for loss in result.losses) >= 2
    assert [wrong for request in model.seen for wrong in find_unpaired_calls(request.messages)] == []
    for request in model.seen:
        assert "Be brief." in texts_of(request.messages)
        assert "turn " in texts_of(request.messages), "the prompt is there"
    assert bool(model.summed) == (context is COMPACT)


@EVERYWHERE
def test_what_was_sent_stays_a_prefix_between_truncations(provider: str) -> None:
    model = Model(12)
    wiretap = model.wiretap()
    agent = make_agent(provider, wiretap, tools=[look], context=TRIM, system="Be brief.", limits=MANY)
    truncation = cuts_of(stream_events(agent))
    bodies = [request.body for request in wiretap.requests]
    breaks = [
        number
        for number, (before, other) in enumerate(pairwise(bodies))
        if not other.startswith(before[: -len("]}")])
    ]
    assert len(truncation) >= 2
    assert len(breaks) == len(truncation), "a new prefix begins with a cut and at no other time"


def test_a_message_is_estimated_once_in_its_life(monkeypatch: pytest.MonkeyPatch) -> None:
    from toolglot.loop import context_window as context

    weighed: list[Message] = []
    weigh = estimate_message
    monkeypatch.setattr(
        context,
        "estimate_message",
        lambda message: weighed.append(message) or weigh(message),  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    )
    agent = make_agent("openai-chat", Model(20).wiretap(), tools=[look], context=TRIM, limits=MANY)
    run(agent.run("go"))
    run(agent.run("again"))
    assert len(weighed) <= len(agent.conversation)


def test_if_all_fits_nothing_happens() -> None:
    model = Model(3)
    agent = make_agent("openai-chat", model.wiretap(), tools=[look], context=ContextPolicy(budget=100_000))
    events = stream_events(agent)
    assert cuts_of(events) == []
    assert not [loss for loss in result_of(events).losses if loss.where == "context"]
    assert model.summed == []


def test_the_default_looks_at_the_model() -> None:
    """A model of 8,192 tokens, and nothing said: it is cut before it is full."""
    model = Model(60)
    agent = make_agent("openai-chat/gpt-4", model.wiretap(), tools=[look], limits=MANY)
    events = stream_events(agent)
    assert cuts_of(events)
    assert all(truncation.before < 8_192 for truncation in cuts_of(events))
    assert result_of(events).text == "done"


def test_a_model_whose_window_nobody_knows_is_left_alone() -> None:
    agent = make_agent("ollama", Model().wiretap(), conversation=old(60))
    assert cuts_of(stream_events(agent)) == []


# ---- what is said about it


@pytest.mark.parametrize(
    ("context", "how"), [(TRIM, "left out"), (COMPACT, "summarized")], ids=["trim", "compact"]
)
def test_a_truncation_is_an_event_before_the_reply_and_a_loss_in_the_result(
    context: ContextPolicy, how: str
) -> None:
    model = Model()
    events = stream_events(make_agent("anthropic", model.wiretap(), context=context, conversation=old()))
    [truncation] = cuts_of(events)
    assert isinstance(events[0], ContextTruncated)
    assert isinstance(events[1], ReplyStarted)
    assert how in truncation.message
    assert f"{truncation.omitted_messages} older messages" in truncation.message
    assert truncation.after < 1_500 < truncation.before
    [loss] = [loss for loss in result_of(events).losses if loss.where == "context"]
    assert loss.reason == truncation.message
    assert str(truncation.omitted_messages) in loss.subject
    assert truncation.summary == ("They looked at things." if how == "summarized" else "")


def test_a_truncation_in_the_middle_of_a_loop_comes_between_the_tools_and_the_next_reply() -> None:
    events = stream_events(
        make_agent("anthropic", Model(12).wiretap(), tools=[look], context=TRIM, limits=MANY)
    )
    places = [at for at, event in enumerate(events) if isinstance(event, ContextTruncated)]
    assert len(places) >= 2
    for at in places:
        assert isinstance(events[at - 1], ToolFinished | ReplyDone)
        assert isinstance(events[at + 1], ReplyStarted)


def test_the_model_reads_that_something_is_missing() -> None:
    model = Model()
    agent = make_agent("openai-chat", model.wiretap(), context=TRIM, conversation=old())
    events = stream_events(agent, "the new prompt")
    [truncation] = cuts_of(events)
    first = model.seen[0].messages[0]
    assert HERE in first.text
    assert str(truncation.omitted_messages) in first.text
    assert model.seen[0].messages[-1].text.endswith("the new prompt")
    assert len(agent.conversation) == 16 + 2


@EVERYWHERE
def test_the_conversation_itself_is_never_touched(provider: str) -> None:
    agent = make_agent(
        provider, Model(12).wiretap(), tools=[look], context=COMPACT, conversation=old(), limits=MANY
    )
    before = list(agent.conversation)
    assert cuts_of(stream_events(agent))
    assert keeps(agent.conversation, before)
    assert HERE not in texts_of(agent.conversation)


def test_a_request_for_more_than_nothing_says_how_many_messages() -> None:
    """A cut never says that no messages were left out."""
    long = Model(1)
    agent = make_agent("openai-chat", long.wiretap(), tools=[look], context=ContextPolicy(budget=20))
    events = stream_events(agent, "go " + "g" * 4_000)
    assert [truncation.message for truncation in cuts_of(events) if truncation.omitted_messages == 0] == []
    assert long.summed == []


# ---- a summary


@LIVE
async def test_a_summary_is_asked_for_once_and_stands_in_the_place_of_what_it_summarizes(live: bool) -> None:
    model = Model()
    wiretap = model.wiretap()
    agent = make_agent("openai-chat", wiretap, context=COMPACT, conversation=old())
    for prompt in ("one", "two", "three"):
        assert (await outcome(agent, prompt, streamed=live)).text == "done"
    [asked] = model.summed
    assert "prompt 0" in asked
    assert "answer 0" in asked
    assert len(wiretap.requests) == 4
    for request in model.seen:
        assert "They looked at things." in request.messages[0].text
        assert "answer 0" not in texts_of(request.messages)


@LIVE
def test_what_a_summary_takes_is_counted_and_paid(live: bool) -> None:
    model = Model(summary=Reply((Text("short"),)))
    wiretap = model.wiretap()
    agent = Agent(priced_engine(wiretap), context=COMPACT, conversation=old())
    result = run(outcome(agent, "go", streamed=live))
    without = run(
        outcome(
            Agent(priced_engine(Model().wiretap()), context=TRIM, conversation=old()), "go", streamed=live
        )
    )
    assert len(wiretap.requests) == 2
    assert result.reply is not None
    assert result.usage.input > result.reply.usage.input
    assert result.usage.input == sum(
        count_prompt("openai-chat", loads_object(request.body)) for request in wiretap.requests
    )
    assert result.cost is not None
    assert without.cost is not None
    assert result.cost > without.cost
    price = agent.view().engine.profile.price
    assert price is not None
    assert result.cost == pytest.approx(price.cost(result.usage))  # pyright: ignore[reportUnknownMemberType]
    assert result.iterations == 1


def test_the_second_summary_continues_from_the_first() -> None:
    model = Model(24)
    agent = make_agent("openai-chat", model.wiretap(), tools=[look], context=COMPACT, limits=MANY)
    run(agent.run("the only prompt"))
    assert len(model.summed) >= 2
    assert "(before that)" not in model.summed[0]
    for later in model.summed[1:]:
        assert "(before that) They looked at things." in later
    counted = [text.count("look gave:") for text in model.summed]
    assert sum(counted) <= 48, "nothing is summed up twice"


async def test_a_prompt_that_stood_before_a_truncation_of_its_turn_is_summarized_when_it_goes() -> None:
    """A long turn is cut inside and keeps its prompt; when the next turn pushes it out, the summary has to
    know of it.
    """
    model = Model(10)
    agent = make_agent("openai-chat", model.wiretap(), tools=[look], context=COMPACT, limits=MANY)
    await agent.run("build the blue house")
    await agent.run("and now the red one")
    last = model.seen[-1].messages
    assert not any("blue house" in message.text for message in last), "the first turn is no longer shown"
    assert any("blue house" in text for text in model.summed), "nor has anybody been told what it was about"


@pytest.mark.parametrize("reply", [Reply(()), Reply((Text("  \n "),))], ids=["nothing", "blanks"])
def test_a_model_that_gives_no_summary_is_trimmed_and_that_is_reported(reply: Reply) -> None:
    model = Model(summary=reply)
    wiretap = model.wiretap()
    events = stream_events(make_agent("openai-chat", wiretap, context=COMPACT, conversation=old()))
    [truncation] = cuts_of(events)
    assert truncation.summary == ""
    assert "left out" in truncation.message
    assert "no summary" in truncation.message
    assert result_of(events).text == "done"
    assert result_of(events).usage.input == sum(
        count_prompt("openai-chat", loads_object(request.body)) for request in wiretap.requests
    ), "it was paid for"


@LIVE
@pytest.mark.parametrize("fault", ["quota", "unauthorized", "context-too-long", "html"])
def test_a_summary_that_fails_is_trimmed_and_that_is_reported(fault: str, live: bool) -> None:
    model = Model()
    faults = [fault] * (1 + QUICK.max_retries if fault == "html" else 1)
    agent = make_agent("openai-chat", model.wiretap(faults=faults), context=COMPACT, conversation=old())
    result = run(outcome(agent, "go", streamed=live))
    [loss] = [loss for loss in result.losses if loss.where == "context"]
    assert "could not be summarized" in loss.reason
    assert "left out" in loss.reason
    assert result.text == "done"
    check(agent.conversation)


def test_the_text_to_be_summarized_fits_the_model() -> None:
    """A conversation in another script goes to a model with a smaller window: its summary is not refused as
    too long.
    """
    long = Conversation(
        [
            message
            for _ in range(10)
            for message in (user("日本語の長い問い" * 200), assistant("日本語の長い答え" * 200))
        ]
    )
    model = Model()
    agent = make_agent("openai-chat/gpt-4", model.wiretap(), conversation=long)
    assert cuts_of(stream_events(agent))
    [text] = model.summed
    assert estimate_text(SUMMARY_PROMPT + text) < 8_192


@pytest.mark.parametrize("slow", [False, True], ids=["sync", "async"])
def test_a_hook_summarizes_in_the_place_of_the_model(slow: bool) -> None:
    histories: list[Sequence[Message]] = []

    def at_once(messages: Sequence[Message]) -> str:
        histories.append(list(messages))
        return f"  {len(messages)} things were said \n"

    async def later(messages: Sequence[Message]) -> str:
        await asyncio.sleep(0)
        return at_once(messages)

    model = Model()
    wiretap = model.wiretap()
    agent = make_agent(
        "openai-chat", wiretap, context=COMPACT, conversation=old(), summarize=later if slow else at_once
    )
    [truncation] = cuts_of(stream_events(agent))
    assert len(histories) == 1
    assert list(histories[0]) == agent.conversation[: truncation.omitted_messages]
    assert truncation.summary == f"{truncation.omitted_messages} things were said"
    assert truncation.summary in model.seen[0].messages[0].text
    assert (model.summed, len(wiretap.requests)) == ([], 1)


def test_a_hook_is_given_what_is_left_out_and_nothing_else() -> None:
    """The prompt of a long turn goes on being shown: it is not among what is left out."""
    histories: list[Sequence[Message]] = []

    def summarize(messages: Sequence[Message]) -> str:
        histories.append(list(messages))
        return "summed up"

    agent = make_agent(
        "openai-chat",
        Model(9).wiretap(),
        tools=[look],
        context=COMPACT,
        summarize=summarize,
        conversation=old(2),
        limits=MANY,
    )
    cuts = cuts_of(stream_events(agent, "the prompt of the turn"))
    assert [len(messages) for messages in histories] == [truncation.omitted_messages for truncation in cuts]
    assert not any(message.text == "the prompt of the turn" for message in histories[-1])


@pytest.mark.parametrize("empty", ["", "   "])
def test_a_hook_that_has_nothing_to_say_leaves_a_trimmed_conversation(empty: str) -> None:
    def silent(messages: Sequence[Message]) -> str:
        return empty

    model = Model()
    agent = make_agent("openai-chat", model.wiretap(), context=COMPACT, conversation=old(), summarize=silent)
    [truncation] = cuts_of(stream_events(agent))
    assert (truncation.summary, "left out" in truncation.message) == ("", True)
    assert HERE in model.seen[0].messages[0].text


def test_an_error_of_ours_in_a_hook_is_a_summary_that_failed() -> None:
    def summarize(messages: Sequence[Message]) -> str:
        raise ConnectFailed("no summary service")

    events = stream_events(
        make_agent("openai-chat", Model().wiretap(), context=COMPACT, conversation=old(), summarize=summarize)
    )
    [truncation] = cuts_of(events)
    assert "no summary service" in truncation.message
    assert result_of(events).text == "done"


@LIVE
async def test_a_hook_with_a_mistake_in_it_is_not_hidden(live: bool) -> None:
    """Its exception is the caller's own: it is raised as it is, nothing was cut, and the conversation goes
    on.
    """
    wrong: list[Any] = [ZeroDivisionError("oops")]

    def summarize(messages: Sequence[Message]) -> str:
        if wrong:
            raise wrong.pop()
        return "fine"

    agent = make_agent(
        "openai-chat", Model().wiretap(), context=COMPACT, conversation=old(), summarize=summarize
    )
    with pytest.raises(ZeroDivisionError):
        await outcome(agent, "go", streamed=live)
    assert (await agent.context_usage()).omitted_messages == 0
    check(agent.conversation, everywhere=False)
    assert (await outcome(agent, "go on", streamed=live)).text == "done"


def test_a_summary_is_never_longer_than_what_it_stands_for() -> None:
    """A talkative summary would fill what was just made free, and be made again in every step."""
    asked: list[int] = []

    def summarize(messages: Sequence[Message]) -> str:
        asked.append(len(messages))
        return "and then " * 5_000

    agent = make_agent(
        "openai-chat",
        Model(6).wiretap(),
        tools=[look],
        context=COMPACT,
        conversation=old(),
        summarize=summarize,
    )
    cuts = cuts_of(stream_events(agent))
    assert all(truncation.after < truncation.before for truncation in cuts)
    assert cuts[0].after <= 1_500


# ---- budgets that nothing fits


@LIVE
@pytest.mark.parametrize("when", ["trim", "compact"])
def test_a_budget_smaller_than_the_last_step(live: bool, when: Any) -> None:
    """The last step is sent all the same: a call is never parted from its result, and the run ends."""
    model = Model(4)
    agent = make_agent(
        "openai-chat", model.wiretap(), tools=[look], context=ContextPolicy(when_full=when, budget=30)
    )
    result = run(outcome(agent, "go", streamed=live))
    assert (result.text, len(result.outcomes)) == ("done", 8)
    for request in model.seen:
        assert find_unpaired(request.messages) == []
        assert any("go" in message.text for message in request.messages)
    assert len(model.seen[-1].messages) <= 4, "what was said, the prompt, the calls, their results"


@LIVE
def test_a_budget_smaller_than_tools_and_instructions(live: bool) -> None:
    model = Model(4)
    wiretap = model.wiretap()
    agent = make_agent(
        "openai-chat", wiretap, tools=[look], system="i" * 9_000, context=ContextPolicy(budget=100)
    )
    result = run(outcome(agent, "go", streamed=live))
    assert result.text == "done"
    assert len(wiretap.requests) <= 5 + 4, "at most one summary for each step"
    assert len(model.summed) <= 3, "the first step has nothing to leave out"


def test_off_sends_everything() -> None:
    model = Model(5)
    agent = make_agent("openai-chat", model.wiretap(), tools=[look], context=OFF, conversation=old())
    events = stream_events(agent)
    assert cuts_of(events) == []
    assert "answer 0" in texts_of(model.seen[-1].messages)


# ---- a provider that refuses


@EVERYWHERE
@LIVE
def test_a_refused_request_is_shortened_and_asked_again(provider: str, live: bool) -> None:
    model = Model()
    wiretap = model.wiretap(faults=["context-too-long"])
    agent = make_agent(
        provider, wiretap, context=ContextPolicy(when_full="trim"), conversation=old(), system="Be brief."
    )
    result = run(outcome(agent, "go", streamed=live))
    assert result.text == "done"
    assert len(wiretap.requests) == 2
    assert len(wiretap.requests[1].body) < len(wiretap.requests[0].body) * 0.75
    assert [loss.where for loss in result.losses if loss.where == "context"] == ["context"]
    check_bodies(agent.view().engine, wiretap)
    check(agent.conversation, everywhere=False)
    assert wiretap.open == 0


def test_a_refused_request_is_summarized_if_that_is_the_policy() -> None:
    model = Model()
    wiretap = model.wiretap(faults=["context-too-long"])
    events = stream_events(make_agent("openai-chat", wiretap, conversation=old()))
    assert len(wiretap.requests) == 3
    assert len(model.summed) == 1
    assert isinstance(events[0], ContextTruncated)
    assert [type(event) for event in events].count(ReplyStarted) == 1


@LIVE
async def test_a_second_refusal_is_raised(live: bool) -> None:
    wiretap = Model().wiretap(faults=["context-too-long"] * 2)
    agent = make_agent("openai-chat", wiretap, context=ContextPolicy(when_full="trim"), conversation=old())
    assert isinstance(await error_of(outcome(agent, "go", streamed=live)), ContextTooLong)
    assert len(wiretap.requests) == 2
    check(agent.conversation, everywhere=False)
    assert (await outcome(agent, "again", streamed=live)).text == "done"


@LIVE
@pytest.mark.parametrize(
    ("context", "talk"),
    [(ContextPolicy(when_full="off"), 8), (ContextPolicy(when_full="trim"), 0), (ContextPolicy(), 0)],
    ids=["off", "nothing to trim", "nothing to sum up"],
)
def test_a_refusal_is_raised_if_nothing_can_be_left_out(
    live: bool, context: ContextPolicy, talk: int
) -> None:
    wiretap = Model().wiretap(faults=["context-too-long"])
    agent = make_agent("openai-chat", wiretap, context=context, conversation=old(talk))
    assert isinstance(run(error_of(outcome(agent, "go", streamed=live))), ContextTooLong)
    assert len(wiretap.requests) == 1
    check(agent.conversation)


async def test_a_refusal_is_remembered() -> None:
    """The next turns stay below what was refused, without being refused again."""
    wiretap = Model(10).wiretap(faults=["context-too-long"])
    agent = make_agent(
        "openai-chat",
        wiretap,
        tools=[look],
        context=ContextPolicy(when_full="trim"),
        conversation=old(),
        limits=MANY,
    )
    await agent.run("go")
    budget = (await agent.context_usage()).budget
    assert budget is not None
    assert budget < 3_000
    refused, *others = (len(request.body) for request in wiretap.requests)
    assert max(others) < refused


async def test_a_refusal_that_nothing_could_be_done_about_does_not_shorten_what_follows() -> None:
    """One prompt alone was refused: that says nothing of how long a conversation may be."""
    model = Model()
    agent = make_agent(
        "openai-chat", model.wiretap(faults=["context-too-long"]), context=ContextPolicy(when_full="trim")
    )
    await error_of(agent.run("one"))
    results = [await agent.run("two"), await agent.run("three")]
    assert [loss for result in results for loss in result.losses if loss.where == "context"] == []
    assert "one" in texts_of(model.seen[-1].messages)


async def test_the_refusal_of_one_model_is_none_of_another() -> None:
    model, other = Model(), Model()
    agent = make_agent(
        "openai-chat", model.wiretap(faults=["context-too-long"]), context=ContextPolicy(when_full="trim")
    )
    agent.conversation.append(*old())
    await agent.run("go")
    agent.switch(sim("anthropic", other.wiretap()))
    budget, window = (await agent.context_usage()).budget, agent.view().engine.profile.limits.context
    assert budget is not None
    assert window is not None
    assert budget > window // 2


@LIVE
def test_a_second_refusal_is_no_reason_for_another_model(live: bool) -> None:
    wiretap, other = Model().wiretap(faults=["context-too-long"] * 2), Model().wiretap()
    agent = Agent(sim("openai-chat", wiretap), fallbacks=[sim("gemini", other)], conversation=old())
    change(agent, context=ContextPolicy(when_full="trim"))
    assert isinstance(run(error_of(outcome(agent, "go", streamed=live))), ProviderError)
    assert other.requests == []


@LIVE
def test_a_model_that_fails_after_it_was_shortened_falls_back(live: bool) -> None:
    wiretap, model = Model().wiretap(faults=["context-too-long", *["overloaded"] * 9]), Model()
    other = model.wiretap()
    agent = Agent(
        sim("openai-chat", wiretap),
        fallbacks=[sim("gemini", other)],
        conversation=old(),
        context=ContextPolicy(when_full="trim"),
    )
    result = run(outcome(agent, "go", streamed=live))
    assert result.text == "done"
    assert agent.view().engine.profile.id == "gemini"
    assert "answer 0" not in texts_of(model.seen[0].messages), "what is left out stays left out"
    check_bodies(agent.view().engine, other)


def test_a_truncation_and_a_fallback_are_reported_in_order() -> None:
    wiretap, other = Model().wiretap(faults=["context-too-long", *["overloaded"] * 9]), Model().wiretap()
    agent = Agent(
        sim("openai-chat", wiretap),
        fallbacks=[sim("gemini", other)],
        conversation=old(),
        context=ContextPolicy(when_full="trim"),
    )
    notices = [event for event in stream_events(agent) if isinstance(event, ContextTruncated | ModelSwitched)]
    assert [type(event) for event in notices] == [ContextTruncated, ModelSwitched]


@LIVE
def test_a_fallback_with_a_smaller_window_is_sent_what_it_takes(live: bool) -> None:
    """The model that steps in is not sent what its window cannot hold."""
    small = Model()
    wiretap = small.wiretap()
    agent = Agent(
        sim("anthropic", Model().wiretap(faults=["overloaded"] * 9)),
        fallbacks=[sim("openai-chat/gpt-4", wiretap)],
        conversation=old(60),
        context=ContextPolicy(when_full="trim"),
    )
    result = run(outcome(agent, "go", streamed=live))
    assert result.text == "done"
    assert len(wiretap.requests[-1].body) // 4 < 8_192
    assert any(loss.where == "context" for loss in result.losses)


# ---- other models, and what they count


@LIVE
async def test_a_switch_to_a_smaller_window_truncates_then(live: bool) -> None:
    model, small = Model(), Model()
    agent = Agent(
        sim("anthropic", model.wiretap()), conversation=old(40), context=ContextPolicy(when_full="trim")
    )
    first = await outcome(agent, "one", streamed=live)
    agent.switch(sim("openai-chat/gpt-4", small.wiretap()))
    second = await outcome(agent, "two", streamed=live)
    agent.switch(sim("anthropic", model.wiretap()))
    third = await outcome(agent, "three", streamed=live)
    lost = [[loss for loss in result.losses if loss.where == "context"] for result in (first, second, third)]
    assert [len(losses) for losses in lost] == [0, 1, 0]
    assert "answer 0" in texts_of(model.seen[0].messages)
    assert "answer 0" not in texts_of(small.seen[0].messages)
    assert "answer 0" not in texts_of(model.seen[-1].messages), "what was left out once stays left out"


@LIVE
async def test_a_real_count_corrects_the_next_estimate(live: bool) -> None:
    """The simulator counts a quarter of the body's bytes; JSON makes that more than the words."""
    model = Model()
    wiretap = model.wiretap()
    agent = make_agent(
        "openai-chat", wiretap, conversation=Conversation([user('"\\' * 2_000), assistant("yes")])
    )
    before = (await agent.context_usage()).total
    await outcome(agent, "go", streamed=live)
    after = (await agent.context_usage()).total
    counted = len(wiretap.requests[0].body) // 4
    assert counted > 1.5 * before
    assert abs(after - counted) < counted * 0.1


async def test_a_fallback_does_not_learn_from_an_estimate_of_another_model() -> None:
    """Claude makes more tokens of a text than GPT: the count of the one that answered is compared with its
    own estimate.
    """
    model = Model()
    wiretap = model.wiretap()
    agent = Agent(
        sim("anthropic", Model().wiretap(faults=["overloaded"] * 9)),
        fallbacks=[sim("openai-chat", wiretap)],
        conversation=old(),
    )
    alone = make_agent("openai-chat", Model().wiretap(), conversation=old())
    await agent.run("go")
    await alone.run("go")
    fallen, direct = (await agent.context_usage()).total, (await alone.context_usage()).total
    assert abs(fallen - direct) < direct * 0.05


# ---- time, and those who leave


@LIVE
def test_the_time_of_a_run_counts_for_its_summary(live: bool) -> None:
    async def never(messages: Sequence[Message]) -> str:
        await asyncio.Event().wait()
        return ""

    agent = make_agent(
        "openai-chat",
        Model().wiretap(),
        context=COMPACT,
        conversation=old(),
        summarize=never,
        limits=RunLimits(run_timeout=0.05),
    )
    before = len(agent.conversation)
    result = run(outcome(agent, "go", streamed=live))
    assert result.stop == "timeout"
    assert len(agent.conversation) >= before + 1
    check(agent.conversation)
    change(agent, summarize=None)
    assert run(agent.run("on", limits=RunLimits())).text == "done"


@LIVE
def test_a_model_that_stalls_while_it_summarizes_is_stopped_in_time(live: bool) -> None:
    wiretap = Model(summary="some words that take their time").wiretap(faults=["stall-first"])
    agent = make_agent(
        "openai-chat", wiretap, context=COMPACT, conversation=old(), limits=RunLimits(run_timeout=0.05)
    )
    result = run(outcome(agent, "go", streamed=live))
    assert (result.stop, wiretap.open) == ("timeout", 0)
    check(agent.conversation)


@LIVE
@pytest.mark.parametrize("refused", [False, True], ids=["before", "after a refusal"])
@EVERYWHERE
async def test_a_run_that_is_cancelled_while_it_is_summarized_leaves_a_valid_conversation(
    provider: str, live: bool, refused: bool
) -> None:
    inside = asyncio.Event()

    async def never(messages: Sequence[Message]) -> str:
        inside.set()
        await asyncio.Event().wait()
        return ""

    context = ContextPolicy() if refused else COMPACT
    wiretap = Model().wiretap(faults=["context-too-long"] if refused else [])
    agent = make_agent(provider, wiretap, context=context, conversation=old(), summarize=never)
    work = asyncio.create_task(outcome(agent, "go", streamed=live))
    await inside.wait()
    await cancel_and_wait(work)
    check(agent.conversation, everywhere=False)
    assert (await agent.context_usage()).omitted_messages == 0, "nothing was cut"
    change(agent, summarize=None)
    assert (await agent.run("on")).text == "done"
    check_bodies(agent.view().engine, wiretap)
    check(agent.conversation)


async def test_a_reader_that_leaves_after_a_truncation_leaves_a_valid_conversation() -> None:
    agent = make_agent("openai-chat", Model().wiretap(), context=TRIM, conversation=old())
    events = agent.stream("go")
    assert isinstance(await anext(events), ContextTruncated)
    await events.aclose()
    check(agent.conversation, everywhere=False)
    assert (await agent.run("on")).text == "done"


# ---- with everything else


@tool(effects="write")
def delete(path: str) -> str:
    """Deletes."""
    return f"deleted {path} " + "d" * 200


@EVERYWHERE
@LIVE
async def test_calls_that_wait_for_approval_survive_a_truncation(provider: str, live: bool) -> None:
    calls = Reply((ToolCall("", "delete", {"path": "a"}), ToolCall("", "delete", {"path": "b"})), "tools")
    model = Model()

    def turn(request: Request) -> Reply:
        last = request.messages[-1]
        asks = last.role == "user" and last.text.endswith("clean up")
        return calls if asks else model(request)

    wiretap = Wiretap(*[turn] * 50)
    asks = ToolConfig(ask=frozenset({"write"}))
    context = ContextPolicy(budget=700)
    agent = make_agent(provider, wiretap, tools=[delete], context=context, conversation=old(4), config=asks)
    paused = await outcome(agent, "clean up", streamed=live)
    assert paused.stop == "approval"
    assert any(loss.where == "context" for loss in paused.losses)
    again = Agent.load(agent.save(), sim(provider, wiretap), tools=[delete], context=context, config=asks)
    result = await again.resume({call.id: "yes" for call in paused.requests})
    assert (result.stop, [outcome.result.text[:9] for outcome in result.outcomes]) == (
        "end",
        ["deleted a", "deleted b"],
    )
    check_bodies(agent.view().engine, wiretap)


@EVERYWHERE
def test_tools_that_start_early_do_not_mind_a_truncation(provider: str) -> None:
    wiretap = Model(8).wiretap()
    agent = make_agent(
        provider, wiretap, tools=[look], context=TRIM, config=ToolConfig(eager_start=True), limits=MANY
    )
    events = stream_events(agent)
    assert cuts_of(events)
    assert len(result_of(events).outcomes) == 16
    check_bodies(agent.view().engine, wiretap)
    check(agent.conversation, everywhere=False)


@EVERYWHERE
def test_a_structured_output_survives_a_truncation(provider: str) -> None:
    wiretap = Wiretap()
    shape = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    agent = make_agent(provider, wiretap, tools=[look], context=TRIM, conversation=old(), output_type=shape)
    result = run(agent.run("the number is 5"))
    assert isinstance(result.output, dict)
    assert any(loss.where == "context" for loss in result.losses)
    check_bodies(agent.view().engine, wiretap)
    check(agent.conversation, everywhere=False)


def test_a_prompt_that_was_answered_in_the_wrong_shape_is_still_the_prompt() -> None:
    """The model is told what was wrong; a cut after that keeps what the user asked for, not only the
    complaint.
    """
    seen: list[Request] = []

    def turn(request: Request) -> Reply:
        seen.append(request)
        if len(seen) == 8:
            return Reply((Text('{"n": 5}'),))
        if len(seen) == 3:
            return Reply((Text("five, I think"),))
        return Reply((ToolCall("", "look", {"n": len(seen)}),), "tools")

    shape = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    context = ContextPolicy(when_full="trim", budget=350)
    agent = make_agent("openai-chat", Wiretap(*[turn] * 50), tools=[look], context=context, output_type=shape)
    assert run(agent.run("how many blue houses?")).output == {"n": 5}
    assert "blue houses" in texts_of(seen[-1].messages)


def test_instructions_in_the_conversation_survive_a_truncation() -> None:
    model = Model()
    agent = make_agent(
        "openai-chat",
        model.wiretap(),
        context=TRIM,
        conversation=Conversation([system("In French."), *old()]),
    )
    run(agent.run("go"))
    assert "In French." in texts_of(model.seen[0].messages)


async def test_two_conversations_of_one_agent_are_truncated_apart() -> None:
    model = Model()
    agent = make_agent("openai-chat", model.wiretap(), context=TRIM, conversation=old())
    other = Conversation()
    results = [await agent.run("go"), await agent.run("go", conversation=other)]
    assert [any(loss.where == "context" for loss in result.losses) for result in results] == [True, False]
    assert HERE not in texts_of(model.seen[1].messages)


def test_the_budget_of_a_run_counts_what_a_summary_took() -> None:
    model = Model(5, summary=Reply((Text("s" * 400),), usage=Usage(10, 10)))
    agent = make_agent(
        "openai-chat",
        model.wiretap(),
        tools=[look],
        context=COMPACT,
        conversation=old(),
        limits=RunLimits(max_total_tokens=600),
    )
    result = run(agent.run("go"))
    assert result.stop == "budget"
    assert len(model.summed) == 1
    assert len(model.seen) == 0, "the summary has used up the budget"
    check(agent.conversation, everywhere=False)


# ---- how full it is


def offers() -> list[Tool]:
    return [look, delete]


@EVERYWHERE
def test_measured_adds_up(provider: str) -> None:
    agent = make_agent(provider, tools=offers(), system="i" * 4_000, conversation=old())
    measured = run(agent.context_usage())
    assert set(measured.parts) == {"instructions", "tools", "prompts", "answers"}
    assert abs(sum(measured.parts.values()) - measured.total) <= len(measured.parts) + 1
    assert measured.window == agent.view().engine.profile.limits.context
    assert measured.omitted_messages == 0


def test_measured_after_a_truncation_says_what_the_event_said() -> None:
    agent = make_agent(
        "openai-chat", Model(9).wiretap(), tools=[look], context=TRIM, conversation=old(2), limits=MANY
    )
    events = stream_events(agent)
    measured = run(agent.context_usage())
    assert measured.omitted_messages == cuts_of(events)[-1].omitted_messages
    assert measured.budget == 1_500
    assert abs(sum(measured.parts.values()) - measured.total) < measured.total * 0.1


async def test_measured_is_corrected_if_nothing_is_truncated() -> None:
    """Who has turned cutting off still wants to know how full it is."""
    wiretap = Model().wiretap()
    policy = ContextPolicy(when_full="off")
    agent = make_agent(
        "openai-chat",
        wiretap,
        context=policy,
        conversation=Conversation([user('"\\' * 2_000), assistant("yes")]),
    )
    await agent.run("go")
    total = (await agent.context_usage()).total
    counted = len(wiretap.requests[0].body) // 4
    assert abs(total - counted) < counted * 0.1


def test_measured_of_an_agent_without_anything() -> None:
    measured = run(make_agent("ollama").context_usage())
    assert (measured.total, measured.parts, measured.budget, measured.window) == (0, {}, None, None)


@EVERYWHERE
async def test_a_preview_shows_what_would_be_sent(provider: str) -> None:
    agent = make_agent(
        provider, Model().wiretap(), tools=offers(), system="Be brief.", context=TRIM, conversation=old()
    )
    before = (await agent.preview_request()).body
    await agent.run("go")
    after = (await agent.preview_request()).body
    other = (await agent.preview_request("simulator:gemini")).body
    before, after, other = [body.decode() for body in (before, after, other)]
    assert "answer 0" in before
    for body in (after, other):
        assert "answer 0" not in body
        assert HERE in body
        assert "Be brief." in body
        assert '"look"' in body
    assert "contents" in other


async def test_a_preview_does_not_disturb_the_prefix() -> None:
    wiretap = Model(2).wiretap()
    agent = make_agent("openai-chat", wiretap, tools=[look])
    await agent.run("one")
    await agent.preview_request()
    await agent.run("two")
    for before, other in pairwise(request.body for request in wiretap.requests):
        assert other.startswith(before[:-2])
    assert "contents" not in dumps_text(wiretap.bodies[-1])
