"""Reads the signature of any callable: its name, docstring, parameters and evaluated annotations.

Does not need pydantic.
"""

import inspect
from collections import ChainMap
from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, cast, get_type_hints

from toolglot.errors import InvalidTool

__all__ = ["Function", "evaluate_annotations", "function_doc", "function_name", "list_parameters"]

Function = Callable[..., Any]


def _strip_partials(function: Any) -> Any:
    while isinstance(function, partial):
        function = cast(Any, function).func
    return function


def function_name(function: Function) -> str:
    """Return the name that people know a callable by."""
    function = _strip_partials(function)
    return getattr(function, "__name__", None) or type(function).__name__


def _unwrap(function: Any) -> Any:
    """Return the plain function that holds the annotations, globals and closure."""
    function = _strip_partials(function)
    if inspect.isclass(function):
        return function.__init__
    # `functools.wraps` on a callable object sets `__wrapped__`: then the wrapped function counts, not
    # `__call__`.
    if not inspect.isroutine(function) and not hasattr(function, "__wrapped__"):
        function = type(function).__call__
    return inspect.unwrap(getattr(function, "__func__", function))


def function_doc(function: Any) -> str | None:
    """Return the docstring that describes a call."""
    function = _strip_partials(function)
    if inspect.isclass(function) or inspect.isroutine(function):
        return function.__doc__
    return _unwrap(function).__doc__ or type(function).__doc__


def list_parameters(function: Function) -> tuple[list[inspect.Parameter], inspect.Parameter | None]:
    """Return the parameters that a model can set, and the `**` parameter.

    Keywords fixed by a partial are left out.
    """
    label = function_name(function)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some builtins have no signature
        raise InvalidTool(
            f"{label} cannot be a tool: Python cannot inspect its parameters; wrap it in a function"
        ) from None
    # A method taken from its class, before it is bound: the registry binds it later.
    if parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    if isinstance(function, partial):
        fixed = cast("partial[Any]", function).keywords
        parameters = [p for p in parameters if p.name not in fixed]
    named: list[inspect.Parameter] = []
    extra: inspect.Parameter | None = None
    for parameter in parameters:
        match parameter.kind:
            case inspect.Parameter.VAR_POSITIONAL:
                reason = (
                    f"it takes *{parameter.name}, but models pass arguments by name; use a list "
                    "parameter instead"
                )
                raise InvalidTool(f"{label} cannot be a tool: {reason}")
            case inspect.Parameter.VAR_KEYWORD:
                extra = parameter
            case _:
                named.append(parameter)
    return named, extra


def evaluate_annotations(
    function: Function,
    parameters: list[inspect.Parameter],
    context_type: type | None,
    namespace: Mapping[str, Any],
) -> dict[str, Any]:
    """Return each parameter's type; `Any` without an annotation. String annotations are evaluated."""
    annotations = {p.name: p.annotation for p in parameters if p.annotation is not p.empty}
    target = _unwrap(function)
    global_names: dict[str, Any] = getattr(target, "__globals__", {})
    closure: dict[str, Any] = {param.__name__: param for param in getattr(target, "__type_params__", ())}
    free_names = getattr(getattr(target, "__code__", None), "co_freevars", ())
    for name, cell in zip(free_names, getattr(target, "__closure__", None) or (), strict=False):
        try:
            closure[name] = cell.cell_contents
        except ValueError:  # an empty cell: the enclosing function has not assigned the name yet
            continue
    local_names = ChainMap(dict(namespace), closure)

    def evaluate(annotations: dict[str, Any], global_names: dict[str, Any]) -> dict[str, Any]:
        return get_type_hints(
            SimpleNamespace(__annotations__=annotations), global_names, local_names, include_extras=True
        )

    types = dict.fromkeys((p.name for p in parameters), Any)
    try:
        return types | evaluate(annotations, global_names)
    except Exception:
        # Evaluate one by one, to name the bad one. `Context` is often imported under TYPE_CHECKING only.
        if context_type:
            global_names = {context_type.__name__: context_type} | global_names
        for name, annotation in annotations.items():
            try:
                types |= evaluate({name: annotation}, global_names)
            except Exception as e:
                where = f"parameter {name!r} of {function_name(function)}"
                advice = "define or import it at the top of the module"
                raise InvalidTool(
                    f"{where}: its type {annotation!r} cannot be resolved ({e}); {advice}"
                ) from None
        return types
