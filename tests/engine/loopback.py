"""A raw HTTP/1.1 server and a proxy on loopback, for tests of the transport and for the comparison of
clients.

A path's first part names a script: bytes to write, or one of `wait` (until the test says go), `stall` (until
the client has gone), `close`, `reset`.
"""

import asyncio
import gzip
import socket
import ssl
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Self


def reply(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n"
PIECE = b"5\r\nabcde\r\n"
END = b"0\r\n\r\n"
SCRIPTS: dict[str, tuple[bytes | str, ...]] = {
    "ok": (reply(b"ok", "Content-Type: application/json", "X-Request-ID: 7"),),
    "chunks": (CHUNKED + PIECE + PIECE + END,),
    "empty": (reply(b""),),
    "until_close": (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabcde", "close"),
    "long_header": (reply(b"ok", "X-Policy: " + "x" * 20_000),),
    "busy": (reply(b"later", "Retry-After: 3", status="429 Too Many Requests"),),
    "redirect": (reply(b"", "Location: http://127.0.0.1:1/elsewhere", status="307 Temporary Redirect"),),
    "cookie": (reply(b"", "Set-Cookie: session=1; Path=/"),),
    "gzip": (reply(gzip.compress(b"abcde" * 100), "Content-Encoding: gzip"),),
    "deflate": (reply(zlib.compress(b"abcde" * 100), "Content-Encoding: deflate"),),
    "bad_gzip": (reply(b"abcde" * 100, "Content-Encoding: gzip"),),
    "gzip_bomb": (reply(gzip.compress(bytes(40_000_000)), "Content-Encoding: gzip"),),
    "no_content": (b"HTTP/1.1 204 No Content\r\n\r\n",),
    "not_modified": (b"HTTP/1.1 304 Not Modified\r\n\r\n",),
    "held": ("wait", CHUNKED + PIECE + END),
    "paced": (CHUNKED + PIECE, "wait", PIECE + END),
    "stall_head": ("stall",),
    "stall_body": (CHUNKED + PIECE, "stall"),
    "close_head": ("close",),
    "reset_head": ("reset",),
    "reset_body": (CHUNKED + PIECE, "wait", "reset"),
    "half_length": (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nabcde", "close"),
    "half_chunks": (CHUNKED + PIECE, "close"),
    "garbage": (b"SSH-2.0-OpenSSH_9.9\r\n\r\n", "close"),
}


class ReceivedRequest(NamedTuple):
    """A request as it arrived."""

    line: str
    headers: dict[str, str]
    body: bytes


async def read_request(reader: asyncio.StreamReader) -> ReceivedRequest:
    line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (text.partition(":") for text in lines)}
    return ReceivedRequest(line, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


class Listener:
    """Accepts connections, and has ended all of them when it is left."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.tls = tls
        self.accepted = 0
        self.requests: list[ReceivedRequest] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self.tls, backlog=2048)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for _turn in range(3):
            await asyncio.sleep(0)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.create_task(self._guard(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guard(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                await self.serve(reader, writer)
        finally:
            writer.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError


class Server(Listener):
    """Follows the script that a request asks for."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls)
        self.active_requests = self.max_active_requests = 0
        self.client_left, self.release = asyncio.Event(), asyncio.Event()

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}/{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            sent = await read_request(reader)
            self.requests.append(sent)
            self.active_requests += 1
            self.max_active_requests = max(self.max_active_requests, self.active_requests)
            for step in SCRIPTS[sent.line.split()[1].split("/")[1].partition("?")[0]]:
                if isinstance(step, bytes):
                    writer.write(step)
                    await writer.drain()
                elif step == "wait":
                    await self.release.wait()
                elif step == "stall":
                    with suppress(ConnectionError):
                        await reader.read()
                    self.client_left.set()
                    return
                else:
                    if step == "reset":
                        option = struct.pack("ii", 1, 0)
                        writer.get_extra_info("socket").setsockopt(
                            socket.SOL_SOCKET, socket.SO_LINGER, option
                        )
                        writer.transport.abort()
                    return
            self.active_requests -= 1


class Proxy(Listener):
    """Forwards plain requests and opens tunnels; every name is this machine.

    `refuse`: the status it answers with instead.
    """

    def __init__(self, refuse: str = "") -> None:
        super().__init__()
        self.refuse = refuse

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent = await read_request(reader)
        self.requests.append(sent)
        if self.refuse:
            writer.write(reply(b"", status=self.refuse))
            return
        method, target, _ = sent.line.split()
        address, _, path = target.removeprefix("http://").partition("/")
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", int(address.partition(":")[2]))
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            head = f"{method} /{path} HTTP/1.1\r\nContent-Length: {len(sent.body)}\r\n\r\n"
            far_writer.write(head.encode() + sent.body)
        pumps = asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        try:
            await pumps
        finally:
            far_writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


class FullBacklog:
    """A port that lets nobody in: its queue is full."""

    def __enter__(self) -> int:
        self._sockets = [socket.socket() for _ in range(4)]
        listener, *others = self._sockets
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for other in others:
            other.setblocking(False)
            other.connect_ex(listener.getsockname())
        return listener.getsockname()[1]

    def __exit__(self, *_: object) -> None:
        for each in self._sockets:
            each.close()


async def wait_until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0)
