"""One loopback server for each module."""

from collections.abc import Iterator

import pytest

from .loopback import Loopback, loopback


@pytest.fixture(scope="module")
def server() -> Iterator[Loopback]:
    """A running server."""
    with loopback() as server:
        yield server
