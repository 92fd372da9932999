"""An MCP server over HTTP that misbehaves as it is told; see `servers/misbehaving.py`, which does so over
stdio.
"""

import gzip
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.mcp.servers.misbehaving import DEEP, MEGABYTE, answer, head, text

JSON, EVENTS, HTML, TEXT = "application/json", "text/event-stream", "text/html", "text/plain"
WAIT_SECONDS = 10.0
"""Until the call beside one that misbehaves must have arrived."""
BESIDE_SECONDS = 0.1
"""Until that one is answered: later than the misbehaviour, which must not hurt it."""
# What is sent: status, media type, body. ID is the id of the call, OTHER that of the call beside it.
BODIES: dict[str, tuple[int, str, str]] = {
    "expired session, empty": (404, "", ""),
    "expired session, text": (404, TEXT, "Session not found"),
    "expired session, error": (404, JSON, head("server-error") + '"error":{"code":-32600,"message":"Session '
                                                                 'not found"}}'),
    "status 400": (400, JSON, '{"detail":"no"}'),
    "status 401": (401, "", ""),
    "status 429": (429, TEXT, "slow down"),
    "status 500": (500, TEXT, "oops"),
    "status 503": (503, HTML, "<h1>away</h1>"),
    "status 500 with an error": (500, JSON, '{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"out of cheese"}}'),
    "status 202": (202, "", ""),
    "status 204": (204, "", ""),
    "redirect": (302, "", ""),
    "page": (200, HTML, "<h1>hello</h1>"),
    "empty": (200, JSON, ""),
    "no json": (200, JSON, "{"),
    "null result": (200, JSON, '{"jsonrpc":"2.0","id":ID,"result":null}'),
    "deep result": (200, JSON, f'{{"jsonrpc":"2.0","id":ID,"result":{DEEP}}}'),
    "NaN": (200, JSON, '{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":{"a":NaN}}}'),
    "another answer": (200, JSON, answer("OTHER", "wrong").replace('"OTHER"', "OTHER")),
    "a request": (200, JSON, '{"jsonrpc":"2.0","id":ID,"method":"ping"}'),
    "two answers": (200, JSON, answer("ID").replace('"ID"', "ID") + answer("ID", "wrong").replace('"ID"', "ID")),
    "events without an answer": (200, EVENTS, ": hello\n\n"),
    "event with a null result": (200, EVENTS, 'data: {"jsonrpc":"2.0","id":ID,"result":null}\n\n'),
    "event, deep": (200, EVENTS, f'data: {{"jsonrpc":"2.0","id":ID,"result":{DEEP}}}\n\n'),
    "event of another call": (200, EVENTS, "data: " + answer("OTHER", "wrong").replace('"OTHER"', "OTHER") + "\n\n"),
    "event that is no json": (200, EVENTS, "data: {\n\n"),
    "event, cancelled": (
        200,
        EVENTS,
        'data: {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":ID,"reason":"out of '
        'cheese"}}\n\n',
    ),
    "odd events": (
        200,
        EVENTS,
        ": x\r\n\r\nretry: soon\r\rid\revent: other\rdata: x\r\r"
        'data: {"jsonrpc":"2.0","method":"notifications/message","params":[1]}\n\ndata\n\n'
        + "data: " + answer("ID").replace('"ID"', "ID").replace(", ", ",\r\ndata: ") + "\n",
    ),
}  # fmt: skip


