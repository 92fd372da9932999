"""Replacing text in text: where the old text is, what takes its place, and why it is not there.

Laws: pure. Exact replacement is what `str.replace` does; line ends are compared as line feeds and written as the file has
them. Tolerant replacement tries exact, then lines without their indentation, then tokens, then nearly the same lines, and
stops at the first that finds anything. Characters outside of what is replaced do not change.
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

from toolglot.builtin.files.text import detect_newline
from toolglot.errors import ToolError
from toolglot.facades.elision import find_elision
from toolglot.textutil import number_lines

__all__ = ["ExpectedCount", "ReplaceFailure", "Replacement", "Strategy", "edit_distance", "find_elision", "replace_text"]

ExpectedCount = Literal["one", "all"] | int
Strategy = Literal["exact", "flexible", "tokens", "fuzzy"]
ShouldStop = Callable[[], bool]
_Span = tuple[int, int, str]

_MIN_FUZZY_CHARS = 10
_MAX_FUZZY_WORK = 4e8
_FUZZY_TOLERANCE = 0.10  # of the characters may differ
_WHITESPACE_COST = 0.1  # of what another character costs
_MAX_TOKENS, _MAX_TOKEN_WORK = 2000, 2e7
_DELIMITERS = re.compile(r"([():\[\]{}<>=])")
_MAX_SHOWN_LINES, _MAX_SHOWN_WIDTH = 12, 200
_MAX_SEARCHED_LINES = 5000  # lines among which the nearest one is looked for
_MIN_SIMILARITY = 0.6
_LINE_NUMBER = re.compile(r"^[ \t]*L?\d+(?:\t|: ?|\| ?|→)", re.MULTILINE)
_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\r": "\r", r"\"": '"', r"\'": "'", r"\\": "\\", r"\`": "`"}
_ESCAPE = re.compile(r"""\\[ntr"'\\`]""")
_QUOTES = dict.fromkeys((0x2018, 0x2019, 0x201A, 0x201B, 0x2032), "'")
_DOUBLE_QUOTES = dict.fromkeys((0x201C, 0x201D, 0x201E, 0x201F, 0x2033, 0xAB, 0xBB), '"')
_DASHES = dict.fromkeys((*range(0x2010, 0x2015), 0x2212), "-")
_TYPOGRAPHY: dict[int, str] = {**_QUOTES, **_DOUBLE_QUOTES, **_DASHES, 0xA0: " "}
_to_ascii_punctuation: Callable[[str], str] = methodcaller("translate", _TYPOGRAPHY)


class Replacement(msgspec.Struct, frozen=True):
    """A text after a replacement. ranges: the first and last new line of each place."""

    text: str
    count: int
    strategy: Strategy
    ranges: tuple[tuple[int, int], ...]


class ReplaceFailure(msgspec.Struct, frozen=True):
    """Why nothing was replaced. lines: where the text was found, or the lines that are nearest to it."""

    reason: Literal["not_found", "ambiguous", "identical", "empty", "placeholder"]
    found: int = 0
    lines: tuple[int, ...] = ()
    why: str = ""


class _NearMatch(msgspec.Struct, frozen=True):
    """Lines that are almost what was looked for; why: what makes the difference."""

    first: int
    last: int
    difference: str


def _never() -> bool:
    return False


def replace_text(
    text: str,
    old: str,
    new: str,
    *,
    count: ExpectedCount = "one",
    tolerant: bool = False,
    name: str = "the file",
    should_stop: ShouldStop = _never,
) -> Replacement:
    """The text with `new` for `old`. Raises ToolError, whose details are a NotReplaced."""
    _check_count(count)
    plain, wanted, given = _to_lf(text), _to_lf(old), _to_lf(new)
    _check_texts(wanted, given, name)
    if tolerant and (found := find_elision(given, wanted)):
        why = f"`new` has the line {found!r}, which stands for code that is not there: write all of the code"
        raise _replace_error(why, ReplaceFailure("placeholder"))
    strategy, spans = _find_spans(plain, wanted, given, tolerant, should_stop)
    if not spans:
        raise _not_found_error(plain, wanted, name, should_stop)
    _check_match_count(plain, spans, count, name)
    after = _apply_spans(text, plain, spans, "\r\n" if "\r\n" in new else "\n")
    if tolerant:
        after = _match_final_newline(text, after)
    return Replacement(after, len(spans), strategy, tuple(_find_line_ranges(plain, spans)))


