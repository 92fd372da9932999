"""Every test of the chat has a home directory of its own, and leaves Ctrl-C as it was."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_home(isolated_home: Path) -> Path:
    return isolated_home


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """prompt_toolkit may restore the handler of an event loop that has ended."""
    handler = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, handler)
