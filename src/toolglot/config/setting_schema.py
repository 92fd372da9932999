"""The fields of `Settings` as a flat list: every key that can be set, what it accepts, and how values are converted to it.

A field's key has `*` for names of the user's choice: `aliases.*`, `providers.*.headers.*`. A path is such a key with names
filled in.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import msgspec
from msgspec.structs import replace

from toolglot.common.jsontext import dumps_text
from toolglot.common.plugins import plugin_names
from toolglot.common.redact import redact
from toolglot.common.textutil import did_you_mean, suggest, truncate
from toolglot.config.settings import Setting, Settings, TrustRule
from toolglot.providers.catalog import ALIASES, PROFILES, SURFACES, infer_provider

__all__ = [
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
_LIMITS_BY_MODEL = (("policy", "max_requests_per_minute"), ("policy", "max_tokens_per_minute"))  # PROVIDER or PROVIDER:MODEL
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_KEY_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""", re.ASCII)
_TYPE_NAMES = {bool: "true or false", int: "an integer", float: "a number", str: "a string"}
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
    """All settings, in the order of their declaration."""
    return tuple(list_fields(Settings))


def list_fields(struct: Any, prefix: SettingPath = (), section_rule: TrustRule | None = None) -> Iterator[SettingField]:
    """The settings of a struct and of the structs in it."""
    for field in msgspec.structs.fields(struct):
        metadata: tuple[Any, ...] = getattr(field.type, "__metadata__", ())
        kind: Any = get_args(field.type)[0] if metadata else field.type
        declared = next((item for item in metadata if isinstance(item, Setting)), Setting())
        declared = replace(declared, trust=declared.trust or section_rule)
        key, annotation, default = (*prefix, field.name), field.type, field.default
        if get_origin(kind) is dict:
            annotation = kind = get_args(kind)[1]
            key, default = (*key, WILDCARD), msgspec.UNSET
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
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
    """The field that a path belongs to. Raises SettingError."""
    key = _resolve_key(path)
    if key not in _fields_by_key():
        example = next(field.key_text for field in setting_fields() if field.key[: len(key)] == key)
        raise SettingError(f"{format_path(path)!r} is a section: name a setting in it, such as {example!r}", path)
    return _fields_by_key()[key]


def flatten_document(table: Mapping[str, Any], parent: SettingPath = ()) -> Iterator[tuple[SettingPath, SettingField, Any]]:
    """The settings in a document, with their values unconverted. Raises SettingError."""
    for name, value in table.items():
        path = (*parent, name)
        if field := _fields_by_key().get(_resolve_key(path)):
            yield path, field, value
        elif isinstance(value, Mapping):
            yield from flatten_document(cast(Mapping[str, Any], value), path)
        else:
            raise SettingError(f"{format_path(path)} must be a table", path)


def _resolve_key(path: SettingPath) -> SettingPath:
    """The key of a path to a setting or a section. Raises SettingError."""
    key: SettingPath = ()
    for index, name in enumerate(path):
        parent, here = path[:index], path[: index + 1]
        if (*key, name) in _key_prefixes() and name != WILDCARD:
            key = (*key, name)
            continue
        if (*key, WILDCARD) not in _key_prefixes():
            raise SettingError(f"there is no setting {format_path(here)!r}; {_suggest_settings(key, parent, name)}", here)
        key = (*key, WILDCARD)
        if parent == ("aliases",) and (":" in name or name in PROVIDER_NAMES or infer_provider(name)):
            raise SettingError(f"{name!r} is the name of a provider or of a model: choose another name for the alias", here)
        provider = name.partition(":")[0] if parent in _LIMITS_BY_MODEL else name
        is_provider = parent in (("providers",), *_LIMITS_BY_MODEL)
        if is_provider and provider not in PROVIDER_NAMES and provider not in plugin_names("profiles"):
            similar = [format_path((*parent, known)) for known in suggest(provider, PROVIDER_NAMES, cutoff=0.5)]
            raise SettingError(f"there is no provider {provider!r}; {did_you_mean(similar) or 'see docs/providers.md'}", here)
    return key


