"""Format a tool call on one line for a user who is watching. Approvals show every argument instead."""

from toolglot.facades.catalog import BASE_TOOLS
from toolglot.facades.equivalence import HARNESS_PARAMETERS
from toolglot.jsontext import dumps_text
from toolglot.messages import ToolCall

_LEADING = ("command", "argv", "pattern", "path", "text")


def format_arguments(call: ToolCall) -> str:
    """Format arguments as `city: "Paris", units: "celsius"`.

    For built-in tools the important ones come first, and those that a facade merely fills in are omitted.
    """
    if not call.arguments:
        return call.raw or "" if call.freeform or call.arguments is None else ""
    arguments = call.arguments
    if call.name in BASE_TOOLS:
        leading = {name: arguments[name] for name in _LEADING if name in arguments}
        relevant = {
            name: value for name, value in arguments.items() if name not in HARNESS_PARAMETERS and (name, value) != ("cwd", ".")
        }
        arguments = leading | relevant
    return ", ".join(f"{name}: {dumps_text(value)}" for name, value in arguments.items())
