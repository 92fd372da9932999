"""A real Chrome or Chromium that renders pages: started with the first page, with a fresh profile for each
call.

Invariants: the browser reaches nothing but the proxy: it resolves no names, loopback is no exception, UDP is
off. Chromium's own sandbox stays on, except for root, who cannot have it, and if the user turns it off. It
sees nothing of our environment. A page has limits for its time, its bytes as transferred and its bytes
decompressed; what is there then is shown, with a note.
"""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, redirect_stderr, suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from toolglot.builtin.web.config import WebConfig
from toolglot.builtin.web.page_text import clean_text
from toolglot.builtin.web.pages import LoadedPage
from toolglot.builtin.web.proxy import EgressProxy, Ticket
from toolglot.confine.child_process import measure_memory
from toolglot.confine.programs import (
    find_package,
    find_program,
    is_outside,
    is_startable,
    safe_programs,
    safe_search_path,
)
from toolglot.confine.roots import Root
from toolglot.confine.web_address import parse_site
from toolglot.errors import ToolError

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Page, Playwright, Request, Response, Route

__all__ = [
    "NO_SANDBOX_NOTE",
    "BrowserUnavailable",
    "Chromium",
    "DownloadStarted",
    "can_sandbox",
    "find_browser",
]

SETTLE_SECONDS = 3.0
POLL_SECONDS = 0.1
LOAD_SHARE = 0.7
"""The share of the time limit for loading; the rest is for reading the page."""
CLOSE_SECONDS = 3.0
START_SECONDS = 30.0
MEMORY_POLL_SECONDS = 0.25
NO_SANDBOX_NOTE = (
    "the browser runs without its own sandbox, which root cannot have and WebConfig can turn off: "
    "open pages that you do not trust as an ordinary user"
)
_PROGRAM_NAMES = (
    *("google-chrome", "google-chrome-stable", "chromium", "chromium-browser", "chrome"),
    *("microsoft-edge", "microsoft-edge-stable", "brave-browser"),
)
_INSTALL_PATHS = (
    *("/opt/google/chrome/chrome", "/usr/lib/chromium/chromium", "/snap/bin/chromium"),
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
)
_CHROMIUM_FLAGS = (
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",  # the name in older versions
    "--disable-quic",
    "--dns-prefetch-disable",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-pings",
    "--mute-audio",
    "--js-flags=--max-old-space-size=1024",
)
_PROXY_BYPASS = "<-loopback>"  # Chromium bypasses proxies for loopback by default
_INHERITED_VARIABLES = ("LANG", "LC_ALL", "TZ", "TMPDIR")
_SKIPPED_RESOURCES = frozenset({"image", "media", "font"})
_READ_SCRIPT = """limit => {
  const inlineShadowRoots = root => {
    for (const element of root.querySelectorAll('*')) if (element.shadowRoot) {
      inlineShadowRoots(element.shadowRoot);
      const copy = document.createElement('div');
      copy.innerHTML = element.shadowRoot.innerHTML;
      element.prepend(copy);
    }
  };
  const raw = document.getElementById('webkit-xml-viewer-source-xml');
  if (raw) return [document.contentType, '', raw.innerHTML.slice(0, limit)];
  if (!/html/.test(document.contentType)) {
    const pre = document.querySelector('pre');
    return [document.contentType, '', ((pre || document.documentElement).textContent || '').slice(0, limit)];
  }
  try { inlineShadowRoots(document); } catch {}
  return [document.contentType, document.title.slice(0, 300), document.documentElement.outerHTML.slice(0, limit)];
}"""
_DISABLE_UDP_SCRIPT = (
    "for (const name of ['RTCPeerConnection', 'webkitRTCPeerConnection', 'WebTransport']) "
    "delete globalThis[name];"
)
_ERROR_MESSAGES = {
    "ERR_CERT": "its certificate is not trusted",
    "ERR_SSL": "TLS failed",
    "ERR_TOO_MANY_REDIRECTS": "it redirects in a loop",
    "ERR_UNSAFE_REDIRECT": "it redirects to something that is not a web page",
    "ERR_UNSAFE_PORT": "its port is not a web port",
    "ERR_EMPTY_RESPONSE": "it sent an empty response",
    "ERR_INVALID": "its response is malformed",
    "ERR_CONTENT_DECODING_FAILED": "its body cannot be decompressed",
    "ERR_BLOCKED": "it leads to an address that may not be opened",
    "has been closed": "the page closed itself",
    "crashed": "the page used more memory than allowed",
}
_NOT_ALLOWED_ERRORS = frozenset({"ERR_UNSAFE_REDIRECT", "ERR_UNSAFE_PORT", "ERR_BLOCKED"})
_STATE_SCRIPT = (
    "() => [document.readyState, document.documentElement ? document.documentElement.textContent.length : 0]"
)


