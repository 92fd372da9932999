"""Fixtures of the editor agent's tests."""

from pathlib import Path

import pytest


@pytest.fixture
def note(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    file = tmp_path / "work" / "note.txt"
    file.write_text("one\ntwo\nthree\n", encoding="utf-8")
    return file
