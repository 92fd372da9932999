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
    """Import the object that `module:object` or `file.py:object` names, or the module itself if it names no object.

    Args:
        name: What to import.
        directory: Where to look for modules that are not installed, and what a file is relative to. None: nowhere, so that
            a user's name never refers to a file of a project that happens to be the current directory.

    Raises UsageError.
    """
    module_name, _, path = name.partition(":")
    file = Path(os.path.expanduser(module_name)) if module_name.endswith(".py") else None
    if file is not None and directory is None and not file.is_absolute():
        hint = "use its full path, pass it with a flag, or trust the current directory (run `toolglot trust .`)"
        raise UsageError(f"cannot load the file {name!r}: {hint}")
    if directory is not None and file is not None:
        file = directory / file
    entry = str(directory if file is None else file.parent)
    # At the end of the path: what lies beside a tool never takes the place of an installed module that the tool imports.
    is_added = (directory is not None or file is not None) and entry not in sys.path
    if is_added:
        sys.path.append(entry)
    try:
        value: Any = import_module(module_name) if file is None else _import_file(file)
        for part in path.split(".") if path else ():
            value = getattr(value, part)
    except (ImportError, AttributeError, ValueError, OSError) as e:
        raise UsageError(f"cannot load {name!r}: {e}") from None
    except (Exception, SystemExit) as e:  # the module's own code failed
        raise UsageError(f"cannot load {name!r}: {type(e).__name__}: {e}") from None
    finally:
        if is_added:
            with suppress(ValueError):  # the module may have changed the list
                sys.path.remove(entry)
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
    if installed is None or installed.origin == str(file):  # otherwise others who import that name must get the installed one
        sys.modules.setdefault(file.stem, module)
    return module


def load_tools(name: str, directory: Path | None = None) -> list[Any]:
    """Load tools: a function, a Tool, a ToolRegistry, a list of them, an object whose public methods are tools, or a module.

    Of a module, all that `@tool` made are loaded. A name without a colon means the tools of a plug-in, if one is so called.
    """
    from toolglot.tools.tool import tools_of

    value = find_plugin("tools", name) if _PLUGIN_NAME.fullmatch(name) else None
    if value is None:
        try:
            value = import_object(name, directory)
        except UsageError as e:
            hint = did_you_mean(suggest(name, plugin_names("tools"))) if _PLUGIN_NAME.fullmatch(name) else ""
            raise UsageError(f"{e}; {hint}" if hint else str(e)) from None
    if isinstance(value, ModuleType):
        public = {key: item for key, item in vars(value).items() if not key.startswith("_")}
        made: dict[Any, None] = {item: None for item in public.values() if isinstance(item, Tool)}
        if made:
            return list(made)
        lists = [key for key, item in public.items() if isinstance(item, list | ToolRegistry)]
        hint = f"write {name}:{lists[0]}" if lists else "decorate a function with @tool, or write MODULE:OBJECT"
        raise UsageError(f"{name!r} has no top-level tools: {hint}")
    if isinstance(value, ToolRegistry):
        return value.list()
    if isinstance(value, list | tuple):
        return list(cast(list[Any], value))
    if isinstance(value, Tool | ToolDefinition) or callable(value):
        return [value]
    if not (tools := list(tools_of(value))):
        raise UsageError(f"{name!r} is not a tool, a list of tools, or an object whose methods are tools")
    return tools


def load_facade_by_name(name: str, directory: Path | None = None, *, model: str = "") -> Facade:
    """Load a facade by its id or alias, by PROGRAM@VERSION, of a plug-in, or as `module:object`. Raises UsageError.

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
