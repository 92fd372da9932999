"""References, allOf and unions: a node as one form, or a plain `anyOf` of forms, before a dialect's steps look at it."""

from typing import Any

import msgspec

from toolglot.jsontext import dumps_text
from toolglot.schema.dialects import SILENT
from toolglot.schema.lowered import MAX_DEPTH
from toolglot.schema.plain import (
    ANNOTATIONS,
    APPLIES,
    Found,
    Schema,
    merge,
    tidy,
    types,
    unique,
    without,
)
from toolglot.schema.run import UNROLL, At, Run, cut, described, impossible, in_words, is_null, kind_word, parted, short

__all__ = ["as_choices", "may_be_object", "plain_object", "settled"]


def settled(node: Schema, at: At, run: Run) -> tuple[Schema, At]:
    """A node without allOf and oneOf, its `$ref` resolved or ready to stay, its anyOf with but notes beside it."""
    node, at = _expanded(node, at, run)
    while not run.dialect.open and ("anyOf" in node or "oneOf" in node):
        node = _union(node, at, run)
        branches, rest = node.get("anyOf", []), without(node, "anyOf")
        wraps = run.dialect.refs == "wrap" and not at.top and rest.keys() - SILENT
        if len(branches) > 1 or (branches and wraps and "$ref" in branches[0]):
            break
        if branches:
            node, at = _expanded(run.merged(rest, run.tidied(branches[0], at), at), at, run)
    return node, at


def _expanded(node: Schema, at: At, run: Run, *, inline: bool = False) -> tuple[Schema, At]:
    """A node with its `$ref` and allOf merged into it, as far as the dialect wants that (or both, for `inline`)."""
    while "$ref" in node or ("allOf" in node and (inline or not run.dialect.open)):
        if "$ref" not in node:
            node, at = _all_merged(node, at, run)
            continue
        rest, found = without(node, "$ref"), run.document.find(node["$ref"])
        if found is None:  # "reference to component … which was not found in the schema"
            run.lose("$ref", at, f"{node['$ref']!r} is not in this schema; any value is allowed here")
            node = rest
        elif not inline and (kept := _kept_reference(node, rest, found, at, run)):
            return kept, at
        elif at.stack.count(found.pointer) >= UNROLL or len(at.stack) >= MAX_DEPTH or run.budget < 0:
            whole = run.merged(rest, run.tidied(found.node, at), at)
            node = cut(whole, at, run, "it is recursive, or too large when written out; cut")
        else:
            run.budget -= 1
            cyclic = found.pointer in run.cycles or (at.cyclic and bool(rest))
            at = msgspec.structs.replace(at, cyclic=cyclic, stack=(*at.stack, found.pointer))
            node = run.merged(rest, without(run.tidied(found.node, at), "$anchor"), at)
    return node, at


def _all_merged(node: Schema, at: At, run: Run) -> tuple[Schema, At]:
    out = without(node, "allOf")
    for i, branch in enumerate(node["allOf"]):
        run.budget -= 1
        inner = msgspec.structs.replace(at, path=f"{at.path}.allOf[{i}]")
        part, inner = _expanded(run.tidied(branch, inner), inner, run, inline=True)
        out = run.merged(out, part, inner)
        at = msgspec.structs.replace(at, cyclic=at.cyclic or inner.cyclic, stack=inner.stack)
    return out, at


def _kept_reference(node: Schema, rest: Schema, found: Found, at: At, run: Run) -> Schema | None:
    """The node with its reference as the dialect writes it; None where the definition must be written out."""
    dialect = run.dialect
    if dialect.refs == "free":
        return node if found.stable else None
    closes = at.cyclic and found.pointer in run.cycles
    if at.top or dialect.refs == "inline" or (closes and (dialect.recursion == "cut" or not at.optional)):
        return None
    notes = {key: value for key, value in rest.items() if key == "description" or in_words(key, value)}
    if rest.keys() - ANNOTATIONS:
        return None
    if notes and dialect.refs == "wrap":
        return {"anyOf": [{"$ref": node["$ref"]}], **notes}
    if notes and found.pointer not in at.stack:
        return None
    for key in notes:
        run.lose(key, at, f"{dialect.name} takes nothing beside a recursive $ref; dropped")
    return {"$ref": run.reference(found)}


def _union(node: Schema, at: At, run: Run) -> Schema:
    """anyOf or oneOf as an anyOf of forms that can be true, with nothing but notes beside it; or dissolved."""
    key = "anyOf" if "anyOf" in node else "oneOf"
    base, branches = _branches(node, key, at, run)
    form, notes = parted(base)
    if not branches:
        run.lose(key, at, "none of its branches can be true; dropped")
        return base
    if form.keys() <= {"type"} and (choices := as_choices(branches)):
        return run.merged(base, choices, at)
    if any(APPLIES.get(name) == ("object",) for name in form):
        return _flattened(base, branches, key, at, run)
    if key == "oneOf" and not _apart(branches, run):
        notes = run.told(notes, key, "; ".join(map(kind_word, branches)), at)
    if form:
        branches = [{"allOf": [form, branch]} for branch in branches]
    elif run.dialect.nullable and any(map(is_null, branches)) and not all(map(is_null, branches)):
        branches = [branch for branch in branches if not is_null(branch)]
        notes = notes | {"nullable": True}
    return {**notes, "anyOf": branches}


