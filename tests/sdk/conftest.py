"""One loopback server for each module."""

from collections.abc import Iterator

import pytest

from .server import Loopback, loopback


@pytest.fixture(scope="module")
def server() -> Iterator[Loopback]:
    """A running server."""
    with loopback() as server:
        yield server
