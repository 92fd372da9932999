"""A transport that answers from a script, in memory, and remembers what it was asked and what was closed."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest

from toolglot.common.jsontext import dumps, loads_object
from toolglot.engine.engine import Engine
from toolglot.engine.factory import create_engine
from toolglot.engine.transport import HttpRequest, HttpResponse, Transport
from toolglot.errors import ToolglotError
from toolglot.tools.config import RetryConfig
from toolglot.values.messages import user
from toolglot.values.request import Request, ToolDefinition

Doc = dict[str, Any]
KEY = "planted-key-8b1f0c"
QUICK = RetryConfig(base=0.0, max_delay=0.0)
JSON = {"content-type": "application/json"}
SSE = {"content-type": "text/event-stream"}
WEATHER = ToolDefinition(
    "get_weather",
    "The weather of a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


class HangForever(msgspec.Struct, frozen=True):
    """Nothing comes until the one who waits is cancelled."""


class HoldUntilReleased:
    """Nothing comes until the test lets it go on."""

    def __init__(self) -> None:
        self.reached, self.release = asyncio.Event(), asyncio.Event()


Part = bytes | Exception | HangForever | HoldUntilReleased


class ScriptedReply(NamedTuple):
    """One answer: its head, then its parts.

    Where the first part is a Hang or a Hold and `late`, the head waits for it.
    """

    parts: tuple[Part, ...] = ()
    status: int = 200
    headers: Mapping[str, str] = JSON
    delays_head: bool = False


Entry = ScriptedReply | ToolglotError | Callable[[HttpRequest], ScriptedReply]


class ScriptedResponse:
    """What a script says, piece by piece."""

    def __init__(self, reply: ScriptedReply, transport: "ScriptedTransport") -> None:
        self.status, self.headers = reply.status, reply.headers
        self.closed = self.reads = 0
        self._parts, self._transport = iter(reply.parts), transport

    async def read(self) -> bytes:
        self.reads += 1
        for part in self._parts:
            if isinstance(part, bytes):
                return part
            await self._transport.wait(part)
        return b""

    async def close(self) -> None:
        self.closed += 1


class ScriptedTransport:
    """Gives the answers of a script, one for each request, in order."""

    def __init__(self, *script: Entry) -> None:
        self._script = list(script)
        self.requests: list[HttpRequest] = []
        self.answers: list[ScriptedResponse] = []
        self.waiting = asyncio.Event()
        self.closed = 0

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.requests.append(request)
        assert self._script, f"request {len(self.requests)} is not in the script: {request.url}"
        entry = self._script.pop(0)
        if isinstance(entry, ToolglotError):
            raise entry
        say = entry(request) if callable(entry) else entry
        if say.delays_head:
            await self.wait(say.parts[0])
            say = say._replace(parts=say.parts[1:])
        answer = ScriptedResponse(say, self)
        self.answers.append(answer)
        return answer

    async def wait(self, part: Part) -> None:
        if isinstance(part, Exception):
            raise part
        if isinstance(part, HoldUntilReleased):
            part.reached.set()
            await part.release.wait()
        if isinstance(part, HangForever):
            self.waiting.set()
            await asyncio.Event().wait()

    async def close(self) -> None:
        self.closed += 1

    # ---- what a test looks at

    @property
    def bodies(self) -> list[Doc]:
        """The bodies of all requests so far."""
        return [loads_object(request.body) for request in self.requests]

    @property
    def remaining(self) -> int:
        """Answers that nobody asked for."""
        return len(self._script)

    @property
    def all_closed(self) -> bool:
        """Whether every answer was given back."""
        return all(answer.closed for answer in self.answers)


# ---- answers in the words of Chat Completions, the plainest wire


def chunk(delta: Doc, reason: str | None = None) -> bytes:
    doc = {"id": "c1", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
    return b"data: " + dumps(doc) + b"\n\n"


STARTED = chunk({"role": "assistant", "content": ""})
HELLO = chunk({"content": "Hello"})
WORLD = chunk({"content": " world"})
STOP = chunk({}, "stop")
DONE = b"data: [DONE]\n\n"


def stream_reply(*parts: Part, **options: Any) -> ScriptedReply:
    return ScriptedReply(parts, headers={**SSE, **options})


def whole_reply(text: str = "Hello world") -> ScriptedReply:
    message = {"role": "assistant", "content": text}
    return ScriptedReply(
        (
            dumps(
                {
                    "id": "c1",
                    "model": "m",
                    "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                }
            ),
        )
    )


def call_reply(name: str, arguments: str, id: str = "call_1") -> ScriptedReply:
    call = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return ScriptedReply(
        (
            dumps(
                {
                    "id": "c1",
                    "model": "m",
                    "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
                }
            ),
        )
    )


def error_reply(
    status: int,
    message: str = "no",
    *,
    code: str = "",
    headers: Mapping[str, str] | None = None,
    **options: Any,
) -> ScriptedReply:
    error = {"message": message, "type": code or "error", "code": code or None, **options}
    return ScriptedReply((dumps({"error": error}),), status, {**JSON, **(headers or {})})


HELLO_WORLD = stream_reply(STARTED, HELLO, WORLD, STOP, DONE)


def chat_engine(transport: Transport, model: str = "openai-chat:gpt-4o", **options: Any) -> Engine:
    """An engine that asks the script."""
    options = {"key": KEY, "retry": QUICK, **options}
    return create_engine(model, transport=transport, **options)


def text_request(text: str = "Hi", **fields: Any) -> Request:
    return Request("", fields.pop("messages", [user(text)]), **fields)


def stream_request(text: str = "Hi", **fields: Any) -> Request:
    return text_request(text, stream=True, **fields)


async def collect_events(engine: Engine, request: Request) -> Sequence[Any]:
    """All events of a stream."""
    return [event async for event in engine.stream(request)]


async def cancel(task: "asyncio.Future[Any]") -> None:
    """Cancel a task and wait until it has ended."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
