"""Who makes a call: all that a call needs to know about the model, client, framework or script that made it.

A caller is a value, made for one request. Whatever is switched, added or reconfigured while a call runs, the
call keeps the caller that it was made with.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from toolglot.tools.calls import AnyCall, InterpretedCall, base_call
from toolglot.tools.config import ToolConfig
from toolglot.tools.policy_names import PolicyNames
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import Tool
from toolglot.values.definitions import ToolDefinition
from toolglot.values.messages import ToolCall

if TYPE_CHECKING:
    from toolglot.telemetry.runs import RunTelemetry

__all__ = ["Caller"]

_DEFAULT_CONFIG = ToolConfig()
_OWN_NAMES_ONLY = PolicyNames()


def _take_as_made(call: ToolCall) -> AnyCall:
    return call


class Caller(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The tools that a caller has, under which names, and the rules for its calls."""

    registry: ToolRegistry
    config: ToolConfig = _DEFAULT_CONFIG
    """Rules and limits; already narrowed for this run."""
    names: PolicyNames = _OWN_NAMES_ONLY
    """What the names in `config` stand for."""
    can_ask: bool = False
    """Whether somebody can approve a call, now or later."""
    can_wait: bool = False
    """Whether a call may wait for an answer that comes from elsewhere."""
    model: str = ""
    data: Any = None
    """The value of `Context.data`."""
    added_tools: Mapping[str, Tool] = {}
    """Tools besides those of the registry, by name: for the rest of long results, for structured output, to
    run code."""
    visible_names: tuple[str, ...] | None = None
    """The caller's names for the tools, if a facade has its own."""
    unloaded_tools: Mapping[str, ToolDefinition] = {}
    """Deferred tools that the model has not loaded, by the model's names for them."""
    inner_tools: tuple[ToolDefinition, ...] = ()
    """The tools that code run by the model may call."""
    interpret: Callable[[ToolCall], AnyCall] = _take_as_made
    """Translates a call that uses the caller's names."""
    telemetry: "RunTelemetry | None" = None

    def find_tool(self, call: AnyCall) -> Tool | None:
        """Return the tool that a call would run; None if there is none, or the call is invalid."""
        if isinstance(call, InterpretedCall) and call.error is not None:
            return None
        base = base_call(call)
        added = self.added_tools.get(base.qualified_name) if self.added_tools else None
        return added or self.registry.find(base.name, base.namespace)

    def has_added(self, tool: Tool) -> bool:
        """Return whether a tool is one of `added_tools`.

        By identity: a tool of the user may have the same name.
        """
        return bool(self.added_tools) and self.added_tools.get(tool.qualified_name) is tool
