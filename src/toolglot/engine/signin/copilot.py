"""Sign-in with GitHub, for Copilot: a long-lived login is exchanged for tokens of about half an hour.

Not part of the core install: it needs the extra `copilot`, and loads only for that provider. The login comes from GitHub's
device flow ("Authorizing OAuth apps" on docs.github.com) and is stored in the system keyring, or else in a file that only its
owner can read. A token names the address it is valid at; only https is accepted, except on this machine.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from toolglot.engine.signin import keyring_store
from toolglot.engine.signin.tokens import Token, TokenCache, not_signed_in_error
from toolglot.engine.transport import HttpRequest, Timeouts, Transport, read_body
from toolglot.errors import AuthenticationFailed, MalformedReply, ProviderError, ToolglotError, TransportError, UsageError
from toolglot.jsontext import dumps_text, loads_object
from toolglot.providers.catalog import PROFILES
from toolglot.redact import redact
from toolglot.user_dirs import user_directory
from toolglot.wire.reader import error_from_response

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
_MAX_RESPONSE_BYTES = 1_000_000
_REFUSAL_MESSAGES = {
    401: f"GitHub no longer accepts the login for Copilot: {_LOGIN_COMMAND}",
    403: f"GitHub refused a Copilot token for this login (403): {_LOGIN_COMMAND} with an account that has Copilot",
    404: f"GitHub refused a Copilot token for this login (404): {_LOGIN_COMMAND} with an account that has Copilot",
}

Sleep = Callable[[float], Awaitable[object]]


class GitHub(msgspec.Struct, frozen=True):
    """The addresses of a GitHub."""

    site: str = "https://github.com"
    api: str = "https://api.github.com"

    @classmethod
    def for_host(cls, host: str | None) -> "GitHub":
        """A company's GitHub (company.ghe.com); None: the public one. Raises UsageError."""
        if host is None or host == "github.com":
            return cls()
        if not all(part and part.replace("-", "").isalnum() and part.isascii() for part in host.split(".")):
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


