"""Keywords by dialects, row by row: what each dialect makes of a keyword, and which losses it names."""

from typing import Any

import pytest
from schema_legality import lower_property

from toolglot.schema.dialects import (
    ANTHROPIC,
    ANTHROPIC_STRICT,
    COMPATIBLE,
    GEMINI,
    GEMINI_OPENAPI,
    OLLAMA,
    OPENAI,
    OPENAI_STRICT,
    Dialect,
)

OPEN = [OPENAI, ANTHROPIC, COMPATIBLE]
STRICT = [OPENAI_STRICT, ANTHROPIC_STRICT]
OPENAPI = [GEMINI_OPENAPI]
CLOSED = [*STRICT, GEMINI, *OPENAPI, OLLAMA]

STRING: Any = {"type": "string"}
INTEGER: Any = {"type": "integer"}
NULL: Any = {"type": "null"}
TEXT: Any = {"type": "string", "description": "Any JSON value, written as JSON text."}
OBJECT_TEXT: Any = {"type": "string", "description": "A JSON object, written as JSON text."}
DISTINCT: Any = {"oneOf": [STRING, INTEGER]}
NULLABLE: Any = {"anyOf": [STRING, NULL], "description": "D."}
TUPLE: Any = {"type": "array", "prefixItems": [STRING, INTEGER], "minItems": 2, "maxItems": 2}
MAP: Any = {"type": "object", "additionalProperties": INTEGER}


def union(*forms: Any, note: str = "") -> Any:
    return {"anyOf": list(forms)} | ({"description": note} if note else {})


def pairs(key: Any = STRING, *, closed: bool = True, **options: Any) -> Any:
    entry = {"type": "object", "properties": {"key": key, "value": INTEGER}, "required": ["key", "value"]}
    items = {**entry, "additionalProperties": False} if closed else entry
    return {"type": "array", "items": items, "description": "A map: one entry for each key.", **options}


def kind(name: str) -> Any:
    named = {"kind": {"type": "string", "enum": [name]}, "x": INTEGER}
    return {"type": "object", "properties": named, "required": ["kind"], "additionalProperties": False}


