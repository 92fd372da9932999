"""Gemini's OpenAPI subset, read: a Schema of its `parameters` as plain JSON Schema."""

import re
from typing import Any, cast

from toolglot.schema.json_schema import (
    KEYWORD_CHECKS,
    LIST_KEYWORDS,
    MAP_KEYWORDS,
    SUBSCHEMA_KEYWORDS,
    Schema,
    copy_schema,
    string_items,
    unique,
)

__all__ = ["from_openapi"]

_PROTO_TYPES = ("", "string", "number", "integer", "boolean", "array", "object", "null")
_CAMEL_CASE = {
    "any_of": "anyOf",
    "prefix_items": "prefixItems",
    "property_ordering": "propertyOrdering",
    "additional_properties": "additionalProperties",
    "defs": "$defs",
    "ref": "$ref",
    "min_items": "minItems",
    "max_items": "maxItems",
    "min_length": "minLength",
    "max_length": "maxLength",
    "min_properties": "minProperties",
    "max_properties": "maxProperties",
}
_INT64_KEYWORDS = frozenset({"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"})


def from_openapi(schema: Any) -> Any:
    """Gemini's `parameters` as plain JSON Schema. What is plain already comes back as it is."""
    return _convert_node(copy_schema(schema))


def _convert_node(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    node = {_CAMEL_CASE.get(key, key): value for key, value in cast("Schema", schema).items()}
    node = {key: _convert_keyword(key, value) for key, value in node.items() if value is not None or key not in KEYWORD_CHECKS}
    if node.get("type") in ("", "type_unspecified"):
        del node["type"]
    if node.get("format") == "enum":  # a mark that `enum` follows
        del node["format"]
    if "example" in node:
        node.setdefault("examples", [node.pop("example")])
    order = node.pop("propertyOrdering", [])
    if isinstance(node.get("properties"), dict):
        named = {name: node["properties"][name] for name in order if name in node["properties"]}
        node["properties"] = named | node["properties"]
    return _convert_nullable(node)


def _convert_keyword(key: str, value: Any) -> Any:
    match key:
        case "type" if type(value) is int and 0 <= value < len(_PROTO_TYPES):
            return _PROTO_TYPES[value]
        case "type" if isinstance(value, str) and value.isupper():
            return value.lower()
        case "$ref" if isinstance(value, str):
            return value.replace("#/defs/", "#/$defs/")
        case "enum" | "required" | "propertyOrdering" if isinstance(value, str):
            return [value]  # Google's JSON takes a bare value for a repeated field
        case "propertyOrdering":
            return string_items(value)
        case _ if key in _INT64_KEYWORDS and isinstance(value, str) and re.fullmatch(r"[0-9]{1,19}", value):
            return int(value)  # int64 is written as text
        case _ if key in MAP_KEYWORDS and isinstance(value, dict):
            return {name: _convert_node(sub) for name, sub in cast("Schema", value).items()}
        case _ if key in LIST_KEYWORDS:
            return [_convert_node(sub) for sub in cast("list[Any]", value if isinstance(value, list) else [value])]
        case _ if key in SUBSCHEMA_KEYWORDS:
            return _convert_node(value)
        case _:
            return value


def _convert_nullable(node: Schema) -> Schema:
    """`nullable: true` as JSON Schema says it."""
    if node.pop("nullable", False) is not True:
        return node
    if isinstance(node.get("type"), str):
        node["type"] = unique([node["type"], "null"])
        if isinstance(node.get("enum"), list):
            node["enum"] = unique([*node["enum"], None])
    elif isinstance(node.get("anyOf"), list):
        node["anyOf"] = unique([*node["anyOf"], {"type": "null"}])
    elif "$ref" in node:
        node["anyOf"] = [{"$ref": node.pop("$ref")}, {"type": "null"}]
    return node
