"""MCP servers at an address: headers, sessions that expire, answers that are too much, and signing in."""

import asyncio
import gzip
import json
import os
import stat
import threading
import urllib.request
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.mcp.client_kit import call, eventually, run

from toolglot.mcp import McpOAuth, McpServer, McpServers, McpServerStatus
from toolglot.mcp.client import http_client
from toolglot.mcp.serve.http import serve_http
from toolglot.mcp.serve.server import McpToolServer
from toolglot.tools.registry import ToolRegistry

TOKEN = "correct-horse-battery"
SIGN_IN = (
    "s requires you to sign in; run this in a terminal: toolglot mcp test s; "
    "if it expects a token instead, set it in the Authorization header"
)


def status_of(server: McpServer) -> McpServerStatus:
    with McpServers({"s": server}) as servers:
        return servers.status()[0]


def add(first: int, second: int) -> int:
    return first + second


async def test_our_client_and_our_server_understand_each_other() -> None:
    async with serve_http(McpToolServer([add]), token=TOKEN) as url:
        good = McpServer(url=url, headers={"Authorization": f"Bearer {TOKEN}"})
        bad = McpServer(url=url, headers={"Authorization": "Bearer wrong-horse-battery"})
        async with McpServers({"s": good, "t": bad, "u": McpServer(url=url)}) as servers:
            assert (await run(servers, "add", first=1, second=2)).text == "3"
            ready, refused, wants_sign_in = servers.status()
        assert (ready.state, ready.protocol) == ("ready", "2026-07-28")
        assert (refused.state, refused.error) == (
            "failed",
            "it responded with HTTP 401: it does not accept the Authorization header",
        )
        assert wants_sign_in.state == "failed"
        assert "Traceback" not in wants_sign_in.error
        assert wants_sign_in.error.endswith(
            "; if it expects a token instead, set it in the Authorization header"
        )


