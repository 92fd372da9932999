"""What a model is told beside its tools: the facade's note after the instructions, and errors in its harness's own words."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.handover.harness import make_engine, make_transport

from toolglot.builtin.tools import Builtins, builtins
from toolglot.facades.catalog import find_facade
from toolglot.jsontext import loads_object
from toolglot.loop.orchestrator import Orchestrator, PromptContext
from toolglot.messages import Reply, Text, ToolCall
from toolglot.simulator.core import Script
from toolglot.tools.config import ToolConfig
from toolglot.tools.tool import tool

Doc = dict[str, Any]
CLAUDE, GEMINI = find_facade("claude-code").note, find_facade("gemini-cli").note


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Builtins]:
    found = builtins(tmp_path)
    yield found
    found.close()


def told(own: Builtins, *calls: ToolCall, **options: Any) -> list[Doc]:
    """The bodies that were sent, to Claude and then to Gemini."""
    replies = [*(Reply((call,), "tools") for call in calls), Reply((Text("one"),)), Reply((Text("two"),))]
    transport = make_transport(Script(replies))

    async def play() -> None:
        agent = Orchestrator(make_engine("anthropic", transport, model="claude-opus-5"), tools=own.tools, **options)
        await agent.run("Go on.")
        agent.switch(make_engine("gemini", transport, model="gemini-3-pro-preview"))
        await agent.run("Go on.")

    asyncio.run(play())
    return [one.body for one in transport.sent]


def instructions(body: Doc) -> str:
    if "systemInstruction" in body:
        return str(body["systemInstruction"]["parts"][0]["text"])
    said: Any = body.get("system", "")
    return said if isinstance(said, str) else "".join(part["text"] for part in said)


class TestTheNote:
    def test_it_follows_the_instructions_in_the_words_of_each_model(self, own: Builtins) -> None:
        first, second = told(own, system="Be exact.")
        assert instructions(first) == f"Be exact.\n\n{CLAUDE}"
        assert instructions(second).startswith("Be exact.\n\n")
        assert "run_shell_command" in instructions(second)
        assert "Bash" not in instructions(second)

    def test_it_is_there_without_instructions_too(self, own: Builtins) -> None:
        assert instructions(told(own)[0]) == CLAUDE

    def test_it_names_no_tool_that_is_not_allowed(self, own: Builtins) -> None:
        first, second = told(own, config=ToolConfig(allowed_tools=frozenset({"read"})))
        for name in ("Edit", "Bash", "Write", "replace", "run_shell_command"):
            assert name not in instructions(first) + instructions(second)

    def test_there_is_none_where_no_tools_are_offered(self, own: Builtins) -> None:
        assert instructions(told(own, config=ToolConfig(enabled=False))[0]) == ""

    def test_whoever_writes_the_instructions_sees_the_tools_as_the_model_does(self, own: Builtins) -> None:
        def write(context: PromptContext) -> str:
            return " ".join(tool.name for tool in context.tools)

        first, second = map(instructions, told(own, system=write))
        assert first.startswith("Read ") or " Read " in first
        assert " read_file " in f" {second}"


PATCH = ToolCall("", "apply_patch", None, "*** Begin Patch\n*** Delete File: x\n*** End Patch", freeform=True)


@pytest.mark.parametrize(("model", "call", "begins"), [
    ("gpt-5", ToolCall("", "shell", {"command": ["bash", "-lc", "sleep 9"], "timeout_ms": 50}), '{"output":"command timed'),
    ("gpt-5.2", ToolCall("", "shell_command", {"command": "sleep 9", "timeout_ms": 50}), "Exit code: 124"),
    ("gpt-5.5", PATCH, "apply_patch verification failed"),
])  # fmt: skip
def test_errors_read_as_the_harness_says_them_and_nothing_stands_before(
    own: Builtins, model: str, call: ToolCall, begins: str
) -> None:
    transport = make_transport(Script([Reply((call,), "tools"), Reply((Text("done"),))]))
    agent = Orchestrator(make_engine("openai-responses", transport, model=model), tools=own.tools)
    asyncio.run(agent.run("Go on."))
    output = next(item["output"] for item in transport.sent[-1].body["input"] if item.get("type", "").endswith("_output"))
    assert output.startswith(begins)
    if model == "gpt-5":
        assert loads_object(output)["metadata"]["exit_code"] == 124


def test_an_error_of_a_custom_tool_is_marked(own: Builtins) -> None:
    transport = make_transport(Script([Reply((ToolCall("", "nothing", {}),), "tools"), Reply((Text("done"),))]))
    agent = Orchestrator(make_engine("openai-responses", transport, model="gpt-5.5"), tools=own.tools)
    asyncio.run(agent.run("Go on."))
    output = next(item["output"] for item in transport.sent[-1].body["input"] if item.get("type") == "function_call_output")
    assert output.startswith("Error: ")


def test_a_refusal_names_the_tool_as_the_model_does(own: Builtins) -> None:
    transport = make_transport(Script([Reply((ToolCall("", "Bash", {"command": "true"}),), "tools"), Reply((Text("done"),))]))
    config = ToolConfig(max_uses={"shell": 0})
    agent = Orchestrator(make_engine("anthropic", transport, model="claude-opus-5"), tools=own.tools, config=config)
    (outcome,) = asyncio.run(agent.run("Go on.")).outcomes
    assert "the tool 'Bash' has reached its limit of 0 uses" in outcome.result.text
    assert "shell" not in outcome.result.text


# ---- tools that stand in for others, and what is shown where they are not there


def offered(own: Builtins, model: str, names: set[str], *others: Any) -> set[str]:
    """The names that a model sees where only some of the built-in tools are there."""
    tools = [one for one in own.tools if one.name in names]
    agent = Orchestrator(f"simulator:{model}", tools=[*tools, *others])
    return {one.name for one in agent.view().tools()}


@pytest.mark.parametrize(("model", "names", "seen"), [
    ("openai-responses/gpt-5.5", {"read", "grep"}, {"read", "grep"}),
    ("openai-responses/gpt-5.5", {"read", "grep", "shell"}, {"exec_command"}),
    ("openai-responses/gpt-5.5", {"patch", "write", "edit"}, {"apply_patch"}),
    ("openai-responses/gpt-5.5", {"write", "edit"}, {"write", "edit"}),
    ("openai-responses/gpt-5.5", {"patch", "glob"}, {"apply_patch", "glob"}),
    ("openai-responses/gpt-5", {"patch", "shell"}, {"shell"}),
    ("openai-responses/gpt-5", {"patch", "read"}, {"patch", "read"}),
    ("anthropic/claude-opus-5", {"patch", "read_many"}, {"patch", "read_many"}),
    ("anthropic/claude-opus-5", {"read", "edit", "patch", "read_many"}, {"Read", "Edit"}),
    ("gemini/gemini-3-pro-preview", {"multi_edit"}, {"multi_edit"}),
])  # fmt: skip
def test_a_tool_that_no_other_does_the_work_of_is_shown_as_it_is(
    own: Builtins, model: str, names: set[str], seen: set[str]
) -> None:
    assert offered(own, model, names) == seen


@pytest.mark.parametrize(("model", "taken", "base"), [
    ("anthropic/claude-opus-5", "Read", "read"),
    ("openai-responses/gpt-5.5", "exec_command", "shell"),
    ("openai-responses/gpt-5.5", "apply_patch", "patch"),
    ("gemini/gemini-3-pro-preview", "read_file", "read"),
])  # fmt: skip
def test_a_custom_tool_keeps_its_name(own: Builtins, model: str, taken: str, base: str) -> None:
    @tool(name=taken)
    def mine(word: str) -> str:
        """Mine."""
        return word

    seen = offered(own, model, {one.name for one in own.tools}, mine)
    assert {taken, base} <= seen


def test_a_note_tells_of_no_programs_where_none_can_be_run(own: Builtins) -> None:
    tools = [one for one in own.tools if one.name in ("read", "grep")]
    agent = Orchestrator("simulator:openai-responses/gpt-5.5", tools=tools)
    face = agent.view().facade
    assert face is not None
    assert "rg" not in face.note
