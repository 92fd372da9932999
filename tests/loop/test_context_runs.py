"""Conversations that outgrow their model, with everything around them: requests stay valid, nothing is silent or lost."""

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
from toolglot.values.messages import Conversation, Message, Reply, Text, ToolCall, Usage, assistant, system, user
from toolglot.values.request import Request

from .agents import PROVIDERS, QUICK, Wiretap, agent, broken, cancelled, check, check_bodies, gathered, outcome, run, texts_of

LIVE = pytest.mark.parametrize("live", [False, True], ids=["whole", "streamed"])
EVERYWHERE = pytest.mark.parametrize("provider", PROVIDERS)
TRIM = ContextPolicy(when_full="trim", budget=1_500)
COMPACT = ContextPolicy(budget=1_500)
OFF = ContextPolicy(when_full="off", budget=1)
MANY = ToolConfig(max_iterations=60)
HERE = "no longer shown"


class Model:
    """A model that calls `look` so many times in a turn and then answers; it keeps what it is asked to sum up."""

    def __init__(self, steps: int = 0, *, summary: str | Reply = "They looked at things.") -> None:
        self.steps, self.summary = steps, summary
        self.summed: list[str] = []
        self.seen: list[Request] = []
        self._done = 0

    def __call__(self, request: Request) -> Reply:
        said = request.messages[-1].text
        if said.startswith(SUMMARY_PROMPT):
            self.summed.append(said.removeprefix(SUMMARY_PROMPT))
            return self.summary if isinstance(self.summary, Reply) else Reply((Text(self.summary),))
        self.seen.append(request)
        if request.messages[-1].role == "user":
            self._done = 0
        self._done += 1
        if self._done > self.steps or not request.tools:
            return Reply((Text("done"),))
        number = len(self.seen)
        return Reply((ToolCall("", "look", {"n": number}), ToolCall("", "look", {"n": -number})), "tools")

    def tap(self, **options: Any) -> Wiretap:
        """The way to it."""
        return Wiretap(*[self] * 400, **options)


@tool(effects="read", inline=True)
def look(n: int) -> str:
    """Looks at something."""
    return f"seen {n} " + "s" * 300


def old(turns: int = 8, size: int = 1_200) -> Conversation:
    """A conversation of some length: about 300 tokens a turn."""
    return Conversation([one for n in range(turns) for one in (user(f"prompt {n}"), assistant(f"answer {n} " + "a" * size))])


def cuts_of(events: Sequence[RunEvent]) -> list[ContextTruncated]:
    return [event for event in events if isinstance(event, ContextTruncated)]


def streamed(talker: Agent, prompt: str = "go") -> list[RunEvent]:
    return run(gathered(talker.stream(prompt)))


def result_of(events: Sequence[RunEvent]) -> RunResult:
    assert isinstance(events[-1], RunDone)
    return events[-1].result


def sim(provider: str, tap: Wiretap) -> Engine:
    return create_engine(f"simulator:{provider}", transport=tap, retry=QUICK)


def priced(tap: Wiretap) -> Engine:
    """A model with a price, at the simulator."""
    base = "http://simulator/@anthropic"
    return create_engine("anthropic:claude-sonnet-4-5", key="k", base_url=base, transport=tap, retry=QUICK)


def kept(messages: Sequence[Message], before: Sequence[Message]) -> bool:
    """Whether a conversation still begins with what it had."""
    return all(one is other for one, other in zip(messages, before, strict=False)) and len(messages) >= len(before)


def unpaired(messages: Sequence[Message]) -> list[str]:
    """Calls and results that stand alone, by id; wires without names or with a message for each result are fine."""
    waiting: list[str] = []
    found: list[str] = []
    for message in messages:
        if message.role == "tool":
            found += [f"result {one.call_id}" for one in message.results if one.call_id not in waiting]
            waiting = [id for id in waiting if id not in {one.call_id for one in message.results}]
        else:
            found += [f"call {id}" for id in waiting if message.role == "user"]
            waiting += [call.id for call in message.calls]
    return [*found, *(f"call {id}" for id in waiting)]


async def raised(work: Any) -> ToolglotError:
    with pytest.raises(ToolglotError) as info:
        await work
    return info.value


# ---- a conversation that grows, on every wire


