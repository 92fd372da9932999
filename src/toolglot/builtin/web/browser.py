"""A real Chrome or Chromium that renders pages: started when the first page is opened, one fresh profile for each call.

Laws: the browser reaches nothing but the gate: names are not looked up by it, loopback is no exception, UDP is off. Chromium's
own sandbox stays on; only root, who cannot have it, and whoever says so, goes without. It sees nothing of our environment.
A page has its time, its bytes as they came and its bytes unpacked; what is over then is taken as it is, and said.
"""

import asyncio
import os
import shutil
import sys
import tempfile
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

import msgspec

from toolglot.builtin.web.address import parse_site
from toolglot.builtin.web.proxy import EgressProxy, Ticket
from toolglot.errors import ToolError

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Dialog, Page, Playwright, Request, Response, Route

__all__ = ["BrowserUnavailable", "Chromium", "DownloadStarted", "RenderedPage", "find_browser"]

SETTLE_SECONDS = 3.0
POLL_SECONDS = 0.1
LOAD_SHARE = 0.7
"""Of the time: so much is for loading, the rest for reading what is there."""
CLOSE_SECONDS = 3.0
START_SECONDS = 30.0
_PROGRAM_NAMES = (
    *(
        "google-chrome",
        "google-chrome-stable",
        "chromium",
        "chromium-browser",
        "chrome",
        "microsoft-edge",
        "microsoft-edge-stable",
    ),
    *("msedge", "brave-browser"),
)
_INSTALL_PATHS = {
    "linux": ("/opt/google/chrome/chrome", "/usr/lib/chromium/chromium", "/snap/bin/chromium"),
    "darwin": (
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
        "/Applications/Chromium.app/Contents/MacOS/Chromium",
        "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    ),
    "win32": (
        r"C:\Program Files\Google\Chrome\Application\chrome.exe",
        r"C:\Program Files (x86)\Google\Chrome\Application\chrome.exe",
        r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
    ),
}
_CHROMIUM_FLAGS = (
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",  # its name in older ones
    "--disable-quic",
    "--dns-prefetch-disable",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-pings",
    "--mute-audio",
    "--js-flags=--max-old-space-size=1024",
)
_PROXY_BYPASS = "<-loopback>"  # loopback goes through the gate like everything else
_INHERITED_VARIABLES = ("PATH", "LANG", "LC_ALL", "TZ", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "TEMP", "TMP", "TMPDIR")
_SKIPPED_RESOURCES = frozenset({"image", "media", "font"})
_READ_SCRIPT = """most => {
  const shown = root => {
    for (const one of root.querySelectorAll('*')) if (one.shadowRoot) {
      shown(one.shadowRoot);
      const copy = document.createElement('div');
      copy.innerHTML = one.shadowRoot.innerHTML;
      one.prepend(copy);
    }
  };
  const raw = document.getElementById('webkit-xml-viewer-source-xml');
  if (raw) return [document.contentType, '', raw.innerHTML.slice(0, most)];
  if (!/html/.test(document.contentType)) {
    const pre = document.querySelector('pre');
    return [document.contentType, '', ((pre || document.documentElement).textContent || '').slice(0, most)];
  }
  try { shown(document); } catch {}
  return [document.contentType, document.title.slice(0, 300), document.documentElement.outerHTML.slice(0, most)];
}"""
_DISABLE_UDP_SCRIPT = (
    "for (const name of ['RTCPeerConnection', 'webkitRTCPeerConnection', 'WebTransport']) delete globalThis[name];"
)
_STATE_SCRIPT = "() => [document.readyState, document.documentElement ? document.documentElement.textContent.length : 0]"


class BrowserUnavailable(Exception):
    """There is none, or it does not start; the message says why."""


class DownloadStarted(Exception):
    """The address is a file and no page."""


class RenderedPage(msgspec.Struct, frozen=True):
    """A page as it stands after its scripts. markup: HTML, or plain text where the media type says so."""

    url: str
    status: int
    media_type: str
    title: str
    markup: str
    notes: tuple[str, ...]


def find_browser(configured_path: str = "") -> str:
    """The path of a browser. Raises NoBrowser."""
    if configured_path:
        if os.path.isfile(configured_path) and os.access(configured_path, os.X_OK):
            return configured_path
        raise BrowserUnavailable(f"the browser {configured_path!r} does not exist or cannot be run")
    for name in _PROGRAM_NAMES:
        if (path := shutil.which(name)) and os.path.isabs(path):
            return path
    for path in _INSTALL_PATHS.get(sys.platform, ()):
        if os.access(path, os.X_OK):
            return path
    raise BrowserUnavailable("no Chrome or Chromium is installed")


class Chromium:
    """One browser behind a gate. Belongs to one event loop."""

    def __init__(self, proxy: EgressProxy, path: str = "", *, without_sandbox: bool = False) -> None:
        self._proxy, self._path = proxy, path
        self.is_sandboxed = not (without_sandbox or (hasattr(os, "geteuid") and os.geteuid() == 0))
        self._lock, self._start_failure = asyncio.Lock(), ""
        self._driver: Playwright | None = None
        self._browser: Browser | None = None
        self._home = ""

    async def start(self) -> "Browser":
        """The browser; it is started where there is none, or none any more. Raises NoBrowser."""
        async with self._lock:
            if self._browser is not None and self._browser.is_connected():
                return self._browser
            await self._stop()
            if self._start_failure:
                raise BrowserUnavailable(self._start_failure)
            try:
                from playwright.async_api import Error, async_playwright
            except ImportError:
                raise BrowserUnavailable("playwright is not installed (pip install 'toolglot[web]')") from None
            path = find_browser(self._path)
            self._home = tempfile.mkdtemp(prefix="toolglot-web-")
            try:
                async with asyncio.timeout(START_SECONDS):
                    self._driver = await async_playwright().start()
                    self._browser = await self._launch(self._driver, path, self._home)
            except (Error, OSError, TimeoutError) as e:
                await self._stop()
                why = "its sandbox cannot start here" if "sandbox" in str(e).lower() and self.is_sandboxed else type(e).__name__
                self._start_failure = f"{path} does not start ({why})"
                raise BrowserUnavailable(self._start_failure) from None
            return self._browser

    async def _launch(self, driver: "Playwright", path: str, home: str) -> "Browser":
        kept: dict[str, str | float | bool] = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ}
        return await driver.chromium.launch(
            executable_path=path,
            chromium_sandbox=self.is_sandboxed,
            proxy={"server": self._proxy.url, "bypass": _PROXY_BYPASS},
            args=list(_CHROMIUM_FLAGS),
            env={**kept, "HOME": home, "XDG_CONFIG_HOME": home, "XDG_CACHE_HOME": home},
            timeout=START_SECONDS * 1000,
        )

    async def close(self) -> None:
        """Ends the browser."""
        async with self._lock:
            await self._stop()

    async def _stop(self) -> None:
        browser, driver, home = self._browser, self._driver, self._home
        self._browser, self._driver, self._home = None, None, ""
        for ending in (browser.close() if browser else None, driver.stop() if driver else None):
            if ending is not None:
                with suppress(Exception):
                    await asyncio.wait_for(ending, CLOSE_SECONDS)
        if home:
            shutil.rmtree(home, ignore_errors=True)

    # ---- one page

    async def render(self, ticket: Ticket, url: str, max_bytes: int, seconds: float) -> RenderedPage:
        """A page after its scripts have run. Raises ToolError, NoBrowser, Download."""
        browser = await self.start()
        from playwright.async_api import Error

        visit = _PageVisit(ticket, url, max_bytes, seconds)
        try:
            async with asyncio.timeout(seconds):
                context = await browser.new_context(
                    proxy={"server": self._proxy.url, "bypass": _PROXY_BYPASS, "username": ticket.name, "password": "-"},
                    accept_downloads=False,
                    service_workers="block",
                    ignore_https_errors=False,
                )
                try:
                    return await visit.load(context)
                finally:
                    await _close_context(context)
        except TimeoutError:
            raise visit.timeout_error() from None
        except Error as e:
            if not browser.is_connected():
                raise ToolError("the browser ended while it opened the page; try again", retryable=True) from None
            raise visit.translate_error(str(e)) from None


