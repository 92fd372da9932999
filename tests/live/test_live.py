"""The same small tasks with real providers.

They cost money: only models that TOOLGLOT_LIVE_MODELS names are asked.

Without it, the tasks that a simulator can do are done by simulators, so that these tests are known to work.

TOOLGLOT_LIVE_MODELS=anthropic:claude-sonnet-4-5,gemini:gemini-2.5-flash make test
TOOLGLOT_LIVE_MODELS=all make test      # a small model of each provider whose key is set
"""

import os
from pathlib import Path

import pytest

from toolglot import (
    Agent,
    RunDone,
    ToolCallReady,
    ToolCallStarted,
    ToolChoice,
    ToolConfig,
    ToolFinished,
    coding_tools,
    resolve_profile,
    tool,
)
from toolglot.wire.spec import SPECS

SMALL_MODELS = (
    *(
        "openai-chat:gpt-4o-mini",
        "openai-responses:gpt-5-mini",
        "anthropic:claude-haiku-4-5",
        "gemini:gemini-2.5-flash",
    ),
    *(
        "deepseek:deepseek-chat",
        "mistral:mistral-small-latest",
        "groq:llama-3.3-70b-versatile",
        "xai:grok-4-fast",
    ),
    "openrouter:openai/gpt-4o-mini",
)


def named_models() -> list[str]:
    names = [name for name in os.environ.get("TOOLGLOT_LIVE_MODELS", "").split(",") if name]
    if names != ["all"]:
        return names
    return [
        name
        for name in SMALL_MODELS
        if any(map(os.environ.get, resolve_profile(name.partition(":")[0]).key_env))
    ]


MODELS = named_models()
WHY = "asks a real provider: set TOOLGLOT_LIVE_MODELS to models, and their keys"
SIMULATED = [f"simulator:{spec.default_profile}" for spec in SPECS.values()]
any_model = pytest.mark.parametrize("model", MODELS or SIMULATED)
real_model = pytest.mark.parametrize(
    "model", MODELS or [pytest.param("", marks=pytest.mark.skip(reason=WHY), id="none")]
)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def subtract(a: int, b: int) -> int:
    """Subtract b from a."""
    return a - b


SUM = 'call add {"a": 17, "b": 25} and tell me the result.'  # the simulator understands it too


@any_model
async def test_a_tool_of_the_user_in_a_stream(model: str) -> None:
    async with Agent(model, tools=[add, subtract]) as agent:
        events = [event async for event in agent.stream(SUM)]
    kinds = [type(event) for event in events]
    assert (
        kinds.index(ToolCallStarted)
        < kinds.index(ToolCallReady)
        < kinds.index(ToolFinished)
        < kinds.index(RunDone)
    )
    done = events[-1]
    assert isinstance(done, RunDone)
    assert [(outcome.call.name, outcome.result.text) for outcome in done.result.outcomes] == [("add", "42")]
    assert "42" in done.result.text


@any_model
@pytest.mark.parametrize(("choice", "called"), [
    (ToolChoice("none"), set[str]()), (ToolChoice("required", ("subtract",)), {"subtract"}),
])  # fmt: skip
async def test_a_tool_choice(model: str, choice: ToolChoice, called: set[str]) -> None:
    async with Agent(model, tools=[add, subtract], config=ToolConfig(tool_choice=choice)) as agent:
        result = await agent.run("What is 17 and 25?")
    names = {outcome.call.name for outcome in result.outcomes if outcome.ran}
    assert names == called if "required" in agent.view().engine.features().choices else names <= called


@any_model
async def test_structured_output(model: str) -> None:
    async with Agent(model, output_type=list[int]) as agent:
        result = await agent.run("The first three prime numbers.")
    assert all(type(number) is int for number in result.output or [""])


@real_model
def test_a_file_is_found_read_and_changed(model: str, tmp_path: Path) -> None:
    (tmp_path / "greeting.txt").write_text("Helo world\n")
    agent = Agent(model, tools=coding_tools(tmp_path), config=ToolConfig(ask=()))
    result = agent.run_sync(
        "A file in this folder greets the world with a typo. Find it, correct the typo in it, and say done."
    )
    assert result.stop == "end"
    assert (tmp_path / "greeting.txt").read_text() == "Hello world\n"
    assert {outcome.call.name for outcome in result.outcomes} <= {tool.name for tool in agent.tools}


@pytest.mark.skipif(len(MODELS) < 2, reason=WHY)
def test_one_conversation_goes_from_model_to_model(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("the word is plum\n")
    agent = Agent(MODELS[0], tools=coding_tools(tmp_path))
    assert "plum" in agent.run_sync("Read secret.txt and tell me the word.").text
    for model in MODELS[1:]:
        agent.switch(model)
        assert "plum" in agent.run_sync("Which word was it? Do not read the file again.").text
