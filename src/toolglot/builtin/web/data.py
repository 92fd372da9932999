"""What the tools of the web are asked for, where it is more than a text, and what they tell."""

from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from toolglot.builtin.web.pages import LineMatch

__all__ = [
    "FindResult",
    "OpenFailure",
    "OpenManyResult",
    "OpenResult",
    "SearchItem",
    "SearchResult",
    "WebFind",
    "WebOpen",
    "WebQuery",
    "WebResult",
    "WebStepResult",
]


@dataclass(frozen=True, kw_only=True)
class WebQuery:
    """A search.

    Attributes:
        q: What to search for.
        recency: Only results of the last so many days.
        domains: Only results of these domains.
    """

    q: str
    recency: int | None = None
    domains: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, kw_only=True)
class WebOpen:
    """A page to read.

    Attributes:
        ref_id: Its address, or the ref of a page or of a search result.
        lineno: The first line to show.
        link: The number of a link on it, from 1: what that leads to is read instead.
    """

    ref_id: str
    lineno: int | None = None
    link: int | None = None


@dataclass(frozen=True, kw_only=True)
class WebFind:
    """Text to find in a page.

    Attributes:
        ref_id: Its address, or the ref of a page or of a search result.
        pattern: The text.
    """

    ref_id: str
    pattern: str


class OpenResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `web_open` found. text: the part that is shown; next_line, next_char: where the next one begins."""

    ref: str
    url: str
    requested: str
    title: str
    status: int
    media_type: str
    how: str
    """chromium, or http: no script ran."""
    sandbox: bool | None
    format: str
    question: str | None
    question_lines: list[int]
    """Lines that have words of the question."""
    text: str
    start_line: int
    end_line: int
    total_lines: int
    start_char: int
    end_char: int
    total_chars: int
    next_line: int | None
    next_char: int | None
    notes: list[str]
    blocked: list[str]
    """Hosts that the page asked for and did not get."""


class OpenFailure(msgspec.Struct, frozen=True, kw_only=True):
    """One of several pages that did not open, and why."""

    target: str
    why: str


class OpenManyResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `web_open` found of several pages."""

    pages: list[OpenResult]
    failed: list[OpenFailure]


class FindResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `web_find` found. total: all lines that have the pattern, also those that are not shown."""

    ref: str
    url: str
    title: str
    pattern: str
    matches: list[LineMatch]
    total: int
    total_lines: int
    how: str


class SearchItem(msgspec.Struct, frozen=True, kw_only=True):
    """One result of a search."""

    ref: str
    url: str
    title: str
    snippet: str
    date: str


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `web_search` found."""

    queries: list[str]
    service: str
    results: list[SearchItem]


class WebStepResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one search, one page or one finding. data: as the tool for just that gives it."""

    kind: Literal["search_query", "open", "find"]
    text: str
    data: Any = None
    is_error: bool = False


class WebResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `web` found, in the order of what was asked for."""

    parts: list[WebStepResult]
