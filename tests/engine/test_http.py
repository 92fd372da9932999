"""The HTTP transport against real servers and proxies on loopback that behave, stall, break off and lie."""

import asyncio
import base64
import gc
import os
import resource
import socket
import ssl
import subprocess
import sys
import traceback
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
import trustme
from loopback import CHUNKED, END, PIECE, FullBacklog, Listener, Proxy, Server, read_request, wait_until
from scripted_transport import cancel
from yarl import URL

from toolglot.engine.http import HttpTransport
from toolglot.engine.transport import HttpRequest, Timeouts, Transport
from toolglot.errors import ConnectFailed, ConnectionLost, TimedOut, TransportError, UsageError

SECRET = "sk-very-secret"
HEADERS = {"Authorization": f"Bearer {SECRET}", "Content-Type": "application/json"}
CROWD = 1000
SHORT = Timeouts(connect=0.1, first_byte=0.1, idle=0.1)
Failure = TypeVar("Failure", bound=TransportError)
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")


def run(main: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(main, 20))


def request(url: str, *, stream: bool = True, **options: Any) -> HttpRequest:
    return HttpRequest(
        url, options.pop("headers", HEADERS), options.pop("body", b'{"a": 1}'), stream, **options
    )


async def fetch(transport: Transport, url: str, *, stream: bool = True, **options: Any) -> bytes:
    answer = await transport.send(request(url, stream=stream, **options))
    try:
        data = b""
        while piece := await answer.read():
            data += piece
        return data
    finally:
        await answer.close()


@asynccontextmanager
async def connect(timeouts: Timeouts = Timeouts(), **options: Any) -> AsyncGenerator[HttpTransport]:  # noqa: B008
    transport = HttpTransport(timeouts, **options)
    yield transport
    await transport.close()


@asynccontextmanager
async def serve(timeouts: Timeouts = Timeouts()) -> AsyncGenerator[tuple[Server, HttpTransport]]:  # noqa: B008
    async with Server() as server, connect(timeouts) as transport:
        yield server, transport


async def expect_error(
    kind: type[Failure], transport: Transport, url: str, sentence: str, **options: Any
) -> Failure:
    """The request fails with one sentence that holds nothing of the request.

    HOST in it stands for the host of the URL.
    """
    with pytest.raises(kind) as caught:
        await fetch(transport, f"{url}?key={SECRET}", **options)
    error = caught.value
    assert str(error).startswith(sentence.replace("HOST", url.split("/")[2]))
    assert "\n" not in str(error)
    assert SECRET not in "".join(traceback.format_exception(error))
    assert error.retryable
    return error


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


# ---- requests and answers


LONG = b"abcde" * 100
BODIES = {
    "ok": b"ok",
    "chunks": b"abcdeabcde",
    "empty": b"",
    "until_close": b"abcde",
    "long_header": b"ok",
    "gzip": LONG,
}
BODIES["deflate"] = LONG


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", BODIES)
async def test_a_body_arrives_whole(path: str, stream: bool) -> None:
    async with serve() as (server, transport):
        assert await fetch(transport, server.url(path), stream=stream) == BODIES[path]


async def test_after_the_end_there_is_nothing() -> None:
    async with serve() as (server, transport):
        answer = await transport.send(request(server.url("chunks"), stream=False))
        assert [await answer.read() for _ in range(3)] == [b"abcdeabcde", b"", b""]
        await answer.close()
        await answer.close()


@pytest.mark.parametrize("stream", [True, False])
async def test_a_status_without_a_body_gives_its_place_back(stream: bool) -> None:
    async with Server() as server, connect(max_connections=1) as transport:
        for path in ("no_content", "not_modified", "ok"):
            assert await fetch(transport, server.url(path), stream=stream) == BODIES.get(path, b"")
        assert server.accepted == 1


