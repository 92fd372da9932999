"""Sign-in with Microsoft Entra, for Azure: whatever `azure.identity.DefaultAzureCredential` finds on this machine.

A secret that was taken out of the environment is handed over directly: it is never put back, not even for a moment.
"""

import asyncio
import os
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from logging import NullHandler, getLogger
from pathlib import Path
from typing import Any

from toolglot.engine.signin.environment import read_key_variable, secret_values
from toolglot.engine.signin.tokens import Token, TokenCache, not_signed_in_error
from toolglot.errors import AuthenticationFailed
from toolglot.redact import redact

__all__ = ["EntraSignIn"]

SCOPE = "https://cognitiveservices.azure.com/.default"
_INSTALL_HINT = "`pip install 'toolglot[azure]'` to sign in with Entra"
# The credentials that hold a secret: what each is made of, and what it may have beside. As EnvironmentCredential has them.
_SECRET_CREDENTIALS: tuple[tuple[str, dict[str, str], dict[str, str]], ...] = (
    (
        "ClientSecretCredential",
        {"tenant_id": "AZURE_TENANT_ID", "client_id": "AZURE_CLIENT_ID", "client_secret": "AZURE_CLIENT_SECRET"},
        {},
    ),
    (
        "CertificateCredential",
        {"tenant_id": "AZURE_TENANT_ID", "client_id": "AZURE_CLIENT_ID", "certificate_path": "AZURE_CLIENT_CERTIFICATE_PATH"},
        {"password": "AZURE_CLIENT_CERTIFICATE_PASSWORD", "send_certificate_chain": "AZURE_CLIENT_SEND_CERTIFICATE_CHAIN"},
    ),
    (
        "UsernamePasswordCredential",
        {"client_id": "AZURE_CLIENT_ID", "username": "AZURE_USERNAME", "password": "AZURE_PASSWORD"},
        {"tenant_id": "AZURE_TENANT_ID"},
    ),
)
# AZURE_TOKEN_CREDENTIALS may say which credentials count; these say that such a principal does.
_ENVIRONMENT_CREDENTIAL_NAMES = ("", "prod", "environmentcredential")
_NO_CREDENTIALS_TEXT = "failed to retrieve a token from the included credentials"
_NULL_HANDLER = NullHandler()  # what the package warns of is in our error
# What somebody who can sign in here has: variables, folders.
_LOGIN_VARIABLES = ("AZURE_CLIENT_ID", "AZURE_FEDERATED_TOKEN_FILE", "IDENTITY_ENDPOINT", "MSI_ENDPOINT")
_LOGIN_DIRECTORIES = ("~/.azure", "~/.azd", "/var/lib/waagent")


class EntraSignIn:
    """Tokens of Entra. Safe to share."""

    def __init__(self, *, scope: str = SCOPE, clock: Callable[[], float] = time.time) -> None:
        self._scope = scope
        self._cache = TokenCache(self._fetch, clock)

    async def token(self, *, fresh: bool) -> Token:
        return await self._cache.get(fresh=fresh)

    def describe_origin(self) -> str | None:
        """What would be signed in with, as far as this machine can tell without asking anyone."""
        if not _is_installed():
            return None
        folders = (os.environ.get("AZURE_CONFIG_DIR") or _LOGIN_DIRECTORIES[0], *_LOGIN_DIRECTORIES[1:])
        signs = any(read_key_variable(name) for name in _LOGIN_VARIABLES) or any(
            Path(name).expanduser().is_dir() for name in folders
        )
        return "Entra sign-in" if signs else None

    async def _fetch(self) -> Token:
        return await asyncio.to_thread(self._fetch_blocking)

    def _fetch_blocking(self) -> Token:
        try:
            identity, errors = import_module("azure.identity"), import_module("azure.core.exceptions")
        except ImportError:
            raise not_signed_in_error(_INSTALL_HINT) from None
        getLogger("azure").addHandler(_NULL_HANDLER)
        try:
            with _environment_credential(identity) or identity.DefaultAzureCredential() as credential:
                found = credential.get_token(self._scope)
        except (errors.AzureError, ValueError, OSError) as error:
            raise _auth_error(error) from None
        return Token(found.token, float(found.expires_on))


def _environment_credential(identity: Any) -> Any:
    """The credential that the environment describes, hidden variables included; None where it describes none."""
    if os.environ.get("AZURE_TOKEN_CREDENTIALS", "").strip().lower() not in _ENVIRONMENT_CREDENTIAL_NAMES:
        return None
    for kind, needed, possible in _SECRET_CREDENTIALS:
        found = {field: value for field, name in {**needed, **possible}.items() if (value := read_key_variable(name))}
        if needed.keys() <= found.keys():
            return getattr(identity, kind)(**found)
    return None


def _auth_error(error: Exception) -> AuthenticationFailed:
    said, kind = redact(str(error), secret_values()).strip(), type(error).__name__
    if kind == "CredentialUnavailableError" or _NO_CREDENTIALS_TEXT in said:
        return not_signed_in_error(
            "sign in with Entra: `az login`, a managed identity, or AZURE_TENANT_ID with AZURE_CLIENT_ID"
        )
    why = (said.splitlines() or [kind])[0][:200].rstrip(".: ")
    return AuthenticationFailed(f"Entra gives no token for Azure OpenAI ({why}): `az login`, or check the AZURE_… variables")


def _is_installed() -> bool:
    try:
        return find_spec("azure.identity") is not None
    except (ImportError, ValueError):
        return False
