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

from toolglot.builtin.text import newline_of, numbered
from toolglot.errors import ToolError
from toolglot.facades.omission import placeholder

__all__ = ["Count", "NotReplaced", "Replaced", "Strategy", "distance", "placeholder", "replaced"]

Count = Literal["one", "all"] | int
Strategy = Literal["exact", "flexible", "tokens", "fuzzy"]
Stop = Callable[[], bool]
_Span = tuple[int, int, str]

_SHORTEST_FUZZY = 10
_MOST_FUZZY_WORK = 4e8
_FUZZY = 0.10  # of the characters may differ
_SPACE_COSTS = 0.1  # of what another character costs
_MOST_TOKENS, _MOST_TOKEN_WORK = 2000, 2e7
_SEPARATE = re.compile(r"([():\[\]{}<>=])")
_SHOWN_LINES, _SHOWN_WIDTH = 12, 200
_LOOKED_AT = 5000  # lines among which the nearest one is looked for
_LIKE = 0.6
_LINE_NUMBERS = re.compile(r"^[ \t]*L?\d+(?:\t|: ?|\| ?|→)", re.MULTILINE)
_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\r": "\r", r"\"": '"', r"\'": "'", r"\\": "\\", r"\`": "`"}
_ESCAPE = re.compile(r"""\\[ntr"'\\`]""")
_QUOTES = dict.fromkeys((0x2018, 0x2019, 0x201A, 0x201B, 0x2032), "'")
_DOUBLE_QUOTES = dict.fromkeys((0x201C, 0x201D, 0x201E, 0x201F, 0x2033, 0xAB, 0xBB), '"')
_DASHES = dict.fromkeys((*range(0x2010, 0x2015), 0x2212), "-")
_TYPOGRAPHY: dict[int, str] = {**_QUOTES, **_DOUBLE_QUOTES, **_DASHES, 0xA0: " "}
_typewritten: Callable[[str], str] = methodcaller("translate", _TYPOGRAPHY)


class Replaced(msgspec.Struct, frozen=True):
    """A text after a replacement. ranges: the first and last new line of each place."""

    text: str
    count: int
    strategy: Strategy
    ranges: tuple[tuple[int, int], ...]


class NotReplaced(msgspec.Struct, frozen=True):
    """Why nothing was replaced. lines: where the text was found, or the lines that are nearest to it."""

    reason: Literal["not_found", "ambiguous", "identical", "empty", "placeholder"]
    found: int = 0
    lines: tuple[int, ...] = ()
    why: str = ""


class _Near(msgspec.Struct, frozen=True):
    """Lines that are almost what was looked for; why: what makes the difference."""

    first: int
    last: int
    why: str


def _never() -> bool:
    return False


def replaced(
    text: str,
    old: str,
    new: str,
    *,
    count: Count = "one",
    tolerant: bool = False,
    name: str = "the file",
    stop: Stop = _never,
) -> Replaced:
    """The text with `new` for `old`. Raises ToolError, whose details are a NotReplaced."""
    _check_count(count)
    plain, wanted, given = _plain(text), _plain(old), _plain(new)
    _check(wanted, given, name)
    if tolerant and (found := placeholder(given, wanted)):
        why = f"`new` has the line {found!r}, which stands for code that is not there: write all of the code"
        raise _failure(why, NotReplaced("placeholder"))
    strategy, spans = _found(plain, wanted, given, tolerant, stop)
    if not spans:
        raise _missing(plain, wanted, name, stop)
    _check_found(plain, spans, count, name)
    after = _applied(text, plain, spans, "\r\n" if "\r\n" in new else "\n")
    if tolerant:
        after = _ended_as(text, after)
    return Replaced(after, len(spans), strategy, tuple(_ranges(plain, spans)))


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n")


def _check_count(count: object) -> None:
    if count in ("one", "all"):
        return
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ToolError(f'`count` is "one", "all" or a number above 0, not {count!r:.40}', kind="validation")


def _check(old: str, new: str, name: str) -> None:
    if not old:
        why = f"{name!r} has text already, and `old` is empty: give the text that is to be replaced"
        raise _failure(why, NotReplaced("empty"))
    if old == new:
        why = f"`old` and `new` are the same, so nothing would change in {name!r} (line ends stay as the file has them)"
        raise _failure(why, NotReplaced("identical"))


def _failure(why: str, details: NotReplaced) -> ToolError:
    return ToolError(why, kind="validation" if details.reason in ("identical", "placeholder") else "execution", details=details)


