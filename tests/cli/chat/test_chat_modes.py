"""The chat's approval modes: offered at the first question that the sandbox would answer, and `/mode`."""

from pathlib import Path
from typing import Any

import pytest
from chat_harness import Talk, talk

from toolglot import coding_tools
from toolglot.builtin.code_mode.process import find_level
from toolglot.config.settings import BuiltinSettings, PolicySettings, Settings
from toolglot.config.setup import Setup
from toolglot.confine import sandbox_probe
from toolglot.confine.sandbox import SandboxLevel
from toolglot.confine.sandbox_probe import SandboxProbe

OFFER = "m+Enter sandboxed mode"
MAKE_A = 'call shell {"command": "echo x > a"}'
MAKE_B = 'call shell {"command": "echo x > b"}'
ESCALATE = 'call shell {"command": "echo x > c", "escalate": true}'
OPEN = 'call web_open {"target": "http://192.0.2.1/"}'
has_sandbox = pytest.mark.skipif(find_level() is SandboxLevel.NONE, reason="no sandbox works here")


def chat(root: Path, *lines: str, **settings: Any) -> Talk:
    setup = Setup(Settings(facade="neutral", **settings))
    return talk(*lines, tools=coding_tools(root), setup=setup)


def offers(ended: Talk) -> list[bool]:
    return [OFFER in question for question in ended.reader.questions]


@has_sandbox
def test_it_is_offered_once_at_the_first_question(tmp_path: Path) -> None:
    ended = chat(tmp_path, OPEN, "n", MAKE_A, "n", MAKE_B, "n")
    assert offers(ended) == [False, True, False]
    assert ended.shown.count("sandboxed mode: edits of the workspace, and commands in the sandbox") == 1


@has_sandbox
def test_taking_it_runs_the_call_and_asks_no_more_about_such_calls(tmp_path: Path) -> None:
    ended = chat(tmp_path, f"{MAKE_A} then {MAKE_B}", "mode", ESCALATE, "n", OPEN, "n")
    assert len(ended.reader.questions) == 3
    assert sorted(path.name for path in tmp_path.glob("?")) == ["a", "b"]
    assert ended.agent.config.mode == "sandboxed"
    assert " · sandboxed · " in ended.chat.status()


@has_sandbox
def test_mode_switches_and_stays_with_another_model(tmp_path: Path) -> None:
    ended = chat(
        tmp_path, "/mode sandboxed", "/model simulator:gemini", MAKE_A, "/new", "/mode ask", MAKE_B, "n"
    )
    assert [path.name for path in tmp_path.glob("?")] == ["a"]
    assert offers(ended) == [True]


@has_sandbox
def test_the_modes_are_listed(tmp_path: Path) -> None:
    ended = chat(tmp_path, "/mode", "/mode sandboxed", "/mode", "/mode yolo")
    marked = [line for line in ended.lines if line.startswith("* ")]
    assert [line.partition(":")[0] for line in marked] == ["* ask", "* sandboxed"]
    assert ended.has("approval mode", "'yolo'", "ask, sandboxed")


@has_sandbox
def test_tools_are_marked_as_the_mode_asks(tmp_path: Path) -> None:
    ended = chat(tmp_path, "/tools", "/mode sandboxed", "/tools")
    marks = [(line.split()[0], line.endswith("asks first")) for line in ended.lines if " " in line]
    asking = {"shell", "shell_output", "write", "edit", "web_open"}
    assert [mark for mark in marks if mark[0] in asking] == [
        *((name, True) for name, _ in marks[: len(marks) // 2] if name in asking),
        *((name, name == "web_open") for name, _ in marks[len(marks) // 2 :] if name in asking),
    ]


@pytest.mark.parametrize(("settings", "problem"), [
    ({"builtin": BuiltinSettings(sandbox=False)}, "remove --no-sandbox"),
    ({"policy": PolicySettings(ask=("write",))}, "policy.ask says what needs approval"),
    ({}, "none works here: install it"),
])  # fmt: skip
def test_it_is_neither_offered_nor_taken_where_it_cannot_hold(
    settings: dict[str, Any], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = SandboxProbe(SandboxLevel.NONE, {"bubblewrap": "install it"})

    def probe(roots: object) -> SandboxProbe:
        return none

    tools = coding_tools(tmp_path)
    monkeypatch.setattr(sandbox_probe, "probe_sandbox", probe)
    ended = talk(
        MAKE_A,
        "n",
        "/mode sandboxed",
        MAKE_B,
        "n",
        tools=tools,
        setup=Setup(Settings(facade="neutral", **settings)),
    )
    assert offers(ended) == [False, False]
    assert problem in ended.shown.replace("\n", " ")
    assert ended.agent.config.mode == "ask"


def test_a_program_is_not_asked_for_its_own_tools(tmp_path: Path) -> None:
    assert offers(talk('call wipe {"path": "x"}', "n")) == [False]
