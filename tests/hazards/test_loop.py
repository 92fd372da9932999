"""Bug reports from the field about whole runs, each by the name of its thread: they must not happen with us.

B: a conversation can never become unusable. D: switch, and just keep talking. O: pause and resume, exactly
once."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any

import msgspec
import pytest
from tests.loop.agents import (
    QUICK,
    Wiretap,
    check,
    check_bodies,
    kinds_of,
    make_agent,
    results_of,
    run,
    texts_of,
)
from tests.simulator.client import MODELS

from toolglot.common.jsontext import dumps_text
from toolglot.engine.engine import Engine
from toolglot.engine.factory import create_engine
from toolglot.loop.agent.agent import Agent
from toolglot.loop.run import CallTools, Run, RunState
from toolglot.providers.catalog import PROFILES
from toolglot.tools.config import ToolConfig
from toolglot.tools.hooks import Hooks
from toolglot.tools.tool import Tool, tool
from toolglot.values.messages import (
    Conversation,
    Message,
    Reply,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    tool_results,
    user,
)

EVERYONE = [provider for provider in PROFILES if provider != "compatible"]
ASK = ToolConfig(ask=frozenset({"write"}))


def sim(name: str, wiretap: Wiretap | None = None) -> Engine:
    """An engine on the simulator: "provider" or "provider/model"."""
    full = name if "/" in name or name not in MODELS else f"{name}/{MODELS[name]}"
    return create_engine(f"simulator:{full}", transport=wiretap or Wiretap(), retry=QUICK)


def check_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on an event loop that complains of nothing, with no task left over."""

    @wraps(test)
    def play(*args: Any, **options: Any) -> None:
        run(test(*args, **options))

    return play


class Stuck:
    """Two quick tools and one that never comes back; what ran is counted."""

    def __init__(self) -> None:
        self.inside = asyncio.Event()
        self.ran: list[str] = []

    @property
    def tools(self) -> list[Tool]:
        async def quick(n: int) -> str:
            """Is quick."""
            self.ran.append(f"quick {n}")
            return f"done {n}"

        async def slow() -> str:
            """Never comes back."""
            self.ran.append("slow")
            self.inside.set()
            await asyncio.Event().wait()
            return "never"

        return [Tool(quick), Tool(slow)]


async def interrupt_in_a_tool(agent: Agent, stuck: Stuck, prompt: str) -> None:
    task = asyncio.create_task(agent.run(prompt))
    await stuck.inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# ---- B


@pytest.mark.untraced
@pytest.mark.parametrize("provider", EVERYONE)
@check_loop
async def test_a_session_is_never_locked_by_a_call_without_a_result(provider: str) -> None:
    """anthropics/claude-code#1237 and eight more, strands-agents/harness-sdk#1610, tidyverse/ellmer#459."""
    stuck, wiretap = Stuck(), Wiretap()
    agent = Agent(sim(provider, wiretap), tools=stuck.tools, config=ToolConfig(max_parallel=1))
    await interrupt_in_a_tool(agent, stuck, 'call quick {"n": 1} call slow {} call quick {"n": 2}')
    assert (await agent.run("say on we go")).text == "on we go"
    assert (await agent.run('call quick {"n": 3}')).stop == "end"
    assert stuck.ran == ["quick 1", "slow", "quick 3"]
    check(agent.conversation)
    check_bodies(agent.view().engine, wiretap)


@check_loop
async def test_a_repair_does_not_add_a_result_too_many() -> None:
    """strands-agents/harness-sdk PR#2320: a repair of its own on top of results that are there."""
    stuck = Stuck()
    agent = make_agent("anthropic", tools=stuck.tools)
    for _ in range(3):
        stuck.inside.clear()
        await interrupt_in_a_tool(agent, stuck, 'call quick {"n": 1} call slow {}')
    assert len(results_of(agent.conversation)) == 6
    check(agent.conversation)


