"""A call as the model made it, together with the call that runs: what a facade finds out once, when a reply
is complete.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from toolglot.errors import ToolError
from toolglot.values.losses import Repair
from toolglot.values.messages import ToolCall, ToolResult

__all__ = ["AnyCall", "InterpretedCall", "RenderResult"]

RenderResult = Callable[[ToolResult, dict[str, Any], Any], ToolResult]
"""(result, arguments of the base call, error details) -> the result as the model's own harness words it."""


class InterpretedCall(msgspec.Struct, frozen=True):
    """A call under a model's own tool name, and the call of a base tool that it stands for.

    The base call that is saved with the conversation is `call.base_call`; the rest is needed until the call
    has its result.
    """

    call: ToolCall
    """As the model made it."""
    base: ToolCall
    """What runs. Where `error` is set: the tool that the call counts for, with the arguments as they came."""
    repairs: tuple[Repair, ...] = ()
    error: ToolError | None = None
    """Why the call cannot run: its arguments do not fit the schema that the model was shown."""
    render: RenderResult | None = None


AnyCall = ToolCall | InterpretedCall


def base_call(call: AnyCall) -> ToolCall:
    """Return the call that runs: the base call of a facade, also of one that was saved, else the call itself."""
    if isinstance(call, InterpretedCall):
        return call.base
    if call.base_call is None or call.base_call.tool == call.name:
        return call
    return ToolCall(call.id, call.base_call.tool, call.base_call.arguments, caller=call.caller)
