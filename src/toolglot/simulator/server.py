"""Serves the simulator over real HTTP, on loopback. aiohttp is imported when it serves.

It only sends what the simulator decided, and logs method, path and status, never headers or bodies.
"""

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from toolglot.simulator.core import Simulator, Stall

if TYPE_CHECKING:
    from aiohttp import web

__all__ = ["SimulatorServer", "serve"]

_log = logging.getLogger("toolglot.simulator")
_MAX_REQUEST_BYTES = 256 * 1024 * 1024  # bytes of a request
_LINGER_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends a reset


class SimulatorServer:
    """Serves a simulator: `async with SimulatorServer() as url`, or `start` and `stop`."""

    def __init__(self, simulator: Simulator | None = None) -> None:
        self.simulator = simulator or Simulator()
        self.url = ""
        self._runner: web.AppRunner | None = None
        self._stopping = asyncio.Event()

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> str:
        """Listen, and return the base URL. Port 0 picks a free one."""
        from aiohttp import web

        app = web.Application(client_max_size=_MAX_REQUEST_BYTES)
        app.router.add_route("*", "/{path:.*}", self.handle_request)
        self._stopping.clear()
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, backlog=2048)
        await site.start()
        address: Any = self._runner.addresses[0]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{address[1]}"
        return self.url

    async def stop(self) -> None:
        """Close all connections, including stalled ones."""
        self._stopping.set()
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    async def __aenter__(self) -> str:
        return await self.start()

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    async def handle_request(self, request: "web.Request") -> "web.StreamResponse":
        """Send the simulator's response to one request."""
        from aiohttp import web

        body = await request.read()
        simulated = self.simulator.handle(request.method, request.path_qs, request.headers, body)
        _log.debug("%s %s -> %s", request.method, request.path, simulated.status)
        if len(simulated.parts) == 1 and isinstance(whole := simulated.parts[0], bytes):
            return web.Response(status=simulated.status, headers=simulated.headers, body=whole)
        response = web.StreamResponse(status=simulated.status, headers=simulated.headers)
        with suppress(ConnectionError):  # the client left
            for part in simulated.parts:
                if isinstance(part, bytes):
                    if not response.prepared:
                        await response.prepare(request)
                    await response.write(part)
                    continue
                if isinstance(part, Stall):
                    await self._stopping.wait()  # or until the client leaves, which cancels this
                if (transport := request.transport) is not None:
                    if (sock := transport.get_extra_info("socket")) is not None:
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
                    transport.abort()
                return response
            await response.write_eof()
        return response


async def serve(
    host: str = "127.0.0.1",
    port: int = 8484,
    *,
    simulator: Simulator | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until cancelled. `on_ready` is called with the base URL."""
    server = SimulatorServer(simulator)
    url = await server.start(host, port)
    try:
        if on_ready:
            on_ready(url)
        await asyncio.Event().wait()
    finally:
        await server.stop()
