"""What a provider was not told is enforced when the call comes back."""

from typing import Any

import pytest

from toolglot.errors import UsageError
from toolglot.messages import Reply, ToolCall, user
from toolglot.providers.catalog import resolve
from toolglot.request import Request, ToolDefinition
from toolglot.schema.arguments import Wrong, wrongs
from toolglot.wire.back import restored
from toolglot.wire.codec import encode_request

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


@pytest.mark.parametrize(
    ("arguments", "paths"),
    [
        ({"city": "Paris"}, []),
        ({}, ["$"]),
        ({"city": "paris"}, ["$.city"]),
        ({"city": "Paris", "page": "no uri"}, ["$.page"]),
        ({"city": "Paris", "limits": {"a": 0}}, ["$.limits.a"]),
        ({"city": "Paris", "tags": ["x", 7]}, ["$.tags[1]"]),
        ([], ["$"]),
    ],
)
def test_what_is_wrong_and_where(arguments: Any, paths: list[str]) -> None:
    assert [wrong.path for wrong in wrongs(arguments, SCHEMA)] == paths


def test_words_for_the_model() -> None:
    (wrong,) = wrongs({"city": "paris"}, SCHEMA)
    assert str(wrong) == '$.city: "paris" does not match "^[A-Z]"'
    assert wrong == Wrong("$.city", '"paris" does not match "^[A-Z]"')


@pytest.mark.parametrize("schema", [None, {}])
def test_no_schema_no_rules(schema: dict[str, Any] | None) -> None:
    assert wrongs({"anything": 1}, schema) == []


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"$ref": "#/$defs/nobody"}, {"$ref": "http://localhost:9/schema"}])
def test_a_broken_schema_is_the_callers_mistake(schema: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="not a JSON Schema"):
        wrongs({}, schema)


@pytest.mark.parametrize("provider", ["gemini", "ollama", "anthropic", "openai-responses"])
def test_a_rule_that_moved_into_the_description_still_holds(provider: str) -> None:
    tool = ToolDefinition("look", "Looks.", SCHEMA, strict=True)
    sent = encode_request(Request("m", [user("hi")], (tool,)), resolve(provider, "m"))
    assert any(loss.what in ("format", "uniqueItems") for loss in sent.losses)
    limits = [{"key": "a", "value": 0}] if provider != "ollama" else {"a": 0}
    said = {"city": "paris", "page": "no uri", "limits": limits, "tags": ["x", "x"]}
    call = restored(Reply((ToolCall("1", "look", said),), "tools"), sent).calls[0]
    assert {wrong.path for wrong in wrongs(call.arguments, tool.parameters)} == {"$.city", "$.page", "$.limits.a", "$.tags"}
