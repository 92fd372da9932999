"""What providers accept, written from their rules and independent of the code under test."""

import re
from collections.abc import Iterator
from typing import Any, cast

import jsonschema_rs

from toolglot.schema.dialects import Dialect
from toolglot.schema.lower import lower

Schema = dict[str, Any]

CORE = {"type", "description", "properties", "required", "items", "enum", "anyOf"}
ALLOWED: dict[str, set[str]] = {
    "openai-strict": CORE
    | {"$ref", "$defs", "additionalProperties", "pattern", "format", "minimum", "maximum", "exclusiveMinimum"}
    | {"exclusiveMaximum", "multipleOf", "minItems", "maxItems", "minLength", "maxLength"},
    "anthropic-strict": CORE | {"$ref", "$defs", "additionalProperties", "format", "minItems"},
    "gemini": CORE
    | {
        "$ref",
        "$defs",
        "additionalProperties",
        "format",
        "prefixItems",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
    }
    | {"propertyOrdering"},
    "gemini-openapi": CORE
    | {
        "nullable",
        "format",
        "pattern",
        "default",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "minLength",
    }
    | {"maxLength", "minimum", "maximum", "propertyOrdering"},
    "ollama": CORE,
}
NINE = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
FORMATS = {
    "openai-strict": NINE,
    "anthropic-strict": NINE | {"uri"},
    "gemini": {"int32", "int64", "float", "double"},
    "gemini-openapi": {"int32", "int64", "float", "double", "date-time", "enum"},
}
STRICT = {"openai-strict", "anthropic-strict"}


def nodes(schema: Any, path: str = "$") -> Iterator[tuple[str, Schema]]:
    assert type(schema) is dict, f"{path} is not an object: {schema!r}"
    schema = cast("Schema", schema)
    yield path, schema
    for key in ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas"):
        for name, sub in schema.get(key, {}).items():
            yield from nodes(sub, f"{path}.{key}.{name}")
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for i, sub in enumerate(schema.get(key, [])):
            yield from nodes(sub, f"{path}.{key}[{i}]")
    for key in ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else"):
        if key in schema and (not isinstance(schema[key], bool) or key != "additionalProperties"):
            yield from nodes(schema[key], f"{path}.{key}")


def kinds(node: Schema) -> list[str]:
    types = node.get("type", [])
    return [types] if isinstance(types, str) else types


def violations(schema: Schema, dialect: str) -> list[str]:
    """Why the provider would refuse the schema, or ignore part of it."""
    problems: list[str] = []
    try:
        jsonschema_rs.Draft202012Validator(schema)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        if "regex" not in str(error):  # which patterns are legal is not said by the metaschema
            problems.append(f"not JSON Schema 2020-12: {error}")
    if schema.get("type") != "object" or not isinstance(schema.get("properties"), dict):
        problems.append("the root is not an object with properties")
    problems += [
        f"{key} at the root" for key in ("oneOf", "anyOf", "allOf", "enum", "not", "$ref") if key in schema
    ]
    for path, node in nodes(schema):
        problems += [f"{path}: {problem}" for problem in of_node(node, dialect, path == "$")]
    if dialect.startswith("anthropic"):
        problems += [
            f"key {name!r}"
            for name in schema.get("properties", {})
            if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name)
        ]
    if dialect == "anthropic-strict":
        problems += [f"recursive {name}" for name in schema.get("$defs", {}) if reaches(schema, name)]
    if dialect == "ollama" and "description" in schema:
        problems.append("the root's description is dropped")
    return problems


def of_node(node: Schema, dialect: str, root: bool) -> Iterator[str]:
    if dialect in ("openai", "compatible") and "array" in kinds(node) and "items" not in node:
        yield "array without items"
    if dialect == "compatible":
        yield from (
            f"{key} stays" for key in ("title", "$schema", "$id", "examples", "discriminator") if key in node
        )
    if dialect not in ALLOWED:
        return
    yield from (f"keyword {key}" for key in node.keys() - ALLOWED[dialect])
    if "$defs" in node and not root:
        yield "definitions below the root"
    if "format" in node and dialect in FORMATS and node["format"] not in FORMATS[dialect]:
        yield f"format {node['format']}"
    if "$ref" in node:
        if len(node) > 1 or not re.fullmatch(r"#|#/\$defs/[^/]+", node["$ref"]):
            yield f"$ref {node}"
        return
    yield from of_types(node, dialect)
    yield from of_enum(node, dialect)
    if "object" in kinds(node) or "properties" in node:
        yield from of_object(node, dialect, root)
    if "array" in kinds(node) and dialect not in ("gemini", "ollama") and not node.get("items"):
        yield "array without items"


def of_types(node: Schema, dialect: str) -> Iterator[str]:
    is_gemini = dialect in ("gemini", "gemini-openapi")
    if isinstance(node.get("type"), list) and is_gemini:
        yield f"type list {node['type']}"
    if is_gemini and "anyOf" in node and len(node) > 1:
        yield "something beside anyOf"
    if dialect in {*STRICT, "gemini-openapi"} and not {"type", "anyOf"} & node.keys():
        yield "no type"
    if dialect == "openai-strict" and re.search(r"\(\?[=!<]", node.get("pattern", "")):
        yield "lookaround"
    if dialect == "anthropic-strict" and node.get("minItems", 0) > 1:
        yield "minItems over 1"


def of_enum(node: Schema, dialect: str) -> Iterator[str]:
    values = node.get("enum", [])
    if any(isinstance(value, (dict, list)) for value in values):
        yield "a structure in enum"
    if (
        dialect == "gemini-openapi"
        and values
        and (not all(isinstance(v, str) and v for v in values) or node["type"] != "string")
    ):
        yield f"enum {values} of {node.get('type')}"
    if dialect == "gemini" and any(isinstance(value, bool) or value is None for value in values):
        yield f"enum {values}"


def of_object(node: Schema, dialect: str, root: bool) -> Iterator[str]:
    named = node.get("properties", {})
    if missing := [name for name in node.get("required", []) if name not in named]:
        yield f"required names no property: {missing}"
    if dialect in STRICT and node.get("additionalProperties") is not False:
        yield "not closed"
    if dialect == "openai-strict" and sorted(node.get("required", ["?"])) != sorted(named):
        yield "not all required"
    if dialect == "gemini-openapi" and not named and not root:
        yield "an object without properties"
    if dialect == "gemini" and isinstance(node.get("additionalProperties"), dict) and not named and not root:
        yield "a map"
    if dialect == "gemini-openapi" and not all(
        re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}", name) for name in named
    ):
        yield "the name of a property"


def reaches(schema: Schema, goal: str) -> bool:
    uses = {
        name: {node["$ref"] for _, node in nodes(sub) if "$ref" in node}
        for name, sub in schema["$defs"].items()
    }
    seen: set[str] = set()
    todo = [*uses[goal]]
    while todo:
        ref = todo.pop().rsplit("/", 1)[-1]
        todo += uses.get(ref, set()) if ref not in seen else ()
        seen.add(ref)
    return goal in seen


def lower_property(schema: Any, dialect: Dialect, **options: Any) -> tuple[Any, list[str]]:
    """A required property as the dialect says it, and what was lost."""
    root = {"type": "object", "properties": {"x": schema}, "required": ["x"], **options}
    lowered = lower(root, dialect, tool_name="t")
    assert violations(lowered.schema, dialect.name) == []
    return lowered.schema["properties"]["x"], [loss.subject for loss in lowered.losses]
