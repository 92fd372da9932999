"""/save: the old file is there until the new one is whole, and nobody else can read either."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from chat_harness import talk

from toolglot.messages import load

SAY = "say something worth keeping"


def full(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def broken(*_: Any, **__: Any) -> Any:
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize(
    ("where", "fault", "words"),
    [
        ("os.fsync", full, "No space left on device"),
        ("os.replace", broken, "Input/output error"),
        ("tempfile.mkstemp", full, "No space left on device"),
    ],
    ids=["not all is written", "not put in its place", "no new file"],
)
def test_a_save_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, fault: Any, words: str
) -> None:
    file = tmp_path / "chats" / "chat.jsonl"
    talk(SAY, f"/save {file}")
    before = file.read_bytes()

    def breaks(_: Any) -> str:
        monkeypatch.setattr(where, fault)
        return f"/save {file}"

    def mends(_: Any) -> str:
        monkeypatch.undo()
        return "say on we go"

    over = talk("say other words", breaks, mends)
    assert over.has("cannot save to", words)
    assert "on we go" in over.shown
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == ["chat.jsonl"]


def test_what_cannot_be_saved_does_not_touch_the_file(tmp_path: Path) -> None:
    """The conversation is made into bytes before the file is opened."""
    file = tmp_path / "chat.jsonl"
    file.write_bytes(b"precious")

    def breaks(chat: Any) -> str:
        def unsaved() -> bytes:
            raise ValueError("it cannot be written down")

        chat.agent.save = unsaved
        return f"/save {file}"

    over = talk(SAY, breaks, "say on we go")
    assert over.has("cannot save to", "it cannot be written down")
    assert "on we go" in over.shown
    assert file.read_bytes() == b"precious"


def test_a_file_that_is_replaced_is_another_file(tmp_path: Path) -> None:
    """Whoever has the old one open goes on reading it whole."""
    file = tmp_path / "chat.jsonl"
    talk(SAY, f"/save {file}")
    before = file.read_bytes()
    with open(file, "rb") as held:
        talk("say one", "say two", f"/save {file}")
        assert held.read() == before
    assert len(load(file.read_bytes())[0]) == 4


@pytest.mark.skipif(os.name != "posix", reason="needs the modes of files")
@pytest.mark.parametrize("mode", [None, 0o644, 0o600, 0o666])
def test_what_is_saved_is_its_owners_alone(tmp_path: Path, mode: int | None) -> None:
    file = tmp_path / "new" / "folder" / "chat.jsonl"
    if mode is not None:
        file.parent.mkdir(parents=True)
        file.touch()
        file.chmod(mode)
    talk(SAY, f"/save {file}")
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(load(file.read_bytes())[0]) == 2
