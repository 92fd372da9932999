"""`module:object` as tools or as a facade: the object, with a folder on the path while its module is imported."""

import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from toolglot.errors import UnknownName, UsageError
from toolglot.facades.select import BASES, FACADES, find_facade
from toolglot.facades.view import Facade

__all__ = ["facade_file", "facade_named", "imported", "tools_in"]


def imported(name: str, folder: Path | None = None) -> Any:
    """The object that `module:object` names; modules are looked for in the folder first. Raises UsageError."""
    module_name, _, path = name.partition(":")
    place = str(folder or Path.cwd())
    sys.path.insert(0, place)
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
            sys.path.remove(place)
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


def facade_file(name: str, folder: Path | None = None) -> Path | None:
    """The file that a facade's name is, in a folder or else the current one; None for an id, auto and `module:object`."""
    if name == "auto" or name in FACADES:
        return None
    file = (folder or Path()) / os.path.expanduser(name)
    return file if file.suffix == ".toml" or "/" in name or os.path.isfile(file) else None


def facade_named(name: str) -> Facade:
    """A facade by its id, of a TOML file, or a `module:object`. Raises UsageError."""
    if name in FACADES:
        return find_facade(name)
    if (file := facade_file(name)) is None:
        if ":" not in name:
            raise UnknownName("facade", name, ("auto", *FACADES))
        found = imported(name)
        if isinstance(found, Facade):
            return found
        raise UsageError(f"{name!r} is not a Facade")
    from toolglot.facades.load import load_facade

    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as e:
        raise UsageError(f"the facade {name!r} cannot be read: {getattr(e, 'strerror', None) or 'it is not UTF-8'}") from None
    return load_facade(text, str(file), BASES, schema_of=_schema_of)


def _schema_of(base: str) -> dict[str, Any] | None:
    """The parameters of a built-in tool; None where there is no folder that it could work in."""
    from toolglot.builtin.tools import builtins

    try:
        found = builtins()
    except UsageError:
        return None
    try:
        return next((one.definition.parameters for one in found.tools if one.name == base), None)
    finally:
        found.close()
