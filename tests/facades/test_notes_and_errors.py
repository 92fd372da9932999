"""What a model is told beside its tools: the facade's note after the instructions, and errors in its
harness's own words.
"""

from typing import Any

import pytest

from toolglot.common.jsontext import loads_object
from toolglot.facades.catalog import find_facade
from toolglot.loop.agent.agent import Agent
from toolglot.loop.agent.config import PromptContext
from toolglot.tools.config import ToolConfig
from toolglot.tools.tool import tool
from toolglot.values.messages import ToolCall

from .conftest import Rig

CLAUDE = find_facade("claude-code").note


def instruct(rig: Rig, **options: Any) -> tuple[str, str]:
    """The instructions that were sent to Claude, and then to Gemini."""
    rig.run_calls("anthropic/claude-opus-5", **options)
    prompt: Any = rig.last_body.get("system", "")
    claude = prompt if isinstance(prompt, str) else "".join(part["text"] for part in prompt)
    rig.run_calls("gemini/gemini-3-pro-preview", **options)
    return claude, "".join(
        part["text"] for part in rig.last_body.get("systemInstruction", {"parts": ()})["parts"]
    )


class TestTheNote:
    def test_it_follows_the_instructions_with_the_names_of_each_model(self, rig: Rig) -> None:
        claude, gemini = instruct(rig, system="Be exact.")
        assert claude == f"Be exact.\n\n{CLAUDE}"
        assert gemini.startswith("Be exact.\n\n")
        assert "run_shell_command" in gemini
        assert "Bash" not in gemini

    def test_it_is_there_without_instructions_too(self, rig: Rig) -> None:
        assert instruct(rig)[0] == CLAUDE

    def test_it_names_no_tool_that_is_not_allowed(self, rig: Rig) -> None:
        texts = " ".join(instruct(rig, config=ToolConfig(allow=frozenset({"read"}))))
        assert not [
            name for name in ("Edit", "Bash", "Write", "replace", "run_shell_command") if name in texts
        ]

    def test_there_is_none_where_no_tools_are_offered(self, rig: Rig) -> None:
        assert instruct(rig, config=ToolConfig(enabled=False))[0] == ""

    @pytest.mark.parametrize(("code_mode", "language"), [("javascript", "JavaScript"), ("python", "Python")])
    def test_in_code_mode_it_says_how_the_tools_are_called(
        self, rig: Rig, code_mode: Any, language: str
    ) -> None:
        rig.run_calls("gemini/gemini-3-pro-preview", code_mode=code_mode)
        text = rig.last_body["systemInstruction"]["parts"][0]["text"]
        assert text.startswith(
            f"The tools named here are called from {language} code, with run_code: do independent steps"
        )
        assert text.endswith(find_facade("gemini-cli").note[-30:])
        rig.run_calls("openai-responses/gpt-5.6")  # whose own note says it
        assert rig.last_body["instructions"].startswith("Call all other tools from JavaScript, with exec: ")

    def test_a_function_that_writes_the_instructions_sees_the_native_tools(self, rig: Rig) -> None:
        def write(context: PromptContext) -> str:
            return " ".join(tool.name for tool in context.tools)

        claude, gemini = instruct(rig, system=write)
        assert " Read " in f" {claude}"
        assert " read_file " in f" {gemini}"


PATCH = ToolCall("", "apply_patch", None, "*** Begin Patch\n*** Delete File: x\n*** End Patch", freeform=True)


@pytest.mark.parametrize(("model", "call", "begins"), [
    ("gpt-5", ToolCall("", "shell", {"command": ["bash", "-lc", "sleep 9"], "timeout_ms": 50}), '{"output":"command timed'),
    ("gpt-5.1", ToolCall("", "shell_command", {"command": "sleep 9", "timeout_ms": 50}), "Exit code: 124"),
    ("gpt-5.5", PATCH, "apply_patch verification failed"),
    ("gpt-5.5", ToolCall("", "nothing", {}), "unsupported call: nothing"),
])  # fmt: skip
def test_errors_read_as_in_the_harness_with_nothing_before_them(
    rig: Rig, model: str, call: ToolCall, begins: str
) -> None:
    rig.run_calls(f"openai-responses/{model}", call)
    output = next(
        item["output"] for item in rig.last_body["input"] if item.get("type", "").endswith("_output")
    )
    assert output.startswith(begins)
    if model == "gpt-5":
        assert loads_object(output)["metadata"]["exit_code"] == 124


def test_a_refusal_names_the_tool_as_the_model_does(rig: Rig) -> None:
    call, config = ToolCall("", "Bash", {"command": "true"}), ToolConfig(max_uses={"shell": 0})
    (outcome,) = rig.run_calls("anthropic/claude-opus-5", call, config=config)
    assert "the tool 'Bash' has reached its limit of 0 uses" in outcome.result.text
    assert "shell" not in outcome.result.text


# ---- tools that stand in for others, and what is shown where they are not there


def visible_names(rig: Rig, model: str, names: set[str], *others: Any) -> set[str]:
    """The names that a model sees where only some of the built-in tools are there."""
    tools = [tool for tool in rig.builtins.tools if tool.name in names]
    agent = Agent(f"simulator:{model}", tools=[*tools, *others])
    return {tool.name for tool in agent.view().model_view.tools()}


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
    rig: Rig, model: str, names: set[str], seen: set[str]
) -> None:
    assert visible_names(rig, model, names) == seen


@pytest.mark.parametrize(("model", "taken", "base"), [
    ("anthropic/claude-opus-5", "Read", "read"),
    ("openai-responses/gpt-5.5", "exec_command", "shell"),
    ("openai-responses/gpt-5.5", "apply_patch", "patch"),
    ("gemini/gemini-3-pro-preview", "read_file", "read"),
])  # fmt: skip
def test_a_custom_tool_keeps_its_name(rig: Rig, model: str, taken: str, base: str) -> None:
    @tool(name=taken)
    def mine(word: str) -> str:
        """Mine."""
        return word

    seen = visible_names(rig, model, {tool.name for tool in rig.builtins.tools}, mine)
    assert {taken, base} <= seen


def test_a_note_names_no_programs_if_none_can_be_run(rig: Rig) -> None:
    tools = [tool for tool in rig.builtins.tools if tool.name in ("read", "grep")]
    agent = Agent("simulator:openai-responses/gpt-5.5", tools=tools)
    facade = agent.view().model_view.facade
    assert facade is not None
    assert "rg" not in facade.note


@pytest.mark.parametrize(("model", "call"), [
    # each result has its own times and ids
    ("openai-responses/gpt-5.5", ToolCall("", "exec_command", {"cmd": "true"})),
    ("anthropic/claude-opus-5", ToolCall("", "Read", {"file_path": "nothing"})),
    ("ollama/llama-4", ToolCall("", "read_file", {"path": "nothing"})),
])  # fmt: skip
def test_the_fourth_equal_call_is_answered_with_a_reminder(rig: Rig, model: str, call: ToolCall) -> None:
    outcomes = rig.run_calls(model, *[call] * 7)
    assert ["[Reminder: this call was made " in outcome.result.text for outcome in outcomes] == [
        False
    ] * 3 + [True] * 3 + [False]
    assert (outcomes[6].result.error_code, outcomes[6].ran) == ("repeated_call", False)
    rig.check()
