"""The fields of `Settings` as a flat list: every key that can be set, what it accepts, and how values are
converted to it.

A field's key has `*` for names of the user's choice: `aliases.*`, `providers.*.headers.*`. A path is such a
key with names filled in.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, NoReturn, Union, cast, get_args, get_origin

import msgspec
from msgspec.structs import replace

from toolglot.common.jsontext import dumps_text
from toolglot.common.plugins import plugin_names
from toolglot.common.redact import redact
from toolglot.common.textutil import did_you_mean, suggest, truncate
from toolglot.common.value_checks import FORMER_OPTIONS
from toolglot.config.settings import Setting, Settings, TrustRule
from toolglot.engine.rate_limit import RequestRate
from toolglot.providers.catalog import ALIASES, PROFILES, SURFACES, infer_provider
from toolglot.tools.config import Rate

__all__ = [
    "FORMER_NAMES",
    "PROVIDER_NAMES",
    "WILDCARD",
    "SettingError",
    "SettingField",
    "SettingPath",
    "convert_value",
    "describe_expected",
    "find_field",
    "flatten_document",
    "format_path",
    "list_fields",
    "parse_key",
    "parse_text",
    "setting_fields",
]

SettingPath = tuple[str, ...]
WILDCARD = "*"
PROVIDER_NAMES = frozenset({*PROFILES, *ALIASES, *SURFACES, "simulator"})
_RATES_BY_MODEL = ("limits", "request_rates")  # PROVIDER or PROVIDER:MODEL
# Structs that are one value, each with an example: calls mean nothing without their seconds, so both are set
# at once.
_WHOLE_VALUES: dict[type[msgspec.Struct], str] = {
    Rate: "{ calls = 10, seconds = 60 }",
    RequestRate: "{ requests = 50, tokens = 80000, seconds = 60 }",
}
_SECTIONS = {"ToolConfig": "policy", "RunLimits": "limits"}


def _find_key(option: str) -> str:
    kind, name = option.split(".")
    return f"{_SECTIONS[kind]}.{name}"


FORMER_NAMES = {_find_key(old): _find_key(new) for old, new in FORMER_OPTIONS.items()}
"""Names that settings had while 0.1.0 was in development -> names now. Files of its early users still have
them."""
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_KEY_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""", re.ASCII)
_TYPE_NAMES = {bool: "true or false", int: "an integer", float: "a number", str: "a string", dict: "a table"}
_BOOLEANS: dict[str, bool] = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
_MAX_NUMBER = 2**63 - 1
_MAX_SHOWN_CHARACTERS = 40


class SettingField(msgspec.Struct, frozen=True, kw_only=True):
    """One setting. `owner` is the struct that documents it."""

    key: SettingPath
    type: Any
    default: Any
    owner: Any
    declared: Setting

    @property
    def key_text(self) -> str:
        return ".".join(self.key)

    @property
    def name(self) -> str:
        """The attribute of the owner."""
        return self.key[-2] if self.key[-1] == WILDCARD else self.key[-1]

    @property
    def trust(self) -> TrustRule:
        """What an untrusted project may do to it."""
        return self.declared.trust or "trusted"

    @property
    def variable(self) -> str:
        """The environment variable; "" for keys with a name of the user's choice, which have none."""
        return "" if WILDCARD in self.key else "TOOLGLOT_" + "_".join(self.key).upper()


class SettingError(ValueError):
    """A name or a value that is not accepted. `path`: where it is."""

    def __init__(self, message: str, path: SettingPath) -> None:
        super().__init__(message)
        self.path = path


@cache
def setting_fields() -> tuple[SettingField, ...]:
    """Return all settings, in the order of their declaration."""
    return tuple(list_fields(Settings))


def list_fields(
    struct: Any, prefix: SettingPath = (), section_rule: TrustRule | None = None
) -> Iterator[SettingField]:
    """Yield the settings of a struct and of the structs in it.

    `section_rule`: who may change them, unless they say so.
    """
    for field in msgspec.structs.fields(struct):
        # What is declared: Annotated[type, Setting(...)], or only the type.
        metadata: tuple[Any, ...] = getattr(field.type, "__metadata__", ())
        kind: Any = get_args(field.type)[0] if metadata else field.type
        declared = next((item for item in metadata if isinstance(item, Setting)), Setting())
        declared = replace(declared, trust=declared.trust or section_rule)
        # A table with names of the user's choice: its values are the settings, and have no default.
        key, annotation, default = (*prefix, field.name), field.type, field.default
        if get_origin(kind) is dict:
            annotation = kind = get_args(kind)[1]
            key, default = (*key, WILDCARD), msgspec.UNSET
        # A struct is a section, unless it is one value.
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind not in _WHOLE_VALUES:
            yield from list_fields(kind, key, declared.trust)
        else:
            yield SettingField(key=key, type=annotation, default=default, owner=struct, declared=declared)


