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
    "FREE",
    "PROVIDERS",
    "Entry",
    "Leaf",
    "Path",
    "Stranger",
    "converted",
    "dotted",
    "expected",
    "flattened",
    "found",
    "from_text",
    "leaf_of",
    "leaves",
]

Path = tuple[str, ...]
FREE = "*"
PROVIDERS = frozenset({*PROFILES, *ALIASES, *SURFACES, "simulator"})
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_MAY_BE_EMPTY = ("system", "headers.*")
_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
_BOOLEANS: dict[str, bool] = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
_GREATEST = 2**63 - 1
_LONGEST = 40  # characters of a wrong value that are shown


class Bound(msgspec.Struct, frozen=True):
    """What a number may be. `above`, `below`: the number itself is not allowed."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    def holds(self, number: float) -> bool:
        return (
            (self.least is None or number >= self.least)
            and (self.most is None or number <= self.most)
            and (self.above is None or number > self.above)
            and (self.below is None or number < self.below)
        )

    def __str__(self) -> str:
        parts = (("of at least", self.least), ("above", self.above), ("of at most", self.most), ("below", self.below))
        return " and ".join(f"{word} {number:g}" for word, number in parts if number is not None)


# By the last two parts of a key.
_BOUNDS = {
    "policy.max_turns": Bound(1),
    "policy.timeout": Bound(above=0),
    "policy.run_timeout": Bound(above=0),
    "policy.max_parallel": Bound(1),
    "max_uses.*": Bound(0),
    "policy.max_result": Bound(100),
    "policy.max_tokens": Bound(1),
    "policy.max_cost": Bound(above=0),
    "policy.repeats": Bound(0),
    "generation.max_tokens": Bound(1),
    "generation.temperature": Bound(0, 2),
    "generation.top_p": Bound(0, 1),
    "generation.thinking_budget": Bound(-1),  # Gemini: -1 leaves it to the model
    "timeouts.connect": Bound(above=0),
    "timeouts.first_byte": Bound(above=0),
    "timeouts.idle": Bound(above=0),
    "retry.max_retries": Bound(0),
    "retry.base": Bound(0),
    "retry.factor": Bound(1),
    "retry.max_delay": Bound(0),
    "retry.jitter": Bound(0, 1),
    "retry.max_wait": Bound(0),
    "context.budget": Bound(1),
    "context.keep": Bound(above=0, below=1),
    "chat.result_lines": Bound(0),
}


class Leaf(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that can be set. `owner` is the struct with its docstring."""

    key: Path
    type: Any
    default: Any
    owner: Any

    @property
    def dotted(self) -> str:
        return ".".join(self.key)

    @property
    def name(self) -> str:
        """The attribute of the owner."""
        return self.key[-2] if self.key[-1] == FREE else self.key[-1]

    @property
    def bound(self) -> Bound | None:
        return _BOUNDS.get(".".join(self.key[-2:]))

    @property
    def secret(self) -> bool:
        """Whether its values are shown nowhere."""
        return "headers" in self.key


Entry = tuple[Leaf, Any]


class Stranger(ValueError):
    """A name that is not of the shape. `path`: where it stands."""

    def __init__(self, message: str, path: Path) -> None:
        super().__init__(message)
        self.path = path


@cache
def leaves() -> tuple[Leaf, ...]:
    """All leaves, in the order of the shape."""
    return tuple(_leaves(Settings, ()))


def _leaves(struct: Any, prefix: Path) -> Iterator[Leaf]:
    for field in msgspec.structs.fields(struct):
        kind: Any = field.type
        key, default = (*prefix, field.name), field.default
        if get_origin(kind) is dict:
            key, kind, default = (*key, FREE), get_args(kind)[1], msgspec.UNSET
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            yield from _leaves(kind, key)
        else:
            yield Leaf(key=key, type=kind, default=default, owner=struct)


@cache
def _by_key() -> dict[Path, Leaf]:
    return {leaf.key: leaf for leaf in leaves()}


@cache
def _nodes() -> frozenset[Path]:
    return frozenset(leaf.key[:length] for leaf in leaves() for length in range(len(leaf.key) + 1))


def leaf_of(path: Path) -> Leaf:
    """The leaf that a path is one of. Raises Stranger."""
    key: Path = ()
    for place, name in enumerate(path):
        key = _step(key, path[:place], name)
    if key not in _by_key():
        raise Stranger(f"{dotted(path)!r} is a section: name a setting in it, such as {_first_in(key)!r}", path)
    return _by_key()[key]


def flattened(table: Mapping[str, Any], at: Path = (), key: Path = ()) -> Iterator[tuple[Path, Leaf, Any]]:
    """The leaves of a document, with its values as they are. Raises Stranger."""
    for name, value in table.items():
        path = (*at, name)
        inner = _step(key, at, name)
        if inner in _by_key():
            yield path, _by_key()[inner], value
        elif isinstance(value, Mapping):
            yield from flattened(cast(Mapping[str, Any], value), path, inner)
        else:
            raise Stranger(f"{dotted(path)} must be a table", path)


