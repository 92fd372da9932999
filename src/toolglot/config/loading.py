"""Load tools and facades that a setting or a flag names as `module:object`."""

import os
import re
import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from toolglot.common.plugins import find_plugin, plugin_names
from toolglot.common.textutil import did_you_mean, suggest
from toolglot.errors import UsageError
from toolglot.facades.catalog import find_facade, is_facade_name
from toolglot.facades.view import Facade
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import Tool
from toolglot.values.request import ToolDefinition

__all__ = ["import_object", "load_facade_by_name", "load_tools"]

_PLUGIN_NAME = re.compile(r"[\w-]+")


def import_object(name: str, directory: Path | None = None) -> Any:
    """Import the object that `module:object` or `file.py:object` names, or the module itself if it names no
    object.

    Args:
        name: What to import.
        directory: Where to look for modules that are not installed, and what a file is relative to. None:
            nowhere, so that a user's name never refers to a file of a project that happens to be the current
            directory.

    Raises UsageError.
    """
    module_name, _, path = name.partition(":")
    file: Path | None = None
    if module_name.endswith(".py"):
        file = Path(os.path.expanduser(module_name))
        if directory is not None:
            file = directory / file
        elif not file.is_absolute():
            hint = (
                "use its full path, pass it with a flag, or trust the current directory (run `toolglot "
                "trust .`)"
            )
            raise UsageError(f"cannot load the file {name!r}: {hint}")
    search_directory = directory if file is None else file.parent
    # At the end of the path: what lies beside a tool never takes the place of an installed module that the
    # tool imports.
    is_added = search_directory is not None and str(search_directory) not in sys.path
    if is_added:
        sys.path.append(str(search_directory))
    try:
        value: Any = import_module(module_name) if file is None else _import_file(file)
        if path:
            for part in path.split("."):
                value = getattr(value, part)
    except (ImportError, AttributeError, ValueError, OSError) as e:
        raise UsageError(f"cannot load {name!r}: {e}") from None
    except (Exception, SystemExit) as e:  # the module's own code failed
        raise UsageError(f"cannot load {name!r}: {type(e).__name__}: {e}") from None
    finally:
        if is_added:
            with suppress(ValueError):  # the module may have changed the list
                sys.path.remove(str(search_directory))
    return value


def _import_file(file: Path) -> ModuleType:
    """Import a file, even if another module has its name."""
    loaded = sys.modules.get(file.stem)
    if loaded is not None and getattr(loaded, "__file__", None) == str(file):
        return loaded
    spec = spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ImportError("it is not a Python file")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        installed = find_spec(file.stem)
    except (ImportError, ValueError):
        installed = None
    # otherwise others who import that name must get the installed one
    if installed is None or installed.origin == str(file):
        sys.modules.setdefault(file.stem, module)
    return module


def load_tools(name: str, directory: Path | None = None) -> list[Any]:
    """Load tools: a function, a Tool, a ToolRegistry, a list of them, an object whose public methods are
    tools, or a module.

    Of a module, all that `@tool` made are loaded. A name without a colon means the tools of a plug-in, if one
    is so called.
    """
    from toolglot.tools.tool import tools_of

    value = _load_tool_source(name, directory)
    if isinstance(value, ModuleType):
        return _list_tools_of_module(name, value)
    if isinstance(value, ToolRegistry):
        return value.list()
    if isinstance(value, list | tuple):
        return list(cast(list[Any], value))
    if isinstance(value, Tool | ToolDefinition) or callable(value):
        return [value]
    methods = list(tools_of(value))
    if not methods:
        raise UsageError(f"{name!r} is not a tool, a list of tools, or an object whose methods are tools")
    return methods


def _load_tool_source(name: str, directory: Path | None) -> Any:
    """Return what a name of tools stands for: of a plug-in, or of a module. Raises UsageError."""
    if not _PLUGIN_NAME.fullmatch(name):
        return import_object(name, directory)
    value = find_plugin("tools", name)
    if value is not None:
        return value
    try:
        return import_object(name, directory)
    except UsageError as e:
        hint = did_you_mean(suggest(name, plugin_names("tools")))
        message = f"{e}; {hint}" if hint else str(e)
        raise UsageError(message) from None


def _list_tools_of_module(name: str, module: ModuleType) -> list[Any]:
    """Return what `@tool` made in a module. Raises UsageError if there is nothing."""
    tools: dict[Any, None] = {}  # each once, also one that has two names
    lists: list[str] = []
    for key, item in vars(module).items():
        if key.startswith("_"):
            continue
        if isinstance(item, Tool):
            tools[item] = None
        elif isinstance(item, list | ToolRegistry):
            lists.append(key)
    if tools:
        return list(tools)
    hint = "decorate a function with @tool, or write MODULE:OBJECT"
    if lists:
        hint = f"write {name}:{lists[0]}"
    raise UsageError(f"{name!r} has no top-level tools: {hint}")


def load_facade_by_name(name: str, directory: Path | None = None, *, model: str = "") -> Facade:
    """Load a facade by its id or alias, by PROGRAM@VERSION, of a plug-in, or as `module:object`.

    Raises UsageError.

    Args:
        name: Which one.
        directory: Where a module is looked for that is not installed; None: nowhere.
        model: Which model it is for, if it depends on that.
    """
    if is_facade_name(name) or ":" not in name:
        return find_facade(name, model)
    facade = import_object(name, directory)
    if not isinstance(facade, Facade):
        raise UsageError(f"{name!r} is not a Facade")
    return facade
