"""Calls that a local server left in the text, through a whole run: they are called, and go back as calls."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from toolglot import Agent, ToolChoice, ToolConfig, create_engine, tool
from toolglot.common.jsontext import dumps, loads_object
from toolglot.engine.transport import HttpRequest, HttpResponse
from toolglot.providers.catalog import PROFILES
from toolglot.values.events import RunDone, TextDelta, ToolStarted

QWEN = "<tool_call>\n<function=add>\n<parameter=a>\n2\n</parameter>\n<parameter=b>\n3\n</parameter>\n</function>\n</tool_call>"
LOCAL = ("compatible", "llama.cpp", "lmstudio", "vllm", "ollama")


@tool
def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


class _Response:
    status = 200

    def __init__(self, pieces: list[bytes], content_type: str) -> None:
        self.headers = {"content-type": content_type}
        self._pieces = iter(pieces)

    async def read(self) -> bytes:
        return next(self._pieces, b"")

    async def close(self) -> None:
        pass


class LeakyServer:
    """A server that sends what the model writes as text, one character at a time or whole."""

    def __init__(self, *replies: str) -> None:
        self._replies = list(replies)
        self.bodies: list[dict[str, Any]] = []

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.bodies.append(loads_object(request.body))
        text = self._replies.pop(0)
        if request.url.endswith("/api/chat"):
            docs = [
                {"model": "m", "message": {"role": "assistant", "content": piece}, "done": False}
                for piece in text
            ]
            done = {
                "model": "m",
                "message": {"role": "assistant", "content": ""},
                "done": True,
                "done_reason": "stop",
            }
            if not request.stream:
                docs, done["message"] = [], {"role": "assistant", "content": text}
            return _Response([dumps(doc) + b"\n" for doc in (*docs, done)], "application/x-ndjson")
        if not request.stream:
            message = {"role": "assistant", "content": text}
            return _Response(
                [
                    dumps(
                        {"id": "x", "model": "m", "choices": [{"message": message, "finish_reason": "stop"}]}
                    )
                ],
                "",
            )
        deltas: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in text
        ]
        end: dict[str, Any] = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        pieces = [b"data: " + dumps({"id": "x", "model": "m", **doc}) + b"\n\n" for doc in (*deltas, end)]
        return _Response(pieces, "text/event-stream")


def agent(provider: str, server: LeakyServer, **options: Any) -> Agent:
    engine = create_engine(
        f"{provider}:m", base_url="http://127.0.0.1:9", key="any", transport=server, **options
    )
    return Agent(engine, tools=[add])


@pytest.mark.parametrize("provider", LOCAL)
@pytest.mark.parametrize("streaming", [True, False])
async def test_a_leaked_call_is_called_and_goes_back_as_a_call(provider: str, streaming: bool) -> None:
    server = LeakyServer(f"Let me add.\n{QWEN}", "It is 5.")
    events = [event async for event in _events(agent(provider, server), streaming)]
    result = next(event.result for event in events if isinstance(event, RunDone))
    assert result.text == "It is 5."
    assert [
        (outcome.call.name, outcome.call.arguments, outcome.result.text) for outcome in result.outcomes
    ] == [("add", {"a": 2, "b": 3}, "5")]
    assert [repair.subject for repair in result.repairs if repair.where == "reply"] == ["tool call 'add'"]
    assert sum(isinstance(event, ToolStarted) for event in events) == streaming
    assert "<tool_call>" not in "".join(event.text for event in events if isinstance(event, TextDelta))
    call, answer = server.bodies[1]["messages"][-2:]
    assert call["content"] == "Let me add.\n"
    assert call["tool_calls"][0]["function"]["name"] == "add"
    assert (answer["role"], answer["content"]) == ("tool", "5")


async def _events(agent: Agent, streaming: bool) -> AsyncIterator[Any]:
    if streaming:
        async for event in agent.stream("2 + 3?"):
            yield event
    else:
        yield RunDone(await agent.run("2 + 3?"))


async def test_it_can_be_switched_off_and_on() -> None:
    assert {id for id, profile in PROFILES.items() if profile.text_calls} == set(LOCAL)
    for provider, text_calls, calls in (("vllm", False, 0), ("mistral", None, 0), ("mistral", True, 1)):
        server = LeakyServer(QWEN, "Done.")
        result = await agent(provider, server, text_calls=text_calls).run("Add.")
        assert len(result.outcomes) == calls
        assert (result.text == QWEN) is (not calls)


async def test_text_stays_text_where_no_call_is_wanted() -> None:
    for tools, choice in (([], None), ([add], ToolChoice("none"))):
        engine = create_engine("vllm:m", transport=LeakyServer(QWEN))
        result = await Agent(engine, tools=tools, config=ToolConfig(tool_choice=choice)).run("Add.")
        assert (result.text, result.outcomes) == (QWEN, ())
