"""The built-in tools for a folder as one list: which of them are there, by whatever name they are asked for."""

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.tools.policy_kit import make_caller

from toolglot import builtin
from toolglot.builtin.configured import configured_builtins
from toolglot.builtin.shell.manager import ShellOptions
from toolglot.builtin.tool_state import UserQuestion
from toolglot.builtin.tools import BuiltinOptions, builtins, coding_tools
from toolglot.builtin.web.config import NO_SEARCH_SERVICE, WebConfig
from toolglot.config.settings import BuiltinSettings, PolicySettings, Settings
from toolglot.confine.sandbox import SandboxLevel
from toolglot.errors import UnknownName, UsageError
from toolglot.loop.agent.agent import Agent
from toolglot.tools.config import ToolConfig
from toolglot.tools.policy import ToolPolicy
from toolglot.values.approvals import Effect
from toolglot.values.request import BUILTIN_TAG


async def answers(questions: list[UserQuestion]) -> list[Any]:
    return ["yes" for _ in questions]


def names(folder: Path, **options: Any) -> list[str]:
    return [tool.name for tool in coding_tools(folder, **options)]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (["read"], ["read"]),
        (["Bash"], ["shell"]),
        (["Read", "Bash"], ["read", "shell"]),
        (["read_file", "run_shell_command", "replace"], ["read", "edit", "shell"]),
        (["exec_command", "apply_patch"], ["patch", "shell"]),
        (["shell", "Bash", "shell"], ["shell"]),
        (("grep", "edit"), ["edit", "grep"]),
        (iter(["grep", "Edit"]), ["edit", "grep"]),
        ([], []),
    ],
    ids=["ours", "theirs", "two of them", "of Gemini", "of Codex", "twice", "a tuple", "an iterator", "none"],
)
def test_names_are_ours_or_those_that_models_have(
    tmp_path: Path, wanted: Iterable[str], expected: list[str]
) -> None:
    """In the order of all of them, and nothing else."""
    assert names(tmp_path, names=wanted) == expected


@pytest.mark.parametrize(
    ("wanted", "stranger", "near"),
    [
        (["raed"], "raed", "read"),
        (["read", "shel"], "shel", "shell"),
        (["Bash", ""], "", ""),
        (["get_weather"], "get_weather", ""),
    ],
)
def test_a_name_that_nobody_has_is_named(tmp_path: Path, wanted: list[str], stranger: str, near: str) -> None:
    with pytest.raises(UnknownName, match=f"{stranger!r}") as caught:
        coding_tools(tmp_path, names=wanted)
    assert isinstance(caught.value, UsageError)
    assert "built-in tool" in str(caught.value)
    if near:
        assert f"did you mean {near!r}" in str(caught.value)


def test_an_agent_takes_the_built_in_tools_as_they_are(tmp_path: Path) -> None:
    loaded = builtins(tmp_path)
    with Agent("simulator:openai", tools=loaded) as agent:
        assert [tool.name for tool in agent.tools] == [tool.name for tool in loaded.tools]
    assert {*loaded} == {*loaded.tools}
    loaded.close()


def test_nobody_can_be_asked_without_somebody_who_answers(tmp_path: Path) -> None:
    assert "ask_user" not in names(tmp_path)
    assert "ask_user" in names(tmp_path, ask_user=answers)
    assert [name for name in names(tmp_path, ask_user=answers) if name != "ask_user"] == names(tmp_path)
    assert names(tmp_path, ask_user=answers, names=["ask_user"]) == ["ask_user"]


@pytest.mark.parametrize("name", ["ask_user", "AskUserQuestion"])
def test_a_question_that_nobody_answers_cannot_be_asked_for_by_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnknownName, match=name):
        coding_tools(tmp_path, names=[name])


@pytest.mark.parametrize(
    ("web", "has_search"),
    [
        (WebConfig(), False),
        (WebConfig(searxng_url="http://localhost"), True),
        (WebConfig(brave_key="k"), True),
        (WebConfig(tavily_key=lambda: "k"), True),
    ],
)
def test_a_tool_that_cannot_be_used_is_not_offered(tmp_path: Path, web: WebConfig, has_search: bool) -> None:
    options = BuiltinOptions(web=web)
    assert ("web_search" in names(tmp_path, options=options)) == has_search
    assert builtins(tmp_path, options=options).unusable == (
        {} if has_search else {"web_search": NO_SEARCH_SERVICE}
    )
    for name in ("web_search", "WebSearch", "google_web_search"):
        if has_search:
            assert names(tmp_path, options=options, names=[name]) == ["web_search"]
        else:
            with pytest.raises(
                UsageError,
                match=f"^{name} cannot be used: no search service is configured: set BRAVE_API_KEY",
            ):
                coding_tools(tmp_path, options=options, names=[name])


def test_a_tool_whose_extra_is_missing_is_not_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {"ast_search", "ast_rewrite"} <= {*names(tmp_path)}
    monkeypatch.setitem(sys.modules, "ast_grep_py", None)
    assert not {"ast_search", "ast_rewrite"} & {*names(tmp_path)}
    with pytest.raises(
        UsageError, match=r"ast_search cannot be used: .* run `pip install 'toolglot\[ast\]'`"
    ):
        coding_tools(tmp_path, names=["ast_search"])


def test_memory_is_there_where_it_has_a_folder(tmp_path: Path) -> None:
    added = set(names(tmp_path, state_dir=tmp_path / "state")) - set(names(tmp_path))
    assert added
    assert all("memory" in name for name in added)


