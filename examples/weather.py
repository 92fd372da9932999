"""An agent with one tool, on the simulator or on a real model: python examples/weather.py
anthropic:claude-sonnet-5.
"""

import sys

from toolglot import Agent, tool


@tool
def get_weather(city: str) -> str:
    """Get the current weather in a city.

    Args:
        city: The name of the city.
    """
    return f"{city}: 21 degrees, sunny"


agent = Agent(sys.argv[1] if len(sys.argv) > 1 else "simulator", tools=[get_weather])
result = agent.run_sync("What is the weather in Paris and in Rome?")
for outcome in result.outcomes:
    print(outcome.call.name, outcome.call.arguments, "->", outcome.result.text)

# Output:
# get_weather {'city': 'Paris'} -> Paris: 21 degrees, sunny
# get_weather {'city': 'Rome'} -> Rome: 21 degrees, sunny