async def _close_context(context: "BrowserContext") -> None:
    with suppress(Exception):
        await asyncio.wait_for(asyncio.shield(context.close()), CLOSE_SECONDS)


class _PageVisit:
    """One page on its way."""

    def __init__(self, ticket: Ticket, url: str, max_bytes: int, seconds: float) -> None:
        self._ticket, self._url, self._max_bytes, self._seconds = ticket, url, max_bytes, seconds
        self._navigation_urls: list[str] = []
        """The addresses of the page itself, one redirect after the other."""
        self._pending_requests: set[Request] = set()
        self._decoded_bytes = 0
        self._response: Response | None = None
        self._page: Page | None = None
        self._notes: dict[str, None] = {}
        self._background_tasks: set[asyncio.Future[Any]] = set()

    async def load(self, context: "BrowserContext") -> RenderedPage:
        """Opens, waits until nothing moves any more or time runs out, reads. Raises playwright's errors, ToolError."""
        from playwright.async_api import Error
        from playwright.async_api import TimeoutError as Slow

        page = await context.new_page()
        self._page = page
        context.on("page", self._on_popup)
        page.on("dialog", self._on_dialog)
        page.on("request", self._on_request)
        page.on("requestfinished", self._on_request_done)
        page.on("requestfailed", self._on_request_done)
        page.on("response", self._on_response)
        await context.add_init_script(_DISABLE_UDP_SCRIPT)
        await context.route("**/*", self._route)
        await self._count_decoded_bytes(context, page)
        load_end = monotonic() + self._seconds * LOAD_SHARE
        self._response = await page.goto(self._url, wait_until="commit", timeout=_remaining_ms(load_end))
        try:
            await page.wait_for_load_state("domcontentloaded", timeout=_remaining_ms(load_end))
            await self._wait_until_idle(page, load_end)
        except Slow:
            self._notes["it was still loading when its time was over"] = None
        except Error:
            if page.is_closed() or not self._ticket.is_exhausted:
                raise
        return await self._read_page(page)

    async def _wait_until_idle(self, page: "Page", load_end: float) -> None:
        """Until it is loaded and two looks see the same and no request is under way; pages that never rest get no longer."""
        end, last = min(load_end, monotonic() + SETTLE_SECONDS), None
        while monotonic() < end:
            seen = await page.evaluate(_STATE_SCRIPT)
            if seen == last and seen[0] == "complete" and not self._pending_requests:
                return
            last = seen
            await asyncio.sleep(POLL_SECONDS)
        if last is not None and last[0] != "complete":
            self._notes["it was still loading when it was read"] = None

    async def _read_page(self, page: "Page") -> RenderedPage:
        found = await page.evaluate(_READ_SCRIPT, self._max_bytes)
        if not isinstance(found, list):
            raise ToolError(f"{self._url[:200]!r} cannot be read")
        media_type, title, markup = (str(part) for part in cast(list[Any], found))
        self._check_final_url(page.url)
        if len(markup) >= self._max_bytes or self._ticket.is_exhausted:
            self._notes[f"it is larger than {self._max_bytes} bytes and was cut"] = None
        status = self._response.status if self._response is not None else 200
        return RenderedPage(page.url, status, media_type.partition(";")[0], title, markup, tuple(self._notes))

    def _check_final_url(self, url: str) -> None:
        """A page that led to what is refused is not shown."""
        site = parse_site(url)
        if (refusal := self._ticket.refusals.get((site.host, site.port))) is not None:
            raise refusal

    # ---- what the page does

    async def _route(self, route: "Route", request: "Request") -> None:
        """The page itself, scripts, styles and data; frames are empty, and what cannot be read is left out."""
        is_page = self._is_main_navigation(request)
        try:
            parse_site(request.url)
            wanted = request.resource_type not in _SKIPPED_RESOURCES
        except ToolError:
            wanted = False
        with suppress(Exception):
            if request.is_navigation_request() and not is_page:
                await route.fulfill(status=200, content_type="text/html", body="")
            else:
                await (route.continue_() if wanted else route.abort("blockedbyclient"))

    def _on_request(self, request: "Request") -> None:
        self._pending_requests.add(request)
        if self._is_main_navigation(request):
            self._navigation_urls.append(request.url)

    def _on_request_done(self, request: "Request") -> None:
        self._pending_requests.discard(request)

    def _on_response(self, response: "Response") -> None:
        if self._is_main_navigation(response.request):
            self._response = response

    def _is_main_navigation(self, request: "Request") -> bool:
        """Whether it asks for the page itself, and for nothing inside of it."""
        from playwright.async_api import Error

        try:
            return request.is_navigation_request() and self._page is not None and request.frame == self._page.main_frame
        except Error:  # a page that is none of ours, and not there yet
            return False

    def _on_dialog(self, dialog: "Dialog") -> None:
        self._run_in_background(dialog.dismiss())

    def _on_popup(self, page: "Page") -> None:
        if page != self._page:
            self._run_in_background(page.close())

    def _run_in_background(self, awaitable: Any) -> None:
        task = asyncio.ensure_future(awaitable)
        self._background_tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: "asyncio.Future[Any]") -> None:
        self._background_tasks.discard(task)
        if not task.cancelled():
            task.exception()

    async def _count_decoded_bytes(self, context: "BrowserContext", page: "Page") -> None:
        """Bytes as they are after unpacking: a small answer may be a large page."""
        session = cast(Any, await context.new_cdp_session(page))

        failed: set[str] = set()  # the browser has a page of its own for each, which does not count

        def did_fail(event: dict[str, Any]) -> None:
            failed.add(event["requestId"])

        def came(event: dict[str, Any]) -> None:
            self._decoded_bytes += 0 if event["requestId"] in failed else int(event["dataLength"])
            if self._decoded_bytes > 2 * self._max_bytes and not page.is_closed():
                self._ticket.abort()
                self._run_in_background(page.close())

        session.on("Network.loadingFailed", did_fail)
        session.on("Network.dataReceived", came)
        await session.send("Network.enable", {"maxTotalBufferSize": 1_000_000, "maxResourceBufferSize": 1_000_000})

    # ---- when it fails

    def timeout_error(self) -> ToolError:
        text = f"{self._url[:200]!r} did not open within {self._seconds:g} s; try again with a longer timeout"
        return ToolError(text, kind="timeout")

    def translate_error(self, message: str) -> Exception:
        """An error of the browser in one sentence."""
        shown = f"{self._url[:200]!r}"
        if refusal := self._find_refusal():
            return refusal
        if self._ticket.is_exhausted:
            return ToolError(f"{shown} is larger than {self._max_bytes} bytes, and nothing of it can be shown", kind="limit")
        if "Download is starting" in message:
            return DownloadStarted()
        if "Timeout" in message:
            return self.timeout_error()
        for sign, words in _ERROR_MESSAGES.items():
            if sign in message:
                kind = "not_allowed" if sign in _NOT_ALLOWED_ERRORS else "execution"
                return ToolError(f"{shown}: {words}", kind=kind)
        return ToolError(f"{shown} could not be opened by the browser")

    def _find_refusal(self) -> ToolError | None:
        """What was refused on the way to the page: the last of it."""
        for url in reversed(self._navigation_urls):
            with suppress(ToolError):
                site = parse_site(url)
                if (site.host, site.port) in self._ticket.refusals:
                    return self._ticket.refusals[site.host, site.port]
        return None


_NOT_ALLOWED_ERRORS = frozenset({"ERR_UNSAFE_REDIRECT", "ERR_UNSAFE_PORT", "ERR_BLOCKED"})
_ERROR_MESSAGES = {
    "ERR_CERT": "its certificate is not trusted",
    "ERR_SSL": "TLS failed",
    "ERR_TOO_MANY_REDIRECTS": "it redirects in a circle",
    "ERR_UNSAFE_REDIRECT": "it redirects to what is no page of the web",
    "ERR_UNSAFE_PORT": "its port is not one of the web",
    "ERR_EMPTY_RESPONSE": "it answered nothing",
    "ERR_INVALID": "its answer cannot be read",
    "ERR_CONTENT_DECODING_FAILED": "its body cannot be unpacked",
    "ERR_BLOCKED": "it leads to what is not opened",
    "has been closed": "the page closed itself",
    "crashed": "the page took more memory than it may have",
}


def _remaining_ms(deadline: float) -> float:
    return max(1.0, (deadline - monotonic()) * 1000)
