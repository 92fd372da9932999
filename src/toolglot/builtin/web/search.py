"""Searching the web: SearXNG, Brave or Tavily, each one request, whichever the user has set up.

Laws: a key stands in a header and nowhere else: no error, no result and no address shows it. What was asked for (domains, how
many) holds whatever the service makes of it: its results are filtered again.
"""

import asyncio
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from toolglot.builtin.web.config import WebConfig, resolve_secret
from toolglot.builtin.web.page_text import clean_text, html_to_markdown
from toolglot.errors import ToolError
from toolglot.jsontext import loads
from toolglot.redact import REDACTED

__all__ = ["SearchHit", "SearchQuery", "search_web"]

MAX_RESPONSE_BYTES = 4_000_000
MAX_SNIPPET_CHARS = 600
TIMEOUT_SECONDS = 20.0
NOT_CONFIGURED = "no search service is set up: the user can set searxng_url, brave_key or tavily_key"
_TIME_RANGES = ((1, "day"), (7, "week"), (31, "month"), (366, "year"))
_SPACES = re.compile(r"\s+")


class SearchQuery(msgspec.Struct, frozen=True):
    """One question to a service."""

    query: str
    allowed_domains: tuple[str, ...] = ()
    blocked_domains: tuple[str, ...] = ()
    max_age_days: int | None = None
    limit: int = 8

    @property
    def query_with_sites(self) -> str:
        """The query with its domains as operators, which most engines understand."""
        among = " OR ".join(f"site:{domain}" for domain in self.allowed_domains)
        parts = [
            self.query,
            f"({among})" if len(self.allowed_domains) > 1 else among,
            *(f"-site:{domain}" for domain in self.blocked_domains),
        ]
        return " ".join(part for part in parts if part)

    @property
    def time_range(self) -> str:
        """The shortest range that holds the days; "" where any age will do."""
        return next((name for most, name in _TIME_RANGES if self.max_age_days is not None and self.max_age_days <= most), "")


class SearchHit(msgspec.Struct, frozen=True):
    """One result."""

    url: str
    title: str
    snippet: str = ""
    date: str = ""


class _ServiceRequest(msgspec.Struct, frozen=True):
    """A request to a service, and where the results are in its answer."""

    service: str
    method: str
    url: str
    result_path: tuple[str, ...]
    snippet_key: str
    date_keys: tuple[str, ...]
    headers: dict[str, str] = {}
    params: dict[str, str] = {}
    json: Any = None
    key: str = ""


async def search_web(config: WebConfig, queries: list[SearchQuery]) -> tuple[str, list[SearchHit]]:
    """The service that answered, and its results: the best of every question first. Raises ToolError."""
    calls = [_build_request(config, asked) for asked in queries]
    lists = await asyncio.gather(*(_fetch_hits(call, asked) for call, asked in zip(calls, queries, strict=True)))
    found: dict[str, SearchHit] = {}
    for rank in range(max(map(len, lists), default=0)):
        for hits in lists:
            if rank < len(hits):
                found.setdefault(hits[rank].url, hits[rank])
    return calls[0].service, list(found.values())[: queries[0].limit]


def _build_request(config: WebConfig, query: SearchQuery) -> _ServiceRequest:
    if config.searxng_url:
        return _searxng_request(config.searxng_url, query)
    if key := resolve_secret(config.brave_key):
        return _brave_request(config.brave_url, key, query)
    if key := resolve_secret(config.tavily_key):
        return _tavily_request(config.tavily_url, key, query)
    raise ToolError(NOT_CONFIGURED, kind="not_allowed")


def _searxng_request(base: str, query: SearchQuery) -> _ServiceRequest:
    params = {"q": query.query_with_sites, "format": "json", **({"time_range": query.time_range} if query.time_range else {})}
    url = base.rstrip("/") + ("" if base.rstrip("/").endswith("/search") else "/search")
    return _ServiceRequest("searxng", "GET", url, ("results",), "content", ("publishedDate",), params=params)


def _brave_request(url: str, key: str, query: SearchQuery) -> _ServiceRequest:
    params = {"q": query.query_with_sites, "count": str(min(query.limit, 20))}
    if query.max_age_days is not None:
        today = datetime.now(UTC).date()
        params["freshness"] = f"{today - timedelta(days=min(query.max_age_days, 36_500))}to{today}"
    headers = {"X-Subscription-Token": key, "Accept": "application/json"}
    return _ServiceRequest(
        "brave", "GET", url, ("web", "results"), "description", ("page_age", "age"), headers, params, key=key
    )


