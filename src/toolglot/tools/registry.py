"""The tools of a program, by name.

Laws: a name stands for one tool, and taking it twice is an error that names both. Every change makes a new version, so that
what was made from the tools can be cached by it. Readers see one whole state and never wait: writers replace it.
"""

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from threading import Lock
from typing import Any

from toolglot.errors import InvalidTool, NameConflict, UnknownName
from toolglot.request import ToolDefinition
from toolglot.tools.tool import Tool, qualified_name

__all__ = ["ToolRegistry"]

MAX_NAME_SHOWN, MAX_SUGGESTIONS = 80, 10
ToolKey = tuple[str, str]
"""Namespace and name."""


class ToolRegistry:
    """Tools under their names, in the order in which they came. Safe under threads."""

    def __init__(self, tools: "Iterable[Tool | Callable[..., Any]]" = ()) -> None:
        self._lock = Lock()
        self._state: tuple[int, dict[ToolKey, Tool]] = (0, {})
        self._definitions: tuple[int, tuple[ToolDefinition, ...]] = (0, ())
        for item in tools:
            self.register(item)

    # -- change

    def register(self, tool: Tool | Callable[..., Any], *, replace: bool = False) -> Tool:
        """Adds a tool, or a function as one. `replace`: it may take the name of another. The same tool twice is once."""
        tool = _to_tool(tool)
        with self._lock:
            self._add({_tool_key(tool): tool}, replace)
        return tool

    def unregister(self, name: str, namespace: str = "") -> Tool:
        """Takes a tool out. Raises UnknownName."""
        with self._lock:
            key = _tool_key(self.get(name, namespace))
            version, tools = self._state
            self._state = version + 1, {other: tool for other, tool in tools.items() if other != key}
            return tools[key]

    def merge(self, other: "ToolRegistry | Iterable[Tool | Callable[..., Any]]") -> None:
        """Adds all tools of another registry, or none where a name is taken. Raises NameConflict."""
        new: dict[ToolKey, Tool] = {}
        for tool in map(_to_tool, other):
            _check_conflict(new.get(_tool_key(tool)), tool)
            new[_tool_key(tool)] = tool
        with self._lock:
            self._add(new, False)

    def _add(self, new: dict[ToolKey, Tool], replace: bool) -> None:
        version, tools = self._state
        for key, tool in new.items():
            if not replace:
                _check_conflict(tools.get(key), tool)
        if any(tools.get(key) is not tool for key, tool in new.items()):
            self._state = version + 1, {**tools, **new}

    # -- look

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self._state[0]

    def get(self, name: str, namespace: str = "") -> Tool:
        """The tool of a name; without a namespace also one that has it as the only one. Raises UnknownName."""
        tools = self._state[1]
        found = tools.get((namespace, name))
        if found is None and not namespace:
            named = [tool for (_, other), tool in tools.items() if other == name]
            found = named[0] if len(named) == 1 else None
        if found is None:
            raise _unknown_tool(f"{namespace}.{name}" if namespace else name, tools)
        return found

    def __contains__(self, name: object) -> bool:
        tools = self._state[1]
        if isinstance(name, Tool):
            return tools.get(_tool_key(name)) is name
        return name in tools or any(other == name for _, other in tools)

    def __len__(self) -> int:
        return len(self._state[1])

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._state[1].values())

    def list(self) -> "list[Tool]":
        """The tools in order."""
        return [*self]

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """What a model sees; made once for each version."""
        (version, tools), made = self._state, self._definitions
        if made[0] != version:
            made = self._definitions = version, tuple(tool.definition for tool in tools.values())
        return made[1]

    # -- others

    def clone(self) -> "ToolRegistry":
        """A registry of its own with the same tools."""
        other = ToolRegistry()
        other._state, other._definitions = self._state, self._definitions
        return other

    def filter(
        self, names: Iterable[str] | None = None, tags: Iterable[str] | None = None, exclude: Iterable[str] = ()
    ) -> "ToolRegistry":
        """A registry with the tools of these names that have one of these tags. Raises UnknownName for a name it lacks."""
        wanted = None if names is None else {*names}
        marks, never = None if tags is None else {*tags}, {*exclude}
        for name in wanted or ():
            if name not in self:
                raise _unknown_tool(name, self._state[1])
        return ToolRegistry(
            tool
            for tool in self
            if (wanted is None or tool.name in wanted) and (marks is None or marks & tool.tags) and tool.name not in never
        )

    def __repr__(self) -> str:
        return f"ToolRegistry({', '.join(map(_qualified_name, self._state[1]))})"


def _to_tool(tool: Tool | Callable[..., Any]) -> Tool:
    tool = tool if isinstance(tool, Tool) else Tool(tool)
    if tool.is_unbound:
        why = "it is a method without its object; register the method of an instance, or tools_of(instance)"
        raise InvalidTool(f"{qualified_name(tool.function)} cannot be registered: {why}")
    return tool


def _tool_key(tool: Tool) -> ToolKey:
    return tool.namespace, tool.name


def _qualified_name(key: ToolKey) -> str:
    return f"{key[0]}.{key[1]}" if key[0] else key[1]


def _unknown_tool(name: str, known_keys: Iterable[ToolKey]) -> UnknownName:
    """Told in a few words, however long the name is that a model made up, and however many tools there are."""
    titles, short = (
        sorted(map(_qualified_name, known_keys)),
        name if len(name) <= MAX_NAME_SHOWN else name[:MAX_NAME_SHOWN] + "…",
    )
    error = UnknownName("tool", short, get_close_matches(short, titles, n=3, cutoff=0.5) or titles[:MAX_SUGGESTIONS])
    error.name = name
    return error


def _check_conflict(old: Tool | None, new: Tool) -> None:
    if old is not None and old is not new:
        what = f"two tools are called {_qualified_name(_tool_key(new))!r}: {qualified_name(old.function)} and {qualified_name(new.function)}"  # noqa: E501
        raise NameConflict(f"{what}; give one another name, or say replace=True")
