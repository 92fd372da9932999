"""aiohttp against pyreqwest, each behind the same transport protocol: what they get right, and what they cost.

`python -m bench.transports [--quick]`. Every client runs in processes of its own; the server is another one, so that CPU time
is the client's alone, its threads included.
"""

import argparse
import asyncio
import gc
import json
import os
import resource
import ssl
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, Protocol, cast

import trustme
from tests.engine.loopback import CHUNKED, END, Listener, Proxy, Server, read_request, reply, until

from bench.measure import Figure, Table, child_cpu, pin
from toolglot.engine.http import HttpTransport
from toolglot.engine.transport import HttpAnswer, HttpRequest, Timeouts, Transport
from toolglot.errors import ConnectFailed, ConnectionLost, TimedOut, ToolglotError

CROWD = 1000
EVENTS = 2000
EVENT = b'data: {"id":"chatcmpl-123","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":" word"}}]}\n\n'
PAUSE = 0.001
FAR = "provider.test"  # known to the proxy alone
SHORT = Timeouts(connect=0.2, first_byte=0.2, idle=0.2)


class ClosableTransport(Transport, Protocol):
    async def close(self) -> None: ...


class PyreqwestTransport:
    """As good as it gets: what the library lacks is added where that is possible from outside."""

    def __init__(self, timeouts: Timeouts = Timeouts(), *, proxy: str | None = None, ca_file: str | None = None) -> None:  # noqa: B008
        from pyreqwest.client import ClientBuilder
        from pyreqwest.proxy import ProxyBuilder

        builder = ClientBuilder().follow_redirects(False)
        if timeouts.connect is not None:
            builder = builder.connect_timeout(timedelta(seconds=timeouts.connect))
        if timeouts.idle is not None:
            builder = builder.read_timeout(timedelta(seconds=timeouts.idle))  # cuts the wait for the head too
        if ca_file is not None:
            builder = builder.add_root_certificate_pem(Path(ca_file).read_bytes())
        if proxy is not None:
            builder = builder.proxy(ProxyBuilder.all(proxy))
        self._client = builder.build()
        self._timeouts = timeouts

    async def send(self, request: HttpRequest) -> "PyreqwestAnswer":
        made = self._client.request(request.method, request.url).headers(request.headers).body_bytes(request.body)
        streamed = made.streamed_read_buffer_limit(0).build_streamed()  # else a head comes with the first 64 KB of its body
        try:
            async with asyncio.timeout(self._timeouts.first_byte):
                response = await streamed.__aenter__()
        except Exception as error:
            raise failure(error) from None
        return PyreqwestAnswer(streamed, response, request.stream)

    async def close(self) -> None:
        await self._client.close()


class PyreqwestAnswer:
    def __init__(self, streamed: Any, response: Any, stream: bool) -> None:
        self.status: int = response.status
        self.headers: Mapping[str, str] = dict(response.headers)
        self._streamed, self._open = streamed, True
        self._next = response.body_reader.read_chunk if stream else response.body_reader.bytes
        self._stream, self._read = stream, False

    async def read(self) -> bytes:
        if self._read:
            return b""
        try:
            data = await self._next()
        except Exception as error:
            await self.close()
            raise failure(error, reading=True) from None
        except BaseException:
            await self.close()
            raise
        self._read = data is None or not self._stream
        return b"" if data is None else data.to_bytes()

    async def close(self) -> None:
        if self._open:
            self._open = False
            await self._streamed.__aexit__(None, None, None)


def failure(error: Exception, *, reading: bool = False) -> ToolglotError:
    from pyreqwest import exceptions

    connecting = "client error (Connect)" in str(error)
    if isinstance(error, TimeoutError):
        return TimedOut(str(error), "connect" if connecting else "idle" if reading else "first byte")
    if isinstance(error, exceptions.ConnectError) and connecting:
        return ConnectFailed(str(error))
    return ConnectionLost(str(error))


CLIENTS: dict[str, Callable[..., ClosableTransport]] = {"aiohttp": HttpTransport, "pyreqwest": PyreqwestTransport}
MODULES = {"aiohttp": "aiohttp", "pyreqwest": "pyreqwest.client"}
Make = Callable[..., ClosableTransport]


# ---- checks


@asynccontextmanager
async def opened(make: Make, *arguments: Any, **named: Any) -> AsyncIterator[ClosableTransport]:
    transport = make(*arguments, **named)
    yield transport
    await transport.close()


