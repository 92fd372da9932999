"""The output of a command: its beginning and end are kept in memory, and all of it goes to a private file
once it is long.

Memory does not grow with the output. Whatever the bytes are, a model gets text without escape sequences or
control characters, or with them where its own harness keeps them: who shows the text to a person has to
remove them.
"""

import os
import re
import secrets
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import msgspec

from toolglot.confine.programs import SYSTEM_DIRECTORIES, find_program, run_program
from toolglot.errors import ToolError
from toolglot.values.failures import invalid_argument

__all__ = ["Excerpt", "OutputBuffer", "OutputLimit", "filter_lines", "make_excerpt", "to_plain_text"]

KEEP_BYTES = 512 * 1024
"""Bytes of the beginning, and of the end, that are kept in memory."""
MAX_SPILL_BYTES = 100 * 1024 * 1024
_FILTER_TIMEOUT = 2
# Escape sequences of ECMA-48. The lengths are bounded because a command may write an introducer without an
# end.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]?"  # CSI: colours, cursor
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)?"  # OSC: titles, links
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c]{0,4096}(?:\x1b\\|\x9c)?"  # DCS, SOS, PM, APC
    r"|\x1b[ -/]{0,8}[0-~]?"
)
# Line and paragraph separators and bidirectional overrides, too: they can make a text read differently than
# it is.
_CONTROL = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_BACKSPACED = re.compile(r"[^\n\x08]\x08")


def to_plain_text(data: bytes) -> str:
    """Return terminal output as text for a model; of a line that was overwritten, what it showed last."""
    text = data.decode("utf-8", "replace")
    if text.isprintable():
        return text
    text = _ESCAPES.sub("", text).replace("\r\n", "\n")
    if "\b" in text:
        text = _BACKSPACED.sub("", text).replace("\b", "")
    if "\r" in text:  # progress bars
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _CONTROL.sub("\ufffd", text)


