"""Data belongs to a run: concurrent runs of one agent, each with its own conversation, never see each
other's.
"""

import asyncio
from typing import Any

import pytest
from tests.agent_kit import change, setup_of

from toolglot.loop.agent.config import PromptContext
from toolglot.tools.context import Context
from toolglot.tools.tool import Tool, tool
from toolglot.values.messages import Conversation

from .agents import PROVIDERS, Wiretap, make_agent, outcome, run

LIVE = pytest.mark.parametrize("live", [False, True], ids=["whole", "streamed"])


def data_tool(seen: list[Any], **options: Any) -> Tool:
    async def look(context: Context) -> str:
        """Looks at the data."""
        await asyncio.sleep(0)
        seen.append(context.data)
        return str(context.data)

    return Tool(look, **options)


@LIVE
@pytest.mark.parametrize("provider", PROVIDERS)
def test_concurrent_runs_have_their_own_data(provider: str, live: bool) -> None:
    prompts: dict[str, list[str]] = {}

    def write_prompt(context: PromptContext) -> str:
        prompts.setdefault(context.data, []).append(context.data)
        return f"You serve {context.data}."

    agent = make_agent(provider, tools=[data_tool([])], system=write_prompt, data="nobody")
    users = [f"u{number}" for number in range(5)]

    async def serve(name: str) -> list[str]:
        talks = Conversation()
        results = [
            await outcome(
                agent, "call look {} then call look {}", streamed=live, data=name, conversation=talks
            )
            for _ in range(2)
        ]
        return [outcome.result.text for result in results for outcome in result.outcomes]

    async def serve_all() -> list[list[str]]:
        return await asyncio.gather(*map(serve, users))

    for name, texts in zip(users, run(serve_all()), strict=True):
        assert texts == [name] * len(texts) != []
    assert sorted(prompts) == users
    assert setup_of(agent).config.data == "nobody"


@LIVE
def test_the_agents_data_is_the_default_and_is_not_replaced(live: bool) -> None:
    seen: list[Any] = []
    agent = make_agent("anthropic", tools=[data_tool(seen)], data="agent's")
    run(outcome(agent, "call look {}", streamed=live, data="run's"))
    run(outcome(agent, "call look {}", streamed=live))
    change(agent, data="new")
    run(outcome(agent, "call look {}", streamed=live))
    assert seen == ["run's", "agent's", "new"]


def test_data_of_the_agent_that_changes_does_not_reach_a_run_in_progress() -> None:
    seen: list[Any] = []

    @tool
    async def swap() -> str:
        """Changes the agent's data."""
        change(agent, data="other")
        return "ok"

    def calls(name: str) -> str:
        return f"call {name} {{}}"

    agent = make_agent("anthropic", tools=[swap, data_tool(seen, ordered=True)], data="mine")
    run(agent.run(f"{calls('swap')} {calls('look')}"))
    assert seen == ["mine"]


@pytest.mark.parametrize(("data", "expected"), [(None, "first"), ("second", "second")])
def test_a_resumed_run_keeps_its_data_unless_it_gets_another(data: str | None, expected: str) -> None:
    seen: list[Any] = []
    agent = make_agent("anthropic", Wiretap(), tools=[data_tool(seen, approval=True)], data="agent's")
    paused = run(agent.run("call look {}", data="first"))
    run(agent.resume({paused.requests[0].id: "yes"}, data=data))
    assert seen == [expected]
    assert agent.run_sync("say done", data="x").text == "done"
