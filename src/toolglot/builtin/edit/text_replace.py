"""Replaces text in text: finds the old text, puts the new one in its place, and explains why the old text is
not there.

Invariants: pure. Exact replacement is what `str.replace` does; line endings are compared as line feeds and
written as the file has them. Tolerant replacement tries an exact match, then lines that differ in
indentation, then the same tokens, then similar lines, and stops at the first that matches. Characters outside
what is replaced do not change.
"""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from operator import methodcaller
from typing import Literal
from unicodedata import normalize

import msgspec

from toolglot.builtin.files.text import detect_newline
from toolglot.common.textutil import count_shared, number_lines, to_ascii_punctuation, truncate
from toolglot.errors import ToolError
from toolglot.facades.elision import find_elision
from toolglot.values.failures import EditFailed, invalid_argument

__all__ = [
    "ExpectedCount",
    "MatchMode",
    "Replacement",
    "Strategy",
    "TextEdit",
    "edit_distance",
    "find_elision",
    "replace_text",
]

ExpectedCount = Literal["one", "all"] | int
MatchMode = Literal["exact", "tolerant"]
Strategy = Literal["exact", "flexible", "tokens", "fuzzy"]
ShouldStop = Callable[[], bool]
_Span = tuple[int, int, str]
"""Start, end, and the text that replaces what is between them."""
_NearMatch = tuple[int, int, str]
"""The first and last line of what is almost the old text, and how it differs."""

_CRLF = "\0"  # stands for it while a text is changed; no text file has a NUL
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


@dataclass(frozen=True)
class TextEdit:
    """One replacement.

    Attributes:
        old: The text to replace, exactly as in the file, without line numbers.
        new: The text to put in its place.
        count: How many times `old` must occur: one (default), all (replace every occurrence) or an exact
            number.
        match: exact (default), or tolerant of differences in whitespace, indentation and small typos.
    """

    old: str
    new: str
    count: ExpectedCount = "one"
    match: MatchMode = "exact"


class Replacement(msgspec.Struct, frozen=True):
    """A text after a replacement. ranges: the first and last new line of each match."""

    text: str
    count: int
    strategy: Strategy
    ranges: tuple[tuple[int, int], ...]


def replace_text(
    text: str, edit: TextEdit, *, name: str = "the file", should_stop: ShouldStop = lambda: False
) -> Replacement:
    """Make an edit. Raises ToolError with EditFailed details."""
    old, new, count, tolerant = edit.old, edit.new, edit.count, edit.match == "tolerant"
    is_number = isinstance(count, int) and not isinstance(count, bool) and count >= 1
    if count not in ("one", "all") and not is_number:
        raise invalid_argument("count", f'is {count!r:.40}; use "one", "all" or a number above 0')
    lf_text, lf_old, lf_new = (value.replace("\r\n", "\n") for value in (text, old, new))
    _check_texts(lf_old, lf_new, name, tolerant=tolerant)
    search = _Search(lf_text, lf_old, should_stop)
    strategy, spans = search.find(lf_new, tolerant=tolerant)
    if not spans:
        raise search.not_found_error(name)
    match count:
        case "one":
            expected = 1
        case "all":
            expected = len(spans)
        case _:
            expected = count
    if len(spans) != expected:
        raise _ambiguous_error(lf_text, spans, count, name)
    after = _apply_spans(text, lf_text, spans, "\r\n" if "\r\n" in new else "\n")
    if tolerant:
        after = _match_final_newline(after, text)
    return Replacement(after, len(spans), strategy, tuple(_iter_line_ranges(lf_text, spans)))


def _check_texts(old: str, new: str, name: str, *, tolerant: bool) -> None:
    """Raise ToolError for an edit that can have no sense, whatever the file contains."""
    if not old:
        message = f"the text to replace is empty, and {name!r} is not: copy the text to replace from the file"
        raise _edit_error(message, EditFailed("empty"))
    if old == new:
        message = f"the old and the new text are identical, so nothing would change in {name!r}"
        raise _edit_error(f"{message} (line endings stay as they are)", EditFailed("identical"))
    if tolerant and (line := find_elision(new, old)):
        message = f"the new text has the line {line!r}, which stands for omitted code: write all of the code"
        raise _edit_error(message, EditFailed("elision"))