def _to_lf(text: str) -> str:
    return text.replace("\r\n", "\n")


def _check_count(count: object) -> None:
    if count in ("one", "all"):
        return
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ToolError(f'`count` is "one", "all" or a number above 0, not {count!r:.40}', kind="validation")


def _check_texts(old: str, new: str, name: str) -> None:
    if not old:
        why = f"{name!r} has text already, and `old` is empty: give the text that is to be replaced"
        raise _replace_error(why, ReplaceFailure("empty"))
    if old == new:
        why = f"`old` and `new` are the same, so nothing would change in {name!r} (line ends stay as the file has them)"
        raise _replace_error(why, ReplaceFailure("identical"))


def _replace_error(message: str, details: ReplaceFailure) -> ToolError:
    return ToolError(
        message, kind="validation" if details.reason in ("identical", "placeholder") else "execution", details=details
    )


def _check_match_count(lf_text: str, spans: list[_Span], count: ExpectedCount, name: str) -> None:
    wanted = 1 if count == "one" else len(spans) if count == "all" else count
    if len(spans) == wanted:
        return
    lines = tuple(lf_text.count("\n", 0, span[0]) + 1 for span in spans[:20])
    places = f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}{' …' if len(spans) > 20 else ''}"
    do = f'give more of the text around the one that is meant, or count="all" for all {len(spans)}'
    if count != "one":
        do = f"give count={len(spans)}, or another `old`"
    times = "once" if len(spans) == 1 else f"{len(spans)} times"
    expected = "" if count == "one" else f" and not {wanted} times"
    why = f"`old` is in {name!r} {times}{expected} ({places}): {do}"
    raise _replace_error(why, ReplaceFailure("ambiguous", len(spans), lines))


# ---- where it is


def _find_spans(lf_text: str, old: str, new: str, tolerant: bool, should_stop: ShouldStop) -> tuple[Strategy, list[_Span]]:
    spans = _find_exact(lf_text, old, new)
    if spans or not tolerant or not old.strip():
        return "exact", spans
    if spans := _find_flexible(lf_text, old, new):
        return "flexible", spans
    if spans := _find_by_tokens(lf_text, old, new):
        return "tokens", spans
    return "fuzzy", _find_fuzzy(lf_text, old, new, should_stop)


def _find_exact(lf_text: str, old: str, new: str) -> list[_Span]:
    spans: list[_Span] = []
    at = lf_text.find(old)
    while at >= 0:
        spans.append((at, at + len(old), new))
        at = lf_text.find(old, at + len(old))
    return spans


class _LineIndex:
    """The lines of a text, and where each begins."""

    def __init__(self, lf_text: str) -> None:
        self.lines = lf_text.split("\n")
        self.starts: list[int] = []
        at = 0
        for line in self.lines:
            self.starts.append(at)
            at += len(line) + 1
        self.size = len(lf_text)
        if not self.lines[-1]:
            self.lines.pop()

    def span(self, first: int, count: int, *, include_newline: bool) -> tuple[int, int]:
        """From the beginning of a line to the end of one, with its line end where `ends`."""
        last = first + count - 1
        end = self.starts[last] + len(self.lines[last])
        return self.starts[first], min(end + 1, self.size) if include_newline else end


def _split_old(old: str) -> list[str]:
    lines = old.split("\n")
    return lines[:-1] if old.endswith("\n") else lines


def _find_windows(stripped: list[str], block: list[str]) -> Iterator[int]:
    """Where the wanted lines are, one after the other, without overlaps."""
    at = 0
    while at <= len(stripped) - len(block):
        if stripped[at] == block[0] and stripped[at : at + len(block)] == block:
            yield at
            at += len(block)
        else:
            at += 1


def _find_flexible(lf_text: str, old: str, new: str) -> list[_Span]:
    """Whole lines that are the same without the space around them."""
    text, wanted = _LineIndex(lf_text), [line.strip() for line in _split_old(old)]
    if not any(wanted):
        return []
    return [
        (*text.span(at, len(wanted), include_newline=old.endswith("\n")), _reindent(new, _leading_whitespace(text.lines[at])))
        for at in _find_windows([line.strip() for line in text.lines], wanted)
    ]


