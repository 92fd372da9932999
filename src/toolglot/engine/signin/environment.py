"""Variables that hold keys. The library reads them where they are and leaves them there.

A program that runs tools takes them out of the environment first (`hide_environment`): what a tool starts does not inherit
them, and `environment_key` finds them all the same.
"""

import os
from collections import deque
from collections.abc import Collection, Iterable
from contextlib import suppress

from toolglot.providers.catalog import PROFILES

__all__ = ["hide_environment", "read_key_variable", "remember_key", "secret_values"]

ENTRA_SECRETS = ("AZURE_CLIENT_SECRET", "AZURE_PASSWORD", "AZURE_CLIENT_CERTIFICATE_PASSWORD")
"""What an Entra sign-in reads beside the keys of providers."""
KEY_VARIABLES = frozenset({*ENTRA_SECRETS, *(name for row in PROFILES.values() for name in (*row.key_env, *row.token_env))})

_extra_names: set[str] = set()
_hidden_keys: dict[str, str] = {}
_used_keys: deque[str] = deque(maxlen=64)  # keys that came from elsewhere: tokens are renewed


def hide_environment(keep: Iterable[str] = (), extra: Iterable[str] = ()) -> None:
    """Takes every variable that holds a key out of the environment, but for those to `keep`. `more`: other names of such."""
    _extra_names.update(extra)
    for name in (KEY_VARIABLES | _extra_names).difference(keep):
        value = os.environ.pop(name, None)
        if value is not None:
            _hidden_keys[name] = value
    if _hidden_keys:
        with suppress(OSError, ValueError):  # not Linux, or not allowed
            _wipe_initial_environment({name.encode() for name in _hidden_keys})


def _wipe_initial_environment(names: Collection[bytes]) -> None:
    """Linux shows a process's first environment to its children (/proc/PID/environ), whatever was taken out of it since."""
    with open("/proc/self/stat", "rb") as stat:
        start, end = map(int, stat.read().rpartition(b")")[2].split()[47:49])  # env_start and env_end of proc(5)
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(start)
        for entry in memory.read(end - start).split(b"\0"):
            name, _, value = entry.partition(b"=")
            if name in names:
                memory.seek(start + len(name) + 1)
                memory.write(b"x" * len(value))
            start += len(entry) + 1


def read_key_variable(name: str) -> str | None:
    """What a variable holds, wherever it is now."""
    return os.environ.get(name, "").strip() or _hidden_keys.get(name, "").strip() or None


def secret_values() -> frozenset[str]:
    """All keys that are known of, hidden or not: none of them belongs in a log."""
    found = (read_key_variable(name) for name in KEY_VARIABLES | _extra_names)
    return frozenset({*_used_keys.copy(), *(value for value in found if value)})


def remember_key(key: str) -> None:
    """A key that is in use now."""
    if key not in _used_keys:
        _used_keys.append(key)