@cache
def _fields_by_key() -> dict[SettingPath, SettingField]:
    return {field.key: field for field in setting_fields()}


@cache
def _key_prefixes() -> frozenset[SettingPath]:
    return frozenset(field.key[:length] for field in setting_fields() for length in range(len(field.key) + 1))


def find_field(path: SettingPath) -> SettingField:
    """Return the field that a path belongs to. Raises SettingError."""
    key = _resolve_key(path)
    if key not in _fields_by_key():
        example = next(field.key_text for field in setting_fields() if field.key[: len(key)] == key)
        raise SettingError(
            f"{format_path(path)!r} is a section: name a setting in it, such as {example!r}", path
        )
    return _fields_by_key()[key]


def flatten_document(
    table: Mapping[str, Any], parent: SettingPath = ()
) -> Iterator[tuple[SettingPath, SettingField, Any]]:
    """Return the settings in a document, with their values unconverted. Raises SettingError."""
    for name, value in table.items():
        path = (*parent, name)
        if field := _fields_by_key().get(_resolve_key(path)):
            yield path, field, value
        elif isinstance(value, Mapping):
            yield from flatten_document(cast(Mapping[str, Any], value), path)
        else:
            raise SettingError(f"{format_path(path)} must be a table", path)


def _resolve_key(path: SettingPath) -> SettingPath:
    """Return the key of a path to a setting or a section. Raises SettingError."""
    key: SettingPath = ()
    for index, name in enumerate(path):
        parent = path[:index]
        here = path[: index + 1]
        is_declared = (*key, name) in _key_prefixes() and name != WILDCARD
        if is_declared:
            key = (*key, name)
        elif (*key, WILDCARD) in _key_prefixes():
            _check_chosen_name(parent, name)
            key = (*key, WILDCARD)
        else:
            former = FORMER_NAMES.get(".".join(here))
            advice = f"it is now {former!r}" if former is not None else _suggest_settings(key, parent, name)
            raise SettingError(f"there is no setting {format_path(here)!r}; {advice}", here)
    return key


def _check_chosen_name(parent: SettingPath, name: str) -> None:
    """Raise SettingError if an entry of a table cannot have this name: an alias that means something, or no
    provider.
    """
    if parent == ("aliases",):
        _check_alias(name)
    elif parent == ("providers",):
        _check_provider(name, (*parent, name))
    elif parent == _RATES_BY_MODEL:
        _check_provider(name.partition(":")[0], (*parent, name))


def _check_alias(name: str) -> None:
    if ":" in name or name in PROVIDER_NAMES or infer_provider(name):
        message = f"{name!r} is the name of a provider or of a model: choose another name for the alias"
        raise SettingError(message, ("aliases", name))


def _check_provider(provider: str, path: SettingPath) -> None:
    if provider in PROVIDER_NAMES or provider in plugin_names("profiles"):
        return
    similar = [format_path((*path[:-1], known)) for known in suggest(provider, PROVIDER_NAMES, cutoff=0.5)]
    raise SettingError(
        f"there is no provider {provider!r}; {did_you_mean(similar) or 'see docs/providers.md'}", path
    )


def _suggest_settings(key: SettingPath, parent: SettingPath, name: str) -> str:
    """Return similar names in the same section, else similar names elsewhere, else all names of the section."""
    siblings = _list_names(key)
    similar = [format_path((*parent, sibling)) for sibling in suggest(name, siblings, limit=2)]
    if not similar:
        elsewhere = {field.name: field.key_text for field in setting_fields() if WILDCARD not in field.key}
        similar = [elsewhere[other] for other in suggest(name, elsewhere, limit=2, cutoff=0.75)]
    return did_you_mean(similar) or f"there are {', '.join(siblings)}"


def _list_names(section: SettingPath) -> list[str]:
    """Return the names of the settings and sections in a section, sorted."""
    names: list[str] = []
    for prefix in _key_prefixes():
        if len(prefix) == len(section) + 1 and prefix[:-1] == section:
            names.append(prefix[-1])
    return sorted(names)


def parse_key(text: str) -> SettingPath:
    """Return a dotted key as a path, as TOML reads it: a name that contains dots is quoted."""
    return tuple(part.strip("\"'") for part in _KEY_PART.findall(text))


def format_path(path: SettingPath) -> str:
    """Return a path as it is written in a TOML file."""
    return ".".join(part if _BARE_KEY.fullmatch(part) else dumps_text(part) for part in path)


# ---- values


def convert_value(field: SettingField, value: Any) -> Any:
    """Convert a value from a file or a flag. Raises ValueError: what it must be."""
    types, _, _ = _inspect_type(field.type)
    if value == "none" and _allows_no_limit(types):
        return None
    if _has_unknown_key(field, value):
        _refuse(field, value)
    try:
        result: Any = msgspec.convert(value, field.type)
    except (msgspec.ValidationError, ValueError, OverflowError):
        _refuse(field, value)
    if not _is_acceptable(field, result):
        _refuse(field, value)
    return result


