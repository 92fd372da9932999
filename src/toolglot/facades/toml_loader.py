"""A facade from TOML: native tools of somebody's own as rows of data, without a line of code. It is read here, not opened.

Laws: what is wrong is one sentence that names the file and the key, and is found when the file is read. A number goes both
ways: base = native x scale + offset. A text whose blanks cannot be filled gives way to the base tool's own words.
"""

import re
import tomllib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from difflib import get_close_matches
from fractions import Fraction
from math import isfinite
from typing import Any, cast

import msgspec

from toolglot.errors import UsageError
from toolglot.facades.view import Case, Facade, Field, RenderContext, Renderer, View
from toolglot.request import Schema
from toolglot.schema.arguments import SchemaBinder, find_issues
from toolglot.schema.json_schema import allowed_types

__all__ = ["load_facade"]

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
_CONTEXT_PARTS = ("native", "base", "data")
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(.*)`")
_MISSING_FIELD = re.compile(r"Object missing required field `(.*)`")
_TABLE_ENTRY = re.compile(r"views\[(\d+)\]\.(\w+)\[\.\.\.\]")
_TYPE_NAMES = {
    "`str`": "a text",
    "`int`": "a whole number",
    "`float`": "a number",
    "`bool`": "true or false",
    "`array`": "a list",
    "`object`": "a table",
}
_JSON_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")


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


class _BaseTools(msgspec.Struct, frozen=True):
    """What is known of the base tools: their names, their parameters, their schemas. None: nothing is."""

    names: frozenset[str] | None
    parameters: Mapping[str, Iterable[str]]
    get_schema: Callable[[str], Schema | None]

    def parameters_for(self, names: Iterable[str]) -> frozenset[str] | None:
        """The parameters that any of these tools has."""
        found = [self.parameters.get(name) for name in names]
        return None if None in found else frozenset(one for some in found for one in some or ())


def load_facade(  # noqa: D417
    text: str,
    where: str,
    base_tools: Iterable[str] | None = None,
    *,
    get_schema: Callable[[str], Schema | None] = lambda _: None,
) -> Facade:
    """The facade that a text describes. Raises UsageError.

    Args:
        text: TOML.
        where: Its file, for errors.
        bases: The base tools, if known; a mapping has the names of their parameters.
        schema_of: The schema of a base tool, if known.
    """
    try:
        found = _parse(text, where)
        names = None if base_tools is None else frozenset(base_tools)
        parameters = cast(Mapping[str, Iterable[str]], base_tools if isinstance(base_tools, Mapping) else {})
        return _build_facade(found, _BaseTools(names, parameters, get_schema), where)
    except RecursionError:
        raise UsageError(f"{where}: it is nested too deeply") from None


def _parse(text: str, where: str) -> _File:
    try:
        document = msgspec.to_builtins(tomllib.loads(text))  # JSON has no dates
    except tomllib.TOMLDecodeError as e:
        raise UsageError(f"{where}: not TOML: {e}") from None
    try:
        return msgspec.convert(document, _File)
    except msgspec.ValidationError as e:
        raise UsageError(f"{where}: {_describe_shape_error(str(e), document)}") from None


def _build_facade(file: _File, base_tools: _BaseTools, where: str) -> Facade:
    if not file.id:
        raise UsageError(f"{where}: id: it is empty; give the facade a name")
    _check_base_tools(file.shows, base_tools, f"{where}: shows")
    views = tuple(_build_view(row, base_tools, f"{where}: views[{number}]") for number, row in enumerate(file.views))
    _check_unique_names(file, where)
    native = frozenset(name for row in file.views for name in _native_parameters(row))
    failure = _compile_template(
        file.failure, f"{where}: failure", native, base_tools.parameters_for(row.base for row in file.views), is_result=False
    )
    return Facade(
        id=file.id,
        title=file.title or file.id,
        views=views,
        failure=failure,
        note=file.note,
        shows=frozenset(file.shows),
    )


# ---- one tool


def _build_view(row: _Row, base_tools: _BaseTools, where: str) -> View:
    if not row.name:
        raise UsageError(f"{where}.name: it is empty; say how the model calls the tool")
    _check_base_tools([row.base], base_tools, f"{where}.base")
    names = {**_check_properties(row, where), **row.accepts}
    base = base_tools.parameters_for([row.base])
    fields = _check_fields(row, names, base, where)
    _check_numbers(row, fields, names, where)
    _check_fixed(row, fields, base, base_tools, where)
    _check_pattern(row.models, f"{where}.models")
    native = _native_parameters(row)
    case = Case(
        base=row.base,
        fields=tuple(_build_field(row, *pair, names[pair[0]]) for pair in fields.items()),
        fixed=row.fixed,
        result=_compile_template(row.result, f"{where}.result", native, base, is_result=True),
        failure=_compile_template(row.failure, f"{where}.failure", native, base, is_result=False),
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


def _native_parameters(row: _Row) -> frozenset[str]:
    """All parameters that a call may have."""
    return frozenset({*row.parameters.get("properties", {}), *row.accepts, *row.ignored})


def _check_fields(row: _Row, names: Schema, base_parameters: frozenset[str] | None, where: str) -> dict[str, str]:
    """Native parameter -> base parameter. Raises UsageError."""
    if row.fields is None:
        fields, place, more = {name: name for name in names if name not in row.ignored}, "parameters", " under fields"
    else:
        fields, place, more = row.fields, "fields", ""
        _check_members(fields, names, f"{where}.fields", "parameters or accepts")
    for name in fields:
        if name in row.ignored:
            raise UsageError(f"{where}.ignored: {name!r} is also in fields; take it out of one of them")
    _check_base_parameters(fields.values(), row.base, base_parameters, f"{where}.{place}", more)
    first: dict[str, str] = {}
    for name, target in fields.items():
        if first.setdefault(target, name) != name:
            raise UsageError(f"{where}.fields: {first[target]!r} and {name!r} are both {target!r}; keep one of them")
    for name in names:
        if name not in fields and name not in row.ignored:
            raise UsageError(f"{where}.fields: nothing says what {name!r} is; name it here or in ignored")
    return fields


def _check_base_parameters(names: Iterable[str], tool: str, known: frozenset[str] | None, where: str, hint: str = "") -> None:
    for name in names:
        if known is not None and name not in known:
            said = f"; say which one it is{hint}" if hint else ""
            raise UsageError(f"{where}: {tool} has no parameter {name!r}{said}; {_suggest(name, known)}")


def _check_numbers(row: _Row, fields: dict[str, str], names: Schema, where: str) -> None:
    for key, table in (("scale", row.scale), ("offset", row.offset)):
        _check_members(table, fields, f"{where}.{key}", "fields")
        for name, value in table.items():
            if not isfinite(value):
                raise UsageError(f"{where}.{key}.{name}: {value} cannot be counted with; give a plain number")
            schema = cast(Schema, names[name]) if isinstance(names[name], dict) else {}
            if (kinds := allowed_types(schema)) and not {"integer", "number"} & {*kinds}:
                raise UsageError(f"{where}.{key}: {name!r} is not a number; its type is {' or '.join(kinds)}")
    if 0 in row.scale.values():
        raise UsageError(f"{where}.scale: a scale of 0 has no way back; give another number")


def _check_fixed(
    row: _Row, fields: dict[str, str], base_parameters: frozenset[str] | None, base_tools: _BaseTools, where: str
) -> None:
    if not row.fixed:
        return
    _check_base_parameters(row.fixed, row.base, base_parameters, f"{where}.fixed")
    for name, target in fields.items():
        if target in row.fixed:
            raise UsageError(f"{where}.fixed: {target!r} is what the field {name!r} says; take it out of one of them")
    for wrong in find_issues(row.fixed, {**(base_tools.get_schema(row.base) or {}), "required": []}):
        if wrong.path != "$":
            raise UsageError(f"{where}.fixed{wrong.path[1:]}: {wrong.message}")


def _build_field(row: _Row, native: str, base: str, schema: Any) -> Field:
    if native not in row.scale and native not in row.offset:
        return Field(native=native, base=base)
    scale, offset = (Fraction(str(table.get(native, usual))) for table, usual in ((row.scale, 1), (row.offset, 0)))
    whole = isinstance(schema, dict) and cast(Schema, schema).get("type") == "integer"
    return Field(
        native=native,
        base=base,
        to_base=_scale_numbers(lambda value: value * scale + offset, round_result=False),
        from_base=_scale_numbers(lambda value: (value - offset) / scale, round_result=whole),
    )


def _scale_numbers(convert: Callable[[Fraction], Fraction], *, round_result: bool) -> Callable[[Any], Any]:
    def changed(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        found = convert(Fraction(str(value)))
        return round(found) if round_result or found.denominator == 1 else float(found)

    return changed


# ---- schemas


def _check_properties(row: _Row, where: str) -> Schema:
    """The parameters that the model is shown. Raises UsageError where they are no schema of an object."""
    properties = row.parameters.get("properties", {})
    if row.parameters.get("type") != "object" or not isinstance(properties, dict):
        raise UsageError(f'{where}.parameters: they need type = "object" and a table of properties')
    for key in _Row.__struct_fields__:
        if key in row.parameters and key != "description":
            raise UsageError(f"{where}.parameters.{key}: it says nothing there; write it above [views.parameters]")
    properties = cast(Schema, properties)
    if (flaw := _find_schema_error({**row.parameters, "properties": {**properties, **row.accepts}})) is not None:
        found = next(
            ((key, one) for key, part in _schema_parts(row, properties) if (one := _find_schema_error(part)) is not None), None
        )
        key, flaw = found or ("parameters", flaw)
        raise UsageError(f"{where}.{key}: {flaw}")
    needed = cast(list[str], row.parameters.get("required", []))
    _check_members(needed, properties, f"{where}.parameters.required", "properties")
    return properties


def _schema_parts(row: _Row, properties: Schema) -> Iterator[tuple[str, Schema]]:
    """A schema part by part, to find the one that is wrong."""
    shared = {key: row.parameters[key] for key in ("$defs", "definitions") if key in row.parameters}
    for key, value in row.parameters.items():
        if key != "properties":
            yield f"parameters.{key}", {key: value}
    for place, table in (("parameters.properties", properties), ("accepts", row.accepts)):
        for name, schema in table.items():
            yield f"{place}.{name}", {**shared, "properties": {name: schema}}


def _find_schema_error(schema: Schema) -> str | None:
    """What is wrong with a schema."""
    try:
        SchemaBinder(schema).find_issues({})
    except UsageError as e:
        kind = next(_unknown_types(schema), None)
        return str(e) if kind is None else f"there is no type {kind!r}; {_suggest(kind, _JSON_TYPES)}"
    return None


def _unknown_types(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        kind = cast(Schema, node).get("type")
        if isinstance(kind, str) and kind not in _JSON_TYPES:
            yield kind
    inner = cast(Schema, node).values() if isinstance(node, dict) else cast(list[Any], node) if isinstance(node, list) else ()
    for one in inner:
        yield from _unknown_types(one)


# ---- words


def _compile_template(
    template: str, where: str, native: Container[str], base_parameters: frozenset[str] | None, *, is_result: bool
) -> Renderer | None:
    """A text with blanks: {text}, {kind}, {native.NAME}, {base.NAME}, {data.NAME.NAME}; {{ and }} are braces."""
    if not template:
        return None
    if {"{", "}"} & {*_PLACEHOLDER.sub("", template)}:
        raise UsageError(f"{where}: a brace stands alone; {{text}} is a blank, and {{{{ and }}}} are braces")
    for blank in _PLACEHOLDER.finditer(template):
        if blank[1] is not None and (why := _check_placeholder(blank[1], native, base_parameters, is_result=is_result)):
            raise UsageError(f"{where}: {why}")

    def words(said: RenderContext) -> str:
        return _PLACEHOLDER.sub(lambda blank: _fill_placeholder(blank, said), template)

    return words


def _check_placeholder(name: str, native: Container[str], base_parameters: frozenset[str] | None, *, is_result: bool) -> str:
    """Why a text cannot have a blank of this name; "" where it can."""
    side, _, path = name.partition(".")
    first = path.partition(".")[0]
    if name in ("text", "kind"):
        return ""
    if side not in _CONTEXT_PARTS or not first:
        return f"there is no {{{name}}}; there are text, kind, native.NAME, base.NAME and data.NAME, and {{{{ is a brace"
    if side == "native" and first not in native:
        return f"there is no {{{name}}}; the model's tool has no parameter {first!r}"
    if side == "base" and base_parameters is not None and first not in base_parameters:
        return f"there is no {{{name}}}; the base tool has no parameter {first!r}, {_suggest(first, base_parameters)}"
    if side == "data" and not is_result:
        return f"there is no {{{name}}} where a call has failed; {{text}} says why it has"
    return ""


def _fill_placeholder(blank: "re.Match[str]", context: RenderContext) -> str:
    """What stands in a blank. Raises LookupError where the base tool's data has nothing for it."""
    if blank[1] is None:
        return blank[0][0]
    value: Any = context
    for step in blank[1].split("."):
        value = getattr(value, step, None) if value is context else _get_item(value, step)
    if value is None and blank[1].startswith("data."):
        raise LookupError(f"there is nothing for {blank[0]}")
    return "" if value is None else str(value)


def _get_item(value: Any, step: str) -> Any:
    return cast(dict[str, Any], value).get(step) if isinstance(value, dict) else None


# ---- what is wrong


def _describe_shape_error(message: str, document: dict[str, Any]) -> str:
    """The key of a value that has not the right shape, and what it should be."""
    what, _, place = message.partition(" - at `$")
    key = place.rstrip("`").lstrip(".")
    inside = f"{key}." if key else ""
    if found := _UNKNOWN_FIELD.fullmatch(what):
        return f"{inside}{found[1]}: there is no such key; {_suggest(found[1], (_Row if key else _File).__struct_fields__)}"
    if found := _MISSING_FIELD.fullmatch(what):
        return f"{inside}{found[1]}: it is missing"
    if found := _TABLE_ENTRY.fullmatch(key):
        key = f"views[{found[1]}].{found[2]}.{_find_wrong_entry(document['views'][int(found[1])][found[2]], found[2])}"
    for word, ours in _TYPE_NAMES.items():
        what = what.replace(word, ours)
    hint = "; each tool begins with [[views]]" if key == "views" else ""
    return f"{key or 'the file'}: {_lower_first(what)}{hint}"


