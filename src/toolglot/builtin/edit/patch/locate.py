"""Locates the chunks of a patch in the lines of a file, and applies them.

Invariants: the first match after the previous one wins, and no lines match twice. A looser comparison is tried only where a
stricter one finds nothing in the whole rest of the file. The work grows with the lines of file and patch, never with their
product.
"""

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter

from toolglot.base_errors import PatchFailed
from toolglot.builtin.edit.patch.parse import ADDED, CONTEXT, REMOVED, Chunk, PatchLine
from toolglot.errors import ToolError
from toolglot.textutil import LineEdit, split_lines, to_ascii_punctuation, truncate

__all__ = ["MAX_LINES", "Placement", "apply_placements", "locate_chunks"]

MAX_LINES = 1_000_000  # each distinct line becomes one character of a text that is searched (Unicode has 1,114,112)
_MAX_SHOWN_BLOCK, _MAX_SHOWN_LINE = 2000, 200  # characters
_ORDER_HINT = "before the previous match; chunks and anchors must follow the order of the file"


Placement = tuple[int, tuple[PatchLine, ...]]
"""The index (from 0) of the line of a file where lines of a patch begin, and these lines."""


def locate_chunks(path: str, lines: Sequence[str], chunks: Sequence[Chunk]) -> list[Placement]:
    """Return where every chunk goes, in the order of the file. Raises ToolError.

    A chunk that only adds lines goes to the end of the file, whatever its anchors say.
    """
    if len(lines) > MAX_LINES:
        message = f"{path} has {len(lines)} lines; a patch can change files of at most {MAX_LINES}"
        raise ToolError(message, kind="limit", code="file_too_large")
    index, cursor = _LineIndex(lines), 0
    placements: list[Placement] = []
    for chunk in chunks:
        for anchor in chunk.anchors:
            position = index.find([anchor], cursor)
            if position is None:
                message = f"Failed to find context '{anchor[:_MAX_SHOWN_LINE]}' in {path}: "
                if (earlier := index.find([anchor], 0)) is not None:
                    message += f"it is at line {earlier + 1}, {_ORDER_HINT}"
                else:
                    message += "write a whole line of the file after @@, without line numbers, or nothing"
                details = PatchFailed(path, context=anchor, after_line=cursor)
                raise ToolError(message, code="patch_failed", details=details)
            cursor = position + 1
        if (placement := _place_chunk(index, chunk, cursor)) is None:
            block = _old_lines(chunk.lines)
            text = truncate("\n".join(block), _MAX_SHOWN_BLOCK)
            message = f"Failed to find expected lines in {path}:\n{text}\n({_describe_mismatch(index, block, cursor)})"
            details = PatchFailed(path, expected=tuple(block[:100]), after_line=cursor)
            raise ToolError(message, code="patch_failed", details=details)
        placements.append(placement)
        start, lines_there = placement
        if old := _old_lines(lines_there):
            cursor = start + len(old)
    return sorted(placements, key=itemgetter(0))


_COMPARISONS: tuple[Callable[[str], str], ...] = (
    str,
    str.rstrip,
    str.strip,
    lambda line: to_ascii_punctuation(line.strip()),
)


class _LineIndex:
    """The lines of a file, each encoded as one character, so that blocks of lines are found as fast as substrings."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self._cache: dict[int, tuple[dict[str, str], str]] = {}

    def find(self, block: Sequence[str], start: int) -> int | None:
        """Return the first index from `start` on where the block stands."""
        if len(block) > len(self.lines) - start:
            return None
        for level, normalize in enumerate(_COMPARISONS):
            if level not in self._cache:
                codes: dict[str, str] = {}
                text = "".join([codes.setdefault(normalize(line), chr(len(codes))) for line in self.lines])
                self._cache[level] = codes, text
            codes, text = self._cache[level]
            wanted = [codes.get(normalize(line), "") for line in block]
            if all(wanted) and (index := text.find("".join(wanted), start)) >= 0:
                return index
        return None


def _old_lines(lines: Sequence[PatchLine]) -> list[str]:
    """Return the lines that the file must have."""
    return [text for kind, text in lines if kind != ADDED]


def _place_chunk(index: _LineIndex, chunk: Chunk, cursor: int) -> Placement | None:
    end = len(index.lines)
    for at_end in (True, False) if chunk.at_end else (False,):
        for lines in _iter_variants(chunk.lines):
            if not (old := _old_lines(lines)):
                return end, lines
            position = index.find(old, max(cursor, end - len(old)) if at_end else cursor)
            if position is not None:
                return position, lines
    return None


def _iter_variants(lines: tuple[PatchLine, ...]) -> Iterator[tuple[PatchLine, ...]]:
    """Yield the lines of a chunk, then those without a final empty one, which is often only the end of the patch's text."""
    yield lines
    last = next((number for number in reversed(range(len(lines))) if lines[number][0] != ADDED), None)
    if last is None or lines[last][1]:
        return
    before, after = lines[:last], lines[last + 1 :]
    if lines[last][0] == CONTEXT:
        yield (*before, (ADDED, ""), *after) if after else before
    else:
        yield (*before, *(after[:-1] if after and not after[-1][1] else after))


def _describe_mismatch(index: _LineIndex, block: list[str], cursor: int) -> str:
    earlier = index.find(block, 0)
    if earlier is not None:
        return f"They are at line {earlier + 1}, {_ORDER_HINT}."
    advice = "read the file again and copy its lines as they are."
    matching, high = 0, len(block) - 1
    while matching < high:  # bisect for the longest prefix that the file has
        middle = (matching + high + 1) // 2
        if index.find(block[:middle], cursor) is None:
            high = middle - 1
        else:
            matching = middle
    start = index.find(block[:matching], cursor) if matching else None
    if start is None:
        return f"No line of the file from line {cursor + 1} on equals the first of them: {advice}"
    end = start + matching
    is_line = f"line {end + 1} is {index.lines[end][:_MAX_SHOWN_LINE]!r}" if end < len(index.lines) else "the file ends"
    return f"The file has the first {matching} of them at line {start + 1}, but then {is_line}: {advice}"


def apply_placements(text: str, placements: Sequence[Placement]) -> tuple[str, list[LineEdit]]:
    """Return the new text, and what was replaced. The placements are in the order of the file.

    Kept lines stay as they are. Added lines end as most lines of the file do, and every line of the result has an ending.
    """
    *terminated, last = text.split("\n")
    newline = "\r\n" if 2 * sum(line.endswith("\r") for line in terminated) > len(terminated) else "\n"
    full_lines = [f"{line}\n" for line in terminated] + ([last + newline] if last else [])
    lines = split_lines(text)
    pieces: list[str] = []
    edits: list[LineEdit] = []
    index = 0
    for position, changed_lines in placements:
        pieces += full_lines[index:position]
        index = start = position
        added: list[str] = []
        for kind, content in (*changed_lines, ("", "")):  # the last one ends the run before it
            if kind == ADDED:
                added.append(content)
                pieces.append(content + newline)
                continue
            if kind != REMOVED:
                if added or index > start:
                    edits.append(LineEdit(start, lines[start:index], added))
                added, start = [], index + 1
            if kind == CONTEXT:
                pieces.append(full_lines[index])
            index += bool(kind)
    pieces += full_lines[index:]
    return "".join(pieces), edits