_driver_lock = threading.Lock()  # stderr is that of the whole program


class BrowserUnavailable(Exception):
    """There is no browser, or it does not start; the message says why."""


class DownloadStarted(Exception):
    """The URL is a file and not a page."""


def find_browser(configured_path: str = "", roots: Sequence[Root] = ()) -> str:
    """Return the path of a browser that can be started, outside the roots. Raises BrowserUnavailable."""
    if configured_path == "none":
        raise BrowserUnavailable("the user has disabled it")
    if not find_package("playwright", roots):
        raise BrowserUnavailable(
            "playwright is not installed outside the workspace (pip install 'toolglot[web]')"
        )
    if configured_path:
        path = os.path.abspath(configured_path)
        if not os.path.isfile(path) or not os.access(path, os.X_OK):
            raise BrowserUnavailable(f"the browser {configured_path!r} does not exist or is not executable")
        if not is_outside(path, roots):
            raise BrowserUnavailable(
                f"the browser {configured_path!r} is inside the workspace, where a command can replace it"
            )
        return path
    programs = (find_program(name, roots) for name in _PROGRAM_NAMES)
    installed = (path for path in _INSTALL_PATHS if os.access(path, os.X_OK) and is_outside(path, roots))
    if path := next(filter(None, programs), "") or next(installed, ""):
        return path
    raise BrowserUnavailable("no Chrome or Chromium is installed outside the workspace")


def can_sandbox() -> bool:
    """Whether a browser that we start can have its own sandbox."""
    return os.geteuid() != 0


