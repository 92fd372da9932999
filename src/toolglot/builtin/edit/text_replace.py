"""Replaces text in text: finds the old text, puts the new one in its place, and explains why the old text is not there.

Laws: pure. Exact replacement is what `str.replace` does; line endings are compared as line feeds and written as the file has
them. Tolerant replacement tries an exact match, then lines that differ in indentation, then the same tokens, then similar
lines, and stops at the first that matches. Characters outside of what is replaced do not change.
"""

import html
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from operator import methodcaller
from typing import Literal
from unicodedata import normalize

import msgspec

from toolglot.base_errors import EditFailed, invalid_argument
from toolglot.builtin.files.text import detect_newline
from toolglot.errors import ToolError
from toolglot.facades.elision import find_elision
from toolglot.textutil import number_lines, truncate

__all__ = ["ExpectedCount", "Replacement", "Strategy", "edit_distance", "find_elision", "replace_text"]

ExpectedCount = Literal["one", "all"] | int
Strategy = Literal["exact", "flexible", "tokens", "fuzzy"]
ShouldStop = Callable[[], bool]
_Span = tuple[int, int, str]
"""Start, end, and the text that replaces what is between them."""

_MIN_FUZZY_CHARS = 10
_MAX_FUZZY_WORK = 4e8
_FUZZY_TOLERANCE = 0.10  # the share of characters that may differ
_WHITESPACE_COST = 0.1  # compared with another character
_MAX_TOKENS, _MAX_TOKEN_WORK = 2000, 2e7
_DELIMITERS = re.compile(r"([():\[\]{}<>=])")
_MAX_SHOWN_LINES, _MAX_SHOWN_WIDTH = 12, 200
_MAX_SEARCHED_LINES = 5000  # for the most similar line
_MIN_SIMILARITY = 0.6
_LINE_NUMBER = re.compile(r"^[ \t]*L?\d+(?:\t|: ?|\| ?|→)", re.MULTILINE)
_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\r": "\r", r"\"": '"', r"\'": "'", r"\\": "\\", r"\`": "`"}
_ESCAPE = re.compile(r"""\\[ntr"'\\`]""")
_TYPOGRAPHY: dict[int, str] = {
    **dict.fromkeys((0x2018, 0x2019, 0x201A, 0x201B, 0x2032), "'"),
    **dict.fromkeys((0x201C, 0x201D, 0x201E, 0x201F, 0x2033, 0xAB, 0xBB), '"'),
    **dict.fromkeys((*range(0x2010, 0x2015), 0x2212), "-"),
    0xA0: " ",
}
_to_ascii_punctuation: Callable[[str], str] = methodcaller("translate", _TYPOGRAPHY)


class Replacement(msgspec.Struct, frozen=True):
    """A text after a replacement. ranges: the first and last new line of each match."""

    text: str
    count: int
    strategy: Strategy
    ranges: tuple[tuple[int, int], ...]


class _NearMatch(msgspec.Struct, frozen=True):
    """Lines that are almost the old text, and how they differ."""

    first: int
    last: int
    difference: str


def replace_text(
    text: str,
    old: str,
    new: str,
    *,
    count: ExpectedCount = "one",
    tolerant: bool = False,
    name: str = "the file",
    should_stop: ShouldStop = lambda: False,
) -> Replacement:
    """Replace `old` with `new`. Raises ToolError with EditFailed details."""
    is_number = isinstance(count, int) and not isinstance(count, bool) and count >= 1
    if count not in ("one", "all") and not is_number:
        raise invalid_argument("count", f'is {count!r:.40}; use "one", "all" or a number above 0')
    lf_text, lf_old, lf_new = (value.replace("\r\n", "\n") for value in (text, old, new))
    if not lf_old:
        message = f"the text to replace is empty, and {name!r} is not: copy the text to replace from the file"
        raise _edit_error(message, EditFailed("empty"))
    if lf_old == lf_new:
        message = f"the old and the new text are identical, so nothing would change in {name!r}"
        raise _edit_error(f"{message} (line endings stay as they are)", EditFailed("identical"))
    if tolerant and (line := find_elision(lf_new, lf_old)):
        message = f"the new text has the line {line!r}, which stands for omitted code: write all of the code"
        raise _edit_error(message, EditFailed("elision"))
    strategy, spans = _find_spans(lf_text, lf_old, lf_new, tolerant, should_stop)
    if not spans:
        raise _not_found_error(lf_text, lf_old, name, should_stop)
    expected = 1 if count == "one" else len(spans) if count == "all" else count
    if len(spans) != expected:
        raise _ambiguous_error(lf_text, spans, count, name)
    after = _apply_spans(text, lf_text, spans, "\r\n" if "\r\n" in new else "\n")
    if tolerant:
        # Models often forget or add the line feed at the end of the text that they replace.
        if text.endswith("\n") and not after.endswith("\n"):
            after += "\r\n" if text.endswith("\r\n") else "\n"
        elif not text.endswith("\n") and after.endswith("\n"):
            after = after[:-1].removesuffix("\r")
    return Replacement(after, len(spans), strategy, tuple(_iter_line_ranges(lf_text, spans)))


