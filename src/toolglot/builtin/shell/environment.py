"""The variables that a command sees: a few that say where things are. Nothing that is called a secret, or looks like one."""

import os
import re
from collections.abc import Mapping

from toolglot.errors import ToolError
from toolglot.redact import redact

__all__ = ["safe_environment", "validate_environment"]

_SAFE_NAMES = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "HOSTNAME", "SSL_CERT_FILE", "SSL_CERT_DIR"),
        *("VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "NVM_DIR", "GOPATH", "GOROOT", "CARGO_HOME", "RUSTUP_HOME", "JAVA_HOME"),
        *("NODE_PATH", "PNPM_HOME", "BUN_INSTALL", "DENO_DIR", "GEM_HOME", "MANPATH", "COLORTERM", "CI"),
    }
)
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|COOKIE|SESSION|AUTH", re.IGNORECASE)
_FIXED_VARIABLES = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "true"}
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_VARIABLES, _MAX_VALUE_LENGTH = 256, 32_768
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def safe_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """What of our own environment a command may see, and a few things that keep programs from asking questions."""
    environ = os.environ if environ is None else environ
    found = {name: value for name, value in environ.items() if _is_safe(name, value)}
    found.setdefault("PATH", _DEFAULT_PATH)
    return {**found, **_FIXED_VARIABLES}


def _is_safe(name: str, value: str) -> bool:
    known = name in _SAFE_NAMES or name.startswith("LC_")
    return (
        known
        and not _SECRET_NAME.search(name)
        and "\0" not in value
        and redact(f"{name}={value}", by_name=True) == f"{name}={value}"
    )


def validate_environment(variables: Mapping[str, str] | None) -> dict[str, str]:
    """Variables that a model asks for; set for the command only, never for what makes its sandbox. Raises ToolError."""
    variables = variables or {}
    if len(variables) > _MAX_VARIABLES:
        raise ToolError(f"env has {len(variables)} variables; at most {_MAX_VARIABLES} are taken", kind="validation")
    for name, value in variables.items():
        if not _VARIABLE_NAME.fullmatch(name) or len(name) > 200:
            raise ToolError(f"env: {name[:80]!r} is not the name of a variable", kind="validation")
        if "\0" in value or len(value) > _MAX_VALUE_LENGTH or not _is_encodable(value):
            raise ToolError(f"env: the value of {name} holds a NUL byte or half a character, or is too long", kind="validation")
    return dict(variables)


def _is_encodable(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True
