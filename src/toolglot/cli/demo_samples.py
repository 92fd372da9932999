"""Tools to play with where there are no others: on the simulator, nothing they say is true and nothing they do happens."""

import asyncio
from typing import Any, Literal

from toolglot.tools.context import Context
from toolglot.tools.tool import tool

__all__ = ["DEMO_SAMPLES"]


@tool(effects="read", idempotent=True)
async def get_weather(city: str, units: Literal["celsius", "fahrenheit"] = "celsius") -> dict[str, Any]:
    """Current weather of a city (made up).

    Args:
        city: Name of the city.
        units: Unit of the temperature.
    """
    await asyncio.sleep(0.3)
    return {"city": city, "sky": "clear" if city < "Q" else "cloudy", "degrees": 21 if units == "celsius" else 70}


@tool(effects="write", approval=True, preview=lambda given: f"+ {given.get('date', '')}  {given.get('text', '')}")
def add_reminder(text: str, date: str) -> str:
    """Put a reminder into the calendar (nothing is written).

    Args:
        text: What to be reminded of.
        date: The day, as 2026-12-24.
    """
    return f"added for {date}: {text}"


@tool(effects="read")
async def count_slowly(seconds: int, context: Context) -> str:
    """Count up, a number a second, and say so: for trying Ctrl-C."""
    for number in range(1, seconds + 1):
        context.report(f"{number} of {seconds}")
        await asyncio.sleep(1)
    return f"counted to {seconds}"


DEMO_SAMPLES = (get_weather, add_reminder, count_slowly)