class CopilotSignIn:
    """Copilot tokens. Safe to share. Without a login, the one stored on this machine is used."""

    def __init__(
        self, login: Login | None = None, *, transport: Transport | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._login, self._transport, self._clock = login, transport, clock
        self._cache = TokenCache(self._fetch, clock)

    async def token(self, *, fresh: bool) -> Token:
        return await self._cache.get(fresh=fresh)

    def describe_origin(self) -> str | None:
        """Where the login is stored."""
        stored = find_login() if keyring_store.is_installed() else None
        return f"GitHub sign-in ({stored[1]})" if stored else None

    async def _fetch(self) -> Token:
        login = self._login
        if login is None:
            check_installed()
            stored = await asyncio.to_thread(find_login)
            if stored is None:
                raise not_signed_in_error(f"{_LOGIN_COMMAND} to sign in with GitHub")
            login = stored[0]
        return await exchange_login(login, self._transport, self._clock)


def check_installed() -> None:
    """Raise AuthenticationFailed unless the extra is installed."""
    if not keyring_store.is_installed():
        raise not_signed_in_error("run `pip install 'toolglot[copilot]'` to sign in with GitHub")


async def exchange_login(login: Login, transport: Transport | None = None, clock: Callable[[], float] = time.time) -> Token:
    """Exchange a login for a token. Raises AuthenticationFailed and other errors of ours."""
    if not _is_secure_url(login.api):
        raise AuthenticationFailed(f"the stored login for Copilot names an address that is not https: {_LOGIN_COMMAND}")
    headers = {
        "accept": "application/json",
        "user-agent": "toolglot",
        # The same editor headers as for the API.
        **{name.lower(): value for name, value in PROFILES[PROFILE_ID].headers.items()},
        "authorization": f"token {login.token}",
    }
    status, body = await _send(transport, HttpRequest(f"{login.api}/copilot_internal/v2/token", headers, b"", method="GET"))
    if status in _REFUSAL_MESSAGES:
        raise AuthenticationFailed(_REFUSAL_MESSAGES[status], status=status)
    if status >= 300:
        raise _redact_error(login.token, error_from_response(status, body))
    response = _parse_object(body)
    token, endpoints = response.get("token"), response.get("endpoints")
    if not isinstance(token, str) or not token:
        raise AuthenticationFailed(f"GitHub's response contains no token for Copilot: {_LOGIN_COMMAND}")
    api: object = endpoints.get("api") if isinstance(endpoints, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if isinstance(api, str) and api and not _is_secure_url(api):
        raise AuthenticationFailed("GitHub named an address for Copilot that is not https: set GITHUB_COPILOT_BASE_URL")
    # `refresh_in` goes first: it is relative, so a wrong clock on this machine does not matter.
    times = ((response.get("refresh_in"), clock()), (response.get("expires_at"), 0.0))
    expiry = next((start + value for value, start in times if isinstance(value, int | float) and value > 0), None)
    return Token(token, expiry, base_url=api if isinstance(api, str) else "")


def _is_secure_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme == "https":
        return bool(host)
    try:
        return parts.scheme == "http" and (host == "localhost" or ip_address(host).is_loopback)
    except ValueError:  # a name
        return False


# ---- the device flow


async def request_device_code(github: GitHub, transport: Transport | None = None) -> DeviceCode:
    """Start a sign-in: a code to enter at GitHub."""
    response = await _post_form(transport, f"{github.site}/login/device/code", {"client_id": CLIENT_ID, "scope": "read:user"})
    try:
        return msgspec.convert(response, DeviceCode, strict=False)  # numbers may come as strings
    except msgspec.ValidationError:
        raise AuthenticationFailed(
            f"GitHub did not start the sign-in ({_error_code(response)}): {_LOGIN_COMMAND} later"
        ) from None


async def wait_for_login(
    code: DeviceCode, github: GitHub, transport: Transport | None = None, *, sleep: Sleep = asyncio.sleep
) -> Login:
    """Poll until the user has entered the code. Raises AuthenticationFailed if that does not happen."""
    form = {"client_id": CLIENT_ID, "device_code": code.device_code, "grant_type": _GRANT_TYPE}
    pause, waited = max(1.0, code.interval), 0.0  # an interval of 0 must not become a busy loop
    while waited < code.expires_in:
        await sleep(pause)
        waited += pause
        try:
            response = await _post_form(transport, f"{github.site}/login/oauth/access_token", form)
        except TransportError:  # the network may come and go while the user looks for a browser
            continue
        token = response.get("access_token")
        if isinstance(token, str) and token:
            return Login(token, github.api)
        match response.get("error"):
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
                    f"GitHub did not complete the sign-in ({_error_code(response)}): {_LOGIN_COMMAND} to try again"
                )
    raise AuthenticationFailed(f"the code was not entered in time: {_LOGIN_COMMAND} for a new one")


def _error_code(response: dict[str, Any]) -> str:
    code = response.get("error")
    # Only an identifier is shown: anything else could be markup, or repeat a secret.
    return code if isinstance(code, str) and code.isidentifier() else "no reason given"


async def _post_form(transport: Transport | None, url: str, form: dict[str, str]) -> dict[str, Any]:
    headers = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded", "user-agent": "toolglot"}
    status, body = await _send(transport, HttpRequest(url, headers, urlencode(form).encode()))
    # The device flow reports its own errors in bodies with status 200 or 4xx.
    if status >= 500 or 300 <= status < 400:
        raise _redact_error(form.get("device_code", ""), error_from_response(status, body))
    return _parse_object(body)


# ---- HTTP


async def _send(transport: Transport | None, request: HttpRequest) -> tuple[int, bytes]:
    response = await (transport or _private_transport()).send(request)
    try:
        return response.status, await read_body(response, _MAX_RESPONSE_BYTES)
    finally:
        await response.close()


@cache
def _private_transport() -> Transport:
    """Not the engine's transport, which may record what passes through it."""
    from toolglot.engine.http import HttpTransport

    return HttpTransport(Timeouts(first_byte=30.0, idle=30.0))


def _parse_object(body: bytes) -> dict[str, Any]:
    try:
        return loads_object(body)
    except ValueError:
        raise MalformedReply("GitHub's response to the sign-in is not JSON: check the network and try again") from None


def _redact_error(secret: str, error: ProviderError) -> ProviderError:
    message, code = redact(str(error), (secret,)), redact(error.code, (secret,))
    return type(error)(message, status=error.status, code=code, retry_after=error.retry_after)


# ---- storing the login


def find_login() -> tuple[Login, str] | None:
    """The login of this machine, and where it is stored."""
    if login := _parse_login(keyring_store.load_key(PROFILE_ID) or ""):
        return login, "system keyring"
    file = login_file()
    with suppress(OSError, UnicodeDecodeError):
        if login := _parse_login(file.read_text(encoding="utf-8").strip()):
            return login, str(file)
    return None


def store_login(login: Login) -> str:
    """Store a login in the keyring, or else in a file. Return where. Raises ToolglotError."""
    text = dumps_text({"token": login.token, "api": login.api})
    file = login_file()
    if keyring_store.has_backend() and keyring_store.store_key(PROFILE_ID, text):
        with suppress(OSError):  # a file would outlive a logout
            file.unlink()
        return "system keyring"
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=".copilot-")  # mode 0600
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as new:
                new.write(text)
            Path(name).replace(file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ToolglotError(
            f"cannot store the login in {str(file)!r} ({error.strerror}): make that directory writable"
        ) from None
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
    return user_directory("data") / "copilot.json"


def _parse_login(text: str) -> Login | None:
    if text.isascii() and text.isidentifier():  # a bare token, as other tools store it
        return Login(text)
    try:
        return msgspec.json.decode(text, type=Login)
    except msgspec.DecodeError:
        return None
