"""A server that keeps the response open after the reply does not hold up a run (D9), over HTTP on every wire."""

import asyncio
from contextlib import aclosing

import pytest
from tests.engine.loopback import Listener, read_request

from toolglot.engine.http import HttpTransport
from toolglot.engine.simulated import SimulatedTransport
from toolglot.engine.transport import HttpRequest, Timeouts
from toolglot.loop.agent.agent import Agent
from toolglot.tools.tool import tool
from toolglot.values.events import RunDone, ToolFinished

from .agents import MODELS, PROVIDERS, run


class HoldingServer(Listener):
    """The simulator, but no response ends before its client has gone."""

    held = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received = await read_request(reader)
        url = "http://simulator" + received.line.split()[1]
        response = await SimulatedTransport().send(
            HttpRequest(url, received.headers, received.body, stream=True)
        )
        head = f"HTTP/1.1 {response.status} OK\r\nContent-Type: {response.headers['content-type']}\r\n"
        writer.write(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
        while data := await response.read():
            writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.held += 1
        await reader.read()


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_run_goes_on_when_the_reply_is_over(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolglot.engine.engine._END_SECONDS", 0.01)
    monkeypatch.setattr("toolglot.engine.engine._USAGE_SECONDS", 0.02)

    async def main() -> None:
        transport = HttpTransport(Timeouts(first_byte=None, idle=None))
        async with HoldingServer() as server:
            model, url = f"{provider}:{MODELS[provider]}", f"http://{server.address}/@{provider}"
            agent = Agent(model, tools=[add], base_url=url, key="any", transport=transport)
            for held in (2, 4):
                async with aclosing(agent.stream('call add {"a": 1, "b": 2}')) as stream:
                    events = [event async for event in stream]
                assert [event.outcome.result.text for event in events if isinstance(event, ToolFinished)] == [
                    "3"
                ]
                assert isinstance(events[-1], RunDone)
                assert events[-1].result.stop == "end"
                assert server.held == held
                # What the server does is known now, and not waited for again.
                monkeypatch.setattr("toolglot.engine.engine._USAGE_SECONDS", 3600)
                if provider != "gemini":  # which may send text after the finish reason
                    monkeypatch.setattr("toolglot.engine.engine._END_SECONDS", 3600)
            await transport.close()

    run(main())
