"""The new content of a file from the old one and what was located in it.

Laws: a line that is kept stays as it is, byte for byte: its blanks, its ending, what is not UTF-8. Added lines end as most
lines of the file do. Every line of the result has an ending.
"""

from collections.abc import Iterator, Sequence

import msgspec

from toolglot.builtin.patch.locate import Spot
from toolglot.builtin.patch.parse import ADDED, KEPT, REMOVED

__all__ = ["Document", "Edit", "edited", "read_document", "unified"]

_MARK = b"\xef\xbb\xbf"
_AROUND = 3  # lines of a diff that only show where it is


class Document(msgspec.Struct, frozen=True):
    """A file's lines without and with their endings. `mark`: bytes before the first line. `newline`: how its lines end."""

    mark: bytes
    lines: list[str]
    whole: list[str]
    newline: str


class Edit(msgspec.Struct, frozen=True):
    """Lines that were replaced, and the number (from 0) of the first of them in the old file."""

    start: int
    removed: tuple[str, ...]
    added: tuple[str, ...]


def read_document(data: bytes) -> Document:
    """The lines of a file; bytes that are not UTF-8 survive."""
    mark = _MARK if data.startswith(_MARK) else b""
    text = data[len(mark) :].decode("utf-8", "surrogateescape")
    *ended, last = text.split("\n")
    with_return = sum(line.endswith("\r") for line in ended)
    newline = "\r\n" if with_return * 2 > len(ended) else "\n"
    lines = [line.removesuffix("\r") for line in ended] if with_return else list(ended)
    whole = [f"{line}\n" for line in ended]
    if last:
        lines.append(last)
        whole.append(last + newline)
    return Document(mark, lines, whole, newline)


def edited(document: Document, spots: Sequence[Spot]) -> tuple[bytes, list[Edit]]:
    """The new content, and what was replaced. The spots are in the order of the file."""
    pieces: list[str] = []
    edits: list[Edit] = []
    at = 0
    for spot in spots:
        pieces += document.whole[at : spot.start]
        at = spot.start
        for kind, text in spot.lines:
            if kind == ADDED:
                pieces.append(text + document.newline)
                continue
            if kind == KEPT:
                pieces.append(document.whole[at])
            at += 1
        edits += _edits(document, spot)
    pieces += document.whole[at:]
    return document.mark + "".join(pieces).encode("utf-8", "surrogateescape"), edits


def _edits(document: Document, spot: Spot) -> Iterator[Edit]:
    """The runs of lines that change, in a chunk that has kept lines between them."""
    at = start = spot.start
    removed: list[str] = []
    added: list[str] = []
    for kind, text in (*spot.lines, (KEPT, "")):
        if kind == ADDED:
            added.append(text)
        elif kind == REMOVED:
            removed.append(document.lines[at])
            at += 1
        else:
            if removed or added:
                yield Edit(start, tuple(removed), tuple(added))
                removed, added = [], []
            at += 1
            start = at


def unified(old: str, new: str, lines: Sequence[str], edits: Sequence[Edit]) -> str:
    """A unified diff for people, from one path to another; "" where nothing changes."""
    if not edits:
        return ""
    said = [f"--- {old}", f"+++ {new}"]
    shift = 0
    for group in _groups(edits):
        start, end = max(group[0].start - _AROUND, 0), min(_end(group[-1]) + _AROUND, len(lines))
        growth = sum(len(edit.added) - len(edit.removed) for edit in group)
        before = f"-{start + 1 if end > start else start},{end - start}"
        after_start, after_size = start + shift, end - start + growth
        said.append(f"@@ {before} +{after_start + 1 if after_size else after_start},{after_size} @@")
        at = start
        for edit in group:
            said += [f" {line}" for line in lines[at : edit.start]]
            said += [f"-{line}" for line in edit.removed]
            said += [f"+{line}" for line in edit.added]
            at = _end(edit)
        said += [f" {line}" for line in lines[at:end]]
        shift += growth
    return "\n".join(said) + "\n"


def _groups(edits: Sequence[Edit]) -> Iterator[list[Edit]]:
    """Edits that are so near that they share the lines between them."""
    group: list[Edit] = []
    for edit in edits:
        if group and edit.start - _end(group[-1]) > 2 * _AROUND:
            yield group
            group = []
        group.append(edit)
    yield group


def _end(edit: Edit) -> int:
    return edit.start + len(edit.removed)
