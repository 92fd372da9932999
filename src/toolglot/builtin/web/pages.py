"""Pages that were opened, under short refs: shown part by part, searched, and dropped when there are too
many.

Invariants: a ref keeps its meaning for the whole conversation, also after its page is dropped. Lines count
from 1, characters from 0. A part ends at the end of a line, unless one line is longer than a part.
"""

import re
from bisect import bisect_right
from collections.abc import Callable
from time import monotonic
from typing import Literal

import msgspec

from toolglot.builtin.web.page_text import strip_markdown
from toolglot.errors import ToolError
from toolglot.values.failures import invalid_argument

__all__ = [
    "Format",
    "LineMatch",
    "LoadedPage",
    "Page",
    "PageSlice",
    "PageStore",
    "find_lines",
    "find_relevant_lines",
    "slice_text",
]

Format = Literal["markdown", "text", "html"]
MAX_REFS = 20_000
MAX_STORED_CHARS = 32_000_000  # of all pages
FRESH_SECONDS = 900.0
MAX_MATCHES = 50
CONTEXT_LINES = 1  # around a match
MAX_SHOWN_WIDTH = 300  # characters of a line with a match
_WORD = re.compile(r"\w{4,}")
_SPACES = re.compile(r"\s+")


class LoadedPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page as a browser or a plain request delivers it. markup: HTML, or plain text if the media type says
    so.
    """

    url: str
    method: Literal["chromium", "http"]
    title: str = ""
    status: int = 200
    media_type: str = "text/html"
    markup: str = ""
    sandbox: bool | None = None
    """Whether Chromium kept its own sandbox; None without a browser."""
    notes: tuple[str, ...] = ()
    """What is incomplete: still loading, truncated, no browser."""

    @property
    def is_html(self) -> bool:
        return "html" in self.media_type


class Page(LoadedPage, frozen=True, kw_only=True):
    """A page with its text as Markdown. markup: "" unless it is HTML."""

    requested: str
    text: str

    def render(self, format: Format) -> str:
        if format == "html":
            return self.markup or self.text
        return self.text if format == "markdown" else "\n".join(map(strip_markdown, self.text.split("\n")))


class PageSlice(msgspec.Struct, frozen=True):
    """A part of a page. The last part has no next one."""

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
    """A line that contains the pattern, with its neighbours."""

    line: int
    text: str
    before: tuple[str, ...]
    after: tuple[str, ...]


class PageStore:
    """Refs and the pages behind them."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._urls: dict[str, str] = {}
        self._refs: dict[str, str] = {}
        self._stored: dict[str, tuple[Page, float]] = {}
        self._size = 0

    def assign_ref(self, url: str) -> str:
        """Return the ref of a URL, which is always the same."""
        if url not in self._refs:
            if len(self._refs) >= MAX_REFS:
                message = f"this conversation has seen over {MAX_REFS} pages: start a new one"
                raise ToolError(message, kind="limit", code="quota_exceeded")
            ref = f"w{len(self._refs) + 1}"
            self._refs[url], self._urls[ref] = ref, url
        return self._refs[url]

    def resolve_target(self, target: str) -> str:
        """Return the URL behind a ref; a URL stands for itself.

        Raises ToolError if a ref was never assigned.
        """
        target = target.strip()
        ref = target.strip("[]")
        if not re.fullmatch(r"w\d{1,9}", ref):
            return target
        if ref not in self._urls:
            known = (
                f"refs go from w1 to w{len(self._urls)}"
                if self._urls
                else "no page has been opened or found yet"
            )
            raise ToolError(f"there is no ref {ref!r}: {known}", kind="not_found", code="ref_not_found")
        return self._urls[ref]

    def add(self, page: Page) -> str:
        """Store a page under the URL that was requested and the one it was found at; return its ref."""
        for url in dict.fromkeys((page.url, page.requested)):
            self._remove(url)
            self._stored[url] = page, self._clock()
            self._size += len(page.text) + len(page.markup)
        while self._size > MAX_STORED_CHARS and len(self._stored) > 1:
            self._remove(next(iter(self._stored)))
        return self.assign_ref(page.requested)

    def get_fresh(self, url: str) -> Page | None:
        """Return a page that was opened recently."""
        page, stored_at = self._stored.get(url, (None, 0.0))
        return page if page is not None and self._clock() - stored_at <= FRESH_SECONDS else None

    def _remove(self, url: str) -> None:
        if url in self._stored:
            page, _ = self._stored.pop(url)
            self._size -= len(page.text) + len(page.markup)


# ---- text


def slice_text(
    text: str, limit: int, start_line: int | None = None, start_char: int | None = None
) -> PageSlice:
    """Return a part of at most `limit` characters. Raises ToolError if it begins after the end."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    total = len(text)
    if start_line is not None and not 1 <= start_line <= len(starts):
        raise invalid_argument("start_line", f"is {start_line}; the page has lines 1 to {len(starts)}")
    if start_char is not None and not 0 <= start_char <= max(total - 1, 0):
        raise invalid_argument(
            "start_char", f"is {start_char}; the page has characters 0 to {max(total - 1, 0)}"
        )
    begin = start_char or 0
    if start_line is not None:
        begin = starts[start_line - 1]
    end = min(total, begin + limit)
    if end < total:
        line_start = starts[bisect_right(starts, end) - 1]
        if line_start > begin:
            end = line_start
    first, last = bisect_right(starts, begin), bisect_right(starts, max(begin, end - 1))
    next_char = end if end < total else None
    is_line_start = end == starts[bisect_right(starts, end) - 1]
    next_line = bisect_right(starts, end) if next_char is not None and is_line_start else None
    return PageSlice(
        text[begin:end].rstrip("\n"), first, last, len(starts), begin, end, total, next_line, next_char
    )


def find_lines(text: str, pattern: str) -> tuple[list[LineMatch], int]:
    """Return lines that contain the pattern (ignoring case, whitespace and Markdown marks), and how many
    there are.
    """

    def fold(value: str) -> str:
        return _SPACES.sub(" ", value).casefold().strip()

    lines, wanted = text.split("\n"), fold(pattern)
    matches: list[LineMatch] = []
    count = 0
    for index, line in enumerate(lines):
        if wanted in fold(line) or wanted in fold(strip_markdown(line)):
            count += 1
            if len(matches) < MAX_MATCHES:
                before = tuple(map(_shorten_line, lines[max(0, index - CONTEXT_LINES) : index]))
                after = tuple(map(_shorten_line, lines[index + 1 : index + 1 + CONTEXT_LINES]))
                matches.append(LineMatch(index + 1, _shorten_line(line, wanted), before, after))
    return matches, count


def _shorten_line(line: str, match: str = "") -> str:
    """Return a line, or of a long one the part around the match."""
    if len(line) <= MAX_SHOWN_WIDTH:
        return line
    start = max(0, line.casefold().find(match) - MAX_SHOWN_WIDTH // 3) if match else 0
    end = start + MAX_SHOWN_WIDTH
    before = "…" if start else ""
    after = "…" if end < len(line) else ""
    return f"{before}{line[start:end]}{after}"


def find_relevant_lines(text: str, question: str, limit: int = 5) -> list[int]:
    """Return the numbers of the lines that contain the most words of a question, in order."""
    words = set(_WORD.findall(question.casefold()))
    if not words:
        return []
    lines = enumerate(text.split("\n"), 1)
    scores = [(len(words.intersection(_WORD.findall(line.casefold()))), -number) for number, line in lines]
    best = sorted(score for score in scores if score[0])[-limit:]
    return sorted(-number for _, number in best)