@pytest.mark.untraced
@EVERYWHERE
@LIVE
@pytest.mark.parametrize("context", [TRIM, COMPACT], ids=["trim", "compact"])
async def test_long_loops_and_many_turns_stay_valid(provider: str, live: bool, context: ContextPolicy) -> None:
    """Parallel calls, two turns, several cuts: each body is judged, the simulator is strict, the conversation is whole."""
    model = Model(8)
    tap = model.tap()
    talker = agent(provider, tap, tools=[look], context=context, system="Be brief.", config=MANY)
    results = [await outcome(talker, f"turn {number}", streamed=live) for number in range(2)]
    assert [one.text for one in results] == ["done"] * 2
    assert [len(one.outcomes) for one in results] == [16] * 2
    check_bodies(talker.view().engine, tap)
    check(talker.conversation, everywhere=False)
    assert len(talker.conversation) == 2 * (1 + 16 + 1)
    assert sum(loss.where == "context" for one in results for loss in one.losses) >= 2
    assert [wrong for request in model.seen for wrong in unpaired(request.messages)] == []
    for request in model.seen:
        assert "Be brief." in texts_of(request.messages)
        assert "turn " in texts_of(request.messages), "the prompt is there"
    assert bool(model.summed) == (context is COMPACT)


@EVERYWHERE
def test_what_was_sent_stays_a_prefix_between_truncations(provider: str) -> None:
    model = Model(12)
    tap = model.tap()
    talker = agent(provider, tap, tools=[look], context=TRIM, system="Be brief.", config=MANY)
    cut = cuts_of(streamed(talker))
    bodies = [request.body for request in tap.requests]
    breaks = [number for number, (one, other) in enumerate(pairwise(bodies)) if not other.startswith(one[: -len("]}")])]
    assert len(cut) >= 2
    assert len(breaks) == len(cut), "a new prefix begins with a cut and at no other time"


def test_a_message_is_estimated_once_in_its_life(monkeypatch: pytest.MonkeyPatch) -> None:
    from toolglot.loop import context_window as context

    weighed: list[Message] = []
    weigh = estimate_message
    monkeypatch.setattr(context, "estimate_message", lambda message: weighed.append(message) or weigh(message))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    talker = agent("openai-chat", Model(20).tap(), tools=[look], context=TRIM, config=MANY)
    run(talker.run("go"))
    run(talker.run("again"))
    assert len(weighed) <= len(talker.conversation)


def test_if_all_fits_nothing_happens() -> None:
    model = Model(3)
    talker = agent("openai-chat", model.tap(), tools=[look], context=ContextPolicy(budget=100_000))
    events = streamed(talker)
    assert cuts_of(events) == []
    assert not [loss for loss in result_of(events).losses if loss.where == "context"]
    assert model.summed == []


def test_the_default_looks_at_the_model() -> None:
    """A model of 8,192 tokens, and nothing said: it is cut before it is full."""
    model = Model(60)
    talker = agent("openai-chat/gpt-4", model.tap(), tools=[look], config=MANY)
    events = streamed(talker)
    assert cuts_of(events)
    assert all(cut.before < 8_192 for cut in cuts_of(events))
    assert result_of(events).text == "done"


def test_a_model_whose_window_nobody_knows_is_left_alone() -> None:
    talker = agent("ollama", Model().tap(), conversation=old(60))
    assert cuts_of(streamed(talker)) == []


# ---- what is said about it


@pytest.mark.parametrize(("context", "how"), [(TRIM, "left out"), (COMPACT, "summarized")], ids=["trim", "compact"])
def test_a_truncation_is_an_event_before_the_reply_and_a_loss_in_the_result(context: ContextPolicy, how: str) -> None:
    model = Model()
    events = streamed(agent("anthropic", model.tap(), context=context, conversation=old()))
    [cut] = cuts_of(events)
    assert isinstance(events[0], ContextTruncated)
    assert isinstance(events[1], ReplyStarted)
    assert how in cut.message
    assert f"{cut.omitted_messages} older messages" in cut.message
    assert cut.after < 1_500 < cut.before
    [loss] = [loss for loss in result_of(events).losses if loss.where == "context"]
    assert loss.reason == cut.message
    assert str(cut.omitted_messages) in loss.subject
    assert cut.summary == ("They looked at things." if how == "summarized" else "")


def test_a_truncation_in_the_middle_of_a_loop_comes_between_the_tools_and_the_next_reply() -> None:
    events = streamed(agent("anthropic", Model(12).tap(), tools=[look], context=TRIM, config=MANY))
    places = [at for at, event in enumerate(events) if isinstance(event, ContextTruncated)]
    assert len(places) >= 2
    for at in places:
        assert isinstance(events[at - 1], ToolFinished | ReplyDone)
        assert isinstance(events[at + 1], ReplyStarted)


def test_the_model_reads_that_something_is_missing() -> None:
    model = Model()
    talker = agent("openai-chat", model.tap(), context=TRIM, conversation=old())
    events = streamed(talker, "the new prompt")
    [cut] = cuts_of(events)
    first = model.seen[0].messages[0]
    assert HERE in first.text
    assert str(cut.omitted_messages) in first.text
    assert model.seen[0].messages[-1].text.endswith("the new prompt")
    assert len(talker.conversation) == 16 + 2


