"""Hand-offs: another agent continues the same conversation, with its own model, system prompt and tools."""

import json
from typing import Any

import pytest
from tests.loop.agents import PROVIDERS, Wiretap, check, check_bodies, make_agent, results_of, run

from toolglot.errors import UsageError
from toolglot.loop.agent.agent import Agent
from toolglot.loop.limits import RunLimits
from toolglot.tools.config import ToolConfig
from toolglot.tools.context import Later
from toolglot.tools.tool import Tool
from toolglot.values.events import ModelSwitched, RunDone
from toolglot.values.messages import Reply, ToolCall


def look(place: str) -> str:
    """Look somewhere."""
    return f"nothing at {place}"


def refund(order: int) -> str:
    """Refund an order."""
    return f"refunded {order}"


class Desk:
    """A front desk that hands over to billing."""

    def __init__(self, first: str = "anthropic", second: str = "gemini", **options: Any) -> None:
        self.front_wire, self.billing_wire = Wiretap(), Wiretap()
        tools = [Tool(refund, inline=True, approval=True)]
        self.billing = make_agent(second, self.billing_wire, system="You do billing.", tools=tools)
        self.transfer = self.billing.hand_off("transfer_to_billing", "For refunds.")
        tools = [Tool(look, inline=True), self.transfer]
        self.front = make_agent(
            first, self.front_wire, system="You are the front desk.", tools=tools, **options
        )


TRANSFER = 'call transfer_to_billing {"reason": "money"}'


@pytest.mark.parametrize("second", PROVIDERS)
@pytest.mark.parametrize("first", PROVIDERS)
def test_another_agent_continues(first: str, second: str) -> None:
    """Case 36: with open siblings, to an agent that lacks the tools that were called."""
    desk = Desk(first, second)
    result = run(desk.front.run(f'{TRANSFER}\ncall look {{"place": "home"}}'))
    assert (result.stop, len(desk.front_wire.requests), len(desk.billing_wire.requests)) == ("end", 1, 1)
    assert [item.name for item in results_of(desk.front.conversation)] == ["transfer_to_billing", "look"]
    body = json.dumps(desk.billing_wire.bodies[0])
    assert "You do billing." in body
    assert "You are the front desk." not in body
    assert "Refund an order." in body
    check_bodies(desk.billing.view().engine, desk.billing_wire)
    check(desk.front.conversation)


def test_the_next_prompt_goes_to_the_agent_that_took_over() -> None:
    desk = Desk()
    run(desk.front.run(TRANSFER))
    paused = run(desk.front.run('call refund {"order": 7}'))
    assert [item.request.tool for item in paused.pending] == ["refund"]
    assert desk.front.view().tool_names == ("refund",)
    assert run(desk.front.resume({paused.pending[0].id: True})).results[0].text == "refunded 7"
    assert len(desk.front_wire.requests) == 1


def test_a_conversation_that_was_handed_over_is_saved_as_such() -> None:
    desk = Desk()
    run(desk.front.run(TRANSFER))
    paused = run(desk.front.run('call refund {"order": 7}'))
    saved = desk.front.save()
    other = Agent.load(saved, "simulator:anthropic", tools=[Tool(look), desk.transfer])
    assert run(other.list_pending())[0].fingerprint == paused.pending[0].fingerprint
    assert run(other.resume({paused.pending[0].id: True})).stop == "end"
    with pytest.raises(UsageError, match="was handed over by transfer_to_billing, which is not among"):
        Agent.load(saved, "simulator:anthropic", tools=[Tool(look)])
    fresh = Agent("simulator:anthropic", tools=[Tool(look), desk.transfer])
    assert run(fresh.run("say hello")).text == "hello"


def test_only_the_first_hand_off_of_a_turn_counts() -> None:
    desk = Desk()
    sales = make_agent("ollama", tools=[]).hand_off("transfer_to_sales", "For sales.")
    desk.front.add_tools([sales])
    run(desk.front.run(f"{TRANSFER}\ncall transfer_to_sales {{}}"))
    first, second = results_of(desk.front.conversation)
    assert (first.is_error, second.error_code) == (False, "handed_over")
    assert len(desk.billing_wire.requests) == 1
    check(desk.front.conversation)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_handing_back_and_forth_ends_by_the_limit(provider: str) -> None:
    """Case 36."""
    wires = Wiretap(*[calling("to_b")] * 9), Wiretap(*[calling("to_a")] * 9)
    a = make_agent(provider, wires[0], system="I am A.", limits=RunLimits(max_iterations=4))
    b = make_agent(provider, wires[1], system="I am B.", tools=[a.hand_off("to_a", "A.")])
    a.add_tools([b.hand_off("to_b", "B.")])
    result = run(a.run("go"))
    assert (result.stop, result.iterations) == ("max_iterations", 5)
    assert [len(wire.requests) for wire in wires] == [3, 2]
    for wire in wires:
        check_bodies(a.view().engine, wire)
    check(a.conversation)


