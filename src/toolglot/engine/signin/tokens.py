"""What a sign-in is: something that returns a token, and another one when that was refused.

A token is cached until shortly before it expires. Concurrent callers share one fetch, and cancelling one of
them does not cancel it for the others. A token never appears in a repr.
"""

import asyncio
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol, runtime_checkable

import msgspec

from toolglot.errors import AuthenticationFailed

__all__ = ["NOT_SIGNED_IN", "CachedSignIn", "SignIn", "Token", "not_signed_in_error"]

# Seconds before its expiry at which a token is no longer used: a request may wait for a connection before it
# is sent.
EXPIRY_MARGIN = 120.0
# The code of the error "there is nothing to sign in with"; its message says what to do about it.
NOT_SIGNED_IN = "not_signed_in"


class Token(msgspec.Struct, frozen=True):
    """A bearer token."""

    text: str
    """The token itself."""
    expires_at: float | None = None
    """Seconds since 1970; None: use it until it is refused."""
    base_url: str = ""
    """Where it is valid, if that is not the provider's usual address."""
    headers: dict[str, str] = {}
    """Headers to send with it."""

    def __repr__(self) -> str:
        """Omit the token."""
        return f"Token(expires_at={self.expires_at}, base_url={self.base_url!r})"


@runtime_checkable
class SignIn(Protocol):
    """A source of tokens. It can be passed as the `key` of an engine."""

    async def token(self, *, fresh: bool) -> Token:
        """Return a token. `fresh`: the last one was refused. Raises AuthenticationFailed, TransportError."""
        ...


def not_signed_in_error(hint: str) -> AuthenticationFailed:
    """The error of a sign-in that has nothing to sign in with."""
    return AuthenticationFailed(hint, code=NOT_SIGNED_IN)


class CachedSignIn:
    """A vendor's sign-in, which caches its token. Safe to share."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._token: Token | None = None
        self._valid_until = 0.0
        # One fetch for each event loop: a task cannot be awaited from another loop.
        self._pending_fetches: dict[asyncio.AbstractEventLoop, asyncio.Task[Token]] = {}

    async def fetch(self) -> Token:
        """Return a new token each time."""
        raise NotImplementedError

    def describe_origin(self) -> str | None:
        """What it would sign in with, as far as this machine can tell without a request."""
        raise NotImplementedError

    async def token(self, *, fresh: bool) -> Token:
        """Return the cached token, or a new one."""
        if self._token is not None and not fresh and self._clock() < self._valid_until:
            return self._token
        loop = asyncio.get_running_loop()
        task = self._pending_fetches.get(loop)
        if task is None:
            task = self._pending_fetches[loop] = loop.create_task(self._renew())
            task.add_done_callback(partial(self._finish_fetch, loop))
        return await asyncio.shield(task)

    async def _renew(self) -> Token:
        token, now = await self.fetch(), self._clock()
        if token.expires_at is None:
            self._valid_until = math.inf
        else:
            # Half of its life for a short-lived token, or it would be stale on arrival.
            self._valid_until = token.expires_at - min(EXPIRY_MARGIN, max(0.0, token.expires_at - now) / 2)
        self._token = token
        return token

    def _finish_fetch(self, loop: asyncio.AbstractEventLoop, task: "asyncio.Task[Token]") -> None:
        del self._pending_fetches[loop]
        if not task.cancelled():
            # mark it retrieved: every caller may have been cancelled, and asyncio would log it
            task.exception()
