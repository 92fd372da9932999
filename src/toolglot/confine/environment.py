"""The environment variables that a command sees: a few harmless ones, and none that is named or looks like a
secret.
"""

import os
import re
from collections.abc import Mapping

from toolglot.common.redact import redact
from toolglot.values.failures import invalid_argument

__all__ = ["OFFLINE_VARIABLES", "safe_environment", "validate_environment"]

# An allowlist, as there is no list of all variables that contain secrets or change what programs load.
_SAFE_NAMES = frozenset(
    {
        *(
            "PATH",
            "HOME",
            "USER",
            "LOGNAME",
            "SHELL",
            "LANG",
            "LANGUAGE",
            "TZ",
            "HOSTNAME",
            "SSL_CERT_FILE",
            "SSL_CERT_DIR",
        ),
        *(
            "VIRTUAL_ENV",
            "CONDA_PREFIX",
            "PYENV_ROOT",
            "NVM_DIR",
            "GOPATH",
            "GOROOT",
            "CARGO_HOME",
            "RUSTUP_HOME",
            "JAVA_HOME",
        ),
        *("NODE_PATH", "PNPM_HOME", "BUN_INSTALL", "DENO_DIR", "GEM_HOME", "MANPATH", "COLORTERM", "CI"),
    }
)
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|COOKIE|SESSION|AUTH", re.IGNORECASE)
# No pager and no editor: nobody is there to leave them, and git must not ask for a password.
_FIXED_VARIABLES = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
}
# Without network access, trying again only takes time: npm would need over a minute.
OFFLINE_VARIABLES = {"NPM_CONFIG_FETCH_RETRIES": "0", "PIP_RETRIES": "0", "CARGO_NET_RETRY": "0"}
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_MAX_VARIABLES, _MAX_VALUE_LENGTH = 256, 32_768
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def safe_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the part of our own environment that a command may see, with settings that keep programs from
    prompting.
    """
    source = os.environ if environ is None else environ
    variables = {name: value for name, value in source.items() if _is_harmless(name, value)}
    return {"PATH": _DEFAULT_PATH, **variables, **_FIXED_VARIABLES}


def _is_harmless(name: str, value: str) -> bool:
    if name not in _SAFE_NAMES and not name.startswith("LC_"):
        return False
    if _SECRET_NAME.search(name) or "\0" in value:
        return False
    # Even a harmless name may have a value with a secret in it, such as a URL with a password.
    return redact(f"{name}={value}", by_name=True) == f"{name}={value}"


def validate_environment(variables: Mapping[str, str] | None) -> dict[str, str]:
    """Return the variables that a model sets for its command. Raises ToolError."""
    variables = variables or {}
    if len(variables) > _MAX_VARIABLES:
        raise invalid_argument("env", f"has {len(variables)} variables; at most {_MAX_VARIABLES} are allowed")
    for name, value in variables.items():
        if not _VARIABLE_NAME.fullmatch(name):
            raise invalid_argument("env", f"has {name[:80]!r}, which is not a valid variable name")
        try:
            os.fsencode(value)
        except UnicodeEncodeError:
            raise invalid_argument(
                "env", f"has an unpaired surrogate (invalid Unicode) in the value of {name}"
            ) from None
        if "\0" in value or len(value) > _MAX_VALUE_LENGTH:
            problem = f"has a value for {name} with a NUL byte or more than {_MAX_VALUE_LENGTH} characters"
            raise invalid_argument("env", problem)
    return dict(variables)
