"""HTTP/1.1 with aiohttp: the default transport.

aiohttp and the certificates are loaded in a thread when the first request is sent, so as not to block the
event loop. Certificates are always verified. No redirects, no retries, no cookies, no `.netrc`. An error is
one sentence that names the host and reveals nothing else about the request. Cancelling closes the connection
at once. Each event loop has its own connections; they are closed by `close`, with the loop (`asyncio.run`),
or with the transport.
"""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import msgspec

from toolglot.engine.transport import HttpRequest, Timeouts
from toolglot.errors import ConnectFailed, ConnectionLost, TimedOut, ToolglotError, UsageError

if TYPE_CHECKING:
    from ssl import SSLContext

    from aiohttp import BaseConnector, ClientResponse, ClientSession
    from yarl import URL

__all__ = ["HttpTransport", "SharedTransport"]

KEEP_ALIVE_SECONDS = 60.0  # longer than aiohttp's 15: tools run between two requests of a conversation
TCP_PROBE_SECONDS = 60  # of silence; a model may think for minutes, and routers forget idle connections
IDLE_CHECKS = 4  # checks per idle timeout, so that a silent stream ends after 1 to 1.25 times the timeout
# larger bodies are sent in pieces; aiohttp writes bytes in one go and blocks other tasks
STREAMED_BODY_BYTES = 1 << 20
MAX_HEADER_BYTES = 64 * 1024  # aiohttp fails at 8 KB, which some proxies exceed
USER_AGENT = "toolglot"
PROXY_SCHEMES = ("http", "https")  # aiohttp does not speak SOCKS


