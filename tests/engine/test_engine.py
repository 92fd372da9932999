"""The engine: what is retried, shown and closed, and that conversations share only what they may."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from scripted_transport import (
    DONE,
    HELLO,
    HELLO_WORLD,
    KEY,
    STARTED,
    STOP,
    WEATHER,
    WORLD,
    HangForever,
    HoldUntilReleased,
    ScriptedReply,
    ScriptedTransport,
    call_reply,
    cancel,
    chat_engine,
    chunk,
    collect_events,
    error_reply,
    stream_reply,
    stream_request,
    text_request,
    whole_reply,
)

from toolglot import errors
from toolglot.common.jsontext import dumps
from toolglot.engine.engine import Engine, EngineResult, EngineState
from toolglot.engine.factory import create_engine
from toolglot.engine.simulated import SimulatedTransport
from toolglot.engine.transport import HttpRequest, HttpResponse
from toolglot.providers.catalog import resolve_profile
from toolglot.tools.config import RetryConfig, ToolConfig
from toolglot.values.events import (
    ReplyDone,
    ReplyStarted,
    Retrying,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
)
from toolglot.values.messages import (
    Conversation,
    Origin,
    Reply,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    system,
    tool_results,
    user,
)
from toolglot.values.request import Options, Request, ToolChoice, ToolDefinition
from toolglot.wire.codec import encode_request


def run(main: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(main, 20))


def ask(transport: ScriptedTransport, request: Request | None = None, **options: Any) -> EngineResult:
    return run(chat_engine(transport, **options).ask(request or text_request()))


def stream(transport: ScriptedTransport, request: Request | None = None, **options: Any) -> list[Any]:
    return run(collect_events(chat_engine(transport, **options), request or stream_request()))


def text_of(events: list[Any]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


async def consume(session: EngineState, request: Request, events: list[Any] | None = None) -> None:
    async for batch in session.stream_batches(request):
        if events is not None:
            events.extend(batch)


async def ticks(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


# ---- the plain way


def test_whole_answer() -> None:
    transport = ScriptedTransport(whole_reply())
    answered = ask(transport)
    assert answered.reply.text == "Hello world"
    assert (answered.retries, answered.repairs, answered.losses) == (0, (), ())
    assert answered.seconds >= 0
    (request,) = transport.requests
    assert (request.method, request.stream, request.url) == (
        "POST",
        False,
        "https://api.openai.com/v1/chat/completions",
    )
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"
    assert transport.bodies[0]["model"] == "gpt-4o"
    assert transport.bodies[0].get("stream", False) is False
    assert transport.all_closed


def test_streamed_answer() -> None:
    transport = ScriptedTransport(HELLO_WORLD)
    events = stream(transport)
    assert [type(event) for event in events[:3]] == [ReplyStarted, TextDelta, TextDelta]
    assert isinstance(events[-1], ReplyDone)
    assert text_of(events) == events[-1].reply.text == "Hello world"
    assert transport.requests[0].stream is True
    assert transport.bodies[0]["stream"] is True
    assert transport.bodies[0]["stream_options"] == {"include_usage": True}
    assert transport.all_closed


@pytest.mark.parametrize("request_streams", [True, False])
def test_the_method_decides_whether_to_stream(request_streams: bool) -> None:
    """Not the request: `stream` is called for the pieces, `ask` for the whole reply."""
    request, transport = text_request(stream=request_streams), ScriptedTransport(HELLO_WORLD, whole_reply())
    assert text_of(stream(transport, request)) == ask(transport, request).reply.text == "Hello world"
    assert [sent.stream for sent in transport.requests] == [True, False]
    assert ["stream_options" in body for body in transport.bodies] == [True, False]


async def test_events_are_shown_as_they_come() -> None:
    hold = HoldUntilReleased()
    transport = ScriptedTransport(stream_reply(STARTED, HELLO, hold, WORLD, STOP, DONE))
    events = chat_engine(transport).stream(stream_request())
    assert isinstance(await anext(events), ReplyStarted)
    assert await anext(events) == TextDelta(0, "Hello")
    hold.release.set()
    assert [event async for event in events][-1] == ReplyDone(
        Reply((Text("Hello world"),), origin=Origin("openai-chat", "openai-chat", "m", "gpt-4o"), id="c1")
    )


def test_own_defaults_give_way_to_the_caller() -> None:
    transport = ScriptedTransport(HELLO_WORLD)
    stream(
        transport,
        stream_request(extras={"openai-chat": {"stream_options": {"include_usage": False}, "user": "u"}}),
    )
    assert transport.bodies[0]["stream_options"] == {"include_usage": False}
    assert transport.bodies[0]["user"] == "u"


def test_responses_keep_nothing_at_the_provider() -> None:
    body: dict[str, Any] = {"id": "r", "model": "m", "status": "completed", "output": []}
    transport = ScriptedTransport(ScriptedReply((dumps(body),)))
    ask(transport, model="openai-responses:gpt-5")
    assert transport.bodies[0]["store"] is False
    assert transport.bodies[0]["include"] == ["reasoning.encrypted_content"]


def test_the_model_is_the_engines() -> None:
    transport = ScriptedTransport(whole_reply())
    ask(transport, Request("other-model", [user("Hi")]))
    assert transport.bodies[0]["model"] == "gpt-4o"
    with pytest.raises(errors.UsageError, match="anthropic:MODEL"):
        Engine(resolve_profile("anthropic"), transport=ScriptedTransport())
    engine = chat_engine(ScriptedTransport())
    assert (engine.model, engine.name, repr(engine)) == (
        "gpt-4o",
        "openai-chat:gpt-4o",
        "Engine('openai-chat:gpt-4o')",
    )


async def test_close_closes_the_transport_where_it_can_be() -> None:
    class Bare:
        async def send(self, request: Any) -> Any:
            raise NotImplementedError

    transport = ScriptedTransport()
    await chat_engine(transport).close()
    assert transport.closed == 1
    await Engine(resolve_profile("openai-chat", "m"), transport=Bare()).close()


# ---- retries

HTML = {"content-type": "text/html"}
RESET = errors.ConnectionLost("reset")
RETRIED: dict[str, Any] = {
    "429": error_reply(429, "slow down", headers={"retry-after": "0"}),
    "500": error_reply(500, "oops"),
    "529": error_reply(529, "Overloaded"),
    "html": ScriptedReply((b"<html>502</html>",), 502, HTML),
    "empty": ScriptedReply((b"",), 503),
    "connect": errors.ConnectFailed("no such host"),
    "timeout": errors.TimedOut("no head", "first byte"),
    "reset": RESET,
    "the provider says so": error_reply(400, "locked", headers={"x-should-retry": "true"}),
}
RETRIED_WHOLE = {
    "reset in the body": ScriptedReply((b'{"id": "c1", "choi', RESET)),
    "half a body": ScriptedReply((b'{"id": "c1", "choi',)),
    "error in 200": ScriptedReply((b'{"error": {"message": "busy", "code": "server_is_overloaded"}}',)),
    "no body": ScriptedReply(()),
}


@pytest.mark.parametrize("case", RETRIED)
def test_failures_before_a_stream_are_retried(case: str) -> None:
    transport = ScriptedTransport(RETRIED[case], RETRIED[case], HELLO_WORLD)
    events = stream(transport)
    assert [(event.attempt, event.seconds) for event in events[:2]] == [(1, 0.0), (2, 0.0)]
    assert all(isinstance(event, Retrying) and event.reason for event in events[:2])
    assert isinstance(events[2], ReplyStarted)
    assert text_of(events) == "Hello world"
    assert len({request.body for request in transport.requests}) == 1
    assert transport.all_closed


@pytest.mark.parametrize("case", RETRIED | RETRIED_WHOLE)
def test_failures_of_a_whole_reply_are_retried(case: str) -> None:
    failure = (RETRIED | RETRIED_WHOLE)[case]
    transport = ScriptedTransport(failure, failure, whole_reply())
    result = ask(transport)
    assert (result.reply.text, result.retries) == ("Hello world", 2)
    assert len({request.body for request in transport.requests}) == 1
    assert transport.all_closed


def test_attempts_end() -> None:
    transport = ScriptedTransport(*[error_reply(500, f"oops {number}") for number in range(4)])
    with pytest.raises(errors.ServerFailed, match="oops 2"):
        ask(transport)
    assert len(transport.requests) == 3
    assert transport.all_closed


PAY = error_reply(
    429, "pay", code="insufficient_quota", headers={"retry-after": "0", "x-should-retry": "true"}
)
IN_200 = ScriptedReply((b'{"error": {"message": "bad tool", "code": "invalid_request_error"}}',))


@pytest.mark.parametrize(("answer", "kind", "options"), [
    pytest.param(error_reply(400, "bad"), errors.InvalidRequest, {}, id="400"),
    pytest.param(error_reply(500, headers={"x-should-retry": "false"}), errors.ServerFailed, {}, id="the provider says so"),
    pytest.param(PAY, errors.QuotaExceeded, {}, id="quota"),
    pytest.param(error_reply(429, "later", headers={"retry-after": "3600"}), errors.RateLimited, {}, id="too long"),
    pytest.param(error_reply(500), errors.ServerFailed, {"retry": RetryConfig(max_retries=0)}, id="no retries wanted"),
    pytest.param(IN_200, errors.InvalidRequest, {}, id="in a 200"),
        # The status is complete: a 400 is not a broken connection.
    pytest.param(ScriptedReply((b'{"error":', RESET), 400), errors.InvalidRequest, {}, id="body truncated"),
    pytest.param(RuntimeError("a bug in a transport"), RuntimeError, {}, id="a bug"),
])  # fmt: skip
def test_final_errors(answer: Any, kind: type[Exception], options: dict[str, Any]) -> None:
    def fail(_: Any) -> ScriptedReply:
        raise answer

    transport = ScriptedTransport(fail if isinstance(answer, RuntimeError) else answer, whole_reply())
    with pytest.raises(kind):
        ask(transport, **options)
    assert len(transport.requests) == 1
    assert transport.all_closed


def test_it_waits_as_long_as_the_provider_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    delays, real = list[float](), asyncio.sleep

    async def sleep(seconds: float, *_: Any) -> None:
        delays.append(seconds)
        await real(0)

    monkeypatch.setattr("toolglot.engine.engine.asyncio.sleep", sleep)
    body = {
        "error": {
            "code": 429,
            "status": "RESOURCE_EXHAUSTED",
            "message": "m",
            "details": [{"retryDelay": "39s"}],
        }
    }
    refusals = [
        error_reply(429, headers={"retry-after": "7"}),
        error_reply(429, headers={"retry-after-ms": "1500"}),
    ]
    transport = ScriptedTransport(*refusals, ScriptedReply((dumps(body),), 429), whole_reply())
    assert ask(transport, retry=RetryConfig(max_retries=5)).retries == 3
    assert delays == [7.0, 1.5, 39.0]


def test_an_endless_refusal_is_not_read_to_its_end() -> None:
    transport = ScriptedTransport(ScriptedReply((b"x" * 100_000,) * 100, 400, {"content-type": "text/plain"}))
    with pytest.raises(errors.InvalidRequest) as caught:
        ask(transport)
    assert transport.answers[0].reads < 20
    assert len(caught.value.message) <= 2_000
    assert transport.all_closed


# ---- what was shown is never taken back

BROKEN: dict[str, tuple[Any, type[errors.ToolglotError]]] = {
    "truncated": ((), errors.TruncatedStream),
    "half a frame": ((b'data: {"id": "c1", "cho',), errors.TruncatedStream),
    "reset": ((RESET,), errors.ConnectionLost),
    "stalled": ((errors.TimedOut("nothing came", "idle"),), errors.TimedOut),
    "error in 200": (
        (b'data: {"error": {"message": "overloaded", "code": "server_is_overloaded"}}\n\n',),
        errors.Overloaded,
    ),
    "not JSON": ((b"data: {oops}\n\n",), errors.MalformedReply),
}


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize("before", [(), (STARTED,)], ids=["nothing", "only the start"])
def test_a_stream_that_showed_nothing_is_retried(case: str, before: tuple[bytes, ...]) -> None:
    parts, _ = BROKEN[case]
    transport = ScriptedTransport(stream_reply(*before, *parts), HELLO_WORLD)
    events = stream(transport)
    assert [type(event) for event in events[:2]] == [Retrying, ReplyStarted]
    assert sum(isinstance(event, ReplyStarted) for event in events) == 1
    assert text_of(events) == "Hello world"
    assert transport.all_closed


CALL = chunk(
    {"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]}
)


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize(("part", "text"), [(HELLO, "Hello"), (CALL, "")], ids=["text", "a call"])
async def test_a_stream_that_showed_something_is_not_retried(case: str, part: bytes, text: str) -> None:
    parts, kind = BROKEN[case]
    transport = ScriptedTransport(stream_reply(STARTED, part, *parts), HELLO_WORLD)
    events = list[Any]()
    with pytest.raises(kind):
        await consume(chat_engine(transport).new_state(), stream_request(), events)
    assert text_of(events) == text
    assert not any(isinstance(event, Retrying | ReplyDone) for event in events)
    assert len(transport.requests) == 1
    assert transport.all_closed


@pytest.mark.parametrize("end", [(STOP,), (STOP, DONE)], ids=["finish reason", "and [DONE]"])
@pytest.mark.parametrize("failure", [RESET, errors.TimedOut("no end", "idle")], ids=["reset", "stalled"])
def test_a_failure_after_the_last_event_does_not_matter(
    end: tuple[bytes, ...], failure: errors.TransportError
) -> None:
    transport = ScriptedTransport(stream_reply(STARTED, HELLO, *end, failure))
    events = stream(transport)
    assert isinstance(events[-1], ReplyDone)
    assert events[-1].reply.text == "Hello"


# ---- keys


def number_keys() -> Callable[[], str]:
    numbers = iter(range(1, 10))
    return lambda: f"key-number-{next(numbers)}"


def used_keys(transport: ScriptedTransport) -> list[str]:
    return [
        request.headers["authorization"].removeprefix("Bearer key-number-") for request in transport.requests
    ]


@pytest.mark.parametrize(("refusals", "keys", "retries"), [
    pytest.param([error_reply(401, "expired")], ["1", "2"], 0, id="renewed"),
    pytest.param([error_reply(500)], ["1", "2"], 1, id="retried"),
])  # fmt: skip
def test_a_key_is_requested_before_each_attempt(
    refusals: list[ScriptedReply], keys: list[str], retries: int
) -> None:
    transport = ScriptedTransport(*refusals, whole_reply())
    assert ask(transport, key=number_keys()).retries == retries
    assert used_keys(transport) == keys
    assert transport.all_closed


@pytest.mark.parametrize(("key", "attempts"), [(number_keys(), 2), (KEY, 1)], ids=["renewable", "fixed"])
def test_a_refused_key_is_renewed_at_most_once(key: Any, attempts: int) -> None:
    transport = ScriptedTransport(error_reply(401, "expired"), error_reply(401, "expired"), whole_reply())
    with pytest.raises(errors.AuthenticationFailed, match="expired"):
        ask(transport, key=key)
    assert len(transport.requests) == attempts


def test_google_reports_a_wrong_key_as_an_invalid_request() -> None:
    """A 400 with the reason API_KEY_INVALID is about the key, and a new key helps."""
    detail = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "API_KEY_INVALID",
        "domain": "googleapis.com",
    }
    message = "API key not valid. Please pass a valid API key."
    wrong = {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT", "details": [detail]}}
    fine = {"candidates": [{"content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP"}]}
    transport = ScriptedTransport(ScriptedReply((dumps(wrong),), 400), ScriptedReply((dumps(fine),)))
    assert ask(transport, model="gemini:gemini-3-pro", key=number_keys()).reply.text == "ok"
    with pytest.raises(errors.AuthenticationFailed):
        ask(ScriptedTransport(ScriptedReply((dumps(wrong),), 400)), model="gemini:gemini-3-pro")


def test_nothing_is_sent_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    transport = ScriptedTransport(whole_reply())
    with pytest.raises(errors.AuthenticationFailed, match="OPENAI_API_KEY"):
        ask(transport, key=None)
    assert transport.requests == []


ECHOES: dict[str, Any] = {
    "refusal": error_reply(401, f"Incorrect API key provided: {KEY}."),
    "refusal with a code": error_reply(400, "no", param=f"header {KEY}"),
    "plain text": ScriptedReply((f"no such key {KEY}".encode(),), 403, {"content-type": "text/plain"}),
    "error in 200": ScriptedReply(
        (dumps({"error": {"message": f"{KEY} is blocked", "code": "invalid_api_key"}}),)
    ),
    "a page in 200": ScriptedReply((f"<html>authorization: Bearer {KEY}</html>".encode(),)),
    "not an object": ScriptedReply((dumps([KEY]),)),
    "wrong shape": ScriptedReply((dumps({"choices": {"key": KEY}}),)),
    "overloaded": error_reply(529, f"busy, {KEY}"),
    "lost": errors.ConnectionLost(f"reset while sending Bearer {KEY}"),
}


def everything(error: BaseException | None) -> str:
    """All that can be seen of an error and of what caused it."""
    texts = list[str]()
    while error is not None:
        texts += [str(error), repr(error), repr(vars(error)), repr(error.args)]
        error = error.__cause__ or error.__context__
    return "\n".join(texts)


@pytest.mark.parametrize("case", ECHOES)
@pytest.mark.parametrize("stream_it", [False, True], ids=["whole", "streamed"])
def test_no_key_in_errors_events_and_logs(
    case: str, stream_it: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    engine = chat_engine(ScriptedTransport(*[ECHOES[case]] * 3))
    events = list[Any]()
    with pytest.raises(errors.ToolglotError) as caught:
        run(consume(engine.new_state(), text_request(stream=stream_it), events))
    assert KEY not in everything(caught.value)
    assert KEY not in repr(events)
    assert KEY not in caplog.text
    assert KEY not in repr(engine)
    assert KEY not in repr(engine.keys)


def test_no_key_in_the_repr_of_a_request() -> None:
    """It stands in tracebacks with local variables, and in the logs of transports."""
    transport = ScriptedTransport(whole_reply())
    ask(transport)
    assert KEY not in repr(transport.requests[0])


# ---- strict, tools, features


SAMPLING = "Unsupported value: 'temperature' does not support 0.2 with this model."


@pytest.mark.parametrize(("options", "refusals", "lost"), [
    (Options(top_k=3.0), [], ["top_k"]),
    # the cure drops it
    (Options(temperature=0.2), [error_reply(400, SAMPLING, code="unsupported_value")], ["temperature"]),
    (Options(), [], []),
])  # fmt: skip
def test_strict_sends_nothing_that_loses_something(
    options: Options, refusals: list[ScriptedReply], lost: list[str]
) -> None:
    request = text_request(options=options)
    assert [loss.subject for loss in ask(ScriptedTransport(*refusals, whole_reply()), request).losses] == lost
    transport = ScriptedTransport(*refusals, whole_reply())
    with pytest.raises(errors.LossyEncoding, match=lost[0]) if lost else nullcontext():
        ask(transport, request, strict=True)
    assert len(transport.requests) == len(refusals) + (not lost)


def test_features_are_those_of_the_model() -> None:
    engine = chat_engine(ScriptedTransport(), "anthropic:claude-opus-5-5")
    assert engine.features() is engine.profile.features
    assert engine.features().choices == {"auto", "none"}
    assert engine.features().limits is engine.profile.limits
    assert engine.features().streaming
    assert "bash_20250124" in engine.features().typed


def test_prepared_tools() -> None:
    engine = chat_engine(ScriptedTransport())
    tools = [ToolDefinition(f"t{number}", "", {"type": "object"}) for number in range(130)]
    prepared = engine.prepare_tools(iter(tools))
    assert prepared.tools == tuple(tools[:128])
    assert [loss.subject for loss in prepared.losses] == ["tool 't128'", "tool 't129'"]
    assert [problem.quantity for problem in prepared.problems] == ["number of tools"]
    fine = engine.prepare_tools([WEATHER])
    assert (fine.tools, fine.problems, fine.losses) == ((WEATHER,), (), ())
    assert [item["function"]["name"] for item in fine.body["tools"]] == [WEATHER.name]


def test_prepared_tools_are_in_the_providers_format_with_its_losses_and_as_the_configuration_allows() -> None:
    engine = chat_engine(ScriptedTransport(), "gemini:gemini-3-pro")
    pattern = ToolDefinition(
        "a", "A.", {"type": "object", "properties": {"x": {"type": "string", "pattern": "^a"}}}
    )
    config = ToolConfig(allow=frozenset({"a"}), tool_choice=ToolChoice("required"), parallel=False)
    prepared = engine.prepare_tools([pattern, WEATHER], config)
    assert prepared.tools == (pattern,)
    assert [item["name"] for item in prepared.body["tools"][0]["functionDeclarations"]] == ["a"]
    assert prepared.body["toolConfig"] == {"functionCallingConfig": {"mode": "ANY"}}
    assert [loss.subject for loss in prepared.losses] == ["pattern", "parallel"]
    assert engine.prepare_tools([pattern], ToolConfig(enabled=False)).body == {}


def test_losses_of_the_reply_are_reported() -> None:
    choices = [{"index": index, "message": {"content": "x"}, "finish_reason": "stop"} for index in (0, 1)]
    answered = ask(ScriptedTransport(ScriptedReply((dumps({"id": "c1", "model": "m", "choices": choices}),))))
    assert answered.reply.text == "x"
    assert answered.losses


# ---- calls come back as the tools were defined


def test_names_that_the_target_refuses_are_mapped_back() -> None:
    dotted = ToolDefinition("math.add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})

    def answer(request: Any) -> ScriptedReply:
        name = transport.bodies[-1]["tools"][0]["function"]["name"]
        assert name != "math.add"
        started = {
            "index": 0,
            "id": "a",
            "type": "function",
            "function": {"name": name, "arguments": '{"a":'},
        }
        continued = {"index": 0, "function": {"arguments": "1}"}}
        calls = [chunk({"tool_calls": [part]}) for part in (started, continued)]
        return stream_reply(STARTED, *calls, chunk({}, "tool_calls"), DONE)

    transport = ScriptedTransport(answer)
    events = stream(transport, stream_request(tools=(dotted,)))
    started = next(event for event in events if isinstance(event, ToolCallStarted))
    ready = next(event for event in events if isinstance(event, ToolCallReady))
    assert started.name == "math.add"
    assert (ready.call.name, ready.call.arguments) == ("math.add", {"a": 1})
    assert events[-1].reply.calls == (ready.call,)


def test_a_freeform_tool_that_was_sent_as_a_function_comes_back_as_text() -> None:
    sql = ToolDefinition("sql", "Runs SQL.", kind="freeform")
    transport = ScriptedTransport(call_reply("sql", '{"input": "select 1"}'))
    answered = ask(transport, text_request(tools=(sql,)), model="groq:llama")
    (call,) = answered.reply.calls
    assert (call.freeform, call.raw, call.arguments) == (True, "select 1", None)


# ---- cancellation and leaving early


@pytest.mark.parametrize("say", [
    stream_reply(HangForever()), stream_reply(STARTED, HangForever()), stream_reply(STARTED, HELLO, HangForever()),
    stream_reply(STARTED, HELLO, STOP, HangForever()), ScriptedReply((HangForever(),), 400),
], ids=["head only", "started", "shown", "terminal", "refusal"])  # fmt: skip
@pytest.mark.parametrize("way", ["ask", "stream"])
async def test_cancelling_closes_the_answer(say: ScriptedReply, way: str) -> None:
    transport = ScriptedTransport(say, HELLO_WORLD)
    engine = chat_engine(transport)
    # an answer that is read by `ask` may be a stream all the same: the session decides by the request
    work = consume(engine.new_state(), stream_request()) if way == "stream" else engine.ask(text_request())
    task = asyncio.create_task(work)
    await transport.waiting.wait()
    await cancel(task)
    assert len(transport.requests) == 1
    assert transport.all_closed
    assert len(asyncio.all_tasks()) <= 2  # this one, and the one of wait_for


async def test_cancelling_before_the_head() -> None:
    transport = ScriptedTransport(ScriptedReply((HangForever(),), delays_head=True), HELLO_WORLD)
    task = asyncio.create_task(chat_engine(transport).ask(text_request()))
    await transport.waiting.wait()
    await cancel(task)
    assert transport.remaining == 1


async def test_cancelling_while_it_waits_to_ask_again() -> None:
    transport = ScriptedTransport(error_reply(429, headers={"retry-after": "60"}), HELLO_WORLD)
    events = chat_engine(transport).stream(stream_request())
    assert isinstance(await anext(events), Retrying)
    task = asyncio.ensure_future(anext(events))
    await ticks()
    assert transport.all_closed  # no connection is held while it waits
    await cancel(task)
    assert transport.remaining == 1


async def test_cancelling_while_the_key_is_fetched() -> None:
    requested = asyncio.Event()

    async def key() -> str:
        requested.set()
        await asyncio.Event().wait()
        return ""

    transport = ScriptedTransport(whole_reply())
    task = asyncio.create_task(chat_engine(transport, key=key).ask(text_request()))
    await requested.wait()
    await cancel(task)
    assert transport.requests == []


@pytest.mark.parametrize("way", ["break", "error", "aclose"])
async def test_leaving_a_stream_closes_the_answer(way: str) -> None:
    transport = ScriptedTransport(stream_reply(STARTED, HELLO, HangForever()))
    events: Any = chat_engine(transport).stream(stream_request())
    with suppress(ZeroDivisionError):
        async for event in events:
            if way == "error":
                raise ZeroDivisionError
            if way == "break" and isinstance(event, TextDelta):
                break
            if way == "aclose":
                await events.aclose()
                assert transport.all_closed  # at once: that is what it is awaited for
    del events
    await ticks()
    assert transport.all_closed


# ---- what is left of a reply


async def test_partial_text() -> None:
    hold = HoldUntilReleased()
    transport = ScriptedTransport(stream_reply(STARTED, HELLO, WORLD, hold, STOP, DONE))
    session = chat_engine(transport).new_state()
    assert session.partial_text == ""
    batches = session.stream_batches(stream_request())
    task = asyncio.ensure_future(anext(batches))
    await task
    assert session.partial_text == "Hello"
    await anext(batches)
    assert session.partial_text == "Hello world"
    hold.release.set()
    assert [batch async for batch in batches]


@pytest.mark.parametrize("late", [True, False], ids=["before the head", "after the head"])
async def test_partial_text_is_not_of_an_earlier_reply(late: bool) -> None:
    """What an interrupted run keeps is the text of the reply that was being read, never that of the one
    before.
    """
    hanging = ScriptedReply((HangForever(),), delays_head=late, headers={"content-type": "text/event-stream"})
    transport = ScriptedTransport(HELLO_WORLD, hanging)
    session = chat_engine(transport).new_state()
    await consume(session, stream_request())
    task = asyncio.create_task(session.ask(stream_request("And now?")))
    await transport.waiting.wait()
    await cancel(task)
    assert session.partial_text == ""


async def test_a_result_is_not_of_an_earlier_request() -> None:
    session = chat_engine(ScriptedTransport(HELLO_WORLD, error_reply(400, "bad"))).new_state()
    await consume(session, stream_request())
    assert session.result is not None
    with pytest.raises(errors.InvalidRequest):
        await consume(session, stream_request("And now?"))
    assert session.result is None


# ---- sessions


def test_sessions_do_not_influence_each_other() -> None:
    profile = resolve_profile("openai-chat", "gpt-4o")
    odd = ToolDefinition("a.b", "", {"type": "object", "properties": {}})
    result = tool_results(ToolResult("c", (Text("r"),)))
    talks = [
        Request("gpt-4o", [system("Be kind."), user("one")], (WEATHER,)),
        Request("gpt-4o", [system("Be rude."), user("two")], (WEATHER,)),
        Request("gpt-4o", [user("three"), assistant(ToolCall("c", "x.y", {})), result], (odd,)),
        Request("gpt-4o", [user("four"), assistant(ToolCall("c", "x y", {})), result], (odd,)),
        Request("gpt-4o", [user("five")], ()),
        Request("gpt-4o", [user("six")], (odd,), options=Options(max_tokens=5, top_k=1.0)),
    ]
    engine = chat_engine(ScriptedTransport())
    sessions = [engine.new_state() for _ in talks]
    conversations = [Conversation(talk.messages) for talk in talks]
    for turn in range(4):
        for session, talk, conversation in zip(sessions, talks, conversations, strict=True):
            request = Request("gpt-4o", conversation, talk.tools, options=talk.options)
            sent, full = session.encode(request), encode_request(request, profile)
            assert sent.body == dumps(full.body)
            assert (sent.names, sent.losses) == (full.names, full.losses)
            conversation.append(assistant(f"said {turn}"), user(f"more {turn}"))


async def test_concurrent_conversations() -> None:
    def answer(request: Any) -> ScriptedReply:
        return whole_reply(transport.bodies[-1]["messages"][-1]["content"])

    transport = ScriptedTransport(*[answer] * 50)
    engine, texts = chat_engine(transport), [f"number {number}" for number in range(50)]
    results = await asyncio.gather(*(engine.ask(text_request(text)) for text in texts))
    assert [result.reply.text for result in results] == texts
    assert transport.all_closed


# ---- heals

REFUSED = error_reply(
    400,
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
    "instead.",
    code="unsupported_parameter",
)
LIMITED = Options(max_tokens=7)
SERVER: dict[str, Any] = {"model": "compatible:m", "base_url": "http://host/v1"}


async def test_a_refusal_is_healed_and_reported_once() -> None:
    transport = ScriptedTransport(REFUSED, whole_reply(), whole_reply())
    engine = chat_engine(transport, **SERVER)
    answered = await engine.ask(text_request(options=LIMITED))
    assert answered.retries == 0
    (repair,) = answered.repairs
    assert repair.subject == "max_tokens"
    assert engine.applied_heals == (repair,)
    later = await engine.ask(text_request(options=LIMITED))
    assert later.repairs == ()
    first, second, third = transport.bodies
    assert first["max_tokens"] == 7
    assert second == third
    assert second["max_completion_tokens"] == 7
    assert "max_tokens" not in second
    assert transport.all_closed


async def test_a_running_session_is_healed_for_its_next_requests() -> None:
    transport = ScriptedTransport(whole_reply(), REFUSED, whole_reply(), whole_reply())
    session = chat_engine(transport, **SERVER).new_state()
    talk = Conversation([user("Hi")])
    for number in range(3):
        await session.ask(Request("", talk, options=LIMITED))
        talk.append(assistant("so"), user(f"more {number}"))
    assert [len(body["messages"]) for body in transport.bodies] == [1, 3, 3, 5]
    assert ["max_completion_tokens" in body for body in transport.bodies] == [False, False, True, True]


@pytest.mark.parametrize(("replies", "heal", "attempts", "message"), [
    ([REFUSED, REFUSED], True, 2, "max_tokens"),
    ([REFUSED, error_reply(400, SAMPLING, code="unsupported_value")], True, 2, "temperature"),
    ([REFUSED], False, 1, "max_tokens"),
], ids=["the same refusal again", "another refusal", "not wanted"])  # fmt: skip
def test_a_request_is_healed_at_most_once(
    replies: list[ScriptedReply], heal: bool, attempts: int, message: str
) -> None:
    transport = ScriptedTransport(*replies, whole_reply())
    with pytest.raises(errors.InvalidRequest, match=message):
        ask(transport, text_request(options=LIMITED), heal=heal, **SERVER)
    assert len(transport.requests) == attempts


BUSY = error_reply(503, "busy")


@pytest.mark.parametrize(
    ("replies", "retries"), [([BUSY, REFUSED, BUSY], 2), ([error_reply(401), REFUSED, BUSY], 1)]
)
def test_a_heal_is_no_retry(replies: list[ScriptedReply], retries: int) -> None:
    transport = ScriptedTransport(*replies, whole_reply())
    answered = ask(transport, text_request(options=LIMITED), key=number_keys(), **SERVER)
    assert (answered.retries, len(answered.repairs)) == (retries, 1)
    assert ["max_completion_tokens" in body for body in transport.bodies] == [False, False, True, True]


def test_a_heal_shows_no_events() -> None:
    events = stream(ScriptedTransport(REFUSED, HELLO_WORLD), stream_request(options=LIMITED), **SERVER)
    assert not any(isinstance(event, Retrying) for event in events)
    assert text_of(events) == "Hello world"


async def test_sessions_that_are_refused_at_once_are_all_healed() -> None:
    """Both were sent before anything was known: the one that hears of it second is asked again too."""
    first, second = HoldUntilReleased(), HoldUntilReleased()
    late = [
        ScriptedReply((hold, *REFUSED.parts), REFUSED.status, delays_head=True) for hold in (first, second)
    ]
    transport = ScriptedTransport(*late, whole_reply("one"), whole_reply("two"))
    engine = chat_engine(transport, **SERVER)
    tasks = [asyncio.create_task(engine.ask(text_request(options=LIMITED))) for _ in late]
    for hold in (first, second):
        await hold.reached.wait()
        hold.release.set()
    results = await asyncio.gather(*tasks)
    assert [answered.reply.text for answered in results] == ["one", "two"]
    assert ["max_completion_tokens" in body for body in transport.bodies] == [False, False, True, True]
    assert all(answered.repairs for answered in results)


async def test_a_request_goes_where_it_was_encoded_for() -> None:
    """Another session's heal moves the engine to Responses while this one waits for its key: the body is
    still one of Chat.
    """
    waits, go = asyncio.Event(), asyncio.Event()
    calls = 0

    async def key() -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            waits.set()
            await go.wait()
        return "some-key-1"

    moved = error_reply(
        400, "Function tools are not supported here. To use function tools, use /v1/responses."
    )
    done = ScriptedReply((dumps({"id": "r", "model": "m", "status": "completed", "output": []}),))

    def right(request: HttpRequest) -> ScriptedReply:
        return whole_reply() if "chat" in request.url else done

    transport = ScriptedTransport(moved, done, right, right, right)
    engine = chat_engine(transport, "openai-chat:m", key=key)
    slow = asyncio.create_task(engine.ask(text_request(tools=(WEATHER,))))
    await waits.wait()
    await engine.ask(text_request(tools=(WEATHER,)))
    go.set()
    await slow
    for request, body in zip(transport.requests, transport.bodies, strict=True):
        assert ("messages" in body) == request.url.endswith("/chat/completions"), request.url


# ---- odd ends


class OpenEndedTransport(SimulatedTransport):
    """A simulator behind a proxy that never ends a response."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        response = await super().send(request)
        read_part = response.read

        async def read() -> bytes:
            return await read_part() or await asyncio.get_running_loop().create_future()

        response.read = read
        return response


