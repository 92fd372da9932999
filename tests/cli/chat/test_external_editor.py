"""The user's editor: found outside the workspace."""

from pathlib import Path

import pytest

from toolglot.cli.chat import external_editor
from toolglot.cli.chat.external_editor import open_in_editor


@pytest.fixture
def note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file to edit; each editor adds its directory's name, and what PATH finds, and a fallback that fails
    is last.
    """
    (tmp_path / "work").mkdir()
    for name in ("work/bin/edit", "good/edit", "work/bin/helper", "good/helper", "good/fails"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            '#!/bin/sh\n[ "${0##*/}" = fails ] && exit 1\nfor file; do :; done\ncommand -v helper >> '
            '"$file"\n'
        )
        path.chmod(0o755)
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("PATH", f"bin::{tmp_path}/work/bin:{tmp_path}/good:/usr/bin:/bin")
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    monkeypatch.setattr(external_editor, "_EDITORS", (str(tmp_path / "good/fails"),))
    note = tmp_path / "note"
    note.touch()
    return note


@pytest.mark.parametrize(("variables", "is_edited"), [
    ({"EDITOR": "edit"}, True),
    ({"VISUAL": "edit --wait", "EDITOR": "fails"}, True),
    ({"VISUAL": "no-such-editor", "EDITOR": "edit"}, True),
    ({"VISUAL": "'not closed", "EDITOR": "edit"}, True),
    ({"EDITOR": "{work}/bin/edit"}, False),
    ({"EDITOR": "bin/edit"}, False),
    ({"VISUAL": "fails", "EDITOR": "edit"}, False),
    ({}, False),
])  # fmt: skip
def test_no_editor_of_the_workspace_is_started(
    note: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], is_edited: bool
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(work=note.parent / "work"))
    assert open_in_editor(str(note)) == is_edited
    assert note.read_text() == (f"{note.parent}/good/helper\n" if is_edited else "")
