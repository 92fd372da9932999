"""The tool `patch`, which changes many files at once.

Invariants: the new content of every file is worked out before the first one is touched, and then all change
or none. A file is overwritten only if it still is what this call has read. Sections of one patch see what the
sections before them did.
"""

import posixpath
import stat
import sys
import unicodedata
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, Literal

import msgspec

from toolglot.builtin.edit.patch_language import (
    AddFile,
    DeleteFile,
    PatchOp,
    PatchOperation,
    UpdateFile,
    apply_placements,
    locate_chunks,
    operation_to_ops,
    parse_patch,
    split_file,
)
from toolglot.builtin.files.descriptors import ACCESS_LIST, check_regular_file, read_attributes
from toolglot.builtin.files.text import check_text, decode_document
from toolglot.builtin.files.text_files import suggest_paths
from toolglot.builtin.files.workspace import Change, Workspace, WorkspaceEntry
from toolglot.builtin.scopes import path_subject
from toolglot.builtin.tool_state import ToolState
from toolglot.common.textutil import LineEdit, did_you_mean, render_diff, truncate
from toolglot.errors import ToolError
from toolglot.schema.derive import Internal
from toolglot.tools.context import Context
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool
from toolglot.values.failures import MissingPath, PatchedFileFailed, invalid_argument

__all__ = ["patch_tools"]

MAX_PATCH_CHARS = 4 * 2**20
MAX_FILES = 200  # each is held open while all are changed
MAX_FILE_BYTES = 16 * 2**20
MAX_TOTAL_BYTES = 64 * 2**20
MAX_DIFF_CHARS = 100_000  # of all files together
_MAX_SHOWN_PATH = 300
PatchAction = Literal["write", "update", "delete"]
_ACTIONS: dict[PatchAction, str] = {
    "write": "write file",
    "update": "read file to update",
    "delete": "delete file",
}
_EXAMPLE = """*** Begin Patch
*** Update File: app/cart.py
@@ class Cart:
     def total(self):
-        return sum(self.items)
+        return sum(item.price for item in self.items)
*** Add File: notes/todo.md
+# Todo
*** End Patch"""


def patch_tools(state: ToolState) -> list[Tool]:
    """Return the tool `patch`."""
    tools = _PatchTool(state)
    return [
        Tool(
            tools.patch,
            effects=("read", "write"),
            action="edit",
            verb="Edit",
            confined=state.workspace.protects_all,
            scope=lambda arguments: [
                path_subject(state, path, "write") for path in list_patched_paths(arguments)
            ],
            target=tools.target,
            preview=tools.preview,
            examples=[{"text": _EXAMPLE}],
        )
    ]


class _PatchTool:
    """The tool as a method."""

    def __init__(self, state: ToolState) -> None:
        self._state = state

    def patch(
        self, context: Context, text: str = "", ops: Annotated[list[PatchOperation] | None, Internal] = None
    ) -> ToolOutput:
        """Apply a patch to one or more files: all of it, or nothing if any part does not fit.

        Read the files first.

        A patch has sections between '*** Begin Patch' and '*** End Patch': '*** Add File: PATH' with the
        content, each line after '+'; '*** Delete File: PATH'; '*** Update File: PATH', optionally '*** Move
        to: PATH', then chunks. A chunk begins with '@@', or '@@ ' and a line of the file to search after;
        then lines prefixed with ' ' (unchanged), '-' (removed) or '+' (added), exactly as in the file, with
        about three unchanged lines around a change. '*** End of File' after a chunk means that it ends the
        file. Chunks must follow the order of the file.

        Args:
            context: The call.
            text: The complete patch.
            ops: The same as a list of operations, instead of text.
        """
        started_at, state = monotonic(), self._state
        with state.lock:
            draft = _PatchDraft(
                state.workspace, _parse_ops(text, ops), should_stop=lambda: context.is_cancelled
            )
            files = [file for file in draft.files.values() if file.exists or file.version is not None]
            # The model knows the new content only of files that it wrote whole, or whose old content it knew.
            seen = state.seen_versions
            known: set[Path] = set()
            for file in files:
                if file.is_fully_known or seen.get(file.real_path, "") == file.version:
                    known.add(file.real_path)
            changes = state.workspace.apply_changes(map(_FileDraft.to_change, files))
            for file, change in zip(files, changes, strict=True):
                if change.version is None or file.real_path in known:
                    state.mark_seen(change.path, change.version)
        letters = {"add": "A", "update": "M", "delete": "D"}
        lines = [
            f"{letters[result['op']]} {result['moved_to'] or result['path']}" for result in draft.results
        ]
        data = {"files": draft.results, "seconds": round(monotonic() - started_at, 4)}
        return ToolOutput("\n".join(["Success. Updated the following files:", *lines]), data)

    def preview(self, arguments: dict[str, Any]) -> str:
        """Return what a patch would do to the files as they are now, all of it.

        Raises ToolError if it would fail.
        """
        workspace = self._state.workspace
        draft = _PatchDraft(workspace, _parse_arguments(arguments), diff_limit=sys.maxsize)
        for file in draft.files.values():
            workspace.check_changeable(file.raw_path)
        return "\n".join(draft.descriptions)

    def target(self, arguments: dict[str, Any]) -> str:
        """Return the files that the paths of a patch lead to; a path itself if it is not allowed."""
        names: list[str] = []
        for path in list_patched_paths(arguments):
            names.append(path)
            with suppress(ToolError):
                names[-1] = self._state.display_path(self._state.workspace.resolve(path))
        return ", ".join(dict.fromkeys(names))


