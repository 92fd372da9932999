"""A shop's assistant: a tool with typed data, a tool that needs approval, two turns, an endpoint of one's own."""

from pathlib import Path

from bench.comparison.definition import Comparison, Mistake

_DOWN = 'raise ValueError("the order database is down")'

ORDERS = Comparison(
    directory=Path(__file__).resolve().parent,
    libraries=("toolglot", "pydantic_ai", "agents"),
    mistakes=(
        Mistake("key", "A wrong key", key="a-wrong-key"),
        Mistake(
            "option",
            "A misspelt option of the agent",
            {
                "toolglot": ("system=", "sytem="),
                "pydantic_ai": ("instructions=", "instuctions="),
                "agents": ("instructions=", "instuctions="),
            },
        ),
        Mistake(
            "setting",
            "A misspelt setting of the model",
            dict.fromkeys(("toolglot", "pydantic_ai", "agents"), ("temperature", "temprature")),
        ),
        Mistake(
            "tool",
            "A tool that fails",
            {
                "toolglot": ("return context.data.orders[order_id]", _DOWN),
                "pydantic_ai": ("return ctx.deps.orders[order_id]", _DOWN),
                "agents": ("return wrapper.context.orders[order_id]", _DOWN),
            },
        ),
        Mistake(
            "data",
            "Data of a wrong type",
            {
                "toolglot": ("data=shop", "data=shop.orders"),
                "pydantic_ai": ("deps=shop", "deps=shop.orders"),
                "agents": ("context=shop", "context=shop.orders"),
            },
        ),
    ),
    starts=("yes\n",),
)
