"""Serves MCP over Streamable HTTP: on loopback to programs on this machine, elsewhere only with a token.

Web pages in a browser cannot reach it: a loopback server answers only to loopback names (DNS rebinding), requests from other
origins are refused, and if a token is set, nothing is served without it.
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
from toolglot.mcp.server import McpToolServer

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["http_app", "is_loopback", "serve_http"]

PATH = "/mcp"
MAX_BODY_BYTES = 32 * 1024 * 1024
MAX_SESSIONS = 100  # each has its own tools, with running commands
MIN_TOKEN = 16
_LOOPBACK = re.compile(r"localhost|127(?:\.\d{1,3}){3}|::1", re.IGNORECASE)


def is_loopback(host: str) -> bool:
    """Return whether only programs on this machine can reach a host."""
    return _LOOPBACK.fullmatch(host) is not None


def http_app(server: McpToolServer, *, host: str = "127.0.0.1", token: str = "", **options: Any) -> "ASGIApp":
    """Return an ASGI application that serves MCP at `/mcp`.

    To mount it in another application, enter `server.sdk.session_manager.run()` in that application's lifespan.
    `host`: the address at which it is reached; any but loopback requires a `token`, which clients send as
    `Authorization: Bearer TOKEN`. `options`: for the SDK's `streamable_http_app`. Raises UsageError.
    """
    if not token and not is_loopback(host):
        raise UsageError(f"{host} can be reached from other machines: a token is required")
    if token and (len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable() or " " in token):
        raise UsageError(f"the token must be at least {MIN_TOKEN} ASCII characters without spaces")
    names = frozenset({"127.0.0.1", "localhost", "::1", host.lower()}) if is_loopback(host) else None
    # The SDK's own check takes whatever follows a colon for a port.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    defaults: dict[str, Any] = {"max_request_body_size": MAX_BODY_BYTES, "max_sessions": MAX_SESSIONS}
    app = server.sdk.streamable_http_app(streamable_http_path=PATH, transport_security=security, **{**defaults, **options})
    return _Guard(app, token, names)


class _Guard:
    """Lets requests through that have the token, are sent to one of these names, and do not come from another origin."""

    def __init__(self, app: "ASGIApp", token: str, names: frozenset[str] | None) -> None:
        self._app, self._token, self._names = app, token.encode(), names

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        refusal = self._find_refusal(scope["headers"]) if scope["type"] == "http" else None
        if refusal is not None:
            await _reject(send, *refusal)
        else:
            await self._app(scope, receive, send)

    def _find_refusal(self, headers: Iterable[tuple[bytes, bytes]]) -> tuple[int, bytes] | None:
        """Return the status and the reason with which a request is refused; None if it is not."""
        values: dict[bytes, list[bytes]] = {}
        for name, value in headers:
            values.setdefault(name.lower(), []).append(value)
        if self._token and not self._has_token(values.get(b"authorization", [])):
            return 401, b"a bearer token is required\n"
        host, origin = (_read_only(values.get(name, [])) for name in (b"host", b"origin"))
        if self._names is not None and (host is None or find_host(host) not in self._names):
            return 421, b"the Host header is not an address of this server\n"
        if b"origin" not in values:
            return None
        return (
            None if origin is not None and self._is_own(origin, host) else (403, b"requests from other origins are refused\n")
        )

    def _has_token(self, values: list[bytes]) -> bool:
        scheme, _, token = b"".join(values).partition(b" ")
        return hmac.compare_digest(scheme.lower() + b" " + token.strip(), b"bearer " + self._token)

    def _is_own(self, origin: str, host: str | None) -> bool:
        """Whether requests of pages from this origin are allowed; with a token, only those of the server's own."""
        scheme, _, authority = origin.partition("://")
        if scheme not in ("http", "https") or (name := find_host(authority)) is None:
            return False
        if self._token and authority != host:
            return False
        return self._names is None or name in self._names


def _read_only(values: list[bytes]) -> str | None:
    """Return a header's value; None unless there is exactly one."""
    return values[0].decode("latin-1") if len(values) == 1 else None


def find_host(authority: str) -> str | None:
    """Return the host of `HOST` or `HOST:PORT`; None if it is anything else, such as `localhost:evil.example`."""
    try:
        parts = urlsplit(f"//{authority}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    name = f"[{host}]" if ":" in host else host
    return host if host and authority.lower() == (name if port is None else f"{name}:{port}") else None


async def _reject(send: "Send", status: int, reason: bytes) -> None:
    challenge = [(b"www-authenticate", b"Bearer")] if status == 401 else []
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(reason)).encode()), *challenge]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": reason})


@asynccontextmanager
async def serve_http(
    server: McpToolServer, host: str = "127.0.0.1", port: int = 0, *, token: str = "", **options: Any
) -> AsyncGenerator[str]:
    """Serve, and yield the URL. Port 0 picks a free port. Exiting closes all connections. Raises UsageError, ToolglotError."""
    app = http_app(server, host=host, token=token, **options)
    try:
        host.encode("idna")  # socket would leave itself open, and raise a TypeError
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except UnicodeError:
        raise ToolglotError(f"cannot listen on {host!r}: it is not a valid host name") from None
    except OSError as e:
        reason = (e.strerror or str(e)).partition(" (while ")[0]  # the message repeats the address
        raise ToolglotError(f"cannot listen on {host}:{port}: {reason}") from None
    # It would log that connections were closed, which is expected on exit.
    runner = _Runner(
        uvicorn.Config(app, log_config=None, log_level="critical", ws="none", lifespan="on", timeout_graceful_shutdown=1)
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
    """uvicorn's server without its signal handlers, because the program has its own. `is_ready`: it answers requests."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_ready = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_ready.set()
