"""A dialect's steps: each looks at one node, its children still as they came, and makes one thing of it legal."""

import re
from collections.abc import Callable
from typing import Any, cast

from toolglot.schema.dialects import Dialect
from toolglot.schema.json_schema import (
    APPLICABLE_TYPES,
    Schema,
    allowed_types,
    drop_keywords,
    has_type,
    json_type,
    unique,
)
from toolglot.schema.lowering_context import (
    NULL_SCHEMA,
    RESTORATIONS_KEY,
    Lowering,
    SchemaPath,
    add_description,
    allow_null,
    describe_schema,
    is_impossible,
    is_null,
    split_annotations,
    unique_name,
)
from toolglot.schema.lowering_result import JsonText, Omit, Pairs, Rename

__all__ = ["OPEN_PASSES", "PASSES", "Pass"]


def _lower_enum(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """`enum` with values that have the type, where the dialect takes values of that type."""
    if "enum" not in node:
        return node
    kinds, dialect = allowed_types(node), lowering.dialect
    values = [value for value in unique(node["enum"]) if has_type(value, kinds)]
    real = [value for value in values if value is not None]
    if not values:
        lowering.add_loss("enum", path, "none of its values has the type; dropped")
    if not real:
        return drop_keywords(node, "enum") | (NULL_SCHEMA if values else {})
    node = {**node, "type": [k for k in kinds if k == "null" or any(has_type(v, [k]) for v in real)]}
    if not {json_type(value) for value in real} <= (dialect.enum_types or frozenset()):
        return lowering.move_to_description(node, ["enum"], path)
    if "" in real and not dialect.allows_empty_enum_value:  # Gemini: "enum[0]: cannot be empty"
        lowering.add_loss("enum", path, f"{dialect.name} takes no empty string among the values; dropped")
        values = [value for value in values if value != ""]
    values = [value for value in values if value is not None or not dialect.uses_nullable]
    return {**node, "enum": values} if values else add_description(drop_keywords(node, "enum"), "May be empty.")


def _lower_type(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """One type to a node, or a list of them where the dialect takes that; null as the dialect says it."""
    kinds, dialect = allowed_types(node), lowering.dialect
    if "anyOf" in node or not kinds:
        return node
    means = {*kinds, *(["number"] if "integer" in kinds else [])}
    node = {key: value for key, value in node.items() if means & {*APPLICABLE_TYPES.get(key, means)}}
    real = [kind for kind in kinds if kind != "null"]
    if dialect.uses_nullable and real:
        node, kinds = node | ({"nullable": True} if real != kinds else {}), real
    nested = "object" in real or "array" in real
    lists = {"any": len(real) == 1 or not nested, "scalars": not nested, "never": False}
    if len(kinds) == 1 or lists[dialect.type_lists]:
        return {**node, "type": kinds if len(kinds) > 1 else kinds[0]}
    form, notes = split_annotations(node)
    return {**notes, "anyOf": [_restrict_to_type(form, kind) for kind in kinds]}


def _restrict_to_type(form: Schema, type_name: str) -> Schema:
    """What a node says about one of its types."""
    out = {key: value for key, value in form.items() if type_name in APPLICABLE_TYPES.get(key, [type_name])}
    values = [value for value in out.pop("enum", []) if has_type(value, [type_name]) and type_name != "null"]
    return {**out, "type": type_name, **({"enum": values} if values else {})}


def _lower_untyped(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """A value of no type, asked for as JSON text where the dialect wants a type."""
    return (
        node
        if "type" in node or "anyOf" in node or lowering.dialect.allows_untyped
        else _as_json_text(node, "", path, lowering)
    )


def _as_json_text(node: Schema, type_name: str, path: SchemaPath, lowering: Lowering) -> Schema:
    out = lowering.move_to_description(node, [key for key in node if key not in ("description", "type", "nullable")], path)
    out = add_description(out, f"{'A JSON object' if type_name else 'Any JSON value'}, written as JSON text.")
    return _replace_type(out, "string") | {RESTORATIONS_KEY: [JsonText(type_name)]}


def _replace_type(node: Schema, type_name: str) -> Schema:
    return {**node, "type": [type_name, "null"] if "null" in allowed_types(node) else type_name}


def _lower_object(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """An object with named properties; free keys as the dialect says them."""
    if "object" not in allowed_types(node) or "anyOf" in node:
        return node
    dialect, extra, values = lowering.dialect, node.get("additionalProperties"), _find_map_values(node)
    named = {name: sub for name, sub in node.get("properties", {}).items() if not is_impossible(sub)}
    never = is_impossible(extra)  # no key but the named ones
    if path.depth and not named:
        if values is not None and dialect.maps == "pairs":
            return _map_as_pairs(node, values, path, lowering)
        if not (dialect.allows_empty_objects if never else dialect.allows_untyped):
            return _as_json_text(node, "object", path, lowering)
        if values is None and not never:  # any key, any value: what an object allows anyway
            node = lowering.move_to_description(node, ["additionalProperties"] if extra not in (True, {}) else [], path)
            return _lower_required(drop_keywords(node, "properties", "additionalProperties"), {}, path, lowering)
    if dialect.closes_objects and extra is not None and not never:
        lowering.add_loss("additionalProperties", path, f"{dialect.name} takes named keys only")
    closes = (dialect.closes_objects or never) and dialect.allows("additionalProperties")
    keys = {"properties": named} if named or closes or not path.depth else {}
    node = drop_keywords(node, "properties", *(["additionalProperties"] if never else [])) | keys
    return _lower_property_names(
        _lower_required(node | ({"additionalProperties": False} if closes else {}), named, path, lowering), path, lowering
    )


def _lower_required(node: Schema, properties: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """`required` with names of properties; where a dialect requires all, the optional ones are nullable."""
    names, node = node.get("required", []), drop_keywords(node, "required")
    if unknown := [name for name in names if name not in properties]:
        node = lowering.describe(
            node, "required", unknown, path, "these are not among the properties; moved into the description"
        )
    if not lowering.dialect.requires_all:
        names = [name for name in names if name in properties]
        return node | ({"required": names} if names else {})
    optional = {name: lowering.clean(sub, path.child(name)) for name, sub in properties.items() if name not in names}
    omit = tuple(name for name, sub in optional.items() if not _is_null_meaningful(sub))
    nullable = {name: allow_null(sub) for name, sub in optional.items()}
    ways = {RESTORATIONS_KEY: [Omit(omit)]} if omit else {}
    return {**node, "properties": properties | nullable, "required": list(properties), **ways}


def _is_null_meaningful(node: Schema) -> bool:
    """Whether null for an optional property is a value of its own: allowed, and not what a missing one stands for."""
    return ("null" in allowed_types(node) or NULL_SCHEMA in node.get("anyOf", [])) and node.get("default") is not None


def _lower_property_names(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """An object with names of properties that the provider takes."""
    named, dialect = node.get("properties", {}), lowering.dialect
    order = [name for name in node.get("propertyOrdering", []) if name in named]
    node = drop_keywords(node, "propertyOrdering") | ({"propertyOrdering": order} if order else {})
    if not dialect.name_pattern or (path.depth and not dialect.checks_nested_names):
        return node
    sent: dict[str, str] = {name: name for name in named if re.fullmatch(dialect.name_pattern, name)}
    for name in [name for name in named if name not in sent]:
        legal = re.sub(r"[^a-zA-Z0-9_]", "_", name)[:60]
        sent[name] = unique_name(legal if re.match("[a-zA-Z_]", legal) else f"_{legal}", sent.values())
        lowering.add_loss("property name", path.child(name), f"{dialect.name} does not take it; sent as {sent[name]!r}")
    back = {new: old for old, new in sent.items() if new != old}
    if not back:
        return node
    listed = [key for key in ("required", "propertyOrdering") if key in node]
    lists = {key: [sent.get(name, name) for name in node[key]] for key in listed}
    ways = [*node.get(RESTORATIONS_KEY, []), Rename(back)]
    return {**node, **lists, "properties": {sent[name]: sub for name, sub in named.items()}, RESTORATIONS_KEY: ways}


def _find_map_values(node: Schema) -> Any:
    """The schema of the values of a map; None for an object that is none."""
    extra, patterns = node.get("additionalProperties"), node.get("patternProperties")
    if isinstance(extra, dict) and not is_impossible(extra):
        return cast("Schema", extra) if split_annotations(cast("Schema", extra))[0] else None
    forms = unique(patterns.values()) if patterns and extra is not True else []
    return {"anyOf": forms} if len(forms) > 1 else forms[0] if forms else None


def _map_as_pairs(node: Schema, values: Any, path: SchemaPath, lowering: Lowering) -> Schema:
    """A map as an array of its entries."""
    out, key = drop_keywords(node, "properties", "additionalProperties"), Schema(type="string")
    if "propertyNames" in out:
        key = {"allOf": [key, out.pop("propertyNames")]}
    elif "patternProperties" in out and not isinstance(node.get("additionalProperties"), dict):
        key["pattern"] = "|".join(out.pop("patternProperties"))
    for ours, theirs in (("minProperties", "minItems"), ("maxProperties", "maxItems")):
        if ours in out:
            out[theirs] = out.pop(ours)
    out = lowering.move_to_description(out, [name for name in out if APPLICABLE_TYPES.get(name) == ("object",)], path)
    out = add_description(_replace_type(out, "array"), "A map: one entry for each key.")
    entry = {"type": "object", "properties": {"key": key, "value": values}, "required": ["key", "value"]}
    return {**out, "items": {**entry, "additionalProperties": False}, RESTORATIONS_KEY: [Pairs()]}


def _lower_array(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """An array with `items`; a tuple as a list of its forms where the dialect has no tuples."""
    if "array" not in allowed_types(node) or "anyOf" in node:
        return node
    out, dialect, prefix = dict(node), lowering.dialect, node.get("prefixItems", [])
    if is_impossible(out.get("items")):
        out = drop_keywords(out, "items") | {"maxItems": min(len(prefix), out.get("maxItems", len(prefix)))}
    if prefix and not dialect.allows("prefixItems"):
        forms = unique([*prefix, *([out["items"]] if "items" in out else [])])
        if "items" not in out and dialect.allows("maxItems"):
            out = out | {"minItems": len(prefix), "maxItems": len(prefix)} | out
        out = drop_keywords(out, "prefixItems") | {"items": {"anyOf": forms} if len(forms) > 1 else forms[0]}
        if len(forms) > 1:
            out = lowering.describe(out, "prefixItems", ", ".join(map(describe_schema, prefix)), path)
    return out if "items" in out or dialect.allows_bare_arrays else {**out, "items": {}}


def _describe_unsupported(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """The node with what cannot stay in its description."""
    dialect = lowering.dialect
    gone = [key for key, value in node.items() if key != RESTORATIONS_KEY and not _is_supported(key, value, node, dialect)]
    node = lowering.move_to_description(node, gone, path)
    if not path.depth and not dialect.keeps_root_description:
        node, lowering.root_description = drop_keywords(node, "description"), node.get("description", "")
    return _push_into_branches(node) if dialect.isolates_unions and "anyOf" in node else node


def _is_supported(key: str, value: Any, node: Schema, dialect: Dialect) -> bool:
    if key in ("$defs", "definitions"):  # those that are used come back at the end
        return dialect.refs == "free"
    if dialect.is_open or not dialect.allows(key):
        return dialect.allows(key)
    if dialect.isolates_unions and "anyOf" in node:
        return key in ("anyOf", "description", "nullable")
    match key:
        case "format":
            return value in (dialect.formats or ())
        case "pattern":
            return _is_portable_regex(value)
        case "minItems":
            return dialect.max_min_items is None or value <= dialect.max_min_items
        case "default":
            return json_type(value) not in ("object", "array", "null")
        case _:
            return True


def _is_portable_regex(pattern: str) -> bool:
    """Whether a pattern is one that a grammar can be made of: no lookaround, no back reference."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return not re.search(r"\(\?(?!:)|\\[1-9]", pattern)


def _push_into_branches(node: Schema) -> Schema:
    """A union with nothing beside it: what is said of all its branches is said in each."""
    note, flag = node.get("description", ""), {"nullable": True} if node.get("nullable") else {}
    texts = [add_description({"description": note}, branch.get("description", "")) for branch in node["anyOf"]]
    notes = [text if note and not is_null(branch) else {} for text, branch in zip(texts, node["anyOf"], strict=True)]
    return {"anyOf": [{**branch, **text, **flag} for branch, text in zip(node["anyOf"], notes, strict=True)]}


def _lower_open_root(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    return node if path.depth else _lower_property_names(node, path, lowering)


def _lower_open_array(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """OpenAI: "array schema missing items"."""
    bare = (
        "array" in allowed_types({"type": node.get("type")}) and "items" not in node and not lowering.dialect.allows_bare_arrays
    )
    return {**node, "items": {}} if bare else node


Pass = Callable[[Schema, SchemaPath, Lowering], Schema]


PASSES: tuple[Pass, ...] = (_lower_enum, _lower_type, _lower_untyped, _lower_object, _lower_array, _describe_unsupported)


OPEN_PASSES: tuple[Pass, ...] = (_lower_open_root, _lower_open_array, _describe_unsupported)