def _edit_error(message: str, details: EditFailed) -> ToolError:
    kind = "validation" if details.reason in ("identical", "elision") else "execution"
    return ToolError(message, kind=kind, code="edit_failed", details=details)


def _ambiguous_error(lf_text: str, spans: list[_Span], count: ExpectedCount, name: str) -> ToolError:
    lines = tuple(lf_text.count("\n", 0, start) + 1 for start, _, _ in spans[:20])
    numbers = f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}{' …' if len(spans) > 20 else ''}"
    occurrences = f"{'once' if len(spans) == 1 else f'{len(spans)} times'} in {name!r}"
    if count == "one":
        hint = "include more of the surrounding text to make it unique, or replace all occurrences"
    else:
        occurrences += f", not {count} times"
        hint = "correct the expected number, or choose another text"
    message = f"the text to replace occurs {occurrences} ({numbers}): {hint}"
    return _edit_error(message, EditFailed("ambiguous", len(spans), lines))


def _iter_line_ranges(lf_text: str, spans: list[_Span]) -> Iterator[tuple[int, int]]:
    line, position = 1, 0
    for start, end, new in spans:
        line += lf_text.count("\n", position, start)
        first = line
        line += new.count("\n")
        yield first, max(first, line - 1 if new.endswith("\n") else line)
        position = end


# ---- finding the old text


def _find_spans(lf_text: str, old: str, new: str, tolerant: bool, should_stop: ShouldStop) -> tuple[Strategy, list[_Span]]:
    spans: list[_Span] = []
    position = lf_text.find(old)
    while position >= 0:
        spans.append((position, position + len(old), new))
        position = lf_text.find(old, position + len(old))
    if spans or not tolerant or not old.strip():
        return "exact", spans
    if spans := _find_flexible(lf_text, old, new):
        return "flexible", spans
    if spans := _find_by_tokens(lf_text, old, new):
        return "tokens", spans
    return "fuzzy", _find_fuzzy(lf_text, old, new, should_stop)


class _LineIndex:
    """The lines of a text, and where each begins."""

    def __init__(self, lf_text: str) -> None:
        self.lines = lf_text.split("\n")
        self.starts: list[int] = []
        position = 0
        for line in self.lines:
            self.starts.append(position)
            position += len(line) + 1
        self.size = len(lf_text)
        if not self.lines[-1]:
            self.lines.pop()

    def span(self, first: int, count: int, *, include_newline: bool) -> tuple[int, int]:
        """Return where some lines begin and end."""
        last = first + count - 1
        end = self.starts[last] + len(self.lines[last])
        return self.starts[first], min(end + 1, self.size) if include_newline else end

    def find_blocks(self, block: list[str]) -> Iterator[int]:
        """Yield where lines stand that equal the block apart from surrounding whitespace, without overlaps."""
        stripped, wanted = [line.strip() for line in self.lines], [line.strip() for line in block]
        index = 0
        while index <= len(stripped) - len(wanted):
            if stripped[index] == wanted[0] and stripped[index : index + len(wanted)] == wanted:
                yield index
                index += len(wanted)
            else:
                index += 1


def _split_old(old: str) -> list[str]:
    lines = old.split("\n")
    return lines[:-1] if old.endswith("\n") else lines


