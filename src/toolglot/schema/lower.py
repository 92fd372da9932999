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
from toolglot.schema.lowered import MAX_DEPTH, JsonText, Lowered, Omit, Pairs, Rename, Way, restore
from toolglot.schema.openapi import from_openapi
from toolglot.schema.plain import (
    LISTS,
    MAPS,
    NODES,
    Schema,
    escape,
    merge,
    plain,
    tidy,
    types,
    unique,
    without,
)
from toolglot.schema.run import NULL, WAYS, At, Run, cut, is_null
from toolglot.schema.settle import as_choices, may_be_object, plain_object, settled
from toolglot.schema.steps import OPEN_STEPS, STEPS
from toolglot.schema.strict import strict_problems

__all__ = [
    "JsonText",
    "Lowered",
    "Omit",
    "Pairs",
    "Rename",
    "Way",
    "from_openapi",
    "lower",
    "restore",
    "strict_problems",
]


def lower(schema: Mapping[str, Any] | None, dialect: Dialect, *, tool: str) -> Lowered:
    """The parameters of a tool as the dialect accepts them. No schema means no arguments."""
    raw = plain(schema or {})
    if not isinstance(raw, (dict, bool)):
        raise UsageError(f"the parameters of tool {tool!r} are {raw!r:.80}, not a JSON Schema")
    run = Run(tidy(raw)[0], dialect, tool)
    out, ways = _root(raw, run), list[Way]()
    definitions = _definitions(run)
    out = _harvest(out | ({"$defs": definitions} if definitions else {}), "#", ways)
    return Lowered(out, tuple(run.losses), tuple(ways), run.note)


def _root(raw: Any, run: Run) -> Schema:
    """A plain object: "must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"."""
    start = At(cyclic="#" in run.cycles, stack=("#",))
    node, at = plain_object(run.tidied(raw, start), start, run)
    if not may_be_object(node):
        run.lose("type", at, "arguments are always an object")
    node = run.moved(node, ("not", "enum", "const"), at)
    node = node if "type" in node else {"type": "object", **node}
    return _node({**node, "type": "object", "properties": node.get("properties", {})}, at, run)


def _node(schema: Any, at: At, run: Run) -> Schema:
    """A schema, and all inside it, as the dialect accepts it."""
    run.budget -= 1
    node = run.tidied(schema, at)
    if at.depth and (run.budget < 0 or at.depth > MAX_DEPTH) and not _leaf(node, run.dialect):
        node = cut(node, at, run, "the schema is too deep or too large here; cut")
    node, at = settled(node, at, run)
    for step in OPEN_STEPS if run.dialect.open else STEPS if "$ref" not in node else ():
        node = step(node, at, run)
    return _descended(node, at, run)


def _leaf(node: Schema, dialect: Dialect) -> bool:
    """Whether a node stays a single one whatever the steps make of it."""
    kinds = types(node)
    nests = any(key in node for key in (*MAPS, *LISTS, *NODES, "$ref")) or ("nullable" in node and not dialect.nullable)
    return not nests and len(kinds) < 2 and "array" not in kinds


def _descended(node: Schema, at: At, run: Run) -> Schema:
    """The node with its children lowered."""
    out, required = Schema(), node.get("required", ())
    for key, value in node.items():
        if key in MAPS:
            prefix = "" if key == "properties" else f"{key}."
            places = {name: at.down(prefix + name, optional=name not in required) for name in value}
            out[key] = {name: _node(sub, places[name], run) for name, sub in value.items()}
        elif key in LISTS:
            one = key == "anyOf" and sum(sub != NULL for sub in value) == 1  # a form or null: nobody says "branch"
            out[key] = [_node(sub, at.down("" if one else f"{key}[{i}]"), run) for i, sub in enumerate(value)]
        elif key in NODES and (isinstance(value, dict) or not key.startswith(("additional", "unevaluated"))):
            out[key] = _node(value, at.down(key), run)
        else:
            out[key] = value
    return out if run.dialect.open or "anyOf" not in out else _fewer_branches(out, run.dialect)


def _fewer_branches(node: Schema, dialect: Dialect) -> Schema:
    """A lowered union without branches that came out equal, or as mere choices of one type."""
    branches = unique(NULL if is_null(branch) else branch for branch in node["anyOf"])
    real, apart = [branch for branch in branches if branch != NULL], dialect.type_lists == "never"
    if choices := as_choices(real if apart else branches):
        real, branches = [choices], [choices, *([NULL] if apart and NULL in branches else [])]
    if dialect.nullable and real and NULL in branches:
        branches = unique(map(_null_flagged, real))
    rest = without(node, "anyOf")
    if len(branches) > 1 or (rest and "$ref" in branches[0] and dialect.refs == "wrap"):
        return {**rest, "anyOf": branches}
    return branches[0] if "$ref" in branches[0] else merge(rest, branches[0])[0]


def _null_flagged(node: Schema) -> Schema:
    return {"anyOf": [*map(_null_flagged, node["anyOf"])]} if "anyOf" in node else {**node, "nullable": True}


def _definitions(run: Run) -> Schema:
    """The definitions that references name, lowered."""
    out: Schema = {}
    for name, found in run.definitions:  # grows while it is read
        at = At(f"$.$defs.{name}", 1, found.pointer in run.cycles, (found.pointer,), top=True)
        out[name] = _node(found.node, at, run)
    return out


def _harvest(node: Schema, pointer: str, ways: list[Way]) -> Schema:
    """A lowered schema without the ways that its nodes carry; these go to `ways`, each with its place."""
    out = without(node, WAYS)
    ways += [msgspec.structs.replace(way, at=pointer) for way in node.get(WAYS, ())]
    for key, value in out.items():
        if key in MAPS:
            out[key] = {name: _harvest(sub, f"{pointer}/{key}/{escape(name)}", ways) for name, sub in value.items()}
        elif key in LISTS:
            out[key] = [_harvest(sub, f"{pointer}/{key}/{i}", ways) for i, sub in enumerate(value)]
        elif key in NODES and isinstance(value, dict):
            out[key] = _harvest(cast("Schema", value), f"{pointer}/{key}", ways)
    return out
