"""Results that were too long: whoever saw the beginning can read the rest, also after a restart, and nobody
else can.
"""

import re
from collections.abc import Sequence

import pytest

from toolglot.loop.agent.agent import Agent
from toolglot.tools.config import ToolConfig
from toolglot.tools.tool import Tool, tool
from toolglot.values.messages import Conversation, Message, ToolResult

from .agents import PROVIDERS, Wiretap, check, make_agent, outcome, results_of, run

LIVE = pytest.mark.parametrize("live", [False, True], ids=["whole", "streamed"])
EVERYWHERE = pytest.mark.parametrize("provider", PROVIDERS)
CONFIG = ToolConfig(max_result=300)
REPORT = 'call report {"name": "ann"}'


@tool(effects="read", inline=True)
def report(name: str) -> str:
    """Reports about somebody."""
    return f"{name} " * 200 + f"[secret of {name}]" + f" {name}" * 200


def read_on(messages: Sequence[Message]) -> str:
    """The prompt that makes the model read the first result that was truncated."""
    handles = [
        handle for result in results_of(messages) for handle in re.findall(r'handle="(\w+)"', result.text)
    ]
    return f'call read_result {{"handle": "{handles[0]}"}}'


async def last_result(
    agent: Agent, prompt: str, conversation: Conversation | None = None, live: bool = False
) -> ToolResult:
    result = await outcome(agent, prompt, streamed=live, conversation=conversation)
    return result.outcomes[-1].result


@LIVE
@EVERYWHERE
def test_a_conversation_cannot_read_what_was_left_out_of_another(provider: str, live: bool) -> None:
    async def talk() -> None:
        agent, ann, bob = make_agent(provider, tools=[report], config=CONFIG), Conversation(), Conversation()
        await last_result(agent, REPORT, ann, live)
        await last_result(agent, REPORT.replace("ann", "bob"), bob, live)
        stolen = await last_result(agent, read_on(ann), bob, live)
        assert stolen.error_kind == "not_found"
        assert re.match(r"there is no result 'r\w+' \(any more\): run the tool again", stolen.text)
        assert "[secret of ann]" in (await last_result(agent, read_on(ann), ann, live)).text
        check(ann)
        check(bob)

    run(talk())


@LIVE
@EVERYWHERE
def test_the_rest_can_be_read_after_a_restart(provider: str, live: bool) -> None:
    agent = make_agent(provider, tools=[report], config=CONFIG)
    run(agent.run(REPORT))
    wiretap = Wiretap()
    again = Agent.load(
        agent.save(), f"simulator:{provider}", transport=wiretap, tools=[report], config=CONFIG
    )
    assert "[secret of ann]" in run(last_result(again, read_on(again.conversation), live=live)).text
    assert "read_result" in str(wiretap.bodies[0].get("tools")), (
        "the tool is offered from the first request on"
    )
    saved = again.save()
    assert Agent.load(saved, transport=wiretap, tools=[report]).save() == saved
    check(again.conversation)


@EVERYWHERE
def test_a_handle_of_messages_that_came_alone_is_an_error_and_never_another_text(provider: str) -> None:
    agent = make_agent(provider, tools=[report], config=CONFIG)
    run(agent.run(REPORT))
    copied = make_agent(
        provider, tools=[report], config=CONFIG, conversation=Conversation(agent.conversation)
    )
    for prompt in ("hi", REPORT.replace("ann", "bob")):
        run(copied.run(prompt))
        gone = run(last_result(copied, read_on(copied.conversation).replace("call ", "call! ")))
        assert gone.error_kind == "not_found"
        assert "run the tool again" in gone.text
    check(copied.conversation)


def test_a_tool_of_the_users_called_read_result_stays_theirs() -> None:
    def read_result(handle: str, offset: int = 0) -> str:
        """Reads."""
        return "mine"

    agent = make_agent("anthropic", tools=[report, Tool(read_result)], config=CONFIG)
    run(agent.run(REPORT))
    assert run(last_result(agent, read_on(agent.conversation))).text == "mine"
