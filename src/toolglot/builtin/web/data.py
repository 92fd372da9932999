"""Structured arguments of the web tools, and the data of their results."""

from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from toolglot.builtin.web.pages import LineMatch, PageSlice
from toolglot.builtin.web.search import SearchHit

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
    """A web search.

    Attributes:
        q: What to search for.
        recency: Only results from the last N days.
        domains: Only results from these domains.
    """

    q: str
    recency: int | None = None
    domains: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, kw_only=True)
class WebOpen:
    """A page to read.

    Attributes:
        ref_id: URL, or the ref of a page or a search result.
        lineno: First line to show, from 1.
        link: Number of a link on the page, from 1: opens its target instead.
    """

    ref_id: str
    lineno: int | None = None
    link: int | None = None


@dataclass(frozen=True, kw_only=True)
class WebFind:
    """Text to find in a page.

    Attributes:
        ref_id: URL, or the ref of a page or a search result.
        pattern: The text, matched case-insensitively.
    """

    ref_id: str
    pattern: str


class OpenResult(PageSlice, frozen=True, kw_only=True):
    """The data of `web_open`: the part of a page that is shown."""

    ref: str
    url: str
    requested: str
    title: str
    status: int
    media_type: str
    method: str
    """chromium, or http (no script ran)."""
    sandbox: bool | None
    notes: tuple[str, ...]
    format: str
    question: str | None
    question_lines: list[int]
    """Lines that contain words of the question."""


class OpenFailure(msgspec.Struct, frozen=True, kw_only=True):
    """One of several pages that could not be opened, and why."""

    target: str
    reason: str


class OpenManyResult(msgspec.Struct, frozen=True, kw_only=True):
    """The data of `web_open` for several pages."""

    pages: list[OpenResult]
    failed: list[OpenFailure]


class FindResult(msgspec.Struct, frozen=True, kw_only=True):
    """The data of `web_find`. total: all matching lines, also those that are not shown."""

    ref: str
    url: str
    title: str
    pattern: str
    matches: list[LineMatch]
    total: int
    total_lines: int
    method: str


class SearchItem(SearchHit, frozen=True, kw_only=True):
    """One search result with its ref."""

    ref: str


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """The data of `web_search`."""

    queries: list[str]
    service: str
    results: list[SearchItem]


class WebStepResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one search, one page or one find. data: that of the single tool."""

    kind: Literal["search_query", "open", "find"]
    text: str
    data: Any = None
    is_error: bool = False


class WebResult(msgspec.Struct, frozen=True, kw_only=True):
    """The data of `web`, in the order of the arguments."""

    parts: list[WebStepResult]
