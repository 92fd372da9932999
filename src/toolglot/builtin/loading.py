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

from toolglot.builtin.arguments import previewing
from toolglot.builtin.text import Document, Form, changed_lines, decoded, lines_of, unified
from toolglot.builtin.toolbox import Toolbox
from toolglot.builtin.workspace import Opened, Version
from toolglot.errors import ToolError

__all__ = ["LARGEST_TEXT", "Loaded", "Plan", "diff_preview", "load", "load_text", "missing", "save"]

LARGEST_TEXT = 10 * 1024 * 1024
"""Bytes of a file that is edited, and characters of one that is written."""
_NAMES = 5000


class Loaded(msgspec.Struct, frozen=True):
    """A file as it is before a change. document None: it is no text, or too large to be looked at."""

    document: Document | None
    version: Version
    too_large: bool = False


def load(box: Toolbox, path: str, *, require_read: bool | None) -> Loaded | None:
    """The file at a path; None: there is none. require_read None: it need not be what the model has seen. Raises ToolError."""
    found = box.workspace.look(path)
    if found is None:
        return None
    if stat.S_ISDIR(found.status.st_mode):
        raise ToolError(f"{path!r} is a folder, not a file: give the path of a file in it", kind="execution")
    data, opened = box.workspace.read(path, LARGEST_TEXT)
    if require_read is not None:
        _check_seen(box, path, opened, require_read)
    large = len(data) > LARGEST_TEXT
    return Loaded(None if large else decoded(data), opened.version, large)


def _check_seen(box: Toolbox, path: str, opened: Opened, require_read: bool) -> None:
    seen = box.versions.get(opened.path)
    if seen is None and require_read and opened.status.st_size:
        raise ToolError(f"{path!r} has not been read yet: read it first, then change it", kind="not_allowed")
    if seen is not None and seen != opened.version:
        raise ToolError(f"{path!r} has changed since it was read: read it again, then change it", kind="not_allowed")


def load_text(box: Toolbox, path: str, *, require_read: bool | None) -> tuple[Document, Version]:
    """A text file that is there. Raises ToolError."""
    loaded = load(box, path, require_read=require_read)
    if loaded is None:
        raise missing(box, path)
    if loaded.too_large:
        raise ToolError(f"{path!r} is larger than {LARGEST_TEXT >> 20} MB, which is too large to be edited", kind="limit")
    if loaded.document is None:
        raise ToolError(f"{path!r} is not a text file, so it cannot be edited", kind="execution")
    return loaded.document, loaded.version


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A text file before and after a change. data: what its bytes are to be; seen: what it must still be."""

    before: str
    after: str
    form: Form
    data: bytes
    seen: "Version | str"


def diff_preview(plan: Callable[..., Plan]) -> Callable[[dict[str, Any]], str]:
    """What a call would change, as a difference; and where it would fail, why."""

    def difference(path: str, **given: Any) -> str:
        found = plan(path, **given)
        return unified(found.before, found.after, path)

    return previewing(difference)


def save(box: Toolbox, path: str, plan: Plan) -> dict[str, Any]:
    """Writes what was planned, and knows that the model knows it: what every tool tells of it. Raises ToolError."""
    written = box.workspace.write(path, plan.data, seen=plan.seen)
    box.saw(written.path, written.version)
    shown = box.shown(written.path)
    added, removed = changed_lines(plan.before, plan.after)
    return {
        "path": shown,
        "absolute": str(written.path),
        "created": written.created,
        "size": len(plan.data),
        "lines": len(lines_of(plan.after)),
        "added": added,
        "removed": removed,
        "diff": unified(plan.before, plan.after, shown),
        "encoding": plan.form.encoding,
        "bom": plan.form.bom,
        "newline": plan.form.newline,
    }


def missing(box: Toolbox, path: str) -> ToolError:
    """That there is no such file, and which ones are called nearly so."""
    above, _, name = path.rstrip("/").rpartition("/")
    folder = above or ("/" if path.startswith("/") else ".")
    try:
        with box.workspace.listing(folder) as opened, os.scandir(opened.handle) as entries:
            names = [entry.name for entry in islice(entries, _NAMES)]
    except ToolError:
        return ToolError(
            f"there is no {path!r}, and no folder {folder!r} either: list_dir shows what is there", kind="not_found"
        )
    near = get_close_matches(name, names, n=3, cutoff=0.5)
    near = near or [one for one in names if name and name.casefold() in one.casefold()][:3]
    meant = [f"{above}/{one}" if above or path.startswith("/") else one for one in near]
    said = f"did you mean {' or '.join(map(repr, meant))}?" if meant else "list_dir shows what is there"
    return ToolError(f"there is no {path!r}: {said}", kind="not_found")