class Handler(BaseHTTPRequestHandler):
    """A server of the older protocol, with sessions."""

    sessions: set[str]
    barrier: threading.Barrier
    other: list[Any]
    done: set[str]
    """Kinds that are over: a call that is repeated is answered."""

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def reply(self, status: int, media_type: str = "", body: str | bytes = b"", /, **headers: str) -> None:
        data = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in {"Content-Type": media_type, "Content-Length": str(len(data)), **headers}.items():
            if value:
                self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self.reply(405)

    def do_DELETE(self) -> None:
        self.reply(200)

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method, id = message.get("method"), message.get("id")
        if method is None or id is None:
            self.reply(202)
        elif method == "initialize":
            session = f"s{len(self.sessions)}"
            self.sessions.add(session)
            info = {"name": "misbehaving", "version": "1"}
            result: Any = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
            self.reply_json({"id": id, "result": result}, Mcp_Session_Id=session)
        elif method == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("misbehave", "healthy")]
            self.reply_json({"id": id, "result": {"tools": tools}})
        elif method != "tools/call":
            self.reply_json({"id": id, "error": {"code": -32601, "message": f"no {method} here"}})
        elif message["params"]["name"] == "misbehave":
            kind = message["params"]["arguments"]["kind"]
            if kind in self.done:
                self.reply(200, JSON, answer(id))
                return
            self.barrier.wait(WAIT_SECONDS)
            if kind.startswith("expired"):
                self.done.add(kind)
            self.misbehave(kind, id)
        else:
            arguments = message["params"]["arguments"]
            if arguments["is_beside"]:
                self.other[:] = [id]
                self.barrier.wait(WAIT_SECONDS)
                threading.Event().wait(BESIDE_SECONDS)
            self.reply_json({"id": id, "result": text(f"healthy {arguments['number']}")})

    def reply_json(self, message: Any, **headers: str) -> None:
        self.reply(200, JSON, json.dumps({"jsonrpc": "2.0", **message}), **headers)

    def misbehave(self, kind: str, id: Any) -> None:
        self.close_connection = True
        result = answer(id)
        match kind:
            case "hang-up":
                pass
            case "hang-up in the answer":
                self.write_head(JSON, "Content-Length: 9999")
                self.wfile.write(result.encode())
            case "broken chunks":
                self.write_head(JSON, "Transfer-Encoding: chunked")
                self.wfile.write(b"5\r\nhello\r\nzz\r\n")
            case "hang-up in an event":
                self.write_head(EVENTS, "Content-Length: 9999")
                self.wfile.write(f"data: {result[:30]}".encode())
            case "no HTTP":
                self.wfile.write(b"SSH-2.0-OpenSSH_9.9\r\n")
            case "endless header":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nX: " + b"x" * MEGABYTE + b"\r\n\r\n")
            case "compressed":
                self.reply(200, JSON, gzip.compress(result.encode()), Content_Encoding="gzip")
            case "overlong":
                self.write_head(JSON, "Content-Type-Options: x")
                self.wfile.write(f'{head(id)}"result":{{"content":"'.encode())
                for _ in range(33):
                    self.wfile.write(b"x" * MEGABYTE)
            case "overlong event":
                self.write_head(EVENTS, "Cache-Control: no-store")
                for _ in range(33):
                    self.wfile.write(b"data: " + b"x" * MEGABYTE + b"\n")
            case "silence":
                self.write_head(EVENTS, "Cache-Control: no-store")
                for _ in range(50):
                    self.wfile.write(b": still there\n\n")
                threading.Event().wait(WAIT_SECONDS)
            case "redirect":
                self.reply(302, Location="http://127.0.0.1:1/")
            case _:
                status, media_type, body = BODIES[kind]
                self.reply(
                    status, media_type, body.replace("OTHER", str(self.other[0])).replace("ID", str(id))
                )

    def write_head(self, media_type: str, *lines: str) -> None:
        rows = ["HTTP/1.1 200 OK", f"Content-Type: {media_type}", "Connection: close", *lines, "", ""]
        self.wfile.write("\r\n".join(rows).encode())


class QuietServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that hangs up


@contextmanager
def serve_misbehaving() -> Generator[str]:
    """Serve at an address; yields its URL."""
    fields = {"sessions": set[str](), "barrier": threading.Barrier(2), "other": [0], "done": set[str]()}
    server = QuietServer(("127.0.0.1", 0), type("BoundHandler", (Handler,), fields))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
