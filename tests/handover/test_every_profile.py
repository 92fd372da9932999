"""One conversation on every profile of the catalog, streamed and whole: the same results, and nobody refuses
a request.

The conversation: parallel calls; a failure, a time limit, a second try and an unknown tool in one turn;
arguments that are no JSON; a result that is too long, and the rest of it by its handle; then the user speaks
again."""

import asyncio
from functools import cache

import msgspec
import pytest

from toolglot.errors import ContextTooLong, ToolError
from toolglot.loop.agent.agent import Agent
from toolglot.providers.catalog import PROFILES
from toolglot.simulator.core import Script
from toolglot.tools.config import ToolConfig
from toolglot.tools.results import ResultStore
from toolglot.tools.tool import Tool, tool
from toolglot.values.events import RunResult, ToolOutcome
from toolglot.values.messages import Reply, Text, Thinking, ToolCall

from .harness import (
    QUICK,
    WIRE_PROFILES,
    SentRequest,
    list_refusals,
    list_unpaired,
    make_engine,
    make_transport,
    referee_errors,
    run_agent,
)

CONFIG = ToolConfig(retry=QUICK, max_result=300)
LONG = "".join(f"line {number} of the result\n" for number in range(100))
BROKEN = '{"a": 1, "b": oops'
SCRIPT = Script(
    (
        Reply(
            (
                Thinking("Two cities and a sum."),
                Text("I will look."),
                ToolCall("", "weather", {"city": "Paris"}),
                ToolCall("", "weather", {"city": "Rome"}),
                ToolCall("", "add", {"a": 2, "b": 3}),
            ),
            "tools",
        ),
        Reply(
            (
                ToolCall("", "broken", {"why": "no reason"}),
                ToolCall("", "slow", {}),
                ToolCall("", "flaky", {"key": "k"}),
                ToolCall("", "no_such_tool", {"x": 1}),
            ),
            "tools",
        ),
        Reply((Text("Again."), ToolCall("", "add", None, BROKEN)), "tools"),
        Reply((ToolCall("", "long", {"lines": 100}),), "tools"),
        Reply(
            (ToolCall("", "read_result", {"handle": ResultStore().put(LONG), "offset": 200, "limit": 40}),),
            "tools",
        ),
        Reply((Text("All of it is done."),)),
        Reply((ToolCall("", "add", {"a": "10", "b": 5}),), "tools"),
        Reply((Text("Fifteen."),)),
    )
)
# What everybody must get: (tool, error kind, retries, ran, start of the text)
EXPECTED: list[tuple[str, str | None, int, bool, str]] = [
    ("weather", None, 0, True, "sunny in Paris"),
    ("weather", None, 0, True, "sunny in Rome"),
    ("add", None, 0, True, "5"),
    ("broken", "execution", 0, True, "ValueError: no reason"),
    ("slow", "timeout", 0, True, "The tool 'slow' did not finish within 0.05 s"),
    ("flaky", None, 1, True, "got k"),
    ("no_such_tool", "not_found", 0, False, "There is no such tool"),
    ("add", "validation", 0, False, "The call to add was not run"),
    ("long", None, 0, True, "line 0 of the result\n"),
    (
        "read_result",
        None,
        0,
        True,
        "he result\nline 10 of the result\nline 11 \n[characters 200 to 240 of 2190",
    ),
    ("add", None, 0, True, "15"),
]


class Playback(msgspec.Struct):
    first: RunResult
    second: RunResult
    sent: list[SentRequest]
    ran: list[str]
    wrong: list[str]


def make_tools(ran: list[str]) -> list[Tool]:
    """Tools that note each time they run."""

    @tool
    async def weather(city: str) -> str:
        """The weather of a city."""
        ran.append(f"weather {city}")
        return f"sunny in {city}"

    @tool
    async def add(a: int, b: int) -> int:
        """Adds two numbers."""
        ran.append(f"add {a} {b}")
        return a + b

    @tool
    async def broken(why: str) -> str:
        """Fails."""
        ran.append("broken")
        raise ValueError(why)

    @tool(timeout=0.05)
    async def slow() -> str:
        """Never comes back."""
        ran.append("slow")
        await asyncio.Event().wait()
        return "never"

    @tool
    async def flaky(key: str) -> str:
        """Fails the first time."""
        ran.append("flaky")
        if ran.count("flaky") == 1:
            raise ToolError("busy", retryable=True)
        return f"got {key}"

    @tool
    async def long(lines: int) -> str:
        """A long text."""
        ran.append("long")
        return LONG

    return [weather, add, broken, slow, flaky, long]


