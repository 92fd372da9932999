"""Runs many sessions, in sequence and side by side, and counts memory, descriptors, threads and tasks.

    python tests/handover/soak.py [TURNS] [--http]

A turn is one request to the model. A session is one conversation of ten prompts, each with parallel calls;
there are sessions on every wire, streamed and whole, with faults on the way, with runs that are cancelled,
and with a change of the model."""

import argparse
import asyncio
import gc
import os
import sys
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from toolglot.engine.factory import create_engine
from toolglot.engine.http import HttpTransport
from toolglot.engine.simulated import SimulatedTransport
from toolglot.engine.transport import HttpRequest, HttpResponse, Transport
from toolglot.loop.agent.agent import Agent
from toolglot.providers.profile import HistoryRules
from toolglot.simulator.server import serve
from toolglot.tools.config import RetryConfig, ToolConfig
from toolglot.tools.tool import tool
from toolglot.values.events import RunDone
from toolglot.values.messages import Conversation
from toolglot.wire.repair import repair_history

MODELS = {
    "openai-chat": "gpt-4o",
    "openai-responses": "gpt-5.1",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-3-pro-preview",
    "ollama": "qwen3",
}
PROFILES = tuple(MODELS)
PROMPTS = 10
QUICK = RetryConfig(max_retries=2, base=0.001, max_delay=0.002)


class Sample(msgspec.Struct, frozen=True):
    """What the process held after so many turns."""

    turns: int
    seconds: float
    kilobytes: int
    objects: int
    descriptors: int
    threads: int
    tasks: int


@tool
async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@tool
def shout(text: str) -> str:
    """Says it louder, in a thread."""
    return text.upper()


@tool
async def hang() -> str:
    """Never comes back."""
    await asyncio.Event().wait()
    return "never"


TOOLS = [add, shout, hang]


class CountingTransport:
    def __init__(self, inner: Transport) -> None:
        self.inner, self.count = inner, 0

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.count += 1
        return await self.inner.send(request)


class Soak:
    """The sessions, and what they share: one engine and one orchestrator per wire."""

    def __init__(self, transport: Transport, url: str) -> None:
        self.transport = CountingTransport(transport)
        options: dict[str, Any] = {"key": "k", "transport": self.transport, "retry": QUICK}
        self.engines = {
            profile: create_engine(f"{profile}:{model}", base_url=f"{url}/@{profile}", **options)
            for profile, model in MODELS.items()
        }
        config = ToolConfig(retry=QUICK)
        self.agents = {
            name: Agent(engine, tools=TOOLS, config=config) for name, engine in self.engines.items()
        }
        self.failures: list[str] = []

    async def run_session(self, number: int, prompts: int = PROMPTS) -> None:
        """Run one conversation."""
        profile, live = PROFILES[number % 5], number % 2 == 0
        conversation = Conversation()
        agent = self.agents[profile]
        if number % 3:  # an orchestrator of its own, which changes the model half way
            agent = Agent(self.engines[profile], tools=TOOLS, conversation=conversation)
        for turn in range(prompts):
            if number % 3 and turn == prompts // 2:
                agent.switch(self.engines[PROFILES[(number + 2) % 5]])
            prompt = (
                f'call add {{"a": {number}, "b": {turn}}} call shout {{"text": "turn {turn}"}}\nthen '
                f"say Done {turn}."
            )
            if turn == 3 and number % 4 == 0:
                prompt += "\nfault overloaded"
            if turn == 5 and number % 4 == 1:  # cancel a run while a tool hangs
                before = len(conversation)
                run = asyncio.create_task(self.ask(agent, "call hang {}", conversation, live))
                while len(conversation) < before + 2:  # the prompt and the call
                    await asyncio.sleep(0)
                run.cancel()
                await asyncio.gather(run, return_exceptions=True)
            text = await self.ask(agent, prompt, conversation, live)
            results = [result.text for result in conversation[-2].results]
            if text != f"Done {turn}." or results != [str(number + turn), f"TURN {turn}"]:
                self.failures.append(f"session {number}, turn {turn}: {text!r}, {results}")
        self.failures += [str(repair) for repair in repair_history(conversation, HistoryRules()).repairs]

    async def ask(self, agent: Agent, prompt: str, conversation: Conversation, live: bool) -> str:
        if not live:
            return (await agent.run(prompt, conversation=conversation)).text
        events = [event async for event in agent.stream(prompt, conversation=conversation)]
        return events[-1].result.text if isinstance(events[-1], RunDone) else ""

    async def run(self, turns: int, samples: int = 10, at_once: int = 20) -> AsyncIterator[Sample]:
        """Run sessions until there were so many turns; yield a sample after each part."""
        started, number = time.monotonic(), 0
        for part in range(1, samples + 1):
            while self.transport.count < turns * part // samples:
                await asyncio.gather(*(self.run_session(number + offset) for offset in range(at_once)))
                number += at_once
            gc.collect()
            has_proc = Path("/proc/self/statm").exists()
            pages = int(Path("/proc/self/statm").read_text().split()[1]) if has_proc else 0
            yield Sample(
                self.transport.count,
                round(time.monotonic() - started, 2),
                pages * os.sysconf("SC_PAGE_SIZE") // 1024,
                len(gc.get_objects()),
                len(os.listdir("/proc/self/fd")) if has_proc else 0,
                threading.active_count(),
                len(asyncio.all_tasks()),
            )


@asynccontextmanager
async def start_soak(http: bool) -> AsyncGenerator[Soak]:
    """Set up a soak in this process, or over loopback."""
    if not http:
        yield Soak(SimulatedTransport(), "http://simulator")
        return
    transport = HttpTransport()
    async with serve() as url:
        yield Soak(transport, url)
        await transport.close()


async def _main(turns: int, http: bool) -> int:
    async with start_soak(http) as soak:
        print(*Sample.__struct_fields__, sep="\t")
        async for sample in soak.run(turns, 20):
            print(*msgspec.structs.astuple(sample), sep="\t", flush=True)
    print(*soak.failures[:10], sep="\n")
    return 1 if soak.failures else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("turns", nargs="?", type=int, default=10_000)
    parser.add_argument("--http", action="store_true")
    options = parser.parse_args()
    sys.exit(asyncio.run(_main(options.turns, options.http)))
