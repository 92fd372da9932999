"""What a chat has used so far: tokens and US dollars by model."""

from collections.abc import Iterator
from operator import add

import msgspec
from msgspec.structs import astuple

from toolglot.common.textutil import pluralize
from toolglot.providers.profile import Price
from toolglot.values.events import ContextTruncated, ReplyDone, RunEvent
from toolglot.values.messages import Usage

__all__ = ["Spending"]


class _Spent(msgspec.Struct):
    requests: int = 0
    usage: Usage = Usage()
    cost: float | None = 0.0
    """None once a price was unknown."""

    def add(self, other: "_Spent") -> None:
        self.requests += other.requests
        self.usage = Usage(*map(add, astuple(self.usage), astuple(other.usage)))
        self.cost = None if self.cost is None or other.cost is None else self.cost + other.cost

    def __str__(self) -> str:
        cached = f" ({self.usage.cached:,} cached)" if self.usage.cached else ""
        tokens = f"{self.usage.input:,} tokens in{cached}, {self.usage.output:,} out"
        return f"{pluralize(self.requests, 'request')} · {tokens}"


class Spending:
    """Adds up what all turns of a chat have used, also those that were stopped."""

    def __init__(self) -> None:
        self._models: dict[str, _Spent] = {}

    def see(self, event: RunEvent, model: str, price: Price | None) -> None:
        """Add what an event says that a model has used: for a reply, or for a summary."""
        if isinstance(event, ReplyDone):
            self.add(model, event.reply.usage, price)
        elif isinstance(event, ContextTruncated) and event.summary:
            self.add(model, event.usage, price)

    def add(self, model: str, usage: Usage, price: Price | None) -> None:
        """Add a request."""
        cost = None if price is None else price.cost(usage)
        self._models.setdefault(model, _Spent()).add(_Spent(1, usage, cost))

    def describe(self) -> Iterator[str]:
        """Yield a line for each model, and the total of several. What the simulator says costs nothing."""
        total = _Spent()
        for model, spent in self._models.items():
            if model.startswith("simulator"):
                spent = _Spent(spent.requests, spent.usage)
            total.add(spent)
            yield f"{model}: {spent} · {_format_cost(spent.cost)}"
        if len(self._models) > 1:
            yield f"total: {total} · {_format_cost(total.cost)}"


def _format_cost(cost: float | None) -> str:
    if cost is None:
        return "price unknown"
    return f"${cost:.4f}" if cost else "free"
