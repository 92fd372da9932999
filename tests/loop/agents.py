"""Agents on the simulator for tests: every request is kept and judged, every conversation can be checked.

The checks know the rules of conversations, not the code under test.
"""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import pytest
from tests.properties.legality import find_refusals, illegal
from tests.simulator.client import KEYS

from toolglot.common.jsontext import loads_object
from toolglot.engine.engine import Engine
from toolglot.engine.factory import create_engine
from toolglot.engine.simulated import SimulatedTransport
from toolglot.engine.transport import HttpRequest, HttpResponse
from toolglot.loop.agent.agent import Agent
from toolglot.providers.profile import HistoryRules, Profile
from toolglot.simulator.core import Script, Simulator
from toolglot.tools.config import RetryConfig
from toolglot.tools.hooks import Hooks
from toolglot.tools.tool import Tool
from toolglot.values.events import RunDone, RunEvent, RunResult
from toolglot.values.messages import Message, ToolResult, user
from toolglot.values.request import Options, Request
from toolglot.wire.repair import repair_history

T = TypeVar("T")
Doc = dict[str, Any]
# provider -> the model that the simulator plays; one for each wire
MODELS = {
    "openai-chat": "gpt-4o",
    "openai-responses": "gpt-5.1",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-3-pro-preview",
    "ollama": "qwen3",
}
PROVIDERS = tuple(MODELS)
QUICK = RetryConfig(base=0.0)
_ENGINES = {provider: create_engine(f"simulator:{provider}") for provider in PROVIDERS}


