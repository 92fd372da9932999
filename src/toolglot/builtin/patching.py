"""The tool that applies a patch to many files at once.

Laws: every file is worked out before the first one is touched, and then all change or none. A file is overwritten only if it
still is what this call has read. Sections of one patch see what the sections before them did.
"""

import os
import posixpath
import stat
import unicodedata
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any, Literal

import msgspec

from toolglot.builtin.patch.apply import Edit, edited, read_document, unified
from toolglot.builtin.patch.locate import locate
from toolglot.builtin.patch.parse import AddFile, DeleteFile, Op, Operation, UpdateFile, operation_to_ops, parse_patch, rendered
from toolglot.builtin.toolbox import Toolbox, built
from toolglot.builtin.workspace import Change, Opened, Workspace
from toolglot.errors import ToolError
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool

__all__ = ["Patched", "PatchedFile", "patch_tools"]

MOST_TEXT = 4 * 2**20  # characters of a patch
MOST_FILES = 200  # each is held open while all are changed
MOST_BYTES = 16 * 2**20  # of one file
MOST_IN_ALL = 64 * 2**20
MOST_DIFF = 100_000  # characters, of all files together
_NAMES_LOOKED_AT, _LONGEST_PATH = 2000, 300
_EXAMPLE = """*** Begin Patch
*** Update File: app/cart.py
@@ class Cart:
     def total(self):
-        return sum(self.items)
+        return sum(item.price for item in self.items)
*** Add File: notes/todo.md
+# Todo
*** End Patch"""


class PatchedFile(msgspec.Struct, frozen=True):
    """What one section of a patch did."""

    op: Literal["add", "update", "delete"]
    path: str
    """As the patch says it."""
    moved_to: str | None
    added: int
    """Lines."""
    removed: int | None
    """Lines; None: the old file was too large to count them."""
    diff: str
    """Unified."""
    truncated: bool
    """Whether the diff is cut, or left out, because it is long or the file is not text."""


class Patched(msgspec.Struct, frozen=True):
    """What a patch did, section by section."""

    files: list[PatchedFile]
    seconds: float = 0.0


def patch_tools(box: Toolbox) -> list[Tool]:
    """The tool `patch`."""

    def target(arguments: dict[str, Any]) -> str:
        return ", ".join(dict.fromkeys(_real(box, path) for op in _said(arguments) for path in _paths(op)))

    def preview(arguments: dict[str, Any]) -> str:
        return arguments.get("text") or rendered(_said(arguments))

    example = {"text": _EXAMPLE}

    @tool(name="patch", effects=("read", "write"), examples=[example], target=target, preview=preview)
    def patch(context: Context, text: str = "", ops: list[Operation] | None = None) -> ToolOutput:
        """Applies a patch to one or more files: all of it, or nothing where a part does not fit.

        Between '*** Begin Patch' and '*** End Patch' stand sections: '*** Add File: PATH' with the content, each line behind
        '+'; '*** Delete File: PATH'; '*** Update File: PATH', perhaps '*** Move to: PATH', then chunks. A chunk begins with
        '@@', or with '@@ ' and a line of the file after which to look; then come lines behind ' ' (kept), '-' (removed) or '+'
        (added), as they stand in the file, about three kept ones around a change. '*** End of File' after a chunk says that it
        ends the file. Chunks follow the order of the file.

        Args:
            context: The call.
            text: The whole patch.
            ops: The same as a list of operations on files, instead of text.
        """
        began = monotonic()
        with box.lock:
            return _patched(box, context, _ops(text, ops), began)

    return [patch]


# ---- what a call says


def _ops(text: str, operations: Sequence[Operation] | None) -> list[Op]:
    if bool(text) == bool(operations):
        raise ToolError("a patch is either text or ops: give exactly one of them", kind="validation")
    _check_text(text, *(part for one in operations or () for part in (one.path, one.diff)))
    ops = parse_patch(text) if text else [op for one in operations or () for op in operation_to_ops(one)]
    if len(ops) > MOST_FILES:
        raise ToolError(f"the patch has {len(ops)} sections; at most {MOST_FILES} go at once: split it", kind="limit")
    return ops


def _check_text(*texts: str) -> None:
    if (size := sum(map(len, texts))) > MOST_TEXT:
        raise ToolError(f"the patch has {size} characters; at most {MOST_TEXT} go at once: split it", kind="limit")
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as e:
            number = text.count("\n", 0, e.start) + 1
            raise ToolError(f"the patch holds half a character in line {number}: leave it out", kind="validation") from None


def _said(arguments: dict[str, Any]) -> list[Op]:
    """The operations of a call that was not made yet; [] where it cannot be made."""
    try:
        return _ops(arguments.get("text") or "", [_operation(one) for one in arguments.get("ops") or ()])
    except ToolError:
        return []


