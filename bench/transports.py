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
from tests.engine.loopback import CHUNKED, END, Listener, Proxy, Server, read_request, reply, wait_until

from bench.measure import Figure, Table, child_cpu, pin
from toolglot.engine.http import HttpTransport
from toolglot.engine.transport import HttpRequest, HttpResponse, Timeouts, Transport
from toolglot.errors import ConnectFailed, ConnectionLost, TimedOut, ToolglotError

CONCURRENT_REQUESTS = 1000
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

    async def send(self, request: HttpRequest) -> "PyreqwestResponse":
        made = self._client.request(request.method, request.url).headers(request.headers).body_bytes(request.body)
        streamed = made.streamed_read_buffer_limit(0).build_streamed()  # else a head comes with the first 64 KB of its body
        try:
            async with asyncio.timeout(self._timeouts.first_byte):
                response = await streamed.__aenter__()
        except Exception as error:
            raise translate_error(error) from None
        return PyreqwestResponse(streamed, response, request.stream)

    async def close(self) -> None:
        await self._client.close()


class PyreqwestResponse:
    def __init__(self, streamed: Any, response: Any, stream: bool) -> None:
        self.status: int = response.status
        self.headers: Mapping[str, str] = dict(response.headers)
        self._streamed, self._is_open = streamed, True
        self._next = response.body_reader.read_chunk if stream else response.body_reader.bytes
        self._stream, self._is_finished = stream, False

    async def read(self) -> bytes:
        if self._is_finished:
            return b""
        try:
            data = await self._next()
        except Exception as error:
            await self.close()
            raise translate_error(error, reading=True) from None
        except BaseException:
            await self.close()
            raise
        self._is_finished = data is None or not self._stream
        return b"" if data is None else data.to_bytes()

    async def close(self) -> None:
        if self._is_open:
            self._is_open = False
            await self._streamed.__aexit__(None, None, None)


def translate_error(error: Exception, *, reading: bool = False) -> ToolglotError:
    from pyreqwest import exceptions

    connecting = "client error (Connect)" in str(error)
    if isinstance(error, TimeoutError):
        return TimedOut(str(error), "connect" if connecting else "idle" if reading else "first byte")
    if isinstance(error, exceptions.ConnectError) and connecting:
        return ConnectFailed(str(error))
    return ConnectionLost(str(error))


CLIENTS: dict[str, Callable[..., ClosableTransport]] = {"aiohttp": HttpTransport, "pyreqwest": PyreqwestTransport}
MODULES = {"aiohttp": "aiohttp", "pyreqwest": "pyreqwest.client"}
TransportFactory = Callable[..., ClosableTransport]


# ---- checks


@asynccontextmanager
async def open_transport(make: TransportFactory, *arguments: Any, **options: Any) -> AsyncIterator[ClosableTransport]:
    transport = make(*arguments, **options)
    yield transport
    await transport.close()


async def fetch(transport: Transport, url: str, stream: bool = True) -> bytes:
    answer = await transport.send(HttpRequest(url, {"Authorization": "Bearer x"}, b"{}", stream))
    return await drain(answer)


async def drain(answer: HttpResponse) -> bytes:
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


async def check_ca_file(make: TransportFactory) -> None:
    authority = Authority()
    async with Server(authority.context("127.0.0.1")) as server, open_transport(make, ca_file=authority.path) as transport:
        assert await fetch(transport, server.url("chunks")) == b"abcdeabcde"


async def check_ca_environment(make: TransportFactory) -> None:
    authority = Authority()
    with environment(SSL_CERT_FILE=authority.path):
        async with Server(authority.context("127.0.0.1")) as server, open_transport(make) as transport:
            assert await fetch(transport, server.url("ok")) == b"ok"


async def check_unknown_ca(make: TransportFactory) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # the server's side of it
    async with Server(Authority().context("127.0.0.1")) as server, open_transport(make) as transport:
        await expect_error(transport, server.url("ok"), ConnectFailed)
        assert not server.requests


async def check_wrong_host(make: TransportFactory) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    authority = Authority()
    async with Server(authority.context("other.test")) as server, open_transport(make, ca_file=authority.path) as transport:
        await expect_error(transport, server.url("ok"), ConnectFailed)


async def expect_error(transport: Transport, url: str, error: type[ToolglotError], phase: str = "") -> None:
    found: Exception | None = None
    try:
        await fetch(transport, url)
    except ToolglotError as caught:
        found = caught
    assert type(found) is error, repr(found)
    assert getattr(found, "phase", "") == phase, repr(found)


async def check_proxy_environment(make: TransportFactory) -> None:
    async with Server() as server, Proxy() as proxy:
        with environment(HTTP_PROXY=f"http://{proxy.address}"):
            async with open_transport(make) as transport:
                assert await fetch(transport, server.url("ok", FAR)) == b"ok"
                assert len(proxy.requests) == 1


