"""Serves the simulator over real HTTP, on loopback. aiohttp is imported when it serves.

It only sends what the simulator decided, and logs method, path and status, never headers or bodies. It has
nothing to keep secret, but it is meant for programs of this machine: clients have limits of size and time,
and a web page that a browser shows cannot reach it under a name of its own (DNS rebinding).
"""

import asyncio
import re
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from toolglot.common.loggers import get_logger
from toolglot.simulator.core import Simulator, Stall

if TYPE_CHECKING:
    from aiohttp import web

__all__ = ["serve"]

_log = get_logger("toolglot.simulator")
# of one request, and of all that are read at once
_MAX_BODY_BYTES, _MAX_HELD_BYTES = 64 * 1024 * 1024, 128 * 1024 * 1024
_READ_SECONDS = 60.0  # for a client to send a request
_LOOPBACK = re.compile(r"(localhost|127\.[\d.]+|\[::1\])(:\d+)?", re.IGNORECASE)
_LINGER_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends a reset


class _BodyReader:
    """Reads the bodies of requests, within limits of size and time."""

    def __init__(self) -> None:
        self._held_bytes = 0

    async def read(self, request: "web.Request") -> bytes:
        from aiohttp import web

        body = bytearray()
        try:
            async with asyncio.timeout(_READ_SECONDS):
                async for data in request.content.iter_any():
                    body += data
                    self._held_bytes += len(data)
                    if len(body) > _MAX_BODY_BYTES or self._held_bytes > _MAX_HELD_BYTES:
                        raise web.HTTPRequestEntityTooLarge(_MAX_BODY_BYTES, len(body))
        except TimeoutError:
            raise web.HTTPRequestTimeout from None
        finally:
            self._held_bytes -= len(body)
        return bytes(body)


@asynccontextmanager
async def serve(
    simulator: Simulator | None = None, host: str = "127.0.0.1", port: int = 0
) -> AsyncGenerator[str]:
    """Serve a simulator, and yield its base URL. Port 0 picks a free one. The exit ends all connections."""
    from aiohttp import web

    simulated, stopping = simulator or Simulator(), asyncio.Event()

    bodies, address = _BodyReader(), f"[{host}]" if ":" in host else host

    async def handle_request(request: web.Request) -> web.StreamResponse:
        if _LOOPBACK.fullmatch(address) and not _LOOPBACK.fullmatch(request.host):
            raise web.HTTPForbidden(
                text="the simulator serves programs of this machine: ask it by a loopback address\n"
            )
        body = await bodies.read(request)
        answer = simulated.handle(
            request.method, request.path_qs, request.headers, body, connection=request.transport
        )
        _log.info("%s %s -> %s", request.method, request.path, answer.status)
        if len(answer.parts) == 1 and isinstance(whole := answer.parts[0], bytes):
            return web.Response(status=answer.status, headers=answer.headers, body=whole)
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        with suppress(ConnectionError):  # the client left
            for part in answer.parts:
                if isinstance(part, bytes):
                    if not response.prepared:
                        await response.prepare(request)
                    await response.write(part)
                    continue
                if isinstance(part, Stall):
                    await stopping.wait()  # or until the client leaves, which cancels this
                if (transport := request.transport) is not None:
                    if (sock := transport.get_extra_info("socket")) is not None:
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
                    transport.abort()
                return response
            await response.write_eof()
        return response

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle_request)
    runner = web.AppRunner(
        app,
        handler_cancellation=True,
        access_log=None,
        shutdown_timeout=1.0,
        keepalive_timeout=_READ_SECONDS,  # also for the head of a request
        lingering_time=1.0,
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, backlog=2048).start()
        bound: Any = runner.addresses[0]
        yield f"http://{address}:{bound[1]}"
    finally:
        stopping.set()
        await runner.cleanup()
