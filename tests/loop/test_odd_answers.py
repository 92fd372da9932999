"""Answers of odd servers over real HTTP, as a user meets them: the run goes on, and the conversation stays
usable.
"""

import asyncio
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from toolglot import (
    Agent,
    Conversation,
    HttpRequest,
    HttpResponse,
    HttpTransport,
    InvalidRequest,
    Reply,
    ReplyTooLarge,
    RetryConfig,
    RunDone,
    RunResult,
    SimulatedTransport,
    Simulator,
    Text,
    Tool,
    ToolCall,
    ToolCallReady,
    ToolFinished,
    create_engine,
    load,
    save,
    tool,
)
from toolglot.engine.factory import default_transport
from toolglot.wire.codec import load_reply_encoder
from toolglot.wire.reply_encoding import split_reply
from toolglot.wire.spec import WIRES

from .agents import MODELS

Doc = dict[str, Any]
Answer = Doc | list[Doc] | bytes | Iterator[bytes]
Serve = Callable[..., str]
NAMES = dict(zip(WIRES, (f"{provider}:{model}" for provider, model in MODELS.items()), strict=True))
EVERY_WIRE = pytest.mark.parametrize("wire", WIRES)
LIVE = pytest.mark.parametrize("live", [False, True], ids=["run", "stream"])
AT_ONCE = RetryConfig(base=0.0)


