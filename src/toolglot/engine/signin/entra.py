"""Sign-in with Microsoft Entra, for Azure: whatever `azure.identity.DefaultAzureCredential` finds on this
machine.

A secret that was removed from the environment is passed to the credential directly: putting it back, even for
a moment, would expose it to processes that tools start.
"""

import asyncio
import os
from importlib import import_module
from importlib.util import find_spec
from logging import NullHandler, getLogger
from pathlib import Path
from typing import Any

from toolglot.common.redact import redact
from toolglot.confine.programs import safe_programs
from toolglot.engine.signin.environment import read_key_variable, secret_values
from toolglot.engine.signin.tokens import CachedSignIn, Token, not_signed_in_error
from toolglot.errors import AuthenticationFailed

__all__ = ["EntraSignIn"]

SCOPE = "https://cognitiveservices.azure.com/.default"
_INSTALL_HINT = "run `pip install 'toolglot[azure]'` to sign in with Entra"
_LOGIN_HINT = "sign in with Entra: `az login`, a managed identity, or AZURE_TENANT_ID with AZURE_CLIENT_ID"
_TENANT, _CLIENT = {"tenant_id": "AZURE_TENANT_ID"}, {"client_id": "AZURE_CLIENT_ID"}
# The credentials that take a secret, with their required and optional arguments. The order and the variables
# are those of azure.identity.EnvironmentCredential, which cannot see hidden variables.
_SECRET_CREDENTIALS: tuple[tuple[str, dict[str, str], dict[str, str]], ...] = (
    ("ClientSecretCredential", {**_TENANT, **_CLIENT, "client_secret": "AZURE_CLIENT_SECRET"}, {}),
    (
        "CertificateCredential",
        {**_TENANT, **_CLIENT, "certificate_path": "AZURE_CLIENT_CERTIFICATE_PATH"},
        {
            "password": "AZURE_CLIENT_CERTIFICATE_PASSWORD",
            "send_certificate_chain": "AZURE_CLIENT_SEND_CERTIFICATE_CHAIN",
        },
    ),
    (
        "UsernamePasswordCredential",
        {**_CLIENT, "username": "AZURE_USERNAME", "password": "AZURE_PASSWORD"},
        _TENANT,
    ),
)
# AZURE_TOKEN_CREDENTIALS restricts the credentials; with these values the environment's are among them.
_ENVIRONMENT_CREDENTIAL_NAMES = ("", "prod", "environmentcredential")
# DefaultAzureCredential raises a plain ClientAuthenticationError when nothing is configured; only its text
# tells.
_NO_CREDENTIALS_TEXT = "failed to retrieve a token from the included credentials"
_NULL_HANDLER = NullHandler()  # azure-identity's warnings repeat what our error says
# What a machine has on which somebody can sign in.
_LOGIN_VARIABLES = ("AZURE_CLIENT_ID", "AZURE_FEDERATED_TOKEN_FILE", "IDENTITY_ENDPOINT", "MSI_ENDPOINT")
_LOGIN_DIRECTORIES = ("~/.azure", "~/.azd", "/var/lib/waagent")


class EntraSignIn(CachedSignIn):
    """Entra tokens."""

    async def fetch(self) -> Token:
        return await asyncio.to_thread(_fetch_blocking)

    def describe_origin(self) -> str | None:
        try:
            if find_spec("azure.identity") is None:
                return None
        except (ImportError, ValueError):  # the namespace package `azure` is missing, or half removed
            return None
        directories = (os.environ.get("AZURE_CONFIG_DIR") or _LOGIN_DIRECTORIES[0], *_LOGIN_DIRECTORIES[1:])
        has_login = any(map(read_key_variable, _LOGIN_VARIABLES)) or any(
            Path(d).expanduser().is_dir() for d in directories
        )
        return "Entra sign-in" if has_login else None


def _fetch_blocking() -> Token:
    try:
        identity, errors = import_module("azure.identity"), import_module("azure.core.exceptions")
    except ImportError:
        raise not_signed_in_error(_INSTALL_HINT) from None
    getLogger("azure").addHandler(_NULL_HANDLER)
    try:
        with (
            safe_programs(),
            _environment_credential(identity) or identity.DefaultAzureCredential() as credential,
        ):
            token = credential.get_token(SCOPE)
    except (errors.AzureError, ValueError, OSError) as error:
        message, kind = redact(str(error), secret_values()).strip(), type(error).__name__
        if kind == "CredentialUnavailableError" or _NO_CREDENTIALS_TEXT in message:
            raise not_signed_in_error(_LOGIN_HINT) from None
        reason = (message.splitlines() or [kind])[0][:200].rstrip(".: ")
        advice = "run `az login`, or check the AZURE_… variables"
        raise AuthenticationFailed(f"Entra returned no token for Azure OpenAI ({reason}): {advice}") from None
    return Token(token.token, float(token.expires_on))


def _environment_credential(identity: Any) -> Any:
    """The credential that the environment, including hidden variables, describes; None if it describes none."""
    if os.environ.get("AZURE_TOKEN_CREDENTIALS", "").strip().lower() not in _ENVIRONMENT_CREDENTIAL_NAMES:
        return None
    for kind, required, optional in _SECRET_CREDENTIALS:
        values = {
            field: value
            for field, name in {**required, **optional}.items()
            if (value := read_key_variable(name))
        }
        if required.keys() <= values.keys():
            return getattr(identity, kind)(**values)
    return None
