"""Reads files that others may have put in place, which must neither block nor never end."""

import errno
import os
import stat
from pathlib import Path

__all__ = ["read_regular_file"]

_NOT_REGULAR = "it is not a regular file"


def read_regular_file(path: str | Path, limit: int = -1) -> bytes:
    """Return the content of a file, at most `limit` bytes of it.

    Raises OSError, also for a pipe, a socket or a device.

    The null device is an empty file: that is how people leave a file out.
    """
    try:
        # Opening a pipe waits until somebody writes; Windows has neither the flag nor pipes in its file
        # system.
        with open(
            path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))
        ) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode) and os.path.realpath(path) != os.devnull:
                raise OSError(errno.EINVAL, _NOT_REGULAR)
            return file.read(limit)
    except OSError as e:
        if e.errno == errno.ENXIO:  # a socket cannot even be opened
            raise OSError(errno.EINVAL, _NOT_REGULAR) from None
        raise
