"""One loopback server and one client for each module."""

from collections.abc import Iterator
from typing import Any, cast

import pytest

from .loopback import Loopback, loopback
from .sample_replies import Client


@pytest.fixture(scope="module")
def server() -> Iterator[Loopback]:
    """A running server."""
    with loopback() as server:
        yield server


@pytest.fixture(scope="module")
def adapter(request: pytest.FixtureRequest) -> Any:
    """The module that knows the client: the one that is tested."""
    return cast(Any, request).module


@pytest.fixture(scope="module")
def sdk(adapter: Any, server: Loopback) -> Iterator[Any]:
    """The official client, connected to the server."""
    with adapter.connect(server.url) as sdk:
        yield sdk


@pytest.fixture(scope="module")
def client(adapter: Any, server: Loopback, sdk: Any) -> Client:
    """What the official client reads over HTTP."""
    return adapter.live_client(server, sdk)
