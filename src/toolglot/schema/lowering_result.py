"""The result of lowering: a schema, its losses, and how to restore the arguments that a model writes for it."""

from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec

from toolglot.common.jsontext import loads
from toolglot.schema.coerce import MAX_DEPTH as COERCE_DEPTH
from toolglot.schema.coerce import Coercion
from toolglot.schema.json_schema import Schema, SchemaDocument, escape_pointer, json_type
from toolglot.values.losses import Loss

__all__ = ["MAX_DEPTH", "LoweredSchema", "Restoration", "restore"]

MAX_DEPTH = 50  # levels of schemas that are sent


class Restoration(msgspec.Struct, frozen=True):
    """How to undo one change, in the arguments at `pointer` of the lowered schema."""

    kind: Literal["omit", "rename", "pairs", "json"]
    """omit: null for one of `names` means that it was left out, because strict modes require every property.
    rename: `names` are sent -> original. pairs: an array of {key, value} stands for a map.
    json: a string is the JSON text of a value, of `type_name` if there is one."""
    names: dict[str, str] = {}
    type_name: str = ""
    pointer: str = ""


class LoweredSchema(msgspec.Struct, frozen=True):
    """A schema that a dialect accepts.

    A `root_description` belongs in the tool's description: the wire drops the root's.
    """

    schema: Schema
    losses: tuple[Loss, ...] = ()
    restorations: tuple[Restoration, ...] = ()
    root_description: str = ""


def restore(arguments: dict[str, Any], lowered: LoweredSchema) -> dict[str, Any]:
    """Turn arguments written for the lowered schema into arguments for the original one."""
    if not lowered.restorations:
        return arguments
    by_pointer: dict[str, list[Restoration]] = {}
    for restoration in lowered.restorations:
        by_pointer.setdefault(restoration.pointer, []).append(restoration)
    return _Restorer(SchemaDocument(lowered.schema), by_pointer).restore_value(
        arguments, lowered.schema, "#", 0
    )


class _Restorer(msgspec.Struct, frozen=True):
    """Walks arguments along the lowered schema.

    What does not match it stays as it is: validation will report it.
    """

    document: SchemaDocument
    restorations: dict[str, list[Restoration]]

    def restore_value(self, value: Any, node: Any, pointer: str, depth: int) -> Any:
        if not isinstance(node, dict) or value is None or depth > 2 * MAX_DEPTH:
            return value
        node = cast("Schema", node)
        if "$ref" in node:
            target = self.document.resolve(node["$ref"])
            if target is None:
                return value
            return self.restore_value(value, target.node, target.pointer, depth + 1)
        if "anyOf" in node:
            index = self.find_branch(value, node["anyOf"])
            if index is None:
                return value
            return self.restore_value(value, node["anyOf"][index], f"{pointer}/anyOf/{index}", depth + 1)
        if isinstance(value, dict):
            members = cast("Schema", value)
            value = {
                name: self.restore_property(name, sub, node, pointer, depth + 1)
                for name, sub in members.items()
            }
        elif isinstance(value, list):
            value = [
                self.restore_item(i, sub, node, pointer, depth + 1)
                for i, sub in enumerate(cast("list[Any]", value))
            ]
        # children first: they are found by the names that were sent
        for restoration in self.restorations.get(pointer, ()):
            value = _apply_restoration(value, restoration)
        return value

    def find_branch(self, value: Any, branches: list[Any]) -> int | None:
        """Return the number of the branch that a value has been written for."""
        coercion = Coercion(self.document.root)
        # Two levels tell branches apart: what is wrong further down must not keep the rest from being
        # restored.
        start = COERCE_DEPTH - 2
        for index, branch in enumerate(branches):
            if coercion.looks_like(value, branch, start):
                return index
        return None

    def restore_property(self, name: str, value: Any, node: Schema, pointer: str, depth: int) -> Any:
        properties = node.get("properties", {})
        if name in properties:
            return self.restore_value(
                value, properties[name], f"{pointer}/properties/{escape_pointer(name)}", depth
            )
        return self.restore_value(
            value, node.get("additionalProperties"), f"{pointer}/additionalProperties", depth
        )

    def restore_item(self, index: int, value: Any, node: Schema, pointer: str, depth: int) -> Any:
        prefix = node.get("prefixItems", [])
        if index < len(prefix):
            return self.restore_value(value, prefix[index], f"{pointer}/prefixItems/{index}", depth)
        return self.restore_value(value, node.get("items"), f"{pointer}/items", depth)


def _apply_restoration(value: Any, restoration: Restoration) -> Any:
    """Undo one change. A model that ignored the schema and sent something else gets it back unchanged."""
    match restoration.kind:
        case "omit" if isinstance(value, dict):
            return _drop_nulls(cast("Schema", value), restoration.names)
        case "rename" if isinstance(value, dict):
            return {restoration.names.get(name, name): sub for name, sub in cast("Schema", value).items()}
        case "pairs" if isinstance(value, list):
            return _pairs_as_map(cast("list[Any]", value))
        case "json" if isinstance(value, str):
            return _read_json(value, restoration.type_name)
        case _:
            return value


def _drop_nulls(value: Schema, names: Mapping[str, str]) -> Schema:
    """Drop the nulls of optional properties, which had to be sent."""
    return {name: sub for name, sub in value.items() if sub is not None or name not in names}


def _pairs_as_map(entries: list[Any]) -> Any:
    """Return a list of {"key", "value"} as the object that it stands for."""
    out: Schema = {}
    for entry in entries:
        if json_type(entry) != "object" or not isinstance(entry.get("key"), str):
            return entries
        out[entry["key"]] = entry.get("value")
    return out


def _read_json(text: str, type_name: str) -> Any:
    """Return the value of a JSON text; a plain string may happen to be JSON, as "5" where an object was
    meant.
    """
    try:
        value = loads(text)
    except ValueError:
        return text
    return value if type_name in ("", json_type(value)) else text