def list_patched_paths(arguments: dict[str, Any]) -> list[str]:
    """Return the paths that a patch names; [] if it is invalid."""
    ops: list[PatchOp] = []
    with suppress(ToolError, msgspec.ValidationError):
        ops = _parse_arguments(arguments)
    paths: list[str] = []
    for op in ops:
        paths.append(op.path)
        if isinstance(op, UpdateFile):
            paths.append(op.move_to)
    return list(filter(None, paths))


def _parse_ops(text: str, operations: Sequence[PatchOperation] | None) -> list[PatchOp]:
    operations = operations or ()
    if text and operations:
        raise invalid_argument("text", "and operations exclude each other")
    if not text and not operations:
        raise invalid_argument("text", "is missing; write the patch")
    parts = [text]
    for operation in operations:
        parts += [operation.path, operation.diff]
    size = sum(map(len, parts))
    if size > MAX_PATCH_CHARS:
        raise invalid_argument(
            "text", f"has {size} characters; the maximum is {MAX_PATCH_CHARS}: split it", kind="limit"
        )
    for part in parts:
        check_text(part, "text", MAX_PATCH_CHARS)
    ops = (
        parse_patch(text) if text else [op for operation in operations for op in operation_to_ops(operation)]
    )
    if len(ops) > MAX_FILES:
        raise invalid_argument(
            "text", f"has {len(ops)} sections; the maximum is {MAX_FILES}: split it", kind="limit"
        )
    return ops


def _parse_arguments(arguments: dict[str, Any]) -> list[PatchOp]:
    """Return the operations of a call that has not been checked yet.

    Raises ToolError, msgspec.ValidationError.
    """
    return _parse_ops(
        arguments.get("text") or "", msgspec.convert(arguments.get("ops") or [], list[PatchOperation])
    )


# ---- drafts


class _FileDraft:
    """What a file was when the patch first looked at it, and its new content so far."""

    def __init__(self, raw_path: str, real_path: Path, entry: WorkspaceEntry | None) -> None:
        self.raw_path, self.real_path = raw_path, real_path
        self.version = entry.version if entry else None
        # With an access list, the bits of the group are not the group's: a moved file has no list, so it gets
        # none of them.
        mask = 0o707 if entry and ACCESS_LIST in read_attributes(entry.absolute_path) else 0o777
        self.mode = stat.S_IMODE(entry.status.st_mode) & mask if entry else None
        self.size = entry.status.st_size if entry else 0
        self.data: bytes | None = None
        """None: not read yet, or there is no file."""
        self.exists, self.is_fully_known, self.new_mode = entry is not None, False, None
        """is_fully_known: the model has written all of it."""

    def set_content(self, data: bytes, *, mode: int | None = None, is_fully_known: bool = False) -> None:
        self.data, self.exists, self.is_fully_known, self.new_mode = data, True, is_fully_known, mode

    def mark_deleted(self) -> None:
        self.data, self.exists = None, False

    def to_change(self) -> Change:
        data = self.data if self.exists else None
        return Change(self.raw_path, data, self.version or "absent", self.new_mode)