def _match_final_newline(after: str, before: str) -> str:
    """Let a text end as before: models often forget or add the line feed at the end of the text that they
    replace.
    """
    if before.endswith("\n") and not after.endswith("\n"):
        return after + ("\r\n" if before.endswith("\r\n") else "\n")
    if after.endswith("\n") and not before.endswith("\n"):
        return after[:-1].removesuffix("\r")
    return after


def _edit_error(message: str, details: EditFailed) -> ToolError:
    kind = "validation" if details.reason in ("identical", "elision") else "execution"
    return ToolError(message, kind=kind, code="edit_failed", details=details)


def _ambiguous_error(lf_text: str, spans: list[_Span], count: ExpectedCount, name: str) -> ToolError:
    lines = tuple(lf_text.count("\n", 0, start) + 1 for start, _, _ in spans[:20])
    noun = "lines" if len(lines) > 1 else "line"
    numbers = f"{noun} {', '.join(map(str, lines))}"
    if len(spans) > len(lines):
        numbers += " …"
    times = "once" if len(spans) == 1 else f"{len(spans)} times"
    occurrences = f"{times} in {name!r}"
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
        last = line - 1 if new.endswith("\n") else line
        yield first, max(first, last)
        position = end


# ---- finding the old text


class _Search:
    """The old text in a text, both with LF line endings."""

    def __init__(self, text: str, old: str, should_stop: ShouldStop) -> None:
        self._text, self._old, self._should_stop = text, old, should_stop
        self._is_terminated = old.endswith("\n")
        self._block = old.split("\n")[:-1] if self._is_terminated else old.split("\n")
        """The lines of the old text."""
        self._lines = text.split("\n")
        starts = accumulate((len(line) + 1 for line in self._lines), initial=0)
        self._starts = list(starts)[: len(self._lines)]
        if not self._lines[-1]:
            self._lines.pop()

    def find(self, new: str, *, tolerant: bool) -> tuple[Strategy, list[_Span]]:
        """Return the matches of the first strategy that has any."""
        text, old = self._text, self._old
        spans: list[_Span] = []
        position = text.find(old)
        while position >= 0:
            spans.append((position, position + len(old), new))
            position = text.find(old, position + len(old))
        if spans or not tolerant or not old.strip():
            return "exact", spans
        if spans := [self._block_span(index, new) for index in self.find_blocks()]:
            return "flexible", spans
        if spans := self.find_by_tokens(new):
            return "tokens", spans
        return "fuzzy", self.find_fuzzy(new)

    def _block_span(self, index: int, new: str) -> _Span:
        """Return the span of the lines from an index on that the new text replaces, indented as the first of
        them is.
        """
        last = index + len(self._block) - 1
        end = self._starts[last] + len(self._lines[last])
        end = min(end + 1, len(self._text)) if self._is_terminated else end
        return self._starts[index], end, _reindent(new, _leading_whitespace(self._lines[index]))

    def find_blocks(self) -> Iterator[int]:
        """Yield where lines stand that equal the old ones apart from surrounding whitespace, without
        overlaps.
        """
        stripped, wanted = ([line.strip() for line in lines] for lines in (self._lines, self._block))
        index = 0 if any(wanted) else len(stripped)
        while index <= len(stripped) - len(wanted):
            if stripped[index] == wanted[0] and stripped[index : index + len(wanted)] == wanted:
                yield index
                index += len(wanted)
            else:
                index += 1

    def find_by_tokens(self, new: str) -> list[_Span]:
        """Find the same tokens from the beginning of a line on, whatever whitespace is between them."""
        tokens = _DELIMITERS.sub(r" \1 ", self._old).split()
        if not tokens or len(tokens) > _MAX_TOKENS or "".join(tokens) not in "".join(self._text.split()):
            return []
        if self._text.count(tokens[0]) * len(tokens) > _MAX_TOKEN_WORK:
            return []

        def is_word(character: str) -> bool:
            return character.isalnum() or character == "_"

        pattern = re.escape(tokens[0])
        for before, token in pairwise(tokens):
            pattern += (r"\s+" if is_word(before[-1]) and is_word(token[0]) else r"\s*") + re.escape(token)
        if is_word(tokens[-1][-1]):
            pattern += r"(?!\w)"
        if self._is_terminated:
            pattern += r"[ \t]*(?:\n|\Z)"
        matches = re.finditer(rf"^([ \t]*){pattern}", self._text, re.MULTILINE)
        return [(match.start(), match.end(), _reindent(new, match[1])) for match in matches]

    def find_fuzzy(self, new: str) -> list[_Span]:
        """Find as many lines as the old text has that are nearly equal to it: the best ones that do not
        overlap.
        """
        search, count = "\n".join(self._block), len(self._block)
        if (
            len(self._old) < _MIN_FUZZY_CHARS
            or not 0 < len(self._lines) * len(search) ** 2 <= _MAX_FUZZY_WORK
        ):
            return []
        limit = _FUZZY_TOLERANCE * len(search)
        fuzzy = _FuzzyText(search)
        scores: list[tuple[float, int]] = []
        for index in range(len(self._lines) - count + 1):
            if index % 256 == 0 and self._should_stop():
                raise ToolError(
                    "the edit was cancelled; nothing was changed", kind="cancelled", code="cancelled"
                )
            cost = fuzzy.cost("\n".join(self._lines[index : index + count]), limit)
            if cost is not None:
                scores.append((cost, index))
        chosen: list[int] = []
        for _, index in sorted(scores):
            if all(abs(index - other) >= count for other in chosen):
                chosen.append(index)
        return [self._block_span(index, new) for index in sorted(chosen)]

    # ---- explaining why it is not there

    def not_found_error(self, name: str) -> ToolError:
        near = self.find_near_match()
        if near is None:
            message = (
                f"the text to replace is not in {name!r}, and nothing there is similar: read the file again"
            )
            return _edit_error(message, EditFailed("not_found"))
        first, last, difference = near
        lines = self._text.split("\n")[first - 1 : last]
        nearest = number_lines((truncate(line, _MAX_SHOWN_WIDTH) for line in lines[:_MAX_SHOWN_LINES]), first)
        if len(lines) > _MAX_SHOWN_LINES:
            nearest += f"\n… {len(lines) - _MAX_SHOWN_LINES} more lines"
        numbers = f"line {first}" if first == last else f"lines {first}-{last}"
        difference = difference.format(lines=numbers)
        details = EditFailed("not_found", 0, (first, last), difference, nearest)
        return _edit_error(f"the text to replace is not in {name!r}: {difference}:\n{nearest}", details)

    def find_near_match(self) -> _NearMatch | None:
        """Find what the old text was probably meant to be."""
        near = self.find_variant() or self.find_whitespace_variant()
        if near is None and (spans := self.find_by_tokens("")):
            near = _near_match_at(
                self._text, *spans[0][:2], "it differs from {lines} only in spaces or line breaks"
            )
        return near or self.find_most_similar()

    def find_variant(self) -> _NearMatch | None:
        for difference, convert, converts_file in _VARIANTS:
            text = convert(self._text) if converts_file else self._text
            wanted = convert(self._old)
            if wanted and (start := text.find(wanted)) >= 0:
                return _near_match_at(text, start, start + len(wanted), difference)
        return None

    def find_whitespace_variant(self) -> _NearMatch | None:
        index = next(self.find_blocks(), None)
        if index is None:
            return None
        block, lines = self._block, self._lines[index : index + len(self._block)]
        if [line.rstrip() for line in lines] == [line.rstrip() for line in block]:
            difference = "it differs from {lines} only in trailing whitespace"
        else:
            has_tabs, old_has_tabs = (
                any("\t" in _leading_whitespace(line) for line in text) for text in (lines, block)
            )
            difference = "it differs from {lines} only in indentation"
            if has_tabs != old_has_tabs:
                used = "tabs" if has_tabs else "spaces"
                difference += f" (the file uses {used})"
        return index + 1, index + len(block), difference

    def find_most_similar(self) -> _NearMatch | None:
        """Find the lines around the one that is most similar to the longest line of the old text."""
        block = [line.strip() for line in self._block]
        longest = max(block, key=len)
        key = longest[:_MAX_SHOWN_WIDTH]
        if not key:
            return None
        lines = self._text.split("\n")
        fuzzy, limit = _FuzzyText(key), len(key) * (1 - _MIN_SIMILARITY)
        best: tuple[float, int] | None = None
        for index, line in enumerate(lines[:_MAX_SEARCHED_LINES]):
            if index % 256 == 0 and self._should_stop():
                return None
            cost = fuzzy.cost(line.strip()[: 2 * _MAX_SHOWN_WIDTH], limit)
            if cost is not None and (best is None or cost < best[0]):
                best, limit = (cost, index), cost
        if best is None:
            return None
        first = max(best[1] - block.index(longest), 0)
        last = min(first + len(block), len(lines))
        similarity = round(100 * (1 - best[0] / len(key)))
        return first + 1, max(last, first + 1), f"the most similar text is {{lines}} ({similarity} % alike)"


