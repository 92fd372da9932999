"""What the hand-over tests share: a model for every profile, a transport that keeps what goes out, and the
judges of it.

Laws: a request is judged by the simulator always and by the referee where it is present; nothing is healed or
tried again behind a test's back, unless the test is about that.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec
from tests.properties.legality import find_refusals
from tests.simulator.client import MODELS as MODELS
from tests.simulator.client import WIRE_PROFILES as WIRE_PROFILES

from toolglot.common.jsontext import loads_object
from toolglot.engine.engine import Engine
from toolglot.engine.factory import create_engine
from toolglot.engine.simulated import SimulatedTransport
from toolglot.engine.transport import HttpRequest, HttpResponse, Transport
from toolglot.loop.agent.agent import Agent
from toolglot.providers.catalog import resolve_profile
from toolglot.providers.profile import HistoryRules, Profile
from toolglot.simulator.core import Script, Simulator
from toolglot.simulator.routes import find_route
from toolglot.tools.config import RetryConfig
from toolglot.values.events import RunDone, RunEvent, RunResult
from toolglot.values.messages import Message
from toolglot.wire.codec import decode_request
from toolglot.wire.repair import repair_history

Doc = dict[str, Any]
NO_RETRY = RetryConfig(max_retries=0)
QUICK = RetryConfig(max_retries=2, base=0.001, max_delay=0.002)


class SentRequest(msgspec.Struct, frozen=True):
    """One request that went out, and the status that came back (0: none came)."""

    profile: Profile
    request: HttpRequest
    status: int
    conversation: tuple[Message, ...] = ()
    """The conversation when it was sent."""
    answer: bytearray = msgspec.field(default_factory=bytearray)
    """What was read of the answer."""

    @property
    def body(self) -> Doc:
        return loads_object(self.request.body)

    @property
    def history(self) -> list[Message]:
        """What the model is told, read from the bytes."""
        return list(
            decode_request(
                self.profile.wire, self.body, profile=self.profile.id, model=self.profile.model
            ).messages
        )


class RecordingTransport:
    """A transport that keeps every request."""

    def __init__(self, inner: Transport | None = None) -> None:
        self.inner = inner or SimulatedTransport()
        self.sent: list[SentRequest] = []
        self.watched: Sequence[Message] = ()

    async def send(self, request: HttpRequest) -> HttpResponse:
        status, history, kept = 0, tuple(self.watched), bytearray()
        try:
            answer = await self.inner.send(request)
            status = answer.status
        finally:
            self.sent.append(SentRequest(find_profile(request), request, status, history, kept))
        return _RecordedResponse(answer, kept)

    async def close(self) -> None:
        close = getattr(self.inner, "close", None)
        if close is not None:
            await close()


class _RecordedResponse:
    """An answer that is kept while it is read."""

    def __init__(self, inner: HttpResponse, kept: bytearray) -> None:
        self.status, self.headers = inner.status, inner.headers
        self._inner, self._kept = inner, kept

    async def read(self) -> bytes:
        data = await self._inner.read()
        self._kept += data
        return data

    async def close(self) -> None:
        await self._inner.close()


def find_profile(request: HttpRequest) -> Profile:
    """The profile that a request is meant for."""
    parts = urlsplit(request.url)
    route = find_route(f"{parts.path}?{parts.query}")
    return resolve_profile(route.profile, route.model or loads_object(request.body)["model"])


def make_transport(script: Script | None = None, **options: Any) -> RecordingTransport:
    return RecordingTransport(SimulatedTransport(Simulator(script, **options)))


def make_engine(profile: str, transport: Transport, *, model: str = "", **options: Any) -> Engine:
    """An engine on the simulator that heals nothing and asks once."""
    name = model or MODELS.get(profile, "some-model")
    defaults: dict[str, Any] = {"retry": NO_RETRY, "heal": False, **options}
    return create_engine(f"simulator:{profile}/{name}", transport=transport, **defaults)


# ---- running


async def run_agent(agent: Agent, prompt: Any, *, live: bool) -> RunResult:
    """Return the result of one run, streamed or not."""
    return (await collect_events(agent, prompt))[1] if live else await agent.run(prompt)


async def collect_events(agent: Agent, prompt: Any) -> tuple[list[RunEvent], RunResult]:
    return await drain(agent.stream(prompt))


async def drain(stream: Any) -> tuple[list[RunEvent], RunResult]:
    events: list[RunEvent] = [event async for event in stream]
    assert isinstance(events[-1], RunDone)
    return events, events[-1].result


# ---- checking


def referee_errors(sent: SentRequest) -> list[str]:
    """Return what the referee expects a 4xx for, except for fields that the vendor is known to accept."""
    return [f"{sent.profile.id}: {error}" for error in find_refusals(sent.profile, sent.body)]


def list_refusals(sent: Sequence[SentRequest]) -> list[str]:
    """Return the requests that the simulator refused."""
    return [f"{request.profile.id}: {request.status}" for request in sent if request.status != 200]


def list_unpaired(conversation: Sequence[Message]) -> list[str]:
    """Return the repairs that a conversation would need for any target."""
    return [str(note) for note in repair_history(conversation, HistoryRules()).repairs]