def _step(key: Path, at: Path, name: str) -> Path:
    """The key of what `name` is under `key`; `at` is the path so far."""
    if (*key, name) in _nodes() and name != FREE:
        return (*key, name)
    free = (*key, FREE)
    if free not in _nodes():
        raise Stranger(f"there is no setting {dotted((*at, name))!r}; {_nearest(key, at, name)}", (*at, name))
    if free == ("providers", FREE) and name not in PROVIDERS:
        near = get_close_matches(name, PROVIDERS, n=3, cutoff=0.5)
        known = " or ".join(dotted(("providers", one)) for one in near)
        raise Stranger(f"there is no provider {name!r}; {_did_you_mean(known) or 'see docs/providers.md'}", (*at, name))
    return free


def _nearest(key: Path, at: Path, name: str) -> str:
    """The settings that were perhaps meant: beside it, or of the same name elsewhere."""
    beside = sorted({node[len(key)] for node in _nodes() if len(node) == len(key) + 1 and node[:-1] == key})
    near = [dotted((*at, one)) for one in get_close_matches(name, beside, n=2, cutoff=0.6)]
    if not near:
        elsewhere = {leaf.name: leaf.dotted for leaf in leaves() if FREE not in leaf.key}
        near = [elsewhere[one] for one in get_close_matches(name, elsewhere, n=2, cutoff=0.75)]
    return _did_you_mean(" or ".join(map(repr, near))) or f"there are {', '.join(beside)}"


def _did_you_mean(known: str) -> str:
    return f"did you mean {known}?" if known else ""


def _first_in(key: Path) -> str:
    return next(leaf.dotted for leaf in leaves() if leaf.key[: len(key)] == key)


def found(text: str) -> tuple[Path, Leaf]:
    """A dotted key as a path: free names may have dots, and quotes around them. Raises Stranger."""
    for leaf in leaves():
        pattern = r"\.".join("(.+)" if part == FREE else re.escape(part) for part in leaf.key)
        if names := re.fullmatch(pattern, text):
            given = iter(name.strip('"') for name in names.groups())
            path = tuple(next(given) if part == FREE else part for part in leaf.key)
            if path[0] != "providers" or path[1] in PROVIDERS:
                return path, leaf
    path = tuple(text.split("."))
    return path, leaf_of(path)


def dotted(path: Path) -> str:
    """A path as it is written in a file."""
    return ".".join(part if _BARE.fullmatch(part) else dumps_text(part) for part in path)


def converted(leaf: Leaf, value: Any) -> Any:
    """A value of a file or a flag as the leaf wants it. Raises ValueError: what it must be."""
    basic, _ = _types(leaf.type)
    if value == "none" and type(None) in basic and {int, float} & basic:
        return None
    try:
        good = msgspec.convert(value, leaf.type)
    except (msgspec.ValidationError, ValueError, OverflowError):
        good = msgspec.UNSET
    if good is msgspec.UNSET or not _holds(leaf, good):
        raise ValueError(f"must be {expected(leaf)}, not {'this' if leaf.secret else _shown(value)}")
    return good


def _holds(leaf: Leaf, value: Any) -> bool:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return abs(value) <= _GREATEST and (leaf.bound is None or leaf.bound.holds(value))  # false for nan
    if isinstance(value, tuple):
        return all(cast(tuple[str, ...], value))
    return value != "" or leaf.dotted.endswith(_MAY_BE_EMPTY)


def from_text(leaf: Leaf, text: str) -> Any:
    """A value of the environment: lists are separated by commas. Raises ValueError: what it must be."""
    basic, choices = _types(leaf.type)
    if tuple in basic:
        return converted(leaf, [part.strip() for part in text.split(",") if part.strip()])
    if bool in basic and text.strip().lower() in _BOOLEANS:
        return converted(leaf, _BOOLEANS[text.strip().lower()])
    if {int, float} & basic and text.strip() not in choices:
        return converted(leaf, _number(text.strip()))
    return converted(leaf, text.strip() if choices else text)


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def expected(leaf: Leaf) -> str:
    """What the leaf takes, in words."""
    basic, choices = _types(leaf.type)
    if tuple in basic:
        return f"a list of {_either(map(repr, choices)) if choices else 'texts'}"
    words = [text for kind, text in _WORDS.items() if kind in basic]
    if leaf.bound is not None:
        words = [f"{text} {leaf.bound}" for text in words]
    if {int, float} & basic and type(None) in basic:
        choices = (*choices, "none")
    said = _either((*words, *map(repr, choices)))
    return said if str not in basic or leaf.dotted.endswith(_MAY_BE_EMPTY) else f"{said} that is not empty"


def _either(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def _types(annotation: Any) -> tuple[frozenset[Any], tuple[str, ...]]:
    """The plain types in an annotation, and the words that it allows."""
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        parts = [_types(one) for one in get_args(annotation)]
        return frozenset[Any]().union(*(basic for basic, _ in parts)), tuple(word for _, words in parts for word in words)
    if origin is Literal:
        return frozenset(), get_args(annotation)
    if origin is tuple:
        return frozenset({tuple}), _types(get_args(annotation)[0])[1]
    return frozenset({annotation}), ()


def _shown(value: Any) -> str:
    """A wrong value, as far as it helps to see it."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            text = redact(value, named=True)
            return repr(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")
        case int() | float():
            return "a number that is too large" if _GREATEST < abs(value) < inf else f"{value:g}" if value % 1 else str(value)
        case list() | tuple():
            return "this list"
        case dict():
            return "a table"
        case _:
            return "this"
