"""HTTP/1.1 on aiohttp: the transport that is used where none is given.

Laws: aiohttp is imported when the first request is sent. Certificates are always checked. No redirect, no retry, no cookie, no
`.netrc`. An error is one sentence that names the host and nothing of the request. Cancelling closes the connection at once.
Each event loop has its own connections; they end with `close`, with the loop (`asyncio.run`), or with the transport.
"""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import lru_cache, partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

import msgspec

from toolglot.engine.transport import HttpRequest, Timeouts
from toolglot.errors import ConnectFailed, ConnectionLost, TimedOut, ToolglotError, UsageError

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address
    from ssl import SSLContext

    from aiohttp import BaseConnector, ClientResponse, ClientSession
    from yarl import URL

__all__ = ["HttpTransport"]

KEEP_ALIVE_SECONDS = 60.0
"""Seconds that an unused connection is kept: tools run between two requests."""
TCP_PROBE_SECONDS = 60
"""Seconds of silence before the system asks whether the other side is still there."""
IDLE_CHECKS = 4
"""How often it is looked at during the idle time whether anything came: an idle stream ends after one to 1.25 of it."""
STREAMED_BODY_BYTES = 1 << 20
"""A body of this size is sent piece by piece, so that other tasks get their turn."""
MAX_HEADER_BYTES = 64 * 1024
USER_AGENT = "toolglot"
PROXY_SCHEMES = ("http", "https")


class HttpTransport:
    """Sends requests over connections that it keeps.

    Args:
        timeouts: For connecting (name, proxy and TLS included), for the head of an answer, and between two pieces of it.
        proxy: The URL of an HTTP proxy for all requests. Without: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY of the
            environment, in either case; this machine itself is never asked for through those.
        ca_file: Certificates (PEM) to trust beside those of the system. SSL_CERT_FILE of the environment replaces the system's.
        max_connections: Requests that may be under way at the same time on one event loop; others wait for their turn.
    """

    def __init__(
        self,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - immutable
        *,
        proxy: str | None = None,
        ca_file: str | None = None,
        max_connections: int | None = None,
    ) -> None:
        self._timeouts = timeouts
        self._proxy = None if proxy is None else _normalize_proxy(proxy)
        self._ca_file = ca_file
        self._max_connections = max_connections
        self._clients: dict[asyncio.AbstractEventLoop, _Client] = {}
        self._proxies: dict[tuple[str, str | None, int | None], str | None] = {}
        self._tls: SSLContext | None = None

    async def send(self, request: HttpRequest) -> "_AiohttpResponse":
        """The head of the answer. Raises ConnectFailed, TimedOut, ConnectionLost; UsageError for what cannot be sent."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop) or await self._open_client(loop)
        url = _parse_url(request.url)
        proxy = self._find_proxy(url)
        tls = self._tls_context() if url.scheme == "https" or (proxy or "").startswith("https:") else True
        if client.limiter is not None:
            await client.limiter.acquire()
        try:
            async with asyncio.timeout(self._timeouts.first_byte):
                response = await client.session.request(
                    request.method,
                    url,
                    headers=request.headers,
                    data=(request.body or None) if len(request.body) < STREAMED_BODY_BYTES else BytesIO(request.body),
                    proxy=proxy,
                    ssl=tls,
                    allow_redirects=False,
                )
        except BaseException as error:
            if client.limiter is not None:
                client.limiter.release()
            if not isinstance(error, Exception):
                raise
            raise _find_bad_header(error, request.headers) or _translate_error(
                error, _format_host(url), self._timeouts
            ) from None
        return _AiohttpResponse(response, _format_host(url), request.stream, self._timeouts, client.limiter)

    async def close(self) -> None:
        """Closes all connections. Those of other event loops are closed by these loops as soon as they run."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        self._clients.clear()
        if client is not None:
            await client.closer.aclose()

    async def _open_client(self, loop: asyncio.AbstractEventLoop) -> "_Client":
        import aiohttp

        for other in [other for other in self._clients if other.is_closed()]:
            del self._clients[other]
        session = aiohttp.ClientSession(
            connector=_create_connector(loop),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, connect=self._timeouts.connect),
            headers={"User-Agent": USER_AGENT},
            skip_auto_headers=("Content-Type",),
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
        )
        session._retry_connection = False  # pyright: ignore[reportPrivateUsage] - the one switch; for GET and the like
        gate = None if self._max_connections is None else asyncio.Semaphore(self._max_connections)
        client = self._clients[loop] = _Client(session, gate, _close_with_loop(session))
        await anext(client.closer)
        return client

    def _find_proxy(self, url: "URL") -> str | None:
        if self._proxy is not None:
            return self._proxy
        key = (url.scheme, url.host, url.port)
        if key not in self._proxies:
            self._proxies[key] = _environment_proxy(*key)
        return self._proxies[key]

    def _tls_context(self) -> "SSLContext":
        if self._tls is None:
            import ssl

            context = ssl.create_default_context()
            context.set_alpn_protocols(["http/1.1"])
            if self._ca_file is not None:
                try:
                    context.load_verify_locations(self._ca_file)
                except OSError as error:
                    reason = error.strerror or error
                    raise UsageError(f"no certificates can be read from {self._ca_file!r}: {reason}") from None
            self._tls = context
        return self._tls