@EVERYWHERE
def test_the_conversation_itself_is_never_touched(provider: str) -> None:
    talker = agent(provider, Model(12).tap(), tools=[look], context=COMPACT, conversation=old(), config=MANY)
    before = list(talker.conversation)
    assert cuts_of(streamed(talker))
    assert kept(talker.conversation, before)
    assert HERE not in texts_of(talker.conversation)


def test_a_request_for_more_than_nothing_says_how_many_messages() -> None:
    """A cut never says that no messages were left out."""
    long = Model(1)
    talker = agent("openai-chat", long.tap(), tools=[look], context=ContextPolicy(budget=20))
    events = streamed(talker, "go " + "g" * 4_000)
    assert [cut.message for cut in cuts_of(events) if cut.omitted_messages == 0] == []
    assert long.summed == []


# ---- a summary


@LIVE
async def test_a_summary_is_asked_for_once_and_stands_in_the_place_of_what_it_summarizes(live: bool) -> None:
    model = Model()
    tap = model.tap()
    talker = agent("openai-chat", tap, context=COMPACT, conversation=old())
    for prompt in ("one", "two", "three"):
        assert (await outcome(talker, prompt, streamed=live)).text == "done"
    [asked] = model.summed
    assert "prompt 0" in asked
    assert "answer 0" in asked
    assert len(tap.requests) == 4
    for request in model.seen:
        assert "They looked at things." in request.messages[0].text
        assert "answer 0" not in texts_of(request.messages)


@LIVE
def test_what_a_summary_takes_is_counted_and_paid(live: bool) -> None:
    model = Model(summary=Reply((Text("short"),)))
    tap = model.tap()
    talker = Agent(priced(tap), context=COMPACT, conversation=old())
    result = run(outcome(talker, "go", streamed=live))
    without = run(outcome(Agent(priced(Model().tap()), context=TRIM, conversation=old()), "go", streamed=live))
    assert len(tap.requests) == 2
    assert result.reply is not None
    assert result.usage.input > result.reply.usage.input
    assert result.usage.input == sum(count_prompt("openai-chat", loads_object(request.body)) for request in tap.requests)
    assert result.cost is not None
    assert without.cost is not None
    assert result.cost > without.cost
    price = talker.view().engine.profile.price
    assert price is not None
    assert result.cost == pytest.approx(price.cost(result.usage))  # pyright: ignore[reportUnknownMemberType]
    assert result.iterations == 1


def test_the_second_summary_continues_from_the_first() -> None:
    model = Model(24)
    talker = agent("openai-chat", model.tap(), tools=[look], context=COMPACT, config=MANY)
    run(talker.run("the only prompt"))
    assert len(model.summed) >= 2
    assert "(before that)" not in model.summed[0]
    for later in model.summed[1:]:
        assert "(before that) They looked at things." in later
    counted = [text.count("look gave:") for text in model.summed]
    assert sum(counted) <= 48, "nothing is summed up twice"


async def test_a_prompt_that_stood_before_a_truncation_of_its_turn_is_summarized_when_it_goes() -> None:
    """A long turn is cut inside and keeps its prompt; when the next turn pushes it out, the summary has to know of it."""
    model = Model(10)
    talker = agent("openai-chat", model.tap(), tools=[look], context=COMPACT, config=MANY)
    await talker.run("build the blue house")
    await talker.run("and now the red one")
    last = model.seen[-1].messages
    assert not any("blue house" in message.text for message in last), "the first turn is no longer shown"
    assert any("blue house" in text for text in model.summed), "nor has anybody been told what it was about"


@pytest.mark.parametrize("reply", [Reply(()), Reply((Text("  \n "),))], ids=["nothing", "blanks"])
def test_a_model_that_gives_no_summary_is_trimmed_and_that_is_reported(reply: Reply) -> None:
    model = Model(summary=reply)
    tap = model.tap()
    events = streamed(agent("openai-chat", tap, context=COMPACT, conversation=old()))
    [cut] = cuts_of(events)
    assert cut.summary == ""
    assert "left out" in cut.message
    assert "no summary" in cut.message
    assert result_of(events).text == "done"
    assert result_of(events).usage.input == sum(
        count_prompt("openai-chat", loads_object(request.body)) for request in tap.requests
    ), "it was paid for"


