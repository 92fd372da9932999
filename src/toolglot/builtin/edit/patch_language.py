"""The patch language that many models write: parsing it, locating its chunks in the lines of a file, applying
them.

Invariants: pure. Any text gives operations, or a ToolError that names the line; the messages are those of the
program that this language comes from, because models know them. The first match after the previous one wins,
and no lines match twice. A looser comparison is tried only if a stricter one finds nothing in the whole rest
of the file. The work grows with the lines of file and patch, never with their product. The description of the
tool `patch` explains the language.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal

import msgspec

from toolglot.common.textutil import LineEdit, to_ascii_punctuation, truncate
from toolglot.errors import ToolError
from toolglot.values.failures import InvalidPatch, PatchFailed

__all__ = [
    "AddFile",
    "Chunk",
    "DeleteFile",
    "PatchOp",
    "PatchOperation",
    "UpdateFile",
    "apply_placements",
    "locate_chunks",
    "operation_to_ops",
    "parse_patch",
    "split_file",
]

BEGIN_PATCH, END_PATCH, END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
ADD_FILE = "*** Add File: "
DELETE_FILE = "*** Delete File: "
UPDATE_FILE = "*** Update File: "
MOVE_TO = "*** Move to: "
CONTEXT, REMOVED, ADDED = " ", "-", "+"
_HEADER_HINT = ", ".join(f"'{header}{{path}}'" for header in (ADD_FILE, DELETE_FILE, UPDATE_FILE))
_PREFIX_HINT = "Every line should start with ' ' (context line), '+' (added line), or '-' (removed line)"
_HEREDOCS = ("<<EOF", "<<'EOF'", '<<"EOF"')
_MAX_SHOWN_CHARS = 200

PatchLine = tuple[str, str]
"""CONTEXT, REMOVED or ADDED, and the text."""


class Chunk(msgspec.Struct, frozen=True):
    """Consecutive lines of a file.

    `anchors`: lines to go to first, one by one. `at_end`: they are the last of the file.
    """

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
    """An operation on one file. diff: for update_file the chunks; for create_file the content, each line
    after a '+'.
    """

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
        raise _patch_error("Invalid patch: ", f"The first line of the patch must be '{BEGIN_PATCH}'")
    if len(lines) < 2 or lines[-1].strip() != END_PATCH:
        raise _patch_error("Invalid patch: ", f"The last line of the patch must be '{END_PATCH}'")
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
        raise _patch_error(
            "No files were modified. Write sections between the first and the last line of the patch", ""
        )
    return ops


def operation_to_ops(operation: PatchOperation) -> list[PatchOp]:
    """Return what one operation of OpenAI's hosted apply_patch tool means. Raises ToolError."""
    path = operation.path
    if not path.strip() or any(character in path for character in "\n\r\0"):
        raise _patch_error("", f"{_quote(path)!r} is not a path")
    if operation.type == "delete_file":
        return [DeleteFile(path)]
    lines = _split_lines(operation.diff.removesuffix("\n")) if operation.diff else []
    cursor = _LineCursor(lines)
    if operation.type == "create_file":
        op: PatchOp = AddFile(path, _parse_added_lines(cursor))
    else:
        op = _parse_update(cursor, path, 1)
    if (line := cursor.current) is not None:
        raise _line_error(
            cursor.line_number, f"'{_quote(line)}' does not belong in the diff of one file. {_PREFIX_HINT}"
        )
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
        raise _line_error(
            cursor.line_number, f"Expected update hunk to start with a @@ context marker, got: '{got}'"
        )
    lines: list[PatchLine] = []
    while (line := cursor.current) is not None:
        if line.rstrip() == END_OF_FILE and lines:
            cursor.advance()
            return Chunk(tuple(lines), anchors, at_end=True)
        kind = line[:1] or CONTEXT
        if kind not in (CONTEXT, REMOVED, ADDED):
            break
        text = cursor.advance()[1:]
        lines += [(kind, part) for part in ([text] if kind == ADDED else text.split("\r"))]  # as in files
    if not lines:
        line = cursor.current
        if line is None or line.rstrip() == END_OF_FILE:
            raise _line_error(cursor.line_number, "Update hunk does not contain any lines")
        raise _line_error(
            cursor.line_number, f"Unexpected line found in update hunk: '{_quote(line)}'. {_PREFIX_HINT}"
        )
    return Chunk(tuple(lines), anchors)


