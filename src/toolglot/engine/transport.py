"""How bytes get to a provider and back: a protocol with one method.

A transport never retries, never follows redirects, and raises only toolglot's own errors. Bytes are delivered
as they arrive. A timeout error names the phase in which it happened.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Protocol, runtime_checkable
from urllib.parse import quote

import msgspec

from toolglot.common.jsontext import dumps_text, loads
from toolglot.common.redact import redact
from toolglot.common.value_checks import OptionMeta, check_values
from toolglot.errors import (
    ConnectFailed,
    ConnectionLost,
    ProviderError,
    TimedOut,
    ToolglotError,
    TransportError,
    UsageError,
)
from toolglot.wire.reader import error_from_response

__all__ = [
    "PUBLIC_HEADERS",
    "HttpRequest",
    "HttpResponse",
    "Timeouts",
    "Transport",
    "build_url",
    "fetch",
    "join_url",
    "read_body",
    "redact_error",
    "sanitize_url",
    "send",
]

_MAX_FETCHED_BYTES = 4_000_000
PUBLIC_HEADERS = frozenset(
    {"content-type", "user-agent", "accept", "anthropic-version", "anthropic-beta", "editor-version"}
)
"""Headers that never contain a secret; any other header that a caller adds may."""

Seconds = Annotated[float, msgspec.Meta(gt=0)]


class Timeouts(msgspec.Struct, metaclass=OptionMeta, frozen=True, kw_only=True):
    """Timeouts in seconds. None: wait forever."""

    connect: Seconds | None = 10.0
    """For establishing a connection."""
    first_byte: Seconds | None = 600.0
    """From the request to the response headers; without streaming, these arrive only when the model has
    finished."""
    idle: Seconds | None = 120.0
    """Between two chunks of a response."""

    def __post_init__(self) -> None:
        check_values(self)


class HttpRequest(msgspec.Struct, frozen=True, gc=False):  # gc=False: no cycles, and one for each request
    """An HTTP request."""

    url: str
    """The full URL."""
    headers: dict[str, str]
    """The headers, with the key."""
    body: bytes
    """The bytes to send."""
    stream: bool = False
    """Whether to deliver the response as it arrives; otherwise the transport may buffer it."""
    method: str = "POST"
    """The HTTP method."""

    def __repr__(self) -> str:
        """Omit the headers, which contain a key; the URL may contain one too."""
        return f"HttpRequest({self.method} {redact(self.url, by_name=True)}, {len(self.body)} bytes)"


class HttpResponse(Protocol):
    """The status and headers of a response; the body is read in chunks. The caller always closes it."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]:
        """The headers; names are looked up in lower case."""
        ...

    async def read(self) -> bytes:
        """Return the next bytes as they arrive; b"" at the end. Raises ConnectionLost, TimedOut."""
        ...

    async def close(self) -> None:
        """Release the connection, or drop it if the body was not read to the end. May be called twice."""
        ...


@runtime_checkable
class Transport(Protocol):
    """Sends requests. One transport serves many conversations concurrently and reuses its connections."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request and return the response once its headers arrive.

        Raises ConnectFailed, TimedOut, ConnectionLost, UsageError.
        """
        ...


async def send(transport: Transport, request: HttpRequest) -> HttpResponse:
    """Send a request through a transport that may be the caller's own. Raises TransportError, UsageError."""
    try:
        response = await transport.send(request)
    except OSError as e:  # errors of the operating system can be retried like ours
        reason = f"the transport failed: {str(e) or type(e).__name__}"
        if isinstance(e, TimeoutError):
            raise TimedOut(reason, "first byte") from e
        is_lost = isinstance(e, ConnectionResetError | ConnectionAbortedError | BrokenPipeError)
        raise (ConnectionLost if is_lost else ConnectFailed)(reason) from e
    if missing := [name for name in ("status", "headers", "read", "close") if not hasattr(response, name)]:
        problem = f"{type(response).__name__} has no {', '.join(missing)}"
        raise UsageError(f"send of {type(transport).__name__} must return an HttpResponse: {problem}")
    return response


async def read_body(response: HttpResponse, limit: int, *, keep_partial: bool = False) -> bytes:
    """Read a body up to about `limit` bytes.

    `keep_partial`: return what arrived before the connection failed.
    """
    parts: list[bytes] = []
    size = 0
    try:
        while size < limit and (data := await response.read()):
            parts.append(data)
            size += len(data)
    except TransportError:
        if not keep_partial:
            raise
    return b"".join(parts)


async def fetch(transport: Transport, request: HttpRequest, secrets: Iterable[str]) -> bytes:
    """Send a request and return the whole body.

    Raises ProviderError, with the secrets redacted, and TransportError.
    """
    response = await send(transport, request)
    try:
        body = await read_body(response, _MAX_FETCHED_BYTES)
    finally:
        await response.close()
    if response.status >= 300:
        error = error_from_response(response.status, body)
        redact_error(error, secrets)
        raise error
    return body


def redact_error(error: ToolglotError, secrets: Iterable[str]) -> None:
    """Redact keys in an error: some providers echo the key that they reject."""
    secrets = tuple(secrets)
    error.args = (redact(str(error), secrets),)
    error.__cause__ = error.__context__ = None  # aiohttp's errors hold the request, and with it the key
    if isinstance(error, ProviderError):
        error.code = redact(error.code, secrets)
        if error.body is not None:
            error.body = loads(redact(dumps_text(error.body), secrets))


@lru_cache(maxsize=256)
def build_url(base: str, path: str, model: str) -> str:
    """Return the URL of a path, which may contain the model's name."""
    return join_url(base, path).replace("{model}", quote(model, safe="/-._~:@"))


def sanitize_url(url: str) -> str:
    """Remove the query, the user and the password from a URL. The text need not be a valid URL."""
    scheme, _, location = url.partition("?")[0].partition("://")
    host, slash, path = location.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def join_url(base: str, path: str) -> str:
    """Join a base URL and a path.

    If the base already ends with the path's first segments (…/v1), they are not repeated.
    """
    base = base.rstrip("/")
    segments = path.split("/")[1:]
    for count in range(len(segments) - 1, 0, -1):
        start = "/" + "/".join(segments[:count])
        if base.endswith(start):
            return base.removesuffix(start) + path
    return base + path
