"""What is done with an open descriptor, and what is said where the system refuses."""

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager

from toolglot.errors import ToolError

__all__ = [
    "CREATE",
    "LARGEST_COPY",
    "READ",
    "check_regular",
    "explained",
    "failure",
    "read_all",
    "status_in",
    "write_all",
]

CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
LARGEST_COPY = 256 << 20
_SAYINGS = {
    errno.ENOENT: "there is no {!r}",
    errno.ENOTDIR: "{!r}: a part of the path is not a folder",
    errno.EISDIR: "{!r} is a folder",
    errno.ELOOP: "{!r} leads through too many links",
    errno.EXDEV: "{!r} leads out of the workspace",
    errno.ENXIO: "{!r} is not a regular file",
    errno.EACCES: "{!r} may not be opened",
    errno.EPERM: "{!r} may not be changed",
    errno.ENAMETOOLONG: "the path {!r} is too long",
    errno.ENOSPC: "{!r} cannot be written: the disk is full",
    errno.EROFS: "{!r} cannot be written: the file system is read-only",
}


def read_all(handle: int, most: int) -> bytes:
    """What a descriptor holds, at most so many bytes."""
    parts: list[bytes] = []
    size = 0
    while size < most and (data := os.read(handle, min(1 << 20, most - size))):
        parts.append(data)
        size += len(data)
    return b"".join(parts)


def write_all(handle: int, data: bytes) -> None:
    """All of the bytes."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def status_in(folder: int, name: str | bytes) -> os.stat_result | None:
    """What is under a name; None: nothing. Raises OSError."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def check_regular(status: os.stat_result, given: str) -> None:
    """Raises ToolError where it is no regular file."""
    if not stat.S_ISREG(status.st_mode):
        what = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise ToolError(f"{given!r} is {what}", kind="execution")


def failure(error: OSError, given: str) -> ToolError:
    """An error of the system in one sentence. `given`: the path as it was given."""
    said = _SAYINGS.get(error.errno or 0)
    kind = "not_allowed" if error.errno in (errno.EXDEV, errno.EACCES, errno.EPERM) else "execution"
    return ToolError(said.format(given) if said else f"{given!r}: {error.strerror}", kind=kind)


@contextmanager
def explained(given: str) -> Generator[None]:
    """Errors of the system in here are said in one sentence."""
    try:
        yield
    except OSError as e:
        raise failure(e, given) from None
