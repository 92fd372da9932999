"""What a model is told beside its tools: the facade's note after the instructions, and errors in its harness's own words."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.handover.scenes import engine_for, recording

from toolglot.builtin.tools import Builtins, builtins
from toolglot.facades.select import find_facade
from toolglot.jsontext import loads_object
from toolglot.loop.orchestrator import Orchestrator, PromptContext
from toolglot.messages import Reply, Text, ToolCall
from toolglot.simulator.core import Script
from toolglot.tools.config import ToolConfig

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
    transport = recording(Script(replies))

    async def play() -> None:
        agent = Orchestrator(engine_for("anthropic", transport, model="claude-opus-5"), tools=own.tools, **options)
        await agent.run("Go on.")
        agent.switch(engine_for("gemini", transport, model="gemini-3-pro-preview"))
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
        first, second = told(own, config=ToolConfig(allowed=frozenset({"read"})))
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


@pytest.mark.parametrize(
    ("model", "call", "begins"),
    [
        ("gpt-5", ToolCall("", "shell", {"command": ["bash", "-lc", "sleep 9"], "timeout_ms": 50}), '{"output":"command timed'),
        ("gpt-5.2", ToolCall("", "shell_command", {"command": "sleep 9", "timeout_ms": 50}), "Exit code: 124"),
        ("gpt-5.5", PATCH, "apply_patch verification failed"),
    ],
)
def test_errors_read_as_the_harness_says_them_and_nothing_stands_before(
    own: Builtins, model: str, call: ToolCall, begins: str
) -> None:
    transport = recording(Script([Reply((call,), "tools"), Reply((Text("done"),))]))
    agent = Orchestrator(engine_for("openai-responses", transport, model=model), tools=own.tools)
    asyncio.run(agent.run("Go on."))
    output = next(item["output"] for item in transport.sent[-1].body["input"] if item.get("type", "").endswith("_output"))
    assert output.startswith(begins)
    if model == "gpt-5":
        assert loads_object(output)["metadata"]["exit_code"] == 124


def test_an_error_of_a_tool_of_ones_own_is_marked_as_before(own: Builtins) -> None:
    transport = recording(Script([Reply((ToolCall("", "nothing", {}),), "tools"), Reply((Text("done"),))]))
    agent = Orchestrator(engine_for("openai-responses", transport, model="gpt-5.5"), tools=own.tools)
    asyncio.run(agent.run("Go on."))
    output = next(item["output"] for item in transport.sent[-1].body["input"] if item.get("type") == "function_call_output")
    assert output.startswith("Error: ")


def test_a_refusal_names_the_tool_as_the_model_does(own: Builtins) -> None:
    transport = recording(Script([Reply((ToolCall("", "Bash", {"command": "true"}),), "tools"), Reply((Text("done"),))]))
    config = ToolConfig(max_uses={"shell": 0})
    agent = Orchestrator(engine_for("anthropic", transport, model="claude-opus-5"), tools=own.tools, config=config)
    (outcome,) = asyncio.run(agent.run("Go on.")).outcomes
    assert "the tool 'Bash' may be used 0 times" in outcome.result.text
    assert "shell" not in outcome.result.text
