"""Keys in the system keyring, if the package `keyring` is installed and finds a backend.

Providers of one vendor share a key. A keyring that fails counts as empty; the log records the type of the
failure only, because its message may contain the key.
"""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from toolglot.common.loggers import get_logger
from toolglot.confine.programs import safe_programs
from toolglot.providers.catalog import PROFILES, SURFACES

__all__ = ["delete_key", "has_backend", "is_installed", "keyring_account", "load_key", "store_key"]

log = get_logger("toolglot.engine")
SERVICE = "toolglot"
_NULL_BACKENDS = ("keyring.backends.fail", "keyring.backends.null")


@cache
def keyring_account(profile_id: str) -> str:
    """The name a key is stored under: the vendor's, if several of its providers accept the same key."""
    variables = PROFILES[profile_id].key_env if profile_id in PROFILES else ()
    shared = (
        vendor
        for vendor, rows in SURFACES.items()
        if any(PROFILES[row].key_env == variables for _, row in rows)
    )
    return next(shared, profile_id)


def load_key(profile_id: str) -> str | None:
    """The stored key of a provider."""
    key: object = _call_keyring("get_password", SERVICE, keyring_account(profile_id))
    return (key.strip() or None) if isinstance(key, str) else None


def store_key(profile_id: str, key: str) -> bool:
    """Store a key. Return whether that worked."""
    _call_keyring("set_password", SERVICE, keyring_account(profile_id), key)
    return load_key(profile_id) == key  # read back: some backends fail without an error


def delete_key(profile_id: str) -> bool:
    """Delete the key of a provider. Return True if there was one and it is gone."""
    if load_key(profile_id) is None:
        return False
    _call_keyring("delete_password", SERVICE, keyring_account(profile_id))
    return load_key(profile_id) is None


def is_installed() -> bool:
    """Whether the package can be imported."""
    return find_spec("keyring") is not None


def has_backend() -> bool:
    """Whether there is a keyring that can store keys."""
    backend: object = _call_keyring("get_keyring")
    return backend is not None and type(backend).__module__ not in _NULL_BACKENDS


def _call_keyring(method: str, *arguments: str) -> Any:
    if not is_installed():
        return None
    try:
        keyring = import_module("keyring")
        # The null backends raise or warn on every access; treat them as an empty keyring instead.
        if method != "get_keyring" and type(keyring.get_keyring()).__module__ in _NULL_BACKENDS:
            return None
        with safe_programs():  # some backends ask a program, such as `pass`
            return getattr(keyring, method)(*arguments)
    except Exception as error:  # backends raise whatever their system does
        log.debug("the system keyring failed: %s", type(error).__name__)
        return None
