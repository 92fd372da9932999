"""The standard library's TypedDict for pydantic, which before Python 3.12 accepts only the one of
typing_extensions.
"""

import sys
from types import GenericAlias, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

__all__ = ["replace_typed_dicts"]


def replace_typed_dicts(hint: Any) -> Any:
    """Return a type with each TypedDict of `typing` in it rebuilt.

    Raises NameError if an annotation cannot be resolved.
    """
    return hint if sys.version_info >= (3, 12) else _replace(hint, {})


def _replace(hint: Any, rebuilt: dict[Any, Any]) -> Any:
    from typing_extensions import TypedDict, is_typeddict

    if is_typeddict(hint) and type(hint).__module__ == "typing":
        if hint not in rebuilt:  # before its fields, which may refer to it
            new: Any = TypedDict(hint.__name__, {})  # pyright: ignore[reportArgumentType]
            rebuilt[hint] = new
            new.__doc__ = hint.__doc__
            new.__module__ = hint.__module__
            new.__required_keys__ = hint.__required_keys__
            new.__optional_keys__ = hint.__optional_keys__
            fields = get_type_hints(hint, include_extras=True)
            new.__annotations__ = {name: _replace(field, rebuilt) for name, field in fields.items()}
        return rebuilt[hint]
    origin = get_origin(hint)
    arguments = get_args(hint)
    if origin is None or origin is Literal:
        return hint
    if origin is Annotated:
        return Annotated[_replace(arguments[0], rebuilt), *arguments[1:]]
    replaced = tuple(_replace(argument, rebuilt) for argument in arguments)
    if replaced == arguments:
        return hint
    if origin in (Union, UnionType):
        return Union[replaced]  # noqa: UP007
    if hasattr(hint, "copy_with"):
        return hint.copy_with(replaced)
    return GenericAlias(cast(type, origin), replaced)
