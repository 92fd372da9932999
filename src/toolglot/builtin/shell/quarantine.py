"""Takes files out of the places where other programs would obey them.

Nothing is copied or deleted: they may be the user's.
"""

import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from toolglot.confine.confined_open import open_beneath
from toolglot.confine.private_dirs import make_accessible

__all__ = ["move_away", "open_parent", "read_beneath"]


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


def move_away(root: Path, name: str, quarantine: Path) -> Path:
    """Move a file or directory to the quarantine; return where it is now. Raises OSError.

    If the quarantine is on another file system, it stays in the workspace, under a name that means nothing.
    """
    last = name.rpartition("/")[2]
    new_name = f"{last[:100]}.{secrets.token_hex(4)}"
    with suppress(OSError):
        quarantine.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open_parent(root, name) as parent:
        mode = stat.S_IMODE(os.fstat(parent).st_mode)
        with suppress(OSError):  # a command may have made it read-only
            os.fchmod(parent, mode | 0o700)
        try:
            make_accessible(parent, last)
            for target in (quarantine / new_name, root / f"{new_name}.removed"):
                try:
                    os.rename(last, target, src_dir_fd=parent)
                except OSError:
                    continue
                with suppress(OSError):
                    os.utime(target, follow_symlinks=False)  # it is kept from now on
                return target
            os.rename(last, f"{new_name}.removed", src_dir_fd=parent, dst_dir_fd=parent)
            return root / Path(name).with_name(f"{new_name}.removed")
        finally:
            with suppress(OSError):
                os.fchmod(parent, mode)


def read_beneath(root: Path, name: str, limit: int) -> bytes | None:
    """Read a file below the root, at most one byte more than the limit; None if it cannot be read, or is a
    link.
    """
    with suppress(OSError), open_parent(root, name) as parent:
        # a pipe of this name must not block us
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(name.rpartition("/")[2], flags, dir_fd=parent), "rb") as file:
            return file.read(limit + 1)
    return None
