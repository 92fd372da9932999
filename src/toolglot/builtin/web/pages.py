"""Pages that were opened, under short refs: shown part by part, searched, and forgotten when there are too many.

Laws: a ref stays what it is for the conversation, also when the page behind it is forgotten. Lines count from 1, characters
from 0. A part ends at the end of a line, unless one line is longer than a part.
"""

import re
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import Literal

import msgspec

from toolglot.builtin.web.text import plain
from toolglot.errors import ToolError

__all__ = ["Format", "Found", "Page", "Pages", "Part", "find_in", "part_of", "speaking_lines"]

Format = Literal["markdown", "text", "html"]
MAX_REFS = 20_000
MAX_KEPT = 32_000_000  # characters of all pages
FRESH_SECONDS = 900.0
MAX_FINDINGS = 50
AROUND = 1  # lines beside a finding
WIDE = 300  # characters of a line that are shown around a finding
_WORD = re.compile(r"\w{4,}")
_SPACES = re.compile(r"\s+")


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """What was opened. text: as Markdown; html: as it was rendered, "" where it was no HTML."""

    url: str
    requested: str
    how: Literal["chromium", "http"]
    text: str
    title: str = ""
    status: int = 200
    media_type: str = "text/html"
    html: str = ""
    sandbox: bool | None = None
    """Whether Chromium kept its own sandbox; None: no browser."""
    notes: tuple[str, ...] = ()
    """What is not as it should be: still loading, cut off, no browser."""
    blocked: tuple[str, ...] = ()
    """Hosts that the page wanted and did not get."""

    def as_text(self, format: Format) -> str:
        if format == "html":
            return self.html or self.text
        return self.text if format == "markdown" else "\n".join(map(plain, self.text.split("\n")))


class Part(msgspec.Struct, frozen=True):
    """A part of a page. Where it ends the page, there is no next one."""

    text: str
    start_line: int
    end_line: int
    total_lines: int
    start_char: int
    end_char: int
    total_chars: int
    next_line: int | None
    next_char: int | None


class Found(msgspec.Struct, frozen=True):
    """A line that has the pattern, with its neighbours."""

    line: int
    text: str
    before: tuple[str, ...]
    after: tuple[str, ...]


class Pages:
    """Refs and what is behind them."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._urls: dict[str, str] = {}
        self._refs: dict[str, str] = {}
        self._kept: OrderedDict[str, tuple[Page, float]] = OrderedDict()
        self._size = 0

    def ref(self, url: str) -> str:
        """The ref of an address: always the same."""
        if url not in self._refs:
            if len(self._refs) >= MAX_REFS:
                raise ToolError(f"over {MAX_REFS} pages were seen in this conversation: begin a new one", kind="limit")
            ref = f"w{len(self._refs) + 1}"
            self._refs[url], self._urls[ref] = ref, url
        return self._refs[url]

    def address(self, target: str) -> str:
        """The address behind a ref; an address is its own. Raises ToolError (not_found): a ref that was never given."""
        target = target.strip()
        bare = target.strip("[]")
        if re.fullmatch(r"w\d{1,9}", bare):
            if bare not in self._urls:
                known = f"refs go from w1 to w{len(self._urls)}" if self._urls else "no page was opened or found so far"
                raise ToolError(f"there is no ref {bare!r}: {known}", kind="not_found")
            return self._urls[bare]
        return target

    def keep(self, page: Page) -> str:
        """Keeps a page under the address that was asked for and the one it was found at; the ref."""
        for url in dict.fromkeys((page.url, page.requested)):
            self._drop(url)
            self._kept[url] = page, self._clock()
            self._size += len(page.text) + len(page.html)
        while self._size > MAX_KEPT and len(self._kept) > 1:
            self._drop(next(iter(self._kept)))
        return self.ref(page.requested)

    def kept(self, url: str) -> Page | None:
        """A page that was opened a short time ago."""
        page, when = self._kept.get(url, (None, 0.0))
        return page if page is not None and self._clock() - when <= FRESH_SECONDS else None

    def _drop(self, url: str) -> None:
        if url in self._kept:
            page, _ = self._kept.pop(url)
            self._size -= len(page.text) + len(page.html)


# ---- looking at text


def part_of(text: str, most: int, start_line: int | None = None, start_char: int | None = None) -> Part:
    """A part of at most so many characters. Raises ToolError: it begins behind the end."""
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    total = len(text)
    if start_line is not None and not 1 <= start_line <= len(starts):
        raise ToolError(
            f"start_line {start_line} is outside of the page, which has lines 1 to {len(starts)}", kind="validation"
        )
    if start_char is not None and not 0 <= start_char <= max(total - 1, 0):
        raise ToolError(
            f"start_char {start_char} is outside of the page, which has characters 0 to {max(total - 1, 0)}", kind="validation"
        )
    begin = starts[start_line - 1] if start_line is not None else start_char or 0
    end = min(total, begin + most)
    if end < total:
        whole = starts[bisect_right(starts, end) - 1]
        end = whole if whole > begin else end
    first, last = bisect_right(starts, begin), bisect_right(starts, max(begin, end - 1))
    more = end < total
    next_line = bisect_right(starts, end) if more and end == starts[bisect_right(starts, end) - 1] else None
    return Part(text[begin:end].rstrip("\n"), first, last, len(starts), begin, end, total, next_line, end if more else None)


def find_in(text: str, pattern: str) -> tuple[list[Found], int]:
    """Lines that have the pattern, in any case, whatever marks stand between its words; and how many there are."""
    lines, wanted = text.split("\n"), _folded(pattern)
    found: list[Found] = []
    count = 0
    for number, line in enumerate(lines):
        if wanted in _folded(line) or wanted in _folded(plain(line)):
            count += 1
            if len(found) < MAX_FINDINGS:
                before = tuple(_shown(one) for one in lines[max(0, number - AROUND) : number])
                after = tuple(_shown(one) for one in lines[number + 1 : number + 1 + AROUND])
                found.append(Found(number + 1, _shown(line, wanted), before, after))
    return found, count


def _folded(text: str) -> str:
    return _SPACES.sub(" ", text).casefold().strip()


def _shown(line: str, wanted: str = "") -> str:
    """A line, or what of it stands around the finding."""
    if len(line) <= WIDE:
        return line
    at = max(0, line.casefold().find(wanted) - WIDE // 3) if wanted else 0
    begin, end = ("…" if at else ""), ("…" if at + WIDE < len(line) else "")
    return f"{begin}{line[at : at + WIDE]}{end}"


def speaking_lines(text: str, question: str, most: int = 5) -> list[int]:
    """The lines that have the most words of a question, in order."""
    words = set(_WORD.findall(question.casefold()))
    if not words:
        return []
    scores = [
        (len(words.intersection(_WORD.findall(line.casefold()))), number) for number, line in enumerate(text.split("\n"), 1)
    ]
    best = sorted((score, -number) for score, number in scores if score)[-most:]
    return sorted(-number for _, number in best)
