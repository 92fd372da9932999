"""A call is understood once, when the reply is complete: executor, policy and rendering read what was found
out then.
"""

from contextlib import closing
from pathlib import Path

import pytest
from tests.loop.agents import outcome as run_agent
from tests.loop.agents import run

from toolglot.builtin.tools import builtins
from toolglot.facades.bound_facade import BoundFacade
from toolglot.loop.agent.agent import Agent
from toolglot.values.messages import ToolCall


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize(
    ("prompt", "base_tools"),
    [
        ('call Read {"file_path": "a.txt"}', ["read"]),
        ('call Read {"file_path": "a.txt", "limit": "1"}', ["read"]),  # repaired
        ('call Read {"offset": 1}', [None]),  # invalid: the path is missing
    ],
)
def test_a_call_is_interpreted_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, prompt: str, base_tools: list[str | None], live: bool
) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    interpreted: list[str] = []
    interpret = BoundFacade.interpret

    def count(self: BoundFacade, call: ToolCall):
        interpreted.append(call.name)
        return interpret(self, call)

    monkeypatch.setattr(BoundFacade, "interpret", count)
    tools = builtins(str(tmp_path))
    with closing(tools):
        agent = Agent("simulator:anthropic", tools=tools.tools, approve=lambda request: True)
        result = run(run_agent(agent, prompt, streamed=live))
    calls = [call for message in result.messages for call in message.calls]
    assert interpreted == [call.name for call in calls] == ["Read"]
    assert [call.base_call and call.base_call.tool for call in calls] == base_tools
    assert [outcome.call.name for outcome in result.outcomes] == ["read"]
