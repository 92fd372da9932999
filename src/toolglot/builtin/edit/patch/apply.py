"""The new content of a file from the old one and what was located in it.

Laws: a line that is kept stays as it is, byte for byte: its blanks, its ending, what is not UTF-8. Added lines end as most
lines of the file do. Every line of the result has an ending.
"""

from collections.abc import Iterator, Sequence

import msgspec

from toolglot.builtin.edit.patch.locate import Placement
from toolglot.builtin.edit.patch.parse import ADDED, CONTEXT, REMOVED

__all__ = ["LineEdit", "PatchDocument", "apply_placements", "read_document", "render_diff"]

_UTF8_BOM = b"\xef\xbb\xbf"
_CONTEXT_LINES = 3  # lines of a diff that only show where it is


class PatchDocument(msgspec.Struct, frozen=True):
    """A file's lines without and with their endings. `mark`: bytes before the first line. `newline`: how its lines end."""

    bom: bytes
    lines: list[str]
    full_lines: list[str]
    newline: str


class LineEdit(msgspec.Struct, frozen=True):
    """Lines that were replaced, and the number (from 0) of the first of them in the old file."""

    start: int
    removed: tuple[str, ...]
    added: tuple[str, ...]


def read_document(data: bytes) -> PatchDocument:
    """The lines of a file; bytes that are not UTF-8 survive."""
    mark = _UTF8_BOM if data.startswith(_UTF8_BOM) else b""
    text = data[len(mark) :].decode("utf-8", "surrogateescape")
    *ended, last = text.split("\n")
    with_return = sum(line.endswith("\r") for line in ended)
    newline = "\r\n" if with_return * 2 > len(ended) else "\n"
    lines = [line.removesuffix("\r") for line in ended] if with_return else list(ended)
    whole = [f"{line}\n" for line in ended]
    if last:
        lines.append(last)
        whole.append(last + newline)
    return PatchDocument(mark, lines, whole, newline)


def apply_placements(document: PatchDocument, placements: Sequence[Placement]) -> tuple[bytes, list[LineEdit]]:
    """The new content, and what was replaced. The spots are in the order of the file."""
    pieces: list[str] = []
    edits: list[LineEdit] = []
    at = 0
    for spot in placements:
        pieces += document.full_lines[at : spot.start]
        at = spot.start
        for kind, text in spot.lines:
            if kind == ADDED:
                pieces.append(text + document.newline)
                continue
            if kind == CONTEXT:
                pieces.append(document.full_lines[at])
            at += 1
        edits += _iter_edits(document, spot)
    pieces += document.full_lines[at:]
    return document.bom + "".join(pieces).encode("utf-8", "surrogateescape"), edits


def _iter_edits(document: PatchDocument, placement: Placement) -> Iterator[LineEdit]:
    """The runs of lines that change, in a chunk that has kept lines between them."""
    at = start = placement.start
    removed: list[str] = []
    added: list[str] = []
    for kind, text in (*placement.lines, (CONTEXT, "")):
        if kind == ADDED:
            added.append(text)
        elif kind == REMOVED:
            removed.append(document.lines[at])
            at += 1
        else:
            if removed or added:
                yield LineEdit(start, tuple(removed), tuple(added))
                removed, added = [], []
            at += 1
            start = at


def render_diff(old_path: str, new_path: str, lines: Sequence[str], edits: Sequence[LineEdit]) -> str:
    """A unified diff for people, from one path to another; "" where nothing changes."""
    if not edits:
        return ""
    said = [f"--- {old_path}", f"+++ {new_path}"]
    shift = 0
    for group in _group_edits(edits):
        start, end = max(group[0].start - _CONTEXT_LINES, 0), min(_edit_end(group[-1]) + _CONTEXT_LINES, len(lines))
        growth = sum(len(edit.added) - len(edit.removed) for edit in group)
        before = f"-{start + 1 if end > start else start},{end - start}"
        after_start, after_size = start + shift, end - start + growth
        said.append(f"@@ {before} +{after_start + 1 if after_size else after_start},{after_size} @@")
        at = start
        for edit in group:
            said += [f" {line}" for line in lines[at : edit.start]]
            said += [f"-{line}" for line in edit.removed]
            said += [f"+{line}" for line in edit.added]
            at = _edit_end(edit)
        said += [f" {line}" for line in lines[at:end]]
        shift += growth
    return "\n".join(said) + "\n"


def _group_edits(edits: Sequence[LineEdit]) -> Iterator[list[LineEdit]]:
    """Edits that are so near that they share the lines between them."""
    group: list[LineEdit] = []
    for edit in edits:
        if group and edit.start - _edit_end(group[-1]) > 2 * _CONTEXT_LINES:
            yield group
            group = []
        group.append(edit)
    yield group


def _edit_end(edit: LineEdit) -> int:
    return edit.start + len(edit.removed)
