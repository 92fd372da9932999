"""The only way to the web: a proxy on loopback that resolves names itself, checks every address and connects
to that address.

Invariants: without a ticket nothing passes. A ticket is valid for one call: it has a byte limit and remembers
what was refused. A connection carries one request (or one tunnel), so that no address slips in behind a
checked one. Redirects and changing answers of a name server make no difference: each connection is checked
anew.
"""

import asyncio
import base64
import binascii
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from urllib.parse import urlsplit

from toolglot.confine.web_address import AddressGuard
from toolglot.errors import ToolError

__all__ = ["Connect", "EgressProxy", "Ticket"]

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[str, int], Awaitable[Streams]]
CONNECT_SECONDS = 5.0
HEAD_SECONDS = 30.0
MAX_HEAD = 128 * 1024
_CHUNK_SIZE = 64 * 1024
_HOP_HEADERS = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"te", b"upgrade", b"host"}
)
# What browsers ask about pages on their own, with the rights of the page.
_BROWSER_SERVICES = frozenset(
    f"{name}.googleapis.com"
    for name in (
        "content-autofill",
        "optimizationguide-pa",
        "passwordsleakcheck-pa",
        "safebrowsing",
        "translate-pa",
    )
)
_AUTH_REQUIRED = b'HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm="gate"\r\n'


class Ticket:
    """The right of one call to go out, and the bytes that may still come in."""

    def __init__(self, limit: int) -> None:
        self.name, self.remaining = secrets.token_hex(16), limit
        self.refusals: dict[tuple[str, int], ToolError] = {}
        """Host and port -> why they were refused."""
        self.connections: set[asyncio.StreamWriter] = set()

    @property
    def is_exhausted(self) -> bool:
        """Whether more came in than is allowed."""
        return self.remaining < 0

    def abort(self) -> None:
        """Break off everything in progress."""
        self.remaining = -1
        for writer in list(self.connections):
            writer.transport.abort()


