"""The tools that read and write whole files: `read`, `write`, `view_image`; and how every other tool loads and saves a text.

Laws: memory and work are bounded, whatever the file: lines are found while its bytes pass by. What the model has not read, or
what has changed since, is not overwritten. Encoding, byte order mark, line ends and permissions of a file stay what they were.
"""

import base64
import codecs
import os
import re
import stat
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import Any, Literal

import msgspec

from toolglot.builtin.text import (
    UTF8,
    Document,
    Encoding,
    Form,
    Newline,
    changed_lines,
    checked,
    decoded,
    encoded,
    is_binary,
    lines_of,
    marked,
    newline_of,
    numbered,
    readable,
    unified,
    with_newlines,
)
from toolglot.builtin.toolbox import Toolbox, built
from toolglot.builtin.workspace import Opened, Version, Written, read_all
from toolglot.errors import ToolError
from toolglot.messages import Media, Text
from toolglot.tools.context import Context
from toolglot.tools.results import MAGIC, MAX_MEDIA, ToolOutput
from toolglot.tools.tool import Tool, tool

__all__ = [
    "LARGEST_TEXT",
    "Loaded",
    "MediaFile",
    "ReadFile",
    "WrittenFile",
    "file_tools",
    "load",
    "load_text",
    "missing",
    "previewing",
    "save",
    "targeting",
]

WriteMode = Literal["overwrite", "append", "create_only"]
Detail = Literal["auto", "low", "high", "original"]

LARGEST_TEXT = 10 * 1024 * 1024
"""Bytes of a file that is edited, and characters of one that is written."""
MAX_LINES, MAX_LINE = 2000, 2000
_MOST_LINES = 100_000
_PAGE, _LARGE_PAGE = 1024 * 1024, 8 * 1024 * 1024  # bytes of lines in one result
_LONG_LINE = 1024 * 1024  # characters of a line that a reader of large files sees
_CHUNK = 1024 * 1024
_COUNTED = 64 * 1024 * 1024  # bytes that are read on only to count lines
_SEARCHED = 16 * 1024**3  # bytes that pass by until the first wanted line
_REPORTED = 256 * 1024 * 1024
_HEAD = 64 * 1024
_NAMES = 5000
_PAGES = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
_MOST_PAGES = 20
_KINDS = (
    (b"\x7fELF", "a program"),
    (b"MZ", "a Windows program"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"7z\xbc\xaf", "a 7-zip archive"),
    (b"SQLite format 3", "an SQLite database"),
    (b"\xca\xfe\xba\xbe", "Java or Mach-O code"),
    (b"\0asm", "WebAssembly"),
    (b"OggS", "Ogg sound"),
    (b"ID3", "MP3 sound"),
    (b"RIFF", "sound or video"),
)


class ReadFile(msgspec.Struct, frozen=True, kw_only=True):
    """What `read` tells of a text file. Lines are without their ends."""

    kind: Literal["text"] = "text"
    path: str
    """As people say it: below the root."""
    absolute: str
    size: int
    lines: list[str]
    first: int
    last: int
    """The number of the last line shown; first - 1 where there is none."""
    total: int | None
    """None: the file is so large that its lines were not counted."""
    partial: bool
    """There are lines before or after those shown."""
    truncated: bool
    """A limit of the tool ended it, not what was asked for."""
    next_line: int | None
    """Where to go on."""
    long_lines: list[int]
    """Numbers of lines that were cut."""
    encoding: Encoding
    bom: bool
    newline: Newline
    final_newline: bool | None


class MediaFile(msgspec.Struct, frozen=True, kw_only=True):
    """What `read` and `view_image` tell of an image or a document; its bytes are in the content."""

    kind: Literal["image", "file"]
    path: str
    absolute: str
    size: int
    media_type: str
    pages: str = ""
    detail: str = ""


