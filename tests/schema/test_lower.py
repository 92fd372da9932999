"""What `lower` does with whole schemas: the root, references, merging, names, nonsense, limits."""

from typing import Any

import msgspec
import pytest
from schema_legality import lower_property as of
from schema_legality import violations

from toolglot.errors import UsageError
from toolglot.schema import dialects
from toolglot.schema.dialects import (
    ANTHROPIC,
    ANTHROPIC_STRICT,
    DIALECTS,
    GEMINI,
    GEMINI_OPENAPI,
    OLLAMA,
    OPENAI,
    OPENAI_STRICT,
    Dialect,
)
from toolglot.schema.lower import check_strict_limits, lower
from toolglot.schema.lowering_result import LoweredSchema, Restoration
from toolglot.values.losses import Loss

STRING: Any = {"type": "string"}
INTEGER: Any = {"type": "integer"}
NULL: Any = {"type": "null"}
TEXT: Any = {"type": "string", "description": "Any JSON value, written as JSON text."}
OBJECT_TEXT: Any = {"type": "string", "description": "A JSON object, written as JSON text."}
NOTHING: Any = {"type": "object", "properties": {}}
CLOSED_NOTHING: Any = {"type": "object", "properties": {}, "additionalProperties": False}

# ---- the root


@pytest.mark.parametrize(
    "schema", [None, {}, True, {"type": "object"}, {"$ref": "#"}, {"allOf": [{"$ref": "#"}]}]
)
def test_no_parameters_mean_no_arguments(schema: Any) -> None:
    for dialect in DIALECTS:
        wanted: Any = (
            {**CLOSED_NOTHING, "required": []}
            if dialect.requires_all
            else CLOSED_NOTHING
            if dialect.closes_objects
            else NOTHING
        )
        assert lower(schema, dialect, tool_name="t").schema == wanted


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_required_alternatives_are_described(dialect: Dialect) -> None:
    """dearlordylord/huly-mcp#66: 24 tools had a root anyOf only to say this."""
    schema = {
        "type": "object",
        "properties": {"id": STRING, "name": STRING, "n": INTEGER},
        "required": ["n"],
        "anyOf": [{"required": ["id"]}, {"required": ["name"]}],
    }
    lowered = lower(schema, dialect, tool_name="find")
    assert violations(lowered.schema, dialect.name) == []
    assert list(lowered.schema["properties"]) == ["id", "name", "n"]
    assert lowered.schema["required"] == (["id", "name", "n"] if dialect.requires_all else ["n"])
    assert (lowered.schema.get("description") or lowered.root_description) == "At least one of: id; name."
    reason = f"{dialect.name} does not support it; moved into the description"
    assert lowered.losses == (Loss("anyOf", "tool 'find' at $", reason),)


def test_alternatives_at_the_root_become_one_object() -> None:
    """anthropics/claude-code#40075: "input_schema does not support oneOf, allOf, or anyOf at the top level"."""
    schema = {
        "oneOf": [
            {
                "type": "object",
                "properties": {"op": {"const": "add"}, "to": STRING},
                "required": ["op", "to"],
                "additionalProperties": False,
            },
            {"$ref": "#/$defs/Drop"},
            {
                "type": "object",
                "properties": {"op": {"const": "move"}, "to": INTEGER},
                "required": ["op"],
                "additionalProperties": False,
            },
            {"type": "null"},
        ],
        "$defs": {
            "Drop": {
                "properties": {"op": {"const": "drop"}, "all": True},
                "required": ["op"],
                "additionalProperties": False,
            }
        },
    }
    lowered = lower(schema, ANTHROPIC, tool_name="t")
    assert lowered.schema == {
        "type": "object",
        "properties": {
            "op": {"type": "string", "enum": ["add", "drop", "move"]},
            "to": {"anyOf": [STRING, INTEGER]},
            "all": {},
        },
        "required": ["op"],
        "additionalProperties": False,
        "description": 'Exactly one of: op="add", to; op="drop"; op="move".',
        "$defs": {
            "Drop": {
                "properties": {"op": {"const": "drop"}, "all": {}},
                "required": ["op"],
                "additionalProperties": False,
            }
        },
    }
    assert [loss.subject for loss in lowered.losses] == ["oneOf"]


