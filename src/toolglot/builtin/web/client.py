"""The web of one conversation: opens pages in a browser, or without one where there is none, and keeps what it opened.

Laws: every byte of a page comes through the gate. How a page was opened is said. Nothing is started before it is needed, and
everything ends with `close`, with the object, or with the program.
"""

import asyncio
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING

from toolglot.builtin.web.address import AddressGuard, Resolver, parse_site, resolve_name
from toolglot.builtin.web.browser import BrowserUnavailable, Chromium, DownloadStarted
from toolglot.builtin.web.config import WebConfig
from toolglot.builtin.web.http_fetch import FetchedPage, fetch_page
from toolglot.builtin.web.loop_thread import LoopThread
from toolglot.builtin.web.page_text import clean_text, decode_page, extract_article, extract_title, html_to_markdown
from toolglot.builtin.web.pages import Page, PageStore
from toolglot.builtin.web.proxy import Connect, EgressProxy, Ticket
from toolglot.errors import ToolError

if TYPE_CHECKING:
    from ssl import SSLContext

__all__ = ["WebClient"]

EXTRACT_SECONDS = 10.0
_TEXT_TYPES = (
    "text/",
    "application/json",
    "application/xml",
    "application/javascript",
    "application/x-ndjson",
    "application/yaml",
)


class WebClient:
    """Pages by address. Safe under any number of calls and event loops."""

    def __init__(
        self,
        config: WebConfig | None = None,
        *,
        resolve: Resolver = resolve_name,
        connect: Connect = asyncio.open_connection,
        ssl: "SSLContext | None" = None,
    ) -> None:
        self.config, self.pages = config or WebConfig(), PageStore()
        self._backend = _Backend(self.config, AddressGuard(self.config.allow_private, resolve), connect, ssl)
        self._loop_thread = LoopThread()
        self._finalizer = weakref.finalize(self, self._loop_thread.stop, self._backend.close)

    async def open(self, url: str, seconds: float) -> Page:
        """Opens a page and keeps it. Raises ToolError."""
        parse_site(url)
        page = await self._loop_thread.run(lambda: self._backend.open(url, seconds))
        self.pages.add(page)
        return page

    def close(self) -> None:
        """Ends the browser and all that is under way."""
        self._finalizer()


class _Backend:
    """What lives in the worker's loop."""

    def __init__(self, config: WebConfig, guard: AddressGuard, connect: Connect, ssl: "SSLContext | None") -> None:
        self._config, self._guard, self._ssl = config, guard, ssl
        self._proxy = EgressProxy(guard, connect)
        self._browser: Chromium | None = None
        self._start_lock: asyncio.Lock | None = None

    async def _start(self) -> None:
        self._start_lock = self._start_lock or asyncio.Lock()
        async with self._start_lock:
            if not self._proxy.url:
                await self._proxy.start()
                self._browser = Chromium(self._proxy, self._config.browser, without_sandbox=self._config.without_sandbox)

    async def close(self) -> None:
        """Ends the browser, then the gate."""
        if self._browser is not None:
            await self._browser.close()
        await self._proxy.close()

    async def open(self, url: str, seconds: float) -> Page:
        """The page, by whatever way there is. Raises ToolError."""
        site = parse_site(url)
        await self._guard.resolve_allowed(site.host, site.port)  # the gate asks again; this one only spares the way there
        await self._start()
        ticket = self._proxy.issue(self._config.max_bytes)
        why = "the user wants none" if self._config.browser == "none" else ""
        try:
            if not why:
                try:
                    return await self._render(url, ticket, seconds)
                except BrowserUnavailable as e:
                    why = str(e)
                except DownloadStarted:
                    why = "it is a file"
            async with asyncio.timeout(seconds):
                return await self._fetch(url, ticket, f"it was opened without a browser, so no script ran: {why}")
        except TimeoutError:
            text = f"{url[:200]!r} did not open within {seconds:g} s; try again with a longer timeout"
            raise ToolError(text, kind="timeout") from None
        finally:
            self._proxy.revoke(ticket)

    async def _render(self, url: str, ticket: Ticket, seconds: float) -> Page:
        assert self._browser is not None
        found = await self._browser.render(ticket, url, self._config.max_bytes, seconds)
        is_html = "html" in found.media_type
        return Page(
            url=found.url,
            requested=url,
            how="chromium",
            text=await _extract_text(found.markup, found.url) if is_html else clean_text(found.markup),
            html=found.markup if is_html else "",
            title=clean_text(found.title).replace("\n", " "),
            status=found.status,
            media_type=found.media_type,
            sandbox=self._browser.is_sandboxed,
            notes=found.notes,
            blocked=_list_refused_hosts(ticket),
        )

    async def _fetch(self, url: str, ticket: Ticket, note: str) -> Page:
        most = self._config.max_bytes
        found = await fetch_page(self._proxy, ticket, url, most, self._ssl)
        is_html = "html" in found.media_type
        if not is_html and not found.media_type.startswith(_TEXT_TYPES) and not _is_text(found):
            size = f"{'over ' if found.truncated else ''}{len(found.body)} bytes"
            raise ToolError(f"{url[:200]!r} is a file ({found.media_type}, {size}), not a page")
        markup = decode_page(found.body, found.charset)
        return Page(
            url=found.url,
            requested=url,
            how="http",
            text=await _extract_text(markup, found.url) if is_html else clean_text(markup),
            html=markup if is_html else "",
            title=extract_title(markup) if is_html else "",
            status=found.status,
            media_type=found.media_type,
            notes=(note, *((f"it is larger than {most} bytes and was cut",) if found.truncated else ())),
            blocked=_list_refused_hosts(ticket),
        )


def _list_refused_hosts(ticket: Ticket) -> tuple[str, ...]:
    return tuple(dict.fromkeys(host for host, _ in ticket.refusals))[:20]


def _is_text(page: FetchedPage) -> bool:
    """Whether a body without a good media type is text: no NUL, and nothing that is no UTF-8."""
    head = page.body[:4096]
    with suppress(UnicodeDecodeError):
        head[:-4].decode("utf-8")
        return b"\0" not in head
    return False


async def _extract_text(html: str, url: str) -> str:
    """The text of a page; where that takes too long, the simpler one."""
    try:
        return await asyncio.wait_for(asyncio.to_thread(extract_article, html, url), EXTRACT_SECONDS)
    except TimeoutError:
        return await asyncio.to_thread(html_to_markdown, html, url)
