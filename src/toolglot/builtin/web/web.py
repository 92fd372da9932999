"""The web of one conversation: opens pages in a browser, or without one where there is none, and keeps what it opened.

Laws: every byte of a page comes through the gate. How a page was opened is said. Nothing is started before it is needed, and
everything ends with `close`, with the object, or with the program.
"""

import asyncio
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING

from toolglot.builtin.web.address import Guard, Resolve, resolve_name, site_of
from toolglot.builtin.web.browser import Chromium, Download, NoBrowser
from toolglot.builtin.web.config import WebConfig
from toolglot.builtin.web.gate import Connect, Gate, Ticket
from toolglot.builtin.web.http import Fetched, fetch
from toolglot.builtin.web.pages import Page, Pages
from toolglot.builtin.web.text import article, cleaned, decoded, markdown, title_of
from toolglot.builtin.web.worker import Worker
from toolglot.errors import ToolError

if TYPE_CHECKING:
    from ssl import SSLContext

__all__ = ["Web"]

READ_SECONDS = 10.0
_TEXTS = ("text/", "application/json", "application/xml", "application/javascript", "application/x-ndjson", "application/yaml")


class Web:
    """Pages by address. Safe under any number of calls and event loops."""

    def __init__(
        self,
        config: WebConfig | None = None,
        *,
        resolve: Resolve = resolve_name,
        connect: Connect = asyncio.open_connection,
        ssl: "SSLContext | None" = None,
    ) -> None:
        self.config, self.pages = config or WebConfig(), Pages()
        self._engine = _Engine(self.config, Guard(self.config.allow_private, resolve), connect, ssl)
        self._worker = Worker()
        self._finalizer = weakref.finalize(self, self._worker.stop, self._engine.close)

    async def open(self, url: str, seconds: float) -> Page:
        """Opens a page and keeps it. Raises ToolError."""
        site_of(url)
        page = await self._worker.run(lambda: self._engine.open(url, seconds))
        self.pages.keep(page)
        return page

    def close(self) -> None:
        """Ends the browser and all that is under way."""
        self._finalizer()


class _Engine:
    """What lives in the worker's loop."""

    def __init__(self, config: WebConfig, guard: Guard, connect: Connect, ssl: "SSLContext | None") -> None:
        self._config, self._guard, self._ssl = config, guard, ssl
        self._gate = Gate(guard, connect)
        self._browser: Chromium | None = None
        self._begun: asyncio.Lock | None = None

    async def _begin(self) -> None:
        self._begun = self._begun or asyncio.Lock()
        async with self._begun:
            if not self._gate.url:
                await self._gate.start()
                self._browser = Chromium(self._gate, self._config.browser, without_sandbox=self._config.without_sandbox)

    async def close(self) -> None:
        """Ends the browser, then the gate."""
        if self._browser is not None:
            await self._browser.close()
        await self._gate.close()

    async def open(self, url: str, seconds: float) -> Page:
        """The page, by whatever way there is. Raises ToolError."""
        site = site_of(url)
        await self._guard.addresses(site.host, site.port)  # the gate asks again; this one only spares the way there
        await self._begin()
        ticket = self._gate.issue(self._config.max_bytes)
        why = "the user wants none" if self._config.browser == "none" else ""
        try:
            if not why:
                try:
                    return await self._rendered(url, ticket, seconds)
                except NoBrowser as e:
                    why = str(e)
                except Download:
                    why = "it is a file"
            async with asyncio.timeout(seconds):
                return await self._fetched(url, ticket, f"it was opened without a browser, so no script ran: {why}")
        except TimeoutError:
            text = f"{url[:200]!r} did not open within {seconds:g} s; try again with a longer timeout"
            raise ToolError(text, kind="timeout") from None
        finally:
            self._gate.revoke(ticket)

    async def _rendered(self, url: str, ticket: Ticket, seconds: float) -> Page:
        assert self._browser is not None
        found = await self._browser.render(ticket, url, self._config.max_bytes, seconds)
        is_html = "html" in found.media_type
        return Page(
            url=found.url,
            requested=url,
            how="chromium",
            text=await _text(found.markup, found.url) if is_html else cleaned(found.markup),
            html=found.markup if is_html else "",
            title=cleaned(found.title).replace("\n", " "),
            status=found.status,
            media_type=found.media_type,
            sandbox=self._browser.sandbox,
            notes=found.notes,
            blocked=_hosts(ticket),
        )

    async def _fetched(self, url: str, ticket: Ticket, note: str) -> Page:
        most = self._config.max_bytes
        found = await fetch(self._gate, ticket, url, most, self._ssl)
        is_html = "html" in found.media_type
        if not is_html and not found.media_type.startswith(_TEXTS) and not _is_text(found):
            size = f"{'over ' if found.cut else ''}{len(found.body)} bytes"
            raise ToolError(f"{url[:200]!r} is a file ({found.media_type}, {size}), not a page")
        markup = decoded(found.body, found.charset)
        return Page(
            url=found.url,
            requested=url,
            how="http",
            text=await _text(markup, found.url) if is_html else cleaned(markup),
            html=markup if is_html else "",
            title=title_of(markup) if is_html else "",
            status=found.status,
            media_type=found.media_type,
            notes=(note, *((f"it is larger than {most} bytes and was cut",) if found.cut else ())),
            blocked=_hosts(ticket),
        )


def _hosts(ticket: Ticket) -> tuple[str, ...]:
    return tuple(dict.fromkeys(host for host, _ in ticket.refused))[:20]


def _is_text(found: Fetched) -> bool:
    """Whether a body without a good media type is text: no NUL, and nothing that is no UTF-8."""
    head = found.body[:4096]
    with suppress(UnicodeDecodeError):
        head[:-4].decode("utf-8")
        return b"\0" not in head
    return False


async def _text(html: str, url: str) -> str:
    """The text of a page; where that takes too long, the simpler one."""
    try:
        return await asyncio.wait_for(asyncio.to_thread(article, html, url), READ_SECONDS)
    except TimeoutError:
        return await asyncio.to_thread(markdown, html, url)