def test_a_property_of_the_base_is_narrowed_only_when_all_alternatives_do() -> None:
    schema = {
        "type": "object",
        "properties": {"kind": STRING, "a": STRING},
        "anyOf": [
            {"properties": {"kind": {"const": "x"}}},
            {"properties": {"kind": {"const": "y"}, "a": {"const": "z"}}},
        ],
    }
    lowered = lower(schema, OPENAI, tool_name="t")
    assert lowered.schema["properties"] == {"kind": {"type": "string", "enum": ["x", "y"]}, "a": STRING}
    assert lowered.schema["description"] == 'At least one of: kind="x"; kind="y", a="z".'


def test_alternatives_beside_properties_below_the_root() -> None:
    schema = {
        "type": "object",
        "properties": {"a": STRING},
        "oneOf": [{"required": ["a"]}, {"title": "T"}, {}, {"type": "string"}],
    }
    wanted = {
        "type": "object",
        "properties": {"a": STRING},
        "description": "Exactly one of: a; T; nothing more.",
    }
    assert of(schema, GEMINI) == (wanted, ["oneOf"])
    assert of(schema, OPENAI) == (schema, [])


def test_all_of_at_the_root() -> None:
    schema = {
        "allOf": [{"$ref": "#/$defs/A"}, {"properties": {"b": {"minimum": 1}, "c": {}}, "required": ["b"]}],
        "$defs": {
            "A": {"type": "object", "properties": {"b": INTEGER, "a": STRING, "c": STRING}, "required": ["a"]}
        },
        "description": "Root.",
    }
    lowered = lower(schema, OPENAI, tool_name="t")
    assert lowered.losses == ()
    assert lowered.schema["properties"] == {
        "b": {"allOf": [INTEGER, {"minimum": 1}]},
        "c": STRING,
        "a": STRING,
    }
    assert lowered.schema["required"] == ["a", "b"]
    assert lower(schema, GEMINI, tool_name="t").schema["properties"]["b"] == {"type": "integer", "minimum": 1}


@pytest.mark.parametrize(("schema", "losses", "note"), [
    ({"type": "string"}, ["type"], None),
    ({"type": ["object", "null"]}, [], None),
    ({"properties": {}, "not": {"required": ["a"]}}, ["not"], 'Must not match: {"required":["a"]}.'),
    ({"const": {"a": 1}}, ["const"], 'Always {"a":1}.'),
    ({"anyOf": [{"type": "object"}, {"type": "null"}]}, [], None),
    ({"anyOf": [{"type": "string"}, False]}, [], None),
])  # fmt: skip
def test_odd_roots(schema: Any, losses: list[str], note: str | None) -> None:
    lowered = lower(schema, OPENAI, tool_name="t")
    assert [loss.subject for loss in lowered.losses] == losses
    assert lowered.schema == NOTHING | ({"description": note} if note else {})


def test_legal_schemas_are_unchanged() -> None:
    schema: Any = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {
            "b": {"$ref": "#/definitions/B", "title": "B"},
            "a": {"oneOf": [STRING, {"type": "array", "items": STRING}]},
        },
        "type": "object",
        "additionalProperties": {"if": STRING, "then": {"minLength": 1}},
        "definitions": {"B": {"properties": {"b": {"$ref": "#"}}}},
        "dependentRequired": {"a": ["b"]},
    }
    for dialect in (OPENAI, ANTHROPIC):
        lowered = lower(schema, dialect, tool_name="t")
        assert lowered == LoweredSchema(schema)
        assert list(lowered.schema) == list(schema), "the order of keys is kept"


# ---- references