def run(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` in which anything that the loop complains of, and any task that is left over, is a
    failure.
    """
    complaints: list[str] = []

    async def watch() -> T:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(
            lambda _, context: complaints.append(f"{context['message']}: {context.get('exception')!r}")
        )
        try:
            async with asyncio.timeout(20):
                return await work
        finally:
            for _ in range(20):
                await asyncio.sleep(0)
            mine = asyncio.current_task()
            complaints.extend(f"left over: {task!r}" for task in asyncio.all_tasks() if task is not mine)
            gc.collect(1)

    result = asyncio.run(watch())
    assert complaints == [], complaints
    return result


class Wiretap:
    """The simulator as a transport, with faults and scripts; it keeps what was sent and judges it."""

    def __init__(
        self, *turns: Any, faults: Sequence[str] = (), errors: Sequence[Exception | None] = ()
    ) -> None:
        self.simulator = Simulator(Script(turns) if turns else None, faults=faults)
        self._inner = SimulatedTransport(self.simulator)
        self._errors = list(errors)
        self.requests: list[HttpRequest] = []
        self.open = 0

    @property
    def bodies(self) -> list[Doc]:
        """What was sent, read back."""
        return [loads_object(request.body) for request in self.requests]

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Hands it on; an error of the list goes first."""
        self.requests.append(request)
        error = self._errors.pop(0) if self._errors else None
        if error is not None:
            raise error
        answer = await self._inner.send(request)
        self.open += 1
        return _Counted(answer, self)


class _Counted:
    def __init__(self, answer: HttpResponse, wiretap: Wiretap) -> None:
        self._answer, self._wiretap, self._closed = answer, wiretap, False
        self.status, self.headers = answer.status, answer.headers

    async def read(self) -> bytes:
        return await self._answer.read()

    async def close(self) -> None:
        self._wiretap.open -= not self._closed
        self._closed = True
        await self._answer.close()


def make_agent(provider: str, wiretap: Wiretap | None = None, **options: Any) -> Agent:
    """An agent on the simulator that tries again without waiting."""
    return Agent(f"simulator:{provider}", transport=wiretap or Wiretap(), retry=QUICK, **options)


def check_bodies(engine: Engine, wiretap: Wiretap) -> None:
    """Every body that was sent is legal for its provider."""
    for request in wiretap.requests:
        _legal(engine.profile, loads_object(request.body), beta="anthropic-beta" in request.headers)


def _legal(profile: Profile, body: Doc, *, beta: bool = False) -> None:
    if profile.id == "openrouter":  # it takes marks for the prompt cache beside OpenAI's own fields
        body = {key: value for key, value in body.items() if key != "cache_control"}
    wrong = [*illegal(profile, body), *find_refusals(profile, body, beta=beta)]
    assert wrong == [], wrong


# ---- conversations


def find_unpaired(messages: Sequence[Message]) -> list[str]:
    """What is wrong with a conversation: every call has exactly one result, in call order, in the very next
    message.
    """
    problems: list[str] = []
    waiting: list[tuple[str, str]] = []
    for number, message in enumerate(messages):
        answered = [(result.call_id, result.name) for result in message.results]
        if answered != waiting:
            problems.append(f"{number}: results {answered} for calls {waiting}")
        if (message.calls and message.role != "assistant") or (answered and message.role != "tool"):
            problems.append(f"{number}: calls or results of {message.role}")
        waiting = [(call.id, call.name) for call in message.calls]
    if waiting:
        problems.append(f"the end: {waiting} unanswered")
    return problems


def check(messages: Sequence[Message], *, everywhere: bool = True) -> None:
    """A conversation is whole, and every provider takes it with the next words of the user."""
    wrong = find_unpaired(messages)
    assert wrong == [], wrong
    mended = [
        repair
        for repair in repair_history(messages, HistoryRules()).repairs
        if "call" in str(repair) or "result" in str(repair)
    ]
    mended = [repair for repair in mended if "id" not in repair.subject]
    assert mended == [], mended
    if everywhere:
        for provider in PROVIDERS:
            check_accepted(provider, [*messages, user("Go on.")])


def check_accepted(provider: str, messages: Sequence[Message]) -> None:
    """A provider takes the conversation, by our judges and by the simulator."""
    engine = _ENGINES[provider]
    profile = engine.profile
    body = (
        engine.new_state()
        .encode(Request(profile.model, messages, options=Options(max_tokens=1000), stream=False))
        .body
    )
    _legal(profile, loads_object(body))
    sent = engine.build_http_request(profile, body, KEYS, stream=False)
    path = sent.url.removeprefix("http://simulator")
    answer = Simulator().handle("POST", path, sent.headers, body)
    assert answer.status == 200, answer.body


def results_of(messages: Sequence[Message]) -> list[ToolResult]:
    """All results, in order."""
    return [result for message in messages for result in message.results]


def kinds_of(messages: Sequence[Message]) -> list[str | None]:
    """The kinds of error of all results, in order."""
    return [result.error_kind for result in results_of(messages)]


def texts_of(messages: Sequence[Message]) -> str:
    """All that can be read in a conversation."""
    return "\n".join(
        [message.text for message in messages] + [result.text for result in results_of(messages)]
    )


# ---- tools


class StuckTool:
    """A tool that waits until `gate` is set; `inside` is set when it has begun, `ended` says how often it was
    left.
    """

    def __init__(self, name: str = "slow", **options: Any) -> None:
        self.inside, self.gate, self.ended = asyncio.Event(), asyncio.Event(), 0
        self.tool = Tool(self._wait, name=name, **options)

    async def _wait(self) -> str:
        """Waits."""
        self.inside.set()
        try:
            await self.gate.wait()
        finally:
            self.ended += 1
        return "ok"


def noting(ran: list[str], name: str, **options: Any) -> Tool:
    """A tool that notes in `ran` that it ran."""

    async def note() -> str:
        ran.append(name)
        return "ok"

    return Tool(note, name=name, description="Notes.", **options)


def hook(**methods: Callable[[Any], Any]) -> Hooks:
    """Hooks with these methods."""
    return type("Hook", (Hooks,), {name: staticmethod(method) for name, method in methods.items()})()


# ---- runs


async def cancel_and_wait(task: "asyncio.Task[Any]") -> None:
    """Cancels a task, and waits for it to be so."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def collect_events(events: AsyncIterator[RunEvent]) -> list[RunEvent]:
    """All events of a stream."""
    return [event async for event in events]


async def collect_into(events: AsyncIterator[RunEvent], shown: list[Any]) -> None:
    """Reads a stream to its end, and keeps what it showed on the way."""
    async for event in events:
        shown.append(event)  # what was shown before an error counts


async def outcome(agent: Agent, prompt: Any, *, streamed: bool, **options: Any) -> RunResult:
    """The result of a run, streamed or not."""
    if not streamed:
        return await agent.run(prompt, **options)
    last = (await collect_events(agent.stream(prompt, **options)))[-1]
    assert isinstance(last, RunDone)
    return last.result
