"""A tool that runs in the browser, which answers another process than asked: with toolglot."""

import json
import os
from pathlib import Path

from toolglot import Agent, Answer, ToolDefinition

MODEL, URL, KEY = "openai-chat:gpt-4.1", os.environ["MODEL_URL"], os.environ["MODEL_KEY"]
STATE = Path("state")  # of the run, between two processes
PROMPT = 'call pick_date {"title": "Delivery"}'

pick_date = ToolDefinition(
    "pick_date",
    "Let the user pick a date.",
    {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]},
    output_schema={"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
)

if STATE.exists():
    answers = json.loads(input())  # what the browser posts: id of a call -> its answer
    agent = Agent.load(STATE.read_bytes(), MODEL, base_url=URL, key=KEY, tools=[pick_date])
    result = agent.resume_sync({call_id: Answer(value) for call_id, value in answers.items()})
else:
    agent = Agent(MODEL, base_url=URL, key=KEY, tools=[pick_date])
    result = agent.run_sync(PROMPT)
STATE.write_bytes(agent.save())
for waiting in result.pending:
    print(f"{waiting.id}: {waiting.request.tool} {waiting.request.arguments}")
if not result.is_paused:
    print(result.text)