NODE: Any = {
    "type": "object",
    "properties": {"v": INTEGER, "kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
    "required": ["v"],
}


def tree(**options: Any) -> Any:
    return {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/Node"}},
        "required": ["tree"],
        "$defs": {"Node": NODE | options},
    }


def test_recursion_is_kept_where_allowed() -> None:
    """pydantic/pydantic-ai#1598: recursive models must work on Gemini."""
    assert lower(tree(), OPENAI, tool_name="t") == LoweredSchema(tree())
    assert lower(tree(), GEMINI, tool_name="t") == LoweredSchema(tree())
    strict = lower(tree(), OPENAI_STRICT, tool_name="t")
    assert strict.losses == ()
    assert strict.schema["$defs"]["Node"]["properties"]["kids"] == {
        "type": ["array", "null"],
        "items": {"$ref": "#/$defs/Node"},
    }


def test_recursion_is_truncated_where_not_allowed() -> None:
    def last(schema: Any) -> Any:
        for _ in range(2):
            kids = schema["properties"]["kids"]
            schema = kids.get("anyOf", [kids])[0]["items"]
        return schema

    for dialect, end in ((GEMINI_OPENAPI, OBJECT_TEXT), (OLLAMA, {"type": "object"})):
        lowered = lower(tree(), dialect, tool_name="t")
        assert "$defs" not in lowered.schema
        assert last(lowered.schema["properties"]["tree"]) == end
        assert lowered.losses == (
            Loss(
                "schema",
                "tool 't' at $.tree.kids.items.kids.items",
                "it is recursive, or too large when expanded; truncated",
            ),
        )
    strict = lower(tree(), ANTHROPIC_STRICT, tool_name="t")
    assert strict.schema["properties"] == {"tree": {"$ref": "#/$defs/Node"}}
    assert last(strict.schema["$defs"]["Node"]) == OBJECT_TEXT


def test_gemini_keeps_cycles_through_optional_properties_only() -> None:
    lowered = lower(tree(required=["v", "kids"]), GEMINI, tool_name="t")
    items = lowered.schema["$defs"]["Node"]["properties"]["kids"]["items"]
    assert items["properties"]["kids"] == {"type": "array", "items": {"type": "object"}}
    assert [loss.subject for loss in lowered.losses] == ["schema"]


def test_siblings_of_a_reference() -> None:
    noted: Any = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A", "description": "D."}},
        "required": ["a"],
        "$defs": {"A": {"enum": ["x"]}},
    }
    wrapped = {"anyOf": [{"$ref": "#/$defs/A"}], "description": "D."}
    written_out = {"type": "string", "enum": ["x"], "description": "D."}
    assert lower(noted, OPENAI, tool_name="t").schema == noted
    assert lower(noted, OPENAI_STRICT, tool_name="t").schema["properties"]["a"] == wrapped
    for dialect in (ANTHROPIC_STRICT, GEMINI, GEMINI_OPENAPI, OLLAMA):
        assert lower(noted, dialect, tool_name="t").schema["properties"]["a"] == written_out
    bound = {**noted, "properties": {"a": {"$ref": "#/$defs/A", "minLength": 1}}}
    assert lower(bound, OPENAI_STRICT, tool_name="t").schema["properties"]["a"] == {
        "type": "string",
        "enum": ["x"],
        "minLength": 1,
    }
    titled = {**noted, "properties": {"a": {"$ref": "#/$defs/A", "title": "T"}}}
    assert lower(titled, GEMINI, tool_name="t").schema["properties"]["a"] == {"$ref": "#/$defs/A"}


def test_a_note_beside_a_recursive_reference_is_lost_on_gemini() -> None:
    schema = tree(properties={"next": {"$ref": "#/$defs/Node", "description": "The next one."}}, required=[])
    lowered = lower(schema, GEMINI, tool_name="t")
    assert lowered.schema["$defs"]["Node"]["properties"]["next"] == {"$ref": "#/$defs/Node"}
    assert [(loss.subject, loss.reason) for loss in lowered.losses] == [
        ("description", "gemini allows nothing beside a recursive $ref; dropped")
    ]


@pytest.mark.parametrize("ref", [
    "#/$defs/None", "https://example.com/s.json", "other.json#/a", "#/properties/x/description", "#none", "#/anyOf/7", "#None",
    "#/anyOf/" + "9" * 5000,
])  # fmt: skip
def test_dangling_references(ref: str) -> None:
    for dialect in DIALECTS:
        got, losses = of(
            {"$ref": ref, "type": "string"}, dialect, description="Root.", anyOf=[{}, {"required": ["x"]}]
        )
        assert got == STRING
        assert losses[-1] == "$ref"