@check_loop
async def test_a_cancel_between_the_reply_and_its_first_tool() -> None:
    """langgenius/dify PR#41846."""
    at_reply = asyncio.Event()

    class Wait(Hooks):
        async def before_tool(self, call: ToolCall) -> None:
            at_reply.set()
            await asyncio.Event().wait()

    stuck = Stuck()
    agent = make_agent("anthropic", tools=stuck.tools, hooks=[Wait()])
    task = asyncio.create_task(agent.run('call quick {"n": 1}'))
    await at_reply.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await agent.run("say on")).text == "on"
    assert kinds_of(agent.conversation) == ["cancelled"]
    check(agent.conversation)


@check_loop
async def test_current_and_remaining_calls_are_answered() -> None:
    """NousResearch/hermes-agent PR#76460."""
    stuck = Stuck()
    agent = make_agent("openai-chat", tools=stuck.tools, config=ToolConfig(max_parallel=1))
    await interrupt_in_a_tool(agent, stuck, 'call slow {} call quick {"n": 1} call quick {"n": 2}')
    assert kinds_of(agent.conversation) == ["interrupted", "cancelled", "cancelled"]
    assert stuck.ran == ["slow"]


@check_loop
async def test_an_interrupt_does_not_save_the_request_twice() -> None:
    """langchain-ai/deepagents PR#6321."""
    stuck = Stuck()
    agent = make_agent("anthropic", tools=stuck.tools)
    await interrupt_in_a_tool(agent, stuck, "call slow {}")
    assert [message.role for message in agent.conversation] == ["user", "assistant", "tool"]
    data = agent.save()
    assert Agent.load(data, "simulator:anthropic").save() == data


@check_loop
async def test_interrupted_while_it_ran_is_not_rejected() -> None:
    """anthropics/claude-code#86001: the model must not believe that nothing happened."""
    stuck, wiretap = Stuck(), Wiretap()
    agent = make_agent("anthropic", wiretap, tools=stuck.tools)
    await interrupt_in_a_tool(agent, stuck, "call slow {}")
    await agent.run("say on")
    sent = dumps_text(wiretap.bodies[-1]["messages"])
    assert "may have had effects" in sent
    for wrong in ("not allowed", "rejected", "did not run", "not started"):
        assert wrong not in sent


@check_loop
async def test_a_runaway_tool_does_not_kill_the_session() -> None:
    """charmbracelet/crush#2046."""
    stuck = Stuck()
    agent = make_agent("anthropic", tools=stuck.tools, config=ToolConfig(timeout=0.02))
    result = await agent.run("call slow {}\nthen say that took too long")
    assert result.text == "that took too long"
    assert kinds_of(agent.conversation) == ["timeout"]


@check_loop
async def test_results_of_tools_that_completed_are_kept() -> None:
    """QwenLM/qwen-code#9573, docker/docker-agent#1676: lost on resume although the tool had finished."""
    stuck = Stuck()
    agent = make_agent("anthropic", tools=stuck.tools, config=ToolConfig(max_parallel=1))
    await interrupt_in_a_tool(agent, stuck, 'call quick {"n": 1} call quick {"n": 2} call slow {}')
    other = Agent.load(agent.save(), "simulator:gemini", tools=stuck.tools)
    assert [result.text for result in results_of(other.conversation)][:2] == ["done 1", "done 2"]
    assert (await other.run("say on")).text == "on"


@pytest.mark.parametrize("provider", EVERYONE)
@check_loop
async def test_a_conversation_with_open_calls_is_no_dead_end(provider: str) -> None:
    """vercel/ai#4290, #9968: calls without a result, as after a crash or an approval that never came."""
    conversation = Conversation(
        [user("hi"), assistant([ToolCall("c1", "quick", {"n": 1}), ToolCall("c2", "quick", {"n": 2})])]
    )
    wiretap = Wiretap()
    agent = Agent(sim(provider, wiretap), tools=Stuck().tools, conversation=conversation)
    result = await agent.run("say on")
    assert result.text == "on"
    assert any("result" in str(repair) for repair in result.repairs)
    check_bodies(agent.view().engine, wiretap)


