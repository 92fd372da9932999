"""The keys that this process knows, to be hidden wherever text is shown.

Whoever obtains a key remembers it here. Keys that are somewhere already, such as in the environment, are not
copied: a source reads them when they are needed.
"""

from collections import deque
from collections.abc import Callable, Iterable

__all__ = ["add_key_source", "known_keys", "remember_key"]

# Bounded, because tokens are renewed for as long as the process lives.
_used_keys: deque[str] = deque(maxlen=256)
_sources: list[Callable[[], Iterable[str]]] = []


def remember_key(key: str) -> None:
    """Add a key that is in use to `known_keys`."""
    if key and key not in _used_keys:
        _used_keys.append(key)


def add_key_source(source: Callable[[], Iterable[str]]) -> None:
    """Add a function that returns keys; it is called whenever they are needed."""
    _sources.append(source)


def known_keys() -> frozenset[str]:
    """Every key that is remembered, or that a source returns."""
    keys = set(_used_keys.copy())  # a copy: other threads append
    for source in _sources:
        keys.update(source())
    return frozenset(keys)
