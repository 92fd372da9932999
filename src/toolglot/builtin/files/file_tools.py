"""The tools that read and write whole files: `read`, `write`, `view_image`.

Invariants: a file that the model has not read, or that has changed since, is not overwritten. Encoding, byte
order mark, line endings and permissions of a file stay what they were.
"""

import codecs
import os
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

import msgspec

from toolglot.builtin.arguments import check_minimum, path_target
from toolglot.builtin.files.descriptors import read_all, translate_os_errors
from toolglot.builtin.files.line_reader import BinaryContent, LineRange, LineScan, read_lines
from toolglot.builtin.files.text import (
    Document,
    Encoding,
    check_text,
    convert_newlines,
    detect_bom,
    is_binary,
)
from toolglot.builtin.files.text_files import (
    MAX_TEXT_BYTES,
    TextChange,
    diff_preview,
    load_file,
    missing_file_error,
    save_change,
)
from toolglot.builtin.files.workspace import WorkspaceEntry
from toolglot.builtin.scopes import change_scope, path_scope
from toolglot.builtin.search.list_dir import list_directory
from toolglot.builtin.search.search_scope import open_root_of
from toolglot.builtin.search.walk import is_ignored
from toolglot.builtin.tool_state import ReadRule, ToolState, to_data
from toolglot.common.media_types import MediaKind, detect_media
from toolglot.common.textutil import number_lines, pluralize, split_lines
from toolglot.confine.confined_open import close_quietly
from toolglot.errors import ToolError
from toolglot.schema.derive import Internal
from toolglot.tools.context import Context
from toolglot.tools.results import MAX_MEDIA, ToolOutput
from toolglot.tools.tool import Tool
from toolglot.values.failures import FileTooLarge, LineOutOfRange, invalid_argument
from toolglot.values.messages import Media, Text

__all__ = ["ReadResult", "file_tools"]

WriteMode = Literal["overwrite", "append", "create_only"]
Detail = Literal["auto", "low", "high", "original"]

MAX_LINES, MAX_LINE_CHARS = 2000, 2000
_MAX_REQUESTED_LINES = 100_000
MAX_RESULT = 150_000
"""Characters of a result. Above the default, because the largest page of a harness (25,000 tokens) must not
be cut."""
_PAGE_BYTES, _LARGE_PAGE_BYTES = 1024 * 1024, 8 * 1024 * 1024  # of lines in one result
_LARGE_LINE_CHARS = 1024 * 1024
_HEAD_SIZE = 64 * 1024
_PAGES_PATTERN = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
_MAX_PAGES = 20  # of a PDF document in one call


class ReadResult(msgspec.Struct, frozen=True, kw_only=True):
    """The data of `read` for a text file. Lines are without their endings."""

    kind: Literal["text"] = "text"
    path: str
    """For display: relative to the root."""
    size: int
    lines: list[str]
    first: int
    last: int
    """The number of the last line shown; first - 1 if there is none."""
    total: int | None
    """None: the file is so large that its lines were not counted."""
    partial: bool
    """There are lines before or after those shown."""
    truncated: bool
    """A limit of the tool ended the result, not the arguments."""
    next_line: int | None
    """Where to continue."""
    long_lines: list[int]
    """Numbers of lines that were truncated."""
    encoding: Encoding
    final_newline: bool | None


