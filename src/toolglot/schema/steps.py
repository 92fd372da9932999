"""A dialect's steps: each looks at one node, its children still as they came, and makes one thing of it legal."""

import re
from collections.abc import Callable
from typing import Any, cast

from toolglot.schema.dialects import Dialect
from toolglot.schema.lowered import JsonText, Omit, Pairs, Rename
from toolglot.schema.plain import (
    APPLIES,
    Schema,
    fits,
    json_type,
    types,
    unique,
    without,
)
from toolglot.schema.run import NULL, WAYS, At, Run, described, fresh, impossible, is_null, kind_word, parted, with_null

__all__ = ["OPEN_STEPS", "STEPS", "Step"]


def _choices(node: Schema, at: At, run: Run) -> Schema:
    """`enum` with values that have the type, where the dialect takes values of that type."""
    if "enum" not in node:
        return node
    kinds, dialect = types(node), run.dialect
    values = [value for value in unique(node["enum"]) if fits(value, kinds)]
    real = [value for value in values if value is not None]
    if not values:
        run.lose("enum", at, "none of its values has the type; dropped")
    if not real:
        return without(node, "enum") | (NULL if values else {})
    node = {**node, "type": [k for k in kinds if k == "null" or any(fits(v, [k]) for v in real)]}
    if not {json_type(value) for value in real} <= (dialect.enums or frozenset()):
        return run.moved(node, ["enum"], at)
    if "" in real and not dialect.empty_enum_value:  # Gemini: "enum[0]: cannot be empty"
        run.lose("enum", at, f"{dialect.name} takes no empty string among the values; dropped")
        values = [value for value in values if value != ""]
    values = [value for value in values if value is not None or not dialect.nullable]
    return {**node, "enum": values} if values else described(without(node, "enum"), "May be empty.")


def _typed(node: Schema, at: At, run: Run) -> Schema:
    """One type to a node, or a list of them where the dialect takes that; null as the dialect says it."""
    kinds, dialect = types(node), run.dialect
    if "anyOf" in node or not kinds:
        return node
    means = {*kinds, *(["number"] if "integer" in kinds else [])}
    node = {key: value for key, value in node.items() if means & {*APPLIES.get(key, means)}}
    real = [kind for kind in kinds if kind != "null"]
    if dialect.nullable and real:
        node, kinds = node | ({"nullable": True} if real != kinds else {}), real
    nested = "object" in real or "array" in real
    lists = {"any": len(real) == 1 or not nested, "scalars": not nested, "never": False}
    if len(kinds) == 1 or lists[dialect.type_lists]:
        return {**node, "type": kinds if len(kinds) > 1 else kinds[0]}
    form, notes = parted(node)
    return {**notes, "anyOf": [_of_kind(form, kind) for kind in kinds]}


def _of_kind(form: Schema, kind: str) -> Schema:
    """What a node says about one of its types."""
    out = {key: value for key, value in form.items() if kind in APPLIES.get(key, [kind])}
    values = [value for value in out.pop("enum", []) if fits(value, [kind]) and kind != "null"]
    return {**out, "type": kind, **({"enum": values} if values else {})}


def _anything(node: Schema, at: At, run: Run) -> Schema:
    """A value of no type, asked for as JSON text where the dialect wants a type."""
    return node if "type" in node or "anyOf" in node or run.dialect.freeform else _as_text(node, "", at, run)


def _as_text(node: Schema, kind: str, at: At, run: Run) -> Schema:
    out = run.moved(node, [key for key in node if key not in ("description", "type", "nullable")], at)
    out = described(out, f"{'A JSON object' if kind else 'Any JSON value'}, written as JSON text.")
    return _retyped(out, "string") | {WAYS: [JsonText(kind)]}


def _retyped(node: Schema, kind: str) -> Schema:
    return {**node, "type": [kind, "null"] if "null" in types(node) else kind}


