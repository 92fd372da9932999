"""Sign-in with GitHub, for Copilot: a long-lived login is exchanged for tokens of about half an hour.

Not part of the core install: it needs the extra `copilot`, and loads only for that provider. The login comes
from GitHub's device flow ("Authorizing OAuth apps" on docs.github.com) and is stored in the system keyring,
or else in a file that only its owner can read. A token names the address it is valid at; only https is
accepted, except on this machine.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from toolglot.common.regular_files import read_regular_file
from toolglot.common.user_dirs import data_directory, write_private
from toolglot.engine.signin import keyring_store
from toolglot.engine.signin.tokens import CachedSignIn, Token, not_signed_in_error
from toolglot.engine.transport import HttpRequest, Timeouts, Transport, fetch
from toolglot.errors import AuthenticationFailed, MalformedReply, ProviderError, TransportError, UsageError
from toolglot.providers.catalog import PROFILES

__all__ = [
    "CopilotSignIn",
    "DeviceCode",
    "GitHub",
    "Login",
    "check_installed",
    "delete_login",
    "exchange_login",
    "find_login",
    "request_device_code",
    "store_login",
    "wait_for_login",
]

PROFILE_ID = "copilot"
CLIENT_ID = "Iv1.b507a08c87ecfe98"  # the public id of Copilot's editor plug-ins
_LOGIN_COMMAND = "run `toolglot login copilot`"
_GRANT_TYPE = "urn:ietf:params:oauth:grant-type:device_code"
_SLOW_DOWN_SECONDS = 5.0  # added to the polling interval on `slow_down` (RFC 8628, section 3.5)
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_BASE_HEADERS = {"accept": "application/json", "user-agent": "toolglot"}
_REFUSAL_MESSAGES = {
    401: f"GitHub no longer accepts the login for Copilot: {_LOGIN_COMMAND}",
    **dict.fromkeys(
        (403, 404),
        f"GitHub refused a Copilot token for this login: {_LOGIN_COMMAND} with an account that has Copilot",
    ),
}

Sleep = Callable[[float], Awaitable[object]]
_Reply = TypeVar("_Reply")


class GitHub(msgspec.Struct, frozen=True):
    """The addresses of a GitHub."""

    site: str = "https://github.com"
    api: str = "https://api.github.com"

    @classmethod
    def for_host(cls, host: str | None) -> "GitHub":
        """A company's GitHub (company.ghe.com); None: the public one. Raises UsageError."""
        if host is None or host == "github.com":
            return cls()
        labels = [label.replace("-", "") for label in host.split(".")]
        if not all(label.isalnum() and label.isascii() for label in labels):
            raise UsageError(f"{host!r} is not a host name: write it as in company.ghe.com")
        return cls(f"https://{host}", f"https://api.{host}")


class Login(msgspec.Struct, frozen=True):
    """GitHub's long-lived token, and the API that exchanges it."""

    token: str
    api: str = GitHub().api

    def __repr__(self) -> str:
        """Omit the token."""
        return f"Login(api={self.api!r})"


class DeviceCode(msgspec.Struct, frozen=True):
    """A sign-in that the user completes in a browser."""

    device_code: str
    user_code: str
    verification_uri: str
    expires_in: float = 900.0
    interval: float = 5.0

    def __repr__(self) -> str:
        """Omit the codes."""
        return f"DeviceCode(verification_uri={self.verification_uri!r})"


class _CopilotToken(msgspec.Struct):
    class Endpoints(msgspec.Struct):
        api: str = ""

    token: str = ""
    refresh_in: float = 0.0
    expires_at: float = 0.0
    endpoints: Endpoints | None = None


class _LoginReply(msgspec.Struct):
    access_token: str = ""
    error: str = ""


class CopilotSignIn(CachedSignIn):
    """Copilot tokens. Without a login, the one stored on this machine is used."""

    def __init__(self, login: Login | None = None, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self._login, self._now = login, clock

    def describe_origin(self) -> str | None:
        stored = find_login() if keyring_store.is_installed() else None
        return f"GitHub sign-in ({stored[1]})" if stored else None

    async def fetch(self) -> Token:
        login = self._login
        if login is None:
            check_installed()
            stored = await asyncio.to_thread(find_login)
            if stored is None:
                raise not_signed_in_error(f"{_LOGIN_COMMAND} to sign in with GitHub")
            login = stored[0]
        return await exchange_login(login, self._now)


def check_installed() -> None:
    """Raise AuthenticationFailed unless the extra is installed."""
    if not keyring_store.is_installed():
        raise not_signed_in_error("run `pip install 'toolglot[copilot]'` to sign in with GitHub")


async def exchange_login(login: Login, clock: Callable[[], float] = time.time) -> Token:
    """Exchange a login for a token. Raises AuthenticationFailed and other errors of ours."""
    if not _is_secure_url(login.api):
        raise AuthenticationFailed(
            f"the stored login for Copilot names an address that is not https: {_LOGIN_COMMAND}"
        )
    headers = {
        **_BASE_HEADERS,
        # The same editor headers as for the API.
        **{name.lower(): value for name, value in PROFILES[PROFILE_ID].headers.items()},
        "authorization": f"token {login.token}",
    }
    request = HttpRequest(f"{login.api}/copilot_internal/v2/token", headers, b"", method="GET")
    try:
        reply = _decode_reply(await fetch(_private_transport(), request, [login.token]), _CopilotToken)
    except ProviderError as error:
        if error.status in _REFUSAL_MESSAGES:
            raise AuthenticationFailed(_REFUSAL_MESSAGES[error.status], status=error.status) from None
        raise
    if not reply.token:
        raise AuthenticationFailed(f"GitHub's response contains no token for Copilot: {_LOGIN_COMMAND}")
    api = reply.endpoints.api if reply.endpoints else ""
    if api and not _is_secure_url(api):
        raise AuthenticationFailed(
            "GitHub named an address for Copilot that is not https: set GITHUB_COPILOT_BASE_URL"
        )
    # `refresh_in` goes first: it is relative, so a wrong clock on this machine does not matter.
    expiry = clock() + reply.refresh_in if reply.refresh_in > 0 else reply.expires_at or None
    return Token(reply.token, expiry, base_url=api)


def _is_secure_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and host in _THIS_MACHINE))


