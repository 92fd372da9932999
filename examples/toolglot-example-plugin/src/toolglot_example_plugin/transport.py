"""A transport: `transport = "parrot-cage"` in the configuration.

It is called with the configured timeouts.
"""

from msgspec.structs import replace

from toolglot import HttpRequest, HttpResponse, SimulatedTransport, Timeouts

__all__ = ["ParrotCage"]


class ParrotCage:
    """Keeps requests on this machine: toolglot's simulator answers for the provider."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._simulator = SimulatedTransport()

    async def send(self, request: HttpRequest) -> HttpResponse:
        url = request.url.replace("https://parrot.example/", "http://simulator/@parrot/")
        return await self._simulator.send(replace(request, url=url))
