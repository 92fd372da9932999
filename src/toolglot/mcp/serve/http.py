"""Serves MCP over Streamable HTTP: on loopback to programs on this machine, elsewhere only with a token.

Web pages in a browser cannot reach it: a loopback server answers only to loopback names (DNS rebinding),
requests from other origins are refused, and if a token is set, nothing is served without it.
"""

import asyncio
import hmac
import re
import socket
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from toolglot.errors import ToolglotError, UsageError
from toolglot.mcp.serve.server import McpToolServer

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["http_app", "is_loopback", "serve_http"]

PATH = "/mcp"
MAX_BODY_BYTES = 32 * 1024 * 1024
MAX_SESSIONS = 100  # each has its own tools, with running commands
MIN_TOKEN_CHARS = 16
_LOOPBACK = re.compile(r"localhost|127(?:\.\d{1,3}){3}|::1", re.IGNORECASE)


def is_loopback(host: str) -> bool:
    """Return whether only programs on this machine can reach a host."""
    return _LOOPBACK.fullmatch(host) is not None


def http_app(server: McpToolServer, *, host: str = "127.0.0.1", token: str = "", **options: Any) -> "ASGIApp":
    """Return an ASGI application that serves MCP at `/mcp`.

    To mount it in another application, enter `server.sdk.session_manager.run()` in that application's
    lifespan.
    `host`: the address at which it is reached; any but loopback requires a `token`, which clients send as
    `Authorization: Bearer TOKEN`. `options`: for the SDK's `streamable_http_app`. Raises UsageError.
    """
    if not token and not is_loopback(host):
        raise UsageError(f"{host} can be reached from other machines: a token is required")
    if token:
        is_plain = token.isascii() and token.isprintable() and " " not in token
        if len(token) < MIN_TOKEN_CHARS or not is_plain:
            raise UsageError(f"the token must be at least {MIN_TOKEN_CHARS} ASCII characters without spaces")
    host_names = frozenset({"127.0.0.1", "localhost", "::1", host.lower()}) if is_loopback(host) else None
    # The SDK's own check takes whatever follows a colon for a port.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    defaults: dict[str, Any] = {"max_request_body_size": MAX_BODY_BYTES, "max_sessions": MAX_SESSIONS}
    app = server.sdk.streamable_http_app(
        streamable_http_path=PATH, transport_security=security, **{**defaults, **options}
    )
    return _Guard(app, token, host_names)


class _Guard:
    """Lets requests through that have the token, are sent to one of the host names, and do not come from
    another origin.

    `host_names`: None if any will do, because the token is proof enough.
    """

    def __init__(self, app: "ASGIApp", token: str, host_names: frozenset[str] | None) -> None:
        self._app, self._token, self._host_names = app, token.encode(), host_names

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        match scope["type"]:
            case "http":
                await self._serve_request(scope, receive, send)
            case "lifespan":  # the start and the end of the server: nothing that a client sends
                await self._app(scope, receive, send)
            case "websocket":  # MCP does not use them; the application around this one might pass them on
                await send(
                    {"type": "websocket.close", "code": 1008, "reason": "MCP is not served over WebSockets"}
                )
            case other:
                raise UsageError(f"MCP is not served over the protocol {other!r}")

    async def _serve_request(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        headers = _Headers(scope["headers"])
        if not self._has_token(headers):
            await _reject(send, 401, b"a bearer token is required\n")
        elif not self._is_addressed(headers):
            await _reject(send, 421, b"the Host header is not an address of this server\n")
        elif not self._is_own_page(headers):
            await _reject(send, 403, b"requests from other origins are refused\n")
        else:
            await self._app(scope, receive, send)

    def _has_token(self, headers: "_Headers") -> bool:
        if not self._token:
            return True
        scheme, _, token = headers.get_only("authorization").encode("latin-1").partition(b" ")
        return hmac.compare_digest(scheme.lower() + b" " + token.strip(), b"bearer " + self._token)

    def _is_addressed(self, headers: "_Headers") -> bool:
        """Whether a request is meant for this server; a web page could have its own name lead to this
        machine.
        """
        return self._host_names is None or find_host(headers.get_only("host")) in self._host_names

    def _is_own_page(self, headers: "_Headers") -> bool:
        """Whether a request comes from no page, or from one that may use the server; with a token, only the
        server's own.
        """
        if not headers.has("origin"):
            return True
        scheme, _, authority = headers.get_only("origin").partition("://")
        name = find_host(authority)
        if scheme not in ("http", "https") or name is None:
            return False
        if self._token and authority != headers.get_only("host"):
            return False
        return self._host_names is None or name in self._host_names


class _Headers:
    """The headers of a request, of which some may occur only once."""

    def __init__(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in headers:
            self._values.setdefault(name.lower().decode("latin-1"), []).append(value.decode("latin-1"))

    def has(self, name: str) -> bool:
        return name in self._values

    def get_only(self, name: str) -> str:
        """Return a header's value; "" unless there is exactly one."""
        values = self._values.get(name, [])
        return values[0] if len(values) == 1 else ""


def find_host(authority: str) -> str | None:
    """Return the host of `HOST` or `HOST:PORT`; None if it is anything else, such as
    `localhost:evil.example`.
    """
    try:
        parts = urlsplit(f"//{authority}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    expected = f"[{host}]" if ":" in host else host
    if port is not None:
        expected += f":{port}"
    if not host or authority.lower() != expected:
        return None
    return host


async def _reject(send: "Send", status: int, reason: bytes) -> None:
    challenge = [(b"www-authenticate", b"Bearer")] if status == 401 else []
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(reason)).encode()), *challenge]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": reason})


@asynccontextmanager
async def serve_http(
    server: McpToolServer, host: str = "127.0.0.1", port: int = 0, *, token: str = "", **options: Any
) -> AsyncGenerator[str]:
    """Serve, and yield the URL.

    Port 0 picks a free port. Exiting closes all connections. Raises UsageError, ToolglotError.
    """
    app = http_app(server, host=host, token=token, **options)
    try:
        # for a name that this refuses, create_server raises a TypeError and leaves its socket open
        host.encode("idna")
        listener = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except UnicodeError:
        raise ToolglotError(f"cannot listen on {host!r}: it is not a valid host name") from None
    except OSError as e:
        reason = (e.strerror or str(e)).partition(" (while ")[0]  # the message repeats the address
        raise ToolglotError(f"cannot listen on {host}:{port}: {reason}") from None
    # With a log, uvicorn would report that connections were closed, which is expected on exit.
    runner = _Runner(
        uvicorn.Config(
            app, log_config=None, log_level="critical", ws="none", lifespan="on", timeout_graceful_shutdown=1
        )
    )
    serving = asyncio.create_task(runner.serve([listener]))
    started = asyncio.create_task(runner.is_ready.wait())
    try:
        await asyncio.wait({serving, started}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            raise ToolglotError("the server did not start") from serving.exception()
        yield f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}{PATH}"
    finally:
        started.cancel()
        runner.should_exit = True
        await asyncio.shield(serving)


class _Runner(uvicorn.Server):
    """uvicorn's server without its signal handlers, because the program has its own.

    `is_ready`: it answers requests.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_ready = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_ready.set()
