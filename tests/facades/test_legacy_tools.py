"""Tools that Codex had for a while: understood, answered in their own words, and never shown."""

from pathlib import Path

import pytest

from toolglot.messages import ToolCall

from .conftest import Desk
from .scenarios import bind

GPT = "openai-responses/gpt-5.5"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "a.py").write_text("one\ntwo\n" + "x" * 600 + "\n")
    (tmp_path / "src" / "deep" / "b.txt").write_text("two\n")
    return tmp_path


@pytest.mark.parametrize("facade", ["codex", "codex-shell-command", "codex-shell", "codex-oss", "openai", "openai-hosted"])
def test_they_are_not_shown(facade: str) -> None:
    names = {*bind(facade).names, *(definition.name for definition in bind(facade).definitions)}
    assert not {"read_file", "grep_files", "list_dir"} & names


def test_files_are_read_as_before(desk: Desk, files: Path) -> None:
    options = {"mode": "indentation", "indentation": {"anchor_line": 1}}
    calls = (
        ToolCall("", "read_file", {"file_path": "src/a.py", **options}),
        ToolCall("", "read_file", {"file_path": "src/a.py", "offset": 2, "limit": 1}),
        ToolCall("", "read_file", {"file_path": "nowhere"}),
    )
    whole, part, absent = (outcome.result.text for outcome in desk.work(GPT, *calls, facade="codex"))
    assert (whole, part) == (f"L1: one\nL2: two\nL3: {'x' * 500}", "L2: two")
    assert "nowhere" in absent


def test_searches_and_listings_are_as_before(desk: Desk, files: Path) -> None:
    calls = (
        ToolCall("", "grep_files", {"pattern": "two", "include": "*.py"}),
        ToolCall("", "grep_files", {"pattern": "three"}),
        ToolCall("", "list_dir", {"dir_path": "src"}),
        ToolCall("", "list_dir", {"path": "src", "depth": 1, "limit": 1}),
    )
    matches, none, entries, page = (outcome.result.text for outcome in desk.work(GPT, *calls, facade="codex-shell"))
    assert (matches, none) == (str(files / "src" / "a.py"), "No matches found.")
    assert entries.split("\n")[1:] == ["deep/", "  b.txt", "a.py"]
    assert entries.startswith("Absolute path: ")
    assert page.endswith("\ndeep/\nMore than 1 entries found")


def test_a_patch_may_be_a_call_where_it_is_shown_as_a_command(desk: Desk, tmp_path: Path) -> None:
    patch = "*** Begin Patch\n*** Add File: new.txt\n+new\n*** End Patch"
    (outcome,) = desk.work(GPT, ToolCall("", "apply_patch", {"input": patch}), facade="codex-shell")
    assert outcome.result.text.startswith("Exit code: 0")
    assert (tmp_path / "new.txt").read_text() == "new\n"