@LIVE
@pytest.mark.parametrize("fault", ["quota", "unauthorized", "context-too-long", "html"])
def test_a_summary_that_fails_is_trimmed_and_that_is_reported(fault: str, live: bool) -> None:
    model = Model()
    faults = [fault] * (1 + QUICK.max_retries if fault == "html" else 1)
    talker = agent("openai-chat", model.tap(faults=faults), context=COMPACT, conversation=old())
    result = run(outcome(talker, "go", streamed=live))
    [loss] = [loss for loss in result.losses if loss.where == "context"]
    assert "could not be summarized" in loss.reason
    assert "left out" in loss.reason
    assert result.text == "done"
    check(talker.conversation)


def test_the_text_to_be_summarized_fits_the_model() -> None:
    """A conversation in another script goes to a model with a smaller window: its summary is not refused as too long."""
    long = Conversation(
        [one for _ in range(10) for one in (user("日本語の長い問い" * 200), assistant("日本語の長い答え" * 200))]
    )
    model = Model()
    talker = agent("openai-chat/gpt-4", model.tap(), conversation=long)
    assert cuts_of(streamed(talker))
    [text] = model.summed
    assert estimate_text(SUMMARY_PROMPT + text) < 8_192


@pytest.mark.parametrize("slow", [False, True], ids=["sync", "async"])
def test_a_hook_summarizes_in_the_place_of_the_model(slow: bool) -> None:
    given: list[Sequence[Message]] = []

    def at_once(messages: Sequence[Message]) -> str:
        given.append(list(messages))
        return f"  {len(messages)} things were said \n"

    async def later(messages: Sequence[Message]) -> str:
        await asyncio.sleep(0)
        return at_once(messages)

    model = Model()
    tap = model.tap()
    talker = agent("openai-chat", tap, context=COMPACT, conversation=old(), summarize=later if slow else at_once)
    [cut] = cuts_of(streamed(talker))
    assert len(given) == 1
    assert list(given[0]) == talker.conversation[: cut.omitted_messages]
    assert cut.summary == f"{cut.omitted_messages} things were said"
    assert cut.summary in model.seen[0].messages[0].text
    assert (model.summed, len(tap.requests)) == ([], 1)


def test_a_hook_is_given_what_is_left_out_and_nothing_else() -> None:
    """The prompt of a long turn goes on being shown: it is not among what is left out."""
    given: list[Sequence[Message]] = []

    def summarize(messages: Sequence[Message]) -> str:
        given.append(list(messages))
        return "summed up"

    talker = agent(
        "openai-chat", Model(9).tap(), tools=[look], context=COMPACT, summarize=summarize, conversation=old(2), config=MANY
    )
    cuts = cuts_of(streamed(talker, "the prompt of the turn"))
    assert [len(messages) for messages in given] == [cut.omitted_messages for cut in cuts]
    assert not any(message.text == "the prompt of the turn" for message in given[-1])


@pytest.mark.parametrize("empty", ["", "   "])
def test_a_hook_that_has_nothing_to_say_leaves_a_trimmed_conversation(empty: str) -> None:
    def silent(messages: Sequence[Message]) -> str:
        return empty

    model = Model()
    talker = agent("openai-chat", model.tap(), context=COMPACT, conversation=old(), summarize=silent)
    [cut] = cuts_of(streamed(talker))
    assert (cut.summary, "left out" in cut.message) == ("", True)
    assert HERE in model.seen[0].messages[0].text


def test_an_error_of_ours_in_a_hook_is_a_summary_that_failed() -> None:
    def summarize(messages: Sequence[Message]) -> str:
        raise ConnectFailed("no summary service")

    events = streamed(agent("openai-chat", Model().tap(), context=COMPACT, conversation=old(), summarize=summarize))
    [cut] = cuts_of(events)
    assert "no summary service" in cut.message
    assert result_of(events).text == "done"


@LIVE
async def test_a_hook_with_a_mistake_in_it_is_not_hidden(live: bool) -> None:
    """Its exception is the caller's own: it is raised as it is, nothing was cut, and the conversation goes on."""
    wrong: list[Any] = [ZeroDivisionError("oops")]

    def summarize(messages: Sequence[Message]) -> str:
        if wrong:
            raise wrong.pop()
        return "fine"

    talker = agent("openai-chat", Model().tap(), context=COMPACT, conversation=old(), summarize=summarize)
    with pytest.raises(ZeroDivisionError):
        await outcome(talker, "go", streamed=live)
    assert (await talker.context_usage()).omitted_messages == 0
    check(talker.conversation, everywhere=False)
    assert (await outcome(talker, "go on", streamed=live)).text == "done"