class Chromium:
    """One browser behind the proxy. Belongs to one event loop."""

    def __init__(self, proxy: EgressProxy, config: WebConfig, roots: Sequence[Root] = ()) -> None:
        self._proxy, self._config, self._roots = proxy, config, roots
        self._must_warn = not self._is_sandboxed
        self._lock, self._start_failure = asyncio.Lock(), ""
        self._driver: Playwright | None = None
        self._browser: Browser | None = None
        self._home = ""

    @property
    def _is_sandboxed(self) -> bool:
        return not self._config.without_sandbox and can_sandbox()

    async def start(self) -> "Browser":
        """Return the browser; start it if it is not running. Raises BrowserUnavailable."""
        async with self._lock:
            if self._browser is not None and self._browser.is_connected():
                return self._browser
            await self._stop()
            if self._start_failure:
                raise BrowserUnavailable(self._start_failure)
            path = find_browser(self._config.browser, self._roots)
            # starts the package's driver instead of its own Node
            node = os.environ.get("PLAYWRIGHT_NODEJS_PATH", "")
            if node and not (os.path.isabs(node) and is_startable(node, self._roots)):
                raise BrowserUnavailable(
                    f"PLAYWRIGHT_NODEJS_PATH is {node!r}, which is not a path outside the workspace"
                )
            from playwright.async_api import Error, async_playwright

            home = self._home = tempfile.mkdtemp(prefix="toolglot-web-")
            variables: dict[str, str | float | bool] = {
                name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ
            }
            variables |= {
                "PATH": safe_search_path(self._roots),
                "HOME": home,
                "XDG_CONFIG_HOME": home,
                "XDG_CACHE_HOME": home,
            }
            try:
                async with asyncio.timeout(START_SECONDS):
                    async with _hide_terminal():
                        with safe_programs():
                            self._driver = await async_playwright().start()
                    self._browser = await self._driver.chromium.launch(
                        executable_path=path,
                        chromium_sandbox=self._is_sandboxed,
                        proxy={"server": self._proxy.url, "bypass": _PROXY_BYPASS},
                        args=list(_CHROMIUM_FLAGS),
                        env=variables,
                        timeout=START_SECONDS * 1000,
                    )
            except (Error, OSError, TimeoutError) as e:
                await self._stop()
                is_sandbox_failure = "sandbox" in str(e).lower() and self._is_sandboxed
                reason = "its sandbox cannot start here" if is_sandbox_failure else type(e).__name__
                # Remembered: a browser that cannot start would cost every page START_SECONDS.
                self._start_failure = f"{path} does not start ({reason})"
                raise BrowserUnavailable(self._start_failure) from None
            return self._browser

    async def close(self) -> None:
        """End the browser."""
        async with self._lock:
            await self._stop()

    async def _stop(self) -> None:
        browser, driver, home = self._browser, self._driver, self._home
        self._browser, self._driver, self._home = None, None, ""
        if browser is not None:
            with suppress(Exception):
                await asyncio.wait_for(browser.close(), CLOSE_SECONDS)
        if driver is not None:
            with suppress(Exception):
                await asyncio.wait_for(driver.stop(), CLOSE_SECONDS)
        if home:
            shutil.rmtree(home, ignore_errors=True)

    async def render(self, ticket: Ticket, url: str, max_bytes: int, seconds: float) -> LoadedPage:
        """Render a page. Raises ToolError, BrowserUnavailable, DownloadStarted, TimeoutError."""
        browser = await self.start()
        from playwright.async_api import Error

        visit = _PageVisit(ticket, url, max_bytes)
        try:
            async with asyncio.timeout(seconds):
                context = await browser.new_context(
                    proxy={
                        "server": self._proxy.url,
                        "bypass": _PROXY_BYPASS,
                        "username": ticket.name,
                        "password": "-",
                    },
                    accept_downloads=False,
                    service_workers="block",
                    ignore_https_errors=False,
                )
                watch = asyncio.ensure_future(self._limit_memory())
                try:
                    page = await visit.load(context, seconds, self._is_sandboxed)
                    if self._must_warn:
                        self._must_warn = False
                        return replace(page, notes=(*page.notes, NO_SANDBOX_NOTE))
                    return page
                finally:
                    watch.cancel()
                    with suppress(Exception):
                        await asyncio.wait_for(asyncio.shield(context.close()), CLOSE_SECONDS)
        except Error as e:
            if not browser.is_connected():
                message = "the browser ended while it opened the page; try again"
                raise ToolError(message, code="url_failed", retryable=True) from None
            raise visit.translate_error(str(e)) from None

    async def _limit_memory(self) -> None:
        """While the browser uses too much memory, kill its largest page, or if it has none, its largest
        process.
        """
        while True:
            await asyncio.sleep(MEMORY_POLL_SECONDS)
            usage = await asyncio.to_thread(measure_memory, f"HOME={self._home}")
            if sum(usage.values()) > self._config.max_memory:
                with suppress(OSError):  # one of them has ended meanwhile
                    pages = [
                        pid
                        for pid in usage
                        if b"--type=renderer" in Path(f"/proc/{pid}/cmdline").read_bytes()
                    ]
                    os.kill(max(pages or usage, key=lambda pid: usage[pid]), signal.SIGKILL)


class _StreamElsewhere:
    """A stream whose descriptor is another one, for programs that inherit it."""

    def __init__(self, stream: Any, fd: int) -> None:
        self._stream, self._fd = stream, fd

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def fileno(self) -> int:
        return self._fd


