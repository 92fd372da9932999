"""Where the chunks of a patch are in the lines of a file.

Laws: the first place after the last one wins, and no place is found twice. A looser comparison is tried only where a stricter
one finds nothing in the whole rest of the file. The work grows with the lines of file and patch, never with their product.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from toolglot.builtin.edit.patch.parse import ADDED, CONTEXT, Chunk, PatchLine
from toolglot.errors import ToolError

__all__ = ["MAX_LINES", "Placement", "locate_chunks"]

MAX_LINES = 1_000_000  # each different line is one character of a text that is searched
_MAX_SHOWN_BLOCK, _MAX_SHOWN_LINE = 2000, 200  # characters that a message shows
_ASCII_PUNCTUATION = {
    **dict.fromkeys([*range(0x2010, 0x2016), 0x2212], "-"),
    **dict.fromkeys(range(0x2018, 0x201C), "'"),
    **dict.fromkeys(range(0x201C, 0x2020), '"'),
    **dict.fromkeys([0x00A0, *range(0x2002, 0x200B), 0x202F, 0x205F, 0x3000], " "),
}


class Placement(msgspec.Struct, frozen=True):
    """Lines of a patch, and the number (from 0) of the line of the file at which they begin."""

    start: int
    lines: tuple[PatchLine, ...]


def locate_chunks(path: str, lines: Sequence[str], chunks: Sequence[Chunk]) -> list[Placement]:
    """The place of every chunk, in the order of the file. Raises ToolError.

    A chunk that only adds goes to the end of the file, whatever its anchors say.
    """
    if len(lines) > MAX_LINES:
        raise ToolError(f"{path} has {len(lines)} lines; a patch takes files of at most {MAX_LINES}", kind="limit")
    index, cursor = _LineIndex(lines), 0
    spots: list[Placement] = []
    for chunk in chunks:
        for anchor in chunk.anchors:
            cursor = _skip_past_anchor(index, anchor, cursor, path)
        if (spot := _place_chunk(index, chunk, cursor)) is None:
            raise _not_found_error(index, _old_lines(chunk.lines), cursor, path)
        spots.append(spot)
        if old := _old_lines(spot.lines):
            cursor = spot.start + len(old)
    return sorted(spots, key=lambda spot: spot.start)


def _identity(line: str) -> str:
    return line


def _normalize_punctuation(line: str) -> str:
    line = line.strip()
    return line if line.isascii() else line.translate(_ASCII_PUNCTUATION)


_COMPARISONS: tuple[Callable[[str], str], ...] = (_identity, str.rstrip, str.strip, _normalize_punctuation)


class _LineIndex:
    """The lines of a file, each as one character: then lines are found as quickly as text is."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self._cache: dict[int, tuple[dict[str, str], str]] = {}

    def find(self, block: Sequence[str], start: int) -> int | None:
        """The first place from `start` on at which the lines stand."""
        if len(block) > len(self.lines) - start:
            return None
        for level, compared in enumerate(_COMPARISONS):
            codes, text = self._encode_lines(level)
            wanted = [codes.get(compared(line), "") for line in block]
            if all(wanted) and (found := text.find("".join(wanted), start)) >= 0:
                return found
        return None

    def _encode_lines(self, level: int) -> tuple[dict[str, str], str]:
        if level not in self._cache:
            codes: dict[str, str] = {}
            compared = _COMPARISONS[level]
            text = "".join([codes.setdefault(compared(line), chr(len(codes))) for line in self.lines])
            self._cache[level] = codes, text
        return self._cache[level]


def _old_lines(lines: Sequence[PatchLine]) -> list[str]:
    """What the file has now."""
    return [text for kind, text in lines if kind != ADDED]


def _skip_past_anchor(index: _LineIndex, anchor: str, cursor: int, path: str) -> int:
    found = index.find([anchor], cursor)
    if found is not None:
        return found + 1
    said = f"Failed to find context '{anchor[:_MAX_SHOWN_LINE]}' in {path}"
    if (earlier := index.find([anchor], 0)) is not None:
        said += f": it is at line {earlier + 1}, before what was found last; chunks and anchors follow the order of the file"
    else:
        said += ": after @@ goes a whole line of the file, without line numbers, or nothing"
    raise ToolError(said, kind="execution", details={"path": path, "context": anchor})


def _place_chunk(index: _LineIndex, chunk: Chunk, cursor: int) -> Placement | None:
    end = len(index.lines)
    for at_end in (True, False) if chunk.at_end else (False,):
        for lines in _iter_variants(chunk.lines):
            if not (old := _old_lines(lines)):
                return Placement(end, lines)
            found = index.find(old, max(cursor, end - len(old)) if at_end else cursor)
            if found is not None:
                return Placement(found, lines)
    return None


def _iter_variants(lines: tuple[PatchLine, ...]) -> Iterator[tuple[PatchLine, ...]]:
    """The lines of a chunk, then those without an empty line at the end, which is often only the end of the patch's text."""
    yield lines
    last = next((number for number in reversed(range(len(lines))) if lines[number][0] != ADDED), None)
    if last is None or lines[last][1]:
        return
    before, after = lines[:last], lines[last + 1 :]
    if lines[last][0] == CONTEXT:
        yield (*before, (ADDED, ""), *after) if after else before
    else:
        yield (*before, *(after[:-1] if after and not after[-1][1] else after))


def _not_found_error(index: _LineIndex, block: list[str], cursor: int, path: str) -> ToolError:
    text = "\n".join(block)
    shown = text if len(text) <= _MAX_SHOWN_BLOCK else f"{text[:_MAX_SHOWN_BLOCK]}…"
    details = {"path": path, "expected": block[:100], "after_line": cursor}
    return ToolError(
        f"Failed to find expected lines in {path}:\n{shown}\n({_describe_mismatch(index, block, cursor)})", details=details
    )


def _describe_mismatch(index: _LineIndex, block: list[str], cursor: int) -> str:
    earlier = index.find(block, 0)
    if earlier is not None:
        return f"They are at line {earlier + 1}, before what was found last: chunks and anchors follow the order of the file."
    again = "read the file again and copy its lines as they are."
    same, most = 0, len(block) - 1
    while same < most:  # the longest beginning that the file has
        middle = (same + most + 1) // 2
        same, most = (same, middle - 1) if index.find(block[:middle], cursor) is None else (middle, most)
    at = index.find(block[:same], cursor) if same else None
    if at is None:
        return f"None of the file's lines from line {cursor + 1} on is the first of them: {again}"
    end = at + same
    there = f"line {end + 1} is {index.lines[end][:_MAX_SHOWN_LINE]!r}" if end < len(index.lines) else "the file ends"
    return f"The file has the first {same} of them at line {at + 1}, but then {there}: {again}"
