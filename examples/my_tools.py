"""Tools for the command line: toolglot run --tools my_tools.py "What is the weather in Paris?"."""

from toolglot import tool


@tool(effects={"network"})
def get_weather(city: str) -> dict[str, str | int]:
    """Get the current weather in a city.

    Args:
        city: The name of the city.
    """
    return {"city": city, "degrees": 21}


@tool(effects={"write"})
def save_note(title: str, text: str) -> str:
    """Save a note for later.

    Args:
        title: A short title.
        text: The note.
    """
    return f"saved {title!r} ({len(text)} characters)"