def _split_lines(text: str) -> list[str]:
    return [line.removesuffix("\r") for line in text.split("\n")]


def _quote(text: str) -> str:
    return truncate(text, _MAX_SHOWN_CHARS)


def _patch_error(prefix: str, problem: str, line_number: int = 0) -> ToolError:
    details = InvalidPatch(line_number, problem)
    return ToolError(prefix + problem, kind="validation", code="invalid_patch", details=details)


def _line_error(line_number: int, message: str) -> ToolError:
    return _patch_error(f"Invalid patch hunk on line {line_number}: ", message, line_number)


# ---- locating chunks

# each distinct line becomes one character of a text that is searched (Unicode has 1,114,112)
MAX_LINES = 1_000_000
_MAX_SHOWN_BLOCK, _MAX_SHOWN_LINE = 2000, 200  # characters
_ORDER_HINT = "before the previous match; chunks and anchors must follow the order of the file"


Placement = tuple[int, tuple[PatchLine, ...]]
"""The index (from 0) of the line of a file where lines of a patch begin, and these lines."""


def locate_chunks(
    path: str, lines: Sequence[str], chunks: Sequence[Chunk], absolute_path: str = ""
) -> list[Placement]:
    """Return where every chunk goes, in the order of the file. Raises ToolError.

    A chunk that only adds lines goes to the end of the file, whatever its anchors say.
    """
    if len(lines) > MAX_LINES:
        message = f"{path} has {len(lines)} lines; a patch can change files of at most {MAX_LINES}"
        raise ToolError(message, kind="limit", code="file_too_large")
    index, cursor = _LineIndex(lines), 0
    placements: list[Placement] = []
    for chunk in chunks:
        for anchor in chunk.anchors:
            position = index.find([anchor], cursor)
            if position is None:
                message = f"Failed to find context '{anchor[:_MAX_SHOWN_LINE]}' in {path}: "
                if (earlier := index.find([anchor], 0)) is not None:
                    message += f"it is at line {earlier + 1}, {_ORDER_HINT}"
                else:
                    message += "write a whole line of the file after @@, without line numbers, or nothing"
                details = PatchFailed(absolute_path or path, context=anchor, after_line=cursor)
                raise ToolError(message, code="patch_failed", details=details)
            cursor = position + 1
        if (placement := _place_chunk(index, chunk, cursor)) is None:
            block = _old_lines(chunk.lines)
            text = truncate("\n".join(block), _MAX_SHOWN_BLOCK)
            message = (
                "Failed to find expected lines in "
                f"{path}:\n{text}\n({_describe_mismatch(index, block, cursor)})"
            )
            details = PatchFailed(absolute_path or path, expected=tuple(block[:100]), after_line=cursor)
            raise ToolError(message, code="patch_failed", details=details)
        placements.append(placement)
        start, lines_there = placement
        if old := _old_lines(lines_there):
            cursor = start + len(old)
    return sorted(placements, key=itemgetter(0))


_COMPARISONS: tuple[Callable[[str], str], ...] = (
    str,
    str.rstrip,
    str.strip,
    lambda line: to_ascii_punctuation(line.strip()),
)


