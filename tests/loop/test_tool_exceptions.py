"""What a tool raised is not lost: the cause of an abort, a line in the log; and a tool cannot change the
history.
"""

import logging
from typing import Any

import pytest

from toolglot.errors import ToolError
from toolglot.tools.config import ToolConfig
from toolglot.tools.context import Context
from toolglot.tools.tool import tool

from .agents import make_agent, outcome, run

LIVE = pytest.mark.parametrize("live", [False, True], ids=["whole", "streamed"])


@tool(effects="read")
def look() -> str:
    """Looks."""
    raise KeyError("missing")


@tool(effects="read")
async def refuse() -> str:
    """Refuses."""
    raise ToolError("taken", code="taken", details={"free": ["B"]})


@LIVE
@pytest.mark.parametrize("eager", [False, True])
async def test_an_abort_has_the_exception_of_the_tool_as_its_cause(live: bool, eager: bool) -> None:
    agent = make_agent("anthropic", tools=[look], config=ToolConfig(on_error="abort", eager_start=eager))
    with pytest.raises(ToolError, match="missing") as error:
        await outcome(agent, "call look {} call look {}", streamed=live)
    cause = error.value.__cause__
    assert isinstance(cause, KeyError)
    assert cause.__traceback__ is not None
    assert (error.value.tool, error.value.kind) == ("look", "execution")


@LIVE
async def test_an_abort_with_a_tools_own_error_has_its_details(live: bool) -> None:
    agent = make_agent("anthropic", tools=[refuse], config=ToolConfig(on_error="abort"))
    with pytest.raises(ToolError, match="taken") as error:
        await outcome(agent, "call refuse {}", streamed=live)
    assert (error.value.code, error.value.details) == ("taken", {"free": ["B"]})
    assert isinstance(error.value.__cause__, ToolError)


def test_an_exception_is_a_warning_and_its_traceback_is_for_debugging(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "toolglot.tools")
    result = run(make_agent("anthropic", tools=[look, refuse]).run("call look {} call refuse {}"))
    assert [outcome.details for outcome in result.outcomes] == [None, {"free": ["B"]}]
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.getMessage() for record in warnings] == ["tool look raised KeyError: 'missing'"]
    assert warnings[0].exc_info is None
    assert any(record.levelno == logging.DEBUG and record.exc_info for record in caplog.records)


def test_a_tool_cannot_change_the_history() -> None:
    @tool
    def change(numbers: list[int], context: Context) -> str:
        """Changes its call."""
        arguments: Any = context.call.arguments
        arguments["numbers"].append(9)
        arguments["more"] = True
        return "ok"

    agent = make_agent("anthropic", tools=[change])
    result = run(agent.run('call change {"numbers": [1]}'))
    assert agent.conversation[1].calls[0].arguments == {"numbers": [1]}
    assert result.outcomes[0].call.arguments == {"numbers": [1]}
