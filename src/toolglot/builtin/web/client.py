"""Opens pages for one conversation, in a browser or without one where there is none, and stores what it opened.

Invariants: every byte of a page comes through the proxy. The result says how a page was opened. Nothing is started before it is
needed, and everything ends with `close`, with the object, or with the program.
"""

import asyncio
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING

from toolglot.builtin.web.address import AddressGuard, Resolver, parse_site, resolve_name
from toolglot.builtin.web.browser import BrowserUnavailable, Chromium, DownloadStarted
from toolglot.builtin.web.config import WebConfig
from toolglot.builtin.web.http_fetch import fetch_page
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
    *("text/", "application/json", "application/xml", "application/javascript", "application/x-ndjson", "application/yaml"),
)


class WebClient:
    """Opens pages by URL. Safe under any number of calls and event loops."""

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
        """Open a page and store it. Raises ToolError."""
        parse_site(url)
        page = await self._loop_thread.run(lambda: self._backend.open(url, seconds))
        self.pages.add(page)
        return page

    def close(self) -> None:
        """End the browser and everything in progress."""
        self._finalizer()


class _Backend:
    """The part that lives in the loop thread."""

    def __init__(self, config: WebConfig, guard: AddressGuard, connect: Connect, ssl: "SSLContext | None") -> None:
        self._config, self._guard, self._ssl = config, guard, ssl
        self._proxy = EgressProxy(guard, connect)
        self._browser: Chromium | None = None
        self._start_lock: asyncio.Lock | None = None

    async def close(self) -> None:
        """End the browser, then the proxy."""
        if self._browser is not None:
            await self._browser.close()
        await self._proxy.close()

    async def open(self, url: str, seconds: float) -> Page:
        """Open a page in whatever way is available. Raises ToolError."""
        site = parse_site(url)
        await self._guard.resolve_allowed(site.host, site.port)  # the proxy checks again; this one spares starting a browser
        browser = await self._start()
        ticket = self._proxy.issue(self._config.max_bytes)
        reason = "the user has disabled it" if self._config.browser == "none" else ""
        try:
            if not reason:
                try:
                    return await self._render(browser, url, ticket, seconds)
                except BrowserUnavailable as e:
                    reason = str(e)
                except DownloadStarted:
                    reason = "it is a file"
            async with asyncio.timeout(seconds):
                return await self._fetch(url, ticket, f"the page was opened without a browser, so no scripts ran: {reason}")
        except TimeoutError:
            message = f"{url[:200]!r} did not open within {seconds:g} s; try again with a longer timeout"
            raise ToolError(message, kind="timeout", code="url_timeout") from None
        finally:
            self._proxy.revoke(ticket)

    async def _start(self) -> Chromium:
        # Created here and not in __init__, because a lock belongs to the loop that first waits for it.
        self._start_lock = self._start_lock or asyncio.Lock()
        async with self._start_lock:
            if self._browser is None:
                await self._proxy.start()
                self._browser = Chromium(self._proxy, self._config.browser, without_sandbox=self._config.without_sandbox)
            return self._browser

    async def _render(self, browser: Chromium, url: str, ticket: Ticket, seconds: float) -> Page:
        page = await browser.render(ticket, url, self._config.max_bytes, seconds)
        is_html = "html" in page.media_type
        return Page(
            url=page.url,
            requested=url,
            how="chromium",
            text=await _extract_text(page.markup, page.url) if is_html else clean_text(page.markup),
            html=page.markup if is_html else "",
            title=clean_text(page.title).replace("\n", " "),
            status=page.status,
            media_type=page.media_type,
            sandbox=browser.is_sandboxed,
            notes=page.notes,
            blocked=_list_refused_hosts(ticket),
        )

    async def _fetch(self, url: str, ticket: Ticket, note: str) -> Page:
        max_bytes = self._config.max_bytes
        page = await fetch_page(self._proxy, ticket, url, max_bytes, self._ssl)
        is_html = "html" in page.media_type
        is_text = is_html or page.media_type.startswith(_TEXT_TYPES)
        with suppress(UnicodeDecodeError):  # valid UTF-8 without NUL is text too; the sample may end within a character
            is_text = is_text or "\0" not in page.body[:4096][:-4].decode("utf-8")
        if not is_text:
            size = f"{'over ' if page.truncated else ''}{len(page.body)} bytes"
            raise ToolError(f"{url[:200]!r} is a file ({page.media_type}, {size}), not a page", code="not_text")
        markup = decode_page(page.body, page.charset)
        notes = [note, *([f"the page is larger than {max_bytes} bytes and was truncated"] if page.truncated else [])]
        return Page(
            url=page.url,
            requested=url,
            how="http",
            text=await _extract_text(markup, page.url) if is_html else clean_text(markup),
            html=markup if is_html else "",
            title=extract_title(markup) if is_html else "",
            status=page.status,
            media_type=page.media_type,
            notes=tuple(notes),
            blocked=_list_refused_hosts(ticket),
        )


def _list_refused_hosts(ticket: Ticket) -> tuple[str, ...]:
    return tuple(dict.fromkeys(host for host, _ in ticket.refusals))[:20]


async def _extract_text(html: str, url: str) -> str:
    """Return the article of a page; where that takes too long, all of its text."""
    try:
        return await asyncio.wait_for(asyncio.to_thread(extract_article, html, url), EXTRACT_SECONDS)
    except TimeoutError:
        return await asyncio.to_thread(html_to_markdown, html, url)
