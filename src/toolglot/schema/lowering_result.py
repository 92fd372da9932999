"""What lowering makes: a schema, its losses, and the way back for the arguments that a model makes for it."""

from typing import Any, cast

import msgspec

from toolglot.jsontext import loads
from toolglot.losses import Loss
from toolglot.schema.json_schema import (
    Schema,
    SchemaDocument,
    allowed_types,
    escape_pointer,
    has_type,
    json_type,
)

__all__ = ["MAX_DEPTH", "JsonText", "LoweredSchema", "Omit", "Pairs", "Rename", "Restoration", "restore"]


MAX_DEPTH = 50  # levels of schemas in what is sent


class Omit(msgspec.Struct, frozen=True, tag="omit"):
    """Null for one of these properties means that it was not given."""

    names: tuple[str, ...]
    pointer: str = ""


class Rename(msgspec.Struct, frozen=True, tag="rename"):
    """These properties have other names in the original: sent -> original."""

    names: dict[str, str]
    pointer: str = ""


class Pairs(msgspec.Struct, frozen=True, tag="pairs"):
    """This array of {key, value} is a map."""

    pointer: str = ""


class JsonText(msgspec.Struct, frozen=True, tag="json"):
    """This string is the JSON text of a value, of this kind if one is named."""

    type_name: str = ""
    pointer: str = ""


Restoration = Omit | Rename | Pairs | JsonText


class LoweredSchema(msgspec.Struct, frozen=True):
    """A schema that a dialect accepts. `note` belongs into the tool's own description: the root has no place for it."""

    schema: Schema
    losses: tuple[Loss, ...] = ()
    restorations: tuple[Restoration, ...] = ()
    root_description: str = ""


def restore(arguments: dict[str, Any], lowered: LoweredSchema) -> dict[str, Any]:
    """Arguments that a model made for the lowered schema, as the original schema wants them."""
    if not lowered.restorations:
        return arguments
    places: dict[str, list[Restoration]] = {}
    for way in lowered.restorations:
        places.setdefault(way.pointer, []).append(way)
    return _Restorer(SchemaDocument(lowered.schema), places).restore_value(arguments, lowered.schema, "#", 0)


class _Restorer(msgspec.Struct, frozen=True):
    """A walk of arguments along the schema that they were made for."""

    document: SchemaDocument
    restorations: dict[str, list[Restoration]]

    def restore_value(self, value: Any, node: Any, pointer: str, depth: int) -> Any:
        if not isinstance(node, dict) or depth > 2 * MAX_DEPTH:
            return value
        node = cast("Schema", node)
        if "$ref" in node:
            found = self.document.resolve(node["$ref"])
            return self.restore_value(value, found.node, found.pointer, depth + 1) if found else value
        if "anyOf" in node:
            i = next((i for i, branch in enumerate(node["anyOf"]) if self.looks_like(value, branch, depth)), None)
            return value if i is None else self.restore_value(value, node["anyOf"][i], f"{pointer}/anyOf/{i}", depth + 1)
        if isinstance(value, dict):
            value = {
                name: self.restore_property(name, sub, node, pointer, depth + 1) for name, sub in cast("Schema", value).items()
            }
        elif isinstance(value, list):
            value = [self.restore_item(i, sub, node, pointer, depth + 1) for i, sub in enumerate(cast("list[Any]", value))]
        for way in self.restorations.get(pointer, ()):
            value = _apply_restoration(value, way)
        return value

    def restore_property(self, name: str, value: Any, node: Schema, pointer: str, depth: int) -> Any:
        named = node.get("properties", {})
        if name in named:
            return self.restore_value(value, named[name], f"{pointer}/properties/{escape_pointer(name)}", depth)
        return self.restore_value(value, node.get("additionalProperties"), f"{pointer}/additionalProperties", depth)

    def restore_item(self, index: int, value: Any, node: Schema, pointer: str, depth: int) -> Any:
        prefix = node.get("prefixItems", [])
        if index < len(prefix):
            return self.restore_value(value, prefix[index], f"{pointer}/prefixItems/{index}", depth)
        return self.restore_value(value, node.get("items"), f"{pointer}/items", depth)

    def looks_like(self, value: Any, node: Schema, depth: int) -> bool:
        """Whether a value looks like one for this branch of a union."""
        if "$ref" in node:
            found = self.document.resolve(node["$ref"])
            return found is not None and depth < 2 * MAX_DEPTH and self.looks_like(value, found.node, depth + 1)
        if "anyOf" in node:
            return any(self.looks_like(value, branch, depth + 1) for branch in node["anyOf"])
        if value is None and node.get("nullable"):
            return True
        if not has_type(value, allowed_types(node) or [json_type(value)]) or value not in node.get("enum", [value]):
            return False
        if not isinstance(value, dict):
            return True
        given, named = cast("Schema", value), node.get("properties", {})
        known = node.get("additionalProperties") is not False or all(name in named for name in given)
        fixed = all(given[name] in named[name]["enum"] for name in given if "enum" in named.get(name, {}))
        return known and fixed and all(name in given for name in node.get("required", ()))


def _apply_restoration(value: Any, restoration: Restoration) -> Any:
    """A value one step back; what does not look as it should stays as it is."""
    match restoration:
        case Omit(names=names) if isinstance(value, dict):
            return {name: sub for name, sub in cast("Schema", value).items() if sub is not None or name not in names}
        case Rename(names=names) if isinstance(value, dict):
            return {names.get(name, name): sub for name, sub in cast("Schema", value).items()}
        case Pairs() if isinstance(value, list):
            entries = cast("list[Any]", value)
            whole = all(json_type(entry) == "object" and isinstance(entry.get("key"), str) for entry in entries)
            return {entry["key"]: entry.get("value") for entry in entries} if whole else entries
        case JsonText(type_name=kind) if isinstance(value, str):
            try:
                meant = loads(value)
            except ValueError:
                return value
            return meant if kind in ("", json_type(meant)) else value
        case _:
            return value
