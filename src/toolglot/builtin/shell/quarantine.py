"""Takes files out of the workspace that a command may not create. They are kept for a while, if they are small.

Everything is done by descriptor and without recursion: a command may have left links, deep trees, pipes and huge files.
"""

import errno
import os
import secrets
import shutil
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from toolglot.builtin.files.confined_open import PATH_ONLY, combine_flags, open_beneath

__all__ = ["make_accessible", "move_away", "open_parent", "prune_directory"]

# What is copied to another file system: more is deleted.
_MAX_COPY_BYTES, _MAX_COPY_ENTRIES = 16 << 20, 200
_MAX_KEPT_BYTES, _MAX_KEPT_SECONDS = 256 << 20, 30 * 24 * 3600.0
_DIRECTORY = combine_flags("O_RDONLY", "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC")


@contextmanager
def open_parent(root: Path, name: str) -> Generator[int]:
    """Open the directory of a name; it is below the root, whatever links say. Raises OSError."""
    root_fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        parent = open_beneath(root_fd, name.rpartition("/")[0], os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(root_fd)
    try:
        yield parent
    finally:
        os.close(parent)


def move_away(root: Path, name: str, quarantine: Path) -> Path | None:
    """Move a file or directory out of the workspace; return where it is now, None if it was deleted. Raises OSError."""
    last = name.rpartition("/")[2]
    quarantine.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = quarantine / f"{last}.{secrets.token_hex(4)}"
    with open_parent(root, name) as parent:
        mode = stat.S_IMODE(os.fstat(parent).st_mode)
        with suppress(OSError):  # a command may have made it read-only
            os.fchmod(parent, mode | 0o700)
        try:
            make_accessible(parent, last)
            try:
                os.rename(last, target, src_dir_fd=parent)
            except OSError as e:
                if e.errno != errno.EXDEV:
                    raise
                # Another file system: under a name that means nothing it does no harm while it is copied and deleted.
                harmless = f".{secrets.token_hex(8)}.removed"
                os.rename(last, harmless, src_dir_fd=parent, dst_dir_fd=parent)
                is_kept = _copy_small(Path(f"/proc/self/fd/{parent}/{harmless}"), target)
                _delete(parent, harmless)
                return target if is_kept else None
        finally:
            with suppress(OSError):
                os.fchmod(parent, mode)
    os.utime(target, follow_symlinks=False)  # it is kept from now on
    return target


def make_accessible(dir_fd: int, name: str) -> None:
    """Give ourselves all rights to a directory of ours: one that is read-only cannot be moved to another, or emptied."""
    with suppress(OSError):
        fd = os.open(name, PATH_ONLY | _DIRECTORY, dir_fd=dir_fd)
        try:
            os.chmod(f"/proc/self/fd/{fd}", stat.S_IMODE(os.fstat(fd).st_mode) | 0o700)
        finally:
            os.close(fd)


def _copy_small(source: Path, target: Path) -> bool:
    """Copy a file or a directory with few files; return whether it was small enough, and only files, directories and links."""
    size, paths = 0, [source]
    for path in paths:  # it grows meanwhile
        try:
            status = os.lstat(path)
            if stat.S_ISDIR(status.st_mode):
                make_accessible(-1, str(path))
                paths += [path / name for name in os.listdir(path)]
            size += status.st_size
        except OSError:
            return False
        is_special = not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode))
        if is_special or size > _MAX_COPY_BYTES or len(paths) > _MAX_COPY_ENTRIES:
            return False
    with suppress(OSError, shutil.Error):
        if len(paths) > 1:
            shutil.copytree(source, target, symlinks=True)
        else:
            shutil.copy2(source, target, follow_symlinks=False)
        return True
    return False


def _delete(dir_fd: int, name: str) -> None:
    """Delete a file or a tree of any depth. Raises OSError."""
    try:
        os.unlink(name, dir_fd=dir_fd)
        return
    except OSError as e:
        if e.errno not in (errno.EISDIR, errno.EPERM):  # directories, on Linux and elsewhere
            raise
    top = os.open(name, _DIRECTORY, dir_fd=dir_fd)
    try:
        while names := os.listdir(top):
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
                        os.rename(below, secrets.token_hex(8), src_dir_fd=fd, dst_dir_fd=top)
                finally:
                    os.close(fd)
                os.rmdir(child, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=dir_fd)


def prune_directory(directory: Path, max_bytes: int = _MAX_KEPT_BYTES, max_seconds: float = _MAX_KEPT_SECONDS) -> None:
    """Delete the oldest entries of a directory of ours, until it is small and the others are not too old."""
    with suppress(OSError):
        fd = os.open(directory, _DIRECTORY)
        try:
            entries: list[tuple[float, int, str]] = []
            for name in os.listdir(fd):
                with suppress(OSError):
                    status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                    entries.append((status.st_mtime, _disk_usage(directory / name), name))
            total, oldest = sum(size for _, size, _ in entries), time.time() - max_seconds
            for modified, size, name in sorted(entries):
                if total > max_bytes or modified < oldest:
                    with suppress(OSError):
                        make_accessible(fd, name)
                        _delete(fd, name)
                        total -= size
        finally:
            os.close(fd)


def _disk_usage(path: Path) -> int:
    """Return the bytes that a file or a tree takes on the disk: holes take none, empty files take some."""
    total, paths = 0, [str(path)]
    while paths:
        current = paths.pop()
        with suppress(OSError):
            status = os.lstat(current)
            total += max(4096, getattr(status, "st_blocks", 0) * 512)
            if stat.S_ISDIR(status.st_mode):
                paths += [os.path.join(current, name) for name in os.listdir(current)]
    return total