async def fetch(transport: Transport, url: str, stream: bool = True) -> bytes:
    answer = await transport.send(HttpRequest(url, {"Authorization": "Bearer x"}, b"{}", stream))
    return await drain(answer)


async def drain(answer: HttpAnswer) -> bytes:
    data: list[bytes] = []
    while piece := await answer.read():
        data.append(piece)
    await answer.close()
    return b"".join(data)


@contextmanager
def environment(**values: str):
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            del os.environ[name]


class Authority:
    """A certificate authority that nobody knows."""

    def __init__(self) -> None:
        self._authority = trustme.CA()
        self._file = tempfile.NamedTemporaryFile(suffix=".pem")  # noqa: SIM115
        self._authority.cert_pem.write_to_path(self._file.name)
        self.path = self._file.name

    def context(self, *names: str) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._authority.issue_cert(*names).configure_cert(context)
        return context


async def own_ca(make: Make) -> None:
    authority = Authority()
    async with Server(authority.context("127.0.0.1")) as server, opened(make, ca_file=authority.path) as transport:
        assert await fetch(transport, server.url("chunks")) == b"abcdeabcde"


async def ca_of_environment(make: Make) -> None:
    authority = Authority()
    with environment(SSL_CERT_FILE=authority.path):
        async with Server(authority.context("127.0.0.1")) as server, opened(make) as transport:
            assert await fetch(transport, server.url("ok")) == b"ok"


async def unknown_ca(make: Make) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # the server's side of it
    async with Server(Authority().context("127.0.0.1")) as server, opened(make) as transport:
        await fails(transport, server.url("ok"), ConnectFailed)
        assert not server.requests


async def wrong_host(make: Make) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    authority = Authority()
    async with Server(authority.context("other.test")) as server, opened(make, ca_file=authority.path) as transport:
        await fails(transport, server.url("ok"), ConnectFailed)


async def fails(transport: Transport, url: str, error: type[ToolglotError], phase: str = "") -> None:
    found: Exception | None = None
    try:
        await fetch(transport, url)
    except ToolglotError as caught:
        found = caught
    assert type(found) is error, repr(found)
    assert getattr(found, "phase", "") == phase, repr(found)


async def proxy_of_environment(make: Make) -> None:
    async with Server() as server, Proxy() as proxy:
        with environment(HTTP_PROXY=f"http://{proxy.address}"):
            async with opened(make) as transport:
                assert await fetch(transport, server.url("ok", FAR)) == b"ok"
                assert len(proxy.requests) == 1


async def tunnel_of_environment(make: Make) -> None:
    authority = Authority()
    async with Server(authority.context(FAR)) as server, Proxy() as proxy:
        with environment(https_proxy=f"http://{proxy.address}"):
            async with opened(make, ca_file=authority.path) as transport:
                assert await fetch(transport, server.url("ok", FAR)) == b"ok"
                assert proxy.requests[0].line.startswith("CONNECT")


async def explicit_proxy(make: Make) -> None:
    async with Server() as server, Proxy() as proxy, opened(make, proxy=f"http://{proxy.address}") as transport:
        assert await fetch(transport, server.url("ok", FAR)) == b"ok"


async def no_proxy(make: Make) -> None:
    async with Server() as server, Proxy() as proxy:
        with environment(HTTP_PROXY=f"http://{proxy.address}", NO_PROXY="example.test,127.0.0.1"):
            async with opened(make) as transport:
                assert await fetch(transport, server.url("ok")) == b"ok"
                assert not proxy.requests


async def cancelled_send(make: Make) -> None:
    async with Server() as server, opened(make) as transport:
        task = asyncio.create_task(fetch(transport, server.url("stall_head")))
        await until(lambda: server.requests)
        await _cancelled(task, server)


async def cancelled_read(make: Make) -> None:
    async with Server() as server, opened(make) as transport:
        answer = await transport.send(HttpRequest(server.url("stall_body"), {}, b"", True))
        assert await answer.read() == b"abcde"
        task = asyncio.ensure_future(answer.read())
        await asyncio.sleep(0)
        await _cancelled(task, server)


async def _cancelled(task: "asyncio.Future[bytes]", server: Server) -> None:
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled(), "not cancelled"
    await asyncio.wait_for(server.gone.wait(), 1)


async def closed_early(make: Make) -> None:
    async with Server() as server, opened(make) as transport:
        answer = await transport.send(HttpRequest(server.url("stall_body"), {}, b"", True))
        await answer.close()
        await asyncio.wait_for(server.gone.wait(), 1)


