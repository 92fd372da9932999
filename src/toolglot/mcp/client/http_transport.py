"""The SDK's Streamable HTTP transport over our HTTP client."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from toolglot.mcp.client.servers import McpServer
from toolglot.mcp.client.stdio import MAX_MESSAGE

if TYPE_CHECKING:
    import httpx2
    from mcp.client._transport import TransportStreams

    from toolglot.mcp.client.oauth_gate import OAuthGate

__all__ = ["http_transport"]


@asynccontextmanager
async def http_transport(
    server: McpServer,
    auth: "httpx2.Auth | None",
    gate: "OAuthGate | None",
    on_status: Callable[[int], None],
    on_end: Callable[[str], None],
) -> "AsyncGenerator[TransportStreams]":
    """Connect to a server.

    `gate` checks a sign-in's requests; `on_end` receives the reason why the connection must end.
    """
    from mcp.client.auth import OAuthClientProvider
    from mcp.client.streamable_http import streamable_http_client

    from toolglot.mcp.client.concurrent_auth import ConcurrentAuth
    from toolglot.mcp.client.http_client import McpHttpClient  # imports the SDK's HTTP client

    if isinstance(auth, OAuthClientProvider):
        auth = ConcurrentAuth(auth)
    client = McpHttpClient(server.headers, auth, gate, on_status, on_end)
    async with (
        client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_MESSAGE) as streams,
    ):
        yield streams
