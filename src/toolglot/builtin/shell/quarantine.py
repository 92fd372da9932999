"""Takes files out of the workspace that a command may not create. They are kept for a while, if they are small.

Everything is done by descriptor and without recursion: a command may have left links, deep trees, pipes and huge files.
"""

import os
import secrets
import shutil
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from toolglot.builtin.files.confined_open import open_beneath
from toolglot.builtin.shell.private_dirs import delete_tree, make_accessible

__all__ = ["copy_small", "move_away", "open_parent"]

# What is copied to another file system: more is deleted.
_MAX_COPY_BYTES, _MAX_COPY_ENTRIES = 16 << 20, 200


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
    target = quarantine / f"{last[:100]}.{secrets.token_hex(4)}"
    with suppress(OSError):  # what cannot be kept is deleted
        quarantine.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open_parent(root, name) as parent:
        mode = stat.S_IMODE(os.fstat(parent).st_mode)
        with suppress(OSError):  # a command may have made it read-only
            os.fchmod(parent, mode | 0o700)
        try:
            make_accessible(parent, last)
            try:
                os.rename(last, target, src_dir_fd=parent)
            except OSError:
                # Another file system: under a name that means nothing it does no harm while it is copied and deleted.
                harmless = f".{secrets.token_hex(8)}.removed"
                os.rename(last, harmless, src_dir_fd=parent, dst_dir_fd=parent)
                is_kept = copy_small(Path(f"/proc/self/fd/{parent}/{harmless}"), target)
                with suppress(OSError):
                    delete_tree(parent, harmless)
                return target if is_kept else None
        finally:
            with suppress(OSError):
                os.fchmod(parent, mode)
    os.utime(target, follow_symlinks=False)  # it is kept from now on
    return target


def copy_small(source: Path, target: Path) -> bool:
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
