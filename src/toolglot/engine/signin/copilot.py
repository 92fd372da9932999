"""Sign-in with GitHub, for Copilot: a login that lasts is exchanged for tokens of half an hour.

The login comes from GitHub's device flow and is kept in the system keyring, or else in a file that only its owner can read.
A token says where it is good: over https only, but for this machine itself.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from toolglot.engine.signin import keyring_store as stored
from toolglot.engine.signin.tokens import Token, TokenCache, not_signed_in_error
from toolglot.engine.transport import HttpRequest, Timeouts, Transport
from toolglot.errors import AuthenticationFailed, MalformedReply, ProviderError, ToolglotError, TransportError, UsageError
from toolglot.jsontext import dumps_text, loads_object
from toolglot.providers.catalog import PROFILES
from toolglot.redact import redact
from toolglot.wire.reader import error_from_response

__all__ = [
    "CopilotSignIn",
    "DeviceCode",
    "GitHub",
    "Login",
    "delete_login",
    "exchange_login",
    "find_login",
    "request_device_code",
    "store_login",
    "wait_for_login",
]

PROFILE_ID = "copilot"
CLIENT_ID = "Iv1.b507a08c87ecfe98"
_LOGIN_COMMAND = "run `toolglot login copilot`"
_GRANT_TYPE = "urn:ietf:params:oauth:grant-type:device_code"
_SLOW_DOWN_SECONDS = 5.0
"""Seconds more between two questions, where GitHub asks for that (its device flow's documentation)."""
_MAX_RESPONSE_BYTES = 1_000_000
_REFUSAL_MESSAGES = {
    401: f"GitHub does not take the login for Copilot any more: {_LOGIN_COMMAND}",
    403: f"GitHub gives this login no token for Copilot (403): {_LOGIN_COMMAND} with an account that has Copilot",
    404: f"GitHub gives this login no token for Copilot (404): {_LOGIN_COMMAND} with an account that has Copilot",
}

Sleep = Callable[[float], Awaitable[object]]


class GitHub(msgspec.Struct, frozen=True):
    """Where GitHub is."""

    site: str = "https://github.com"
    api: str = "https://api.github.com"

    @classmethod
    def for_host(cls, host: str | None) -> "GitHub":
        """The GitHub of a company (company.ghe.com); None: the public one. Raises UsageError."""
        if host is None or host == "github.com":
            return cls()
        if not all(part and part.replace("-", "").isalnum() and part.isascii() for part in host.split(".")):
            raise UsageError(f"{host!r} is not a host: say it as in company.ghe.com")
        return cls(f"https://{host}", f"https://api.{host}")


class Login(msgspec.Struct, frozen=True):
    """What GitHub gave for good, and where it is exchanged."""

    token: str
    api: str = GitHub().api

    def __repr__(self) -> str:
        """Without the token."""
        return f"Login(api={self.api!r})"


class DeviceCode(msgspec.Struct, frozen=True):
    """A sign-in that somebody completes in a browser."""

    device_code: str
    user_code: str
    verification_uri: str
    expires_in: float = 900.0
    interval: float = 5.0

    def __repr__(self) -> str:
        """Without the codes."""
        return f"DeviceCode(verification_uri={self.verification_uri!r})"


class CopilotSignIn:
    """Tokens of Copilot. Safe to share. Without a login: the one that is kept on this machine."""

    def __init__(
        self, login: Login | None = None, *, transport: Transport | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._login, self._transport, self._clock = login, transport, clock
        self._cache = TokenCache(self._fetch, clock)

    async def token(self, *, fresh: bool) -> Token:
        return await self._cache.get(fresh=fresh)

    def describe_origin(self) -> str | None:
        """Where the login is kept."""
        found = find_login()
        return f"GitHub sign-in ({found[1]})" if found else None

    async def _fetch(self) -> Token:
        login = self._login
        if login is None:
            found = await asyncio.to_thread(find_login)
            if found is None:
                raise not_signed_in_error(f"{_LOGIN_COMMAND} to sign in with GitHub")
            login = found[0]
        return await exchange_login(login, self._transport, self._clock)


async def exchange_login(login: Login, transport: Transport | None = None, clock: Callable[[], float] = time.time) -> Token:
    """A token for a login. Raises AuthenticationFailed, and other errors of our tree."""
    if not _is_secure_url(login.api):
        raise AuthenticationFailed(f"the login for Copilot is kept with an address that is not https: {_LOGIN_COMMAND}")
    own = {name.lower(): value for name, value in PROFILES[PROFILE_ID].headers.items()}
    headers = {"accept": "application/json", "user-agent": "toolglot", **own, "authorization": f"token {login.token}"}
    status, body = await _send(transport, HttpRequest(f"{login.api}/copilot_internal/v2/token", headers, b"", method="GET"))
    if status in _REFUSAL_MESSAGES:
        raise AuthenticationFailed(_REFUSAL_MESSAGES[status], status=status)
    if status >= 300:
        raise _redact_error(login.token, error_from_response(status, body))
    said = _parse_object(body)
    token, endpoints = said.get("token"), said.get("endpoints")
    if not isinstance(token, str) or not token:
        raise AuthenticationFailed(f"GitHub's answer holds no token for Copilot: {_LOGIN_COMMAND}")
    api: object = endpoints.get("api") if isinstance(endpoints, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if isinstance(api, str) and api and not _is_secure_url(api):
        raise AuthenticationFailed("GitHub names an address for Copilot that is not https: set GITHUB_COPILOT_BASE_URL")
    return Token(token, _refresh_time(said, clock()), base_url=api if isinstance(api, str) else "")


def _refresh_time(token_response: dict[str, Any], now: float) -> float | None:
    """When to fetch another one. What counts from now is right on a machine with a wrong clock too."""
    for value, start in ((token_response.get("refresh_in"), now), (token_response.get("expires_at"), 0.0)):
        if isinstance(value, int | float) and value > 0:
            return start + value
    return None


def _is_secure_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host)))
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    from ipaddress import ip_address

    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


