"""Other models on the way: switched by hand, in the middle of a loop and back, or because one fails."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.agent_kit import setup_of

from toolglot.common.jsontext import dumps_text
from toolglot.engine.engine import Engine
from toolglot.engine.factory import create_engine
from toolglot.errors import (
    ConnectFailed,
    ConnectionLost,
    ProviderError,
    TimedOut,
    ToolglotError,
    TransportError,
)
from toolglot.loop.agent.agent import Agent
from toolglot.tools.config import ToolConfig
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import tool
from toolglot.values.events import ModelSwitched, RunDone, TextDelta, ThinkingDelta
from toolglot.values.messages import Conversation, Media, Message, Text, Thinking, ToolCall

from .agents import (
    PROVIDERS,
    QUICK,
    StuckTool,
    Wiretap,
    cancel_and_wait,
    check,
    check_bodies,
    collect_events,
    collect_into,
    make_agent,
    noting,
    outcome,
    results_of,
    run,
)

pytestmark = pytest.mark.untraced

LIVE = pytest.mark.parametrize("live", [False, True], ids=["whole", "streamed"])
PAIRS = [(provider, other) for provider in PROVIDERS for other in PROVIDERS if provider != other]
PAIR = pytest.mark.parametrize(("home", "other"), PAIRS)


@tool(effects="read")
async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@tool(effects="read")
async def picture() -> Any:
    """A picture."""
    return ToolOutput([Text("a dot"), Media("image", "image/png", "iVBORw0KGgo=")])


@tool(effects="read")
async def fail() -> str:
    """Goes wrong."""
    raise ValueError("no luck")


@tool(effects="write")
async def ask() -> str:
    """Has to be approved."""
    return "approved"


TOOLS = [add, picture, fail, ask]
MIXED = 'think let me see\ncall add {"a": 1, "b": 2} call picture {} call fail {} call ask {}\nthen say done'
ASK = ToolConfig(ask=frozenset({"write"}))


def sim(provider: str, wiretap: Wiretap) -> Engine:
    return create_engine(f"simulator:{provider}", transport=wiretap, retry=QUICK)


def opaque_of(messages: Sequence[Message]) -> list[str]:
    """State that only its own provider understands: signatures, ciphers, item ids."""
    blocks = [block for message in messages for block in message.blocks]
    return [
        text
        for block in blocks
        if isinstance(block, Thinking | ToolCall)
        for value in (block.opaque or {}).values()
        if isinstance(text := value, str) and len(text) > 12
    ]


@PAIR
async def test_a_switch_in_the_middle_of_a_loop_and_back(home: str, other: str) -> None:
    """Thinking, parallel calls, a picture, an error, an approval; the other model finishes; the first one
    goes on.
    """
    first, second = Wiretap(), Wiretap()
    before: list[int] = []
    agent = Agent(sim(home, first), tools=TOOLS, config=ASK)
    paused = await agent.run(MIXED)
    assert paused.stop == "approval"
    agent.switch(sim(other, second))
    done = await agent.resume({paused.requests[0].id: "yes"})
    assert done.stop == "end"
    assert (await agent.run("say hello from the other")).text == "hello from the other"
    before.append(len(first.requests))
    agent.switch(sim(home, first))
    assert (await agent.run('call add {"a": 5, "b": 5}')).stop == "end"
    assert agent.view().engine.profile.id == home
    check(agent.conversation)
    for provider, wiretap in ((home, first), (other, second)):
        check_bodies(sim(provider, wiretap), wiretap)
    secrets = opaque_of(agent.conversation[:2])
    away = b"".join(request.body for request in second.requests).decode()
    back = first.requests[before[0]].body.decode()
    assert [secret for secret in secrets if secret in away] == [], "state of one model was sent to another"
    assert [secret for secret in secrets if secret not in back] == [], "state was lost on the way back"
    assert bool(secrets) == (home not in ("openai-chat", "ollama"))


@PAIR
async def test_calls_and_results_survive_the_switch(home: str, other: str) -> None:
    wiretap = Wiretap()
    agent = Agent(sim(home, Wiretap()), tools=TOOLS)
    await agent.run('call add {"a": 1, "b": 2} call fail {}')
    agent.switch(sim(other, wiretap))
    await agent.run("say on")
    body = dumps_text(wiretap.bodies[0])
    assert "no luck" in body
    assert "add" in body
    assert [result.text for result in results_of(agent.conversation)] == ["3", "ValueError: no luck"]


@PAIR
async def test_an_interrupted_call_survives_the_switch(home: str, other: str) -> None:
    slow, wiretap = StuckTool(), Wiretap()
    agent = Agent(sim(home, Wiretap()), tools=[slow.tool, add])
    task = asyncio.create_task(agent.run('call add {"a": 1, "b": 2} call slow {}'))
    await slow.inside.wait()
    await cancel_and_wait(task)
    agent.switch(sim(other, wiretap))
    assert (await agent.run("say on")).text == "on"
    check_bodies(agent.view().engine, wiretap)
    assert "interrupted" in dumps_text(wiretap.bodies[0])


def test_a_tool_may_switch_the_model_of_its_own_run() -> None:
    """A cheap model for the tools, a strong one for the answer: the next request goes to the new model.

    Whoever answers next gets its own provider's definitions of hosted tools.
    """
    first, second = Wiretap(), Wiretap()

    @tool
    def stronger() -> str:
        """Asks for a stronger model."""
        agent.switch(sim("gemini", second))
        return "switched"

    agent = Agent(sim("anthropic", first), tools=[stronger], hosted=["web_search"])
    result = run(agent.run("call stronger {}\nthen say done"))
    assert result.text == "done"
    before, after = (dumps_text(body) for body in (*first.bodies, *second.bodies))
    assert ("web_search_2" in before, "googleSearch" in before) == (True, False)
    assert ("web_search_2" in after, "googleSearch" in after) == (False, True)
    check(agent.conversation)
    check_bodies(agent.view().engine, second)


def test_a_switch_to_an_unknown_model_changes_nothing() -> None:
    agent = make_agent("anthropic")
    before = agent.view().engine
    with pytest.raises(ToolglotError):
        agent.switch("no-such-provider:x")
    assert agent.view().engine is before


async def test_losses_of_a_switch_are_in_the_next_result() -> None:
    agent = Agent(sim("gemini", Wiretap()), tools=TOOLS, hosted=["web_search"])
    await agent.run("say one")
    agent.switch(sim("ollama", Wiretap()))
    assert any("web_search" in str(loss) for loss in (await agent.run("say two")).losses)


# ---- what was said of one provider is not told to another


class Nobody:
    """A transport on which everybody is busy; it keeps what it saw."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, str]]] = []

    async def send(self, request: Any) -> Any:
        self.seen.append((request.url, dict(request.headers)))
        raise ConnectFailed("nobody there")


