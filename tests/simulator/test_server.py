"""The simulator over real HTTP on loopback. Faults on the way are in `handover/test_faults`."""

import asyncio
from contextlib import AsyncExitStack, suppress

import aiohttp
import pytest

from toolglot.jsontext import dumps
from toolglot.messages import user
from toolglot.providers.catalog import resolve_profile
from toolglot.simulator.core import SimulatedResponse
from toolglot.simulator.server import serve

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
                answer = SimulatedResponse(response.status, {"content-type": response.content_type}, [await response.read()])
            assert len(calls_of(read_reply(target, answer, stream=stream))) == 2


async def test_about_page_and_unknown_path() -> None:
    async with serve() as url, client_of(url) as client:
        async with client.get("/") as response:
            assert (await response.json())["simulator"] == "toolglot"
        async with client.post("/nowhere", json={}) as response:
            assert response.status == 404


async def test_stopping_releases_stalled_clients(caplog: pytest.LogCaptureFixture) -> None:
    async with AsyncExitStack() as clients:
        async with serve() as url:
            client = await clients.enter_async_context(client_of(url))
            response = await clients.enter_async_context(client.post(PATH, json=BODY, headers={"x-simulate": "stall"}))
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
            client.post(PATH + "?key=sk-secret", json=BODY, headers={"authorization": "Bearer sk-secret"}) as response,
        ):
            await response.read()
    assert "chat/completions -> 200" in caplog.text
    assert "sk-secret" not in caplog.text