def test_a_summary_is_never_longer_than_what_it_stands_for() -> None:
    """A talkative summary would fill what was just made free, and be made again in every step."""
    asked: list[int] = []

    def summarize(messages: Sequence[Message]) -> str:
        asked.append(len(messages))
        return "and then " * 5_000

    talker = agent("openai-chat", Model(6).tap(), tools=[look], context=COMPACT, conversation=old(), summarize=summarize)
    cuts = cuts_of(streamed(talker))
    assert all(cut.after < cut.before for cut in cuts)
    assert cuts[0].after <= 1_500


# ---- budgets that nothing fits


@LIVE
@pytest.mark.parametrize("when", ["trim", "compact"])
def test_a_budget_smaller_than_the_last_step(live: bool, when: Any) -> None:
    """The last step is sent all the same: a call is never parted from its result, and the run ends."""
    model = Model(4)
    talker = agent("openai-chat", model.tap(), tools=[look], context=ContextPolicy(when_full=when, budget=30))
    result = run(outcome(talker, "go", streamed=live))
    assert (result.text, len(result.outcomes)) == ("done", 8)
    for request in model.seen:
        assert broken(request.messages) == []
        assert any("go" in message.text for message in request.messages)
    assert len(model.seen[-1].messages) <= 4, "what was said, the prompt, the calls, their results"


@LIVE
def test_a_budget_smaller_than_tools_and_instructions(live: bool) -> None:
    model = Model(4)
    tap = model.tap()
    talker = agent("openai-chat", tap, tools=[look], system="i" * 9_000, context=ContextPolicy(budget=100))
    result = run(outcome(talker, "go", streamed=live))
    assert result.text == "done"
    assert len(tap.requests) <= 5 + 4, "at most one summary for each step"
    assert len(model.summed) <= 3, "the first step has nothing to leave out"


def test_off_sends_everything() -> None:
    model = Model(5)
    talker = agent("openai-chat", model.tap(), tools=[look], context=OFF, conversation=old())
    events = streamed(talker)
    assert cuts_of(events) == []
    assert "answer 0" in texts_of(model.seen[-1].messages)


# ---- a provider that refuses


@EVERYWHERE
@LIVE
def test_a_refused_request_is_shortened_and_asked_again(provider: str, live: bool) -> None:
    model = Model()
    tap = model.tap(faults=["context-too-long"])
    talker = agent(provider, tap, context=ContextPolicy(when_full="trim"), conversation=old(), system="Be brief.")
    result = run(outcome(talker, "go", streamed=live))
    assert result.text == "done"
    assert len(tap.requests) == 2
    assert len(tap.requests[1].body) < len(tap.requests[0].body) * 0.75
    assert [loss.where for loss in result.losses if loss.where == "context"] == ["context"]
    check_bodies(talker.view().engine, tap)
    check(talker.conversation, everywhere=False)
    assert tap.open == 0


def test_a_refused_request_is_summarized_if_that_is_the_policy() -> None:
    model = Model()
    tap = model.tap(faults=["context-too-long"])
    events = streamed(agent("openai-chat", tap, conversation=old()))
    assert len(tap.requests) == 3
    assert len(model.summed) == 1
    assert isinstance(events[0], ContextTruncated)
    assert [type(event) for event in events].count(ReplyStarted) == 1


@LIVE
async def test_a_second_refusal_is_raised(live: bool) -> None:
    tap = Model().tap(faults=["context-too-long"] * 2)
    talker = agent("openai-chat", tap, context=ContextPolicy(when_full="trim"), conversation=old())
    assert isinstance(await raised(outcome(talker, "go", streamed=live)), ContextTooLong)
    assert len(tap.requests) == 2
    check(talker.conversation, everywhere=False)
    assert (await outcome(talker, "again", streamed=live)).text == "done"


@LIVE
@pytest.mark.parametrize(
    ("context", "talk"),
    [(ContextPolicy(when_full="off"), 8), (ContextPolicy(when_full="trim"), 0), (ContextPolicy(), 0)],
    ids=["off", "nothing to trim", "nothing to sum up"],
)
def test_a_refusal_is_raised_if_nothing_can_be_left_out(live: bool, context: ContextPolicy, talk: int) -> None:
    tap = Model().tap(faults=["context-too-long"])
    talker = agent("openai-chat", tap, context=context, conversation=old(talk))
    assert isinstance(run(raised(outcome(talker, "go", streamed=live))), ContextTooLong)
    assert len(tap.requests) == 1
    check(talker.conversation)


async def test_a_refusal_is_remembered() -> None:
    """The next turns stay below what was refused, without being refused again."""
    tap = Model(10).tap(faults=["context-too-long"])
    talker = agent("openai-chat", tap, tools=[look], context=ContextPolicy(when_full="trim"), conversation=old(), config=MANY)
    await talker.run("go")
    budget = (await talker.context_usage()).budget
    assert budget is not None
    assert budget < 3_000
    refused, *others = (len(request.body) for request in tap.requests)
    assert max(others) < refused


