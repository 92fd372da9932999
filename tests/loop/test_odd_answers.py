"""Answers of odd servers over real HTTP, as a user meets them: the run goes on, and the conversation stays usable."""

import asyncio
import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from toolglot import Conversation, Orchestrator, ToolCallReady, ToolFinished, load, save, tool

Doc = dict[str, Any]
Serve = Callable[..., str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves these answers, one for each request; the last one again and again. A list is a stream."""
    servers: list[ThreadingHTTPServer] = []

    def start(*answers: Doc | list[Doc]) -> str:
        waiting = list(answers)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
                events = (
                    [f"data: {json.dumps(doc)}\n\n" for doc in answer] if isinstance(answer, list) else [json.dumps(answer)]
                )
                body = "".join(events).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream" if isinstance(answer, list) else "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

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


def message(text: str | None) -> Doc:
    part = {"type": "output_text", "text": text}
    return {"id": "r", "model": "gpt-5", "status": "completed", "output": [{"type": "message", "content": [part]}]}


def test_null_as_text_leaves_a_conversation_that_can_be_saved_and_continued(serve: Serve) -> None:
    with Orchestrator("openai-responses:gpt-5", base_url=serve(message(None), message("hi")), key="any") as agent:
        conversation = Conversation()
        assert agent.run_sync("q", conversation=conversation).text == ""
        loaded, _ = load(save(conversation))
        assert agent.run_sync("again", conversation=loaded).text == "hi"


def candidate(part: Doc, reason: str) -> Doc:
    content = {"role": "model", "parts": [part]}
    return {"candidates": [{"content": content, "finishReason": reason}], "modelVersion": "gemini-2.5-flash", "responseId": "g"}


def test_calls_run_whatever_word_gemini_ends_with(serve: Serve) -> None:
    cities: list[str] = []

    @tool
    def weather(city: str) -> str:
        """Tell the weather."""
        cities.append(city)
        return "sunny"

    call = candidate({"functionCall": {"name": "weather", "args": {"city": "Rome"}}}, "FUNCTION_CALL")
    base_url = serve(call, candidate({"text": "It is sunny."}, "STOP"))
    with Orchestrator("gemini:gemini-2.5-flash", tools=[weather], base_url=base_url, key="any") as agent:
        assert agent.run_sync("q").text == "It is sunny."
    assert cities == ["Rome"]


def test_a_stream_that_was_not_requested_is_read(serve: Serve) -> None:
    chunks: list[Doc] = [
        {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": "a\ud83d"}}]},
        {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": "\ude00"}, "finish_reason": "stop"}]},
    ]
    with Orchestrator("openai-chat:gpt-4o", base_url=serve(chunks), key="any") as agent:
        assert agent.run_sync("q").text == "a😀"


_CALL = {"function": {"name": "look", "arguments": {"x": 1}}}
_GEMINI_CALL = {
    "content": {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"x": 1}}}]},
    "finishReason": "STOP",
}
_CHAT_CALL = {"function": {"name": "look", "arguments": '{"x": 1}'}}
WITHOUT_IDS: dict[str, tuple[Doc, Doc]] = {
    "ollama:qwen3": (
        {"model": "qwen3", "message": {"role": "assistant", "content": "", "tool_calls": [_CALL, _CALL]}, "done": True},
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
def test_equal_calls_without_ids_get_different_ones_in_every_turn(serve: Serve, model: str, live: bool) -> None:
    @tool(polls=True)
    def look(x: int) -> str:
        """Looks."""
        return "ok"

    call, end = WITHOUT_IDS[model]
    seen: list[str] = []
    for _ in range(2):  # the same answers give the same ids
        agent = Orchestrator(model, base_url=serve(call, call, end, call, end), key="any", tools=[look])
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


async def _read_ids(agent: Orchestrator, prompt: str, ids: list[str]) -> None:
    """The ids of the calls, as their events have them from the start."""
    async with agent:
        async for event in agent.stream(prompt):
            if isinstance(event, ToolCallReady):
                ids.append(event.call.id)
            elif isinstance(event, ToolFinished):
                assert event.outcome.call.id in ids
