"""What is read off a function when it becomes a tool."""

import inspect
import re
from functools import partial
from types import FrameType, FunctionType
from typing import Any, cast, get_args

from toolglot.tools.context import Context

__all__ = ["find_local_names", "first_parameter", "is_async", "is_context_annotation", "is_in_class", "qualified_name"]


def qualified_name(function: Any) -> str:
    """Return `module.name` of a function, for messages."""
    while isinstance(function, partial):
        function = cast(Any, function).func
    named = function if hasattr(function, "__qualname__") else cast(Any, type(function))
    return f"{named.__module__}.{named.__qualname__}"


def is_async(function: Any) -> bool:
    """Return whether calling a function gives a coroutine or an async generator."""
    while isinstance(function, partial):
        function = cast(Any, function).func
    if not inspect.isroutine(function) and not inspect.isclass(function):
        function = type(function).__call__
    function = getattr(function, "__func__", function)
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def is_context_annotation(annotation: Any) -> bool:
    """Return whether a parameter is annotated with Context, also as a string."""
    if isinstance(annotation, str):
        return re.fullmatch(r"(?:\w+\.)*Context(?:\s*\|\s*None)?", annotation.strip()) is not None
    return annotation is Context or Context in get_args(annotation)


def is_in_class(function: FunctionType) -> bool:
    """Return whether a function was defined in the body of a class."""
    holder = function.__qualname__.rpartition(".")[0]
    return bool(holder) and not holder.endswith("<locals>")


def first_parameter(function: FunctionType) -> str:
    """Return the name of the first parameter; "" without parameters."""
    return function.__code__.co_varnames[0] if function.__code__.co_argcount else ""


def find_local_names(function: Any, frame: FrameType) -> dict[str, Any] | None:
    """Return local names that string annotations refer to, from the frame in which the function is defined."""
    if frame.f_code.co_name == "<module>":
        return None
    annotations = [text for text in getattr(function, "__annotations__", {}).values() if isinstance(text, str)]
    words = set(re.findall(r"\w+", " ".join(annotations)))
    if not words:
        return None
    local = dict(frame.f_locals)
    if "__qualname__" in local and frame.f_back and frame.f_back.f_code.co_name != "<module>":  # the body of a class
        local = {**frame.f_back.f_locals, **local}
    return {word: local[word] for word in words if word in local}