class WrittenFile(msgspec.Struct, frozen=True, kw_only=True):
    """What `write` tells."""

    path: str
    absolute: str
    mode: WriteMode
    created: bool
    size: int
    lines: int
    added: int
    removed: int
    diff: str
    encoding: Encoding
    bom: bool
    newline: Newline
    converted: bool
    """Line ends were made those of the file."""
    reencoded: bool
    """The file's old encoding could not say the text; it is UTF-8 now."""
    snippet: str
    """The first lines of the file as it is now."""


class Loaded(msgspec.Struct, frozen=True):
    """A file as it is before a change. document None: it is no text, or too large to be looked at."""

    document: Document | None
    version: Version
    too_large: bool = False


# ---- for all tools that change files


def load(box: Toolbox, path: str, *, require_read: bool | None) -> Loaded | None:
    """The file at a path; None: there is none. require_read None: it need not be what the model has seen. Raises ToolError."""
    found = box.workspace.look(path)
    if found is None:
        return None
    if stat.S_ISDIR(found.status.st_mode):
        raise ToolError(f"{path!r} is a folder, not a file: give the path of a file in it", kind="execution")
    data, opened = box.workspace.read(path, LARGEST_TEXT)
    if require_read is not None:
        _check_seen(box, path, opened, require_read)
    large = len(data) > LARGEST_TEXT
    return Loaded(None if large else decoded(data), opened.version, large)


def _check_seen(box: Toolbox, path: str, opened: Opened, require_read: bool) -> None:
    seen = box.versions.get(opened.path)
    if seen is None and require_read and opened.status.st_size:
        raise ToolError(f"{path!r} has not been read yet: read it first, then change it", kind="not_allowed")
    if seen is not None and seen != opened.version:
        raise ToolError(f"{path!r} has changed since it was read: read it again, then change it", kind="not_allowed")


def load_text(box: Toolbox, path: str, *, require_read: bool | None) -> tuple[Document, Version]:
    """A text file that is there. Raises ToolError."""
    loaded = load(box, path, require_read=require_read)
    if loaded is None:
        raise missing(box, path)
    if loaded.too_large:
        raise ToolError(f"{path!r} is larger than {LARGEST_TEXT >> 20} MB, which is too large to be edited", kind="limit")
    if loaded.document is None:
        raise ToolError(f"{path!r} is not a text file, so it cannot be edited", kind="execution")
    return loaded.document, loaded.version


def save(box: Toolbox, path: str, data: bytes, seen: "Version | str") -> Written:
    """Writes a file, and knows that the model knows it. Raises ToolError."""
    written = box.workspace.write(path, data, seen=seen)
    box.saw(written.path, written.version)
    return written


def missing(box: Toolbox, path: str) -> ToolError:
    """That there is no such file, and which ones are called nearly so."""
    above, _, name = path.rstrip("/").rpartition("/")
    folder = above or ("/" if path.startswith("/") else ".")
    names: list[str] = []
    try:
        with box.workspace.listing(folder) as opened, os.scandir(opened.handle) as entries:
            for entry, _ in zip(entries, range(_NAMES), strict=False):
                names.append(entry.name)
    except ToolError:
        return ToolError(
            f"there is no {path!r}, and no folder {folder!r} either: list_dir shows what is there", kind="not_found"
        )
    near = get_close_matches(name, names, n=3, cutoff=0.5)
    near = near or [one for one in names if name and name.casefold() in one.casefold()][:3]
    meant = [f"{above}/{one}" if above or path.startswith("/") else one for one in near]
    said = f"did you mean {' or '.join(map(repr, meant))}?" if meant else "list_dir shows what is there"
    return ToolError(f"there is no {path!r}: {said}", kind="not_found")


def targeting(box: Toolbox) -> Callable[[dict[str, Any]], str]:
    """Tells the real path that a call touches, links followed."""

    def target(arguments: dict[str, Any]) -> str:
        path = str(arguments.get("path", ""))
        above, _, name = path.rstrip("/").rpartition("/")
        try:
            if (found := box.workspace.look(path)) is not None:
                return str(found.path)
            folder = box.workspace.look(above or ".") if not path.startswith("/") or above else None
            return str(folder.path / name) if folder is not None else path
        except ToolError:
            return path

    return target


