"""The simulator as an in-process transport: no key, no network, no port."""

import asyncio
from collections.abc import Mapping
from urllib.parse import urlsplit

from toolglot.engine.transport import HttpRequest, HttpResponse
from toolglot.errors import ConnectionLost
from toolglot.simulator.core import Part, Reset, Script, Simulator, Stall

__all__ = ["SimulatedTransport"]


class SimulatedTransport:
    """Passes every request to a simulator."""

    def __init__(self, simulator: Simulator | Script | None = None) -> None:
        self.simulator: Simulator = simulator if isinstance(simulator, Simulator) else Simulator(simulator)

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Return the simulator's response. A simulated stall waits until it is cancelled."""
        url = urlsplit(request.url)
        path = url.path + (f"?{url.query}" if url.query else "")
        headers = {name.lower(): value for name, value in request.headers.items()}
        answer = self.simulator.handle(request.method, path, headers, request.body)
        if answer.parts and not isinstance(answer.parts[0], bytes):  # the fault comes before the head
            await _apply_fault(answer.parts[0])
        return _SimulatedResponse(
            answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.parts
        )


class _SimulatedResponse:
    def __init__(self, status: int, headers: Mapping[str, str], parts: list[Part]) -> None:
        self.status, self.headers = status, headers
        self._parts = iter(parts)

    async def read(self) -> bytes:
        await asyncio.sleep(0)  # yield to other tasks, as a network read would
        for part in self._parts:
            if not isinstance(part, bytes):
                await _apply_fault(part)
            elif part:
                return part
        return b""

    async def close(self) -> None:
        self._parts = iter(())


async def _apply_fault(part: Part) -> None:
    if isinstance(part, Stall):
        await asyncio.Event().wait()
    if isinstance(part, Reset):
        raise ConnectionLost("the connection to the simulator was reset")
