"""How every tool that changes text files loads and saves one, and what is said of a file that is not there.

Law: what the model has not read, or what has changed since, is not changed.
"""

import os
import stat
from collections.abc import Callable
from difflib import get_close_matches
from itertools import islice
from typing import Any

import msgspec

from toolglot.builtin.arguments import make_preview
from toolglot.builtin.files.text import Document, TextFormat, count_changed_lines, decode_document, split_lines, unified_diff
from toolglot.builtin.files.workspace import FileVersion, WorkspaceEntry
from toolglot.builtin.tool_state import ToolState
from toolglot.errors import ToolError

__all__ = [
    "MAX_TEXT_BYTES",
    "LoadedFile",
    "TextChange",
    "diff_preview",
    "load_document",
    "load_file",
    "missing_file_error",
    "save_change",
]

MAX_TEXT_BYTES = 10 * 1024 * 1024
"""Bytes of a file that is edited, and characters of one that is written."""
_MAX_SCANNED_NAMES = 5000


class LoadedFile(msgspec.Struct, frozen=True):
    """A file as it is before a change. document None: it is no text, or too large to be looked at."""

    document: Document | None
    version: FileVersion
    too_large: bool = False


def load_file(state: ToolState, path: str, *, require_read: bool | None) -> LoadedFile | None:
    """The file at a path; None: there is none. require_read None: it need not be what the model has seen. Raises ToolError."""
    found = state.workspace.inspect(path)
    if found is None:
        return None
    if stat.S_ISDIR(found.status.st_mode):
        raise ToolError(f"{path!r} is a folder, not a file: give the path of a file in it", kind="execution")
    data, opened = state.workspace.read(path, MAX_TEXT_BYTES)
    if require_read is not None:
        _check_was_read(state, path, opened, require_read)
    large = len(data) > MAX_TEXT_BYTES
    return LoadedFile(None if large else decode_document(data), opened.version, large)


def _check_was_read(state: ToolState, path: str, entry: WorkspaceEntry, require_read: bool) -> None:
    seen = state.seen_versions.get(entry.path)
    if seen is None and require_read and entry.status.st_size:
        raise ToolError(f"{path!r} has not been read yet: read it first, then change it", kind="not_allowed")
    if seen is not None and seen != entry.version:
        raise ToolError(f"{path!r} has changed since it was read: read it again, then change it", kind="not_allowed")


def load_document(state: ToolState, path: str, *, require_read: bool | None) -> tuple[Document, FileVersion]:
    """A text file that is there. Raises ToolError."""
    loaded = load_file(state, path, require_read=require_read)
    if loaded is None:
        raise missing_file_error(state, path)
    if loaded.too_large:
        raise ToolError(f"{path!r} is larger than {MAX_TEXT_BYTES >> 20} MB, which is too large to be edited", kind="limit")
    if loaded.document is None:
        raise ToolError(f"{path!r} is not a text file, so it cannot be edited", kind="execution")
    return loaded.document, loaded.version


class TextChange(msgspec.Struct, frozen=True, kw_only=True):
    """A text file before and after a change. data: what its bytes are to be; seen: what it must still be."""

    before: str
    after: str
    format: TextFormat
    data: bytes
    expected: "FileVersion | str"


def diff_preview(plan: Callable[..., TextChange]) -> Callable[[dict[str, Any]], str]:
    """What a call would change, as a difference; and where it would fail, why."""

    def difference(path: str, **given: Any) -> str:
        found = plan(path, **given)
        return unified_diff(found.before, found.after, path)

    return make_preview(difference)


def save_change(state: ToolState, path: str, change: TextChange) -> dict[str, Any]:
    """Writes what was planned, and knows that the model knows it: what every tool tells of it. Raises ToolError."""
    written = state.workspace.write(path, change.data, expected=change.expected)
    state.mark_seen(written.path, written.version)
    shown = state.display_path(written.path)
    added, removed = count_changed_lines(change.before, change.after)
    return {
        "path": shown,
        "absolute": str(written.path),
        "created": written.created,
        "size": len(change.data),
        "lines": len(split_lines(change.after)),
        "added": added,
        "removed": removed,
        "diff": unified_diff(change.before, change.after, shown),
        "encoding": change.format.encoding,
        "bom": change.format.bom,
        "newline": change.format.newline,
    }


def missing_file_error(state: ToolState, path: str) -> ToolError:
    """That there is no such file, and which ones are called nearly so."""
    above, _, name = path.rstrip("/").rpartition("/")
    folder = above or ("/" if path.startswith("/") else ".")
    try:
        with state.workspace.open_directory(folder) as opened, os.scandir(opened.fd) as entries:
            names = [entry.name for entry in islice(entries, _MAX_SCANNED_NAMES)]
    except ToolError:
        return ToolError(
            f"there is no {path!r}, and no folder {folder!r} either: list_dir shows what is there", kind="not_found"
        )
    near = get_close_matches(name, names, n=3, cutoff=0.5)
    near = near or [one for one in names if name and name.casefold() in one.casefold()][:3]
    meant = [f"{above}/{one}" if above or path.startswith("/") else one for one in near]
    said = f"did you mean {' or '.join(map(repr, meant))}?" if meant else "list_dir shows what is there"
    return ToolError(f"there is no {path!r}: {said}", kind="not_found")
