"""Private directories for what commands leave behind: one for each conversation, and those that are kept for
a while.

What commands wrote there may be anything: links, deep trees, directories without rights, huge files. Nothing
here follows a link or recurses.
"""

import errno
import os
import secrets
import stat
import tempfile
import time
import weakref
from contextlib import suppress
from functools import cache
from pathlib import Path

from toolglot.confine.confined_open import PATH_ONLY, close_quietly, combine_flags

__all__ = ["ConversationDirectory", "delete_abandoned", "delete_tree", "make_accessible", "prune_directory"]

_MAX_KEPT_BYTES, _MAX_KEPT_SECONDS, _MIN_KEPT_SECONDS = 256 << 20, 30 * 24 * 3600.0, 7 * 24 * 3600.0
_MAX_DEPTH = 100_000  # a limit only because somebody may go on creating files
_DIRECTORY = combine_flags("O_RDONLY", "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC")


class ConversationDirectory:
    """A directory that is deleted with the conversation.

    If the process is killed before, the next one deletes it.

    Its owner holds a lock on it: one without a lock belongs to a dead process.
    """

    def __init__(self, base: Path, prefix: str) -> None:
        base = Path(os.path.realpath(base))
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        delete_abandoned(base, prefix)
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=base))
            self._fd = os.open(self.path, _DIRECTORY)
            _lock(self._fd)
            with suppress(FileNotFoundError):
                if os.stat(self.path).st_ino == os.fstat(self._fd).st_ino:
                    break
            os.close(self._fd)  # another process deleted it just before it was locked
        self._finalizer = weakref.finalize(self, close_quietly, self._fd)

    def delete(self) -> None:
        with suppress(OSError):
            base = os.open(self.path.parent, _DIRECTORY)
            try:
                delete_tree(base, self.path.name)
            finally:
                os.close(base)
        self._finalizer()


def _lock(fd: int) -> bool:
    import fcntl

    with suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


@cache  # once in a process: a server may have many conversations
def delete_abandoned(base: Path, prefix: str) -> None:
    """Delete the directories of dead processes."""
    with suppress(OSError):
        base_fd = os.open(base, _DIRECTORY)
        try:
            for name in os.listdir(base_fd):
                status = os.stat(name, dir_fd=base_fd, follow_symlinks=False)
                if name.startswith(prefix) and stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                    fd = os.open(name, _DIRECTORY, dir_fd=base_fd)
                    try:
                        if _lock(fd):
                            delete_tree(base_fd, name)
                    finally:
                        os.close(fd)
        finally:
            os.close(base_fd)


def make_accessible(dir_fd: int, name: str) -> None:
    """Give ourselves all rights to a directory of ours: one that is read-only cannot be moved to another, or
    emptied.
    """
    with suppress(OSError):
        fd = os.open(name, PATH_ONLY | _DIRECTORY, dir_fd=dir_fd)
        try:
            os.chmod(f"/proc/self/fd/{fd}", stat.S_IMODE(os.fstat(fd).st_mode) | 0o700)
        finally:
            os.close(fd)


def delete_tree(dir_fd: int, name: str) -> None:
    """Delete a file or a tree of any depth. Raises OSError."""
    try:
        os.unlink(name, dir_fd=dir_fd)
        return
    except OSError as e:
        if e.errno not in (errno.EISDIR, errno.EPERM):  # directories, on Linux and elsewhere
            raise
    make_accessible(dir_fd, name)
    top = os.open(name, _DIRECTORY, dir_fd=dir_fd)
    try:
        for _ in range(_MAX_DEPTH):
            if not (names := os.listdir(top)):
                break
            for child in names:
                try:
                    os.unlink(child, dir_fd=top)
                    continue
                except OSError as e:
                    if e.errno not in (errno.EISDIR, errno.EPERM):
                        raise
                make_accessible(top, child)
                fd = os.open(child, _DIRECTORY, dir_fd=top)
                try:  # what is below moves up, so that the depth does not matter
                    for below in os.listdir(fd):
                        make_accessible(fd, below)
                        os.rename(below, secrets.token_hex(8), src_dir_fd=fd, dst_dir_fd=top)
                finally:
                    os.close(fd)
                os.rmdir(child, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=dir_fd)


def prune_directory(
    directory: Path, max_bytes: int = _MAX_KEPT_BYTES, max_seconds: float = _MAX_KEPT_SECONDS
) -> None:
    """Delete old entries of a directory of ours; if it is large, also less old ones, but none of the last
    days.
    """
    with suppress(OSError):
        fd = os.open(directory, _DIRECTORY)
        try:
            entries: list[tuple[float, int, str]] = []
            for name in os.listdir(fd):
                size = _measure_tree(os.path.join(directory, name))
                with suppress(OSError):
                    entries.append((os.stat(name, dir_fd=fd, follow_symlinks=False).st_mtime, size, name))
            total, now = sum(size for _, size, _ in entries), time.time()
            for modified, size, name in sorted(entries):
                age = now - modified
                if age > max_seconds or (total > max_bytes and age > _MIN_KEPT_SECONDS):
                    with suppress(OSError):
                        delete_tree(fd, name)
                        total -= size
        finally:
            os.close(fd)


def _measure_tree(path: str) -> int:
    """Return the space that a file or a tree takes on the disk."""
    size, paths = 0, [path]
    for path in paths:  # it grows meanwhile
        with suppress(OSError):
            status = os.lstat(path)
            size += max(4096, getattr(status, "st_blocks", 0) * 512)  # holes take no space, empty files do
            if stat.S_ISDIR(status.st_mode):
                paths += [os.path.join(path, child) for child in os.listdir(path)]
    return size
