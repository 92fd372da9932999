"""Tools that a provider runs itself, under one name for all wires. The definitions are in `wire/spec`."""

from collections.abc import Iterable
from typing import Any

from toolglot.errors import UnknownName
from toolglot.values.request import ToolDefinition
from toolglot.wire.spec import SPECS

__all__ = ["HOSTED_TOOLS", "HostedTools", "find_hosted_tool"]

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
    return (
        ToolDefinition(name, kind="hosted", wire=wire, opaque=definition) if definition is not None else None
    )


class HostedTools:
    """Tools that providers run themselves: by name, for every provider that has them, or as one provider's
    own definition.
    """

    def __init__(self, names: Iterable[str] = (), definitions: Iterable[ToolDefinition] = ()) -> None:
        self.names, self.definitions = tuple(names), tuple(definitions)
        self.all_names = (*(definition.name for definition in self.definitions), *self.names)
        self.definitions_for("")  # a name that no wire has is an error now

    def missing_names(self, wire: str) -> list[str]:
        """Return the names of the tools that a wire does not have."""
        return [name for name in self.names if find_hosted_tool(name, wire) is None]

    def definitions_for(self, wire: str) -> tuple[ToolDefinition, ...]:
        """Return the definitions that a wire is sent."""
        named = (find_hosted_tool(name, wire) for name in self.names)
        return (*self.definitions, *(definition for definition in named if definition is not None))
