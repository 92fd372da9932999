"""Tools that a provider runs itself, under one name for all wires. The definitions are in `wire/spec`."""

from typing import Any

from toolglot.errors import UnknownName
from toolglot.request import ToolDefinition
from toolglot.wire.spec import SPECS

__all__ = ["HOSTED_TOOLS", "find_hosted_tool"]

# Our name -> wire -> definition there.
HOSTED_TOOLS: dict[str, dict[str, dict[str, Any]]] = {}
for _spec in SPECS.values():
    for _name, _definition in _spec.hosted_tools.items():
        HOSTED_TOOLS.setdefault(_name, {})[_spec.name] = _definition


def find_hosted_tool(name: str, wire: str) -> ToolDefinition | None:
    """Return the hosted tool for a wire, or None if the wire has no such tool."""
    if name not in HOSTED_TOOLS:
        raise UnknownName("hosted tool", name, HOSTED_TOOLS)
    definition = HOSTED_TOOLS[name].get(wire)
    return ToolDefinition(name, kind="hosted", wire=wire, opaque=definition) if definition is not None else None
