"""Arguments bent along a JSON Schema, only where they do not fit it: `"10"` for an integer is 10.

Laws: pure; a value that fits is not touched; only conversions that nobody would read otherwise; each one is named.
What comes out may still be wrong: it is validated again.
"""

import re
from typing import Any, cast

from toolglot.jsontext import dumps_text
from toolglot.schema.plain import Document, Schema, fits, json_type, types
from toolglot.schema.tolerant import tolerant_loads

__all__ = ["coerce", "renamed", "suits"]

MAX_LEVELS = 60
MAX_STEPS = 50_000  # branches of branches multiply: what is beyond stays as it is
_INTEGER = re.compile(r"[+-]?\d{1,18}(?:\.0+)?")
_BOOLEANS = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}
_SHORT = 40
_NOTHING = object()


def coerce(arguments: Any, schema: Schema) -> tuple[Any, tuple[str, ...]]:
    """The arguments as the schema wants them, and what was changed: `$.days: "10" read as 10`."""
    bending = _Bending(schema)
    return bending.value(arguments, schema, "$", 0), tuple(bending.notes)


def renamed(arguments: dict[str, Any], schema: Schema) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The arguments with the names of the schema where only case, `_`, `-` and spaces differ from one that is missing."""
    bending = _Bending(schema)
    return bending.names(arguments, bending.node(schema, 0), "$"), tuple(bending.notes)


def suits(value: Any, schema: Schema) -> bool:
    """Whether a value looks like one for a schema: types, choices and required names; numbers and patterns are not checked."""
    return _Bending(schema).suits(value, schema, 0)


class _Bending:
    """A walk of arguments along their schema."""

    def __init__(self, schema: Schema) -> None:
        self.document, self.notes, self.steps = Document(schema), list[str](), 0

    def node(self, node: Any, level: int) -> Schema:
        """A node with its reference followed."""
        while isinstance(node, dict) and isinstance(ref := cast(Schema, node).get("$ref"), str) and level < MAX_LEVELS:
            found, level = self.document.find(ref), level + 1
            node = found.node if found else {}
        return cast(Schema, node) if isinstance(node, dict) else {}

    def value(self, value: Any, node: Any, path: str, level: int) -> Any:
        node = self.node(node, level)
        self.steps += 1
        if level > MAX_LEVELS or self.steps > MAX_STEPS or not node:
            return value
        branches = node.get("anyOf") or node.get("oneOf")
        if branches:
            return self.branch(value, branches, path, level)
        for part in node.get("allOf") or ():
            value = self.value(value, part, path, level + 1)
        kinds = types(node)
        if kinds and not fits(value, kinds):
            value = self.typed(value, node, kinds, path)
        if "enum" in node or "const" in node:
            value = self.choice(value, node.get("enum") or [node.get("const")], path)
        if isinstance(value, dict):
            return self.object(cast(Schema, value), node, path, level)
        if isinstance(value, list):
            return [self.item(i, item, node, path, level) for i, item in enumerate(cast(list[Any], value))]
        return value

    def branch(self, value: Any, branches: list[Any], path: str, level: int) -> Any:
        """The first branch that the value suits, or else the first that it can be bent to."""
        for branch in branches:
            if self.suits(value, branch, level):
                return self.value(value, branch, path, level + 1)
        for branch in branches:
            mark = len(self.notes)
            bent = self.value(value, branch, path, level + 1)
            if self.suits(bent, branch, level):
                return bent
            del self.notes[mark:]
        return value

    def suits(self, value: Any, node: Any, level: int) -> bool:
        """Whether a value looks like one for this node: its type, its choices, the names it must have."""
        node = self.node(node, level)
        self.steps += 1
        if level > MAX_LEVELS or self.steps > MAX_STEPS or not node:
            return True
        branches = node.get("anyOf") or node.get("oneOf")
        if branches and not any(self.suits(value, branch, level + 1) for branch in branches):
            return False
        if types(node) and not fits(value, types(node)):
            return False
        if "const" in node and value != node["const"]:
            return False
        if "enum" in node and value not in node["enum"]:
            return False
        if isinstance(value, list):
            return all(self.suits(item, node.get("items", {}), level + 1) for item in cast(list[Any], value))
        return not isinstance(value, dict) or self.suits_object(cast(Schema, value), node, level)

    def suits_object(self, value: Schema, node: Schema, level: int) -> bool:
        named = node.get("properties", {})
        if any(name not in value for name in node.get("required", ())):
            return False
        if node.get("additionalProperties") is False and any(name not in named for name in value):
            return False
        return all(self.suits(item, named[name], level + 1) for name, item in value.items() if name in named)

    # -- one value

    def typed(self, value: Any, node: Schema, kinds: list[str], path: str) -> Any:
        """A value of a wrong type as one of the right type, if there is only one way to read it."""
        for kind in kinds:
            found = _as(value, kind)
            if found is not _NOTHING:
                return self.note(path, value, found)
        if "array" in kinds and value is not None:
            if isinstance(value, str) and value.strip()[:1] == "[":
                return value
            return self.note(path, value, [value])
        return value

    def choice(self, value: Any, choices: list[Any], path: str) -> Any:
        """The one choice that differs only in case, spaces, `_` and `-`."""
        if value in choices or not isinstance(value, str):
            same = [choice for choice in choices if isinstance(choice, str) and choice == _plain_text(value)]
            return self.note(path, value, same[0]) if same and value not in choices else value
        near = [choice for choice in choices if isinstance(choice, str) and _plain(choice) == _plain(value)]
        return self.note(path, value, near[0]) if len(near) == 1 else value

    # -- what is inside

    def object(self, value: Schema, node: Schema, path: str, level: int) -> Schema:
        named, needed = node.get("properties", {}), node.get("required", ())
        value = self.names(value, node, path)
        out: Schema = {}
        for name, item in value.items():
            sub = named.get(name, node.get("additionalProperties", {}))
            if item is None and name in named and name not in needed and not self.suits(None, sub, level):
                self.notes.append(f"{path}.{name}: null left out")
                continue
            out[name] = self.value(item, sub, f"{path}.{name}", level + 1)
        return out

    def names(self, value: Schema, node: Schema, path: str) -> Schema:
        named = node.get("properties", {})
        strange = [name for name in value if name not in named]
        if not strange or not isinstance(named, dict):
            return value
        missing: dict[str, list[str]] = {}
        for name in cast(Schema, named):
            if name not in value:
                missing.setdefault(_plain(name), []).append(name)
        others = [_plain(name) for name in strange]
        new = {name: missing.get(_plain(name), []) for name in strange if others.count(_plain(name)) == 1}
        new = {name: found[0] for name, found in new.items() if len(found) == 1}
        self.notes += [f"{path}.{name}: renamed to {right}" for name, right in new.items()]
        return {new.get(name, name): item for name, item in value.items()}

    def item(self, i: int, value: Any, node: Schema, path: str, level: int) -> Any:
        prefix = node.get("prefixItems", [])
        sub = prefix[i] if i < len(prefix) else node.get("items", {})
        return self.value(value, sub, f"{path}[{i}]", level + 1)

    def note(self, path: str, old: Any, new: Any) -> Any:
        self.notes.append(f"{path}: {_shown(old)} read as {_shown(new)}")
        return new


def _as(value: Any, kind: str) -> Any:
    """A value as another JSON type; `_NOTHING` where that would be a guess."""
    if isinstance(value, str):
        return _from_text(value.strip(), kind)
    if kind == "string" and isinstance(value, (bool, int, float)):
        return _plain_text(value)
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind == "boolean" and json_type(value) == "integer" and value in (0, 1):
        return bool(value)
    return _NOTHING


def _from_text(text: str, kind: str) -> Any:
    if kind == "boolean":
        return _BOOLEANS.get(text.lower(), _NOTHING)
    if kind == "integer":
        return int(text.partition(".")[0]) if _INTEGER.fullmatch(text) else _NOTHING
    if kind == "null":
        return None if text.lower() in ("null", "none") else _NOTHING
    if kind not in ("number", "object", "array"):
        return _NOTHING
    if kind != "number" and text[:1] not in ("{", "["):
        return _NOTHING
    try:
        found = tolerant_loads(text)[0]
    except ValueError:
        return _NOTHING
    wanted = ("integer", "number") if kind == "number" else (kind,)
    return found if json_type(found) in wanted else _NOTHING


def _plain(text: str) -> str:
    """What is left of a name when case, spaces, `_` and `-` do not count."""
    return re.sub(r"[\s_\-]+", "", text).casefold()


def _plain_text(value: Any) -> str | None:
    return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, (int, float)) else None


def _shown(value: Any) -> str:
    try:
        text = dumps_text(value)
    except (OverflowError, RecursionError):
        text = repr(value)
    return text if len(text) <= _SHORT else text[: _SHORT - 1] + "…"
