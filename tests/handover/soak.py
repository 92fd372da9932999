"""Many sessions, one after another and side by side, while memory, descriptors, threads and tasks are counted.

    python tests/handover/soak.py [TURNS] [--http]

A turn is one request to the model. A session is one conversation of ten prompts, each with parallel calls; there are sessions
on every wire, streamed and whole, with faults on the way, with runs that are cancelled, and with a change of the model.
"""

import argparse
import asyncio
import gc
import os
import sys
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from toolglot.engine.engine import Engine
from toolglot.engine.factory import create_engine
from toolglot.engine.http import HttpTransport
from toolglot.engine.simulated import SimulatedTransport
from toolglot.engine.transport import HttpRequest, HttpResponse, Transport
from toolglot.events import RunDone
from toolglot.loop.orchestrator import Orchestrator
from toolglot.messages import Conversation
from toolglot.simulator.server import SimulatorServer
from toolglot.tools.config import RetryConfig, ToolConfig
from toolglot.tools.tool import tool

MODELS = {
    "openai-chat": "gpt-4o",
    "openai-responses": "gpt-5.1",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-3-pro-preview",
    "ollama": "qwen3",
}
PROFILES = tuple(MODELS)
PROMPTS = 10
AT_ONCE = 20
QUICK = RetryConfig(max_retries=2, base=0.001, max_delay=0.002)


class Sample(msgspec.Struct, frozen=True):
    """What was held after so many turns."""

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


class Counted:
    """A transport that counts."""

    def __init__(self, inner: Transport) -> None:
        self.inner, self.count = inner, 0

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.count += 1
        return await self.inner.send(request)


class Soak:
    """The sessions, and what they share: one engine and one orchestrator for each wire."""

    def __init__(self, transport: Counted, engine: Callable[[str, Transport], Engine]) -> None:
        self.transport = transport
        self.engines = {profile: engine(profile, transport) for profile in PROFILES}
        config = ToolConfig(retry=QUICK)
        self.agents = {name: Orchestrator(one, tools=TOOLS, config=config) for name, one in self.engines.items()}
        self.wrong: list[str] = []

    async def session(self, number: int) -> None:
        """One conversation."""
        profile, live = PROFILES[number % 5], number % 2 == 0
        conversation = Conversation()
        own = Orchestrator(self.engines[profile], tools=TOOLS, conversation=conversation) if number % 3 else None
        for turn in range(PROMPTS):
            if own is not None and turn == PROMPTS // 2:
                own.switch(self.engines[PROFILES[(number + 2) % 5]])
            prompt = f'call add {{"a": {number}, "b": {turn}}} call shout {{"text": "turn {turn}"}}\nthen say Done {turn}.'
            if turn == 3 and number % 4 == 0:
                prompt += "\nfault overloaded"
            if turn == 5 and number % 4 == 1:
                await self.cancelled(own or self.agents[profile], conversation, live)
            text = await self.said(own or self.agents[profile], prompt, conversation, live)
            if text != f"Done {turn}.":
                self.wrong.append(f"session {number}, turn {turn}: {text!r}")

    async def said(self, agent: Orchestrator, prompt: str, conversation: Conversation, live: bool) -> str:
        if not live:
            return (await agent.run(prompt, conversation=conversation)).text
        async for event in agent.stream(prompt, conversation=conversation):
            if isinstance(event, RunDone):
                return event.result.text
        return ""

    async def cancelled(self, agent: Orchestrator, conversation: Conversation, live: bool) -> None:
        """A run that is given up while a tool hangs."""
        before = len(conversation)
        run = asyncio.create_task(self.said(agent, "call hang {}", conversation, live))
        while len(conversation) < before + 2:  # the prompt and the call
            await asyncio.sleep(0)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)

    def sample(self, started: float) -> Sample:
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1]) if Path("/proc/self/statm").exists() else 0
        descriptors = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
        return Sample(
            self.transport.count,
            round(time.monotonic() - started, 2),
            pages * os.sysconf("SC_PAGE_SIZE") // 1024,
            len(gc.get_objects()),
            descriptors,
            threading.active_count(),
            len(asyncio.all_tasks()),
        )

    async def run(self, turns: int, samples: int = 10) -> AsyncIterator[Sample]:
        """Sessions until there were so many turns; a sample after each tenth."""
        started, number = time.monotonic(), 0
        for part in range(1, samples + 1):
            while self.transport.count < turns * part // samples:
                await asyncio.gather(*(self.session(number + one) for one in range(AT_ONCE)))
                number += AT_ONCE
            yield self.sample(started)


@asynccontextmanager
async def soaked(http: bool) -> AsyncGenerator[Soak]:
    """A soak in this process, or over loopback."""
    if not http:
        yield Soak(Counted(SimulatedTransport()), lambda profile, transport: _engine(profile, "http://simulator", transport))
        return
    inner = HttpTransport()
    async with SimulatorServer() as url:
        yield Soak(Counted(inner), lambda profile, transport: _engine(profile, url, transport))
        await inner.close()


def _engine(profile: str, url: str, transport: Transport) -> Engine:
    return create_engine(
        f"{profile}:{MODELS[profile]}", base_url=f"{url}/@{profile}", key="k", transport=transport, retry=QUICK
    )


async def _main(turns: int, http: bool) -> int:
    async with soaked(http) as soak:
        print(*Sample.__struct_fields__, sep="\t")
        async for sample in soak.run(turns, 20):
            print(*msgspec.structs.astuple(sample), sep="\t", flush=True)
    print(*soak.wrong[:10], sep="\n")
    return 1 if soak.wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("turns", nargs="?", type=int, default=10_000)
    parser.add_argument("--http", action="store_true")
    given = parser.parse_args()
    sys.exit(asyncio.run(_main(given.turns, given.http)))
