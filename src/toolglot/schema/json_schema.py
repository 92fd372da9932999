"""JSON Schema itself, whoever the provider: its vocabulary, and pure operations that make any input plain 2020-12.

Law: nothing here knows a dialect, mutates its input or raises anything but UsageError.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast
from urllib.parse import unquote

from toolglot.errors import UsageError
from toolglot.jsontext import dumps

Schema = dict[str, Any]

MAX_DEPTH = 200
MAX_VALUES = 100_000
MAX_NUMBER = 1 << 1024

# Where a node holds other schemas.
MAP_KEYWORDS = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
LIST_KEYWORDS = ("anyOf", "oneOf", "allOf", "prefixItems")
SUBSCHEMA_KEYWORDS = (
    *("items", "additionalItems", "unevaluatedItems", "contains", "additionalProperties", "unevaluatedProperties"),
    *("propertyNames", "not", "if", "then", "else", "contentSchema"),
)
TYPE_NAMES = ("object", "array", "string", "number", "integer", "boolean", "null")

_OBJECT_KEYWORDS = (
    *("properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties"),
    *("maxProperties", "dependentRequired", "dependentSchemas", "unevaluatedProperties", "propertyOrdering"),
)
_ARRAY_KEYWORDS = (
    *("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains"),
    *("unevaluatedItems", "additionalItems"),
)
_STRING_KEYWORDS = ("minLength", "maxLength", "pattern", "contentEncoding", "contentMediaType", "contentSchema")
_NUMBER_KEYWORDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
# What a keyword speaks about: it means nothing for values of other types.
APPLICABLE_TYPES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_OBJECT_KEYWORDS, ("object",)),
    **dict.fromkeys(_ARRAY_KEYWORDS, ("array",)),
    **dict.fromkeys(_STRING_KEYWORDS, ("string",)),
    **dict.fromkeys(_NUMBER_KEYWORDS, ("number", "integer")),
    "format": ("string", "number", "integer"),
}
# Notes beside a schema: they say nothing about which values are valid.
ANNOTATIONS = frozenset(
    {"description", "title", "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "discriminator"}
    | {"$comment", "$id", "$schema", "$anchor", "$defs", "definitions"}
)


def json_type(value: Any) -> str:
    """The name that JSON Schema has for the type of a JSON value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def has_type(value: Any, type_names: list[str]) -> bool:
    """Whether a value is of one of the types."""
    kind = json_type(value)
    return kind in type_names or (kind == "integer" and "number" in type_names)


def drop_keywords(node: Schema, *keys: str) -> Schema:
    """A copy of a node that lacks some keywords."""
    return {key: value for key, value in node.items() if key not in keys}


def unique(values: Iterable[Any]) -> list[Any]:
    """The values without repetition, as JSON compares them: 1 and true are two."""
    seen: dict[bytes, Any] = {}
    for value in values:
        seen.setdefault(dumps(value), value)
    return list(seen.values())


def copy_schema(value: Any) -> Any:
    """A deep copy in dicts and lists. Raises UsageError for what is not JSON, or too deep or large to be a schema."""
    count = 0

    def copy(value: Any, level: int) -> Any:
        nonlocal count
        count += 1
        if level > MAX_DEPTH or count > MAX_VALUES:
            raise UsageError(f"the schema has more than {MAX_DEPTH} levels or {MAX_VALUES} values")
        match value:
            case None | bool() | str():
                return value
            case int() | float() if -MAX_NUMBER < value < MAX_NUMBER:  # so that it can be written as text
                return value
            case list() | tuple():
                return [copy(item, level + 1) for item in cast(list[Any], value)]
            case Mapping() if all(isinstance(key, str) for key in cast(Mapping[Any, Any], value)):
                return {key: copy(item, level + 1) for key, item in cast(Mapping[str, Any], value).items()}
            case _:
                raise UsageError(f"a schema is made of JSON values, which this {type(value).__name__} is not")

    return copy(value, 0)


