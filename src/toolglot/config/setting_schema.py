"""The shape of `Settings` as leaves: every key that can be set, what it takes in words, and a value made into one of it.

A leaf's key has `*` where a name is free: `aliases.*`, `providers.*.headers.*`. A path is such a key with the names filled in.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from math import inf
from types import UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin

import msgspec

from toolglot.config.settings import Settings
from toolglot.jsontext import dumps_text
from toolglot.providers.catalog import ALIASES, PROFILES, SURFACES
from toolglot.redact import redact

__all__ = [
    "PROVIDER_NAMES",
    "WILDCARD",
    "Entry",
    "SettingError",
    "SettingField",
    "SettingPath",
    "convert_value",
    "describe_expected",
    "find_field",
    "flatten_document",
    "format_path",
    "parse_key",
    "parse_text",
    "setting_fields",
]

SettingPath = tuple[str, ...]
WILDCARD = "*"
PROVIDER_NAMES = frozenset({*PROFILES, *ALIASES, *SURFACES, "simulator"})
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_EMPTY_ALLOWED = ("system", "headers.*")
_TYPE_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
_BOOLEANS: dict[str, bool] = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
_MAX_NUMBER = 2**63 - 1
_MAX_SHOWN_CHARACTERS = 40  # characters of a wrong value that are shown


class Bounds(msgspec.Struct, frozen=True):
    """What a number may be. `above`, `below`: the number itself is not allowed."""

    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: float | None = None
    exclusive_maximum: float | None = None

    def allows(self, number: float) -> bool:
        return (
            (self.minimum is None or number >= self.minimum)
            and (self.maximum is None or number <= self.maximum)
            and (self.exclusive_minimum is None or number > self.exclusive_minimum)
            and (self.exclusive_maximum is None or number < self.exclusive_maximum)
        )

    def __str__(self) -> str:
        parts = (
            ("of at least", self.minimum),
            ("above", self.exclusive_minimum),
            ("of at most", self.maximum),
            ("below", self.exclusive_maximum),
        )
        return " and ".join(f"{word} {number:g}" for word, number in parts if number is not None)


# By the last two parts of a key.
_BOUNDS = {
    "policy.max_turns": Bounds(1),
    "policy.timeout": Bounds(exclusive_minimum=0),
    "policy.run_timeout": Bounds(exclusive_minimum=0),
    "policy.max_parallel": Bounds(1),
    "max_uses.*": Bounds(0),
    "policy.max_result": Bounds(100),
    "policy.max_tokens": Bounds(1),
    "policy.max_cost": Bounds(exclusive_minimum=0),
    "policy.repeats": Bounds(0),
    "generation.max_tokens": Bounds(1),
    "generation.temperature": Bounds(0, 2),
    "generation.top_p": Bounds(0, 1),
    "generation.thinking_budget": Bounds(-1),  # Gemini: -1 leaves it to the model
    "timeouts.connect": Bounds(exclusive_minimum=0),
    "timeouts.first_byte": Bounds(exclusive_minimum=0),
    "timeouts.idle": Bounds(exclusive_minimum=0),
    "retry.max_retries": Bounds(0),
    "retry.base": Bounds(0),
    "retry.factor": Bounds(1),
    "retry.max_delay": Bounds(0),
    "retry.jitter": Bounds(0, 1),
    "retry.max_wait": Bounds(0),
    "context.budget": Bounds(1),
    "context.keep": Bounds(exclusive_minimum=0, exclusive_maximum=1),
    "chat.result_lines": Bounds(0),
}


class SettingField(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that can be set. `owner` is the struct with its docstring."""

    key: SettingPath
    type: Any
    default: Any
    owner: Any

    @property
    def key_text(self) -> str:
        return ".".join(self.key)

    @property
    def name(self) -> str:
        """The attribute of the owner."""
        return self.key[-2] if self.key[-1] == WILDCARD else self.key[-1]

    @property
    def bounds(self) -> Bounds | None:
        return _BOUNDS.get(".".join(self.key[-2:]))

    @property
    def is_secret(self) -> bool:
        """Whether its values are shown nowhere."""
        return "headers" in self.key


Entry = tuple[SettingField, Any]


