"""Rules that a provider was not sent are enforced when the call arrives."""

from typing import Any

import pytest

from toolglot.errors import UsageError
from toolglot.providers.catalog import resolve_profile
from toolglot.schema.arguments import (
    InvalidArguments,
    Issue,
    SchemaBinder,
    check_schema,
    explain_issues,
    find_issues,
    make_example,
    read_arguments,
    repair_arguments,
    summarize_parameters,
)
from toolglot.values.messages import Reply, ToolCall, user
from toolglot.values.request import Request, ToolDefinition, ToolExample
from toolglot.wire.codec import encode_request
from toolglot.wire.restore_calls import restore_reply

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "pattern": "^[A-Z]"},
        "page": {"type": "string", "format": "uri"},
        "limits": {"type": "object", "additionalProperties": {"type": "number", "exclusiveMinimum": 0}},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    },
    "required": ["city"],
}


@pytest.mark.parametrize(("arguments", "paths"), [
    ({"city": "Paris"}, []),
    ({}, ["$.city"]),
    ({"city": "paris"}, ["$.city"]),
    ({"city": "Paris", "page": "no uri"}, ["$.page"]),
    ({"city": "Paris", "limits": {"a": 0}}, ["$.limits.a"]),
    ({"city": "Paris", "tags": ["x", 7]}, ["$.tags[1]"]),
    ([], ["$"]),
])  # fmt: skip
def test_issues_name_the_path(arguments: Any, paths: list[str]) -> None:
    assert [wrong.path for wrong in find_issues(arguments, SCHEMA)] == paths


def test_messages_for_the_model() -> None:
    (wrong,) = find_issues({"city": "paris"}, SCHEMA)
    assert str(wrong) == '$.city: "paris" does not match "^[A-Z]"'
    assert wrong == Issue("$.city", '"paris" does not match "^[A-Z]"', "pattern", "^[A-Z]", "paris")


@pytest.mark.parametrize("schema", [None, {}])
def test_no_schema_allows_anything(schema: dict[str, Any] | None) -> None:
    assert find_issues({"anything": 1}, schema) == []


@pytest.mark.parametrize(
    "schema", [{"type": "nonsense"}, {"$ref": "#/$defs/nobody"}, {"$ref": "http://localhost:9/schema"}]
)
def test_a_broken_schema_is_a_usage_error(schema: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="not a JSON Schema"):
        find_issues({}, schema)


def chain(keyword: str, count: int = 30, prefix: str = "#/$defs/") -> dict[str, Any]:
    """A schema in which each definition uses the next one twice."""
    pairs = {f"a{k}": [{"$ref": f"{prefix}a{k + 1}"}, {"$ref": f"{prefix}a{k + 1}"}] for k in range(count)}
    nodes: dict[str, Any] = {name: {keyword: pair} for name, pair in pairs.items()}
    if keyword == "properties":
        nodes = {name: {keyword: {"x": pair[0], "y": pair[1]}} for name, pair in pairs.items()}
    return {
        "type": "object",
        "properties": {"a": {"$ref": f"{prefix}a0"}},
        "$defs": {**nodes, f"a{count}": {}},
    }


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_a_schema_that_takes_for_ever_is_refused_without_using_it(keyword: str) -> None:
    with pytest.raises(UsageError, match="more than 100000 steps"):
        check_schema(chain(keyword))
    named = chain(keyword, prefix="")
    named["$defs"] = {name: {"$id": name, **node} for name, node in named["$defs"].items()}
    with pytest.raises(UsageError, match=r"nested \$id"):
        check_schema(named)
    check_schema(chain(keyword, 5))


def test_schemas_with_many_references_are_fine() -> None:
    check_schema(chain("properties"))
    tree = chain("properties")
    tree["$defs"]["a30"] = {"anyOf": [{"type": "null"}, {"properties": {"root": {"$ref": "#"}}}]}
    check_schema(tree)
    check_schema(
        {"anyOf": [{"$ref": "#/$defs/a"}] * 50, "$defs": {"a": {"dependentSchemas": {"b": {"not": {}}}}}}
    )
    with pytest.raises(UsageError, match="steps"):
        check_schema({"anyOf": [{"$ref": "#"}] * 50})
    with pytest.raises(UsageError, match="not a JSON Schema"):
        check_schema({"type": "nonsense"})


@pytest.mark.parametrize("provider", ["gemini", "ollama", "anthropic", "openai-responses"])
def test_a_described_rule_is_still_enforced(provider: str) -> None:
    tool = ToolDefinition("look", "Looks.", SCHEMA, strict=True)
    sent = encode_request(Request("m", [user("hi")], (tool,)), resolve_profile(provider, "m"))
    assert any(loss.subject in ("format", "uniqueItems") for loss in sent.losses)
    limits = [{"key": "a", "value": 0}] if provider != "ollama" else {"a": 0}
    written = {"city": "paris", "page": "no uri", "limits": limits, "tags": ["x", "x"]}
    call = restore_reply(Reply((ToolCall("1", "look", written),), "tools"), sent).calls[0]
    assert {wrong.path for wrong in find_issues(call.arguments, tool.parameters)} == {
        "$.city",
        "$.page",
        "$.limits.a",
        "$.tags",
    }


# ---- what a model sent


