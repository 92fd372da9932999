"""`module:object` as tools or as a facade: the object, with a folder on the path while its module is imported."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from toolglot.errors import UnknownName, UsageError
from toolglot.facades.select import BASES, FACADES, find_facade
from toolglot.facades.view import Facade

__all__ = ["facade_named", "imported", "tools_in"]


def imported(name: str, folder: Path | None = None) -> Any:
    """The object that `module:object` names; modules are looked for in the folder first. Raises UsageError."""
    module_name, _, path = name.partition(":")
    sys.path.insert(0, str(folder or Path.cwd()))
    try:
        value: Any = import_module(module_name)
        for part in path.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError, ValueError) as e:
        raise UsageError(f"cannot load {name!r}: {e}") from None
    except (Exception, SystemExit) as e:  # the module's own code failed
        raise UsageError(f"cannot load {name!r}: {type(e).__name__}: {e}") from None
    finally:
        sys.path.pop(0)
    return value


def tools_in(name: str, folder: Path | None = None) -> list[Any]:
    """Tools for a run: a function, a Tool, a ToolRegistry, a list of them, or an object whose public methods are tools."""
    from toolglot.tools.registry import ToolRegistry
    from toolglot.tools.tool import Tool, tools_of

    value = imported(name, folder)
    if isinstance(value, ToolRegistry):
        return value.list()
    if isinstance(value, list | tuple):
        return list(cast(list[Any], value))
    if isinstance(value, Tool) or callable(value):
        return [value]
    if not (found := list(tools_of(value))):
        raise UsageError(f"{name!r} is not a tool, a list of tools, or an object whose methods are tools")
    return found


def facade_named(name: str) -> Facade:
    """A facade by its id, of a TOML file, or a `module:object`. Raises UsageError."""
    if name in FACADES:
        return find_facade(name)
    file = Path(name).expanduser()
    if ":" in name and not file.exists():
        found = imported(name)
        if isinstance(found, Facade):
            return found
        raise UsageError(f"{name!r} is not a Facade")
    if not file.suffix:
        raise UnknownName("facade", name, ("auto", *FACADES))
    from toolglot.facades.load import load_facade

    try:
        return load_facade(file.read_text(encoding="utf-8"), str(file), BASES)
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"the facade {name!r} cannot be read: {getattr(e, 'strerror', 'it is not UTF-8')}") from None
