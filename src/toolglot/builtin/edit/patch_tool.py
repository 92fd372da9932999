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

from toolglot.builtin.edit.patch.apply import LineEdit, apply_placements, read_document, render_diff
from toolglot.builtin.edit.patch.locate import locate_chunks
from toolglot.builtin.edit.patch.parse import (
    AddFile,
    DeleteFile,
    PatchOp,
    PatchOperation,
    UpdateFile,
    operation_to_ops,
    parse_patch,
    render_patch,
)
from toolglot.builtin.files.workspace import Change, Workspace, WorkspaceEntry
from toolglot.builtin.tool_state import ToolState, to_data
from toolglot.errors import ToolError
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool

__all__ = ["PatchFileResult", "PatchResult", "patch_tools"]

MAX_PATCH_CHARS = 4 * 2**20  # characters of a patch
MAX_FILES = 200  # each is held open while all are changed
MAX_FILE_BYTES = 16 * 2**20  # of one file
MAX_TOTAL_BYTES = 64 * 2**20
MAX_DIFF_CHARS = 100_000  # characters, of all files together
_MAX_SCANNED_NAMES, _MAX_SHOWN_PATH = 2000, 300
_EXAMPLE = """*** Begin Patch
*** Update File: app/cart.py
@@ class Cart:
     def total(self):
-        return sum(self.items)
+        return sum(item.price for item in self.items)
*** Add File: notes/todo.md
+# Todo
*** End Patch"""


class PatchFileResult(msgspec.Struct, frozen=True):
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


class PatchResult(msgspec.Struct, frozen=True):
    """What a patch did, section by section."""

    files: list[PatchFileResult]
    seconds: float = 0.0


def patch_tools(state: ToolState) -> list[Tool]:
    """The tool `patch`."""

    def target(arguments: dict[str, Any]) -> str:
        return ", ".join(
            dict.fromkeys(_resolve_path(state, path) for op in _parse_arguments(arguments) for path in _list_paths(op))
        )

    def preview(arguments: dict[str, Any]) -> str:
        return arguments.get("text") or render_patch(_parse_arguments(arguments))

    example = {"text": _EXAMPLE}

    @tool(name="patch", effects=("read", "write"), examples=[example], target=target, preview=preview)
    def patch(context: Context, text: str = "", ops: list[PatchOperation] | None = None) -> ToolOutput:
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
        with state.lock:
            return _apply_patch(state, context, _parse_ops(text, ops), began)

    return [patch]


# ---- what a call says


def _parse_ops(text: str, operations: Sequence[PatchOperation] | None) -> list[PatchOp]:
    if bool(text) == bool(operations):
        raise ToolError("a patch is either text or ops: give exactly one of them", kind="validation")
    _check_patch_text(text, *(part for one in operations or () for part in (one.path, one.diff)))
    ops = parse_patch(text) if text else [op for one in operations or () for op in operation_to_ops(one)]
    if len(ops) > MAX_FILES:
        raise ToolError(f"the patch has {len(ops)} sections; at most {MAX_FILES} go at once: split it", kind="limit")
    return ops


def _check_patch_text(*texts: str) -> None:
    if (size := sum(map(len, texts))) > MAX_PATCH_CHARS:
        raise ToolError(f"the patch has {size} characters; at most {MAX_PATCH_CHARS} go at once: split it", kind="limit")
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as e:
            number = text.count("\n", 0, e.start) + 1
            raise ToolError(f"the patch holds half a character in line {number}: leave it out", kind="validation") from None


def _parse_arguments(arguments: dict[str, Any]) -> list[PatchOp]:
    """The operations of a call that was not made yet; [] where it cannot be made."""
    try:
        return _parse_ops(arguments.get("text") or "", [_build_operation(one) for one in arguments.get("ops") or ()])
    except ToolError:
        return []


def _build_operation(fields: dict[str, Any]) -> PatchOperation:
    return PatchOperation(**{name: fields[name] for name in ("type", "path", "diff") if name in fields})


def _list_paths(op: PatchOp) -> list[str]:
    return [op.path, op.move_to] if isinstance(op, UpdateFile) and op.move_to else [op.path]


def _resolve_path(state: ToolState, path: str) -> str:
    """The file that a path leads to; the path itself where there is none, or where it is not to be looked at."""
    try:
        found = state.workspace.inspect(path)
    except ToolError:
        return path
    return state.display_path(found.path) if found else path


# ---- files on their way


