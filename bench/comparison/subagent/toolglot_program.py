"""An agent works for another one, and pays if a person agrees, much later: with toolglot."""

import os
from pathlib import Path

from toolglot import Agent, tool

MODEL, URL, KEY = "openai-chat:gpt-4.1", os.environ["MODEL_URL"], os.environ["MODEL_KEY"]
STATE = Path("state")  # of the run, between two processes
PROMPT = r'call research {"prompt": "call pay {\"amount\": 90}"}'


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay an invoice."""
    print(f"paying {amount}")
    return f"Paid {amount}."


researcher = Agent(MODEL, base_url=URL, key=KEY, tools=[pay])
research = researcher.as_tool("research", "Research an invoice, and settle it.")

if STATE.exists():
    call_id, decision = input().split()
    boss = Agent.load(STATE.read_bytes(), MODEL, base_url=URL, key=KEY, tools=[research])
    result = boss.resume_sync({call_id: decision == "yes"})
else:
    boss = Agent(MODEL, base_url=URL, key=KEY, tools=[research])
    result = boss.run_sync(PROMPT)
STATE.write_bytes(boss.save())
for waiting in result.pending:
    request = waiting.request
    print(f"{waiting.id}: {request.agent} wants to {request.tool} {request.arguments}")
if not result.is_paused:
    print(result.text)
print("tokens:", result.usage.input + result.usage.output)