async def test_a_fallback_of_another_provider_does_not_get_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "its-own-key")
    seen = Nobody()
    agent = Agent(
        "openai-chat:gpt-4o",
        key="secret-of-openai",
        base_url="https://proxy.example/v1",
        headers={"x-team": "secret-team"},
        transport=seen,
        retry=QUICK,
        fallbacks=["anthropic:claude-sonnet-4-5"],
    )
    with pytest.raises(TransportError):
        await agent.run("go")
    others = [(url, headers) for url, headers in seen.seen if "proxy.example/v1/chat" not in url]
    assert others, "the fallback was not asked"
    for url, headers in others:
        assert "proxy.example" not in url
        assert "secret" not in str(headers)
        assert "its-own-key" in str(headers)


# switches, as models with their options -> what the last engine has: the key, and whether the proxy is asked
OWN = {"anthropic": "its-own-anthropic", "gemini": "its-own-gemini"}
ROADS: list[tuple[str, list[tuple[str, dict[str, Any]]], str, bool]] = [
    ("another model of it", [("anthropic:claude-haiku-4-5", {})], "SECRET", True),
    ("away", [("gemini:gemini-2.5-pro", {})], "its-own-gemini", False),
    (
        "away and further",
        [("gemini:gemini-2.5-pro", {}), ("gemini:gemini-2.5-flash", {})],
        "its-own-gemini",
        False,
    ),
    ("away and back", [("gemini:gemini-2.5-pro", {}), ("anthropic:claude-haiku-4-5", {})], "SECRET", True),
    ("away with a key", [("gemini:gemini-2.5-pro", {"key": "OTHER"})], "OTHER", False),
    (
        "that key goes on",
        [("gemini:gemini-2.5-pro", {"key": "OTHER"}), ("gemini:gemini-2.5-flash", {})],
        "OTHER",
        False,
    ),
    (
        "that key stays there",
        [("gemini:gemini-2.5-pro", {"key": "OTHER"}), ("anthropic:claude-haiku-4-5", {})],
        "its-own-anthropic",
        False,
    ),
]


def headers_of(engine: Engine) -> str:
    """All that a request of an engine would say of keys."""
    return str(asyncio.run(engine.keys.headers()))


@pytest.fixture
def own_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", OWN["anthropic"])
    monkeypatch.setenv("GEMINI_API_KEY", OWN["gemini"])


