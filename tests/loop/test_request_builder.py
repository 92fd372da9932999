"""What is looked up anew for a request: as much as if nothing had been remembered of the one before."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from toolglot.loop.agent.agent import Agent
from toolglot.loop.request_builder import RequestBuilder, RunParts
from toolglot.tools.config import ToolConfig
from toolglot.tools.tool import tool
from toolglot.values.messages import Conversation, user

from .agents import make_agent


@tool
def look() -> str:
    """Look."""
    return "seen"


@tool
def listen() -> str:
    """Listen."""
    return "heard"


def _note_results(agent: Agent[Any, Any]) -> None:
    vars(agent)["_state"].host.store.put("a long result")


def _heal(agent: Agent[Any, Any]) -> None:
    engine = vars(agent)["_setup"].models.engine
    engine.profile = replace(engine.profile, model="gpt-5.1")


def _let_wait(agent: Agent[Any, Any]) -> None:
    vars(agent)["_state"].has_approver = True


def _narrow(agent: Agent[Any, Any]) -> None:
    agent.config = ToolConfig(deny=["look"])


CHANGES: dict[str, Callable[[Agent[Any, Any]], Any]] = {
    "a tool": lambda agent: agent.add_tools([listen]),
    "no tool": lambda agent: agent.remove_tools(["look"]),
    "another model": lambda agent: agent.switch("simulator:anthropic"),
    "another configuration": _narrow,
    "results that were truncated": _note_results,
    "a healed profile": _heal,
    "somebody who can be asked": _let_wait,
}


def describe(builder: RequestBuilder) -> dict[str, Any]:
    """What a request and the calls of its reply depend on."""
    engine_state, caller = builder.prepare(), builder.state.caller
    seen = {
        name: getattr(caller, name)
        for name in caller.__struct_fields__
        if name not in ("interpret", "added_tools")
    }
    tools = [definition.name for definition in builder.view.tools(tuple(caller.added_tools.values()))]
    return {
        **seen,
        "added": [*caller.added_tools],
        "tools": tools,
        "engine": engine_state.engine,
        "for": builder.view.profile.model,
    }


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_request_is_made_of_what_the_agent_is_then(change: Callable[[Agent[Any, Any]], Any]) -> None:
    agent: Agent[Any, Any] = make_agent("openai-chat", tools=[look], conversation=Conversation([user("hi")]))
    parts = RunParts(vars(agent)["_setup"], vars(agent)["_state"], None, None, "")
    builder = RequestBuilder(parts)
    before = describe(builder)
    assert describe(builder) == before
    change(agent)
    after = describe(builder)
    assert after != before
    assert after == describe(RequestBuilder(parts))
