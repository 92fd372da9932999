"""Where a key comes from and how it is sent. A key never stands in an error, a log, a recording or a URL.

Order: what the caller gave (a text, a function that is asked before each request and again after a 401, or a sign-in), the
vendor's own variables, the system keyring, the vendor's sign-in. Variables may have been taken out of the environment before.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import cache, partial
from inspect import isawaitable
from typing import Literal, Protocol

import msgspec

from toolglot.engine.signin.adc import AdcSignIn
from toolglot.engine.signin.copilot import CopilotSignIn
from toolglot.engine.signin.entra import EntraSignIn
from toolglot.engine.signin.environment import environment_key, hidden_values, hide_environment, remember
from toolglot.engine.signin.stored import stored
from toolglot.engine.signin.tokens import NOT_SIGNED_IN, SignIn, Token
from toolglot.errors import AuthenticationFailed
from toolglot.providers.catalog import PROFILES
from toolglot.providers.profile import Profile

__all__ = [
    "Key",
    "KeySource",
    "SignIn",
    "Token",
    "environment_key",
    "hidden_values",
    "hide_environment",
    "key_in",
    "key_origin",
]

_REMEMBERED = 8  # keys that are hidden where text is shown, and that were refused: tokens are renewed
Key = str | Callable[[], str | Awaitable[str | None] | None] | SignIn


class _OwnSignIn(SignIn, Protocol):
    def origin(self) -> str | None: ...


_SIGN_INS: dict[str, Callable[[], _OwnSignIn]] = {"entra": EntraSignIn, "adc": AdcSignIn, "copilot": CopilotSignIn}
_KEEPS_A_LOGIN = frozenset({"copilot"})
"""Sign-ins whose entry in the keyring is not a key."""


@cache
def _sign_in(kind: str) -> _OwnSignIn:
    """One for all engines of a process, so that they share its token."""
    return _SIGN_INS[kind]()


class _Found(msgspec.Struct, frozen=True):
    key: str = ""
    origin: Literal["", "caller", "variable", "keyring", "sign-in"] = ""
    bearer: bool = False
    """Whether it is a token, which is always sent as a bearer."""
    headers: dict[str, str] = {}
    base_url: str = ""

    def __repr__(self) -> str:
        """Without the key."""
        return f"_Found(origin={self.origin!r})"


class KeySource:
    """The key of one provider."""

    def __init__(self, profile: Profile, key: Key | None = None) -> None:
        self._profile = profile
        self._key = key
        self._origin = ""
        self._kept = ""
        self._asks_keyring = profile.auth != "optional" and profile.sign_in not in _KEEPS_A_LOGIN
        row = PROFILES.get(profile.id)
        self._may_move = row is not None and row.base_url == profile.base_url  # nobody chose another address
        self._refused: deque[str] = deque(maxlen=_REMEMBERED)
        self._known: deque[str] = deque(maxlen=_REMEMBERED)
        self.base_url = ""
        """Where the last token is good, when that is not the profile's address."""

    @property
    def renewable(self) -> bool:
        """Whether asking again may give another key."""
        if self._key is not None:
            return not isinstance(self._key, str)
        return self._origin in ("keyring", "sign-in") or self._may_need_keyring

    @property
    def given(self) -> bool:
        """Whether the caller gave the key."""
        return self._key is not None

    @property
    def known(self) -> frozenset[str]:
        """The keys that were used so far: to be hidden wherever text is shown."""
        return frozenset(self._known)

    def renew(self, sent: Mapping[str, str]) -> None:
        """The key in these headers was refused: it is not used again where there is another."""
        self._refused.extend(value.removeprefix("Bearer ") for value in sent.values())
        if self._may_need_keyring:
            self._asks_keyring = True

    async def headers(self) -> dict[str, str]:
        """The headers that hold the key. Raises AuthenticationFailed where there is none, and says what to set."""
        found = await self._find()
        key, self._origin = found.key, found.origin
        self.base_url = found.base_url if self._may_move else ""
        if not key:
            if self._profile.auth == "optional":
                return {}
            raise AuthenticationFailed(f"no key for {self._profile.title}: {self._wanted()} or pass key=…")
        if not key.isascii() or not key.isprintable() or " " in key:
            raise AuthenticationFailed(f"the key for {self._profile.title} holds characters that no header can hold")
        if key not in self._known:
            self._known.append(key)
            remember(key)
        if found.bearer or self._profile.auth in ("bearer", "optional"):
            return {**found.headers, "authorization": f"Bearer {key}"}
        return {**found.headers, self._profile.auth: key}

    @property
    def _may_need_keyring(self) -> bool:
        """A server that asks for no key is not asked about at the keyring, which may ask for a password, before it refuses."""
        return self._profile.auth == "optional" and not self._origin and not self._asks_keyring and self._key is None

    def _wanted(self) -> str:
        names = (*self._profile.key_env, *self._profile.token_env)
        return f"set {' or '.join(names) or 'a key'}"

    async def _find(self) -> _Found:
        if self._key is not None:
            return await self._given(self._key)
        for name in (*self._profile.key_env, *self._profile.token_env):
            if found := environment_key(name):
                return _Found(found, "variable", bearer=name in self._profile.token_env)
        if found := await self._in_keyring():
            return _Found(found, "keyring")
        return await self._signed_in(_sign_in(self._profile.sign_in)) if self._profile.sign_in else _Found()

    async def _given(self, key: Key) -> _Found:
        if isinstance(key, str):
            return _Found(key.strip(), "caller")
        if isinstance(key, SignIn):
            return await self._signed_in(key)
        value = key()
        found = await value if isawaitable(value) else value
        return _Found((found or "").strip(), "caller")

    async def _in_keyring(self) -> str:
        if self._asks_keyring and (not self._kept or self._kept in self._refused):
            self._kept = await asyncio.to_thread(stored, self._profile.id) or ""
        return self._kept

    async def _signed_in(self, sign_in: SignIn) -> _Found:
        try:
            token = await sign_in.token(fresh=False)
            if token.text in self._refused:
                token = await sign_in.token(fresh=True)
        except AuthenticationFailed as error:
            if error.code != NOT_SIGNED_IN:
                raise
            said = f"no key for {self._profile.title}: {self._wanted()}, pass key=…, or {error}"
            raise AuthenticationFailed(said) from None
        return _Found(token.text.strip(), "sign-in", True, token.headers, token.base_url)


def key_in(name: str) -> Callable[[], str]:
    """A key for `create_engine`: what a variable of this name holds when a request is made."""
    return partial(_value_of, name)


def _value_of(name: str) -> str:
    if found := environment_key(name):
        return found
    raise AuthenticationFailed(f"no key: the variable {name} is not set")


def key_origin(profile: Profile, *, keyring: bool = True) -> str | None:
    """Where a key would come from, as far as can be told without asking anyone else; None: there is none.

    `keyring`: whether the system's keyring is looked into, which takes a moment.
    """
    for name in (*profile.key_env, *profile.token_env):
        if environment_key(name):
            return f"variable {name}"
    if keyring and profile.sign_in not in _KEEPS_A_LOGIN and stored(profile.id):
        return "system keyring"
    return _sign_in(profile.sign_in).origin() if profile.sign_in else None
