"""References, allOf and unions: brings a node to one form, or to a plain `anyOf` of forms, before a dialect's
passes see it.
"""

from itertools import chain, combinations
from typing import Any

from msgspec.structs import replace

from toolglot.common.jsontext import dumps_text
from toolglot.schema.dialects import SILENT_KEYWORDS, Dialect
from toolglot.schema.json_schema import (
    ANNOTATIONS,
    APPLICABLE_TYPES,
    LocatedNode,
    Schema,
    allowed_types,
    clean_node,
    drop_covered_integer,
    drop_keywords,
    merge_nodes,
    unique,
)
from toolglot.schema.lowering_context import (
    MAX_UNROLLS,
    Lowering,
    SchemaPath,
    add_description,
    describe_keyword,
    describe_schema,
    is_impossible,
    is_null,
    shorten,
    split_annotations,
    truncate_node,
)
from toolglot.schema.lowering_result import MAX_DEPTH

__all__ = ["allows_object", "flatten_object", "merge_as_enum", "normalize_node"]


def normalize_node(node: Schema, path: SchemaPath, lowering: Lowering) -> tuple[Schema, SchemaPath]:
    """Remove allOf and oneOf, resolve or keep `$ref`, and leave only annotations beside anyOf."""
    node, path = _expand(node, path, lowering)
    while not lowering.dialect.is_open and ("anyOf" in node or "oneOf" in node):
        node = _normalize_union(node, path, lowering)
        branches = node.get("anyOf", [])
        if not branches:
            continue
        siblings = drop_keywords(node, "anyOf")
        if len(branches) > 1 or _is_wrapped_reference(branches[0], siblings, path, lowering.dialect):
            break
        # A union of one: its branch may be a reference or a union again.
        node = lowering.merge(siblings, lowering.clean(branches[0], path), path)
        node, path = _expand(node, path, lowering)
    return node, path


def _is_wrapped_reference(branch: Schema, siblings: Schema, path: SchemaPath, dialect: Dialect) -> bool:
    """Whether a union of one is how the dialect writes a reference that has something beside it."""
    if dialect.refs != "wrap" or path.is_definition:
        return False
    return bool(siblings.keys() - SILENT_KEYWORDS) and "$ref" in branch


def _expand(
    node: Schema, path: SchemaPath, lowering: Lowering, *, inline: bool = False
) -> tuple[Schema, SchemaPath]:
    """Merge a node's `$ref` and allOf into it as far as the dialect requires (both entirely, for `inline`)."""
    merges_parts = inline or not lowering.dialect.is_open
    while True:
        if "$ref" not in node:
            if "allOf" not in node or not merges_parts:
                return node, path
            node, path = _merge_parts(node, path, lowering)
            continue
        siblings = drop_keywords(node, "$ref")
        target = lowering.document.resolve(node["$ref"])
        if target is None:  # a reference to nothing
            lowering.add_loss(
                "$ref", path, f"{node['$ref']!r} is not in this schema; any value is allowed here"
            )
            node = siblings
            continue
        if not inline:
            reference = _keep_reference(node, siblings, target, path, lowering)
            if reference is not None:
                return reference, path
        if _is_expanded_enough(target, path, lowering):
            whole = lowering.merge(siblings, lowering.clean(target.node, path), path)
            node = truncate_node(
                whole, path, lowering, "it is recursive, or too large when expanded; truncated"
            )
            continue
        lowering.node_budget -= 1
        in_cycle = target.pointer in lowering.cyclic_pointers or (path.in_cycle and bool(siblings))
        path = replace(path, in_cycle=in_cycle, expanded=(*path.expanded, target.pointer))
        # A copy must not repeat the anchor: two of them would make references ambiguous.
        node = lowering.merge(siblings, drop_keywords(lowering.clean(target.node, path), "$anchor"), path)


def _merge_parts(node: Schema, path: SchemaPath, lowering: Lowering) -> tuple[Schema, SchemaPath]:
    """Merge the parts of allOf into their node."""
    merged = drop_keywords(node, "allOf")
    for i, part in enumerate(node["allOf"]):
        lowering.node_budget -= 1
        inner = replace(path, text=f"{path.text}.allOf[{i}]")
        expanded, inner = _expand(lowering.clean(part, inner), inner, lowering, inline=True)
        merged = lowering.merge(merged, expanded, inner)
        # The merged node now holds text of whatever the parts expanded.
        path = replace(path, in_cycle=path.in_cycle or inner.in_cycle, expanded=inner.expanded)
    return merged, path


