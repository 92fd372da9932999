"""Serves the simulator over real HTTP, on loopback. aiohttp is imported when it serves.

It only sends what the simulator decided, and logs method, path and status, never headers or bodies.
"""

import asyncio
import logging
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

from toolglot.simulator.core import Simulator, Stall

__all__ = ["serve"]

_log = logging.getLogger("toolglot.simulator")
_MAX_REQUEST_BYTES = 256 * 1024 * 1024  # bytes of a request
_LINGER_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends a reset


@asynccontextmanager
async def serve(simulator: Simulator | None = None, host: str = "127.0.0.1", port: int = 0) -> AsyncGenerator[str]:
    """Serve a simulator, and yield its base URL. Port 0 picks a free one. The exit ends all connections."""
    from aiohttp import web

    simulated, stopping = simulator or Simulator(), asyncio.Event()

    async def handle_request(request: web.Request) -> web.StreamResponse:
        answer = simulated.handle(request.method, request.path_qs, request.headers, await request.read())
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

    app = web.Application(client_max_size=_MAX_REQUEST_BYTES)
    app.router.add_route("*", "/{path:.*}", handle_request)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, backlog=2048).start()
        address: Any = runner.addresses[0]
        yield f"http://{f'[{host}]' if ':' in host else host}:{address[1]}"
    finally:
        stopping.set()
        await runner.cleanup()