def _refuse(field: SettingField, value: Any) -> NoReturn:
    raise ValueError(f"must be {describe_expected(field)}, not {_show_value(field, value)}") from None


def _allows_no_limit(types: frozenset[Any]) -> bool:
    """Whether a setting is a limit that may be left out: TOML has no null, and "none" stands for it."""
    return type(None) in types and bool({int, float} & types)


def _has_unknown_key(field: SettingField, value: Any) -> bool:
    """Whether a table that is one value has a key that it does not know: a misspelt limit must not be no
    limit.
    """
    if field.type not in _WHOLE_VALUES or not isinstance(value, Mapping):
        return False
    return not cast(Mapping[str, Any], value).keys() <= {*field.type.__struct_fields__}


def _is_acceptable(field: SettingField, value: Any) -> bool:
    """Whether a converted value is within bounds that no type expresses."""
    if isinstance(value, msgspec.Struct):
        return all(part is None or _is_acceptable(field, part) for part in msgspec.structs.astuple(value))
    if isinstance(value, int | float):
        return abs(value) <= _MAX_NUMBER  # false for nan
    if isinstance(value, tuple):
        return all(cast(tuple[str, ...], value))
    if value == "":
        return field.declared.allows_empty
    return True


def _show_value(field: SettingField, value: Any) -> str:
    """Return a wrong value for a message: as in TOML, short and without secrets."""
    if field.declared.is_secret:
        return "this"
    text = str(value)
    if isinstance(value, str):
        text = repr(value)
    elif isinstance(value, bool | float):
        text = text.lower()
    return truncate(redact(text, by_name=True), _MAX_SHOWN_CHARACTERS)


def parse_text(field: SettingField, text: str) -> Any:
    """Convert a text from the environment; lists are separated by commas.

    Raises ValueError: what it must be.
    """
    types, choices, _ = _inspect_type(field.type)
    stripped = text.strip()
    if tuple in types:
        parts = re.split(r",(?![^(]*\))", text)  # a comma in parentheses is part of a rule: shell(cut -d, *)
        return convert_value(field, [part.strip() for part in parts if part.strip()])
    if bool in types and stripped.lower() in _BOOLEANS:
        return convert_value(field, _BOOLEANS[stripped.lower()])
    if stripped in choices:
        return convert_value(field, stripped)
    if {int, float} & types:
        return convert_value(field, _parse_number(stripped))
    return convert_value(field, stripped if choices else text)


def _parse_number(text: str) -> int | float | str:
    """Return the number that a text stands for, as an integer if possible; the text itself if it is not a
    number.
    """
    for parse in (int, float):
        with suppress(ValueError):
            return parse(text)
    return text


def describe_expected(field: SettingField) -> str:
    """Return what a setting accepts, in words."""
    if field.type in _WHOLE_VALUES:
        return f"a table such as {_WHOLE_VALUES[field.type]}"
    types, choices, bounds = _inspect_type(field.type)
    if tuple in types:
        items = _join_alternatives(map(repr, choices)) if choices else "strings"
        return f"a list of {items}"
    names = [name for kind, name in _TYPE_NAMES.items() if kind in types]
    if bounds:
        names = [f"{name} {bounds}" for name in names]
    names += map(repr, choices)
    if _allows_no_limit(types):
        names.append(repr("none"))
    text = _join_alternatives(names)
    if str in types and not field.declared.allows_empty:
        text += " that is not empty"
    return text


def _join_alternatives(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def _inspect_type(annotation: Any) -> tuple[frozenset[Any], tuple[str, ...], str]:
    """Return the plain types in an annotation, its literals, and its bounds in words."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        types, choices, bounds = _inspect_type(arguments[0])
        for meta in arguments[1:]:
            if isinstance(meta, msgspec.Meta):
                bounds = _describe_bounds(meta)
        return types, choices, bounds
    if origin in (Union, UnionType):
        all_types = set[Any]()
        all_choices: list[str] = []
        all_bounds = ""
        for member in arguments:
            types, choices, bounds = _inspect_type(member)
            all_types |= types
            all_choices += choices
            all_bounds += bounds
        return frozenset(all_types), tuple(all_choices), all_bounds
    if origin is Literal:
        return frozenset(), arguments, ""
    if origin is dict:
        return frozenset({dict}), (), ""
    if origin is tuple:
        return frozenset({tuple}), _inspect_type(arguments[0])[1], ""
    return frozenset({annotation}), (), ""


def _describe_bounds(meta: msgspec.Meta) -> str:
    limits = (("of at least", meta.ge), ("above", meta.gt), ("of at most", meta.le), ("below", meta.lt))
    return " and ".join(f"{word} {limit:g}" for word, limit in limits if limit is not None)
