"""What a facade makes of a call, for tests: the base call, or the error that the model reads."""

from typing import Any, NamedTuple

from msgspec.structs import replace

from toolglot.facades.bound_facade import BoundFacade
from toolglot.values.losses import Repair
from toolglot.values.messages import ToolCall, ToolResult


class Meaning(NamedTuple):
    tool: str
    arguments: dict[str, Any]
    repairs: tuple[Repair, ...] = ()


def meaning_of(facade: BoundFacade, call: ToolCall) -> Meaning | None:
    """The base call; None for a call that no view of the facade stands for. Raises ToolError."""
    interpreted = facade.interpret(call)
    if interpreted.error is not None:
        raise interpreted.error
    if interpreted.base is call:
        return None
    return Meaning(interpreted.base.name, interpreted.base.arguments or {}, interpreted.repairs)


def render(
    facade: BoundFacade, call: ToolCall, arguments: dict[str, Any], result: ToolResult, details: Any = None
) -> ToolResult:
    """A result as the facade renders it; `arguments` are those of the base tool."""
    renderer = facade.interpret(call).render
    return replace(result, name=call.name) if renderer is None else renderer(result, arguments, details)