def _create_connector(loop: asyncio.AbstractEventLoop) -> "BaseConnector":
    import aiohttp
    from aiohttp.client_proto import ResponseHandler

    class Handler(ResponseHandler):
        def close(self) -> None:
            """At once, also where the other side does not read: what is not sent yet would keep the connection open."""
            if self.transport is not None and self.transport.get_write_buffer_size():
                self.abort()
            super().close()

    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS, socket_factory=_create_socket)
    connector._factory = partial[ResponseHandler](Handler, loop=loop)  # pyright: ignore[reportPrivateUsage]
    return connector


def _create_socket(address: tuple[Any, ...]) -> socket.socket:
    """Asks a silent peer now and then whether it is still there: a model may think for minutes, and routers forget."""
    made = socket.socket(*address[:3])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), TCP_PROBE_SECONDS)
    return made


class _Client(msgspec.Struct):
    """The connections of one event loop."""

    session: "ClientSession"
    limiter: asyncio.Semaphore | None
    closer: AsyncGenerator[None]


async def _close_with_loop(session: "ClientSession") -> AsyncGenerator[None]:
    """Closes the session with its loop, or when nobody holds the generator any more: loops do that for generators."""
    try:
        yield
    finally:
        await session.close()


class _AiohttpResponse:
    __slots__ = (
        "_host",
        "_limiter",
        "_quiet_checks",
        "_read_next",
        "_response",
        "_seen_bytes",
        "_stream",
        "_timeouts",
        "_timer",
        "headers",
        "status",
    )

    def __init__(
        self, response: "ClientResponse", host: str, stream: bool, timeouts: Timeouts, limiter: asyncio.Semaphore | None
    ) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}
        self._response, self._host, self._stream, self._timeouts, self._limiter = response, host, stream, timeouts, limiter
        self._read_next: Callable[[], Awaitable[bytes]] = response.content.readany if stream else response.content.read
        self._seen_bytes, self._quiet_checks = response.content.total_raw_bytes, 0
        self._timer: asyncio.TimerHandle | None = None
        if timeouts.idle is not None and not response.content.is_eof():
            self._timer = asyncio.get_running_loop().call_later(
                timeouts.idle / IDLE_CHECKS, self._check_idle, timeouts.idle / IDLE_CHECKS
            )

    async def read(self) -> bytes:
        try:
            return await self._read_next()
        except Exception as error:
            if self._stream and (left := self._take_unread()):
                return left
            self._release()
            raise _translate_error(error, self._host, self._timeouts, reading=True) from None
        except BaseException:
            self._release()
            raise

    async def close(self) -> None:
        self._release()

    def _check_idle(self, interval: float) -> None:
        """Whether anything came. aiohttp's own timer is set anew for each piece, which costs an eighth of a paced stream."""
        content = self._response.content
        count, waiting = content.total_raw_bytes, not content._buffer  # pyright: ignore[reportPrivateUsage]
        self._quiet_checks = self._quiet_checks + 1 if waiting and count == self._seen_bytes else 0
        self._seen_bytes = count
        if content.is_eof():
            self._timer = None
        elif self._quiet_checks < IDLE_CHECKS:
            self._timer = asyncio.get_running_loop().call_later(interval, self._check_idle, interval)
        else:
            content.set_exception(TimeoutError())
            self._release()

    def _take_unread(self) -> bytes:
        """What came before the failure: aiohttp would keep it."""
        buffer = self._response.content._buffer  # pyright: ignore[reportPrivateUsage]
        left = b"".join(buffer)
        buffer.clear()
        return left

    def _release(self) -> None:
        self._response.close()  # a connection that was read to its end has been given back already
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._limiter is not None:
            self._limiter.release()
            self._limiter = None


