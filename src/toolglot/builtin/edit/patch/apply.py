"""Applies located chunks to the text of a file.

Invariants: a line that is kept stays as it is, with its blanks and its line ending. Added lines end as most lines of the file
do. Every line of the result has a line ending.
"""

from collections.abc import Sequence

from toolglot.builtin.edit.patch.locate import Placement
from toolglot.builtin.edit.patch.parse import ADDED, CONTEXT, REMOVED
from toolglot.textutil import LineEdit, split_lines

__all__ = ["apply_placements"]

_END = ""


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
        index = start = placement.start
        added: list[str] = []
        for kind, content in (*placement.lines, (_END, "")):
            if kind == ADDED:
                added.append(content)
                pieces.append(content + newline)
                continue
            if kind != REMOVED:
                # A run of changed lines is over.
                if added or index > start:
                    edits.append(LineEdit(start, lines[start:index], added))
                added, start = [], index + 1
            if kind == CONTEXT:
                pieces.append(full_lines[index])
            index += kind != _END
    pieces += full_lines[index:]
    return "".join(pieces), edits