class _PatchDraft:
    """All files of one patch, by their real paths: two names of one file are one file."""

    def __init__(
        self,
        workspace: Workspace,
        ops: Sequence[PatchOp],
        *,
        diff_limit: int = MAX_DIFF_CHARS,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._workspace = workspace
        self.files: dict[Path, _FileDraft] = {}
        self.results: list[dict[str, Any]] = []
        """What each section did. Paths are as the patch names them; a diff is truncated if it is long or the
        file not text."""
        self.descriptions: list[str] = []
        """The same for a person: also what is lost."""
        self._loaded_bytes, self._diff_limit, self._diff_budget = 0, diff_limit, diff_limit
        for op in ops:
            if should_stop():
                raise ToolError(
                    "the patch was cancelled; nothing was changed", kind="cancelled", code="cancelled"
                )
            match op:
                case AddFile():
                    self._add_file(op)
                case DeleteFile():
                    self._delete_file(op)
                case UpdateFile():
                    self._update_file(op)

    def _get_file(self, path: str) -> _FileDraft:
        """Return the file at a path. Raises ToolError."""
        entry = self._workspace.inspect(path)
        real_path = entry.path if entry else self._workspace.resolve(path)
        if real_path not in self.files:
            if entry:
                check_regular_file(entry.status, path)
            self.files[real_path] = _FileDraft(path, real_path, entry)
        return self.files[real_path]

    def _get_existing_file(self, path: str, *, is_moved: bool = False) -> _FileDraft:
        """Return a file that must exist; one that leaves its path must not be a link. Raises ToolError."""
        file = self._get_file(path)
        if is_moved and file.version is not None:
            parent, name = posixpath.split(path.rstrip("/"))
            if _fold_case(self._workspace.resolve(parent or ".") / name) != _fold_case(file.real_path):
                message = f"{path!r} is a link: use the path of the file that it leads to"
                raise ToolError(message, kind="not_allowed", code="path_not_allowed")
        if not file.exists:
            suggestions = suggest_paths(self._workspace, path, cutoff=0.7)
            hint = f"; {did_you_mean(suggestions)}" if suggestions else ""
            details = MissingPath(path, suggestions)
            raise ToolError(f"No such file or directory{hint}", code="path_not_found", details=details)
        return file

    def _read_content(self, file: _FileDraft) -> bytes:
        """Return the current content of an existing file. Raises ToolError."""
        if file.data is None:
            if file.size > MAX_FILE_BYTES:
                message = (
                    f"{file.raw_path!r} has {file.size} bytes; a patch can change at most {MAX_FILE_BYTES}"
                )
                raise ToolError(message, kind="limit", code="file_too_large")
            data, entry = self._workspace.read(file.raw_path, MAX_FILE_BYTES)
            if entry.version != file.version or len(data) > MAX_FILE_BYTES:
                message = f"{file.raw_path!r} is being changed by another program: try again"
                raise ToolError(message, code="concurrent_change")
            self._loaded_bytes += len(data)
            if self._loaded_bytes > MAX_TOTAL_BYTES:
                message = f"the files of the patch have over {MAX_TOTAL_BYTES} bytes: split it"
                raise ToolError(message, kind="limit", code="file_too_large")
            file.data = data
        return file.data

    def _read_old_lines(self, file: _FileDraft) -> list[str] | None:
        """Return the lines of a file that is replaced or removed; None if it is too large or not text."""
        if not file.exists:
            return []
        if file.data is None and file.size > MAX_FILE_BYTES:
            return None
        document = decode_document(self._read_content(file))
        return split_file(document.text)[0] if document else None

    # ---- operations

    @contextmanager
    def _explain_failure(self, action: PatchAction, path: str) -> Generator[None]:
        """Raise errors of the block as the program does that this language comes from."""
        try:
            yield
        except ToolError as e:
            suggestions = e.details.suggestions if isinstance(e.details, MissingPath) else ()
            absolute = truncate(str(self._workspace.root / path), _MAX_SHOWN_PATH)
            details = PatchedFileFailed(absolute, suggestions, action=action, problem=str(e))
            message = f"Failed to {_ACTIONS[action]} {truncate(path, _MAX_SHOWN_PATH)}: {e}"
            raise ToolError(message, kind=e.kind, code=e.code, details=details) from None

    def _add_file(self, op: AddFile) -> None:
        with self._explain_failure("write", op.path):
            file = self._get_file(op.path)
            old = self._read_old_lines(file)
        title, old_path = (f"replace {op.path}", op.path) if file.exists else (f"add {op.path}", "/dev/null")
        diff = self._describe_whole(title, old_path, op.path, old, op.content.split("\n")[:-1])
        file.set_content(op.content.encode(), is_fully_known=True)
        self._record("add", op.path, diff)

    def _delete_file(self, op: DeleteFile) -> None:
        with self._explain_failure("delete", op.path):
            file = self._get_existing_file(op.path, is_moved=True)
            old = self._read_old_lines(file)
        file.mark_deleted()
        self._record(
            "delete", op.path, self._describe_whole(f"delete {op.path}", op.path, "/dev/null", old, [])
        )

    def _update_file(self, op: UpdateFile) -> None:
        with self._explain_failure("update", op.path):
            file = self._get_existing_file(op.path, is_moved=bool(op.move_to))
            document = decode_document(self._read_content(file))
            if document is None:
                raise ToolError("it is not a text file", code="not_text")
        lines, _ = split_file(document.text)
        placements = locate_chunks(op.path, lines, op.chunks, str(self._workspace.root / op.path))
        text, edits = apply_placements(document.text, placements)
        data = document.encode(text)
        mode, destination, title = file.new_mode, file, f"update {op.path}"
        if op.move_to:
            with self._explain_failure("write", op.move_to):
                destination = self._get_file(op.move_to)
                lost = self._read_old_lines(destination)
            if destination is file:
                message = f"{op.path!r} cannot be moved to itself: remove '*** Move to' to update it"
                raise ToolError(message, kind="validation", code="invalid_patch")
            if destination.exists:
                self._describe_whole(f"replace {op.move_to}", op.move_to, "/dev/null", lost, [])
            title = f"move {op.path} to {op.move_to}"
            if mode is None:
                mode = file.mode
            file.mark_deleted()
        destination.set_content(data, mode=mode, is_fully_known=file.is_fully_known)
        diff = render_diff(op.path, op.move_to or op.path, lines, edits, limit=self._diff_limit)
        self.descriptions.append(f"{title}\n{diff}")
        self._record("update", op.path, diff, op.move_to)

    def _describe_whole(
        self, title: str, old_path: str, new_path: str, old: list[str] | None, new: list[str]
    ) -> str | None:
        """Describe a file that is added or removed whole; returns the diff, None if its old lines are not
        known.
        """
        old_lines = old or []
        edits = [LineEdit(0, old_lines, new)] if old_lines or new else []
        diff = render_diff(old_path, new_path, old_lines, edits, limit=self._diff_limit)
        if old is None:
            self.descriptions.append(
                f"{title} (what it contains now is not text, or too long to show)\n{diff}"
            )
            return None
        self.descriptions.append(f"{title}\n{diff}")
        return diff

    def _record(
        self, op: Literal["add", "update", "delete"], path: str, diff: str | None, moved_to: str = ""
    ) -> None:
        """Add the result of a section, with as much of the diff as the budget of the whole patch allows."""
        shown = (diff or "")[: self._diff_budget]
        self._diff_budget -= len(shown)
        result = {
            "op": op,
            "path": path,
            "moved_to": moved_to or None,
            "diff": shown,
            "truncated": shown != diff,
        }
        self.results.append(result)


def _fold_case(path: Path) -> str:
    """Return a path as a case-insensitive file system compares it."""
    return unicodedata.normalize("NFC", str(path)).casefold()
