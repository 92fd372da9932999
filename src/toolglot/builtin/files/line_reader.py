"""Reads a range of lines from a file of any size.

Invariants: memory and work are bounded for any file: only the wanted lines are kept, the others are counted,
up to a limit.
"""

import codecs
import os
from collections.abc import Callable, Iterator

import msgspec

from toolglot.builtin.files.text import Encoding, decode_bytes, detect_bom
from toolglot.errors import ToolError

__all__ = ["BinaryContent", "LineRange", "LineScan", "read_lines"]

_CHUNK_SIZE = 1024 * 1024
_MAX_COUNTED_BYTES = 64 * 1024 * 1024  # read after the wanted lines, only to count the others
_MAX_SEARCHED_BYTES = 16 * 1024**3  # read before the first wanted line


class BinaryContent(Exception):
    """The file is not text."""


class LineRange(msgspec.Struct, frozen=True):
    """Which lines: from `first` (counted from 1), with limits for their number, their bytes and the
    characters of each.
    """

    first: int
    limit: int
    max_bytes: int
    max_width: int


class LineScan:
    """Collects the wanted lines from chunks of text and counts the others."""

    def __init__(self, line_range: LineRange, encoding: Encoding) -> None:
        self.line_range = line_range
        self.encoding: Encoding = encoding
        self.lines: list[str] = []
        self.truncated_lines: list[int] = []
        """Numbers of lines that are longer than shown."""
        self.is_full, self.is_complete = line_range.limit == 0, False
        """is_complete: the file was read to its end."""
        self.is_unterminated = False
        self._line_feeds, self._kept_bytes, self._current = 0, 0, ""

    @property
    def line_count(self) -> int:
        """Lines so far."""
        return self._line_feeds + self.is_unterminated

    def feed(self, chunk: str) -> None:
        """Take the next characters of the file. Raises BinaryContent."""
        if "\0" in chunk:
            raise BinaryContent
        skip, line_feeds = self.line_range.first - self._line_feeds - 1, chunk.count("\n")
        self._line_feeds += line_feeds
        self.is_unterminated = not chunk.endswith("\n")
        if self.is_full or line_feeds < skip:
            return
        wanted = chunk.split("\n", skip)[skip] if skip > 0 else chunk
        *ended, last = wanted.split("\n", self.line_range.limit - len(self.lines))
        for piece in ended:
            self._append(piece)
            self._finish_line("\r")
            if self.is_full:
                return
        self._append(last)

    def _append(self, piece: str) -> None:
        # Two more than are shown: a carriage return, and a character that tells that the line is longer.
        self._current += piece[: max(self.line_range.max_width + 2 - len(self._current), 0)]

    def _finish_line(self, ending: str) -> None:
        line, self._current = self._current.removesuffix(ending), ""
        text = line[: self.line_range.max_width]
        self._kept_bytes += len(text.encode("utf-8", "surrogatepass")) + 1
        if self._kept_bytes > self.line_range.max_bytes and self.lines:
            self.is_full = True
            return
        if text != line:
            self.truncated_lines.append(self.line_range.first + len(self.lines))
        self.lines.append(text)
        self.is_full = len(self.lines) >= self.line_range.limit

    def close(self) -> None:
        """Finish at the end of the file."""
        self.is_complete = True
        if self.is_unterminated and not self.is_full and self.line_count >= self.line_range.first:
            self._finish_line("")


def read_lines(
    fd: int, head: bytes, should_stop: Callable[[], bool], line_range: LineRange, *, count_all: bool = False
) -> LineScan:
    """Return the wanted lines of an open file that begins with `head`. Raises ToolError, BinaryContent.

    It is decoded as its byte order mark says, else as UTF-8, else as windows-1252. `count_all`: however many
    lines follow.
    """
    encoding, bom = detect_bom(head) or ("utf-8", b"")
    lookahead = _MAX_SEARCHED_BYTES if count_all else _MAX_COUNTED_BYTES
    try:
        return _scan(fd, len(bom), LineScan(line_range, encoding), lookahead, should_stop)
    except UnicodeDecodeError:
        if encoding != "utf-8":
            raise BinaryContent from None
    return _scan(fd, len(bom), LineScan(line_range, "windows-1252"), lookahead, should_stop)


def _scan(fd: int, start: int, scan: LineScan, lookahead: int, should_stop: Callable[[], bool]) -> LineScan:
    full_at: int | None = None
    for position, chunk in _iter_chunks(fd, start, scan.encoding):
        if should_stop():
            raise ToolError("reading was cancelled", kind="cancelled", code="cancelled")
        scan.feed(chunk)
        if scan.is_full and full_at is None:
            full_at = position
        if full_at is not None and position - full_at >= lookahead:
            return scan
        if full_at is None and position >= _MAX_SEARCHED_BYTES:
            message = f"line {scan.line_range.first} is over {_MAX_SEARCHED_BYTES >> 30} GB into the file"
            raise ToolError(f"{message}: use a shell command to find it", kind="limit", code="file_too_large")
    scan.close()
    return scan


def _iter_chunks(fd: int, start: int, encoding: Encoding) -> Iterator[tuple[int, str]]:
    """Yield the text of a file in chunks, each with the offset of its end. Raises UnicodeDecodeError."""
    errors = "strict" if encoding == "utf-8" else "surrogatepass"
    decoder = codecs.getincrementaldecoder(encoding)(errors) if encoding != "windows-1252" else None
    position = os.lseek(fd, start, os.SEEK_SET)
    while data := os.read(fd, _CHUNK_SIZE):
        position += len(data)
        if chunk := decoder.decode(data) if decoder else decode_bytes(data, encoding):
            yield position, chunk
    if decoder:
        decoder.decode(b"", final=True)  # raises if the file ends within a character