@pytest.mark.parametrize("provider", ["openai-chat", "openai-responses", "anthropic"])
@check_loop
async def test_a_call_with_arguments_that_cannot_be_read_has_a_result(provider: str) -> None:
    """LibreChat-AI/agents PR#366."""
    stuck, wiretap = Stuck(), Wiretap(faults=["not-json-args"])
    agent = make_agent(provider, wiretap, tools=stuck.tools)
    async for _ in agent.stream('call quick {"n": 1}'):
        pass
    assert (await agent.run("say on")).text == "on"
    assert len(results_of(agent.conversation)) == 1
    check(agent.conversation)
    check_bodies(agent.view().engine, wiretap)


@check_loop
async def test_calls_are_saved_with_the_conversation() -> None:
    """openai/openai-agents-python#2426: the model repeats what it cannot see."""
    stuck = Stuck()
    agent = make_agent("openai-responses", tools=stuck.tools)
    await agent.run('call quick {"n": 1}')
    wiretap = Wiretap()
    other = Agent.load(agent.save(), sim("openai-responses", wiretap), tools=stuck.tools)
    await other.run("say on")
    sent = dumps_text(wiretap.bodies[0]["input"])
    assert "function_call_output" in sent
    assert "done 1" in sent


# ---- D


@pytest.mark.parametrize(
    ("repair", "other"), [("anthropic", "gemini"), ("gemini", "anthropic"), ("openai-responses", "anthropic")]
)
@check_loop
async def test_there_and_back_again(repair: str, other: str) -> None:
    """decolua/9router#4136, RooCodeInc/Roo-Code#10461: signatures sent to another model broke a conversation
    for good.
    """
    taps = {repair: Wiretap(), other: Wiretap()}
    agent = Agent(sim(repair, taps[repair]), tools=Stuck().tools)
    for number, name in enumerate((repair, other, repair, other, repair)):
        agent.switch(sim(name, taps[name]))
        assert (await agent.run(f'think hm\ncall quick {{"n": {number}}}')).stop == "end"
    check(agent.conversation)
    for name, wiretap in taps.items():
        check_bodies(sim(name), wiretap)


def signatures(messages: Sequence[Message]) -> list[str]:
    blocks = [block for message in messages for block in message.blocks]
    return [
        str((block.opaque or {}).get("signature"))
        for block in blocks
        if isinstance(block, Thinking) and block.opaque
    ]


@check_loop
async def test_signatures_are_bound_to_the_model() -> None:
    """CommonstackAI/UncommonRoute#19, vybestack/llxprt-code#2335: Claude to Claude, too."""
    first, second = Wiretap(), Wiretap()
    agent = Agent(sim("anthropic/claude-sonnet-4-5", first), tools=Stuck().tools)
    await agent.run('think hm\ncall quick {"n": 1}')
    agent.switch(sim("anthropic/claude-opus-4-1", second))
    await agent.run("say on")
    secrets = signatures(agent.conversation[:2])
    assert secrets
    assert all(signature not in second.requests[0].body.decode() for signature in secrets)


@pytest.mark.parametrize("other", ["mistral", "openai-chat", "ollama", "groq"])
@check_loop
async def test_a_model_without_thinking_gets_none(other: str) -> None:
    """anomalyco/opencode#11571, suitenumerique/conversations#402."""
    wiretap = Wiretap()
    agent = Agent(sim("anthropic"), tools=Stuck().tools)
    await agent.run('think a secret thought\ncall quick {"n": 1}')
    agent.switch(sim(other, wiretap))
    assert (await agent.run("say on")).text == "on"
    body = dumps_text(wiretap.bodies[0])
    assert "signature" not in body
    assert '"thinking"' not in body


@pytest.mark.parametrize("provider", EVERYONE)
@check_loop
async def test_ids_of_others_are_made_legal(provider: str) -> None:
    """farion1231/cc-switch#1181, earendil-works/pi#9048: ids with `:` and `|`, far too long."""
    calls = [
        ToolCall("functions.quick:0", "quick", {"n": 1}),
        ToolCall(f"call_1|fc_{'x' * 200}", "quick", {"n": 2}),
    ]
    results = [ToolResult(call.id, (Text("ok"),), call.name) for call in calls]
    conversation = Conversation([user("hi"), assistant(calls), tool_results(*results)])
    wiretap = Wiretap()
    agent = Agent(sim(provider, wiretap), tools=Stuck().tools, conversation=conversation)
    assert (await agent.run("say on")).text == "on"
    check_bodies(agent.view().engine, wiretap)


