"""What built-in tools do with arguments: check them, find the path they are about, preview their effect."""

from collections.abc import Callable
from typing import Any

from toolglot.builtin.tool_state import ToolState
from toolglot.errors import ToolError
from toolglot.values.failures import invalid_argument

__all__ = ["check_minimum", "make_preview", "path_target"]


def check_minimum(name: str, value: int, minimum: int = 0) -> int:
    """Return a number that is large enough. Raises ToolError."""
    if value < minimum:
        raise invalid_argument(name, f"is {value}; the minimum is {minimum}")
    return value


def path_target(state: ToolState) -> Callable[[dict[str, Any]], str]:
    """Return a function that names the real path of what a call is about; without a path, the workspace."""

    def target(arguments: dict[str, Any]) -> str:
        path = str(arguments.get("path") or ".")
        try:
            return str(state.workspace.resolve(path))
        except ToolError:
            return path

    return target


def make_preview(describe: Callable[..., str]) -> Callable[[dict[str, Any]], str]:
    """Return a preview of a call: what `describe` says of its arguments.

    Raises ToolError if the call would fail as well.
    """
    return lambda arguments: describe(**arguments)
