"""JSON Schema as a value, with no provider in mind: its vocabulary, and pure operations that bring any input
to draft 2020-12.

Nothing here mutates its input or raises anything but UsageError.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple, TypeGuard, cast
from urllib.parse import unquote

from toolglot.common.jsontext import dumps
from toolglot.errors import UsageError

Schema = dict[str, Any]

MAX_DEPTH = 200
MAX_VALUES = 100_000
MAX_NUMBER = 1 << 1024  # beyond every float; CPython also refuses to print integers of more than 4300 digits

# Keywords whose value holds other schemas: a map of them, a list of them, or one.
MAP_KEYWORDS = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
LIST_KEYWORDS = ("anyOf", "oneOf", "allOf", "prefixItems")
SUBSCHEMA_KEYWORDS = (
    *(
        "items",
        "additionalItems",
        "unevaluatedItems",
        "contains",
        "additionalProperties",
        "unevaluatedProperties",
    ),
    *("propertyNames", "not", "if", "then", "else", "contentSchema"),
)
TYPE_NAMES = ("object", "array", "string", "number", "integer", "boolean", "null")

# The types that a keyword constrains: it says nothing about values of other types (2020-12 Validation,
# section 6).
_KEYWORDS_BY_TYPE = {
    (
        "object",
    ): "properties required additionalProperties patternProperties propertyNames minProperties maxProperties "
    "dependentRequired dependentSchemas unevaluatedProperties propertyOrdering",
    (
        "array",
    ): "items prefixItems minItems maxItems uniqueItems contains minContains maxContains unevaluatedItems "
    "additionalItems",
    ("string",): "minLength maxLength pattern contentEncoding contentMediaType contentSchema",
    ("number", "integer"): "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf",
    ("string", "number", "integer"): "format",
}
APPLICABLE_TYPES = {name: types for types, names in _KEYWORDS_BY_TYPE.items() for name in names.split()}
# Keywords that do not affect which values are valid.
ANNOTATIONS = frozenset(
    {
        "description",
        "title",
        "default",
        "examples",
        "example",
        "deprecated",
        "readOnly",
        "writeOnly",
        "discriminator",
    }
    | {"$comment", "$id", "$schema", "$anchor", "$defs", "definitions"}
)


def json_type(value: Any) -> str:
    """Return JSON Schema's name for the type of a value.

    A float without a fraction is an integer (2020-12, section 4.2.3).
    """
    match value:
        case None:
            return "null"
        case bool():  # before int: True is an int in Python
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
    """Whether a value has one of the types."""
    type_name = json_type(value)
    return type_name in type_names or (type_name == "integer" and "number" in type_names)


def drop_keywords(node: Schema, *keys: str) -> Schema:
    """Return a copy of a node without some keywords."""
    return {key: value for key, value in node.items() if key not in keys}


def unique(values: Iterable[Any]) -> list[Any]:
    """Remove duplicates as JSON compares values: 1 and true differ, which they do not in Python."""
    seen: dict[bytes, Any] = {}
    for value in values:
        seen.setdefault(dumps(value), value)
    return list(seen.values())


def copy_schema(value: Any) -> Any:
    """Return a deep copy made of dicts and lists.

    Raises UsageError if it is not JSON, or too deep or large for a schema.
    """
    count = 0

    def copy(value: Any, depth: int) -> Any:
        nonlocal count
        count += 1
        # Also ends the copy of a structure that contains itself.
        if depth > MAX_DEPTH or count > MAX_VALUES:
            raise UsageError(f"the schema has more than {MAX_DEPTH} levels or {MAX_VALUES} values")
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, list | tuple):
            return [copy(item, depth + 1) for item in cast(list[Any], value)]
        if _is_object(value):
            return {key: copy(item, depth + 1) for key, item in value.items()}
        if isinstance(value, int | float) and -MAX_NUMBER < value < MAX_NUMBER:
            return value
        raise UsageError(f"a schema must be made of JSON values, not {type(value).__name__}")

    return copy(value, 0)


def _is_object(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Whether a value is a mapping whose keys are all texts."""
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in cast(Mapping[Any, Any], value))


# ---- one well-formed node


def _is_instance(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types)


def _is_nonempty_list(value: Any) -> bool:
    return isinstance(value, list) and value != []