@check_loop
async def test_a_cheap_model_for_the_tools_and_a_strong_one_for_the_answer() -> None:
    """openai/openai-agents-python#684."""
    cheap, strong = Wiretap(), Wiretap()

    @tool(effects="write")
    async def work() -> str:
        """Works."""
        return "worked"

    agent = Agent(sim("ollama", cheap), tools=[work], config=ASK)
    first = await agent.run("call work {}\nthen say done")
    agent.switch(sim("anthropic", strong))
    assert (await agent.resume({first.requests[0].id: "yes"})).text == "done"
    assert (len(cheap.requests), len(strong.requests)) == (1, 1)
    assert "worked" in dumps_text(strong.bodies[0])


# ---- O


class Effects:
    """A tool that must be approved, and counts."""

    def __init__(self) -> None:
        self.ran: list[int] = []

    @property
    def tools(self) -> list[Tool]:
        async def pay(n: int) -> str:
            """Pays."""
            self.ran.append(n)
            return f"paid {n}"

        return [Tool(pay, effects="write")]


@pytest.mark.parametrize("provider", EVERYONE)
@check_loop
async def test_a_resumed_run_pays_once(provider: str) -> None:
    """UsefulSoftwareCo/executor#1347, PR#976."""
    effects, wiretap = Effects(), Wiretap()
    agent = Agent(sim(provider, wiretap), tools=effects.tools, config=ASK)
    first = await agent.run('call pay {"n": 1} call pay {"n": 2}\nthen say paid')
    saved = agent.save()
    other = Agent.load(saved, sim(provider, wiretap), tools=effects.tools, config=ASK)
    result = await other.resume({call.id: "yes" for call in first.requests})
    assert result.stop == "end"
    assert sorted(effects.ran) == [1, 2]
    check(other.conversation)


@pytest.mark.parametrize("provider", ["openai-chat", "openai-responses", "anthropic", "gemini", "ollama"])
@check_loop
async def test_calls_that_share_an_id_are_not_all_run_again(provider: str) -> None:
    """langchain-ai/langgraph#6626."""
    effects = Effects()
    agent = make_agent(provider, Wiretap(faults=["duplicate-ids"]), tools=effects.tools, config=ASK)
    result = await agent.run('call pay {"n": 1} call pay {"n": 2}')
    for _ in range(3):
        if result.requests:
            result = await agent.resume({result.requests[0].id: "yes"})
    assert sorted(effects.ran) == [1, 2]
    check(agent.conversation)


def test_the_note_is_written_before_the_effect() -> None:
    """JamesHWade/deputy PR#134: a crash in the middle of a call never leads to a second one."""
    run_ = Run(Conversation([user("pay")]))
    run_.add_reply(Reply((ToolCall("a", "pay", {"n": 1}), ToolCall("b", "pay", {"n": 2})), "tools"))
    run_.mark_started(0)
    state = msgspec.json.decode(msgspec.json.encode(run_.snapshot()), type=RunState)
    other = Run(Conversation(run_.conversation), state=state)
    step = other.next()
    assert isinstance(step, CallTools)
    assert [call.id for _, call in step.calls] == ["b"]


@check_loop
async def test_a_cancel_during_an_approved_call_does_not_run_it_twice() -> None:
    """strands-agents/harness-sdk PR#3615."""
    ran: list[int] = []
    inside = asyncio.Event()

    @tool(effects="write")
    async def pay() -> str:
        """Pays."""
        ran.append(1)
        inside.set()
        await asyncio.Event().wait()
        return "never"

    agent = make_agent("anthropic", tools=[pay], config=ASK)
    first = await agent.run("call pay {}")
    task = asyncio.create_task(agent.resume({first.requests[0].id: "yes"}))
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    other = Agent.load(agent.save(), "simulator:anthropic", tools=[pay], config=ASK)
    assert not other.has_pending_run
    assert (await other.run("say on")).text == "on"
    assert ran == [1]
    assert "may have had effects" in texts_of(agent.conversation)