class HttpTransport:
    """Sends requests over a pool of connections.

    Args:
        timeouts: For connecting (including DNS, proxy and TLS), for the response headers, and between two
            chunks.
        proxy: The URL of an HTTP proxy for all requests. Default: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and
            NO_PROXY from the environment, in upper or lower case; loopback addresses never use those.
        max_connections: Maximum number of concurrent requests per event loop; further requests wait.
    """

    def __init__(
        self,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - immutable
        *,
        proxy: str | None = None,
        max_connections: int | None = None,
    ) -> None:
        self._timeouts, self._max_connections = timeouts, max_connections
        self._proxy = None if proxy is None else _normalize_proxy(proxy)
        self._clients = _CLIENTS[self] = dict[asyncio.AbstractEventLoop, _Client]()
        self._proxies: dict[tuple[str, str | None, int | None], str | None] = {}
        self._tls: SSLContext | None = None

    async def send(self, request: HttpRequest) -> "_AiohttpResponse":
        """Send a request and return the response once its headers arrive.

        Raises ConnectFailed, TimedOut, ConnectionLost, UsageError.
        """
        loop = asyncio.get_running_loop()
        if (client := self._clients.get(loop)) is None:
            await asyncio.to_thread(import_module, "aiohttp")
            client = self._clients.get(loop) or await self._open_client(loop)
        url = _parse_url(request.url)
        proxy = self._find_proxy(url)
        needs_tls = url.scheme == "https" or (proxy or "").startswith("https:")
        if needs_tls and self._tls is None:
            self._tls = await asyncio.to_thread(_create_tls_context)
        await client.acquire()  # before the timeout starts: waiting for a slot is not the server's fault
        timeout = asyncio.timeout(None)
        tls = self._tls if needs_tls and self._tls is not None else True
        body = request.body or None
        if len(request.body) >= STREAMED_BODY_BYTES:
            body = BytesIO(request.body)
        try:
            async with timeout:
                client.watchdog.add(timeout)
                response = await client.session.request(
                    request.method,
                    url,
                    headers=request.headers,
                    data=body,
                    proxy=proxy,
                    ssl=tls,
                    allow_redirects=False,
                )
            return _AiohttpResponse(response, _format_host(url), self._timeouts, client)
        except BaseException as error:
            client.release()
            if not isinstance(error, Exception):
                raise
            # A key that was read from a file may end in a line break; aiohttp's message would repeat it.
            bad_header = _find_bad_header(request.headers)
            if type(error) is ValueError and bad_header is not None:
                raise UsageError(
                    f"the header {bad_header} contains a line break or a null character"
                ) from None
            raise _translate_error(error, _format_host(url), self._timeouts) from None
        finally:
            client.watchdog.remove(timeout)

    async def close(self) -> None:
        """Close all connections. Other event loops close theirs as soon as they run."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        self._clients.clear()
        if client is not None:
            await client.closer.aclose()

    async def _open_client(self, loop: asyncio.AbstractEventLoop) -> "_Client":
        import aiohttp

        for closed in [other for other in self._clients if other.is_closed()]:
            del self._clients[closed]
        session = aiohttp.ClientSession(
            connector=_create_connector(loop),
            cookie_jar=aiohttp.DummyCookieJar(),  # a cookie would tie unrelated conversations together
            timeout=aiohttp.ClientTimeout(total=None, connect=self._timeouts.connect),
            headers={"User-Agent": USER_AGENT},
            skip_auto_headers=("Content-Type",),  # a GET has no body to describe
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
        )
        # aiohttp retries GET on its own when a reused connection breaks; there is no public switch.
        session._retry_connection = False  # pyright: ignore[reportPrivateUsage]
        watchdog = _Watchdog(loop, self._timeouts.first_byte)
        limiter = None if self._max_connections is None else asyncio.Semaphore(self._max_connections)
        client = self._clients[loop] = _Client(session, limiter, watchdog, _close_with_loop(session))
        await anext(client.closer)  # a generator that has not started would not be closed by its loop
        return client

    def _find_proxy(self, url: "URL") -> str | None:
        if self._proxy is not None:
            return self._proxy
        key = (url.scheme, url.host, url.port)
        # cached: reading the environment would cost more than the rest of `send`
        if key not in self._proxies:
            from urllib.request import getproxies_environment

            proxies = getproxies_environment()
            proxy = proxies.get(url.scheme) or proxies.get("all")
            bypassed = not url.host or _bypasses_proxy(url.host.lower(), url.port, proxies.get("no", ""))
            self._proxies[key] = _normalize_proxy(proxy) if proxy and not bypassed else None
        return self._proxies[key]


# The clients of each transport. If a reference cycle has the transport, all of it is collected at once, and
# connections in it would complain that nobody has closed them. Dropped from here instead, their generators
# let the loop close them.
_CLIENTS: "WeakKeyDictionary[HttpTransport, dict[asyncio.AbstractEventLoop, _Client]]" = WeakKeyDictionary()


class SharedTransport(HttpTransport):
    """A transport shared by all engines in a process: closing one engine does not affect requests of the
    others.
    """

    async def close(self) -> None:
        """Close this event loop's connections, unless a request is using one."""
        loop = asyncio.get_running_loop()
        if (client := self._clients.get(loop)) is not None and not client.active_requests:
            del self._clients[loop]
            await client.closer.aclose()


def _create_tls_context() -> "SSLContext":
    import ssl

    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])  # or some servers choose HTTP/2, which aiohttp does not speak
    return context


def _create_connector(loop: asyncio.AbstractEventLoop) -> "BaseConnector":
    import aiohttp
    from aiohttp.client_proto import ResponseHandler

    class Handler(ResponseHandler):
        def close(self) -> None:
            """Close at once even if the peer does not read: unsent data would keep the connection open."""
            if self.transport is not None and self.transport.get_write_buffer_size():
                self.abort()
            super().close()

    # No limit on connections: the provider's own rate limits are what matters.
    connector = aiohttp.TCPConnector(
        limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS, socket_factory=_create_socket
    )
    connector._factory = partial[ResponseHandler](Handler, loop=loop)  # pyright: ignore[reportPrivateUsage]
    return connector


def _create_socket(address: tuple[Any, ...]) -> socket.socket:
    sock = socket.socket(*address[:3])
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
        if hasattr(socket, name):  # not on every platform
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), TCP_PROBE_SECONDS)
    return sock


