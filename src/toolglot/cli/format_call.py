"""A call in one line, for people: what matters first, and nothing that a facade has only filled in.

This is for looking on. Whoever approves a call is shown all of it.
"""

from typing import Any

from toolglot.facades.catalog import BASE_TOOLS
from toolglot.facades.equivalence import HARNESS_PARAMETERS
from toolglot.jsontext import dumps_text
from toolglot.messages import ToolCall

__all__ = ["format_arguments"]

_LEADING = ("command", "argv", "pattern", "path", "text")


def format_arguments(call: ToolCall) -> str:
    """The arguments of a call in one line: `city: "Paris", units: "celsius"`."""
    if not call.arguments:
        return call.raw or "" if call.freeform or call.arguments is None else ""
    shown = _order_arguments(call.arguments) if call.name in BASE_TOOLS else call.arguments
    return ", ".join(f"{name}: {dumps_text(value)}" for name, value in shown.items())


def _order_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Of a built-in tool's arguments."""
    first = {name: arguments[name] for name in _LEADING if name in arguments}
    rest = {
        name: value for name, value in arguments.items() if name not in HARNESS_PARAMETERS and (name, value) != ("cwd", ".")
    }
    return first | rest