async def test_a_refusal_that_nothing_could_be_done_about_does_not_shorten_what_follows() -> None:
    """One prompt alone was refused: that says nothing of how long a conversation may be."""
    model = Model()
    talker = agent("openai-chat", model.tap(faults=["context-too-long"]), context=ContextPolicy(when_full="trim"))
    await raised(talker.run("one"))
    results = [await talker.run("two"), await talker.run("three")]
    assert [loss for one in results for loss in one.losses if loss.where == "context"] == []
    assert "one" in texts_of(model.seen[-1].messages)


async def test_the_refusal_of_one_model_is_none_of_another() -> None:
    model, other = Model(), Model()
    talker = agent("openai-chat", model.tap(faults=["context-too-long"]), context=ContextPolicy(when_full="trim"))
    talker.conversation.append(*old())
    await talker.run("go")
    talker.switch(sim("anthropic", other.tap()))
    budget, window = (await talker.context_usage()).budget, talker.view().engine.profile.limits.context
    assert budget is not None
    assert window is not None
    assert budget > window // 2


@LIVE
def test_a_second_refusal_is_no_reason_for_another_model(live: bool) -> None:
    tap, other = Model().tap(faults=["context-too-long"] * 2), Model().tap()
    talker = Agent(sim("openai-chat", tap), fallbacks=[sim("gemini", other)], conversation=old())
    change(talker, context=ContextPolicy(when_full="trim"))
    assert isinstance(run(raised(outcome(talker, "go", streamed=live))), ProviderError)
    assert other.requests == []


@LIVE
def test_a_model_that_fails_after_it_was_shortened_falls_back(live: bool) -> None:
    tap, model = Model().tap(faults=["context-too-long", *["overloaded"] * 9]), Model()
    other = model.tap()
    talker = Agent(
        sim("openai-chat", tap), fallbacks=[sim("gemini", other)], conversation=old(), context=ContextPolicy(when_full="trim")
    )
    result = run(outcome(talker, "go", streamed=live))
    assert result.text == "done"
    assert talker.view().engine.profile.id == "gemini"
    assert "answer 0" not in texts_of(model.seen[0].messages), "what is left out stays left out"
    check_bodies(talker.view().engine, other)


def test_a_truncation_and_a_fallback_are_reported_in_order() -> None:
    tap, other = Model().tap(faults=["context-too-long", *["overloaded"] * 9]), Model().tap()
    talker = Agent(
        sim("openai-chat", tap), fallbacks=[sim("gemini", other)], conversation=old(), context=ContextPolicy(when_full="trim")
    )
    told = [event for event in streamed(talker) if isinstance(event, ContextTruncated | ModelSwitched)]
    assert [type(event) for event in told] == [ContextTruncated, ModelSwitched]


@LIVE
def test_a_fallback_with_a_smaller_window_is_sent_what_it_takes(live: bool) -> None:
    """The model that steps in is not sent what its window cannot hold."""
    small = Model()
    tap = small.tap()
    talker = Agent(
        sim("anthropic", Model().tap(faults=["overloaded"] * 9)),
        fallbacks=[sim("openai-chat/gpt-4", tap)],
        conversation=old(60),
        context=ContextPolicy(when_full="trim"),
    )
    result = run(outcome(talker, "go", streamed=live))
    assert result.text == "done"
    assert len(tap.requests[-1].body) // 4 < 8_192
    assert any(loss.where == "context" for loss in result.losses)


# ---- other models, and what they count


@LIVE
async def test_a_switch_to_a_smaller_window_truncates_then(live: bool) -> None:
    model, small = Model(), Model()
    talker = Agent(sim("anthropic", model.tap()), conversation=old(40), context=ContextPolicy(when_full="trim"))
    first = await outcome(talker, "one", streamed=live)
    talker.switch(sim("openai-chat/gpt-4", small.tap()))
    second = await outcome(talker, "two", streamed=live)
    talker.switch(sim("anthropic", model.tap()))
    third = await outcome(talker, "three", streamed=live)
    lost = [[loss for loss in one.losses if loss.where == "context"] for one in (first, second, third)]
    assert [len(losses) for losses in lost] == [0, 1, 0]
    assert "answer 0" in texts_of(model.seen[0].messages)
    assert "answer 0" not in texts_of(small.seen[0].messages)
    assert "answer 0" not in texts_of(model.seen[-1].messages), "what was left out once stays left out"


