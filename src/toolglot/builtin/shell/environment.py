"""The variables that a command sees: a few that say where things are. Nothing that is called a secret, or looks like one."""

import os
import re
from collections.abc import Mapping

from toolglot.errors import ToolError
from toolglot.redact import redact

__all__ = ["checked_environment", "harmless"]

_HARMLESS = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "HOSTNAME", "SSL_CERT_FILE", "SSL_CERT_DIR"),
        *("VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "NVM_DIR", "GOPATH", "GOROOT", "CARGO_HOME", "RUSTUP_HOME", "JAVA_HOME"),
        *("NODE_PATH", "PNPM_HOME", "BUN_INSTALL", "DENO_DIR", "GEM_HOME", "MANPATH", "COLORTERM", "CI"),
    }
)
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|COOKIE|SESSION|AUTH", re.IGNORECASE)
_FIXED = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "true"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_VARIABLES, _LONGEST_VALUE = 256, 32_768
_USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def harmless(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """What of our own environment a command may see, and a few things that keep programs from asking questions."""
    environ = os.environ if environ is None else environ
    found = {name: value for name, value in environ.items() if _is_harmless(name, value)}
    found.setdefault("PATH", _USUAL_PATH)
    return {**found, **_FIXED}


def _is_harmless(name: str, value: str) -> bool:
    known = name in _HARMLESS or name.startswith("LC_")
    return (
        known and not _SECRET.search(name) and "\0" not in value and redact(f"{name}={value}", named=True) == f"{name}={value}"
    )


def checked_environment(given: Mapping[str, str] | None) -> dict[str, str]:
    """Variables that a model asks for; set for the command only, never for what makes its sandbox. Raises ToolError."""
    given = given or {}
    if len(given) > _MOST_VARIABLES:
        raise ToolError(f"env has {len(given)} variables; at most {_MOST_VARIABLES} are taken", kind="validation")
    for name, value in given.items():
        if not _NAME.fullmatch(name) or len(name) > 200:
            raise ToolError(f"env: {name[:80]!r} is not the name of a variable", kind="validation")
        if "\0" in value or len(value) > _LONGEST_VALUE or not _encodes(value):
            raise ToolError(f"env: the value of {name} holds a NUL byte or half a character, or is too long", kind="validation")
    return dict(given)


def _encodes(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True