def _operation(said: dict[str, Any]) -> Operation:
    return Operation(**{name: said[name] for name in ("type", "path", "diff") if name in said})


def _paths(op: Op) -> list[str]:
    return [op.path, op.move_to] if isinstance(op, UpdateFile) and op.move_to else [op.path]


def _real(box: Toolbox, path: str) -> str:
    """The file that a path leads to; the path itself where there is none, or where it is not to be looked at."""
    try:
        found = box.workspace.look(path)
    except ToolError:
        return path
    return box.shown(found.path) if found else path


# ---- files on their way


class _File:
    """What a file was when it was looked at, and what it is to be."""

    def __init__(self, given: str, real: Path, opened: Opened | None) -> None:
        self.given, self.real = given, real
        self.before = opened.version if opened else None
        self.mode = stat.S_IMODE(opened.status.st_mode) & 0o777 if opened else None
        self.size = opened.status.st_size if opened else 0
        self.data: bytes | None = None
        """None: not read yet, or there is no file."""
        self.exists, self.whole, self.new_mode = opened is not None, False, None
        """whole: the model has written all of it."""

    def put(self, data: bytes, *, mode: int | None = None, whole: bool = False) -> None:
        self.data, self.exists, self.whole, self.new_mode = data, True, whole, mode

    def drop(self) -> None:
        self.data, self.exists = None, False

    @property
    def changes(self) -> bool:
        return self.exists or self.before is not None

    def change(self) -> Change:
        data = self.data if self.exists else None
        return Change(self.given, data, self.before or "absent", self.new_mode)


