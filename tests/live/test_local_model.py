"""A real model on loopback, by `make test-local`: llama.cpp's server with SmolLM2, on the three API formats that it serves."""

import runpy
from pathlib import Path
from typing import Any

import pytest

from toolglot import (
    Conversation,
    Options,
    Orchestrator,
    Reply,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    tool_results,
    user,
)

pytest.importorskip("xllamacpp", reason="a real model: run make test-local")
EXAMPLE = runpy.run_path(str(Path(__file__).resolve().parents[2] / "examples" / "local_model.py"))
PATHS = {"openai-chat": "/v1", "openai-responses": "/v1", "anthropic": ""}


@pytest.fixture(scope="module")
def server() -> Any:
    return EXAMPLE["start_server"]()  # it serves for as long as it is referred to


@pytest.fixture
def address(server: Any) -> str:
    return server.listening_address


@pytest.fixture(params=PATHS)
def place(request: pytest.FixtureRequest, address: str) -> dict[str, Any]:
    base_url = address + PATHS[request.param]
    return {"model": f"{request.param}:smollm2", "base_url": base_url, "key": "none", "options": Options(max_tokens=24)}


def test_text(place: dict[str, Any]) -> None:
    with Orchestrator(**place) as agent:
        result = agent.run_sync("What is the capital of France?")
        assert "Paris" in result.text
        assert result.usage.input > 0 < result.usage.output


async def test_stream(place: dict[str, Any]) -> None:
    async with Orchestrator(**place) as agent:
        texts = [event.text async for event in agent.stream("What is the capital of France?") if isinstance(event, TextDelta)]
    assert len(texts) > 1
    assert "Paris" in "".join(texts)


def test_a_history_with_calls_and_a_tool_on_offer(place: dict[str, Any]) -> None:
    """The model is too small to be relied on for calls; the server accepts them, and the conversation stays valid."""
    call = ToolCall("call_000001", "get_weather", {"city": "Paris"})
    history = Conversation([user("What is the weather in Paris?"), Reply((Text("Let me look."), call), "tools").message])
    history.append(tool_results(ToolResult(call.id, (Text("Paris: 21 degrees"),), call.name)))
    with Orchestrator(**place, tools=[EXAMPLE["get_weather"]], conversation=history) as agent:
        assert agent.run_sync("How warm is Paris?").text
        assert agent.run_sync("Thank you.").text
        assert agent.conversation[-1].role == "assistant"


def test_structured_output(address: str) -> None:
    """Constrained by a grammar, on Chat Completions."""
    with Orchestrator(
        "openai-chat:smollm2",
        base_url=f"{address}/v1",
        key="none",
        output_type=EXAMPLE["Person"],
        options=Options(max_tokens=100),
    ) as agent:
        assert agent.run_sync("Mary is 31 years old.").output == EXAMPLE["Person"](name="Mary", age=31)
