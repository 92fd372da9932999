"""What lowering makes: a schema, its losses, and the way back for the arguments that a model makes for it."""

from typing import Any, cast

import msgspec

from toolglot.jsontext import loads
from toolglot.losses import Loss
from toolglot.schema.plain import (
    Document,
    Schema,
    escape,
    fits,
    json_type,
    types,
)

__all__ = ["MAX_DEPTH", "JsonText", "Lowered", "Omit", "Pairs", "Rename", "Way", "restore"]


MAX_DEPTH = 50  # levels of schemas in what is sent


class Omit(msgspec.Struct, frozen=True, tag="omit"):
    """Null for one of these properties means that it was not given."""

    names: tuple[str, ...]
    at: str = ""


class Rename(msgspec.Struct, frozen=True, tag="rename"):
    """These properties have other names in the original: sent -> original."""

    names: dict[str, str]
    at: str = ""


class Pairs(msgspec.Struct, frozen=True, tag="pairs"):
    """This array of {key, value} is a map."""

    at: str = ""


class JsonText(msgspec.Struct, frozen=True, tag="json"):
    """This string is the JSON text of a value, of this kind if one is named."""

    kind: str = ""
    at: str = ""


Way = Omit | Rename | Pairs | JsonText


class Lowered(msgspec.Struct, frozen=True):
    """A schema that a dialect accepts. `note` belongs into the tool's own description: the root has no place for it."""

    schema: Schema
    losses: tuple[Loss, ...] = ()
    ways_back: tuple[Way, ...] = ()
    note: str = ""


def restore(arguments: dict[str, Any], lowered: Lowered) -> dict[str, Any]:
    """Arguments that a model made for the lowered schema, as the original schema wants them."""
    if not lowered.ways_back:
        return arguments
    places: dict[str, list[Way]] = {}
    for way in lowered.ways_back:
        places.setdefault(way.at, []).append(way)
    return _Restoring(Document(lowered.schema), places).value(arguments, lowered.schema, "#", 0)


class _Restoring(msgspec.Struct, frozen=True):
    """A walk of arguments along the schema that they were made for."""

    document: Document
    places: dict[str, list[Way]]

    def value(self, value: Any, node: Any, at: str, level: int) -> Any:
        if not isinstance(node, dict) or level > 2 * MAX_DEPTH:
            return value
        node = cast("Schema", node)
        if "$ref" in node:
            found = self.document.find(node["$ref"])
            return self.value(value, found.node, found.pointer, level + 1) if found else value
        if "anyOf" in node:
            i = next((i for i, branch in enumerate(node["anyOf"]) if self.suits(value, branch, level)), None)
            return value if i is None else self.value(value, node["anyOf"][i], f"{at}/anyOf/{i}", level + 1)
        if isinstance(value, dict):
            value = {name: self.property(name, sub, node, at, level + 1) for name, sub in cast("Schema", value).items()}
        elif isinstance(value, list):
            value = [self.item(i, sub, node, at, level + 1) for i, sub in enumerate(cast("list[Any]", value))]
        for way in self.places.get(at, ()):
            value = _back(value, way)
        return value

    def property(self, name: str, value: Any, node: Schema, at: str, level: int) -> Any:
        named = node.get("properties", {})
        if name in named:
            return self.value(value, named[name], f"{at}/properties/{escape(name)}", level)
        return self.value(value, node.get("additionalProperties"), f"{at}/additionalProperties", level)

    def item(self, i: int, value: Any, node: Schema, at: str, level: int) -> Any:
        prefix = node.get("prefixItems", [])
        if i < len(prefix):
            return self.value(value, prefix[i], f"{at}/prefixItems/{i}", level)
        return self.value(value, node.get("items"), f"{at}/items", level)

    def suits(self, value: Any, node: Schema, level: int) -> bool:
        """Whether a value looks like one for this branch of a union."""
        if "$ref" in node:
            found = self.document.find(node["$ref"])
            return found is not None and level < 2 * MAX_DEPTH and self.suits(value, found.node, level + 1)
        if "anyOf" in node:
            return any(self.suits(value, branch, level + 1) for branch in node["anyOf"])
        if value is None and node.get("nullable"):
            return True
        if not fits(value, types(node) or [json_type(value)]) or value not in node.get("enum", [value]):
            return False
        if not isinstance(value, dict):
            return True
        given, named = cast("Schema", value), node.get("properties", {})
        known = node.get("additionalProperties") is not False or all(name in named for name in given)
        fixed = all(given[name] in named[name]["enum"] for name in given if "enum" in named.get(name, {}))
        return known and fixed and all(name in given for name in node.get("required", ()))


def _back(value: Any, way: Way) -> Any:
    """A value one step back; what does not look as it should stays as it is."""
    match way:
        case Omit(names=names) if isinstance(value, dict):
            return {name: sub for name, sub in cast("Schema", value).items() if sub is not None or name not in names}
        case Rename(names=names) if isinstance(value, dict):
            return {names.get(name, name): sub for name, sub in cast("Schema", value).items()}
        case Pairs() if isinstance(value, list):
            entries = cast("list[Any]", value)
            whole = all(json_type(entry) == "object" and isinstance(entry.get("key"), str) for entry in entries)
            return {entry["key"]: entry.get("value") for entry in entries} if whole else entries
        case JsonText(kind=kind) if isinstance(value, str):
            try:
                meant = loads(value)
            except ValueError:
                return value
            return meant if kind in ("", json_type(meant)) else value
        case _:
            return value
