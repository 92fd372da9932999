"""How every tool that changes text files loads and saves them.

Invariants: a file that the model has not read, or that has changed since, is not changed.
"""

import os
import posixpath
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from math import inf
from typing import Any, Literal, Self

import msgspec

from toolglot.builtin.arguments import make_preview
from toolglot.builtin.files.text import Document, Encoding, decode_document
from toolglot.builtin.files.workspace import FileVersion, Workspace
from toolglot.builtin.tool_state import ReadRule, ToolState
from toolglot.common.textutil import did_you_mean, excerpt_changes, split_lines, suggest, unified_diff
from toolglot.confine.roots import decode_escaped_bytes
from toolglot.errors import ToolError
from toolglot.values.failures import MissingPath

__all__ = [
    "MAX_TEXT_BYTES",
    "LoadedFile",
    "SavedFile",
    "TextChange",
    "diff_preview",
    "load_document",
    "load_file",
    "missing_file_error",
    "save_change",
    "suggest_paths",
]

MAX_TEXT_BYTES = 10 * 1024 * 1024
"""Bytes of a file that is edited, and characters of one that is written."""
_MAX_SCANNED_NAMES = 5000


class LoadedFile(msgspec.Struct, frozen=True):
    """A file before a change, or an empty document for one that is "absent".

    No document: it is not text, or too large.
    """

    document: Document | None
    version: "FileVersion | str"

    def require_document(self, path: str) -> Document:
        """Return the document. Raises ToolError."""
        if isinstance(self.version, FileVersion) and self.version.size > MAX_TEXT_BYTES:
            message = f"{path!r} is larger than {MAX_TEXT_BYTES >> 20} MB, which is too large to edit"
            raise ToolError(message, kind="limit", code="file_too_large")
        if self.document is None:
            raise ToolError(f"{path!r} is not a text file, so it cannot be edited", code="not_text")
        return self.document


def load_file(state: ToolState, path: str, read_first: ReadRule = "required") -> LoadedFile:
    """Load a file that may be absent.

    `read_first`: what the harness demands, unless ours is weaker. Raises ToolError.
    """
    entry = state.workspace.inspect(path)
    if entry is None:
        return LoadedFile(Document(), "absent")
    if entry.is_directory:
        raise ToolError(
            f"{path!r} is a directory, not a file: use the path of a file in it", code="is_directory"
        )
    data, entry = state.workspace.read(path, MAX_TEXT_BYTES)
    seen = state.seen_versions.get(entry.path)
    if seen is None and state.must_be_seen(read_first) and entry.status.st_size:
        message = f"{path!r} has not been read yet: read it first, then change it"
        raise ToolError(message, kind="not_allowed", code="not_read_yet")
    if seen is not None and seen != entry.version and state.must_be_current(read_first):
        message = f"{path!r} has changed since it was read: read it again, then change it"
        raise ToolError(message, kind="not_allowed", code="changed_since_read")
    document = decode_document(data) if len(data) <= MAX_TEXT_BYTES else None
    return LoadedFile(document, entry.version)


def load_document(
    state: ToolState, path: str, read_first: ReadRule = "required"
) -> "tuple[Document, FileVersion | str]":
    """Load a text file that must exist. Raises ToolError."""
    loaded = load_file(state, path, read_first)
    if loaded.version == "absent":
        raise missing_file_error(state, path)
    return loaded.require_document(path), loaded.version


class TextChange(msgspec.Struct, frozen=True, kw_only=True):
    """A text file before and after a change: its new bytes, and the version (or "absent") that it must still
    have.
    """

    before: str
    after: str
    encoding: Encoding
    data: bytes
    expected: "FileVersion | str"

    @classmethod
    def plan(
        cls, path: str, document: Document, after: str, expected: "FileVersion | str", **extra: Any
    ) -> Self:
        """Return the change of a document into a text.

        Raises ToolError if that is too large or cannot be encoded.
        """
        if len(after) > MAX_TEXT_BYTES:
            message = f"{path!r} would be larger than {MAX_TEXT_BYTES >> 20} MB, which is too large to write"
            raise ToolError(message, kind="limit", code="file_too_large")
        data = document.encode(after)
        return cls(
            before=document.text,
            after=after,
            encoding=document.encoding,
            data=data,
            expected=expected,
            **extra,
        )


