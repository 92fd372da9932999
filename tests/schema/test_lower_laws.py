"""The laws of `lower`, for any input: legal, idempotent, pure; and `restore` leads back to the original."""

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schema_legality import violations

from toolglot.schema.dialects import DIALECTS, Dialect
from toolglot.schema.lower import lower

NAMES = st.sampled_from(["a", "b", "c", "kind", "$ref", "items", "user name", "type", "a/b~c", ""])
TYPES = ["object", "array", "string", "number", "integer", "boolean", "null"]
SCALARS = st.none() | st.booleans() | st.integers(-3, 9) | st.sampled_from(["", "x", "yes", 2.5, 1.0])
REFS = ["#", "#/$defs/A", "#/$defs/B", "#/$defs/a~1b", "#/definitions/C", "#/properties/a", "#/properties/a/items"]
REFS += [
    "#/anyOf/0",
    "#/$defs/none",
    "https://example.com/x.json",
    "#anchor",
    "#/properties/a/items/0",
    "#/allOf/0/properties/b",
]


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    maps = st.dictionaries(NAMES, inner, max_size=3)
    counts = st.integers(0, 4)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(TYPES) | st.lists(st.sampled_from(TYPES), min_size=1, max_size=3),
            "properties": maps,
            "required": st.lists(NAMES, max_size=3),
            "items": inner | st.lists(inner, max_size=2),
            "additionalProperties": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=3),
            "oneOf": st.lists(inner, min_size=1, max_size=3),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "enum": st.lists(SCALARS, min_size=1, max_size=3),
            "$ref": st.sampled_from(REFS),
            "description": st.sampled_from(["One.", "Two."]),
            "minItems": counts,
            "nullable": st.booleans(),
            "default": SCALARS,
        },
    )


def rarer(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    maps = st.dictionaries(NAMES, inner, max_size=2)
    return st.fixed_dictionaries(
        {"type": st.sampled_from(TYPES)},
        optional={
            "const": SCALARS | st.just({"k": 1}),
            "format": st.sampled_from(["uri", "date-time", "email", "int32"]),
            "pattern": st.sampled_from(["^a", "(?=x)", "("]),
            "minimum": st.integers(-3, 3),
            "exclusiveMinimum": st.booleans() | st.integers(0, 3),
            "maxLength": st.integers(0, 3),
            "maxItems": st.integers(0, 3),
            "minProperties": st.integers(0, 3),
            "uniqueItems": st.booleans(),
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "patternProperties": maps,
            "propertyNames": inner,
            "not": inner,
            "if": inner,
            "then": inner,
            "$defs": maps,
            "$anchor": st.just("anchor"),
            "title": st.just("T"),
            "examples": st.lists(SCALARS, max_size=2),
            "unevaluatedProperties": inner,
            "dependencies": st.dictionaries(NAMES, inner | st.lists(NAMES, max_size=2), max_size=1),
            "additionalItems": inner,
            "propertyOrdering": st.lists(NAMES, max_size=2),
            "x-mine": SCALARS,
        },
    )


LEAVES = st.booleans() | st.sampled_from([{}, {"type": "string"}, {"type": "null"}, {"type": "integer"}, {"const": "v"}])
SCHEMAS = st.recursive(LEAVES, lambda inner: keywords(inner) | rarer(inner), max_leaves=8)
ROOTS = st.tuples(
    keywords(SCHEMAS) | rarer(SCHEMAS), st.dictionaries(st.sampled_from(["A", "B", "a/b"]), SCHEMAS), SCHEMAS
).map(lambda parts: {**parts[0], "$defs": parts[1], "definitions": {"C": parts[2]}})
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([*TYPES, "items", "$ref"]), inner))
NONSENSE = st.dictionaries(st.sampled_from(["type", "properties", "items", "anyOf", "enum", "$ref", "required", "$defs"]), JSON)

relaxed = settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@relaxed
@given(schema=ROOTS | NONSENSE)
def test_any_schema_becomes_legal_and_stays_so(dialect: Dialect, schema: Any) -> None:
    before = copy.deepcopy(schema)
    once = lower(schema, dialect, tool="t")
    assert schema == before, "the input was changed"
    assert violations(once.schema, dialect.name) == []
    twice = lower(once.schema, dialect, tool="t")
    assert twice.schema == once.schema
    assert twice.losses == ()
    assert twice.ways_back == ()
    assert twice.note == ""
