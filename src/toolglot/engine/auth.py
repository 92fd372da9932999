"""Where a key comes from and how it is sent. A key never stands in an error, a log, a recording or a URL.

Order: what the caller gave (a text, or a function that is asked before each request and again after a 401), then the vendor's
own variables in the environment.
"""

import os
from collections import deque
from collections.abc import Awaitable, Callable
from inspect import isawaitable

from toolglot.errors import AuthenticationFailed
from toolglot.providers.profile import Profile

__all__ = ["Key", "KeySource"]

_REMEMBERED = 8  # keys that are hidden where text is shown: tokens are renewed
Key = str | Callable[[], str | Awaitable[str]]


class KeySource:
    """The key of one provider."""

    def __init__(self, profile: Profile, key: Key | None = None) -> None:
        self._profile = profile
        self._key = key
        self._known: deque[str] = deque(maxlen=_REMEMBERED)

    @property
    def renewable(self) -> bool:
        """Whether asking again may give another key."""
        return callable(self._key)

    @property
    def known(self) -> frozenset[str]:
        """The keys that were used so far: to be hidden wherever text is shown."""
        return frozenset(self._known)

    async def headers(self) -> dict[str, str]:
        """The header that holds the key. Raises AuthenticationFailed where there is none, and says what to set."""
        key, bearer = await self._find()
        if not key:
            if self._profile.auth == "optional":
                return {}
            wanted = " or ".join((*self._profile.key_env, *self._profile.token_env)) or "a key"
            raise AuthenticationFailed(f"no key for {self._profile.title}: set {wanted} or pass key=…")
        if not key.isascii() or not key.isprintable() or " " in key:
            raise AuthenticationFailed(f"the key for {self._profile.title} holds characters that no header can hold")
        if key not in self._known:
            self._known.append(key)
        if bearer or self._profile.auth in ("bearer", "optional"):
            return {"authorization": f"Bearer {key}"}
        return {self._profile.auth: key}

    async def _find(self) -> tuple[str, bool]:
        """The key, and whether it is a token that is always sent as a bearer."""
        if callable(self._key):
            value = self._key()
            found: str | None = await value if isawaitable(value) else value
            return (found or "").strip(), False
        if self._key is not None:
            return self._key.strip(), False
        for name in (*self._profile.key_env, *self._profile.token_env):
            if found := os.environ.get(name, "").strip():
                return found, name in self._profile.token_env
        return "", False