def _near_match_at(text: str, start: int, end: int, difference: str) -> _NearMatch:
    first = text.count("\n", 0, start) + 1
    return first, first + text.count("\n", start, max(end - 1, start)), difference


_VARIANTS: tuple[tuple[str, Callable[[str], str], bool], ...] = (
    (
        "it contains line numbers, which are not part of the file; it is {lines}",
        partial(_LINE_NUMBER.sub, ""),
        False,
    ),
    (
        "it has escape sequences instead of the characters of {lines}",
        partial(_ESCAPE.sub, lambda m: _ESCAPES[m[0]]),
        False,
    ),
    ("it has one backslash where {lines} has two", methodcaller("replace", "\\", "\\\\"), False),
    ("it has HTML entities instead of the characters of {lines}", html.unescape, False),
    (
        "it differs from {lines} only in quotes, dashes or other typographic characters",
        to_ascii_punctuation,
        True,
    ),
    (
        "it differs from {lines} only in how accents are composed",
        lambda t: normalize("NFC", to_ascii_punctuation(t)),
        True,
    ),
    ("it differs from {lines} only in upper and lower case", str.lower, True),
)
"""How texts differ that are equal after this conversion, and whether the file is converted too."""


def _leading_whitespace(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _reindent(new: str, indent: str) -> str:
    """Indent new lines for their destination; the indentation of the first one is what the others are
    relative to.
    """
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


class _FuzzyText:
    """A text that others are compared with; whitespace counts little."""

    def __init__(self, text: str) -> None:
        self._text, self._compact = text, "".join(text.split())
        self._char_counts = Counter(self._compact)

    def cost(self, other: str, limit: float) -> float | None:
        """Return how much the other text differs; None if that is over the limit."""
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
    """Return the Levenshtein distance, by Myers' bit-parallel algorithm (in Hyyrö's form): a column is one
    integer.
    """
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
    """Replace the spans of the LF text in the original one, and keep its line endings; `newline` is for a
    text without any.
    """
    # One character for every line ending: then offsets are those of the LF text.
    marked, style = text.replace("\r\n", _CRLF), detect_newline(text)
    ending = {"lf": "\n", "crlf": _CRLF}.get(style, newline)
    parts: list[str] = []
    position = 0
    for span in spans:
        start, end, new = _trim_unchanged(lf_text, *span) if style in ("crlf", "mixed") else span
        if style == "mixed" and "\n" in new:
            nearest = lf_text.find("\n", start)
            ending = marked[nearest if nearest >= 0 else lf_text.rfind("\n")]
        parts += (marked[position:start], new.replace("\n", ending))
        position = end
    return "".join((*parts, marked[position:])).replace(_CRLF, "\r\n")


def _trim_unchanged(lf_text: str, start: int, end: int, new: str) -> _Span:
    """Return a span without what stays the same at its ends, so that mixed line endings stay there."""
    head = count_shared(lf_text[start:end], new)
    start, new = start + head, new[head:]
    tail = count_shared(lf_text[start:end][::-1], new[::-1])
    return start, end - tail, new[: len(new) - tail]
