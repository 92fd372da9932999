"""The lines of a file, found while its bytes pass by.

Law: memory and work are bounded, whatever the file: what is wanted is held, the rest is counted, and not for ever.
"""

import codecs
import os
from collections.abc import Iterator

import msgspec

from toolglot.builtin.text import Encoding, Newline, marked, newline_by, readable
from toolglot.errors import ToolError
from toolglot.tools.context import Context

__all__ = ["Binary", "Passing", "Wanted"]

_CHUNK = 1024 * 1024
_COUNTED = 64 * 1024 * 1024  # bytes that are read on only to count lines
_SEARCHED = 16 * 1024**3  # bytes that pass by until the first wanted line
_REPORTED = 256 * 1024 * 1024


class Binary(Exception):
    """What passes by is no text."""


class Wanted(msgspec.Struct, frozen=True):
    """Which lines: from `first`, at most `most` of them, at most so many bytes of them, each at most so long."""

    first: int
    most: int
    size: int
    width: int


class _Scan:
    """Finds lines in bytes that come in chunks. It holds what is wanted, and counts the rest."""

    def __init__(self, wanted: Wanted, *, is_utf8: bool = False) -> None:
        self._wanted = wanted
        self.lines: list[bytes] = []
        self.long: list[int] = []
        self.ends = self.returns = 0
        self.full = wanted.most == 0
        self.open = False
        self.is_utf8 = True
        self._check = None if is_utf8 else codecs.getincrementaldecoder("utf-8")()
        self._part, self._held, self._last = bytearray(), 0, b""

    @property
    def total(self) -> int:
        """Lines so far."""
        return self.ends + self.open

    @property
    def newline(self) -> Newline:
        return newline_by(self.ends, self.returns)

    def feed(self, chunk: bytes) -> None:
        """Takes more of the file. Raises Binary."""
        if b"\0" in chunk:
            raise Binary
        self._checked(chunk)
        number, ends = self.ends + 1, chunk.count(b"\n")
        self.ends += ends
        self.returns += chunk.count(b"\r\n") + (self._last == b"\r" and chunk[:1] == b"\n")
        self._last, self.open = chunk[-1:], chunk[-1:] != b"\n"
        skip = self._wanted.first - number
        if self.full or ends < skip:
            return
        self._take(chunk.split(b"\n", skip)[skip] if skip > 0 else chunk)

    def _checked(self, chunk: bytes, *, final: bool = False) -> None:
        if self._check is None:
            return
        try:
            self._check.decode(chunk, final)
        except UnicodeDecodeError:
            self._check, self.is_utf8 = None, False

    def _take(self, chunk: bytes) -> None:
        pieces = chunk.split(b"\n", self._wanted.most - len(self.lines))
        for piece in pieces[:-1]:
            self._add(piece)
            self._finish()
            if self.full:
                return
        self._add(pieces[-1])

    def _add(self, piece: bytes) -> None:
        room = self._wanted.width * 4 + 2 - len(self._part)
        self._part += piece[: max(room, 0)]

    def _finish(self, end: bytes = b"\r") -> None:
        line = bytes(self._part).removesuffix(end)
        self._part.clear()
        self._held += len(line) + 1
        if self._held > self._wanted.size and self.lines:
            self.full = True
            return
        self.lines.append(line)
        self.full = len(self.lines) >= self._wanted.most

    def close(self) -> None:
        """The file is over."""
        self._checked(b"", final=True)
        if self.open and not self.full and self.total >= self._wanted.first:
            self._finish(b"")

    def texts(self) -> list[str]:
        """The lines, long ones cut."""
        encoding: Encoding = "utf-8" if self.is_utf8 else "windows-1252"
        errors = "surrogatepass" if self._check is None else "strict"
        texts: list[str] = []
        for number, line in enumerate(self.lines, self._wanted.first):
            is_long = len(line) > self._wanted.width * 4
            text = readable(line, encoding, "ignore" if is_long else errors)
            if len(text) > self._wanted.width:
                text = text[: self._wanted.width]
                self.long.append(number)
            texts.append(text)
        return texts


class Passing:
    """The bytes of an open file, as UTF-8 where it says by a mark that it is something else."""

    def __init__(self, handle: int, context: Context, head: bytes) -> None:
        self._handle, self._context = handle, context
        found = marked(head)
        self.encoding: Encoding = found[0] if found else "utf-8"
        self._mark = len(found[1]) if found else 0
        self.bom = found is not None
        self.passed = 0

    def chunks(self) -> Iterator[bytes]:
        """All of the file from its beginning. Raises ToolError, Binary."""
        os.lseek(self._handle, self._mark, os.SEEK_SET)
        self.passed = self._mark
        wide = codecs.getincrementaldecoder(self.encoding)("surrogatepass") if self.encoding != "utf-8" else None
        while True:
            if self._context.cancelled:
                raise ToolError("reading was cancelled", kind="cancelled")
            data = os.read(self._handle, _CHUNK)
            if data and (self.passed // _REPORTED) != (self.passed + len(data)) // _REPORTED:
                self._context.report(f"{(self.passed + len(data)) >> 20} MB read")
            self.passed += len(data)
            try:
                chunk = wide.decode(data, not data).encode("utf-8", "surrogatepass") if wide else data
            except UnicodeDecodeError:
                raise Binary from None
            if chunk:
                yield chunk
            if not data:
                return

    def counted(self) -> int:
        """How many lines there are."""
        return self.scanned(Wanted(1, 0, 0, 0), _SEARCHED)[0].total

    def scanned(self, wanted: Wanted, count: int | None = None) -> tuple[_Scan, bool]:
        """The wanted lines, and whether the file was read to its end; after them at most `count` bytes are read."""
        count = _COUNTED if count is None else count
        scan = _Scan(wanted, is_utf8=self.encoding != "utf-8")
        done_at: int | None = None
        for chunk in self.chunks():
            scan.feed(chunk)
            if scan.full and done_at is None:
                done_at = self.passed
            if done_at is not None and self.passed - done_at >= count:
                return scan, False
            if done_at is None and self.passed >= _SEARCHED:
                raise ToolError(
                    f"line {wanted.first} is over {_SEARCHED >> 30} GB into the file: use shell to find it", kind="limit"
                )
        scan.close()
        return scan, True
