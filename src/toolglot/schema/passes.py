"""The passes of a dialect: each looks at one node, whose children are still as they came, and makes one aspect of it legal."""

import re
from collections.abc import Callable
from typing import Any, cast

from toolglot.schema.dialects import Dialect
from toolglot.schema.json_schema import APPLICABLE_TYPES, Schema, allowed_types, drop_keywords, has_type, json_type, unique
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
from toolglot.schema.lowering_result import Restoration

__all__ = ["OPEN_PASSES", "PASSES", "Pass"]


def lower_enum(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """Keep the enum values that have the node's type, if the dialect takes enums of that type."""
    if "enum" not in node:
        return node
    types, dialect = allowed_types(node), lowering.dialect
    values = [value for value in unique(node["enum"]) if has_type(value, types)]
    real = [value for value in values if value is not None]
    if not values:
        lowering.add_loss("enum", path, "none of its values has the type; dropped")
    if not real:
        return drop_keywords(node, "enum") | (NULL_SCHEMA if values else {})
    node = {**node, "type": [name for name in types if name == "null" or any(has_type(v, [name]) for v in real)]}
    if not {json_type(value) for value in real} <= (dialect.enum_types or frozenset()):
        return lowering.move_to_description(node, ["enum"], path)
    if "" in real and not dialect.allows_empty_enum_value:
        lowering.add_loss("enum", path, f"{dialect.name} does not support an empty string among the values; dropped")
        values = [value for value in values if value != ""]
    values = [value for value in values if value is not None or not dialect.uses_nullable]
    return {**node, "enum": values} if values else add_description(drop_keywords(node, "enum"), "May be empty.")


def lower_type(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """Give a node one type, or a list of them where the dialect takes that; write null as the dialect does."""
    types, dialect = allowed_types(node), lowering.dialect
    if "anyOf" in node or not types:
        return node
    # Keywords about other types constrain nothing: `minLength` beside `type: integer`.
    covered = {*types, *(["number"] if "integer" in types else [])}
    node = {key: value for key, value in node.items() if covered & {*APPLICABLE_TYPES.get(key, covered)}}
    real = [name for name in types if name != "null"]
    if dialect.uses_nullable and real:
        node, types = node | ({"nullable": True} if real != types else {}), real
    # A list of several types holds scalars only: keywords of objects and arrays need a branch of their own.
    is_simple = len(real) == 1 or not {"object", "array"} & {*real}
    if len(types) == 1 or (is_simple and dialect.allows_type_lists):
        return {**node, "type": types if len(types) > 1 else types[0]}
    form, notes = split_annotations(node)
    branches: list[Schema] = []
    for name in types:
        branch = {key: value for key, value in form.items() if name in APPLICABLE_TYPES.get(key, [name])}
        values = [value for value in branch.pop("enum", []) if has_type(value, [name]) and name != "null"]
        branches.append({**branch, "type": name, **({"enum": values} if values else {})})
    return {**notes, "anyOf": branches}


def lower_untyped(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """Ask for a value of any type as JSON text, where the dialect requires a type."""
    if "type" in node or "anyOf" in node or lowering.dialect.allows_untyped:
        return node
    return _as_json_text(node, "", path, lowering)


def _as_json_text(node: Schema, type_name: str, path: SchemaPath, lowering: Lowering) -> Schema:
    out = lowering.move_to_description(node, [key for key in node if key not in ("description", "type", "nullable")], path)
    out = add_description(out, f"{'A JSON object' if type_name else 'Any JSON value'}, written as JSON text.")
    return _replace_type(out, "string") | {RESTORATIONS_KEY: [Restoration("json", type_name=type_name)]}


def _replace_type(node: Schema, type_name: str) -> Schema:
    return {**node, "type": [type_name, "null"] if "null" in allowed_types(node) else type_name}


def lower_object(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """Give an object named properties; express free keys as the dialect can."""
    if "object" not in allowed_types(node) or "anyOf" in node:
        return node
    dialect, extra, map_values = lowering.dialect, node.get("additionalProperties"), _find_map_values(node)
    properties = {name: sub for name, sub in node.get("properties", {}).items() if not is_impossible(sub)}
    is_closed = is_impossible(extra)
    # The root keeps its form whatever it holds: arguments are always an object.
    if path.depth and not properties:
        if map_values is not None and dialect.maps_as_pairs:
            return _map_as_pairs(node, map_values, path, lowering)
        if not (dialect.allows_empty_objects if is_closed else dialect.allows_untyped):
            return _as_json_text(node, "object", path, lowering)
        if map_values is None and not is_closed:  # any key, any value: what an object allows anyway
            node = lowering.move_to_description(node, ["additionalProperties"] if extra not in (True, {}) else [], path)
            return _lower_required(drop_keywords(node, "properties", "additionalProperties"), {}, path, lowering)
    if dialect.closes_objects and extra is not None and not is_closed:
        lowering.add_loss("additionalProperties", path, f"{dialect.name} supports named keys only")
    closes = (dialect.closes_objects or is_closed) and dialect.allows("additionalProperties")
    keys = {"properties": properties} if properties or closes or not path.depth else {}
    node = drop_keywords(node, "properties", *(["additionalProperties"] if is_closed else [])) | keys
    node = _lower_required(node | ({"additionalProperties": False} if closes else {}), properties, path, lowering)
    return lower_property_names(node, path, lowering)


def _lower_required(node: Schema, properties: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """Let `required` name existing properties; where a dialect requires all, make the optional ones nullable."""
    names, node = node.get("required", []), drop_keywords(node, "required")
    if unknown := [name for name in names if name not in properties]:
        reason = "these are not among the properties; moved into the description"
        node = lowering.describe(node, "required", unknown, path, reason)
    if not lowering.dialect.requires_all:
        names = [name for name in names if name in properties]
        return node | ({"required": names} if names else {})
    optional = {name: lowering.clean(sub, path.child(name)) for name, sub in properties.items() if name not in names}
    # Null stands for "left out", unless null is a value of its own: allowed, and not what a missing property means.
    omitted = tuple(
        name
        for name, sub in optional.items()
        if not ("null" in allowed_types(sub) or NULL_SCHEMA in sub.get("anyOf", [])) or sub.get("default") is None
    )
    nullable = {name: allow_null(sub) for name, sub in optional.items()}
    restorations = {RESTORATIONS_KEY: [Restoration("omit", dict.fromkeys(omitted, ""))]} if omitted else {}
    return {**node, "properties": properties | nullable, "required": list(properties), **restorations}


def lower_property_names(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """Rename properties whose names the provider refuses."""
    properties, dialect = node.get("properties", {}), lowering.dialect
    order = [name for name in node.get("propertyOrdering", []) if name in properties]
    node = drop_keywords(node, "propertyOrdering") | ({"propertyOrdering": order} if order else {})
    if not dialect.name_pattern or (path.depth and not dialect.checks_nested_names):
        return node
    sent: dict[str, str] = {name: name for name in properties if re.fullmatch(dialect.name_pattern, name)}
    for name in [name for name in properties if name not in sent]:
        legal = re.sub(r"[^a-zA-Z0-9_]", "_", name)[:60]  # room for a number
        sent[name] = unique_name(legal if re.match("[a-zA-Z_]", legal) else f"_{legal}", sent.values())
        lowering.add_loss("property name", path.child(name), f"{dialect.name} does not support it; sent as {sent[name]!r}")
    originals = {new: old for old, new in sent.items() if new != old}
    if not originals:
        return node
    lists = {key: [sent.get(name, name) for name in node[key]] for key in ("required", "propertyOrdering") if key in node}
    restorations = [*node.get(RESTORATIONS_KEY, []), Restoration("rename", originals)]
    properties = {sent[name]: sub for name, sub in properties.items()}
    return {**node, **lists, "properties": properties, RESTORATIONS_KEY: restorations}


def _find_map_values(node: Schema) -> Any:
    """Return the schema of a map's values; None if the object is not a map."""
    extra, patterns = node.get("additionalProperties"), node.get("patternProperties")
    if isinstance(extra, dict) and not is_impossible(extra):
        return cast("Schema", extra) if split_annotations(cast("Schema", extra))[0] else None
    forms = unique(patterns.values()) if patterns and extra is not True else []
    return {"anyOf": forms} if len(forms) > 1 else forms[0] if forms else None


def _map_as_pairs(node: Schema, values: Any, path: SchemaPath, lowering: Lowering) -> Schema:
    """Express a map as an array of its entries."""
    out, key = drop_keywords(node, "properties", "additionalProperties"), Schema(type="string")
    if "propertyNames" in out:
        key = {"allOf": [key, out.pop("propertyNames")]}
    elif "patternProperties" in out and not isinstance(node.get("additionalProperties"), dict):
        key["pattern"] = "|".join(out.pop("patternProperties"))
    for ours, theirs in (("minProperties", "minItems"), ("maxProperties", "maxItems")):
        if ours in out:
            out[theirs] = out.pop(ours)
    out = lowering.move_to_description(out, [name for name in out if APPLICABLE_TYPES.get(name) == ("object",)], path)
    # The model must be told: an array of pairs is an unusual way to ask for a map.
    out = add_description(_replace_type(out, "array"), "A map: one entry for each key.")
    entry = {"type": "object", "properties": {"key": key, "value": values}, "required": ["key", "value"]}
    return {**out, "items": {**entry, "additionalProperties": False}, RESTORATIONS_KEY: [Restoration("pairs")]}


def lower_array(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """Give an array `items`; express a tuple as a list of its forms where the dialect has no tuples."""
    if "array" not in allowed_types(node) or "anyOf" in node:
        return node
    out, dialect, prefix = dict(node), lowering.dialect, node.get("prefixItems", [])
    if is_impossible(out.get("items")):  # nothing after the prefix
        out = drop_keywords(out, "items") | {"maxItems": min(len(prefix), out.get("maxItems", len(prefix)))}
    if prefix and not dialect.allows("prefixItems"):
        forms = unique([*prefix, *([out["items"]] if "items" in out else [])])
        if "items" not in out and dialect.allows("maxItems"):
            out = out | {"minItems": len(prefix), "maxItems": len(prefix)} | out
        out = drop_keywords(out, "prefixItems") | {"items": {"anyOf": forms} if len(forms) > 1 else forms[0]}
        if len(forms) > 1:
            out = lowering.describe(out, "prefixItems", ", ".join(map(describe_schema, prefix)), path)
    return out if "items" in out or dialect.allows_bare_arrays else {**out, "items": {}}


def describe_unsupported(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """Move what cannot stay into the description."""
    dialect = lowering.dialect
    unsupported = [
        key for key, value in node.items() if key != RESTORATIONS_KEY and not _is_supported(key, value, node, dialect)
    ]
    node = lowering.move_to_description(node, unsupported, path)
    if not path.depth and not dialect.keeps_root_description:
        node, lowering.root_description = drop_keywords(node, "description"), node.get("description", "")
    if not dialect.isolates_unions or "anyOf" not in node:
        return node
    # Nothing may stand beside the union: repeat in each branch what applies to all of them.
    note, flag = node.get("description", ""), {"nullable": True} if node.get("nullable") else {}
    branches: list[Schema] = []
    for branch in node["anyOf"]:
        text = add_description({"description": note}, branch.get("description", "")) if note and not is_null(branch) else {}
        branches.append({**branch, **text, **flag})
    return {"anyOf": branches}


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
        case "pattern":  # OpenAI's strict mode has no lookaround; back references are left out, too
            try:
                re.compile(value)
            except (re.error, OverflowError, RecursionError):
                return False
            return not re.search(r"\(\?(?!:)|\\[1-9]", value)
        case "minItems":
            return dialect.max_min_items is None or value <= dialect.max_min_items
        case "default":
            return json_type(value) not in ("object", "array", "null")
        case _:
            return True


def add_missing_items(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """OpenAI, of an array without items: "array schema missing items"."""
    is_array = "array" in allowed_types({"type": node.get("type")})
    return {**node, "items": {}} if is_array and "items" not in node and not lowering.dialect.allows_bare_arrays else node


Pass = Callable[[Schema, SchemaPath, Lowering], Schema]

# The order matters: an enum settles the type, an object without properties may become an array of pairs, and only what no other
# pass could express is described.
PASSES: tuple[Pass, ...] = (lower_enum, lower_type, lower_untyped, lower_object, lower_array, describe_unsupported)
OPEN_PASSES: tuple[Pass, ...] = (lower_property_names, add_missing_items, describe_unsupported)
