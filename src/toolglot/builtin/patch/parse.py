"""The text of a patch as operations on files.

A patch begins with `*** Begin Patch` and ends with `*** End Patch`. Between them are sections: `*** Add File: PATH` and lines
with '+'; `*** Delete File: PATH`; `*** Update File: PATH`, perhaps `*** Move to: PATH`, and chunks. A chunk is any number of
`@@ line to start after`, or a bare `@@`; lines with ' ', '-' or '+'; perhaps `*** End of File`.

Law: any text gives operations, or a ToolError that names the line.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from toolglot.errors import ToolError

__all__ = [
    "AddFile",
    "Chunk",
    "DeleteFile",
    "Line",
    "Op",
    "Operation",
    "UpdateFile",
    "operation_to_ops",
    "parse_patch",
    "rendered",
]

BEGIN, END, END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
ADD, DELETE, UPDATE, MOVE = "*** Add File: ", "*** Delete File: ", "*** Update File: ", "*** Move to: "
KEPT, REMOVED, ADDED = " ", "-", "+"
_HEADERS = ", ".join(f"'{header}{{path}}'" for header in (ADD, DELETE, UPDATE))
_PREFIXES = "Every line should start with ' ' (context line), '+' (added line), or '-' (removed line)"
_HEREDOCS = ("<<EOF", "<<'EOF'", '<<"EOF"')
_LONGEST = 200  # characters of a line that a message shows

Line = tuple[str, str]
"""Kept, removed or added; and the text."""


class Chunk(msgspec.Struct, frozen=True):
    """Lines that stand together in a file. `anchors`: lines to go to first, one by one. `at_end`: they end the file."""

    lines: tuple[Line, ...]
    anchors: tuple[str, ...] = ()
    at_end: bool = False


class AddFile(msgspec.Struct, frozen=True):
    """A file as it is to be, whatever was there."""

    path: str
    content: str


class DeleteFile(msgspec.Struct, frozen=True):
    """A file that is to go."""

    path: str


class UpdateFile(msgspec.Struct, frozen=True):
    """A file that changes, and perhaps gets another path."""

    path: str
    chunks: tuple[Chunk, ...]
    move_to: str = ""


Op = AddFile | DeleteFile | UpdateFile


@dataclass(frozen=True)
class Operation:
    """One file. diff: for update_file the chunks; for create_file the content, each line with '+' before it."""

    type: Literal["create_file", "update_file", "delete_file"]
    path: str
    diff: str = ""


class _Reader:
    """Lines, and how far they are read. `number`: of the next line, as a person counts them."""

    def __init__(self, lines: list[str], before: int = 0) -> None:
        self._lines, self._at, self._before = lines, 0, before

    @property
    def number(self) -> int:
        return self._before + self._at + 1

    @property
    def next(self) -> str | None:
        return self._lines[self._at] if self._at < len(self._lines) else None

    def take(self) -> str:
        line = self._lines[self._at]
        self._at += 1
        return line


def parse_patch(text: str) -> list[Op]:
    """The operations of a patch, in its order. Raises ToolError (validation)."""
    reader = _Reader(_inside(text), before=1)
    ops: list[Op] = []
    while (line := reader.next) is not None:
        if line.strip():
            ops.append(_section(reader))
        else:
            reader.take()
    if not ops:
        raise _invalid("No files were modified. Say what to do between the first and the last line of the patch")
    return ops


def operation_to_ops(operation: Operation) -> list[Op]:
    """What one operation of OpenAI's hosted tool says. Raises ToolError (validation)."""
    path = operation.path
    if not path.strip() or any(one in path for one in "\n\r\0"):
        raise _invalid(f"{_short(path)!r} is not a path")
    if operation.type == "delete_file":
        return [DeleteFile(path)]
    reader = _Reader(_lines(operation.diff.removesuffix("\n")) if operation.diff else [])
    if operation.type == "create_file":
        op: Op = AddFile(path, _added(reader))
    else:
        op = _updated(reader, path, 1)
    if (line := reader.next) is not None:
        raise _wrong(reader.number, f"'{_short(line)}' does not belong into the diff of one file. {_PREFIXES}")
    return [op]


