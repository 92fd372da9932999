"""Small text helpers that every layer shares. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher, get_close_matches
from typing import NamedTuple

__all__ = [
    "LineEdit",
    "count_shared",
    "did_you_mean",
    "excerpt_changes",
    "find_line_edits",
    "format_size",
    "number_lines",
    "pluralize",
    "render_diff",
    "split_lines",
    "suggest",
    "to_ascii_punctuation",
    "truncate",
    "unified_diff",
]

_CONTEXT_LINES = 3
_MAX_COMPARED_LINES = 2000  # SequenceMatcher is quadratic: longer changes are shown as one replacement
_MAX_DIFF_CHARS = 100_000
_ASCII_PUNCTUATION = {
    **dict.fromkeys([*range(0x2010, 0x2016), 0x2212], "-"),
    **dict.fromkeys(range(0x2018, 0x201C), "'"),
    **dict.fromkeys(range(0x201C, 0x2020), '"'),
    **dict.fromkeys([0x00A0, *range(0x2002, 0x200B), 0x202F, 0x205F, 0x3000], " "),
}


# ---- words and lines


def suggest(name: str, known: Iterable[str], *, limit: int = 3, cutoff: float = 0.62) -> list[str]:
    """Return the known names that are most similar to a misspelt one, best first."""
    known = list(known)
    similar = get_close_matches(name, known, n=limit, cutoff=cutoff)
    if similar:
        return similar
    words = name.split("_")
    return [other for other in known if other in words][:limit]


def did_you_mean(suggestions: Iterable[str]) -> str:
    """Return "did you mean 'a' or 'b'?", or "" without suggestions."""
    names = " or ".join(map(repr, suggestions))
    return f"did you mean {names}?" if names else ""


def truncate(text: str, limit: int) -> str:
    """Return the text, shortened to `limit` characters and an ellipsis if it is longer."""
    return text if len(text) <= limit else f"{text[:limit]}…"


def pluralize(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun: `1 line`, `2 lines`."""
    if count == 1:
        return f"{count} {noun}"
    return f"{count} {plural or f'{noun}s'}"


def format_size(size: int) -> str:
    """Return a number of bytes as `ls -h` does: `12B`, `3.4K`, `5.6M`."""
    if size < 1024:
        return f"{size}B"
    if size < 1024**2:
        return f"{size / 1024:.1f}K"
    return f"{size / 1024**2:.1f}M"


def to_ascii_punctuation(text: str) -> str:
    """Return a text with plain quotes, dashes and spaces instead of typographic ones."""
    return text if text.isascii() else text.translate(_ASCII_PUNCTUATION)


