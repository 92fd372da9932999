"""A tool that runs in the browser, which answers another process than asked: with pydantic-ai."""

import json
import os
from pathlib import Path

from pydantic_ai import Agent, DeferredToolRequests, ToolDefinition
from pydantic_ai.conversation import ConversationTypeAdapter
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.toolsets import ExternalToolset

STATE = Path("state")  # of the run, between two processes
PROMPT = 'call pick_date {"title": "Delivery"}'

pick_date = ToolDefinition(
    name="pick_date",
    description="Let the user pick a date.",
    parameters_json_schema={
        "type": "object",
        "properties": {"title": {"type": "string"}},
        "required": ["title"],
    },
    return_schema={"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
)
model = OpenAIChatModel(
    "gpt-4.1",
    provider=OpenAIProvider(base_url=os.environ["MODEL_URL"], api_key=os.environ["MODEL_KEY"]),
)
agent = Agent(
    model,
    output_type=[str, DeferredToolRequests],
    toolsets=[ExternalToolset([pick_date])],
)

if STATE.exists():
    answers = json.loads(input())  # what the browser posts: id of a call -> its answer
    conversation = ConversationTypeAdapter.validate_json(STATE.read_bytes())
    if conversation.deferred_tool_requests is None:
        raise ValueError("nothing is waiting")
    results = conversation.deferred_tool_requests.build_results(calls=answers)
    result = agent.run_sync(conversation=conversation, deferred_tool_results=results)
else:
    result = agent.run_sync(PROMPT)
STATE.write_bytes(ConversationTypeAdapter.dump_json(result.conversation))
if isinstance(result.output, DeferredToolRequests):
    for call in result.output.calls:
        print(f"{call.tool_call_id}: {call.tool_name} {call.args_as_dict()}")
else:
    print(result.output)
