"""Environment variables that hold keys. The library reads them and leaves them in place.

A program that runs tools removes them from the environment first (`hide_environment`), so that the processes
its tools start do not inherit them; `read_key_variable` still returns them.
"""

import os
from collections.abc import Iterable
from contextlib import suppress

from toolglot.common.known_keys import add_key_source, known_keys
from toolglot.providers.catalog import PROFILES

__all__ = ["add_key_variables", "hide_environment", "read_key_variable", "secret_values"]

# What an Entra sign-in reads, besides the providers' keys.
ENTRA_SECRETS = ("AZURE_CLIENT_SECRET", "AZURE_PASSWORD", "AZURE_CLIENT_CERTIFICATE_PASSWORD")
KEY_VARIABLES = frozenset(
    {*ENTRA_SECRETS, *(name for row in PROFILES.values() for name in (*row.key_env, *row.token_env))}
)

_extra_names: set[str] = set()
_kept_names: frozenset[str] | None = None  # once the environment is hidden
_hidden_keys: dict[str, str] = {}


def hide_environment(keep: Iterable[str] = (), extra: Iterable[str] = ()) -> None:
    """Remove every variable that holds a key from the environment, except those in `keep`.

    `extra`: more names of such.
    """
    global _kept_names
    _kept_names = frozenset(keep)
    _extra_names.update(extra)
    for name in (KEY_VARIABLES | _extra_names).difference(_kept_names):
        value = os.environ.pop(name, None)
        if value is not None:
            _hidden_keys[name] = value
    if _hidden_keys:
        with suppress(OSError, ValueError):  # not Linux, or not permitted
            _wipe_initial_environment()


def add_key_variables(names: Iterable[str]) -> None:
    """Treat more variables as keys: they are redacted, and hidden if the others are."""
    unknown = {*names} - KEY_VARIABLES - _extra_names
    if unknown and _kept_names is None:
        _extra_names.update(unknown)
    elif unknown:
        hide_environment(_kept_names or (), unknown)


def _wipe_initial_environment() -> None:
    """Overwrite the hidden values in this process's memory.

    Linux shows the environment a process was started with to its children (/proc/PID/environ), whatever was
    removed since.
    """
    names = {name.encode() for name in _hidden_keys}
    with open("/proc/self/stat", "rb") as stat:
        # env_start and env_end, see proc(5)
        start, end = map(int, stat.read().rpartition(b")")[2].split()[47:49])
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(start)
        for entry in memory.read(end - start).split(b"\0"):
            name, _, value = entry.partition(b"=")
            if name in names:
                memory.seek(start + len(name) + 1)
                memory.write(b"x" * len(value))
            start += len(entry) + 1


def read_key_variable(name: str) -> str | None:
    """The value of a variable, hidden or not."""
    return os.environ.get(name, "").strip() or _hidden_keys.get(name, "").strip() or None


def _read_key_variables() -> list[str]:
    """The keys in variables, hidden or not."""
    values = (read_key_variable(name) for name in KEY_VARIABLES | _extra_names)
    return [value for value in values if value]


def secret_values() -> frozenset[str]:
    """Every known key, to be redacted wherever text is shown."""
    return known_keys()


add_key_source(_read_key_variables)