class SavedFile(msgspec.Struct, frozen=True, kw_only=True):
    """The data that every tool that changes a text file reports; each adds its own."""

    path: str
    """For display: relative to the root."""
    absolute: str
    created: bool
    known: Literal["new", "unread", "changed", "current"]
    """What the model knew of the file before: nothing, an older version, or the one that was changed."""
    size: int
    lines: int
    final_newline: bool
    diff: str
    context: str
    """The changed lines with five lines around each change, all lines if there are no others; `...` stands
    for omitted ones."""
    encoding: Encoding


def diff_preview(state: ToolState, plan: Callable[..., TextChange]) -> Callable[[dict[str, Any]], str]:
    """Return a preview of a call as a diff, which is never truncated, or why it will fail."""

    def describe(path: str, **arguments: Any) -> str:
        change = plan(path, **arguments)
        state.workspace.check_changeable(path)
        return unified_diff(change.before, change.after, path.replace("\n", "␊"), limit=inf)

    return make_preview(describe)


def save_change(state: ToolState, path: str, change: TextChange, read_first: ReadRule) -> SavedFile:
    """Write a planned change and mark it as seen. Raises ToolError."""
    result = state.workspace.write(path, change.data, expected=change.expected)
    seen = state.seen_versions.get(result.path)
    if not (result.created and read_first == "shown"):
        state.mark_seen(result.path, result.version)
    known: Literal["new", "unread", "changed", "current"] = "changed"
    if result.created:
        known = "new"
    elif seen is None:
        known = "unread"
    elif seen == change.expected:
        known = "current"
    display_path = state.display_path(result.path)
    return SavedFile(
        path=display_path,
        absolute=str(result.path),
        created=result.created,
        known=known,
        size=len(change.data),
        lines=len(split_lines(change.after)),
        final_newline=change.after.endswith("\n"),
        diff=unified_diff(change.before, change.after, display_path),
        context=excerpt_changes(change.before, change.after),
        encoding=change.encoding,
    )


def missing_file_error(state: ToolState, path: str) -> ToolError:
    """Return the error for a path where nothing is, with existing paths of similar names."""
    suggestions = suggest_paths(state.workspace, path, cutoff=0.5)
    hint = did_you_mean(suggestions) or "list its directory to see what exists"
    with suppress(ToolError):
        if state.workspace.inspect(directory := _parent_directory(path)) is None:
            hint = f"there is no directory {directory!r} either: list the one above it"
    details = MissingPath(path, suggestions, state.working_directory)
    if (target := _read_dangling_link(state.workspace, path)) is not None:
        message = f"{path!r} is a symbolic link to {target!r}, where nothing is; use the path of a file"
        return ToolError(message, kind="not_found", code="path_not_found", details=details)
    return ToolError(
        f"no such file: {path!r}; {hint}", kind="not_found", code="path_not_found", details=details
    )


def _read_dangling_link(workspace: Workspace, path: str) -> str | None:
    """Return where a link leads that leads nowhere; None if it is no link."""
    try:
        with workspace.open_directory(_parent_directory(path)) as entry:
            return os.readlink(posixpath.basename(decode_escaped_bytes(path).rstrip("/")), dir_fd=entry.fd)
    except (ToolError, OSError):
        return None


def _parent_directory(path: str) -> str:
    return posixpath.dirname(path.rstrip("/")) or "."


def suggest_paths(workspace: Workspace, path: str, *, cutoff: float) -> tuple[str, ...]:
    """Return existing paths in the same directory with similar names, best first."""
    parent, name = posixpath.split(path.rstrip("/"))
    try:
        with workspace.open_directory(_parent_directory(path)) as entry, os.scandir(entry.fd) as entries:
            # a link to nothing
            names = [child.name for child in islice(entries, _MAX_SCANNED_NAMES) if child.name != name]
    except (ToolError, OSError):
        return ()
    stem, _ = posixpath.splitext(name)
    similar: list[str] = []
    for other in suggest(name, names, cutoff=cutoff):
        if suggest(stem, [posixpath.splitext(other)[0]]):  # not only because of the same suffix
            similar.append(other)
    if name and not similar:
        similar = [other for other in names if name.casefold() in other.casefold()][:3]
    return tuple(posixpath.join(parent, other) for other in similar)
