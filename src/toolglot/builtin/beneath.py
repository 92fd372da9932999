"""Opening a path below a folder so that nothing can lead out of it: the kernel checks, not a comparison of texts.

Linux: one `openat2` with RESOLVE_BENEATH. Elsewhere, and on older kernels: handle by handle, links read and followed by hand.
Both give a descriptor of what was really opened; whoever swaps folders meanwhile wins an error, never a way out.
"""

import ctypes
import errno
import os
import sys
from functools import cache

__all__ = ["PATH_ONLY", "is_kernel_checked", "open_beneath"]

PATH_ONLY: int = getattr(os, "O_PATH", os.O_RDONLY)
"""A descriptor that only names a place; a plain one where the system has none of this kind."""
_OPENAT2 = 437  # the same number on every architecture that has it (Linux 5.6)
_BENEATH, _NO_MAGICLINKS = 0x08, 0x02
_RACES = 64  # EAGAIN: somebody renamed folders while the kernel looked
_MOST_LINKS = 40
_O_PATH: int = getattr(os, "O_PATH", 0)  # it goes with few other flags
_ALWAYS = os.O_CLOEXEC | getattr(os, "O_NOCTTY", 0)


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@cache
def is_kernel_checked() -> bool:
    """Whether this kernel has openat2, and lets us use it."""
    if sys.platform != "linux":
        return False
    try:
        root = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.close(_openat2(root, ".", PATH_ONLY, 0))
    except OSError:
        return False
    finally:
        os.close(root)
    return True


def open_beneath(folder: int, path: str, flags: int, mode: int = 0o600) -> int:
    """A descriptor of `path`, which is relative to the folder and stays below it. Raises OSError; EXDEV: it would lead out."""
    flags |= os.O_CLOEXEC if flags & _O_PATH else _ALWAYS
    if is_kernel_checked():
        return _openat2(folder, path or ".", flags, mode if flags & os.O_CREAT else 0)
    return _walk(folder, path, flags, mode)


def _openat2(folder: int, path: str, flags: int, mode: int) -> int:
    how = _How(flags, mode, _BENEATH | _NO_MAGICLINKS)
    name = os.fsencode(path)
    for _ in range(_RACES):
        found: int = _libc().syscall(_OPENAT2, folder, name, ctypes.byref(how), ctypes.sizeof(how))
        if found >= 0:
            return found
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            raise OSError(number, os.strerror(number), path)
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)


def _walk(folder: int, path: str, flags: int, mode: int) -> int:
    """The same, component by component. `above` holds a handle of every folder on the way, so that `..` cannot be fooled."""
    above = [os.dup(folder)]
    parts = [part for part in path.split("/") if part not in ("", ".")]
    links = 0
    if path.startswith("/"):
        parts = [".."] * 1 + parts  # absolute: it leads out
    try:
        while parts:
            name = parts.pop(0)
            if name == "..":
                if len(above) == 1:
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
                os.close(above.pop())
                continue
            last = not parts
            follows = not (last and flags & os.O_NOFOLLOW)
            target = _link(above[-1], name) if follows else None
            if target is not None:
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                if target.startswith("/"):
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
                parts = [part for part in target.split("/") if part not in ("", ".")] + parts
                continue
            if last:
                return os.open(name, flags | os.O_NOFOLLOW, mode, dir_fd=above[-1])
            above.append(os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above[-1]))
        return os.open(".", (flags & ~os.O_CREAT) | os.O_NOFOLLOW, dir_fd=above[-1])
    finally:
        for handle in above:
            os.close(handle)


def _link(folder: int, name: str) -> str | None:
    """Where a link leads; None for what is no link."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return None
