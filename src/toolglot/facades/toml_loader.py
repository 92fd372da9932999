"""Loads a facade from TOML: native tools as rows of data, without a line of code. The text is parsed here, not opened.

A mistake is one sentence that names the file and the key, and is found when the file is read. A number is converted both ways:
base = native x scale + offset. A template whose placeholders cannot be filled falls back to the base tool's own text.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from math import isfinite
from typing import Any, cast

import msgspec

from toolglot.errors import UsageError
from toolglot.facades.view import Case, Facade, Field, RenderContext, Renderer, View
from toolglot.request import Schema
from toolglot.schema.arguments import SchemaBinder, find_issues
from toolglot.schema.json_schema import allowed_types
from toolglot.textutil import did_you_mean, suggest

__all__ = ["load_facade"]

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(.*)`")
_MISSING_FIELD = re.compile(r"Object missing required field `(.*)`")
_TABLE_ENTRY = re.compile(r"views\[(\d+)\]\.(\w+)\[\.\.\.\]")
# msgspec's names of types -> those of TOML
_TYPE_NAMES = {
    "`str`": "a string",
    "`int`": "an integer",
    "`float`": "a number",
    "`bool`": "true or false",
    "`array`": "a list",
    "`object`": "a table",
}
_JSON_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")


class _Row(msgspec.Struct, forbid_unknown_fields=True):
    """One native tool, as a file describes it."""

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

    @property
    def accepted_names(self) -> frozenset[str]:
        """All parameters that a call may have."""
        return frozenset({*self.parameters.get("properties", {}), *self.accepts, *self.ignored})


class _File(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    title: str = ""
    note: str = ""
    hides: list[str] = []
    failure: str = ""
    views: list[_Row] = []


class _BaseTools(msgspec.Struct, frozen=True):
    """What is known of the base tools: names, parameters, schemas. None: nothing."""

    names: frozenset[str] | None
    parameters: Mapping[str, Iterable[str]]
    get_schema: Callable[[str], Schema | None]

    def check(self, names: Iterable[str], where: str) -> None:
        """Raise UsageError for a name that is not one of them."""
        for name in names:
            if self.names is not None and name not in self.names:
                raise UsageError(f"{where}: there is no built-in tool {name!r}; {_suggest(name, self.names)}")

    def parameters_of(self, names: Iterable[str]) -> frozenset[str] | None:
        """The parameters that any of these tools has; None if they are not known."""
        known = [self.parameters.get(name) for name in names]
        return None if None in known else frozenset(name for parameters in known for name in parameters or ())


def load_facade(
    text: str,
    where: str,
    base_tools: Iterable[str] | None = None,
    *,
    get_schema: Callable[[str], Schema | None] = lambda _: None,
) -> Facade:
    """Load the facade that a text describes. Raises UsageError.

    Args:
        text: TOML.
        where: Its file, for errors.
        base_tools: The base tools, if known; a mapping also has their parameters.
        get_schema: Returns the schema of a base tool, if known.
    """
    try:
        try:
            document = msgspec.to_builtins(tomllib.loads(text))  # JSON has no dates
        except tomllib.TOMLDecodeError as e:
            raise UsageError(f"{where}: not TOML: {e}") from None
        try:
            file = msgspec.convert(document, _File)
        except msgspec.ValidationError as e:
            raise UsageError(f"{where}: {_describe_type_error(str(e), document)}") from None
        names = None if base_tools is None else frozenset(base_tools)
        parameters = cast(Mapping[str, Iterable[str]], base_tools if isinstance(base_tools, Mapping) else {})
        return _build_facade(file, _BaseTools(names, parameters, get_schema), where)
    except RecursionError:
        raise UsageError(f"{where}: it is nested too deeply") from None


def _build_facade(file: _File, base_tools: _BaseTools, where: str) -> Facade:
    if not file.id:
        raise UsageError(f"{where}: id: it is empty; give the facade a name")
    base_tools.check(file.hides, f"{where}: hides")
    views = tuple(_build_view(row, base_tools, f"{where}: views[{number}]") for number, row in enumerate(file.views))
    names: dict[str, str] = {}  # a name that a call may use -> what has it
    for key, kind in (("name", "a tool"), ("aliases", "an alias")):
        for number, row in enumerate(file.views):
            for name in [row.name] if key == "name" else row.aliases:
                if name in names:
                    raise UsageError(f"{where}: views[{number}].{key}: {name!r} is already {names[name]}; use another name")
                names[name] = kind
    native = frozenset(name for row in file.views for name in row.accepted_names)
    base = base_tools.parameters_of(row.base for row in file.views)
    return Facade(
        id=file.id,
        title=file.title or file.id,
        views=views,
        failure=_compile_template(file.failure, f"{where}: failure", native, base, is_result=False),
        note=file.note,
        hides=frozenset(file.hides),
    )


# ---- one tool


def _build_view(row: _Row, base_tools: _BaseTools, where: str) -> View:
    if not row.name:
        raise UsageError(f"{where}.name: it is empty; set what the model calls the tool")
    base_tools.check([row.base], f"{where}.base")
    schemas = {**_check_properties(row, where), **row.accepts}
    base = base_tools.parameters_of([row.base])
    fields = _check_fields(row, schemas, base, where)
    _check_numbers(row, fields, schemas, where)
    _check_fixed(row, fields, base, base_tools, where)
    try:
        re.compile(row.models)
    except re.error as e:
        raise UsageError(f"{where}.models: not a regular expression: {e}") from None
    native = row.accepted_names
    case = Case(
        base=row.base,
        fields=tuple(_build_field(row, name, target, schemas[name]) for name, target in fields.items()),
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


def _check_fields(row: _Row, schemas: Schema, base: frozenset[str] | None, where: str) -> dict[str, str]:
    """Native parameter -> base parameter. Raises UsageError."""
    if row.fields is None:
        fields, key, hint = {name: name for name in schemas if name not in row.ignored}, "parameters", "; map it under fields"
    else:
        fields, key, hint = row.fields, "fields", ""
        _check_members(fields, schemas, f"{where}.fields", "parameters or accepts")
    _check_base_parameters(fields.values(), row.base, base, f"{where}.{key}", hint)
    sources: dict[str, str] = {}
    for name, target in fields.items():
        if name in row.ignored:
            raise UsageError(f"{where}.ignored: {name!r} is also in fields; remove one of them")
        if sources.setdefault(target, name) != name:
            raise UsageError(f"{where}.fields: {sources[target]!r} and {name!r} both map to {target!r}; keep one of them")
    for name in schemas:
        if name not in fields and name not in row.ignored:
            raise UsageError(f"{where}.fields: {name!r} is not mapped; add it here or to ignored")
    return fields


def _check_base_parameters(names: Iterable[str], tool: str, known: frozenset[str] | None, where: str, hint: str = "") -> None:
    for name in names:
        if known is not None and name not in known:
            raise UsageError(f"{where}: {tool} has no parameter {name!r}{hint}; {_suggest(name, known)}")


def _check_numbers(row: _Row, fields: dict[str, str], schemas: Schema, where: str) -> None:
    for key, table in (("scale", row.scale), ("offset", row.offset)):
        _check_members(table, fields, f"{where}.{key}", "fields")
        for name, value in table.items():
            if not isfinite(value):
                raise UsageError(f"{where}.{key}.{name}: {value} is not a finite number")
            schema = cast(Schema, schemas[name]) if isinstance(schemas[name], dict) else {}
            if (kinds := allowed_types(schema)) and not {"integer", "number"} & {*kinds}:
                raise UsageError(f"{where}.{key}: {name!r} is not a number; its type is {' or '.join(kinds)}")
    if 0 in row.scale.values():
        raise UsageError(f"{where}.scale: a scale of 0 cannot be reversed; use another number")


def _check_fixed(row: _Row, fields: dict[str, str], base: frozenset[str] | None, base_tools: _BaseTools, where: str) -> None:
    _check_base_parameters(row.fixed, row.base, base, f"{where}.fixed")
    for name, target in fields.items():
        if target in row.fixed:
            raise UsageError(f"{where}.fixed: {target!r} is also set by the field {name!r}; remove one of them")
    if row.fixed:
        for issue in find_issues(row.fixed, {**(base_tools.get_schema(row.base) or {}), "required": []}):
            if issue.path != "$":
                raise UsageError(f"{where}.fixed{issue.path[1:]}: {issue.message}")


def _build_field(row: _Row, native: str, base: str, schema: Any) -> Field:
    if native not in row.scale and native not in row.offset:
        return Field(native, base)
    # Fractions, so that 0.1 x 1000 is 100 and comes back as 0.1.
    scale, offset = (Fraction(str(table.get(native, default))) for table, default in ((row.scale, 1), (row.offset, 0)))
    is_integer = isinstance(schema, dict) and cast(Schema, schema).get("type") == "integer"

    def convert(function: Callable[[Fraction], Fraction], *, rounds: bool) -> Callable[[Any], Any]:
        def apply(value: Any) -> Any:
            if isinstance(value, bool) or not isinstance(value, int | float):
                return value
            result = function(Fraction(str(value)))
            return round(result) if rounds or result.denominator == 1 else float(result)

        return apply

    return Field(
        native,
        base,
        to_base=convert(lambda value: value * scale + offset, rounds=False),
        from_base=convert(lambda value: (value - offset) / scale, rounds=is_integer),
    )


# ---- schemas


def _check_properties(row: _Row, where: str) -> Schema:
    """The parameters that the model is shown. Raises UsageError if they are not the schema of an object."""
    properties = row.parameters.get("properties", {})
    if row.parameters.get("type") != "object" or not isinstance(properties, dict):
        raise UsageError(f'{where}.parameters: they need type = "object" and a table of properties')
    for key in _Row.__struct_fields__:
        if key in row.parameters and key != "description":
            raise UsageError(f"{where}.parameters.{key}: it has no effect there; move it above [views.parameters]")
    properties = cast(Schema, properties)
    if (error := _find_schema_error({**row.parameters, "properties": {**properties, **row.accepts}})) is not None:
        # Try the schema part by part, to name the one that is wrong.
        for key, part in _schema_parts(row, properties):
            if (part_error := _find_schema_error(part)) is not None:
                raise UsageError(f"{where}.{key}: {part_error}")
        raise UsageError(f"{where}.parameters: {error}")
    required = cast(list[str], row.parameters.get("required", []))
    _check_members(required, properties, f"{where}.parameters.required", "properties")
    return properties


def _schema_parts(row: _Row, properties: Schema) -> Iterator[tuple[str, Schema]]:
    shared = {key: row.parameters[key] for key in ("$defs", "definitions") if key in row.parameters}
    for key, value in row.parameters.items():
        if key != "properties":
            yield f"parameters.{key}", {key: value}
    for key, table in (("parameters.properties", properties), ("accepts", row.accepts)):
        for name, schema in table.items():
            yield f"{key}.{name}", {**shared, "properties": {name: schema}}


def _find_schema_error(schema: Schema) -> str | None:
    try:
        SchemaBinder(schema).find_issues({})
    except UsageError as e:
        kind = next(_unknown_types(schema), None)
        return str(e) if kind is None else f"there is no type {kind!r}; {_suggest(kind, _JSON_TYPES)}"
    return None


def _unknown_types(node: Any) -> Iterator[str]:
    children: Iterable[Any] = cast(list[Any], node) if isinstance(node, list) else ()
    if isinstance(node, dict):
        schema = cast(Schema, node)
        kind, children = schema.get("type"), schema.values()
        if isinstance(kind, str) and kind not in _JSON_TYPES:
            yield kind
    for child in children:
        yield from _unknown_types(child)


# ---- templates


def _compile_template(
    template: str, where: str, native: frozenset[str], base: frozenset[str] | None, *, is_result: bool
) -> Renderer | None:
    """A renderer for {text}, {kind}, {native.NAME}, {base.NAME} and {data.NAME.NAME}; {{ and }} are braces."""
    if not template:
        return None
    if {"{", "}"} & {*_PLACEHOLDER.sub("", template)}:
        raise UsageError(f"{where}: unmatched brace; {{text}} is a placeholder, {{{{ and }}}} are braces")
    for match in _PLACEHOLDER.finditer(template):
        if match[1] is not None and (problem := _check_placeholder(match[1], native, base, is_result=is_result)):
            raise UsageError(f"{where}: {problem}")

    def fill(match: "re.Match[str]", context: RenderContext) -> str:
        if match[1] is None:
            return match[0][0]
        first, *keys = match[1].split(".")
        value: Any = getattr(context, first)
        for key in keys:
            value = cast(dict[str, Any], value).get(key) if isinstance(value, dict) else None
        if value is None and first == "data":
            raise LookupError(f"the data has nothing for {match[0]}")
        return "" if value is None else str(value)

    return lambda context: _PLACEHOLDER.sub(lambda match: fill(match, context), template)


def _check_placeholder(name: str, native: frozenset[str], base: frozenset[str] | None, *, is_result: bool) -> str:
    """What is wrong with a placeholder; "" if nothing is."""
    side, _, path = name.partition(".")
    first = path.partition(".")[0]
    if name in ("text", "kind"):
        return ""
    unknown = f"there is no {{{name}}}"
    if side not in ("native", "base", "data") or not first:
        return f"{unknown}; use text, kind, native.NAME, base.NAME or data.NAME, and {{{{ for a brace"
    if side == "native" and first not in native:
        return f"{unknown}; the model's tool has no parameter {first!r}"
    if side == "base" and base is not None and first not in base:
        return f"{unknown}; the base tool has no parameter {first!r}, {_suggest(first, base)}"
    if side == "data" and not is_result:
        return f"{unknown} when a call has failed; {{text}} says why"
    return ""


# ---- errors


def _describe_type_error(message: str, document: dict[str, Any]) -> str:
    """msgspec's error in terms of the file: the key, and what it should be."""
    problem, _, path = message.partition(" - at `$")
    key = path.rstrip("`").lstrip(".")
    prefix = f"{key}." if key else ""
    if match := _UNKNOWN_FIELD.fullmatch(problem):
        known = (_Row if key else _File).__struct_fields__
        return f"{prefix}{match[1]}: unknown key; {_suggest(match[1], known)}"
    if match := _MISSING_FIELD.fullmatch(problem):
        return f"{prefix}{match[1]}: it is missing"
    if match := _TABLE_ENTRY.fullmatch(key):
        # msgspec does not say which entry of the table is wrong.
        table: dict[str, Any] = document["views"][int(match[1])][match[2]]
        expected = str if match[2] == "fields" else int | float
        wrong = next(name for name, value in table.items() if isinstance(value, bool) or not isinstance(value, expected))
        key = f"views[{match[1]}].{match[2]}.{wrong}"
    for name, description in _TYPE_NAMES.items():
        problem = problem.replace(name, description)
    hint = "; start each tool with [[views]]" if key == "views" else ""
    return f"{key or 'the file'}: {problem[:1].lower()}{problem[1:]}{hint}"


def _check_members(names: Iterable[str], known: Iterable[str], where: str, place: str) -> None:
    known = tuple(known)
    for name in names:
        if name not in known:
            raise UsageError(f"{where}: {name!r} is not one of the {place}; {_suggest(name, known)}")


def _suggest(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    if similar := suggest(name, names, limit=2):
        return did_you_mean(similar)
    return f"there are {', '.join(names)}" if names else "there are none"