@pytest.mark.parametrize("is_modern", [True, False])
async def test_changes_of_a_server_are_noticed(is_modern: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_modern:  # what a server does that knows only the older protocol

        async def initialize(session: Any) -> None:
            await session.initialize()

        monkeypatch.setattr("mcp.client.client.negotiate_auto", initialize)
    registry = ToolRegistry([add])
    async with serve_http(McpToolServer(registry)) as url, McpServers({"s": McpServer(url=url)}) as servers:
        assert servers.status()[0].protocol == ("2026-07-28" if is_modern else "2025-11-25")

        def subtract(first: int, second: int) -> int:
            return first - second

        await asyncio.sleep(0)
        registry.register(subtract)
        await run(servers, "add", first=1, second=1)
        await eventually(lambda: servers.origin("mcp__s__subtract"))
        assert (await run(servers, "subtract", first=3, second=1)).text == "2"


class Handler(BaseHTTPRequestHandler):
    """A server of the older protocol that does as it is told by the tool that is called."""

    sessions: set[str]
    log: list[str]
    tokens: list[str]
    oauth: bool
    elsewhere: dict[str, str]
    """Where steps of signing in lead instead of this server."""
    requests: list[str]
    unknown_session: tuple[str, str] = ("", "")
    """The media type and the body with which a request of an unknown session is refused."""
    meeting: threading.Barrier
    """Where calls of `meet` wait for each other."""

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def reply(self, status: int, body: bytes = b"", /, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def reply_json(self, value: Any, status: int = 200, /, **headers: str) -> None:
        self.reply(status, json.dumps(value).encode(), Content_Type="application/json", **headers)

    @property
    def base(self) -> str:
        return f"http://{self.headers['Host']}"

    def leads_to(self, step: str) -> str:
        return self.elsewhere.get(step, self.base)

    def parse_request(self) -> bool:
        is_valid = super().parse_request()
        self.requests.append(f"{self.command} {self.path.partition('?')[0]}")
        return is_valid

    def do_GET(self) -> None:
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        if not self.oauth or path == "/mcp":
            self.reply(405)
        elif path.startswith("/.well-known/oauth-protected-resource"):
            servers = [self.leads_to("server")]
            self.reply_json(
                {
                    "resource": f"{self.base}/mcp",
                    "authorization_servers": servers,
                    "scopes_supported": ["all"],
                }
            )
        elif path.startswith("/.well-known/") and "redirect" in self.elsewhere:
            self.reply(307, Location=f"{self.elsewhere['redirect']}{path}")
        elif path.startswith("/.well-known/"):
            pages = {"authorization": "authorize", "token": "oauth/token", "registration": "register"}
            endpoints = {f"{name}_endpoint": f"{self.leads_to(name)}/{page}" for name, page in pages.items()}
            self.reply_json({"issuer": self.base, **endpoints, "code_challenge_methods_supported": ["S256"]})
        elif path == "/authorize":
            self.log.append(f"authorize {query['scope'][0]}")
            self.reply(302, Location=f"{query['redirect_uri'][0]}?code=c&state={query['state'][0]}")
        else:
            self.reply(404)

    def do_DELETE(self) -> None:
        self.reply(200)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/register":
            self.reply_json({**json.loads(body), "client_id": "registered"}, 201)
        elif self.path == "/oauth/token":
            fields = parse_qs(body.decode())
            self.log.append(f"token {fields['grant_type'][0]} {fields['client_id'][0]}")
            self.tokens.append(f"good-token-{len(self.tokens)}")
            lifetime = {"refresh_token": "r", "expires_in": 3600}
            self.reply_json({"access_token": self.tokens[-1], "token_type": "Bearer", **lifetime})
        elif self.oauth and self.headers["Authorization"] not in [
            f"Bearer {token}" for token in self.tokens[-1:]
        ]:
            challenge = (
                f'Bearer resource_metadata="{self.leads_to("resource")}/.well-known/oauth-protected-resource"'
            )
            self.reply(401, WWW_Authenticate=challenge)
        else:
            self.answer(json.loads(body))

    def answer(self, message: dict[str, Any]) -> None:
        method, id = message["method"], message.get("id")
        if id is None:
            self.reply(202)
            return
        headers: dict[str, str] = {}
        result: dict[str, Any] = {"tools": []}
        if method == "initialize":
            session = f"s{len(self.log)}"
            self.sessions.add(session)
            self.log.append("initialize")
            headers["Mcp_Session_Id"] = session
            info = {"name": "h", "version": "1"}
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        elif method == "server/discover":
            self.reply_json({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}}, 404)
            return
        elif self.headers["Mcp-Session-Id"] not in self.sessions:
            media_type, body = self.unknown_session
            self.reply(
                404,
                body.replace("ID", json.dumps(id)).encode(),
                **({"Content_Type": media_type} if media_type else {}),
            )
            return
        elif method == "tools/list":
            names = ("who", "expire", "huge", "gzip", "fail", "terminated", "forget", "meet", "revoke")
            result["tools"] = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
        elif message["params"]["name"] == "forget":
            self.reply(404)
            return
        else:
            name = message["params"]["name"]
            self.log.append(name)
            if name == "terminated":
                self.reply_json(json.loads(ERROR % (id, -32600, "Session terminated")))
                return
            if name == "fail":
                self.reply(500)
                return
            if name == "expire":
                self.sessions.clear()
            if name == "revoke":
                self.tokens.append("of nobody")
            if name == "meet":
                self.meeting.wait(10)
            text = {"who": self.headers["X-Who"] or "?", "huge": "x" * 300_000}.get(name, name)
            result = {"content": [{"type": "text", "text": text}]}
            if name == "gzip":
                body = gzip.compress(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode())
                self.reply(200, body, Content_Type="application/json", Content_Encoding="gzip")
                return
        self.reply_json({"jsonrpc": "2.0", "id": id, "result": result}, 200, **headers)


class QuietServer(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that hangs up


@contextmanager
def serve(
    *,
    oauth: bool = False,
    port: int = 0,
    elsewhere: dict[str, str] | None = None,
    requests: list[str] | None = None,
    unknown_session: tuple[str, str] = ("", ""),
) -> Generator[tuple[str, list[str]]]:
    """Serve at an address; yields it, and what has happened. `requests` receives every request."""
    log: list[str] = []
    fields: dict[str, Any] = {"sessions": set[str](), "tokens": list[str](), "log": log, "oauth": oauth}
    fields |= {
        "meeting": threading.Barrier(3),
        "unknown_session": unknown_session,
        "elsewhere": elsewhere or {},
        "requests": [] if requests is None else requests,
    }
    handler = type("BoundHandler", (Handler,), fields)
    server = QuietServer(("127.0.0.1", port), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp", log
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


ERROR = '{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"%s"}}'
UNKNOWN_SESSION = {
    "empty": ("", ""),
    "text": ("text/plain", "Session not found"),
    "page": ("text/html", "<!doctype html><h1>404</h1>"),
    "events": ("text/event-stream", "data: x\n\n"),
    "other json": ("application/json", '{"detail":"Not Found"}'),
    "broken json": ("application/json", "{"),
    "id of the request": ("application/json", ERROR % ("ID", -32001, "Session not found")),
    "no id": ("application/json", ERROR % ("null", -32600, "Session terminated")),
    "id of the reference server": (
        "application/json; charset=utf-8",
        ERROR % ('"server-error"', -32600, "Session not found"),
    ),
    "unknown method": ("application/json", ERROR % ("ID", -32601, "Method not found")),
    "result": (
        "application/json",
        '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"wrong"}]}}',
    ),
}


@pytest.mark.parametrize("form", UNKNOWN_SESSION.values(), ids=UNKNOWN_SESSION)
def test_headers_are_sent_and_a_session_that_expires_is_renewed(form: tuple[str, str]) -> None:
    with (
        serve(unknown_session=form) as (url, log),
        McpServers({"s": McpServer(url=url, headers={"X-Who": "me"})}) as servers,
    ):
        assert call(servers, "who").text == "me"
        assert call(servers, "expire").text == "expire"
        assert call(servers, "who").text == "me", "the server has refused the call, so it can be made again"
        assert log == ["initialize", "who", "expire", "initialize", "who"]


def test_a_proxy_is_used_except_for_servers_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[str] = []
    with serve(requests=requests) as (proxy, _), serve() as (url, log):
        monkeypatch.setenv("HTTP_PROXY", proxy.removesuffix("/mcp"))
        for variable in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(variable, raising=False)
        for host in ("127.0.0.1", "localhost"):
            with McpServers({"s": McpServer(url=url.replace("127.0.0.1", host))}) as servers:
                assert call(servers, "who").text
        assert log.count("who") == 2
        assert requests == []
        with McpServers({"s": McpServer(url="http://mcp.example/mcp")}):
            assert requests
            assert all("http://mcp.example/" in request for request in requests)


def test_a_server_that_never_ends_a_session_begins_another(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end = threading.Event()

    def stay_silent(handler: Handler) -> None:
        may_end.wait(60)

    monkeypatch.setattr(http_client, "_END_SECONDS", 0.1)
    monkeypatch.setattr(Handler, "do_DELETE", stay_silent)
    with serve() as (url, log), McpServers({"s": McpServer(url=url)}) as servers:
        assert call(servers, "expire").text == "expire"
        assert call(servers, "who").text == "?"
        assert log == ["initialize", "expire", "initialize", "who"]
        may_end.set()


def test_an_error_that_sounds_like_an_expired_session_repeats_no_call() -> None:
    """It was answered with status 200: the call may have run."""
    with serve() as (url, log), McpServers({"s": McpServer(url=url)}) as servers:
        assert call(servers, "terminated").text == "s: Session terminated"
        assert log == ["initialize", "terminated"]


def test_a_session_that_is_never_known_is_no_endless_loop() -> None:
    with serve() as (url, log), McpServers({"s": McpServer(url=url)}) as servers:
        assert (
            call(servers, "forget").text
            == "s does not know the session that it has just opened. The call did not run."
        )
        assert log.count("forget") == 0
        assert log.count("initialize") <= 3


async def test_a_restarted_server_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference SDK's server, with sessions."""

    async def initialize(session: Any) -> None:
        await session.initialize()

    monkeypatch.setattr("mcp.client.client.negotiate_auto", initialize)
    async with AsyncExitStack() as stack:
        async with serve_http(McpToolServer([add])) as url:
            servers = await stack.enter_async_context(McpServers({"s": McpServer(url=url)}))
            assert (await run(servers, "add", first=1, second=2)).text == "3"
        async with serve_http(McpToolServer([add]), port=urlsplit(url).port or 0):
            results = await asyncio.gather(
                *(run(servers, "add", first=1, second=number) for number in range(5))
            )
            assert [result.text for result in results] == ["1", "2", "3", "4", "5"]


def test_a_server_that_is_away_for_a_while() -> None:
    """Nothing was sent while it was away, so nothing can have run."""
    with serve() as (url, _):
        servers = McpServers({"s": McpServer(url=url)})
        servers.start()
        servers.wait_ready()
    try:
        away = call(servers, "fail")
        assert "s is not connected: http" in away.text
        assert away.text.endswith("The call did not run.")
        with serve(port=int(url.split(":")[2].partition("/")[0])) as (_, log):
            assert call(servers, "who").text == "?"
        assert log == ["initialize", "who"]
    finally:
        servers.close()


def test_answers_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "MAX_MESSAGE", 100_000)
    with serve() as (url, log), McpServers({"s": McpServer(url=url)}) as servers:
        huge, compressed, failed = call(servers, "huge"), call(servers, "gzip"), call(servers, "fail")
        assert huge.text == "s may have run the call, but its answer has 0 MB, more than the limit of 0 MB."
        assert (
            compressed.text
            == "s may have run the call, but it sent compressed data (gzip) that was not requested."
        )
        assert failed.text == "s: it responded with HTTP 500"
        assert call(servers, "who").text == "?"
        assert log.count("initialize") == 1, "one bad answer does not end the connection"


@pytest.mark.parametrize("oauth", [False, True], ids=["open", "signed in"])
async def test_calls_do_not_wait_for_each_other(
    oauth: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may begin to respond only when a call is done."""
    monkeypatch.setenv("TOOLGLOT_STATE", str(tmp_path))
    with serve(oauth=oauth) as (url, _):
        async with McpServers(
            {"s": McpServer(url=url)}, sign_in=lambda server, address: follow(address)
        ) as servers:
            results = await asyncio.gather(*(run(servers, "meet") for _ in range(3)))
            assert [result.text for result in results] == ["meet"] * 3


def test_other_addresses_are_explained() -> None:
    with serve() as (url, _):
        # this one does not mind
        assert status_of(McpServer(url=url.replace("/mcp", "/other"))).state == "ready"
    assert "cannot be reached: ConnectError" in status_of(McpServer(url=url)).error


# ---- signing in


def follow(address: str) -> None:
    """What a browser does."""
    with urllib.request.urlopen(address) as page:
        assert b"You are signed in" in page.read()


def test_tokens_are_stored_for_their_address_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLGLOT_STATE", str(tmp_path))
    shown: list[str] = []

    def sign_in(server: str, address: str) -> None:
        shown.append(server)
        follow(address)

    with serve(oauth=True) as (url, log), serve(oauth=True) as (other_url, _):
        assert status_of(McpServer(url=url)).error == SIGN_IN
        with McpServers({"s": McpServer(url=url)}, sign_in=sign_in) as servers:
            assert call(servers, "who").text == "?"
        assert shown == ["s"]
        assert log[:2] == ["authorize all", "token authorization_code registered"]
        (file,) = (tmp_path / "mcp").iterdir()
        assert "good-token" in file.read_text()
        if os.name == "posix":
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert status_of(McpServer(url=url)).state == "ready", "the next time, nobody is asked"
        assert "sign in" in status_of(McpServer(url=other_url)).error, (
            "the same name at another address gets no tokens"
        )


def test_a_registered_client_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLGLOT_STATE", str(tmp_path))
    oauth = McpOAuth(client_id="mine", client_secret="hush", scopes=("read", "write"))
    with serve(oauth=True) as (url, log):
        with McpServers(
            {"s": McpServer(url=url, oauth=oauth)}, sign_in=lambda server, address: follow(address)
        ) as servers:
            assert servers.status()[0].state == "ready"
        assert log[1] == "token authorization_code mine"


async def test_calls_that_are_refused_together_sign_in_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLGLOT_STATE", str(tmp_path))
    with serve(oauth=True) as (url, log):
        async with McpServers(
            {"s": McpServer(url=url)}, sign_in=lambda server, address: follow(address)
        ) as servers:
            await run(servers, "revoke")
            results = await asyncio.gather(*(run(servers, "meet") for _ in range(3)))
            assert [result.text for result in results] == ["meet"] * 3
        signing_in = ["authorize all", "token authorization_code registered"]
        assert log == [*signing_in, "initialize", "revoke", *signing_in, "meet", "meet", "meet"]


def test_a_token_that_has_expired_is_refreshed_without_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLGLOT_STATE", str(tmp_path))
    with serve(oauth=True) as (url, log):
        with McpServers(
            {"s": McpServer(url=url)}, sign_in=lambda server, address: follow(address)
        ) as servers:
            assert servers.status()[0].state == "ready"
        (file,) = (tmp_path / "mcp").iterdir()
        stored = json.loads(file.read_text())
        file.write_text(json.dumps({**stored, "expires_at": 1}))
        assert status_of(McpServer(url=url)).state == "ready"
        assert log[2:] == ["initialize", "token refresh_token registered", "initialize"]
        file.write_text(json.dumps({**stored, "tokens": {"wrong": 1}, "client": [], "expires_at": "soon"}))
        assert status_of(McpServer(url=url)).error == SIGN_IN
