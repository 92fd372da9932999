"""The MCP server over HTTP: who may reach it, and what each client has of its own."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx
import httpx2
import mcp_types as types
import pytest
from mcp.client.streamable_http import streamable_http_client
from starlette.applications import Starlette
from starlette.routing import Mount

from mcp import Client
from toolglot import ApprovalRequest, UsageError, tool
from toolglot.errors import ToolglotError
from toolglot.mcp.serve.http import find_host, http_app, serve_http
from toolglot.mcp.serve.server import McpToolServer

TOKEN = "correct-horse-battery"
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def add(first: int, second: int) -> int:
    return first + second


@asynccontextmanager
async def client_of(url: str, mode: Any, token: str = "", **options: Any) -> AsyncGenerator[Client]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, **options) as client,
    ):
        yield client


async def test_programs_of_this_machine_are_served_and_web_pages_are_not() -> None:
    async with serve_http(McpToolServer([add]), max_request_body_size=10_000) as url:
        for mode in ("legacy", "auto"):
            async with client_of(url, mode) as client:
                assert not (await client.call_tool("add", {"first": 1, "second": 2})).is_error
        host = httpx.URL(url).netloc.decode()
        async with httpx.AsyncClient(headers=HEADERS) as http:
            statuses = [
                (await http.post(url, json=INITIALIZE, headers=headers)).status_code
                for headers in (
                    {},
                    {"origin": f"http://{host}"},
                    {"origin": "http://localhost:3000"},
                    {"host": "evil.example"},
                    {"host": f"evil.example:{httpx.URL(url).port}"},
                    {"origin": "https://evil.example"},
                    {"origin": "null"},
                    {"origin": "http://localhost:evil.example"},
                    {"origin": "http://localhost:80@evil.example"},
                    {"origin": "http://127.0.0.1:1/evil.example"},
                    {"origin": "ftp://localhost"},
                    {"host": "localhost:evil.example"},
                    {"host": "127.0.0.1:80@evil.example"},
                    {"host": "evil.example", "mcp-protocol-version": "2026-07-28"},
                    {"origin": "https://evil.example", "mcp-protocol-version": "2026-07-28"},
                )
            ]
            assert statuses == [200, 200, 200, 421, 421, 403, 403, 403, 403, 403, 403, 421, 421, 421, 403]
            too_long = await http.post(url, content=b"x" * 10_001)
            assert too_long.status_code == 413


async def test_only_guarded_requests_and_the_lifespan_reach_the_application(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passed: list[str] = []
    sent: list[Any] = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        passed.append(scope["type"])

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    def make_inner(**options: Any) -> Any:
        return inner

    server = McpToolServer([add])
    monkeypatch.setattr(server.sdk, "streamable_http_app", make_inner)
    app = http_app(server, token=TOKEN)
    for kind in ("lifespan", "http", "websocket"):
        await app({"type": kind, "headers": []}, receive, send)
    with pytest.raises(UsageError, match="not served over the protocol 'webtransport'"):
        await app({"type": "webtransport", "headers": []}, receive, send)
    assert passed == ["lifespan"]
    types = [(message["type"], message.get("status", message.get("code"))) for message in sent]
    assert types == [("http.response.start", 401), ("http.response.body", None), ("websocket.close", 1008)]


AUTHORITIES = [
    ("localhost", "localhost"),
    ("LocalHost:80", "localhost"),
    ("127.0.0.1:65535", "127.0.0.1"),
    ("[::1]:8000", "::1"),
    *(
        (authority, None)
        for authority in (
            *(
                "",
                ":80",
                "localhost:",
                "localhost:evil.example",
                "localhost:80:80",
                "localhost:65536",
                "localhost:-1",
            ),
            *(
                "localhost:8o",
                "localhost:080",
                "localhost: 80",
                "localhost:٣",
                "user@localhost",
                "localhost@evil.example",
            ),
            *("localhost/", "localhost?x", "localhost#x", "local\thost", "::1", "[::1", "[::1]x"),
        )
    ),
]


@pytest.mark.parametrize(("authority", "host"), AUTHORITIES)
def test_a_host_is_followed_by_a_port_or_nothing(authority: str, host: str | None) -> None:
    assert find_host(authority) == host


async def test_without_the_token_nothing_is_served(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with serve_http(McpToolServer([add]), token=TOKEN) as url:
        async with client_of(url, "auto", TOKEN) as client:
            assert len((await client.list_tools()).tools) == 2
        async with httpx.AsyncClient(headers=HEADERS) as http:
            for authorization in (
                None,
                "",
                TOKEN,
                f"Bearer {TOKEN}x",
                f"Bearer {TOKEN[:-1]}",
                f"Basic {TOKEN}",
                "Bearer",
                "Bearer é",
            ):
                headers = httpx.Headers(
                    {} if authorization is None else {b"authorization": authorization.encode()}
                )
                refused = await http.post(url, json=INITIALIZE, headers=headers)
                assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
            elsewhere = {"authorization": f"bearer {TOKEN}", "origin": "https://evil.example"}
            assert (await http.post(url, json=INITIALIZE, headers=elsewhere)).status_code == 403
    assert TOKEN not in caplog.text


async def test_other_machines_need_a_token() -> None:
    server = McpToolServer([add])
    for host in (
        "0.0.0.0",
        "::",
        "192.0.2.1",
        "example.com",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
    ):
        with pytest.raises(UsageError, match="token is required"):
            http_app(server, host=host)
    for token in ("short", "with spaces in it, and long", "é" * 20):
        with pytest.raises(UsageError, match="at least 16"):
            http_app(server, host="0.0.0.0", token=token)
    http_app(server, host="0.0.0.0", token=TOKEN)


async def test_it_can_be_mounted_in_another_application() -> None:
    server = McpToolServer([add])
    transport = httpx.ASGITransport(Starlette(routes=[Mount("/tools", http_app(server, token=TOKEN))]))
    async with (
        server.sdk.session_manager.run(),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=HEADERS) as http,
    ):
        assert (await http.post("/tools/mcp", json=INITIALIZE)).status_code == 401
        initialized = await http.post(
            "/tools/mcp", json=INITIALIZE, headers={"authorization": f"Bearer {TOKEN}"}
        )
        assert initialized.status_code == 200


async def test_there_are_only_so_many_sessions() -> None:
    async with (
        serve_http(McpToolServer([add]), max_sessions=1) as url,
        httpx.AsyncClient(headers=HEADERS) as http,
    ):
        first, second = [await http.post(url, json=INITIALIZE) for _ in range(2)]
        assert (first.status_code, second.status_code) == (200, 503)
        session = {"mcp-session-id": first.headers["mcp-session-id"]}
        assert (await http.delete(url, headers=session)).status_code == 200
        assert (await http.post(url, json=INITIALIZE)).status_code == 200


async def test_an_address_in_use_is_an_error_of_one_sentence() -> None:
    async with serve_http(McpToolServer([add])) as url:
        with pytest.raises(ToolglotError, match=r"cannot listen on 127\.0\.0\.1:\d+: Address already in use"):
            async with serve_http(McpToolServer([add]), port=httpx.URL(url).port or 0):
                pass
    for host, message in (
        ("127.0.0.999", r"127\.0\.0\.999:0: [\w ]+"),
        ("ä" * 100, "'ä+': it is not a valid host name"),
    ):
        with pytest.raises(ToolglotError, match=f"^cannot listen on {message}$"):
            async with serve_http(McpToolServer([add]), host, token=TOKEN):
                pass


async def test_the_end_of_the_server_ends_calls_and_connections() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def hang() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with asyncio.TaskGroup() as group:
        async with serve_http(McpToolServer([hang])) as url:

            async def call() -> None:
                with pytest.raises(BaseException):  # noqa: B017, PT011 - whatever the client makes of it
                    async with client_of(url, "auto") as client:
                        await client.call_tool("hang", {})

            group.create_task(call())
            await started.wait()
        await ended.wait()


async def test_a_session_ends_with_its_client() -> None:
    loop, closed = asyncio.get_running_loop(), asyncio.Event()

    @contextmanager
    def open_tools() -> Generator[list[Any]]:
        yield [add]
        loop.call_soon_threadsafe(closed.set)

    async with serve_http(McpToolServer([add], open_tools=open_tools)) as url:
        async with client_of(url, "legacy") as client:
            await client.call_tool("add", {"first": 1, "second": 2})
            assert not closed.is_set()
        await closed.wait()


@pytest.mark.parametrize("decider", ["user", "program"])
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_always_is_for_sessions_only(mode: str, decider: str) -> None:
    """Without sessions, one client's "always" would allow the calls of all others."""
    asked: list[Any] = []

    async def accept(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params)
        return types.ElicitResult(action="accept", content={"always": True})

    def decide(request: ApprovalRequest) -> str:
        asked.append(request)
        return "always"

    @tool(approval=True)
    def touch(path: str) -> str:
        return f"touched {path}"

    options: Any = {"approve": decide} if decider == "program" else {}
    async with serve_http(McpToolServer([touch], **options)) as url:
        for _ in range(2):
            async with client_of(url, mode, elicitation_callback=accept) as client:
                for path in ("a", "b"):
                    assert not (await client.call_tool("touch", {"path": path})).is_error
    assert len(asked) == (2 if mode == "legacy" else 4)
    if decider == "user":
        offered = ["always" in params.requested_schema["properties"] for params in asked]
        assert offered == [mode == "legacy"] * len(asked)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_that_cancels_a_call_ends_it(mode: str) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def hang() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with serve_http(McpToolServer([hang, add])) as url, client_of(url, mode) as client:
        call = asyncio.create_task(client.call_tool("hang", {}))
        await started.wait()
        call.cancel()
        await ended.wait()
        assert not (await client.call_tool("add", {"first": 1, "second": 2})).is_error