# the row, dialects, what comes in, what goes out, losses
# fmt: off
ROWS: list[tuple[str, list[Dialect], Any, Any, list[str]]] = [
    ("oneOf stays", OPEN, DISTINCT, DISTINCT, []),
    ("oneOf", CLOSED, DISTINCT, union(STRING, INTEGER), []),
    ("oneOf that overlaps", [OPENAI_STRICT], {"oneOf": [{"type": "number"}, INTEGER]},
        union({"type": "number"}, INTEGER, note="Exactly one of: number; integer."), ["oneOf"]),
    ("oneOf with a discriminator", [ANTHROPIC_STRICT], {"oneOf": [kind("p"), kind("q"), STRING, {"const": 1}, {"const": 2}]},
        union(kind("p"), kind("q"), STRING, {"type": "integer", "enum": [1]}, {"type": "integer", "enum": [2]}), []),
    ("nullable stays", [OPENAI, ANTHROPIC, OPENAI_STRICT, ANTHROPIC_STRICT, OLLAMA], NULLABLE, NULLABLE, []),
    ("nullable", [GEMINI], NULLABLE, union({"type": "string", "description": "D."}, NULL), []),
    ("nullable", OPENAPI, NULLABLE, {"type": "string", "nullable": True, "description": "D."}, []),
    ("OpenAPI's nullable", [OPENAI], {"type": "string", "nullable": True}, {"type": "string", "nullable": True}, []),
    ("OpenAPI's nullable", [OLLAMA], {"type": "string", "nullable": True}, {"type": ["string", "null"]}, []),
    ("not nullable", [OLLAMA], {"type": "string", "nullable": False}, STRING, []),
    ("OpenAPI's nullable", [OPENAI_STRICT], {"type": "string", "enum": ["a"], "nullable": True},
        {"type": ["string", "null"], "enum": ["a", None]}, []),
    ("type list", [OPENAI_STRICT, ANTHROPIC_STRICT, OLLAMA], {"type": ["string", "null"]},
        {"type": ["string", "null"]}, []),
    ("type list", [GEMINI], {"type": ["string", "null"]}, union(STRING, NULL), []),
    ("type list", OPENAPI, {"type": ["string", "null"]}, {"type": "string", "nullable": True}, []),
    ("type list", [GEMINI, *OPENAPI], {"type": ["string", "integer"]}, union(STRING, INTEGER), []),
    ("type list, null, a note", OPENAPI,
        {"type": ["string", "integer", "null"], "description": "D.", "minLength": 2, "default": 3},
        union({"type": "string", "minLength": 2, "nullable": True, "description": "D. Default: 3."},
          {"type": "integer", "nullable": True, "description": "D. Default: 3."}), ["default"]),
    ("type list with structure", [OPENAI_STRICT], {"type": ["array", "string"], "items": STRING},
        union({"type": "array", "items": STRING}, STRING), []),
    ("allOf stays", OPEN, {"allOf": [STRING, {"minLength": 1}]}, {"allOf": [STRING, {"minLength": 1}]}, []),
    ("allOf", [OPENAI_STRICT, *OPENAPI], {"allOf": [STRING, {"minLength": 1}]}, {"type": "string", "minLength": 1}, []),
    ("allOf", [GEMINI], {"allOf": [{"minimum": 1}, {"minimum": 3}, {"type": ["number", "string"]}, INTEGER]},
        {"type": "integer", "minimum": 3}, []),
    ("const", OPEN, {"const": 1}, {"const": 1}, []),
    ("const", [*STRICT, GEMINI, OLLAMA], {"const": 1}, {"type": "integer", "enum": [1]}, []),
    ("const", [GEMINI, *OPENAPI], {"const": "a"}, {"type": "string", "enum": ["a"]}, []),
    ("const", [GEMINI, *OPENAPI], {"const": True}, {"type": "boolean", "description": "One of: true."}, ["enum"]),
    ("const", CLOSED, {"const": None}, NULL, []),
    ("described consts", [GEMINI], {"oneOf": [{"const": "a", "title": "A"}, {"const": "b", "description": "Bee."}]},
        {"type": "string", "enum": ["a", "b"], "description": '"a": A; "b": Bee.'}, []),
    ("consts and null", [OPENAI_STRICT], {"anyOf": [{"const": "a"}, {"const": "b"}, NULL]},
        {"type": ["string", "null"], "enum": ["a", "b", None]}, []),
    ("consts and null", [GEMINI], {"anyOf": [{"const": "a"}, {"const": "b"}, NULL]},
        union({"type": "string", "enum": ["a", "b"]}, NULL), []),
    ("a const and null", [OPENAI_STRICT], {"anyOf": [{"const": "a", "description": "A."}, NULL]},
        {"type": ["string", "null"], "enum": ["a", None], "description": "A."}, []),
    ("consts that come late", [OPENAI_STRICT, *OPENAPI], {"anyOf": [{"allOf": [{"const": "a"}]}, {"const": "b"}]},
        {"type": "string", "enum": ["a", "b"]}, []),
    ("consts that come late", [GEMINI], {"anyOf": [{"allOf": [{"const": "a"}]}, {"const": "b"}, NULL]},
        union({"type": "string", "enum": ["a", "b"]}, NULL), []),
    ("null that comes late", OPENAPI, {"anyOf": [{"allOf": [NULL]}, {"anyOf": [STRING, INTEGER]}]},
        union({**STRING, "nullable": True}, {**INTEGER, "nullable": True}), []),
    ("enum of numbers", [*STRICT, GEMINI, OLLAMA], {"enum": [1, 2.5]}, {"type": "number", "enum": [1, 2.5]}, []),
    ("enum of numbers", OPENAPI, {"type": "integer", "enum": [1, 2, 3]},
        {"type": "integer", "description": "One of: 1, 2, 3."}, ["enum"]),
    ("enum, mixed", OPENAPI, {"enum": ["a", 1]},
        union({**STRING, "description": 'One of: "a", 1.'}, {**INTEGER, "description": 'One of: "a", 1.'}), ["enum"]),
    ("enum with null", OPENAPI, {"enum": ["a", None]}, {"type": "string", "enum": ["a"], "nullable": True}, []),
    ("enum with an empty string", OPENAPI, {"enum": ["", "a"]}, {"type": "string", "enum": ["a"]}, ["enum"]),
    ("enum of an empty string", OPENAPI, {"enum": [""]}, {"type": "string", "description": "May be empty."}, ["enum"]),
    ("enum against its type", CLOSED, {"type": "integer", "enum": ["a"]}, INTEGER, ["enum"]),
    ("enum of objects", [OPENAI_STRICT], {"enum": [{"a": 1}], "type": "object"},
        {**OBJECT_TEXT, "description": 'One of: {"a":1}. A JSON object, written as JSON text.'}, ["enum"]),
    ("closed", [GEMINI], {"type": "object", "properties": {"a": STRING}, "additionalProperties": False},
        {"type": "object", "properties": {"a": STRING}, "additionalProperties": False}, []),
    ("closed", [*OPENAPI, OLLAMA], {"type": "object", "properties": {"a": STRING}, "additionalProperties": False},
        {"type": "object", "properties": {"a": STRING}}, []),
    ("unevaluated", [GEMINI], {"type": "object", "properties": {"a": STRING}, "unevaluatedProperties": False},
        {"type": "object", "properties": {"a": STRING}, "additionalProperties": False}, []),
    ("open", [OPENAI_STRICT], {"type": "object", "properties": {"a": STRING}, "required": ["a"], "additionalProperties": True},
        {"type": "object", "properties": {"a": STRING}, "required": ["a"], "additionalProperties": False},
        ["additionalProperties"]),
    ("open", [OLLAMA], {"type": "object", "properties": {"a": STRING}, "additionalProperties": True},
        {"type": "object", "properties": {"a": STRING}, "description": "Other keys are allowed."}, ["additionalProperties"]),
    ("map", OPEN, MAP, MAP, []),
    ("map", [*STRICT[:1], GEMINI], MAP, pairs(), []),
    ("map", OPENAPI, MAP, pairs(closed=False), []),
    ("map", [OLLAMA], MAP,
        {"type": "object", "description": 'Values of other keys: {"type":"integer"}.'}, ["additionalProperties"]),
    ("map of patterns", [OPENAI_STRICT], {"type": "object", "patternProperties": {"^a": INTEGER}},
        pairs({"type": "string", "pattern": "^a"}), []),
    ("map of several patterns", [OLLAMA], {"patternProperties": {"^a": INTEGER, "^b": STRING}},
        {"type": "object", "description": 'Values of keys by pattern: '
                                          '{"^a":{"type":"integer"},"^b":{"type":"string"}}.'},
        ["patternProperties"]),
    ("nullable map of few", [OPENAI_STRICT],
        {"type": ["object", "null"], "minProperties": 1, "maxProperties": 3, "propertyNames": {"enum": ["a", "b"]},
          "additionalProperties": INTEGER},
        pairs({"type": "string", "enum": ["a", "b"]}, type=["array", "null"], minItems=1, maxItems=3), []),
    ("map by keys and patterns", [OLLAMA], {"additionalProperties": INTEGER, "patternProperties": {"a": STRING}},
        {"type": "object",
          "description": 'Values of other keys: {"type":"integer"}. Values of keys by pattern: '
                         '{"a":{"type":"string"}}.'},
        ["additionalProperties", "patternProperties"]),
    ("map by keys and patterns", [GEMINI], {"additionalProperties": INTEGER, "patternProperties": {"a": STRING}},
        pairs(description='Values of keys by pattern: {"a":{"type":"string"}}. A map: one entry for each '
                          'key.'),
        ["patternProperties"]),
    ("map of anything noted", [GEMINI], {"type": "object", "additionalProperties": {"description": "D."}},
        {"type": "object", "description": 'Values of other keys: {"description":"D."}.'}, ["additionalProperties"]),
    ("any object", [GEMINI, OLLAMA], {"type": "object", "additionalProperties": True}, {"type": "object"}, []),
    ("any object", [*STRICT, *OPENAPI], {"type": "object"}, OBJECT_TEXT, []),
    ("no object", OPENAPI, {"type": "object", "additionalProperties": False}, OBJECT_TEXT, []),
    ("no object", [ANTHROPIC_STRICT, GEMINI], {"type": "object", "additionalProperties": False},
        {"type": "object", "properties": {}, "additionalProperties": False}, []),
    ("anything", [GEMINI, OLLAMA], {}, {}, []),
    ("anything", [*STRICT, *OPENAPI], {}, TEXT, []),
    ("format", OPEN, {**STRING, "format": "uri"}, {**STRING, "format": "uri"}, []),
    ("format", [ANTHROPIC_STRICT], {**STRING, "format": "uri"}, {**STRING, "format": "uri"}, []),
    ("format", [OPENAI_STRICT, GEMINI, *OPENAPI, OLLAMA], {**STRING, "format": "uri"},
        {**STRING, "description": "Format: uri."}, ["format"]),
    ("format", [OPENAI_STRICT, ANTHROPIC_STRICT, *OPENAPI], {**STRING, "format": "date-time"},
        {**STRING, "format": "date-time"}, []),
    ("pattern", [OPENAI_STRICT, *OPENAPI], {**STRING, "pattern": "^a"}, {**STRING, "pattern": "^a"}, []),
    ("pattern", [ANTHROPIC_STRICT, GEMINI, OLLAMA], {**STRING, "pattern": "^a"},
        {**STRING, "description": "Must match pattern ^a."}, ["pattern"]),
    ("lookaround", [OPENAI_STRICT], {**STRING, "pattern": "(?=a)"},
        {**STRING, "description": "Must match pattern (?=a)."}, ["pattern"]),
    ("broken pattern", [OPENAI_STRICT], {**STRING, "pattern": "("},
        {**STRING, "description": "Must match pattern (."}, ["pattern"]),
    ("lengths", [OPENAI_STRICT, *OPENAPI], {**STRING, "minLength": 1}, {**STRING, "minLength": 1}, []),
    ("lengths", [ANTHROPIC_STRICT, GEMINI, OLLAMA], {**STRING, "maxLength": 1},
        {**STRING, "description": "At most 1 characters."}, ["maxLength"]),
    ("bounds", [OPENAI_STRICT, GEMINI, *OPENAPI], {**INTEGER, "minimum": 1}, {**INTEGER, "minimum": 1}, []),
    ("bounds", [ANTHROPIC_STRICT, OLLAMA], {**INTEGER, "minimum": 1, "maximum": 2},
        {**INTEGER, "description": "At least 1. At most 2."}, ["minimum", "maximum"]),
    ("exclusive bounds", [OPENAI_STRICT], {**INTEGER, "exclusiveMinimum": 1}, {**INTEGER, "exclusiveMinimum": 1}, []),
    ("exclusive bounds", [ANTHROPIC_STRICT, GEMINI, *OPENAPI], {**INTEGER, "exclusiveMinimum": 1},
        {**INTEGER, "description": "Greater than 1."}, ["exclusiveMinimum"]),
    ("draft-4 exclusive bounds", OPEN, {**INTEGER, "minimum": 1, "exclusiveMinimum": True},
        {**INTEGER, "exclusiveMinimum": 1}, []),
    ("draft-4 inclusive bounds", OPEN, {**INTEGER, "maximum": 1, "exclusiveMaximum": False}, {**INTEGER, "maximum": 1}, []),
    ("array bounds", [OPENAI_STRICT, GEMINI, *OPENAPI], {"type": "array", "items": STRING, "minItems": 3},
        {"type": "array", "items": STRING, "minItems": 3}, []),
    ("array bounds", [ANTHROPIC_STRICT], {"type": "array", "items": STRING, "minItems": 1},
        {"type": "array", "items": STRING, "minItems": 1}, []),
    ("array bounds", [ANTHROPIC_STRICT, OLLAMA], {"type": "array", "items": STRING, "minItems": 3},
        {"type": "array", "items": STRING, "description": "At least 3 items."}, ["minItems"]),
    ("tuple", [GEMINI, ANTHROPIC], TUPLE, TUPLE, []),
    ("tuple", [OPENAI, COMPATIBLE], TUPLE, {**TUPLE, "items": {}}, []),
    ("tuple", [OPENAI_STRICT, *OPENAPI],
        TUPLE,
        {"type": "array", "minItems": 2, "maxItems": 2, "items": union(STRING, INTEGER),
          "description": "Items in order: string, integer."}, ["prefixItems"]),
    ("tuple", [OPENAI_STRICT], {"type": "array", "prefixItems": [STRING, STRING]},
        {"type": "array", "minItems": 2, "maxItems": 2, "items": STRING}, []),
    ("open tuple", [OPENAI_STRICT], {"type": "array", "prefixItems": [STRING], "items": INTEGER},
        {"type": "array", "items": union(STRING, INTEGER), "description": "Items in order: string."}, ["prefixItems"]),
    ("closed tuple", [GEMINI], {"type": "array", "prefixItems": [STRING], "unevaluatedItems": False},
        {"type": "array", "prefixItems": [STRING], "maxItems": 1}, []),
    ("tuple", [OLLAMA],
        TUPLE,
        {"type": "array", "items": union(STRING, INTEGER),
          "description": "Items in order: string, integer. At least 2 items. At most 2 "
                         "items."}, ["prefixItems",
          "minItems", "maxItems"]),
    ("draft-7 tuple", [ANTHROPIC], {"type": "array", "items": [STRING], "additionalItems": False},
        {"type": "array", "prefixItems": [STRING], "items": {"not": {}}}, []),
    ("draft-7 tuple", [OPENAI_STRICT], {"type": "array", "items": [STRING], "additionalItems": INTEGER},
        {"type": "array", "items": union(STRING, INTEGER), "description": "Items in order: string."}, ["prefixItems"]),
    ("always empty", [OPENAI_STRICT], {"type": "array", "items": False}, {"type": "array", "maxItems": 0, "items": TEXT}, []),
    ("uniqueItems, contains", CLOSED[:1], {"type": "array", "items": STRING, "uniqueItems": True, "contains": {"const": "a"}},
        {"type": "array", "items": STRING, "description": 'Items must be unique. One item must match: '
                                                          '{"const":"a"}.'},
        ["uniqueItems", "contains"]),
    ("uniqueItems: false", CLOSED, {"type": "array", "items": STRING, "uniqueItems": False},
        {"type": "array", "items": STRING}, []),
    ("minProperties", OPENAPI, {"type": "object", "properties": {"a": STRING}, "minProperties": 1},
        {"type": "object", "properties": {"a": STRING}, "minProperties": 1}, []),
    ("minProperties", [GEMINI], {"type": "object", "properties": {"a": STRING}, "minProperties": 1},
        {"type": "object", "properties": {"a": STRING}, "description": "At least 1 keys."}, ["minProperties"]),
    ("not", OPEN, {"not": STRING}, {"not": STRING}, []),
    ("not", CLOSED, {**STRING, "not": {"const": "a"}}, {**STRING, "description": 'Must not match: '
                                                                                 '{"const":"a"}.'}, ["not"]),
    ("if", [GEMINI], {**STRING, "if": {"minLength": 1}, "then": {"pattern": "a"}},
        {**STRING, "description": 'If it matches: {"minLength":1}. Then it must match: '
                                  '{"pattern":"a"}.'}, ["if", "then"]),
    ("else", [GEMINI], {**STRING, "else": {"pattern": "b"}},
        {**STRING, "description": 'Otherwise it must match: {"pattern":"b"}.'}, ["else"]),
    ("dependencies", [GEMINI], {"type": "object", "properties": {"a": STRING}, "dependencies": {"a": ["b"]}},
        {"type": "object", "properties": {"a": STRING}, "description": 'Keys that need other keys: '
                                                                       '{"a":["b"]}.'},
        ["dependentRequired"]),
    ("dependencies", [GEMINI],
        {"type": "object", "properties": {"a": STRING}, "dependencies": {"c": STRING}},
        {"type": "object", "properties": {"a": STRING},
          "description": 'Keys that imply further conditions: {"c":{"type":"string"}}.'}, ["dependentSchemas"]),
    ("default", [OPENAI, ANTHROPIC, COMPATIBLE, *OPENAPI], {**INTEGER, "default": 5}, {**INTEGER, "default": 5}, []),
    ("default", [*STRICT, GEMINI, OLLAMA], {**INTEGER, "default": 5}, {**INTEGER, "description": "Default: 5."}, ["default"]),
    ("default", CLOSED, {"type": ["boolean"], "default": None}, {"type": "boolean"}, []),
    ("default: false", [GEMINI], {"type": "boolean", "default": False},
        {"type": "boolean", "description": "Default: false."}, ["default"]),
    ("default of an array", OPENAPI, {"type": "array", "items": STRING, "default": ["a"]},
        {"type": "array", "items": STRING, "description": 'Default: ["a"].'}, ["default"]),
    ("cosmetics", [OPENAI, ANTHROPIC], {**STRING, "title": "T", "examples": ["a"]},
        {**STRING, "title": "T", "examples": ["a"]}, []),
    ("cosmetics", [*CLOSED, COMPATIBLE],
        {**STRING, "title": "T", "$id": "u", "$schema": "s", "discriminator": {}}, STRING, []),
    ("examples", [*CLOSED, COMPATIBLE], {**STRING, "examples": ["a", "b"]},
        {**STRING, "description": 'Examples: "a", "b".'}, ["examples"]),
    ("OpenAPI's example", CLOSED, {**STRING, "example": "a"}, {**STRING, "description": 'Example: "a".'}, ["example"]),
    ("unknown keyword", OPEN, {**STRING, "x-order": 1}, {**STRING, "x-order": 1}, []),
    ("unknown keyword", CLOSED, {**STRING, "x-order": 1}, STRING, ["x-order"]),
    ("true", OPEN, True, {}, []),
    ("false", OPEN, False, {"not": {}}, []),
    ("array without items", [OPENAI, COMPATIBLE], {"type": "array"}, {"type": "array", "items": {}}, []),
    ("array without items", [OPENAI], {"type": ["array", "null"]}, {"type": ["array", "null"], "items": {}}, []),
    ("array without items", [ANTHROPIC, GEMINI, OLLAMA], {"type": "array"}, {"type": "array"}, []),
    ("array without items", [*STRICT, *OPENAPI], {"type": "array"}, {"type": "array", "items": TEXT}, []),
    ("no type", CLOSED[:1], {"properties": {"a": STRING}, "required": ["a"]},
        {"type": "object", "properties": {"a": STRING}, "required": ["a"], "additionalProperties": False}, []),
    ("keywords of another type", CLOSED, {**STRING, "minimum": 1, "items": STRING, "properties": {"a": STRING}}, STRING, []),
    ("type and oneOf", [OPENAI_STRICT],
        {"type": "object", "oneOf": [{"properties": {"a": STRING}, "required": ["a"]}, {"properties": {"b": STRING},
          "required": ["b"]}]},
        union(*({"type": "object", "properties": {n: STRING}, "required": [n],
          "additionalProperties": False} for n in "ab"), note="Exactly one of: object; object."), ["oneOf"]),
    ("type and anyOf", [GEMINI], {"type": "string", "anyOf": [{"format": "int32"}, {"pattern": "a"}]},
        union({**STRING, "format": "int32"}, {**STRING, "description": "Must match pattern a."}), ["pattern"]),
    ("anyOf of one", CLOSED, {"anyOf": [STRING], "description": "D."}, {**STRING, "description": "D."}, []),
    ("anyOf of equals", CLOSED, {"anyOf": [{**STRING, "title": "A"}, {**STRING, "title": "B"}]}, STRING, []),
    ("anyOf of null", CLOSED, {"anyOf": [NULL, {"type": "null"}]}, NULL, []),
    ("anyOf with false", CLOSED, {"anyOf": [STRING, False]}, STRING, []),
    ("anyOf of false", [GEMINI], {"anyOf": [False], "type": "string"}, STRING, ["anyOf"]),
    ("required: true", OPEN, {"type": "object", "properties": {"a": {"type": "string", "required": True}}},
        {"type": "object", "properties": {"a": STRING}, "required": ["a"]}, []),
    ("required without property", [GEMINI], {"type": "object", "properties": {"a": STRING}, "required": ["a", "b"]},
        {"type": "object", "properties": {"a": STRING}, "required": ["a"], "description": 'Required: "b".'}, ["required"]),
    ("types in capitals", OPEN, {"type": "STRING"}, STRING, []),
]
# fmt: on


@pytest.mark.parametrize(
    ("dialect", "schema", "wanted", "losses"),
    [
        pytest.param(dialect, schema, wanted, losses, id=f"{name}-{dialect.name}")
        for name, some, schema, wanted, losses in ROWS
        for dialect in some
    ],
)
def test_keyword_in_dialect(dialect: Dialect, schema: Any, wanted: Any, losses: list[str]) -> None:
    assert lower_property(schema, dialect) == (wanted, losses)
