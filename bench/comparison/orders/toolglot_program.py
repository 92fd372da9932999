"""Answer questions about orders, and refund them if a person agrees: with toolglot."""

import os
from dataclasses import dataclass, field

from toolglot import Agent, ApprovalRequest, Context, Options, tool


@dataclass
class Shop:
    orders: dict[int, str]
    refunds: list[int] = field(default_factory=list[int])


@tool
def find_order(context: Context[Shop], order_id: int) -> str:
    """Look up an order by its number."""
    return context.data.orders[order_id]


@tool(approval=True)
def refund(context: Context[Shop], order_id: int) -> str:
    """Pay back what an order has cost."""
    context.data.refunds.append(order_id)
    return f"Order {order_id} is refunded."


def approve(request: ApprovalRequest) -> bool:
    return input(f"{request.tool} {request.arguments}? ") == "yes"


agent = Agent(
    "openai-chat:gpt-4.1",
    base_url=os.environ["MODEL_URL"],
    key=os.environ["MODEL_KEY"],
    system="You work for a shop. Be brief.",
    options=Options(temperature=0.0),
    tools=[find_order, refund],
    approve=approve,
)
shop = Shop({7: "a lamp, delivered"})
print(agent.run_sync("Please find order 7.", data=shop).text)
print(agent.run_sync("Please refund order 7.", data=shop).text)
print(shop.refunds)