def _object(node: Schema, at: At, run: Run) -> Schema:
    """An object with named properties; free keys as the dialect says them."""
    if "object" not in types(node) or "anyOf" in node:
        return node
    dialect, extra, values = run.dialect, node.get("additionalProperties"), _map_values(node)
    named = {name: sub for name, sub in node.get("properties", {}).items() if not impossible(sub)}
    never = impossible(extra)  # no key but the named ones
    if at.depth and not named:
        if values is not None and dialect.maps == "pairs":
            return _as_pairs(node, values, at, run)
        if not (dialect.empty_objects if never else dialect.freeform):
            return _as_text(node, "object", at, run)
        if values is None and not never:  # any key, any value: what an object allows anyway
            node = run.moved(node, ["additionalProperties"] if extra not in (True, {}) else [], at)
            return _required(without(node, "properties", "additionalProperties"), {}, at, run)
    if dialect.closed and extra is not None and not never:
        run.lose("additionalProperties", at, f"{dialect.name} takes named keys only")
    closes = (dialect.closed or never) and dialect.says("additionalProperties")
    keys = {"properties": named} if named or closes or not at.depth else {}
    node = without(node, "properties", *(["additionalProperties"] if never else [])) | keys
    return _named(_required(node | ({"additionalProperties": False} if closes else {}), named, at, run), at, run)


def _required(node: Schema, named: Schema, at: At, run: Run) -> Schema:
    """`required` with names of properties; where a dialect requires all, the optional ones are nullable."""
    names, node = node.get("required", []), without(node, "required")
    if unknown := [name for name in names if name not in named]:
        node = run.told(node, "required", unknown, at, "these are not among the properties; moved into the description")
    if not run.dialect.all_required:
        names = [name for name in names if name in named]
        return node | ({"required": names} if names else {})
    optional = {name: run.tidied(sub, at.down(name)) for name, sub in named.items() if name not in names}
    omit = tuple(name for name, sub in optional.items() if not _null_has_meaning(sub))
    nullable = {name: with_null(sub) for name, sub in optional.items()}
    ways = {WAYS: [Omit(omit)]} if omit else {}
    return {**node, "properties": named | nullable, "required": list(named), **ways}


def _null_has_meaning(node: Schema) -> bool:
    """Whether null for an optional property is a value of its own: allowed, and not what a missing one stands for."""
    return ("null" in types(node) or NULL in node.get("anyOf", [])) and node.get("default") is not None


def _named(node: Schema, at: At, run: Run) -> Schema:
    """An object with names of properties that the provider takes."""
    named, dialect = node.get("properties", {}), run.dialect
    order = [name for name in node.get("propertyOrdering", []) if name in named]
    node = without(node, "propertyOrdering") | ({"propertyOrdering": order} if order else {})
    if not dialect.names or (at.depth and not dialect.names_below_root):
        return node
    sent: dict[str, str] = {name: name for name in named if re.fullmatch(dialect.names, name)}
    for name in [name for name in named if name not in sent]:
        legal = re.sub(r"[^a-zA-Z0-9_]", "_", name)[:60]
        sent[name] = fresh(legal if re.match("[a-zA-Z_]", legal) else f"_{legal}", sent.values())
        run.lose("property name", at.down(name), f"{dialect.name} does not take it; sent as {sent[name]!r}")
    back = {new: old for old, new in sent.items() if new != old}
    if not back:
        return node
    listed = [key for key in ("required", "propertyOrdering") if key in node]
    lists = {key: [sent.get(name, name) for name in node[key]] for key in listed}
    ways = [*node.get(WAYS, []), Rename(back)]
    return {**node, **lists, "properties": {sent[name]: sub for name, sub in named.items()}, WAYS: ways}


def _map_values(node: Schema) -> Any:
    """The schema of the values of a map; None for an object that is none."""
    extra, patterns = node.get("additionalProperties"), node.get("patternProperties")
    if isinstance(extra, dict) and not impossible(extra):
        return cast("Schema", extra) if parted(cast("Schema", extra))[0] else None
    forms = unique(patterns.values()) if patterns and extra is not True else []
    return {"anyOf": forms} if len(forms) > 1 else forms[0] if forms else None


