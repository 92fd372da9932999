"""A call in one line, for people: what matters first, and nothing that a facade has only filled in.

This is for looking on. Whoever approves a call is shown all of it.
"""

from typing import Any

from toolglot.facades.plain import OWN
from toolglot.facades.select import BASES
from toolglot.jsontext import dumps_text
from toolglot.messages import ToolCall

__all__ = ["said_arguments"]

_FIRST = ("command", "argv", "pattern", "path", "text")


def said_arguments(call: ToolCall) -> str:
    """The arguments of a call in one line: `city: "Paris", units: "celsius"`."""
    if not call.arguments:
        return call.raw or "" if call.freeform or call.arguments is None else ""
    shown = _what_matters(call.arguments) if call.name in BASES else call.arguments
    return ", ".join(f"{name}: {dumps_text(value)}" for name, value in shown.items())


def _what_matters(arguments: dict[str, Any]) -> dict[str, Any]:
    """Of a built-in tool's arguments."""
    first = {name: arguments[name] for name in _FIRST if name in arguments}
    rest = {name: value for name, value in arguments.items() if name not in OWN and (name, value) != ("cwd", ".")}
    return first | rest
