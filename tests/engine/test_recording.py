"""Recordings: a tool loop recorded and replayed, misses that name the difference, broken files, and no keys
in any of them.
"""

import asyncio
import os
import sys
from base64 import b64decode
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from scripted_transport import (
    DONE,
    HELLO,
    JSON,
    KEY,
    STARTED,
    STOP,
    WEATHER,
    WORLD,
    HangForever,
    ScriptedReply,
    ScriptedTransport,
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
from tests.file_limits import limit_file_size

from toolglot.common.jsontext import dumps, loads_object
from toolglot.engine.engine import Engine
from toolglot.engine.factory import create_engine
from toolglot.engine.recording import RecordingTransport, ReplayTransport
from toolglot.engine.simulated import SimulatedTransport
from toolglot.engine.transport import HttpRequest, HttpResponse, Transport
from toolglot.errors import ConnectionLost, MalformedData, ReplayMiss, ToolglotError
from toolglot.values.events import Retrying
from toolglot.values.messages import Conversation, Reply, Text, ToolCall, ToolResult, tool_results, user
from toolglot.values.request import Request, ToolDefinition

ADD = ToolDefinition(
    "math.add",
    "Adds.",
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
)
PROMPT = """think Two things at once.
call get_weather {"city": "Paris"} call math.add {"a": 1, "b": 2}
then call get_weather {"city": "Zürich ☂"}
then say All done."""
WIRES = ("openai-chat", "openai-responses", "anthropic", "gemini", "ollama")


async def loop(engine: Engine, *, stream: bool) -> tuple[list[Any], list[Reply], Conversation]:
    """A tool loop by hand: what was shown, what was answered, what is left."""
    session = engine.new_state()
    talk = Conversation([user(PROMPT)])
    events = list[Any]()
    replies = list[Reply]()
    while True:
        async for batch in session.stream_batches(Request("", talk, (WEATHER, ADD), stream=stream)):
            events += batch
        assert session.result is not None
        reply = session.result.reply
        replies.append(reply)
        talk.append(reply.message)
        if not reply.calls:
            return events, replies, talk
        talk.append(
            tool_results(
                *(
                    ToolResult(call.id, (Text(f"{call.name}: {call.text}"),), call.name)
                    for call in reply.calls
                )
            )
        )


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("provider", WIRES)
def test_a_loop_is_replayed(provider: str, stream: bool, tmp_path: Path) -> None:
    path = tmp_path / "loop.jsonl"
    recorded = asyncio.run(
        loop(
            create_engine(f"simulator:{provider}", transport=RecordingTransport(SimulatedTransport(), path)),
            stream=stream,
        )
    )
    replay = ReplayTransport(path)
    assert replay.remaining_count == 3
    played = asyncio.run(loop(create_engine(f"simulator:{provider}", transport=replay), stream=stream))
    assert played[1:] == recorded[1:]
    # pieces come otherwise cut, but they are the same pieces
    assert played[0] == recorded[0]
    assert recorded[1][-1].text == "All done."
    assert [[call.name for call in reply.calls] for reply in recorded[1]] == [
        ["get_weather", "math.add"],
        ["get_weather"],
        [],
    ]
    assert replay.remaining_count == 0


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "model",
    [
        *WIRES,
        "anthropic/claude-opus-5",
        "openai-responses/gpt-5",
        "ollama/deepseek-r1",
        "vertex/gemini-2.5-flash",
    ],
)
def test_one_recording_serves_run_and_stream(model: str, stream: bool, tmp_path: Path) -> None:
    """State, signatures and usage included."""
    path = tmp_path / "loop.jsonl"
    transport = RecordingTransport(SimulatedTransport(), path)
    recorded = asyncio.run(loop(create_engine(f"simulator:{model}", transport=transport), stream=stream))
    replay = ReplayTransport(path)
    played = asyncio.run(loop(create_engine(f"simulator:{model}", transport=replay), stream=not stream))
    assert [drop_raw(reply) for reply in played[1]] == [drop_raw(reply) for reply in recorded[1]]
    assert replay.remaining_count == 0