class EgressProxy:
    """The proxy. `connect` opens a connection to an address, which is never a name."""

    def __init__(self, guard: AddressGuard, connect: Connect = asyncio.open_connection) -> None:
        self._guard, self._connect = guard, connect
        self._tickets: dict[str, Ticket] = {}
        self._lock = asyncio.Lock()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.url = ""

    async def start(self) -> None:
        """Listen on a free port, unless it already does."""
        async with self._lock:
            if self._server is None:
                self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=MAX_HEAD)
                self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        """Stop the proxy and break off all connections."""
        for ticket in list(self._tickets.values()):
            self.revoke(ticket)
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def issue(self, limit: int) -> Ticket:
        """Return a ticket for one call."""
        ticket = Ticket(limit)
        self._tickets[ticket.name] = ticket
        return ticket

    def revoke(self, ticket: Ticket) -> None:
        """End a call."""
        self._tickets.pop(ticket.name, None)
        ticket.abort()

    # ---- one connection

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(
                OSError, EOFError, asyncio.LimitOverrunError, TimeoutError, ValueError, asyncio.CancelledError
            ):
                await self._serve((reader, writer))
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, client: Streams) -> None:
        reader, writer = client
        async with asyncio.timeout(HEAD_SECONDS):
            request_line, headers = _parse_head(await reader.readuntil(b"\r\n\r\n"))
        ticket = self._tickets.get(_find_ticket_name(headers))
        if ticket is None:
            await _respond(writer, _AUTH_REQUIRED)
            return
        method, target, _ = request_line.decode("ascii").split(" ")
        is_tunnel = method == "CONNECT"
        parts = urlsplit(f"//{target}" if is_tunnel else target)
        if not is_tunnel and parts.scheme != "http":
            await _respond(writer, b"HTTP/1.1 400 Bad Request\r\n")
            return
        ticket.connections.add(writer)
        try:
            port = parts.port or (443 if is_tunnel else 80)
            upstream = await self._connect_allowed(parts.hostname or "", port, ticket, writer)
            if upstream is None:
                return
            if is_tunnel:
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            else:
                path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
                host = parts.netloc.rpartition("@")[2]
                # One request per connection: another one on it could go to a path that was not checked.
                head = [f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n".encode("ascii")]
                head += [
                    name + b":" + value + b"\r\n"
                    for name, value in headers
                    if name.lower() not in _HOP_HEADERS
                ]
                upstream[1].write(b"".join(head) + b"\r\n")
            await _relay_streams(client, upstream, ticket, has_head=not is_tunnel)
        finally:
            ticket.connections.discard(writer)

    async def _connect_allowed(
        self, host: str, port: int, ticket: Ticket, client: asyncio.StreamWriter
    ) -> Streams | None:
        """Connect to an address that passed the check. Returns None if an error response was sent."""
        key = host.rstrip(".").lower(), port
        if key[0] in _BROWSER_SERVICES:  # nobody asked for it
            await _respond(client, b"HTTP/1.1 403 Forbidden\r\n")
            return None
        try:
            addresses = await self._guard.resolve_allowed(host, port)
        except ToolError as e:
            ticket.refusals[key] = e
            await _respond(client, b"HTTP/1.1 403 Forbidden\r\n")
            return None
        for address in addresses:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await self._connect(address, port)
            except (OSError, TimeoutError):
                continue
        ticket.refusals[key] = ToolError(f"{host} could not be reached at port {port}", code="url_failed")
        await _respond(client, b"HTTP/1.1 502 Bad Gateway\r\n")
        return None


# ---- bytes


def _parse_head(data: bytes) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """Return the first line, and the headers as they are.

    Raises ValueError if a line is folded or has no colon.
    """
    first, *lines = data[:-4].split(b"\r\n")
    headers: list[tuple[bytes, bytes]] = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name or name != name.strip() or b"\n" in line or b"\r" in line:
            raise ValueError("not a header")
        headers.append((name, value))
    return first, headers


def _find_ticket_name(headers: list[tuple[bytes, bytes]]) -> str:
    """Return the ticket that a client presents as the user name of basic authentication."""
    for name, value in headers:
        scheme, _, credentials = value.strip().partition(b" ")
        if name.lower() == b"proxy-authorization" and scheme.lower() == b"basic":
            with suppress(binascii.Error, UnicodeError):
                return base64.b64decode(credentials, validate=True).decode("ascii").partition(":")[0]
    return ""


async def _respond(writer: asyncio.StreamWriter, status_lines: bytes) -> None:
    writer.write(status_lines + b"Content-Length: 0\r\nConnection: close\r\n\r\n")
    await writer.drain()


async def _relay_streams(
    client: Streams, upstream: Streams, ticket: Ticket, *, has_head: bool = False
) -> None:
    """Copy bytes in both directions until the upstream ends, or the ticket is exhausted."""

    async def send() -> None:
        while data := await client[0].read(_CHUNK_SIZE):
            upstream[1].write(data)
            await upstream[1].drain()
        upstream[1].transport.abort()  # nobody waits for the answer any more

    ticket.connections.add(upstream[1])
    sending = asyncio.ensure_future(send())
    try:
        status = b"1" if has_head else b""
        while status.startswith(b"1"):  # interim responses, then the final one
            first, headers = _parse_head(await upstream[0].readuntil(b"\r\n\r\n"))
            status = first.partition(b" ")[2]
            lines = [
                first,
                *(name + b":" + value for name, value in headers if name.lower() not in _HOP_HEADERS),
            ]
            # Marked as the last one, so that the client sends no second request on this connection.
            client[1].write(b"\r\n".join([*lines, b"Connection: close"]) + b"\r\n\r\n")
        while data := await upstream[0].read(_CHUNK_SIZE):
            ticket.remaining -= len(data)
            if ticket.is_exhausted:
                ticket.abort()
                return
            client[1].write(data)
            await client[1].drain()
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        ticket.connections.discard(upstream[1])
        upstream[1].close()
