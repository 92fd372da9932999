"""Lowers a tool's schema to what a provider accepts, with the losses, and the steps that restore a model's
arguments.

`lower` is pure, total and idempotent: any JSON value becomes a schema that the dialect accepts (or
UsageError, if it is no schema), and lowering the result again changes and loses nothing. What a dialect
cannot express goes into a description.

The walk goes from the root down. At each node:
    clean       older drafts become 2020-12, nonsense is dropped
    normalize   `$ref` is resolved, allOf merged, oneOf becomes anyOf, unions of one dissolve (closed
    dialects) PASSES      enum → type → untyped → object → array → unsupported: each makes one aspect of the
    node legal, and what is
                still not legal at the end moves into the description
    children    the same for the schemas inside
"""

import re
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
    SchemaDocument,
    allowed_types,
    clean_node,
    copy_schema,
    drop_keywords,
    escape_pointer,
    iter_nodes,
    map_children,
    merge_nodes,
    unique,
)
from toolglot.schema.lowering_context import (
    NULL_SCHEMA,
    RESTORATIONS_KEY,
    Lowering,
    SchemaPath,
    is_null,
    truncate_node,
)
from toolglot.schema.lowering_result import MAX_DEPTH, LoweredSchema, Restoration
from toolglot.schema.normalize import allows_object, flatten_object, merge_as_enum, normalize_node
from toolglot.schema.passes import OPEN_PASSES, PASSES, Pass

__all__ = ["check_strict_limits", "lower"]

_NESTING_KEYWORDS = frozenset({*MAP_KEYWORDS, *LIST_KEYWORDS, *SUBSCHEMA_KEYWORDS, "$ref"})


def lower(schema: Mapping[str, Any] | None, dialect: Dialect, *, tool_name: str) -> LoweredSchema:
    """Return a tool's parameters as the dialect accepts them. No schema means no arguments."""
    raw = copy_schema(schema or {})
    if not isinstance(raw, (dict, bool)):
        raise UsageError(f"the parameters of tool {tool_name!r} are {raw!r:.80}, not a JSON Schema")
    lowering = Lowering(clean_node(raw)[0], dialect, tool_name)
    # OpenAI: "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top
    # level"; Anthropic: "input_schema does not support oneOf, allOf, or anyOf at the top level". So every
    # root becomes a plain object.
    start = SchemaPath(in_cycle="#" in lowering.cyclic_pointers, expanded=("#",))
    root, start = flatten_object(lowering.clean(raw, start), start, lowering)
    if not allows_object(root):
        lowering.add_loss("type", start, "arguments are always an object")
    root = lowering.move_to_description(root, ("not", "enum", "const"), start)
    root = root if "type" in root else {"type": "object", **root}
    out = _lower_node({**root, "type": "object", "properties": root.get("properties", {})}, start, lowering)
    definitions: Schema = {}
    # Lowering a definition may refer to more of them.
    for name, target in lowering.definitions:
        in_cycle = target.pointer in lowering.cyclic_pointers
        path = SchemaPath(f"$.$defs.{name}", 1, in_cycle, (target.pointer,), is_definition=True)
        definitions[name] = _lower_node(target.node, path, lowering)
    if definitions:
        out = {**out, "$defs": definitions}
    restorations: list[Restoration] = []
    out = _collect_restorations(out, "#", restorations)
    return LoweredSchema(out, tuple(lowering.losses), tuple(restorations), lowering.root_description)


def _lower_node(schema: Any, path: SchemaPath, lowering: Lowering) -> Schema:
    """Return a schema, and everything inside it, as the dialect accepts it."""
    dialect = lowering.dialect
    lowering.node_budget -= 1
    node = lowering.clean(schema, path)
    is_too_large = lowering.node_budget < 0 or path.depth > MAX_DEPTH
    if path.depth and is_too_large and not _is_leaf(node, dialect):
        node = truncate_node(node, path, lowering, "the schema is too deep or too large here; truncated")
    node, path = normalize_node(node, path, lowering)
    for lower_aspect in _find_passes(node, dialect):
        node = lower_aspect(node, path, lowering)
    required = node.get("required", ())

    def lower_child(sub: Any, key: str, name: str) -> Any:
        if isinstance(sub, bool) and key.startswith(("additional", "unevaluated")):
            return sub
        is_optional = key in MAP_KEYWORDS and name not in required
        return _lower_node(sub, path.child(_name_step(node, key, name), optional=is_optional), lowering)

    out = map_children(node, lower_child)
    if dialect.is_open or "anyOf" not in out:
        return out
    return _merge_branches(out, dialect)


def _find_passes(node: Schema, dialect: Dialect) -> tuple[Pass, ...]:
    if dialect.is_open:
        return OPEN_PASSES
    return () if "$ref" in node else PASSES