def with_a_secret(**options: Any) -> Agent:
    return Agent(
        "anthropic:claude-sonnet-4-5", key="SECRET", base_url="https://proxy.example", retry=QUICK, **options
    )


@pytest.mark.usefixtures("own_keys")
@pytest.mark.parametrize(
    ("road", "key", "proxied"), [case[1:] for case in ROADS], ids=[case[0] for case in ROADS]
)
def test_a_key_stays_with_the_provider_that_it_was_given_for(
    road: list[tuple[str, dict[str, Any]]], key: str, proxied: bool
) -> None:
    agent = with_a_secret()
    for model, options in road:
        agent.switch(model, **options)
    assert [
        secret for secret in ("SECRET", "OTHER", *OWN.values()) if secret in headers_of(agent.view().engine)
    ] == [key]
    assert ("proxy.example" in agent.view().engine.profile.base_url) == proxied


@pytest.mark.usefixtures("own_keys")
@pytest.mark.parametrize(
    ("fallback", "key"),
    [("gemini:gemini-2.5-flash", "its-own-gemini"), ("anthropic:claude-haiku-4-5", "SECRET")],
)
def test_a_fallback_after_a_switch_gets_only_what_is_its_own(fallback: str, key: str) -> None:
    agent = with_a_secret(fallbacks=[fallback])
    agent.switch("gemini:gemini-2.5-pro")
    assert setup_of(agent).use_fallback(0) == 1
    assert agent.model == fallback
    assert [secret for secret in ("SECRET", *OWN.values()) if secret in headers_of(agent.view().engine)] == [
        key
    ]


@pytest.mark.parametrize("model", ["openai-chat:gpt-4o-mini", "azure-chat:mine"])
def test_a_preview_after_a_switch_uses_what_belongs_to_the_model_that_is_previewed(model: str) -> None:
    """A resource is an option that only Azure knows, and that it needs."""
    agent = Agent("azure-chat:first", resource="ours", key="SECRET")
    agent.switch("openai-chat:gpt-4o")
    assert b"messages" in run(agent.preview_request(model)).body


@pytest.mark.parametrize("options", [{}, {"headers": {"x-team": "a"}}], ids=["plain", "with options"])
def test_what_is_not_about_one_provider_goes_along_everywhere(options: dict[str, Any]) -> None:
    wiretap = Wiretap()
    agent = make_agent("anthropic", wiretap, tools=TOOLS)
    for model in ("simulator:gemini", "simulator:openai-chat", "simulator:anthropic"):
        agent.switch(model, **options)
        assert agent.view().engine.transport is wiretap
        assert agent.view().engine.retry == QUICK


# ---- fallbacks

TROUBLE: list[tuple[str, dict[str, Any]]] = [
    ("overloaded", {"faults": ["overloaded"] * 9}),
    ("server error", {"faults": ["server-error"] * 9}),
    ("rate limit", {"faults": ["rate-limit"] * 9}),
    ("quota", {"faults": ["quota"] * 9}),
    ("html", {"faults": ["html"] * 9}),
    ("reset", {"faults": ["reset"] * 9}),
    ("error in 200", {"faults": ["error-in-200-first"] * 9}),
    ("nobody listens", {"errors": [ConnectFailed("refused")] * 9}),
    ("too late", {"errors": [TimedOut("no first byte", "first byte")] * 9}),
    ("lost", {"errors": [ConnectionLost("reset")] * 9}),
]


@pytest.mark.parametrize("trouble", [case[1] for case in TROUBLE], ids=[case[0] for case in TROUBLE])
@LIVE
def test_another_model_continues_if_one_fails(trouble: dict[str, Any], live: bool) -> None:
    wiretap = Wiretap()
    agent = Agent(sim("anthropic", Wiretap(**trouble)), tools=TOOLS, fallbacks=[sim("gemini", wiretap)])
    result = run(outcome(agent, 'call add {"a": 1, "b": 2}', streamed=live))
    assert result.stop == "end"
    assert [outcome.result.text for outcome in result.outcomes] == ["3"]
    assert len(wiretap.requests) == 2
    assert agent.view().engine.profile.id == "gemini"
    check(agent.conversation)
    check_bodies(agent.view().engine, wiretap)


@pytest.mark.parametrize("fault", ["unauthorized", "context-too-long"])
async def test_an_error_that_is_ours_is_not_hidden_by_a_fallback(fault: str) -> None:
    wiretap = Wiretap()
    agent = Agent(sim("anthropic", Wiretap(faults=[fault] * 3)), fallbacks=[sim("gemini", wiretap)])
    with pytest.raises(ProviderError):
        await agent.run("say x")
    assert wiretap.requests == []
    check(agent.conversation)