def previewing(plan: Callable[..., str]) -> Callable[[dict[str, Any]], str]:
    """What a call would do, in the words of its plan; and where it would fail, why."""

    def preview(arguments: dict[str, Any]) -> str:
        try:
            return plan(**arguments)
        except ToolError as e:
            return f"(this will fail: {e})"

    return preview


# ---- lines that pass by


class _Binary(Exception):
    """What passes by is no text."""


class _Wanted(msgspec.Struct, frozen=True):
    """Which lines: from `first`, at most `most` of them, at most so many bytes of them, each at most so long."""

    first: int
    most: int
    size: int
    width: int


class _Scan:
    """Finds lines in bytes that come in chunks. It holds what is wanted, and counts the rest."""

    def __init__(self, wanted: _Wanted, *, is_utf8: bool = False) -> None:
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
        if not self.ends:
            return "none"
        return "crlf" if self.returns == self.ends else "mixed" if self.returns else "lf"

    def feed(self, chunk: bytes) -> None:
        """Takes more of the file. Raises _Binary."""
        if b"\0" in chunk:
            raise _Binary
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


class _Passing:
    """The bytes of an open file, as UTF-8 where it says by a mark that it is something else."""

    def __init__(self, handle: int, context: Context, head: bytes) -> None:
        self._handle, self._context = handle, context
        found = marked(head)
        self.encoding: Encoding = found[0] if found else "utf-8"
        self._mark = len(found[1]) if found else 0
        self.bom = found is not None
        self.passed = 0

    def chunks(self) -> Iterator[bytes]:
        """All of the file from its beginning. Raises ToolError, _Binary."""
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
                raise _Binary from None
            if chunk:
                yield chunk
            if not data:
                return

    def scanned(self, wanted: _Wanted, count: int) -> tuple[_Scan, bool]:
        """The wanted lines, and whether the file was read to its end; after them at most `count` bytes are read."""
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


# ---- read


def _read(box: Toolbox, context: Context, path: str, wish: "_Wish") -> ToolOutput:
    wish.check()
    found = box.workspace.look(path)
    if found is None:
        raise missing(box, path)
    if stat.S_ISDIR(found.status.st_mode):
        raise ToolError(f"{path!r} is a folder: list_dir shows what is in it", kind="execution")
    with box.workspace.reading(path) as opened:
        head = read_all(opened.handle, _HEAD)
        if (media := _media_of(head)) is not None:
            return _attached(box, path, opened, media, pages=wish.pages, detail="")
        if wish.pages:
            raise ToolError(
                f"{path!r} is not a PDF document: `pages` is for those; use start_line and end_line", kind="validation"
            )
        try:
            if marked(head) is None and is_binary(head):
                raise _Binary
            output = _lines(box, opened, _Passing(opened.handle, context, head), wish, path)
        except _Binary:
            raise _not_text(path, head, opened) from None
        box.saw(opened.path, opened.version)
        return output


class _Wish(msgspec.Struct, frozen=True):
    """What of a file is to be read."""

    start: int | None = None
    end: int | None = None
    most: int | None = None
    tail: int | None = None
    pages: str | None = None
    large: bool = False

    def check(self) -> None:
        for name, value in (
            ("start_line", self.start),
            ("end_line", self.end),
            ("max_lines", self.most),
            ("tail_lines", self.tail),
        ):
            if value is not None and value < 1:
                raise ToolError(f"`{name}` is {value}: lines are counted from 1", kind="validation")
        if self.tail is not None and (self.start is not None or self.end is not None):
            raise ToolError("`tail_lines` goes without `start_line` and `end_line`: give one of them", kind="validation")
        if self.end is not None and self.end < (self.start or 1):
            raise ToolError(f"`end_line` is {self.end}, before `start_line` {self.start}: give a later line", kind="validation")
        if self.pages:
            self._check_pages(self.pages)

    def _check_pages(self, pages: str) -> None:
        found = _PAGES.fullmatch(pages)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 1 <= first <= last:
            raise ToolError(f'`pages` is {pages!r:.40}: give one such as "3" or "1-5"', kind="validation")
        if last - first >= _MOST_PAGES:
            raise ToolError(f"`pages` is {pages!r}: at most {_MOST_PAGES} are read at once", kind="limit")

    def lines(self, total: int | None) -> _Wanted:
        """The lines that this means; total: for the last ones."""
        large = self.large or self.start is not None or self.end is not None or self.tail is not None
        first, asked = self.start or 1, self.most or MAX_LINES
        if self.tail is not None:
            first = max(1, (total or 0) - self.tail + 1)
            asked = min(self.tail, self.most or self.tail)
        if self.end is not None:
            asked = min(self.end - first + 1, self.most or self.end - first + 1)
        return _Wanted(first, min(asked, _MOST_LINES), _LARGE_PAGE if large else _PAGE, _LONG_LINE if self.large else MAX_LINE)


