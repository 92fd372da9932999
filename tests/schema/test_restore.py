"""Arguments restored to the original schema, and Gemini's schemas read."""

from typing import Any

import pytest

from toolglot.schema.dialects import ANTHROPIC, GEMINI, GEMINI_OPENAPI, OPENAI, OPENAI_STRICT, Dialect
from toolglot.schema.lower import lower
from toolglot.schema.lowering_result import LoweredSchema, Restoration, restore
from toolglot.schema.openapi import from_openapi

STRING = {"type": "string"}
NODE: Any = {
    "type": "object",
    "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
}


def there_and_back(
    properties: Any, arguments: Any, dialect: Dialect = OPENAI_STRICT, defs: Any = None
) -> Any:
    schema = {"type": "object", "properties": properties, "$defs": defs}
    return restore(arguments, lower(schema, dialect, tool_name="t"))


@pytest.mark.parametrize(("properties", "arguments", "wanted"), [
    ({"a": STRING, "b": STRING}, {"a": None, "b": "x"}, {"b": "x"}),
    ({"a": {"type": ["string", "null"]}}, {"a": None}, {}),
    ({"a": {"type": ["string", "null"], "default": "x"}}, {"a": None}, {"a": None}),
    ({"a": {"anyOf": [STRING, {"type": "null"}], "default": None}}, {"a": None}, {}),
    ({"a": {"type": "object", "properties": {"b": STRING}}}, {"a": {"b": None}}, {"a": {}}),
    ({"m": {"additionalProperties": STRING}}, {"m": [{"key": "k", "value": "v"}]}, {"m": {"k": "v"}}),
    ({"m": {"additionalProperties": STRING}}, {"m": {"k": "v"}}, {"m": {"k": "v"}}),
    ({"m": {"additionalProperties": STRING}}, {"m": [{"value": "v"}]}, {"m": [{"value": "v"}]}),
    ({"m": {"additionalProperties": STRING}}, {"m": ["k"]}, {"m": ["k"]}),
    ({"m": {"additionalProperties": {"additionalProperties": STRING}}},
        {"m": [{"key": "a", "value": [{"key": "b", "value": "c"}]}]}, {"m": {"a": {"b": "c"}}}),
    ({"x": {}}, {"x": '{"a": [1]}'}, {"x": {"a": [1]}}),
    ({"x": {}}, {"x": "not JSON"}, {"x": "not JSON"}),
    ({"x": {"type": "object"}}, {"x": '{"a": 1}'}, {"x": {"a": 1}}),
    ({"x": {"type": "object"}}, {"x": "[1]"}, {"x": "[1]"}),
    ({"x": {"type": "object"}}, {"x": {"a": 1}}, {"x": {"a": 1}}),
    ({"x": {"type": "array", "prefixItems": [STRING, {}]}}, {"x": ["a", "1"]}, {"x": ["a", "1"]}),
    ({}, {"unknown": [{"key": 1}], "other": None}, {"unknown": [{"key": 1}], "other": None}),
])  # fmt: skip
def test_restore_from_openai_strict(properties: Any, arguments: Any, wanted: Any) -> None:
    assert there_and_back(properties, arguments) == wanted


def test_restore_recursion() -> None:
    arguments = {"tree": {"v": 1, "kids": [{"v": None, "kids": [{"v": 3, "kids": None}]}]}}
    wanted = {"tree": {"v": 1, "kids": [{"kids": [{"v": 3}]}]}}
    assert there_and_back({"tree": {"$ref": "#/$defs/Node"}}, arguments, defs={"Node": NODE}) == wanted


def test_restore_endless_recursion() -> None:
    deep: Any = {"v": None}
    for _ in range(500):
        deep = {"v": None, "kids": [deep]}
    back = there_and_back({"tree": {"$ref": "#/$defs/Node"}}, {"tree": deep}, defs={"Node": NODE})
    assert "v" not in back["tree"]


def test_restore_uses_the_matching_branch() -> None:
    maps = {
        "type": "object",
        "properties": {"kind": {"const": "m"}, "m": {"additionalProperties": STRING}},
        "required": ["kind"],
    }
    text = {"type": "object", "properties": {"kind": {"const": "t"}, "x": {}}, "required": ["kind"]}
    closed: Any = {
        "type": "object",
        "properties": {"y": {}},
        "required": ["y"],
        "additionalProperties": False,
    }
    properties = {
        "a": {
            "type": "array",
            "items": {"anyOf": [STRING, maps, {"$ref": "#/$defs/T"}, {"anyOf": [closed, {"type": "null"}]}]},
        }
    }
    arguments = {
        "a": [
            "s",
            {"kind": "m", "m": [{"key": "k", "value": "v"}]},
            {"kind": "t", "x": "1"},
            {"y": "2"},
            None,
            {"kind": "other"},
            5,
        ]
    }
    wanted = {
        "a": [
            "s",
            {"kind": "m", "m": {"k": "v"}},
            {"kind": "t", "x": 1},
            {"y": 2},
            None,
            {"kind": "other"},
            5,
        ]
    }
    assert there_and_back(properties, arguments, defs={"T": text}) == wanted


