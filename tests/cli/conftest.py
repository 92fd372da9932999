"""Fixtures of the command line's tests."""

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolglot.engine.signin import environment


@pytest.fixture
def isolated_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of its own, and a home without any key or setting of the real user. Logging and modules are restored."""
    original, modules, logger = dict(os.environ), set(sys.modules), logging.getLogger("toolglot")
    level, handlers = logger.level, list(logger.handlers)
    for name in original:
        if name.startswith(("TOOLGLOT_", "XDG_")) or name in environment.KEY_VARIABLES:
            del os.environ[name]
    (home := tmp_path.with_name(f"{tmp_path.name}-home")).mkdir()  # not in the workspace
    os.environ["HOME"] = os.environ["USERPROFILE"] = str(home)
    user_file = tmp_path / "user" / "config.toml"
    user_file.parent.mkdir()
    user_file.touch()
    os.environ["TOOLGLOT_CONFIG"] = str(user_file)
    os.environ["TOOLGLOT_STATE"] = str(tmp_path / "state")
    os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(environment, "_hidden_keys", {})
    monkeypatch.setattr(environment, "_extra_names", set[str]())
    yield tmp_path
    os.environ.clear()
    os.environ.update(original)
    for handler in set(logger.handlers) - set(handlers):
        logger.removeHandler(handler)
        handler.close()
    logger.setLevel(level)
    for name in set(sys.modules) - modules:  # tools of one test must not be found by the next
        if str(tmp_path) in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]