def _name_step(node: Schema, key: str, name: str) -> str:
    """Return the step to a schema inside a node, for the paths of losses."""
    if key == "properties":
        return name
    if key in MAP_KEYWORDS:
        return f"{key}.{name}"
    # "string or null" is one form to a reader: no "anyOf[0]".
    if key == "anyOf" and sum(sub != NULL_SCHEMA for sub in node["anyOf"]) == 1:
        return ""
    if not name:
        return key
    return f"{key}[{name}]"


def _is_leaf(node: Schema, dialect: Dialect) -> bool:
    """Whether no pass can add schemas inside the node: then truncating it would gain nothing."""
    types = allowed_types(node)
    if _NESTING_KEYWORDS & node.keys() or "array" in types:
        return False
    becomes_union = len(types) > 1 or ("nullable" in node and not dialect.uses_nullable)
    return not becomes_union


def _merge_branches(node: Schema, dialect: Dialect) -> Schema:
    """Remove branches of a lowered union that became equal; merge those that became choices of one type."""
    branches = unique(NULL_SCHEMA if is_null(branch) else branch for branch in node["anyOf"])
    real = [branch for branch in branches if branch != NULL_SCHEMA]
    allows_null = len(real) < len(branches)
    # Where a type may be a list, an enum may hold null.
    candidates = branches if dialect.allows_type_lists else real
    choices = merge_as_enum(candidates)
    if choices:
        real = [choices]
        branches = [choices]
        allows_null = allows_null and not dialect.allows_type_lists
        if allows_null:
            branches.append(NULL_SCHEMA)
    if dialect.uses_nullable and real and allows_null:
        branches = unique(map(_mark_nullable, real))
    siblings = drop_keywords(node, "anyOf")
    if len(branches) > 1:
        return {**siblings, "anyOf": branches}
    (branch,) = branches
    if "$ref" not in branch:
        return merge_nodes(siblings, branch)[0]
    if siblings and dialect.refs == "wrap":
        return {**siblings, "anyOf": branches}
    return branch


def _mark_nullable(node: Schema) -> Schema:
    if "anyOf" in node:
        return {"anyOf": [*map(_mark_nullable, node["anyOf"])]}
    return {**node, "nullable": True}


def _collect_restorations(node: Any, pointer: str, restorations: list[Restoration]) -> Any:
    """Take the restorations off the nodes that carry them, and note each with its final pointer."""
    if not isinstance(node, dict):
        return node
    attached = cast("Schema", node).get(RESTORATIONS_KEY, ())
    restorations += [msgspec.structs.replace(restoration, pointer=pointer) for restoration in attached]

    def collect(sub: Any, key: str, name: str) -> Any:
        step = f"/{key}" if key in SUBSCHEMA_KEYWORDS else f"/{key}/{escape_pointer(name)}"
        return _collect_restorations(sub, pointer + step, restorations)

    return map_children(drop_keywords(cast("Schema", node), RESTORATIONS_KEY), collect)


def check_strict_limits(schemas: Mapping[str, Schema], dialect: Dialect) -> dict[str, str]:
    """Return the tools that must be sent without `strict`, each with the reason.

    `schemas` are lowered, in request order.
    """
    problems: dict[str, str] = {}
    # Anthropic counts these over all strict tools of a request; OpenAI's limits are per tool.
    totals: dict[str, int] = dict.fromkeys(("tools", "optional", "unions"), 0)
    for tool, schema in schemas.items():
        counts = _count_parts(schema)
        counts |= {name: total + counts[name] for name, total in totals.items()}
        over: list[str] = []
        for name, count in counts.items():
            bound = getattr(dialect.limits, name)
            if bound and count > bound:
                over.append(f"{name} {count} > {bound}")
        if dialect.recursion == "never" and SchemaDocument(schema).find_cycles():
            over.append("a recursive definition")
        if over:
            problems[tool] = f"{dialect.name} limits: {', '.join(over)}"
        else:
            totals = {name: counts[name] for name in totals}
    return problems


def _count_parts(schema: Schema) -> dict[str, int]:
    """Count what the limits of strict modes are about, by the names of the limits."""
    counts = dict.fromkeys(("optional", "unions", "depth", "properties", "enum_values"), 0) | {"tools": 1}
    for at in iter_nodes(schema):
        properties = at.node.get("properties", {})
        counts["properties"] += len(properties)
        counts["optional"] += len(properties.keys() - {*at.node.get("required", ())})
        counts["unions"] += sum(
            "anyOf" in sub or isinstance(sub.get("type"), list) for sub in properties.values()
        )
        counts["enum_values"] += len(at.node.get("enum", ()))
        # Counted without following references (pydantic-ai 2.66, live-tested 2026).
        counts["depth"] = max(counts["depth"], len(re.findall(r"/properties/|/items\b", at.pointer)))
    return counts