def drop_raw(reply: Reply) -> Reply:
    """Without the text of arguments, which Anthropic has in streams only."""
    blocks = (
        msgspec.structs.replace(block, raw=None) if isinstance(block, ToolCall) else block
        for block in reply.blocks
    )
    return msgspec.structs.replace(reply, blocks=tuple(blocks))


def test_the_recorded_form_goes_first(tmp_path: Path) -> None:
    path = tmp_path / "both.jsonl"
    inner = ScriptedTransport(whole_reply("whole"), stream_reply(STARTED, HELLO, STOP, DONE))
    record(path, inner, text_request())
    first = path.read_bytes()
    transport = RecordingTransport(inner, path)
    asyncio.run(collect_events(chat_engine(transport), stream_request()))
    path.write_bytes(first + path.read_bytes())
    engine = chat_engine(ReplayTransport(path))
    streamed = asyncio.run(collect_events(engine, stream_request()))
    assert "whole" not in str(streamed)
    assert "whole" in str(asyncio.run(collect_events(engine, stream_request())))


def test_a_reply_that_cannot_be_converted_is_a_miss(tmp_path: Path) -> None:
    path = tmp_path / "broken.jsonl"
    record(path, ScriptedTransport(whole_reply()), text_request())
    path.write_bytes(path.read_bytes().replace(b'"body":"{', b'"body":"<'))
    with pytest.raises(ReplayMiss, match="was recorded whole, and cannot be converted"):
        asyncio.run(collect_events(chat_engine(ReplayTransport(path)), stream_request()))


