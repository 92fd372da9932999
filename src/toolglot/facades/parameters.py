"""JSON Schemas of native parameters, in short form: `object_schema("path", path=string("The file to read."))`."""

from typing import Any

from toolglot.request import Schema

__all__ = ["array", "boolean", "closed_schema", "integer", "number", "object_schema", "string", "string_list"]


def object_schema(required: str = "", description: str = "", /, **properties: Any) -> Schema:
    """An object with these properties. `required`: their names, separated by spaces."""
    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required.split()
    return {**schema, "description": description} if description else schema


def closed_schema(required: str = "", /, **properties: Any) -> Schema:
    """An object that allows no other properties."""
    return {**object_schema(required, **properties), "additionalProperties": False}


def _typed(kind: str, description: str, keywords: dict[str, Any]) -> Schema:
    return {"type": kind, **keywords, **({"description": description} if description else {})}


def string(description: str = "", **keywords: Any) -> Schema:
    """A string parameter."""
    return _typed("string", description, keywords)


def string_list(description: str = "", **keywords: Any) -> Schema:
    """A list of strings."""
    return array(string(), description, **keywords)


def array(items: Schema, description: str = "", **keywords: Any) -> Schema:
    """A list of items that fit a schema."""
    return _typed("array", description, {"items": items, **keywords})


def number(description: str = "", **keywords: Any) -> Schema:
    """A number parameter."""
    return _typed("number", description, keywords)


def integer(description: str = "", **keywords: Any) -> Schema:
    """An integer parameter."""
    return _typed("integer", description, keywords)


def boolean(description: str = "", **keywords: Any) -> Schema:
    """A boolean parameter."""
    return _typed("boolean", description, keywords)
