"""Records a change over several files while it is made, so that the next start can undo it after a crash.

Invariants: the process that writes a log holds a lock on it; an unlocked log belongs to a dead process. Recovery touches only
what a log names, and a file only where it is still exactly what the dead process put there.
"""

import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from toolglot.builtin.files.confined_open import close_quietly
from toolglot.builtin.files.descriptors import CREATE_FLAGS, MAX_COPY_BYTES, READ_FLAGS, read_all, stat_at, write_all

__all__ = [
    "ChangeLog",
    "FileVersion",
    "LogEntry",
    "OutcomeMark",
    "list_change_logs",
    "open_abandoned_log",
    "remove_leftovers",
    "restore_file",
    "version_at",
]


class FileVersion(msgspec.Struct, frozen=True):
    """Identifies the content of a file at one moment without reading it."""

    device: int
    inode: int
    size: int
    modified_ns: int

    @classmethod
    def from_status(cls, status: os.stat_result) -> "FileVersion":
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class LogEntry(msgspec.Struct, frozen=True, tag="file"):
    """A log line: one file that is being changed. Names are bytes, as file systems have them."""

    directory: bytes
    name: bytes
    new: bytes
    old: bytes
    existed: bool
    copy: bytes
    """The backup while it is written, in the private directory."""
    new_version: FileVersion | None = None
    """What is put under the name; None while nothing is staged, and for a removal."""


class OutcomeMark(msgspec.Struct, frozen=True, tag="mark"):
    """A log line: whether every file is in place. The last mark counts."""

    is_complete: bool


class ChangeLog:
    """The log of one change. It is created with its first line; without a directory, nothing is recorded."""

    def __init__(self, directory: Path | None) -> None:
        self._directory, self._path, self._fd = directory, Path(), -1

    def write(self, lines: list[LogEntry] | list[OutcomeMark], *, sync: bool = False) -> None:
        if self._directory is None:
            return
        if self._fd < 0:
            import fcntl

            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            path = self._path = self._directory / secrets.token_hex(8)
            self._fd = os.open(path, CREATE_FLAGS, 0o600)
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            # Other processes look only at *.journal, so they never see it unlocked.
            self._path = path.rename(path.with_suffix(".journal"))
        # A newline first: a line that an earlier crash truncated must not swallow this one.
        write_all(self._fd, b"".join(b"\n" + msgspec.json.encode(line) for line in lines) + b"\n")
        if sync:
            os.fsync(self._fd)

    def close(self, *, keep: bool) -> None:
        """Remove the log, or keep it for the next start if something could not be cleaned up."""
        if self._fd >= 0 and not keep:
            with suppress(OSError):
                os.unlink(self._path)
        close_quietly(self._fd)


def version_at(dir_fd: int, name: str | bytes) -> FileVersion | None:
    """Return the version of a directory entry without following links; None if there is none. Raises OSError."""
    status = stat_at(dir_fd, name)
    return FileVersion.from_status(status) if status is not None else None


def list_change_logs(directory: Path) -> list[Path]:
    """Return the logs in a directory that nobody else could have written to."""
    try:
        status = os.stat(directory)
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            return []
        return sorted(path for path in directory.iterdir() if path.suffix == ".journal")
    except OSError:
        return []


@contextmanager
def open_abandoned_log(path: Path) -> Generator[list[LogEntry | OutcomeMark]]:
    """Open the log of a dead process and yield its lines. Raises OSError if its process is alive."""
    import fcntl

    def decode_line(line: bytes) -> LogEntry | OutcomeMark | None:
        with suppress(msgspec.DecodeError):  # a truncated line counts as never written
            return msgspec.json.decode(line, type=LogEntry | OutcomeMark)
        return None

    fd = os.open(path, READ_FLAGS)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        lines = map(decode_line, read_all(fd, MAX_COPY_BYTES).split(b"\n"))
        yield [line for line in lines if line is not None]
    finally:
        close_quietly(fd)


def restore_file(dir_fd: int, entry: LogEntry) -> None:
    """Put the old file back under its name, or remove a new one. Safe to repeat. Raises OSError."""
    current = version_at(dir_fd, entry.name)
    is_ours = current is not None and current == entry.new_version
    if stat_at(dir_fd, entry.old) is not None and (current is None or is_ours):
        os.rename(entry.old, entry.name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    elif is_ours and not entry.existed:
        os.unlink(entry.name, dir_fd=dir_fd)
    remove_leftovers(dir_fd, entry)


def remove_leftovers(dir_fd: int, entry: LogEntry) -> None:
    """Remove the temporary files beside a changed file. Raises OSError."""
    for name in (entry.new, entry.old):
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=dir_fd)
