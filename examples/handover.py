"""Start a conversation with one provider, save it, and finish it with another in a new process."""

import tempfile
from pathlib import Path

from toolglot import Agent, tool


@tool
def look_up(city: str) -> dict[str, str]:
    """Look up facts about a city."""
    return {"city": city, "river": "Seine"}


file = Path(tempfile.mkdtemp()) / "conversation.jsonl"
first = Agent("simulator:anthropic", tools=[look_up])
first.run_sync('call look_up {"city": "Paris"}')
file.write_bytes(first.save())

second = Agent.load(file.read_bytes(), "simulator:gemini", tools=[look_up])
print("messages so far:", len(second.conversation))
print(second.run_sync("say The river is the Seine.").text)

# Output:
# messages so far: 4
# The river is the Seine.