def _suggest_settings(key: SettingPath, parent: SettingPath, name: str) -> str:
    """Similar names in the same section, else similar names elsewhere, else all names of the section."""
    siblings = sorted({prefix[len(key)] for prefix in _key_prefixes() if len(prefix) == len(key) + 1 and prefix[:-1] == key})
    elsewhere = {field.name: field.key_text for field in setting_fields() if WILDCARD not in field.key}
    similar = [format_path((*parent, sibling)) for sibling in suggest(name, siblings, limit=2)]
    similar = similar or [elsewhere[other] for other in suggest(name, elsewhere, limit=2, cutoff=0.75)]
    return did_you_mean(similar) or f"there are {', '.join(siblings)}"


def parse_key(text: str) -> SettingPath:
    """A dotted key as a path, as TOML reads it: a name that contains dots is quoted."""
    return tuple(part.strip("\"'") for part in _KEY_PART.findall(text))


def format_path(path: SettingPath) -> str:
    """A path as it is written in a TOML file."""
    return ".".join(part if _BARE_KEY.fullmatch(part) else dumps_text(part) for part in path)


# ---- values


def convert_value(field: SettingField, value: Any) -> Any:
    """Convert a value from a file or a flag. Raises ValueError: what it must be."""
    types, _, _ = _inspect_type(field.type)
    if value == "none" and type(None) in types and {int, float} & types:
        return None
    try:
        result: Any = msgspec.convert(value, field.type)
    except (msgspec.ValidationError, ValueError, OverflowError):
        result = msgspec.UNSET
    if isinstance(result, int | float):
        is_valid = abs(result) <= _MAX_NUMBER  # false for nan
    elif isinstance(result, tuple):
        is_valid = all(cast(tuple[str, ...], result))
    else:
        is_valid = result is not msgspec.UNSET and (result != "" or field.declared.allows_empty)
    if not is_valid:
        text = str(value).lower() if isinstance(value, bool | float) else repr(value) if isinstance(value, str) else str(value)
        shown = "this" if field.declared.is_secret else truncate(redact(text, by_name=True), _MAX_SHOWN_CHARACTERS)
        raise ValueError(f"must be {describe_expected(field)}, not {shown}")
    return cast(Any, result)


def parse_text(field: SettingField, text: str) -> Any:
    """Convert a text from the environment; lists are separated by commas. Raises ValueError: what it must be."""
    types, choices, _ = _inspect_type(field.type)
    stripped = text.strip()
    if tuple in types:
        parts = re.split(r",(?![^(]*\))", text)  # a comma in parentheses is part of a rule: shell(cut -d, *)
        return convert_value(field, [part.strip() for part in parts if part.strip()])
    if bool in types and stripped.lower() in _BOOLEANS:
        return convert_value(field, _BOOLEANS[stripped.lower()])
    if {int, float} & types and stripped not in choices:
        number: int | float | str = stripped
        with suppress(ValueError):
            number = float(stripped)
            number = int(stripped)
        return convert_value(field, number)
    return convert_value(field, stripped if choices else text)


def describe_expected(field: SettingField) -> str:
    """What a setting accepts, in words."""
    types, choices, bounds = _inspect_type(field.type)
    if tuple in types:
        return f"a list of {_join_alternatives(map(repr, choices)) if choices else 'strings'}"
    names = [name for kind, name in _TYPE_NAMES.items() if kind in types]
    if bounds:
        names = [f"{name} {bounds}" for name in names]
    if {int, float} & types and type(None) in types:
        choices = (*choices, "none")
    text = _join_alternatives((*names, *map(repr, choices)))
    return text if str not in types or field.declared.allows_empty else f"{text} that is not empty"


def _join_alternatives(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def _inspect_type(annotation: Any) -> tuple[frozenset[Any], tuple[str, ...], str]:
    """The plain types in an annotation, its literals, and its bounds in words."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        types, choices, bounds = _inspect_type(arguments[0])
        for meta in arguments[1:]:
            if isinstance(meta, msgspec.Meta):
                limits = (("of at least", meta.ge), ("above", meta.gt), ("of at most", meta.le), ("below", meta.lt))
                bounds = " and ".join(f"{word} {limit:g}" for word, limit in limits if limit is not None)
        return types, choices, bounds
    if origin in (Union, UnionType):
        parts = [_inspect_type(member) for member in arguments]
        choices = tuple(choice for _, literals, _ in parts for choice in literals)
        return frozenset[Any]().union(*(types for types, _, _ in parts)), choices, "".join(bounds for _, _, bounds in parts)
    if origin is Literal:
        return frozenset(), arguments, ""
    if origin is tuple:
        return frozenset({tuple}), _inspect_type(arguments[0])[1], ""
    return frozenset({annotation}), (), ""
