"""Opening a path below a folder so that nothing can lead out of it: the kernel checks, not a comparison of texts.

Linux: one `openat2` with RESOLVE_BENEATH. Elsewhere, and on older kernels: handle by handle, links read and followed by hand.
Both give a descriptor of what was really opened; whoever swaps folders meanwhile wins an error, never a way out.
"""

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache, lru_cache

__all__ = ["PATH_ONLY", "close_quietly", "has_openat2", "open_beneath"]

_O_PATH: int = getattr(os, "O_PATH", 0)  # it goes with few other flags
PATH_ONLY: int = _O_PATH or os.O_RDONLY | os.O_NONBLOCK
"""A descriptor that only names a place; one that does not wait for anybody where the system has none of this kind."""
_OPENAT2 = 437  # the same number on every architecture that has it (Linux 5.6)
_RESOLVE_BENEATH, _RESOLVE_NO_MAGICLINKS = 0x08, 0x02
_MAX_RACE_RETRIES = 64  # EAGAIN: somebody renamed folders while the kernel looked
_MAX_LINKS = 40
_DEFAULT_FLAGS = os.O_CLOEXEC | getattr(os, "O_NOCTTY", 0)
_STEP_FLAGS = PATH_ONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_OPEN_HOW_SIZE = ctypes.sizeof(_OpenHow)


@cache
def _syscall() -> Callable[..., int]:
    """`syscall` of the C library, which takes what openat2 takes. The kernel only reads its structure."""
    found = ctypes.CDLL(None, use_errno=True).syscall
    found.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_char_p, ctypes.POINTER(_OpenHow), ctypes.c_size_t)
    found.restype = ctypes.c_long
    return found


@cache
def has_openat2() -> bool:
    """Whether this kernel has openat2, and lets us use it."""
    if sys.platform != "linux":
        return False
    try:
        root = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        close_quietly(_openat2(root, ".", PATH_ONLY, 0))
    except OSError:
        return False
    finally:
        close_quietly(root)
    return True


def open_beneath(dir_fd: int, path: str, flags: int, mode: int = 0o600) -> int:
    """A descriptor of `path`, which is relative to the folder and stays below it. Raises OSError; EXDEV: it would lead out."""
    flags |= os.O_CLOEXEC if flags & _O_PATH else _DEFAULT_FLAGS
    if has_openat2():
        return _openat2(dir_fd, path or ".", flags, mode if flags & os.O_CREAT else 0)
    return _open_by_walking(dir_fd, path, flags, mode)


def close_quietly(fd: int) -> None:
    """Closes a handle that nothing was written through: nothing can be lost, and no error matters. Below 0: there is none."""
    if fd >= 0:
        with suppress(OSError):
            os.close(fd)


@lru_cache(maxsize=256)
def _open_how(flags: int, mode: int) -> "ctypes._Pointer[_OpenHow]":  # pyright: ignore[reportPrivateUsage]
    return ctypes.pointer(_OpenHow(flags, mode, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS))


def _openat2(dir_fd: int, path: str, flags: int, mode: int) -> int:
    syscall, how, name = _syscall(), _open_how(flags, mode), os.fsencode(path)
    for _ in range(_MAX_RACE_RETRIES):
        found: int = syscall(_OPENAT2, dir_fd, name, how, _OPEN_HOW_SIZE)
        if found >= 0:
            return found
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            raise OSError(number, os.strerror(number), path)
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)


def _open_by_walking(dir_fd: int, path: str, flags: int, mode: int) -> int:
    """The same, component by component. `above` holds a handle of every folder on the way, so that `..` cannot be fooled."""
    above = [os.dup(dir_fd)]
    links = 0
    try:
        parts = _split_path(path)
        while parts:
            name = parts.pop(0)
            if name == ".":
                continue
            if name == "..":
                if len(above) == 1:
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
                close_quietly(above.pop())
            elif (target := _read_link(above[-1], name) if parts or _follows_links(flags) else None) is not None:
                links += 1
                if links > _MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                parts = _split_path(target) + parts
            elif parts:
                above.append(os.open(name, _STEP_FLAGS, dir_fd=above[-1]))
            else:
                return _open_last(above[-1], name, flags, mode)
        return os.open(".", flags & ~os.O_CREAT, dir_fd=above[-1])
    finally:
        for handle in above:
            close_quietly(handle)


def _split_path(path: str) -> list[str]:
    """The names of a path. A last "." says that what is before it must be a folder."""
    if path.startswith("/"):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    names = path.split("/")
    return [name for name in names if name not in ("", ".")] + ["."] * (names[-1] in ("", "."))


def _follows_links(flags: int) -> bool:
    """Whether a link at the end of a path is followed; a file that must be new is never one behind a link."""
    return not flags & (os.O_NOFOLLOW | os.O_EXCL)


def _open_last(dir_fd: int, name: str, flags: int, mode: int) -> int:
    handle = os.open(name, flags | os.O_NOFOLLOW, mode, dir_fd=dir_fd)
    try:
        if flags & _O_PATH and _follows_links(flags) and stat.S_ISLNK(os.fstat(handle).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)  # it has become a link since it was looked at
    except OSError:
        close_quietly(handle)
        raise
    return handle


def _read_link(dir_fd: int, name: str) -> str | None:
    """Where a link leads; None for what is no link."""
    try:
        return os.readlink(name, dir_fd=dir_fd)
    except OSError:
        return None
