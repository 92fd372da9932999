"""What is under way in a folder for backups, so that the next start can take it back after a crash.

Laws: the process that writes a journal holds a lock on it; without the lock, it is dead. Only what a journal names is
touched, and a file only where it still is exactly what was put there.
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
]


class FileVersion(msgspec.Struct, frozen=True):
    """What a file was when it was looked at: another version has other numbers."""

    device: int
    inode: int
    size: int
    changed: int

    @classmethod
    def from_status(cls, status: os.stat_result) -> "FileVersion":
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class LogEntry(msgspec.Struct, frozen=True, tag="file"):
    """A line of a journal: one file on its way. Names are bytes, as file systems have them."""

    folder: bytes
    name: bytes
    new: bytes
    old: bytes
    existed: bool
    copy: bytes
    """A backup on its way, in the private folder."""
    made: FileVersion | None = None
    """What is put under the name; None: nothing yet, or it is removed."""


class OutcomeMark(msgspec.Struct, frozen=True, tag="mark"):
    """A line of a journal: whether everything is in place. The last line counts."""

    done: bool


class ChangeLog:
    """What is under way, in the private folder. The process that writes it holds a lock on it: without the lock, it is dead."""

    def __init__(self, directory: Path | None) -> None:
        self._directory, self._path, self._fd = directory, Path(), -1

    def write(self, lines: list[LogEntry] | list[OutcomeMark], *, sync: bool = False) -> None:
        if self._directory is None:
            return
        if self._fd < 0:
            self._create(self._directory)
        write_all(self._fd, b"".join(b"\n" + msgspec.json.encode(line) for line in lines) + b"\n")
        if sync:
            os.fsync(self._fd)

    def _create(self, directory: Path) -> None:
        import fcntl

        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = directory / secrets.token_hex(8)
        self._fd = os.open(path, CREATE_FLAGS, 0o600)
        self._path = path
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        os.rename(path, path.with_suffix(".journal"))  # only now it is looked at by others
        self._path = path.with_suffix(".journal")

    def close(self, *, keep: bool) -> None:
        """It has done its work; where something could not be cleaned up, it stays for the next start."""
        if self._fd >= 0 and not keep:
            with suppress(OSError):
                os.unlink(self._path)
        close_quietly(self._fd)


def list_change_logs(directory: Path) -> list[Path]:
    """The journals in a folder that nobody else could have written to."""
    try:
        status = os.stat(directory)
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            return []
        return sorted(path for path in directory.iterdir() if path.suffix == ".journal")
    except OSError:
        return []


@contextmanager
def open_abandoned_log(path: Path) -> Generator[list[LogEntry | OutcomeMark]]:
    """The lines of a journal whose writer is dead. Raises OSError where he lives. A line that was cut off was not written."""
    import fcntl

    handle = os.open(path, READ_FLAGS)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield [line for text in read_all(handle, MAX_COPY_BYTES).split(b"\n") if (line := _decode_line(text)) is not None]
    finally:
        close_quietly(handle)


def _decode_line(text: bytes) -> LogEntry | OutcomeMark | None:
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(text, type=LogEntry | OutcomeMark)
    return None


def restore_file(dir_fd: int, entry: LogEntry) -> None:
    """The old file is under its name, or none where none was, and nothing beside it. It may be done again. Raises OSError."""
    now, old = stat_at(dir_fd, entry.name), stat_at(dir_fd, entry.old)
    is_ours = now is not None and entry.made is not None and FileVersion.from_status(now) == entry.made
    if old is not None and (now is None or is_ours):
        os.rename(entry.old, entry.name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    elif is_ours and not entry.existed:
        os.unlink(entry.name, dir_fd=dir_fd)
    remove_leftovers(dir_fd, entry)


def remove_leftovers(dir_fd: int, entry: LogEntry) -> None:
    """Nothing is left beside the file. Raises OSError."""
    for name in (entry.new, entry.old):
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=dir_fd)
