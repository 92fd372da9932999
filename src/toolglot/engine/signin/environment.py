"""Variables that hold keys. The library reads them where they are and leaves them there.

A program that runs tools takes them out of the environment first (`hide_environment`): what a tool starts does not inherit
them, and `environment_key` finds them all the same.
"""

import os
from collections import deque
from collections.abc import Collection, Iterable
from contextlib import suppress

from toolglot.providers.catalog import PROFILES

__all__ = ["environment_key", "hidden_values", "hide_environment", "remember"]

SECRETS = ("AZURE_CLIENT_SECRET", "AZURE_PASSWORD", "AZURE_CLIENT_CERTIFICATE_PASSWORD")
"""What an Entra sign-in reads beside the keys of providers."""
KEY_VARIABLES = frozenset({*SECRETS, *(name for row in PROFILES.values() for name in (*row.key_env, *row.token_env))})

_more: set[str] = set()
_hidden: dict[str, str] = {}
_used: deque[str] = deque(maxlen=64)  # keys that came from elsewhere: tokens are renewed


def hide_environment(keep: Iterable[str] = (), more: Iterable[str] = ()) -> None:
    """Takes every variable that holds a key out of the environment, but for those to `keep`. `more`: other names of such."""
    _more.update(more)
    for name in (KEY_VARIABLES | _more).difference(keep):
        value = os.environ.pop(name, None)
        if value is not None:
            _hidden[name] = value
    if _hidden:
        with suppress(OSError, ValueError):  # not Linux, or not allowed
            _wipe({name.encode() for name in _hidden})


def _wipe(names: Collection[bytes]) -> None:
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


def environment_key(name: str) -> str | None:
    """What a variable holds, wherever it is now."""
    return os.environ.get(name, "").strip() or _hidden.get(name, "").strip() or None


def hidden_values() -> frozenset[str]:
    """All keys that are known of, hidden or not: none of them belongs in a log."""
    found = (environment_key(name) for name in KEY_VARIABLES | _more)
    return frozenset({*_used.copy(), *(value for value in found if value)})


def remember(key: str) -> None:
    """A key that is in use now."""
    if key not in _used:
        _used.append(key)