def calling(name: str) -> Any:
    def turn(request: Any) -> Reply:
        return Reply((ToolCall("", name, {}),), "tools")

    return turn


def test_watchers_hear_of_a_hand_off() -> None:
    desk = Desk()
    events = list(desk.front.stream_sync(TRANSFER))
    [news] = [event for event in events if isinstance(event, ModelSwitched)]
    assert (news.model.partition("/")[0], news.reason) == (
        "simulator:gemini",
        "the conversation was handed over (transfer_to_billing)",
    )
    assert isinstance(events[-1], RunDone)


def test_a_sub_agent_may_hand_over_its_task() -> None:
    """Also over a restart: the agent that took over goes on inside."""
    desk = Desk()
    tools = [desk.front.as_tool("desk", "Answers.")]
    boss = make_agent("ollama", tools=tools)
    prompt = json.dumps({"prompt": f'{TRANSFER} then call refund {{"order": 7}}'})
    [waiting] = run(boss.run(f"call desk {prompt}")).pending
    assert (waiting.request.tool, len(desk.billing_wire.requests)) == ("refund", 1)
    other = Agent.load(boss.save(), "simulator:ollama", tools=tools)
    assert run(other.resume({waiting.id: True})).stop == "end"
    assert "refunded 7" in results_of(other.conversation)[0].text
    assert (len(desk.front_wire.requests), len(desk.billing_wire.requests)) == (1, 2)
    check(other.conversation)


def test_a_tool_keeps_what_it_is_under_another_name() -> None:
    desk = Desk()
    renamed = desk.transfer.replace(name="money")
    assert renamed.successor is desk.transfer.successor
    inner = desk.billing.as_tool("billing", "Bills.").replace(name="other")
    assert inner.reopen is not None


def test_hand_offs_of_the_same_name_lead_to_different_agents() -> None:
    """A restart continues with the last of them, not with the first."""
    third = make_agent("ollama", tools=[Tool(refund, inline=True)])
    second = make_agent("gemini", tools=[third.hand_off("transfer", "Further.")])
    tools = [second.hand_off("transfer", "On.")]
    first = make_agent("anthropic", tools=tools)
    run(first.run("call transfer {}"))
    run(first.run("call transfer {}"))
    assert first.view().tool_names == ("refund",)
    other = Agent.load(first.save(), "simulator:anthropic", tools=tools)
    assert other.view().tool_names == ("refund",)


def test_a_hand_off_waits_for_the_whole_reply() -> None:
    """Nothing is started early that changes who answers."""
    desk = Desk(config=ToolConfig(eager_start=True))
    inner = desk.billing.as_tool("billing", "Bills.")
    desk.front.add_tools([inner])
    prompt = json.dumps({"prompt": "say paid"})
    events = list(desk.front.stream_sync(f"{TRANSFER}\ncall billing {prompt}"))
    assert isinstance(events[-1], RunDone)
    assert [result.is_error for result in results_of(desk.front.conversation)] == [False, False]
    check(desk.front.conversation)


@pytest.mark.parametrize("way", ["as_tool", "hand_off"])
@pytest.mark.parametrize(("name", "description"), [(None, "d"), ("x", None), (1, "d")])
def test_a_name_and_a_description_are_texts(way: str, name: Any, description: Any) -> None:
    with pytest.raises(UsageError, match=r"(name|description): pass a text, not"):
        getattr(make_agent("anthropic"), way)(name, description)


def test_other_wrong_uses_say_what_to_do() -> None:
    agent = make_agent("anthropic")
    with pytest.raises(UsageError, match="limits: pass RunLimits, or None, not int"):
        agent.as_tool("x", "d", limits=3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match="not a JSON Schema"):
        agent.as_tool("x", "d", parameters={"type": "object", "properties": 3})
    with pytest.raises(UsageError, match=r"pass agent\.as_tool"):
        Agent("simulator", tools=[agent])  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match="key of Later"):
        Later(key=3)  # pyright: ignore[reportArgumentType]
    paused = Desk()
    run(paused.front.run(TRANSFER))
    run(paused.front.run('call refund {"order": 7}'))
    with pytest.raises(UsageError, match=r"resume takes decisions and answers by id.*not list"):
        run(paused.front.resume(["x"]))  # pyright: ignore[reportArgumentType]
