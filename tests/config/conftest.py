"""A home of its own for every test: no file and no variable of the real user is read."""

import os
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest
from homes import Home

from toolglot.common import known_keys


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
    # Some tests have keys that are paths: they would be hidden in the messages that later tests read.
    monkeypatch.setattr(known_keys, "_used_keys", deque[str](maxlen=256))
    yield
    for name, module in list(sys.modules.items()):  # tools of one test must not be found by the next
        if str(tmp_path) in (getattr(module, "__file__", None) or ""):
            del sys.modules[name]