def _branches(node: Schema, key: str, at: At, run: Run) -> tuple[Schema, list[Schema]]:
    """A union: what stands beside it, and its branches that can be true."""
    branches = [run.tidied(branch, at.down(f"{key}[{i}]")) for i, branch in enumerate(node[key])]
    branches = [without(branch, *SILENT) if "$ref" in branch else branch for branch in branches]
    return without(node, key), unique(branch for branch in branches if not impossible(branch))


def _values(node: Schema) -> list[Any]:
    """The values of a node that does nothing but name them."""
    if node.keys() - ANNOTATIONS - {"type", "enum", "const"}:
        return []
    return node.get("enum") or ([node["const"]] if "const" in node else [None] if is_null(node) else [])


def as_choices(branches: list[Schema]) -> Schema | None:
    """Branches that only name values of one type, as one enum; what each of them means goes into the description."""
    values = [_values(branch) for branch in branches]
    kinds = unique(kind for branch in branches for kind in types(branch))
    kinds = [kind for kind in kinds if kind != "integer" or "number" not in kinds]
    real = [branch for branch in branches if not is_null(branch)]
    if not all(values) or len([kind for kind in kinds if kind != "null"]) != 1 or len(branches) < 2:
        return None
    node = {"type": kinds if len(kinds) > 1 else kinds[0], "enum": unique(value for some in values for value in some)}
    if len(real) == 1:
        return described(node, real[0].get("description", ""))
    names = [", ".join(map(dumps_text, some)) for some in values]
    labels = [branch.get("description") or branch.get("title") for branch in branches]
    told = "; ".join(f"{name}: {label.rstrip('.')}" for name, label in zip(names, labels, strict=True) if label)
    return described(node, told and f"{short(told)}.")


def _apart(branches: list[Schema], run: Run) -> bool:
    """Whether no value can match two of the branches, as far as can be seen: then oneOf and anyOf are the same."""
    if len(branches) > 50:
        return False
    found = [run.document.find(branch["$ref"]) if "$ref" in branch else None for branch in branches]
    nodes = [tidy(there.node)[0] if there else branch for there, branch in zip(found, branches, strict=True)]
    return all(_differ(a, b) for i, a in enumerate(nodes) for b in nodes[:i])


def _differ(a: Schema, b: Schema) -> bool:
    def clash(key: str, ours: list[Any], theirs: list[Any]) -> bool:
        return bool(ours and theirs and merge({key: ours}, {key: theirs})[1])

    def fixed(node: Schema, name: str) -> list[Any]:
        return _values(tidy(node.get("properties", {}).get(name))[0])

    shared = [name for name in a.get("required", []) if name in b.get("required", [])]
    if clash("type", types(a), types(b)) or clash("enum", _values(a), _values(b)):
        return True
    return any(clash("enum", fixed(a, name), fixed(b, name)) for name in shared)


def plain_object(node: Schema, at: At, run: Run) -> tuple[Schema, At]:
    """A node without `$ref`, allOf, anyOf and oneOf."""
    run.budget -= 1
    node, at = _expanded(node, at, run, inline=True)
    for key in ("anyOf", "oneOf"):
        if key in node:
            node = _flattened(*_branches(node, key, at, run), key, at, run)
    return node, at


def may_be_object(node: Schema) -> bool:
    """Whether objects can be valid for a node."""
    return not types(node) or "object" in types(node)


def _flattened(base: Schema, branches: list[Schema], key: str, at: At, run: Run) -> Schema:
    """An object with alternatives as one object: all properties, required what all demand, the choice in words."""
    parts = [part for branch in branches if may_be_object(part := plain_object(branch, at, run)[0])]
    if len(parts) < 2:
        return run.merged(base, parts[0], at) if parts else base
    ours: Schema = base.get("properties", {})
    names = unique([*ours, *(name for part in parts for name in part.get("properties", {}))])
    out = {"type": "object"} | base | {"properties": {name: _property(name, ours, parts, at, run) for name in names}}
    common = [name for name in parts[0].get("required", []) if all(name in part.get("required", []) for part in parts)]
    if required := unique([*base.get("required", []), *common]):
        out["required"] = required
    if "additionalProperties" not in out and all(part.get("additionalProperties") is False for part in parts):
        out["additionalProperties"] = False
    return run.told(out, key, "; ".join(unique(map(_form, parts))), at)


def _property(name: str, ours: Schema, parts: list[Schema], at: At, run: Run) -> Any:
    """A property that alternatives describe each in their way."""
    given = [part["properties"][name] for part in parts if name in part.get("properties", {})]
    forms = [run.tidied(form, at.down(name)) for form in unique(given)]
    one = forms[0] if len(forms) == 1 else as_choices(forms)
    if name not in ours:
        return {"anyOf": forms} if one is None else one
    if one is None or len(given) < len(parts):
        return ours[name]
    return run.merged(run.tidied(ours[name], at.down(name)), one, at)


def _form(part: Schema) -> str:
    """An alternative in a few words: what it requires."""
    known = part.get("properties", {})
    fixed = {name: _values(tidy(known.get(name))[0]) for name in part.get("required") or known}
    said = [f"{name}={dumps_text(values[0])}" if len(values) == 1 else name for name, values in fixed.items()]
    return ", ".join(said) or part.get("title") or "nothing more"
