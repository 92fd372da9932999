"""What a sign-in is: it gives a token, and another one where that was refused.

Laws: a token is kept until shortly before it ends. All who ask at the same time share one fetch, and one of them who is
cancelled does not end it for the others. A token never stands in a repr.
"""

import asyncio
import math
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol, runtime_checkable

import msgspec

from toolglot.errors import AuthenticationFailed

__all__ = ["NOT_SIGNED_IN", "SignIn", "Token", "TokenCache", "not_signed_in_error"]

EXPIRY_MARGIN = 120.0
"""Seconds before its end from which a token is not used any more; half of its life where that is shorter."""
NOT_SIGNED_IN = "not_signed_in"
"""The code of an error that says: there is nothing to sign in with. Its text is what to do about it."""


class Token(msgspec.Struct, frozen=True):
    """What is sent as a bearer."""

    text: str
    expires_at: float | None = None
    """Seconds since 1970; None: it is used until it is refused."""
    base_url: str = ""
    """Where it is good, when that is not the provider's usual address."""
    headers: dict[str, str] = {}
    """What goes with it."""

    def __repr__(self) -> str:
        """Without the token."""
        return f"Token(expires_at={self.expires_at}, base_url={self.base_url!r})"


@runtime_checkable
class SignIn(Protocol):
    """Where tokens come from. It may be given as the `key` of an engine."""

    async def token(self, *, fresh: bool) -> Token:
        """A token. `fresh`: the last one was refused. Raises AuthenticationFailed, TransportError."""
        ...


def not_signed_in_error(hint: str) -> AuthenticationFailed:
    """The error of a sign-in that has nothing to sign in with."""
    return AuthenticationFailed(hint, code=NOT_SIGNED_IN)


class TokenCache:
    """Keeps the token that `fetch` gives. `fetch` keeps none itself: each of its tokens is new."""

    def __init__(self, fetch: Callable[[], Coroutine[Any, Any, Token]], clock: Callable[[], float] = time.time) -> None:
        self._fetch, self._clock = fetch, clock
        self._token: Token | None = None
        self._valid_until = 0.0
        self._pending_fetches: dict[asyncio.AbstractEventLoop, asyncio.Task[Token]] = {}

    async def get(self, *, fresh: bool) -> Token:
        """The token that is kept, or a new one."""
        if self._token is not None and not fresh and self._clock() < self._valid_until:
            return self._token
        loop = asyncio.get_running_loop()
        task = self._pending_fetches.get(loop)
        if task is None:
            task = self._pending_fetches[loop] = loop.create_task(self._renew())
            task.add_done_callback(partial(self._finish_fetch, loop))
        return await asyncio.shield(task)

    async def _renew(self) -> Token:
        token = await self._fetch()
        self._token, self._valid_until = token, _usable_until(token, self._clock())
        return token

    def _finish_fetch(self, loop: asyncio.AbstractEventLoop, task: "asyncio.Task[Token]") -> None:
        del self._pending_fetches[loop]
        if not task.cancelled():
            task.exception()  # seen: the one who asked may be gone


def _usable_until(token: Token, now: float) -> float:
    if token.expires_at is None:
        return math.inf
    return token.expires_at - min(EXPIRY_MARGIN, max(0.0, token.expires_at - now) / 2)
