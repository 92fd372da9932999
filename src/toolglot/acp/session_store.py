"""Editors' sessions, each in a private file: one line about the session, then the saved conversation.

Files are replaced atomically, so that a crash leaves a session as it was after its last request.
"""

import asyncio
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from toolglot.common.loggers import get_logger
from toolglot.common.user_dirs import write_private
from toolglot.errors import MalformedData, UsageError

__all__ = ["SessionFile", "SessionInfo", "SessionStore"]

log = get_logger("toolglot.acp")
_SUFFIX = ".session"
_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
_MAX_HEAD = 64_000
_EMPTY_LIFETIME = timedelta(days=7)


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A session's metadata."""

    id: str
    cwd: str
    title: str = ""
    """Empty until the first prompt."""
    updated: str = ""
    """When it was last written, in ISO 8601; empty if never."""
    mode: str = ""
    effort: str = ""
    cost: float = 0.0
    """Cost so far in US dollars, if prices are known."""


def new_session_id() -> str:
    """Return an id for a new session."""
    return uuid4().hex


class SessionStore:
    """The session files in a directory, which is created with the first one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, info: SessionInfo, conversation: bytes) -> SessionInfo:
        """Save a session; return its new metadata. Raises UsageError.

        If another program has written it since `info.updated`, that version is kept, and this one gets a new
        id.
        """
        if info.updated and self._was_replaced(info):
            info = replace(info, id=new_session_id())
        info = replace(info, updated=datetime.now(UTC).isoformat(timespec="microseconds"))
        write_private(self._path(info.id), msgspec.json.encode(info) + b"\n" + conversation)
        return info

    def read(self, session_id: str) -> tuple[SessionInfo, bytes]:
        """Return a session and its saved conversation. Raises UsageError, MalformedData."""
        path = self._path(session_id)
        try:
            head, _, conversation = path.read_bytes().partition(b"\n")
        except FileNotFoundError:
            raise UsageError(f"there is no session {session_id!r}: it was deleted, or never saved") from None
        except OSError as e:
            raise UsageError(f"cannot read the session {str(path)!r}: {e.strerror}") from None
        return _parse_head(head, path), conversation

    def list(self, cwd: str | None = None) -> list[SessionInfo]:
        """Return the sessions with a prompt, latest first; with a directory, only those that work in it.

        Sessions that never had a prompt are deleted after a week.
        """
        sessions: list[SessionInfo] = []
        oldest = (datetime.now(UTC) - _EMPTY_LIFETIME).isoformat()
        for path in self._directory.glob(f"*{_SUFFIX}"):
            try:
                info = _read_head(path)
                if not info.title and info.updated < oldest:
                    path.unlink()
            except (OSError, MalformedData) as e:
                log.warning("left out of the list of sessions: %s", e)
                continue
            if info.title and (cwd is None or os.path.realpath(info.cwd) == os.path.realpath(cwd)):
                sessions.append(info)
        return sorted(sessions, key=lambda info: (info.updated, info.id), reverse=True)

    def delete(self, session_id: str) -> None:
        """Delete a session, if it exists. Raises UsageError."""
        try:
            self._path(session_id).unlink(missing_ok=True)
        except OSError as e:
            raise UsageError(f"cannot delete the session {session_id!r}: {e.strerror}") from None

    def _was_replaced(self, info: SessionInfo) -> bool:
        try:
            return _read_head(self._path(info.id)).updated != info.updated
        except FileNotFoundError:  # deleted elsewhere, but still in use here
            return False
        except (OSError, MalformedData):
            return True

    def _path(self, session_id: str) -> Path:
        if not _ID.fullmatch(session_id):
            raise UsageError(f"{session_id!r:.120} is not a session id")
        return self._directory / f"{session_id}{_SUFFIX}"


class SessionFile:
    """The file of an open session, written when the session changes. `notify`: shows the user a note."""

    def __init__(self, store: SessionStore, info: SessionInfo, notify: Callable[[str], None]) -> None:
        self._store, self._info, self._notify = store, info, notify
        self._conversation_hash: int | None = None
        self._writing = asyncio.Lock()
        self._is_closed = self._has_failed = False

    def mark_saved(self, info: SessionInfo, conversation: bytes) -> None:
        """Record what the file contains."""
        self._info, self._conversation_hash = info, hash(conversation)

    def close(self) -> None:
        """Write nothing more."""
        self._is_closed = True

    async def write(self, snapshot: Callable[[], tuple[SessionInfo, bytes]]) -> None:
        """Save the current state; a failure is reported once."""
        # Cancelling a prompt must not stop this: an older state would be written after a newer one.
        await asyncio.shield(asyncio.create_task(self._write(snapshot)))

    async def _write(self, snapshot: Callable[[], tuple[SessionInfo, bytes]]) -> None:
        async with self._writing:
            info, conversation = snapshot()
            # Those of the file: its id is a new one if another program has continued the session, and the
            # date says whether one has written the file since.
            info = replace(info, id=self._info.id, updated=self._info.updated)
            is_saved = info.updated and (info, hash(conversation)) == (self._info, self._conversation_hash)
            if self._is_closed or is_saved:
                return
            try:
                written = await asyncio.to_thread(self._store.write, info, conversation)
            except UsageError as e:
                if not self._has_failed:
                    self._notify(f"the session is not saved: {e}")
                self._has_failed = True
                return
            self.mark_saved(written, conversation)
            if written.id != info.id:
                self._notify(
                    "another program has continued this session: this conversation is saved as a new session"
                )


def _read_head(path: Path) -> SessionInfo:
    with path.open("rb") as file:
        return _parse_head(file.readline(_MAX_HEAD), path)


def _parse_head(line: bytes, path: Path) -> SessionInfo:
    try:
        # a copied file is another session
        return replace(msgspec.json.decode(line, type=SessionInfo), id=path.stem)
    except (msgspec.MsgspecError, ValueError) as e:
        raise MalformedData(f"the saved session {str(path)!r} is damaged ({e}): delete it") from None