# ---- the device flow


async def request_device_code(github: GitHub, transport: Transport | None = None) -> DeviceCode:
    """A code to enter at GitHub."""
    said = await _post_form(transport, f"{github.site}/login/device/code", {"client_id": CLIENT_ID, "scope": "read:user"})
    try:
        return msgspec.convert(said, DeviceCode, strict=False)
    except msgspec.ValidationError:
        raise AuthenticationFailed(f"GitHub does not begin the sign-in ({_error_code(said)}): {_LOGIN_COMMAND} later") from None


async def wait_for_login(
    code: DeviceCode, github: GitHub, transport: Transport | None = None, *, sleep: Sleep = asyncio.sleep
) -> Login:
    """The login, when somebody has entered the code. Raises AuthenticationFailed where that does not happen."""
    form = {"client_id": CLIENT_ID, "device_code": code.device_code, "grant_type": _GRANT_TYPE}
    pause, waited = max(1.0, code.interval), 0.0
    while waited < code.expires_in:
        await sleep(pause)
        waited += pause
        try:
            said = await _post_form(transport, f"{github.site}/login/oauth/access_token", form)
        except TransportError:  # the network comes and goes while somebody looks for a browser
            continue
        token = said.get("access_token")
        if isinstance(token, str) and token:
            return Login(token, github.api)
        match said.get("error"):
            case "authorization_pending":
                pass
            case "slow_down":
                pause += _SLOW_DOWN_SECONDS
            case "expired_token":
                break
            case "access_denied":
                raise AuthenticationFailed(f"the sign-in was refused at GitHub: {_LOGIN_COMMAND} to try again")
            case _:
                raise AuthenticationFailed(
                    f"GitHub does not complete the sign-in ({_error_code(said)}): {_LOGIN_COMMAND} to try again"
                )
    raise AuthenticationFailed(f"the code was not entered in time: {_LOGIN_COMMAND} for another one")


def _error_code(response: dict[str, Any]) -> str:
    word = response.get("error")
    return word if isinstance(word, str) and word.isidentifier() else "no reason is given"


async def _post_form(transport: Transport | None, url: str, form: dict[str, str]) -> dict[str, Any]:
    headers = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded", "user-agent": "toolglot"}
    status, body = await _send(transport, HttpRequest(url, headers, urlencode(form).encode()))
    if status >= 500 or 300 <= status < 400:
        raise _redact_error(form.get("device_code", ""), error_from_response(status, body))
    return _parse_object(body)


# ---- HTTP


async def _send(transport: Transport | None, request: HttpRequest) -> tuple[int, bytes]:
    answer = await (transport or _private_transport()).send(request)
    try:
        parts: list[bytes] = []
        while sum(map(len, parts)) < _MAX_RESPONSE_BYTES and (data := await answer.read()):
            parts.append(data)
        return answer.status, b"".join(parts)
    finally:
        await answer.close()


@cache
def _private_transport() -> Transport:
    """Not the engine's: that may record what passes through it."""
    from toolglot.engine.http import HttpTransport

    return HttpTransport(Timeouts(first_byte=30.0, idle=30.0))


def _parse_object(body: bytes) -> dict[str, Any]:
    try:
        return loads_object(body)
    except ValueError:
        raise MalformedReply("GitHub's answer to the sign-in is not JSON: check the network and try again") from None


def _redact_error(secret: str, error: ProviderError) -> ProviderError:
    said = redact(str(error), (secret,))
    return type(error)(said, status=error.status, code=redact(error.code, (secret,)), retry_after=error.retry_after)


# ---- where the login is kept


def find_login() -> tuple[Login, str] | None:
    """The login of this machine, and where it is."""
    if login := _parse_login(stored.load_key(PROFILE_ID) or ""):
        return login, "system keyring"
    file = login_file()
    with suppress(OSError, UnicodeDecodeError):
        if login := _parse_login(file.read_text(encoding="utf-8").strip()):
            return login, str(file)
    return None


def store_login(login: Login) -> str:
    """Keeps a login in the keyring or else in a file; where. Raises ToolglotError."""
    text = dumps_text({"token": login.token, "api": login.api})
    file = login_file()
    if stored.has_backend() and stored.store_key(PROFILE_ID, text):
        with suppress(OSError):
            file.unlink()
        return "system keyring"
    try:
        _write_private(file, text)
    except OSError as error:
        raise ToolglotError(
            f"the login cannot be kept in {str(file)!r} ({error.strerror}): make that folder writable"
        ) from None
    return str(file)


def delete_login() -> bool:
    """Drops the login; whether there was one."""
    found = stored.delete_key(PROFILE_ID)
    try:
        login_file().unlink()
    except OSError:
        return found
    return True


def login_file() -> Path:
    """The file of somebody who has no keyring."""
    from platformdirs import user_data_path

    return user_data_path("toolglot", appauthor=False) / "copilot.json"


def _parse_login(text: str) -> Login | None:
    """What was kept; a bare token counts too."""
    if text.isascii() and text.isidentifier():
        return Login(text)
    try:
        return msgspec.json.decode(text, type=Login)
    except msgspec.DecodeError:
        return None


def _write_private(file: Path, text: str) -> None:
    import tempfile

    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=".copilot-")  # for its owner only
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as new:
            new.write(text)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
