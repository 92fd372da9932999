"""Parses the text of a patch into operations on files.

The description of the tool `patch` explains the language. Invariants: any text gives operations, or a ToolError that names the
line. The messages are those of the program that this language comes from, because models know them.
"""

from dataclasses import dataclass
from typing import Literal

import msgspec

from toolglot.base_errors import InvalidPatch
from toolglot.errors import ToolError
from toolglot.textutil import truncate

__all__ = [
    "AddFile",
    "Chunk",
    "DeleteFile",
    "PatchLine",
    "PatchOp",
    "PatchOperation",
    "UpdateFile",
    "operation_to_ops",
    "parse_patch",
]

BEGIN_PATCH, END_PATCH, END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
ADD_FILE, DELETE_FILE, UPDATE_FILE, MOVE_TO = "*** Add File: ", "*** Delete File: ", "*** Update File: ", "*** Move to: "
CONTEXT, REMOVED, ADDED = " ", "-", "+"
_HEADER_HINT = ", ".join(f"'{header}{{path}}'" for header in (ADD_FILE, DELETE_FILE, UPDATE_FILE))
_PREFIX_HINT = "Every line should start with ' ' (context line), '+' (added line), or '-' (removed line)"
_HEREDOCS = ("<<EOF", "<<'EOF'", '<<"EOF"')
_MAX_SHOWN_CHARS = 200

PatchLine = tuple[str, str]
"""CONTEXT, REMOVED or ADDED, and the text."""


class Chunk(msgspec.Struct, frozen=True):
    """Consecutive lines of a file. `anchors`: lines to go to first, one by one. `at_end`: they are the last of the file."""

    lines: tuple[PatchLine, ...]
    anchors: tuple[str, ...] = ()
    at_end: bool = False


class AddFile(msgspec.Struct, frozen=True):
    """Create a file, or replace it whole."""

    path: str
    content: str


class DeleteFile(msgspec.Struct, frozen=True):
    """Delete a file."""

    path: str


class UpdateFile(msgspec.Struct, frozen=True):
    """Change a file, and perhaps move it."""

    path: str
    chunks: tuple[Chunk, ...]
    move_to: str = ""


PatchOp = AddFile | DeleteFile | UpdateFile


@dataclass(frozen=True)
class PatchOperation:
    """An operation on one file. diff: for update_file the chunks; for create_file the content, each line after a '+'."""

    type: Literal["create_file", "update_file", "delete_file"]
    path: str
    diff: str = ""


class _LineCursor:
    """Lines, and the current one. `line_number`: as a person counts them."""

    def __init__(self, lines: list[str], lines_before: int = 0) -> None:
        self._lines, self._index, self._lines_before = lines, 0, lines_before

    @property
    def line_number(self) -> int:
        return self._lines_before + self._index + 1

    @property
    def current(self) -> str | None:
        return self._lines[self._index] if self._index < len(self._lines) else None

    def advance(self) -> str:
        line = self._lines[self._index]
        self._index += 1
        return line


def parse_patch(text: str) -> list[PatchOp]:
    """Return the operations of a patch in order. Raises ToolError."""
    lines = _split_lines(text.strip())
    # Models that are used to shells wrap the patch in a here-document.
    if len(lines) >= 4 and lines[0].strip() in _HEREDOCS and lines[-1].strip() == "EOF":
        lines = lines[1:-1]
    if lines[0].strip() != BEGIN_PATCH:
        raise _patch_error(f"Invalid patch: The first line of the patch must be '{BEGIN_PATCH}'")
    if len(lines) < 2 or lines[-1].strip() != END_PATCH:
        raise _patch_error(f"Invalid patch: The last line of the patch must be '{END_PATCH}'")
    cursor = _LineCursor(lines[1:-1], lines_before=1)
    ops: list[PatchOp] = []
    while cursor.current is not None:
        line_number, header = cursor.line_number, cursor.advance().strip()
        if header.startswith(ADD_FILE):
            ops.append(AddFile(header.removeprefix(ADD_FILE).strip(), _parse_added_lines(cursor)))
        elif header.startswith(DELETE_FILE):
            ops.append(DeleteFile(header.removeprefix(DELETE_FILE).strip()))
        elif header.startswith(UPDATE_FILE):
            ops.append(_parse_update(cursor, header.removeprefix(UPDATE_FILE).strip(), line_number))
        elif header:
            message = f"'{_quote(header)}' is not a valid hunk header. Valid hunk headers: {_HEADER_HINT}"
            raise _line_error(line_number, message)
    if not ops:
        raise _patch_error("No files were modified. Write sections between the first and the last line of the patch")
    return ops


