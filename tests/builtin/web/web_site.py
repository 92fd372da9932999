"""A web site on loopback, in a thread of its own: good pages and bad ones; and names that lead wherever we say."""

import asyncio
import gzip
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from ssl import SSLContext
from typing import Any

from toolglot.builtin.web.client import WebClient
from toolglot.builtin.web.tools import web_tools
from toolglot.events import ToolOutcome
from toolglot.messages import ToolCall
from toolglot.tools.config import ToolConfig
from toolglot.tools.executor import ToolExecutor
from toolglot.tools.registry import ToolRegistry

PUBLIC = "93.184.216.34"
"""Names may lead here; whoever connects to it reaches the site."""
Handler = Callable[["Asked", asyncio.StreamWriter], Awaitable[None]]
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


class Asked:
    """A request that came."""

    def __init__(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        self.method, self.path, _ = first.split(" ")
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        self.body = b""


class Site:
    """Answers on a port; `asked` has every request that came."""

    def __init__(self, pages: dict[str, bytes | Handler], ssl: SSLContext | None = None) -> None:
        self.pages, self.asked = pages, list[Asked]()
        self._ssl = ssl
        self.port = 0
        self._open: set[Any] = set()

    @property
    def paths(self) -> list[str]:
        return [one.path for one in self.asked]

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{'https' if self._ssl else 'http'}://{host}:{self.port}{path}"

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._ssl)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._open.add(task)  # nobody else holds one that waits for ever
        try:
            with suppress(OSError, EOFError, ValueError):
                await self._answer(reader, writer)
        finally:
            self._open.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = Asked((await reader.readuntil(b"\r\n\r\n"))[:-4])
        asked.body = await reader.readexactly(int(asked.headers.get("content-length", 0)))
        self.asked.append(asked)
        page = self.pages.get(asked.path.partition("?")[0], answer(b"no such page", status="404 Not Found"))
        if isinstance(page, bytes):
            writer.write(page)
        else:
            await page(asked, writer)
        await writer.drain()


@contextmanager
def served(pages: dict[str, bytes | Handler], ssl: SSLContext | None = None) -> Generator[Site]:
    """The site, for as long as it is needed."""
    site, loop = Site(pages, ssl), asyncio.new_event_loop()
    loop.set_exception_handler(lambda loop, context: None)  # connections that are broken off are what the tests are about
    server = loop.run_until_complete(site.start())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def end() -> None:
        server.close()
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        await asyncio.sleep(0)  # connections close in the next round

    try:
        yield site
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()


# ---- answers


def answer(body: bytes | str, kind: str = "text/html; charset=utf-8", status: str = "200 OK", **headers: str) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\nConnection: close\r\n{more}\r\n"
    return head.encode() + data


def redirect(url: str) -> bytes:
    return answer("", status="302 Found", Location=url)


def packed(body: bytes) -> bytes:
    return answer(gzip.compress(body, 1), Content_Encoding="gzip")


def bomb(size: int) -> bytes:
    """So many bytes of HTML in a small packet."""
    return packed(b"<html><body><p>" + b"boom " * (size // 5))


async def forever(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """A body without an end."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<html><body>")
    while True:
        writer.write(b"<p>" + b"and on and on " * 500 + b"</p>")
        await writer.drain()


async def stalled(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """A page that has begun and does not go on."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<html><body><p>the beginning</p>")
    await writer.drain()
    await asyncio.Event().wait()


async def silent(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """Nothing ever comes."""
    await asyncio.Event().wait()


# ---- names and calls


class Names:
    """Names and their addresses: each question takes the next answer, the last one stays. `reached`: whom we connected to."""

    def __init__(self) -> None:
        self.answers: dict[str, list[list[str]]] = {}
        self.reached: list[tuple[str, int]] = []
        self.port = 0

    async def resolve(self, host: str, port: int) -> list[str]:
        if host not in self.answers:
            found = await asyncio.get_running_loop().getaddrinfo(host, port)
            return [str(item[4][0]) for item in found]
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
        self.tools = web_tools(None, web)  # pyright: ignore[reportArgumentType]
        self.executor = ToolExecutor(ToolRegistry(self.tools), ToolConfig(max_repeats=0))

    def __call__(self, name: str, /, **arguments: Any) -> ToolOutcome:
        return asyncio.run(asyncio.wait_for(self.executor.run(ToolCall("c1", name, arguments)), 30))

    def data(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """What a good call gives."""
        result = self(name, **arguments).result
        assert not result.is_error, result.text
        return result.data

    def error(self, name: str, /, **arguments: Any) -> tuple[str, str]:
        """Kind and sentence of a call that fails."""
        result = self(name, **arguments).result
        assert result.is_error, result.text
        return str(result.error_kind), result.text
