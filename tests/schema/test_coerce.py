"""Values that do not match their schema are converted if there is only one way to read them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.schema import coerce as coerce_module
from toolglot.schema.arguments import find_issues
from toolglot.schema.coerce import Coercion, coerce, rename_arguments

INTEGER, NUMBER, BOOLEAN, STRING = ({"type": kind} for kind in ("integer", "number", "boolean", "string"))
LIST = {"type": "array", "items": INTEGER}
POINT = {"type": "object", "properties": {"x": INTEGER, "y": INTEGER}, "required": ["x"]}
SAME = object()

CASES: list[tuple[Any, Any, Any]] = [
    (INTEGER, "10", 10),
    (INTEGER, " -3 ", -3),
    (INTEGER, "4.0", 4),
    (INTEGER, 1.0, SAME),  # JSON Schema has it as an integer already
    (INTEGER, "ten", SAME),
    (INTEGER, "1.5", SAME),
    (INTEGER, "", SAME),
    (INTEGER, True, SAME),
    (INTEGER, "9" * 400, SAME),
    (NUMBER, "1.5", 1.5),
    (NUMBER, "NaN", SAME),
    (NUMBER, "1e999", SAME),
    (NUMBER, "1,5", SAME),
    (BOOLEAN, "true", True),
    (BOOLEAN, "False", False),
    (BOOLEAN, 1, True),
    (BOOLEAN, 2, SAME),
    (BOOLEAN, "maybe", SAME),
    (STRING, 10, "10"),
    (STRING, 1.5, "1.5"),
    (STRING, True, "true"),
    (STRING, {"a": 1}, SAME),
    (STRING, None, SAME),
    (LIST, 5, [5]),
    (LIST, "5", [5]),
    (LIST, "[1, 2]", [1, 2]),
    (LIST, "['1', 2,]", [1, 2]),
    (LIST, "[1, 2", SAME),
    (LIST, None, SAME),
    ({"type": "array", "items": STRING}, "a", ["a"]),
    (POINT, '{"x": 1}', {"x": 1}),
    (POINT, "{'x': '1'}", {"x": 1}),
    (POINT, "point", SAME),
    (POINT, {"X": "1"}, {"x": 1}),
    (POINT, {"x": 1, "y": None}, {"x": 1}),
    (POINT, {"x": None}, SAME),
    ({"enum": ["red", "dark blue"]}, "RED", "red"),
    ({"enum": ["red", "dark blue"]}, "dark_blue", "dark blue"),
    ({"enum": ["a", "A"]}, "a ", SAME),
    ({"enum": ["red"]}, "green", SAME),
    ({"type": "string", "enum": ["1", "2"]}, 1, "1"),
    ({"type": "integer", "enum": [1, 2]}, "1", 1),
    ({"anyOf": [INTEGER, {"type": "null"}]}, "3", 3),
    ({"anyOf": [INTEGER, {"type": "null"}]}, "null", None),
    ({"anyOf": [INTEGER, STRING]}, "3", SAME),
    ({"anyOf": [POINT, LIST]}, "[1]", [1]),
    ({"anyOf": [POINT, {"type": "null"}]}, {"x": "1"}, {"x": 1}),
    ({"type": ["integer", "null"]}, "3", 3),
    ({"type": "array", "prefixItems": [INTEGER, STRING]}, ["1", 2], [1, "2"]),
    ({"type": "object", "additionalProperties": INTEGER}, {"a": "1"}, {"a": 1}),
    (
        {"allOf": [{"properties": {"a": INTEGER}}, {"properties": {"b": STRING}}]},
        {"a": "1", "b": 2},
        {"a": 1, "b": "2"},
    ),
    ({}, "3", SAME),
    (True, "3", SAME),
]


@pytest.mark.parametrize(
    ("schema", "value", "expected"), CASES, ids=[f"{row[0]}-{row[1]!r:.20}" for row in CASES]
)
def test_unambiguous_conversions(schema: Any, value: Any, expected: Any) -> None:
    whole: dict[str, Any] = {"type": "object", "properties": {"v": schema}, "required": ["v"]}
    coerced, notes = coerce({"v": value}, whole)
    if expected is SAME:
        assert coerced == {"v": value}
        assert type(coerced["v"]) is type(value)
        assert notes == ()
    else:
        assert coerced == {"v": expected}
        assert type(coerced["v"]) is type(expected)
        assert all(note.startswith("$.v") for note in notes)
        assert notes
        assert find_issues(coerced, whole) == []


def test_each_change_is_reported() -> None:
    whole: dict[str, Any] = {
        "type": "object",
        "properties": {"n": INTEGER, "points": {"type": "array", "items": POINT}},
    }
    coerced, notes = coerce({"N": "10", "points": {"x": 1, "y": None}}, whole)
    assert coerced == {"n": 10, "points": [{"x": 1}]}
    assert notes == (
        "$.N: renamed to n",
        '$.n: "10" read as 10',
        '$.points: {"x":1,"y":null} read as [{"x":1,"y":null}]',
        "$.points[0].y: null left out",
    )


@pytest.mark.parametrize(("arguments", "expected"), [
    ({"FilePath": 1}, {"file_path": 1}),
    ({"file-path": 1}, {"file_path": 1}),
    ({"filePath": 1, "file_path": 2}, {"filePath": 1, "file_path": 2}),
    ({"filePath": 1, "File_Path": 2}, {"filePath": 1, "File_Path": 2}),
    ({"path": 1}, {"path": 1}),
    ({"AB": 1}, {"AB": 1}),
])  # fmt: skip
def test_renames(arguments: dict[str, Any], expected: dict[str, Any]) -> None:
    named: dict[str, Any] = dict.fromkeys(("file_path", "ab", "a_b"), STRING)
    assert rename_arguments(arguments, {"properties": named})[0] == expected


def test_references_and_cycles() -> None:
    tree: dict[str, Any] = {
        "$ref": "#/$defs/T",
        "$defs": {"T": {"type": "object", "properties": {"v": INTEGER, "next": {"$ref": "#/$defs/T"}}}},
    }
    assert coerce({"v": "1", "next": {"v": "2"}}, tree)[0] == {"v": 1, "next": {"v": 2}}
    assert coerce({"v": "1"}, {"$ref": "#/$defs/me", "$defs": {"me": {"$ref": "#/$defs/me"}}})[0] == {
        "v": "1"
    }
    deep: Any = {"v": "1"}
    for _ in range(500):
        deep = {"next": deep}
    assert coerce(deep, tree)[0] == deep


def test_nested_unions_are_bounded() -> None:
    def branch(name: str) -> dict[str, Any]:
        return {"type": "object", "properties": {"next": {"$ref": "#/$defs/T"}}, "required": [name]}

    schema: dict[str, Any] = {
        "$ref": "#/$defs/T",
        "$defs": {"T": {"anyOf": [branch("a"), branch("b"), branch("c")]}},
    }
    deep: Any = {}
    for _ in range(50):
        deep = {"next": deep}
    assert coerce(deep, schema) == (deep, ())


def test_values_beyond_the_bounds_are_not_coerced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coerce_module, "MAX_STEPS", 3)
    assert coerce(["1", "2", "3", "4"], LIST)[0] == [1, 2, "3", "4"], "the list itself is the first step"
    monkeypatch.setattr(coerce_module, "MAX_STEPS", 50)
    monkeypatch.setattr(coerce_module, "MAX_DEPTH", 2)
    lists = {"type": "array", "items": LIST}
    assert coerce([["1"]], lists)[0] == [[1]]
    assert coerce([[["1"]]], {"type": "array", "items": lists})[0] == [[["1"]]]


@pytest.mark.parametrize(("value", "schema", "expected"), [
    ({"x": 1}, POINT, True),
    ({}, POINT, False),
    ({"x": "1"}, POINT, False),
    ({"x": 1, "z": 2}, POINT, True),
    ({"x": 1, "y": 2}, {**POINT, "additionalProperties": False}, True),
    ({"x": 1, "z": 2}, {**POINT, "additionalProperties": False}, False),
    ({"x": 1, "y": "2"}, {**POINT, "additionalProperties": False}, False),
    ([1], LIST, True),
    (["a"], LIST, False),
    (2, {"const": 1}, False),
    (None, {"anyOf": [INTEGER, {"type": "null"}]}, True),
])  # fmt: skip
def test_looks_like(value: Any, schema: dict[str, Any], expected: bool) -> None:
    assert Coercion(schema).looks_like(value, schema, 0) is expected


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["1", "true", "[1]", "{}"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "A", "a_b", "x"]), inner, max_size=3)
    ),
    max_leaves=10,
)
LEAF: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [INTEGER, NUMBER, BOOLEAN, STRING, {}, {"type": "null"}, {"enum": ["a", "B", 1]}, {"const": 1}]
)
Schemas = st.SearchStrategy[dict[str, Any]]


def list_of(sub: Any) -> dict[str, Any]:
    return {"type": "array", "items": sub}


def any_of(subs: Any) -> dict[str, Any]:
    return {"anyOf": subs}


def object_of(a: Any, x: Any, needed: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": a, "x": x}, "required": needed}


def larger(inner: Schemas) -> Schemas:
    needed = st.lists(st.sampled_from(["a", "x"]), unique=True)
    branches = st.lists(inner, min_size=1, max_size=3)
    return (
        st.builds(list_of, inner) | st.builds(any_of, branches) | st.builds(object_of, inner, inner, needed)
    )


SCHEMAS: Schemas = st.recursive(LEAF, larger, max_leaves=8)


@given(JSON, SCHEMAS)
def test_valid_values_are_not_touched(value: Any, schema: dict[str, Any]) -> None:
    coerced, notes = coerce(value, schema)
    if not notes or not find_issues(value, schema):
        assert notes == ()
        assert repr(coerced) == repr(value)
    again, repairs = coerce(coerced, schema)
    if not find_issues(coerced, schema):
        assert repairs == ()
        assert repr(again) == repr(coerced)
