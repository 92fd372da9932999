"""Sign-in with Google's application default credentials, for Vertex AI: a key file, gcloud's login, or the
machine's.
"""

import asyncio
import os
from contextlib import suppress
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from logging import NullHandler, getLogger
from pathlib import Path

from toolglot.confine.programs import safe_programs
from toolglot.engine.signin.tokens import CachedSignIn, Token, not_signed_in_error
from toolglot.errors import AuthenticationFailed, ConnectFailed

__all__ = ["AdcSignIn"]

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_INSTALL_HINT = (
    "run `pip install 'toolglot[vertex]'` to sign in with Google, by `gcloud auth application-default login` "
    "or with a key "
    "file in GOOGLE_APPLICATION_CREDENTIALS"
)
_LOGIN_HINT = (
    "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a key file"
)
# Set where Google runs the program: Cloud Run, App Engine, or a custom metadata server.
_HOSTED_VARIABLES = ("K_SERVICE", "GAE_ENV", "GCE_METADATA_HOST")
# "Google Compute Engine" on Google's machines; google-auth checks the same file before it asks the metadata
# server.
_PRODUCT_NAME_FILE = Path("/sys/class/dmi/id/product_name")
_NULL_HANDLER = NullHandler()  # google-auth's warnings repeat what our error says


class AdcSignIn(CachedSignIn):
    """Google tokens."""

    async def fetch(self) -> Token:
        return await asyncio.to_thread(_fetch_blocking)

    def describe_origin(self) -> str | None:
        try:
            if find_spec("google.auth") is None or find_spec("requests") is None:
                return None
        except (ImportError, ValueError):  # the namespace package `google` is missing, or half removed
            return None
        if file := os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
            return "Google sign-in (GOOGLE_APPLICATION_CREDENTIALS)" if Path(file).is_file() else None
        directory = os.environ.get("CLOUDSDK_CONFIG")
        if not directory and os.name == "nt":
            directory = str(Path(os.environ.get("APPDATA", "")) / "gcloud")
        if (
            Path(directory or "~/.config/gcloud").expanduser() / "application_default_credentials.json"
        ).is_file():
            return "Google sign-in (gcloud)"
        is_google_machine = any(os.environ.get(name) for name in _HOSTED_VARIABLES)
        with suppress(OSError):
            is_google_machine = is_google_machine or _PRODUCT_NAME_FILE.read_text(
                encoding="utf-8"
            ).startswith("Google")
        return "Google sign-in (this machine's account)" if is_google_machine else None


def _fetch_blocking() -> Token:
    try:
        google, errors = import_module("google.auth"), import_module("google.auth.exceptions")
        transport, requests = import_module("google.auth.transport.requests"), import_module("requests")
    except ImportError:
        raise not_signed_in_error(_INSTALL_HINT) from None
    getLogger("google.auth").addHandler(_NULL_HANDLER)
    try:
        with safe_programs(), requests.Session() as session:
            credentials, _project = google.default(scopes=[SCOPE], request=transport.Request(session))
            credentials.refresh(transport.Request(session))
    except errors.TransportError:
        raise ConnectFailed("cannot reach Google's sign-in: check the network") from None
    except errors.DefaultCredentialsError:
        if file := os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
            message = (
                f"GOOGLE_APPLICATION_CREDENTIALS names {file!r}, which contains no credentials: {_LOGIN_HINT}"
            )
            raise AuthenticationFailed(message) from None
        raise not_signed_in_error(_LOGIN_HINT) from None
    except errors.GoogleAuthError:
        # The message is left out: it can repeat parts of the key file.
        raise AuthenticationFailed(
            f"Google refused the application default credentials: {_LOGIN_HINT}"
        ) from None
    expiry: datetime | None = credentials.expiry
    if expiry is not None and expiry.tzinfo is None:  # google-auth returns naive UTC
        expiry = expiry.replace(tzinfo=UTC)
    # User credentials are billed to their quota project, which this header names.
    quota_project: str | None = getattr(credentials, "quota_project_id", None)
    headers = {"x-goog-user-project": quota_project} if quota_project else {}
    return Token(str(credentials.token), expiry.timestamp() if expiry else None, headers=headers)