@pytest.mark.parametrize("model", ["openai-chat", "openai-responses", "anthropic", "gemini", "ollama"])
def test_a_reply_is_not_held_up_by_a_connection_that_stays_open(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolglot.engine.engine._END_SECONDS", 0.01)
    monkeypatch.setattr("toolglot.engine.engine._USAGE_SECONDS", 0.02)
    engine = create_engine(f"simulator:{model}", transport=OpenEndedTransport())
    *_, last = run(collect_events(engine, stream_request()))
    assert isinstance(last, ReplyDone)
    assert last.reply.text
    assert last.reply.usage is not None


def test_usage_after_the_finish_reason_is_waited_for() -> None:
    usage = b'data: {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}\n\n'
    hold = HoldUntilReleased()
    transport = ScriptedTransport(stream_reply(HELLO, STOP, hold, usage, DONE))

    async def main() -> Reply:
        task = asyncio.create_task(collect_events(chat_engine(transport), stream_request()))
        await hold.reached.wait()
        hold.release.set()
        return (await task)[-1].reply

    assert run(main()).usage.input == 7


def test_nothing_is_read_after_the_end_mark() -> None:
    transport = ScriptedTransport(stream_reply(HELLO, STOP, DONE, WORLD, b"data: garbage\n\n", RESET))
    assert text_of(stream(transport)) == "Hello"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("part", [b"x" * 1000, b": busy\n\n" * 100], ids=["one line", "comments"])
def test_an_endless_reply_is_an_error(part: bytes, stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolglot.engine.engine._MAX_REPLY_BYTES", 1024**2)
    transport = ScriptedTransport(stream_reply(*[part] * 2000))
    with pytest.raises(errors.ReplyTooLarge, match="the reply exceeds 1 MB"):
        run(
            collect_events(chat_engine(transport), stream_request())
            if stream
            else chat_engine(transport).ask(text_request())
        )
    assert transport.remaining == 0
    assert len(transport.requests) == 1  # the next one would be as large
    assert transport.answers[0].reads <= 1500


def test_a_status_without_a_body_is_retried() -> None:
    assert ask(ScriptedTransport(ScriptedReply(status=204), whole_reply())).reply.text == "Hello world"
    assert text_of(stream(ScriptedTransport(ScriptedReply(status=204), HELLO_WORLD))) == "Hello world"


def test_a_status_that_is_not_modified_is_an_error() -> None:
    with pytest.raises(errors.InvalidRequest, match="status 304 is not a reply"):
        ask(ScriptedTransport(ScriptedReply(status=304)))
