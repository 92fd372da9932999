"""What the arguments of a call say: what is wrong with them, what they touch, what they would do."""

from collections.abc import Callable, Sequence
from typing import Any

from toolglot.builtin.tool_state import ToolState
from toolglot.errors import ToolError

__all__ = ["check_choice", "check_minimum", "file_target", "make_preview", "path_target"]


def check_minimum(name: str, value: int, minimum: int = 0) -> int:
    """A number that is large enough. Raises ToolError."""
    if value < minimum:
        raise ToolError(f"{name} is {value}; it must be {minimum} or more", kind="validation")
    return value


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raises ToolError where the value is none of the choices."""
    if value not in choices:
        known = f"{', '.join(choices[:-1])} or {choices[-1]}"
        raise ToolError(f"`{name}` is {value!r:.40}: give {known}", kind="validation")


def path_target(state: ToolState) -> Callable[[dict[str, Any]], str]:
    """Tells the real path of what a call looks into; the workspace without a path."""

    def target(arguments: dict[str, Any]) -> str:
        path = arguments.get("path")
        try:
            found = state.workspace.inspect(path if isinstance(path, str) and path else ".")
        except ToolError:
            return str(path)
        return str(found.path) if found else str(path)

    return target


def file_target(state: ToolState) -> Callable[[dict[str, Any]], str]:
    """Tells the real path of the file that a call touches, links followed; it need not be there yet."""

    def target(arguments: dict[str, Any]) -> str:
        path = str(arguments.get("path", ""))
        above, _, name = path.rstrip("/").rpartition("/")
        try:
            if (found := state.workspace.inspect(path)) is not None:
                return str(found.path)
            folder = state.workspace.inspect(above or ".") if not path.startswith("/") or above else None
            return str(folder.path / name) if folder is not None else path
        except ToolError:
            return path

    return target


def make_preview(describe: Callable[..., str]) -> Callable[[dict[str, Any]], str]:
    """What a call would do, in the words of its plan; and where it would fail, why."""

    def preview(arguments: dict[str, Any]) -> str:
        try:
            return describe(**arguments)
        except ToolError as e:
            return f"(this will fail: {e})"

    return preview
