"""Fallbacks are reached as they are configured, by alias too; hosted tools stay where the filters let them be."""

import asyncio
from typing import Any

import msgspec
import pytest

from toolglot import Orchestrator, ToolDefinition, tool
from toolglot.config.settings import Settings
from toolglot.config.setup import Setup
from toolglot.engine.factory import create_engine
from toolglot.engine.transport import HttpRequest, HttpResponse
from toolglot.errors import ConnectFailed, UsageError

GEMINI = {"base_url": "https://proxy.example/gemini", "key_env": "MY_GEMINI", "headers": {"X-Team": "a"}}
ALIASES = {"fast": "gemini:gemini-2.5-flash", "faster": "fast"}
CLAUDE = "anthropic:claude-sonnet-4-5"


@tool
def look() -> str:
    """Looks."""
    return "seen"


@tool
def wipe() -> str:
    """Wipes."""
    return "wiped"


class Deaf:
    """Notes what is sent and answers nothing."""

    def __init__(self) -> None:
        self.sent: list[HttpRequest] = []

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.sent.append(request)
        raise ConnectFailed("nobody listens")


def settings(**document: Any) -> Settings:
    return msgspec.convert(document, Settings)


def offered(agent: Orchestrator) -> list[str]:
    return [one.name for one in agent.view().tools()]


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_GEMINI", "k-of-gemini")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k-of-anthropic")


class TestFallbacks:
    @pytest.mark.parametrize("name", ["gemini:gemini-2.5-flash", "fast", "faster"])
    @pytest.mark.parametrize("where", ["settings", "agent"])
    def test_are_asked_where_and_as_it_is_configured(self, name: str, where: str) -> None:
        named = {"fallbacks": [name]}
        seen = Deaf()
        document = {"aliases": ALIASES, "providers": {"gemini": GEMINI}, "retry": {"max_retries": 0}}
        setup = Setup(settings(**document, **(named if where == "settings" else {})), transport=seen)
        agent = setup.create_agent(CLAUDE, tools=[look], **(named if where == "agent" else {}))
        with pytest.raises(ConnectFailed):
            asyncio.run(agent.run("go"))
        first, second = seen.sent
        assert "anthropic" in first.url
        assert second.url.startswith("https://proxy.example/gemini/")
        assert "gemini-2.5-flash" in second.url
        assert (second.headers["x-goog-api-key"], second.headers["x-team"]) == ("k-of-gemini", "a")
        assert "k-of-anthropic" not in str(second.headers)

    def test_of_the_agent_are_in_the_place_of_those_of_the_settings(self) -> None:
        setup = Setup(settings(fallbacks=["gemini:gemini-2.5-pro"], aliases=ALIASES), transport=Deaf())
        none = setup.create_agent(CLAUDE, fallbacks=())
        assert none.use_fallback(0) is None
        other = setup.create_agent(CLAUDE, fallbacks=["fast"])
        assert other.use_fallback(0) == 1
        assert other.model == "gemini:gemini-2.5-flash"
        assert other.use_fallback(1) is None

    def test_that_are_engines_are_taken_as_they_are(self) -> None:
        engine = create_engine("simulator:ollama")
        agent = Setup(settings(), transport=Deaf()).create_agent(CLAUDE, fallbacks=(one for one in [engine]))
        assert agent.use_fallback(0) == 1
        assert agent.engine is engine

    @pytest.mark.parametrize("where", ["settings", "agent"])
    def test_that_are_nobodys_name_are_told_at_once(self, where: str) -> None:
        named = {"fallbacks": ["slow"]}
        setup = Setup(settings(**(named if where == "settings" else {})), transport=Deaf())
        with pytest.raises(UsageError, match="'slow'"):
            setup.create_agent(CLAUDE, **(named if where == "agent" else {}))


FIXED = ToolDefinition(
    "web_fetch", kind="hosted", wire="anthropic-messages", opaque={"type": "web_fetch_20250910", "name": "web_fetch"}
)


class TestHostedTools:
    @pytest.mark.parametrize(
        ("policy", "expected"),
        [
            ({}, {"look", "wipe", "web_search", "web_fetch"}),
            ({"deny": ["shell"]}, {"look", "wipe", "web_search", "web_fetch"}),
            ({"deny": ["wipe"]}, {"look", "web_search", "web_fetch"}),
            ({"deny": ["web_search"]}, {"look", "wipe", "web_fetch"}),
            ({"deny": ["web_*"]}, {"look", "wipe"}),
            ({"allow": ["look", "web_search"]}, {"look", "web_search"}),
            ({"allow": ["look"]}, {"look"}),
        ],
        ids=[
            "no filter",
            "another denied",
            "a tool denied",
            "hosted denied",
            "both hosted denied",
            "hosted allowed",
            "none hosted",
        ],
    )
    def test_are_offered_where_the_filters_let_them_be(self, policy: dict[str, Any], expected: set[str]) -> None:
        """After a change of model, too, when the rules are made anew."""
        setup = Setup(settings(policy=policy), transport=Deaf())
        agent = setup.create_agent(CLAUDE, tools=[look, wipe, FIXED], hosted=["web_search"])
        assert set(offered(agent)) == expected
        setup.switch(agent, "anthropic:claude-haiku-4-5")
        assert set(offered(agent)) == expected

    def test_are_offered_where_the_filter_of_the_provider_lets_them_be(self) -> None:
        document = {"providers": {"gemini": {"tools": {"deny": ["web_search", "wipe"]}}}}
        setup = Setup(settings(**document), transport=Deaf())
        agent = setup.create_agent(CLAUDE, tools=[look, wipe], hosted=["web_search"])
        seen = [set(offered(agent))]
        for model in ("gemini:gemini-2.5-flash", CLAUDE):
            setup.switch(agent, model)
            seen.append(set(offered(agent)))
        assert seen == [{"look", "wipe", "web_search"}, {"look"}, {"look", "wipe", "web_search"}]
