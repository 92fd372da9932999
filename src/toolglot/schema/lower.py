"""A tool's schema in the words of a wire, what was lost on the way, and the way back for arguments.

Law: pure, total, idempotent. Any JSON value gives a schema that the dialect accepts, or UsageError if it is no schema;
lowering twice changes and loses nothing more. What a dialect cannot say is told in the description, as a Loss.

The walk goes from the root down. At each node:
    tidied      older drafts made 2020-12, nonsense dropped (open dialects: this, and what else is refused)
    settled     `$ref` resolved, allOf merged, oneOf made anyOf, unions of one dissolved
    STEPS       choices → typed → anything → object → array → told: enum values; types and null; JSON text where a type
                is needed; maps, closing, required, names; tuples and items; last, what must go into the description
    descended   the same for its children
"""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from toolglot.errors import UsageError
from toolglot.schema.dialects import Dialect
from toolglot.schema.json_schema import (
    LIST_KEYWORDS,
    MAP_KEYWORDS,
    SUBSCHEMA_KEYWORDS,
    Schema,
    allowed_types,
    clean_node,
    copy_schema,
    drop_keywords,
    escape_pointer,
    merge_nodes,
    unique,
)
from toolglot.schema.lowering_context import NULL_SCHEMA, RESTORATIONS_KEY, Lowering, SchemaPath, is_null, truncate_node
from toolglot.schema.lowering_result import MAX_DEPTH, JsonText, LoweredSchema, Omit, Pairs, Rename, Restoration, restore
from toolglot.schema.normalize import allows_object, flatten_object, merge_as_enum, normalize_node
from toolglot.schema.openapi import from_openapi
from toolglot.schema.passes import OPEN_PASSES, PASSES
from toolglot.schema.strict_limits import check_strict_limits

__all__ = [
    "JsonText",
    "LoweredSchema",
    "Omit",
    "Pairs",
    "Rename",
    "Restoration",
    "check_strict_limits",
    "from_openapi",
    "lower",
    "restore",
]


def lower(schema: Mapping[str, Any] | None, dialect: Dialect, *, tool_name: str) -> LoweredSchema:
    """The parameters of a tool as the dialect accepts them. No schema means no arguments."""
    raw = copy_schema(schema or {})
    if not isinstance(raw, (dict, bool)):
        raise UsageError(f"the parameters of tool {tool_name!r} are {raw!r:.80}, not a JSON Schema")
    run = Lowering(clean_node(raw)[0], dialect, tool_name)
    out, ways = _lower_root(raw, run), list[Restoration]()
    definitions = _lower_definitions(run)
    out = _collect_restorations(out | ({"$defs": definitions} if definitions else {}), "#", ways)
    return LoweredSchema(out, tuple(run.losses), tuple(ways), run.root_description)


def _lower_root(raw: Any, lowering: Lowering) -> Schema:
    """A plain object: "must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"."""
    start = SchemaPath(in_cycle="#" in lowering.cyclic_pointers, expanded=("#",))
    node, at = flatten_object(lowering.clean(raw, start), start, lowering)
    if not allows_object(node):
        lowering.add_loss("type", at, "arguments are always an object")
    node = lowering.move_to_description(node, ("not", "enum", "const"), at)
    node = node if "type" in node else {"type": "object", **node}
    return _lower_node({**node, "type": "object", "properties": node.get("properties", {})}, at, lowering)


def _lower_node(schema: Any, path: SchemaPath, lowering: Lowering) -> Schema:
    """A schema, and all inside it, as the dialect accepts it."""
    lowering.node_budget -= 1
    node = lowering.clean(schema, path)
    if path.depth and (lowering.node_budget < 0 or path.depth > MAX_DEPTH) and not _is_leaf(node, lowering.dialect):
        node = truncate_node(node, path, lowering, "the schema is too deep or too large here; cut")
    node, path = normalize_node(node, path, lowering)
    for step in OPEN_PASSES if lowering.dialect.is_open else PASSES if "$ref" not in node else ():
        node = step(node, path, lowering)
    return _lower_children(node, path, lowering)


