"""What an agent does not show."""

from typing import Any

from toolglot.loop.agent.agent import Agent
from toolglot.loop.agent.setup import AgentSetup

__all__ = ["change", "setup_of"]


def setup_of(agent: Agent[Any, Any]) -> AgentSetup:
    """Its configuration and its models."""
    return agent._setup  # pyright: ignore[reportPrivateUsage]


def change(agent: Agent[Any, Any], **options: Any) -> None:
    """Give it other options in mid conversation, as a program does that applies a changed configuration."""
    setup_of(agent).change(**options)
