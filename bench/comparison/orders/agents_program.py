"""Answer questions about orders, and refund them if a person agrees: with the OpenAI Agents SDK."""

import os
from dataclasses import dataclass, field

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    RunContextWrapper,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI


@dataclass
class Shop:
    orders: dict[int, str]
    refunds: list[int] = field(default_factory=list[int])


@function_tool
def find_order(wrapper: RunContextWrapper[Shop], order_id: int) -> str:
    """Look up an order by its number."""
    return wrapper.context.orders[order_id]


@function_tool(needs_approval=True)
def refund(wrapper: RunContextWrapper[Shop], order_id: int) -> str:
    """Pay back what an order has cost."""
    wrapper.context.refunds.append(order_id)
    return f"Order {order_id} is refunded."


set_tracing_disabled(True)  # traces go to OpenAI, with a key of OpenAI
client = AsyncOpenAI(base_url=os.environ["MODEL_URL"], api_key=os.environ["MODEL_KEY"])
agent = Agent[Shop](
    name="Shop",
    instructions="You work for a shop. Be brief.",
    model=OpenAIChatCompletionsModel(model="gpt-4.1", openai_client=client),
    model_settings=ModelSettings(temperature=0.0),
    tools=[find_order, refund],
)
session = SQLiteSession("orders")


def run(prompt: str, shop: Shop) -> str:
    result = Runner.run_sync(agent, prompt, context=shop, session=session)
    while result.interruptions:
        state = result.to_state()
        for interruption in result.interruptions:
            if input(f"{interruption.name} {interruption.arguments}? ") == "yes":
                state.approve(interruption)
            else:
                state.reject(interruption)
        result = Runner.run_sync(agent, state, session=session)
    return result.final_output_as(str)


shop = Shop({7: "a lamp, delivered"})
print(run("Please find order 7.", shop))
print(run("Please refund order 7.", shop))
print(shop.refunds)