@pytest.mark.parametrize(("ref", "definitions"), [
    ("#/$defs/a~1b~0c", {"$defs": {"a/b~c": {"type": "integer"}}}),
    ("#/%24defs/a%20b", {"$defs": {"a b": {"type": "integer"}}}),
    ("#/definitions/A", {"definitions": {"A": {"$ref": "#/definitions/B"}, "B": {"type": "integer"}}}),
    ("#here", {"$defs": {"A": {"$anchor": "here", "type": "integer"}}}),
    ("https://example.com/s#/$defs/A", {"$id": "https://example.com/s", "$defs": {"A": {"type": "integer"}}}),
    ("#/properties/y/items/1", {"properties": {"x": {"$ref": "#/properties/y/items/1"}, "y": {"items": [True, INTEGER]}}}),
    ("#/allOf/0/properties/z", {"allOf": [{"properties": {"z": INTEGER}}]}),
    ("#/components/schemas/A", {"components": {"schemas": {"A": INTEGER}}}),
])  # fmt: skip
def test_references_of_all_kinds(ref: str, definitions: Any) -> None:
    for dialect in (GEMINI_OPENAPI, OLLAMA):
        assert of({"$ref": ref}, dialect, **definitions)[0] == INTEGER
    for dialect in (OPENAI_STRICT, GEMINI):
        got, _ = of({"$ref": ref}, dialect, **definitions)
        assert got["$ref"].startswith("#/$defs/")
    got, losses = of({"$ref": ref}, OPENAI, **definitions)
    assert got in ({"$ref": ref}, INTEGER)
    assert losses == []


def test_definitions_with_the_same_name() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/A"},
            "b": {"$ref": "#/definitions/A"},
            "c": {"$ref": "#"},
            "d": {"$ref": "#/$defs/A"},
        },
        "$defs": {"A": {"type": "string"}, "Unused": {"type": "null"}},
        "definitions": {"A": {"type": "integer"}},
    }
    lowered = lower(schema, GEMINI, tool_name="t").schema
    assert lowered["$defs"] == {"A": STRING, "A_2": INTEGER}
    assert lowered["properties"] == {
        "a": {"$ref": "#/$defs/A"},
        "b": {"$ref": "#/$defs/A_2"},
        "c": {"$ref": "#"},
        "d": {"$ref": "#/$defs/A"},
    }


def test_a_definition_that_only_refers_to_itself() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}},
    }
    assert lower(schema, OPENAI_STRICT, tool_name="t").schema["$defs"] == {"A": TEXT}
    assert lower(schema, OLLAMA, tool_name="t").schema["properties"] == {"a": {}}
    wrapped = {
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}], "title": "A"}},
    }
    assert lower(wrapped, OPENAI_STRICT, tool_name="t").schema["$defs"] == {"A": TEXT}


# ---- merging


