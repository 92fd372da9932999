"""The tools that read and write whole files: `read`, `write`, `view_image`.

Laws: what the model has not read, or what has changed since, is not overwritten. Encoding, byte order mark, line ends and
permissions of a file stay what they were.
"""

import base64
import codecs
import os
import re
import stat
from pathlib import PurePosixPath
from typing import Literal, get_args

import msgspec

from toolglot.builtin.arguments import at_least, one_of, targeting
from toolglot.builtin.handles import read_all
from toolglot.builtin.listing import listed
from toolglot.builtin.loading import LARGEST_TEXT, Loaded, Plan, diff_preview, load, missing, save
from toolglot.builtin.passing import Binary, Passing, Wanted
from toolglot.builtin.text import (
    UTF8,
    Document,
    Encoding,
    Form,
    Newline,
    checked,
    counted,
    encoded,
    is_binary,
    lines_of,
    marked,
    newline_of,
    numbered,
    with_newlines,
)
from toolglot.builtin.toolbox import Toolbox, built
from toolglot.builtin.workspace import Opened
from toolglot.errors import ToolError
from toolglot.messages import Media, Text
from toolglot.tools.context import Context
from toolglot.tools.results import MAGIC, MAX_MEDIA, ToolOutput
from toolglot.tools.tool import Tool, tool

__all__ = ["MediaFile", "ReadFile", "WrittenFile", "file_tools"]

WriteMode = Literal["overwrite", "append", "create_only"]
Detail = Literal["auto", "low", "high", "original"]

