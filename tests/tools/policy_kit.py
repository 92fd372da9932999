"""Verdicts of a policy, for tests."""

from toolglot.tools.caller import Caller
from toolglot.tools.config import ToolConfig
from toolglot.tools.registry import ToolRegistry

__all__ = ["make_caller"]


def make_caller(config: ToolConfig, *, can_ask: bool = False) -> Caller:
    """Somebody who calls tools under these rules."""
    return Caller(registry=ToolRegistry(), config=config, can_ask=can_ask)
