"""The tool `load_skill`, under every name that models have for it, and the files and scripts of a skill."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from toolglot.builtin.tools import BuiltinOptions, Builtins, builtins
from toolglot.common.jsontext import dumps_text
from toolglot.common.skills import Skill, read_skill
from toolglot.engine.simulated import SimulatedTransport
from toolglot.errors import ToolError
from toolglot.facades.catalog import FACADE_MODULES
from toolglot.loop.agent.agent import Agent
from toolglot.simulator.core import Simulator
from toolglot.simulator.model import Script
from toolglot.tools.context import Context
from toolglot.tools.registry import ToolRegistry
from toolglot.values.approvals import Approve
from toolglot.values.messages import ToolCall

Calls = tuple[tuple[str, dict[str, Any]], ...]
NATIVE = {"claude": "Skill", "gemini": "activate_skill", "qwen": "skill"}


@pytest.fixture
def skill(tmp_path: Path) -> Skill:
    directory = tmp_path / "home" / "release-notes"
    (directory / "scripts").mkdir(parents=True)
    head = "---\nname: release-notes\ndescription: Writes notes.\nallowed-tools: Bash Write\n---\n\n"
    (directory / "SKILL.md").write_text(f"{head}Run scripts/list.sh for $ARGUMENTS.\n")
    (directory / "scripts" / "list.sh").write_text("echo listed $1\n")
    return read_skill(directory, "user")


def start(
    builtins: Builtins, *turns: Calls, facade: str = "neutral", approve: Approve | None = None
) -> Agent:
    """An agent whose model makes these calls, turn by turn."""
    texts = [
        "\n".join(f"call {name} {dumps_text(arguments)}" for name, arguments in calls) for calls in turns
    ]
    transport = SimulatedTransport(Simulator(Script([*texts, "say done"])))
    return Agent(
        "simulator",
        tools=builtins.tools,
        facade=facade,
        approve=approve,
        transport=transport,
        code_mode=False,
    )


def open_builtins(tmp_path: Path, *skills: Skill) -> Builtins:
    (root := tmp_path / "work").mkdir(exist_ok=True)
    return builtins(root, options=BuiltinOptions(skills=skills), state_dir=tmp_path / "state")


def test_there_is_no_tool_without_skills(tmp_path: Path, skill: Skill) -> None:
    assert "load_skill" not in {tool.name for tool in open_builtins(tmp_path).tools}
    assert "load_skill" in {tool.name for tool in open_builtins(tmp_path, skill).tools}
    for_users = replace(skill, is_listed=False)
    assert "load_skill" not in {tool.name for tool in open_builtins(tmp_path, for_users).tools}


def test_it_returns_instructions_directory_and_files(tmp_path: Path, skill: Skill) -> None:
    tool = ToolRegistry(open_builtins(tmp_path, skill).tools).get("load_skill")
    call = ToolCall("c", "load_skill", {"name": "release-notes", "arguments": "1.2"})
    output = tool.call(tool.bind(call).values, Context(call))
    assert output.content == (
        f"Skill release-notes in {skill.directory} (its paths are relative to this directory)\n\n"
        "Run scripts/list.sh for 1.2.\n\nFiles of the skill:\n- scripts/list.sh"
    )
    with pytest.raises(ToolError, match="did you mean 'release-notes'"):
        tool.call({"name": "release-note"}, Context(call))
    with pytest.raises(ToolError, match="name is 'zzz', which is no skill; available: release-notes"):
        tool.call({"name": "zzz"}, Context(call))
    (skill.directory / "SKILL.md").unlink()
    with pytest.raises(ToolError, match="cannot be loaded: its SKILL"):
        tool.call({"name": "release-notes"}, Context(call))


@pytest.mark.parametrize("facade", FACADE_MODULES)
def test_every_model_can_load_one(tmp_path: Path, skill: Skill, facade: str) -> None:
    native = next((name for prefix, name in NATIVE.items() if facade.startswith(prefix)), "load_skill")
    parameter = {"Skill": "skill", "skill": "skill"}.get(native, "name")
    parameter = "command" if facade == "claude-code-2.0" else parameter
    builtins = open_builtins(tmp_path, skill)
    agent = start(builtins, ((native, {parameter: "release-notes"}),), facade=facade)
    result = agent.run_sync("Write the notes.")
    text = agent.conversation[2].results[0].text
    assert result.text == "done"
    assert "Run scripts/list.sh for" in text
    assert str(skill.directory) in text
    builtins.close()


def test_files_can_be_read_but_not_changed_and_scripts_run_as_commands(tmp_path: Path, skill: Skill) -> None:
    builtins = open_builtins(tmp_path, skill)
    script = skill.directory / "scripts" / "list.sh"
    agent = start(
        builtins,
        (("read_file", {"path": str(script)}), ("write_file", {"path": str(script), "content": "evil"})),
        (("shell", {"command": f"sh {script} it; echo evil >> {script}"}),),
        approve=lambda _: "yes",
    )
    agent.run_sync("Go.")
    read, written = (result.text for result in agent.conversation[2].results)
    assert "echo listed $1" in read
    assert "read-only" in written
    assert "listed it" in agent.conversation[4].results[0].text
    assert script.read_text() == "echo listed $1\n"
    builtins.close()


def test_allowed_tools_allow_nothing(tmp_path: Path, skill: Skill) -> None:
    builtins = open_builtins(tmp_path, skill)
    calls = (("load_skill", {"name": "release-notes"}),), (("write_file", {"path": "a", "content": "b"}),)
    agent = start(builtins, *calls, approve=lambda _: "later")
    assert agent.run_sync("Go.").stop == "approval"
    builtins.close()
