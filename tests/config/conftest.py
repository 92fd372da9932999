"""A home of its own for every test: no file and no variable of the real user is read."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from homes import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture(autouse=True)
def own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith(("TOOLGLOT_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("TOOLGLOT_CONFIG", str(tmp_path / "user" / "config.toml"))
    monkeypatch.setenv("TOOLGLOT_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    yield
    for name, module in list(sys.modules.items()):  # tools of one test must not be found by the next
        if str(tmp_path) in (getattr(module, "__file__", None) or ""):
            del sys.modules[name]
