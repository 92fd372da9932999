"""Keys in the system keyring, where the package `keyring` is installed and finds one.

Laws: providers of one vendor share a key. A keyring that fails holds nothing; the log says that it failed, and not on what.
"""

from functools import cache
from importlib import import_module
from logging import getLogger
from typing import Any

from toolglot.providers.catalog import PROFILES, SURFACES

__all__ = ["account_of", "can_store", "forget", "is_installed", "store", "stored"]

log = getLogger("toolglot.engine")
SERVICE = "toolglot"
_NO_KEYRING = ("keyring.backends.fail", "keyring.backends.null")


@cache
def account_of(profile_id: str) -> str:
    """The name a key is kept under: the vendor's, where several providers take the same key."""
    variables = PROFILES[profile_id].key_env if profile_id in PROFILES else ()
    shared = (vendor for vendor, rows in SURFACES.items() if any(PROFILES[row].key_env == variables for _, row in rows))
    return next(shared, profile_id)


def stored(profile_id: str) -> str | None:
    """The key that is kept for a provider."""
    key: object = _asked("get_password", SERVICE, account_of(profile_id))
    return (key.strip() or None) if isinstance(key, str) else None


def store(profile_id: str, key: str) -> bool:
    """Keeps a key; whether that worked."""
    _asked("set_password", SERVICE, account_of(profile_id), key)
    return stored(profile_id) == key


def forget(profile_id: str) -> bool:
    """Drops the key of a provider; whether there was one, and is none any more."""
    if stored(profile_id) is None:
        return False
    _asked("delete_password", SERVICE, account_of(profile_id))
    return stored(profile_id) is None


def is_installed() -> bool:
    """Whether the package is there."""
    return _keyring() is not None


def can_store() -> bool:
    """Whether there is a keyring to keep keys in."""
    backend: object = _asked("get_keyring")
    return backend is not None and type(backend).__module__ not in _NO_KEYRING


def _keyring() -> Any:
    try:
        return import_module("keyring")
    except ImportError:
        return None


def _asked(what: str, *words: str) -> Any:
    keyring = _keyring()
    if keyring is None:
        return None
    try:
        if what != "get_keyring" and type(keyring.get_keyring()).__module__ in _NO_KEYRING:
            return None
        return getattr(keyring, what)(*words)
    except Exception as error:  # backends raise whatever their system does
        log.debug("the system keyring failed: %s", type(error).__name__)
        return None
