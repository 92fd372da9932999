"""Whether a saved run is what this user saved: a MAC in its header, with a key that only the user can read.

The key is created when the first paused run is saved. TOOLGLOT_APPROVAL_KEY replaces it: several machines can share one.
"""

import hmac
import os
import re
import secrets
import tempfile
from contextlib import suppress

from toolglot.common.loggers import get_logger
from toolglot.common.user_dirs import data_directory, ensure_private_directory
from toolglot.errors import UsageError

__all__ = ["CHANGED_SINCE_SAVED", "is_intact", "sign"]

log = get_logger("toolglot.loop")
CHANGED_SINCE_SAVED = "the saved run was changed, or was saved with another approval key"
_KEY_FILE, _KEY_LENGTH = "approval.key", 64  # hexadecimal digits
_MAC = re.compile(rb',"mac":"([0-9a-f]{64})"\}\Z')


def sign(saved: bytes) -> bytes:
    """Add the MAC of a saved run to its header, which is the first line; without a key nothing is added."""
    header, newline, messages = saved.partition(b"\n")
    if not _read_key():
        with suppress(OSError, UsageError):  # a directory that cannot be written; a key that another process has just created
            file = ensure_private_directory(data_directory()) / _KEY_FILE
            handle, name = tempfile.mkstemp(dir=file.parent)  # for its owner only
            try:
                with open(handle, "w") as new:
                    new.write(secrets.token_hex(_KEY_LENGTH // 2))
                try:
                    os.link(name, file)  # complete or not there
                except OSError:  # there is one, or the file system has no links
                    if not file.exists() or len(file.read_bytes().strip()) != _KEY_LENGTH:
                        os.replace(name, file)  # a damaged key signs nothing
            finally:
                os.unlink(name)
    if key := _read_key():
        return header[:-1] + b',"mac":"%s"}' % _mac(key, saved) + newline + messages
    log.warning("the run is saved unsigned, as no key can be stored in %s; set TOOLGLOT_APPROVAL_KEY", data_directory())
    return saved


def is_intact(saved: bytes) -> bool:
    """Return whether a saved run has a valid MAC."""
    header, newline, messages = saved.partition(b"\n")
    match, key = _MAC.search(header), _read_key()
    if match is None or not key:
        return False
    return hmac.compare_digest(match[1], _mac(key, header[: match.start()] + b"}" + newline + messages))


def _mac(key: bytes, saved: bytes) -> bytes:
    return hmac.digest(key, saved, "sha256").hex().encode()


def _read_key() -> bytes:
    if key := os.environ.get("TOOLGLOT_APPROVAL_KEY", "").strip():
        return os.fsencode(key)
    try:
        key = (data_directory() / _KEY_FILE).read_bytes().strip()
    except OSError:
        return b""
    return key if len(key) == _KEY_LENGTH else b""
