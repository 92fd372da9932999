"""What a caller sees of a registry: which tools, under which names, and what its calls mean.

A model, an MCP client, another framework and a person at the command line all get their tools from a
`ToolView`, and call them as the `Caller` that it makes.
"""

from collections.abc import Iterable
from copy import copy
from functools import cached_property
from typing import Any

from toolglot.facades.bound_facade import BoundFacade, split_base_tools
from toolglot.facades.catalog import find_named_tools, resolve_facade
from toolglot.facades.view import Facade
from toolglot.tools.caller import Caller
from toolglot.tools.calls import AnyCall
from toolglot.tools.config import ToolConfig
from toolglot.tools.policy import find_allowed
from toolglot.tools.policy_names import PolicyNames
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import Tool
from toolglot.values.messages import ToolCall
from toolglot.values.request import ToolDefinition

__all__ = ["ToolView", "resolve_policy_names"]


def resolve_policy_names(
    registry: ToolRegistry, facade: Facade | str | None = "auto", hosted_names: Iterable[str] = ()
) -> PolicyNames:
    """Return what names in the policies of a program with these tools stand for."""
    hosted_names = tuple(hosted_names)
    if facade is None:
        facade = "auto"

    def find(pattern: str) -> tuple[str, ...]:
        # As of now: tools are added and removed while conversations live.
        return find_named_tools(pattern, (*(tool.name for tool in registry), *hosted_names), facade)

    return PolicyNames(find, registry.__contains__)


class ToolView:
    """The tools of a registry that a configuration allows.

    It stays valid while the registry has the same version.

    Args:
        registry: The tools.
        config: Rules and limits; tools that it denies altogether are not shown.
        facade: Names and describes the built-in tools, and those of the user that it names; None leaves them
            unchanged. It is loaded only if there are such tools.
        model: The model that the facade is for.
        names: What names in `config` stand for.
        added: Tools that the caller has besides, which a facade may name.
        hosted_names: Names of tools that a provider runs, for `config`.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        config: ToolConfig,
        facade: Facade | str | None = None,
        model: str = "",
        *,
        names: PolicyNames | None = None,
        added: Iterable[ToolDefinition] = (),
        hosted_names: Iterable[str] = (),
    ) -> None:
        self.registry = registry
        self.config = config
        self.model = model
        self._table = facade
        self._added = tuple(added)
        self._hosted_names = tuple(hosted_names)
        self.names = resolve_policy_names(registry, facade, self._hosted_names) if names is None else names
        self._version = registry.version

    def with_added(self, added: Iterable[ToolDefinition]) -> "ToolView":
        """Return a view with other tools added."""
        added = tuple(added)
        if added == self._added:
            return self
        other = copy(self)
        other._added = added
        for name in ("facade", "definitions"):
            vars(other).pop(name, None)
        return other

    @property
    def is_current(self) -> bool:
        """Whether the registry still has the same tools."""
        return self.registry.version == self._version

    @cached_property
    def allowed(self) -> frozenset[str] | None:
        """The names of the tools that the configuration allows; None: all."""
        tools = (*(tool.name for tool in self.registry), *self._hosted_names)
        return find_allowed(self.config, tools, self.names)

    def is_allowed(self, name: str) -> bool:
        """Return whether the configuration lets the caller have a tool."""
        if not self.config.enabled:
            return False
        return self.allowed is None or name in self.allowed

    @cached_property
    def facade(self) -> BoundFacade | None:
        """The caller's own names for the built-in tools, and for the user's that a custom facade names; None
        without any.
        """
        if self._table is None:
            return None
        base_tools, other_names = split_base_tools(self.registry.definitions(), self._table, self.allowed)
        if not base_tools:
            return None
        base_tools += [tool.name for tool in self._added]
        table = resolve_facade(self._table, self.model)
        return BoundFacade(table, self.model, base_tools, [*self._hosted_names, *other_names])

    @property
    def note(self) -> str:
        """How to use the tools, for a system prompt."""
        return self.facade.note if self.facade is not None else ""

    @property
    def visible_names(self) -> tuple[str, ...] | None:
        """The caller's names for the tools, if it has its own."""
        return self.facade.visible_names if self.facade is not None else None

    @cached_property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """The tools under the caller's names."""
        definitions = (*self.registry.definitions(), *self._added)
        facade = self.facade
        allowed = self.allowed
        if facade is not None:
            definitions = facade.visible_tools(definitions)
        if allowed is None:
            return definitions
        kept = {*allowed, *(tool.name for tool in self._added)}
        if facade is not None:
            kept |= {definition.name for definition in facade.definitions}
        return tuple(definition for definition in definitions if definition.name in kept)

    def tools_behind(self, definition: ToolDefinition) -> list[Tool]:
        """Return the tools that a definition stands for; a native name can stand for several."""
        name = definition.qualified_name
        names: set[str] = set()
        if self.facade is not None:
            for view in self.facade.views:
                if view.qualified_name == name:
                    names |= view.base_tools & self.facade.base_tools
        if not names:
            names = {name}
        return [tool for tool in self.registry if tool.definition.qualified_name in names]

    def interpret(self, call: ToolCall) -> AnyCall:
        """Return what a call means; a call of a tool without a native name means itself."""
        return call if self.facade is None else self.facade.interpret(call)

    def caller(self, **fields: Any) -> Caller:
        """Return who calls these tools. `fields`: the rest of the `Caller`."""
        return Caller(
            registry=self.registry,
            config=self.config,
            names=self.names,
            model=fields.pop("model", self.model),
            visible_names=self.visible_names,
            interpret=self.interpret,
            **fields,
        )
