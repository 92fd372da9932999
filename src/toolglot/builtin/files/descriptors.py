"""What is done with an open descriptor, and what is said where the system refuses."""

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager

from toolglot.errors import ToolError

__all__ = [
    "CREATE_FLAGS",
    "MAX_COPY_BYTES",
    "READ_FLAGS",
    "check_regular_file",
    "read_all",
    "stat_at",
    "tool_error",
    "translate_os_errors",
    "write_all",
]

CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
MAX_COPY_BYTES = 256 << 20
_MESSAGES = {
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


def read_all(fd: int, limit: int) -> bytes:
    """What a descriptor holds, at most so many bytes."""
    parts: list[bytes] = []
    size = 0
    while size < limit and (data := os.read(fd, min(1 << 20, limit - size))):
        parts.append(data)
        size += len(data)
    return b"".join(parts)


def write_all(fd: int, data: bytes) -> None:
    """All of the bytes."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def stat_at(dir_fd: int, name: str | bytes) -> os.stat_result | None:
    """What is under a name; None: nothing. Raises OSError."""
    try:
        return os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


def check_regular_file(status: os.stat_result, raw_path: str) -> None:
    """Raises ToolError where it is no regular file."""
    if not stat.S_ISREG(status.st_mode):
        what = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise ToolError(f"{raw_path!r} is {what}", kind="execution")


def tool_error(error: OSError, raw_path: str) -> ToolError:
    """An error of the system in one sentence. `given`: the path as it was given."""
    said = _MESSAGES.get(error.errno or 0)
    kind = "not_allowed" if error.errno in (errno.EXDEV, errno.EACCES, errno.EPERM) else "execution"
    return ToolError(said.format(raw_path) if said else f"{raw_path!r}: {error.strerror}", kind=kind)


@contextmanager
def translate_os_errors(raw_path: str) -> Generator[None]:
    """Errors of the system in here are said in one sentence."""
    try:
        yield
    except OSError as e:
        raise tool_error(e, raw_path) from None