def _as_pairs(node: Schema, values: Any, at: At, run: Run) -> Schema:
    """A map as an array of its entries."""
    out, key = without(node, "properties", "additionalProperties"), Schema(type="string")
    if "propertyNames" in out:
        key = {"allOf": [key, out.pop("propertyNames")]}
    elif "patternProperties" in out and not isinstance(node.get("additionalProperties"), dict):
        key["pattern"] = "|".join(out.pop("patternProperties"))
    for ours, theirs in (("minProperties", "minItems"), ("maxProperties", "maxItems")):
        if ours in out:
            out[theirs] = out.pop(ours)
    out = run.moved(out, [name for name in out if APPLIES.get(name) == ("object",)], at)
    out = described(_retyped(out, "array"), "A map: one entry for each key.")
    entry = {"type": "object", "properties": {"key": key, "value": values}, "required": ["key", "value"]}
    return {**out, "items": {**entry, "additionalProperties": False}, WAYS: [Pairs()]}


def _array(node: Schema, at: At, run: Run) -> Schema:
    """An array with `items`; a tuple as a list of its forms where the dialect has no tuples."""
    if "array" not in types(node) or "anyOf" in node:
        return node
    out, dialect, prefix = dict(node), run.dialect, node.get("prefixItems", [])
    if impossible(out.get("items")):
        out = without(out, "items") | {"maxItems": min(len(prefix), out.get("maxItems", len(prefix)))}
    if prefix and not dialect.says("prefixItems"):
        forms = unique([*prefix, *([out["items"]] if "items" in out else [])])
        if "items" not in out and dialect.says("maxItems"):
            out = out | {"minItems": len(prefix), "maxItems": len(prefix)} | out
        out = without(out, "prefixItems") | {"items": {"anyOf": forms} if len(forms) > 1 else forms[0]}
        if len(forms) > 1:
            out = run.told(out, "prefixItems", ", ".join(map(kind_word, prefix)), at)
    return out if "items" in out or dialect.bare_arrays else {**out, "items": {}}


def _told(node: Schema, at: At, run: Run) -> Schema:
    """The node with what cannot stay in its description."""
    dialect = run.dialect
    gone = [key for key, value in node.items() if key != WAYS and not _may_stay(key, value, node, dialect)]
    node = run.moved(node, gone, at)
    if not at.depth and not dialect.root_description:
        node, run.note = without(node, "description"), node.get("description", "")
    return _alone(node) if dialect.unions_alone and "anyOf" in node else node


def _may_stay(key: str, value: Any, node: Schema, dialect: Dialect) -> bool:
    if key in ("$defs", "definitions"):  # those that are used come back at the end
        return dialect.refs == "free"
    if dialect.open or not dialect.says(key):
        return dialect.says(key)
    if dialect.unions_alone and "anyOf" in node:
        return key in ("anyOf", "description", "nullable")
    match key:
        case "format":
            return value in (dialect.formats or ())
        case "pattern":
            return _common_regex(value)
        case "minItems":
            return dialect.min_items is None or value <= dialect.min_items
        case "default":
            return json_type(value) not in ("object", "array", "null")
        case _:
            return True


def _common_regex(pattern: str) -> bool:
    """Whether a pattern is one that a grammar can be made of: no lookaround, no back reference."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return not re.search(r"\(\?(?!:)|\\[1-9]", pattern)


def _alone(node: Schema) -> Schema:
    """A union with nothing beside it: what is said of all its branches is said in each."""
    note, flag = node.get("description", ""), {"nullable": True} if node.get("nullable") else {}
    texts = [described({"description": note}, branch.get("description", "")) for branch in node["anyOf"]]
    notes = [text if note and not is_null(branch) else {} for text, branch in zip(texts, node["anyOf"], strict=True)]
    return {"anyOf": [{**branch, **text, **flag} for branch, text in zip(node["anyOf"], notes, strict=True)]}


def _open_root(node: Schema, at: At, run: Run) -> Schema:
    return node if at.depth else _named(node, at, run)


def _open_array(node: Schema, at: At, run: Run) -> Schema:
    """OpenAI: "array schema missing items"."""
    bare = "array" in types({"type": node.get("type")}) and "items" not in node and not run.dialect.bare_arrays
    return {**node, "items": {}} if bare else node


Step = Callable[[Schema, At, Run], Schema]


STEPS: tuple[Step, ...] = (_choices, _typed, _anything, _object, _array, _told)


OPEN_STEPS: tuple[Step, ...] = (_open_root, _open_array, _told)