class SettingError(ValueError):
    """A name that is not of the shape. `path`: where it stands."""

    def __init__(self, message: str, path: SettingPath) -> None:
        super().__init__(message)
        self.path = path


@cache
def setting_fields() -> tuple[SettingField, ...]:
    """All leaves, in the order of the shape."""
    return tuple(_walk_fields(Settings, ()))


def _walk_fields(struct: Any, prefix: SettingPath) -> Iterator[SettingField]:
    for field in msgspec.structs.fields(struct):
        kind: Any = field.type
        key, default = (*prefix, field.name), field.default
        if get_origin(kind) is dict:
            key, kind, default = (*key, WILDCARD), get_args(kind)[1], msgspec.UNSET
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            yield from _walk_fields(kind, key)
        else:
            yield SettingField(key=key, type=kind, default=default, owner=struct)


@cache
def _fields_by_key() -> dict[SettingPath, SettingField]:
    return {leaf.key: leaf for leaf in setting_fields()}


@cache
def _key_prefixes() -> frozenset[SettingPath]:
    return frozenset(leaf.key[:length] for leaf in setting_fields() for length in range(len(leaf.key) + 1))


def find_field(path: SettingPath) -> SettingField:
    """The leaf that a path is one of. Raises Stranger."""
    key: SettingPath = ()
    for place, name in enumerate(path):
        key = _resolve_step(key, path[:place], name)
    if key not in _fields_by_key():
        raise SettingError(f"{format_path(path)!r} is a section: name a setting in it, such as {_first_key_in(key)!r}", path)
    return _fields_by_key()[key]


def flatten_document(
    table: Mapping[str, Any], parent: SettingPath = (), key: SettingPath = ()
) -> Iterator[tuple[SettingPath, SettingField, Any]]:
    """The leaves of a document, with its values as they are. Raises Stranger."""
    for name, value in table.items():
        path = (*parent, name)
        inner = _resolve_step(key, parent, name)
        if inner in _fields_by_key():
            yield path, _fields_by_key()[inner], value
        elif isinstance(value, Mapping):
            yield from flatten_document(cast(Mapping[str, Any], value), path, inner)
        else:
            raise SettingError(f"{format_path(path)} must be a table", path)


def _resolve_step(key: SettingPath, parent: SettingPath, name: str) -> SettingPath:
    """The key of what `name` is under `key`; `at` is the path so far."""
    if (*key, name) in _key_prefixes() and name != WILDCARD:
        return (*key, name)
    free = (*key, WILDCARD)
    if free not in _key_prefixes():
        raise SettingError(
            f"there is no setting {format_path((*parent, name))!r}; {_suggest_settings(key, parent, name)}", (*parent, name)
        )
    if free == ("providers", WILDCARD) and name not in PROVIDER_NAMES:
        near = get_close_matches(name, PROVIDER_NAMES, n=3, cutoff=0.5)
        known = " or ".join(format_path(("providers", one)) for one in near)
        raise SettingError(f"there is no provider {name!r}; {_did_you_mean(known) or 'see docs/providers.md'}", (*parent, name))
    return free


def _suggest_settings(key: SettingPath, parent: SettingPath, name: str) -> str:
    """The settings that were perhaps meant: beside it, or of the same name elsewhere."""
    beside = sorted({node[len(key)] for node in _key_prefixes() if len(node) == len(key) + 1 and node[:-1] == key})
    near = [format_path((*parent, one)) for one in get_close_matches(name, beside, n=2, cutoff=0.6)]
    if not near:
        elsewhere = {leaf.name: leaf.key_text for leaf in setting_fields() if WILDCARD not in leaf.key}
        near = [elsewhere[one] for one in get_close_matches(name, elsewhere, n=2, cutoff=0.75)]
    return _did_you_mean(" or ".join(map(repr, near))) or f"there are {', '.join(beside)}"


def _did_you_mean(known: str) -> str:
    return f"did you mean {known}?" if known else ""


def _first_key_in(key: SettingPath) -> str:
    return next(leaf.key_text for leaf in setting_fields() if leaf.key[: len(key)] == key)


