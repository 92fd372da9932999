"""Applies located chunks to the text of a file.

Laws: a line that is kept stays as it is, with its blanks and its line ending. Added lines end as most lines of the file do.
Every line of the result has a line ending.
"""

from collections.abc import Iterator, Sequence

from toolglot.builtin.edit.patch.locate import Placement
from toolglot.builtin.edit.patch.parse import ADDED, CONTEXT, REMOVED
from toolglot.textutil import LineEdit, split_lines

__all__ = ["apply_placements"]


def apply_placements(text: str, placements: Sequence[Placement]) -> tuple[str, list[LineEdit]]:
    """Return the new text, and what was replaced. The placements are in the order of the file."""
    *terminated, last = text.split("\n")
    newline = "\r\n" if 2 * sum(line.endswith("\r") for line in terminated) > len(terminated) else "\n"
    full_lines = [f"{line}\n" for line in terminated] + ([last + newline] if last else [])
    lines = split_lines(text)
    pieces: list[str] = []
    edits: list[LineEdit] = []
    index = 0
    for placement in placements:
        pieces += full_lines[index : placement.start]
        index = placement.start
        for kind, added in placement.lines:
            if kind == ADDED:
                pieces.append(added + newline)
                continue
            if kind == CONTEXT:
                pieces.append(full_lines[index])
            index += 1
        edits += _iter_edits(lines, placement)
    pieces += full_lines[index:]
    return "".join(pieces), edits


def _iter_edits(lines: list[str], placement: Placement) -> Iterator[LineEdit]:
    """Yield the runs of lines that change, in a chunk that has context lines between them."""
    index = start = placement.start
    removed: list[str] = []
    added: list[str] = []
    for kind, text in (*placement.lines, (CONTEXT, "")):
        if kind == ADDED:
            added.append(text)
        elif kind == REMOVED:
            removed.append(lines[index])
            index += 1
        else:
            if removed or added:
                yield LineEdit(start, removed, added)
                removed, added = [], []
            index += 1
            start = index
