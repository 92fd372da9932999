"""Tools that only one run has: definitions, whose calls are answered from elsewhere."""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from tests.loop.agents import (
    PROVIDERS,
    Wiretap,
    check,
    check_bodies,
    collect_events,
    kinds_of,
    make_agent,
    run,
)

from toolglot import (
    Agent,
    Answer,
    Reply,
    Text,
    Tool,
    ToolCall,
    ToolConfig,
    ToolRegistry,
    builtins,
    tool_from_definition,
)
from toolglot.errors import MalformedData, NameConflict, UnknownName, UsageError
from toolglot.loop.saved_runs import sign
from toolglot.tools.config import Rate
from toolglot.values.definitions import ToolDefinition, ToolExample

SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
PICK = ToolDefinition("pick", "Let the person pick a color.", SCHEMA)
PICKING = 'call pick {"title": "c"}'


PICK_REPLY = Reply((ToolCall("c2", "pick", {"title": "d"}),), "tools")


def read(name: str) -> str:
    """Read a file."""
    return f"text of {name}"


READ = Tool(read, inline=True, effects="read")


def names_in(wiretap: Wiretap) -> list[bool]:
    """Whether each request declared the tool of the run."""
    return ["Let the person pick a color." in request.body.decode() for request in wiretap.requests]


@pytest.mark.parametrize("tools", [[READ], []], ids=["beside a tool of the agent", "alone"])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_run_has_its_own_tools_and_the_next_one_has_not(provider: str, tools: list[Tool]) -> None:
    """Case 7: each wire still accepts the history."""
    wiretap = Wiretap()
    agent = make_agent(provider, wiretap, tools=tools)
    first = run(agent.run(PICKING, tools=[PICK]))
    assert (first.stop, [item.request.tool for item in first.pending]) == ("waiting", ["pick"])
    assert run(agent.resume({first.pending[0].id: Answer("red")})).results[0].text == "red"
    assert run(agent.run(PICKING)).stop == "end"
    assert names_in(wiretap) == [True, True, False]
    assert kinds_of(agent.conversation) == [None]
    assert not agent.view().visible_tools or agent.view().visible_tools[0].name == "read"
    check_bodies(agent.view().engine, wiretap)
    check(agent.conversation)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_paused_run_keeps_its_tools_in_another_process(provider: str) -> None:
    agent = make_agent(provider, tools=[READ])
    pick = tool_from_definition(
        PICK, approval=True, timeout=60, max_uses=2, rate=Rate(5, 60), effects="write"
    )
    first = run(agent.run(PICKING, tools=[pick]))
    assert (first.stop, first.pending[0].request.effects) == ("approval", {"write"})
    wiretap = Wiretap()
    other = Agent.load(agent.save(), f"simulator:{provider}", transport=wiretap, tools=[READ])
    assert run(other.list_pending()) == first.pending
    second = run(other.resume({first.pending[0].fingerprint: True}))
    assert second.stop == "waiting"
    assert second.pending[0].expires is not None
    third = Agent.load(other.save(), f"simulator:{provider}", transport=wiretap, tools=[READ])
    assert third.save() == other.save()
    assert run(third.list_pending()) == second.pending
    # The rest of the run can call it again, and has to ask again.
    again = run(third.resume({second.pending[0].id: Answer(f"red\n{PICKING}")}))
    assert (again.stop, names_in(wiretap)) == ("end", [True])
    assert "run_tools" not in json.loads(third.save().partition(b"\n")[0])
    check(third.conversation)


def test_the_rest_of_a_run_has_the_options_of_its_tools() -> None:
    """A tool that needs approval needs it in another process, too."""
    agent = make_agent("anthropic", Wiretap())
    first = run(agent.run(PICKING, tools=[tool_from_definition(PICK, approval=True)]))
    other = Agent.load(agent.save(), "simulator:anthropic", transport=Wiretap(PICK_REPLY, PICK_REPLY))
    done = run(other.resume({first.pending[0].id: False}))
    assert (done.stop, [item.kind for item in done.pending]) == ("approval", ["approval"])


