"""How much a run may use; immutable data."""

from typing import Annotated

import msgspec
from msgspec import Meta

from toolglot.common.value_checks import OptionMeta, check_values
from toolglot.engine.rate_limit import RequestRate
from toolglot.providers.catalog import resolve_profile

__all__ = ["RunLimits"]

_Count = Annotated[int, Meta(ge=0)]
_Amount = Annotated[float, Meta(ge=0)]


class RunLimits(msgspec.Struct, metaclass=OptionMeta, frozen=True, kw_only=True):
    """How much a run may use, from a prompt to its answer, however often it pauses. None: no limit."""

    max_iterations: _Count = 25
    """Maximum requests with tools; after these comes one last request without tool calls."""
    run_timeout: _Amount | None = None
    """Maximum seconds for the complete answer to a prompt. The time in which somebody is asked is free."""
    max_total_tokens: _Count | None = None
    """Maximum tokens of all requests and replies together."""
    max_cost: _Amount | None = None
    """Maximum US dollars, if the model's price is known."""
    max_depth: _Count = 3
    """How many levels of agents may call each other, below the agent that was asked."""
    request_rates: dict[str, RequestRate] = {}
    """Maximum requests, and tokens in them and their replies, per minute or per other `seconds`, by PROVIDER
    or PROVIDER:MODEL (a pattern); requests over the limit wait. All agents in the process that have the same
    limit share it."""

    def __post_init__(self) -> None:
        check_values(self)
        for provider in {pattern.partition(":")[0] for pattern in self.request_rates} - {"simulator"}:
            resolve_profile(provider)  # raises UnknownName
