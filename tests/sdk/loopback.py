"""A loopback server that answers every POST with the bytes it was given and remembers what it was sent."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from toolglot.common.jsontext import loads_object


class Loopback:
    """What the next request is answered with, and the bodies and paths of all that came."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answer = b""
        self.content_type = "application/json"
        self.bodies: list[bytes] = []
        self.paths: list[str] = []

    def say(self, answer: bytes, content_type: str = "application/json") -> None:
        """Sets the answer and forgets what came before."""
        self.answer, self.content_type = answer, content_type
        self.bodies, self.paths = [], []

    @property
    def body(self) -> dict[str, Any]:
        """The one body that came."""
        (body,) = self.bodies
        return loads_object(body)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # clients keep the connection
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_POST(self) -> None:
        loopback = cast(_Server, self.server).loopback
        loopback.paths.append(self.path)
        loopback.bodies.append(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.send_header("content-type", loopback.content_type)
        self.send_header("content-length", str(len(loopback.answer)))
        self.end_headers()
        self.wfile.write(loopback.answer)

    def log_message(self, format: str, *args: Any) -> None:
        """A test's output stays its own."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.loopback = Loopback(f"http://127.0.0.1:{self.server_address[1]}")


@contextmanager
def loopback() -> Generator[Loopback]:
    """A running server."""
    with _Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server.loopback
        finally:
            server.shutdown()
            thread.join()