def _tavily_request(url: str, key: str, query: SearchQuery) -> _ServiceRequest:
    body: dict[str, Any] = {"query": query.query, "max_results": min(query.limit, 20)}
    body |= {"include_domains": list(query.allowed_domains)} if query.allowed_domains else {}
    body |= {"exclude_domains": list(query.blocked_domains)} if query.blocked_domains else {}
    body |= {"time_range": query.time_range} if query.time_range else {}
    headers = {"Authorization": f"Bearer {key}"}
    return _ServiceRequest("tavily", "POST", url, ("results",), "content", ("published_date",), headers, json=body, key=key)


# ---- one request


async def _fetch_hits(request: _ServiceRequest, query: SearchQuery) -> list[SearchHit]:
    value: Any = await _send_request(request)
    for name in request.result_path:
        value = cast(dict[str, Any], value).get(name, []) if isinstance(value, dict) else []
    items = cast(list[Any], value) if isinstance(value, list) else []
    found = (_parse_hit(cast(dict[str, Any], item), request) for item in items if isinstance(item, dict))
    return [hit for hit in found if hit is not None and _matches_domains(hit.url, query)][: query.limit]


async def _send_request(request: _ServiceRequest) -> Any:
    import aiohttp

    host = urlsplit(request.url).netloc.rpartition("@")[2]
    where = f"the search service {request.service} ({host})"
    try:
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        async with (
            aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.request(
                request.method,
                request.url,
                params=request.params or None,
                headers=request.headers,
                json=request.json,
                allow_redirects=False,
            ) as answer,
        ):
            if answer.status != 200:
                raise _status_error(answer.status, where, request.service)
            data = bytearray()
            async for piece in answer.content.iter_chunked(1 << 16):
                data += piece
                if len(data) > MAX_RESPONSE_BYTES:
                    raise ToolError(f"{where} answered with over {MAX_RESPONSE_BYTES} bytes", kind="limit")
        return loads(bytes(data))
    except TimeoutError:
        raise ToolError(f"{where} did not answer within {TIMEOUT_SECONDS:g} s", kind="timeout", retryable=True) from None
    except (aiohttp.ClientError, OSError):
        raise ToolError(f"{where} could not be reached") from None
    except ValueError:
        raise ToolError(f"{where} answered with something that is not JSON") from None


def _status_error(status: int, where: str, service: str) -> ToolError:
    if status == 403 and service == "searxng":
        return ToolError(f"{where} refused (403): its settings must have json among search.formats", kind="not_allowed")
    if status in (401, 403):
        return ToolError(f"{where} refused the key ({status}): the user must set a valid one", kind="not_allowed")
    if status == 429:
        return ToolError(f"{where} has had too many requests (429): search less often", kind="limit")
    return ToolError(f"{where} answered with status {status}")


def _parse_hit(item: dict[str, Any], request: _ServiceRequest) -> SearchHit | None:
    url = item.get("url")
    if not isinstance(url, str) or not url.startswith(("http://", "https://")) or len(url) > 4000:
        return None
    date = next((str(item[name]) for name in request.date_keys if item.get(name)), "")
    url, title, snippet = (
        _clean_line(text, request.key)
        for text in (url, _strip_markup(item.get("title")), _strip_markup(item.get(request.snippet_key)))
    )
    return SearchHit(url, title[:300] or url, snippet[:MAX_SNIPPET_CHARS], _clean_line(date, request.key)[:40])


def _strip_markup(value: Any) -> str:
    """Marks that services put into texts are taken out."""
    return html_to_markdown(value[:8000]) if isinstance(value, str) else ""


def _clean_line(text: str, key: str) -> str:
    text = _SPACES.sub(" ", clean_text(text)).strip()
    return text.replace(key, REDACTED) if key else text


def _matches_domains(url: str, query: SearchQuery) -> bool:
    try:
        host = (urlsplit(url).hostname or "").lower()
    except ValueError:
        return False
    return (not query.allowed_domains or _is_in_domains(host, query.allowed_domains)) and not _is_in_domains(
        host, query.blocked_domains
    )


def _is_in_domains(host: str, domains: Iterable[str]) -> bool:
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)