# ---- the device flow


async def request_device_code(github: GitHub) -> DeviceCode:
    """Start a sign-in: a code to enter at GitHub."""
    body = await _post_form(
        f"{github.site}/login/device/code", {"client_id": CLIENT_ID, "scope": "read:user"}
    )
    try:
        return msgspec.json.decode(body, type=DeviceCode, strict=False)  # numbers may come as strings
    except msgspec.DecodeError:
        reason = _error_code(_decode_reply(body, _LoginReply))
        raise AuthenticationFailed(
            f"GitHub did not start the sign-in ({reason}): {_LOGIN_COMMAND} later"
        ) from None


async def wait_for_login(code: DeviceCode, github: GitHub, *, sleep: Sleep = asyncio.sleep) -> Login:
    """Poll until the user has entered the code. Raises AuthenticationFailed if that does not happen."""
    form = {"client_id": CLIENT_ID, "device_code": code.device_code, "grant_type": _GRANT_TYPE}
    pause, waited = max(1.0, code.interval), 0.0  # an interval of 0 must not become a busy loop
    while waited < code.expires_in:
        await sleep(pause)
        waited += pause
        try:
            body = await _post_form(f"{github.site}/login/oauth/access_token", form)
        except TransportError:  # the network may come and go while the user looks for a browser
            continue
        reply = _decode_reply(body, _LoginReply)
        if reply.access_token:
            return Login(reply.access_token, github.api)
        match reply.error:
            case "authorization_pending":
                pass
            case "slow_down":
                pause += _SLOW_DOWN_SECONDS
            case "expired_token":
                break
            case "access_denied":
                raise AuthenticationFailed(f"the sign-in was denied at GitHub: {_LOGIN_COMMAND} to try again")
            case _:
                raise AuthenticationFailed(
                    f"GitHub did not complete the sign-in ({_error_code(reply)}): {_LOGIN_COMMAND} to try "
                    "again"
                )
    raise AuthenticationFailed(f"the code was not entered in time: {_LOGIN_COMMAND} for a new one")


def _error_code(reply: _LoginReply) -> str:
    # Only an identifier is shown: anything else could be markup, or repeat a secret.
    return reply.error if reply.error.isidentifier() else "no reason given"


async def _post_form(url: str, form: dict[str, str]) -> bytes:
    headers = {**_BASE_HEADERS, "content-type": "application/x-www-form-urlencoded"}
    request = HttpRequest(url, headers, urlencode(form).encode())
    return await fetch(_private_transport(), request, [form.get("device_code", "")])


@cache
def _private_transport() -> Transport:
    """Not the engine's transport, which may record what passes through it."""
    from toolglot.engine.http import HttpTransport

    return HttpTransport(Timeouts(first_byte=30.0, idle=30.0))


def _decode_reply(body: bytes, kind: type[_Reply]) -> _Reply:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError:
        raise MalformedReply(
            "GitHub's response to the sign-in cannot be read: check the network and try again"
        ) from None


# ---- storing the login


def find_login() -> tuple[Login, str] | None:
    """The login of this machine, and where it is stored."""
    if login := _parse_login(keyring_store.load_key(PROFILE_ID) or ""):
        return login, "system keyring"
    file = login_file()
    with suppress(OSError, UnicodeDecodeError):
        if login := _parse_login(read_regular_file(file).decode().strip()):
            return login, str(file)
    return None


def store_login(login: Login) -> str:
    """Store a login in the keyring, or else in a file. Return where. Raises UsageError."""
    text = msgspec.json.encode(login)
    file = login_file()
    if keyring_store.has_backend() and keyring_store.store_key(PROFILE_ID, text.decode()):
        with suppress(OSError):  # a file would outlive a logout
            file.unlink()
        return "system keyring"
    write_private(file, text)
    return str(file)


def delete_login() -> bool:
    """Delete the login. Return whether there was one."""
    was_in_keyring = keyring_store.delete_key(PROFILE_ID)
    try:
        login_file().unlink()
    except OSError:
        return was_in_keyring
    return True


def login_file() -> Path:
    """The login's file on machines without a keyring."""
    return data_directory() / "copilot.json"


def _parse_login(text: str) -> Login | None:
    if text.isascii() and text.isidentifier():  # a bare token, as other tools store it
        return Login(text)
    try:
        return msgspec.json.decode(text, type=Login)
    except msgspec.DecodeError:
        return None