def _check_found(plain: str, spans: list[_Span], count: Count, name: str) -> None:
    wanted = 1 if count == "one" else len(spans) if count == "all" else count
    if len(spans) == wanted:
        return
    lines = tuple(plain.count("\n", 0, span[0]) + 1 for span in spans[:20])
    places = f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}{' …' if len(spans) > 20 else ''}"
    do = f'give more of the text around the one that is meant, or count="all" for all {len(spans)}'
    if count != "one":
        do = f"give count={len(spans)}, or another `old`"
    times = "once" if len(spans) == 1 else f"{len(spans)} times"
    expected = "" if count == "one" else f" and not {wanted} times"
    why = f"`old` is in {name!r} {times}{expected} ({places}): {do}"
    raise _failure(why, NotReplaced("ambiguous", len(spans), lines))


# ---- where it is


def _found(plain: str, old: str, new: str, tolerant: bool, stop: Stop) -> tuple[Strategy, list[_Span]]:
    spans = _exact(plain, old, new)
    if spans or not tolerant or not old.strip():
        return "exact", spans
    if spans := _flexible(plain, old, new):
        return "flexible", spans
    if spans := _tokens(plain, old, new):
        return "tokens", spans
    return "fuzzy", _fuzzy(plain, old, new, stop)


def _exact(plain: str, old: str, new: str) -> list[_Span]:
    spans: list[_Span] = []
    at = plain.find(old)
    while at >= 0:
        spans.append((at, at + len(old), new))
        at = plain.find(old, at + len(old))
    return spans


class _Lines:
    """The lines of a text, and where each begins."""

    def __init__(self, plain: str) -> None:
        self.lines = plain.split("\n")
        self.starts: list[int] = []
        at = 0
        for line in self.lines:
            self.starts.append(at)
            at += len(line) + 1
        self.size = len(plain)
        if not self.lines[-1]:
            self.lines.pop()

    def span(self, first: int, count: int, *, ends: bool) -> tuple[int, int]:
        """From the beginning of a line to the end of one, with its line end where `ends`."""
        last = first + count - 1
        end = self.starts[last] + len(self.lines[last])
        return self.starts[first], min(end + 1, self.size) if ends else end


def _wanted(old: str) -> list[str]:
    lines = old.split("\n")
    return lines[:-1] if old.endswith("\n") else lines


def _windows(stripped: list[str], wanted: list[str]) -> Iterator[int]:
    """Where the wanted lines are, one after the other, without overlaps."""
    at = 0
    while at <= len(stripped) - len(wanted):
        if stripped[at] == wanted[0] and stripped[at : at + len(wanted)] == wanted:
            yield at
            at += len(wanted)
        else:
            at += 1


def _flexible(plain: str, old: str, new: str) -> list[_Span]:
    """Whole lines that are the same without the space around them."""
    text, wanted = _Lines(plain), [line.strip() for line in _wanted(old)]
    if not any(wanted):
        return []
    return [
        (*text.span(at, len(wanted), ends=old.endswith("\n")), _indented(new, _indent(text.lines[at])))
        for at in _windows([line.strip() for line in text.lines], wanted)
    ]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _indented(new: str, indent: str) -> str:
    """New lines at the indentation of the place: the first one's own is the measure for the others."""
    lines = new.split("\n")
    own = _indent(lines[0])
    made: list[str] = []
    for line in lines:
        if not line.strip():
            made.append("")
        elif line.startswith(own):
            made.append(indent + line[len(own) :])
        else:
            made.append(indent + line.lstrip(" \t"))
    return "\n".join(made)


def _tokens(plain: str, old: str, new: str) -> list[_Span]:
    """The same tokens from the beginning of a line on, whatever space is between them."""
    tokens = _SEPARATE.sub(r" \1 ", old).split()
    if not tokens or len(tokens) > _MOST_TOKENS or "".join(tokens) not in "".join(plain.split()):
        return []
    if plain.count(tokens[0]) * len(tokens) > _MOST_TOKEN_WORK:
        return []
    pattern = re.escape(tokens[0])
    for before, token in pairwise(tokens):
        pattern += (r"\s+" if _is_word(before[-1]) and _is_word(token[0]) else r"\s*") + re.escape(token)
    if _is_word(tokens[-1][-1]):
        pattern += r"(?!\w)"
    if old.endswith("\n"):
        pattern += r"[ \t]*(?:\n|\Z)"
    found = re.finditer(rf"^([ \t]*){pattern}", plain, re.MULTILINE)
    return [(one.start(), one.end(), _indented(new, one[1])) for one in found]


def _is_word(one: str) -> bool:
    return one.isalnum() or one == "_"


