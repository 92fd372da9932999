"""The tools that only one run has: definitions, whose calls are answered from elsewhere.

They are saved with a run that waits, so that another process needs nothing to continue it.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import asdict

from toolglot.common.value_checks import as_items
from toolglot.errors import InvalidTool, MalformedData, NameConflict, ToolglotError, UsageError
from toolglot.schema.arguments import check_schema
from toolglot.tools.config import ANY_EFFECT, Rate
from toolglot.tools.options import Action
from toolglot.tools.tool import Tool, tool_from_definition
from toolglot.values.approvals import Effect
from toolglot.values.definitions import ToolDefinition, to_storable

__all__ = ["SavedTool", "read_run_tools", "restore_run_tools", "save_run_tools"]

_NOT_SAVED = ("always_ask", "confined", "preview", "quiet", "scope", "target")


class SavedTool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool of a run in the header of a saved conversation. The fields are options of a `Tool`."""

    definition: ToolDefinition
    approval: bool | None = None
    timeout: float | None = None
    effects: tuple[Effect, ...] = ()
    max_uses: int | None = None
    rate: Rate | None = None
    max_result: int | None = None
    ordered: bool = False
    polls: bool = False
    action: Action | None = None
    verb: str | None = None


_SAVED_OPTIONS = tuple(name for name in SavedTool.__struct_fields__ if name not in ("definition", "effects"))


def read_run_tools(items: Iterable[Any]) -> tuple[Tool[..., Any], ...]:
    """Return the tools of a run. Raises UsageError, NameConflict, InvalidTool."""
    tools: dict[str, Tool[..., Any]] = {}
    for item in as_items(items):
        # What cannot be saved is said now, rather than when the run waits; and what is shown of a call has the
        # same fingerprint in every process.
        tool = _restore(_save(_read_tool(item)))
        _check_definition(tool.definition)
        if tool.qualified_name in tools:
            raise NameConflict(f"two tools of the run are called {tool.qualified_name!r}; rename one")
        tools[tool.qualified_name] = tool
    return tuple(tools.values())


def _read_tool(item: Any) -> Tool[..., Any]:
    if isinstance(item, ToolDefinition):
        return tool_from_definition(item)
    if not callable(item):  # as a Tool is, too
        raise UsageError(f"tools: pass ToolDefinitions, not {type(item).__name__}")
    tool: Any = item
    if getattr(tool, "is_external", False):
        return tool
    name: str = getattr(tool, "name", "") or getattr(tool, "__name__", "one")
    raise UsageError(
        f"the tools of one run have no functions, but {name} has: pass it to the agent, as "
        "Agent(tools=[…]) or with agent.add_tools([…])"
    )


def _check_definition(definition: ToolDefinition) -> None:
    name, parameters = definition.name, definition.parameters or {}
    if definition.kind == "hosted":
        raise UsageError(f"a provider runs the tool {name!r}: pass it to the agent, as Agent(tools=[…])")
    if parameters.get("type", "object") != "object":
        raise UsageError(f"the tool {name!r} of the run has a wrong schema: its arguments must be an object")
    for schema in (parameters, definition.output_schema or {}):
        try:
            check_schema(schema)
        except UsageError as e:
            raise UsageError(f"the tool {name!r} of the run has a wrong schema: {e}") from None


def save_run_tools(tools: Iterable[Tool[..., Any]]) -> list[SavedTool]:
    """Return the tools of a run as a file has them."""
    return list(map(_save, tools))


def _save(tool: Tool[..., Any]) -> SavedTool:
    for option in _NOT_SAVED:
        if getattr(tool, option) not in (None, False):
            raise UsageError(
                f"the tool {tool.name!r} of the run has {option}, which is not saved with the run: pass the tool "
                "to the agent, as Agent(tools=[…])"
            )
    options = {name: getattr(tool, name) for name in _SAVED_OPTIONS}
    effects = () if tool.effects == ANY_EFFECT else tuple(sorted(tool.effects))
    return SavedTool(to_storable(tool.definition), effects=effects, **options)


def restore_run_tools(saved: Iterable[SavedTool]) -> tuple[Tool[..., Any], ...]:
    """Return the tools that were saved with a run. Raises MalformedData."""
    try:
        return read_run_tools([_restore(item) for item in saved])
    except (InvalidTool, ToolglotError) as e:
        raise MalformedData(f"line 1: the saved tools of the run cannot be used: {e}") from None


def _restore(saved: SavedTool) -> Tool[..., Any]:
    options: dict[str, Any] = asdict(saved)
    definition: ToolDefinition = options.pop("definition")
    if not saved.effects:
        del options["effects"]
    return tool_from_definition(definition, **options)
