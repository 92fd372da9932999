"""Decisions and answers that come from any thread: the first counts, none is lost, and a file keeps them."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.loop.agents import (
    PROVIDERS,
    Wiretap,
    cancel_and_wait,
    check,
    kinds_of,
    make_agent,
    results_of,
    run,
)
from tests.loop.test_open_calls import (
    LOCATE,
    PICK,
    PICKING,
    RED,
    Desk,
    continue_elsewhere,
    edit,
    pending_ids,
    set_wall_clock,
)
from tests.loop.test_subagents import PAY, Bank, ask, nest, reload

from toolglot.errors import UsageError
from toolglot.loop.agent.agent import Agent
from toolglot.loop.agent.config import PromptContext
from toolglot.tools.tool import Tool, tool_from_definition
from toolglot.values.approvals import Allow, Answer, Deny
from toolglot.values.deliveries import Delivery
from toolglot.values.messages import Media, Text, user

THREE = f'{PICKING}\ncall locate {{}}\ncall send {{"text": "hi"}}'


def pause(provider: str) -> tuple[Agent, Desk, dict[str, str]]:
    desk = Desk()
    agent = make_agent(provider, tools=desk.tools)
    run(agent.run(THREE))
    return agent, desk, pending_ids(agent)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_was_delivered_is_used_when_the_run_goes_on(provider: str) -> None:
    agent, desk, ids = pause(provider)
    deliveries = [
        agent.deliver({ids["send"]: Allow({"text": "bye"})}),
        agent.deliver({ids["locate"]: Answer("Paris")}),
        agent.deliver({ids["pick"]: RED}),
    ]
    assert [item.state for item in deliveries] == ["queued"] * 3
    for _ in range(2):  # saved and loaded, nothing is lost
        agent, _ = continue_elsewhere(agent, provider, desk.tools)
    done = run(agent.resume())
    assert (done.stop, desk.ran) == ("end", ["send bye"])
    assert [result.text for result in results_of(agent.conversation)][:2] == ['{"color":"red"}', "Paris"]
    check(agent.conversation)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_first_answer_wins(provider: str) -> None:
    """Case 4: also between threads; the others are refused, and say so."""
    agent, _, ids = pause(provider)
    with ThreadPoolExecutor(8) as pool:
        items = [{ids["locate"]: Answer(f"place {number}")} for number in range(16)]
        deliveries = list(pool.map(agent.deliver, items))
    states = [item.state for item in deliveries]
    assert sorted(states) == ["queued"] + ["refused"] * 15
    assert {item.reason for item in deliveries if item.state == "refused"} == {
        "there is a decision or an answer for the call already: the first counts"
    }
    winner = states.index("queued")
    with pytest.raises(UsageError, match="the first counts"):
        run(agent.resume({ids["locate"]: Answer("elsewhere")}))
    run(agent.resume({ids["send"]: False, ids["pick"]: RED}))
    assert deliveries[winner].state == "delivered"
    assert results_of(agent.conversation)[1].text == f"place {winner}"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_same_delivery_counts_once(provider: str) -> None:
    agent, _, ids = pause(provider)
    first = agent.deliver({ids["pick"]: RED}, id="webhook-1")
    assert agent.deliver({ids["pick"]: RED}, id="webhook-1") is first
    assert first.state == "queued"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_cannot_be_used_is_refused_with_a_reason(provider: str) -> None:
    agent, _, ids = pause(provider)
    for items, words in [
        ({"call_9": True}, "no call call_9 is waiting for a decision or an answer"),
        ({ids["pick"]: True}, "waits for an answer, not for a decision"),
        ({ids["send"]: Answer("x")}, "waits for a decision, not for an answer"),
        ({ids["pick"]: Answer({"colour": 1})}, "does not fit its schema"),
        ({ids["pick"]: RED, ids["locate"]: False}, "waits for an answer"),
    ]:
        delivery = agent.deliver(items)
        assert (delivery.state, words in delivery.reason) == ("refused", True), delivery.reason
    assert pending_ids(agent) == ids
    run(agent.resume({ids["send"]: True, ids["pick"]: RED, ids["locate"]: Answer("x")}))
    late = agent.deliver({ids["pick"]: RED})
    assert (late.state, late.reason) == ("refused", "no run is waiting on this conversation")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_changed_arguments_that_do_not_fit_are_refused_when_the_run_goes_on(provider: str) -> None:
    agent, desk, ids = pause(provider)
    delivery = agent.deliver({ids["send"]: Allow({"txt": "hi"})})
    paused = run(agent.resume({ids["pick"]: RED, ids["locate"]: Answer("x")}))
    assert (delivery.state, paused.stop, desk.ran) == ("refused", "approval", [])
    assert "does not fit the tool 'send'" in delivery.reason
    assert run(agent.resume({ids["send"]: True})).stop == "end"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_decision_for_later_is_none(provider: str) -> None:
    agent, _, ids = pause(provider)
    for items in ({ids["send"]: "later"}, {}):
        delivery = agent.deliver(items)
        assert (delivery.state, "decides nothing" in delivery.reason) == ("refused", True)
    assert agent.deliver({ids["send"]: False}).state == "queued"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_of_a_delivery_all_that_fits_is_used(provider: str) -> None:
    """What was used of it was delivered; the reason says what was not."""
    agent, _, ids = pause(provider)
    both = agent.deliver({ids["send"]: True, ids["pick"]: RED})
    run(agent.run("say never mind"))
    assert (both.state, both.reason) == ("delivered", "the call has ended without it")
    assert results_of(agent.conversation)[0].data == {"color": "red"}
    agent, desk, ids = pause(provider)
    both = agent.deliver({ids["send"]: Allow({"txt": "hi"}), ids["pick"]: RED})
    run(agent.resume())
    assert (both.state, "does not fit the tool 'send'" in both.reason, desk.ran) == ("delivered", True, [])


@pytest.mark.parametrize("provider", PROVIDERS)
def test_undo_refuses_what_came_for_the_calls(provider: str) -> None:
    agent, _, ids = pause(provider)
    delivery = agent.deliver({ids["pick"]: RED})
    agent.undo()
    assert (delivery.state, delivery.reason) == ("refused", "the run was undone")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_answer_for_a_call_of_a_sub_agent_that_is_given_up_is_refused(provider: str) -> None:
    child = make_agent(provider, tools=[LOCATE]).as_tool("research", "Researches.")
    agent = make_agent(provider, tools=[child])
    [waiting] = run(agent.run(ask("research", "call locate {}"))).pending
    delivery = agent.deliver({waiting.id: Answer("Paris")})
    run(agent.run("say never mind"))
    assert (delivery.state, delivery.reason) == ("refused", "the call has ended without it")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_new_prompt_keeps_the_answers_that_came(provider: str) -> None:
    """Case 9: the rest is cancelled; what comes later for it is refused."""
    agent, desk, ids = pause(provider)
    answered, decided = agent.deliver({ids["pick"]: RED}), agent.deliver({ids["send"]: True})
    agent, _ = continue_elsewhere(agent, provider, desk.tools)
    assert run(agent.run("say never mind")).stop == "end"
    assert (kinds_of(agent.conversation), desk.ran) == ([None, "cancelled", "cancelled"], [])
    assert results_of(agent.conversation)[0].data == {"color": "red"}
    assert agent.deliver({ids["locate"]: Answer("Paris")}).state == "refused"
    check(agent.conversation)
    assert (answered.state, decided.state) == ("queued", "queued")  # of the process that was left


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_new_prompt_needs_no_tools_of_calls_that_are_given_up(provider: str) -> None:
    bank = Bank()
    _, tools = nest(bank, provider)
    agent = make_agent(provider, tools=[*tools, LOCATE])
    run(agent.run(f"{ask('research', PAY)} call locate {{}}"))
    agent.deliver({pending_ids(agent)["locate"]: Answer("Paris")})
    agent = reload(agent, provider, [])
    assert run(agent.run("say never mind")).stop == "end"
    assert (kinds_of(agent.conversation), bank.paid) == (["interrupted", None], [])
    assert results_of(agent.conversation)[1].text == "Paris"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_decision_for_a_call_that_is_given_up_is_refused(provider: str) -> None:
    agent, _, ids = pause(provider)
    delivery = agent.deliver({ids["send"]: True})
    run(agent.run("say never mind"))
    assert (delivery.state, delivery.reason) == ("refused", "the call has ended without it")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_message_with_the_answers_follows_the_results(provider: str) -> None:
    """Case 10."""
    wiretap = Wiretap()
    agent = make_agent(provider, wiretap, tools=[PICK])
    [waiting] = run(agent.run(PICKING)).pending
    done = run(agent.resume({waiting.id: RED}, prompt="say and hurry"))
    assert [message.role for message in agent.conversation] == [
        "user",
        "assistant",
        "tool",
        "user",
        "assistant",
    ]
    assert (done.stop, agent.conversation[3].text, len(wiretap.requests)) == ("end", "say and hurry", 2)
    check(agent.conversation)
    agent.undo()
    assert len(agent.conversation) == 0


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_message_waits_while_calls_do(provider: str) -> None:
    """Case 29: the pause and what is waited for stay as they are, also over a restart."""
    agent, desk, ids = pause(provider)
    run(agent.resume({ids["pick"]: RED}, prompt="say thanks"))
    assert pending_ids(agent).keys() == {"locate", "send"}
    agent, _ = continue_elsewhere(agent, provider, desk.tools)
    assert agent.conversation[-1].role == "assistant"
    assert run(agent.resume({ids["send"]: True, ids["locate"]: Answer("x")})).stop == "end"
    assert [message.role for message in agent.conversation][-3:] == ["tool", "user", "assistant"]
    check(agent.conversation)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_wrong_decision_that_comes_while_others_still_run_ends_nothing(provider: str) -> None:
    """It is refused as one that comes during the pause is, and the call goes on waiting."""
    gate, desk = asyncio.Event(), Desk()

    async def slow() -> str:
        """Take a while."""
        await gate.wait()
        return "done"

    agent = make_agent(provider, tools=[*desk.tools, Tool(slow)])

    async def decide() -> None:
        task = asyncio.ensure_future(agent.run('call send {"text": "hi"}\ncall slow {}'))
        while len(agent.conversation) != 2:
            await asyncio.sleep(0)
        id = agent.conversation[1].calls[0].id
        while (delivery := agent.deliver({id: Allow({"txt": "hi"})})).state == "refused":
            await asyncio.sleep(0)
        gate.set()
        assert ((await task).stop, delivery.state, desk.ran) == ("approval", "refused", [])
        assert "does not fit the tool 'send'" in delivery.reason
        assert (await agent.resume({id: True})).stop == "end"

    run(decide())


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_answer_that_comes_while_the_run_is_about_to_go_on_counts(provider: str) -> None:
    """No moment between the paused run and the one that goes on loses it."""
    deliveries: list[Delivery] = []
    ids: dict[str, str] = {}

    def write_prompt(context: PromptContext[Any]) -> str:
        if ids:
            deliveries.append(agent.deliver({ids["locate"]: Answer("Paris")}))
        return "Be nice."

    agent = make_agent(provider, tools=Desk().tools, system=write_prompt)
    run(agent.run(THREE))
    ids.update(pending_ids(agent))
    run(agent.resume({ids["pick"]: RED, ids["send"]: False}))
    assert [item.state for item in deliveries] == ["delivered"]
    assert results_of(agent.conversation)[1].text == "Paris"


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("depth", [0, 1])
def test_an_answer_that_came_in_time_counts_however_late_the_run_goes_on(provider: str, depth: int) -> None:
    now = 1000.0
    locate = tool_from_definition(LOCATE, timeout=60)
    child = make_agent(provider, tools=[locate])
    agent = make_agent(provider, tools=[child.as_tool("research", "Researches.")]) if depth else child
    for each in {child, agent}:
        set_wall_clock(each, lambda: now)
    [waiting] = run(agent.run(ask("research", "call locate {}") if depth else "call locate {}")).pending
    assert agent.deliver({waiting.id: Answer("Paris")}).state == "queued"
    now = 10**12
    assert run(agent.resume()).stop == "end"
    assert "Paris" in results_of(agent.conversation)[0].text


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("depth", [1, 2])
def test_a_wrong_decision_on_a_call_of_a_sub_agent_is_refused(provider: str, depth: int) -> None:
    """The agent does not fail, and its call goes on waiting."""
    bank = Bank()
    agent, tools = nest(bank, provider, depth)
    [waiting] = run(agent.run(ask("research", ask("research", PAY) if depth == 2 else PAY))).pending
    wrong = Allow({"amoun": 1})
    with pytest.raises(UsageError, match="does not fit the tool 'pay'"):
        run(agent.resume({waiting.id: wrong}))
    delivery = agent.deliver({waiting.id: wrong})
    agent = reload(agent, provider, tools)
    delivery = agent.deliver({waiting.fingerprint: wrong}, id=delivery.id)
    assert delivery.state == "queued"
    assert run(agent.resume()).pending == (waiting,)
    assert (delivery.state, "does not fit the tool 'pay'" in delivery.reason) == ("refused", True)
    assert run(agent.resume({waiting.id: Allow({"amount": 7})})).stop == "end"
    assert bank.paid == [7]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_answer_that_the_run_took_but_could_not_use_any_more_is_refused(provider: str) -> None:
    inside = asyncio.Event()

    async def send() -> str:
        """Send."""
        inside.set()
        await asyncio.Event().wait()
        return ""

    def show(arguments: dict[str, Any]) -> str:
        return "what runs alone"

    agent = make_agent(provider, tools=[Tool(send, approval=True, preview=show), LOCATE])

    async def stop() -> None:
        first = await agent.run("call send {} call locate {}")
        decision, answer = (
            agent.deliver({item.id: value})
            for item, value in zip(first.pending, (True, Answer("Paris")), strict=True)
        )
        task = asyncio.ensure_future(agent.resume())
        await inside.wait()
        await cancel_and_wait(task)
        assert kinds_of(agent.conversation) == ["interrupted", "cancelled"]
        assert (decision.state, answer.state) == ("delivered", "refused")
        assert answer.reason == "the call has ended without it"

    run(stop())
    check(agent.conversation)


async def wait_until_it_waits(agent: Agent, id: str) -> None:
    while agent.deliver({id: Answer("x")}).state == "refused":
        await asyncio.sleep(0)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_answer_that_comes_while_others_still_run_ends_the_wait(provider: str) -> None:
    """No pause then: the run goes on by itself."""
    gate = asyncio.Event()

    async def slow() -> str:
        """Take a while."""
        await gate.wait()
        return "done"

    agent = make_agent(provider, tools=[LOCATE, Tool(slow)])

    async def answer() -> str:
        task = asyncio.ensure_future(agent.run("call locate {}\ncall slow {}"))
        while len(agent.conversation) != 2:
            await asyncio.sleep(0)
        id = agent.conversation[1].calls[0].id
        await wait_until_it_waits(agent, id)
        gate.set()
        return (await task).stop

    assert run(answer()) == "end"
    assert [result.text for result in results_of(agent.conversation)] == ["x", "done"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_answers_for_the_calls_of_a_sub_agent_are_delivered_too(provider: str) -> None:
    bank = Bank()
    agent, tools = nest(bank, provider, depth=2)
    first = run(agent.run(ask("research", ask("research", PAY, PAY))))
    agent.deliver({first.pending[1].id: Deny("too much")})
    agent = reload(agent, provider, tools)
    agent.deliver({first.pending[0].fingerprint: True})
    assert run(agent.resume()).stop == "end"
    assert bank.paid == [90]
    assert "too much" in results_of(agent.conversation)[0].text


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_a_changed_file_says_is_not_used(provider: str) -> None:
    """Case 13: neither decisions nor answers."""
    agent, desk, ids = pause(provider)
    agent.deliver({ids["send"]: False, ids["pick"]: RED})

    def allow(header: dict[str, Any]) -> None:
        for item in header["run"]["given"]:
            if "deny" in item:
                del item["deny"]
                item["allow"] = {}

    other = Agent.load(edit(agent.save(), allow), f"simulator:{provider}", tools=desk.tools)
    assert run(other.resume()).stop == "approval"
    assert desk.ran == []
    assert len(run(other.list_pending())) == 3


def test_an_image_is_kept_in_the_file() -> None:
    agent, desk, ids = pause("anthropic")
    picture = Media.from_bytes(b"\x89PNG\r\n\x1a\n", "image/png")
    agent.deliver({ids["locate"]: Answer([Text("Here:"), picture])})
    agent, _ = continue_elsewhere(agent, "anthropic", desk.tools)
    run(agent.resume({ids["pick"]: RED, ids["send"]: False}))
    assert results_of(agent.conversation)[1].content == (Text("Here:"), picture)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_nobody_else_appends_while_a_run_waits(provider: str) -> None:
    """A message between calls and results would stand in the wrong place for ever."""
    agent, desk, ids = pause(provider)
    with pytest.raises(UsageError, match=r"a run waits on this conversation: .* agent\.deliver"):
        agent.conversation.append(user("and hurry"))
    agent, _ = continue_elsewhere(agent, provider, desk.tools)
    with pytest.raises(UsageError, match="decision"):
        run(agent.resume({ids["send"]: Answer("x")}))
    with pytest.raises(UsageError, match="a run waits"):
        agent.conversation.append(user("and hurry"))
    run(agent.resume({ids["send"]: True, ids["pick"]: RED, ids["locate"]: Answer("x")}))
    agent.conversation.append(user("thanks"))