class _LineIndex:
    """The lines of a file, each encoded as one character, so that blocks of lines are found as fast as
    substrings.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self._cache: dict[int, tuple[dict[str, str], str]] = {}

    def find(self, block: Sequence[str], start: int) -> int | None:
        """Return the first index from `start` on where the block stands."""
        if len(block) > len(self.lines) - start:
            return None
        for level, normalize in enumerate(_COMPARISONS):
            if level not in self._cache:
                codes: dict[str, str] = {}
                text = "".join([codes.setdefault(normalize(line), chr(len(codes))) for line in self.lines])
                self._cache[level] = codes, text
            codes, text = self._cache[level]
            wanted = [codes.get(normalize(line), "") for line in block]
            if all(wanted) and (index := text.find("".join(wanted), start)) >= 0:
                return index
        return None


def _old_lines(lines: Sequence[PatchLine]) -> list[str]:
    """Return the lines that the file must have."""
    return [text for kind, text in lines if kind != ADDED]


def _place_chunk(index: _LineIndex, chunk: Chunk, cursor: int) -> Placement | None:
    end = len(index.lines)
    places = (True, False) if chunk.at_end else (False,)
    for at_end in places:
        for lines in _iter_variants(chunk.lines):
            old = _old_lines(lines)
            if not old:
                return end, lines
            start = max(cursor, end - len(old)) if at_end else cursor
            position = index.find(old, start)
            if position is not None:
                return position, lines
    return None


def _iter_variants(lines: tuple[PatchLine, ...]) -> Iterator[tuple[PatchLine, ...]]:
    """Yield the lines of a chunk, then those without a final empty one, which is often only the end of the
    patch's text.
    """
    yield lines
    last = next((number for number in reversed(range(len(lines))) if lines[number][0] != ADDED), None)
    if last is None or lines[last][1]:
        return
    before, after = lines[:last], lines[last + 1 :]
    if lines[last][0] == CONTEXT:
        if after:
            before = (*before, (ADDED, ""))
    elif after and not after[-1][1]:  # a removed line with its replacement, which is empty, too
        after = after[:-1]
    yield (*before, *after)


def _describe_mismatch(index: _LineIndex, block: list[str], cursor: int) -> str:
    earlier = index.find(block, 0)
    if earlier is not None:
        return f"They are at line {earlier + 1}, {_ORDER_HINT}."
    advice = "read the file again and copy its lines as they are."
    matching, high = 0, len(block) - 1
    while matching < high:  # bisect for the longest prefix that the file has
        middle = (matching + high + 1) // 2
        if index.find(block[:middle], cursor) is None:
            high = middle - 1
        else:
            matching = middle
    start = index.find(block[:matching], cursor) if matching else None
    if start is None:
        return f"No line of the file from line {cursor + 1} on equals the first of them: {advice}"
    end = start + matching
    is_line = (
        f"line {end + 1} is {index.lines[end][:_MAX_SHOWN_LINE]!r}"
        if end < len(index.lines)
        else "the file ends"
    )
    return f"The file has the first {matching} of them at line {start + 1}, but then {is_line}: {advice}"


def split_file(text: str) -> tuple[list[str], list[str]]:
    """Return the lines of a file without and with their endings: LF, CRLF or, as in the program this comes
    from, CR.
    """
    full_lines = re.findall(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+", text)
    return [line.rstrip("\r\n") for line in full_lines], full_lines


def apply_placements(text: str, placements: Sequence[Placement]) -> tuple[str, list[LineEdit]]:
    """Return the new text, and what was replaced. The placements are in the order of the file.

    Kept lines stay as they are. Added lines end as the first line of the file does, and every line of the
    result has an ending.
    """
    lines, full_lines = split_file(text)
    newline = (full_lines[0][len(lines[0]) :] if lines else "") or "\n"
    if lines and full_lines[-1] == lines[-1]:
        full_lines[-1] += newline
    pieces: list[str] = []
    edits: list[LineEdit] = []
    index = 0
    for position, changed_lines in placements:
        pieces += full_lines[index:position]
        index = start = position
        added: list[str] = []
        for kind, content in (*changed_lines, ("", "")):  # the last one ends the run before it
            if kind == ADDED:
                added.append(content)
                pieces.append(content + newline)
                continue
            if kind != REMOVED:
                if added or index > start:
                    edits.append(LineEdit(start, lines[start:index], added))
                added, start = [], index + 1
            if kind == CONTEXT:
                pieces.append(full_lines[index])
            index += bool(kind)
    pieces += full_lines[index:]
    return "".join(pieces), edits
