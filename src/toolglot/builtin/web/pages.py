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

from toolglot.builtin.web.page_text import strip_markdown
from toolglot.errors import ToolError

__all__ = ["Format", "LineMatch", "Page", "PageSlice", "PageStore", "find_lines", "find_relevant_lines", "slice_text"]

Format = Literal["markdown", "text", "html"]
MAX_REFS = 20_000
MAX_STORED_CHARS = 32_000_000  # characters of all pages
FRESH_SECONDS = 900.0
MAX_MATCHES = 50
CONTEXT_LINES = 1  # lines beside a finding
MAX_SHOWN_WIDTH = 300  # characters of a line that are shown around a finding
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

    def render(self, format: Format) -> str:
        if format == "html":
            return self.html or self.text
        return self.text if format == "markdown" else "\n".join(map(strip_markdown, self.text.split("\n")))


class PageSlice(msgspec.Struct, frozen=True):
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


class LineMatch(msgspec.Struct, frozen=True):
    """A line that has the pattern, with its neighbours."""

    line: int
    text: str
    before: tuple[str, ...]
    after: tuple[str, ...]


class PageStore:
    """Refs and what is behind them."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._urls: dict[str, str] = {}
        self._refs: dict[str, str] = {}
        self._stored: OrderedDict[str, tuple[Page, float]] = OrderedDict()
        self._size = 0

    def assign_ref(self, url: str) -> str:
        """The ref of an address: always the same."""
        if url not in self._refs:
            if len(self._refs) >= MAX_REFS:
                raise ToolError(f"over {MAX_REFS} pages were seen in this conversation: begin a new one", kind="limit")
            ref = f"w{len(self._refs) + 1}"
            self._refs[url], self._urls[ref] = ref, url
        return self._refs[url]

    def resolve_target(self, target: str) -> str:
        """The address behind a ref; an address is its own. Raises ToolError (not_found): a ref that was never given."""
        target = target.strip()
        bare = target.strip("[]")
        if re.fullmatch(r"w\d{1,9}", bare):
            if bare not in self._urls:
                known = f"refs go from w1 to w{len(self._urls)}" if self._urls else "no page was opened or found so far"
                raise ToolError(f"there is no ref {bare!r}: {known}", kind="not_found")
            return self._urls[bare]
        return target

    def add(self, page: Page) -> str:
        """Keeps a page under the address that was asked for and the one it was found at; the ref."""
        for url in dict.fromkeys((page.url, page.requested)):
            self._remove(url)
            self._stored[url] = page, self._clock()
            self._size += len(page.text) + len(page.html)
        while self._size > MAX_STORED_CHARS and len(self._stored) > 1:
            self._remove(next(iter(self._stored)))
        return self.assign_ref(page.requested)

    def get_fresh(self, url: str) -> Page | None:
        """A page that was opened a short time ago."""
        page, when = self._stored.get(url, (None, 0.0))
        return page if page is not None and self._clock() - when <= FRESH_SECONDS else None

    def _remove(self, url: str) -> None:
        if url in self._stored:
            page, _ = self._stored.pop(url)
            self._size -= len(page.text) + len(page.html)


# ---- looking at text


def slice_text(text: str, limit: int, start_line: int | None = None, start_char: int | None = None) -> PageSlice:
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
    end = min(total, begin + limit)
    if end < total:
        whole = starts[bisect_right(starts, end) - 1]
        end = whole if whole > begin else end
    first, last = bisect_right(starts, begin), bisect_right(starts, max(begin, end - 1))
    more = end < total
    next_line = bisect_right(starts, end) if more and end == starts[bisect_right(starts, end) - 1] else None
    return PageSlice(
        text[begin:end].rstrip("\n"), first, last, len(starts), begin, end, total, next_line, end if more else None
    )


def find_lines(text: str, pattern: str) -> tuple[list[LineMatch], int]:
    """Lines that have the pattern, in any case, whatever marks stand between its words; and how many there are."""
    lines, wanted = text.split("\n"), _fold(pattern)
    found: list[LineMatch] = []
    count = 0
    for number, line in enumerate(lines):
        if wanted in _fold(line) or wanted in _fold(strip_markdown(line)):
            count += 1
            if len(found) < MAX_MATCHES:
                before = tuple(_shorten_line(one) for one in lines[max(0, number - CONTEXT_LINES) : number])
                after = tuple(_shorten_line(one) for one in lines[number + 1 : number + 1 + CONTEXT_LINES])
                found.append(LineMatch(number + 1, _shorten_line(line, wanted), before, after))
    return found, count


def _fold(text: str) -> str:
    return _SPACES.sub(" ", text).casefold().strip()


def _shorten_line(line: str, match: str = "") -> str:
    """A line, or what of it stands around the finding."""
    if len(line) <= MAX_SHOWN_WIDTH:
        return line
    at = max(0, line.casefold().find(match) - MAX_SHOWN_WIDTH // 3) if match else 0
    begin, end = ("…" if at else ""), ("…" if at + MAX_SHOWN_WIDTH < len(line) else "")
    return f"{begin}{line[at : at + MAX_SHOWN_WIDTH]}{end}"


def find_relevant_lines(text: str, question: str, limit: int = 5) -> list[int]:
    """The lines that have the most words of a question, in order."""
    words = set(_WORD.findall(question.casefold()))
    if not words:
        return []
    scores = [
        (len(words.intersection(_WORD.findall(line.casefold()))), number) for number, line in enumerate(text.split("\n"), 1)
    ]
    best = sorted((score, -number) for score, number in scores if score)[-limit:]
    return sorted(-number for _, number in best)
