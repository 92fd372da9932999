"""Data belongs to a run: concurrent runs of one agent, each with its own conversation, never see each
other's.
"""

import asyncio
from typing import Any

import pytest
from tests.agent_kit import change, setup_of

from toolglot.errors import UsageError
from toolglot.loop.agent.config import PromptContext
from toolglot.tools.context import Context
from toolglot.tools.tool import Tool, tool
from toolglot.values.approvals import Decision
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


class Shop:
    name = "corner"


@tool
def name_shop(context: Context[Shop]) -> str:
    """Name the shop."""
    return context.data.name


@tool
def name_shop_if_any(context: Context[Shop | None]) -> str:
    """Name the shop, if there is one."""
    return context.data.name if context.data is not None else "none"


def test_data_that_a_tool_does_not_take_is_an_error_when_the_agent_is_made() -> None:
    wrong: Any = 3
    with pytest.raises(UsageError, match=r"^tool 'name_shop' needs data of type Shop, not int$"):
        make_agent("anthropic", tools=[name_shop], data=wrong)
    with pytest.raises(
        UsageError, match=r"^tool 'name_shop_if_any' needs data of type Shop \| None, not int$"
    ):
        make_agent("anthropic", tools=[name_shop_if_any], data=wrong)
    agent = make_agent("anthropic", tools=[name_shop], data=Shop())
    with pytest.raises(UsageError, match="needs data of type Shop, not int"):
        change(agent, data=wrong)
    assert run(agent.run("call name_shop {}")).results[0].text == "corner"


async def test_a_run_has_the_data_that_the_tools_it_offers_need() -> None:
    agent = make_agent("anthropic", tools=[name_shop, name_shop_if_any])
    with pytest.raises(
        UsageError, match=r"^tool 'name_shop' needs data of type Shop, but the run has none: pass data=… to"
    ):
        await agent.run("say hi")
    with pytest.raises(UsageError, match="'name_shop' needs data of type Shop, not int"):
        await agent.run("say hi", data=3)
    assert len(agent.conversation) == 0, "nothing was begun"
    assert (await agent.run("call name_shop {}", data=Shop())).results[0].text == "corner"
    others = await agent.run("call name_shop_if_any {}", allow=["name_shop_if_any"])
    assert others.results[0].text == "none", "what is not offered needs nothing"


async def test_the_rest_of_a_run_has_the_data_that_its_tools_need() -> None:
    asking = name_shop.replace(approval=True)
    agent = make_agent("anthropic", tools=[asking])
    paused = await agent.run("call name_shop {}", data=Shop())
    saved = agent.save()
    resumed = make_agent("anthropic", tools=[asking])
    resumed.restore(saved)
    decisions: dict[str, Decision] = {request.fingerprint: "yes" for request in paused.requests}
    with pytest.raises(UsageError, match="needs data of type Shop, but the run has none"):
        await resumed.resume(decisions)
    assert resumed.has_pending_run
    assert (await resumed.resume(decisions, data=Shop())).results[0].text == "corner"