def _is_number(value: Any) -> bool:
    return json_type(value) in ("integer", "number")


def _is_count(value: Any) -> bool:
    return json_type(value) == "integer" and value >= 0


# What the value of a keyword must be. Anthropic expects JSON Schema 2020-12, and one malformed tool makes the
# whole request fail.
KEYWORD_CHECKS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(MAP_KEYWORDS, _is_instance(dict)),
    **dict.fromkeys((*LIST_KEYWORDS, "enum"), _is_nonempty_list),
    **dict.fromkeys(SUBSCHEMA_KEYWORDS, _is_instance(dict, bool)),
    **dict.fromkeys(("$ref", "$schema", "$comment", "title", "description", "format"), _is_instance(str)),
    **dict.fromkeys(("pattern", "contentEncoding", "contentMediaType"), _is_instance(str)),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly", "nullable"), _is_instance(bool)),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains"), _is_count
    ),
    **dict.fromkeys(("minProperties", "maxProperties"), _is_count),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(("required", "examples", "propertyOrdering"), _is_instance(list)),
    "type": lambda value: value in TYPE_NAMES or _is_nonempty_list(value),
    "$anchor": lambda value: (
        isinstance(value, str) and bool(re.fullmatch(r"[A-Za-z_][-A-Za-z0-9._]*", value))
    ),
    "$id": lambda value: isinstance(value, str) and "#" not in value[:-1],
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "dependentRequired": _is_instance(dict),
}


def clean_node(schema: Any) -> tuple[Schema, list[str]]:
    """Return one node as well-formed 2020-12, its children untouched, and the keywords that made no sense."""
    if schema is True:
        return {}, []
    if schema is False:
        return {"not": {}}, []
    if not isinstance(schema, dict):
        return {}, [f"schema {schema!r:.40}"]
    node: Schema = {}
    invalid: list[str] = []
    for key, value in _modernize(cast("Schema", schema)).items():
        if value is None and key not in ("default", "const"):
            continue  # many generators write null for an absent keyword
        check = KEYWORD_CHECKS.get(key)
        if check and not check(value):
            invalid.append(key)
        elif check is _is_count:
            node[key] = int(cast("float", value))  # 3.0 is a legal count
        else:
            node[key] = value
    return node, invalid


def find_invalid(schema: Schema, *, allows_bare_arrays: bool = False) -> Iterator[tuple[str, Any, str]]:
    """Yield what is wrong with a schema: a JSON pointer, the value there, and what is expected instead."""
    document = SchemaDocument(schema)
    for at in iter_nodes(schema):
        node, invalid = clean_node(at.node)
        if _has_unknown_type(at.node):
            invalid.append("type")
        for key in unique(invalid):
            expected = "a value that JSON Schema allows"
            if key == "type":
                expected = f"one of {', '.join(TYPE_NAMES)}"
            yield f"{at.pointer}/{key}", at.node.get(key), expected
        if "$ref" in node and document.resolve(node["$ref"]) is None:
            yield f"{at.pointer}/$ref", node["$ref"], "a reference to a part of this schema"
        is_bare_array = node.get("type") == "array" and not node.keys() & {"items", "prefixItems"}
        if is_bare_array and not allows_bare_arrays:
            yield f"{at.pointer}/items", None, "a schema"
        for key in MAP_KEYWORDS:
            for name, sub in _dict_items(node.get(key)):
                if not isinstance(sub, (dict, bool)):
                    yield f"{at.pointer}/{key}/{escape_pointer(name)}", sub, "a schema"


def _has_unknown_type(node: Schema) -> bool:
    """Whether a list of types has one that does not exist."""
    types = node.get("type")
    return isinstance(types, list) and any(
        str(name).lower() not in TYPE_NAMES for name in cast("list[Any]", types)
    )


def _modernize(node: Schema) -> Schema:
    """Rewrite what older drafts and careless authors write in terms of 2020-12."""
    out = dict(node)
    if isinstance(out.get("items"), list):
        out = _modernize_tuple(out)
    for bound in ("Minimum", "Maximum"):
        _modernize_bound(out, f"exclusive{bound}", bound.lower())
    _modernize_type(out)
    _modernize_dependencies(out)
    _modernize_required(out)
    return out