class _ReadRequest(msgspec.Struct, frozen=True):
    """Which part of a file to read."""

    start_line: int | None = None
    end_line: int | None = None
    max_lines: int | None = None
    tail_lines: int | None = None
    pages: str | None = None
    allow_large: bool = False
    list_depth: int | None = None
    max_size: int | None = None
    max_page: int | None = None

    def check(self) -> None:
        """Raises ToolError for values that make no sense, or contradict each other."""
        for name in ("start_line", "end_line", "max_lines", "tail_lines", "list_depth"):
            value = getattr(self, name)
            if value is not None:
                check_minimum(name, value, 1)
        bounds = (self.start_line, self.end_line)
        if self.tail_lines is not None and any(bounds):
            raise invalid_argument("tail_lines", "cannot be combined with a first or last line")
        if self.end_line is not None and self.end_line < (self.start_line or 1):
            raise invalid_argument(
                "end_line", f"is {self.end_line}, before the start line {self.start_line}; use a later line"
            )
        if self.pages:
            _check_pages(self.pages)

    def check_size(self, path: str, size: int) -> None:
        """Raises ToolError for a file that is too large to be read without an end."""
        if (
            self.max_size is not None
            and self.end_line is None
            and not self.allow_large
            and size > self.max_size
        ):
            message = f"{path!r} has {pluralize(size, 'byte')}: read it in parts, or search for what you need"
            details = FileTooLarge(size, self.max_size)
            raise ToolError(message, kind="limit", code="file_too_large", details=details)

    def line_range(self, line_count: int | None) -> LineRange:
        """Return the lines that this means; `line_count` is needed for the last ones."""
        first = self.start_line or 1
        if self.tail_lines is not None:
            first = max(1, (line_count or 0) - self.tail_lines + 1)
        has_range = self.start_line is not None or self.end_line is not None or self.tail_lines is not None
        max_lines, max_width = MAX_LINES, MAX_LINE_CHARS
        max_bytes = _LARGE_PAGE_BYTES if has_range else _PAGE_BYTES
        if self.max_page is not None:  # then only bytes count, neither lines nor their length
            max_bytes, max_lines, max_width = self.max_page, _MAX_REQUESTED_LINES, _LARGE_LINE_CHARS
        if self.allow_large:
            max_bytes, max_width = _LARGE_PAGE_BYTES, _LARGE_LINE_CHARS
        limit = min(self._list_limits(first), default=max_lines)
        return LineRange(first, min(limit, _MAX_REQUESTED_LINES), max_bytes, max_width)

    def _list_limits(self, first: int) -> list[int]:
        """Return how many lines each argument asks for, starting with this one."""
        limits: list[int] = []
        if self.end_line is not None:
            limits.append(self.end_line - first + 1)
        if self.tail_lines is not None:
            limits.append(self.tail_lines)
        if self.max_lines is not None:
            limits.append(self.max_lines)
        return limits

    def is_met(self, last: int, count: int) -> bool:
        """Whether so many lines, the last with this number, are all that the arguments ask for."""
        if self.end_line is not None and last >= self.end_line:
            return True
        return self.max_lines is not None and count >= self.max_lines


def _check_pages(pages: str) -> None:
    first = last = 0
    if match := _PAGES_PATTERN.fullmatch(pages):
        first, last = int(match[1]), int(match[2] or match[1])
    if not 1 <= first <= last:
        raise invalid_argument("pages", f'is {pages!r:.40}; use a page or a range such as "3" or "1-5"')
    if last - first >= _MAX_PAGES:
        raise invalid_argument(
            "pages", f"is {pages!r}; at most {_MAX_PAGES} pages are read at once", kind="limit"
        )


class _WriteChange(TextChange, frozen=True, kw_only=True):
    converted: bool = False
    """Line endings were converted to those of the file."""
    reencoded: bool = False
    """The file is UTF-8 now, because its old encoding lacks some of the characters."""


def _render_read(result: ReadResult, max_width: int) -> str:
    notes: list[str] = []
    if not result.lines:
        notes.append(f"{result.path!r} is empty")
    if result.partial:
        total = f" of {result.total}" if result.total is not None else f"; the file has {result.size} bytes"
        hint = f"; continue with start_line={result.next_line}" if result.next_line else ""
        notes.append(f"lines {result.first} to {result.last}{total}{hint}")
    if result.long_lines:
        numbers = ", ".join(map(str, result.long_lines[:10]))
        if len(result.long_lines) > 10:
            numbers += " …"
        notes.append(
            f"truncated after {max_width} characters: line {numbers}; allow_large shows longer lines"
        )
    if result.encoding == "windows-1252":
        notes.append("not valid UTF-8: decoded as windows-1252, so characters beyond ASCII may be wrong")
    elif result.encoding != "utf-8":
        notes.append(f"encoded in {result.encoding}")
    text = [number_lines(result.lines, result.first)] if result.lines else []
    return "\n".join([*text, *(f"[{note}]" for note in notes)])


