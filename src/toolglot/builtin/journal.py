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

from toolglot.builtin.beneath import give_back
from toolglot.builtin.handles import CREATE, LARGEST_COPY, READ, read_all, status_in, write_all

__all__ = ["Entry", "Journal", "Mark", "Version", "own_journals", "put_back", "sweep", "taken_over"]


class Version(msgspec.Struct, frozen=True):
    """What a file was when it was looked at: another version has other numbers."""

    device: int
    inode: int
    size: int
    changed: int

    @classmethod
    def of(cls, status: os.stat_result) -> "Version":
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class Entry(msgspec.Struct, frozen=True, tag="file"):
    """A line of a journal: one file on its way. Names are bytes, as file systems have them."""

    folder: bytes
    name: bytes
    new: bytes
    old: bytes
    existed: bool
    copy: bytes
    """A backup on its way, in the private folder."""
    made: Version | None = None
    """What is put under the name; None: nothing yet, or it is removed."""


class Mark(msgspec.Struct, frozen=True, tag="mark"):
    """A line of a journal: whether everything is in place. The last line counts."""

    done: bool


class Journal:
    """What is under way, in the private folder. The process that writes it holds a lock on it: without the lock, it is dead."""

    def __init__(self, folder: Path | None) -> None:
        self._folder, self._path, self._handle = folder, Path(), -1

    def write(self, lines: list[Entry] | list[Mark], *, sync: bool = False) -> None:
        if self._folder is None:
            return
        if self._handle < 0:
            self._start(self._folder)
        write_all(self._handle, b"".join(b"\n" + msgspec.json.encode(line) for line in lines) + b"\n")
        if sync:
            os.fsync(self._handle)

    def _start(self, folder: Path) -> None:
        import fcntl

        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / secrets.token_hex(8)
        self._handle = os.open(path, CREATE, 0o600)
        self._path = path
        fcntl.flock(self._handle, fcntl.LOCK_EX)
        os.rename(path, path.with_suffix(".journal"))  # only now it is looked at by others
        self._path = path.with_suffix(".journal")

    def close(self, *, keep: bool) -> None:
        """It has done its work; where something could not be cleaned up, it stays for the next start."""
        if self._handle >= 0 and not keep:
            with suppress(OSError):
                os.unlink(self._path)
        give_back(self._handle)


def own_journals(folder: Path) -> list[Path]:
    """The journals in a folder that nobody else could have written to."""
    try:
        status = os.stat(folder)
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            return []
        return sorted(path for path in folder.iterdir() if path.suffix == ".journal")
    except OSError:
        return []


@contextmanager
def taken_over(path: Path) -> Generator[list[Entry | Mark]]:
    """The lines of a journal whose writer is dead. Raises OSError where he lives. A line that was cut off was not written."""
    import fcntl

    handle = os.open(path, READ)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield [line for text in read_all(handle, LARGEST_COPY).split(b"\n") if (line := _line(text)) is not None]
    finally:
        give_back(handle)


def _line(text: bytes) -> Entry | Mark | None:
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(text, type=Entry | Mark)
    return None


def put_back(folder: int, entry: Entry) -> None:
    """The old file is under its name, or none where none was, and nothing beside it. It may be done again. Raises OSError."""
    now, old = status_in(folder, entry.name), status_in(folder, entry.old)
    is_ours = now is not None and entry.made is not None and Version.of(now) == entry.made
    if old is not None and (now is None or is_ours):
        os.rename(entry.old, entry.name, src_dir_fd=folder, dst_dir_fd=folder)
    elif is_ours and not entry.existed:
        os.unlink(entry.name, dir_fd=folder)
    sweep(folder, entry)


def sweep(folder: int, entry: Entry) -> None:
    """Nothing is left beside the file. Raises OSError."""
    for name in (entry.new, entry.old):
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