def _fuzzy(plain: str, old: str, new: str, stop: Stop) -> list[_Span]:
    """As many lines as were given, nearly the same: the best ones that do not overlap."""
    text, wanted = _Lines(plain), _wanted(old)
    search, count = "\n".join(wanted), len(wanted)
    if len(old) < _SHORTEST_FUZZY or not 0 < len(text.lines) * len(search) ** 2 <= _MOST_FUZZY_WORK:
        return []
    most = _FUZZY * len(search)
    solid = _Solid(search)
    scores: list[tuple[float, int]] = []
    for at in range(len(text.lines) - count + 1):
        if at % 256 == 0 and stop():
            raise ToolError("the edit was cancelled; nothing was changed", kind="cancelled")
        cost = solid.cost("\n".join(text.lines[at : at + count]), most)
        if cost is not None:
            scores.append((cost, at))
    chosen: list[int] = []
    for _, at in sorted(scores):
        if all(abs(at - other) >= count for other in chosen):
            chosen.append(at)
    ends = old.endswith("\n")
    return [(*text.span(at, count, ends=ends), _indented(new, _indent(text.lines[at]))) for at in sorted(chosen)]


class _Solid:
    """A text that others are compared with; space counts little."""

    def __init__(self, text: str) -> None:
        self._text, self._solid = text, "".join(text.split())
        self._letters = Counter(self._solid)

    def cost(self, other: str, most: float) -> float | None:
        """What the other text lacks; None where that is more than `most`."""
        solid = "".join(other.split())
        if abs(len(solid) - len(self._solid)) > most:
            return None
        letters = Counter(solid)
        if max((letters - self._letters).total(), (self._letters - letters).total()) > most:
            return None
        apart = distance(solid, self._solid)
        if apart > most:
            return None
        cost = apart + _SPACE_COSTS * max(distance(other, self._text) - apart, 0)
        return cost if cost <= most else None


def distance(one: str, other: str) -> int:
    """How many characters must be put in, left out or changed; all the columns of a row at once, as bits of a number."""
    if one == other:
        return 0
    if not one or not other:
        return len(one) or len(other)
    places: dict[str, int] = {}
    for i, letter in enumerate(one):
        places[letter] = places.get(letter, 0) | 1 << i
    size = len(one)
    full, high = (1 << size) - 1, 1 << (size - 1)
    up, down, score = full, 0, size
    for letter in other:
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


def _applied(text: str, plain: str, spans: list[_Span], newline: str) -> str:
    """The spans of the plain text replaced in the real one, whose line ends may be others."""
    ends = _Ends(text, plain, newline)
    parts: list[str] = []
    done = 0
    for start, end, new in spans:
        start, end, new = _narrowed(plain, start, end, new) if ends.any else (start, end, new)
        at, to = ends.real(start), ends.real(end)
        parts += (text[done:at], ends.written(new, at))
        done = to
    return "".join((*parts, text[done:]))


def _narrowed(plain: str, start: int, end: int, new: str) -> _Span:
    """A span without what stays the same at its ends."""
    head = 0
    while head < min(end - start, len(new)) and plain[start + head] == new[head]:
        head += 1
    start, new = start + head, new[head:]
    tail = 0
    while tail < min(end - start, len(new)) and plain[end - 1 - tail] == new[-1 - tail]:
        tail += 1
    return start, end - tail, new[: len(new) - tail]


class _Ends:
    """Where the line ends of a text have two characters; `newline` is for a text that has no line end."""

    def __init__(self, text: str, plain: str, newline: str) -> None:
        self._text, self._style, self._newline = text, newline_of(text), newline
        self.any = len(text) != len(plain)
        self._returns: list[int] = []
        at = text.find("\r\n") if self.any else -1
        while at >= 0:
            self._returns.append(at - len(self._returns))
            at = text.find("\r\n", at + 2)

    def real(self, at: int) -> int:
        """A place in the plain text as one in the text itself."""
        return at + bisect_left(self._returns, at)

    def written(self, new: str, at: int) -> str:
        """New text with the line ends of the place that it comes to."""
        if "\n" not in new:
            return new
        if self._style == "none":
            return new.replace("\n", self._newline)
        if self._style != "mixed":
            return new.replace("\n", "\r\n") if self._style == "crlf" else new
        near = self._text.find("\n", at)
        near = near if near >= 0 else self._text.rfind("\n")
        return new.replace("\n", "\r\n") if self._text[near - 1 : near] == "\r" else new


def _ended_as(before: str, after: str) -> str:
    """With a last line end where there was one, and without where there was none."""
    if before.endswith("\n") and not after.endswith("\n"):
        return after + ("\r\n" if before.endswith("\r\n") else "\n")
    if not before.endswith("\n") and after.endswith("\n"):
        return after[:-1].removesuffix("\r")
    return after


def _ranges(plain: str, spans: list[_Span]) -> Iterator[tuple[int, int]]:
    line, done = 1, 0
    for start, end, new in spans:
        line += plain.count("\n", done, start)
        first = line
        line += new.count("\n")
        yield first, max(first, line - 1 if new.endswith("\n") else line)
        done = end


