"""The SDK's Streamable HTTP transport with limits, and with errors that include the server's status."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from toolglot.mcp.servers import McpServer
from toolglot.mcp.stdio import MAX_MESSAGE

if TYPE_CHECKING:
    import httpx2
    from mcp.client._transport import TransportStreams

__all__ = ["http_transport"]

_CONNECT_SECONDS = 30.0


@asynccontextmanager
async def http_transport(
    server: McpServer, auth: "httpx2.Auth | None", on_status: Callable[[int], None], on_end: Callable[[str], None]
) -> "AsyncGenerator[TransportStreams]":
    """Connect to a server. `on_status` receives every HTTP status, which the SDK's errors omit; `on_end`, why it must end."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    def refuse(reason: str) -> Exception:
        on_end(reason)
        return httpx2.RemoteProtocolError(reason)

    class LimitedStream(httpx2.AsyncByteStream):
        """A body with a size limit: per line for an event stream, in total for anything else."""

        def __init__(self, stream: Any, *, is_events: bool) -> None:
            self._stream, self._is_events = stream, is_events

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in self._stream:
                at = chunk.rfind(b"\n") if self._is_events else -1
                size = len(chunk) - at - 1 if at >= 0 else size + len(chunk)
                if size > MAX_MESSAGE:
                    raise refuse(f"it sent more than {MAX_MESSAGE >> 20} MB at once")
                yield chunk

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def check_response(response: httpx2.Response) -> None:
        on_status(response.status_code)
        encoding = response.headers.get("content-encoding", "identity").lower()
        if encoding != "identity":  # a few bytes could become gigabytes
            raise refuse(f"it sent compressed data ({encoding[:20]}) that was not requested")
        is_events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        response.stream = LimitedStream(response.stream, is_events=is_events)

    client = httpx2.AsyncClient(
        # Calls are timed elsewhere; an event stream may stay silent indefinitely.
        timeout=httpx2.Timeout(_CONNECT_SECONDS, read=None),
        headers={"accept-encoding": "identity", **server.headers},
        auth=auth,
        event_hooks={"response": [check_response]},
    )
    async with (
        client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_MESSAGE) as streams,
    ):
        yield streams