class _Client(msgspec.Struct):
    """The connections of one event loop."""

    session: "ClientSession"
    limiter: asyncio.Semaphore | None
    watchdog: "_Watchdog"
    closer: AsyncGenerator[None]
    active_requests: int = 0

    async def acquire(self) -> None:
        """Wait until a request may be sent."""
        if self.limiter is not None:
            await self.limiter.acquire()
        self.active_requests += 1

    def release(self) -> None:
        """Record the end of a request and its response."""
        self.active_requests -= 1
        if self.limiter is not None:
            self.limiter.release()


class _Watchdog:
    """Timeouts of equal length for any number of waits.

    They expire in the order they began, so one timer serves all.

    A timer for each request would account for a tenth of the request's cost.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float | None) -> None:
        self._loop, self._seconds = loop, seconds
        self._deadlines: dict[asyncio.Timeout, float] = {}  # the oldest first
        self._timer: asyncio.TimerHandle | None = None

    def add(self, timeout: asyncio.Timeout) -> None:
        """Start the clock for a wait inside `timeout`."""
        if self._seconds is not None:
            deadline = self._deadlines[timeout] = self._loop.time() + self._seconds
            self._timer = self._timer or self._loop.call_at(deadline, self._check)

    def remove(self, timeout: asyncio.Timeout) -> None:
        """Forget a wait that has ended."""
        self._deadlines.pop(timeout, None)

    def _check(self) -> None:
        now, self._timer = self._loop.time(), None
        for timeout, deadline in [*self._deadlines.items()]:
            if deadline > now:
                self._timer = self._loop.call_at(deadline, self._check)
                break
            self.remove(timeout)
            timeout.reschedule(now)


async def _close_with_loop(session: "ClientSession") -> AsyncGenerator[None]:
    """Close the session with its loop, or when the generator is garbage-collected: event loops do both for
    generators.
    """
    try:
        yield
    finally:
        await session.close()


class _AiohttpResponse:
    def __init__(self, response: "ClientResponse", host: str, timeouts: Timeouts, client: _Client) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers  # names in any case are found
        self._response, self._host, self._timeouts = response, host, timeouts
        self._client: _Client | None = client
        self._seen_bytes = self._quiet_checks = 0
        self._timer: asyncio.TimerHandle | None = None
        # a 204 or 304 has no body, and no counters either
        if timeouts.idle is not None and not response.content.is_eof():
            self._seen_bytes = response.content.total_raw_bytes
            interval = timeouts.idle / IDLE_CHECKS
            self._timer = asyncio.get_running_loop().call_later(interval, self._check_idle, interval)

    async def read(self) -> bytes:
        try:
            # Never all at once: an endless body, or a small one that decompresses to a huge one, would
            # exhaust the memory.
            return await self._response.content.readany()
        except Exception as error:
            # aiohttp raises before it delivers what has already arrived, which may include the end of the
            # reply.
            buffer = self._response.content._buffer  # pyright: ignore[reportPrivateUsage]
            if unread := b"".join(buffer):
                buffer.clear()
                return unread
            self._release()
            raise _translate_error(error, self._host, self._timeouts, reading=True) from None
        except BaseException:
            # cancelled: the provider must stop generating, so the connection closes at once
            self._release()
            raise

    async def close(self) -> None:
        self._release()

    def _check_idle(self, interval: float) -> None:
        """Time out if nothing arrived. aiohttp's own timer is reset for each chunk: 12 % of a paced stream's
        CPU.
        """
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

    def _release(self) -> None:
        # has no effect if the body was read to its end: the connection is back in the pool
        self._response.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._client is not None:
            self._client.release()
            self._client = None


# ---- URLs and proxies


@lru_cache(maxsize=256)
def _parse_url(text: str) -> "URL":
    """Parse a URL without quoting it again, which would break a signed path."""
    from yarl import URL

    try:
        url = URL(text, encoded=text.isascii())
        if url.scheme in PROXY_SCHEMES and url.host and url.port:
            return url
    except ValueError:
        pass
    # The URL is not shown: it may contain a key.
    raise UsageError("the URL of a request must start with http:// or https:// and name a host")


def _format_host(url: "URL") -> str:
    host = f"[{url.host}]" if ":" in (url.host or "") else url.host or ""
    return host if url.is_default_port() else f"{host}:{url.port}"


def _normalize_proxy(text: str) -> str:
    url = text if "://" in text else f"http://{text}"
    scheme = url.partition(":")[0].lower()
    if scheme not in PROXY_SCHEMES:
        raise UsageError(f"a proxy URL must use http or https, not {scheme}")
    return url


def _bypasses_proxy(host: str, port: int | None, exceptions: str) -> bool:
    """Whether a host is this machine or matches NO_PROXY: a name and its subdomains, an address, a network,
    or `*`.
    """
    from ipaddress import ip_address, ip_network

    names = exceptions.lower().replace(",", " ").split()
    if "*" in names or host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        suffixes = tuple("." + bare for name in names if (bare := name.lstrip("*.")))
        return f".{host}".endswith(suffixes) or f".{host}:{port}".endswith(suffixes)
    for name in names:
        with suppress(ValueError):  # a name, not an address
            if address in ip_network(name.strip("[]"), strict=False):
                return True
    return address.is_loopback


# ---- errors


def _find_bad_header(headers: Mapping[str, str]) -> str | None:
    """Return the name of the first header that holds what would end it."""
    for name, value in headers.items():
        if any(mark in name + value for mark in "\r\n\0"):
            return name
    return None


def _translate_error(
    error: Exception, host: str, timeouts: Timeouts, *, reading: bool = False
) -> ToolglotError:
    import aiohttp

    match error:  # the order matters: a ConnectionTimeoutError is a TimeoutError too
        case aiohttp.ConnectionTimeoutError():
            return TimedOut(f"could not connect to {host} within {timeouts.connect:g} seconds", "connect")
        case TimeoutError() if reading:
            return TimedOut(f"{host} sent nothing for {timeouts.idle:g} seconds", "idle")
        case TimeoutError():
            return TimedOut(
                f"{host} did not start to respond within {timeouts.first_byte:g} seconds", "first byte"
            )
        case (
            aiohttp.ClientConnectorError()
            | aiohttp.ClientHttpProxyError()
            | aiohttp.ServerFingerprintMismatch()
        ):
            return ConnectFailed(_describe_connect_error(error, host))
        case aiohttp.ClientResponseError():
            return ConnectionLost(
                f"the response of {host} is not HTTP: {error.message.splitlines()[0].rstrip(':')}"
            )
        case _:
            return ConnectionLost(
                f"the connection to {host} was lost {'during' if reading else 'before'} its response"
            )


def _describe_connect_error(error: Exception, host: str) -> str:
    import aiohttp

    match error:  # from the most specific class to the most general one
        case aiohttp.ClientConnectorCertificateError(certificate_error=reason):
            return f"the certificate of {host} is not trusted: {_describe_cause(reason, 'verify_message')}"
        case aiohttp.ClientSSLError():
            return f"TLS with {host} failed: {_describe_cause(error.os_error, 'reason')}"
        case aiohttp.ClientProxyConnectionError(os_error=reason):
            return f"could not connect to the proxy for {host}: {_describe_os_error(reason)}"
        case aiohttp.ClientHttpProxyError(status=status):
            return f"the proxy refused to connect to {host}: status {status}"
        case aiohttp.ClientConnectorDNSError():
            return f"unknown host {host}"
        case aiohttp.ClientConnectorError(os_error=reason):
            return f"could not connect to {host}: {_describe_os_error(reason)}"
        case _:
            return f"could not connect to {host}"


def _describe_cause(error: BaseException, attribute: str) -> object:
    """Return what an error says in an attribute that only some have, else the error."""
    return getattr(error, attribute, None) or error


def _describe_os_error(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)
