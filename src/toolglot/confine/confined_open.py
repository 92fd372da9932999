"""Opens a path below a directory so that nothing can lead out of it.

Linux: one `openat2` call with RESOLVE_BENEATH, so the kernel does the check. Elsewhere, and on kernels before
5.6: component by component, reading and following links by hand. Both return a descriptor of what was really
opened; whoever swaps directories meanwhile causes an error, never an escape.
"""

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache, lru_cache

__all__ = ["NOT_SUPPORTED", "PATH_ONLY", "close_quietly", "combine_flags", "has_openat2", "open_beneath"]

NOT_SUPPORTED = (
    ""
    if hasattr(os, "O_NOFOLLOW")
    else "the built-in tools need Linux or macOS: this system cannot confine them"
)
"""Why nothing can be confined on this system; "" if it can. The modules can be imported everywhere."""


def combine_flags(*names: str) -> int:
    """Combine flags of `os.open` by name, without those that do not exist here (see NOT_SUPPORTED)."""
    return sum(getattr(os, name, 0) for name in names)  # no two of them share a bit


_O_PATH = combine_flags("O_PATH")
# Opens a path without reading it. Systems without O_PATH get a descriptor that at least never blocks on a
# pipe.
PATH_ONLY = _O_PATH or combine_flags("O_RDONLY", "O_NONBLOCK")
_OPENAT2 = 437  # the system call has the same number on every architecture
_RESOLVE_BENEATH, _RESOLVE_NO_MAGICLINKS = 0x08, 0x02
_MAX_RACE_RETRIES = 64  # EAGAIN: somebody renamed directories during the lookup
_MAX_LINKS = 40  # as Linux
_DEFAULT_FLAGS = combine_flags("O_CLOEXEC", "O_NOCTTY")
_STEP_FLAGS = PATH_ONLY | combine_flags("O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC")


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_OPEN_HOW_SIZE = ctypes.sizeof(_OpenHow)


@cache
def _syscall() -> Callable[..., int]:
    """Return `syscall` of the C library: glibc has no wrapper for openat2."""
    function = ctypes.CDLL(None, use_errno=True).syscall
    function.argtypes = (
        ctypes.c_long,
        ctypes.c_long,
        ctypes.c_char_p,
        ctypes.POINTER(_OpenHow),
        ctypes.c_size_t,
    )
    function.restype = ctypes.c_long
    return function


@cache
def has_openat2() -> bool:
    """Whether this kernel has openat2 and lets us use it (a seccomp filter may not)."""
    if sys.platform != "linux":
        return False
    with suppress(OSError):
        root = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            close_quietly(_openat2(root, ".", PATH_ONLY))
            return True
        finally:
            close_quietly(root)
    return False


def open_beneath(dir_fd: int, path: str, flags: int) -> int:
    """Open a relative path that exists below the directory.

    Raises OSError; EXDEV means that it would lead out.
    """
    # O_PATH refuses most other flags.
    flags |= os.O_CLOEXEC if flags & _O_PATH else _DEFAULT_FLAGS
    return _openat2(dir_fd, path or ".", flags) if has_openat2() else _open_by_walking(dir_fd, path, flags)


def close_quietly(fd: int) -> None:
    """Close a descriptor that nothing was written through, so no error matters. A negative one is ignored."""
    if fd >= 0:
        with suppress(OSError):
            os.close(fd)


@lru_cache(maxsize=256)
def _open_how(flags: int) -> "ctypes._Pointer[_OpenHow]":  # pyright: ignore[reportPrivateUsage]
    # Cached because building the structure costs more than the call; the kernel only reads it.
    return ctypes.pointer(_OpenHow(flags, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS))


def _openat2(dir_fd: int, path: str, flags: int) -> int:
    syscall, how, name = _syscall(), _open_how(flags), os.fsencode(path)
    for _ in range(_MAX_RACE_RETRIES):
        fd: int = syscall(_OPENAT2, dir_fd, name, how, _OPEN_HOW_SIZE)
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            raise OSError(number, os.strerror(number), path)
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)


def _open_by_walking(dir_fd: int, path: str, flags: int) -> int:
    """Open component by component.

    `parents` holds a descriptor of every directory on the way, so `..` cannot be redirected.
    """
    parents = [os.dup(dir_fd)]
    links, follow = 0, not flags & os.O_NOFOLLOW
    try:
        parts = _split_path(path)
        while parts:
            name = parts.pop(0)
            if name == ".":
                continue
            if name == "..":
                if len(parents) == 1:
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
                close_quietly(parents.pop())
            elif (target := _read_link(parents[-1], name) if parts or follow else None) is not None:
                links += 1
                if links > _MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                parts = _split_path(target) + parts
            elif parts:
                parents.append(os.open(name, _STEP_FLAGS, dir_fd=parents[-1]))
            else:
                fd = os.open(name, flags | os.O_NOFOLLOW, dir_fd=parents[-1])
                try:
                    if flags & _O_PATH and follow and stat.S_ISLNK(os.fstat(fd).st_mode):
                        # it became a link after the check
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
                except OSError:
                    close_quietly(fd)
                    raise
                return fd
        return os.open(".", flags, dir_fd=parents[-1])
    finally:
        for fd in parents:
            close_quietly(fd)


def _split_path(path: str) -> list[str]:
    """Return the components of a path. A final "." demands that the one before it is a directory."""
    if path.startswith("/"):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    names = path.split("/")
    return [name for name in names if name not in ("", ".")] + ["."] * (names[-1] in ("", "."))


def _read_link(dir_fd: int, name: str) -> str | None:
    """Return the target of a link, or None for anything else."""
    try:
        return os.readlink(name, dir_fd=dir_fd)
    except OSError:
        return None