# ---- where to


@lru_cache(maxsize=256)
def _parse_url(text: str) -> "URL":
    """As it is written: a signed path must not be quoted anew."""
    from yarl import URL

    try:
        url = URL(text, encoded=text.isascii())
        if url.scheme in PROXY_SCHEMES and url.host and url.port:
            return url
    except ValueError:
        pass
    raise UsageError("a request needs an address that starts with http:// or https:// and a host")  # may hold a key: not shown


def _format_host(url: "URL") -> str:
    host = f"[{url.host}]" if ":" in (url.host or "") else url.host or ""
    return host if url.is_default_port() else f"{host}:{url.port}"


def _normalize_proxy(text: str) -> str:
    url = text if "://" in text else f"http://{text}"
    scheme = url.partition(":")[0].lower()
    if scheme not in PROXY_SCHEMES:
        raise UsageError(f"a proxy is spoken to over http or https, not {scheme}")
    return url


def _environment_proxy(scheme: str, host: str | None, port: int | None) -> str | None:
    from urllib.request import getproxies_environment

    proxies = getproxies_environment()
    found = proxies.get(scheme) or proxies.get("all")
    if not found or not host or _bypasses_proxy(host.lower(), port, proxies.get("no", "")):
        return None
    return _normalize_proxy(found)


def _bypasses_proxy(host: str, port: int | None, exceptions: str) -> bool:
    """Whether a host is this machine, or one of NO_PROXY: a name and all below it, an address or a range, or `*`."""
    from ipaddress import ip_address

    names = exceptions.lower().replace(",", " ").split()
    if "*" in names or host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        suffixes = tuple("." + bare for name in names if (bare := name.lstrip("*.")))
        return f".{host}".endswith(suffixes) or f".{host}:{port}".endswith(suffixes)
    return address.is_loopback or any(_is_in_network(address, name) for name in names)


def _is_in_network(address: "IPv4Address | IPv6Address", name: str) -> bool:
    from ipaddress import ip_network

    try:
        return address in ip_network(name.strip("[]"), strict=False)
    except ValueError:
        return False


# ---- what went wrong


def _find_bad_header(error: Exception, headers: Mapping[str, str]) -> UsageError | None:
    """A key read from a file often ends in a line break."""
    if type(error) is not ValueError:
        return None
    names = [name for name, value in headers.items() if any(mark in name + value for mark in "\r\n\0")]
    return UsageError(f"the header {names[0]} holds a line break or a null") if names else None


def _translate_error(error: Exception, host: str, timeouts: Timeouts, *, reading: bool = False) -> ToolglotError:
    import aiohttp

    match error:
        case aiohttp.ConnectionTimeoutError():
            return TimedOut(f"{host} could not be reached within {timeouts.connect:g} seconds", "connect")
        case TimeoutError() if reading:
            return TimedOut(f"nothing more came from {host} for {timeouts.idle:g} seconds", "idle")
        case TimeoutError():
            return TimedOut(f"{host} did not begin to answer within {timeouts.first_byte:g} seconds", "first byte")
        case aiohttp.ClientConnectorError() | aiohttp.ClientHttpProxyError() | aiohttp.ServerFingerprintMismatch():
            return ConnectFailed(_describe_connect_error(error, host))
        case aiohttp.ClientResponseError():
            return ConnectionLost(f"{host} did not answer in HTTP: {error.message.splitlines()[0].rstrip(':')}")
        case _:
            return ConnectionLost(f"the connection to {host} broke {'in the middle of' if reading else 'before'} its answer")


def _describe_connect_error(error: Exception, host: str) -> str:
    import aiohttp

    match error:
        case aiohttp.ClientConnectorCertificateError(certificate_error=reason):
            return f"the certificate of {host} is not trusted: {getattr(reason, 'verify_message', '') or reason}"
        case aiohttp.ClientSSLError():
            return f"TLS with {host} failed: {getattr(error.os_error, 'reason', None) or error.os_error}"
        case aiohttp.ClientProxyConnectionError(os_error=reason):
            return f"the proxy for {host} could not be reached: {_describe_os_error(reason)}"
        case aiohttp.ClientHttpProxyError(status=status):
            return f"the proxy refused to connect to {host}: status {status}"
        case aiohttp.ClientConnectorDNSError():
            return f"the host {host} is not known"
        case aiohttp.ClientConnectorError(os_error=reason):
            return f"{host} could not be reached: {_describe_os_error(reason)}"
        case _:
            return f"{host} could not be reached"


def _describe_os_error(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)
