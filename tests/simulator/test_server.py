"""The simulator over real HTTP on loopback, asked by a client of a few lines."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from toolglot.jsontext import dumps, loads_object
from toolglot.messages import user
from toolglot.providers.catalog import resolve_profile
from toolglot.simulator.core import Simulator
from toolglot.simulator.server import SimulatorServer, serve

from .client import KEYS, WEATHER, encode_body, pick_model, request_path
from .client import read_reply as read_reply
from .test_model import calls_of

BODY: dict[str, Any] = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}
PATH = "/v1/chat/completions"


class Raw:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, url: str) -> "Raw":
        host, _, port = url.removeprefix("http://").rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    def send(self, path: str, body: Any, method: str = "POST", **headers: str) -> None:
        data = dumps(body)
        lines = [f"{method} {path} HTTP/1.1", "host: x", f"content-length: {len(data)}"]
        lines += [f"{name}: {value}" for name, value in {**KEYS, **headers}.items()]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + data)

    async def head(self) -> tuple[int, dict[str, str]]:
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        return int(lines[0].split()[1]), fields

    async def whole(self) -> tuple[int, dict[str, str], bytes]:
        status, headers = await self.head()
        if "content-length" in headers:
            return status, headers, await self.reader.readexactly(int(headers["content-length"]))
        body = b""
        while size := int(await self.reader.readline(), 16):
            body += await self.reader.readexactly(size)
            await self.reader.readexactly(2)
        await self.reader.readline()
        return status, headers, body

    async def close(self) -> None:
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()


def against(simulator: Simulator, use: Callable[[Raw, str], Awaitable[None]]) -> None:
    async def run() -> None:
        async with SimulatorServer(simulator) as url:
            raw = await Raw.to(url)
            try:
                await use(raw, url)
            finally:
                await raw.close()

    asyncio.run(run())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "profile", ["openai-chat", "openai-responses", "anthropic", "gemini", "ollama", "azure-dated-chat", "vertex"]
)
def test_one_exchange(profile: str, stream: bool) -> None:
    target = resolve_profile(profile, pick_model(profile))
    body = encode_body(target, [user("weather in Paris and in Rome")], stream=stream, tools=(WEATHER,))

    async def use(raw: Raw, url: str) -> None:
        for _ in range(2):  # the connection is kept
            raw.send(request_path(target, stream=stream), body)
            status, headers, data = await raw.whole()
            answer = Simulator().handle("POST", request_path(target, stream=stream), KEYS, dumps(body))
            assert (status, headers["content-type"].partition(";")[0]) == (200, answer.headers["content-type"])
            answer.parts = [data]
            assert len(calls_of(read_reply(target, answer, stream=stream))) == 2

    against(Simulator(), use)


def test_about_page_and_unknown_path() -> None:
    async def use(raw: Raw, url: str) -> None:
        raw.send("/", {}, method="GET")
        assert loads_object((await raw.whole())[2])["simulator"] == "toolglot"
        raw.send("/nowhere", {})
        assert (await raw.whole())[0] == 404

    against(Simulator(), use)


def test_reset_before_the_head() -> None:
    async def use(raw: Raw, url: str) -> None:
        raw.send(PATH, BODY)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await raw.head()

    against(Simulator(faults=["reset"]), use)


def test_reset_in_the_middle() -> None:
    async def use(raw: Raw, url: str) -> None:
        raw.send(PATH, {**BODY, "stream": True})
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await raw.whole()
        again = await Raw.to(url)
        again.send(PATH, {**BODY, "stream": True})
        assert (await again.whole())[2].endswith(b"data: [DONE]\n\n")
        await again.close()

    against(Simulator(faults=["reset-mid-stream"]), use)


@pytest.mark.parametrize(("fault", "begins"), [("stall", True), ("stall-first", False)])
def test_stall_lasts_until_the_client_leaves(fault: str, begins: bool) -> None:
    async def use(raw: Raw, url: str) -> None:
        raw.send(PATH, {**BODY, "stream": True}, **{"x-simulate": fault})
        if begins:
            assert (await raw.head())[0] == 200
            await raw.reader.readuntil(b"\n\n")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(raw.reader.readuntil(b"[DONE]"), 0.05)

    against(Simulator(), use)


def test_stopping_releases_stalled_clients(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        server = SimulatorServer()
        raw = await Raw.to(await server.start())
        raw.send(PATH, {**BODY, "stream": True}, **{"x-simulate": "stall"})
        await raw.head()
        await server.stop()
        with suppress(ConnectionResetError):
            await raw.reader.read()
        await raw.close()

    asyncio.run(run())
    assert caplog.records == []


def test_truncated_ends_cleanly() -> None:
    async def use(raw: Raw, url: str) -> None:
        raw.send(PATH, {**BODY, "stream": True}, **{"x-simulate": "truncated"})
        status, _, body = await raw.whole()
        assert (status, b'finish_reason":"stop' in body) == (200, False)

    against(Simulator(), use)


def test_many_connections_at_once() -> None:
    async def one(url: str) -> int:
        raw = await Raw.to(url)
        raw.send(PATH, {**BODY, "stream": True})
        status, _, _ = await raw.whole()
        await raw.close()
        return status

    async def use(raw: Raw, url: str) -> None:
        assert await asyncio.gather(*(one(url) for _ in range(200))) == [200] * 200

    against(Simulator(), use)


def test_serve_until_cancelled() -> None:
    async def run() -> None:
        told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(serve(port=0, on_ready=told.set_result))
        raw = await Raw.to(await told)
        raw.send("/", {}, method="GET")
        assert (await raw.whole())[0] == 200
        await raw.close()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


def test_logs_hold_no_keys(caplog: pytest.LogCaptureFixture) -> None:
    async def use(raw: Raw, url: str) -> None:
        raw.send(PATH + "?key=sk-secret", BODY, authorization="Bearer sk-secret")
        await raw.whole()

    with caplog.at_level("DEBUG"):
        against(Simulator(), use)
    assert "chat/completions -> 200" in caplog.text
    assert "sk-secret" not in caplog.text