@pytest.mark.parametrize(("parts", "wanted", "losses"), [
    ([STRING, INTEGER], {"type": "string", "description": 'Type: "integer".'}, ["type"]),
    ([{"type": ["string", "null"]}, {"type": ["null", "string"]}], {"type": ["string", "null"]}, []),
    ([{"enum": ["a", "b"]}, {"enum": ["b", "c"]}], {"type": "string", "enum": ["b"]}, []),
    ([{"enum": ["a"]}, {"enum": ["c"]}], {"type": "string", "enum": ["a"], "description": 'One of: "c".'}, ["enum"]),
    ([{"pattern": "^a"}, {"pattern": "b$"}], {**STRING, "pattern": "^a", "description": "Must match pattern b$."}, ["pattern"]),
    ([{"maximum": 3}, {"maximum": 2}, {"minimum": 0}, {"minimum": 1}], {"type": "number", "maximum": 2, "minimum": 1}, []),
    ([{"description": "A.", "title": "T"}, {"description": "B.", "type": "string", "title": "U"}],
        {**STRING, "description": "A. B."}, []),
    ([{"items": True}, {"items": STRING}, {"items": True}], {"type": "array", "items": STRING}, []),
    ([{"items": STRING}, {"items": {"minLength": 1}}], {"type": "array", "items": {"type": "string", "minLength": 1}}, []),
    ([{"anyOf": [STRING, INTEGER]}, {"anyOf": [INTEGER, NULL]}],
        {"anyOf": [STRING, INTEGER], "description": "At least one of: [{'type': 'integer'}, {'type': "
                                                    "'null'}]."}, ["anyOf"]),
    ([{"type": "array", "items": STRING, "uniqueItems": True}, {"uniqueItems": False}],
        {"type": "array", "items": STRING, "description": "Items must be unique."}, ["uniqueItems"]),
])  # fmt: skip
def test_parts_of_all_of(parts: list[Any], wanted: Any, losses: list[str]) -> None:
    assert of({"allOf": parts}, OPENAI_STRICT) == (wanted, losses)