def _is_expanded_enough(target: LocatedNode, path: SchemaPath, lowering: Lowering) -> bool:
    """Whether to expand a definition once more would not end, or make the schema too large."""
    if path.expanded.count(target.pointer) >= MAX_UNROLLS:
        return True
    return len(path.expanded) >= MAX_DEPTH or lowering.node_budget < 0


def _keep_reference(
    node: Schema, siblings: Schema, target: LocatedNode, path: SchemaPath, lowering: Lowering
) -> Schema | None:
    """Return the node with its reference as the dialect writes it; None if the definition must be expanded."""
    dialect = lowering.dialect
    if dialect.refs == "free":
        return node if target.survives_lowering else None
    if path.is_definition or dialect.refs == "inline":
        return None
    closes_cycle = path.in_cycle and target.pointer in lowering.cyclic_pointers
    allows_cycle = path.in_optional and dialect.recursion != "never"
    if closes_cycle and not allows_cycle:
        return None
    if siblings.keys() - ANNOTATIONS:
        return None
    notes: Schema = {}
    for key, value in siblings.items():
        if key == "description" or describe_keyword(key, value):
            notes[key] = value
    if notes and dialect.refs == "wrap":
        return {"anyOf": [{"$ref": node["$ref"]}], **notes}
    if notes and target.pointer not in path.expanded:
        return None
    for key in notes:
        lowering.add_loss(key, path, f"{dialect.name} allows nothing beside a recursive $ref; dropped")
    return {"$ref": lowering.register_definition(target)}


