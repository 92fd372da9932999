"""A home of its own for every test; no key and no setting of the real user is seen."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolglot.engine.signin import environment


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    before = dict(os.environ)
    for name in before:
        if name.startswith(("TOOLGLOT_", "XDG_")) or name in environment.KEY_VARIABLES:
            del os.environ[name]
    os.environ["HOME"] = os.environ["USERPROFILE"] = str(tmp_path)
    os.environ["TOOLGLOT_CONFIG"] = str(tmp_path / "user" / "config.toml")
    os.environ["TOOLGLOT_STATE"] = str(tmp_path / "state")
    monkeypatch.chdir(tmp_path)
    for name, fresh in (("_hidden", dict[str, str]()), ("_more", set[str]())):
        monkeypatch.setattr(environment, name, fresh)
    yield tmp_path
    os.environ.clear()
    os.environ.update(before)