# ---- one node, well-formed


def _is_instance(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


def _is_nonempty_list(value: Any) -> bool:
    return isinstance(value, list) and value != []


def _is_number(value: Any) -> bool:
    return json_type(value) in ("integer", "number")


def _is_count(value: Any) -> bool:
    return json_type(value) == "integer" and value >= 0


# What the value of a keyword must be. Anthropic of anything else: "It must match JSON Schema draft 2020-12".
KEYWORD_CHECKS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(MAP_KEYWORDS, _is_instance(dict)),
    **dict.fromkeys((*LIST_KEYWORDS, "enum"), _is_nonempty_list),
    **dict.fromkeys(SUBSCHEMA_KEYWORDS, _is_instance(dict, bool)),
    **dict.fromkeys(("$ref", "$schema", "$comment", "title", "description", "format"), _is_instance(str)),
    **dict.fromkeys(("pattern", "contentEncoding", "contentMediaType"), _is_instance(str)),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly", "nullable"), _is_instance(bool)),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains"), _is_count),
    **dict.fromkeys(("minProperties", "maxProperties"), _is_count),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(("required", "examples", "propertyOrdering"), _is_instance(list)),
    "type": lambda value: value in TYPE_NAMES or _is_nonempty_list(value),
    "$anchor": lambda value: isinstance(value, str) and bool(re.fullmatch(r"[A-Za-z_][-A-Za-z0-9._]*", value)),
    "$id": lambda value: isinstance(value, str) and "#" not in value[:-1],
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "dependentRequired": _is_instance(dict),
}


def clean_node(schema: Any) -> tuple[Schema, list[str]]:
    """One node as well-formed 2020-12, its children untouched, and the keywords that made no sense."""
    if isinstance(schema, bool):
        return ({} if schema else {"not": {}}), []
    if not isinstance(schema, dict):
        return {}, [f"schema {schema!r:.40}"]
    node: Schema = {}
    lost: list[str] = []
    for key, value in _modernize(cast("Schema", schema)).items():
        if value is None and key not in ("default", "const"):
            continue  # many generators write null for "not given"
        shape = KEYWORD_CHECKS.get(key)
        if shape and not shape(value):
            lost.append(key)
        else:
            node[key] = int(cast("float", value)) if shape is _is_count else value
    return node, lost


def _modernize(node: Schema) -> Schema:
    """What older drafts and hasty authors write, as 2020-12 writes it."""
    out = dict(node)
    if isinstance(out.get("items"), list):  # draft-7 tuple
        out = {("prefixItems" if key == "items" else key): value for key, value in out.items()}
        if "additionalItems" in out:
            out["items"] = out.pop("additionalItems")
    for bound in ("Minimum", "Maximum"):  # draft-4
        if isinstance(out.get("exclusive" + bound), bool) and out.pop("exclusive" + bound) and bound.lower() in out:
            out["exclusive" + bound] = out.pop(bound.lower())
    if isinstance(out.get("type"), str):
        out["type"] = out["type"].lower()
    elif isinstance(out.get("type"), list):
        out["type"] = unique(name.lower() for name in string_items(out["type"]) if name.lower() in TYPE_NAMES)
    return _modernize_name_lists(out)


def _modernize_name_lists(out: Schema) -> Schema:
    """The keywords that list names of properties: `required`, and draft-7's `dependencies`."""
    for name, value in _dict_items(out.pop("dependencies", {})):
        key = "dependentRequired" if isinstance(value, list) else "dependentSchemas"
        out[key] = {name: value, **dict(_dict_items(out.get(key)))}
    if isinstance(out.get("dependentRequired"), dict):
        out["dependentRequired"] = {name: string_items(value) for name, value in _dict_items(out["dependentRequired"])}
    if isinstance(out.get("required"), bool):  # draft-3 says it on the property itself
        del out["required"]
    said = [name for name, sub in _dict_items(out.get("properties")) if dict(_dict_items(sub)).get("required") is True]
    if said or isinstance(out.get("required"), list):
        out["required"] = unique([*string_items(out.get("required")), *said])
    return out