def _lines(box: Toolbox, opened: Opened, passing: _Passing, wish: _Wish, path: str) -> ToolOutput:
    total = None
    if wish.tail is not None:
        total = passing.scanned(_Wanted(1, 0, 0, 0), _SEARCHED)[0].total
    wanted = wish.lines(total)
    scan, ended = passing.scanned(wanted, _COUNTED)
    lines = scan.texts()
    first, last = wanted.first, wanted.first + len(lines) - 1
    if not lines and (scan.total or first > 1):
        has = f"{scan.total} line{'' if scan.total == 1 else 's'}" if scan.total else "no lines"
        raise ToolError(f"{path!r} has {has}, so there is no line {first}: start earlier", kind="validation")
    more = not ended or scan.total > last
    asked = last >= (wish.end or last + 1) or len(lines) >= (wish.most or len(lines) + 1)
    found = ReadFile(
        path=box.shown(opened.path),
        absolute=str(opened.path),
        size=opened.status.st_size,
        lines=lines,
        first=first,
        last=last,
        total=scan.total if ended else total,
        partial=more or first > 1,
        truncated=more and not asked,
        next_line=last + 1 if more else None,
        long_lines=scan.long,
        encoding=passing.encoding if scan.is_utf8 else "windows-1252",
        bom=passing.bom and scan.is_utf8,
        newline=scan.newline,
        final_newline=not scan.open if ended else None,
    )
    return ToolOutput(_told(found, wanted.width), built(found))


def _told(found: ReadFile, width: int) -> str:
    notes: list[str] = []
    if not found.lines:
        notes.append(f"{found.path!r} is empty")
    if found.partial:
        of = f" of {found.total}" if found.total is not None else f"; the file has {found.size} bytes"
        go_on = f"; go on with start_line={found.next_line}" if found.next_line else ""
        notes.append(f"lines {found.first} to {found.last}{of}{go_on}")
    if found.long_lines:
        shown = ", ".join(map(str, found.long_lines[:10])) + (" …" if len(found.long_lines) > 10 else "")
        notes.append(f"cut after {width} characters: line {shown}; allow_large shows more of it")
    if found.encoding == "windows-1252":
        notes.append("not valid UTF-8: read as windows-1252, so letters beyond ASCII may be wrong")
    elif found.encoding != "utf-8":
        notes.append(f"encoded in {found.encoding}")
    text = numbered(found.lines, found.first)
    return "\n".join([*([text] if found.lines else []), *(f"[{note}]" for note in notes)])


def _media_of(head: bytes) -> tuple[Literal["image", "file"], str] | None:
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image", "image/webp"
    for start, kind, media_type in MAGIC:
        if head.startswith(start):
            return ("image" if kind == "image" else "file"), media_type
    return None