def _modernize_tuple(node: Schema) -> Schema:
    """Rewrite a draft-7 tuple; its keyword keeps its place among the others."""
    new_names = {"items": "prefixItems"}
    node = {new_names.get(key, key): value for key, value in node.items()}
    if "additionalItems" in node:
        node["items"] = node.pop("additionalItems")
    return node


def _modernize_bound(node: Schema, exclusive: str, inclusive: str) -> None:
    """Rewrite draft-4 bounds, where `exclusiveMinimum: true` modifies `minimum`."""
    if not isinstance(node.get(exclusive), bool):
        return
    is_exclusive = node.pop(exclusive)
    if is_exclusive and inclusive in node:
        node[exclusive] = node.pop(inclusive)


def _modernize_type(node: Schema) -> None:
    """Write types in lower case (Google's protos have "STRING"), and drop unknown ones from a list."""
    types = node.get("type")
    if isinstance(types, str):
        node["type"] = types.lower()
    elif isinstance(types, list):
        lowered = [name.lower() for name in string_items(types)]
        node["type"] = unique(name for name in lowered if name in TYPE_NAMES)


def _modernize_dependencies(node: Schema) -> None:
    """Split `dependencies` of draft 7, which has one keyword for names and for schemas.

    The newer keywords win.
    """
    for name, value in _dict_items(node.pop("dependencies", {})):
        key = "dependentRequired" if isinstance(value, list) else "dependentSchemas"
        node[key] = {name: value, **dict(_dict_items(node.get(key)))}
    if isinstance(node.get("dependentRequired"), dict):
        node["dependentRequired"] = {
            name: string_items(value) for name, value in _dict_items(node["dependentRequired"])
        }


def _modernize_required(node: Schema) -> None:
    """Rewrite `required` of draft 3, which marks the property itself."""
    if isinstance(node.get("required"), bool):
        del node["required"]
    marked: list[str] = []
    for name, sub in _dict_items(node.get("properties")):
        if isinstance(sub, dict) and cast("Schema", sub).get("required") is True:
            marked.append(name)
    if marked or isinstance(node.get("required"), list):
        node["required"] = unique([*string_items(node.get("required")), *marked])


def _dict_items(value: Any) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        return []
    return list(cast("Schema", value).items())


def string_items(value: Any) -> list[str]:
    """Return the strings of a list, without duplicates."""
    if not isinstance(value, list):
        return []
    return unique(item for item in cast("list[Any]", value) if isinstance(item, str))


def allowed_types(node: Schema) -> list[str]:
    """Return the types that a node allows, as stated or as implied by its keywords. Empty: any."""
    declared = node.get("type")
    if isinstance(declared, str) and declared:
        return [declared]
    if declared:
        return declared
    if "enum" in node or "const" in node:
        names = unique(map(json_type, node.get("enum") or [node["const"]]))
        return drop_covered_integer(names)
    # A keyword of several types implies the first, the usual one: `minimum` a number, `format` a string.
    return unique(APPLICABLE_TYPES[key][0] for key in node if key in APPLICABLE_TYPES)


def drop_covered_integer(names: list[str]) -> list[str]:
    """Drop "integer" where "number" includes it."""
    if "number" not in names:
        return names
    return [name for name in names if name != "integer"]


# ---- references


class LocatedNode(NamedTuple):
    """A node and its JSON pointer.

    `survives_lowering`: `lower` leaves it where it is, so that references to it stay valid.
    """

    pointer: str
    node: Any
    survives_lowering: bool = False