def _find_wrong_entry(table: dict[str, Any], key: str) -> str:
    """The first entry of a table that is not as all of them should be."""
    right = str if key == "fields" else int | float
    return next(name for name, value in table.items() if isinstance(value, bool) or not isinstance(value, right))


def _check_base_tools(names: Iterable[str], base_tools: _BaseTools, where: str) -> None:
    for name in names:
        if base_tools.names is not None and name not in base_tools.names:
            raise UsageError(f"{where}: there is no built-in tool {name!r}; {_suggest(name, base_tools.names)}")


def _check_members(names: Iterable[str], known: Iterable[str], where: str, what: str) -> None:
    known = tuple(known)
    for name in names:
        if name not in known:
            raise UsageError(f"{where}: {name!r} is not among the {what}; {_suggest(name, known)}")


def _check_unique_names(file: _File, where: str) -> None:
    """A name that a call may have is of one tool. Raises UsageError."""
    taken: dict[str, str] = {name: f"{name!r} is also in shows" for name in file.shows}
    for number, row in enumerate(file.views):
        _claim_name(row.name, taken, f"there is a tool {row.name!r} already", f"{where}: views[{number}].name")
    for number, row in enumerate(file.views):
        for alias in row.aliases:
            _claim_name(alias, taken, f"{alias!r} is an alias already", f"{where}: views[{number}].aliases")


def _claim_name(name: str, taken: dict[str, str], conflict: str, where: str) -> None:
    if name in taken:
        raise UsageError(f"{where}: {taken[name]}; take another name")
    taken[name] = conflict


def _check_pattern(pattern: str, where: str) -> None:
    try:
        re.compile(pattern)
    except re.error as e:
        raise UsageError(f"{where}: not a pattern: {e}") from None


def _suggest(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = get_close_matches(name, names, n=2, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    return f"there are {', '.join(names)}" if names else "there are none"


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