@asynccontextmanager
async def _hide_terminal() -> AsyncGenerator[None]:
    """While this lasts, Playwright gives its driver no terminal as stderr.

    Node restores the modes of every terminal that it inherits when it exits: a chat that has switched the
    echo off meanwhile, and on again, would leave the user without it.
    """
    while not _driver_lock.acquire(blocking=False):  # another thread's event loop starts one
        await asyncio.sleep(POLL_SECONDS)
    try:
        with open(os.devnull, "wb") as null:
            stream: Any = _StreamElsewhere(sys.stderr, null.fileno())
            with redirect_stderr(stream):
                yield
    finally:
        _driver_lock.release()


class _PageVisit:
    """One page while it is loaded and read."""

    def __init__(self, ticket: Ticket, url: str, max_bytes: int) -> None:
        self._ticket, self._url, self._max_bytes = ticket, url, max_bytes
        self._navigation_urls: list[str] = []
        """The URLs of the page itself, one redirect after the other."""
        self._pending_requests: set[Request] = set()
        self._decoded_bytes = 0
        self._response: Response | None = None
        self._page: Page | None = None
        self._notes: dict[str, None] = {}
        self._background_tasks: set[asyncio.Future[Any]] = set()

    async def load(self, context: "BrowserContext", seconds: float, is_sandboxed: bool) -> LoadedPage:
        """Open the page, wait until it is idle or its time is over, read it.

        Raises playwright's errors, ToolError.
        """
        from playwright.async_api import Error
        from playwright.async_api import TimeoutError as LoadTimeout

        page = self._page = await context.new_page()
        await self._watch(context, page)
        deadline = monotonic() + seconds * LOAD_SHARE
        self._response = await page.goto(self._url, wait_until="commit", timeout=_remaining_ms(deadline))
        try:
            await page.wait_for_load_state("domcontentloaded", timeout=_remaining_ms(deadline))
            # Idle: loaded, the same for one poll, and no requests. Pages that are never idle get
            # SETTLE_SECONDS.
            end, last = min(deadline, monotonic() + SETTLE_SECONDS), None
            while monotonic() < end:
                state = await page.evaluate(_STATE_SCRIPT)
                if state == last and state[0] == "complete" and not self._pending_requests:
                    break
                last = state
                await asyncio.sleep(POLL_SECONDS)
            else:
                if last is not None and last[0] != "complete":
                    self._notes["the page was still loading when it was read"] = None
        except LoadTimeout:
            self._notes["the page was still loading when its time was over"] = None
        except Error:
            if page.is_closed() or not self._ticket.is_exhausted:
                raise
        content = await page.evaluate(_READ_SCRIPT, self._max_bytes)
        try:
            media_type, title, markup = map(str, content)
        except (TypeError, ValueError):  # a page can redefine what the script relies on
            raise ToolError(f"{self._url[:200]!r} cannot be read", code="url_failed") from None
        site = parse_site(page.url)
        # A page that led to a refused address is not shown.
        if (refusal := self._ticket.refusals.get((site.host, site.port))) is not None:
            raise refusal
        if len(markup) >= self._max_bytes or self._ticket.is_exhausted:
            self._notes[f"the page is larger than {self._max_bytes} bytes and was truncated"] = None
        return LoadedPage(
            url=page.url,
            method="chromium",
            title=clean_text(title).replace("\n", " "),
            status=self._response.status if self._response is not None else 200,
            media_type=media_type.partition(";")[0],
            markup=markup,
            sandbox=is_sandboxed,
            notes=tuple(self._notes),
        )

    # ---- events

    async def _watch(self, context: "BrowserContext", page: "Page") -> None:
        """Register the handlers of a page."""

        def on_request(request: "Request") -> None:
            self._pending_requests.add(request)
            if self._is_main_navigation(request):
                self._navigation_urls.append(request.url)

        def on_response(response: "Response") -> None:
            if self._is_main_navigation(response.request):
                self._response = response

        def on_popup(popup: "Page") -> None:
            if popup != page:
                self._run_in_background(popup.close())

        failed: set[str] = set()  # the browser shows an error page of its own for each, which does not count

        def on_failure(event: dict[str, Any]) -> None:
            failed.add(event["requestId"])

        def on_data(event: dict[str, Any]) -> None:
            # Bytes after decompression: a small response may be a huge page.
            if event["requestId"] not in failed:
                self._decoded_bytes += int(event["dataLength"])
            if self._decoded_bytes > 2 * self._max_bytes and not page.is_closed():
                self._ticket.abort()
                self._run_in_background(page.close())

        context.on("page", on_popup)
        page.on("dialog", lambda dialog: self._run_in_background(dialog.dismiss()))
        page.on("request", on_request)
        for event in ("requestfinished", "requestfailed"):
            page.on(event, lambda request: self._pending_requests.discard(request))
        page.on("response", on_response)
        await context.add_init_script(_DISABLE_UDP_SCRIPT)
        await context.route("**/*", self._route)
        session = cast(Any, await context.new_cdp_session(page))
        session.on("Network.loadingFailed", on_failure)
        session.on("Network.dataReceived", on_data)
        await session.send(
            "Network.enable", {"maxTotalBufferSize": 1_000_000, "maxResourceBufferSize": 1_000_000}
        )

    async def _route(self, route: "Route", request: "Request") -> None:
        """Let the page, its scripts, styles and data pass; frames stay empty, and what has no text is not
        loaded.
        """
        is_main = self._is_main_navigation(request)
        try:
            parse_site(request.url)
            is_wanted = request.resource_type not in _SKIPPED_RESOURCES
        except ToolError:
            is_wanted = False
        with suppress(Exception):
            if request.is_navigation_request() and not is_main:
                await route.fulfill(status=200, content_type="text/html", body="")
            else:
                await (route.continue_() if is_wanted else route.abort("blockedbyclient"))

    def _is_main_navigation(self, request: "Request") -> bool:
        """Whether a request is for the page itself, and not for something inside it."""
        from playwright.async_api import Error

        try:
            return (
                request.is_navigation_request()
                and self._page is not None
                and request.frame == self._page.main_frame
            )
        except Error:  # the request of a popup that has no frame yet
            return False

    def _run_in_background(self, awaitable: Any) -> None:
        def forget(task: "asyncio.Future[Any]") -> None:
            self._background_tasks.discard(task)
            if not task.cancelled():
                task.exception()  # retrieved, so that asyncio does not log it

        task = asyncio.ensure_future(awaitable)
        self._background_tasks.add(task)
        task.add_done_callback(forget)

    # ---- failures

    def translate_error(self, message: str) -> Exception:
        """Return an error of the browser as ours."""
        shown = f"{self._url[:200]!r}"
        for url in reversed(self._navigation_urls):  # the last refusal on the way to the page
            with suppress(ToolError):
                site = parse_site(url)
                if (site.host, site.port) in self._ticket.refusals:
                    return self._ticket.refusals[site.host, site.port]
        if self._ticket.is_exhausted:
            text = f"{shown} is larger than {self._max_bytes} bytes, and nothing of it can be shown"
            return ToolError(text, kind="limit", code="file_too_large")
        if "Download is starting" in message:
            return DownloadStarted()
        if "Timeout" in message:
            return TimeoutError()
        sign = next((sign for sign in _ERROR_MESSAGES if sign in message), "")
        if sign in _NOT_ALLOWED_ERRORS:
            return ToolError(
                f"{shown}: {_ERROR_MESSAGES[sign]}", kind="not_allowed", code="address_not_allowed"
            )
        return ToolError(
            f"{shown}: {_ERROR_MESSAGES.get(sign, 'the browser could not open it')}", code="url_failed"
        )


def _remaining_ms(deadline: float) -> float:
    return max(1.0, (deadline - monotonic()) * 1000)
