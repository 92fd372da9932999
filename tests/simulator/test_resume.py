"""Conversations that go on with another simulator, and models that are asked on another wire than they were
named for.
"""

from typing import Any

import pytest

from toolglot.loop.agent.agent import Agent
from toolglot.tools.config import ToolConfig
from toolglot.tools.tool import tool


@tool
def double(x: int) -> int:
    """Doubles a number."""
    return 2 * x


def test_item_ids_continue_after_a_switch() -> None:
    agent = Agent("simulator:openai-responses/gpt-5.5", tools=[double])
    agent.run_sync('call double {"x": 1}')
    agent.switch("simulator:anthropic/claude-opus-5")
    agent.run_sync("hi")
    agent.switch("simulator:openai-responses/gpt-5.5")
    agent.run_sync('call double {"x": 2}')
    assert agent.run_sync('call double {"x": 3}').outcomes[0].result.text == "6"
    later = Agent.load(agent.save(), tools=[double])
    later.run_sync("so")
    assert later.run_sync('call double {"x": 4}').outcomes[0].result.text == "8"


@pytest.mark.parametrize("provider", ["openai-chat", "azure-chat"])
def test_models_with_tools_on_responses_only_move_there(provider: str) -> None:
    result = Agent(f"simulator:{provider}/gpt-5.5", tools=[double]).run_sync('call double {"x": 2}')
    assert [outcome.result.text for outcome in result.outcomes] == ["4"]


@pytest.mark.parametrize("names", [{"double"}, ["double"], ("double",), "double"])
def test_allowed_names_in_any_collection(names: Any) -> None:
    agent = Agent("simulator", tools=[double], config=ToolConfig(allow=names))
    assert agent.run_sync('call double {"x": 2}').outcomes[0].result.text == "4"
