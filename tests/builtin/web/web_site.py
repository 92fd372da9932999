"""A web site on loopback, in a thread of its own, with good pages and bad ones; and names with addresses of
our choice.
"""

import asyncio
import gzip
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from ssl import SSLContext
from typing import Any

from toolglot.builtin.web.client import WebClient
from toolglot.builtin.web.tools import web_tools
from toolglot.tools.config import ToolConfig
from toolglot.tools.executor import ToolExecutor
from toolglot.tools.registry import ToolRegistry
from toolglot.values.events import ToolOutcome
from toolglot.values.messages import ToolCall

PUBLIC = "93.184.216.34"
"""A connection to this address reaches the site."""
Handler = Callable[["SiteRequest", asyncio.StreamWriter], Awaitable[None]]
_FILLER = "some words that make the line long enough to be read as a part of the text of an article"
ARTICLE = f"""<html><head><title>On  Things &amp; more</title></head><body>
<nav><a href="/menu">menu</a></nav><main><article><h1>Things</h1>
{"".join(f"<p>Paragraph {n}: {_FILLER}, with <a href='/more/{n}'>link {n}</a> and snake_case_{n}.</p>" for n in range(40))}
<table><tr><th>Fruit</th><th>Price</th></tr><tr><td>Apple</td><td>1.20</td></tr><tr><td>Pear</td><td>2.50</td></tr></table>
<pre><code>def fly(high):
    return high + 1
</code></pre>
<p id="made">not yet</p></article></main>
<script>document.getElementById('made').textContent = 'made by a script: ' + 6 * 7;</script></body></html>"""


class SiteRequest:
    """A request that arrived."""

    def __init__(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        self.method, self.path, _ = first.split(" ")
        self.headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
        }
        self.body = b""


class Site:
    """Responds on a port; `requests` has every request that arrived."""

    def __init__(self, pages: dict[str, bytes | Handler], ssl: SSLContext | None = None) -> None:
        self.pages, self.requests = pages, list[SiteRequest]()
        self._ssl, self.port = ssl, 0
        self._tasks: set[Any] = set()

    @property
    def paths(self) -> list[str]:
        return [request.path for request in self.requests]

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{'https' if self._ssl else 'http'}://{host}:{self.port}{path}"

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._ssl)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)  # nobody else holds one that waits for ever
        try:
            with suppress(OSError, EOFError, ValueError):
                request = SiteRequest((await reader.readuntil(b"\r\n\r\n"))[:-4])
                request.body = await reader.readexactly(int(request.headers.get("content-length", 0)))
                self.requests.append(request)
                page = self.pages.get(
                    request.path.partition("?")[0], make_response(b"no such page", status="404 Not Found")
                )
                if isinstance(page, bytes):
                    writer.write(page)
                else:
                    await page(request, writer)
                await writer.drain()
        finally:
            self._tasks.discard(task)
            writer.close()


@contextmanager
def serve(pages: dict[str, bytes | Handler], ssl: SSLContext | None = None) -> Generator[Site]:
    """Serve pages in a thread."""
    site, loop = Site(pages, ssl), asyncio.new_event_loop()
    loop.set_exception_handler(lambda loop, context: None)  # the tests break connections
    server = loop.run_until_complete(site.start())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def end() -> None:
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # connections close in the next round

    try:
        yield site
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()


# ---- responses


def make_response(
    body: bytes | str, media_type: str = "text/html; charset=utf-8", status: str = "200 OK", **headers: str
) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Type: {media_type}",
        f"Content-Length: {len(data)}",
        "Connection: close",
    ]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + data


def redirect(url: str) -> bytes:
    return make_response("", status="302 Found", Location=url)


def gzip_response(body: bytes) -> bytes:
    return make_response(gzip.compress(body, 1), Content_Encoding="gzip")


