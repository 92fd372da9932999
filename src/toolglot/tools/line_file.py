"""Appends lines to a file so that each stays a line, whatever happened to the one before it."""

import os
import stat
from pathlib import Path
from threading import Lock

__all__ = ["LineFile"]


class LineFile:
    """A file of lines. A new file is readable by its owner only.

    A write that fails in the middle, as on a full disk, leaves half a line: the next one begins on a line of
    its own. The half may also be from a process before this one.
    """

    def __init__(self, path: str | Path) -> None:
        self._path, self._lock = path, Lock()
        self._may_be_broken = _ends_within_line(path)

    def append(self, line: bytes) -> None:
        """Append a line, which ends with its line feed. Raises OSError."""
        with self._lock:
            start = b"\n" if self._may_be_broken and _ends_within_line(self._path) else b""
            self._may_be_broken = True
            with open(self._path, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(start + line)  # one write: lines of several processes do not mix
            self._may_be_broken = False


def _ends_within_line(path: str | Path) -> bool:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # reading a pipe or a terminal would wait
            return False
        with open(path, "rb") as file:
            if file.seek(0, os.SEEK_END) == 0:
                return False
            file.seek(-1, os.SEEK_END)
            return file.read() != b"\n"
    except FileNotFoundError:
        return False
    except OSError:  # it cannot be read: an empty line does no harm
        return True
