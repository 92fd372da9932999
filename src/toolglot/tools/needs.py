"""Whether a value is what a tool needs as the data of its Context, as far as `isinstance` can tell."""

import re
import sys
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, is_typeddict

from toolglot.errors import UsageError
from toolglot.tools.tool import Tool

__all__ = ["fits", "wrong_data_error"]

# Numbers that type checkers accept in place of others.
_PROMOTIONS: dict[Any, tuple[type[Any], ...]] = {float: (float, int), complex: (complex, float, int)}


def fits(data: Any, needs: Any) -> bool:
    """Return False if data is certainly not of a type."""
    if needs is Any:
        return True
    if needs is None or needs is NoneType:
        return data is None
    origin = get_origin(needs)
    if origin is Annotated:
        return fits(data, get_args(needs)[0])
    if origin in (Union, UnionType):
        return any(fits(data, part) for part in get_args(needs))
    kind = origin or needs
    if not isinstance(kind, type) or is_typeddict(kind) or _is_mock(data):
        return True
    kinds: Any = _PROMOTIONS.get(kind, kind)
    try:
        return isinstance(data, kinds)
    except TypeError:  # a Protocol that is not runtime_checkable
        return True


def _is_mock(data: Any) -> bool:
    """Return whether a test passes something that stands for anything."""
    mock = sys.modules.get("unittest.mock")
    return mock is not None and isinstance(data, mock.NonCallableMock)


def wrong_data_error(tool: Tool, data: Any) -> UsageError:
    """Return the error for a tool that cannot run with the data of its agent, or of a run."""
    type_name = re.sub(r"[\w.<>]+\.", "", str(tool.needs))  # Shop | None, without the modules
    if isinstance(tool.needs, type):
        type_name = tool.needs.__name__
    if data is not None:
        return UsageError(f"tool {tool.name!r} needs data of type {type_name}, not {type(data).__name__}")
    advice = f"pass data=… to the run or to the agent, or declare Context[{type_name} | None]"
    return UsageError(f"tool {tool.name!r} needs data of type {type_name}, but the run has none: {advice}")
