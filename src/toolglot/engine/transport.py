"""How bytes get to a provider and back: one method.

Laws: a transport never retries, never follows a redirect to another host, and raises errors of our tree only. Bytes are handed
on as they come. What times out says which phase it was in.
"""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from toolglot.redact import redact

__all__ = ["HttpRequest", "HttpResponse", "Timeouts", "Transport"]


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds. None: wait for ever."""

    connect: float | None = 10.0
    first_byte: float | None = 600.0
    """From the request to the head of the answer: a whole answer comes only when the model has finished."""
    idle: float | None = 120.0
    """Between two pieces of an answer."""


class HttpRequest(msgspec.Struct, frozen=True, gc=False):
    """A request as it goes out."""

    url: str
    headers: dict[str, str]
    body: bytes
    stream: bool = False
    """Whether the answer is wanted piece by piece; else the transport may collect it."""
    method: str = "POST"

    def __repr__(self) -> str:
        """Without the headers, which hold a key; an address may hold one too."""
        return f"HttpRequest({self.method} {redact(self.url, by_name=True)}, {len(self.body)} bytes)"


class HttpResponse(Protocol):
    """The head of an answer; its body is read piece by piece. It is always closed by the one who asked."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]:
        """Names are in lower case."""
        ...

    async def read(self) -> bytes:
        """The next bytes as they came; b"" at the end. Raises ConnectionLost, TimedOut."""
        ...

    async def close(self) -> None:
        """Gives the connection back, or drops it where the body was not read to its end. May be called twice."""
        ...


class Transport(Protocol):
    """Sends requests. One transport serves many conversations at once and keeps its connections."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        """The head of the answer. Raises ConnectFailed, TimedOut, ConnectionLost; UsageError for what cannot be sent."""
        ...