class _FileDraft:
    """What a file was when it was looked at, and what it is to be."""

    def __init__(self, raw_path: str, real_path: Path, entry: WorkspaceEntry | None) -> None:
        self.raw_path, self.real_path = raw_path, real_path
        self.version = entry.version if entry else None
        self.mode = stat.S_IMODE(entry.status.st_mode) & 0o777 if entry else None
        self.size = entry.status.st_size if entry else 0
        self.data: bytes | None = None
        """None: not read yet, or there is no file."""
        self.exists, self.is_fully_known, self.new_mode = entry is not None, False, None
        """whole: the model has written all of it."""

    def set_content(self, data: bytes, *, mode: int | None = None, is_fully_known: bool = False) -> None:
        self.data, self.exists, self.is_fully_known, self.new_mode = data, True, is_fully_known, mode

    def mark_deleted(self) -> None:
        self.data, self.exists = None, False

    @property
    def has_changes(self) -> bool:
        return self.exists or self.version is not None

    def to_change(self) -> Change:
        data = self.data if self.exists else None
        return Change(self.raw_path, data, self.version or "absent", self.new_mode)


class _PatchDraft:
    """All files of one patch, by their real paths: two names of one file are one file."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self.files: dict[Path, _FileDraft] = {}
        self._loaded_bytes = 0

    def get_file(self, path: str) -> _FileDraft:
        """The file at a path as it is by now. Raises ToolError."""
        opened = self._workspace.inspect(path)
        real = opened.path if opened else self._resolve_missing(path)
        if real not in self.files:
            if opened and not stat.S_ISREG(opened.status.st_mode):
                what = "a folder" if stat.S_ISDIR(opened.status.st_mode) else "not a regular file"
                raise ToolError(f"{path!r} is {what}", kind="execution")
            self.files[real] = _FileDraft(path, real, opened)
        return self.files[real]

    def get_movable_file(self, path: str) -> _FileDraft:
        """A file that is to leave this path, which must be its own and not a link to it. Raises ToolError."""
        file = self.get_file(path)
        if file.version is not None:
            folder, name = self._resolve_parent(path)
            if folder is None or _fold_case(folder / name) != _fold_case(file.real_path):
                raise ToolError(f"{path!r} is a link: name the file that it leads to", kind="not_allowed")
        return file

    def read_content(self, file: _FileDraft) -> bytes:
        """What an existing file holds by now. Raises ToolError."""
        if file.data is None:
            if file.size > MAX_FILE_BYTES:
                raise ToolError(
                    f"{file.raw_path!r} has {file.size} bytes; a patch takes at most {MAX_FILE_BYTES}", kind="limit"
                )
            data, opened = self._workspace.read(file.raw_path, MAX_FILE_BYTES)
            if opened.version != file.version or len(data) > MAX_FILE_BYTES:
                raise ToolError(f"{file.raw_path!r} is being changed by somebody else: try again", kind="execution")
            self._loaded_bytes += len(data)
            if self._loaded_bytes > MAX_TOTAL_BYTES:
                raise ToolError(f"the files of the patch have over {MAX_TOTAL_BYTES} bytes: split it", kind="limit")
            file.data = data
        return file.data

    def read_old_lines(self, file: _FileDraft) -> list[str] | None:
        """The lines of a file that is to be replaced or removed; None where there are too many to look at."""
        if not file.exists:
            return []
        if file.data is None and file.size > MAX_FILE_BYTES:
            return None
        return read_document(self.read_content(file)).lines

    def suggest_names(self, path: str) -> str:
        """A hint at names that are like one that is not there; "" without any."""
        above, name = posixpath.split(path)
        try:
            with self._workspace.open_directory(above or ".") as folder, os.scandir(folder.fd) as found:
                names = [entry.name for entry in islice(found, _MAX_SCANNED_NAMES)]
        except (ToolError, OSError):
            return ""
        close = get_close_matches(name, names, n=3, cutoff=0.7)
        return f"; did you mean {' or '.join(repr(posixpath.join(above, one)) for one in close)}?" if close else ""

    def _resolve_parent(self, path: str) -> tuple[Path | None, str]:
        """The real folder of a path where it exists, and the last name."""
        above, name = posixpath.split(path.rstrip("/"))
        folder = self._workspace.inspect(above or ".")
        return folder.path if folder else None, name

    def _resolve_missing(self, path: str) -> Path:
        """The real path of what does not exist yet: the folder that does, and the names below it."""
        missing: list[str] = []
        folder, above = None, path
        while folder is None:
            folder, name = self._resolve_parent(above)
            missing.insert(0, name)
            above = posixpath.dirname(above.rstrip("/"))
        if ".." in missing:
            raise ToolError(f"{path!r}: folders are not made along '..'", kind="validation")
        return folder.joinpath(*missing)


def _fold_case(path: Path) -> str:
    """A path as a file system reads it that knows no case."""
    return unicodedata.normalize("NFC", str(path)).casefold()


# ---- doing it


def _apply_patch(state: ToolState, context: Context, ops: list[PatchOp], started_at: float) -> ToolOutput:
    draft, room = _PatchDraft(state.workspace), MAX_DIFF_CHARS
    files: list[PatchFileResult] = []
    for op in ops:
        if context.is_cancelled:
            raise ToolError("the patch was cancelled; nothing was changed", kind="cancelled")
        files.append(_APPLIERS[type(op)](draft, op, room))
        room = max(room - len(files[-1].diff), 0)
    _write_files(state, [file for file in draft.files.values() if file.has_changes])
    letters = {"add": "A", "update": "M", "delete": "D"}
    said = [f"{letters[file.op]} {file.moved_to or file.path}" for file in files]
    return ToolOutput(
        "\n".join(["Success. Updated the following files:", *said]),
        to_data(PatchResult(files, round(monotonic() - started_at, 4))),
    )


def _write_files(state: ToolState, files: list[_FileDraft]) -> None:
    known = {
        file.real_path for file in files if file.is_fully_known or state.seen_versions.get(file.real_path, "") == file.version
    }
    for file, written in zip(files, state.workspace.apply_changes([file.to_change() for file in files]), strict=True):
        if written.version is None or file.real_path in known:
            state.mark_seen(written.path, written.version)


def _apply_add(draft: _PatchDraft, op: AddFile, diff_budget: int) -> PatchFileResult:
    try:
        file = draft.get_file(op.path)
        old = draft.read_old_lines(file)
    except ToolError as e:
        raise _operation_error("write file", op.path, e) from None
    new = op.content.split("\n")[:-1]
    before = op.path if file.exists else "/dev/null"
    file.set_content(op.content.encode(), is_fully_known=True)
    return _whole_file_result("add", op.path, (before, op.path), old, new, diff_budget)


def _apply_delete(draft: _PatchDraft, op: DeleteFile, diff_budget: int) -> PatchFileResult:
    try:
        file = draft.get_movable_file(op.path)
        if not file.exists:
            raise ToolError(f"No such file or directory{draft.suggest_names(op.path)}")
        old = draft.read_old_lines(file)
    except ToolError as e:
        raise _operation_error("delete file", op.path, e) from None
    file.mark_deleted()
    return _whole_file_result("delete", op.path, (op.path, "/dev/null"), old, [], diff_budget)


def _apply_update(draft: _PatchDraft, op: UpdateFile, diff_budget: int) -> PatchFileResult:
    try:
        file = draft.get_movable_file(op.path) if op.move_to else draft.get_file(op.path)
        if not file.exists:
            raise ToolError(f"No such file or directory{draft.suggest_names(op.path)}")
        document = read_document(draft.read_content(file))
    except ToolError as e:
        raise _operation_error("read file to update", op.path, e) from None
    data, edits = apply_placements(document, locate_chunks(op.path, document.lines, op.chunks))
    if op.move_to:
        _apply_move(draft, file, op, data)
    else:
        file.set_content(data, mode=file.new_mode, is_fully_known=file.is_fully_known)
    diff, cut = _truncate_diff(render_diff(op.path, op.move_to or op.path, document.lines, edits), diff_budget)
    added, removed = sum(len(edit.added) for edit in edits), sum(len(edit.removed) for edit in edits)
    return PatchFileResult("update", op.path, op.move_to or None, added, removed, diff, cut)


def _apply_move(draft: _PatchDraft, file: _FileDraft, op: UpdateFile, data: bytes) -> None:
    """The new content goes to the other path, with the rights that the file has."""
    try:
        to = draft.get_file(op.move_to)
    except ToolError as e:
        raise _operation_error("write file", op.move_to, e) from None
    if to is file:
        raise ToolError(f"{op.path!r} cannot be moved to itself: leave '*** Move to' out to update it", kind="validation")
    to.set_content(data, mode=file.new_mode if file.new_mode is not None else file.mode, is_fully_known=file.is_fully_known)
    file.mark_deleted()


_APPLIERS: dict[type[PatchOp], Any] = {AddFile: _apply_add, DeleteFile: _apply_delete, UpdateFile: _apply_update}


def _operation_error(action: str, path: str, error: ToolError) -> ToolError:
    shown = path if len(path) <= _MAX_SHOWN_PATH else f"{path[:_MAX_SHOWN_PATH]}…"
    return ToolError(f"Failed to {action} {shown}: {error}", kind=error.kind, details=error.details)


def _whole_file_result(
    op: Literal["add", "delete"], path: str, names: tuple[str, str], old: list[str] | None, new: list[str], diff_budget: int
) -> PatchFileResult:
    """A file that was replaced whole, or removed."""
    if old is None:
        return PatchFileResult(op, path, None, len(new), None, "", truncated=True)
    edits = [LineEdit(0, tuple(old), tuple(new))] if old or new else []
    diff, cut = _truncate_diff(render_diff(*names, old, edits), diff_budget)
    return PatchFileResult(op, path, None, len(new), len(old), diff, cut)


def _truncate_diff(diff: str, diff_budget: int) -> tuple[str, bool]:
    if "\0" in diff:
        return "", True
    return diff[:diff_budget], len(diff) > diff_budget