class SchemaDocument:
    """A whole schema, in which references are resolved."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self._anchors: dict[str, LocatedNode] | None = None

    def resolve(self, ref: str) -> LocatedNode | None:
        """Return the node that a reference names; None for a remote or dangling one."""
        base = self.root.get("$id")
        if isinstance(base, str):
            ref = ref.removeprefix(base)
        ref = unquote(ref)
        if ref in ("", "#"):
            return LocatedNode("#", self.root, True)
        if not ref.startswith("#/"):
            return self.anchors.get(ref)
        node: Any = self.root
        segments = [part.replace("~1", "/").replace("~0", "~") for part in ref[2:].split("/")]
        # `lower` flattens the root to a plain object, without alternatives, and rewrites tuples.
        survives_lowering = segments[0] not in ("anyOf", "oneOf", "allOf", "not")
        for segment in segments:
            node = _find_child(node, segment)
            if isinstance(node, list) and segment in ("items", "additionalItems"):
                survives_lowering = False
        if not isinstance(node, (dict, bool)):
            return None
        return LocatedNode("#/" + "/".join(map(escape_pointer, segments)), node, survives_lowering)

    def follow(self, node: Any, max_steps: int = 60) -> Schema:
        """Return the node at the end of a chain of references; {} for anything that is no object."""
        for _ in range(max_steps):
            if not isinstance(node, dict):
                return {}
            ref = cast("Schema", node).get("$ref")
            if not isinstance(ref, str):
                break
            target = self.resolve(ref)
            node = target.node if target else {}
        return cast("Schema", node) if isinstance(node, dict) else {}

    @property
    def anchors(self) -> dict[str, LocatedNode]:
        """The nodes with an `$anchor` or `$id`, by the reference that names them."""
        if self._anchors is None:
            self._anchors = {}
            for at in iter_nodes(self.root):
                anchor = at.node.get("$anchor")
                if isinstance(anchor, str):
                    self._anchors.setdefault(f"#{anchor}", at)
                id = at.node.get("$id")
                if isinstance(id, str):
                    self._anchors.setdefault(id, at)
        return self._anchors

    def find_cycles(self) -> frozenset[str]:
        """Return the pointers of the definitions that can reach themselves (or lie between two that do)."""
        edges: dict[str, set[str]] = {}
        pending = [LocatedNode("#", self.root)]
        while pending:
            here = pending.pop()
            if here.pointer in edges:
                continue
            edges[here.pointer] = set()
            for at in iter_nodes(here.node, include_definitions=False):
                ref = at.node.get("$ref")
                target = self.resolve(ref) if isinstance(ref, str) else None
                if target is not None:
                    edges[here.pointer].add(target.pointer)
                    pending.append(target)
        # Without what leads out of the graph and, reversed, without what leads into it, only cycles are left.
        return frozenset(_prune_leaves(_prune_leaves(edges)))


def _find_child(node: Any, segment: str) -> Any:
    """Return what a segment of a JSON pointer names in an object or an array; None if there is nothing."""
    if isinstance(node, dict):
        return cast("Schema", node).get(segment)
    if not isinstance(node, list) or not re.fullmatch("[0-9]{1,6}", segment):
        return None
    items = cast("list[Any]", node)
    index = int(segment)
    return items[index] if index < len(items) else None


def escape_pointer(segment: str) -> str:
    """Escape a segment of a JSON pointer (RFC 6901)."""
    return segment.replace("~", "~0").replace("/", "~1")


def map_children(node: Schema, convert: Callable[[Any, str, str], Any]) -> Schema:
    """Return a copy of a node with each schema inside it replaced by `convert(schema, keyword, name or
    index)`.
    """
    out = dict(node)
    for key, value in node.items():
        if key in MAP_KEYWORDS and isinstance(value, dict):
            out[key] = {name: convert(sub, key, name) for name, sub in cast("Schema", value).items()}
        elif key in LIST_KEYWORDS and isinstance(value, list):
            out[key] = [convert(sub, key, str(i)) for i, sub in enumerate(cast("list[Any]", value))]
        elif key in SUBSCHEMA_KEYWORDS:
            out[key] = convert(value, key, "")
    return out


def iter_nodes(node: Any, pointer: str = "#", *, include_definitions: bool = True) -> Iterator[LocatedNode]:
    """Yield every node of a schema, outer ones first."""
    if not isinstance(node, dict):
        return
    yield LocatedNode(pointer, cast("Schema", node))
    for key, value in cast("Schema", node).items():
        if not include_definitions and key in ("$defs", "definitions"):
            continue
        path = f"{pointer}/{key}"
        is_list = key in LIST_KEYWORDS or key == "items"  # draft 7 writes a tuple as a list of items
        if key in MAP_KEYWORDS and isinstance(value, dict):
            for name, sub in cast("Schema", value).items():
                yield from iter_nodes(
                    sub, f"{path}/{escape_pointer(name)}", include_definitions=include_definitions
                )
        elif is_list and isinstance(value, list):
            for i, sub in enumerate(cast("list[Any]", value)):
                yield from iter_nodes(sub, f"{path}/{i}", include_definitions=include_definitions)
        elif key in SUBSCHEMA_KEYWORDS:
            yield from iter_nodes(value, path, include_definitions=include_definitions)


def _prune_leaves(edges: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Remove nodes without successors until there are none left; return the edges between the others,
    reversed.
    """
    sorter = TopologicalSorter(edges)
    with suppress(CycleError):  # the sorter still returns what is before a cycle
        sorter.prepare()
    left = {*edges}
    while ready := sorter.get_ready():
        left.difference_update(ready)
        sorter.done(*ready)
    reversed_edges: dict[str, set[str]] = {name: set() for name in left}
    for name in left:
        for target in edges[name] & left:
            reversed_edges[target].add(name)
    return reversed_edges