def split_lines(text: str) -> list[str]:
    """Return the lines without their line endings (LF or CRLF); an empty text has none."""
    lines = text.replace("\r\n", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def number_lines(lines: Iterable[str], first: int = 1) -> str:
    """Return lines as `number<TAB>text`."""
    return "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, first))


# ---- differences


class LineEdit(NamedTuple):
    """Lines that were replaced; `start` is the index (from 0) of the first of them in the old text."""

    start: int
    removed: Sequence[str]
    added: Sequence[str]

    @property
    def end(self) -> int:
        """The index after the last removed line."""
        return self.start + len(self.removed)


def count_shared(first: Sequence[str], second: Sequence[str]) -> int:
    """Return how many items are the same from the beginning on."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(first), len(second)))


def find_line_edits(old: Sequence[str], new: Sequence[str]) -> list[LineEdit]:
    """Return what turns the old lines into the new ones."""
    head = count_shared(old, new)
    tail = count_shared(old[head:][::-1], new[head:][::-1])
    removed = old[head : len(old) - tail]
    added = new[head : len(new) - tail]
    if not removed and not added:
        return []
    if max(len(removed), len(added)) > _MAX_COMPARED_LINES:
        return [LineEdit(head, removed, added)]
    codes = SequenceMatcher(None, removed, added).get_opcodes()
    return [LineEdit(head + a, removed[a:b], added[c:d]) for kind, a, b, c, d in codes if kind != "equal"]


def unified_diff(before: str, after: str, path: str, *, limit: float = _MAX_DIFF_CHARS) -> str:
    """Return a unified diff of two texts, "" if they are equal; one of more characters than the limit is
    truncated.
    """
    old = _mark_final_newline(before)
    new = _mark_final_newline(after)
    old_path = path if before else "/dev/null"
    return render_diff(old_path, path, old, find_line_edits(old, new), limit=limit)


def excerpt_changes(before: str, after: str, context_lines: int = 5) -> str:
    """Return the changed lines of a text as they are now, with lines around each change; `...` stands for
    omitted lines.

    If nothing was there before, or nothing changed, it is the whole text. A final newline ends an excerpt
    that reaches the end.
    """
    lines = after.replace("\r\n", "\n").split("\n")
    edits = find_line_edits(split_lines(before), split_lines(after)) if before else []
    ranges: list[tuple[int, int]] = []
    growth = 0
    for edit in edits:
        start = edit.start + growth
        growth += len(edit.added) - len(edit.removed)
        first = max(start - context_lines, 0)
        end = min(start + len(edit.added) + context_lines, len(lines))
        if ranges and first <= ranges[-1][1]:
            first, _ = ranges.pop()
        ranges.append((first, end))
    if not ranges:
        ranges = [(0, len(lines))]
    parts: list[str] = []
    for first, end in ranges:
        if first:
            parts.append("...")
        parts += lines[first:end]
    if ranges[-1][1] < len(lines):
        parts.append("...")
    return "\n".join(parts)


def _mark_final_newline(text: str) -> list[str]:
    lines = split_lines(text)
    if text and not text.endswith("\n"):
        lines[-1] += "\n\\ No newline at end of file"
    return lines


def render_diff(
    old_path: str,
    new_path: str,
    lines: Sequence[str],
    edits: Sequence[LineEdit],
    *,
    limit: float = _MAX_DIFF_CHARS,
) -> str:
    """Return known edits of `lines` as a unified diff, "" without any; one of more characters than the limit
    is truncated.
    """
    if not edits:
        return ""
    output = [f"--- {old_path}", f"+++ {new_path}"]
    size = 0
    growth = 0
    for group in _group_edits(edits):
        start = max(group[0].start - _CONTEXT_LINES, 0)
        end = min(group[-1].end + _CONTEXT_LINES, len(lines))
        group_growth = sum(len(edit.added) - len(edit.removed) for edit in group)
        old_range = _format_range(start, end - start)
        hunk = [f"@@ -{old_range} +{_format_range(start + growth, end - start + group_growth)} @@"]
        position = start
        for edit in group:
            hunk += [f" {line}" for line in lines[position : edit.start]]
            hunk += [f"-{line}" for line in edit.removed]
            hunk += [f"+{line}" for line in edit.added]
            position = edit.end
        hunk += [f" {line}" for line in lines[position:end]]
        growth += group_growth
        for line in hunk:
            output.append(line)
            size += len(line) + 1
            if size > limit:
                return "\n".join([*output, "… the rest of the diff is omitted"]) + "\n"
    return "\n".join(output) + "\n"


def _group_edits(edits: Sequence[LineEdit]) -> Iterator[list[LineEdit]]:
    """Yield edits that are so close together that they share their context lines."""
    group: list[LineEdit] = []
    for edit in edits:
        if group and edit.start - group[-1].end > 2 * _CONTEXT_LINES:
            yield group
            group = []
        group.append(edit)
    yield group


def _format_range(start: int, count: int) -> str:
    """Return a hunk's range as diff writes it: an empty one names the line before it."""
    if count == 1:
        return f"{start + 1}"
    if not count:
        return f"{start},0"
    return f"{start + 1},{count}"
