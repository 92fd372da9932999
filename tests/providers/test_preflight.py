"""Limits and invalid schemas are reported before anything is sent: which tool, which limit, which value."""

from typing import Any

import pytest

from toolglot.providers.catalog import resolve_profile
from toolglot.providers.preflight import Problem, drop_refused_tools, preflight
from toolglot.providers.profile import Profile, ProviderLimits
from toolglot.values.messages import user
from toolglot.values.request import Request, ToolDefinition
from toolglot.wire.codec import encode_request


def tools(count: int) -> list[ToolDefinition]:
    return [ToolDefinition(f"t{number}") for number in range(count)]


SHORT = Profile(id="short", title="Short", wire="openai-chat", limits=ProviderLimits(tools=2, description=5))
# fmt: off
CASES: dict[str, tuple[Profile, list[ToolDefinition], list[Problem]]] = {
    "all is well": (resolve_profile("openai-chat"), tools(128), []),
    "too many": (resolve_profile("openai-chat"), tools(129), [Problem("", "number of tools", 129, 128)]),
    "no known limit": (resolve_profile("anthropic"), tools(500), []),
    "no name": (SHORT, [ToolDefinition("")], [Problem("", "name", "empty", "at least one character")]),
    "a name that is mapped": (resolve_profile("openai-chat"), [ToolDefinition("a.b")],
        [Problem("a.b", "name", "3 characters", "pattern [a-zA-Z0-9_-]{1,64}", is_refused=False)]),
    "a long description": (SHORT, [ToolDefinition("a", "abcdef")], [Problem("a", "length of the description", 6, 5)]),
    "the same name in two namespaces": (SHORT, [ToolDefinition("a"), ToolDefinition("a", namespace="crm")], []),
    "twice": (SHORT, [ToolDefinition("a"), ToolDefinition("a", "x")],
        [Problem("a", "number of tools of this name", 2, 1, is_refused=False)]),
    "hosted tools have no limits of ours": (SHORT, [ToolDefinition("web:search", kind="hosted")] * 2, []),
}
# fmt: on

VALUE = "a value that JSON Schema allows"
TYPES = "one of object, array, string, number, integer, boolean, null"
# fmt: off
SCHEMAS: dict[str, tuple[Any, list[tuple[str, str, str]]]] = {
    "fine": ({"type": "STRING", "title": None, "$ref": "#"}, []),
    "an unknown type": ({"type": "nonsense"}, [("#/properties/x/type", '"nonsense"', TYPES)]),
    "an unknown type in a list": ({"type": ["string", "text"]}, [("#/properties/x/type", '["string","text"]', TYPES)]),
    "an array without items": ({"anyOf": [{"type": "array"}]}, [("#/properties/x/anyOf/0/items", "missing", "a schema")]),
    "a dangling reference": ({"$ref": "#/$defs/a~1b"},
        [("#/properties/x/$ref", '"#/$defs/a~1b"', "a reference to a part of this schema")]),
    "a wrong value": ({"minimum": "3", "enum": []},
        [("#/properties/x/minimum", '"3"', VALUE), ("#/properties/x/enum", "[]", VALUE)]),
    "no schema": (3, [("#/properties/x", "3", "a schema")]),
}
# fmt: on


@pytest.mark.parametrize(("schema", "value"), [
    ({"type": "array", "items": {}}, '"array"'), ({"type": "STRING"}, '"STRING"'),
    ({"type": ["string", "null"]}, '["string","null"]'), ({"enum": [1]}, "missing"),
    ({"anyOf": [{"type": "string"}, {"$ref": "#/$defs/n"}], "$defs": {"n": {"type": "integer"}}}, "missing"),
    ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, "missing"),
    ({"allOf": [{"type": "object"}, {"type": "string"}]}, "missing"),
])  # fmt: skip
@pytest.mark.parametrize("profile", ["openai-chat", "openai", "anthropic", "gemini", "ollama"])
def test_a_root_that_is_not_an_object(schema: dict[str, Any], value: str, profile: str) -> None:
    problem = Problem("t", "#/type", value, "object", is_refused=False)
    assert preflight([ToolDefinition("t", "", schema)], resolve_profile(profile)) == [problem]