@pytest.mark.parametrize("stream", [True, False])
async def test_a_body_is_never_unpacked_all_at_once(stream: bool) -> None:
    async with serve() as (server, transport):
        answer = await transport.send(request(server.url("gzip_bomb"), stream=stream))
        assert 0 < len(await answer.read()) < 4_000_000
        await answer.close()


async def test_the_head_of_an_answer() -> None:
    async with serve() as (server, transport):
        answer = await transport.send(request(server.url("busy")))
        assert answer.status == 429
        assert answer.headers["retry-after"] == "3"
        await answer.close()


async def test_pieces_are_delivered_as_they_arrive() -> None:
    async with serve() as (server, transport):
        answer = await transport.send(request(server.url("paced")))
        assert await answer.read() == b"abcde"
        server.release.set()
        assert await answer.read() == b"abcde"
        assert await answer.read() == b""
        await answer.close()


async def test_a_request_is_sent_unchanged() -> None:
    async with serve() as (server, transport):
        await fetch(transport, server.url("ok/a%3Ab%2Fc~d?alt=sse&q=%20+"))
        await fetch(transport, server.url("ok/é"), method="GET", body=b"", headers={"user-agent": "mine"})
        post, get = server.requests
        assert post.line == "POST /ok/a%3Ab%2Fc~d?alt=sse&q=%20+ HTTP/1.1"
        assert post.body == b'{"a": 1}'
        assert (post.headers["authorization"], post.headers["content-type"]) == (
            f"Bearer {SECRET}",
            "application/json",
        )
        assert post.headers["user-agent"] == "toolglot"
        assert "gzip" in post.headers["accept-encoding"]
        assert get.line == "GET /ok/%C3%A9 HTTP/1.1"
        assert (get.headers["user-agent"], get.body) == ("mine", b"")
        assert not {"content-type", "cookie", "transfer-encoding"} & set(get.headers)


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, 5_000_000])
async def test_a_body_of_any_size_is_sent(size: int) -> None:
    async with serve() as (server, transport):
        for _ in range(2):
            assert await fetch(transport, server.url("ok"), body=b"x" * size) == b"ok"
        assert server.accepted == 1
        for sent in server.requests:
            assert sent.headers["content-length"] == str(size)
            assert sent.body == b"x" * size


async def test_no_redirect_is_followed_and_no_cookie_kept() -> None:
    async with serve() as (server, transport):
        answer = await transport.send(request(server.url("redirect")))
        assert answer.status == 307
        await answer.close()
        await fetch(transport, server.url("cookie"))
        await fetch(transport, server.url("ok"))
        assert len(server.requests) == 3
        assert "cookie" not in server.requests[-1].headers


# ---- connections


@pytest.mark.parametrize("stream", [True, False])
async def test_connections_are_reused(stream: bool) -> None:
    async with serve() as (server, transport):
        for path in ("ok", "chunks", "empty", "busy", "gzip"):
            await fetch(transport, server.url(path), stream=stream)
        assert (server.accepted, len(server.requests)) == (1, 5)


async def test_an_answer_closed_before_its_end_drops_its_connection() -> None:
    async with serve() as (server, transport):
        answer = await transport.send(request(server.url("stall_body")))
        assert await answer.read() == b"abcde"
        await answer.close()
        await server.client_left.wait()
        with pytest.raises(ConnectionLost):
            await answer.read()
        assert await fetch(transport, server.url("ok")) == b"ok"
        assert server.accepted == 2


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", ["stall_head", "stall_body"])
async def test_cancelling_closes_the_connection_at_once(path: str, stream: bool) -> None:
    async with serve() as (server, transport):
        task = asyncio.create_task(fetch(transport, server.url(path), stream=stream))
        await wait_until(lambda: server.requests)
        for _ in range(20):  # on to the read, where there is a head
            await asyncio.sleep(0)
        await cancel(task)
        await server.client_left.wait()


async def test_cancelling_a_read_drops_the_connection_without_a_close() -> None:
    async with serve() as (server, transport):
        answer = await transport.send(request(server.url("stall_body")))
        await answer.read()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(answer.read(), 0.01)
        await server.client_left.wait()


