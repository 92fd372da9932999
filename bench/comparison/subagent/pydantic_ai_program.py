"""An agent works for another one, and pays if a person agrees, much later: with pydantic-ai."""

import os
from pathlib import Path

from pydantic_ai import Agent, ApprovalRequired, DeferredToolRequests, RunContext
from pydantic_ai.conversation import Conversation, ConversationTypeAdapter
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

STATE = Path("state")  # of the run, between two processes
PROMPT = r'call research {"prompt": "call pay {\"amount\": 90}"}'

model = OpenAIChatModel(
    "gpt-4.1",
    provider=OpenAIProvider(base_url=os.environ["MODEL_URL"], api_key=os.environ["MODEL_KEY"]),
)
researcher = Agent(model, output_type=[str, DeferredToolRequests])
boss = Agent(model, output_type=[str, DeferredToolRequests])


@researcher.tool_plain(requires_approval=True)
def pay(amount: int) -> str:
    """Pay an invoice."""
    print(f"paying {amount}")
    return f"Paid {amount}."


def read_waiting(conversation: Conversation) -> DeferredToolRequests:
    if conversation.deferred_tool_requests is None:
        raise ValueError("nothing is waiting")
    return conversation.deferred_tool_requests


@boss.tool
async def research(ctx: RunContext, prompt: str) -> str:
    """Research an invoice, and settle it."""
    if ctx.tool_call_approved:
        inner = ConversationTypeAdapter.validate_python(ctx.tool_call_metadata["conversation"])
        approvals: dict[str, bool] = ctx.tool_call_metadata["approvals"]
        result = await researcher.run(
            message_history=inner.messages,
            deferred_tool_results=read_waiting(inner).build_results(approvals=approvals),
            usage=ctx.usage,
        )
    else:
        result = await researcher.run(prompt, usage=ctx.usage)
    if isinstance(result.output, DeferredToolRequests):
        conversation = ConversationTypeAdapter.dump_python(result.conversation, mode="json")
        raise ApprovalRequired({"conversation": conversation})
    return result.output


if STATE.exists():
    call_id, decision = input().split()
    outer_id, inner_id = call_id.split("/")
    conversation = ConversationTypeAdapter.validate_json(STATE.read_bytes())
    waiting = read_waiting(conversation)
    inner_decision = {"approvals": {inner_id: decision == "yes"}}
    results = waiting.build_results(
        approvals={outer_id: True},
        metadata={outer_id: waiting.metadata.get(outer_id, {}) | inner_decision},
    )
    result = boss.run_sync(conversation=conversation, deferred_tool_results=results)
else:
    result = boss.run_sync(PROMPT)
STATE.write_bytes(ConversationTypeAdapter.dump_json(result.conversation))
if isinstance(result.output, DeferredToolRequests):
    for outer in result.output.approvals:
        metadata = result.output.metadata[outer.tool_call_id]
        inner = ConversationTypeAdapter.validate_python(metadata["conversation"])
        for call in read_waiting(inner).approvals:
            path = f"{outer.tool_call_id}/{call.tool_call_id}"
            print(f"{path}: {outer.tool_name} wants to {call.tool_name} {call.args_as_dict()}")
else:
    print(result.output)
print("tokens:", result.conversation.usage.total_tokens)
