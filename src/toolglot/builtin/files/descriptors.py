"""Operations on open file descriptors, and system errors as tool errors."""

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress

from toolglot.confine.confined_open import combine_flags
from toolglot.errors import ToolError
from toolglot.values.failures import ErrorCode, MissingPath

__all__ = [
    "ACCESS_LIST",
    "CREATE_FLAGS",
    "MAX_COPY_BYTES",
    "READ_FLAGS",
    "check_regular_file",
    "read_all",
    "read_attributes",
    "stat_at",
    "tool_error",
    "translate_os_errors",
    "write_all",
]

CREATE_FLAGS = combine_flags("O_WRONLY", "O_CREAT", "O_EXCL", "O_NOFOLLOW", "O_CLOEXEC")
READ_FLAGS = combine_flags("O_RDONLY", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC")
MAX_COPY_BYTES = 256 << 20
ACCESS_LIST = "system.posix_acl_access"
# Rights and signatures of a program: a change must drop them, as the kernel does.
_DROPPED_ATTRIBUTES = ("security.capability", "security.ima", "security.evm")
_MESSAGES: dict[int, tuple[str, ErrorCode]] = {
    errno.ENOENT: ("no such file or directory: {!r}", "path_not_found"),
    errno.ENOTDIR: ("{!r}: a parent of the path is not a directory", "not_directory"),
    errno.EISDIR: ("{!r} is a directory", "is_directory"),
    errno.ELOOP: ("{!r} goes through too many symbolic links", "io_error"),
    errno.EXDEV: ("{!r} leads out of the workspace", "path_not_allowed"),
    errno.ENXIO: ("{!r} is not a regular file", "not_regular_file"),
    errno.EACCES: ("permission to open {!r} was denied", "path_not_allowed"),
    errno.EPERM: ("permission to change {!r} was denied", "path_not_allowed"),
    errno.ENAMETOOLONG: ("the path {!r} is too long", "io_error"),
    errno.ENOSPC: ("{!r} cannot be written: the disk is full", "io_error"),
    errno.EROFS: ("{!r} cannot be written: the file system is read-only", "io_error"),
}


def read_all(fd: int, limit: int) -> bytes:
    """Read until the end of the file, at most `limit` bytes."""
    parts: list[bytes] = []
    size = 0
    while size < limit and (data := os.read(fd, min(1 << 20, limit - size))):
        parts.append(data)
        size += len(data)
    return b"".join(parts)


def write_all(fd: int, data: bytes) -> None:
    """Write all of the bytes, however many `os.write` takes at once."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def stat_at(dir_fd: int, name: str | bytes) -> os.stat_result | None:
    """Return the status of a directory entry without following links, or None if there is none.

    Raises OSError.
    """
    try:
        return os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


def read_attributes(path: str) -> dict[str, bytes]:
    """Return the extended attributes of a file that a new version of it should have, its access control list
    among them.
    """
    attributes: dict[str, bytes] = {}
    with suppress(OSError, AttributeError):  # not everywhere
        for attribute in os.listxattr(path, follow_symlinks=False):
            if attribute not in _DROPPED_ATTRIBUTES:
                with suppress(OSError):
                    attributes[attribute] = os.getxattr(path, attribute, follow_symlinks=False)
    return attributes


def check_regular_file(status: os.stat_result, raw_path: str) -> None:
    """Raise ToolError unless the status is that of a regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise ToolError(f"{raw_path!r} is a directory", code="is_directory")
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"{raw_path!r} is not a regular file", code="not_regular_file")


def tool_error(error: OSError, raw_path: str) -> ToolError:
    """Return a system error as a ToolError that names the path as the model wrote it."""
    message, code = _MESSAGES.get(error.errno or 0, (f"{{!r}}: {error.strerror}", "io_error"))
    kind = "not_allowed" if code == "path_not_allowed" else "execution"
    details = MissingPath(raw_path) if code == "path_not_found" else None
    return ToolError(message.format(raw_path), kind=kind, code=code, details=details)


@contextmanager
def translate_os_errors(raw_path: str) -> Generator[None]:
    """Raise system errors of the block as ToolError."""
    try:
        yield
    except OSError as e:
        raise tool_error(e, raw_path) from None