def test_what_is_overwritten_is_kept_without_being_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, state = tmp_path / "work", tmp_path / "state"
    work.mkdir()
    monkeypatch.setenv("TOOLGLOT_STATE", str(state))
    options = (BuiltinOptions(), BuiltinOptions(backups=False))
    for number, option in enumerate(options):
        (work / "a.txt").write_text("before\n")
        tools = coding_tools(work, names=["read", "write"], options=option)
        assert state.exists() == bool(number)  # nothing is created before it is needed
        agent = Agent("simulator", tools=tools, facade="neutral", config=ToolConfig(approve=["write"]))
        agent.run_sync(
            'call read_file {"path": "a.txt"} then call write_file {"path": "a.txt", "content": "after"}'
        )
        assert (work / "a.txt").read_text() == "after"
        (conversation,) = (state / "backups").iterdir()
        (backup,) = conversation.iterdir()
        assert (backup.name.startswith("a.txt."), backup.read_text()) == (True, "before\n")


def test_old_backups_are_removed(tmp_path: Path) -> None:
    backups, old = tmp_path / "state" / "backups", time.time() - 31 * 24 * 3600
    backups.mkdir(parents=True, mode=0o700)
    names = ("old.0123456789abcdef", "new.0123456789abcdef", "mine.txt")
    for name in names:
        (backups / name).write_text("x")
        os.utime(backups / name, (old, old) if name != names[1] else None)
    for number in range(3):  # more than is kept, the first one being the oldest
        copy = backups / f"conversation{number}" / "big.0123456789abcdef"
        copy.parent.mkdir(mode=0o700)
        copy.touch()
        os.truncate(copy, 500 << 20)
        os.utime(copy, (old + 1e6 + number, old + 1e6 + number))
    coding_tools(tmp_path, state_dir=tmp_path / "state")
    assert sorted(path.name for path in backups.iterdir() if path.is_file()) == sorted(names[1:])
    assert sorted(path.parent.name for path in backups.glob("*/*")) == ["conversation1", "conversation2"]


def test_a_home_that_cannot_be_written_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TOOLGLOT_STATE", str(tmp_path / "file" / "state"))
    agent = Agent(
        "simulator", tools=coding_tools(tmp_path), facade="neutral", config=ToolConfig(approve=["write"])
    )
    assert [record.getMessage() for record in caplog.records] == [
        f"files are changed without backups: {tmp_path}/file/state/backups cannot be written; pass "
        "state_dir=, or backups=False"
    ]
    agent.run_sync('call write_file {"path": "a.txt", "content": "hello"}')
    assert (tmp_path / "a.txt").read_text() == "hello"


def test_options_count(tmp_path: Path) -> None:
    [shell] = coding_tools(
        tmp_path, names=["shell"], options=BuiltinOptions(shell=ShellOptions(level=SandboxLevel.NONE))
    )
    assert "network" in shell.effects
    with pytest.raises(UsageError):
        coding_tools(tmp_path / "nowhere")


def test_a_tool_needs_one_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipe for a new built-in tool: one file with `create_tools`."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "dice.py").write_text(
        "from toolglot.tools.tool import Tool\n"
        "def roll() -> int:\n    '''Roll a die.'''\n    return 4\n"
        "def create_tools(state):\n    return [Tool(roll, effects='read')]\n"
    )
    monkeypatch.setattr(builtin, "__path__", [*builtin.__path__, str(tmp_path / "package")])
    monkeypatch.delitem(sys.modules, "toolglot.builtin.dice", raising=False)
    (tool,) = coding_tools(tmp_path, names=["roll"])
    assert BUILTIN_TAG in tool.tags
    monkeypatch.delitem(sys.modules, "toolglot.builtin.dice")


@pytest.mark.parametrize(("ask", "asking"), [
    (None, {"shell", "write", "edit", "web_open", "web_search"}),
    (("network",), {"web_open", "web_search"}),
])  # fmt: skip
def test_which_tools_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: tuple[Effect, ...] | None, asking: set[str]
) -> None:
    """Each tool declares whether it asks by default; `policy.ask` decides by effects alone."""
    monkeypatch.setenv("TOOLGLOT_STATE", str(tmp_path / "state"))
    settings = Settings(
        builtin=BuiltinSettings(root=str(tmp_path), searxng_url="http://localhost"),
        policy=PolicySettings(ask=ask),
    )
    loaded = configured_builtins(settings)
    loaded.close()
    policy, caller = ToolPolicy(), make_caller(ToolConfig(ask=ask), can_ask=True)
    names = {
        "shell",
        "shell_output",
        "shell_kill",
        "write",
        "edit",
        "read",
        "memory",
        "todo",
        "web_search",
        "web_open",
    }
    tools = [tool for tool in loaded.tools if tool.name in names]
    assert {tool.name for tool in tools if policy.judge(tool, caller, {}).action == "ask"} == asking


def test_each_tool_says_what_it_does_and_what_rules_are_about(tmp_path: Path) -> None:
    """Facts that editors and rules need are declared with the tool, so that a new tool is one file."""
    for tool in builtins(tmp_path, ask_user=answers, state_dir=tmp_path / "state").all_tools:
        assert tool.action is not None, tool.name
        assert tool.verb is not None, tool.name
        takes_subjects = {"path", "command", "target", "include", "queries"} & {
            *(tool.definition.parameters or {})["properties"]
        }
        if takes_subjects and tool.name != "memory":  # whose paths are those of its own notes
            assert tool.scope is not None, tool.name
