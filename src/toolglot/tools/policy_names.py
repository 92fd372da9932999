"""What the names in a policy stand for: allowed and denied tools, rules, limits, tool choices.

Decided only here. Pure.

A name is the agent's tool, or a base tool, or a model's native name for base tools (`Bash`), in this order; a
pattern is all names that match it. A name that denies also covers the base tools behind it if the agent has a
tool of that name: a project must not free `shell` by adding a tool `Bash`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TypeVar

from toolglot.values.definitions import MCP_TAG

__all__ = ["PolicyNames", "has_wildcard", "may_come_later"]

Limit = TypeVar("Limit")


def has_wildcard(name: str) -> bool:
    """Return whether a name is a pattern."""
    return any(char in name for char in "*?[")


def may_come_later(name: str) -> bool:
    """Return whether this is a tool, or the tag, of an MCP server: it may not be connected yet."""
    return name.startswith((f"{MCP_TAG}__", f"{MCP_TAG}:"))


class PolicyNames:
    """Resolves names for one agent.

    `find_base_tools`: returns the base tools behind a base or native name, or behind those that match a
    pattern.
    `is_own`: whether a name is that of one of the agent's tools.
    """

    __slots__ = ("_find_base_tools", "_is_own")

    def __init__(
        self,
        find_base_tools: Callable[[str], Iterable[str]] | None = None,
        is_own: Callable[[str], bool] = lambda name: False,
    ) -> None:
        self._find_base_tools, self._is_own = find_base_tools, is_own

    def covers(self, pattern: str, *names: str, denies: bool = False) -> bool:
        """Return whether a name or pattern stands for one of these tools. `denies`: it forbids them."""
        if any(fnmatchcase(name, pattern) for name in names if name):
            return True
        if self._find_base_tools is None or (self._is_own(pattern) and not denies):
            return False
        return not {*names}.isdisjoint(self._find_base_tools(pattern))

    def is_listed(self, name: str, patterns: Collection[str]) -> bool:
        """Return whether one of the names or patterns that permit something stands for a tool."""
        return name in patterns or any(self.covers(pattern, name) for pattern in patterns)

    def find_limits(self, name: str, limits: Mapping[str, Limit]) -> list[Limit]:
        """Return the limits whose names or patterns stand for a tool."""
        return [limit for pattern, limit in limits.items() if self.covers(pattern, name)]
