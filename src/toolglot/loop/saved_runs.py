"""Saved runs: forms of earlier versions, and whether a run is what this user saved.

For that, its header has a MAC, with a key that only the user can read. The key is created when the first
paused run is saved. TOOLGLOT_APPROVAL_KEY replaces it: several machines can share one.
"""

import hmac
import os
import re
import secrets
import tempfile
from contextlib import suppress
from typing import Any, cast

import msgspec

from toolglot.common.loggers import get_logger
from toolglot.common.user_dirs import data_directory, ensure_private_directory
from toolglot.errors import MalformedData, UsageError
from toolglot.loop.run import RUN_FORMAT
from toolglot.values.approvals import SuspensionKind, SuspensionRecord, WaitingRecord

__all__ = ["CHANGED_SINCE_SAVED", "is_intact", "sign", "upgrade_run"]

log = get_logger("toolglot.loop")
CHANGED_SINCE_SAVED = "the saved run was changed, or was saved with another approval key"
_KEY_FILE, _KEY_LENGTH = "approval.key", 64  # hexadecimal digits
_MAC = re.compile(rb',"mac":"([0-9a-f]{64})"\}\Z')


def sign(saved: bytes) -> bytes:
    """Add the MAC of a saved run to its header, which is the first line; without a key nothing is added."""
    header, newline, messages = saved.partition(b"\n")
    if not _read_key():
        # a directory that cannot be written; a key that another process has just created
        with suppress(OSError, UsageError):
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
    log.warning(
        "the run is saved unsigned, as no key can be stored in %s; set TOOLGLOT_APPROVAL_KEY",
        data_directory(),
    )
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


# ---- earlier forms


class _Format1(msgspec.Struct, frozen=True):
    """What format 1 says of calls that wait."""

    waiting: set[int] = set()
    shown: dict[int, str] = {}
    """The fingerprints of what was shown."""
    holding: set[int] = set()
    """Calls that the ones after them wait for."""


class _Record2(msgspec.Struct, frozen=True):
    """What format 2 says of a call that waits."""

    id: str = ""
    kind: SuspensionKind = "approval"
    fingerprint: str = ""
    has_started: bool = False
    blocks_later: bool = False


class _Format2(msgspec.Struct, frozen=True):
    """What format 2 says of calls that wait."""

    suspended: dict[int, _Record2] = {}


def upgrade_run(saved: Any) -> Any:
    """Return a saved run in the present format.

    Raises MalformedData for a later one, and msgspec's error for another shape.
    """
    if not isinstance(saved, dict):
        return saved
    fields = cast(dict[str, Any], saved)
    format = fields.get("format", 1)
    if format == RUN_FORMAT:
        return fields
    if format not in (1, 2):
        raise MalformedData(
            f"line 1: the saved run has format {format!r}, which this version cannot read: update toolglot"
        )
    if format == 1:
        suspended = _read_format_1(msgspec.convert(fields, _Format1, str_keys=True))
    else:
        suspended = _read_format_2(msgspec.convert(fields, _Format2, str_keys=True))
    return {**fields, "suspended": suspended, "format": RUN_FORMAT}


def _read_format_1(old: _Format1) -> dict[int, SuspensionRecord]:
    return {
        index: SuspensionRecord(
            (WaitingRecord(fingerprint=old.shown.get(index, "")),), blocks_later=index in old.holding
        )
        for index in old.waiting
    }


def _read_format_2(old: _Format2) -> dict[int, SuspensionRecord]:
    # A call that had started could not be continued in another process, so its path does not matter.
    return {
        index: SuspensionRecord(
            (WaitingRecord((record.id,), record.kind, record.fingerprint),),
            record.has_started,
            record.blocks_later,
        )
        for index, record in old.suspended.items()
    }