def rendered(ops: Sequence[Op]) -> str:
    """Operations as the text of a patch."""
    lines = [BEGIN]
    for op in ops:
        match op:
            case AddFile(path, content):
                lines += [ADD + path, *(ADDED + line for line in content.split("\n")[:-1])]
            case DeleteFile(path):
                lines.append(DELETE + path)
            case UpdateFile(path, chunks, move_to):
                lines += [UPDATE + path, *([MOVE + move_to] if move_to else [])]
                for chunk in chunks:
                    lines += [f"@@ {anchor}" for anchor in chunk.anchors] or ["@@"]
                    lines += [kind + text for kind, text in chunk.lines]
                    lines += [END_OF_FILE] if chunk.at_end else []
    return "\n".join([*lines, END])


# ---- parts of a patch


def _inside(text: str) -> list[str]:
    """The lines between the first and the last one; a here-document around them is taken off."""
    lines = _lines(text.strip())
    if len(lines) >= 4 and lines[0].strip() in _HEREDOCS and lines[-1].strip() == "EOF":
        lines = lines[1:-1]
    if lines[0].strip() != BEGIN:
        raise _invalid(f"Invalid patch: The first line of the patch must be '{BEGIN}'")
    if len(lines) < 2 or lines[-1].strip() != END:
        raise _invalid(f"Invalid patch: The last line of the patch must be '{END}'")
    return lines[1:-1]


def _section(reader: _Reader) -> Op:
    number, header = reader.number, reader.take().strip()
    if header.startswith(ADD):
        return AddFile(header.removeprefix(ADD).strip(), _added(reader))
    if header.startswith(DELETE):
        return DeleteFile(header.removeprefix(DELETE).strip())
    if header.startswith(UPDATE):
        return _updated(reader, header.removeprefix(UPDATE).strip(), number)
    raise _wrong(number, f"'{_short(header)}' is not a valid hunk header. Valid hunk headers: {_HEADERS}")


def _added(reader: _Reader) -> str:
    lines: list[str] = []
    while (line := reader.next) is not None and line.startswith(ADDED):
        lines.append(reader.take()[1:] + "\n")
    return "".join(lines)


def _updated(reader: _Reader, path: str, number: int) -> UpdateFile:
    move_to = ""
    if (line := reader.next) is not None and line.strip().startswith(MOVE):
        move_to = reader.take().strip().removeprefix(MOVE).strip()
    chunks: list[Chunk] = []
    while (line := reader.next) is not None and not line.startswith("***"):
        if line.strip():
            chunks.append(_chunk(reader, first=not chunks))
        else:
            reader.take()
    if not chunks:
        raise _wrong(number, f"Update file hunk for path '{_short(path)}' is empty")
    return UpdateFile(path, tuple(chunks), move_to)


def _chunk(reader: _Reader, *, first: bool) -> Chunk:
    anchors, marked = _anchors(reader)
    if not marked and not first:
        got = _short(reader.next or "")
        raise _wrong(reader.number, f"Expected update hunk to start with a @@ context marker, got: '{got}'")
    lines: list[Line] = []
    while (line := reader.next) is not None:
        if line.rstrip() == END_OF_FILE and lines:
            reader.take()
            return Chunk(tuple(lines), anchors, at_end=True)
        kind = line[:1] or KEPT
        if kind not in (KEPT, REMOVED, ADDED):
            break
        lines.append((kind, reader.take()[1:]))
    if not lines:
        raise _no_lines(reader)
    return Chunk(tuple(lines), anchors)


def _anchors(reader: _Reader) -> tuple[tuple[str, ...], bool]:
    """The texts behind '@@', and whether there was any '@@'."""
    anchors: list[str] = []
    marked = False
    while (line := reader.next) is not None and (line.rstrip() == "@@" or line.startswith("@@ ")):
        marked = True
        if text := reader.take()[3:].rstrip():
            anchors.append(text)
    return tuple(anchors), marked


def _no_lines(reader: _Reader) -> ToolError:
    line = reader.next
    if line is None or line.rstrip() == END_OF_FILE:
        return _wrong(reader.number, "Update hunk does not contain any lines")
    return _wrong(reader.number, f"Unexpected line found in update hunk: '{_short(line)}'. {_PREFIXES}")


def _lines(text: str) -> list[str]:
    return [line.removesuffix("\r") for line in text.split("\n")]


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _invalid(message: str) -> ToolError:
    return ToolError(message, kind="validation")


def _wrong(number: int, message: str) -> ToolError:
    return ToolError(f"Invalid patch hunk on line {number}: {message}", kind="validation", details={"line": number})
