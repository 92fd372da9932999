"""Fixtures of the workspace tests: a fast directory, and both ways of opening a path."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolglot.confine import confined_open


@pytest.fixture
def top() -> Iterator[Path]:
    """A directory that an ordinary user can reach, in memory if possible: thousands of files are synced."""
    fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    directory = Path(tempfile.mkdtemp(dir=fast))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(params=["kernel", "walk"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "walk":
        monkeypatch.setattr(confined_open, "has_openat2", lambda: False)
    elif not confined_open.has_openat2():
        pytest.skip("this kernel has no openat2")
    return request.param
