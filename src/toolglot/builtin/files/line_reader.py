"""The lines of a file, found while its bytes pass by.

Law: memory and work are bounded, whatever the file: what is wanted is held, the rest is counted, and not for ever.
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
_MAX_COUNTED_BYTES = 64 * 1024 * 1024  # bytes that are read on only to count lines
_MAX_SEARCHED_BYTES = 16 * 1024**3  # bytes that pass by until the first wanted line
_REPORT_INTERVAL = 256 * 1024 * 1024


class BinaryContent(Exception):
    """What passes by is no text."""


class LineRange(msgspec.Struct, frozen=True):
    """Which lines: from `first`, at most `most` of them, at most so many bytes of them, each at most so long."""

    first: int
    limit: int
    max_bytes: int
    max_width: int


class _LineScan:
    """Finds lines in bytes that come in chunks. It holds what is wanted, and counts the rest."""

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
        """Takes more of the file. Raises Binary."""
        if b"\0" in chunk:
            raise BinaryContent
        self._check_utf8(chunk)
        number, ends = self.line_feeds + 1, chunk.count(b"\n")
        self.line_feeds += ends
        self.crlf_count += chunk.count(b"\r\n") + (self._last_byte == b"\r" and chunk[:1] == b"\n")
        self._last_byte, self.is_unterminated = chunk[-1:], chunk[-1:] != b"\n"
        skip = self._line_range.first - number
        if self.is_full or ends < skip:
            return
        self._collect(chunk.split(b"\n", skip)[skip] if skip > 0 else chunk)

    def _check_utf8(self, chunk: bytes, *, final: bool = False) -> None:
        if self._utf8_decoder is None:
            return
        try:
            self._utf8_decoder.decode(chunk, final)
        except UnicodeDecodeError:
            self._utf8_decoder, self.is_utf8 = None, False

    def _collect(self, chunk: bytes) -> None:
        pieces = chunk.split(b"\n", self._line_range.limit - len(self.lines))
        for piece in pieces[:-1]:
            self._append(piece)
            self._finish_line()
            if self.is_full:
                return
        self._append(pieces[-1])

    def _append(self, piece: bytes) -> None:
        room = self._line_range.max_width * 4 + 2 - len(self._current)
        self._current += piece[: max(room, 0)]

    def _finish_line(self, end: bytes = b"\r") -> None:
        line = bytes(self._current).removesuffix(end)
        self._current.clear()
        self._kept_bytes += len(line) + 1
        if self._kept_bytes > self._line_range.max_bytes and self.lines:
            self.is_full = True
            return
        self.lines.append(line)
        self.is_full = len(self.lines) >= self._line_range.limit

    def close(self) -> None:
        """The file is over."""
        self._check_utf8(b"", final=True)
        if self.is_unterminated and not self.is_full and self.line_count >= self._line_range.first:
            self._finish_line(b"")

    def decode_lines(self) -> list[str]:
        """The lines, long ones cut."""
        encoding: Encoding = "utf-8" if self.is_utf8 else "windows-1252"
        errors = "surrogatepass" if self._utf8_decoder is None else "strict"
        texts: list[str] = []
        for number, line in enumerate(self.lines, self._line_range.first):
            is_long = len(line) > self._line_range.max_width * 4
            text = decode_bytes(line, encoding, "ignore" if is_long else errors)
            if len(text) > self._line_range.max_width:
                text = text[: self._line_range.max_width]
                self.truncated_lines.append(number)
            texts.append(text)
        return texts


class LineReader:
    """The bytes of an open file, as UTF-8 where it says by a mark that it is something else."""

    def __init__(self, fd: int, context: Context, head: bytes) -> None:
        self._fd, self._context = fd, context
        found = detect_bom(head)
        self.encoding: Encoding = found[0] if found else "utf-8"
        self._bom_size = len(found[1]) if found else 0
        self.has_bom = found is not None
        self.position = 0

    def iter_chunks(self) -> Iterator[bytes]:
        """All of the file from its beginning. Raises ToolError, Binary."""
        os.lseek(self._fd, self._bom_size, os.SEEK_SET)
        self.position = self._bom_size
        wide = codecs.getincrementaldecoder(self.encoding)("surrogatepass") if self.encoding != "utf-8" else None
        while True:
            if self._context.is_cancelled:
                raise ToolError("reading was cancelled", kind="cancelled")
            data = os.read(self._fd, _CHUNK_SIZE)
            if data and (self.position // _REPORT_INTERVAL) != (self.position + len(data)) // _REPORT_INTERVAL:
                self._context.report(f"{(self.position + len(data)) >> 20} MB read")
            self.position += len(data)
            try:
                chunk = wide.decode(data, not data).encode("utf-8", "surrogatepass") if wide else data
            except UnicodeDecodeError:
                raise BinaryContent from None
            if chunk:
                yield chunk
            if not data:
                return

    def count_lines(self) -> int:
        """How many lines there are."""
        return self.read_lines(LineRange(1, 0, 0, 0), _MAX_SEARCHED_BYTES)[0].line_count

    def read_lines(self, line_range: LineRange, lookahead: int | None = None) -> tuple[_LineScan, bool]:
        """The wanted lines, and whether the file was read to its end; after them at most `count` bytes are read."""
        lookahead = _MAX_COUNTED_BYTES if lookahead is None else lookahead
        scan = _LineScan(line_range, is_utf8=self.encoding != "utf-8")
        done_at: int | None = None
        for chunk in self.iter_chunks():
            scan.feed(chunk)
            if scan.is_full and done_at is None:
                done_at = self.position
            if done_at is not None and self.position - done_at >= lookahead:
                return scan, False
            if done_at is None and self.position >= _MAX_SEARCHED_BYTES:
                raise ToolError(
                    f"line {line_range.first} is over {_MAX_SEARCHED_BYTES >> 30} GB into the file: use shell to find it",
                    kind="limit",
                )
        scan.close()
        return scan, True