@pytest.mark.parametrize("schema", [
    None, {}, {"type": "OBJECT"}, {"type": ["object", "null"]}, {"properties": {}}, {"type": None},
    {"anyOf": [{"type": "string"}, {"type": "object"}]}, {"$ref": "#/$defs/n", "$defs": {"n": {"type": "object"}}},
    {"$ref": "#"}, {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, {"allOf": [{"type": "object"}, *[{"$ref": "#"}] * 99]},
])  # fmt: skip
def test_a_root_that_may_be_an_object(schema: Any) -> None:
    assert preflight([ToolDefinition("t", "", schema)], resolve_profile("openai-chat")) == []


@pytest.mark.parametrize(("parameter", "problems"), SCHEMAS.values(), ids=SCHEMAS.keys())
def test_invalid_schemas(parameter: Any, problems: list[tuple[str, str, str]]) -> None:
    tool = ToolDefinition("t", "", {"type": "object", "properties": {"x": parameter}})
    expected = [Problem("t", *problem, is_refused=False) for problem in problems]
    assert preflight([tool], resolve_profile("openai-chat")) == expected
    losses = encode_request(Request("m", [user("x")], (tool,)), resolve_profile("openai-chat")).losses
    assert bool(losses) or not expected or "text" in str(parameter) or "array" in str(parameter)


def test_arrays_without_items_are_fine_where_the_provider_takes_them() -> None:
    tool = ToolDefinition("t", "", {"type": "object", "properties": {"x": {"type": "array"}}})
    assert preflight([tool], resolve_profile("anthropic")) == []


@pytest.mark.parametrize("parameters", [{"enum": {1}}, 3], ids=str)
def test_what_is_no_json_is_refused(parameters: Any) -> None:
    tool = ToolDefinition("t", "", parameters)
    [problem] = preflight([tool], resolve_profile("anthropic"))
    assert problem.is_refused
    assert str(problem).startswith("tool 't': schema is unusable, expected JSON Schema (a schema must be ")
    assert [loss.subject for loss in drop_refused_tools([tool], resolve_profile("anthropic"))[1]] == [
        "tool 't'"
    ]


@pytest.mark.parametrize(("provider", "missing"), [
    ("openai:gpt-4o", ""), ("anthropic:claude-opus-5", ""), ("gemini:gemini-3-pro", "map"), ("ollama:qwen3", "map"),
    ("openrouter:google/gemini-3", "map any null"),
])  # fmt: skip
def test_parameter_types_are_limits_and_limits_are_features(provider: str, missing: str) -> None:
    profile = resolve_profile(*provider.split(":"))
    every = {"string", "number", "integer", "boolean", "array", "object", "null", "map", "any"}
    assert profile.limits.parameter_types == every - {*missing.split()}
    assert profile.features.limits == profile.limits
    changed = profile.apply({"limits.tools": 3, "features.streaming": False})
    assert (changed.features.limits.tools, changed.features.streaming, profile.features.streaming) == (
        3,
        False,
        True,
    )


@pytest.mark.parametrize(("profile", "definitions", "problems"), CASES.values(), ids=CASES.keys())
def test_limits(profile: Profile, definitions: list[ToolDefinition], problems: list[Problem]) -> None:
    assert preflight(definitions, profile) == problems


def test_a_problem_as_text() -> None:
    assert (
        str(Problem("t", "length of the description", 6, 5))
        == "tool 't': length of the description is 6, the limit is 5"
    )
    assert str(Problem("", "number of tools", 3, 2)) == "number of tools is 3, the limit is 2"


def test_refused_tools_are_dropped() -> None:
    kept, losses = drop_refused_tools([ToolDefinition("long", "abcdef"), *tools(3)], SHORT)
    assert [tool.name for tool in kept] == ["t0", "t1"]
    assert [loss.subject for loss in losses] == ["tool 'long'", "tool 't2'"]
    assert "limit is 5" in losses[0].reason
    assert "at most 2 tools" in losses[1].reason


def test_accepted_tools_are_kept() -> None:
    assert drop_refused_tools(tools(3), resolve_profile("anthropic")) == (tools(3), [])
