"""References, allOf and unions: a node as one form, or a plain `anyOf` of forms, before a dialect's steps look at it."""

from typing import Any

import msgspec

from toolglot.jsontext import dumps_text
from toolglot.schema.dialects import SILENT_KEYWORDS
from toolglot.schema.json_schema import (
    ANNOTATIONS,
    APPLICABLE_TYPES,
    LocatedNode,
    Schema,
    allowed_types,
    clean_node,
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
    """A node without allOf and oneOf, its `$ref` resolved or ready to stay, its anyOf with but notes beside it."""
    node, path = _expand(node, path, lowering)
    while not lowering.dialect.is_open and ("anyOf" in node or "oneOf" in node):
        node = _normalize_union(node, path, lowering)
        branches, rest = node.get("anyOf", []), drop_keywords(node, "anyOf")
        wraps = lowering.dialect.refs == "wrap" and not path.is_definition and rest.keys() - SILENT_KEYWORDS
        if len(branches) > 1 or (branches and wraps and "$ref" in branches[0]):
            break
        if branches:
            node, path = _expand(lowering.merge(rest, lowering.clean(branches[0], path), path), path, lowering)
    return node, path


def _expand(node: Schema, path: SchemaPath, lowering: Lowering, *, inline: bool = False) -> tuple[Schema, SchemaPath]:
    """A node with its `$ref` and allOf merged into it, as far as the dialect wants that (or both, for `inline`)."""
    while "$ref" in node or ("allOf" in node and (inline or not lowering.dialect.is_open)):
        if "$ref" not in node:
            node, path = _merge_all_of(node, path, lowering)
            continue
        rest, found = drop_keywords(node, "$ref"), lowering.document.resolve(node["$ref"])
        if found is None:  # "reference to component … which was not found in the schema"
            lowering.add_loss("$ref", path, f"{node['$ref']!r} is not in this schema; any value is allowed here")
            node = rest
        elif not inline and (kept := _keep_reference(node, rest, found, path, lowering)):
            return kept, path
        elif path.expanded.count(found.pointer) >= MAX_UNROLLS or len(path.expanded) >= MAX_DEPTH or lowering.node_budget < 0:
            whole = lowering.merge(rest, lowering.clean(found.node, path), path)
            node = truncate_node(whole, path, lowering, "it is recursive, or too large when written out; cut")
        else:
            lowering.node_budget -= 1
            cyclic = found.pointer in lowering.cyclic_pointers or (path.in_cycle and bool(rest))
            path = msgspec.structs.replace(path, in_cycle=cyclic, expanded=(*path.expanded, found.pointer))
            node = lowering.merge(rest, drop_keywords(lowering.clean(found.node, path), "$anchor"), path)
    return node, path


def _merge_all_of(node: Schema, path: SchemaPath, lowering: Lowering) -> tuple[Schema, SchemaPath]:
    out = drop_keywords(node, "allOf")
    for i, branch in enumerate(node["allOf"]):
        lowering.node_budget -= 1
        inner = msgspec.structs.replace(path, text=f"{path.text}.allOf[{i}]")
        part, inner = _expand(lowering.clean(branch, inner), inner, lowering, inline=True)
        out = lowering.merge(out, part, inner)
        path = msgspec.structs.replace(path, in_cycle=path.in_cycle or inner.in_cycle, expanded=inner.expanded)
    return out, path


def _keep_reference(node: Schema, siblings: Schema, target: LocatedNode, path: SchemaPath, lowering: Lowering) -> Schema | None:
    """The node with its reference as the dialect writes it; None where the definition must be written out."""
    dialect = lowering.dialect
    if dialect.refs == "free":
        return node if target.is_stable else None
    closes = path.in_cycle and target.pointer in lowering.cyclic_pointers
    if path.is_definition or dialect.refs == "inline" or (closes and (dialect.recursion == "cut" or not path.in_optional)):
        return None
    notes = {key: value for key, value in siblings.items() if key == "description" or describe_keyword(key, value)}
    if siblings.keys() - ANNOTATIONS:
        return None
    if notes and dialect.refs == "wrap":
        return {"anyOf": [{"$ref": node["$ref"]}], **notes}
    if notes and target.pointer not in path.expanded:
        return None
    for key in notes:
        lowering.add_loss(key, path, f"{dialect.name} takes nothing beside a recursive $ref; dropped")
    return {"$ref": lowering.register_definition(target)}


def _normalize_union(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """anyOf or oneOf as an anyOf of forms that can be true, with nothing but notes beside it; or dissolved."""
    key = "anyOf" if "anyOf" in node else "oneOf"
    base, branches = _split_union(node, key, path, lowering)
    form, notes = split_annotations(base)
    if not branches:
        lowering.add_loss(key, path, "none of its branches can be true; dropped")
        return base
    if form.keys() <= {"type"} and (choices := merge_as_enum(branches)):
        return lowering.merge(base, choices, path)
    if any(APPLICABLE_TYPES.get(name) == ("object",) for name in form):
        return _flatten_alternatives(base, branches, key, path, lowering)
    if key == "oneOf" and not _are_disjoint(branches, lowering):
        notes = lowering.describe(notes, key, "; ".join(map(describe_schema, branches)), path)
    if form:
        branches = [{"allOf": [form, branch]} for branch in branches]
    elif lowering.dialect.uses_nullable and any(map(is_null, branches)) and not all(map(is_null, branches)):
        branches = [branch for branch in branches if not is_null(branch)]
        notes = notes | {"nullable": True}
    return {**notes, "anyOf": branches}


def _split_union(node: Schema, key: str, path: SchemaPath, lowering: Lowering) -> tuple[Schema, list[Schema]]:
    """A union: what stands beside it, and its branches that can be true."""
    branches = [lowering.clean(branch, path.child(f"{key}[{i}]")) for i, branch in enumerate(node[key])]
    branches = [drop_keywords(branch, *SILENT_KEYWORDS) if "$ref" in branch else branch for branch in branches]
    return drop_keywords(node, key), unique(branch for branch in branches if not is_impossible(branch))


def _enum_values(node: Schema) -> list[Any]:
    """The values of a node that does nothing but name them."""
    if node.keys() - ANNOTATIONS - {"type", "enum", "const"}:
        return []
    return node.get("enum") or ([node["const"]] if "const" in node else [None] if is_null(node) else [])


def merge_as_enum(branches: list[Schema]) -> Schema | None:
    """Branches that only name values of one type, as one enum; what each of them means goes into the description."""
    values = [_enum_values(branch) for branch in branches]
    kinds = unique(kind for branch in branches for kind in allowed_types(branch))
    kinds = [kind for kind in kinds if kind != "integer" or "number" not in kinds]
    real = [branch for branch in branches if not is_null(branch)]
    if not all(values) or len([kind for kind in kinds if kind != "null"]) != 1 or len(branches) < 2:
        return None
    node = {"type": kinds if len(kinds) > 1 else kinds[0], "enum": unique(value for some in values for value in some)}
    if len(real) == 1:
        return add_description(node, real[0].get("description", ""))
    names = [", ".join(map(dumps_text, some)) for some in values]
    labels = [branch.get("description") or branch.get("title") for branch in branches]
    told = "; ".join(f"{name}: {label.rstrip('.')}" for name, label in zip(names, labels, strict=True) if label)
    return add_description(node, told and f"{shorten(told)}.")


def _are_disjoint(branches: list[Schema], lowering: Lowering) -> bool:
    """Whether no value can match two of the branches, as far as can be seen: then oneOf and anyOf are the same."""
    if len(branches) > 50:
        return False
    found = [lowering.document.resolve(branch["$ref"]) if "$ref" in branch else None for branch in branches]
    nodes = [clean_node(there.node)[0] if there else branch for there, branch in zip(found, branches, strict=True)]
    return all(_cannot_overlap(a, b) for i, a in enumerate(nodes) for b in nodes[:i])


def _cannot_overlap(a: Schema, b: Schema) -> bool:
    def clash(key: str, ours: list[Any], theirs: list[Any]) -> bool:
        return bool(ours and theirs and merge_nodes({key: ours}, {key: theirs})[1])

    def fixed(node: Schema, name: str) -> list[Any]:
        return _enum_values(clean_node(node.get("properties", {}).get(name))[0])

    shared = [name for name in a.get("required", []) if name in b.get("required", [])]
    if clash("type", allowed_types(a), allowed_types(b)) or clash("enum", _enum_values(a), _enum_values(b)):
        return True
    return any(clash("enum", fixed(a, name), fixed(b, name)) for name in shared)


def flatten_object(node: Schema, path: SchemaPath, lowering: Lowering) -> tuple[Schema, SchemaPath]:
    """A node without `$ref`, allOf, anyOf and oneOf."""
    lowering.node_budget -= 1
    node, path = _expand(node, path, lowering, inline=True)
    for key in ("anyOf", "oneOf"):
        if key in node:
            node = _flatten_alternatives(*_split_union(node, key, path, lowering), key, path, lowering)
    return node, path


def allows_object(node: Schema) -> bool:
    """Whether objects can be valid for a node."""
    return not allowed_types(node) or "object" in allowed_types(node)


def _flatten_alternatives(base: Schema, branches: list[Schema], key: str, path: SchemaPath, lowering: Lowering) -> Schema:
    """An object with alternatives as one object: all properties, required what all demand, the choice in words."""
    parts = [part for branch in branches if allows_object(part := flatten_object(branch, path, lowering)[0])]
    if len(parts) < 2:
        return lowering.merge(base, parts[0], path) if parts else base
    ours: Schema = base.get("properties", {})
    names = unique([*ours, *(name for part in parts for name in part.get("properties", {}))])
    out = (
        {"type": "object"} | base | {"properties": {name: _merge_property(name, ours, parts, path, lowering) for name in names}}
    )
    common = [name for name in parts[0].get("required", []) if all(name in part.get("required", []) for part in parts)]
    if required := unique([*base.get("required", []), *common]):
        out["required"] = required
    if "additionalProperties" not in out and all(part.get("additionalProperties") is False for part in parts):
        out["additionalProperties"] = False
    return lowering.describe(out, key, "; ".join(unique(map(_describe_alternative, parts))), path)


def _merge_property(name: str, ours: Schema, parts: list[Schema], path: SchemaPath, lowering: Lowering) -> Any:
    """A property that alternatives describe each in their way."""
    given = [part["properties"][name] for part in parts if name in part.get("properties", {})]
    forms = [lowering.clean(form, path.child(name)) for form in unique(given)]
    one = forms[0] if len(forms) == 1 else merge_as_enum(forms)
    if name not in ours:
        return {"anyOf": forms} if one is None else one
    if one is None or len(given) < len(parts):
        return ours[name]
    return lowering.merge(lowering.clean(ours[name], path.child(name)), one, path)


def _describe_alternative(part: Schema) -> str:
    """An alternative in a few words: what it requires."""
    known = part.get("properties", {})
    fixed = {name: _enum_values(clean_node(known.get(name))[0]) for name in part.get("required") or known}
    said = [f"{name}={dumps_text(values[0])}" if len(values) == 1 else name for name, values in fixed.items()]
    return ", ".join(said) or part.get("title") or "nothing more"