def _is_leaf(node: Schema, dialect: Dialect) -> bool:
    """Whether a node stays a single one whatever the steps make of it."""
    kinds = allowed_types(node)
    nests = any(key in node for key in (*MAP_KEYWORDS, *LIST_KEYWORDS, *SUBSCHEMA_KEYWORDS, "$ref")) or (
        "nullable" in node and not dialect.uses_nullable
    )
    return not nests and len(kinds) < 2 and "array" not in kinds


def _lower_children(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """The node with its children lowered."""
    out, required = Schema(), node.get("required", ())
    for key, value in node.items():
        if key in MAP_KEYWORDS:
            prefix = "" if key == "properties" else f"{key}."
            places = {name: path.child(prefix + name, optional=name not in required) for name in value}
            out[key] = {name: _lower_node(sub, places[name], lowering) for name, sub in value.items()}
        elif key in LIST_KEYWORDS:
            one = key == "anyOf" and sum(sub != NULL_SCHEMA for sub in value) == 1  # a form or null: nobody says "branch"
            out[key] = [_lower_node(sub, path.child("" if one else f"{key}[{i}]"), lowering) for i, sub in enumerate(value)]
        elif key in SUBSCHEMA_KEYWORDS and (isinstance(value, dict) or not key.startswith(("additional", "unevaluated"))):
            out[key] = _lower_node(value, path.child(key), lowering)
        else:
            out[key] = value
    return out if lowering.dialect.is_open or "anyOf" not in out else _merge_branches(out, lowering.dialect)


def _merge_branches(node: Schema, dialect: Dialect) -> Schema:
    """A lowered union without branches that came out equal, or as mere choices of one type."""
    branches = unique(NULL_SCHEMA if is_null(branch) else branch for branch in node["anyOf"])
    real, apart = [branch for branch in branches if branch != NULL_SCHEMA], dialect.type_lists == "never"
    if choices := merge_as_enum(real if apart else branches):
        real, branches = [choices], [choices, *([NULL_SCHEMA] if apart and NULL_SCHEMA in branches else [])]
    if dialect.uses_nullable and real and NULL_SCHEMA in branches:
        branches = unique(map(_mark_nullable, real))
    rest = drop_keywords(node, "anyOf")
    if len(branches) > 1 or (rest and "$ref" in branches[0] and dialect.refs == "wrap"):
        return {**rest, "anyOf": branches}
    return branches[0] if "$ref" in branches[0] else merge_nodes(rest, branches[0])[0]


def _mark_nullable(node: Schema) -> Schema:
    return {"anyOf": [*map(_mark_nullable, node["anyOf"])]} if "anyOf" in node else {**node, "nullable": True}


def _lower_definitions(lowering: Lowering) -> Schema:
    """The definitions that references name, lowered."""
    out: Schema = {}
    for name, found in lowering.definitions:  # grows while it is read
        at = SchemaPath(f"$.$defs.{name}", 1, found.pointer in lowering.cyclic_pointers, (found.pointer,), is_definition=True)
        out[name] = _lower_node(found.node, at, lowering)
    return out


def _collect_restorations(node: Schema, pointer: str, restorations: list[Restoration]) -> Schema:
    """A lowered schema without the ways that its nodes carry; these go to `ways`, each with its place."""
    out = drop_keywords(node, RESTORATIONS_KEY)
    restorations += [msgspec.structs.replace(way, pointer=pointer) for way in node.get(RESTORATIONS_KEY, ())]
    for key, value in out.items():
        if key in MAP_KEYWORDS:
            out[key] = {
                name: _collect_restorations(sub, f"{pointer}/{key}/{escape_pointer(name)}", restorations)
                for name, sub in value.items()
            }
        elif key in LIST_KEYWORDS:
            out[key] = [_collect_restorations(sub, f"{pointer}/{key}/{i}", restorations) for i, sub in enumerate(value)]
        elif key in SUBSCHEMA_KEYWORDS and isinstance(value, dict):
            out[key] = _collect_restorations(cast("Schema", value), f"{pointer}/{key}", restorations)
    return out
