"""Sign-in with Google's application default credentials, for Vertex AI: a key file, gcloud's login, or the machine's own."""

import asyncio
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from logging import NullHandler, getLogger
from pathlib import Path
from typing import Any

from toolglot.engine.signin.tokens import Token, TokenCache, not_signed_in_error
from toolglot.errors import AuthenticationFailed, ConnectFailed

__all__ = ["AdcSignIn"]

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_INSTALL_HINT = (
    "`pip install 'toolglot[vertex]'` to sign in with Google: by `gcloud auth application-default login`, or by a key file "
    "that GOOGLE_APPLICATION_CREDENTIALS names"
)
_LOGIN_HINT = "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a key file"
_LOGIN_FILE = "application_default_credentials.json"
_HOSTED_VARIABLES = ("K_SERVICE", "GAE_ENV", "GCE_METADATA_HOST")
"""Variables that are set where Google itself runs the program."""
_PRODUCT_NAME_FILE = Path("/sys/class/dmi/id/product_name")
_NULL_HANDLER = NullHandler()  # what the package warns of is in our error


class AdcSignIn:
    """Tokens of Google. Safe to share."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._cache = TokenCache(self._fetch, clock)

    async def token(self, *, fresh: bool) -> Token:
        return await self._cache.get(fresh=fresh)

    def describe_origin(self) -> str | None:
        """What would be signed in with, as far as this machine can tell without asking anyone."""
        if not _is_installed():
            return None
        if file := os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
            return "Google sign-in (GOOGLE_APPLICATION_CREDENTIALS)" if Path(file).is_file() else None
        if _login_file().is_file():
            return "Google sign-in (gcloud)"
        return "Google sign-in (this machine's account)" if _is_google_machine() else None

    async def _fetch(self) -> Token:
        return await asyncio.to_thread(self._fetch_blocking)

    def _fetch_blocking(self) -> Token:
        try:
            google, errors = import_module("google.auth"), import_module("google.auth.exceptions")
            carrier, requests = import_module("google.auth.transport.requests"), import_module("requests")
        except ImportError:
            raise not_signed_in_error(_INSTALL_HINT) from None
        getLogger("google.auth").addHandler(_NULL_HANDLER)
        try:
            with requests.Session() as session:
                credentials, _project = google.default(scopes=[SCOPE], request=carrier.Request(session))
                credentials.refresh(carrier.Request(session))
        except errors.TransportError:
            raise ConnectFailed("Google's sign-in cannot be reached: check the network") from None
        except errors.GoogleAuthError as error:
            raise _auth_error(isinstance(error, errors.DefaultCredentialsError)) from None
        return _to_token(credentials)


def _to_token(credentials: Any) -> Token:
    ends: datetime | None = credentials.expiry
    if ends is not None and ends.tzinfo is None:  # the package means UTC
        ends = ends.replace(tzinfo=UTC)
    payer: str | None = getattr(credentials, "quota_project_id", None)
    headers = {"x-goog-user-project": payer} if payer else {}
    return Token(str(credentials.token), ends.timestamp() if ends else None, headers=headers)


def _auth_error(is_missing: bool) -> AuthenticationFailed:
    file = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    if is_missing and file:
        return AuthenticationFailed(f"GOOGLE_APPLICATION_CREDENTIALS names {file!r}, which holds no credentials: {_LOGIN_HINT}")
    if is_missing:
        return not_signed_in_error(_LOGIN_HINT)
    return AuthenticationFailed(f"Google refuses the application default credentials: {_LOGIN_HINT}")


def _login_file() -> Path:
    folder = os.environ.get("CLOUDSDK_CONFIG")
    if not folder and os.name == "nt":
        folder = str(Path(os.environ.get("APPDATA", "")) / "gcloud")
    return Path(folder or "~/.config/gcloud").expanduser() / _LOGIN_FILE


def _is_google_machine() -> bool:
    if any(os.environ.get(name) for name in _HOSTED_VARIABLES):
        return True
    try:
        return _PRODUCT_NAME_FILE.read_text(encoding="utf-8").startswith("Google")
    except OSError:
        return False


def _is_installed() -> bool:
    try:
        return find_spec("google.auth") is not None and find_spec("requests") is not None
    except (ImportError, ValueError):
        return False
