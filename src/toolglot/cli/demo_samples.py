"""Demo tools for `toolglot demo`, and for a chat on the simulator without other tools.

They change nothing.
"""

import asyncio
from typing import Any, Literal

from toolglot.errors import ToolError
from toolglot.tools.context import Context
from toolglot.tools.tool import tool


@tool(effects="read", idempotent=True)
async def get_weather(city: str, units: Literal["celsius", "fahrenheit"] = "celsius") -> dict[str, Any]:
    """Get the current weather in a city (made up).

    Args:
        city: Name of the city.
        units: Temperature unit.
    """
    await asyncio.sleep(0.1)
    return {
        "city": city,
        "sky": "clear" if city < "Q" else "cloudy",
        "degrees": 21 if units == "celsius" else 70,
    }


@tool(
    effects="write",
    approval=True,
    preview=lambda given: f"+ {given.get('date', '')}  {given.get('text', '')}",
)
def add_reminder(text: str, date: str) -> str:
    """Add a reminder to the calendar (nothing is written).

    Args:
        text: What to be reminded of.
        date: The day, for example 2026-12-24.
    """
    return f"added for {date}: {text}"


@tool(effects="read")
async def count_slowly(seconds: int, context: Context) -> str:
    """Count up, one number per second, reporting progress. Useful for trying Ctrl-C."""
    for number in range(1, seconds + 1):
        context.report(f"{number} of {seconds}")
        await asyncio.sleep(1)
    return f"counted to {seconds}"


@tool(effects={"write", "network"})
async def book_hotel(city: str, nights: int, context: Context) -> str:
    """Book a hotel room in a city for a number of nights."""
    if context.attempt == 1:
        raise ToolError("the booking service is busy", retryable=True, retry_after=0.05)
    return f"booked: {nights} nights in {city}"


CHAT_SAMPLES = (get_weather, add_reminder, count_slowly)
TRAVEL_SAMPLES = (get_weather, book_hotel)
