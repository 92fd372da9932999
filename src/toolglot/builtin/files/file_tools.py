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

from toolglot.builtin.arguments import check_choice, check_minimum, file_target
from toolglot.builtin.files.descriptors import read_all
from toolglot.builtin.files.line_reader import BinaryContent, LineRange, LineReader
from toolglot.builtin.files.text import (
    UTF8,
    Document,
    Encoding,
    Newline,
    TextFormat,
    check_text,
    convert_newlines,
    detect_bom,
    detect_newline,
    encode_text,
    is_binary,
    number_lines,
    pluralize,
    split_lines,
)
from toolglot.builtin.files.text_files import (
    MAX_TEXT_BYTES,
    LoadedFile,
    TextChange,
    diff_preview,
    load_file,
    missing_file_error,
    save_change,
)
from toolglot.builtin.files.workspace import WorkspaceEntry
from toolglot.builtin.search.list_dir import list_directory
from toolglot.builtin.tool_state import ToolState, to_data
from toolglot.errors import ToolError
from toolglot.media_types import detect_media
from toolglot.messages import Media, Text
from toolglot.tools.context import Context
from toolglot.tools.results import MAX_MEDIA, ToolOutput
from toolglot.tools.tool import Tool, tool

__all__ = ["MediaResult", "ReadResult", "WriteResult", "file_tools"]

WriteMode = Literal["overwrite", "append", "create_only"]
Detail = Literal["auto", "low", "high", "original"]

