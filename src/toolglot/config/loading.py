"""Load tools and facades that a setting or a flag names as `module:object`."""

import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from toolglot.errors import UnknownName, UsageError
from toolglot.facades.catalog import BASE_TOOLS, FACADE_MODULES, find_facade
from toolglot.facades.view import Facade
from toolglot.request import Schema, ToolDefinition
from toolglot.tools.tool import Tool

__all__ = ["find_facade_file", "import_object", "load_facade_by_name", "load_tools"]


def import_object(name: str, directory: Path | None = None) -> Any:
    """Import the object that `module:object` names, looking for the module in the directory first. Raises UsageError."""
    module_name, _, path = name.partition(":")
    if not path:
        raise UsageError(f"{name!r} names no object: write MODULE:OBJECT, such as {Path(module_name).stem}:tools")
    entry = str(directory or Path.cwd())
    sys.path.insert(0, entry)
    try:
        value: Any = import_module(module_name)
        for part in path.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError, ValueError) as e:
        raise UsageError(f"cannot load {name!r}: {e}") from None
    except (Exception, SystemExit) as e:  # the module's own code failed
        raise UsageError(f"cannot load {name!r}: {type(e).__name__}: {e}") from None
    finally:
        with suppress(ValueError):  # the module may have changed the list
            sys.path.remove(entry)
    return value


def load_tools(name: str, directory: Path | None = None) -> list[Any]:
    """Load tools: a function, a Tool, a ToolRegistry, a list of them, or an object whose public methods are tools."""
    from toolglot.tools.registry import ToolRegistry
    from toolglot.tools.tool import Tool, tools_of

    value = import_object(name, directory)
    if isinstance(value, ToolRegistry):
        return value.list()
    if isinstance(value, list | tuple):
        return list(cast(list[Any], value))
    if isinstance(value, Tool | ToolDefinition) or callable(value):
        return [value]
    if not (tools := list(tools_of(value))):
        raise UsageError(f"{name!r} is not a tool, a list of tools, or an object whose methods are tools")
    return tools


def find_facade_file(name: str, directory: Path | None = None) -> Path | None:
    """The file that a facade's name refers to, relative to the directory; None for an id, auto and `module:object`."""
    if name == "auto" or name in FACADE_MODULES:
        return None
    file = (directory or Path()) / os.path.expanduser(name)
    return file if file.suffix == ".toml" or "/" in name or os.path.isfile(file) else None


def load_facade_by_name(name: str) -> Facade:
    """Load a facade by its id, from a TOML file, or as `module:object`. Raises UsageError."""
    if name in FACADE_MODULES:
        return find_facade(name)
    if (file := find_facade_file(name)) is None:
        if ":" not in name:
            raise UnknownName("facade", name, ("auto", *FACADE_MODULES))
        facade = import_object(name)
        if isinstance(facade, Facade):
            return facade
        raise UsageError(f"{name!r} is not a Facade")
    from toolglot.facades.toml_loader import load_facade

    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as e:
        raise UsageError(f"cannot read the facade {name!r}: {getattr(e, 'strerror', None) or 'it is not UTF-8'}") from None
    schemas: dict[str, Schema] = {}
    for tool in _load_builtin_tools():
        shown = tool.definition.parameters or {}
        properties: Schema = {**{name: {} for name in tool.accepted_parameters}, **shown.get("properties", {})}
        schemas[tool.name] = {**shown, "properties": properties}
    return load_facade(text, str(file), schemas or {name: {} for name in BASE_TOOLS})


def _load_builtin_tools() -> tuple[Tool, ...]:
    """The built-in tools; none if there is no directory that they could work in."""
    # By name: the core does not depend on the built-in tools, which a facade is for.
    try:
        loaded = import_module("toolglot.builtin.tools").builtins()
    except UsageError:
        return ()
    loaded.close()
    return tuple(loaded.tools)