async def check_tunnel_environment(make: TransportFactory) -> None:
    authority = Authority()
    async with Server(authority.context(FAR)) as server, Proxy() as proxy:
        with environment(https_proxy=f"http://{proxy.address}"):
            async with open_transport(make, ca_file=authority.path) as transport:
                assert await fetch(transport, server.url("ok", FAR)) == b"ok"
                assert proxy.requests[0].line.startswith("CONNECT")


async def check_explicit_proxy(make: TransportFactory) -> None:
    async with Server() as server, Proxy() as proxy, open_transport(make, proxy=f"http://{proxy.address}") as transport:
        assert await fetch(transport, server.url("ok", FAR)) == b"ok"


async def check_no_proxy(make: TransportFactory) -> None:
    async with Server() as server, Proxy() as proxy:
        with environment(HTTP_PROXY=f"http://{proxy.address}", NO_PROXY="example.test,127.0.0.1"):
            async with open_transport(make) as transport:
                assert await fetch(transport, server.url("ok")) == b"ok"
                assert not proxy.requests


async def check_cancelled_send(make: TransportFactory) -> None:
    async with Server() as server, open_transport(make) as transport:
        task = asyncio.create_task(fetch(transport, server.url("stall_head")))
        await wait_until(lambda: server.requests)
        await _expect_cancelled(task, server)


async def check_cancelled_read(make: TransportFactory) -> None:
    async with Server() as server, open_transport(make) as transport:
        answer = await transport.send(HttpRequest(server.url("stall_body"), {}, b"", True))
        assert await answer.read() == b"abcde"
        task = asyncio.ensure_future(answer.read())
        await asyncio.sleep(0)
        await _expect_cancelled(task, server)


async def _expect_cancelled(task: "asyncio.Future[bytes]", server: Server) -> None:
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled(), "not cancelled"
    await asyncio.wait_for(server.client_left.wait(), 1)


async def check_early_close(make: TransportFactory) -> None:
    async with Server() as server, open_transport(make) as transport:
        answer = await transport.send(HttpRequest(server.url("stall_body"), {}, b"", True))
        await answer.close()
        await asyncio.wait_for(server.client_left.wait(), 1)


async def check_stalls(make: TransportFactory) -> None:
    async with Server() as server, open_transport(make, SHORT) as transport:
        await expect_error(transport, server.url("stall_head"), TimedOut, "first byte")
        await expect_error(transport, server.url("stall_body"), TimedOut, "idle")


async def check_slow_head(make: TransportFactory) -> None:
    async with Server() as server, open_transport(make, Timeouts(first_byte=5, idle=0.1)) as transport:
        asyncio.get_running_loop().call_later(0.3, server.release.set)
        assert await fetch(transport, server.url("held")) == b"abcde"


async def check_stall_cleanup(make: TransportFactory) -> None:
    async with Server() as server, open_transport(make, SHORT) as transport:
        await expect_error(transport, server.url("stall_head"), TimedOut, "first byte")
        await asyncio.wait_for(server.client_left.wait(), 1)


async def check_broken_connections(make: TransportFactory) -> None:
    async with Server() as server, open_transport(make) as transport:
        server.release.set()
        for path in ("reset_head", "reset_body", "close_head", "half_length", "half_chunks", "garbage"):
            await expect_error(transport, server.url(path), ConnectionLost)
        assert len(server.requests) == 6


async def check_pieces(make: TransportFactory) -> None:
    async with Server() as server, open_transport(make) as transport:
        answer = await transport.send(HttpRequest(server.url("paced"), {}, b"", True))
        assert await answer.read() == b"abcde"
        server.release.set()
        assert await drain(answer) == b"abcde"


async def check_reuse(make: TransportFactory) -> None:
    async with Server() as server, open_transport(make) as transport:
        for path in ("ok", "chunks", "gzip", "empty", "cookie", "redirect"):
            await fetch(transport, server.url(path))
        assert (server.accepted, len(server.requests)) == (1, 6)
        assert "cookie" not in server.requests[-1].headers


async def check_concurrency(make: TransportFactory) -> None:
    async with Server() as server, open_transport(make) as transport:
        asked = asyncio.gather(*(fetch(transport, server.url("held")) for _ in range(CONCURRENT_REQUESTS)))
        await wait_until(lambda: server.active_requests == CONCURRENT_REQUESTS)
        server.release.set()
        assert await asked == [b"abcde"] * CONCURRENT_REQUESTS


