"""Unsaved changes in the editor."""

import os
from pathlib import Path

import pytest
from editor_kit import EDIT, WITH_BUFFERS, open_editor

from toolglot.acp import session as acp_session
from toolglot.acp.file_watch import FileWatch
from toolglot.builtin.files.workspace import Workspace
from toolglot.builtin.tools import coding_tools
from toolglot.values.messages import ToolCall

pytestmark = pytest.mark.usefixtures("isolated_home")


async def test_unsaved_changes_in_the_editor_are_not_overwritten(tmp_path: Path, note: Path) -> None:
    async with open_editor(tmp_path, capabilities=WITH_BUFFERS) as (editor, session):
        editor.buffers[str(note)] = "one\r\ntwo\r\nthree"  # only loaded
        await editor.prompt(session, EDIT)
        assert note.read_text(encoding="utf-8") == "one\nTWO\nthree\n"
        editor.buffers[str(note)] = "something that the user is writing\n"
        await editor.prompt(
            session, 'call Edit {"file_path": "note.txt", "old_string": "TWO", "new_string": "2"}'
        )
        assert editor.requests == []
        assert "unsaved changes" in editor.calls()["Edit note.txt"]["content"][0]["content"]["text"]
        await editor.prompt(session, 'call Read {"file_path": "note.txt"}')
        assert (
            "this is the saved version" in editor.calls()["Read note.txt"]["content"][-1]["content"]["text"]
        )
    assert note.read_text(encoding="utf-8") == "one\nTWO\nthree\n"


async def test_an_editor_that_does_not_return_buffers_stops_nothing(
    tmp_path: Path, note: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acp_session, "BUFFER_SECONDS", 0.01)
    async with open_editor(tmp_path, capabilities=WITH_BUFFERS) as (editor, session):
        editor.buffers[str(note)] = None
        assert (await editor.prompt(session, EDIT.replace("TWO", "Two"))).stop_reason == "end_turn"
        assert note.read_text(encoding="utf-8") == "one\nTwo\nthree\n"
        note.write_text("one\ntwo\nthree\n", encoding="utf-8")
        editor.is_stuck = True
        assert (await editor.prompt(session, EDIT)).stop_reason == "end_turn"
    assert note.read_text(encoding="utf-8") == "one\nTWO\nthree\n"


async def test_only_regular_files_of_the_workspace_are_looked_at(tmp_path: Path) -> None:
    (root := tmp_path / "work").mkdir()
    (tmp_path / "outside.txt").write_text("secret", encoding="utf-8")
    os.mkfifo(root / "pipe")
    (root / "note.txt").write_text("one", encoding="utf-8")
    [tool] = coding_tools(root, names=["read"])
    paths: list[str] = []

    async def read_buffer(path: str) -> None:
        paths.append(path)

    files = FileWatch(lambda call: tool, read_buffer)
    files.workspace = Workspace(root)
    for path in ("pipe", "../outside.txt", "note.txt"):
        assert await files.before_tool(ToolCall("1", "read", {"path": path})) is None
    assert paths == [str(root / "note.txt")]
