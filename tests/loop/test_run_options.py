"""What a run can have instead of the agent's own: its output type, its tool choice, the tools it may call,
its limits.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import pytest

from toolglot.builtin.tools import coding_tools
from toolglot.common.value_checks import find_accepted
from toolglot.engine.factory import EngineOptions
from toolglot.errors import MissingOutput, UnknownName, UsageError
from toolglot.loop.agent.agent import Agent
from toolglot.loop.agent.config import AgentOptions, PromptContext
from toolglot.loop.conversation_state import RunOptions, RunSettings
from toolglot.loop.limits import RunLimits
from toolglot.tools.config import ToolConfig
from toolglot.tools.tool import tool
from toolglot.values.messages import Conversation
from toolglot.values.request import ToolChoice

from .agents import PROVIDERS, Wiretap, check, check_bodies, make_agent, noting, outcome, run

LIVE = pytest.mark.parametrize("live", [False, True], ids=["whole", "streamed"])
EVERYWHERE = pytest.mark.parametrize("provider", PROVIDERS)
CALLS = "call look {} call write {}"


@dataclass
class City:
    name: str
    population: int


PARIS = '{"name": "Paris", "population": 2100000}'


def test_every_option_is_a_setting_of_the_run() -> None:
    assert {*RunSettings.__struct_fields__} == {"output_type", *RunOptions.__annotations__} - {"conversation"}


# ---- the output type


@LIVE
@EVERYWHERE
def test_a_run_has_its_own_output_type_and_the_next_one_has_none(provider: str, live: bool) -> None:
    wiretap = Wiretap()
    agent = make_agent(provider, wiretap)
    result = run(outcome(agent, f"say {PARIS}", streamed=live, output_type=City))
    assert result.output == City("Paris", 2100000)
    assert run(outcome(agent, "say plain words", streamed=live)).text == "plain words"
    check_bodies(agent.view().engine, wiretap)
    check(agent.conversation)


@LIVE
def test_it_takes_the_place_of_the_agents(live: bool) -> None:
    agent = make_agent("openai-chat", output_type=City)
    result = run(outcome(agent, "say [1, 2]", streamed=live, output_type=list[int]))
    assert result.output == [1, 2]
    assert run(outcome(agent, f"say {PARIS}", streamed=live)).output == City("Paris", 2100000)
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    assert run(outcome(agent, 'say {"x": 1}', streamed=live, output_type=schema)).output == {"x": 1}


def test_concurrent_runs_have_their_own_output_types() -> None:
    agent = make_agent("anthropic")

    async def ask(prompt: str, kind: Any) -> Any:
        return (await agent.run(prompt, output_type=kind, conversation=Conversation())).output

    async def ask_all() -> list[Any]:
        return [
            *await asyncio.gather(ask(f"say {PARIS}", City), ask("say [1]", list[int]), ask("say hi", None))
        ]

    assert run(ask_all()) == [City("Paris", 2100000), [1], None]


def test_a_run_that_waits_keeps_its_output_type_and_a_loaded_one_is_given_it_again() -> None:
    write = noting([], "write", approval=True)
    agent = make_agent("openai-chat", tools=[write])
    first = run(agent.run("call write {}", output_type=City))
    assert (first.stop, first.output) == ("approval", None)
    saved = agent.save()
    assert isinstance(run(agent.resume({first.requests[0].id: "yes"})).output, City)
    loaded = Agent.load(saved, transport=Wiretap(), tools=[write])
    assert isinstance(run(loaded.resume({first.requests[0].id: "yes"}, output_type=City)).output, City)


def test_no_output_is_an_error_of_this_run() -> None:
    agent = make_agent("anthropic", Wiretap(faults=["length"]))
    with pytest.raises(MissingOutput):
        run(agent.run("go", output_type=City))
    assert run(agent.run("say on")).text == "on"


@pytest.mark.parametrize("kind", [type(lambda: None), lambda: 1, print, noting])
def test_what_cannot_be_an_output_type_leaves_no_prompt(kind: Any) -> None:
    agent = make_agent("anthropic")
    with pytest.raises(UsageError, match="cannot be an output type"):
        run(agent.run("go", output_type=kind))
    assert len(agent.conversation) == 0


# ---- tool choice and allowed tools


@LIVE
@EVERYWHERE
def test_a_run_has_its_own_tool_choice(provider: str, live: bool) -> None:
    ran: list[str] = []
    agent = make_agent(provider, tools=[noting(ran, "look"), noting(ran, "write")])
    run(outcome(agent, CALLS, streamed=live, tool_choice=ToolChoice("none")))
    assert ran == []
    prompt = "call write {}" if provider == "ollama" else "hello"  # its API cannot force a call
    run(outcome(agent, prompt, streamed=live, tool_choice=ToolChoice("required", ("write",))))
    assert ran == ["write"]
    run(outcome(agent, "say hello", streamed=live))
    assert ran == ["write"], "the next run has the agent's"
    check(agent.conversation)


@LIVE
@EVERYWHERE
def test_a_run_may_use_some_of_the_tools(provider: str, live: bool) -> None:
    ran: list[str] = []
    wiretap = Wiretap()
    agent = make_agent(provider, wiretap, tools=[noting(ran, "look"), noting(ran, "write")])
    result = run(outcome(agent, CALLS.replace("call", "call!"), streamed=live, allow=["look"]))
    assert ran == ["look"]
    assert [outcome.result.error_kind for outcome in result.outcomes] == [None, "not_allowed"]
    assert all('"write"' not in str(body.get("tools")).replace("'", '"') for body in wiretap.bodies)
    run(outcome(agent, CALLS, streamed=live))
    assert ran == ["look", "look", "write"], "the next run has all of them"
    run(outcome(agent, CALLS.replace("call", "call!"), streamed=live, allow=()))
    assert len(ran) == 3
    check(agent.conversation)


@pytest.mark.parametrize("is_configured", [True, False])
def test_an_unknown_name_in_a_tool_choice_is_an_error_and_leaves_no_prompt(is_configured: bool) -> None:
    wiretap, choice = Wiretap(), ToolChoice("required", ("lok",))
    agent = make_agent("anthropic", wiretap, tools=[noting([], "look"), noting([], "lok")])
    agent.config = ToolConfig(tool_choice=choice if is_configured else None)
    agent.remove_tools(["lok"])
    with pytest.raises(UnknownName, match="unknown tool in tool_choice 'lok'; did you mean 'look'"):
        run(agent.run("go", tool_choice=None if is_configured else choice))
    assert (wiretap.bodies, len(agent.conversation)) == ([], 0)


@pytest.mark.parametrize("name", ["read", "Read", "find", "crm.find", "web_search", "final_answer"])
def test_a_tool_choice_knows_every_name_of_a_tool(name: str, tmp_path: Path) -> None:
    tools = [*coding_tools(tmp_path), noting([], "find", namespace="crm")]
    agent = make_agent("anthropic", tools=tools, hosted=["web_search"], facade="claude-code")
    run(agent.run("say hi", tool_choice=ToolChoice("auto", (name,))))


def test_a_run_is_not_allowed_more_than_the_agent() -> None:
    ran: list[str] = []
    tools = [noting(ran, name) for name in ("look", "write", "send")]
    agent = make_agent("anthropic", tools=tools, config=ToolConfig(allow=["look", "send"]))
    run(agent.run("call look {} call write {} call send {}", allow={"look", "write"}))
    assert ran == ["look"]


def test_concurrent_runs_have_their_own_tools() -> None:
    async def serve(name: str) -> list[str | None]:
        result = await agent.run(f"{CALLS} then {CALLS}", allow=[name], conversation=Conversation())
        return [outcome.call.name for outcome in result.outcomes if not outcome.result.is_error]

    agent = make_agent("openai-chat", tools=[noting([], "look"), noting([], "write")])

    async def serve_all() -> list[list[str | None]]:
        return await asyncio.gather(*map(serve, ["look", "write"] * 3))

    assert run(serve_all()) == [["look"] * 2, ["write"] * 2] * 3


def test_another_configuration_during_a_run_does_not_allow_it_more() -> None:
    ran: list[str] = []

    @tool
    async def loosen() -> str:
        """Changes the configuration."""
        agent.config = ToolConfig(max_repeats=30)
        return "ok"

    agent = make_agent("anthropic", tools=[loosen, noting(ran, "write")])
    run(agent.run("call loosen {} then call write {}", allow=["loosen"]))
    assert ran == []


@pytest.mark.parametrize("saved_as", ["", "allow", "allowed_tools"])
def test_a_run_that_waits_for_approval_is_not_allowed_more_when_it_is_resumed(saved_as: str) -> None:
    """Nor if it was saved before the first release, when the option had another name."""
    ran: list[str] = []
    tools = [noting(ran, "ask", approval=True), noting(ran, "write")]
    agent = make_agent("anthropic", tools=tools)
    run(agent.run("call ask {} then call write {}", allow=["ask"]))
    if saved_as:
        saved = agent.save().replace(b'"allow":', f'"{saved_as}":'.encode())
        assert saved_as.encode() in saved
        agent = Agent.load(saved, "simulator:anthropic", transport=Wiretap(), tools=tools)
    run(agent.resume({run(agent.list_pending())[0].fingerprint: "yes"}))
    assert ran == ["ask"]


def test_a_name_that_no_tool_has_is_an_error() -> None:
    agent = make_agent("anthropic", tools=[noting([], "look")])
    with pytest.raises(UnknownName, match=r"unknown tool in allow 'lok'; did you mean 'look'\?"):
        run(agent.run("go", allow=["lok"]))
    assert len(agent.conversation) == 0


def test_the_system_prompt_knows_the_tools_of_the_run() -> None:
    names: list[list[str]] = []

    def write_prompt(context: PromptContext) -> str:
        names.append([definition.name for definition in context.tools])
        return ""

    agent = make_agent("anthropic", tools=[noting([], "look"), noting([], "write")], system=write_prompt)
    run(agent.run("say x", allow=["look"]))
    run(agent.run("say x"))
    assert names == [["look"], ["look", "write"]]


@pytest.mark.parametrize("options", [{"tool_chioce": ToolChoice("none")}, {"dta": 1}])
def test_unknown_options_are_errors(options: dict[str, Any]) -> None:
    agent = make_agent("anthropic")
    with pytest.raises(UnknownName) as error:
        run(agent.run("say x", **options))
    assert next(iter(options)) in str(error.value)
    assert len(agent.conversation) == 0


class Point(TypedDict):
    x: int


def test_without_an_event_loop() -> None:
    agent = make_agent("anthropic", tools=[noting([], "look")])
    assert agent.run_sync('say {"x": 1}', output_type=Point, allow=["look"]).output == {"x": 1}


# ---- limits


def test_a_run_has_its_own_limits_instead_of_those_of_the_agent() -> None:
    agent = make_agent("anthropic", tools=[noting([], "look")], limits=RunLimits(max_iterations=1))
    limits = (None, RunLimits(), RunLimits(max_iterations=2), RunLimits(max_total_tokens=0), None)
    results = [
        run(agent.run("call look {} then call look {} then call look {}", limits=each)) for each in limits
    ]
    assert [len(result.outcomes) for result in results] == [1, 3, 2, 0, 1]
    assert [result.stop for result in results] == ["end", "end", "end", "budget", "end"]


@pytest.mark.parametrize("is_saved", [False, True])
def test_a_run_that_is_resumed_keeps_its_limits_unless_it_was_saved(is_saved: bool) -> None:
    tools = [noting([], "ask", approval=True)]
    agent = make_agent("anthropic", tools=tools, limits=RunLimits(max_total_tokens=0))
    waiting = run(agent.run("call ask {} then say done", limits=RunLimits(max_iterations=5)))
    if is_saved:
        limits = RunLimits(max_total_tokens=0)
        agent = Agent.load(
            agent.save(), "simulator:anthropic", transport=Wiretap(), tools=tools, limits=limits
        )
    assert run(agent.resume({waiting.requests[0].id: "yes"})).stop == ("budget" if is_saved else "end")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limits": ToolConfig()}, "limits: pass RunLimits, not ToolConfig"),
        ({"limits": RunLimits}, "limits: pass RunLimits, not the class RunLimits"),
        ({"tool_choice": 3}, "tool_choice: pass a ToolChoice, a mode or a tool's name, not int"),
        ({"tool_choice": ["look"]}, "tool_choice: pass a ToolChoice, a mode or a tool's name, not list"),
        ({"allow": 3}, "allow: pass names of tools, not int"),
        ({"allow": ["look", noting([], "look")]}, "allow: pass names of tools, not Tool"),
        ({"conversation": []}, "conversation: pass a Conversation, not list"),
    ],
)
def test_an_option_of_another_type_is_an_error_before_anything_is_sent(
    options: dict[str, Any], message: str
) -> None:
    wiretap = Wiretap()
    agent = make_agent("anthropic", wiretap, tools=[noting([], "look")])
    with pytest.raises(UsageError, match=message):
        run(agent.run("go", **options))
    assert (wiretap.bodies, len(agent.conversation)) == ([], 0)


def test_every_option_but_the_data_says_what_it_accepts() -> None:
    for options in (RunOptions, AgentOptions):
        missing = {*options.__annotations__} - {*find_accepted(options)} - {*EngineOptions.__annotations__}
        assert missing <= {"data", "tools", "hosted", "hooks", "fallbacks", "output_type"}
