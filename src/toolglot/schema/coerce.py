"""Arguments bent along a JSON Schema, only where they do not fit it: `"10"` for an integer is 10.

Laws: pure; a value that fits is not touched; only conversions that nobody would read otherwise; each one is named.
What comes out may still be wrong: it is validated again.
"""

import re
from typing import Any, cast

from toolglot.jsontext import dumps_text
from toolglot.schema.json_schema import Schema, SchemaDocument, allowed_types, has_type, json_type
from toolglot.schema.tolerant_json import tolerant_loads

__all__ = ["coerce", "looks_like", "rename_arguments"]

MAX_DEPTH = 60
MAX_STEPS = 50_000  # branches of branches multiply: what is beyond stays as it is
_INTEGER = re.compile(r"[+-]?\d{1,18}(?:\.0+)?")
_BOOLEANS = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}
_MAX_PREVIEW = 40
_NO_VALUE = object()


def coerce(arguments: Any, schema: Schema) -> tuple[Any, tuple[str, ...]]:
    """The arguments as the schema wants them, and what was changed: `$.days: "10" read as 10`."""
    bending = Coercion(schema)
    return bending.coerce_value(arguments, schema, "$", 0), tuple(bending.notes)


def rename_arguments(arguments: dict[str, Any], schema: Schema) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The arguments with the names of the schema where only case, `_`, `-` and spaces differ from one that is missing."""
    bending = Coercion(schema)
    return bending.rename_properties(arguments, bending.resolve(schema, 0), "$"), tuple(bending.notes)


def looks_like(value: Any, schema: Schema) -> bool:
    """Whether a value looks like one for a schema: types, choices and required names; numbers and patterns are not checked."""
    return Coercion(schema).looks_like(value, schema, 0)


class Coercion:
    """A walk of arguments along their schema."""

    def __init__(self, schema: Schema) -> None:
        self.document, self.notes, self.steps = SchemaDocument(schema), list[str](), 0

    def resolve(self, node: Any, depth: int) -> Schema:
        """A node with its reference followed."""
        while isinstance(node, dict) and isinstance(ref := cast(Schema, node).get("$ref"), str) and depth < MAX_DEPTH:
            found, depth = self.document.resolve(ref), depth + 1
            node = found.node if found else {}
        return cast(Schema, node) if isinstance(node, dict) else {}

    def coerce_value(self, value: Any, node: Any, path: str, depth: int) -> Any:
        node = self.resolve(node, depth)
        self.steps += 1
        if depth > MAX_DEPTH or self.steps > MAX_STEPS or not node:
            return value
        branches = node.get("anyOf") or node.get("oneOf")
        if branches:
            return self.coerce_union(value, branches, path, depth)
        for part in node.get("allOf") or ():
            value = self.coerce_value(value, part, path, depth + 1)
        kinds = allowed_types(node)
        if kinds and not has_type(value, kinds):
            value = self.convert_type(value, node, kinds, path)
        if "enum" in node or "const" in node:
            value = self.match_choice(value, node.get("enum") or [node.get("const")], path)
        if isinstance(value, dict):
            return self.coerce_object(cast(Schema, value), node, path, depth)
        if isinstance(value, list):
            return [self.coerce_item(i, item, node, path, depth) for i, item in enumerate(cast(list[Any], value))]
        return value

    def coerce_union(self, value: Any, branches: list[Any], path: str, depth: int) -> Any:
        """The first branch that the value suits, or else the first that it can be bent to."""
        for branch in branches:
            if self.looks_like(value, branch, depth):
                return self.coerce_value(value, branch, path, depth + 1)
        for branch in branches:
            mark = len(self.notes)
            bent = self.coerce_value(value, branch, path, depth + 1)
            if self.looks_like(bent, branch, depth):
                return bent
            del self.notes[mark:]
        return value

    def looks_like(self, value: Any, node: Any, depth: int) -> bool:
        """Whether a value looks like one for this node: its type, its choices, the names it must have."""
        node = self.resolve(node, depth)
        self.steps += 1
        if depth > MAX_DEPTH or self.steps > MAX_STEPS or not node:
            return True
        branches = node.get("anyOf") or node.get("oneOf")
        if branches and not any(self.looks_like(value, branch, depth + 1) for branch in branches):
            return False
        if allowed_types(node) and not has_type(value, allowed_types(node)):
            return False
        if "const" in node and value != node["const"]:
            return False
        if "enum" in node and value not in node["enum"]:
            return False
        if isinstance(value, list):
            return all(self.looks_like(item, node.get("items", {}), depth + 1) for item in cast(list[Any], value))
        return not isinstance(value, dict) or self.object_looks_like(cast(Schema, value), node, depth)

    def object_looks_like(self, value: Schema, node: Schema, depth: int) -> bool:
        named = node.get("properties", {})
        if any(name not in value for name in node.get("required", ())):
            return False
        if node.get("additionalProperties") is False and any(name not in named for name in value):
            return False
        return all(self.looks_like(item, named[name], depth + 1) for name, item in value.items() if name in named)

    # -- one value

    def convert_type(self, value: Any, node: Schema, type_names: list[str], path: str) -> Any:
        """A value of a wrong type as one of the right type, if there is only one way to read it."""
        for kind in type_names:
            found = _convert(value, kind)
            if found is not _NO_VALUE:
                return self.record(path, value, found)
        if "array" in type_names and value is not None:
            if isinstance(value, str) and value.strip()[:1] == "[":
                return value
            return self.record(path, value, [value])
        return value

    def match_choice(self, value: Any, choices: list[Any], path: str) -> Any:
        """The one choice that differs only in case, spaces, `_` and `-`."""
        if value in choices or not isinstance(value, str):
            same = [choice for choice in choices if isinstance(choice, str) and choice == _scalar_text(value)]
            return self.record(path, value, same[0]) if same and value not in choices else value
        near = [choice for choice in choices if isinstance(choice, str) and _fold_name(choice) == _fold_name(value)]
        return self.record(path, value, near[0]) if len(near) == 1 else value

    # -- what is inside

    def coerce_object(self, value: Schema, node: Schema, path: str, depth: int) -> Schema:
        named, needed = node.get("properties", {}), node.get("required", ())
        if not self.looks_like(value, node, depth):  # a name may be legal as it is: an open object takes any
            value = self.rename_properties(value, node, path)
        out: Schema = {}
        for name, item in value.items():
            sub = named.get(name, node.get("additionalProperties", {}))
            if item is None and name in named and name not in needed and not self.looks_like(None, sub, depth):
                self.notes.append(f"{path}.{name}: null left out")
                continue
            out[name] = self.coerce_value(item, sub, f"{path}.{name}", depth + 1)
        return out

    def rename_properties(self, value: Schema, node: Schema, path: str) -> Schema:
        named = node.get("properties", {})
        strange = [name for name in value if name not in named]
        if not strange or not isinstance(named, dict):
            return value
        missing: dict[str, list[str]] = {}
        for name in cast(Schema, named):
            if name not in value:
                missing.setdefault(_fold_name(name), []).append(name)
        others = [_fold_name(name) for name in strange]
        new = {name: missing.get(_fold_name(name), []) for name in strange if others.count(_fold_name(name)) == 1}
        new = {name: found[0] for name, found in new.items() if len(found) == 1}
        self.notes += [f"{path}.{name}: renamed to {right}" for name, right in new.items()]
        return {new.get(name, name): item for name, item in value.items()}

    def coerce_item(self, index: int, value: Any, node: Schema, path: str, depth: int) -> Any:
        prefix = node.get("prefixItems", [])
        sub = prefix[index] if index < len(prefix) else node.get("items", {})
        return self.coerce_value(value, sub, f"{path}[{index}]", depth + 1)

    def record(self, path: str, old: Any, new: Any) -> Any:
        self.notes.append(f"{path}: {_preview(old)} read as {_preview(new)}")
        return new


def _convert(value: Any, type_name: str) -> Any:
    """A value as another JSON type; `_NOTHING` where that would be a guess."""
    if isinstance(value, str):
        return _parse_as(value.strip(), type_name)
    if type_name == "string" and isinstance(value, (bool, int, float)):
        return _scalar_text(value)
    if type_name == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if type_name == "boolean" and json_type(value) == "integer" and value in (0, 1):
        return bool(value)
    return _NO_VALUE


def _parse_as(text: str, type_name: str) -> Any:
    if type_name == "boolean":
        return _BOOLEANS.get(text.lower(), _NO_VALUE)
    if type_name == "integer":
        return int(text.partition(".")[0]) if _INTEGER.fullmatch(text) else _NO_VALUE
    if type_name == "null":
        return None if text.lower() in ("null", "none") else _NO_VALUE
    if type_name not in ("number", "object", "array"):
        return _NO_VALUE
    if type_name != "number" and text[:1] not in ("{", "["):
        return _NO_VALUE
    try:
        found = tolerant_loads(text)[0]
    except ValueError:
        return _NO_VALUE
    wanted = ("integer", "number") if type_name == "number" else (type_name,)
    return found if json_type(found) in wanted else _NO_VALUE


def _fold_name(text: str) -> str:
    """What is left of a name when case, spaces, `_` and `-` do not count."""
    return re.sub(r"[\s_\-]+", "", text).casefold()


def _scalar_text(value: Any) -> str | None:
    return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, (int, float)) else None


def _preview(value: Any) -> str:
    try:
        text = dumps_text(value)
    except (OverflowError, RecursionError):
        text = repr(value)
    return text if len(text) <= _MAX_PREVIEW else text[: _MAX_PREVIEW - 1] + "…"
