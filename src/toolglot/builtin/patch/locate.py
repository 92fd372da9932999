"""Where the chunks of a patch are in the lines of a file.

Laws: the first place after the last one wins, and no place is found twice. A looser comparison is tried only where a stricter
one finds nothing in the whole rest of the file. The work grows with the lines of file and patch, never with their product.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from toolglot.builtin.patch.parse import ADDED, KEPT, Chunk, Line
from toolglot.errors import ToolError

__all__ = ["MOST_LINES", "Spot", "locate"]

MOST_LINES = 1_000_000  # each different line is one character of a text that is searched
_LONGEST_BLOCK, _LONGEST_LINE = 2000, 200  # characters that a message shows
_PLAIN = {
    **dict.fromkeys([*range(0x2010, 0x2016), 0x2212], "-"),
    **dict.fromkeys(range(0x2018, 0x201C), "'"),
    **dict.fromkeys(range(0x201C, 0x2020), '"'),
    **dict.fromkeys([0x00A0, *range(0x2002, 0x200B), 0x202F, 0x205F, 0x3000], " "),
}


class Spot(msgspec.Struct, frozen=True):
    """Lines of a patch, and the number (from 0) of the line of the file at which they begin."""

    start: int
    lines: tuple[Line, ...]


def locate(path: str, lines: Sequence[str], chunks: Sequence[Chunk]) -> list[Spot]:
    """The place of every chunk, in the order of the file. Raises ToolError.

    A chunk that only adds goes to the end of the file, whatever its anchors say.
    """
    if len(lines) > MOST_LINES:
        raise ToolError(f"{path} has {len(lines)} lines; a patch takes files of at most {MOST_LINES}", kind="limit")
    index, cursor = _Index(lines), 0
    spots: list[Spot] = []
    for chunk in chunks:
        for anchor in chunk.anchors:
            cursor = _behind(index, anchor, cursor, path)
        if (spot := _placed(index, chunk, cursor)) is None:
            raise _not_found(index, _old(chunk.lines), cursor, path)
        spots.append(spot)
        if old := _old(spot.lines):
            cursor = spot.start + len(old)
    return sorted(spots, key=lambda spot: spot.start)


def _exact(line: str) -> str:
    return line


def _unquoted(line: str) -> str:
    line = line.strip()
    return line if line.isascii() else line.translate(_PLAIN)


_COMPARISONS: tuple[Callable[[str], str], ...] = (_exact, str.rstrip, str.strip, _unquoted)


class _Index:
    """The lines of a file, each as one character: then lines are found as quickly as text is."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self._made: dict[int, tuple[dict[str, str], str]] = {}

    def find(self, block: Sequence[str], start: int) -> int | None:
        """The first place from `start` on at which the lines stand."""
        if len(block) > len(self.lines) - start:
            return None
        for level, compared in enumerate(_COMPARISONS):
            codes, text = self._at(level)
            wanted = [codes.get(compared(line), "") for line in block]
            if all(wanted) and (found := text.find("".join(wanted), start)) >= 0:
                return found
        return None

    def _at(self, level: int) -> tuple[dict[str, str], str]:
        if level not in self._made:
            codes: dict[str, str] = {}
            compared = _COMPARISONS[level]
            text = "".join([codes.setdefault(compared(line), chr(len(codes))) for line in self.lines])
            self._made[level] = codes, text
        return self._made[level]


def _old(lines: Sequence[Line]) -> list[str]:
    """What the file has now."""
    return [text for kind, text in lines if kind != ADDED]


def _behind(index: _Index, anchor: str, cursor: int, path: str) -> int:
    found = index.find([anchor], cursor)
    if found is not None:
        return found + 1
    said = f"Failed to find context '{anchor[:_LONGEST_LINE]}' in {path}"
    if (earlier := index.find([anchor], 0)) is not None:
        said += f": it is at line {earlier + 1}, before what was found last; chunks and anchors follow the order of the file"
    else:
        said += ": after @@ goes a whole line of the file, without line numbers, or nothing"
    raise ToolError(said, kind="execution", details={"path": path, "context": anchor})


def _placed(index: _Index, chunk: Chunk, cursor: int) -> Spot | None:
    end = len(index.lines)
    for at_end in (True, False) if chunk.at_end else (False,):
        for lines in _readings(chunk.lines):
            if not (old := _old(lines)):
                return Spot(end, lines)
            found = index.find(old, max(cursor, end - len(old)) if at_end else cursor)
            if found is not None:
                return Spot(found, lines)
    return None


def _readings(lines: tuple[Line, ...]) -> Iterator[tuple[Line, ...]]:
    """The lines of a chunk, then those without an empty line at the end, which is often only the end of the patch's text."""
    yield lines
    last = next((number for number in reversed(range(len(lines))) if lines[number][0] != ADDED), None)
    if last is None or lines[last][1]:
        return
    before, after = lines[:last], lines[last + 1 :]
    if lines[last][0] == KEPT:
        yield (*before, (ADDED, ""), *after) if after else before
    else:
        yield (*before, *(after[:-1] if after and not after[-1][1] else after))


def _not_found(index: _Index, block: list[str], cursor: int, path: str) -> ToolError:
    text = "\n".join(block)
    shown = text if len(text) <= _LONGEST_BLOCK else f"{text[:_LONGEST_BLOCK]}…"
    details = {"path": path, "expected": block[:100], "after_line": cursor}
    return ToolError(f"Failed to find expected lines in {path}:\n{shown}\n({_hint(index, block, cursor)})", details=details)


def _hint(index: _Index, block: list[str], cursor: int) -> str:
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
    there = f"line {end + 1} is {index.lines[end][:_LONGEST_LINE]!r}" if end < len(index.lines) else "the file ends"
    return f"The file has the first {same} of them at line {at + 1}, but then {there}: {again}"
