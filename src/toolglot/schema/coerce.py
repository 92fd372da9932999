"""Converts arguments to what a JSON Schema asks for, only where they do not match it: `"10"` for an integer
is 10.

A value that matches is not touched, only unambiguous conversions are made, and each is reported. The result
may still be
invalid: it is validated again.
"""

import re
from typing import Any, cast

from toolglot.common.jsontext import dumps_text
from toolglot.common.textutil import truncate
from toolglot.schema.json_schema import Schema, SchemaDocument, allowed_types, has_type, json_type
from toolglot.schema.tolerant_json import tolerant_loads

__all__ = ["Coercion", "coerce", "preview_value", "rename_arguments"]

MAX_DEPTH = 60
MAX_STEPS = 50_000  # unions in unions multiply: values beyond this are not coerced
# 18 digits: more would lose precision in a client that reads numbers as doubles, and no tool needs them.
_INTEGER = re.compile(r"[+-]?\d{1,18}(?:\.0+)?")
# Models trained on Python and YAML write these for booleans.
_BOOLEANS = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}
_MAX_PREVIEW = 40
_NO_VALUE = object()


def coerce(arguments: Any, schema: Schema) -> tuple[Any, tuple[str, ...]]:
    """Return the arguments as the schema wants them, and what was changed: `$.days: "10" read as 10`."""
    coercion = Coercion(schema)
    return coercion.coerce_value(arguments, schema, "$", 0), tuple(coercion.notes)


def rename_arguments(arguments: dict[str, Any], schema: Schema) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Correct names that differ from a missing one of the schema only in case, `_`, `-` and spaces."""
    coercion = Coercion(schema)
    return coercion.rename_properties(arguments, coercion.document.follow(schema), "$"), tuple(coercion.notes)


class Coercion:
    """A walk of arguments along their schema, with notes of the changes."""

    def __init__(self, schema: Schema) -> None:
        self.document = SchemaDocument(schema)
        self.notes: list[str] = []
        self.steps = 0

    def coerce_value(self, value: Any, node: Any, path: str, depth: int) -> Any:
        node = self.document.follow(node)
        self.steps += 1
        if depth > MAX_DEPTH or self.steps > MAX_STEPS or not node:
            return value
        # A node with a union and siblings is rare; the union alone decides here, validation checks the rest.
        branches = node.get("anyOf") or node.get("oneOf")
        if branches:
            return self.coerce_union(value, branches, path, depth)
        for part in node.get("allOf") or ():
            value = self.coerce_value(value, part, path, depth + 1)
        types = allowed_types(node)
        if types and not has_type(value, types):
            value = self.convert_type(value, types, path)
        choices = _list_choices(node)
        if choices is not None:
            value = self.match_choice(value, choices, path)
        if isinstance(value, dict):
            return self.coerce_object(cast(Schema, value), node, path, depth)
        if isinstance(value, list):
            return self.coerce_array(cast(list[Any], value), node, path, depth)
        return value

    def coerce_array(self, items: list[Any], node: Schema, path: str, depth: int) -> list[Any]:
        """Convert each item by its own schema at the start of a tuple, else by the one of all items."""
        forms: list[Any] = node.get("prefixItems", [])
        form: Any = node.get("items", {})
        converted: list[Any] = []
        for index, item in enumerate(items):
            own_form = forms[index] if index < len(forms) else form
            converted.append(self.coerce_value(item, own_form, f"{path}[{index}]", depth + 1))
        return converted

    def coerce_union(self, value: Any, branches: list[Any], path: str, depth: int) -> Any:
        """Use the first branch that the value matches, or else the first that it can be converted to."""
        for branch in branches:
            if self.looks_like(value, branch, depth):
                return self.coerce_value(value, branch, path, depth + 1)
        for branch in branches:
            mark = len(self.notes)
            converted = self.coerce_value(value, branch, path, depth + 1)
            if self.looks_like(converted, branch, depth):
                return converted
            del self.notes[mark:]  # the attempt is discarded, and so are its notes
        return value

    def looks_like(self, value: Any, node: Any, depth: int) -> bool:
        """Whether a value has the type, the choices and the required names of a node."""
        node = self.document.follow(node)
        self.steps += 1
        if depth > MAX_DEPTH or self.steps > MAX_STEPS or not node:
            return True
        branches = node.get("anyOf") or node.get("oneOf")
        if branches and not any(self.looks_like(value, branch, depth + 1) for branch in branches):
            return False
        if not _is_choice(value, node):
            return False
        if isinstance(value, list):
            form = node.get("items", {})
            return all(self.looks_like(item, form, depth + 1) for item in cast(list[Any], value))
        if isinstance(value, dict):
            return self._has_members(cast(Schema, value), node, depth)
        return True

    def _has_members(self, value: Schema, node: Schema, depth: int) -> bool:
        """Whether an object has the names that a node asks for, with values that look right."""
        properties = node.get("properties", {})
        if not value.keys() >= {*node.get("required", ())}:
            return False
        if node.get("additionalProperties") is False and not value.keys() <= properties.keys():
            return False
        known = [name for name in value if name in properties]
        return all(self.looks_like(value[name], properties[name], depth + 1) for name in known)

    def convert_type(self, value: Any, type_names: list[str], path: str) -> Any:
        """Convert a value of a wrong type, if there is only one way to read it."""
        for type_name in type_names:
            converted = _convert(value, type_name)
            if converted is not _NO_VALUE:
                return self.record(path, value, converted)
        if "array" in type_names and value is not None:
            # A broken JSON array is not one element; anything else may be: "a.txt" for ["a.txt"].
            if isinstance(value, str) and value.strip()[:1] == "[":
                return value
            return self.record(path, value, [value])
        return value

    def match_choice(self, value: Any, choices: list[Any], path: str) -> Any:
        """Return the one choice that differs only in case, spaces, `_` and `-`."""
        if value in choices:
            return value
        texts = {choice for choice in choices if isinstance(choice, str)}
        if isinstance(value, str):
            folded = _fold_name(value)
            matches = [text for text in texts if _fold_name(text) == folded]
        else:
            matches = list(texts & {_scalar_text(value)})
        if len(matches) != 1:
            return value
        return self.record(path, value, matches[0])

    def coerce_object(self, value: Schema, node: Schema, path: str, depth: int) -> Schema:
        properties = node.get("properties", {})
        required = node.get("required", ())
        # an unknown name may be valid: an open object accepts any
        if not self.looks_like(value, node, depth):
            value = self.rename_properties(value, node, path)
        out: Schema = {}
        for name, item in value.items():
            sub = properties.get(name, node.get("additionalProperties", {}))
            is_optional = name in properties and name not in required
            # models send null for "not set"
            if item is None and is_optional and not self.looks_like(None, sub, depth):
                self.notes.append(f"{path}.{name}: null left out")
                continue
            out[name] = self.coerce_value(item, sub, f"{path}.{name}", depth + 1)
        return out

    def rename_properties(self, value: Schema, node: Schema, path: str) -> Schema:
        properties = node.get("properties", {})
        unknown = [name for name in value if name not in properties]
        if not unknown or not isinstance(properties, dict):
            return value
        missing = [name for name in cast(Schema, properties) if name not in value]
        missing_by_fold = _group_by_fold(missing)
        renames: dict[str, str] = {}
        for fold, names in _group_by_fold(unknown).items():
            candidates = missing_by_fold.get(fold, [])
            # Two candidates on either side would be a guess.
            if len(candidates) == len(names) == 1:
                renames[names[0]] = candidates[0]
        self.notes += [f"{path}.{name}: renamed to {right}" for name, right in renames.items()]
        return {renames.get(name, name): item for name, item in value.items()}

    def record(self, path: str, old: Any, new: Any) -> Any:
        self.notes.append(
            f"{path}: {preview_value(old, _MAX_PREVIEW)} read as {preview_value(new, _MAX_PREVIEW)}"
        )
        return new


def preview_value(value: Any, length: int) -> str:
    """Return the beginning of a value's JSON text."""
    try:
        return truncate(dumps_text(value), length)
    except (TypeError, ValueError, OverflowError, RecursionError):
        # Python's own values, or nested too deeply
        return truncate(repr(value), length)