def _dict_items(value: Any) -> list[tuple[str, Any]]:
    return list(cast("Schema", value).items()) if isinstance(value, dict) else []


def string_items(value: Any) -> list[str]:
    """Those of the values that are text."""
    values = cast("list[Any]", value) if isinstance(value, list) else []
    return unique(item for item in values if isinstance(item, str))


def allowed_types(node: Schema) -> list[str]:
    """The types that a node allows, from what it says or from the keywords it uses. Empty: any."""
    said = node.get("type")
    if said:
        return [said] if isinstance(said, str) else said
    if "enum" in node or "const" in node:
        found = unique(map(json_type, node.get("enum") or [node["const"]]))
        return [name for name in found if name != "integer" or "number" not in found]
    return unique(APPLICABLE_TYPES[key][0] for key in node if key in APPLICABLE_TYPES)


# ---- references


class LocatedNode(NamedTuple):
    """A node that a reference names. stable: it will still be there after the root and tuples were rewritten."""

    pointer: str
    node: Any
    is_stable: bool = False


class SchemaDocument:
    """A whole schema, in which references are looked up."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self._anchors: dict[str, LocatedNode] | None = None

    def resolve(self, ref: str) -> LocatedNode | None:
        """What a reference names; None for a remote or dangling one."""
        base = self.root.get("$id")
        ref = unquote(ref.removeprefix(base) if isinstance(base, str) else ref)
        if ref in ("", "#"):
            return LocatedNode("#", self.root, True)
        if not ref.startswith("#/"):
            return self.anchors.get(ref)
        node: Any = self.root
        segments = [part.replace("~1", "/").replace("~0", "~") for part in ref[2:].split("/")]
        stable = segments[0] not in ("anyOf", "oneOf", "allOf", "not")
        for segment in segments:
            if isinstance(node, dict) and segment in node:
                node = cast("Schema", node)[segment]
                stable = stable and not (segment in ("items", "additionalItems") and isinstance(node, list))
            elif isinstance(node, list) and re.fullmatch("[0-9]{1,6}", segment):
                items = cast("list[Any]", node)
                node = items[int(segment)] if int(segment) < len(items) else None
            else:
                return None
        return (
            LocatedNode("#/" + "/".join(map(escape_pointer, segments)), node, stable)
            if isinstance(node, (dict, bool))
            else None
        )

    @property
    def anchors(self) -> dict[str, LocatedNode]:
        """The nodes with a name of their own, by the reference that names them."""
        if self._anchors is None:
            self._anchors = {}
            for at in iter_nodes(self.root):
                for key, mark in (("$anchor", "#"), ("$id", "")):
                    if isinstance(at.node.get(key), str):
                        self._anchors.setdefault(mark + at.node[key], at)
        return self._anchors

    def find_cycles(self) -> frozenset[str]:
        """The pointers of the definitions that may reach themselves (or lie between two that do)."""
        edges: dict[str, set[str]] = {}
        todo = [LocatedNode("#", self.root)]
        while todo:
            here = todo.pop()
            if here.pointer not in edges:
                refs = [at.node.get("$ref") for at in iter_nodes(here.node, include_definitions=False)]
                found = [target for ref in refs if isinstance(ref, str) and (target := self.resolve(ref))]
                edges[here.pointer] = {target.pointer for target in found}
                todo += found
        return frozenset(_prune_leaves(_reverse_edges(_prune_leaves(edges))))


def escape_pointer(segment: str) -> str:
    """A segment of a JSON pointer."""
    return segment.replace("~", "~0").replace("/", "~1")


def iter_children(node: Schema, *, include_definitions: bool = True) -> Iterator[tuple[str, Any]]:
    """The schemas directly inside a node, each with its pointer from there."""
    for key, value in node.items():
        if key in MAP_KEYWORDS and isinstance(value, dict) and (include_definitions or key not in ("$defs", "definitions")):
            yield from ((f"/{key}/{escape_pointer(name)}", sub) for name, sub in cast("Schema", value).items())
        elif isinstance(value, list) and (key in LIST_KEYWORDS or key == "items"):
            yield from ((f"/{key}/{i}", sub) for i, sub in enumerate(cast("list[Any]", value)))
        elif key in SUBSCHEMA_KEYWORDS:
            yield f"/{key}", value


def iter_nodes(node: Any, pointer: str = "#", *, include_definitions: bool = True) -> Iterator[LocatedNode]:
    """Every node of a schema, the outer ones first."""
    if isinstance(node, dict):
        yield LocatedNode(pointer, cast("Schema", node))
        for step, sub in iter_children(cast("Schema", node), include_definitions=include_definitions):
            yield from iter_nodes(sub, pointer + step, include_definitions=include_definitions)


def _reverse_edges(edges: Mapping[str, set[str]]) -> dict[str, set[str]]:
    turned: dict[str, set[str]] = {name: set() for name in edges}
    for name, targets in edges.items():
        for target in targets & edges.keys():
            turned[target].add(name)
    return turned


def _prune_leaves(edges: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """A graph without what leads nowhere, taken away until nothing more goes."""
    users = _reverse_edges(edges)
    waiting = {name: len(targets & edges.keys()) for name, targets in edges.items()}
    leaves = [name for name, count in waiting.items() if not count]
    for leaf in leaves:
        for user in users[leaf]:
            waiting[user] -= 1
            if not waiting[user]:
                leaves.append(user)
    gone = set(leaves)
    return {name: targets - gone for name, targets in edges.items() if name not in gone}


# ---- two schemas that hold together


def merge_nodes(first: Schema, second: Schema) -> tuple[Schema, Schema]:
    """`allOf` of two nodes as one, and the keywords of the second that could not be joined."""
    out, clash = dict(first), Schema()
    for key, theirs in second.items():
        if key not in out or out[key] == theirs:
            out[key] = theirs
        elif (joined := _merge_keyword(key, out[key], theirs)) is not None:
            out[key] = joined
        elif key not in ANNOTATIONS:
            clash[key] = theirs
    return out, clash


def _merge_keyword(key: str, ours: Any, theirs: Any) -> Any:
    """Both values of a keyword as one; None where there is no such value."""
    match key:
        case "properties" | "patternProperties" | "dependentSchemas":
            return {**theirs, **ours, **{name: _merge_subschemas(ours[name], theirs[name]) for name in ours if name in theirs}}
        case "items" | "additionalProperties" | "propertyNames" | "unevaluatedProperties":
            return _merge_subschemas(ours, theirs)
        case "required":
            return unique([*ours, *theirs])
        case "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties":
            return max(ours, theirs)
        case "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties":
            return min(ours, theirs)
        case "uniqueItems" | "nullable":
            return ours or theirs
        case "description":
            return ours if theirs in ours else f"{ours} {theirs}"
        case "enum":
            theirs = [dumps(value) for value in theirs]
            return [value for value in ours if dumps(value) in theirs] or None
        case "type":
            return _intersect_types(allowed_types({"type": ours}), allowed_types({"type": theirs}))
        case _:
            return None


def _merge_subschemas(ours: Any, theirs: Any) -> Any:
    if ours is False or theirs is False:
        return False
    if ours in (True, {}) or ours == theirs:
        return theirs
    return ours if theirs in (True, {}) else {"allOf": [ours, theirs]}


def _intersect_types(ours: list[str], theirs: list[str]) -> Any:
    wide, narrow = ([*names, "integer"] if "number" in names else names for names in (ours, theirs))
    both = [name for name in unique([*ours, *theirs]) if name in wide and name in narrow]
    both = [name for name in both if name != "integer" or "number" not in both]
    return (both[0] if len(both) == 1 else both) or None