class _Draft:
    """All files of one patch, by their real paths: two names of one file are one file."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self.files: dict[Path, _File] = {}
        self._held = 0

    def file(self, path: str) -> _File:
        """The file at a path as it is by now. Raises ToolError."""
        opened = self._workspace.look(path)
        real = opened.path if opened else self._absent(path)
        if real not in self.files:
            if opened and not stat.S_ISREG(opened.status.st_mode):
                what = "a folder" if stat.S_ISDIR(opened.status.st_mode) else "not a regular file"
                raise ToolError(f"{path!r} is {what}", kind="execution")
            self.files[real] = _File(path, real, opened)
        return self.files[real]

    def own(self, path: str) -> _File:
        """A file that is to leave this path, which must be its own and not a link to it. Raises ToolError."""
        file = self.file(path)
        if file.before is not None:
            folder, name = self._folder(path)
            if folder is None or _folded(folder / name) != _folded(file.real):
                raise ToolError(f"{path!r} is a link: name the file that it leads to", kind="not_allowed")
        return file

    def content(self, file: _File) -> bytes:
        """What an existing file holds by now. Raises ToolError."""
        if file.data is None:
            if file.size > MOST_BYTES:
                raise ToolError(f"{file.given!r} has {file.size} bytes; a patch takes at most {MOST_BYTES}", kind="limit")
            data, opened = self._workspace.read(file.given, MOST_BYTES)
            if opened.version != file.before or len(data) > MOST_BYTES:
                raise ToolError(f"{file.given!r} is being changed by somebody else: try again", kind="execution")
            self._held += len(data)
            if self._held > MOST_IN_ALL:
                raise ToolError(f"the files of the patch have over {MOST_IN_ALL} bytes: split it", kind="limit")
            file.data = data
        return file.data

    def old_lines(self, file: _File) -> list[str] | None:
        """The lines of a file that is to be replaced or removed; None where there are too many to look at."""
        if not file.exists:
            return []
        if file.data is None and file.size > MOST_BYTES:
            return None
        return read_document(self.content(file)).lines

    def near(self, path: str) -> str:
        """A hint at names that are like one that is not there; "" without any."""
        above, name = posixpath.split(path)
        try:
            with self._workspace.listing(above or ".") as folder, os.scandir(folder.handle) as found:
                names = [entry.name for entry in islice(found, _NAMES_LOOKED_AT)]
        except (ToolError, OSError):
            return ""
        close = get_close_matches(name, names, n=3, cutoff=0.7)
        return f"; did you mean {' or '.join(repr(posixpath.join(above, one)) for one in close)}?" if close else ""

    def _folder(self, path: str) -> tuple[Path | None, str]:
        """The real folder of a path where it exists, and the last name."""
        above, name = posixpath.split(path.rstrip("/"))
        folder = self._workspace.look(above or ".")
        return folder.path if folder else None, name

    def _absent(self, path: str) -> Path:
        """The real path of what does not exist yet: the folder that does, and the names below it."""
        missing: list[str] = []
        folder, above = None, path
        while folder is None:
            folder, name = self._folder(above)
            missing.insert(0, name)
            above = posixpath.dirname(above.rstrip("/"))
        if ".." in missing:
            raise ToolError(f"{path!r}: folders are not made along '..'", kind="validation")
        return folder.joinpath(*missing)


def _folded(path: Path) -> str:
    """A path as a file system reads it that knows no case."""
    return unicodedata.normalize("NFC", str(path)).casefold()


# ---- doing it


def _patched(box: Toolbox, context: Context, ops: list[Op], began: float) -> ToolOutput:
    draft, room = _Draft(box.workspace), MOST_DIFF
    files: list[PatchedFile] = []
    for op in ops:
        if context.cancelled:
            raise ToolError("the patch was cancelled; nothing was changed", kind="cancelled")
        files.append(_DOINGS[type(op)](draft, op, room))
        room = max(room - len(files[-1].diff), 0)
    _write(box, [file for file in draft.files.values() if file.changes])
    letters = {"add": "A", "update": "M", "delete": "D"}
    said = [f"{letters[file.op]} {file.moved_to or file.path}" for file in files]
    return ToolOutput(
        "\n".join(["Success. Updated the following files:", *said]), built(Patched(files, round(monotonic() - began, 4)))
    )


def _write(box: Toolbox, files: list[_File]) -> None:
    known = {file.real for file in files if file.whole or box.versions.get(file.real, "") == file.before}
    for file, written in zip(files, box.workspace.change([file.change() for file in files]), strict=True):
        if written.version is None or file.real in known:
            box.saw(written.path, written.version)


def _add(draft: _Draft, op: AddFile, room: int) -> PatchedFile:
    try:
        file = draft.file(op.path)
        old = draft.old_lines(file)
    except ToolError as e:
        raise _failed("write file", op.path, e) from None
    new = op.content.split("\n")[:-1]
    before = op.path if file.exists else "/dev/null"
    file.put(op.content.encode(), whole=True)
    return _replaced("add", op.path, (before, op.path), old, new, room)


def _delete(draft: _Draft, op: DeleteFile, room: int) -> PatchedFile:
    try:
        file = draft.own(op.path)
        if not file.exists:
            raise ToolError(f"No such file or directory{draft.near(op.path)}")
        old = draft.old_lines(file)
    except ToolError as e:
        raise _failed("delete file", op.path, e) from None
    file.drop()
    return _replaced("delete", op.path, (op.path, "/dev/null"), old, [], room)


def _update(draft: _Draft, op: UpdateFile, room: int) -> PatchedFile:
    try:
        file = draft.own(op.path) if op.move_to else draft.file(op.path)
        if not file.exists:
            raise ToolError(f"No such file or directory{draft.near(op.path)}")
        document = read_document(draft.content(file))
    except ToolError as e:
        raise _failed("read file to update", op.path, e) from None
    data, edits = edited(document, locate(op.path, document.lines, op.chunks))
    if op.move_to:
        _move(draft, file, op, data)
    else:
        file.put(data, mode=file.new_mode, whole=file.whole)
    diff, cut = _cut(unified(op.path, op.move_to or op.path, document.lines, edits), room)
    added, removed = sum(len(edit.added) for edit in edits), sum(len(edit.removed) for edit in edits)
    return PatchedFile("update", op.path, op.move_to or None, added, removed, diff, cut)


def _move(draft: _Draft, file: _File, op: UpdateFile, data: bytes) -> None:
    """The new content goes to the other path, with the rights that the file has."""
    try:
        to = draft.file(op.move_to)
    except ToolError as e:
        raise _failed("write file", op.move_to, e) from None
    if to is file:
        raise ToolError(f"{op.path!r} cannot be moved to itself: leave '*** Move to' out to update it", kind="validation")
    to.put(data, mode=file.new_mode if file.new_mode is not None else file.mode, whole=file.whole)
    file.drop()


_DOINGS: dict[type[Op], Any] = {AddFile: _add, DeleteFile: _delete, UpdateFile: _update}


def _failed(doing: str, path: str, error: ToolError) -> ToolError:
    shown = path if len(path) <= _LONGEST_PATH else f"{path[:_LONGEST_PATH]}…"
    return ToolError(f"Failed to {doing} {shown}: {error}", kind=error.kind, details=error.details)


def _replaced(
    op: Literal["add", "delete"], path: str, names: tuple[str, str], old: list[str] | None, new: list[str], room: int
) -> PatchedFile:
    """A file that was replaced whole, or removed."""
    if old is None:
        return PatchedFile(op, path, None, len(new), None, "", truncated=True)
    edits = [Edit(0, tuple(old), tuple(new))] if old or new else []
    diff, cut = _cut(unified(*names, old, edits), room)
    return PatchedFile(op, path, None, len(new), len(old), diff, cut)


def _cut(diff: str, room: int) -> tuple[str, bool]:
    if "\0" in diff:
        return "", True
    return diff[:room], len(diff) > room