MAX_LINES, MAX_LINE_CHARS = 2000, 2000
_MAX_REQUESTED_LINES = 100_000
_PAGE_BYTES, _LARGE_PAGE_BYTES = 1024 * 1024, 8 * 1024 * 1024  # bytes of lines in one result
_LARGE_LINE_CHARS = 1024 * 1024  # characters of a line that a reader of large files sees
_HEAD_SIZE = 64 * 1024
_PAGES_PATTERN = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
_MAX_PAGES = 20
_BINARY_KINDS = (
    (b"\x7fELF", "a program"), (b"MZ", "a Windows program"), (b"PK\x03\x04", "a zip archive"), (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"), (b"\xfd7zXZ", "xz data"), (b"\x28\xb5\x2f\xfd", "zstd data"), (b"7z\xbc\xaf", "a 7-zip archive"),
    (b"SQLite format 3", "an SQLite database"), (b"\xca\xfe\xba\xbe", "Java or Mach-O code"), (b"\0asm", "WebAssembly"),
    (b"OggS", "Ogg sound"), (b"ID3", "MP3 sound"), (b"RIFF", "sound or video"),
)  # fmt: skip


class ReadResult(msgspec.Struct, frozen=True, kw_only=True):
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


class MediaResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `read` and `view_image` tell of an image or a document; its bytes are in the content."""

    kind: Literal["image", "file"]
    path: str
    absolute: str
    size: int
    media_type: str
    pages: str = ""
    detail: str = ""


class WriteResult(msgspec.Struct, frozen=True, kw_only=True):
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


def _is_directory(state: ToolState, path: str) -> bool:
    """Whether it is a folder and no file. Raises ToolError where there is neither."""
    found = state.workspace.inspect(path)
    if found is None:
        raise missing_file_error(state, path)
    return stat.S_ISDIR(found.status.st_mode)


def _require_file(state: ToolState, path: str) -> None:
    """Raises ToolError where there is no such file."""
    if _is_directory(state, path):
        raise ToolError(f"{path!r} is a folder: list_dir shows what is in it", kind="execution")


def _read_path(state: ToolState, context: Context, path: str, request: "_ReadRequest") -> ToolOutput:
    request.check()
    if request.list_depth is not None and _is_directory(state, path):
        return list_directory(state, path, request.list_depth, context)
    _require_file(state, path)
    with state.workspace.open_file(path) as opened:
        head = read_all(opened.fd, _HEAD_SIZE)
        if (media := detect_media(head)) is not None:
            return _attach_media(state, path, opened, media, pages=request.pages, detail="")
        if request.pages:
            raise ToolError(
                f"{path!r} is not a PDF document: `pages` is for those; use start_line and end_line", kind="validation"
            )
        try:
            if detect_bom(head) is None and is_binary(head):
                raise BinaryContent
            output = _read_lines(state, opened, LineReader(opened.fd, context, head), request, path)
        except BinaryContent:
            raise _binary_error(path, head, opened) from None
        state.mark_seen(opened.path, opened.version)
        return output


class _ReadRequest(msgspec.Struct, frozen=True):
    """What of a file is to be read."""

    start_line: int | None = None
    end_line: int | None = None
    max_lines: int | None = None
    tail_lines: int | None = None
    pages: str | None = None
    allow_large: bool = False
    list_depth: int | None = None

    def check(self) -> None:
        numbers = {
            "start_line": self.start_line,
            "end_line": self.end_line,
            "max_lines": self.max_lines,
            "tail_lines": self.tail_lines,
        }
        for name, value in numbers.items():
            if value is not None and value < 1:
                raise ToolError(f"`{name}` is {value}: lines are counted from 1", kind="validation")
        if self.tail_lines is not None and (self.start_line is not None or self.end_line is not None):
            raise ToolError("`tail_lines` goes without `start_line` and `end_line`: give one of them", kind="validation")
        if self.end_line is not None and self.end_line < (self.start_line or 1):
            raise ToolError(
                f"`end_line` is {self.end_line}, before `start_line` {self.start_line}: give a later line", kind="validation"
            )
        if self.list_depth is not None:
            check_minimum("list_depth", self.list_depth, 1)
        if self.pages:
            self._check_pages(self.pages)

    def _check_pages(self, pages: str) -> None:
        found = _PAGES_PATTERN.fullmatch(pages)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 1 <= first <= last:
            raise ToolError(f'`pages` is {pages!r:.40}: give one such as "3" or "1-5"', kind="validation")
        if last - first >= _MAX_PAGES:
            raise ToolError(f"`pages` is {pages!r}: at most {_MAX_PAGES} are read at once", kind="limit")

    def line_range(self, line_count: int | None) -> LineRange:
        """The lines that this means; total: for the last ones."""
        large = self.allow_large or self.start_line is not None or self.end_line is not None or self.tail_lines is not None
        first, asked = self.start_line or 1, self.max_lines or MAX_LINES
        if self.tail_lines is not None:
            first = max(1, (line_count or 0) - self.tail_lines + 1)
            asked = min(self.tail_lines, self.max_lines or self.tail_lines)
        if self.end_line is not None:
            asked = min(self.end_line - first + 1, self.max_lines or self.end_line - first + 1)
        return LineRange(
            first,
            min(asked, _MAX_REQUESTED_LINES),
            _LARGE_PAGE_BYTES if large else _PAGE_BYTES,
            _LARGE_LINE_CHARS if self.allow_large else MAX_LINE_CHARS,
        )


def _read_lines(state: ToolState, entry: WorkspaceEntry, reader: LineReader, request: _ReadRequest, path: str) -> ToolOutput:
    total = None
    if request.tail_lines is not None:
        total = reader.count_lines()
    wanted = request.line_range(total)
    scan, ended = reader.read_lines(wanted)
    lines = scan.decode_lines()
    first, last = wanted.first, wanted.first + len(lines) - 1
    if not lines and (scan.line_count or first > 1):
        has = pluralize(scan.line_count, "line") if scan.line_count else "no lines"
        raise ToolError(f"{path!r} has {has}, so there is no line {first}: start earlier", kind="validation")
    more = not ended or scan.line_count > last
    asked = last >= (request.end_line or last + 1) or len(lines) >= (request.max_lines or len(lines) + 1)
    found = ReadResult(
        path=state.display_path(entry.path),
        absolute=str(entry.path),
        size=entry.status.st_size,
        lines=lines,
        first=first,
        last=last,
        total=scan.line_count if ended else total,
        partial=more or first > 1,
        truncated=more and not asked,
        next_line=last + 1 if more else None,
        long_lines=scan.truncated_lines,
        encoding=reader.encoding if scan.is_utf8 else "windows-1252",
        bom=reader.has_bom and scan.is_utf8,
        newline=scan.newline,
        final_newline=not scan.is_unterminated if ended else None,
    )
    return ToolOutput(_render_read(found, wanted.max_width), to_data(found))


def _render_read(result: ReadResult, max_width: int) -> str:
    notes: list[str] = []
    if not result.lines:
        notes.append(f"{result.path!r} is empty")
    if result.partial:
        of = f" of {result.total}" if result.total is not None else f"; the file has {result.size} bytes"
        go_on = f"; go on with start_line={result.next_line}" if result.next_line else ""
        notes.append(f"lines {result.first} to {result.last}{of}{go_on}")
    if result.long_lines:
        shown = ", ".join(map(str, result.long_lines[:10])) + (" …" if len(result.long_lines) > 10 else "")
        notes.append(f"cut after {max_width} characters: line {shown}; allow_large shows more of it")
    if result.encoding == "windows-1252":
        notes.append("not valid UTF-8: read as windows-1252, so letters beyond ASCII may be wrong")
    elif result.encoding != "utf-8":
        notes.append(f"encoded in {result.encoding}")
    text = number_lines(result.lines, result.first)
    return "\n".join([*([text] if result.lines else []), *(f"[{note}]" for note in notes)])


def _attach_media(
    state: ToolState,
    path: str,
    entry: WorkspaceEntry,
    media: tuple[Literal["image", "file"], str],
    *,
    pages: str | None,
    detail: str,
) -> ToolOutput:
    kind, media_type = media
    if pages and kind == "image":
        raise ToolError(f"{path!r} is an image: `pages` is for PDF documents", kind="validation")
    os.lseek(entry.fd, 0, os.SEEK_SET)
    data = read_all(entry.fd, MAX_MEDIA + 1)
    if len(data) > MAX_MEDIA:
        what = "an image" if kind == "image" else "a document"
        why = f"{path!r} is {what} of {entry.status.st_size >> 20} MB"
        raise ToolError(f"{why}, and models take at most {MAX_MEDIA >> 20} MB: make it smaller", kind="limit")
    state.mark_seen(entry.path, entry.version)
    found = MediaResult(
        kind=kind,
        path=state.display_path(entry.path),
        absolute=str(entry.path),
        size=len(data),
        media_type=media_type,
        pages=pages or "",
        detail=detail,
    )
    which = f"; look at pages {pages}" if pages else ""
    words = Text(f"[{found.path}: {media_type}, {len(data)} bytes{which}]")
    block = Media(kind, media_type, base64.b64encode(data).decode(), name=entry.path.name)
    return ToolOutput([words, block], to_data(found))


def _binary_error(path: str, head: bytes, entry: WorkspaceEntry) -> ToolError:
    what = next((kind for start, kind in _BINARY_KINDS if head.startswith(start)), "binary data")
    if detect_bom(head) and detect_bom(head) != ("utf-8", codecs.BOM_UTF8):
        what = "broken UTF-16 or UTF-32"
    size = entry.status.st_size
    return ToolError(f"{path!r} is not text but {what} ({size} bytes): use shell to look into it", kind="execution")


def _view_image(state: ToolState, path: str, detail: Detail) -> ToolOutput:
    check_choice("detail", detail, get_args(Detail))
    _require_file(state, path)
    with state.workspace.open_file(path) as opened:
        media = detect_media(read_all(opened.fd, _HEAD_SIZE))
        if media is None or media[0] != "image":
            suffix = PurePosixPath(path).suffix or "no suffix"
            raise ToolError(f"{path!r} ({suffix}) is not a PNG, JPEG, GIF or WebP image: read it instead", kind="execution")
        return _attach_media(state, path, opened, media, pages=None, detail=detail)


# ---- write


class _WriteChange(TextChange, frozen=True, kw_only=True):
    converted: bool = False
    reencoded: bool = False


def _plan_write(state: ToolState, path: str, content: str, mode: WriteMode, require_read: bool) -> _WriteChange:
    check_choice("mode", mode, get_args(WriteMode))
    check_text(content, "`content`", MAX_TEXT_BYTES)
    loaded = load_file(state, path, require_read=require_read if mode == "overwrite" else None)
    if loaded is None:
        form = TextFormat(newline=detect_newline(content))
        return _WriteChange(before="", after=content, format=form, data=encode_text(content, UTF8), expected="absent")
    if mode == "create_only":
        raise ToolError(f"{path!r} exists already: use mode=overwrite, or another path", kind="execution")
    if mode == "append" and loaded.document is None:
        why = "too large" if loaded.too_large else "not a text file"
        raise ToolError(f"{path!r} is {why}, so nothing is appended to it: use shell", kind="execution")
    return _plan_existing(loaded, content, mode)


def _plan_existing(loaded: LoadedFile, content: str, mode: WriteMode) -> _WriteChange:
    document = loaded.document or Document("", UTF8)
    form = document.format
    content = content.removeprefix("\ufeff") if form.bom else content
    fitted = convert_newlines(content, form.newline) if form.newline == "crlf" else content
    after = document.text + fitted if mode == "append" else fitted
    if len(after) > MAX_TEXT_BYTES:
        raise ToolError(f"the file would have over {MAX_TEXT_BYTES >> 20} MB, which is too large to be written", kind="limit")
    reencoded = False
    try:
        data = encode_text(after, form)
    except ToolError:
        if mode == "append":
            raise
        data, form, reencoded = encode_text(after, UTF8), UTF8, True
    form = msgspec.structs.replace(form, newline=detect_newline(after))
    return _WriteChange(
        before=document.text,
        after=after,
        format=form,
        data=data,
        expected=loaded.version,
        converted=fitted != content,
        reencoded=reencoded,
    )


def _write_file(state: ToolState, path: str, content: str, mode: WriteMode, require_read: bool) -> ToolOutput:
    with state.lock:
        plan = _plan_write(state, path, content, mode, require_read)
        done = save_change(state, path, plan)
    found = WriteResult(
        **done,
        mode=mode,
        converted=plan.converted,
        reencoded=plan.reencoded,
        snippet="\n".join(line[:MAX_LINE_CHARS] for line in split_lines(plan.after)[:5]),
    )
    return ToolOutput(_render_write(found), to_data(found))


def _render_write(result: WriteResult) -> str:
    verb = "created" if result.created else "appended to" if result.mode == "append" else "wrote"
    size = f"{pluralize(result.lines, 'line')}, {result.size} bytes"
    notes = ""
    if result.converted:
        notes += "; its line ends are CRLF, as they were"
    if result.reencoded:
        notes += "; it is UTF-8 now, because its old encoding lacks some of the characters"
    elif result.encoding != "utf-8":
        notes += f"; it is in {result.encoding}, as it was"
    return f"{verb} {result.path!r} ({size}){notes}"


# ---- the tools


def file_tools(state: ToolState, *, require_read: bool = True) -> list[Tool]:
    """`read`, `write` and `view_image`. require_read: a file that the model has not read is not overwritten."""
    target = file_target(state)

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
        wish = _ReadRequest(start_line, end_line, max_lines, tail_lines, pages, allow_large, list_depth)
        return _read_path(state, context, path, wish)

    def plan_write(path: str, content: str, mode: WriteMode = "overwrite") -> TextChange:
        return _plan_write(state, path, content, mode, require_read)

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
        return _write_file(state, path, content, mode, require_read)

    @tool(name="view_image", effects="read", idempotent=True, target=target, examples=[{"path": "docs/plan.png"}])
    def view_image(path: str, detail: Detail = "auto") -> ToolOutput:
        """Shows an image file: PNG, JPEG, GIF or WebP.

        Args:
            path: The image, relative to the workspace or absolute.
            detail: How closely to look at it.
        """
        return _view_image(state, path, detail)

    return [read, write, view_image]
