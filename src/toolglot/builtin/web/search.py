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

from toolglot.builtin.web.config import WebConfig, secret_of
from toolglot.builtin.web.text import cleaned, markdown
from toolglot.errors import ToolError
from toolglot.jsontext import loads
from toolglot.redact import HIDDEN

__all__ = ["Asked", "Hit", "search"]

MAX_ANSWER = 4_000_000
MAX_SNIPPET = 600
SECONDS = 20.0
NONE_SET = "no search service is set up: the user can set searxng_url, brave_key or tavily_key"
_RANGES = ((1, "day"), (7, "week"), (31, "month"), (366, "year"))
_SPACES = re.compile(r"\s+")


class Asked(msgspec.Struct, frozen=True):
    """One question to a service."""

    query: str
    allowed: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    days: int | None = None
    most: int = 8

    @property
    def with_sites(self) -> str:
        """The query with its domains as operators, which most engines understand."""
        among = " OR ".join(f"site:{domain}" for domain in self.allowed)
        parts = [self.query, f"({among})" if len(self.allowed) > 1 else among, *(f"-site:{domain}" for domain in self.blocked)]
        return " ".join(part for part in parts if part)

    @property
    def range(self) -> str:
        """The shortest range that holds the days; "" where any age will do."""
        return next((name for most, name in _RANGES if self.days is not None and self.days <= most), "")


class Hit(msgspec.Struct, frozen=True):
    """One result."""

    url: str
    title: str
    snippet: str = ""
    date: str = ""


class _Call(msgspec.Struct, frozen=True):
    """A request to a service, and where the results are in its answer."""

    service: str
    method: str
    url: str
    where: tuple[str, ...]
    snippet: str
    dates: tuple[str, ...]
    headers: dict[str, str] = {}
    params: dict[str, str] = {}
    json: Any = None
    key: str = ""


async def search(config: WebConfig, questions: list[Asked]) -> tuple[str, list[Hit]]:
    """The service that answered, and its results: the best of every question first. Raises ToolError."""
    calls = [_call(config, asked) for asked in questions]
    lists = await asyncio.gather(*(_hits(call, asked) for call, asked in zip(calls, questions, strict=True)))
    found: dict[str, Hit] = {}
    for rank in range(max(map(len, lists), default=0)):
        for hits in lists:
            if rank < len(hits):
                found.setdefault(hits[rank].url, hits[rank])
    return calls[0].service, list(found.values())[: questions[0].most]


def _call(config: WebConfig, asked: Asked) -> _Call:
    if config.searxng_url:
        return _searxng(config.searxng_url, asked)
    if key := secret_of(config.brave_key):
        return _brave(config.brave_url, key, asked)
    if key := secret_of(config.tavily_key):
        return _tavily(config.tavily_url, key, asked)
    raise ToolError(NONE_SET, kind="not_allowed")


def _searxng(base: str, asked: Asked) -> _Call:
    params = {"q": asked.with_sites, "format": "json", **({"time_range": asked.range} if asked.range else {})}
    url = base.rstrip("/") + ("" if base.rstrip("/").endswith("/search") else "/search")
    return _Call("searxng", "GET", url, ("results",), "content", ("publishedDate",), params=params)


def _brave(url: str, key: str, asked: Asked) -> _Call:
    params = {"q": asked.with_sites, "count": str(min(asked.most, 20))}
    if asked.days is not None:
        today = datetime.now(UTC).date()
        params["freshness"] = f"{today - timedelta(days=min(asked.days, 36_500))}to{today}"
    headers = {"X-Subscription-Token": key, "Accept": "application/json"}
    return _Call("brave", "GET", url, ("web", "results"), "description", ("page_age", "age"), headers, params, key=key)


def _tavily(url: str, key: str, asked: Asked) -> _Call:
    body: dict[str, Any] = {"query": asked.query, "max_results": min(asked.most, 20)}
    body |= {"include_domains": list(asked.allowed)} if asked.allowed else {}
    body |= {"exclude_domains": list(asked.blocked)} if asked.blocked else {}
    body |= {"time_range": asked.range} if asked.range else {}
    headers = {"Authorization": f"Bearer {key}"}
    return _Call("tavily", "POST", url, ("results",), "content", ("published_date",), headers, json=body, key=key)


# ---- one request


async def _hits(call: _Call, asked: Asked) -> list[Hit]:
    value: Any = await _answer(call)
    for name in call.where:
        value = cast(dict[str, Any], value).get(name, []) if isinstance(value, dict) else []
    items = cast(list[Any], value) if isinstance(value, list) else []
    found = (_hit(cast(dict[str, Any], item), call) for item in items if isinstance(item, dict))
    return [hit for hit in found if hit is not None and _is_wanted(hit.url, asked)][: asked.most]


async def _answer(call: _Call) -> Any:
    import aiohttp

    host = urlsplit(call.url).netloc.rpartition("@")[2]
    where = f"the search service {call.service} ({host})"
    try:
        timeout = aiohttp.ClientTimeout(total=SECONDS)
        async with (
            aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.request(
                call.method, call.url, params=call.params or None, headers=call.headers, json=call.json, allow_redirects=False
            ) as answer,
        ):
            if answer.status != 200:
                raise _refusal(answer.status, where, call.service)
            data = bytearray()
            async for piece in answer.content.iter_chunked(1 << 16):
                data += piece
                if len(data) > MAX_ANSWER:
                    raise ToolError(f"{where} answered with over {MAX_ANSWER} bytes", kind="limit")
        return loads(bytes(data))
    except TimeoutError:
        raise ToolError(f"{where} did not answer within {SECONDS:g} s", kind="timeout", retryable=True) from None
    except (aiohttp.ClientError, OSError):
        raise ToolError(f"{where} could not be reached") from None
    except ValueError:
        raise ToolError(f"{where} answered with something that is not JSON") from None


def _refusal(status: int, where: str, service: str) -> ToolError:
    if status == 403 and service == "searxng":
        return ToolError(f"{where} refused (403): its settings must have json among search.formats", kind="not_allowed")
    if status in (401, 403):
        return ToolError(f"{where} refused the key ({status}): the user must set a valid one", kind="not_allowed")
    if status == 429:
        return ToolError(f"{where} has had too many requests (429): search less often", kind="limit")
    return ToolError(f"{where} answered with status {status}")


def _hit(item: dict[str, Any], call: _Call) -> Hit | None:
    url = item.get("url")
    if not isinstance(url, str) or not url.startswith(("http://", "https://")) or len(url) > 4000:
        return None
    date = next((str(item[name]) for name in call.dates if item.get(name)), "")
    url, title, snippet = (_line(text, call.key) for text in (url, _text(item.get("title")), _text(item.get(call.snippet))))
    return Hit(url, title[:300] or url, snippet[:MAX_SNIPPET], _line(date, call.key)[:40])


def _text(value: Any) -> str:
    """Marks that services put into texts are taken out."""
    return markdown(value[:8000]) if isinstance(value, str) else ""


def _line(text: str, key: str) -> str:
    text = _SPACES.sub(" ", cleaned(text)).strip()
    return text.replace(key, HIDDEN) if key else text


def _is_wanted(url: str, asked: Asked) -> bool:
    try:
        host = (urlsplit(url).hostname or "").lower()
    except ValueError:
        return False
    return (not asked.allowed or _is_of(host, asked.allowed)) and not _is_of(host, asked.blocked)


def _is_of(host: str, domains: Iterable[str]) -> bool:
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)