def _to_raw_text(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")  # some providers refuse NUL


def filter_lines(text: str, pattern: str) -> str:
    """Return the lines that match a regular expression (grep -E). Raises ToolError."""
    # grep, because its time is bounded by its input, while a pattern of `re` may backtrack for years.
    program = find_program("grep", directories=SYSTEM_DIRECTORIES)
    if not program:
        raise ToolError("output cannot be filtered: grep is not installed", code="missing_program")
    if "\0" in pattern or len(pattern) > 1000:
        raise invalid_argument("filter", "contains a NUL byte or is longer than 1000 characters")
    try:
        process = run_program(
            [program, "-aE", "-e", pattern],
            input=text.encode("utf-8", "replace"),
            capture_output=True,
            timeout=_FILTER_TIMEOUT,
            roots=(),  # a program of the system
            env={"LC_ALL": "C.UTF-8"},
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        raise invalid_argument("filter", "took too long: use a simpler expression") from None
    if process.returncode > 1:
        reason = process.stderr.decode(errors="replace").strip().rpartition(":")[2].strip()
        raise invalid_argument("filter", f"{pattern[:80]!r} is not a regular expression: {reason}")
    return process.stdout.decode("utf-8", "replace")


class OutputLimit(msgspec.Struct, frozen=True):
    """How many characters of output are shown, and the fraction of them that is kept from the start."""

    max_chars: int
    head_fraction: float = 1 / 3
    keep_escapes: bool = False
    """Keep escape sequences and carriage returns as the command wrote them."""


class Excerpt(msgspec.Struct, frozen=True):
    """A part of the output as text: its start and its end if the whole is too long."""

    head: str
    tail: str = ""
    omitted: int = 0
    """Characters between the two (bytes, if they are not in memory any more)."""
    line_count: int | None = None
    """Lines of the whole; None if it is not in memory any more."""

    @property
    def text(self) -> str:
        if not self.omitted:
            return self.head + self.tail
        newline = "" if not self.head or self.head.endswith("\n") else "\n"
        return f"{self.head}{newline}… {self.omitted} characters omitted …\n{self.tail}"


def make_excerpt(head: bytes, gap: int, tail: bytes, limit: OutputLimit) -> Excerpt:
    """Return as much of the output as the limit allows.

    `gap`: bytes between head and tail that are not in memory.
    """
    max_chars = limit.max_chars
    to_text = _to_raw_text if limit.keep_escapes else to_plain_text
    if not gap:
        text = to_text(head + tail)
        lines = text.count("\n") + bool(text and not text.endswith("\n"))
        if len(text) <= max_chars:
            return Excerpt(text, line_count=lines)
        first = int(max_chars * limit.head_fraction)
        return Excerpt(text[:first], text[len(text) - (max_chars - first) :], len(text) - max_chars, lines)
    start, end = to_text(head), to_text(tail)
    first = min(int(max_chars * limit.head_fraction), len(start))
    last = min(max_chars - first, len(end))
    return Excerpt(start[:first], end[len(end) - last :], gap + len(start) - first + len(end) - last)


class OutputBuffer:
    """One stream of output. Thread-safe: one thread adds, others read."""

    def __init__(self, spill_dir: Path | None, spill_after: int = KEEP_BYTES) -> None:
        self._lock = threading.Lock()
        self._head, self._tail = bytearray(), bytearray()
        self._spill_dir, self._spill_after = spill_dir, min(spill_after, KEEP_BYTES)
        self._spill_fd, self._spill_size = -1, 0
        self.spill_path: Path | None = None
        self.is_spill_complete = True
        self.total_bytes = self._newline_count = 0
        self._is_line_open = False  # whether the last line has no newline yet

    @property
    def line_count(self) -> int:
        return self._newline_count + self._is_line_open

    def add(self, data: bytes) -> None:
        with self._lock:
            self.total_bytes += len(data)
            self._newline_count += data.count(b"\n")
            self._is_line_open = not data.endswith(b"\n")
            room = KEEP_BYTES - len(self._head)
            if room > 0:
                self._head += data[:room]
            if len(data) > room:
                self._tail += data[max(room, 0) :]
                if len(self._tail) > 2 * KEEP_BYTES:  # twice as much, so that not every write moves all of it
                    del self._tail[: len(self._tail) - KEEP_BYTES]
            if self._spill_dir is None or self.total_bytes <= self._spill_after:
                return
            self._write_spill(data)

    def open_spill(self) -> None:
        """Write everything to the file from now on, and what came before."""
        with self._lock:
            if self._spill_dir is not None and self.spill_path is None:
                self._spill_after = -1
                self._write_spill(b"")

    def _write_spill(self, data: bytes) -> None:
        try:
            if self._spill_fd < 0 and self.spill_path is None:
                assert self._spill_dir is not None
                self.spill_path = self._spill_dir / f"output-{secrets.token_hex(6)}.txt"
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                self._spill_fd = os.open(self.spill_path, flags, 0o600)
                # everything so far, as less than KEEP_BYTES came before
                data = bytes(self._head + self._tail)
            if self._spill_fd >= 0:
                room = MAX_SPILL_BYTES - self._spill_size
                os.write(self._spill_fd, data[:room])
                self._spill_size += min(len(data), room)
                self.is_spill_complete = len(data) <= room
        except OSError:  # a full disk must not end the command
            self.is_spill_complete = False
        if not self.is_spill_complete:
            self._close_spill()

    def _close_spill(self) -> None:
        if self._spill_fd >= 0:
            os.close(self._spill_fd)
            self._spill_fd = -1

    def close(self) -> None:
        """Close the file: no more output comes."""
        with self._lock:
            self._close_spill()

    def delete_spill(self) -> None:
        """Close and delete the file."""
        self.close()
        if self.spill_path is not None:
            with suppress(OSError):
                self.spill_path.unlink()

    def read_from(self, offset: int) -> tuple[bytes, int, bytes]:
        """Return what is kept from an offset on: bytes of the start, the number of lost bytes after them,
        bytes of the end.
        """
        with self._lock:
            head = bytes(self._head[offset:])
            start = self.total_bytes - len(self._tail)
            tail = bytes(self._tail[max(0, offset - start) :])
            return head, max(0, start - max(offset, len(self._head))), tail

    def last_line(self) -> str:
        """Return the last line, as a progress report."""
        with self._lock:
            end = bytes((self._tail or self._head)[-2048:])
        return to_plain_text(end).rstrip().rpartition("\n")[2][-200:]
