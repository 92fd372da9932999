"""What `allOf` of two nodes becomes."""

from typing import Any

import pytest

from toolglot.schema.json_schema import Schema, merge_nodes

SAME: list[tuple[Schema, Schema]] = [
    ({"const": 1}, {"const": 1.0}),
    ({"const": {"a": 1, "b": [None]}}, {"const": {"b": [None], "a": 1}}),
    ({"not": {"const": True}}, {"not": {"const": True}}),
]
DIFFERENT: list[tuple[Schema, Schema]] = [
    ({"const": 1}, {"const": True}),
    ({"const": False}, {"const": 0.0}),
    ({"const": [{"a": 0}]}, {"const": [{"a": False}]}),
    ({"const": [1]}, {"const": [1, 1]}),
    ({"const": {"a": None}}, {"const": {"b": None}}),
]


@pytest.mark.parametrize(("first", "second"), SAME)
def test_equal_values_are_no_conflict(first: Schema, second: Schema) -> None:
    assert merge_nodes(first, second) == (second, {})


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_values_that_are_equal_only_in_python_are_a_conflict(first: Schema, second: Schema) -> None:
    merged, conflicts = merge_nodes(first, second)
    assert repr((merged, conflicts)) == repr((first, second))


def test_properties_that_are_equal_only_in_python_are_both_kept() -> None:
    first, second = {"properties": {"a": {"const": 1}}}, {"properties": {"a": {"const": True}}}
    merged, conflicts = merge_nodes(first, second)
    expected: Any = {"properties": {"a": {"allOf": [{"const": 1}, {"const": True}]}}}
    assert (repr(merged), conflicts) == (repr(expected), {})


@pytest.mark.parametrize(
    ("ours", "theirs", "merged"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_null_is_allowed_only_if_both_allow_it(ours: bool, theirs: bool, merged: bool) -> None:
    first, second = {"type": "string", "nullable": ours}, {"type": "string", "nullable": theirs}
    assert merge_nodes(first, second) == ({"type": "string", "nullable": merged}, {})
