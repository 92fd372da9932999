"""What the command line stores is in docs/data.md, and nobody else can read it."""

import json
import re
import stat
from pathlib import Path

import pytest
from tests.cli.cli_kit import run_program

from toolglot.confine.sandbox import SandboxLevel
from toolglot.confine.sandbox_probe import probe_sandbox

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "data.md").read_text(encoding="utf-8")


def list_documented(kind: str) -> set[str]:
    """The first parts of the paths that the page names below a directory."""
    return {name.split("/")[0] for name in re.findall(rf"\| {kind}: `([^`]+)`", PAGE)}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home directory after a session."""
    home, workspace = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    workspace.mkdir()
    (workspace / "AGENTS.md").write_text("Be brief.\n", encoding="utf-8")
    variables = {"HOME": str(home), "XDG_STATE_HOME": "", "XDG_DATA_HOME": "", "TOOLGLOT_STATE": ""}

    def run(*words: str, stdin: str = "") -> None:
        outcome = run_program(*words, stdin=stdin, cwd=workspace, **variables)
        assert outcome.code == 0, outcome.err

    def call(tool: str, **arguments: str) -> None:
        run("call", tool, json.dumps(arguments), "--root", ".", "--yes")

    call("write", path="a.txt", content="old")
    call("patch", text="*** Begin Patch\n*** Delete File: a.txt\n*** End Patch")
    call("memory", command="create", path="/memories/note.md", file_text="note")
    call("shell", command="mkdir -p b/.vscode; echo x > b/.vscode/tasks.json")
    run("chat", "-m", "simulator", "--no-builtin", stdin="hello\n/save\n/quit\n")
    run("trust", ".")
    return home


@pytest.mark.skipif(probe_sandbox().level is SandboxLevel.NONE, reason="no sandbox works here")
def test_what_is_stored_is_documented_and_private(home: Path) -> None:
    state, data = home / ".local/state/toolglot", home / ".local/share/toolglot"
    assert {path.name for path in home.iterdir()} == {".local"}
    assert {"audit.jsonl", "backups", "memory", "shell"} <= {path.name for path in state.iterdir()}
    assert {"chats", "trust.json"} <= {path.name for path in data.iterdir()}
    assert {path.name for path in state.iterdir()} <= list_documented("state")
    assert {path.name for path in data.iterdir()} <= list_documented("data")
    for path in (state, data, *state.rglob("*"), *data.rglob("*")):
        # What a command created keeps its mode, in a directory that others cannot enter.
        if "removed" not in path.relative_to(home).parts[:-1]:
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
