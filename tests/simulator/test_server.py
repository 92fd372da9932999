"""The simulator over real HTTP on loopback. Faults on the way are in `handover/test_faults`."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, suppress

import aiohttp
import pytest

from toolglot.common.jsontext import dumps
from toolglot.providers.catalog import resolve_profile
from toolglot.simulator import server
from toolglot.simulator.core import SimulatedResponse, Simulator
from toolglot.simulator.server import serve
from toolglot.values.messages import user

from .client import KEYS, WEATHER, WIRE_PROFILES, encode_body, pick_model, read_reply, request_path
from .test_model import calls_of

BODY = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}], "stream": True}
PATH = "/v1/chat/completions"


def client_of(url: str) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(url, headers=KEYS)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("profile", [*WIRE_PROFILES, "azure-dated-chat", "vertex"])
async def test_one_exchange(profile: str, stream: bool) -> None:
    target = resolve_profile(profile, pick_model(profile))
    body = encode_body(target, [user("weather in Paris and in Rome")], stream=stream, tools=(WEATHER,))
    async with serve() as url, client_of(url) as client:
        for _ in range(2):  # the connection is kept
            async with client.post(request_path(target, stream=stream), data=dumps(body)) as response:
                answer = SimulatedResponse(
                    response.status, {"content-type": response.content_type}, [await response.read()]
                )
            assert len(calls_of(read_reply(target, answer, stream=stream))) == 2


async def test_about_page_and_unknown_path() -> None:
    async with serve() as url, client_of(url) as client:
        async with client.get("/") as response:
            assert (await response.json())["simulator"] == "toolglot"
        async with client.post("/nowhere", json={}) as response:
            assert response.status == 404


async def ask_once(client: aiohttp.ClientSession, prompt: str) -> int:
    """Return the status, or 0 for a reply that is not complete."""
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": prompt}]}
    try:
        async with client.post(PATH, json=body) as response:
            await response.json()
            return response.status
    except aiohttp.ClientError:
        return 0


@pytest.mark.parametrize(
    ("prompt", "statuses"),
    [
        ("fault unauthorized\nsay hello", [401, 200, 200]),
        ("fault rate-limit 2\nsay hello", [429, 429, 200]),
        ("fault reset\nsay hello", [0, 200, 0]),
        ("fault reset\nfault server-error\nsay hello", [0, 500, 200]),
    ],
)
async def test_the_next_program_gets_the_faults_of_a_prompt_again(prompt: str, statuses: list[int]) -> None:
    async with serve() as url:
        for _ in range(2 if statuses[-1] else 1):
            async with client_of(url) as client:
                assert [await ask_once(client, prompt) for _ in statuses] == statuses


async def test_reset_forgets_which_faults_have_happened() -> None:
    prompt = "fault unauthorized\nsay hello"
    async with serve(Simulator(faults=["overloaded"])) as url, client_of(url) as client:
        for _ in range(2):
            assert [await ask_once(client, each) for each in (prompt, prompt, "say hi", "say hi")] == [
                401,
                503,
                200,
                200,
            ]
            async with client.post("/reset") as response:
                assert response.status == 204


async def test_stopping_releases_stalled_clients(caplog: pytest.LogCaptureFixture) -> None:
    async with AsyncExitStack() as clients:
        async with serve() as url:
            client = await clients.enter_async_context(client_of(url))
            response = await clients.enter_async_context(
                client.post(PATH, json=BODY, headers={"x-simulate": "stall"})
            )
            assert response.status == 200
        with suppress(aiohttp.ClientError):
            await response.read()
    assert caplog.records == []


async def test_many_connections_at_once() -> None:
    async def ask(url: str) -> int:
        async with client_of(url) as client, client.post(PATH, json=BODY) as response:
            await response.read()
            return response.status

    async with serve() as url:
        assert await asyncio.gather(*(ask(url) for _ in range(200))) == [200] * 200


async def test_logs_hold_no_keys(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG"):
        async with (
            serve() as url,
            client_of(url) as client,
            client.post(
                PATH + "?key=sk-secret", json=BODY, headers={"authorization": "Bearer sk-secret"}
            ) as response,
        ):
            await response.read()
    assert "chat/completions -> 200" in caplog.text
    assert "sk-secret" not in caplog.text


async def send_raw(url: str, data: bytes) -> bytes:
    """What the server answers until it closes the connection."""
    reader, writer = await asyncio.open_connection(*url.removeprefix("http://").split(":"))
    writer.write(data)
    answer = await reader.read()
    writer.close()
    return answer


async def test_slow_clients_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_READ_SECONDS", 0.2)
    head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\n"
    async with serve() as url:
        texts = ["", head, f"{head}Content-Length: 100\r\n\r\n{{"]
        silent, no_body, half_body = await asyncio.gather(*(send_raw(url, text.encode()) for text in texts))
    assert (silent, no_body) == (b"", b"")
    assert half_body.startswith(b"HTTP/1.1 408 ")


async def test_bodies_are_limited_each_and_together(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(client: aiohttp.ClientSession, size: int) -> int:
        async with client.post(PATH, data=b"x" * size) as response:
            return response.status

    async def drip() -> AsyncGenerator[bytes]:
        yield b"x" * 80_000
        await done.wait()

    monkeypatch.setattr(server, "_MAX_BODY_BYTES", 90_000)
    monkeypatch.setattr(server, "_MAX_HELD_BYTES", 100_000)
    done = asyncio.Event()
    async with serve() as url, client_of(url) as client:
        assert [await ask(client, 100_000), await ask(client, 50_000)] == [413, 400]
        slow = asyncio.create_task(client.post(PATH, data=drip()))
        while await ask(client, 50_000) == 400:  # until the slow one has arrived
            pass
        done.set()
        assert (await slow).status == 400
        assert await ask(client, 50_000) == 400


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "LOCALHOST:80", "[::1]:80", "evil.example", "127.0.0.1.evil.example"]
)
async def test_only_loopback_names(host: str) -> None:
    async with serve() as url, client_of(url) as client, client.get("/", headers={"host": host}) as response:
        assert response.status == (403 if "evil" in host else 200)
