"""Where a key comes from and how it is sent. A key never appears in an error, a log, a recording or a URL.

Order: what the caller passed (a string, a function that is called before each request and again after a 401,
or a sign-in), the vendor's environment variables, the system keyring, the vendor's sign-in. The variables may
have been hidden before.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib import import_module
from inspect import isawaitable
from typing import Literal

import msgspec

from toolglot.common.known_keys import remember_key
from toolglot.common.plugins import find_plugin, plugin_error, plugin_names
from toolglot.engine.signin.environment import (
    add_key_variables,
    hide_environment,
    read_key_variable,
    secret_values,
)
from toolglot.engine.signin.keyring_store import load_key
from toolglot.engine.signin.tokens import NOT_SIGNED_IN, CachedSignIn, SignIn, Token
from toolglot.errors import AuthenticationFailed, UnknownName
from toolglot.providers.catalog import PROFILES
from toolglot.providers.profile import Profile

__all__ = [
    "Key",
    "KeySource",
    "KeyVariable",
    "SignIn",
    "Token",
    "describe_key_origin",
    "hide_environment",
    "read_key_variable",
    "secret_values",
]

_MAX_REMEMBERED_KEYS = 8  # tokens are renewed for as long as an engine lives
Key = str | Callable[[], str | Awaitable[str | None] | None] | SignIn
_Origin = Literal["", "caller", "variable", "token variable", "keyring", "sign-in"]
# Loaded on first use: they need extras, and most programs need none of them.
SIGN_INS = {"entra": "entra:EntraSignIn", "adc": "adc:AdcSignIn", "copilot": "copilot:CopilotSignIn"}
# Sign-ins whose entry in the keyring is a login, not a key that could be sent.
_LOGIN_IN_KEYRING = frozenset({"copilot"})


@cache
def _sign_in(kind: str) -> SignIn:
    """One instance for all engines of a process, so that they share its token. Raises UsageError."""
    if kind in SIGN_INS:
        module, _, name = SIGN_INS[kind].partition(":")
        return getattr(import_module(f"toolglot.engine.signin.{module}"), name)()
    create = find_plugin("sign_ins", kind)
    if create is None:
        raise UnknownName("sign-in", kind, (*SIGN_INS, *plugin_names("sign_ins")))
    sign_in = create() if callable(create) else create
    if not isinstance(sign_in, SignIn):
        raise plugin_error("sign_ins", kind, "is not a SignIn, or a function that returns one")
    return sign_in


class KeySource:
    """The key of one provider."""

    def __init__(self, profile: Profile, key: Key | None = None) -> None:
        self._profile = profile
        self._key = key
        # which are not known before, if it is not one of ours
        add_key_variables((*profile.key_env, *profile.token_env))
        self.is_explicit = key is not None
        """Whether the caller passed the key."""
        self._origin: _Origin = ""
        self._variable = ""
        """From which the key was read last."""
        self._keyring_key = ""
        # A keyring may ask the user for a password: a server that needs no key does not look there before it
        # refuses a request.
        self._uses_keyring = profile.auth != "optional" and profile.sign_in not in _LOGIN_IN_KEYRING
        # A token may name another address, but not over one that the caller chose.
        row = PROFILES.get(profile.id)
        self._allows_other_base_url = row is not None and row.base_url == profile.base_url
        self._refused_keys: deque[str] = deque(maxlen=_MAX_REMEMBERED_KEYS)
        self._known_keys: deque[str] = deque(maxlen=_MAX_REMEMBERED_KEYS)
        self.base_url = ""
        """Where the last token is valid, if that is not the profile's address."""

    @property
    def is_renewable(self) -> bool:
        """Whether asking again may return another key."""
        if self.is_explicit:
            return not isinstance(self._key, str)
        return self._origin in ("keyring", "sign-in") or self._may_need_keyring

    @property
    def known_keys(self) -> frozenset[str]:
        """The keys used so far, to be redacted wherever text is shown."""
        return frozenset(self._known_keys)

    def describe_key(self) -> str:
        """Return what to call the last key in an error: where it came from."""
        match self._origin:
            case "variable" | "token variable":
                return f"the key in {self._variable}"
            case "keyring":
                return f"the key in the system keyring (toolglot login {self._profile.id} replaces it)"
            case "sign-in":
                return "the sign-in"
            case "caller":
                return (
                    f"the key in {self._key.name}"
                    if isinstance(self._key, KeyVariable)
                    else "the key passed as key="
                )
            case "":
                return f"the key: {self._describe_variables()}"

    def mark_refused(self, key_headers: Mapping[str, str]) -> None:
        """Do not use the key in these headers again if there is another one."""
        self._refused_keys.extend(value.removeprefix("Bearer ") for value in key_headers.values())
        if self._may_need_keyring:
            self._uses_keyring = True

    async def headers(self) -> dict[str, str]:
        """The headers that carry the key.

        Raises AuthenticationFailed, with what to set, if there is no key.
        """
        token, self._origin = await self._find_token()
        key = token.text.strip()
        self.base_url = token.base_url if self._allows_other_base_url else ""
        if not key:
            if self._profile.auth == "optional":
                return {}
            raise AuthenticationFailed(
                f"no key for {self._profile.title}: {self._describe_variables()} or pass key=…"
            )
        # aiohttp would raise an error that repeats the header.
        if not key.isascii() or not key.isprintable() or " " in key:
            raise AuthenticationFailed(
                f"the key for {self._profile.title} contains characters that are not allowed in a header"
            )
        if key not in self._known_keys:
            self._known_keys.append(key)
            remember_key(key)
        # A token is always sent as a bearer, whatever the vendor does with keys.
        if self._origin in ("token variable", "sign-in") or self._profile.auth in ("bearer", "optional"):
            return {**token.headers, "authorization": f"Bearer {key}"}
        return {self._profile.auth: key}

    @property
    def _may_need_keyring(self) -> bool:
        return (
            self._profile.auth == "optional"
            and not self._origin
            and not self._uses_keyring
            and self._key is None
        )

    def _describe_variables(self) -> str:
        names = (*self._profile.key_env, *self._profile.token_env)
        return f"set {' or '.join(names) or 'a key'}"

    async def _find_token(self) -> tuple[Token, _Origin]:
        key, profile = self._key, self._profile
        if isinstance(key, str):
            return Token(key), "caller"
        if isinstance(key, SignIn):
            return await self._fetch_token(key), "sign-in"
        if key is not None:
            result = key()
            text = await result if isawaitable(result) else result
            return Token(text or ""), "caller"
        for name in (*profile.key_env, *profile.token_env):  # a key lasts, a token may have expired
            if value := read_key_variable(name):
                self._variable = name
                return Token(value), "token variable" if name in profile.token_env else "variable"
        if self._uses_keyring and (not self._keyring_key or self._keyring_key in self._refused_keys):
            self._keyring_key = await asyncio.to_thread(load_key, profile.id) or ""
        if self._keyring_key:
            return Token(self._keyring_key), "keyring"
        if profile.sign_in:
            return await self._fetch_token(_sign_in(profile.sign_in)), "sign-in"
        return Token(""), ""

    async def _fetch_token(self, sign_in: SignIn) -> Token:
        try:
            token = await sign_in.token(fresh=False)
            # Compare instead of asking for a fresh one after each 401: another conversation may have renewed
            # it already.
            if token.text in self._refused_keys:
                token = await sign_in.token(fresh=True)
        except AuthenticationFailed as error:
            if error.code != NOT_SIGNED_IN:
                raise
            message = (
                f"no key for {self._profile.title}: {self._describe_variables()}, pass key=…, or {error}"
            )
            raise AuthenticationFailed(message) from None
        return token


class KeyVariable(msgspec.Struct, frozen=True):
    """A key for `create_engine`: the value of a variable at the time of each request."""

    name: str

    def __call__(self) -> str:
        if value := read_key_variable(self.name):
            return value
        raise AuthenticationFailed(f"no key: the variable {self.name} is not set")


def describe_key_origin(profile: Profile, *, keyring: bool = True) -> str | None:
    """Where a key would come from, as far as this machine can tell without a request; None: there is none.

    `keyring`: whether to look into the system keyring, which is slow and may ask for a password.
    """
    for name in (*profile.key_env, *profile.token_env):
        if read_key_variable(name):
            return f"variable {name}"
    if keyring and profile.sign_in not in _LOGIN_IN_KEYRING and load_key(profile.id):
        return "system keyring"
    if not profile.sign_in:
        return None
    sign_in = _sign_in(profile.sign_in)
    # A sign-in of others need not say what it would sign in with.
    return sign_in.describe_origin() if isinstance(sign_in, CachedSignIn) else f"sign-in {profile.sign_in}"
