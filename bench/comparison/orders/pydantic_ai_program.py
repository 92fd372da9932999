"""Answer questions about orders, and refund them if a person agrees: with pydantic-ai."""

import os
from dataclasses import dataclass, field

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext
from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


@dataclass
class Shop:
    orders: dict[int, str]
    refunds: list[int] = field(default_factory=list[int])


def approve(ctx: RunContext[Shop], requests: DeferredToolRequests) -> DeferredToolResults:
    approvals = {
        call.tool_call_id: input(f"{call.tool_name} {call.args_as_dict()}? ") == "yes"
        for call in requests.approvals
    }
    return requests.build_results(approvals=approvals)


model = OpenAIChatModel(
    "gpt-4.1",
    provider=OpenAIProvider(base_url=os.environ["MODEL_URL"], api_key=os.environ["MODEL_KEY"]),
)
agent = Agent(
    model,
    deps_type=Shop,
    instructions="You work for a shop. Be brief.",
    model_settings={"temperature": 0.0},
    capabilities=[HandleDeferredToolCalls(approve)],
)


@agent.tool
def find_order(ctx: RunContext[Shop], order_id: int) -> str:
    """Look up an order by its number."""
    return ctx.deps.orders[order_id]


@agent.tool(requires_approval=True)
def refund(ctx: RunContext[Shop], order_id: int) -> str:
    """Pay back what an order has cost."""
    ctx.deps.refunds.append(order_id)
    return f"Order {order_id} is refunded."


shop = Shop({7: "a lamp, delivered"})
found = agent.run_sync("Please find order 7.", deps=shop)
print(found.output)
print(agent.run_sync("Please refund order 7.", deps=shop, conversation=found.conversation).output)
print(shop.refunds)
