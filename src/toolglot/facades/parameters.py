"""JSON Schemas of native parameters, in short form: `object_schema("path", path=string("The file to
read."))`.
"""

from functools import partial
from typing import Any

from toolglot.values.request import Schema

__all__ = ["array", "boolean", "closed_schema", "integer", "number", "object_schema", "string", "string_list"]


def object_schema(required: str = "", description: str = "", /, **properties: Any) -> Schema:
    """Return an object with these properties. `required`: their names, separated by spaces."""
    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required.split()
    return {**schema, "description": description} if description else schema


def closed_schema(required: str = "", /, **properties: Any) -> Schema:
    """Return an object that allows no other properties."""
    return {**object_schema(required, **properties), "additionalProperties": False}


def _typed(kind: str, description: str = "", /, **keywords: Any) -> Schema:
    return {"type": kind, **keywords, **({"description": description} if description else {})}


string, number = partial(_typed, "string"), partial(_typed, "number")
integer, boolean = partial(_typed, "integer"), partial(_typed, "boolean")


def array(items: Schema, description: str = "", **keywords: Any) -> Schema:
    """Return a list of items that fit a schema."""
    return _typed("array", description, items=items, **keywords)


string_list = partial(array, string())
