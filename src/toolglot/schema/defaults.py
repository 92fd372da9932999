"""Fills in the defaults of a JSON Schema: what a model leaves out means what it was told it would mean."""

from typing import Any, cast

from toolglot.schema.json_schema import Schema, SchemaDocument

__all__ = ["fill_defaults"]

MAX_DEPTH = 60
MAX_STEPS = 50_000  # `allOf` with references to itself multiplies: a value beyond this is left as it is
_NOTHING = object()


def fill_defaults(arguments: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """Return the arguments with the default of every property that is missing, also inside objects and arrays
    that are there.

    Branches of `anyOf` and `oneOf` add nothing: which of them is meant is not for us to say. Nothing is
    modified.
    """
    return _Filling(schema).fill(arguments, schema, 0)


class _Filling:
    """A walk of arguments along their schema."""

    def __init__(self, schema: Schema) -> None:
        self.document = SchemaDocument(schema)
        self.steps = 0

    def fill(self, value: Any, node: Any, depth: int) -> Any:
        node = self.document.follow(node)
        self.steps += 1
        if depth > MAX_DEPTH or self.steps > MAX_STEPS or not node:
            return value
        for part in node.get("allOf") or ():
            value = self.fill(value, part, depth + 1)
        if isinstance(value, dict):
            return self.fill_object(cast(dict[str, Any], value), node, depth)
        if isinstance(value, list) and "items" in node:
            items = cast(list[Any], value)
            return [self.fill(item, node["items"], depth + 1) for item in items]
        return cast(Any, value)

    def fill_object(self, value: dict[str, Any], node: Schema, depth: int) -> dict[str, Any]:
        filled = dict(value)
        properties = node.get("properties")
        if not isinstance(properties, dict):
            return filled
        for name, schema in cast(Schema, properties).items():
            if name in filled:
                filled[name] = self.fill(filled[name], schema, depth + 1)
                continue
            default = self.find_default(schema)
            if default is not _NOTHING:
                filled[name] = default
        return filled

    def find_default(self, schema: Any) -> Any:
        """Return the default of a property: one beside a reference comes before that of its target."""
        for node in (schema, self.document.follow(schema)):
            if isinstance(node, dict) and "default" in node:
                return cast(Schema, node)["default"]
        return _NOTHING