async def test_cancelling_while_connecting_leaves_nothing() -> None:
    async with connect() as transport:
        with FullBacklog() as port:
            before = descriptors()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(transport.send(request(f"http://127.0.0.1:{port}/")), 0.05)
            await asyncio.sleep(0)
            assert descriptors() <= before


@LINUX
async def test_cancelling_an_upload_that_nobody_reads() -> None:
    class Deaf(Listener):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            cast("asyncio.ReadTransport", writer.transport).pause_reading()
            await asyncio.Event().wait()

    async with Deaf() as server, connect() as transport:
        before = descriptors()
        task = asyncio.create_task(
            transport.send(request(f"http://{server.address}/", body=bytes(20_000_000)))
        )
        await wait_until(lambda: server.accepted)
        await asyncio.wait([task], timeout=0.05)
        assert descriptors() == before + 2
        await cancel(task)
        await wait_until(lambda: descriptors() == before + 1)  # the server's end


async def test_no_more_requests_at_once_than_max_connections() -> None:
    async with Server() as server:
        transport = HttpTransport(Timeouts(connect=1), max_connections=3)
        requests = asyncio.gather(*(fetch(transport, server.url("held")) for _ in range(20)))
        await wait_until(lambda: server.active_requests == 3)
        server.release.set()
        assert await requests == [b"abcde"] * 20
        assert server.max_active_requests == 3
        # a failure gives its place back
        for path in ("close_head", "half_length", "close_head", "half_length"):
            with pytest.raises(ConnectionLost):
                await fetch(transport, server.url(path))
        assert await fetch(transport, server.url("ok")) == b"ok"
        await transport.close()


@pytest.mark.untraced
async def test_a_thousand_at_once() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 3 * CROWD:
        if 0 <= hard < 3 * CROWD:
            pytest.skip(f"needs {3 * CROWD} descriptors, and {hard} are allowed")
        resource.setrlimit(resource.RLIMIT_NOFILE, (3 * CROWD, hard))

    try:
        async with serve() as (server, transport):
            asked = asyncio.gather(*(fetch(transport, server.url("held")) for _ in range(CROWD)))
            await wait_until(lambda: server.active_requests == CROWD)
            server.release.set()
            assert await asked == [b"abcde"] * CROWD
            assert server.accepted == CROWD
            assert await fetch(transport, server.url("ok")) == b"ok"
            assert server.accepted == CROWD
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@LINUX
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "left to the loop"])
def test_one_transport_on_loops_one_after_another(closed: bool) -> None:
    transport = HttpTransport()

    async def main() -> None:
        async with Server() as server:
            assert await fetch(transport, server.url("ok")) == b"ok"
            with pytest.raises(ConnectionLost):
                await fetch(transport, server.url("half_length"))
            if closed:
                answer = await transport.send(request(server.url("stall_body")))
                assert await answer.read() == b"abcde"
                await transport.close()
                with pytest.raises(ConnectionLost):
                    await answer.read()

    before = descriptors()
    for _ in range(3):
        run(main())
        assert descriptors() == before


@LINUX
async def test_a_forgotten_transport_closes_its_connections() -> None:
    async with Server() as server:
        before = descriptors()
        await fetch(HttpTransport(), server.url("ok"))
        for _ in range(10):
            await asyncio.sleep(0)
        assert descriptors() <= before


@LINUX
async def test_a_transport_that_is_dropped_with_a_reference_cycle_closes_its_connections() -> None:
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda loop, context: complaints.append(context["message"])
    )
    async with Server() as server:
        before = descriptors()
        transport = HttpTransport()
        await fetch(transport, server.url("ok"))
        cycle: list[Any] = [transport]
        cycle.append(cycle)
        del transport, cycle
        gc.collect()
        for _ in range(10):
            await asyncio.sleep(0)
        assert descriptors() <= before
        assert complaints == []