def test_a_recording_is_a_plain_file(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    transport = RecordingTransport(ScriptedTransport(stream_reply(STARTED, HELLO, STOP, DONE)), path)
    assert asyncio.run(collect_events(chat_engine(transport), stream_request("Grüße")))
    (line,) = path.read_bytes().splitlines()
    doc = loads_object(line)
    assert {*doc} == {"request", "answer"}
    assert (doc["request"]["method"], doc["request"]["path"]) == ("POST", "/v1/chat/completions")
    assert doc["request"]["body"]["messages"][0]["content"] == "Grüße"
    assert doc["answer"]["status"] == 200
    assert doc["answer"]["headers"] == {"content-type": "text/event-stream"}
    assert doc["answer"]["body"] == (STARTED + HELLO + STOP + DONE).decode()


def record(path: Path, inner: Transport, *requests: Request, **options: Any) -> None:
    async def main() -> None:
        engine = chat_engine(RecordingTransport(inner, path), **options)
        for request in requests:
            with suppress(ToolglotError):
                await engine.ask(request)

    asyncio.run(main())


def replay(path: Path, *requests: Request, **options: Any) -> list[str]:
    async def main() -> list[str]:
        engine = chat_engine(ReplayTransport(path), **options)
        return [(await engine.ask(request)).reply.text for request in requests]

    return asyncio.run(main())


def test_failures_are_recorded_with_the_headers_that_the_engine_reads(tmp_path: Path) -> None:
    path = tmp_path / "busy.jsonl"
    read, other = {"retry-after": "0", "x-should-retry": "true"}, {"x-request-id": "r1", "set-cookie": "s=1"}
    busy = error_reply(429, "slow", headers={**read, **other})
    record(path, ScriptedTransport(busy, whole_reply()), text_request())
    first = loads_object(path.read_bytes().splitlines()[0])
    assert first["answer"]["status"] == 429
    assert first["answer"]["headers"] == {**JSON, **read}

    async def main() -> int:
        return (await chat_engine(ReplayTransport(path)).ask(text_request())).retries

    assert asyncio.run(main()) == 1


def test_an_error_inside_a_200_is_recorded_too(tmp_path: Path) -> None:
    """The engine stops reading there, and yet it is what the provider answered."""
    path = tmp_path / "error.jsonl"
    broken = stream_reply(
        STARTED, b'data: {"error": {"message": "busy", "code": "server_is_overloaded"}}\n\n', DONE
    )

    async def main(transport: Transport) -> list[str]:
        session = chat_engine(transport).new_state()
        return [
            type(event).__name__
            async for batch in session.stream_batches(stream_request())
            for event in batch
        ]

    recorded = asyncio.run(
        main(RecordingTransport(ScriptedTransport(broken, stream_reply(STARTED, HELLO, STOP, DONE)), path))
    )
    assert recorded[0] == "Retrying"
    assert len(path.read_bytes().splitlines()) == 2
    assert asyncio.run(main(ReplayTransport(path))) == recorded


def test_an_incomplete_response_is_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "lost.jsonl"
    record(
        path,
        ScriptedTransport(ScriptedReply((b'{"id"', ConnectionLost("reset"))), whole_reply()),
        text_request(),
    )
    (line,) = path.read_bytes().splitlines()
    assert loads_object(line)["answer"]["status"] == 200


def test_a_new_recording_starts_empty(tmp_path: Path) -> None:
    path = tmp_path / "again.jsonl"
    record(path, ScriptedTransport(whole_reply("one")), text_request())
    record(path, ScriptedTransport(whole_reply("two")), text_request())
    assert replay(path, text_request()) == ["two"]


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_a_recording_is_private(tmp_path: Path) -> None:
    previous = os.umask(0o022)
    try:
        RecordingTransport(SimulatedTransport(), tmp_path / "new.jsonl")
    finally:
        os.umask(previous)
    assert (tmp_path / "new.jsonl").stat().st_mode & 0o777 == 0o600


def test_equal_requests_are_answered_in_order(tmp_path: Path) -> None:
    path = tmp_path / "order.jsonl"
    replies = [whole_reply(text) for text in ("one", "two", "three")]
    record(path, ScriptedTransport(*replies), text_request(), text_request("Other"), text_request())
    assert replay(path, text_request(), text_request(), text_request("Other")) == ["one", "three", "two"]


def test_several_files(tmp_path: Path) -> None:
    record(tmp_path / "a.jsonl", ScriptedTransport(whole_reply("one")), text_request("One"))
    record(tmp_path / "b.jsonl", ScriptedTransport(whole_reply("two")), text_request("Two"))
    both = ReplayTransport(tmp_path / "b.jsonl", str(tmp_path / "a.jsonl"))

    async def main() -> list[str]:
        engine = chat_engine(both)
        return [(await engine.ask(text_request(text))).reply.text for text in ("One", "Two")]

    assert asyncio.run(main()) == ["one", "two"]
    assert both.remaining_count == 0


async def test_many_at_once_give_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    engine = chat_engine(
        RecordingTransport(ScriptedTransport(*[whole_reply(f"{n} " + "x" * 5000) for n in range(30)]), path)
    )
    await asyncio.gather(*(engine.ask(text_request(f"number {number}")) for number in range(30)))
    assert ReplayTransport(path).remaining_count == 30


async def test_cancelling_closes_what_is_recorded(tmp_path: Path) -> None:
    inner = ScriptedTransport(stream_reply(STARTED, HELLO, HangForever()))
    task = asyncio.create_task(
        chat_engine(RecordingTransport(inner, tmp_path / "x.jsonl")).ask(text_request())
    )
    await inner.waiting.wait()
    await cancel(task)
    assert inner.all_closed
    assert (tmp_path / "x.jsonl").read_bytes() == b""


async def test_close_closes_the_inner_transport(tmp_path: Path) -> None:
    class Bare:
        async def send(self, request: HttpRequest) -> Any:
            raise NotImplementedError

    inner = ScriptedTransport()
    await RecordingTransport(inner, tmp_path / "x.jsonl").close()
    assert inner.closed == 1
    await RecordingTransport(Bare(), tmp_path / "x.jsonl").close()


def test_a_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(ToolglotError, match="nowhere"):
        RecordingTransport(ScriptedTransport(), tmp_path / "nowhere" / "x.jsonl")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit of the operating system")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_recording_that_cannot_be_written_costs_nothing_but_itself(
    tmp_path: Path, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The reply is there and paid for: no request is repeated, and what was recorded before can be replayed."""
    path = tmp_path / "full.jsonl"
    parts = (STARTED, HELLO, WORLD, STOP, DONE)
    inner = ScriptedTransport(*(stream_reply(*parts) if stream else whole_reply() for _ in range(4)))
    engine = chat_engine(RecordingTransport(inner, path))

    async def ask(text: str) -> str:
        request = text_request(text)
        if not stream:
            return (await engine.ask(request)).reply.text
        events = await collect_events(engine, replace(request, stream=True))
        assert not any(isinstance(event, Retrying) for event in events)
        return events[-1].reply.text

    replies = [await ask("One")]
    with limit_file_size(path.stat().st_size + 100):  # the next exchange stops in the middle
        replies += [await ask("Two"), await ask("Three")]
    replies.append(await ask("Four"))
    assert replies == ["Hello world"] * 4
    assert len(inner.requests) == 4
    (record,) = caplog.records
    assert record.getMessage() == (
        f"the recording {str(path)!r} cannot be written: File too large; the run continues, but nothing more "
        "is recorded"
    )
    assert ReplayTransport(path).remaining_count == 1


# ---- bodies


@pytest.mark.parametrize(
    "data", [b"", *map(str.encode, ("\ufeff{}", "a\rb\r\nc\x0b\x1c\x85", "Zürich ☂")), b"\xff\x00\r\n"]
)
def test_bodies_of_any_bytes(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bodies.jsonl"

    async def fetch(transport: Transport) -> bytes:
        answer = await transport.send(HttpRequest("http://h/p?q=1", {}, b"\xff\x00ask"))
        data = b"".join([piece async for piece in read_pieces(answer)])
        await answer.close()
        await answer.close()
        return data

    assert (
        asyncio.run(
            fetch(RecordingTransport(ScriptedTransport(ScriptedReply((data,) if data else ())), path))
        )
        == data
    )
    assert len(path.read_bytes().splitlines()) == 1
    assert asyncio.run(fetch(ReplayTransport(path))) == data


async def read_pieces(answer: HttpResponse) -> AsyncGenerator[bytes]:
    while piece := await answer.read():
        yield piece


# ---- misses


def miss(path: Path, request: Request, **options: Any) -> str:
    with pytest.raises(ReplayMiss) as caught:
        replay(path, request, **options)
    return str(caught.value)


LONG = "x" * 500
MISSES: dict[str, tuple[list[Request], Request, list[str]]] = {
    "the nearest": (
        [text_request("What is the weather?"), text_request("Tell me a joke", tools=(WEATHER,))],
        text_request("Tell me a story", tools=(WEATHER,)),
        ["POST /v1/chat/completions", "body.messages[0].content", '"Tell me a joke"', '"Tell me a story"'],
    ),
    "something new": (
        [text_request(messages=[user("One")])],
        text_request(messages=[user("One"), user("Two")]),
        ["body.messages[1]", "recorded nothing"],
    ),
    "something missing": (
        [text_request("One", tools=(WEATHER,))],
        text_request("One"),
        ["body.tools", "sent nothing"],
    ),
    "several differences": (
        [text_request("One")],
        text_request("Two", extras={"openai-chat": {"user": "u"}}),
        ["body.messages[0].content", "(and 1 more)"],
    ),
    "the end of a long text": (
        [text_request(f"{LONG} at noon")],
        text_request(f"{LONG} at night"),
        ["noon", "night"],
    ),
    **{
        f"{recorded} is not {sent}": (
            [text_request(extras={"openai-chat": {"flag": recorded}})],
            text_request(extras={"openai-chat": {"flag": sent}}),
            ["body.flag"],
        )
        for recorded, sent in ((True, 1), (1, True), (False, 0), (1, 1.5))
    },
}


@pytest.mark.parametrize("case", MISSES)
def test_a_miss_names_the_nearest_recording_and_the_first_difference(case: str, tmp_path: Path) -> None:
    recorded, sent, words = MISSES[case]
    path = tmp_path / "miss.jsonl"
    record(path, ScriptedTransport(*[whole_reply() for _ in recorded]), *recorded)
    message = miss(path, sent)
    assert [word for word in words if word not in message] == []
    assert len(message) < 600


def test_a_miss_by_the_path(tmp_path: Path) -> None:
    path = tmp_path / "miss.jsonl"
    record(path, ScriptedTransport(whole_reply()), text_request("One"))
    message = miss(path, text_request("One"), base_url="https://other.example/v2")
    assert "differs at path" in message
    assert "/v2/chat/completions" in message


@pytest.mark.parametrize(("recorded", "words"), [
    (["One"], r"nothing is recorded .* all 1 .*used"),
    (["One", "Two"], "sent once too often"),
])  # fmt: skip
def test_the_same_request_once_too_often(recorded: list[str], words: str, tmp_path: Path) -> None:
    path = tmp_path / "used.jsonl"
    record(path, ScriptedTransport(*[whole_reply() for _ in recorded]), *map(text_request, recorded))
    with pytest.raises(ReplayMiss, match=words):
        replay(path, text_request("One"), text_request("One"))


async def test_an_empty_file_has_nothing_and_is_not_retried(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_bytes(b"")
    with pytest.raises(ReplayMiss, match=r"^nothing is recorded for POST /v1/chat/completions$"):
        await anext(chat_engine(ReplayTransport(path)).stream(stream_request()))


# ---- broken files

GOOD: dict[str, Any] = {
    "request": {"method": "POST", "path": "/p", "body": {}},
    "answer": {"status": 200, "headers": {}, "body": ""},
}


def alter_record(part: str, **fields: Any) -> bytes:
    return dumps(
        {**GOOD, part: {key: value for key, value in {**GOOD[part], **fields}.items() if value is not ...}}
    )


BROKEN = {
    "half": dumps(GOOD)[:-5],
    "text": b"hello",
    "list": b"[]",
    "empty object": b"{}",
    "no answer": dumps({"request": GOOD["request"]}),
    "answer is text": dumps({**GOOD, "answer": "x"}),
    "no status": alter_record("answer", status=...),
    "status is text": alter_record("answer", status="200"),
    "headers are a list": alter_record("answer", headers=[]),
    "a header is a number": alter_record("answer", headers={"retry-after": 3}),
    "body is a number": alter_record("answer", body=3),
    "no body at all": alter_record("answer", body=...),
    "base64 is not": alter_record("answer", base64="***a"),
    "path is a number": alter_record("request", path=3),
    "not UTF-8": b"\xff\xfe",
}


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN)
def test_broken_files_are_named_with_the_line(line: bytes, tmp_path: Path) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_bytes(dumps(GOOD) + b"\n" + line + b"\n" + dumps(GOOD) + b"\n")
    with pytest.raises(MalformedData, match=r"broken\.jsonl.*line 2"):
        ReplayTransport(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(MalformedData, match="nowhere"):
        ReplayTransport(tmp_path / "nowhere.jsonl")
    with pytest.raises(MalformedData):
        ReplayTransport(tmp_path)


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\n\n"])
def test_line_ends_do_not_matter(end: bytes, tmp_path: Path) -> None:
    """People keep and edit such files."""
    path = tmp_path / "ends.jsonl"
    path.write_bytes(dumps(GOOD) + (end or b"\n") + dumps(GOOD) + end)
    assert ReplayTransport(path).remaining_count == 2


# ---- keys

ECHO: dict[str, Callable[[], ScriptedReply]] = {
    "in a refusal": lambda: error_reply(401, f"Incorrect API key provided: {KEY}."),
    "in an answer": lambda: whole_reply(f"your key is {KEY}"),
    "in a stream": lambda: stream_reply(STARTED, chunk({"content": KEY}), STOP, DONE),
    "in bytes that are no text": lambda: ScriptedReply((b"\xff\xfe" + KEY.encode() + b"\xff",), 400),
    "in a header": lambda: error_reply(429, "slow", headers={"retry-after": "0", "x-echo": KEY}),
}


def clean(path: Path, key: str = KEY) -> bool:
    data = path.read_bytes()
    assert data
    packed = [loads_object(line)["answer"].get("base64", "") for line in data.splitlines()]
    return key.encode() not in data and all(key.encode() not in b64decode(text) for text in packed)


@pytest.mark.parametrize("case", ECHO)
@pytest.mark.parametrize("model", ["openai-chat:m", "anthropic:m", "gemini:m", "azure-chat:m", "vllm:m"])
def test_no_key_in_a_recording(case: str, model: str, tmp_path: Path) -> None:
    path = tmp_path / "keys.jsonl"
    arguments: dict[str, Any] = {"resource": "res"} if "azure" in model else {}
    record(
        path,
        ScriptedTransport(*[ECHO[case]() for _ in range(3)]),
        text_request(f"my key is {KEY}"),
        model=model,
        **arguments,
    )
    assert clean(path)


@pytest.mark.parametrize(
    "name",
    ["Authorization", "X-API-Key", "x-goog-api-key", "Proxy-Authorization", "x-my-secret-key", "cookie"],
)
def test_no_key_of_the_users_headers(name: str, tmp_path: Path) -> None:
    secret = "users-own-secret-5d1"
    path = tmp_path / "keys.jsonl"
    value = f"Bearer {secret}" if "uthorization" in name else secret
    record(
        path, ScriptedTransport(error_reply(401, f"wrong: {secret}")), text_request(), headers={name: value}
    )
    assert clean(path, secret)


@pytest.mark.parametrize("query", [f"key={KEY}", "key=AIza" + "SyA1234567890abcdefghijklmnopqrstu"])
async def test_no_key_of_the_url(query: str, tmp_path: Path) -> None:
    path = tmp_path / "keys.jsonl"
    answer = await RecordingTransport(ScriptedTransport(whole_reply()), path).send(
        HttpRequest(f"https://h/p?{query}", {"authorization": f"Bearer {KEY}"}, b"{}")
    )
    while await answer.read():
        pass
    assert clean(path, query.partition("=")[2])


def test_keys_are_redacted_when_requests_are_compared(tmp_path: Path) -> None:
    path = tmp_path / "keys.jsonl"
    request = text_request(f"my key is {KEY}, and sk-abcdefgh12345678")
    record(path, ScriptedTransport(whole_reply(f'so "{KEY}" is it')), request)
    assert replay(path, request) == ['so "[hidden]" is it']


@pytest.mark.usefixtures("nobody_signed_in")
@pytest.mark.parametrize(
    "model", ["anthropic:claude-sonnet-4-5", "openai-chat:gpt-4o", "gemini:gemini-3-pro-preview"]
)
def test_a_replay_needs_no_key(model: str, tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    simulated = create_engine(model, transport=RecordingTransport(SimulatedTransport(), path), key=KEY)
    recorded = asyncio.run(simulated.ask(text_request("say hello"))).reply
    replayed = asyncio.run(
        create_engine(model, transport=ReplayTransport(path)).ask(text_request("say hello"))
    ).reply
    assert replayed.text == recorded.text == "hello"
