"""The laws of `lower`, for any input: legal, idempotent, pure, quick; and `restore` leads back to the
original.
"""

import copy
from random import Random
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schema_legality import violations
from schema_storm import Valid, fair_root, storm

from toolglot.errors import UsageError
from toolglot.schema.dialects import (
    ANTHROPIC_STRICT,
    DIALECTS,
    GEMINI,
    GEMINI_OPENAPI,
    OPENAI,
    OPENAI_STRICT,
    Dialect,
)
from toolglot.schema.json_schema import iter_nodes
from toolglot.schema.lower import lower
from toolglot.schema.lowering_context import EXTRA_NODES
from toolglot.schema.lowering_result import LoweredSchema, restore

SEEDS = st.integers(0, 2**32)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3)
)
KEYS = st.sampled_from(
    [
        "type",
        "properties",
        "items",
        "anyOf",
        "allOf",
        "enum",
        "$ref",
        "required",
        "$defs",
        "additionalProperties",
        "a",
    ]
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


def check_laws(schema: Any, dialect: Dialect) -> LoweredSchema:
    before = copy.deepcopy(schema)
    once = lower(schema, dialect, tool_name="t")
    assert schema == before, "the input was changed"
    assert violations(once.schema, dialect.name) == []
    twice = lower(once.schema, dialect, tool_name="t")
    assert (twice.schema, twice.losses, twice.restorations, twice.root_description) == (
        once.schema,
        (),
        (),
        "",
    )
    return once


@pytest.mark.untraced
@settings(max_examples=150)
@given(seed=SEEDS)
def test_any_schema_becomes_legal_and_lowering_is_idempotent(seed: int) -> None:
    schema = storm(Random(seed))
    for dialect in DIALECTS:
        check_laws(schema, dialect)


@settings(max_examples=60)
@given(schema=st.dictionaries(KEYS, JSON, max_size=4))
def test_nonsense_becomes_legal_and_lowering_is_idempotent(schema: Any) -> None:
    for dialect in DIALECTS:
        check_laws(schema, dialect)


@pytest.mark.untraced
@settings(max_examples=120)
@given(seed=SEEDS)
def test_restored_arguments_are_valid_for_the_original(seed: int) -> None:
    r = Random(seed)
    schema = fair_root(r)
    original = jsonschema_rs.Draft202012Validator(schema)
    for dialect in DIALECTS:
        lowered = lower(schema, dialect, tool_name="t")
        if all(loss.subject == "property name" for loss in lowered.losses):
            arguments = Valid(lowered, r).value(lowered.schema)
            before = copy.deepcopy(arguments)
            original.validate(restore(arguments, lowered))
            assert arguments == before


@settings(max_examples=100)
@given(
    seed=SEEDS, arguments=st.dictionaries(st.sampled_from(["a", "b", "c_d", "e", "key"]), JSON, max_size=3)
)
def test_restore_accepts_any_arguments(seed: int, arguments: dict[str, Any]) -> None:
    lowered = lower(fair_root(Random(seed)), OPENAI_STRICT, tool_name="t")
    before = copy.deepcopy(arguments)
    restore(arguments, lowered)
    assert arguments == before


# ---- hostile input


def nest(levels: int, *keys: str) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        for key in keys:
            schema = {key: [schema]} if key in ("anyOf", "allOf", "prefixItems") else {key: schema}
    return {"type": "object", "properties": {"x": schema}}


def billion_laughs(levels: int, width: int, key: str) -> Any:
    """Each definition names the next one several times."""
    definitions: dict[str, Any] = {f"d{levels}": {"type": "object", "properties": {"z": {"type": "string"}}}}
    for i in range(levels):
        refs = [{"$ref": f"#/$defs/d{i + 1}", "title": str(j)} for j in range(width)]
        named = {"type": "object", "properties": {f"p{j}": ref for j, ref in enumerate(refs)}}
        definitions[f"d{i}"] = named if key == "properties" else {key: refs}
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions}


def chain(length: int) -> Any:
    definitions = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(length)}
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions}


def complete_graph(count: int) -> Any:
    named = {f"p{j}": {"$ref": f"#/$defs/d{j}"} for j in range(count)}
    definitions = {f"d{i}": {"type": "object", "properties": named} for i in range(count)}
    return {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions}


MARK = "\0restorations"
HOSTILE: dict[str, Any] = {
    "properties in properties": nest(60, "a", "properties"),
    "anyOf in anyOf": nest(90, "anyOf"),
    "allOf in allOf": nest(90, "allOf"),
    "items in items": nest(150, "items"),
    "not in not": nest(150, "not"),
    "tuples in maps": nest(45, "prefixItems", "additionalProperties"),
    "laughs in anyOf": billion_laughs(30, 2, "anyOf"),
    "laughs in allOf": billion_laughs(30, 2, "allOf"),
    "laughs in properties": billion_laughs(30, 3, "properties"),
    "wide laughs": billion_laughs(4, 50, "properties"),
    "laughs at the root": {
        **billion_laughs(30, 2, "anyOf"),
        "anyOf": [{"$ref": "#/$defs/d0"}, {"$ref": "#/$defs/d1"}],
    },
    "a chain": chain(1500),
    "everyone knows everyone": complete_graph(12),
    "an object that is its own alternative": {
        "properties": {"x": {"$ref": "#/$defs/A"}},
        "$defs": {
            "A": {
                "properties": {"p": {"$ref": "#/$defs/A"}},
                "anyOf": [{"$ref": "#/$defs/A"}, {"required": ["p"]}],
            }
        },
    },
    "itself twice": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
    "a property that is itself": {"properties": {"a": {"allOf": [{"$ref": "#/properties/a"}]}}},
    "many choices": {"properties": {"e": {"enum": list(range(3000))}}},
    "many forms": {
        "properties": {
            "e": {"oneOf": [{"type": "object", "properties": {"k": {"const": i}}} for i in range(300)]}
        }
    },
    "our own mark": {
        "properties": {
            "x": {"type": "object", "\0restorations": [1], "properties": {"\0restorations": True}}
        },
        "\0restorations": 1,
    },
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schemas_are_bounded(name: str) -> None:
    for dialect in (OPENAI, ANTHROPIC_STRICT, OPENAI_STRICT, GEMINI, GEMINI_OPENAPI):  # one of each kind
        lowered = check_laws(HOSTILE[name], dialect)
        size = sum(1 for _ in iter_nodes(HOSTILE[name]))
        assert sum(1 for _ in iter_nodes(lowered.schema)) <= 2 * (EXTRA_NODES + 2 * size)


def cyclic() -> Any:
    schema: dict[str, Any] = {}
    schema["properties"] = {"a": schema}
    return schema


def shared() -> Any:
    schema: Any = {"type": "string"}
    for _ in range(60):
        schema = {"type": "object", "properties": {"a": schema, "b": schema}}
    return schema


@pytest.mark.parametrize(
    "make", [lambda: nest(10_000, "items"), cyclic, shared], ids=["deep", "cyclic", "shared"]
)
def test_oversized_schemas_are_a_usage_error(make: Any) -> None:
    with pytest.raises(UsageError, match="more than 200 levels or 100000 values"):
        lower(make(), OPENAI, tool_name="t")
