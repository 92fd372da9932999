"""Reads a range of lines from a file of any size.

Law: memory and work are bounded whatever the file: only the wanted lines are kept, the others are counted, up to a limit.
"""

import codecs
import os
from collections.abc import Iterator

import msgspec

from toolglot.builtin.files.text import Encoding, Newline, classify_newlines, decode_bytes, detect_bom
from toolglot.errors import ToolError
from toolglot.tools.context import Context

__all__ = ["BinaryContent", "LineRange", "LineReader"]

_CHUNK_SIZE = 1024 * 1024
_MAX_COUNTED_BYTES = 64 * 1024 * 1024  # read after the wanted lines, only to count the others
_MAX_SEARCHED_BYTES = 16 * 1024**3  # read before the first wanted line
_REPORT_INTERVAL = 256 * 1024 * 1024


class BinaryContent(Exception):
    """The file is not text."""


class LineRange(msgspec.Struct, frozen=True):
    """Which lines: from `first` (counted from 1), with limits for their number, their bytes and the characters of each."""

    first: int
    limit: int
    max_bytes: int
    max_width: int


class _LineScan:
    """Collects the wanted lines from chunks of UTF-8 and counts the others."""

    def __init__(self, line_range: LineRange, *, is_utf8: bool = False) -> None:
        self._line_range = line_range
        self.lines: list[bytes] = []
        self.truncated_lines: list[int] = []
        self.line_feeds = self.crlf_count = 0
        self.is_full = line_range.limit == 0
        self.is_unterminated = False
        self.is_utf8 = True
        self._utf8_decoder = None if is_utf8 else codecs.getincrementaldecoder("utf-8")()
        self._current, self._kept_bytes, self._last_byte = bytearray(), 0, b""

    @property
    def line_count(self) -> int:
        """Lines so far."""
        return self.line_feeds + self.is_unterminated

    @property
    def newline(self) -> Newline:
        return classify_newlines(self.line_feeds, self.crlf_count)

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the file. Raises BinaryContent."""
        if b"\0" in chunk:
            raise BinaryContent
        self._check_utf8(chunk)
        number, line_feeds = self.line_feeds + 1, chunk.count(b"\n")
        self.line_feeds += line_feeds
        self.crlf_count += chunk.count(b"\r\n") + (self._last_byte == b"\r" and chunk[:1] == b"\n")
        self._last_byte, self.is_unterminated = chunk[-1:], chunk[-1:] != b"\n"
        skip = self._line_range.first - number
        if self.is_full or line_feeds < skip:
            return
        wanted = chunk.split(b"\n", skip)[skip] if skip > 0 else chunk
        *ended, last = wanted.split(b"\n", self._line_range.limit - len(self.lines))
        for piece in ended:
            self._append(piece)
            self._finish_line()
            if self.is_full:
                return
        self._append(last)

    def _check_utf8(self, chunk: bytes, *, final: bool = False) -> None:
        if self._utf8_decoder is None:
            return
        try:
            self._utf8_decoder.decode(chunk, final)
        except UnicodeDecodeError:
            self._utf8_decoder, self.is_utf8 = None, False

    def _append(self, piece: bytes) -> None:
        # A character has at most 4 bytes; the 2 more show that the line is longer.
        available = self._line_range.max_width * 4 + 2 - len(self._current)
        self._current += piece[: max(available, 0)]

    def _finish_line(self, ending: bytes = b"\r") -> None:
        line = bytes(self._current).removesuffix(ending)
        self._current.clear()
        self._kept_bytes += len(line) + 1
        if self._kept_bytes > self._line_range.max_bytes and self.lines:
            self.is_full = True
            return
        self.lines.append(line)
        self.is_full = len(self.lines) >= self._line_range.limit

    def close(self) -> None:
        """Finish at the end of the file."""
        self._check_utf8(b"", final=True)
        if self.is_unterminated and not self.is_full and self.line_count >= self._line_range.first:
            self._finish_line(b"")

    def decode_lines(self) -> list[str]:
        """Return the lines as text; records which ones were truncated."""
        encoding: Encoding = "utf-8" if self.is_utf8 else "windows-1252"
        errors = "surrogatepass" if self._utf8_decoder is None else "strict"
        max_width = self._line_range.max_width
        texts: list[str] = []
        for number, line in enumerate(self.lines, self._line_range.first):
            # A long line may end in the middle of a character.
            text = decode_bytes(line, encoding, "ignore" if len(line) > max_width * 4 else errors)
            if len(text) > max_width:
                text = text[:max_width]
                self.truncated_lines.append(number)
            texts.append(text)
        return texts


class LineReader:
    """Reads an open file; one whose byte order mark announces UTF-16 or UTF-32 is converted to UTF-8."""

    def __init__(self, fd: int, context: Context, head: bytes) -> None:
        self._fd, self._context = fd, context
        mark = detect_bom(head)
        self.encoding: Encoding = mark[0] if mark else "utf-8"
        self._bom_size = len(mark[1]) if mark else 0
        self.has_bom = mark is not None
        self.position = 0

    def iter_chunks(self) -> Iterator[bytes]:
        """Yield the whole file from its beginning. Raises ToolError, BinaryContent."""
        os.lseek(self._fd, self._bom_size, os.SEEK_SET)
        self.position = self._bom_size
        decoder = codecs.getincrementaldecoder(self.encoding)("surrogatepass") if self.encoding != "utf-8" else None
        while True:
            if self._context.is_cancelled:
                raise ToolError("reading was cancelled", kind="cancelled", code="cancelled")
            data = os.read(self._fd, _CHUNK_SIZE)
            if data and (self.position // _REPORT_INTERVAL) != (self.position + len(data)) // _REPORT_INTERVAL:
                self._context.report(f"{(self.position + len(data)) >> 20} MB read")
            self.position += len(data)
            try:
                chunk = decoder.decode(data, not data).encode("utf-8", "surrogatepass") if decoder else data
            except UnicodeDecodeError:
                raise BinaryContent from None
            if chunk:
                yield chunk
            if not data:
                return

    def count_lines(self) -> int:
        """Count the lines of the file."""
        return self.read_lines(LineRange(1, 0, 0, 0), _MAX_SEARCHED_BYTES)[0].line_count

    def read_lines(self, line_range: LineRange, lookahead: int | None = None) -> tuple[_LineScan, bool]:
        """Return the wanted lines, and whether the file was read to its end; after them at most `lookahead` bytes are read."""
        lookahead = _MAX_COUNTED_BYTES if lookahead is None else lookahead
        scan = _LineScan(line_range, is_utf8=self.encoding != "utf-8")
        full_at: int | None = None
        for chunk in self.iter_chunks():
            scan.feed(chunk)
            if scan.is_full and full_at is None:
                full_at = self.position
            if full_at is not None and self.position - full_at >= lookahead:
                return scan, False
            if full_at is None and self.position >= _MAX_SEARCHED_BYTES:
                message = f"line {line_range.first} is over {_MAX_SEARCHED_BYTES >> 30} GB into the file"
                raise ToolError(f"{message}: use a shell command to find it", kind="limit", code="file_too_large")
        scan.close()
        return scan, True