def respond(body: bytes, content_type: str = "text/event-stream", status: str = "200 OK") -> bytes:
    """A whole response; the connection is closed after it."""
    return f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nConnection: close\r\n\r\n".encode() + body


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves these answers, one for each request; the last one again and again.

    A list is a stream, bytes are a response.
    """
    servers: list[ThreadingHTTPServer] = []

    def start(*answers: Answer) -> str:
        waiting = list(answers)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
                self.close_connection = True
                if isinstance(answer, list):
                    answer = respond("".join(f"data: {json.dumps(doc)}\n\n" for doc in answer).encode())
                elif isinstance(answer, dict):
                    answer = respond(json.dumps(answer).encode(), "application/json")
                with suppress(ConnectionError):  # the client leaves when it has had enough
                    for piece in [answer] if isinstance(answer, bytes) else answer:
                        self.wfile.write(piece)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def stream_of(wire: str, *blocks: Text | ToolCall) -> bytes:
    """An ordinary stream of a reply."""
    encoder = load_reply_encoder(wire)("m")
    reply = Reply(blocks, "tools" if isinstance(blocks[-1], ToolCall) else "end")
    return b"".join(encoder.feed(event) for event in split_reply(reply))


def answer(wire: str, text: str, *, live: bool) -> Answer:
    if live:
        return respond(
            stream_of(wire, Text(text)),
            "application/x-ndjson" if wire == "ollama-chat" else "text/event-stream",
        )
    return load_reply_encoder(wire)("m").encode_reply(Reply((Text(text),), "end"))


async def ask(agent: Agent[Any, Any], prompt: str, *, live: bool) -> RunResult[Any]:
    if not live:
        return await agent.run(prompt)
    return [event async for event in agent.stream(prompt) if isinstance(event, RunDone)][-1].result


def message(text: str | None) -> Doc:
    part = {"type": "output_text", "text": text}
    return {
        "id": "r",
        "model": "gpt-5",
        "status": "completed",
        "output": [{"type": "message", "content": [part]}],
    }


def test_null_as_text_leaves_a_conversation_that_can_be_saved_and_continued(serve: Serve) -> None:
    with Agent("openai-responses:gpt-5", base_url=serve(message(None), message("hi")), key="any") as agent:
        conversation = Conversation()
        assert agent.run_sync("q", conversation=conversation).text == ""
        loaded, _ = load(save(conversation))
        assert agent.run_sync("again", conversation=loaded).text == "hi"


@EVERY_WIRE
@LIVE
async def test_a_status_without_a_body_is_retried_and_frees_its_connection(
    serve: Serve, wire: str, live: bool
) -> None:
    empty, fine = respond(b"", status="204 No Content"), answer(wire, "hi", live=live)
    transport = HttpTransport(max_connections=1)
    async with Agent(
        NAMES[wire], base_url=serve(empty, fine), key="any", transport=transport, retry=AT_ONCE
    ) as agent:
        assert (await ask(agent, "q", live=live)).text == "hi"
        assert (await ask(agent, "again", live=live)).text == "hi"
    await transport.close()


@LIVE
async def test_a_fallback_may_be_the_same_model_at_another_address(serve: Serve, live: bool) -> None:
    name, empty = NAMES["openai-chat"], respond(b"", status="204 No Content")
    other = create_engine(name, base_url=serve(answer("openai-chat", "hi", live=live)), key="any")
    async with Agent(name, base_url=serve(empty), key="any", retry=AT_ONCE, fallbacks=[other]) as agent:
        assert (await ask(agent, "q", live=live)).text == "hi"
        assert agent.view().engine is other
    await other.close()


ODD_MEDIA: dict[str, Doc] = {
    "gemini": {"candidates": [{"content": {"parts": [{"inlineData": {"data": 5}}]}, "finishReason": "STOP"}]},
    "ollama-chat": {
        "model": "m",
        "message": {"role": "assistant", "content": "", "images": [1]},
        "done": True,
    },
}


@pytest.mark.parametrize("wire", ODD_MEDIA)
@LIVE
async def test_media_of_a_wrong_type_is_retried_and_then_left_to_the_fallback(
    serve: Serve, wire: str, live: bool
) -> None:
    odd, fine = ODD_MEDIA[wire], answer(wire, "hi", live=live)
    async with Agent(NAMES[wire], base_url=serve(odd, fine), key="any", retry=AT_ONCE) as agent:
        assert (await ask(agent, "q", live=live)).text == "hi"
    other = create_engine(
        NAMES["openai-chat"], base_url=serve(answer("openai-chat", "hi", live=live)), key="any"
    )
    async with Agent(NAMES[wire], base_url=serve(odd), key="any", retry=AT_ONCE, fallbacks=[other]) as agent:
        assert (await ask(agent, "q", live=live)).text == "hi"
        assert agent.view().engine is other
    await other.close()


def respond_for_ever(status: str, *, packed: bool) -> Iterator[bytes]:
    encoder = zlib.compressobj(wbits=31)
    yield respond(b"", "application/json", status).replace(
        b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n" if packed else b"\r\n\r\n"
    )
    while True:
        yield encoder.compress(b" " * 100_000) if packed else b"x" * 65536


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("status", "error"), [("200 OK", ReplyTooLarge), ("400 Bad Request", InvalidRequest)]
)
@LIVE
async def test_no_body_is_read_without_a_bound(
    serve: Serve,
    live: bool,
    status: str,
    error: type[Exception],
    packed: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("toolglot.engine.engine._MAX_REPLY_BYTES", 1024**2)
    base_url = serve(respond_for_ever(status, packed=packed))
    async with Agent(NAMES["openai-chat"], base_url=base_url, key="any") as agent:
        with pytest.raises(error):
            await ask(agent, "q", live=live)


def noting(ran: list[int]) -> Tool:
    @tool
    def note(number: int) -> str:
        """Note a number."""
        ran.append(number)
        return "noted"

    return note


@EVERY_WIRE
@pytest.mark.parametrize(
    "tail", [None, b"<html>", b"data: <html>\n\n", b'data: {"choices": [], "usa', b"data: [1,2]\n\n"]
)
async def test_what_follows_the_end_of_a_stream_does_nothing(
    serve: Serve, wire: str, tail: bytes | None
) -> None:
    body, ran = stream_of(wire, ToolCall("c1", "note", {"number": 1})), list[int]()
    base_url = serve(respond(body + (body if tail is None else tail)), answer(wire, "done", live=True))
    async with Agent(NAMES[wire], tools=[noting(ran)], base_url=base_url, key="any") as agent:
        assert (await ask(agent, "q", live=True)).text == "done"
    assert ran == [1]


@EVERY_WIRE
@pytest.mark.parametrize("content_type", ["text/event-stream", "application/json", "application/x-ndjson"])
async def test_a_stream_that_was_not_requested_is_read(serve: Serve, wire: str, content_type: str) -> None:
    ran: list[int] = []
    body = stream_of(wire, Text("a"), ToolCall("c1", "note", {"number": 1}))
    base_url = serve(respond(body, content_type), answer(wire, "done", live=False))
    async with Agent(NAMES[wire], tools=[noting(ran)], base_url=base_url, key="any") as agent:
        assert (await agent.run("q")).text == "done"
    assert ran == [1]


def test_halves_of_a_character_are_joined(serve: Serve) -> None:
    chunks: list[Doc] = [
        {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": "a\ud83d"}}]},
        {
            "id": "c",
            "model": "m",
            "choices": [{"index": 0, "delta": {"content": "\ude00"}, "finish_reason": "stop"}],
        },
    ]
    with Agent("openai-chat:gpt-4o", base_url=serve(chunks), key="any") as agent:
        assert agent.run_sync("q").text == "a😀"


@LIVE
async def test_a_stream_of_two_generations_is_retried(serve: Serve, live: bool) -> None:
    body, ran = stream_of("anthropic-messages", ToolCall("toolu_1", "note", {"number": 1})), list[int]()
    spliced = body[: body.index(b"event: content_block_stop")] + body
    base_url = serve(respond(spliced), answer("anthropic-messages", "done", live=live))
    name = NAMES["anthropic-messages"]
    async with Agent(name, tools=[noting(ran)], base_url=base_url, key="any", retry=AT_ONCE) as agent:
        assert (await ask(agent, "q", live=live)).text == "done"
    assert ran == []


def candidate(part: Doc, reason: str) -> Doc:
    content = {"role": "model", "parts": [part]}
    return {
        "candidates": [{"content": content, "finishReason": reason}],
        "modelVersion": "gemini-2.5-flash",
        "responseId": "g",
    }


@pytest.mark.parametrize("name", ["gemini:gemini-2.5-flash", "vertex:gemini-2.5-flash"])
@LIVE
async def test_calls_run_whatever_word_gemini_ends_with(serve: Serve, name: str, live: bool) -> None:
    ran: list[int] = []
    docs = (
        candidate({"functionCall": {"name": "note", "args": {"number": 1}}}, "FUNCTION_CALL"),
        candidate({"text": "Noted."}, "STOP"),
    )
    options: Doc = {"project": "p", "location": "l"} if name.startswith("vertex") else {}
    base_url = serve(*([doc] if live else doc for doc in docs))
    async with Agent(name, tools=[noting(ran)], base_url=base_url, key="any", **options) as agent:
        assert (await ask(agent, "q", live=live)).text == "Noted."
    assert ran == [1]


async def test_a_conversation_of_a_local_server_continues_at_openai(serve: Serve) -> None:
    """Its ids are of another form, and its reasoning is not known there."""
    ran: list[int] = []
    call = {
        "type": "function_call",
        "id": "call_1",
        "call_id": "c1",
        "name": "note",
        "arguments": '{"number": 1}',
    }
    items: list[Doc] = [{"type": "reasoning", "id": "item_1", "summary": []}, call]
    base_url = serve({"id": "r", "model": "gpt-5", "status": "completed", "output": items}, message("noted"))
    async with Agent("openai-responses:gpt-5", tools=[noting(ran)], base_url=base_url, key="any") as agent:
        await agent.run("q")
        loaded, _ = load(save(agent.conversation))
    official = SimulatedTransport(Simulator())
    agent = Agent(
        "openai-responses:gpt-5", transport=official, key="any", tools=[noting(ran)], conversation=loaded
    )
    result = await agent.run("say hello")
    assert (ran, result.text) == ([1], "hello")
    assert "reasoning_echo" in {repair.subject for repair in result.repairs}


_CALL = {"function": {"name": "look", "arguments": {"x": 1}}}
_GEMINI_CALL = {
    "content": {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"x": 1}}}]},
    "finishReason": "STOP",
}
_CHAT_CALL = {"function": {"name": "look", "arguments": '{"x": 1}'}}
WITHOUT_IDS: dict[str, tuple[Doc, Doc]] = {
    "ollama:qwen3": (
        {
            "model": "qwen3",
            "message": {"role": "assistant", "content": "", "tool_calls": [_CALL, _CALL]},
            "done": True,
        },
        {"model": "qwen3", "message": {"role": "assistant", "content": "done"}, "done": True},
    ),
    "gemini:gemini-2.5-pro": (
        {"candidates": [_GEMINI_CALL]},
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "done"}]}, "finishReason": "STOP"}]},
    ),
    "openai-chat:qwen3": (
        {"choices": [{"message": {"tool_calls": [_CHAT_CALL]}, "finish_reason": "tool_calls"}]},
        {"choices": [{"message": {"content": "done"}, "finish_reason": "stop"}]},
    ),
}


@pytest.mark.parametrize("live", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("model", WITHOUT_IDS)
def test_equal_calls_without_ids_get_different_ones_in_every_turn(
    serve: Serve, model: str, live: bool
) -> None:
    @tool(polls=True)
    def look(x: int) -> str:
        """Looks."""
        return "ok"

    call, end = WITHOUT_IDS[model]
    seen: list[str] = []
    for _ in range(2):  # the same answers give the same ids
        agent = Agent(model, base_url=serve(call, call, end, call, end), key="any", tools=[look])
        ids: list[str] = []
        for prompt in ("a", "b"):
            if live:
                with asyncio.Runner() as runner:
                    runner.run(_read_ids(agent, prompt, ids))
            else:
                ids += [outcome.call.id for outcome in agent.run_sync(prompt).outcomes]
        agent.close()
        assert len(ids) == len(set(ids)) >= 3
        seen = seen or ids
        assert ids == seen


async def _read_ids(agent: Agent, prompt: str, ids: list[str]) -> None:
    """The ids of the calls, as their events have them from the start."""
    async with agent:
        async for event in agent.stream(prompt):
            if isinstance(event, ToolCallReady):
                ids.append(event.call.id)
            elif isinstance(event, ToolFinished):
                assert event.outcome.call.id in ids


class Wiretap:
    """Keeps the body of every request."""

    def __init__(self) -> None:
        self.inner, self.bodies = default_transport(), list[Doc]()

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.bodies.append(json.loads(request.body))
        return await self.inner.send(request)


_CUT_CALL = {"id": "c", "function": {"name": "look", "arguments": '{"x'}}
CUT_OFF: dict[str, tuple[Doc, Doc]] = {
    "llama.cpp:m": (
        {
            "choices": [
                {"message": {"role": "assistant", "tool_calls": [_CUT_CALL]}, "finish_reason": "length"}
            ]
        },
        {"choices": [{"message": {"role": "assistant", "content": "done"}, "finish_reason": "stop"}]},
    ),
    "openai-responses:m": (
        {
            "status": "completed",
            "output": [{"type": "function_call", "call_id": "c", "name": "look", "arguments": '{"x'}],
        },
        {
            "status": "completed",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "done"}]}],
        },
    ),
}


@pytest.mark.parametrize("model", CUT_OFF)
def test_a_call_that_was_cut_off_goes_back_as_json(serve: Serve, model: str) -> None:
    """llama.cpp refuses arguments that are no JSON, even its own: the conversation could not go on."""

    @tool
    def look(x: int) -> str:
        """Look."""
        return str(x)

    wiretap = Wiretap()
    with Agent(model, base_url=serve(*CUT_OFF[model]), key="any", tools=[look], transport=wiretap) as agent:
        assert agent.run_sync("q").text == "done"
    body = wiretap.bodies[1]
    items = body.get("input") or [call["function"] for call in body["messages"][1]["tool_calls"]]
    [arguments] = [item["arguments"] for item in items if "arguments" in item]
    assert json.loads(arguments) == {"invalid_arguments": '{"x'}
