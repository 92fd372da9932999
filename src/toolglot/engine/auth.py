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
from toolglot.engine.signin.environment import hide_environment, read_key_variable, remember_key, secret_values
from toolglot.engine.signin.keyring_store import load_key
from toolglot.engine.signin.tokens import NOT_SIGNED_IN, SignIn, Token
from toolglot.errors import AuthenticationFailed
from toolglot.providers.catalog import PROFILES
from toolglot.providers.profile import Profile

__all__ = [
    "Key",
    "KeySource",
    "SignIn",
    "Token",
    "describe_key_origin",
    "hide_environment",
    "key_from_variable",
    "read_key_variable",
    "secret_values",
]

_MAX_REMEMBERED_KEYS = 8  # keys that are hidden where text is shown, and that were refused: tokens are renewed
Key = str | Callable[[], str | Awaitable[str | None] | None] | SignIn


class _VendorSignIn(SignIn, Protocol):
    def describe_origin(self) -> str | None: ...


_SIGN_INS: dict[str, Callable[[], _VendorSignIn]] = {"entra": EntraSignIn, "adc": AdcSignIn, "copilot": CopilotSignIn}
_LOGIN_IN_KEYRING = frozenset({"copilot"})
"""Sign-ins whose entry in the keyring is not a key."""


@cache
def _sign_in(kind: str) -> _VendorSignIn:
    """One for all engines of a process, so that they share its token."""
    return _SIGN_INS[kind]()


class _Credential(msgspec.Struct, frozen=True):
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
        self._keyring_key = ""
        self._uses_keyring = profile.auth != "optional" and profile.sign_in not in _LOGIN_IN_KEYRING
        row = PROFILES.get(profile.id)
        self._allows_other_base_url = row is not None and row.base_url == profile.base_url  # nobody chose another address
        self._refused_keys: deque[str] = deque(maxlen=_MAX_REMEMBERED_KEYS)
        self._known_keys: deque[str] = deque(maxlen=_MAX_REMEMBERED_KEYS)
        self.base_url = ""
        """Where the last token is good, when that is not the profile's address."""

    @property
    def is_renewable(self) -> bool:
        """Whether asking again may give another key."""
        if self._key is not None:
            return not isinstance(self._key, str)
        return self._origin in ("keyring", "sign-in") or self._may_need_keyring

    @property
    def is_explicit(self) -> bool:
        """Whether the caller gave the key."""
        return self._key is not None

    @property
    def known_keys(self) -> frozenset[str]:
        """The keys that were used so far: to be hidden wherever text is shown."""
        return frozenset(self._known_keys)

    def mark_refused(self, key_headers: Mapping[str, str]) -> None:
        """The key in these headers was refused: it is not used again where there is another."""
        self._refused_keys.extend(value.removeprefix("Bearer ") for value in key_headers.values())
        if self._may_need_keyring:
            self._uses_keyring = True

    async def headers(self) -> dict[str, str]:
        """The headers that hold the key. Raises AuthenticationFailed where there is none, and says what to set."""
        found = await self._find_credential()
        key, self._origin = found.key, found.origin
        self.base_url = found.base_url if self._allows_other_base_url else ""
        if not key:
            if self._profile.auth == "optional":
                return {}
            raise AuthenticationFailed(f"no key for {self._profile.title}: {self._describe_variables()} or pass key=…")
        if not key.isascii() or not key.isprintable() or " " in key:
            raise AuthenticationFailed(f"the key for {self._profile.title} holds characters that no header can hold")
        if key not in self._known_keys:
            self._known_keys.append(key)
            remember_key(key)
        if found.bearer or self._profile.auth in ("bearer", "optional"):
            return {**found.headers, "authorization": f"Bearer {key}"}
        return {**found.headers, self._profile.auth: key}

    @property
    def _may_need_keyring(self) -> bool:
        """A server that asks for no key is not asked about at the keyring, which may ask for a password, before it refuses."""
        return self._profile.auth == "optional" and not self._origin and not self._uses_keyring and self._key is None

    def _describe_variables(self) -> str:
        names = (*self._profile.key_env, *self._profile.token_env)
        return f"set {' or '.join(names) or 'a key'}"

    async def _find_credential(self) -> _Credential:
        if self._key is not None:
            return await self._resolve_explicit_key(self._key)
        for name in (*self._profile.key_env, *self._profile.token_env):
            if found := read_key_variable(name):
                return _Credential(found, "variable", bearer=name in self._profile.token_env)
        if found := await self._read_keyring():
            return _Credential(found, "keyring")
        return await self._fetch_token(_sign_in(self._profile.sign_in)) if self._profile.sign_in else _Credential()

    async def _resolve_explicit_key(self, key: Key) -> _Credential:
        if isinstance(key, str):
            return _Credential(key.strip(), "caller")
        if isinstance(key, SignIn):
            return await self._fetch_token(key)
        value = key()
        found = await value if isawaitable(value) else value
        return _Credential((found or "").strip(), "caller")

    async def _read_keyring(self) -> str:
        if self._uses_keyring and (not self._keyring_key or self._keyring_key in self._refused_keys):
            self._keyring_key = await asyncio.to_thread(load_key, self._profile.id) or ""
        return self._keyring_key

    async def _fetch_token(self, sign_in: SignIn) -> _Credential:
        try:
            token = await sign_in.token(fresh=False)
            if token.text in self._refused_keys:
                token = await sign_in.token(fresh=True)
        except AuthenticationFailed as error:
            if error.code != NOT_SIGNED_IN:
                raise
            said = f"no key for {self._profile.title}: {self._describe_variables()}, pass key=…, or {error}"
            raise AuthenticationFailed(said) from None
        return _Credential(token.text.strip(), "sign-in", True, token.headers, token.base_url)


def key_from_variable(name: str) -> Callable[[], str]:
    """A key for `create_engine`: what a variable of this name holds when a request is made."""
    return partial(_require_variable, name)


def _require_variable(name: str) -> str:
    if found := read_key_variable(name):
        return found
    raise AuthenticationFailed(f"no key: the variable {name} is not set")


def describe_key_origin(profile: Profile, *, keyring: bool = True) -> str | None:
    """Where a key would come from, as far as can be told without asking anyone else; None: there is none.

    `keyring`: whether the system's keyring is looked into, which takes a moment.
    """
    for name in (*profile.key_env, *profile.token_env):
        if read_key_variable(name):
            return f"variable {name}"
    if keyring and profile.sign_in not in _LOGIN_IN_KEYRING and load_key(profile.id):
        return "system keyring"
    return _sign_in(profile.sign_in).describe_origin() if profile.sign_in else None