def test_all_examples_of_a_definition_are_saved() -> None:
    definition = ToolDefinition(
        "pick", "Pick.", SCHEMA, examples=[ToolExample({"title": "a"})], tags={"b", "a"}, namespace="page"
    )
    agent = make_agent("openai-chat")
    first = run(agent.run('call page__pick {"title": "c"}', tools=[definition]))
    other = Agent.load(agent.save(), "simulator:openai-chat")
    assert run(other.list_pending()) == first.pending
    assert run(other.resume({first.pending[0].id: Answer("red")})).stop == "end"


# ---- what cannot be a tool of a run


def plain() -> str:
    """Do something."""
    return ""


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "a function": ([plain], UsageError, r"have no functions, but plain has: pass it to the agent"),
    "a tool": ([READ], UsageError, r"have no functions, but read has: .*add_tools"),
    "a registry": (ToolRegistry([READ]), UsageError, "have no functions, but read has"),
    "a hosted tool": ([ToolDefinition("web", kind="hosted")], UsageError, "a provider runs the tool 'web'"),
    "a name": (["pick"], UsageError, "pass ToolDefinitions, not str"),
    "one definition": (PICK, UsageError, "tools"),
    "two of a name": ([PICK, PICK], NameConflict, "two tools of the run are called 'pick'"),
    "a preview": (
        [tool_from_definition(PICK, preview=lambda arguments: "x")],
        UsageError,
        "the tool 'pick' of the run has preview, which is not saved with the run",
    ),
    "no schema": (
        [ToolDefinition("a", parameters={"type": 5})],
        UsageError,
        "'a' of the run has a wrong schema",
    ),
    "a schema of a list": (
        [ToolDefinition("a", parameters={"type": "array"})],
        UsageError,
        "arguments must be an object",
    ),
    "a name of the agent": (
        [ToolDefinition("read")],
        NameConflict,
        "is called 'read', as one of the agent's",
    ),
    "a name of the loop": ([ToolDefinition("final_answer")], NameConflict, "'final_answer'"),
}


@pytest.mark.parametrize(("tools", "error", "words"), WRONG.values(), ids=list(WRONG))
def test_what_cannot_be_a_tool_of_a_run(tools: Any, error: type[Exception], words: str) -> None:
    agent = make_agent("anthropic", tools=[READ])
    with pytest.raises(error, match=words):
        run(agent.run(PICKING, tools=tools))
    assert len(agent.conversation) == 0


@pytest.mark.parametrize("name", ["Bash", "shell", "Read"])
def test_a_name_that_the_model_has_for_a_builtin_tool_is_taken(name: str, tmp_path: Any) -> None:
    agent = make_agent("anthropic", tools=builtins(tmp_path).tools)
    with pytest.raises(NameConflict, match=f"a tool of the run is called '{name}'"):
        run(agent.run("say hi", tools=[ToolDefinition(name)]))


def test_a_tool_of_the_agent_goes_before_one_of_the_run(caplog: pytest.LogCaptureFixture) -> None:
    """Also one that comes while the run waits."""
    ran: list[dict[str, Any]] = []
    agent = make_agent("anthropic", Wiretap(PICK_REPLY, PICK_REPLY, Reply((Text("Done."),))))
    first = run(agent.run("Go.", tools=[PICK]))
    agent.add_tools([Tool(ran.append, name="pick", parameters=SCHEMA, description="Picks.")])
    with caplog.at_level(logging.WARNING):
        done = run(agent.resume({first.pending[0].id: Answer("red")}))
    assert (done.stop, ran) == ("end", [{"title": "d"}])
    assert "tools of the run are left out, as the agent has their names: pick" in caplog.text
    check(agent.conversation)


# ---- rules