def _convert(value: Any, type_name: str) -> Any:
    """Convert a value to another JSON type; `_NO_VALUE` if that would be a guess."""
    if type_name == "string":
        text = _scalar_text(value)
        return _NO_VALUE if text is None else text
    if isinstance(value, str):
        return _convert_text(value.strip(), type_name)
    is_whole = json_type(value) == "integer"  # 3.0 is an integer, too
    if type_name == "integer" and is_whole:
        return int(value)
    if type_name == "boolean" and is_whole and value in (0, 1):
        return bool(value)
    return _NO_VALUE


def _convert_text(text: str, type_name: str) -> Any:
    """Read a text as a value of a JSON type; `_NO_VALUE` if that would be a guess."""
    match type_name:
        case "integer" if _INTEGER.fullmatch(text):
            return int(text.partition(".")[0])
        case "boolean":
            return _BOOLEANS.get(text.lower(), _NO_VALUE)
        case "null" if text.lower() in ("null", "none"):
            return None
        case "number" if text:
            return _parse(text, ("integer", "number"))
        case "object" | "array" if text.startswith(("{", "[")):  # "a,b" stays a string
            return _parse(text, (type_name,))
        case _:
            return _NO_VALUE


def _parse(text: str, type_names: tuple[str, ...]) -> Any:
    """Return the value of a JSON text if it has one of these types."""
    try:
        value = tolerant_loads(text)[0]
    except ValueError:
        return _NO_VALUE
    return value if json_type(value) in type_names else _NO_VALUE


def _is_choice(value: Any, node: Schema) -> bool:
    """Whether a value has a node's type, and is one of its choices if it lists them."""
    types = allowed_types(node)
    if types and not has_type(value, types):
        return False
    if "const" in node and value != node["const"]:
        return False
    return "enum" not in node or value in node["enum"]


def _list_choices(node: Schema) -> list[Any] | None:
    """Return the values that a node lists; None if it lists none."""
    if "enum" in node or "const" in node:
        return node.get("enum") or [node.get("const")]
    return None


def _group_by_fold(names: list[str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_fold_name(name), []).append(name)
    return groups


def _fold_name(text: str) -> str:
    """Fold case and remove spaces, `_` and `-`."""
    return re.sub(r"[\s_\-]+", "", text).casefold()


def _scalar_text(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return str(value)
    return None