def _attached(
    box: Toolbox, path: str, opened: Opened, media: tuple[Literal["image", "file"], str], *, pages: str | None, detail: str
) -> ToolOutput:
    kind, media_type = media
    if pages and kind == "image":
        raise ToolError(f"{path!r} is an image: `pages` is for PDF documents", kind="validation")
    os.lseek(opened.handle, 0, os.SEEK_SET)
    data = read_all(opened.handle, MAX_MEDIA + 1)
    if len(data) > MAX_MEDIA:
        what = "an image" if kind == "image" else "a document"
        why = f"{path!r} is {what} of {opened.status.st_size >> 20} MB"
        raise ToolError(f"{why}, and models take at most {MAX_MEDIA >> 20} MB: make it smaller", kind="limit")
    box.saw(opened.path, opened.version)
    found = MediaFile(
        kind=kind,
        path=box.shown(opened.path),
        absolute=str(opened.path),
        size=len(data),
        media_type=media_type,
        pages=pages or "",
        detail=detail,
    )
    which = f"; look at pages {pages}" if pages else ""
    words = Text(f"[{found.path}: {media_type}, {len(data)} bytes{which}]")
    block = Media(kind, media_type, base64.b64encode(data).decode(), name=opened.path.name)
    return ToolOutput([words, block], built(found))


def _not_text(path: str, head: bytes, opened: Opened) -> ToolError:
    what = next((kind for start, kind in _KINDS if head.startswith(start)), "binary data")
    if marked(head) and marked(head) != ("utf-8", codecs.BOM_UTF8):
        what = "broken UTF-16 or UTF-32"
    size = opened.status.st_size
    return ToolError(f"{path!r} is not text but {what} ({size} bytes): use shell to look into it", kind="execution")


# ---- write


class _WritePlan(msgspec.Struct, frozen=True):
    """What is to be written, and what was there."""

    data: bytes
    before: str
    after: str
    form: Form
    seen: "Version | str"
    converted: bool
    reencoded: bool


def _plan_write(box: Toolbox, path: str, content: str, mode: WriteMode, require_read: bool) -> _WritePlan:
    if mode not in ("overwrite", "append", "create_only"):
        raise ToolError(f"`mode` is {mode!r:.40}: give overwrite, append or create_only", kind="validation")
    checked(content, "`content`", LARGEST_TEXT)
    loaded = load(box, path, require_read=require_read if mode == "overwrite" else None)
    if loaded is None:
        return _WritePlan(encoded(content, UTF8), "", content, Form(newline=newline_of(content)), "absent", False, False)
    if mode == "create_only":
        raise ToolError(f"{path!r} exists already: use mode=overwrite, or another path", kind="execution")
    if mode == "append" and loaded.document is None:
        why = "too large" if loaded.too_large else "not a text file"
        raise ToolError(f"{path!r} is {why}, so nothing is appended to it: use shell", kind="execution")
    return _planned(loaded, content, mode)


def _planned(loaded: Loaded, content: str, mode: WriteMode) -> _WritePlan:
    document = loaded.document or Document("", UTF8)
    form = document.form
    content = content.removeprefix("\ufeff") if form.bom else content
    fitted = with_newlines(content, form.newline) if form.newline == "crlf" else content
    after = document.text + fitted if mode == "append" else fitted
    if len(after) > LARGEST_TEXT:
        raise ToolError(f"the file would have over {LARGEST_TEXT >> 20} MB, which is too large to be written", kind="limit")
    reencoded = False
    try:
        data = encoded(after, form)
    except ToolError:
        if mode == "append":
            raise
        data, form, reencoded = encoded(after, UTF8), UTF8, True
    form = msgspec.structs.replace(form, newline=newline_of(after))
    return _WritePlan(data, document.text, after, form, loaded.version, fitted != content, reencoded)


def _write(box: Toolbox, path: str, content: str, mode: WriteMode, require_read: bool) -> ToolOutput:
    with box.lock:
        plan = _plan_write(box, path, content, mode, require_read)
        written = save(box, path, plan.data, plan.seen)
    added, removed = changed_lines(plan.before, plan.after)
    lines = lines_of(plan.after)
    shown = box.shown(written.path)
    found = WrittenFile(
        path=shown,
        absolute=str(written.path),
        mode=mode,
        created=written.created,
        size=len(plan.data),
        lines=len(lines),
        added=added,
        removed=removed,
        diff=unified(plan.before, plan.after, shown),
        encoding=plan.form.encoding,
        bom=plan.form.bom,
        newline=plan.form.newline,
        converted=plan.converted,
        reencoded=plan.reencoded,
        snippet="\n".join(line[:MAX_LINE] for line in lines[:5]),
    )
    return ToolOutput(_said(found), built(found))