def test_rules_apply_to_tools_of_a_run() -> None:
    for config, words in [
        (ToolConfig(deny=["pi*"]), "denied"),
        (ToolConfig(enabled=False), ""),
    ]:
        wiretap = Wiretap()
        agent = make_agent("openai-chat", wiretap, tools=[READ], config=config)
        result = run(agent.run(PICKING, tools=[PICK]))
        assert (result.stop, result.pending) == ("end", ())
        assert words or names_in(wiretap) == [False] * len(wiretap.requests)


def test_allow_narrows_the_tools_of_the_agent_only() -> None:
    agent = make_agent("openai-chat", tools=[READ], config=ToolConfig(allow=["read"]))
    for allow in (None, ["read"], ["pick"], []):
        first = run(agent.run(PICKING, tools=[PICK], allow=allow))
        assert [item.request.tool for item in first.pending] == ["pick"]
    wiretap = Wiretap(Reply((ToolCall("c2", "read", {"name": "a"}),), "tools"))
    agent = make_agent("openai-chat", wiretap, tools=[READ])
    run(agent.run("Go.", tools=[PICK], allow=["pick"]))
    assert kinds_of(agent.conversation) == ["not_allowed"]
    with pytest.raises(UnknownName, match="pock"):
        run(agent.run(PICKING, tools=[PICK], allow=["pock"]))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_tool_of_the_run_can_be_chosen(provider: str) -> None:
    wiretap = Wiretap()
    agent = make_agent(provider, wiretap, tools=[READ])
    result = run(agent.run("Hello.", tools=[PICK], tool_choice="pick"))
    assert [item.request.tool for item in result.pending] == ["pick"] or provider == "ollama"
    check_bodies(agent.view().engine, wiretap)


async def test_a_tool_that_only_reads_is_not_started_early() -> None:
    look = tool_from_definition(ToolDefinition("look", "Look.", {"type": "object"}), effects="read")
    reply = Reply((ToolCall("c1", "look", {}), Text("This comes after the call. " * 5)), "tools")
    for tools, run_tools in ([look], []), ([], [look]):
        agent = make_agent("anthropic", Wiretap(reply), config=ToolConfig(eager_start=True), tools=tools)
        await collect_events(agent.stream("Go.", tools=run_tools))
        assert [item.kind for item in await agent.list_pending()] == ["external"]


# ---- what a file says


def edit(data: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    header, _, messages = data.partition(b"\n")
    fields = json.loads(header)
    change(fields)
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n" + messages


@pytest.mark.parametrize(
    "tools",
    [
        1,
        [{}],
        [{"definition": {"name": ""}}],
        [{"definition": {"name": "a", "kind": "hosted"}}],
        [{"definition": {"name": "a", "parameters": {"type": 5}}}],
        [{"definition": {"name": "a"}, "timeout": -1}],
        [{"definition": {"name": "a"}}, {"definition": {"name": "a"}}],
    ],
)
def test_saved_tools_of_another_shape_are_refused(tools: Any) -> None:
    agent = make_agent("anthropic", tools=[READ])
    run(agent.run(PICKING, tools=[PICK]))
    data = edit(agent.save(), lambda header: (header.pop("mac"), header.update(run_tools=tools)))
    with pytest.raises(MalformedData, match="line 1: the saved"):
        Agent.load(sign(data), "simulator:anthropic", tools=[READ])


def test_in_a_file_that_was_changed_each_call_of_such_a_tool_needs_approval() -> None:
    """Otherwise, removing a word from the file would be an approval."""
    agent = make_agent("anthropic")
    run(agent.run(PICKING, tools=[tool_from_definition(PICK, approval=True)]))
    data = edit(agent.save(), lambda header: header["run_tools"][0].pop("approval"))
    other = Agent.load(data, "simulator:anthropic", transport=Wiretap(PICK_REPLY, PICK_REPLY))
    [shown] = run(other.list_pending())
    done = run(other.resume({shown.fingerprint: False}))
    assert [item.kind for item in done.pending] == ["approval"]