CHECKS: dict[str, Callable[[TransportFactory], Awaitable[None]]] = {
    "TLS: own CA as a file": check_ca_file,
    "TLS: SSL_CERT_FILE": check_ca_environment,
    "TLS: unknown CA refused": check_unknown_ca,
    "TLS: wrong host refused": check_wrong_host,
    "proxy: HTTP_PROXY": check_proxy_environment,
    "proxy: https_proxy, tunnel": check_tunnel_environment,
    "proxy: given": check_explicit_proxy,
    "proxy: NO_PROXY": check_no_proxy,
    "cancelled before the head: server sees it": check_cancelled_send,
    "cancelled while reading: server sees it": check_cancelled_read,
    "closed before the end: server sees it": check_early_close,
    "stall: first byte, idle": check_stalls,
    "a head may take longer than a pause": check_slow_head,
    "stall before the head: server sees the end": check_stall_cleanup,
    "resets, half bodies, garbage: named": check_broken_connections,
    "pieces as they come": check_pieces,
    "connections kept; no redirect, no cookie": check_reuse,
    f"{CONCURRENT_REQUESTS:,} requests at once": check_concurrency,
}


def check_two_loops(make: TransportFactory) -> None:
    transport = make()

    async def once() -> None:
        async with Server() as server:
            assert await fetch(transport, server.url("ok")) == b"ok"

    for _ in range(2):
        asyncio.run(asyncio.wait_for(once(), 5))


def check_fork(make: TransportFactory) -> None:
    check_two_loops(make)
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0, "failed in the child"
        return
    try:
        check_two_loops(make)
    except BaseException:
        os._exit(1)
    os._exit(0)


def run_checks(client: str) -> dict[str, str]:
    make, found = CLIENTS[client], dict[str, str]()
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        del os.environ[name]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    steps: dict[str, Callable[[], None]] = {
        name: lambda check=check: asyncio.run(asyncio.wait_for(cast("Any", check(make)), 10)) for name, check in CHECKS.items()
    }
    steps |= {"one transport on two event loops": lambda: check_two_loops(make), "after a fork": lambda: check_fork(make)}
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


async def measure_client(client: str, urls: list[str], quick: bool) -> dict[str, float]:
    """CPU µs each, and memory at the end."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    made = CLIENTS[client](ca_file=urls[2])
    found: dict[str, float] = {}
    for kind, url in zip(("", ", TLS"), urls[:2], strict=True):
        found[f"small request{kind}, µs"] = await _time_small_requests(made, url, 50 if quick else 500)
        found[f"streamed event, big reads{kind}, µs"] = await _time_streams(made, f"{url}/burst", EVENTS, 2 if quick else 10)
        paced = 50 if quick else 400
        found[f"streamed event, paced{kind}, µs"] = await _time_streams(made, f"{url}/paced/{paced}", paced, 1 if quick else 3)
    found[f"{CONCURRENT_REQUESTS} requests at once, µs each"] = await _time_concurrent(made, urls[0])
    found["memory for all of it, MB"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    await made.close()
    return found


async def _time_small_requests(transport: Transport, url: str, count: int) -> float:
    for _ in range(20):
        await fetch(transport, f"{url}/small", stream=False)
    gc.collect()
    start = process_time()
    for _ in range(count):
        assert len(await fetch(transport, f"{url}/small", stream=False)) == 415
    return 1e6 * (process_time() - start) / count


async def _time_streams(transport: Transport, url: str, events: int, count: int) -> float:
    await fetch(transport, url)
    gc.collect()
    start = process_time()
    for _ in range(count):
        assert await fetch(transport, url) == EVENT * events
    return 1e6 * (process_time() - start) / count / events


async def _time_concurrent(transport: Transport, url: str) -> float:
    start = process_time()
    await asyncio.gather(*(fetch(transport, f"{url}/small") for _ in range(CONCURRENT_REQUESTS)))
    return 1e6 * (process_time() - start) / CONCURRENT_REQUESTS


def transports_table(*, quick: bool) -> Table:
    checks = {client: _run_child("check", client) for client in CLIENTS}
    rounds: dict[str, list[dict[str, float]]] = {client: [] for client in CLIENTS}
    server = subprocess.Popen([sys.executable, "-m", __spec__.name, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdout is not None
    urls = server.stdout.readline().decode()
    try:
        for _ in range(1 if quick else 5):
            for client in CLIENTS:
                took = _run_child("measure", client, urls, *(["--quick"] if quick else []))
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


def _run_child(*arguments: str) -> dict[str, Any]:
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
            print(json.dumps(run_checks(client)))
        case ["measure", client, urls]:
            print(json.dumps(asyncio.run(measure_client(client, json.loads(urls), given.quick))))
        case _:
            pin()
            print(transports_table(quick=given.quick))


if __name__ == "__main__":
    main()
