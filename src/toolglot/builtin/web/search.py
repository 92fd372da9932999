"""Searches the web with SearXNG, Brave or Tavily, whichever the user has configured.

Invariants: a key appears in a header and nowhere else: no error, result or URL shows it. Domains and limits
hold whatever the service makes of them: its results are filtered again.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain, zip_longest
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from toolglot.builtin.web.config import NO_SEARCH_SERVICE, WebConfig, resolve_secret
from toolglot.builtin.web.page_text import clean_text, html_to_markdown
from toolglot.common.jsontext import loads
from toolglot.common.redact import REDACTED
from toolglot.errors import ToolError

__all__ = ["SearchHit", "SearchQuery", "search_web"]

MAX_RESPONSE_BYTES = 4_000_000
MAX_SNIPPET_CHARS = 600
TIMEOUT_SECONDS = 20.0
_TIME_RANGES = ((1, "day"), (7, "week"), (31, "month"), (366, "year"))
_SPACES = re.compile(r"\s+")


class SearchQuery(msgspec.Struct, frozen=True):
    """One query to a service."""

    query: str
    allowed_domains: tuple[str, ...] = ()
    blocked_domains: tuple[str, ...] = ()
    max_age_days: int | None = None
    limit: int = 8

    @property
    def query_with_sites(self) -> str:
        """The query with its domains as operators, which most engines support."""
        sites = " OR ".join(f"site:{domain}" for domain in self.allowed_domains)
        sites = f"({sites})" if len(self.allowed_domains) > 1 else sites
        return " ".join(
            filter(None, (self.query, sites, *(f"-site:{domain}" for domain in self.blocked_domains)))
        )

    @property
    def time_range(self) -> str:
        """The shortest range that includes the age; "" if any age will do."""
        age = self.max_age_days
        return next((name for days, name in _TIME_RANGES if age is not None and age <= days), "")

    def allows(self, url: str) -> bool:
        """Whether a result's domain is one of those that were asked for."""
        try:
            host = (urlsplit(url).hostname or "").lower()
        except ValueError:
            return False

        def is_in(domains: Iterable[str]) -> bool:
            return any(host == domain or host.endswith(f".{domain}") for domain in domains)

        if self.allowed_domains and not is_in(self.allowed_domains):
            return False
        return not is_in(self.blocked_domains)


class SearchHit(msgspec.Struct, frozen=True):
    """One result."""

    url: str
    title: str
    snippet: str = ""
    date: str = ""


class _ServiceRequest(msgspec.Struct, frozen=True):
    """A request to a service, and what it calls the fields of a result."""

    service: str
    method: str
    url: str
    snippet_key: str
    date_keys: tuple[str, ...]
    headers: dict[str, str] = {}
    params: dict[str, str] = {}
    json: Any = None
    key: str = ""

    async def send(self) -> Any:
        """Return the parsed response. Raises ToolError."""
        import aiohttp

        host = urlsplit(self.url).netloc.rpartition("@")[2]
        service = f"the search service {self.service} ({host})"
        try:
            timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
            options: dict[str, Any] = {
                "params": self.params or None,
                "headers": self.headers,
                "json": self.json,
            }
            async with (
                aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session,
                session.request(self.method, self.url, **options, allow_redirects=False) as response,
            ):
                if response.status != 200:
                    raise _status_error(response.status, service, self.service)
                data = bytearray()
                async for chunk in response.content.iter_chunked(1 << 16):
                    data += chunk
                    if len(data) > MAX_RESPONSE_BYTES:
                        raise ToolError(
                            f"{service} sent over {MAX_RESPONSE_BYTES} bytes",
                            kind="limit",
                            code="search_failed",
                        )
            return loads(bytes(data))
        except TimeoutError:
            message = f"{service} did not answer within {TIMEOUT_SECONDS:g} s"
            raise ToolError(message, kind="timeout", code="search_failed", retryable=True) from None
        except (aiohttp.ClientError, OSError):
            raise ToolError(f"{service} could not be reached", code="search_failed") from None
        except ValueError:
            raise ToolError(f"{service} sent something that is not JSON", code="search_failed") from None

    def parse_hits(self, response: Any) -> Iterator[SearchHit]:
        """Yield the results in a response that are web pages."""
        for item in self._list_items(response):
            if not isinstance(item, dict):
                continue
            fields = cast(dict[str, Any], item)
            url = fields.get("url")
            if not isinstance(url, str) or not url.startswith(("http://", "https://")) or len(url) > 4000:
                continue
            url = self._clean(url)
            title = self._clean(fields.get("title"), is_html=True)
            snippet = self._clean(fields.get(self.snippet_key), is_html=True)
            date = next((str(fields[name]) for name in self.date_keys if fields.get(name)), "")
            yield SearchHit(url, title[:300] or url, snippet[:MAX_SNIPPET_CHARS], self._clean(date)[:40])

    def _list_items(self, response: Any) -> list[Any]:
        """Return the list of results in a response; [] if there is none where the service has it."""
        path = ("web", "results") if self.service == "brave" else ("results",)
        for name in path:
            if not isinstance(response, dict):
                return []
            response = cast(dict[str, Any], response).get(name)
        return cast(list[Any], response) if isinstance(response, list) else []

    def _clean(self, value: Any, *, is_html: bool = False) -> str:
        """Return a text on one line, without the key. Services highlight matches with HTML tags."""
        text = value if isinstance(value, str) else ""
        text = html_to_markdown(text[:8000]) if is_html else clean_text(text)
        text = _SPACES.sub(" ", text).strip()
        return text.replace(self.key, REDACTED) if self.key else text