def _leading_whitespace(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _reindent(new: str, indent: str) -> str:
    """New lines at the indentation of the place: the first one's own is the measure for the others."""
    lines = new.split("\n")
    own = _leading_whitespace(lines[0])
    made: list[str] = []
    for line in lines:
        if not line.strip():
            made.append("")
        elif line.startswith(own):
            made.append(indent + line[len(own) :])
        else:
            made.append(indent + line.lstrip(" \t"))
    return "\n".join(made)


def _find_by_tokens(lf_text: str, old: str, new: str) -> list[_Span]:
    """The same tokens from the beginning of a line on, whatever space is between them."""
    tokens = _DELIMITERS.sub(r" \1 ", old).split()
    if not tokens or len(tokens) > _MAX_TOKENS or "".join(tokens) not in "".join(lf_text.split()):
        return []
    if lf_text.count(tokens[0]) * len(tokens) > _MAX_TOKEN_WORK:
        return []
    pattern = re.escape(tokens[0])
    for before, token in pairwise(tokens):
        pattern += (r"\s+" if _is_word(before[-1]) and _is_word(token[0]) else r"\s*") + re.escape(token)
    if _is_word(tokens[-1][-1]):
        pattern += r"(?!\w)"
    if old.endswith("\n"):
        pattern += r"[ \t]*(?:\n|\Z)"
    found = re.finditer(rf"^([ \t]*){pattern}", lf_text, re.MULTILINE)
    return [(one.start(), one.end(), _reindent(new, one[1])) for one in found]


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _find_fuzzy(lf_text: str, old: str, new: str, should_stop: ShouldStop) -> list[_Span]:
    """As many lines as were given, nearly the same: the best ones that do not overlap."""
    text, wanted = _LineIndex(lf_text), _split_old(old)
    search, count = "\n".join(wanted), len(wanted)
    if len(old) < _MIN_FUZZY_CHARS or not 0 < len(text.lines) * len(search) ** 2 <= _MAX_FUZZY_WORK:
        return []
    most = _FUZZY_TOLERANCE * len(search)
    solid = _FuzzyText(search)
    scores: list[tuple[float, int]] = []
    for at in range(len(text.lines) - count + 1):
        if at % 256 == 0 and should_stop():
            raise ToolError("the edit was cancelled; nothing was changed", kind="cancelled")
        cost = solid.cost("\n".join(text.lines[at : at + count]), most)
        if cost is not None:
            scores.append((cost, at))
    chosen: list[int] = []
    for _, at in sorted(scores):
        if all(abs(at - other) >= count for other in chosen):
            chosen.append(at)
    ends = old.endswith("\n")
    return [
        (*text.span(at, count, include_newline=ends), _reindent(new, _leading_whitespace(text.lines[at])))
        for at in sorted(chosen)
    ]


class _FuzzyText:
    """A text that others are compared with; space counts little."""

    def __init__(self, text: str) -> None:
        self._text, self._compact = text, "".join(text.split())
        self._char_counts = Counter(self._compact)

    def cost(self, other: str, limit: float) -> float | None:
        """What the other text lacks; None where that is more than `most`."""
        solid = "".join(other.split())
        if abs(len(solid) - len(self._compact)) > limit:
            return None
        letters = Counter(solid)
        if max((letters - self._char_counts).total(), (self._char_counts - letters).total()) > limit:
            return None
        apart = edit_distance(solid, self._compact)
        if apart > limit:
            return None
        cost = apart + _WHITESPACE_COST * max(edit_distance(other, self._text) - apart, 0)
        return cost if cost <= limit else None


def edit_distance(first: str, second: str) -> int:
    """How many characters must be put in, left out or changed; all the columns of a row at once, as bits of a number."""
    if first == second:
        return 0
    if not first or not second:
        return len(first) or len(second)
    places: dict[str, int] = {}
    for i, letter in enumerate(first):
        places[letter] = places.get(letter, 0) | 1 << i
    size = len(first)
    full, high = (1 << size) - 1, 1 << (size - 1)
    up, down, score = full, 0, size
    for letter in second:
        same = places.get(letter, 0)
        along = (((same & up) + up) ^ up) | same
        more, less = down | ~(along | up), up & along
        if more & high:
            score += 1
        elif less & high:
            score -= 1
        more, less = (more << 1) | 1, less << 1
        across = same | down
        up, down = (less | ~(across | more)) & full, more & across & full
    return score


# ---- what takes its place


def _apply_spans(text: str, lf_text: str, spans: list[_Span], newline: str) -> str:
    """The spans of the plain text replaced in the real one, whose line ends may be others."""
    ends = _NewlineMap(text, lf_text, newline)
    parts: list[str] = []
    done = 0
    for start, end, new in spans:
        start, end, new = _trim_unchanged(lf_text, start, end, new) if ends.has_crlf else (start, end, new)
        at, to = ends.to_original(start), ends.to_original(end)
        parts += (text[done:at], ends.convert(new, at))
        done = to
    return "".join((*parts, text[done:]))


def _trim_unchanged(lf_text: str, start: int, end: int, new: str) -> _Span:
    """A span without what stays the same at its ends."""
    head = 0
    while head < min(end - start, len(new)) and lf_text[start + head] == new[head]:
        head += 1
    start, new = start + head, new[head:]
    tail = 0
    while tail < min(end - start, len(new)) and lf_text[end - 1 - tail] == new[-1 - tail]:
        tail += 1
    return start, end - tail, new[: len(new) - tail]


class _NewlineMap:
    """Where the line ends of a text have two characters; `newline` is for a text that has no line end."""

    def __init__(self, text: str, lf_text: str, newline: str) -> None:
        self._text, self._style, self._newline = text, detect_newline(text), newline
        self.has_crlf = len(text) != len(lf_text)
        self._crlf_offsets: list[int] = []
        at = text.find("\r\n") if self.has_crlf else -1
        while at >= 0:
            self._crlf_offsets.append(at - len(self._crlf_offsets))
            at = text.find("\r\n", at + 2)

    def to_original(self, offset: int) -> int:
        """A place in the plain text as one in the text itself."""
        return offset + bisect_left(self._crlf_offsets, offset)

    def convert(self, new: str, offset: int) -> str:
        """New text with the line ends of the place that it comes to."""
        if "\n" not in new:
            return new
        if self._style == "none":
            return new.replace("\n", self._newline)
        if self._style != "mixed":
            return new.replace("\n", "\r\n") if self._style == "crlf" else new
        near = self._text.find("\n", offset)
        near = near if near >= 0 else self._text.rfind("\n")
        return new.replace("\n", "\r\n") if self._text[near - 1 : near] == "\r" else new


def _match_final_newline(before: str, after: str) -> str:
    """With a last line end where there was one, and without where there was none."""
    if before.endswith("\n") and not after.endswith("\n"):
        return after + ("\r\n" if before.endswith("\r\n") else "\n")
    if not before.endswith("\n") and after.endswith("\n"):
        return after[:-1].removesuffix("\r")
    return after


def _find_line_ranges(lf_text: str, spans: list[_Span]) -> Iterator[tuple[int, int]]:
    line, done = 1, 0
    for start, end, new in spans:
        line += lf_text.count("\n", done, start)
        first = line
        line += new.count("\n")
        yield first, max(first, line - 1 if new.endswith("\n") else line)
        done = end


# ---- why it is not there


def _not_found_error(lf_text: str, old: str, name: str, should_stop: ShouldStop) -> ToolError:
    near = _find_near_match(lf_text, old, should_stop)
    if near is None:
        why = f"`old` is not in {name!r}, and nothing there is like it: read the file again"
        return _replace_error(why, ReplaceFailure("not_found"))
    lines = lf_text.split("\n")[near.first - 1 : near.last]
    shown = [line if len(line) <= _MAX_SHOWN_WIDTH else line[:_MAX_SHOWN_WIDTH] + "…" for line in lines[:_MAX_SHOWN_LINES]]
    more = f"\n… {len(lines) - len(shown)} more lines" if len(lines) > len(shown) else ""
    place = f"line {near.first}" if near.first == near.last else f"lines {near.first}-{near.last}"
    why = f"`old` is not in {name!r}: {near.difference.format(place=place)}:\n{number_lines(shown, near.first)}{more}"
    return _replace_error(why, ReplaceFailure("not_found", 0, (near.first, near.last), near.difference.format(place=place)))


def _find_near_match(lf_text: str, old: str, should_stop: ShouldStop) -> _NearMatch | None:
    near = (
        _find_variant(lf_text, old, _MODEL_MISTAKES)
        or _find_whitespace_variant(lf_text, old)
        or _find_variant(lf_text, old, _EQUIVALENCES)
    )
    if near is None and (spans := _find_by_tokens(lf_text, old, "")):
        near = _near_match_at(lf_text, spans[0][0], spans[0][1], "it differs from {place} only in spaces or line breaks")
    return near or _find_most_similar(lf_text, old, should_stop)


def _near_match_at(lf_text: str, start: int, end: int, difference: str) -> _NearMatch:
    first = lf_text.count("\n", 0, start) + 1
    return _NearMatch(first, first + lf_text.count("\n", start, max(end - 1, start)), difference)


_Variant = tuple[str, Callable[[str], str], bool]
"""What is wrong with a text that is found when it is read in this way, and whether the file is read so too."""
_MODEL_MISTAKES: tuple[_Variant, ...] = (
    ("the line numbers in it are not part of the file; it means {place}", partial(_LINE_NUMBER.sub, ""), False),
    ("it has escapes in place of the characters that {place} has", partial(_ESCAPE.sub, lambda it: _ESCAPES[it[0]]), False),
    ("it has one backslash where there are two in {place}", methodcaller("replace", "\\", "\\\\"), False),
    ("it has HTML escapes in place of the characters that {place} has", html.unescape, False),
)
_EQUIVALENCES: tuple[_Variant, ...] = (
    ("it differs from {place} only in quotes, dashes or other typographic characters", _to_ascii_punctuation, True),
    ("it differs from {place} only in how accents are composed", lambda it: normalize("NFC", _to_ascii_punctuation(it)), True),
    ("it differs from {place} only in upper and lower case", str.lower, True),
)


def _find_variant(lf_text: str, old: str, variants: tuple[_Variant, ...]) -> _NearMatch | None:
    for why, read, both in variants:
        text, other = read(lf_text) if both else lf_text, read(old)
        if other and (at := text.find(other)) >= 0:
            return _near_match_at(text, at, at + len(other), why)
    return None


def _find_whitespace_variant(lf_text: str, old: str) -> _NearMatch | None:
    wanted = _split_old(old)
    if not any(line.strip() for line in wanted):
        return None
    text = _LineIndex(lf_text)
    at = next(_find_windows([line.strip() for line in text.lines], [line.strip() for line in wanted]), None)
    if at is None:
        return None
    there = text.lines[at : at + len(wanted)]
    if [line.rstrip() for line in there] == [line.rstrip() for line in wanted]:
        why = "it differs from {place} only in spaces at the ends of lines"
    else:
        tabs = any("\t" in _leading_whitespace(line) for line in there) != any(
            "\t" in _leading_whitespace(line) for line in wanted
        )
        kind = "tabs" if any("\t" in _leading_whitespace(line) for line in there) else "spaces"
        why = "it differs from {place} only in indentation" + (f" (the file has {kind})" if tabs else "")
    return _NearMatch(at + 1, at + len(wanted), why)


def _find_most_similar(lf_text: str, old: str, should_stop: ShouldStop) -> _NearMatch | None:
    """The lines around the one that is most like the longest wanted one."""
    wanted = [line.strip() for line in _split_old(old)]
    key = max(wanted, key=len)[:_MAX_SHOWN_WIDTH]
    if not key:
        return None
    lines = lf_text.split("\n")
    solid, most = _FuzzyText(key), len(key) * (1 - _MIN_SIMILARITY)
    best: tuple[float, int] | None = None
    for at, line in enumerate(lines[:_MAX_SEARCHED_LINES]):
        if at % 256 == 0 and should_stop():
            return None
        cost = solid.cost(line.strip()[: 2 * _MAX_SHOWN_WIDTH], most)
        if cost is not None and (best is None or cost < best[0]):
            best, most = (cost, at), cost
    if best is None:
        return None
    first = max(best[1] - wanted.index(max(wanted, key=len)), 0)
    last = min(first + len(wanted), len(lines))
    alike = round(100 * (1 - best[0] / len(key)))
    return _NearMatch(first + 1, max(last, first + 1), f"the nearest is {{place}} ({alike} % alike)")