def test_restore_from_gemini() -> None:
    properties = {
        "pair": {
            "type": "array",
            "prefixItems": [STRING, {"additionalProperties": STRING}],
            "items": {"additionalProperties": STRING},
        },
        "named": {
            "type": "object",
            "properties": {"a": STRING},
            "additionalProperties": {"additionalProperties": STRING},
        },
    }
    entries, whole = [{"key": "k", "value": "v"}], {"k": "v"}
    arguments = {"pair": ["s", entries, entries], "named": {"a": "x", "b": entries}}
    assert there_and_back(properties, arguments, GEMINI) == {
        "pair": ["s", whole, whole],
        "named": {"a": "x", "b": whole},
    }
    union = {"x": {"anyOf": [{"type": "integer"}, {"additionalProperties": STRING}, {"type": "null"}]}}
    assert there_and_back(union, {"x": entries}, GEMINI_OPENAPI) == {"x": whole}
    assert there_and_back(union, {"x": None}, GEMINI_OPENAPI) == {"x": None}


def test_restore_names() -> None:
    properties = {"a b": STRING, "next": {"$ref": "#"}}
    assert there_and_back(properties, {"a_b": "x", "next": {"a_b": "y"}}, ANTHROPIC) == {
        "a b": "x",
        "next": {"a b": "y"},
    }


def test_nothing_to_restore() -> None:
    arguments = {"a": None}
    assert restore(arguments, lower({"properties": {"a": STRING}}, OPENAI, tool_name="t")) is arguments


def test_restorations_without_a_target() -> None:
    lowered = LoweredSchema(
        {"properties": {"a": {"$ref": "#/$defs/None"}}},
        restorations=(
            Restoration("omit", {"b": ""}, pointer="#/properties/b"),
            Restoration("pairs", pointer="#"),
            Restoration("rename", {"a": "A"}, pointer="#"),
        ),
    )
    assert restore({"a": 1}, lowered) == {"A": 1}


# ---- Gemini's OpenAPI, read


@pytest.mark.parametrize(("schema", "wanted"), [
    ({"type": "STRING"}, {"type": "string"}),
    ({"type": 6, "properties": {"type": {"type": 3}}}, {"type": "object", "properties": {"type": {"type": "integer"}}}),
    ({"type": "TYPE_UNSPECIFIED"}, {}),
    ({"type": 0}, {}),
    ({"type": 99}, {"type": 99}),
    ({"type": "STRING", "nullable": True}, {"type": ["string", "null"]}),
    ({"type": "STRING", "nullable": False}, {"type": "string"}),
    ({"type": "STRING", "nullable": True, "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
    ({"any_of": [{"type": "STRING"}], "nullable": True}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
    ({"ref": "#/defs/A", "nullable": True}, {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}),
    ({"nullable": True}, {}),
    ({"type": "STRING", "format": "enum", "enum": "a"}, {"type": "string", "enum": ["a"]}),
    ({"type": "ARRAY", "items": {"type": "STRING"}, "min_items": "2", "maxItems": 3},
        {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 3}),
    ({"type": "OBJECT", "properties": {"a": {}, "b": {}}, "property_ordering": ["b", "a", 5, "c"]},
        {"type": "object", "properties": {"b": {}, "a": {}}}),
    ({"type": "OBJECT", "required": "a", "items": None, "anyOf": {"type": "NULL"}},
        {"type": "object", "required": ["a"], "anyOf": [{"type": "null"}]}),
    ({"defs": {"A": {"type": "NULL"}}, "example": 1, "default": None},
        {"$defs": {"A": {"type": "null"}}, "examples": [1], "default": None}),
    ({"properties": [], "propertyOrdering": 5}, {"properties": []}),
    (True, True),
    (None, None),
])  # fmt: skip
def test_from_openapi(schema: Any, wanted: Any) -> None:
    read = from_openapi(schema)
    assert read == wanted
    assert from_openapi(read) == read


def test_plain_json_schema_is_unchanged() -> None:
    schema = {
        "$schema": "x",
        "type": ["object", "null"],
        "properties": {"nullable": {"const": None, "default": None}, "ref": {"enum": [None], "x": None}},
        "$defs": {"defs": {"items": False, "prefixItems": [{"type": "string"}]}},
        "oneOf": [{"not": {"type": "null"}}],
    }
    assert from_openapi(schema) == schema


def test_property_ordering() -> None:
    read = from_openapi({"properties": {"a": {}, "b": {}, "c": {}}, "propertyOrdering": ["c", "a"]})
    assert list(read["properties"]) == ["c", "a", "b"]


def test_openapi_round_trip() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": ["string", "null"], "enum": ["x", None]},
            "b": {"type": "number", "minimum": 1},
        },
    }
    assert from_openapi(lower(schema, GEMINI_OPENAPI, tool_name="t").schema) == schema
