"""Tools that Codex had for a while: understood, answered in their own words, and never shown."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.handover.harness import make_engine, make_transport

from toolglot.builtin.tools import builtins
from toolglot.facades.bound_facade import BoundFacade
from toolglot.facades.catalog import BASE_TOOLS, find_facade
from toolglot.loop.orchestrator import Orchestrator
from toolglot.messages import Reply, Text, ToolCall
from toolglot.simulator.core import Script

GPT = ("codex", "codex-shell-command", "codex-shell", "codex-oss", "openai", "openai-hosted")
OLD = {"read_file", "grep_files", "list_dir"}


@pytest.mark.parametrize("facade", GPT)
def test_they_are_not_shown(facade: str) -> None:
    face = BoundFacade(find_facade(facade), "gpt", BASE_TOOLS)
    assert not OLD & {*face.names, *(one.name for one in face.definitions)}


def answers(tmp_path: Path, facade: str, *calls: tuple[str, dict[str, Any]]) -> list[str]:
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "a.py").write_text("one\ntwo\n" + "x" * 600 + "\n")
    (tmp_path / "src" / "deep" / "b.txt").write_text("two\n")
    own = builtins(tmp_path)
    replies = [Reply((ToolCall("", name, arguments),), "tools") for name, arguments in calls]
    transport = make_transport(Script([*replies, Reply((Text("done"),))]))
    agent = Orchestrator(make_engine("openai-responses", transport, model="gpt-5.5"), tools=own.tools, facade=facade)
    result = asyncio.run(agent.run("Go on."))
    own.close()
    return [one.result.text for one in result.outcomes]


def test_files_read_as_they_did(tmp_path: Path) -> None:
    whole, part, absent = answers(
        tmp_path,
        "codex",
        ("read_file", {"file_path": "src/a.py", "mode": "indentation", "indentation": {"anchor_line": 1}}),
        ("read_file", {"file_path": "src/a.py", "offset": 2, "limit": 1}),
        ("read_file", {"file_path": "nowhere"}),
    )
    assert whole == f"L1: one\nL2: two\nL3: {'x' * 500}"
    assert part == "L2: two"
    assert "nowhere" in absent


def test_searches_and_listings_too(tmp_path: Path) -> None:
    found, none, listed, page = answers(
        tmp_path,
        "codex-shell",
        ("grep_files", {"pattern": "two", "include": "*.py"}),
        ("grep_files", {"pattern": "three"}),
        ("list_dir", {"dir_path": "src"}),
        ("list_dir", {"path": "src", "depth": 1, "limit": 1}),
    )
    assert found == str(tmp_path / "src" / "a.py")
    assert none == "No matches found."
    assert listed.split("\n")[1:] == ["deep/", "  b.txt", "a.py"]
    assert listed.startswith("Absolute path: ")
    assert page.endswith("\ndeep/\nMore than 1 entries found")


def test_a_patch_may_be_a_call_where_it_is_shown_as_a_command(tmp_path: Path) -> None:
    patch = "*** Begin Patch\n*** Add File: new.txt\n+new\n*** End Patch"
    (said,) = answers(tmp_path, "codex-shell", ("apply_patch", {"input": patch}))
    assert said.startswith("Exit code: 0")
    assert (tmp_path / "new.txt").read_text() == "new\n"
