"""Hand-offs: a call after which another agent continues the same conversation.

It is no run inside a run: from the next request on, the run has the model, the system prompt and the tools of the
other agent; limits, approver, hooks of tools and audit log stay those that it was started with.
"""

from collections.abc import Iterable

from toolglot.errors import ToolError, UsageError
from toolglot.loop.agent.runs import Runs
from toolglot.loop.agent.setup import AgentSetup
from toolglot.loop.conversation_state import ConversationState
from toolglot.loop.driver import Driver
from toolglot.tools.context import Context
from toolglot.tools.tool import Tool

__all__ = ["continue_saved", "make_hand_off_tool"]


def make_hand_off_tool(setup: AgentSetup, name: str, description: str) -> Tool:
    """Return a tool with which another agent hands its conversation over to this one."""

    def hand_over(context: Context, reason: str = "") -> str:
        driver = context.inner_tools.owner if context.inner_tools is not None else None
        if not isinstance(driver, Driver):
            raise ToolError("The conversation can only be handed over in a run of an agent.")
        if not driver.hand_over(setup, name):
            raise ToolError("The conversation was handed over by another call already.", code="handed_over")
        driver.state.hand_over(name, Runs(setup))
        return f"The conversation was handed over ({name}). The other agent answers from here on."

    tool = Tool(
        hand_over,
        name=name,
        description=description,
        parameters={
            "type": "object",
            "properties": {"reason": {"type": "string"}},
            "additionalProperties": False,
        },
        inline=True,
        approval=False,
        polls=True,
    )
    tool.successor = setup
    return tool


def continue_saved(setup: AgentSetup, state: ConversationState, names: Iterable[str]) -> None:
    """Continue a saved conversation with the agent that it was handed over to. Raises UsageError."""
    for name in names:
        tool = setup.config.tools.find(name)
        if tool is None or not isinstance(tool.successor, AgentSetup):
            raise UsageError(
                f"the conversation was handed over by {name}, which is not among the agent's tools: pass tools=[…]"
            )
        setup = tool.successor
        state.hand_over(name, Runs(setup))