# ---- merging


def _is_same(ours: Any, theirs: Any) -> bool:
    """Whether two values are the same in JSON, where true is not 1 and 1.0 is 1, at any depth."""
    if json_type(ours) != json_type(theirs):
        return False
    match ours:
        case dict():
            first, second = cast("Schema", ours), cast("Schema", theirs)
            return first.keys() == second.keys() and all(
                _is_same(value, second[key]) for key, value in first.items()
            )
        case list():
            items, others = cast("list[Any]", ours), cast("list[Any]", theirs)
            return len(items) == len(others) and all(map(_is_same, items, others))
        case _:
            return ours == theirs


def _merge_maps(ours: Schema, theirs: Schema) -> Schema:
    shared = {name: _merge_subschemas(ours[name], theirs[name]) for name in ours if name in theirs}
    return {**theirs, **ours, **shared}


def _merge_enums(ours: list[Any], theirs: list[Any]) -> list[Any] | None:
    """Return the values that both list; None if there are none."""
    texts = {dumps(value) for value in theirs}
    shared = [value for value in ours if dumps(value) in texts]
    return shared or None


def _merge_types(ours: str | list[str], theirs: str | list[str]) -> str | list[str] | None:
    """Return the types that both allow.

    An integer is a number: "number" and "integer" have "integer" in common.
    """
    first = allowed_types({"type": ours})
    second = allowed_types({"type": theirs})
    shared = {*_add_integer(first)} & {*_add_integer(second)}
    names = drop_covered_integer([name for name in unique([*first, *second]) if name in shared])
    if len(names) == 1:
        return names[0]
    return names or None


def _add_integer(names: list[str]) -> list[str]:
    return [*names, "integer"] if "number" in names else names


def _merge_subschemas(ours: Any, theirs: Any) -> Any:
    if ours is False or theirs is False:
        return False
    if ours in (True, {}) or _is_same(ours, theirs):
        return theirs
    if theirs in (True, {}):
        return ours
    return {"allOf": [ours, theirs]}


# How two values of a keyword become one that means both.
_MERGES: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("properties", "patternProperties", "dependentSchemas"), _merge_maps),
    **dict.fromkeys(
        ("items", "additionalProperties", "propertyNames", "unevaluatedProperties"), _merge_subschemas
    ),
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
    "uniqueItems": lambda ours, theirs: ours or theirs,
    # It permits null, where other keywords restrict (OpenAPI 3.0.3): null is valid only if both permit it.
    "nullable": lambda ours, theirs: ours and theirs,
    "required": lambda ours, theirs: unique([*ours, *theirs]),
    "description": lambda ours, theirs: ours if theirs in ours else f"{ours} {theirs}",
    "enum": _merge_enums,
    "type": _merge_types,
}


def merge_nodes(first: Schema, second: Schema) -> tuple[Schema, Schema]:
    """Return `allOf` of two nodes as one, and the keywords of the second that could not be merged.

    Annotations never conflict: where they differ, the first node's are kept.
    """
    merged = dict(first)
    conflicts: Schema = {}
    for key, theirs in second.items():
        if key not in merged or _is_same(merged[key], theirs):
            merged[key] = theirs
            continue
        value = _merge_keyword(key, merged[key], theirs)
        if value is not None:
            merged[key] = value
        elif key not in ANNOTATIONS:
            conflicts[key] = theirs
    return merged, conflicts


def _merge_keyword(key: str, ours: Any, theirs: Any) -> Any:
    """Return one value that means both; None if there is none."""
    merge = _MERGES.get(key)
    if merge is None:
        return None
    return merge(ours, theirs)