@LIVE
async def test_a_real_count_corrects_the_next_estimate(live: bool) -> None:
    """The simulator counts a quarter of the body's bytes; JSON makes that more than the words."""
    model = Model()
    tap = model.tap()
    talker = agent("openai-chat", tap, conversation=Conversation([user('"\\' * 2_000), assistant("yes")]))
    before = (await talker.context_usage()).total
    await outcome(talker, "go", streamed=live)
    after = (await talker.context_usage()).total
    counted = len(tap.requests[0].body) // 4
    assert counted > 1.5 * before
    assert abs(after - counted) < counted * 0.1


async def test_a_fallback_does_not_learn_from_an_estimate_of_another_model() -> None:
    """Claude makes more tokens of a text than GPT: the count of the one that answered is compared with its own estimate."""
    model = Model()
    tap = model.tap()
    talker = Agent(
        sim("anthropic", Model().tap(faults=["overloaded"] * 9)), fallbacks=[sim("openai-chat", tap)], conversation=old()
    )
    alone = agent("openai-chat", Model().tap(), conversation=old())
    await talker.run("go")
    await alone.run("go")
    fallen, direct = (await talker.context_usage()).total, (await alone.context_usage()).total
    assert abs(fallen - direct) < direct * 0.05


# ---- time, and those who leave


@LIVE
def test_the_time_of_a_run_counts_for_its_summary(live: bool) -> None:
    async def never(messages: Sequence[Message]) -> str:
        await asyncio.Event().wait()
        return ""

    talker = agent(
        "openai-chat", Model().tap(), context=COMPACT, conversation=old(), summarize=never, config=ToolConfig(run_timeout=0.05)
    )
    before = len(talker.conversation)
    result = run(outcome(talker, "go", streamed=live))
    assert result.stop == "timeout"
    assert len(talker.conversation) >= before + 1
    check(talker.conversation)
    change(talker, summarize=None)
    talker.config = ToolConfig()
    assert run(talker.run("on")).text == "done"


@LIVE
def test_a_model_that_stalls_while_it_summarizes_is_stopped_in_time(live: bool) -> None:
    tap = Model(summary="some words that take their time").tap(faults=["stall-first"])
    talker = agent("openai-chat", tap, context=COMPACT, conversation=old(), config=ToolConfig(run_timeout=0.05))
    result = run(outcome(talker, "go", streamed=live))
    assert (result.stop, tap.open) == ("timeout", 0)
    check(talker.conversation)


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
    tap = Model().tap(faults=["context-too-long"] if refused else [])
    talker = agent(provider, tap, context=context, conversation=old(), summarize=never)
    work = asyncio.create_task(outcome(talker, "go", streamed=live))
    await inside.wait()
    await cancelled(work)
    check(talker.conversation, everywhere=False)
    assert (await talker.context_usage()).omitted_messages == 0, "nothing was cut"
    change(talker, summarize=None)
    assert (await talker.run("on")).text == "done"
    check_bodies(talker.view().engine, tap)
    check(talker.conversation)


async def test_a_reader_that_leaves_after_a_truncation_leaves_a_valid_conversation() -> None:
    talker = agent("openai-chat", Model().tap(), context=TRIM, conversation=old())
    events = talker.stream("go")
    assert isinstance(await anext(events), ContextTruncated)
    await events.aclose()
    check(talker.conversation, everywhere=False)
    assert (await talker.run("on")).text == "done"


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

    tap = Wiretap(*[turn] * 50)
    asks = ToolConfig(approval_effects=frozenset({"write"}))
    context = ContextPolicy(budget=700)
    talker = agent(provider, tap, tools=[delete], context=context, conversation=old(4), config=asks)
    paused = await outcome(talker, "clean up", streamed=live)
    assert paused.stop == "approval"
    assert any(loss.where == "context" for loss in paused.losses)
    again = Agent.load(talker.save(), sim(provider, tap), tools=[delete], context=context, config=asks)
    result = await again.resume({call.id: "yes" for call in paused.requests})
    assert (result.stop, [one.result.text[:9] for one in result.outcomes]) == ("end", ["deleted a", "deleted b"])
    check_bodies(talker.view().engine, tap)


@EVERYWHERE
def test_tools_that_start_early_do_not_mind_a_truncation(provider: str) -> None:
    tap = Model(8).tap()
    config = ToolConfig(max_iterations=60, eager_start=True)
    talker = agent(provider, tap, tools=[look], context=TRIM, config=config)
    events = streamed(talker)
    assert cuts_of(events)
    assert len(result_of(events).outcomes) == 16
    check_bodies(talker.view().engine, tap)
    check(talker.conversation, everywhere=False)


@EVERYWHERE
def test_a_structured_output_survives_a_truncation(provider: str) -> None:
    tap = Wiretap()
    shape = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    talker = agent(provider, tap, tools=[look], context=TRIM, conversation=old(), output_type=shape)
    result = run(talker.run("the number is 5"))
    assert isinstance(result.output, dict)
    assert any(loss.where == "context" for loss in result.losses)
    check_bodies(talker.view().engine, tap)
    check(talker.conversation, everywhere=False)


