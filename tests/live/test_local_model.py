"""A real model on loopback, by `make test-local`: llama.cpp's server with SmolLM2, on the three API formats
that it serves.
"""

import runpy
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from toolglot import (
    Agent,
    Hooks,
    MalformedReply,
    Options,
    Reply,
    ReplyDone,
    Request,
    RunLimits,
    TextDelta,
    ToolCallDelta,
    ToolChoice,
    ToolConfig,
    ToolExecutor,
    ToolFinished,
    ToolRegistry,
    assistant,
    create_engine,
    tool_results,
    user,
)

pytest.importorskip("xllamacpp", reason="a real model: run make test-local")
EXAMPLE = runpy.run_path(str(Path(__file__).resolve().parents[2] / "examples" / "local_model.py"))
GET_WEATHER, PERSON, PATHS = EXAMPLE["get_weather"], EXAMPLE["Person"], EXAMPLE["PATHS"]
FORCED = ToolConfig(tool_choice=ToolChoice("required"), parallel=False)
ONCE = RunLimits(max_iterations=1)
ABOUT_MARY = "My name is Mary and I am 31 years old. Who am I?"


@pytest.fixture(scope="module")
def server() -> Any:
    return EXAMPLE["start_server"]()  # it serves for as long as it is referred to


@pytest.fixture
def address(server: Any) -> str:
    return server.listening_address


@pytest.fixture(params=PATHS)
def place(request: pytest.FixtureRequest, address: str) -> dict[str, Any]:
    return {"model": f"{request.param}:smollm2", "base_url": address + PATHS[request.param], "key": "none"}


def test_text(place: dict[str, Any]) -> None:
    with Agent(**place, options=Options(max_tokens=24)) as agent:
        result = agent.run_sync("Tell me about Paris in one sentence.")
        assert "Eiffel Tower" in result.text
        assert result.usage.input > 0 < result.usage.output


async def test_stream(place: dict[str, Any]) -> None:
    async with Agent(**place, options=Options(max_tokens=24)) as agent:
        events = [event async for event in agent.stream("Tell me about Paris in one sentence.")]
    texts = [event.text for event in events if isinstance(event, TextDelta)]
    assert len(texts) > 1
    assert "Eiffel Tower" in "".join(texts)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_call_and_its_result(place: dict[str, Any], stream: bool) -> None:
    """Step by step: a grammar forces the call, and the answer is the model's own."""
    engine = create_engine(**place)
    question = user("What is the weather in Paris?")
    options = Options(max_tokens=60)
    tools, choice = (GET_WEATHER.definition,), ToolChoice("required")
    request = Request(messages=(question,), tools=tools, tool_choice=choice, parallel=False, options=options)

    async def ask(request: Request) -> Reply:
        if not stream:
            return (await engine.ask(request)).reply
        events = [event async for event in engine.stream(request)]
        assert not request.tools or any(isinstance(event, ToolCallDelta) for event in events)
        return next(event.reply for event in events if isinstance(event, ReplyDone))

    # on Anthropic Messages the server makes several calls, whatever it is asked for
    call = (await ask(request)).calls[0]
    assert (call.name, call.arguments) == ("get_weather", {"city": "Paris"})
    outcome = await ToolExecutor(ToolRegistry([GET_WEATHER])).run(call)
    answer = await ask(
        Request(messages=(question, assistant(call), tool_results(outcome.result)), options=options)
    )
    assert "21 degrees" in answer.text
    await engine.close()


@pytest.fixture(params=["llama.cpp", "openai-responses"])
def loop(request: pytest.FixtureRequest, address: str) -> dict[str, Any]:
    """Formats where the last request, which forbids calls, is obeyed: the server ignores that on Anthropic
    Messages.
    """
    return {
        "model": f"{request.param}:smollm2",
        "base_url": f"{address}/v1",
        "key": "none",
        "options": Options(max_tokens=60),
    }


def test_a_tool_loop(loop: dict[str, Any]) -> None:
    with Agent(**loop, tools=[GET_WEATHER], config=FORCED, limits=ONCE) as agent:
        result = agent.run_sync("What is the weather in Paris?")
        assert [outcome.result.text for outcome in result.outcomes] == ["Paris: 21 degrees"]
        assert "21 degrees" in result.text
        result = agent.run_sync("And in Oslo?")
        assert [outcome.call.arguments for outcome in result.outcomes] == [{"city": "Oslo"}]
        assert agent.conversation[-1].role == "assistant"


async def test_a_streamed_tool_loop(loop: dict[str, Any]) -> None:
    async with Agent(**loop, tools=[GET_WEATHER], config=FORCED, limits=ONCE) as agent:
        events = [event async for event in agent.stream("What is the weather in Paris?")]
    assert [event.outcome.result.text for event in events if isinstance(event, ToolFinished)] == [
        "Paris: 21 degrees"
    ]
    assert "21 degrees" in "".join(event.text for event in events if isinstance(event, TextDelta))


def test_a_call_that_was_cut_off_does_not_spoil_the_conversation(address: str) -> None:
    """The server refuses arguments that are no JSON, even if they are its own."""
    options: dict[str, Any] = {"base_url": f"{address}/v1", "options": Options(max_tokens=8)}
    with Agent("llama.cpp:smollm2", **options, tools=[GET_WEATHER], config=FORCED, limits=ONCE) as agent:
        result = agent.run_sync("What is the weather in Paris?")
        assert [(outcome.call.arguments, outcome.result.is_error) for outcome in result.outcomes] == [
            (None, True)
        ]
        assert agent.conversation[-1].role == "assistant"


def test_structured_output(address: str) -> None:
    """Constrained by a grammar."""
    options: dict[str, Any] = {"base_url": f"{address}/v1", "options": Options(max_tokens=100)}
    with Agent("llama.cpp:smollm2", **options, output_type=PERSON) as agent:
        assert agent.run_sync(ABOUT_MARY).output == PERSON(name="Mary", age=31)


class ChatSchema(Hooks):
    """Adds the schema where this server looks for it, also on Responses."""

    def before_request(self, request: Request) -> Request:
        assert request.output is not None
        schema = {"type": "json_schema", "json_schema": {"name": "output", "schema": request.output.schema}}
        return replace(request, extras={"openai-responses": {"response_format": schema}})


def test_structured_output_on_responses(address: str) -> None:
    """The server ignores `text.format` there: that is an error, and its own field helps."""
    options: dict[str, Any] = {"base_url": f"{address}/v1", "key": "none", "options": Options(max_tokens=100)}
    with (
        Agent("openai-responses:smollm2", **options, output_type=PERSON) as agent,
        pytest.raises(MalformedReply),
    ):
        agent.run_sync(ABOUT_MARY)
    with Agent("openai-responses:smollm2", **options, output_type=PERSON, hooks=[ChatSchema()]) as agent:
        assert agent.run_sync(ABOUT_MARY).output == PERSON(name="Mary", age=31)