MAX_LINES, MAX_LINE = 2000, 2000
_MOST_LINES = 100_000
_PAGE, _LARGE_PAGE = 1024 * 1024, 8 * 1024 * 1024  # bytes of lines in one result
_LONG_LINE = 1024 * 1024  # characters of a line that a reader of large files sees
_HEAD = 64 * 1024
_PAGES = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
_MOST_PAGES = 20
_KINDS = (
    (b"\x7fELF", "a program"), (b"MZ", "a Windows program"), (b"PK\x03\x04", "a zip archive"), (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"), (b"\xfd7zXZ", "xz data"), (b"\x28\xb5\x2f\xfd", "zstd data"), (b"7z\xbc\xaf", "a 7-zip archive"),
    (b"SQLite format 3", "an SQLite database"), (b"\xca\xfe\xba\xbe", "Java or Mach-O code"), (b"\0asm", "WebAssembly"),
    (b"OggS", "Ogg sound"), (b"ID3", "MP3 sound"), (b"RIFF", "sound or video"),
)  # fmt: skip


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


# ---- read


def _is_folder(box: Toolbox, path: str) -> bool:
    """Whether it is a folder and no file. Raises ToolError where there is neither."""
    found = box.workspace.look(path)
    if found is None:
        raise missing(box, path)
    return stat.S_ISDIR(found.status.st_mode)


def _check_file(box: Toolbox, path: str) -> None:
    """Raises ToolError where there is no such file."""
    if _is_folder(box, path):
        raise ToolError(f"{path!r} is a folder: list_dir shows what is in it", kind="execution")


def _read(box: Toolbox, context: Context, path: str, wish: "_Wish") -> ToolOutput:
    wish.check()
    if wish.depth is not None and _is_folder(box, path):
        return listed(box, path, wish.depth, context)
    _check_file(box, path)
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
                raise Binary
            output = _lines(box, opened, Passing(opened.handle, context, head), wish, path)
        except Binary:
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
    depth: int | None = None

    def check(self) -> None:
        numbers = {"start_line": self.start, "end_line": self.end, "max_lines": self.most, "tail_lines": self.tail}
        for name, value in numbers.items():
            if value is not None and value < 1:
                raise ToolError(f"`{name}` is {value}: lines are counted from 1", kind="validation")
        if self.tail is not None and (self.start is not None or self.end is not None):
            raise ToolError("`tail_lines` goes without `start_line` and `end_line`: give one of them", kind="validation")
        if self.end is not None and self.end < (self.start or 1):
            raise ToolError(f"`end_line` is {self.end}, before `start_line` {self.start}: give a later line", kind="validation")
        if self.depth is not None:
            at_least("list_depth", self.depth, 1)
        if self.pages:
            self._check_pages(self.pages)

    def _check_pages(self, pages: str) -> None:
        found = _PAGES.fullmatch(pages)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 1 <= first <= last:
            raise ToolError(f'`pages` is {pages!r:.40}: give one such as "3" or "1-5"', kind="validation")
        if last - first >= _MOST_PAGES:
            raise ToolError(f"`pages` is {pages!r}: at most {_MOST_PAGES} are read at once", kind="limit")

    def lines(self, total: int | None) -> Wanted:
        """The lines that this means; total: for the last ones."""
        large = self.large or self.start is not None or self.end is not None or self.tail is not None
        first, asked = self.start or 1, self.most or MAX_LINES
        if self.tail is not None:
            first = max(1, (total or 0) - self.tail + 1)
            asked = min(self.tail, self.most or self.tail)
        if self.end is not None:
            asked = min(self.end - first + 1, self.most or self.end - first + 1)
        return Wanted(first, min(asked, _MOST_LINES), _LARGE_PAGE if large else _PAGE, _LONG_LINE if self.large else MAX_LINE)


def _lines(box: Toolbox, opened: Opened, passing: Passing, wish: _Wish, path: str) -> ToolOutput:
    total = None
    if wish.tail is not None:
        total = passing.counted()
    wanted = wish.lines(total)
    scan, ended = passing.scanned(wanted)
    lines = scan.texts()
    first, last = wanted.first, wanted.first + len(lines) - 1
    if not lines and (scan.total or first > 1):
        has = counted(scan.total, "line") if scan.total else "no lines"
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


def _view(box: Toolbox, path: str, detail: Detail) -> ToolOutput:
    one_of("detail", detail, get_args(Detail))
    _check_file(box, path)
    with box.workspace.reading(path) as opened:
        media = _media_of(read_all(opened.handle, _HEAD))
        if media is None or media[0] != "image":
            suffix = PurePosixPath(path).suffix or "no suffix"
            raise ToolError(f"{path!r} ({suffix}) is not a PNG, JPEG, GIF or WebP image: read it instead", kind="execution")
        return _attached(box, path, opened, media, pages=None, detail=detail)


# ---- write


class _Plan(Plan, frozen=True, kw_only=True):
    converted: bool = False
    reencoded: bool = False


def _plan_write(box: Toolbox, path: str, content: str, mode: WriteMode, require_read: bool) -> _Plan:
    one_of("mode", mode, get_args(WriteMode))
    checked(content, "`content`", LARGEST_TEXT)
    loaded = load(box, path, require_read=require_read if mode == "overwrite" else None)
    if loaded is None:
        form = Form(newline=newline_of(content))
        return _Plan(before="", after=content, form=form, data=encoded(content, UTF8), seen="absent")
    if mode == "create_only":
        raise ToolError(f"{path!r} exists already: use mode=overwrite, or another path", kind="execution")
    if mode == "append" and loaded.document is None:
        why = "too large" if loaded.too_large else "not a text file"
        raise ToolError(f"{path!r} is {why}, so nothing is appended to it: use shell", kind="execution")
    return _planned(loaded, content, mode)


def _planned(loaded: Loaded, content: str, mode: WriteMode) -> _Plan:
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
    return _Plan(
        before=document.text,
        after=after,
        form=form,
        data=data,
        seen=loaded.version,
        converted=fitted != content,
        reencoded=reencoded,
    )


def _write(box: Toolbox, path: str, content: str, mode: WriteMode, require_read: bool) -> ToolOutput:
    with box.lock:
        plan = _plan_write(box, path, content, mode, require_read)
        done = save(box, path, plan)
    found = WrittenFile(
        **done,
        mode=mode,
        converted=plan.converted,
        reencoded=plan.reencoded,
        snippet="\n".join(line[:MAX_LINE] for line in lines_of(plan.after)[:5]),
    )
    return ToolOutput(_said(found), built(found))


def _said(found: WrittenFile) -> str:
    verb = "created" if found.created else "appended to" if found.mode == "append" else "wrote"
    size = f"{counted(found.lines, 'line')}, {found.size} bytes"
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
        list_depth: int | None = None,
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
            list_depth: Lists a folder, so many levels deep, instead of refusing it.
        """
        wish = _Wish(start_line, end_line, max_lines, tail_lines, pages, allow_large, list_depth)
        return _read(box, context, path, wish)

    def plan_write(path: str, content: str, mode: WriteMode = "overwrite") -> Plan:
        return _plan_write(box, path, content, mode, require_read)

    @tool(
        name="write",
        effects="write",
        target=target,
        preview=diff_preview(plan_write),
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