def _find_flexible(lf_text: str, old: str, new: str) -> list[_Span]:
    """Find whole lines that are equal apart from the whitespace around them."""
    index, block = _LineIndex(lf_text), _split_old(old)
    if not any(line.strip() for line in block):
        return []
    return [
        (
            *index.span(at, len(block), include_newline=old.endswith("\n")),
            _reindent(new, _leading_whitespace(index.lines[at])),
        )
        for at in index.find_blocks(block)
    ]


def _leading_whitespace(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _reindent(new: str, indent: str) -> str:
    """Indent new lines for their destination; the indentation of the first one is what the others are relative to."""
    lines = new.split("\n")
    base = _leading_whitespace(lines[0])
    output: list[str] = []
    for line in lines:
        if not line.strip():
            output.append("")
        elif line.startswith(base):
            output.append(indent + line[len(base) :])
        else:
            output.append(indent + line.lstrip(" \t"))
    return "\n".join(output)


def _find_by_tokens(lf_text: str, old: str, new: str) -> list[_Span]:
    """Find the same tokens from the beginning of a line on, whatever whitespace is between them."""
    tokens = _DELIMITERS.sub(r" \1 ", old).split()
    if not tokens or len(tokens) > _MAX_TOKENS or "".join(tokens) not in "".join(lf_text.split()):
        return []
    if lf_text.count(tokens[0]) * len(tokens) > _MAX_TOKEN_WORK:
        return []

    def is_word(character: str) -> bool:
        return character.isalnum() or character == "_"

    pattern = re.escape(tokens[0])
    for before, token in pairwise(tokens):
        pattern += (r"\s+" if is_word(before[-1]) and is_word(token[0]) else r"\s*") + re.escape(token)
    if is_word(tokens[-1][-1]):
        pattern += r"(?!\w)"
    if old.endswith("\n"):
        pattern += r"[ \t]*(?:\n|\Z)"
    matches = re.finditer(rf"^([ \t]*){pattern}", lf_text, re.MULTILINE)
    return [(match.start(), match.end(), _reindent(new, match[1])) for match in matches]


def _find_fuzzy(lf_text: str, old: str, new: str, should_stop: ShouldStop) -> list[_Span]:
    """Find as many lines as the old text has that are nearly equal to it: the best ones that do not overlap."""
    index, block = _LineIndex(lf_text), _split_old(old)
    search, count = "\n".join(block), len(block)
    if len(old) < _MIN_FUZZY_CHARS or not 0 < len(index.lines) * len(search) ** 2 <= _MAX_FUZZY_WORK:
        return []
    limit = _FUZZY_TOLERANCE * len(search)
    fuzzy = _FuzzyText(search)
    scores: list[tuple[float, int]] = []
    for at in range(len(index.lines) - count + 1):
        if at % 256 == 0 and should_stop():
            raise ToolError("the edit was cancelled; nothing was changed", kind="cancelled", code="cancelled")
        cost = fuzzy.cost("\n".join(index.lines[at : at + count]), limit)
        if cost is not None:
            scores.append((cost, at))
    chosen: list[int] = []
    for _, at in sorted(scores):
        if all(abs(at - other) >= count for other in chosen):
            chosen.append(at)
    is_terminated = old.endswith("\n")
    return [
        (*index.span(at, count, include_newline=is_terminated), _reindent(new, _leading_whitespace(index.lines[at])))
        for at in sorted(chosen)
    ]


class _FuzzyText:
    """A text that others are compared with; whitespace counts little."""

    def __init__(self, text: str) -> None:
        self._text, self._compact = text, "".join(text.split())
        self._char_counts = Counter(self._compact)

    def cost(self, other: str, limit: float) -> float | None:
        """Return how much the other text differs; None where that is over the limit."""
        compact = "".join(other.split())
        # Two cheap lower bounds spare most of the expensive comparisons.
        if abs(len(compact) - len(self._compact)) > limit:
            return None
        counts = Counter(compact)
        if max((counts - self._char_counts).total(), (self._char_counts - counts).total()) > limit:
            return None
        distance = edit_distance(compact, self._compact)
        if distance > limit:
            return None
        cost = distance + _WHITESPACE_COST * max(edit_distance(other, self._text) - distance, 0)
        return cost if cost <= limit else None


def edit_distance(first: str, second: str) -> int:
    """Return the Levenshtein distance, by Myers' bit-parallel algorithm (in Hyyrö's form): a column is one integer."""
    if first == second:
        return 0
    if not first or not second:
        return len(first) or len(second)
    positions: dict[str, int] = {}
    for i, character in enumerate(first):
        positions[character] = positions.get(character, 0) | 1 << i
    size = len(first)
    full, high = (1 << size) - 1, 1 << (size - 1)
    up, down, score = full, 0, size
    for character in second:
        same = positions.get(character, 0)
        diagonal = (((same & up) + up) ^ up) | same
        right, left = down | ~(diagonal | up), up & diagonal
        if right & high:
            score += 1
        elif left & high:
            score -= 1
        right, left = (right << 1) | 1, left << 1
        vertical = same | down
        up, down = (left | ~(vertical | right)) & full, right & vertical & full
    return score


# ---- replacing it


def _apply_spans(text: str, lf_text: str, spans: list[_Span], newline: str) -> str:
    """Replace the spans of the LF text in the original one, whose line endings may differ."""
    newlines = _NewlineMap(text, lf_text, newline)
    parts: list[str] = []
    position = 0
    for start, end, new in spans:
        if newlines.has_crlf:
            start, end, new = _trim_unchanged(lf_text, start, end, new)
        original_start = newlines.to_original(start)
        parts += (text[position:original_start], newlines.convert(new, original_start))
        position = newlines.to_original(end)
    return "".join((*parts, text[position:]))


def _trim_unchanged(lf_text: str, start: int, end: int, new: str) -> _Span:
    """Return a span without what stays the same at its ends, so that mixed line endings stay there."""
    head = 0
    while head < min(end - start, len(new)) and lf_text[start + head] == new[head]:
        head += 1
    start, new = start + head, new[head:]
    tail = 0
    while tail < min(end - start, len(new)) and lf_text[end - 1 - tail] == new[-1 - tail]:
        tail += 1
    return start, end - tail, new[: len(new) - tail]


class _NewlineMap:
    """Maps offsets of the LF text to the original one; `newline` is for a text without any line ending."""

    def __init__(self, text: str, lf_text: str, newline: str) -> None:
        self._text, self._style, self._newline = text, detect_newline(text), newline
        self.has_crlf = len(text) != len(lf_text)
        self._crlf_offsets: list[int] = []
        position = text.find("\r\n") if self.has_crlf else -1
        while position >= 0:
            self._crlf_offsets.append(position - len(self._crlf_offsets))
            position = text.find("\r\n", position + 2)

    def to_original(self, offset: int) -> int:
        return offset + bisect_left(self._crlf_offsets, offset)

    def convert(self, new: str, offset: int) -> str:
        """Return new text with the line endings that are used where it is inserted."""
        if "\n" not in new:
            return new
        if self._style == "none":
            return new.replace("\n", self._newline)
        if self._style != "mixed":
            return new.replace("\n", "\r\n") if self._style == "crlf" else new
        nearest = self._text.find("\n", offset)
        nearest = nearest if nearest >= 0 else self._text.rfind("\n")
        return new.replace("\n", "\r\n") if self._text[nearest - 1 : nearest] == "\r" else new


# ---- explaining why it is not there


def _not_found_error(lf_text: str, old: str, name: str, should_stop: ShouldStop) -> ToolError:
    near = _find_near_match(lf_text, old, should_stop)
    if near is None:
        message = f"the text to replace is not in {name!r}, and nothing there is similar: read the file again"
        return _edit_error(message, EditFailed("not_found"))
    lines = lf_text.split("\n")[near.first - 1 : near.last]
    nearest = number_lines((truncate(line, _MAX_SHOWN_WIDTH) for line in lines[:_MAX_SHOWN_LINES]), near.first)
    if len(lines) > _MAX_SHOWN_LINES:
        nearest += f"\n… {len(lines) - _MAX_SHOWN_LINES} more lines"
    lines_text = f"line {near.first}" if near.first == near.last else f"lines {near.first}-{near.last}"
    difference = near.difference.format(lines=lines_text)
    details = EditFailed("not_found", 0, (near.first, near.last), difference, nearest)
    return _edit_error(f"the text to replace is not in {name!r}: {difference}:\n{nearest}", details)


def _find_near_match(lf_text: str, old: str, should_stop: ShouldStop) -> _NearMatch | None:
    near = (
        _find_variant(lf_text, old, _MODEL_MISTAKES)
        or _find_whitespace_variant(lf_text, old)
        or _find_variant(lf_text, old, _EQUIVALENCES)
    )
    if near is None and (spans := _find_by_tokens(lf_text, old, "")):
        near = _near_match_at(lf_text, *spans[0][:2], "it differs from {lines} only in spaces or line breaks")
    return near or _find_most_similar(lf_text, old, should_stop)


def _near_match_at(lf_text: str, start: int, end: int, difference: str) -> _NearMatch:
    first = lf_text.count("\n", 0, start) + 1
    return _NearMatch(first, first + lf_text.count("\n", start, max(end - 1, start)), difference)


_Variant = tuple[str, Callable[[str], str], bool]
"""How texts differ that are equal after this conversion, and whether the file is converted too."""
_MODEL_MISTAKES: tuple[_Variant, ...] = (
    ("it contains line numbers, which are not part of the file; it is {lines}", partial(_LINE_NUMBER.sub, ""), False),
    ("it has escape sequences instead of the characters of {lines}", partial(_ESCAPE.sub, lambda m: _ESCAPES[m[0]]), False),
    ("it has one backslash where {lines} has two", methodcaller("replace", "\\", "\\\\"), False),
    ("it has HTML entities instead of the characters of {lines}", html.unescape, False),
)
_EQUIVALENCES: tuple[_Variant, ...] = (
    ("it differs from {lines} only in quotes, dashes or other typographic characters", _to_ascii_punctuation, True),
    ("it differs from {lines} only in how accents are composed", lambda t: normalize("NFC", _to_ascii_punctuation(t)), True),
    ("it differs from {lines} only in upper and lower case", str.lower, True),
)


def _find_variant(lf_text: str, old: str, variants: tuple[_Variant, ...]) -> _NearMatch | None:
    for difference, convert, converts_file in variants:
        text, wanted = convert(lf_text) if converts_file else lf_text, convert(old)
        if wanted and (start := text.find(wanted)) >= 0:
            return _near_match_at(text, start, start + len(wanted), difference)
    return None


def _find_whitespace_variant(lf_text: str, old: str) -> _NearMatch | None:
    block = _split_old(old)
    if not any(line.strip() for line in block):
        return None
    index = _LineIndex(lf_text)
    at = next(index.find_blocks(block), None)
    if at is None:
        return None
    lines = index.lines[at : at + len(block)]
    if [line.rstrip() for line in lines] == [line.rstrip() for line in block]:
        difference = "it differs from {lines} only in trailing whitespace"
    else:
        has_tabs, old_has_tabs = (any("\t" in _leading_whitespace(line) for line in text) for text in (lines, block))
        difference = "it differs from {lines} only in indentation"
        if has_tabs != old_has_tabs:
            difference += f" (the file uses {'tabs' if has_tabs else 'spaces'})"
    return _NearMatch(at + 1, at + len(block), difference)


def _find_most_similar(lf_text: str, old: str, should_stop: ShouldStop) -> _NearMatch | None:
    """Find the lines around the one that is most similar to the longest line of the old text."""
    block = [line.strip() for line in _split_old(old)]
    longest = max(block, key=len)
    key = longest[:_MAX_SHOWN_WIDTH]
    if not key:
        return None
    lines = lf_text.split("\n")
    fuzzy, limit = _FuzzyText(key), len(key) * (1 - _MIN_SIMILARITY)
    best: tuple[float, int] | None = None
    for at, line in enumerate(lines[:_MAX_SEARCHED_LINES]):
        if at % 256 == 0 and should_stop():
            return None
        cost = fuzzy.cost(line.strip()[: 2 * _MAX_SHOWN_WIDTH], limit)
        if cost is not None and (best is None or cost < best[0]):
            best, limit = (cost, at), cost
    if best is None:
        return None
    first = max(best[1] - block.index(longest), 0)
    last = min(first + len(block), len(lines))
    similarity = round(100 * (1 - best[0] / len(key)))
    return _NearMatch(first + 1, max(last, first + 1), f"the most similar text is {{lines}} ({similarity} % alike)")