def test_a_fallback_is_announced() -> None:
    agent = Agent(sim("anthropic", Wiretap(faults=["overloaded"] * 9)), fallbacks=[sim("gemini", Wiretap())])
    events = run(collect_events(agent.stream("say x")))
    [switched] = [event for event in events if isinstance(event, ModelSwitched)]
    assert "gemini" in switched.model
    assert "verload" in switched.reason
    assert isinstance(events[-1], RunDone)


@pytest.mark.parametrize("fault", ["reset-mid-stream", "half-json", "truncated", "error-in-200"])
async def test_what_was_shown_is_never_retracted(fault: str) -> None:
    wiretap = Wiretap()
    words = "say " + " ".join(f"word{number}" for number in range(50))
    agent = Agent(sim("openai-chat", Wiretap(words, faults=[fault])), fallbacks=[sim("gemini", wiretap)])
    shown: list[Any] = []
    with pytest.raises(ToolglotError):
        await collect_into(agent.stream("go"), shown)
    assert any(isinstance(event, TextDelta | ThinkingDelta) for event in shown)
    assert wiretap.requests == []
    check(agent.conversation)


def test_a_model_that_fails_in_the_middle_of_a_loop() -> None:
    """The tool has run; the other model gets its result, and nothing runs again."""
    ran: list[str] = []
    wiretap = Wiretap()
    first = Wiretap(faults=["", *["overloaded"] * 9])
    agent = Agent(
        sim("anthropic", first), tools=[noting(ran, "once")], fallbacks=[sim("openai-responses", wiretap)]
    )
    result = run(agent.run("call once {}\nthen say done"))
    assert result.text == "done"
    assert ran == ["once"]
    check(agent.conversation)
    check_bodies(agent.view().engine, wiretap)


async def test_fallbacks_are_tried_one_after_another_and_the_last_error_is_raised() -> None:
    taps = [Wiretap(errors=[ConnectFailed(f"number {number}")] * 9) for number in range(3)]
    first, two, three = (
        sim(provider, wiretap)
        for provider, wiretap in zip(("anthropic", "gemini", "ollama"), taps, strict=True)
    )
    agent = Agent(first, fallbacks=[two, three])
    with pytest.raises(ConnectFailed, match="number 2"):
        await agent.run("go")
    assert all(wiretap.requests for wiretap in taps)
    check(agent.conversation)


async def test_a_second_run_does_not_fall_back_to_the_model_that_failed() -> None:
    """After a fall to the second model, its failure leads to the third: not to itself once more."""
    taps = [
        Wiretap(errors=[ConnectFailed("one")] * 9),
        Wiretap(errors=[None, *[ConnectFailed("two")] * 9]),
        Wiretap(),
    ]
    first, two, three = (
        sim(provider, wiretap)
        for provider, wiretap in zip(("anthropic", "gemini", "ollama"), taps, strict=True)
    )
    agent = Agent(first, fallbacks=[two, three])
    await agent.run("say x")
    assert agent.view().engine is two
    asked = len(taps[1].requests)
    assert (await agent.run("say y")).text == "y"
    assert len(taps[1].requests) - asked == 1 + QUICK.max_retries
    assert agent.view().engine is three


async def test_a_fallback_in_one_conversation_does_not_disturb_another() -> None:
    """Conversation B is in the middle of a tool when A falls back: B's requests stay whole."""
    wait = StuckTool("wait")
    first, second = Wiretap(faults=["", *["overloaded"] * 3]), Wiretap()
    agent = Agent(
        sim("anthropic", first), tools=[wait.tool], fallbacks=[sim("gemini", second)], hosted=["web_search"]
    )
    other = Conversation()
    slow = asyncio.create_task(agent.run("call wait {}\nthen say slow is done", conversation=other))
    await wait.inside.wait()
    assert (await agent.run("say quick is done")).text == "quick is done"
    wait.gate.set()
    assert (await slow).text == "slow is done"
    check(other)
    assert all("googleSearch" not in dumps_text(body) for body in first.bodies)
    assert all("web_search_2" not in dumps_text(body) for body in second.bodies)


def test_a_fallback_with_a_structured_output_still_gives_it() -> None:
    for before, other in PAIRS:
        agent = Agent(
            sim(before, Wiretap(faults=["overloaded"] * 9)),
            tools=[add],
            fallbacks=[sim(other, Wiretap())],
            output_type={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        )
        result = run(agent.run("the number is 5"))
        assert isinstance(result.output, dict), (before, other)
        check(agent.conversation, everywhere=False)
