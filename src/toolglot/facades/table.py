"""Builds a view from a table: one row per native parameter, with its schema and the base parameter it
corresponds to.

A row is a schema if the base tool has the same parameter; else `field` and its variants say which one it has.
The key of a row is the native name; "!" after it marks a required parameter.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from toolglot.facades.parameters import closed_schema, object_schema
from toolglot.facades.view import Arguments, Case, Field, RenderContext, Renderer, View, omit
from toolglot.values.request import Schema

Convert = Callable[[Any], Any]


class Row(msgspec.Struct, frozen=True):
    """One native parameter. Its fields need no native name: that is the key of the row."""

    schema: Schema
    fields: tuple[Field, ...] = ()
    is_ignored: bool = False
    accepts: Schema | None = None
    """What calls may give, if that is not just what the schema shows."""
    aliases: tuple[str, ...] = ()
    """Names that it had before: accepted in calls, even if it is required."""


Rows = Mapping[str, Row | Schema]


def field(
    base: str,
    schema: Schema,
    to_base: Convert | None = None,
    from_base: Convert | None = None,
    *,
    default: Any = UNSET,
    base_default: Any = UNSET,
) -> Row:
    """Return a parameter that the base tool has under another name, or with other values: see `Field`."""
    return Row(schema, (Field("", base, to_base, from_base, default=default, base_default=base_default),))


def call_field(
    base: str,
    schema: Schema,
    to_base: Callable[[Arguments], Any],
    from_base: Callable[[Arguments], Any] = omit,
) -> Row:
    """Return a parameter that is computed from all arguments of a call."""
    return Row(schema, (Field("", base, to_base, from_base, needs_all_arguments=True),))


def choice_field(
    base: str, schema: Schema, choices: Mapping[str, str], default: str, base_default: str
) -> Row:
    """Return a parameter whose values have other names: native -> base."""
    names = {value: name for name, value in choices.items()}
    return field(
        base, schema, choices.__getitem__, names.__getitem__, default=default, base_default=base_default
    )


def switch_field(base: str, schema: Schema, on: Any, off: Any, base_default: Any = UNSET) -> Row:
    """Return a flag that stands for one of two base values; history has it only if it is on."""
    return field(
        base,
        schema,
        lambda flag: on if flag else off,
        lambda value: True if value == on else UNSET,
        default=False,
        base_default=base_default,
    )


def unmapped(schema: Schema) -> Row:
    """Return a parameter that other rows read; the base tool has none like it."""
    return Row(schema)


def ignored(schema: Schema) -> Row:
    """Return a parameter that is shown and has no effect."""
    return Row(schema, is_ignored=True)


def aliased(row: Row, *names: str) -> Row:
    """Return a parameter that had other names before."""
    return replace(row, aliases=names)


def pick(arguments: Mapping[str, Any], *names: str, **renamed: str) -> Arguments:
    """Return the arguments of these names that are present; `new="old"` renames one."""
    wanted = {**{name: name for name in names}, **renamed}
    return {new: arguments[old] for new, old in wanted.items() if old in arguments}


def make_view(
    name: str,
    description: str,
    base: str,
    rows: Rows,
    *,
    closed: bool = False,
    accepts: Rows | None = None,
    ignores: Iterable[str] = (),
    fixed: Arguments | None = None,
    to_base: Callable[[Arguments], Arguments] | None = None,
    from_base: Callable[[Arguments], Arguments | None] | None = None,
    result: Renderer | None = None,
    failure: Renderer | None = None,
    is_failure: Callable[[RenderContext], bool] | None = None,
    successes: Collection[str] = frozenset(),
    native_data: Callable[[RenderContext], Any] | None = None,
    script_value: Callable[[RenderContext], Any] | None = None,
    more_cases: Mapping[str, Case] | None = None,
    select_case: Callable[[Arguments], str] | None = None,
    **options: Any,
) -> View:
    """Return a view of one base tool.

    `fixed` to `script_value` are those of its `Case`, `options` further attributes of `View`. `rows` are
    shown to the model; `closed` says that there are no others. Calls may also have the parameters in
    `accepts`, which yield to a shown one, and in `ignores`, which have no effect. `more_cases` are forms that
    are not shown.
    """
    shown = _to_rows(rows)
    required = [key.rstrip("!") for key in rows if key.endswith("!")]
    accepted = {**_list_former_names(shown), **_to_rows(accepts or {})}
    fields: tuple[Field, ...] = ()
    if to_base is None:
        fields = (*_name_fields(accepted), *_name_fields(shown))
    wider_schemas: Schema = {}
    ignored_names = {*ignores}
    aliases_for: dict[str, Sequence[str]] = {}
    for key, row in shown.items():
        if row.accepts is not None:
            wider_schemas[key] = row.accepts
        if row.is_ignored:
            ignored_names.add(key)
        if row.aliases and key in required:
            aliases_for[key] = row.aliases
    make_schema = closed_schema if closed else object_schema
    case = Case(
        base=base,
        fields=fields,
        fixed=fixed or {},
        to_base=to_base,
        from_base=from_base,
        result=result,
        failure=failure,
        is_failure=is_failure,
        successes=successes,
        native_data=native_data,
        script_value=script_value,
    )
    return View(
        name=name,
        description=description,
        parameters=make_schema(" ".join(required), **_list_schemas(shown)),
        cases={"": case, **(more_cases or {})},
        select_case=select_case,
        accepts={**wider_schemas, **_list_schemas(accepted)},
        ignored=frozenset(ignored_names),
        aliases_for=aliases_for,
        **options,
    )


def with_fixed(view: View, **fixed: Any) -> View:
    """Return a view whose shown form has further base parameters that always have the same value."""
    case = view.cases[""]
    return replace(view, cases={**view.cases, "": replace(case, fixed={**case.fixed, **fixed})})


def _to_rows(rows: Rows) -> dict[str, Row]:
    """Return rows by their native names; a schema alone is a parameter that the base tool has under the same
    name.
    """
    by_name: dict[str, Row] = {}
    for key, row in rows.items():
        name = key.rstrip("!")
        by_name[name] = row if isinstance(row, Row) else field(name, row)
    return by_name


def _list_former_names(rows: Mapping[str, Row]) -> dict[str, Row]:
    """Return rows for the names that parameters had before: of their type, without their other limits."""
    former: dict[str, Row] = {}
    for row in rows.values():
        for name in row.aliases:
            former[name] = Row({"type": row.schema["type"]}, row.fields)
    return former


def _name_fields(rows: Mapping[str, Row]) -> list[Field]:
    """Return the fields of rows, each with the native name of its row."""
    return [replace(field, native=name) for name, row in rows.items() for field in row.fields]


def _list_schemas(rows: Mapping[str, Row]) -> Schema:
    return {name: row.schema for name, row in rows.items()}