async def stalls(make: Make) -> None:
    async with Server() as server, opened(make, SHORT) as transport:
        await fails(transport, server.url("stall_head"), TimedOut, "first byte")
        await fails(transport, server.url("stall_body"), TimedOut, "idle")


async def long_head(make: Make) -> None:
    async with Server() as server, opened(make, Timeouts(first_byte=5, idle=0.1)) as transport:
        asyncio.get_running_loop().call_later(0.3, server.go.set)
        assert await fetch(transport, server.url("held")) == b"abcde"


async def stall_leaves_nothing(make: Make) -> None:
    async with Server() as server, opened(make, SHORT) as transport:
        await fails(transport, server.url("stall_head"), TimedOut, "first byte")
        await asyncio.wait_for(server.gone.wait(), 1)


async def breaks(make: Make) -> None:
    async with Server() as server, opened(make) as transport:
        server.go.set()
        for path in ("reset_head", "reset_body", "close_head", "half_length", "half_chunks", "garbage"):
            await fails(transport, server.url(path), ConnectionLost)
        assert len(server.requests) == 6


async def pieces(make: Make) -> None:
    async with Server() as server, opened(make) as transport:
        answer = await transport.send(HttpRequest(server.url("paced"), {}, b"", True))
        assert await answer.read() == b"abcde"
        server.go.set()
        assert await drain(answer) == b"abcde"


async def reuse(make: Make) -> None:
    async with Server() as server, opened(make) as transport:
        for path in ("ok", "chunks", "gzip", "empty", "cookie", "redirect"):
            await fetch(transport, server.url(path))
        assert (server.accepted, len(server.requests)) == (1, 6)
        assert "cookie" not in server.requests[-1].headers


async def crowd(make: Make) -> None:
    async with Server() as server, opened(make) as transport:
        asked = asyncio.gather(*(fetch(transport, server.url("held")) for _ in range(CROWD)))
        await until(lambda: server.under_way == CROWD)
        server.go.set()
        assert await asked == [b"abcde"] * CROWD


CHECKS: dict[str, Callable[[Make], Awaitable[None]]] = {
    "TLS: own CA as a file": own_ca,
    "TLS: SSL_CERT_FILE": ca_of_environment,
    "TLS: unknown CA refused": unknown_ca,
    "TLS: wrong host refused": wrong_host,
    "proxy: HTTP_PROXY": proxy_of_environment,
    "proxy: https_proxy, tunnel": tunnel_of_environment,
    "proxy: given": explicit_proxy,
    "proxy: NO_PROXY": no_proxy,
    "cancelled before the head: server sees it": cancelled_send,
    "cancelled while reading: server sees it": cancelled_read,
    "closed before the end: server sees it": closed_early,
    "stall: first byte, idle": stalls,
    "a head may take longer than a pause": long_head,
    "stall before the head: server sees the end": stall_leaves_nothing,
    "resets, half bodies, garbage: named": breaks,
    "pieces as they come": pieces,
    "connections kept; no redirect, no cookie": reuse,
    f"{CROWD:,} requests at once": crowd,
}


def two_loops(make: Make) -> None:
    transport = make()

    async def once() -> None:
        async with Server() as server:
            assert await fetch(transport, server.url("ok")) == b"ok"

    for _ in range(2):
        asyncio.run(asyncio.wait_for(once(), 5))


def after_fork(make: Make) -> None:
    two_loops(make)
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0, "failed in the child"
        return
    try:
        two_loops(make)
    except BaseException:
        os._exit(1)
    os._exit(0)


def checked(client: str) -> dict[str, str]:
    make, found = CLIENTS[client], dict[str, str]()
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        del os.environ[name]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    steps: dict[str, Callable[[], None]] = {
        name: lambda check=check: asyncio.run(asyncio.wait_for(cast("Any", check(make)), 10)) for name, check in CHECKS.items()
    }
    steps |= {"one transport on two event loops": lambda: two_loops(make), "after a fork": lambda: after_fork(make)}
    for name, step in steps.items():
        try:
            step()
            found[name] = "pass"
        except Exception as error:
            print(f"{client}: {name}: {type(error).__name__} {error}", file=sys.stderr)
            found[name] = "FAIL"
    return found


# ---- costs

STREAM = b"".join(b"%x\r\n%b\r\n" % (len(EVENT), EVENT) for _ in range(EVENTS))
SMALL = reply(b'{"choices": [' + b"x" * 400 + b"]}", "Content-Type: application/json")