def test_a_prompt_that_was_answered_in_the_wrong_shape_is_still_the_prompt() -> None:
    """The model is told what was wrong; a cut after that keeps what the user asked for, not only the complaint."""
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
    talker = agent("openai-chat", Wiretap(*[turn] * 50), tools=[look], context=context, output_type=shape)
    assert run(talker.run("how many blue houses?")).output == {"n": 5}
    assert "blue houses" in texts_of(seen[-1].messages)


def test_instructions_in_the_conversation_survive_a_truncation() -> None:
    model = Model()
    talker = agent("openai-chat", model.tap(), context=TRIM, conversation=Conversation([system("In French."), *old()]))
    run(talker.run("go"))
    assert "In French." in texts_of(model.seen[0].messages)


async def test_two_conversations_of_one_agent_are_truncated_apart() -> None:
    model = Model()
    talker = agent("openai-chat", model.tap(), context=TRIM, conversation=old())
    other = Conversation()
    results = [await talker.run("go"), await talker.run("go", conversation=other)]
    assert [any(loss.where == "context" for loss in one.losses) for one in results] == [True, False]
    assert HERE not in texts_of(model.seen[1].messages)


def test_the_budget_of_a_run_counts_what_a_summary_took() -> None:
    model = Model(5, summary=Reply((Text("s" * 400),), usage=Usage(10, 10)))
    talker = agent(
        "openai-chat", model.tap(), tools=[look], context=COMPACT, conversation=old(), config=ToolConfig(max_tokens=600)
    )
    result = run(talker.run("go"))
    assert result.stop == "budget"
    assert len(model.summed) == 1
    assert len(model.seen) == 1
    check(talker.conversation, everywhere=False)


# ---- how full it is


def offers() -> list[Tool]:
    return [look, delete]


@EVERYWHERE
def test_measured_adds_up(provider: str) -> None:
    talker = agent(provider, tools=offers(), system="i" * 4_000, conversation=old())
    measured = run(talker.context_usage())
    assert set(measured.parts) == {"instructions", "tools", "prompts", "answers"}
    assert abs(sum(measured.parts.values()) - measured.total) <= len(measured.parts) + 1
    assert measured.window == talker.view().engine.profile.limits.context
    assert measured.omitted_messages == 0


def test_measured_after_a_truncation_says_what_the_event_said() -> None:
    talker = agent("openai-chat", Model(9).tap(), tools=[look], context=TRIM, conversation=old(2), config=MANY)
    events = streamed(talker)
    measured = run(talker.context_usage())
    assert measured.omitted_messages == cuts_of(events)[-1].omitted_messages
    assert measured.budget == 1_500
    assert abs(sum(measured.parts.values()) - measured.total) < measured.total * 0.1


async def test_measured_is_corrected_if_nothing_is_truncated() -> None:
    """Who has turned cutting off still wants to know how full it is."""
    tap = Model().tap()
    policy = ContextPolicy(when_full="off")
    talker = agent("openai-chat", tap, context=policy, conversation=Conversation([user('"\\' * 2_000), assistant("yes")]))
    await talker.run("go")
    total = (await talker.context_usage()).total
    counted = len(tap.requests[0].body) // 4
    assert abs(total - counted) < counted * 0.1


def test_measured_of_an_agent_without_anything() -> None:
    measured = run(agent("ollama").context_usage())
    assert (measured.total, measured.parts, measured.budget, measured.window) == (0, {}, None, None)


@EVERYWHERE
async def test_a_preview_shows_what_would_be_sent(provider: str) -> None:
    talker = agent(provider, Model().tap(), tools=offers(), system="Be brief.", context=TRIM, conversation=old())
    before = (await talker.preview_request()).body
    await talker.run("go")
    after = (await talker.preview_request()).body
    other = (await talker.preview_request("simulator:gemini")).body
    before, after, other = [body.decode() for body in (before, after, other)]
    assert "answer 0" in before
    for body in (after, other):
        assert "answer 0" not in body
        assert HERE in body
        assert "Be brief." in body
        assert '"look"' in body
    assert "contents" in other


async def test_a_preview_does_not_disturb_the_prefix() -> None:
    tap = Model(2).tap()
    talker = agent("openai-chat", tap, tools=[look])
    await talker.run("one")
    await talker.preview_request()
    await talker.run("two")
    for one, other in pairwise(request.body for request in tap.requests):
        assert other.startswith(one[:-2])
    assert "contents" not in dumps_text(tap.bodies[-1])
