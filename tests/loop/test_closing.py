"""What is closed with an agent, and what stays open. How programs end is in `tests/usage`."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.agent_kit import setup_of

from toolglot.config.settings import ProviderSettings, Settings
from toolglot.config.setup import Setup
from toolglot.engine.factory import create_engine, default_transport
from toolglot.engine.http import HttpTransport
from toolglot.loop.agent.agent import Agent
from toolglot.simulator.server import serve
from toolglot.values.events import RunDone

MODEL = "anthropic:claude-sonnet-4-5"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A simulator on loopback."""
    started, stopped, urls = threading.Event(), threading.Event(), list[str]()

    async def main() -> None:
        async with serve() as url:
            urls.append(url)
            started.set()
            await asyncio.to_thread(stopped.wait)

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    assert started.wait(20)
    yield urls[0]
    stopped.set()
    thread.join()


def create_agent(address: str) -> Agent:
    return Agent(MODEL, base_url=address, key="any")


async def test_a_closed_agent_can_be_used_again(address: str) -> None:
    async with create_agent(address) as agent:
        assert (await agent.run("say one")).text == "one"
        await agent.aclose()
        assert (await agent.run("say two")).text == "two"


async def test_closing_an_agent_leaves_the_requests_of_others_alone(address: str) -> None:
    first, second = create_agent(address), create_agent(address)
    assert first.view().engine.transport is second.view().engine.transport is default_transport()
    async with second:
        stream = first.stream("say one two three")
        await anext(stream)
        await second.run("say other")
        await second.aclose()
        *_, last = [event async for event in stream]
        assert isinstance(last, RunDone)
        assert last.result.text == "one two three"


def is_open(transport: object) -> bool:
    """Whether the transport has connections in this event loop."""
    assert isinstance(transport, HttpTransport)
    return asyncio.get_running_loop() in transport._clients  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("leave", ["switch", "switch with options", "use_fallback", "configured"])
async def test_closing_an_agent_closes_the_connections_to_every_model_it_used(
    address: str, leave: str
) -> None:
    if leave == "configured":
        settings = Settings(providers={"anthropic": ProviderSettings(base_url=address)})
        agent: Agent = Setup(settings).create_agent(MODEL, key="any", audit=None)
    else:
        agent = Agent(MODEL, base_url=address, key="any", fallbacks=["simulator"])
    transport = agent.view().engine.transport
    assert (await agent.run("say one")).text == "one"
    assert is_open(transport)
    match leave:
        case "switch with options":
            agent.switch("simulator:gemini", heal=False)
        case "use_fallback":
            setup_of(agent).use_fallback(0)
        case _:
            agent.switch("simulator:gemini")
    assert (await agent.run("say two")).text == "two"
    assert agent.view().engine.transport is not transport
    await agent.aclose()
    assert not is_open(transport)


async def test_closing_an_agent_leaves_open_what_was_passed_to_it(address: str) -> None:
    async with create_agent(address):  # whatever is left of other tests
        pass
    transport = HttpTransport()
    for agent in (
        Agent(MODEL, base_url=address, key="any", transport=transport),
        Agent(create_engine(MODEL, base_url=address, key="any", transport=transport)),
        Setup(Settings(), transport=transport).create_agent(MODEL, base_url=address, key="any", audit=None),
        Agent(create_engine(MODEL, base_url=address, key="any")),
    ):
        async with agent:
            assert (await agent.run("say one")).text == "one"
        assert is_open(agent.view().engine.transport)
    await transport.close()
    assert not is_open(transport)
    await agent.view().engine.close()
    assert not is_open(agent.view().engine.transport)


def test_an_engine_is_shared_by_tasks_agents_and_event_loops(address: str) -> None:
    engine = create_engine(MODEL, base_url=address, key="any")

    async def talk(number: int) -> list[str]:
        runs = [Agent(engine).run(f"say {number} {task}") for task in range(3)]
        return [result.text for result in await asyncio.gather(*runs)]

    def talk_in_own_loop(number: int) -> list[str]:
        return asyncio.run(talk(number))

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(talk_in_own_loop, range(4)))
    assert answers == [[f"{number} {task}" for task in range(3)] for number in range(4)]
