"""The tools of a program, by name.

Invariants: a name stands for one tool; registering it twice is an error that names both. Every change creates
a new version, which serves as a cache key for what is derived from the tools. Writers replace the whole
state, so readers see a consistent one and never wait.
"""

from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import Any, cast, overload

import msgspec

from toolglot.common.value_checks import as_items
from toolglot.errors import InvalidTool, NameConflict, UnknownName
from toolglot.tools.tool import Tool, qualified_name, tool_from_definition
from toolglot.values.request import ToolDefinition

__all__ = ["ToolRegistry"]

ToolKey = tuple[str, str]
"""Namespace and name."""
# One lock for all registries: writes are rare, and a registry per agent stays cheap.
_WRITE_LOCK = Lock()


class ToolRegistry:
    """Tools by name, in registration order. Safe to use from several threads."""

    def __init__(self, tools: "Iterable[Tool | Callable[..., Any]]" = ()) -> None:
        self._state: tuple[int, dict[ToolKey, Tool]] = (0, {})
        self._definitions: tuple[int, tuple[ToolDefinition, ...]] = (0, ())
        self._by_name: tuple[int, dict[str, Tool | None]] = (0, {})
        self._watchers: tuple[Callable[[], None], ...] = ()
        self._add([_to_tool(tool) for tool in as_items(tools)])

    # -- change

    @overload
    def register(self, tool: Tool | Callable[..., Any], /, *, replace: bool = False) -> Tool: ...
    @overload
    def register(
        self, name: str, function: Tool | Callable[..., Any], /, *, replace: bool = False
    ) -> Tool: ...
    def register(self, tool: Any, function: Any = None, /, *, replace: bool = False) -> Tool:
        """Add a tool or a function, optionally under another name: `register("search", find)`.

        `replace`: it may replace another tool of that name. Registering the same tool again has no effect.
        """
        added = _to_tool(tool) if function is None else _to_tool(function, tool)
        self._add([added], replace=replace)
        return added

    def unregister(self, name: str, namespace: str = "") -> Tool:
        """Remove a tool. Raises UnknownName."""
        with _WRITE_LOCK:
            tool = self.get(name, namespace)
            version, tools = self._state
            self._state = version + 1, {key: other for key, other in tools.items() if key != tool.key}
        for watcher in self._watchers:
            watcher()
        return tool

    def merge(
        self, other: "ToolRegistry | Iterable[Tool | Callable[..., Any]]", *, replace: bool = False
    ) -> "ToolRegistry":
        """Add all tools from another registry, or none if a name is taken and `replace` is not set; return
        this registry.

        Raises NameConflict.
        """
        self._add([_to_tool(tool) for tool in other], replace=replace)
        return self

    def _add(self, added: Iterable[Tool], *, replace: bool = False) -> None:
        with _WRITE_LOCK:
            version, tools = self._state
            tools, has_changed = tools.copy(), False
            for tool in added:
                old = tools.get(tool.key)
                if old is not None and old is not tool and not replace:
                    functions = f"{qualified_name(old.function)} and {qualified_name(tool.function)}"
                    name = _join_key(tool.key)
                    raise NameConflict(
                        f"two tools are called {name!r}: {functions}; rename one, or pass replace=True"
                    )
                tools[tool.key] = tool
                has_changed = has_changed or old is not tool
            if has_changed:
                self._state = version + 1, tools
        for watcher in self._watchers if has_changed else ():
            watcher()

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call a function after every change, in the thread that made it.

        Return a function that stops the watching.
        """

        def call() -> None:  # a distinct object, so that the same function can watch twice
            watcher()

        def unwatch() -> None:
            with _WRITE_LOCK:
                self._watchers = tuple(other for other in self._watchers if other is not call)

        with _WRITE_LOCK:
            self._watchers = (*self._watchers, call)
        return unwatch

    # -- look up

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self._state[0]

    def find(self, name: str, namespace: str = "") -> Tool | None:
        """Return the tool with a name, or None.

        Without a namespace, a name that is unique across namespaces is enough.
        """
        tools = self._state[1]
        tool = tools.get((namespace, name))
        if tool is None and not namespace:
            tool = self._find_by_name().get(name)
        return tool

    def _find_by_name(self) -> dict[str, Tool | None]:
        """Return the tools by their names without a namespace, None for a name that several have; computed
        once per version.
        """
        (version, tools), known = self._state, self._by_name
        if known[0] != version:
            by_name: dict[str, Tool | None] = {}
            for (_, name), tool in tools.items():
                by_name[name] = None if name in by_name else tool
            known = self._by_name = version, by_name
        return known[1]

    def get(self, name: str, namespace: str = "") -> Tool:
        """Like `find`. Raises UnknownName."""
        tool = self.find(name, namespace)
        if tool is None:
            raise self.unknown_name(name, namespace)
        return tool

    def unknown_name(self, name: str, namespace: str = "") -> UnknownName:
        """Return the error for a name that is not registered."""
        return UnknownName("tool", _join_key((namespace, name)), map(_join_key, self._state[1]))

    def __contains__(self, name: object) -> bool:
        if isinstance(name, str):
            return name in self._find_by_name()
        tools = self._state[1]
        return tools.get(name.key) is name if isinstance(name, Tool) else name in tools

    def __len__(self) -> int:
        return len(self._state[1])

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._state[1].values())

    def list(self) -> "list[Tool]":
        """Return the tools in order."""
        return [*self]

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the definitions that a model sees; computed once per version."""
        (version, tools), cached = self._state, self._definitions
        if cached[0] != version:
            cached = self._definitions = version, tuple(tool.definition for tool in tools.values())
        return cached[1]

    # -- copies

    def clone(self) -> "ToolRegistry":
        """Return an independent registry with the same tools."""
        other = ToolRegistry()
        other._state, other._definitions, other._by_name = self._state, self._definitions, self._by_name
        return other

    def __repr__(self) -> str:
        return f"ToolRegistry({', '.join(map(_join_key, self._state[1]))})"


def _to_tool(item: Tool | ToolDefinition | Callable[..., Any], name: str = "") -> Tool:
    if isinstance(item, Tool):
        tool: Tool = cast(Tool, item).replace(name=name) if name else cast(Tool, item)
    elif isinstance(item, ToolDefinition) and item.kind != "hosted":  # its answers come from elsewhere
        tool = tool_from_definition(msgspec.structs.replace(item, name=name) if name else item)
    else:
        function = cast(Callable[..., Any], item)
        tool = Tool(function, name=name) if name else Tool(function)
    if tool.is_unbound:
        reason = (
            "it is a method without its object; register the method of an instance, or tools_of(instance)"
        )
        raise InvalidTool(f"{qualified_name(tool.function)} cannot be registered: {reason}")
    return tool


def _join_key(key: ToolKey) -> str:
    return f"{key[0]}.{key[1]}" if key[0] else key[1]