def _said(found: WrittenFile) -> str:
    verb = "created" if found.created else "appended to" if found.mode == "append" else "wrote"
    size = f"{found.lines} line{'' if found.lines == 1 else 's'}, {found.size} bytes"
    notes = ""
    if found.converted:
        notes += "; its line ends are CRLF, as they were"
    if found.reencoded:
        notes += "; it is UTF-8 now, because its old encoding lacks some of the characters"
    elif found.encoding != "utf-8":
        notes += f"; it is in {found.encoding}, as it was"
    return f"{verb} {found.path!r} ({size}){notes}"


# ---- the tools


def file_tools(box: Toolbox, *, require_read: bool = True) -> list[Tool]:
    """`read`, `write` and `view_image`. require_read: a file that the model has not read is not overwritten."""
    target = targeting(box)

    @tool(name="read", effects="read", idempotent=True, target=target, examples=[{"path": "src/main.py", "start_line": 1}])
    def read(
        path: str,
        context: Context,
        start_line: int | None = None,
        end_line: int | None = None,
        max_lines: int | None = None,
        tail_lines: int | None = None,
        pages: str | None = None,
        allow_large: bool = False,
    ) -> ToolOutput:
        """Reads a file: text as numbered lines (2000 at most unless more are asked for), images and PDF documents as they are.

        Args:
            path: The file, relative to the workspace or absolute.
            context: The call.
            start_line: The first line to read, counted from 1.
            end_line: The last line to read.
            max_lines: How many lines to read at most.
            tail_lines: Read the last so many lines instead.
            pages: For a PDF document: the pages to look at, such as "1-5".
            allow_large: Read up to 8 MB at once, and very long lines too.
        """
        return _read(box, context, path, _Wish(start_line, end_line, max_lines, tail_lines, pages, allow_large))

    def plan_write(path: str, content: str, mode: WriteMode = "overwrite") -> str:
        plan = _plan_write(box, path, content, mode, require_read)
        return unified(plan.before, plan.after, path)

    @tool(
        name="write",
        effects="write",
        target=target,
        preview=previewing(plan_write),
        examples=[{"path": "notes.txt", "content": "first line\n"}],
    )
    def write(path: str, content: str, mode: WriteMode = "overwrite") -> ToolOutput:
        """Writes a text file whole; folders on the way are made. A file that exists must have been read before.

        Args:
            path: The file, relative to the workspace or absolute.
            content: The whole text of the file, or what is to be appended.
            mode: overwrite: replace the file; append: add to its end; create_only: fail where it exists.
        """
        return _write(box, path, content, mode, require_read)

    @tool(name="view_image", effects="read", idempotent=True, target=target, examples=[{"path": "docs/plan.png"}])
    def view_image(path: str, detail: Detail = "auto") -> ToolOutput:
        """Shows an image file: PNG, JPEG, GIF or WebP.

        Args:
            path: The image, relative to the workspace or absolute.
            detail: How closely to look at it.
        """
        return _view(box, path, detail)

    return [read, write, view_image]


def _view(box: Toolbox, path: str, detail: Detail) -> ToolOutput:
    if detail not in ("auto", "low", "high", "original"):
        raise ToolError(f"`detail` is {detail!r:.40}: give auto, low, high or original", kind="validation")
    found = box.workspace.look(path)
    if found is None:
        raise missing(box, path)
    if stat.S_ISDIR(found.status.st_mode):
        raise ToolError(f"{path!r} is a folder: list_dir shows what is in it", kind="execution")
    with box.workspace.reading(path) as opened:
        media = _media_of(read_all(opened.handle, _HEAD))
        if media is None or media[0] != "image":
            suffix = PurePosixPath(path).suffix or "no suffix"
            raise ToolError(f"{path!r} ({suffix}) is not a PNG, JPEG, GIF or WebP image: read it instead", kind="execution")
        return _attached(box, path, opened, media, pages=None, detail=detail)