def zip_bomb(size: int) -> bytes:
    """A small response that decompresses to `size` bytes of HTML."""
    return gzip_response(b"<html><body><p>" + b"boom " * (size // 5))


async def send_endlessly(request: SiteRequest, writer: asyncio.StreamWriter) -> None:
    """Send a body without an end."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<html><body>")
    while True:
        writer.write(b"<p>" + b"and on and on " * 500 + b"</p>")
        await writer.drain()


async def stall(request: SiteRequest, writer: asyncio.StreamWriter) -> None:
    """Start a page and never continue."""
    writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<html><body><p>the "
        b"beginning</p>"
    )
    await writer.drain()
    await asyncio.Event().wait()


async def stay_silent(request: SiteRequest, writer: asyncio.StreamWriter) -> None:
    """Never respond."""
    await asyncio.Event().wait()


_LINES = "".join(f"<p>line {number} of many</p>" for number in range(1, 801))
PAGES: dict[str, bytes | Handler] = {
    "/": make_response(ARTICLE),
    "/long": make_response(f"<html><head><title>Long</title></head><body>{_LINES}</body></html>"),
    "/packed": gzip_response(ARTICLE.encode()),
    "/data.json": make_response('{"a": [1, {"b": "c"}]}', "application/json"),
    "/plain.txt": make_response("one\r\ntwo <b>three</b>\x1b[31m\n", "text/plain; charset=utf-8"),
    "/latin": make_response("<p>caf\xe9</p>".encode("latin-1"), "text/html; charset=iso-8859-1"),
    "/feed.xml": make_response("<list><entry>first entry</entry></list>", "application/xml"),
    "/missing": make_response("<p>gone for good</p>", status="404 Not Found"),
    "/file.zip": make_response(b"PK\x03\x04\0\0" * 50, "application/zip"),
    "/table.csv": make_response(
        "a,b\n1,2\n", "text/csv", Content_Disposition="attachment; filename=table.csv"
    ),
    "/bomb": zip_bomb(60_000_000),
    "/forever": send_endlessly,
    "/stalled": stall,
    "/silent": stay_silent,
    "/circle": redirect("/circle"),
    "/far": redirect("/near"),
    "/near": make_response("<p>you are here</p>"),
    "/to-private": redirect("http://10.0.0.1/"),
    "/to-metadata": redirect("http://169.254.169.254/latest/meta-data/"),
    "/to-file": redirect("file:///etc/passwd"),
    "/to-name": redirect("http://inside.test/"),
}
"""Good pages and bad ones."""


# ---- names and calls


class Names:
    """Resolves names: each lookup takes the next of the `answers`, the last one stays.

    `reached`: all connections made.
    """

    def __init__(self) -> None:
        self.answers: dict[str, list[list[str]]] = {}
        self.reached: list[tuple[str, int]] = []
        self.port = 0

    async def resolve(self, host: str, port: int) -> list[str]:
        if host not in self.answers:
            return [str(item[4][0]) for item in await asyncio.get_running_loop().getaddrinfo(host, port)]
        known = self.answers[host]
        return known.pop(0) if len(known) > 1 else known[0]

    async def connect(self, address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.reached.append((address, port))
        if address == PUBLIC:
            return await asyncio.open_connection("127.0.0.1", self.port)
        return await asyncio.open_connection(address, port)


class Caller:
    """Calls the tools as a model does."""

    def __init__(self, web: WebClient) -> None:
        self.web = web
        self.tools = web_tools(web)
        self.executor = ToolExecutor(ToolRegistry(self.tools), ToolConfig(ask=(), max_repeats=0))

    def __call__(self, name: str, /, **arguments: Any) -> ToolOutcome:
        return self._run(ToolCall("c1", name, arguments))

    def call_raw(self, name: str, raw: str) -> ToolOutcome:
        """Call a tool with the text of arguments that may not be JSON."""
        return self._run(ToolCall("c1", name, None, raw))

    def _run(self, call: ToolCall) -> ToolOutcome:
        return asyncio.run(asyncio.wait_for(self.executor.run(call), 30))

    def data(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """Return the data of a call that succeeds."""
        result = self(name, **arguments).result
        assert not result.is_error, result.text
        return result.data

    def error(self, name: str, /, **arguments: Any) -> tuple[str, str]:
        """Return the kind and the text of a call that fails."""
        result = self(name, **arguments).result
        assert result.is_error, result.text
        return str(result.error_kind), result.text