def test_objects_of_all_of() -> None:
    a = {"type": "object", "properties": {"a": STRING}, "required": ["a"], "additionalProperties": False}
    b = {"properties": {"b": INTEGER}, "required": ["b"], "additionalProperties": {"type": "string"}}
    wanted = {
        "type": "object",
        "properties": {"a": STRING, "b": INTEGER},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    for parts in ([a, b], [b, a]):
        got, losses = of({"allOf": parts}, OPENAI_STRICT)
        assert losses == []
        assert got == wanted | {"required": got["required"]}
        assert sorted(got["required"]) == ["a", "b"]


# ---- names


def test_illegal_property_names() -> None:
    """beautyfree/appstore-connect-mcp#2; the top level only: decocms/studio#6874."""
    inner = {"type": "object", "properties": {"in/side": STRING}, "required": ["in/side"]}
    schema = {
        "type": "object",
        "properties": {"a b": inner, "a_b": STRING, "": STRING, "1": STRING, "é" * 70: STRING},
        "required": ["a b", "a_b"],
        "propertyOrdering": ["a_b", "a b", "none"],
    }
    lowered = lower(schema, ANTHROPIC, tool_name="t")
    assert list(lowered.schema["properties"]) == ["a_b_2", "a_b", "_", "1", "_" * 60]
    assert lowered.schema["required"] == ["a_b_2", "a_b"]
    assert lowered.schema["propertyOrdering"] == ["a_b", "a_b_2"]
    assert lowered.schema["properties"]["a_b_2"] == inner
    assert [loss.subject for loss in lowered.losses] == ["property name"] * 3
    assert (
        str(lowered.losses[0])
        == "property name at tool 't' at $.a b: anthropic does not support it; sent as 'a_b_2'"
    )
    google = lower(schema, GEMINI_OPENAPI, tool_name="t").schema["properties"]
    assert list(google["a_b_2"]["properties"]) == ["in_side"]
    assert "_1" in google


# ---- nonsense


@pytest.mark.parametrize(("schema", "wanted", "loss"), [
    ({"type": "any"}, {}, "type"),
    ({"type": ["string", "wat"]}, {"type": ["string"]}, None),
    ({"type": []}, {}, "type"),
    ({"type": 5}, {}, "type"),
    ("string", {}, "schema 'string'"),
    ({"properties": []}, {}, "properties"),
    ({"required": "a"}, {}, "required"),
    ({"required": ["a", "a", 3]}, {"required": ["a"]}, None),
    ({"required": False}, {}, None),
    ({"enum": []}, {}, "enum"),
    ({"enum": None, "items": None, "description": None}, {}, None),
    ({"anyOf": []}, {}, "anyOf"),
    ({"minLength": -1}, {}, "minLength"),
    ({"minLength": "3"}, {}, "minLength"),
    ({"minLength": 3.0}, {"minLength": 3}, None),
    ({"multipleOf": 0}, {}, "multipleOf"),
    ({"pattern": 5}, {}, "pattern"),
    ({"description": ["a"]}, {}, "description"),
    ({"$ref": 5}, {}, "$ref"),
    ({"items": "string"}, {}, "items"),
    ({"dependentRequired": []}, {}, "dependentRequired"),
    ({"dependentRequired": {"a": 5}}, {"dependentRequired": {"a": []}}, None),
    ({"$anchor": "no anchor"}, {}, "$anchor"),
    ({"$id": "#a"}, {}, "$id"),
    ({"default": None, "const": None}, {"default": None, "const": None}, None),
    ({"exclusiveMinimum": True}, {}, None),
])  # fmt: skip
def test_nonsense_is_dropped_and_reported(schema: Any, wanted: Any, loss: str | None) -> None:
    assert of(schema, ANTHROPIC) == (wanted, [loss] if loss else [])


@pytest.mark.parametrize(
    "schema", ["text", [1], 5, {"a": object()}, {"a": float("nan")}, {"a": 10**5000}, {1: 2}, {"a": {"b"}}]
)
def test_not_a_schema_is_a_usage_error(schema: Any) -> None:
    with pytest.raises(UsageError, match=r"(?i)schema"):
        lower(schema, OPENAI, tool_name="t")


# ---- limits of strict modes


def test_anthropic_counts_over_all_strict_tools() -> None:
    single = {"type": "object", "properties": {"a": STRING}, "required": ["a"], "additionalProperties": False}
    many = {f"t{i}": single for i in range(21)}
    assert check_strict_limits(many, ANTHROPIC_STRICT) == {"t20": "anthropic-strict limits: tools 21 > 20"}
    optional = {**single, "properties": {f"p{i}": STRING for i in range(13)}, "required": []}
    assert check_strict_limits({"a": optional, "b": optional, "c": single}, ANTHROPIC_STRICT) == {
        "b": "anthropic-strict limits: optional 26 > 24"
    }
    unions = {
        **single,
        "properties": {f"p{i}": {"type": ["string", "null"]} for i in range(9)},
        "required": [f"p{i}" for i in range(9)],
    }
    assert check_strict_limits({"a": unions, "b": unions}, ANTHROPIC_STRICT) == {
        "b": "anthropic-strict limits: unions 18 > 16"
    }
    assert check_strict_limits({"a": tree()}, ANTHROPIC_STRICT) == {
        "a": "anthropic-strict limits: a recursive definition"
    }


def test_openai_counts_per_tool() -> None:
    deep: Any = STRING
    for _ in range(11):
        deep = {"type": "object", "properties": {"a": deep}, "required": ["a"], "additionalProperties": False}
    wide = {"type": "object", "properties": {f"p{i}": STRING for i in range(5001)}}
    choices = {"type": "object", "properties": {"a": {"enum": [str(i) for i in range(1001)]}}}
    assert check_strict_limits(
        {"deep": deep, "wide": wide, "choices": choices, "tree": tree()}, OPENAI_STRICT
    ) == {
        "deep": "openai-strict limits: depth 11 > 10",
        "wide": "openai-strict limits: properties 5001 > 5000",
        "choices": "openai-strict limits: enum_values 1001 > 1000",
    }
    assert check_strict_limits({"wide": wide}, OPENAI) == {}


# ---- values


def test_a_lowered_schema_can_be_stored() -> None:
    schema = {"type": "object", "properties": {"a b": {"additionalProperties": INTEGER}, "c": {}}}
    for dialect in DIALECTS:
        lowered = lower(schema, dialect, tool_name="t")
        assert msgspec.json.decode(msgspec.json.encode(lowered), type=LoweredSchema) == lowered
    ways = lower(schema, ANTHROPIC_STRICT, tool_name="t").restorations
    assert msgspec.json.decode(msgspec.json.encode(ways), type=tuple[Restoration, ...]) == ways


def test_dialect_names_are_unique() -> None:
    assert len({dialect.name for dialect in DIALECTS}) == len(DIALECTS)
    rows = [value for value in vars(dialects).values() if isinstance(value, Dialect)]
    assert sorted(rows, key=lambda row: row.name) == sorted(DIALECTS, key=lambda row: row.name)
