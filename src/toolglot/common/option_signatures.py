"""Signatures that name every option, for `help` and editors that run code: `**options: Unpack[…]` is for type
checkers only.
"""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["show_options"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


class _Default:
    def __repr__(self) -> str:
        return "…"


def show_options(options: type[Any]) -> Callable[[_Function], _Function]:
    """Let the signature of a function name the keys of a TypedDict instead of `**options`."""

    def decorate(function: _Function) -> _Function:
        signature = inspect.signature(function)
        parameters = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
        explicit = {parameter.name for parameter in parameters}
        for name, kind in options.__annotations__.items():
            if name not in explicit:
                default = _Default()
                option = inspect.Parameter(
                    name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
                )
                parameters.append(option)
        function.__dict__["__signature__"] = signature.replace(parameters=parameters)
        return function

    return decorate
