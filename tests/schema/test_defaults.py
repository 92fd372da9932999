"""Defaults of a schema are applied where a property is missing, at any depth."""

from copy import deepcopy
from typing import Any

import pytest

from toolglot.schema.defaults import fill_defaults

UNITS = {"type": "string", "default": "celsius"}
NESTED = {"type": "object", "properties": {"units": UNITS, "days": {"type": "integer"}}}


def with_property(schema: Any, **options: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}, **options}


@pytest.mark.parametrize(("schema", "arguments", "filled"), [
    (with_property(UNITS), {}, {"a": "celsius"}),
    (with_property(UNITS), {"a": "kelvin"}, {"a": "kelvin"}),
    (with_property(UNITS), {"a": None}, {"a": None}),
    (with_property({"default": None}), {}, {"a": None}),
    (with_property({"type": "string"}), {}, {}),
    (with_property(NESTED), {}, {}),
    (with_property(NESTED), {"a": {"days": 2}}, {"a": {"days": 2, "units": "celsius"}}),
    (with_property({**NESTED, "default": {"days": 1}}), {}, {"a": {"days": 1}}),
    (with_property({"type": "array", "items": NESTED}), {"a": [{}, {"days": 1}]},
        {"a": [{"units": "celsius"}, {"days": 1, "units": "celsius"}]}),
    (with_property({"$ref": "#/$defs/u"}, **{"$defs": {"u": UNITS}}), {}, {"a": "celsius"}),
    (with_property({"$ref": "#/$defs/u", "default": "kelvin"}, **{"$defs": {"u": UNITS}}), {}, {"a": "kelvin"}),
    ({"allOf": [with_property(UNITS), {"properties": {"b": {"default": 2}}}]}, {}, {"a": "celsius", "b": 2}),
    (with_property({"anyOf": [NESTED, {"type": "null"}]}), {"a": {}}, {"a": {}}),
    ({"anyOf": [with_property(UNITS)]}, {}, {}),
    ({"properties": [1]}, {"x": 1}, {"x": 1}),
    (with_property(True), {}, {}),
    (with_property({"$ref": "#"}), {"a": {"a": {}}}, {"a": {"a": {}}}),
])  # fmt: skip
def test_missing_properties_get_their_default(
    schema: dict[str, Any], arguments: dict[str, Any], filled: dict[str, Any]
) -> None:
    before = deepcopy((arguments, schema))
    assert fill_defaults(arguments, schema) == filled
    assert (arguments, schema) == before


def test_a_schema_that_contains_itself_ends() -> None:
    schema = {"allOf": [{"$ref": "#"}, {"$ref": "#"}], "properties": {"a": {"default": 1}}}
    assert fill_defaults({}, schema) in ({"a": 1}, {})
