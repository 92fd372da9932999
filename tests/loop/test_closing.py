"""Programs that use an agent over HTTP end silently, and an agent that is closed leaves no connection open."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from textwrap import dedent

import pytest

from toolglot.engine.factory import default_transport
from toolglot.events import RunDone
from toolglot.loop.orchestrator import Orchestrator
from toolglot.simulator.server import serve

MODEL = "anthropic:claude-sonnet-4-5"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A simulator on loopback."""
    started, stopped, found = threading.Event(), threading.Event(), list[str]()

    async def main() -> None:
        async with serve() as url:
            found.append(url)
            started.set()
            await asyncio.to_thread(stopped.wait)

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    assert started.wait(20)
    yield found[0]
    stopped.set()
    thread.join()


def create_agent(address: str) -> Orchestrator:
    return Orchestrator(MODEL, base_url=address, key="any")


HEAD = f"""\
import asyncio, sys, threading
from toolglot import Orchestrator, tool

@tool
async def wait() -> str:
    "Wait."
    waiting.set()
    await asyncio.Event().wait()

waiting = threading.Event()
agent = Orchestrator({MODEL!r}, tools=[wait], base_url=sys.argv[1], key="any")
"""
PROGRAMS = {
    "run_sync": "print(agent.run_sync('say hello').text)",
    "closed": "with agent: print(agent.run_sync('say hello').text)",
    "closed twice": "print(agent.run_sync('say hello').text); agent.close(); agent.close()",
    "never used": "agent.close(); print('hello')",
    "asyncio.run": """
        async def main():
            asyncio.get_running_loop().slow_callback_duration = 60  # a busy machine is not the point
            async with agent: print((await agent.run('say hello')).text)
        asyncio.run(main())
    """,
    "a loop of one's own": """
        async def main():
            asyncio.get_running_loop().slow_callback_duration = 60  # a busy machine is not the point
            async with agent: print((await agent.run('say hello')).text)
        loop = asyncio.new_event_loop()
        loop.run_until_complete(main())
        loop.close()
    """,
    "ended during a run": """
        threading.Thread(target=agent.run_sync, args=('call wait {}',), daemon=True).start()
        waiting.wait()
        threading.excepthook = lambda args: None
        print('hello')
    """,
}


@pytest.mark.parametrize("options", [["-W", "error"], ["-X", "dev"]], ids=["warnings are errors", "development mode"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_ends_silently(program: str, options: list[str], address: str) -> None:
    code = HEAD + dedent(PROGRAMS[program])
    environment = {**os.environ, "PYTHONASYNCIODEBUG": "", "NO_PROXY": "*"}
    command = [sys.executable, *options, "-c", code, address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert (done.stdout, done.stderr, done.returncode) == ("hello\n", "", 0)


async def test_a_closed_agent_can_be_used_again(address: str) -> None:
    async with create_agent(address) as agent:
        assert (await agent.run("say one")).text == "one"
        await agent.aclose()
        assert (await agent.run("say two")).text == "two"


async def test_closing_an_agent_leaves_the_requests_of_others_alone(address: str) -> None:
    first, second = create_agent(address), create_agent(address)
    assert first.engine.transport is second.engine.transport is default_transport()
    async with second:
        stream = first.stream("say one two three")
        await anext(stream)
        await second.run("say other")
        await second.aclose()
        *_, last = [event async for event in stream]
        assert isinstance(last, RunDone)
        assert last.result.text == "one two three"
