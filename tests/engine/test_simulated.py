"""The simulator as a transport: bytes as they come, faults as a network has them, and cancellation."""

import asyncio
from typing import Any

import pytest
from scripted_transport import QUICK, cancel, stream_request, text_request

from toolglot import errors
from toolglot.common.redact import redact
from toolglot.engine.engine import Engine
from toolglot.engine.factory import create_engine
from toolglot.engine.signin.environment import secret_values
from toolglot.engine.simulated import SimulatedTransport
from toolglot.engine.transport import HttpRequest
from toolglot.simulator.core import Simulator
from toolglot.values.events import ReplyDone, Retrying, TextDelta, ThinkingDelta

pytestmark = pytest.mark.untraced

WIRES = ("openai-chat", "openai-responses", "anthropic", "gemini", "ollama")
wires = pytest.mark.parametrize("provider", WIRES)
ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def engine(provider: str, *faults: str) -> Engine:
    return create_engine(
        f"simulator:{provider}", transport=SimulatedTransport(Simulator(faults=faults)), retry=QUICK
    )


PROMPT = "say One two three four five six."


async def collect_into(events: list[Any], engine: Engine, *, stream: bool = True) -> list[Any]:
    async for batch in engine.new_state().stream_batches(text_request(PROMPT, stream=stream)):
        events.extend(batch)
    return events


def events(provider: str, *faults: str, stream: bool) -> list[Any]:
    return asyncio.run(asyncio.wait_for(collect_into([], engine(provider, *faults), stream=stream), 10))


@wires
@ways
def test_no_fault(provider: str, stream: bool) -> None:
    received = events(provider, stream=stream)
    assert isinstance(received[-1], ReplyDone)
    assert received[-1].reply.text == "One two three four five six."


BEFORE = [
    "rate-limit:0",
    "rate-limit-date",
    "server-error",
    "overloaded",
    "reset",
    "html",
    "error-in-200-first",
]


@wires
@ways
@pytest.mark.parametrize("fault", BEFORE)
def test_faults_before_anything_is_shown_are_retried(fault: str, provider: str, stream: bool) -> None:
    received = events(provider, fault, fault, stream=stream)
    assert [type(event) for event in received[:2]] == [Retrying, Retrying]
    assert received[-1].reply.text == "One two three four five six."
    texts = [event.text for event in received if isinstance(event, TextDelta)]
    assert "".join(texts) == "One two three four five six."


@wires
@ways
@pytest.mark.parametrize("fault", BEFORE)
def test_lasting_faults_are_errors(fault: str, provider: str, stream: bool) -> None:
    with pytest.raises((errors.ProviderError, errors.ConnectionLost)):
        events(provider, *[fault] * 3, stream=stream)


@wires
@pytest.mark.parametrize(("fault", "kind"), [
    ("reset-mid-stream", errors.ConnectionLost),
    ("truncated", errors.TruncatedStream),
    ("half-json", errors.MalformedReply),
    ("error-in-200", errors.ProviderError),
])  # fmt: skip
async def test_faults_after_something_was_shown(
    fault: str, kind: type[errors.ToolglotError], provider: str
) -> None:
    shown = list[Any]()
    with pytest.raises(kind):
        await collect_into(shown, engine(provider, fault))
    assert any(isinstance(event, TextDelta | ThinkingDelta) for event in shown)
    assert not any(isinstance(event, Retrying | ReplyDone) for event in shown)


@wires
@pytest.mark.parametrize("fault", ["reset-mid-stream", "truncated", "half-json", "error-in-200"])
def test_the_same_faults_of_a_whole_reply_are_retried(fault: str, provider: str) -> None:
    received = events(provider, fault, stream=False)
    assert isinstance(received[0], Retrying)
    assert received[-1].reply.text == "One two three four five six."


FINAL = {
    "quota": errors.QuotaExceeded,
    "unauthorized": errors.AuthenticationFailed,
    "context-too-long": errors.ContextTooLong,
}
SAME_WORDS = ("gemini", "ollama")  # an empty account and too many requests sound alike there


@ways
@pytest.mark.parametrize(
    ("fault", "provider"),
    [
        (fault, provider)
        for fault in FINAL
        for provider in WIRES
        if fault != "quota" or provider not in SAME_WORDS
    ],
)
def test_final_faults(fault: str, provider: str, stream: bool) -> None:
    with pytest.raises(FINAL[fault]):
        events(provider, fault, stream=stream)


@wires
@ways
@pytest.mark.parametrize("fault", ["stall", "stall-first"])
async def test_a_stall_ends_with_cancellation(fault: str, provider: str, stream: bool) -> None:
    task = asyncio.create_task(collect_into([], engine(provider, fault), stream=stream))
    for _ in range(200):
        await asyncio.sleep(0)
    assert not task.done()
    await cancel(task)


@wires
async def test_a_stall_ends_with_a_timeout(provider: str) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await engine(provider, "stall").ask(stream_request())


async def test_others_go_on_while_one_stalls() -> None:
    shared = engine("anthropic", "stall")
    stalled = asyncio.create_task(collect_into([], shared))
    for _ in range(50):
        await asyncio.sleep(0)
    streams = await asyncio.gather(*(collect_into([], shared) for _ in range(20)))
    assert all(isinstance(events[-1], ReplyDone) for events in streams)
    assert not stalled.done()
    await cancel(stalled)


# ---- the transport itself


def request(path: str = "/@anthropic/v1/messages", **headers: str) -> HttpRequest:
    body = b'{"model":"claude-sonnet-4-5","max_tokens":10,"stream":true,"messages":[{"role":"user","content":"say Hi"}]}'
    return HttpRequest(
        f"http://simulator{path}",
        {"X-API-Key": "k", "Anthropic-Version": "2023-06-01", **headers},
        body,
        True,
    )


async def test_names_of_headers_are_in_lower_case() -> None:
    answer = await SimulatedTransport().send(request())
    assert answer.status == 200
    assert all(name == name.lower() for name in answer.headers)
    assert answer.headers["content-type"] == "text/event-stream"


async def test_reading_after_the_end_and_after_closing() -> None:
    answer = await SimulatedTransport().send(request())
    while await answer.read():
        pass
    assert await answer.read() == b""
    answer = await SimulatedTransport().send(request())
    assert await answer.read()
    await answer.close()
    await answer.close()
    assert await answer.read() == b""


async def test_the_query_counts() -> None:
    body = b'{"contents":[{"role":"user","parts":[{"text":"say Hi"}]}]}'
    path = "/@gemini/v1beta/models/gemini-2.5-pro:streamGenerateContent"
    head = {"x-goog-api-key": "k"}
    sse = await SimulatedTransport().send(HttpRequest(f"http://s{path}?alt=sse", head, body, True))
    array = await SimulatedTransport().send(HttpRequest(f"http://s{path}", head, body, True))
    assert sse.headers["content-type"] == "text/event-stream"
    assert array.headers["content-type"] == "application/json"


async def test_an_unknown_path() -> None:
    answer = await SimulatedTransport().send(request("/nowhere"))
    assert answer.status == 404


async def test_the_key_of_the_simulator_hides_no_words() -> None:
    simulated = create_engine("simulator:mistral")
    await simulated.ask(text_request(PROMPT))
    assert redact(simulated.name, {*simulated.secrets, *secret_values()}) == "simulator:mistral/simulated"
