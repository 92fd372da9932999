"""Opens pages for one conversation, in a browser if there is one, and stores what it opened.

Invariants: every byte of a page comes through the proxy. The result says how a page was opened. Nothing is
started before it is needed, and everything ends with `close`, with the object, or with the program.
"""

import asyncio
import threading
import weakref
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from toolglot.builtin.web.browser import BrowserUnavailable, Chromium, DownloadStarted
from toolglot.builtin.web.config import WebConfig
from toolglot.builtin.web.http_fetch import fetch_page
from toolglot.builtin.web.page_text import clean_text, extract_article, html_to_markdown
from toolglot.builtin.web.pages import LoadedPage, Page, PageStore
from toolglot.builtin.web.proxy import Connect, EgressProxy
from toolglot.confine.roots import Root
from toolglot.confine.web_address import AddressGuard, Resolver, parse_site, resolve_name
from toolglot.errors import ToolError

if TYPE_CHECKING:
    from ssl import SSLContext

__all__ = ["WebClient"]

T = TypeVar("T")
EXTRACT_SECONDS = 10.0
STOP_SECONDS = 10.0


class WebClient:
    """Opens pages by URL.

    Safe under any number of calls and event loops. A browser inside `roots` is not started.
    """

    def __init__(
        self,
        config: WebConfig | None = None,
        *,
        resolve: Resolver = resolve_name,
        connect: Connect = asyncio.open_connection,
        ssl: "SSLContext | None" = None,
        roots: Sequence[Root] = (),
    ) -> None:
        self.config, self.pages = config or WebConfig(), PageStore()
        self._backend = _Backend(
            self.config, AddressGuard(self.config.allow_private, resolve), connect, ssl, roots
        )
        self._loop_thread = _LoopThread(self._backend.close)
        self._finalizer = weakref.finalize(self, self._loop_thread.stop)

    async def open(self, url: str, seconds: float) -> Page:
        """Open a page and store it. Raises ToolError."""
        parse_site(url)
        page = await self._loop_thread.run(lambda: self._backend.open(url, seconds))
        self.pages.add(page)
        return page

    def close(self) -> None:
        """End the browser and everything in progress."""
        self._finalizer()


class _LoopThread:
    """A thread with an event loop, for what must outlive the loop of a call: a browser and its proxy.

    It starts with the first coroutine; `stop` runs `final`, then ends the thread with everything in progress.
    """

    def __init__(self, final: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._final, self._lock = final, threading.Lock()
        self._thread: threading.Thread | None = None
        self._started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._is_stopped = False

    async def run(self, factory: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine there; cancelling here cancels it there."""
        with self._lock:
            if self._is_stopped:
                raise ToolError("the web tools are closed", code="url_failed")
            if self._thread is None:
                self._thread = threading.Thread(
                    target=asyncio.run, args=(self._serve(),), name="toolglot-web", daemon=True
                )
                self._thread.start()
        loop, _ = self._started.result()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(factory(), loop))

    async def _serve(self) -> None:
        stop = asyncio.Event()
        self._started.set_result((asyncio.get_running_loop(), stop))
        await stop.wait()
        with suppress(Exception):
            await asyncio.wait_for(self._final(), STOP_SECONDS)

    def stop(self) -> None:
        """End the thread. May be called repeatedly, from any thread."""
        with self._lock:
            thread, self._thread, self._is_stopped = self._thread, None, True
        if thread is not None and thread.is_alive():
            loop, stop = self._started.result()
            loop.call_soon_threadsafe(stop.set)
            # the garbage collector may run in any thread, also in this one
            if thread is not threading.current_thread():
                thread.join(2 * STOP_SECONDS)


class _Backend:
    """The part that lives in the loop thread."""

    def __init__(
        self,
        config: WebConfig,
        guard: AddressGuard,
        connect: Connect,
        ssl: "SSLContext | None",
        roots: Sequence[Root],
    ) -> None:
        self._config, self._guard, self._ssl = config, guard, ssl
        self._proxy = EgressProxy(guard, connect)
        self._browser = Chromium(self._proxy, config, roots)

    async def close(self) -> None:
        """End the browser, then the proxy."""
        await self._browser.close()
        await self._proxy.close()

    async def open(self, url: str, seconds: float) -> Page:
        """Open a page in whatever way is available. Raises ToolError."""
        site = parse_site(url)
        # the proxy checks again; this one spares starting a browser
        await self._guard.resolve_allowed(site.host, site.port)
        await self._proxy.start()
        ticket = self._proxy.issue(self._config.max_bytes)
        try:
            try:
                return await _build_page(
                    url, await self._browser.render(ticket, url, self._config.max_bytes, seconds)
                )
            except BrowserUnavailable as e:
                reason = str(e)
            except DownloadStarted:
                reason = "it is a file"
            note = f"the page was opened without a browser, so no scripts ran: {reason}"
            async with asyncio.timeout(seconds):
                loaded = await fetch_page(self._proxy, ticket, url, self._config.max_bytes, self._ssl)
                return await _build_page(url, loaded, note)
        except TimeoutError:
            message = f"{url[:200]!r} did not open within {seconds:g} s; try again with a longer timeout"
            raise ToolError(message, kind="timeout", code="url_timeout") from None
        finally:
            self._proxy.revoke(ticket)


async def _build_page(url: str, loaded: LoadedPage, *notes: str) -> Page:
    """Return a page with its text: its article, or all of its text if finding the article takes too long."""
    fields: dict[str, Any] = {
        **msgspec.structs.asdict(loaded),
        "notes": (*notes, *loaded.notes),
        "requested": url,
    }
    if not loaded.is_html:
        fields["markup"] = ""
        return Page(**fields, text=clean_text(loaded.markup))
    try:
        text = await asyncio.wait_for(
            asyncio.to_thread(extract_article, loaded.markup, loaded.url), EXTRACT_SECONDS
        )
    except TimeoutError:
        text = await asyncio.to_thread(html_to_markdown, loaded.markup, loaded.url)
    return Page(**fields, text=text)