def operation_to_ops(operation: PatchOperation) -> list[PatchOp]:
    """Return what one operation of OpenAI's hosted apply_patch tool means. Raises ToolError."""
    path = operation.path
    if not path.strip() or any(character in path for character in "\n\r\0"):
        raise _patch_error(f"{_quote(path)!r} is not a path")
    if operation.type == "delete_file":
        return [DeleteFile(path)]
    cursor = _LineCursor(_split_lines(operation.diff.removesuffix("\n")) if operation.diff else [])
    if operation.type == "create_file":
        op: PatchOp = AddFile(path, _parse_added_lines(cursor))
    else:
        op = _parse_update(cursor, path, 1)
    if (line := cursor.current) is not None:
        raise _line_error(cursor.line_number, f"'{_quote(line)}' does not belong in the diff of one file. {_PREFIX_HINT}")
    return [op]


# ---- sections


def _parse_added_lines(cursor: _LineCursor) -> str:
    lines: list[str] = []
    while (line := cursor.current) is not None and line.startswith(ADDED):
        lines.append(cursor.advance()[1:] + "\n")
    return "".join(lines)


def _parse_update(cursor: _LineCursor, path: str, line_number: int) -> UpdateFile:
    move_to = ""
    if (line := cursor.current) is not None and line.strip().startswith(MOVE_TO):
        move_to = cursor.advance().strip().removeprefix(MOVE_TO).strip()
    chunks: list[Chunk] = []
    while (line := cursor.current) is not None and not line.startswith("***"):
        if line.strip():
            chunks.append(_parse_chunk(cursor, is_first=not chunks))
        else:
            cursor.advance()
    if not chunks:
        raise _line_error(line_number, f"Update file hunk for path '{_quote(path)}' is empty")
    return UpdateFile(path, tuple(chunks), move_to)


def _parse_chunk(cursor: _LineCursor, *, is_first: bool) -> Chunk:
    texts: list[str] = []
    while (line := cursor.current) is not None and (line.rstrip() == "@@" or line.startswith("@@ ")):
        texts.append(cursor.advance()[3:].rstrip())
    anchors = tuple(filter(None, texts))
    if not texts and not is_first:
        got = _quote(cursor.current or "")
        raise _line_error(cursor.line_number, f"Expected update hunk to start with a @@ context marker, got: '{got}'")
    lines: list[PatchLine] = []
    while (line := cursor.current) is not None:
        if line.rstrip() == END_OF_FILE and lines:
            cursor.advance()
            return Chunk(tuple(lines), anchors, at_end=True)
        kind = line[:1] or CONTEXT
        if kind not in (CONTEXT, REMOVED, ADDED):
            break
        lines.append((kind, cursor.advance()[1:]))
    if not lines:
        line = cursor.current
        if line is None or line.rstrip() == END_OF_FILE:
            raise _line_error(cursor.line_number, "Update hunk does not contain any lines")
        raise _line_error(cursor.line_number, f"Unexpected line found in update hunk: '{_quote(line)}'. {_PREFIX_HINT}")
    return Chunk(tuple(lines), anchors)


def _split_lines(text: str) -> list[str]:
    return [line.removesuffix("\r") for line in text.split("\n")]


def _quote(text: str) -> str:
    return truncate(text, _MAX_SHOWN_CHARS)


def _patch_error(message: str, line_number: int = 0) -> ToolError:
    return ToolError(message, kind="validation", code="invalid_patch", details=InvalidPatch(line_number))


def _line_error(line_number: int, message: str) -> ToolError:
    return _patch_error(f"Invalid patch hunk on line {line_number}: {message}", line_number)
