"""What conversations leave to the garbage collector: nothing when they are over, and little while they wait.

With the collector's default settings, a server with a thousand conversations spends a third of its time in
it; what is left in cycles grows until the next full collection.
"""

import asyncio
import gc
import json
from collections.abc import Awaitable, Callable, Generator
from contextlib import aclosing, contextmanager

import pytest

from toolglot.engine.engine import Engine
from toolglot.engine.factory import create_engine
from toolglot.engine.transport import HttpRequest, HttpResponse
from toolglot.loop.agent.agent import Agent
from toolglot.tools.config import ToolConfig
from toolglot.tools.tool import Tool, tool
from toolglot.values.messages import Conversation

CALLS = 8
MAX_WAITING_OBJECTS = 250
"""For a conversation that waits inside eight tools. Measured: 233 with an agent of its own, 215 with a shared
one. Each call has eleven: its task, contexts, coroutines and arguments. One object more for each call, such
as a closure, would be 8 more."""
TEXT = {
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "All done."}, "finish_reason": "stop"}
    ]
}


def _answer(body: bytes) -> bytes:
    if b'"tool_call_id"' in body:
        reply = TEXT
    else:
        function = {"name": "weather", "arguments": '{"city": "Turin"}'}
        calls = [
            {"id": f"call_{number}", "type": "function", "function": function} for number in range(CALLS)
        ]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
        reply = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    return json.dumps({"id": "chatcmpl-1", "model": "gpt-4o", **reply}).encode()


class _Response:
    status = 200

    def __init__(self, body: bytes, *, stream: bool) -> None:
        event = b"data: " + body.replace(b'"message"', b'"delta"') + b"\n\ndata: [DONE]\n\n"
        self._parts = [event if stream else body]
        self.headers = {"content-type": "text/event-stream" if stream else "application/json"}

    async def read(self) -> bytes:
        await asyncio.sleep(0)
        return self._parts.pop() if self._parts else b""

    async def close(self) -> None:
        return None


class _Transport:
    async def send(self, request: HttpRequest) -> HttpResponse:
        return _Response(_answer(request.body), stream=request.stream)


def make_engine() -> Engine:
    return create_engine(
        "openai-chat:gpt-4o", base_url="http://127.0.0.1:1/v1", key="k", transport=_Transport()
    )


def make_tool(waiting: Callable[[], Awaitable[object]] | None = None) -> Tool:
    @tool
    async def weather(city: str) -> str:
        """Tell the weather."""
        if waiting is not None:
            await waiting()
        return f"Sunny in {city}."

    return weather


Talk = Callable[[], Awaitable[str]]


def own_agent(engine: Engine, weather: Tool, config: ToolConfig) -> Talk:
    async def talk() -> str:
        return (await Agent(engine, tools=[weather], config=config).run("How is the weather?")).text

    return talk


def own_agent_streaming(engine: Engine, weather: Tool, config: ToolConfig) -> Talk:
    async def talk() -> str:
        agent = Agent(engine, tools=[weather], config=config)
        async with aclosing(agent.stream("How is the weather?")) as events:
            kinds = [type(event).__name__ async for event in events]
        assert kinds[-1] == "RunDone"
        return "All done."

    return talk


def shared_agent(engine: Engine, weather: Tool, config: ToolConfig) -> Talk:
    agent = Agent(engine, tools=[weather], config=config)

    async def talk() -> str:
        return (await agent.run("How is the weather?", conversation=Conversation())).text

    return talk


@contextmanager
def collector_off() -> Generator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("make_talk", [own_agent, own_agent_streaming, shared_agent])
@pytest.mark.parametrize("max_parallel", [CALLS, 3], ids=["all at once", "some wait for their turn"])
async def test_a_conversation_that_is_over_leaves_nothing_to_the_collector(
    make_talk: Callable[[Engine, Tool, ToolConfig], Talk], max_parallel: int
) -> None:
    talk = make_talk(make_engine(), make_tool(), ToolConfig(max_parallel=max_parallel))
    for _ in range(3):  # caches of the process are filled
        assert await talk() == "All done."
    garbage: list[int] = []
    with collector_off():
        # what another test has left in a thread may become garbage meanwhile; a cycle is there each time
        for _ in range(3):
            for _ in range(10):
                await talk()
            await asyncio.sleep(0)
            garbage.append(gc.collect())
    assert min(garbage) == 0, garbage


@pytest.mark.parametrize("make_talk", [own_agent, shared_agent])
async def test_a_conversation_that_waits_is_small(
    make_talk: Callable[[Engine, Tool, ToolConfig], Talk],
) -> None:
    gate: asyncio.Future[None] | None = None
    started = 0

    async def wait() -> None:
        nonlocal started
        started += 1
        if gate is not None:
            await gate

    talk = make_talk(make_engine(), make_tool(wait), ToolConfig())
    for _ in range(3):
        await talk()
    count, started = 50, 0
    gate = asyncio.get_running_loop().create_future()
    gc.collect()
    before = len(gc.get_objects())
    running = [asyncio.ensure_future(talk()) for _ in range(count)]
    while started < count * CALLS:
        await asyncio.sleep(0)
    for _ in range(5):  # clocks of the calls are started once all have begun
        await asyncio.sleep(0)
    gc.collect()
    objects = (len(gc.get_objects()) - before) / count
    gate.set_result(None)
    assert await asyncio.gather(*running) == ["All done."] * count
    assert objects <= MAX_WAITING_OBJECTS
