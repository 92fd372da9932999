"""Loads a facade from TOML: native tools as rows of data, without a line of code. The text is parsed here, not opened.

A mistake is one sentence that names the file and the key, and is found when the file is read. A number is converted both ways:
base = native x scale + offset. A template whose placeholders cannot be filled falls back to the base tool's own text.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import isfinite
from typing import Any, cast

import msgspec

from toolglot.errors import UnknownName, UsageError
from toolglot.facades.validation import check_names
from toolglot.facades.view import Case, Facade, Field, RenderContext, Renderer, View
from toolglot.schema.arguments import find_issues
from toolglot.schema.json_schema import allowed_types
from toolglot.values.request import Schema

__all__ = ["load_facade"]

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
_FIELD_ERROR = re.compile(r"Object (contains unknown|missing required) field `(.*)`")
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
    provider: str = ""
    note: str = ""
    hides: list[str] = []
    failure: str = ""
    views: list[_Row] = []


def load_facade(text: str, where: str, base_tools: Mapping[str, Schema] | None = None) -> Facade:
    """Load the facade that a text describes. Raises UsageError.

    Args:
        text: TOML.
        where: Its file, for errors.
        base_tools: The base tools with the schemas of their arguments; what is not known of them is not checked.
    """
    document: Any = None
    try:
        document = msgspec.to_builtins(tomllib.loads(text))  # JSON has no dates
        return _build_facade(msgspec.convert(document, _File), base_tools)
    except tomllib.TOMLDecodeError as e:
        problem = f"not TOML: {e}"
    except msgspec.ValidationError as e:
        problem = _describe_type_error(str(e), document)
    except UsageError as e:
        problem = str(e)
    except RecursionError:
        problem = "it is nested too deeply"
    raise UsageError(f"{where}: {problem}")


def _build_facade(file: _File, base_tools: Mapping[str, Schema] | None) -> Facade:
    if not file.id:
        raise UsageError("id: it is empty; give the facade a name")
    if base_tools is not None:
        check_names(file.hides, base_tools, "hides", "tool")
    views: list[View] = []
    for number, row in enumerate(file.views):
        try:
            views.append(_build_view(row, base_tools))
        except UsageError as e:
            raise UsageError(f"views[{number}].{e}") from None
    names: dict[str, str] = {}  # a name that a call may use -> what has it
    for key, kind in (("name", "a tool"), ("aliases", "an alias")):
        for number, row in enumerate(file.views):
            for name in [row.name] if key == "name" else row.aliases:
                if name in names:
                    raise UsageError(f"views[{number}].{key}: {name!r} is already {names[name]}; use another name")
                names[name] = kind
    parameters = [_properties(base_tools, row.base) for row in file.views]
    return Facade(
        id=file.id,
        title=file.title or file.id,
        views=tuple(views),
        provider=file.provider,
        failure=_compile_template(
            "failure",
            file.failure,
            frozenset(name for row in file.views for name in row.accepted_names),
            None if None in parameters else {name: {} for known in parameters for name in known or ()},
        ),
        note=file.note,
        hides=frozenset(file.hides),
    )


def _properties(base_tools: Mapping[str, Schema] | None, base: str) -> Schema | None:
    """The parameters of a base tool; None if they are not known."""
    return (base_tools or {}).get(base, {}).get("properties")


# ---- one tool


def _build_view(row: _Row, base_tools: Mapping[str, Schema] | None) -> View:
    if not row.name:
        raise UsageError("name: it is empty; set what the model calls the tool")
    if base_tools is not None:
        check_names([row.base], base_tools, "base", "tool")
    base = _properties(base_tools, row.base)
    schemas = _check_schemas(row)
    fields = _check_fields(row, schemas, base)
    _check_numbers(row, fields, schemas)
    for name, target in fields.items():
        if target in row.fixed:
            raise UsageError(f"fixed: {target!r} is also set by the field {name!r}; remove one of them")
    if base_tools is not None and base is not None:
        check_names(row.fixed, base, "fixed", f"parameter of {row.base}")
        for issue in find_issues(row.fixed, {**base_tools[row.base], "required": []}):
            raise UsageError(f"fixed{issue.path[1:]}: {issue.message}")
    try:
        re.compile(row.models)
    except re.error as e:
        raise UsageError(f"models: not a regular expression: {e}") from None
    case = Case(
        base=row.base,
        fields=tuple(_build_field(row, name, target, schemas[name]) for name, target in fields.items()),
        fixed=row.fixed,
        result=_compile_template("result", row.result, row.accepted_names, base),
        failure=_compile_template("failure", row.failure, row.accepted_names, base),
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


def _check_schemas(row: _Row) -> Schema:
    """The schemas of all parameters that have one. Raises UsageError."""
    parameters = row.parameters
    properties = parameters.get("properties", {})
    if parameters.get("type") != "object" or not isinstance(properties, dict):
        raise UsageError('parameters: they need type = "object" and a table of properties')
    for key in _Row.__struct_fields__:
        if key in parameters and key != "description":
            raise UsageError(f"parameters.{key}: it has no effect there; move it above [views.parameters]")
    definitions = {key: parameters[key] for key in ("$defs", "definitions") if key in parameters}
    for key, schema in (("parameters", parameters), ("accepts", {**definitions, "properties": row.accepts})):
        try:
            find_issues({}, schema)
        except UsageError as e:
            raise UsageError(f"{key}: {e}") from None
    check_names(parameters.get("required", []), cast(Schema, properties), "parameters.required", "property")
    return {**properties, **row.accepts}


def _check_fields(row: _Row, schemas: Schema, base: Schema | None) -> dict[str, str]:
    """Native parameter -> base parameter. Raises UsageError."""
    fields = row.fields
    if fields is None:
        fields = {name: name for name in schemas if name not in row.ignored}
    check_names(fields, schemas, "fields", "parameter")
    if base is not None:
        key = "parameters, which fields do not map" if row.fields is None else "fields"
        check_names(fields.values(), base, key, f"parameter of {row.base}")
    sources: dict[str, str] = {}
    for name, target in fields.items():
        if name in row.ignored:
            raise UsageError(f"ignored: {name!r} is also in fields; remove one of them")
        if sources.setdefault(target, name) != name:
            raise UsageError(f"fields: {sources[target]!r} and {name!r} both map to {target!r}; keep one of them")
    for name in schemas:
        if name not in fields and name not in row.ignored:
            raise UsageError(f"fields: {name!r} is not mapped; add it here or to ignored")
    return fields


def _check_numbers(row: _Row, fields: dict[str, str], schemas: Schema) -> None:
    for key, table in (("scale", row.scale), ("offset", row.offset)):
        check_names(table, fields, key, "field")
        for name, value in table.items():
            if not isfinite(value) or (key == "scale" and value == 0):
                raise UsageError(f"{key}.{name}: {value:g} cannot be reversed; use another number")
            schema = cast(Schema, schemas[name]) if isinstance(schemas[name], dict) else {}
            if (kinds := allowed_types(schema)) and not {"integer", "number"} & {*kinds}:
                raise UsageError(f"{key}: {name!r} is not a number; its type is {' or '.join(kinds)}")


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


# ---- templates


def _compile_template(key: str, template: str, native: frozenset[str], base: Schema | None) -> Renderer | None:
    """A renderer for {text}, {kind}, {native.NAME}, {base.NAME} and {data.NAME.NAME}; {{ and }} are braces."""
    if not template:
        return None
    if {"{", "}"} & {*_PLACEHOLDER.sub("", template)}:
        raise UsageError(f"{key}: unmatched brace; {{text}} is a placeholder, {{{{ and }}}} are braces")
    for name in (match[1] for match in _PLACEHOLDER.finditer(template) if match[1] is not None):
        side, parameter, *_ = *name.split("."), ""
        if side == "native" and parameter:
            check_names([parameter], native, f"{key}: {{{name}}}", "parameter")
        elif side == "base" and parameter and base is not None:
            check_names([parameter], base, f"{key}: {{{name}}}", "parameter")
        elif side == "data" and key == "failure":
            raise UsageError(f"{key}: there is no {{{name}}} when a call has failed; {{text}} says why")
        elif name not in ("text", "kind") and not (side in ("base", "data") and parameter):
            choices = "text, kind, native.NAME, base.NAME or data.NAME, and {{ for a brace"
            raise UsageError(f"{key}: there is no {{{name}}}; use {choices}")

    def fill(match: "re.Match[str]", context: RenderContext) -> str:
        if match[1] is None:
            return match[0][0]
        first, *keys = match[1].split(".")
        value: Any = getattr(context, first)
        for name in keys:
            value = cast(dict[str, Any], value).get(name) if isinstance(value, dict) else None
        if value is None and first == "data":
            raise LookupError(f"the data has nothing for {match[0]}")
        return "" if value is None else str(value)

    return lambda context: _PLACEHOLDER.sub(lambda match: fill(match, context), template)


def _describe_type_error(message: str, document: dict[str, Any]) -> str:
    """msgspec's error in terms of the file: the key, and what it should be."""
    problem, _, path = message.partition(" - at `$")
    key = path.rstrip("`").lstrip(".")
    if match := _FIELD_ERROR.fullmatch(problem):
        if match[1] == "missing required":
            return f"{f'{key}.' if key else ''}{match[2]}: it is missing"
        return f"{f'{key}: ' if key else ''}{UnknownName('key', match[2], (_Row if key else _File).__struct_fields__)}"
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