async def search_web(config: WebConfig, queries: list[SearchQuery]) -> tuple[str, list[SearchHit]]:
    """Return the service that answered, and its results: the best of every query first. Raises ToolError."""
    requests = [_build_request(config, query) for query in queries]
    rankings: list[list[SearchHit]] = []
    responses = await asyncio.gather(*(request.send() for request in requests))
    for response, request, query in zip(responses, requests, queries, strict=True):
        rankings.append([hit for hit in request.parse_hits(response) if query.allows(hit.url)][: query.limit])
    hits: dict[str, SearchHit] = {}
    for hit in filter(None, chain.from_iterable(zip_longest(*rankings))):
        hits.setdefault(hit.url, hit)
    return requests[0].service, list(hits.values())[: queries[0].limit]


def _build_request(config: WebConfig, query: SearchQuery) -> _ServiceRequest:
    if config.searxng_url:
        base = config.searxng_url.rstrip("/")
        url = base if base.endswith("/search") else f"{base}/search"
        params = {"q": query.query_with_sites, "format": "json"}
        if query.time_range:
            params["time_range"] = query.time_range
        return _ServiceRequest("searxng", "GET", url, "content", ("publishedDate",), params=params)
    if key := resolve_secret(config.brave_key):
        params = {"q": query.query_with_sites, "count": str(min(query.limit, 20))}
        if query.max_age_days is not None:
            today = datetime.now(UTC).date()
            params["freshness"] = f"{today - timedelta(days=min(query.max_age_days, 36_500))}to{today}"
        headers, dates = {"X-Subscription-Token": key, "Accept": "application/json"}, ("page_age", "age")
        return _ServiceRequest(
            "brave", "GET", config.brave_url, "description", dates, headers, params, key=key
        )
    if key := resolve_secret(config.tavily_key):
        body: dict[str, Any] = {"query": query.query, "max_results": min(query.limit, 20)}
        if query.allowed_domains:
            body["include_domains"] = list(query.allowed_domains)
        if query.blocked_domains:
            body["exclude_domains"] = list(query.blocked_domains)
        if query.time_range:
            body["time_range"] = query.time_range
        headers, dates = {"Authorization": f"Bearer {key}"}, ("published_date",)
        return _ServiceRequest(
            "tavily", "POST", config.tavily_url, "content", dates, headers, json=body, key=key
        )
    raise ToolError(NO_SEARCH_SERVICE, kind="not_allowed", code="search_unavailable")


def _status_error(status: int, service: str, name: str) -> ToolError:
    if status in (401, 403):
        problem = f"refused the key ({status}): the user must set a valid one"
        if status == 403 and name == "searxng":
            problem = "refused (403): the user must add json to search.formats in its settings"
        return ToolError(f"{service} {problem}", kind="not_allowed", code="search_unavailable")
    if status == 429:
        message = f"{service} has had too many requests (429): search less often"
        return ToolError(message, kind="limit", code="search_failed")
    return ToolError(f"{service} answered with status {status}", code="search_failed")