class _FileTools:
    """The tools as methods."""

    def __init__(self, state: ToolState) -> None:
        self._state = state

    def read(
        self,
        path: str,
        context: Context,
        start_line: int | None = None,
        end_line: int | None = None,
        max_lines: Annotated[int | None, Internal] = None,
        tail_lines: int | None = None,
        pages: str | None = None,
        allow_large: bool = False,
        list_depth: Annotated[int | None, Internal] = None,
        respect_ignore: Annotated[bool, Internal] = False,
        max_size: Annotated[int | None, Internal] = None,
        max_page: Annotated[int | None, Internal] = None,
    ) -> ToolOutput:
        """Read a text file as numbered lines, at most 2000 lines of 2000 characters.

        Images and PDF documents are shown.

        Use it before you change a file. To find text in many files, search for it instead.

        Args:
            path: Path of the file, absolute or relative to the workspace.
            context: The call.
            start_line: First line to read, counted from 1 (default 1).
            end_line: Last line to read, inclusive (default: as many as fit).
            max_lines: Maximum number of lines.
            tail_lines: Read only the last N lines. Cannot be combined with start_line or end_line.
            pages: Pages of a PDF document to look at, such as "3" or "1-5" (at most 20).
            allow_large: Read up to 8 MB at once, and lines of up to 1,048,576 characters (default false).
            list_depth: List a directory, this many levels deep.
            respect_ignore: Refuse a file that ignore files exclude.
            max_size: Bytes of a text file that is read without an end line.
            max_page: Bytes of text in one result, instead of limits for lines.
        """
        request = _ReadRequest(
            start_line, end_line, max_lines, tail_lines, pages, allow_large, list_depth, max_size, max_page
        )
        request.check()
        if list_depth is not None:
            entry = self._state.workspace.inspect(path)
            if entry is not None and entry.is_directory:
                return list_directory(self._state, path, depth=list_depth, context=context)
        self._check_file(path, respect_ignore=respect_ignore)
        with self._open(path) as entry:
            head = read_all(entry.fd, _HEAD_SIZE)
            if (media := detect_media(head)) is not None:
                return self._attach_media(path, entry, media, pages=pages, detail="auto")
            if pages:
                message = f"{path!r} is not a PDF document: read it by line numbers instead"
                raise ToolError(message, kind="validation", code="pages_not_pdf")
            request.check_size(path, entry.status.st_size)
            read = partial(read_lines, entry.fd, head, lambda: context.is_cancelled)
            try:
                if detect_bom(head) is None and is_binary(head):
                    raise BinaryContent
                result = self._read_lines(entry, read, request, path)
            except BinaryContent:
                is_wide = detect_bom(head) and not head.startswith(codecs.BOM_UTF8)
                kind = "invalid UTF-16 or UTF-32" if is_wide else "binary data"
                size = pluralize(entry.status.st_size, "byte")
                message = f"{path!r} is not text but {kind} ({size}): use a shell command to examine it"
                raise ToolError(message, code="not_text") from None
            self._state.mark_seen(entry.path, entry.version)
            max_width = _LARGE_LINE_CHARS if allow_large else MAX_LINE_CHARS
            return ToolOutput(_render_read(result, max_width), to_data(result))

    @contextmanager
    def _open(self, path: str) -> Generator[WorkspaceEntry]:
        if path not in self._state.output_files:
            with self._state.workspace.open_file(path) as entry:
                yield entry
            return
        # we made this file ourselves, in a directory that no command can change
        with translate_os_errors(path):
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            yield WorkspaceEntry(fd, os.fstat(fd), path, path)
        finally:
            close_quietly(fd)

    def _check_file(self, path: str, *, respect_ignore: bool = False) -> None:
        if path in self._state.output_files:
            return
        entry = self._state.workspace.inspect(path)
        if entry is None:
            raise missing_file_error(self._state, path)
        if entry.is_directory:
            raise ToolError(f"{path!r} is a directory: list it to see what it contains", code="is_directory")
        if respect_ignore:
            with open_root_of(self._state, entry) as root:
                if is_ignored(root.root_fd, root.relative):
                    message = f"{path!r} is excluded by .gitignore or a file like it: it cannot be read"
                    raise ToolError(message, kind="not_allowed", code="path_ignored")

    def _read_lines(
        self, entry: WorkspaceEntry, read: Callable[..., LineScan], request: _ReadRequest, path: str
    ) -> ReadResult:
        line_count = None
        if request.tail_lines is not None:
            line_count = read(LineRange(1, 0, 0, 0), count_all=True).line_count
        line_range = request.line_range(line_count)
        scan = read(line_range)
        first, last = line_range.first, line_range.first + len(scan.lines) - 1
        if not scan.lines and (scan.line_count or first > 1):
            size = pluralize(scan.line_count, "line") if scan.line_count else "no lines"
            message = f"{path!r} has {size}, so there is no line {first}: start earlier"
            details = LineOutOfRange(first, scan.line_count, not scan.is_unterminated)
            raise ToolError(message, kind="validation", code="line_out_of_range", details=details)
        has_more = not scan.is_complete or scan.line_count > last
        total, has_final_newline = line_count, None
        if scan.is_complete:
            total, has_final_newline = scan.line_count, not scan.is_unterminated
        return ReadResult(
            path=self._state.display_path(entry.path),
            size=entry.status.st_size,
            lines=scan.lines,
            first=first,
            last=last,
            total=total,
            partial=has_more or first > 1,
            truncated=has_more and not request.is_met(last, len(scan.lines)),
            next_line=last + 1 if has_more else None,
            long_lines=scan.truncated_lines,
            encoding=scan.encoding,
            final_newline=has_final_newline,
        )

    def _attach_media(
        self,
        path: str,
        entry: WorkspaceEntry,
        media: tuple[MediaKind, str],
        *,
        pages: str | None,
        detail: Detail,
    ) -> ToolOutput:
        kind, media_type = media
        if pages and kind == "image":
            message = f"{path!r} is an image, which has no pages: read it without a page range"
            raise ToolError(message, kind="validation", code="pages_not_pdf")
        os.lseek(entry.fd, 0, os.SEEK_SET)
        data = read_all(entry.fd, MAX_MEDIA + 1)
        if len(data) > MAX_MEDIA:
            noun = "an image" if kind == "image" else "a document"
            message = (
                f"{path!r} is {noun} of {entry.status.st_size >> 20} MB; models accept at most "
                f"{MAX_MEDIA >> 20} MB"
            )
            raise ToolError(f"{message}: make it smaller", kind="limit", code="file_too_large")
        self._state.mark_seen(entry.path, entry.version)
        display_path, size = self._state.display_path(entry.path), pluralize(len(data), "byte")
        hint = f"; look at pages {pages}" if pages else ""
        label = Text(f"[{display_path}: {media_type}, {size}{hint}]")
        block = Media.from_bytes(data, media_type, name=entry.path.name)
        if detail != "auto":
            block = msgspec.structs.replace(block, detail=detail)
        fields = {"kind": kind, "path": display_path, "size": len(data), "media_type": media_type}
        return ToolOutput([label, block], {**fields, "pages": pages or "", "detail": detail})

    def view_image(self, path: str, detail: Detail = "auto") -> ToolOutput:
        """Show an image file: PNG, JPEG, GIF or WebP.

        Args:
            path: Path of the image, absolute or relative to the workspace.
            detail: Resolution at which to look at it: auto (default), low, high or original.
        """
        self._check_file(path)
        with self._state.workspace.open_file(path) as entry:
            media = detect_media(read_all(entry.fd, _HEAD_SIZE))
            if media is None or media[0] != "image":
                suffix = PurePosixPath(path).suffix or "no suffix"
                message = (
                    f"{path!r} ({suffix}) is not a PNG, JPEG, GIF or WebP image: read it as a file instead"
                )
                raise ToolError(message, code="not_image")
            return self._attach_media(path, entry, media, pages=None, detail=detail)

    def write(
        self,
        path: str,
        content: str,
        mode: WriteMode = "overwrite",
        read_first: Annotated[ReadRule, Internal] = "required",
    ) -> ToolOutput:
        """Write a text file; missing parent directories are created.

        Read an existing file before you overwrite it.

        To change a part of a file, use an edit instead.

        Args:
            path: Path of the file, absolute or relative to the workspace.
            content: The complete new text of the file, or the text to append.
            mode: overwrite (default) replaces the file, append adds to its end, create_only fails if it
                exists.
            read_first: What must have been read of an existing file.
        """
        with self._state.lock:
            change = self.plan_write(path, content, mode, read_first)
            saved = save_change(self._state, path, change, read_first)
        verb = "wrote"
        if saved.created:
            verb = "created"
        elif mode == "append":
            verb = "appended to"
        notes = "; kept its CRLF line endings" if change.converted else ""
        if change.reencoded:
            notes += "; it is UTF-8 now, because its old encoding lacks some of the characters"
        elif saved.encoding != "utf-8":
            notes += f"; kept its encoding {saved.encoding}"
        text = (
            f"{verb} {saved.path!r} ({pluralize(saved.lines, 'line')}, "
            f"{pluralize(saved.size, 'byte')}){notes}"
        )
        snippet = "\n".join(line[:MAX_LINE_CHARS] for line in split_lines(change.after)[:5])
        fields = {
            "mode": mode,
            "converted": change.converted,
            "reencoded": change.reencoded,
            "snippet": snippet,
        }
        return ToolOutput(text, to_data(saved) | fields)

    def plan_write(
        self, path: str, content: str, mode: WriteMode = "overwrite", read_first: ReadRule = "required"
    ) -> _WriteChange:
        check_text(content, "content", MAX_TEXT_BYTES)
        loaded = load_file(self._state, path, read_first if mode == "overwrite" else "none")
        if mode == "create_only" and loaded.version != "absent":
            raise ToolError(f"{path!r} already exists: overwrite it, or use another path", code="file_exists")
        document = loaded.require_document(path) if mode == "append" else loaded.document or Document()
        if document.bom:
            content = content.removeprefix("\ufeff")
        new = content
        if document.newline == "crlf":
            new = convert_newlines(content, "crlf")
        if mode == "append":
            return _WriteChange.plan(
                path, document, document.text + new, loaded.version, converted=new != content
            )
        try:
            return _WriteChange.plan(path, document, new, loaded.version, converted=new != content)
        except ToolError as e:
            if e.code != "unencodable_text":
                raise
        document = Document(document.text)
        return _WriteChange.plan(
            path, document, new, loaded.version, converted=new != content, reencoded=True
        )


def file_tools(state: ToolState) -> list[Tool]:
    """Return `read`, `write` and `view_image`."""
    tools, target = _FileTools(state), path_target(state)
    reading: dict[str, Any] = {
        "effects": "read",
        "idempotent": True,
        "action": "read",
        "verb": "Read",
        "scope": path_scope(state, "read"),
        "target": target,
    }
    return [
        Tool(
            tools.read, **reading, max_result=MAX_RESULT, examples=[{"path": "src/main.py", "start_line": 1}]
        ),
        Tool(
            tools.write,
            effects="write",
            action="edit",
            verb="Write",
            confined=state.workspace.protects_all,
            scope=change_scope(state),
            target=target,
            preview=diff_preview(state, tools.plan_write),
            examples=[{"path": "notes.txt", "content": "first line\n"}],
        ),
        Tool(tools.view_image, **reading, examples=[{"path": "docs/plan.png"}]),
    ]
