"""Every test of the chat has a home directory of its own."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_home(isolated_home: Path) -> Path:
    return isolated_home