class Source(Listener):
    """Answers as fast as it can; `paced`: an event, then a pause."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            path = (await read_request(reader)).line.split()[1]
            if path == "/small":
                writer.write(SMALL)
            elif path == "/burst":
                writer.write(CHUNKED + STREAM + END)
            else:
                writer.write(CHUNKED)
                for _ in range(int(path.rpartition("/")[2])):
                    writer.write(b"%x\r\n%b\r\n" % (len(EVENT), EVENT))
                    await asyncio.sleep(PAUSE)
                writer.write(END)
            await writer.drain()


async def serve() -> None:
    authority = Authority()
    async with Source() as plain, Source(authority.context("127.0.0.1")) as safe:
        print(json.dumps([f"http://{plain.address}", f"https://{safe.address}", authority.path]), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def measured(client: str, urls: list[str], quick: bool) -> dict[str, float]:
    """CPU µs each, and memory at the end."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    made = CLIENTS[client](ca_file=urls[2])
    found: dict[str, float] = {}
    for kind, url in zip(("", ", TLS"), urls[:2], strict=True):
        found[f"small request{kind}, µs"] = await _small(made, url, 50 if quick else 500)
        found[f"streamed event, big reads{kind}, µs"] = await _streamed(made, f"{url}/burst", EVENTS, 2 if quick else 10)
        paced = 50 if quick else 400
        found[f"streamed event, paced{kind}, µs"] = await _streamed(made, f"{url}/paced/{paced}", paced, 1 if quick else 3)
    found[f"{CROWD} requests at once, µs each"] = await _at_once(made, urls[0])
    found["memory for all of it, MB"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    await made.close()
    return found


async def _small(transport: Transport, url: str, count: int) -> float:
    for _ in range(20):
        await fetch(transport, f"{url}/small", stream=False)
    gc.collect()
    start = process_time()
    for _ in range(count):
        assert len(await fetch(transport, f"{url}/small", stream=False)) == 415
    return 1e6 * (process_time() - start) / count


async def _streamed(transport: Transport, url: str, events: int, count: int) -> float:
    await fetch(transport, url)
    gc.collect()
    start = process_time()
    for _ in range(count):
        assert await fetch(transport, url) == EVENT * events
    return 1e6 * (process_time() - start) / count / events


async def _at_once(transport: Transport, url: str) -> float:
    start = process_time()
    await asyncio.gather(*(fetch(transport, f"{url}/small") for _ in range(CROWD)))
    return 1e6 * (process_time() - start) / CROWD


def transports_table(*, quick: bool) -> Table:
    checks = {client: _child("check", client) for client in CLIENTS}
    rounds: dict[str, list[dict[str, float]]] = {client: [] for client in CLIENTS}
    server = subprocess.Popen([sys.executable, "-m", __spec__.name, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdout is not None
    urls = server.stdout.readline().decode()
    try:
        for _ in range(1 if quick else 5):
            for client in CLIENTS:
                took = _child("measure", client, urls, *(["--quick"] if quick else []))
                rounds[client].append({"import, CPU ms": _import_ms(MODULES[client]), **took})
    finally:
        server.communicate()
    note = "CPU of the client's process with all its threads, medians; ratio: aiohttp ÷ pyreqwest"
    table = Table("HTTP clients behind one protocol", note)
    first, second = CLIENTS
    for name, result in checks[first].items():
        table.rows.append({"": name, first: result, second: checks[second][name], "ratio": None})
    for name in rounds[first][0]:
        values = [median(each[name] for each in rounds[client]) for client in CLIENTS]
        table.rows.append({"": name, first: values[0], second: values[1], "ratio": Figure(values[0] / values[1])})
    return table


def _child(*arguments: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-m", __spec__.name, *arguments], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def _import_ms(module: str) -> float:
    bare = child_cpu(["-c", "import asyncio"])[0]
    return max(1.0, 1e3 * (child_cpu(["-c", f"import asyncio, {module}"])[0] - bare))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.transports", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("part", nargs="*", help=argparse.SUPPRESS)  # what a child process does
    given = parser.parse_args()
    match given.part:
        case ["serve"]:
            asyncio.run(serve())
        case ["check", client]:
            print(json.dumps(checked(client)))
        case ["measure", client, urls]:
            print(json.dumps(asyncio.run(measured(client, json.loads(urls), given.quick))))
        case _:
            pin()
            print(transports_table(quick=given.quick))


if __name__ == "__main__":
    main()