# ---- why it is not there


def _missing(plain: str, old: str, name: str, stop: Stop) -> ToolError:
    near = _near(plain, old, stop)
    if near is None:
        why = f"`old` is not in {name!r}, and nothing there is like it: read the file again"
        return _failure(why, NotReplaced("not_found"))
    lines = plain.split("\n")[near.first - 1 : near.last]
    shown = [line if len(line) <= _SHOWN_WIDTH else line[:_SHOWN_WIDTH] + "…" for line in lines[:_SHOWN_LINES]]
    more = f"\n… {len(lines) - len(shown)} more lines" if len(lines) > len(shown) else ""
    place = f"line {near.first}" if near.first == near.last else f"lines {near.first}-{near.last}"
    why = f"`old` is not in {name!r}: {near.why.format(place=place)}:\n{numbered(shown, near.first)}{more}"
    return _failure(why, NotReplaced("not_found", 0, (near.first, near.last), near.why.format(place=place)))


def _near(plain: str, old: str, stop: Stop) -> _Near | None:
    near = _same(plain, old, _SLIPS) or _with_space(plain, old) or _same(plain, old, _FOLDS)
    if near is None and (spans := _tokens(plain, old, "")):
        near = _at(plain, spans[0][0], spans[0][1], "it differs from {place} only in spaces or line breaks")
    return near or _nearest(plain, old, stop)


def _at(plain: str, start: int, end: int, why: str) -> _Near:
    first = plain.count("\n", 0, start) + 1
    return _Near(first, first + plain.count("\n", start, max(end - 1, start)), why)


_Reading = tuple[str, Callable[[str], str], bool]
"""What is wrong with a text that is found when it is read in this way, and whether the file is read so too."""
_SLIPS: tuple[_Reading, ...] = (
    ("the line numbers in it are not part of the file; it means {place}", partial(_LINE_NUMBERS.sub, ""), False),
    ("it has escapes in place of the characters that {place} has", partial(_ESCAPE.sub, lambda it: _ESCAPES[it[0]]), False),
    ("it has one backslash where there are two in {place}", methodcaller("replace", "\\", "\\\\"), False),
    ("it has HTML escapes in place of the characters that {place} has", html.unescape, False),
)
_FOLDS: tuple[_Reading, ...] = (
    ("it differs from {place} only in quotes, dashes or other typographic characters", _typewritten, True),
    ("it differs from {place} only in how accents are composed", lambda it: normalize("NFC", _typewritten(it)), True),
    ("it differs from {place} only in upper and lower case", str.lower, True),
)


def _same(plain: str, old: str, readings: tuple[_Reading, ...]) -> _Near | None:
    for why, read, both in readings:
        text, other = read(plain) if both else plain, read(old)
        if other and (at := text.find(other)) >= 0:
            return _at(text, at, at + len(other), why)
    return None


def _with_space(plain: str, old: str) -> _Near | None:
    wanted = _wanted(old)
    if not any(line.strip() for line in wanted):
        return None
    text = _Lines(plain)
    at = next(_windows([line.strip() for line in text.lines], [line.strip() for line in wanted]), None)
    if at is None:
        return None
    there = text.lines[at : at + len(wanted)]
    if [line.rstrip() for line in there] == [line.rstrip() for line in wanted]:
        why = "it differs from {place} only in spaces at the ends of lines"
    else:
        tabs = any("\t" in _indent(line) for line in there) != any("\t" in _indent(line) for line in wanted)
        kind = "tabs" if any("\t" in _indent(line) for line in there) else "spaces"
        why = "it differs from {place} only in indentation" + (f" (the file has {kind})" if tabs else "")
    return _Near(at + 1, at + len(wanted), why)


def _nearest(plain: str, old: str, stop: Stop) -> _Near | None:
    """The lines around the one that is most like the longest wanted one."""
    wanted = [line.strip() for line in _wanted(old)]
    key = max(wanted, key=len)[:_SHOWN_WIDTH]
    if not key:
        return None
    lines = plain.split("\n")
    solid, most = _Solid(key), len(key) * (1 - _LIKE)
    best: tuple[float, int] | None = None
    for at, line in enumerate(lines[:_LOOKED_AT]):
        if at % 256 == 0 and stop():
            return None
        cost = solid.cost(line.strip()[: 2 * _SHOWN_WIDTH], most)
        if cost is not None and (best is None or cost < best[0]):
            best, most = (cost, at), cost
    if best is None:
        return None
    first = max(best[1] - wanted.index(max(wanted, key=len)), 0)
    last = min(first + len(wanted), len(lines))
    alike = round(100 * (1 - best[0] / len(key)))
    return _Near(first + 1, max(last, first + 1), f"the nearest is {{place}} ({alike} % alike)")
