"""Tools: `--tools dice`, or `tools = ["dice"]` in the configuration."""

import random

from toolglot import tool

__all__ = ["DICE_TOOLS"]


@tool(effects="read")
def roll_dice(sides: int = 6, count: int = 1) -> list[int]:
    """Roll dice and return what they show.

    Args:
        sides: Sides of each die.
        count: Number of dice.
    """
    return [random.randint(1, sides) for _ in range(count)]


DICE_TOOLS = [roll_dice]
"""A list of tools, a tool, a ToolRegistry, or a module with tools."""