async def test_a_closed_transport_opens_again() -> None:
    async with serve() as (server, transport):
        await transport.close()
        for _ in range(2):
            assert await fetch(transport, server.url("ok")) == b"ok"
            await transport.close()
        assert server.accepted == 2


FORKED = """
import asyncio, os, sys
from toolglot.engine.http import HttpTransport
from toolglot.engine.transport import HttpRequest
transport = HttpTransport()
async def ask():
    async def serve(reader, writer):
        await reader.readuntil(b"\\r\\n\\r\\n")
        writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok")
        await writer.drain()
        writer.close()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    answer = await transport.send(HttpRequest(f"http://127.0.0.1:{port}/", {}, b""))
    assert await answer.read() == b"ok"
    await answer.close()
    server.close()
assert "aiohttp" not in sys.modules
asyncio.run(ask())
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
asyncio.run(asyncio.wait_for(ask(), 5))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_it_is_imported_late_and_works_after_a_fork() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


# ---- failures


LOST = {
    **dict.fromkeys(("reset_head", "close_head"), "the connection to HOST was lost before its response"),
    **dict.fromkeys(
        ("half_length", "half_chunks", "reset_body", "bad_gzip"),
        "the connection to HOST was lost during its response",
    ),
    "garbage": "the response of HOST is not HTTP: ",
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", LOST)
async def test_a_lost_connection(path: str, stream: bool) -> None:
    async with serve() as (server, transport):
        server.release.set()
        await expect_error(ConnectionLost, transport, server.url(path), LOST[path], stream=stream)
        assert len(server.requests) == 1
        assert await fetch(transport, server.url("ok"), stream=stream) == b"ok"


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_nothing_is_retried(method: str) -> None:
    async with serve() as (server, transport):
        await fetch(transport, server.url("ok"))
        with pytest.raises(ConnectionLost):
            await fetch(transport, server.url("close_head"), method=method)
        assert (server.accepted, len(server.requests)) == (1, 2)


async def test_what_arrived_before_a_failure_is_delivered() -> None:
    """Also to a caller that reads late."""

    async with serve() as (server, transport):
        answer = await transport.send(request(server.url("reset_body")))
        server.release.set()
        while answer._response.content.exception() is None:  # pyright: ignore[reportPrivateUsage]
            await asyncio.sleep(0)
        assert await answer.read() == b"abcde"
        with pytest.raises(ConnectionLost):
            await answer.read()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("path", "phase", "sentence"), [
    ("stall_head", "first byte", "HOST did not start to respond within 0.1 seconds"),
    ("stall_body", "idle", "HOST sent nothing for 0.1 seconds"),
])  # fmt: skip
async def test_a_stall_times_out(path: str, phase: str, sentence: str, stream: bool) -> None:
    async with serve(SHORT) as (server, transport):
        error = await expect_error(TimedOut, transport, server.url(path), sentence, stream=stream)
        assert error.phase == phase
        await server.client_left.wait()


async def test_a_caller_that_reads_late_is_not_a_silent_server() -> None:
    async with serve(Timeouts(idle=0.05)) as (server, transport):
        answer = await transport.send(request(server.url("paced")))
        await asyncio.sleep(0.15)
        server.release.set()
        assert await answer.read() == b"abcde"
        assert await answer.read() == b"abcde"
        assert await answer.read() == b""
        await answer.close()


async def test_each_timeout_has_its_own_length() -> None:
    """A long wait for the head is not ended by the time between pieces, and the other way round."""

    class Slow(Listener):
        pause = 0.0

        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            for data in (CHUNKED, PIECE, PIECE, END):
                await asyncio.sleep(self.pause)
                writer.write(data)

    async def slow(pause: float, timeouts: Timeouts) -> bytes | str:
        async with Slow() as server, connect(timeouts) as transport:
            server.pause = pause
            try:
                return await fetch(transport, f"http://{server.address}/")
            except TimedOut as error:
                return error.phase

    # longer than both, all in all
    assert await slow(0.2, Timeouts(first_byte=0.7, idle=0.7)) == b"abcdeabcde"
    assert await slow(0.06, Timeouts(first_byte=5, idle=0.02)) == "idle"
    assert await slow(0.06, Timeouts(first_byte=0.02, idle=5)) == "first byte"
    assert await slow(0, Timeouts(connect=None, first_byte=None, idle=None)) == b"abcdeabcde"


@LINUX
async def test_connecting_times_out() -> None:
    async with connect(Timeouts(connect=0.1)) as transport:
        with FullBacklog() as port:
            sentence = "could not connect to HOST within 0.1 seconds"
            error = await expect_error(TimedOut, transport, f"http://127.0.0.1:{port}/", sentence)
            assert error.phase == "connect"


async def test_nobody_listens() -> None:
    async with serve() as (server, transport):
        pass
    await expect_error(
        ConnectFailed, transport, server.url("ok"), "could not connect to HOST: Connection refused"
    )
    await transport.close()


async def test_an_unknown_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(*_: object, **__: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    async with connect() as transport:
        await expect_error(
            ConnectFailed,
            transport,
            "https://provider.test/",
            "unknown host HOST",
        )


@pytest.mark.parametrize(
    "url", ["provider.test/v1", "ftp://provider.test/", "http://provider.test:port/", "http://", ""]
)
async def test_a_url_that_cannot_be_used(url: str) -> None:
    async with connect() as transport:
        with pytest.raises(UsageError, match="http:// or https://"):
            await fetch(transport, url)


async def test_a_header_that_cannot_be_sent() -> None:
    async with serve() as (server, transport):
        with pytest.raises(
            UsageError, match=r"^the header Authorization contains a line break or a null character$"
        ) as caught:
            await fetch(
                transport, server.url("ok"), headers={"A": "b", "Authorization": f"Bearer {SECRET}\n"}
            )
        assert SECRET not in "".join(traceback.format_exception(caught.value))
        assert not server.requests


# ---- TLS


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trust_authority(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))


def certify(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*names).configure_cert(context)  # pyright: ignore[reportUnknownMemberType] - knows pyOpenSSL too
    return context


@pytest.mark.usefixtures("trust_authority")
async def test_tls_with_another_authority(authority: trustme.CA) -> None:
    async with Server(certify(authority, "127.0.0.1")) as server, connect() as transport:
        for path, body in (("ok", b"ok"), ("chunks", b"abcdeabcde"), ("gzip", b"abcde" * 100)):
            assert await fetch(transport, server.url(path)) == body
        assert server.accepted == 1
        answer = await transport.send(request(server.url("stall_body")))
        await answer.close()
        await server.client_left.wait()


@pytest.mark.parametrize("trusted", [True, False])
async def test_tls_with_a_wrong_certificate(
    trusted: bool, authority: trustme.CA, request: pytest.FixtureRequest
) -> None:
    if trusted:
        request.getfixturevalue("trust_authority")
    async with (
        Server(certify(authority, "other.test" if trusted else "127.0.0.1")) as server,
        connect() as transport,
    ):
        # the server's side of it
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        await expect_error(
            ConnectFailed, transport, server.url("ok"), "the certificate of HOST is not trusted: "
        )
        assert not server.requests


async def test_a_server_without_tls() -> None:
    class Plain(Listener):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.write(CHUNKED)

    async with Plain() as server, connect() as transport:
        await expect_error(ConnectFailed, transport, f"https://{server.address}/", "TLS with HOST failed: ")


# ---- proxies: the name is known to the proxy alone

FAR = "provider.test"


def open_with_proxy(
    name: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> AbstractAsyncContextManager[HttpTransport]:
    """A client with a proxy from an environment variable, or from its argument."""
    if not name.lower().endswith("_proxy"):
        return connect(proxy=address)
    monkeypatch.setenv(name, address)
    return connect()


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "explicit", "no scheme"])
async def test_a_proxy_for_http(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Server() as server, Proxy() as proxy:
        address = proxy.address if name == "no scheme" else f"http://me:pass@{proxy.address}"
        async with open_with_proxy(name, address, monkeypatch) as transport:
            assert await fetch(transport, server.url("chunks", FAR)) == b"abcdeabcde"
        (sent,) = proxy.requests
        assert sent.line == f"POST http://{FAR}:{server.port}/chunks HTTP/1.1"
        if name != "no scheme":
            assert base64.b64decode(sent.headers["proxy-authorization"].removeprefix("Basic ")) == b"me:pass"


@pytest.mark.usefixtures("trust_authority")
@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy", "explicit"])
async def test_a_tunnel_for_https(name: str, authority: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Server(certify(authority, FAR)) as server, Proxy() as proxy:
        async with open_with_proxy(name, f"http://{proxy.address}", monkeypatch) as transport:
            for _ in range(2):
                assert await fetch(transport, server.url("chunks", FAR)) == b"abcdeabcde"
        (sent,) = proxy.requests
        assert sent.line == f"CONNECT {FAR}:{server.port} HTTP/1.1"
        assert "authorization" not in sent.headers
        assert server.accepted == 1


DIRECT = [
    ("127.0.0.1", ""),
    ("localhost", ""),
    ("tool.localhost", "unrelated.test"),
    (FAR, FAR),
    (FAR, "a.test, .test"),
    (FAR, "*"),
    (FAR, "*.test"),
    (FAR, "PROVIDER.test:PORT"),
    ("10.1.2.3", "10.0.0.0/8"),
    ("10.1.2.3", "10.1.2.3"),
]
PROXIED = [
    (FAR, ""),
    (FAR, "rovider.test"),
    (FAR, "other.test,127.0.0.1"),
    (FAR, f"{FAR}:1"),
    ("10.1.2.3", "11.0.0.0/8,x"),
]


@pytest.mark.parametrize(
    ("direct", "host", "exceptions"), [(True, *row) for row in DIRECT] + [(False, *row) for row in PROXIED]
)
async def test_no_proxy(direct: bool, host: str, exceptions: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a proxy the name is looked up here: every name is this machine."""
    real = socket.getaddrinfo

    def getaddrinfo(name: object, *arguments: Any, **named: Any) -> Any:
        return real("127.0.0.1", *arguments, **named)

    async with Server() as server, Proxy() as proxy, connect() as transport:
        monkeypatch.setenv("HTTP_PROXY", f"http://{proxy.address}")
        monkeypatch.setenv("no_proxy", exceptions.replace("PORT", str(server.port)))
        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        if host == "10.1.2.3" and direct:
            assert transport._find_proxy(URL(server.url("ok", host))) is None  # pyright: ignore[reportPrivateUsage]
        else:
            assert await fetch(transport, server.url("ok", host)) == b"ok"
            assert len(proxy.requests) == (not direct)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_is_down(scheme: str) -> None:
    async with Proxy() as proxy:
        pass
    async with connect(proxy=f"http://me:{SECRET}@{proxy.address}") as transport:
        await expect_error(
            ConnectFailed, transport, f"{scheme}://{FAR}:1/", "could not connect to the proxy for HOST: "
        )


async def test_a_proxy_that_refuses() -> None:
    async with (
        Proxy(refuse="407 Proxy Authentication Required") as proxy,
        connect(proxy=f"http://me:{SECRET}@{proxy.address}") as transport,
    ):
        sentence = "the proxy refused to connect to HOST: status 407"
        await expect_error(ConnectFailed, transport, f"https://{FAR}/", sentence)


async def test_a_proxy_of_another_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="not socks5"):
        HttpTransport(proxy="socks5://127.0.0.1:1")
    monkeypatch.setenv("all_proxy", f"socks5://me:{SECRET}@127.0.0.1:1")
    async with connect() as transport:
        with pytest.raises(UsageError, match="not socks5"):
            await fetch(transport, f"https://{FAR}/")