@pytest.mark.parametrize(("arguments", "raw", "expected", "mends"), [
    ({"a": 1}, None, {"a": 1}, []),
    ({"a": 1}, "whatever", {"a": 1}, []),
    (None, None, {}, []),
    (None, "", {}, []),
    (None, "  \n", {}, []),
    (None, "null", {}, []),
    (None, "{'a': 1,}", {"a": 1}, ["' for a quote", "extra comma"]),
    (None, '"{\\"a\\":1}"', {"a": 1}, ["JSON inside a JSON string"]),
])  # fmt: skip
def test_read_arguments(arguments: Any, raw: str | None, expected: Any, mends: list[str]) -> None:
    arguments_read, repairs = read_arguments(ToolCall("1", "look", arguments, raw))
    assert arguments_read == expected
    assert [(repair.where, repair.reason) for repair in repairs] == [("look", mend) for mend in mends]


@pytest.mark.parametrize(("raw", "words"), [
    ('{"a": "half', "not valid JSON: line 1, column 7"),
    ("[1]", "expected a JSON object, got an array"),
    ("5", "expected a JSON object, got a number"),
    ("look it up", "not valid JSON"),
])  # fmt: skip
def test_unreadable_arguments(raw: str, words: str) -> None:
    with pytest.raises(InvalidArguments) as e:
        read_arguments(ToolCall("1", "look", None, raw))
    assert words in e.value.issues[0].message


def test_repair_by_a_json_schema() -> None:
    binder = SchemaBinder(SCHEMA)
    assert binder.bind({"city": "Paris"}) == {"city": "Paris"}
    assert binder.bind({"city": 1}) is None
    right, values, repairs = repair_arguments({"City": "Paris", "tags": "x", "more": 1}, binder, "look")
    assert right == values == {"city": "Paris", "tags": ["x"], "more": 1}, "an open schema takes other names"
    assert [repair.reason for repair in repairs] == ["$.City: renamed to city", '$.tags: "x" read as ["x"]']
    with pytest.raises(InvalidArguments) as e:
        repair_arguments({"city": "paris"}, binder, "look")
    assert e.value.issues == find_issues({"city": "paris"}, SCHEMA)


def test_a_closed_schema_refuses_other_names() -> None:
    with pytest.raises(InvalidArguments, match="dry_run"):
        repair_arguments(
            {"city": "Paris", "dry_run": True},
            SchemaBinder({**SCHEMA, "additionalProperties": False}),
            "look",
        )


# ---- words for the model


def test_explanation_has_issues_parameters_and_an_example() -> None:
    tool = ToolDefinition("look", "Looks.", SCHEMA)
    assert explain_issues(tool, [Issue("$.city", "is missing"), Issue("$", "odd")]) == (
        "The call to look was not run because its arguments are invalid:\n"
        "- city: is missing\n"
        "- odd\n"
        "Parameters: city (string, required), page (string (uri)), limits (object), tags (array of string)\n"
        'Example: {"city":"text"}'
    )
    tool = ToolDefinition("look", "Looks.", SCHEMA, examples=(ToolExample({"city": "Rome"}),))
    assert explain_issues(tool, []).endswith('Example: {"city":"Rome"}')


def test_explanation_is_short() -> None:
    tool = ToolDefinition("look", "Looks.", SCHEMA)
    text = explain_issues(tool, [Issue("$.x" * 500, "bad " * 500)] * 100)
    assert "- and 88 more" in text
    assert len(text) < 4000


def test_explanation_without_parameters() -> None:
    assert "Parameters: none\nExample: {}" in explain_issues(ToolDefinition("look"), [])


@pytest.mark.parametrize(("schema", "expected"), [
    ({"type": "integer", "default": 3}, "integer, default 3"),
    ({"enum": ["a", 1]}, 'one of "a", 1'),
    ({"const": "a"}, 'one of "a"'),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer or null"),
    ({"type": ["integer", "null"]}, "integer or null"),
    ({"type": "array", "items": {"$ref": "#/$defs/P"}}, "array of object {x: integer, next: any}"),
    ({}, "any"),
    (True, "any"),
])  # fmt: skip
def test_parameter_summary(schema: Any, expected: str) -> None:
    point = {"type": "object", "properties": {"x": {"type": "integer"}, "next": {}}}
    assert summarize_parameters({"properties": {"v": schema}, "$defs": {"P": point}}) == f"v ({expected})"


@pytest.mark.parametrize("schema", [
    {"type": "integer", "minimum": 5}, {"type": "integer", "exclusiveMinimum": 5}, {"type": "number", "maximum": -3},
    {"type": "boolean"}, {"type": "null"}, {"type": "array", "items": {"type": "integer"}, "minItems": 2},
    {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
    {"type": "object", "properties": {"a": {"type": "string", "format": "date"}}, "required": ["a"]}, {"enum": ["x"]},
    {"const": 7}, {"type": "string", "format": "uri"}, {"anyOf": [{"$ref": "#/$defs/T"}, {"type": "null"}]},
    {"$ref": "#/$defs/T"}, {},
])  # fmt: skip
def test_examples_are_valid(schema: Any) -> None:
    tree: dict[str, Any] = {
        "type": "object",
        "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/T"}},
        "required": ["v"],
    }
    whole = {"type": "object", "properties": {"v": schema}, "required": ["v"], "$defs": {"T": tree}}
    assert find_issues(make_example(whole), whole) == []


def test_examples_of_recursive_schemas_end() -> None:
    endless: dict[str, Any] = {
        "$ref": "#/$defs/T",
        "$defs": {"T": {"type": "object", "properties": {"n": {"$ref": "#/$defs/T"}}, "required": ["n"]}},
    }
    assert make_example(endless)["n"]
    assert summarize_parameters({"properties": {"n": endless}, **endless})
    assert make_example({"$ref": "#/$defs/me", "$defs": {"me": {"$ref": "#/$defs/me"}}}) == {}
