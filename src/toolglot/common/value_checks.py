"""Checks of values that callers create, which msgspec does only for values that it decodes."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Any, ClassVar, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec.structs import asdict, force_setattr

from toolglot.common.textutil import did_you_mean, suggest
from toolglot.errors import UnknownName, UsageError

__all__ = [
    "FORMER_OPTIONS",
    "Accepts",
    "OptionMeta",
    "as_items",
    "check_arguments",
    "check_texts",
    "check_values",
    "find_accepted",
    "keep_iterables",
]


class Accepts(msgspec.Struct, frozen=True):
    """Annotates an option with the types of its values, and with how error messages describe them."""

    kinds: Any
    words: str


_CONTAINERS: dict[Any, type[tuple[Any, ...]] | type[frozenset[Any]]] = {
    Sequence: tuple,
    Collection: frozenset,
}
_PYTHON_NAMES = {"`array`": "a list", "null": "None"}


# ---- names


FORMER_OPTIONS = {
    "ToolConfig.max_iterations": "RunLimits.max_iterations",
    "ToolConfig.run_timeout": "RunLimits.run_timeout",
    "ToolConfig.max_tokens": "RunLimits.max_total_tokens",
    "ToolConfig.max_cost": "RunLimits.max_cost",
    "ToolConfig.max_per_minute": "ToolConfig.rates",
    "ToolConfig.max_requests_per_minute": "RunLimits.request_rates",
    "ToolConfig.max_tokens_per_minute": "RunLimits.request_rates",
}
"""Names that options had while 0.1.0 was in development -> names now. Programs of its early users still have
them."""
_Value = TypeVar("_Value")


class OptionMeta(msgspec.StructMeta):
    """The metaclass of structs that users fill in: an unknown name is a UsageError that says what is meant."""

    kinds: ClassVar[list[type[msgspec.Struct]]] = []

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        OptionMeta.kinds.append(cast(type[msgspec.Struct], self))

    def __call__(self: type[_Value], *args: Any, **kwargs: Any) -> _Value:
        try:
            return super().__call__(*args, **kwargs)
        except TypeError:
            kind = cast(type[msgspec.Struct], self)
            for name in kwargs:
                if name not in kind.__struct_fields__:
                    raise _find_meaning(kind, name) from None
            raise


def _find_meaning(kind: type[msgspec.Struct], name: str) -> UsageError:
    if (former := FORMER_OPTIONS.get(f"{kind.__name__}.{name}")) is not None:
        return UsageError(f"{kind.__name__}.{name} is now {former}")
    guesses = suggest(name, kind.__struct_fields__, limit=1, cutoff=0.75)
    guesses += [f"{other.__name__}.{name}" for other in OptionMeta.kinds if name in other.__struct_fields__]
    if guesses:
        return UsageError(f"unknown {kind.__name__} option {name!r}; {did_you_mean(guesses[:3])}")
    return UnknownName(f"{kind.__name__} option", name, kind.__struct_fields__)


# ---- values


def check_values(value: msgspec.Struct) -> None:
    """Check every field against its type and bounds, after `keep_iterables`. Raises UsageError."""
    keep_iterables(value)
    kind = type(value)
    try:
        converted = msgspec.convert(asdict(value), _twin(kind))
    except msgspec.ValidationError as e:
        message, _, path = str(e).partition(" - at ")
        part = "a key of " if path.startswith("`key`") else ""
        name = re.findall(r"\$\.(\w+)", path)[0]
        leaves = list(_leaves(_field_types(kind)[name]))
        message = message.replace("object", _name_object(leaves))
        for json_name, python_name in _PYTHON_NAMES.items():
            message = message.replace(json_name, python_name)
        choices = ", ".join(leaf for leaf in leaves if isinstance(leaf, str))
        advice = f"; known: {choices}" if choices else ""
        raise UsageError(
            f"{part}{name} of {kind.__name__}: {message[0].lower()}{message[1:]}{advice}"
        ) from None
    for name in kind.__struct_fields__:
        if isinstance(getattr(value, name), dict):  # a struct may be given as its fields
            force_setattr(value, name, getattr(converted, name))


def _name_object(leaves: Sequence[Any]) -> str:
    """Return Python's name for what a JSON object becomes in a field of these types."""
    for leaf in leaves:
        if isinstance(leaf, type) and issubclass(leaf, msgspec.Struct):
            return leaf.__name__
    return "dict"


def check_texts(value: msgspec.Struct) -> None:
    """Check every field, and keep texts as plain ones: JSON cannot be written from a subclass of str.

    Raises UsageError.
    """
    check_values(value)
    for name in value.__struct_fields__:
        field = getattr(value, name)
        if isinstance(field, str) and type(field) is not str:
            force_setattr(value, name, str.__str__(field))  # str() would call the method of an enum


def keep_iterables(value: msgspec.Struct) -> None:
    """Keep any iterable as a tuple in fields declared as Sequence, as a frozenset in a Collection; a text is
    one item.
    """
    for name, container in _container_fields(type(value)):
        field = getattr(value, name)
        if field is not None and not isinstance(field, container):
            force_setattr(value, name, container(as_items(field)))


def as_items(value: Any) -> list[Any]:
    """Return the items of any iterable; a text, or what is not iterable, is one item."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        return [value]
    return list(cast(Iterable[Any], value))


def find_accepted(options: type[Any]) -> dict[str, tuple[Any, str]]:
    """Return what the keys of a TypedDict accept, as `check_arguments` takes it; those that accept anything
    are left out.
    """
    accepted: dict[str, tuple[Any, str]] = {}
    for name, annotation in options.__annotations__.items():
        for item in getattr(annotation, "__metadata__", ()):
            if isinstance(item, Accepts):
                accepted[name] = (item.kinds, item.words)
    return accepted


def check_arguments(arguments: Mapping[str, Any], expected: Mapping[str, tuple[Any, str]]) -> None:
    """Check the arguments of a function: name -> types, and the words for what to pass. Raises UsageError."""
    for name, (kinds, words) in expected.items():
        value = arguments[name]
        if isinstance(value, type):
            raise UsageError(f"{name}: pass {words}, not the class {value.__name__}")
        if not isinstance(value, kinds):
            shown = "None" if value is None else type(value).__name__
            raise UsageError(f"{name}: pass {words}, not {shown}")


@cache
def _field_types(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


@cache
def _twin(kind: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """A struct with the same fields: values are converted to another type only."""
    return msgspec.defstruct(kind.__name__, list(_field_types(kind).items()))


@cache
def _container_fields(
    kind: type[msgspec.Struct],
) -> list[tuple[str, type[tuple[Any, ...]] | type[frozenset[Any]]]]:
    """Return the fields of a struct that are kept as a tuple or a frozenset."""
    fields: list[tuple[str, type[tuple[Any, ...]] | type[frozenset[Any]]]] = []
    for name, field in _field_types(kind).items():
        is_union = get_origin(field) in (Union, UnionType)
        alternatives = get_args(field) if is_union else (field,)
        for origin in map(get_origin, alternatives):
            if origin in _CONTAINERS:
                fields.append((name, _CONTAINERS[origin]))
    return fields


def _leaves(kind: Any) -> Iterator[Any]:
    """The types and literals that a type consists of."""
    if not (parts := get_args(kind)):
        yield kind
    for part in parts:
        yield from _leaves(part)
