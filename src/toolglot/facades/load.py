"""A facade from TOML: native tools of somebody's own as rows of data, without a line of code. It is read here, not opened.

Laws: what is wrong is one sentence that names the file and the key. A number goes both ways: base = native x scale + offset.
"""

import re
import tomllib
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, cast

import msgspec

from toolglot.errors import UsageError
from toolglot.facades.view import Case, Facade, Field, Said, View, Words
from toolglot.request import Schema
from toolglot.schema.arguments import Plain

__all__ = ["load_facade"]

_BLANK = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
_SIDES = ("native", "base", "data")


class _Row(msgspec.Struct, forbid_unknown_fields=True):
    """One native tool, as a file says it."""

    name: str
    base: str
    parameters: Schema
    description: str = ""
    fields: dict[str, str] | None = None
    scale: dict[str, float] = {}
    offset: dict[str, float] = {}
    fixed: dict[str, Any] = {}
    accepts: Schema = {}
    ignored: list[str] = []
    aliases: list[str] = []
    models: str = ""
    hidden: bool = False
    result: str = ""
    failure: str = ""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    title: str = ""
    note: str = ""
    shows: list[str] = []
    failure: str = ""
    views: list[_Row] = []


def load_facade(text: str, where: str, bases: Iterable[str] | None = None) -> Facade:
    """The facade that a text describes. `where`: its file, for errors; `bases`: the base tools, if known. Raises UsageError."""
    try:
        found = msgspec.convert(tomllib.loads(text), _File)
    except tomllib.TOMLDecodeError as e:
        raise UsageError(f"{where}: not TOML: {e}") from None
    except msgspec.ValidationError as e:
        what, _, key = str(e).partition(" - at `$")
        raise UsageError(f"{where}: {key.rstrip('`').lstrip('.') or 'the file'}: {_lower(what)}") from None
    if not found.id:
        raise UsageError(f"{where}: id: it is empty; give the facade a name")
    known = None if bases is None else frozenset(bases)
    _known_bases(found.shows, known, f"{where}: shows")
    views = tuple(_view(row, known, f"{where}: views[{number}]") for number, row in enumerate(found.views))
    _once([view.name for view in views], where)
    return Facade(
        id=found.id,
        title=found.title or found.id,
        views=views,
        failure=_words(found.failure, f"{where}: failure"),
        note=found.note,
        shows=frozenset(found.shows),
    )


# ---- one tool


def _view(row: _Row, known: frozenset[str] | None, where: str) -> View:
    if not row.name:
        raise UsageError(f"{where}.name: it is empty; say how the model calls the tool")
    _known_bases([row.base], known, f"{where}.base")
    properties = _properties(row, where)
    names = {**properties, **row.accepts}
    fields = row.fields if row.fields is not None else {name: name for name in names if name not in row.ignored}
    _among(fields, names, f"{where}.fields", "parameters or accepts")
    _among(row.scale, fields, f"{where}.scale", "fields")
    _among(row.offset, fields, f"{where}.offset", "fields")
    _pattern(row.models, f"{where}.models")
    if 0 in row.scale.values():
        raise UsageError(f"{where}.scale: a scale of 0 has no way back; give another number")
    case = Case(
        base=row.base,
        fields=tuple(_field(row, native, base, names[native]) for native, base in fields.items()),
        fixed=row.fixed,
        result=_words(row.result, f"{where}.result"),
        failure=_words(row.failure, f"{where}.failure"),
    )
    return View(
        name=row.name,
        description=row.description,
        parameters=row.parameters,
        cases={"": case},
        accepts=row.accepts,
        ignored=frozenset(row.ignored),
        aliases=tuple(row.aliases),
        models=row.models,
        hidden=row.hidden,
    )


def _properties(row: _Row, where: str) -> Schema:
    """The parameters that the model is shown. Raises UsageError where they are no schema of an object."""
    properties = row.parameters.get("properties", {})
    if row.parameters.get("type") != "object" or not isinstance(properties, dict):
        raise UsageError(f'{where}.parameters: they need type = "object" and a table of properties')
    try:
        Plain(row.parameters).wrongs({})
    except UsageError as e:
        raise UsageError(f"{where}.parameters: {e}") from None
    needed = cast(list[str], row.parameters.get("required", []))
    _among(needed, cast(Schema, properties), f"{where}.parameters.required", "properties")
    return cast(Schema, properties)


def _field(row: _Row, native: str, base: str, schema: Any) -> Field:
    if native not in row.scale and native not in row.offset:
        return Field(native=native, base=base)
    scale, offset = (Fraction(str(table.get(native, usual))) for table, usual in ((row.scale, 1), (row.offset, 0)))
    whole = isinstance(schema, dict) and cast(Schema, schema).get("type") == "integer"
    return Field(
        native=native,
        base=base,
        into=_on_numbers(lambda value: value * scale + offset, whole=False),
        back=_on_numbers(lambda value: (value - offset) / scale, whole=whole),
    )


def _on_numbers(change: Callable[[Fraction], Fraction], *, whole: bool) -> Callable[[Any], Any]:
    def changed(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        found = change(Fraction(str(value)))
        return round(found) if whole or found.denominator == 1 else float(found)

    return changed


# ---- words


def _words(template: str, where: str) -> Words | None:
    """A text with blanks: {text}, {kind}, {native.NAME}, {base.NAME}, {data.NAME.NAME}; {{ and }} are braces."""
    if not template:
        return None
    for blank in _BLANK.finditer(template):
        name = blank[1]
        if name is not None and name not in ("text", "kind") and name.partition(".")[0] not in _SIDES:
            known = "text, kind, native.NAME, base.NAME and data.NAME"
            raise UsageError(f"{where}: there is no {{{name}}}; there are {known}, and {{{{ is a brace")

    def words(said: Said) -> str:
        return _BLANK.sub(lambda blank: _filled(blank, said), template)

    return words


def _filled(blank: "re.Match[str]", said: Said) -> str:
    if blank[1] is None:
        return blank[0][0]
    value: Any = said
    for step in blank[1].split("."):
        value = getattr(value, step, None) if value is said else _inside(value, step)
    return "" if value is None else str(value)


def _inside(value: Any, step: str) -> Any:
    return cast(dict[str, Any], value).get(step) if isinstance(value, dict) else None


# ---- what is wrong


def _known_bases(names: Iterable[str], known: frozenset[str] | None, where: str) -> None:
    for name in names:
        if known is not None and name not in known:
            raise UsageError(f"{where}: there is no built-in tool {name!r}; toolglot tools lists them")


def _among(names: Iterable[str], known: Iterable[str], where: str, what: str) -> None:
    for name in names:
        if name not in known:
            raise UsageError(f"{where}: {name!r} is not among the {what}")


def _once(names: list[str], where: str) -> None:
    for number, name in enumerate(names):
        if name in names[:number]:
            raise UsageError(f"{where}: views[{number}].name: there are two tools {name!r}")


def _pattern(pattern: str, where: str) -> None:
    try:
        re.compile(pattern)
    except re.error as e:
        raise UsageError(f"{where}: not a pattern: {e}") from None


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