def parse_key(text: str) -> tuple[SettingPath, SettingField]:
    """A dotted key as a path: free names may have dots, and quotes around them. Raises Stranger."""
    for leaf in setting_fields():
        pattern = r"\.".join("(.+)" if part == WILDCARD else re.escape(part) for part in leaf.key)
        if names := re.fullmatch(pattern, text):
            given = iter(name.strip('"') for name in names.groups())
            path = tuple(next(given) if part == WILDCARD else part for part in leaf.key)
            if path[0] != "providers" or path[1] in PROVIDER_NAMES:
                return path, leaf
    path = tuple(text.split("."))
    return path, find_field(path)


def format_path(path: SettingPath) -> str:
    """A path as it is written in a file."""
    return ".".join(part if _BARE_KEY.fullmatch(part) else dumps_text(part) for part in path)


def convert_value(field: SettingField, value: Any) -> Any:
    """A value of a file or a flag as the leaf wants it. Raises ValueError: what it must be."""
    basic, _ = _inspect_type(field.type)
    if value == "none" and type(None) in basic and {int, float} & basic:
        return None
    try:
        good = msgspec.convert(value, field.type)
    except (msgspec.ValidationError, ValueError, OverflowError):
        good = msgspec.UNSET
    if good is msgspec.UNSET or not _is_valid(field, good):
        raise ValueError(f"must be {describe_expected(field)}, not {'this' if field.is_secret else _describe_value(value)}")
    return good


def _is_valid(field: SettingField, value: Any) -> bool:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return abs(value) <= _MAX_NUMBER and (field.bounds is None or field.bounds.allows(value))  # false for nan
    if isinstance(value, tuple):
        return all(cast(tuple[str, ...], value))
    return value != "" or field.key_text.endswith(_EMPTY_ALLOWED)


def parse_text(field: SettingField, text: str) -> Any:
    """A value of the environment: lists are separated by commas. Raises ValueError: what it must be."""
    basic, choices = _inspect_type(field.type)
    if tuple in basic:
        return convert_value(field, [part.strip() for part in text.split(",") if part.strip()])
    if bool in basic and text.strip().lower() in _BOOLEANS:
        return convert_value(field, _BOOLEANS[text.strip().lower()])
    if {int, float} & basic and text.strip() not in choices:
        return convert_value(field, _parse_number(text.strip()))
    return convert_value(field, text.strip() if choices else text)


def _parse_number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def describe_expected(field: SettingField) -> str:
    """What the leaf takes, in words."""
    basic, choices = _inspect_type(field.type)
    if tuple in basic:
        return f"a list of {_join_alternatives(map(repr, choices)) if choices else 'texts'}"
    words = [text for kind, text in _TYPE_NAMES.items() if kind in basic]
    if field.bounds is not None:
        words = [f"{text} {field.bounds}" for text in words]
    if {int, float} & basic and type(None) in basic:
        choices = (*choices, "none")
    said = _join_alternatives((*words, *map(repr, choices)))
    return said if str not in basic or field.key_text.endswith(_EMPTY_ALLOWED) else f"{said} that is not empty"


def _join_alternatives(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def _inspect_type(annotation: Any) -> tuple[frozenset[Any], tuple[str, ...]]:
    """The plain types in an annotation, and the words that it allows."""
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        parts = [_inspect_type(one) for one in get_args(annotation)]
        return frozenset[Any]().union(*(basic for basic, _ in parts)), tuple(word for _, words in parts for word in words)
    if origin is Literal:
        return frozenset(), get_args(annotation)
    if origin is tuple:
        return frozenset({tuple}), _inspect_type(get_args(annotation)[0])[1]
    return frozenset({annotation}), ()


def _describe_value(value: Any) -> str:
    """A wrong value, as far as it helps to see it."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            text = redact(value, by_name=True)
            return repr(text if len(text) <= _MAX_SHOWN_CHARACTERS else text[: _MAX_SHOWN_CHARACTERS - 1] + "…")
        case int() | float():
            return "a number that is too large" if _MAX_NUMBER < abs(value) < inf else f"{value:g}" if value % 1 else str(value)
        case list() | tuple():
            return "this list"
        case dict():
            return "a table"
        case _:
            return "this"
