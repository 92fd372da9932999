"""Reads Gemini's `parameters` (an OpenAPI 3.0 subset, as a protobuf message) as JSON Schema."""

import re
from typing import Any, cast

from toolglot.schema.json_schema import (
    KEYWORD_CHECKS,
    LIST_KEYWORDS,
    Schema,
    copy_schema,
    map_children,
    string_items,
    unique,
)

__all__ = ["from_openapi"]

# google.ai.generativelanguage.v1beta.Type, in the order of its numbers
_PROTO_TYPES = ("", "string", "number", "integer", "boolean", "array", "object", "null")
_INT64_KEYWORDS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
# Google's JSON parser accepts a field's proto name too, and its `$ref` and `$defs` have no dollar sign.
_CAMEL_CASE = {re.sub(r"(?=[A-Z])", "_", name).lower(): name for name in _INT64_KEYWORDS} | {
    "any_of": "anyOf",
    "prefix_items": "prefixItems",
    "property_ordering": "propertyOrdering",
    "additional_properties": "additionalProperties",
    "defs": "$defs",
    "ref": "$ref",
}


def from_openapi(schema: Any) -> Any:
    """Return Gemini's `parameters` as JSON Schema. What is plain JSON Schema already is unchanged."""
    return _convert_node(copy_schema(schema))


def _convert_node(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    node = {_CAMEL_CASE.get(key, key): value for key, value in cast("Schema", schema).items()}
    node = {key: _convert_value(key, value) for key, value in node.items() if not _is_absent(key, value)}
    node = map_children(node, lambda sub, key, name: _convert_node(sub))
    if node.get("type") in ("", "type_unspecified"):
        del node["type"]
    if node.get("format") == "enum":  # only announces that `enum` is there
        del node["format"]
    if "example" in node:
        node.setdefault("examples", [node.pop("example")])
    order = node.pop("propertyOrdering", [])
    if isinstance(node.get("properties"), dict):
        first = {name: node["properties"][name] for name in order if name in node["properties"]}
        node["properties"] = first | node["properties"]
    if node.pop("nullable", False) is True:
        _allow_null(node)
    return node


def _is_absent(key: str, value: Any) -> bool:
    """Whether null only says that there is no such keyword."""
    return value is None and key in KEYWORD_CHECKS


def _allow_null(node: Schema) -> None:
    """Write `nullable` as JSON Schema does."""
    if isinstance(node.get("type"), str):
        node["type"] = unique([node["type"], "null"])
        if isinstance(node.get("enum"), list):
            node["enum"] = unique([*node["enum"], None])
    elif isinstance(node.get("anyOf"), list):
        node["anyOf"] = unique([*node["anyOf"], {"type": "null"}])
    elif "$ref" in node:
        node["anyOf"] = [{"$ref": node.pop("$ref")}, {"type": "null"}]


def _convert_value(key: str, value: Any) -> Any:
    if key == "type":
        return _convert_type(value)
    if isinstance(value, str):
        return _convert_text(key, value)
    if key == "propertyOrdering":
        return string_items(value)
    if key in LIST_KEYWORDS and not isinstance(value, list):
        return [value]
    return cast("Any", value)


def _convert_text(key: str, text: str) -> Any:
    """Return a keyword's value that is written as a text."""
    if key == "$ref":
        return text.replace("#/defs/", "#/$defs/")
    if key in ("enum", "required", "propertyOrdering"):
        return [text]  # proto JSON accepts a bare value for a repeated field
    if key in _INT64_KEYWORDS and re.fullmatch(r"[0-9]{1,19}", text):
        return int(text)  # proto JSON writes int64 as a string
    return [text] if key in LIST_KEYWORDS else text


def _convert_type(value: Any) -> Any:
    """Return a type in the words of JSON Schema; Google also writes it in capitals, or as a number of its
    enum.
    """
    if type(value) is int and 0 <= value < len(_PROTO_TYPES):
        return _PROTO_TYPES[value]
    if isinstance(value, str) and value.isupper():
        return value.lower()
    return value