@cache
def conversation(profile: str, live: bool) -> Playback:
    """The whole conversation, played once."""

    async def play() -> Playback:
        transport, ran = make_transport(SCRIPT), list[str]()
        agent = Agent(
            make_engine(profile, transport), tools=make_tools(ran), config=CONFIG, system="Be brief."
        )
        first = await run_agent(agent, "Please do it all.", live=live)
        second = await run_agent(agent, "And ten and five?", live=live)
        return Playback(first, second, transport.sent, ran, list_unpaired(agent.conversation))

    return asyncio.run(play())


def summarize(outcome: ToolOutcome) -> tuple[str, str | None, int, bool]:
    return outcome.call.name, outcome.result.error_kind, outcome.retries, outcome.ran


def texts(result: RunResult) -> list[tuple[str, str]]:
    """What was said in a run, and what the tools said, but for arguments that came in another shape."""
    lines = [(message.role, message.text) for message in result.messages if message.text]
    results = [(outcome.name, outcome.text) for message in result.messages for outcome in message.results]
    return lines + [(name, text) for name, text in results if "was not run" not in text]


EVERYWHERE = [
    pytest.param(profile, live, id=f"{profile}-{'streamed' if live else 'whole'}")
    for profile in PROFILES
    for live in (False, True)
]


def test_the_catalog_has_twenty_profiles_or_more() -> None:
    assert len(PROFILES) >= 20


@pytest.mark.parametrize(("profile", "live"), EVERYWHERE)
def test_a_conversation_is_the_same_everywhere(profile: str, live: bool) -> None:
    actual, other = conversation(profile, live), conversation("openai-chat", False)
    outcomes = [*actual.first.outcomes, *actual.second.outcomes]
    assert [summarize(outcome) for outcome in outcomes] == [row[:4] for row in EXPECTED]
    for outcome, (_, kind, _, _, text) in zip(outcomes, EXPECTED, strict=True):
        assert outcome.result.text.startswith(text)
        assert outcome.result.is_error is (kind is not None)
    assert (actual.first.text, actual.first.stop, actual.first.iterations) == ("All of it is done.", "end", 6)
    assert (actual.second.text, actual.second.stop, actual.second.iterations) == ("Fifteen.", "end", 2)
    # What the model is told is the same, too.
    assert (texts(actual.first), texts(actual.second)) == (texts(other.first), texts(other.second))
    assert parameter_names(actual.first) == parameter_names(other.first)
    # Nothing ran twice, nothing is lost, and the provider accepts every request.
    once = [
        "weather Paris",
        "weather Rome",
        "add 2 3",
        "broken",
        "slow",
        "flaky",
        "flaky",
        "long",
        "add 10 5",
    ]
    assert sorted(actual.ran) == sorted(once)
    losses = [*actual.first.losses, *actual.second.losses]
    assert [str(loss) for loss in losses if not loss.where.startswith("tool ")] == []
    assert len(actual.sent) == 8
    assert list_refusals(actual.sent) == []
    assert [error for sent in actual.sent for error in referee_errors(sent)] == []
    assert {sent.profile.id for sent in actual.sent} == {profile}
    assert actual.wrong == []


def parameter_names(result: RunResult) -> list[list[str]]:
    calls = [call for message in result.messages for call in message.calls]
    return [sorted(call.arguments or {}) for call in calls if call.name != "add"]


@pytest.mark.parametrize("profile", WIRE_PROFILES)
async def test_paging_in_strict_mode(profile: str) -> None:
    """The tool that reads on in a long result is ours: no wire may lose anything of it."""
    script = Script((*SCRIPT.turns[3:5], "say read"))
    engine = make_engine(profile, make_transport(script), strict=True)
    result = await Agent(engine, tools=make_tools([]), config=CONFIG).run("Read it.")
    assert [outcome.result.is_error for outcome in result.outcomes] == [False, False]


async def test_the_recording_transport_notes_refusals() -> None:
    """The judge can say no."""
    transport = make_transport(faults=["context-too-long"])
    with pytest.raises(ContextTooLong):
        await Agent(make_engine("openai-chat", transport)).run("hello")
    assert list_refusals(transport.sent) == ["openai-chat: 400"]
