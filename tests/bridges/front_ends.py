"""Runs of every kind for the encoders of front ends, and a server that real clients talk to."""

import asyncio
import json
import runpy
import subprocess
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.bridges.kit import PNG, add, remove
from tests.loop.agents import Wiretap, make_agent
from tests.npm.packages import node, npm_package

from toolglot import (
    Agent,
    ApprovalRequest,
    ContextPolicy,
    Conversation,
    Media,
    Overloaded,
    Reply,
    RetryConfig,
    Text,
    Thinking,
    ToolCall,
    ToolConfig,
    ToolError,
    create_engine,
    tool,
    user,
)
from toolglot.bridges.event_streams import FrontEndRequest
from toolglot.tools.context import Context
from toolglot.values.events import RunEvent

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
Encode = Callable[..., AsyncGenerator[bytes]]


@tool
def draw() -> list[Text | Media]:
    """Draw something."""
    return [Text("a picture"), Media.from_bytes(PNG)]


@tool
async def work(ctx: Context) -> str:
    """Work, and tell of it."""
    ctx.report("half of it")
    return "done"


@tool
def fail() -> str:
    """Fail."""
    raise ToolError("It cannot be done.")


def refuse(_: ApprovalRequest) -> bool:
    return False


@tool(effects="read")
async def peek() -> str:
    """Look at something."""
    return "empty"


class Point(BaseModel):
    x: int
    day: date = date(2026, 1, 2)


TOOLS = [add, remove, draw, work, fail, peek]
EAGER = Reply(
    (ToolCall("c1", "peek", {}), Text("This text comes after the call. " * 5), ToolCall("c2", "peek", {})),
    "tools",
)
INTERLEAVED = (
    *(Thinking("Hm."), Text("First."), ToolCall("c1", "add", {"a": 1, "b": 2})),
    *(Thinking("So."), Text("Second."), ToolCall("c2", "add", {"a": 3, "b": 4})),
)
PARALLEL = (
    Thinking("Hm."),
    Text("Both."),
    ToolCall("c1", "add", {"a": 1, "b": 2}),
    ToolCall("c2", "draw", {}),
)


def make_runs() -> dict[str, AsyncGenerator[RunEvent]]:
    """Runs by what happens in them."""
    failing = create_engine(
        "simulator:anthropic",
        transport=Wiretap(errors=[Overloaded("busy")] * 9),
        retry=RetryConfig(max_retries=0),
    )
    long = Conversation([user("word " * 200), *[user(f"{number} " * 50) for number in range(5)]])
    code = ToolCall("c1", "run_code", {"code": "print(add(a=1, b=2))\nprint(remove(path='a'))"})
    media = Reply((Text("Look:"), Media.from_bytes(PNG), Text("And more.")))
    return {
        "parallel": make_agent(
            "anthropic", Wiretap(Reply(PARALLEL, "tools"), Reply((Text("Done."),))), tools=TOOLS
        ).stream("Go."),
        "interleaved": make_agent(
            "anthropic", Wiretap(Reply(INTERLEAVED, "tools"), Reply((Text("Done."),))), tools=TOOLS
        ).stream("Go."),
        "calls in one piece": make_agent(
            "gemini", Wiretap(Reply(PARALLEL[2:], "tools"), Reply((Text("Done."),))), tools=TOOLS
        ).stream("Go."),
        "eager": make_agent(
            "anthropic",
            Wiretap(EAGER, Reply((Text("Done."),))),
            tools=TOOLS,
            config=ToolConfig(eager_start=True),
        ).stream("Go."),
        **(
            {
                "code": make_agent(
                    "anthropic", Wiretap(Reply((code,), "tools")), tools=TOOLS, code_mode="python"
                ).stream("Go.")
            }
            if find_spec("pydantic_monty")
            else {}
        ),
        "failure and progress": make_agent("gemini", tools=TOOLS).stream("call fail {} call work {}"),
        "invalid": make_agent("openai-chat", tools=TOOLS).stream('call add {"a": "x"}'),
        "approval": make_agent("openai-responses", tools=TOOLS).stream('call remove {"path": "a"}'),
        "refusal": make_agent("anthropic", tools=TOOLS, approve=refuse).stream('call remove {"path": "a"}'),
        "retry": make_agent("ollama", Wiretap(faults=["overloaded"])).stream("say hi"),
        "switch": Agent(failing, fallbacks=["simulator:openai-chat"]).stream("say hi"),
        "truncation": make_agent(
            "openai-chat", context=ContextPolicy(budget=200, when_full="trim"), conversation=long
        ).stream("hi"),
        "length": make_agent("anthropic").stream("say a long story\nstop length"),
        "media": make_agent("gemini", Wiretap(media)).stream("Draw."),
        "output": make_agent("openai-chat", output_type=dict[str, int]).stream('say {"a": 1}'),
        "output of a class": make_agent("openai-chat", output_type=Point).stream('say {"x": 1}'),
        "error": make_agent("anthropic", Wiretap(faults=["unauthorized"])).stream("hi"),
        "broken stream": make_agent("anthropic", Wiretap(faults=["reset-mid-stream"])).stream(
            "say one two three four five"
        ),
    }


def encode_all(encode: Encode) -> dict[str, str]:
    """Every run as it is sent."""

    async def read(events: AsyncGenerator[RunEvent]) -> str:
        request = FrontEndRequest(chat_id="chat", run_id="run")
        return b"".join([frame async for frame in encode(events, request, stateless=True)]).decode()

    async def read_all() -> dict[str, str]:
        return {name: await read(events) for name, events in make_runs().items()}

    return asyncio.run(read_all())


def parse(body: str) -> list[dict[str, Any]]:
    """The events of a stream."""
    lines = [frame.removeprefix("data: ") for frame in body.split("\n\n") if frame]
    return [json.loads(line) for line in lines if line != "[DONE]"]


async def leave(encode: Encode, agent: Agent) -> None:
    """Read the first events of a run, and go."""
    request = FrontEndRequest(chat_id="chat", run_id="run")
    frames = encode(agent.stream("say one two three four five six seven eight"), request)
    for _ in range(3):
        await anext(frames)
    await frames.aclose()


@contextmanager
def serve_example(name: str) -> Generator[str]:
    """An example's server on loopback."""
    uvicorn = pytest.importorskip("uvicorn", reason="pip install uvicorn")
    pytest.importorskip("fastapi", reason="pip install fastapi")
    app = runpy.run_path(str(EXAMPLES / name))["app"]
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", ws="none", lifespan="off"))
    started = threading.Event()
    startup = server.startup

    async def start(*arguments: Any, **options: Any) -> None:
        await startup(*arguments, **options)
        started.set()

    server.startup = start
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert started.wait(20)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def run_client(script: str, package: str, url: str, *prompts: str) -> dict[str, Any]:
    """What a front end of Node has seen after these prompts."""
    path = Path(__file__).with_name(script)
    done = subprocess.run(
        [node(), path, npm_package(package), url, *prompts], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