def _normalize_union(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """Return anyOf or oneOf as an anyOf of possible forms, with only annotations beside it; or dissolve it."""
    key = "anyOf" if "anyOf" in node else "oneOf"
    base, branches = _split_union(node, key, path, lowering)
    form, notes = split_annotations(base)
    if not branches:
        lowering.add_loss(key, path, "none of its branches can match; dropped")
        return base
    if form.keys() <= {"type"}:
        choices = merge_as_enum(branches)
        if choices:
            return lowering.merge(base, choices, path)
    # Properties beside a union: closing every branch would forbid them, so one object has to hold everything.
    if any(APPLICABLE_TYPES.get(name) == ("object",) for name in form):
        return _flatten_alternatives(base, branches, key, path, lowering)
    if key == "oneOf" and not _are_disjoint(branches, lowering):
        notes = lowering.describe(notes, key, "; ".join(map(describe_schema, branches)), path)
    if form:
        return {**notes, "anyOf": [{"allOf": [form, branch]} for branch in branches]}
    real = [branch for branch in branches if not is_null(branch)]
    allows_null = 0 < len(real) < len(branches)
    if lowering.dialect.uses_nullable and allows_null:
        return {**notes, "nullable": True, "anyOf": real}
    return {**notes, "anyOf": branches}


def _split_union(node: Schema, key: str, path: SchemaPath, lowering: Lowering) -> tuple[Schema, list[Schema]]:
    """Return what stands beside a union, and those of its branches that can match."""
    branches: list[Schema] = []
    for i, raw in enumerate(node[key]):
        branch = lowering.clean(raw, path.child(f"{key}[{i}]"))
        if is_impossible(branch):
            continue
        if "$ref" in branch:
            branch = drop_keywords(branch, *SILENT_KEYWORDS)
        branches.append(branch)
    return drop_keywords(node, key), unique(branches)


def _enum_values(node: Schema) -> list[Any]:
    """Return the values of a node that only lists values."""
    if node.keys() - ANNOTATIONS - {"type", "enum", "const"}:
        return []
    if node.get("enum"):
        return node["enum"]
    if "const" in node:
        return [node["const"]]
    return [None] if is_null(node) else []


def merge_as_enum(branches: list[Schema]) -> Schema | None:
    """Merge branches that only list values of one type into one enum; their labels go into the description."""
    values = [_enum_values(branch) for branch in branches]
    if len(branches) < 2 or not all(values):
        return None
    types = drop_covered_integer(unique(chain.from_iterable(map(allowed_types, branches))))
    if len({*types} - {"null"}) != 1:
        return None
    type_or_types = types if len(types) > 1 else types[0]
    node = {"type": type_or_types, "enum": unique(chain.from_iterable(values))}
    real = [branch for branch in branches if not is_null(branch)]
    if len(real) == 1:
        return add_description(node, real[0].get("description", ""))
    labels: list[str] = []
    for branch, group in zip(branches, values, strict=True):
        label = branch.get("description") or branch.get("title")
        if label:
            labels.append(f"{', '.join(map(dumps_text, group))}: {label.rstrip('.')}")
    if not labels:
        return add_description(node, "")
    return add_description(node, f"{shorten('; '.join(labels))}.")


def _are_disjoint(branches: list[Schema], lowering: Lowering) -> bool:
    """Whether no value can match two branches, as far as can be seen: then oneOf and anyOf mean the same."""
    if len(branches) > 50:  # the comparison is quadratic
        return False
    nodes: list[Schema] = []
    for branch in branches:
        target = lowering.document.resolve(branch["$ref"]) if "$ref" in branch else None
        if target is not None:
            branch, _ = clean_node(target.node)
        nodes.append(branch)
    return all(_are_apart(first, second) for first, second in combinations(nodes, 2))


def _are_apart(first: Schema, second: Schema) -> bool:
    """Whether two nodes differ in type, in their values, or in a discriminator: a property that both require."""
    if _conflict("type", allowed_types(first), allowed_types(second)):
        return True
    if _conflict("enum", _enum_values(first), _enum_values(second)):
        return True
    shared = [name for name in first.get("required", []) if name in second.get("required", [])]
    return any(
        _conflict("enum", _property_values(first, name), _property_values(second, name)) for name in shared
    )


def _conflict(key: str, ours: list[Any], theirs: list[Any]) -> bool:
    """Whether nothing satisfies both values of a keyword."""
    if not ours or not theirs:
        return False
    _, conflicts = merge_nodes({key: ours}, {key: theirs})
    return bool(conflicts)


def _property_values(node: Schema, name: str) -> list[Any]:
    form, _ = clean_node(node.get("properties", {}).get(name))
    return _enum_values(form)


def flatten_object(node: Schema, path: SchemaPath, lowering: Lowering) -> tuple[Schema, SchemaPath]:
    """Return a node without `$ref`, allOf, anyOf and oneOf."""
    lowering.node_budget -= 1
    node, path = _expand(node, path, lowering, inline=True)
    for key in ("anyOf", "oneOf"):
        if key in node:
            base, branches = _split_union(node, key, path, lowering)
            node = _flatten_alternatives(base, branches, key, path, lowering)
    return node, path


def allows_object(node: Schema) -> bool:
    """Whether objects can be valid for a node."""
    types = allowed_types(node)
    return not types or "object" in types


def _flatten_alternatives(
    base: Schema, branches: list[Schema], key: str, path: SchemaPath, lowering: Lowering
) -> Schema:
    """Turn alternatives of objects into one object: all properties, required what all require, the choice
    described.
    """
    flattened = [flatten_object(branch, path, lowering)[0] for branch in branches]
    parts = [part for part in flattened if allows_object(part)]
    if not parts:
        return base
    if len(parts) == 1:
        return lowering.merge(base, parts[0], path)
    ours: Schema = base.get("properties", {})
    names = list(ours)
    for part in parts:
        names += part.get("properties", {})
    properties = {name: _merge_property(name, ours, parts, path, lowering) for name in unique(names)}
    out = {"type": "object"} | base | {"properties": properties}
    required = unique([*base.get("required", []), *_required_by_all(parts)])
    if required:
        out["required"] = required
    all_are_closed = all(part.get("additionalProperties") is False for part in parts)
    if all_are_closed and "additionalProperties" not in out:
        out["additionalProperties"] = False
    return lowering.describe(out, key, "; ".join(unique(map(_label_alternative, parts))), path)


def _required_by_all(parts: list[Schema]) -> list[str]:
    """Return the names that every alternative requires."""
    first, *others = parts
    shared: list[str] = first.get("required", [])
    for part in others:
        required = {*part.get("required", [])}
        shared = [name for name in shared if name in required]
    return shared


def _label_alternative(part: Schema) -> str:
    """Return an alternative in a few words: what it requires."""
    words: list[str] = []
    for name in part.get("required") or part.get("properties", {}):
        values = _property_values(part, name)
        if len(values) == 1:
            words.append(f"{name}={dumps_text(values[0])}")
        else:
            words.append(name)
    return ", ".join(words) or part.get("title") or "nothing more"


def _merge_property(
    name: str, ours: Schema, parts: list[Schema], path: SchemaPath, lowering: Lowering
) -> Any:
    """Return one schema for a property that the alternatives describe differently."""
    variants = [part["properties"][name] for part in parts if name in part.get("properties", {})]
    forms = [lowering.clean(form, path.child(name)) for form in unique(variants)]
    merged = forms[0] if len(forms) == 1 else merge_as_enum(forms)
    if name not in ours:
        if merged is None:
            return {"anyOf": forms}
        return merged
    # An alternative that does not mention the property allows whatever the base does.
    if merged is None or len(variants) < len(parts):
        return ours[name]
    return lowering.merge(lowering.clean(ours[name], path.child(name)), merged, path)
