"""Sign-ins that do not queue a server's requests: the SDK's keeps its lock until the server has begun to
respond.
"""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import httpx2

if TYPE_CHECKING:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthToken

__all__ = ["ConcurrentAuth"]


class ConcurrentAuth(httpx2.Auth):
    """Sends requests outside the lock of the SDK's sign-in, which is left to load, refresh and obtain tokens.

    Servers may begin to respond only when a call is done. Behind one that takes long, all others would wait.
    """

    def __init__(self, provider: "OAuthClientProvider") -> None:
        self._provider = provider
        self._is_loaded = False
        """Whether the stored tokens were read, which the SDK does before the first request."""

    def _can_send(self) -> bool:
        context = self._provider.context
        return self._is_loaded and (context.is_token_valid() or not context.can_refresh_token())

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        context = self._provider.context
        refusal: httpx2.Response | None = None
        tokens: OAuthToken | None = None
        while True:
            if refusal is not None or not self._can_send():
                flow = self._provider.async_auth_flow(request)
                try:
                    outgoing = await anext(flow)
                    while outgoing is not request:
                        outgoing = await flow.asend((yield outgoing))
                    self._is_loaded = True
                    if refusal is None and not context.is_token_valid():
                        tokens = context.current_tokens
                        refusal = yield request
                    # Otherwise another request has led to new tokens meanwhile.
                    if refusal is not None and context.current_tokens is tokens:
                        outgoing = await flow.asend(refusal)
                        while outgoing is not request:
                            outgoing = await flow.asend((yield outgoing))
                except StopAsyncIteration:  # signing in is not what the server wants
                    return
                finally:
                    await flow.aclose()
            is_last = refusal is not None
            tokens = context.current_tokens
            if tokens is not None and context.is_token_valid():
                request.headers["Authorization"] = f"Bearer {tokens.access_token}"
            refusal = yield request
            if is_last or refusal.status_code not in (401, 403):
                return
