"""The passes of a dialect: each looks at one node, whose children are still as they came, and makes one
aspect of it legal.
"""

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
from toolglot.schema.lowering_result import Restoration

__all__ = ["OPEN_PASSES", "PASSES", "Pass"]


def lower_enum(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """Keep the enum values that have the node's type, if the dialect takes enums of that type."""
    if "enum" not in node:
        return node
    dialect = lowering.dialect
    types = allowed_types(node)
    values = [value for value in unique(node["enum"]) if has_type(value, types)]
    if not values:
        lowering.add_loss("enum", path, "none of its values has the type; dropped")
        return drop_keywords(node, "enum")
    real = [value for value in values if value is not None]
    if not real:
        return drop_keywords(node, "enum") | NULL_SCHEMA
    node = {**node, "type": [name for name in types if name == "null" or _any_has_type(real, name)]}
    value_types = {json_type(value) for value in real}
    if not value_types <= (dialect.enum_types or frozenset()):
        return lowering.move_to_description(node, ["enum"], path)
    if "" in real and not dialect.allows_empty_enum_value:
        lowering.add_loss(
            "enum", path, f"{dialect.name} does not support an empty string among the values; dropped"
        )
        values.remove("")
    if dialect.uses_nullable and None in values:  # `nullable` says that null is allowed
        values.remove(None)
    if not values:
        return add_description(drop_keywords(node, "enum"), "May be empty.")
    return {**node, "enum": values}


def _any_has_type(values: list[Any], type_name: str) -> bool:
    """Whether at least one value is of a JSON type."""
    return any(has_type(value, [type_name]) for value in values)


def lower_type(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """Give a node one type, or a list of them where the dialect takes that; write null as the dialect does."""
    dialect = lowering.dialect
    types = allowed_types(node)
    if "anyOf" in node or not types:
        return node
    node = _drop_idle_keywords(node, types)
    real_types = [name for name in types if name != "null"]
    if dialect.uses_nullable and real_types:
        if real_types != types:
            node = node | {"nullable": True}
        types = real_types
    if len(types) == 1:
        return {**node, "type": types[0]}
    # A list of several types holds scalars only: keywords of objects and arrays need a branch of their own.
    is_simple = len(real_types) == 1 or not {"object", "array"} & {*real_types}
    if is_simple and dialect.allows_type_lists:
        return {**node, "type": types}
    form, notes = split_annotations(node)
    return {**notes, "anyOf": [_branch_of_type(form, name) for name in types]}


def _drop_idle_keywords(node: Schema, types: list[str]) -> Schema:
    """Drop keywords about other types: they constrain nothing, as `minLength` beside `type: integer`."""
    covered = {*types}
    if "integer" in covered:
        covered.add("number")
    return {
        key: value
        for key, value in node.items()
        if not covered.isdisjoint(APPLICABLE_TYPES.get(key, covered))
    }


def _branch_of_type(form: Schema, type_name: str) -> Schema:
    """Return what a form says of values of one type."""
    branch = {
        key: value for key, value in form.items() if type_name in APPLICABLE_TYPES.get(key, [type_name])
    }
    choices = branch.pop("enum", [])
    branch["type"] = type_name
    if type_name == "null":
        return branch
    values = [value for value in choices if has_type(value, [type_name])]
    if values:
        branch["enum"] = values
    return branch


def lower_untyped(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """Ask for a value of any type as JSON text, where the dialect requires a type."""
    if "type" in node or "anyOf" in node or lowering.dialect.allows_untyped:
        return node
    return _as_json_text(node, "", path, lowering)


def _as_json_text(node: Schema, type_name: str, path: SchemaPath, lowering: Lowering) -> Schema:
    """Ask for a value as JSON text: an object, or anything if there is no type."""
    moved = [key for key in node if key not in ("description", "type", "nullable")]
    out = lowering.move_to_description(node, moved, path)
    wanted = "A JSON object" if type_name else "Any JSON value"
    out = add_description(out, f"{wanted}, written as JSON text.")
    return _replace_type(out, "string") | {RESTORATIONS_KEY: [Restoration("json", type_name=type_name)]}


def _replace_type(node: Schema, type_name: str) -> Schema:
    """Return a node with another type, which allows null if the node did."""
    if "null" in allowed_types(node):
        return {**node, "type": [type_name, "null"]}
    return {**node, "type": type_name}


def lower_object(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """Give an object named properties; express free keys as the dialect can."""
    if "object" not in allowed_types(node) or "anyOf" in node:
        return node
    dialect = lowering.dialect
    is_root = not path.depth
    properties = {name: sub for name, sub in node.get("properties", {}).items() if not is_impossible(sub)}
    # The root keeps its form whatever it holds: arguments are always an object.
    if not properties and not is_root:
        lowered = _lower_bare_object(node, path, lowering)
        if lowered is not None:
            return lowered
    extra = node.get("additionalProperties")
    is_closed = is_impossible(extra)
    if dialect.closes_objects and extra is not None and not is_closed:
        lowering.add_loss("additionalProperties", path, f"{dialect.name} supports named keys only")
    closes = (dialect.closes_objects or is_closed) and dialect.allows("additionalProperties")
    node = drop_keywords(node, "properties")
    if is_closed:
        node = drop_keywords(node, "additionalProperties")
    if properties or closes or is_root:
        node["properties"] = properties
    if closes:
        node["additionalProperties"] = False
    node = _lower_required(node, properties, path, lowering)
    return lower_property_names(node, path, lowering)


def _lower_bare_object(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema | None:
    """Lower an object without named properties where its form has to change; None where it may stay as it is."""
    dialect = lowering.dialect
    extra = node.get("additionalProperties")
    map_values = _find_map_values(node)
    if map_values is not None and dialect.maps_as_pairs:
        return _map_as_pairs(node, map_values, path, lowering)
    is_closed = is_impossible(extra)
    may_stay = dialect.allows_empty_objects if is_closed else dialect.allows_untyped
    if not may_stay:
        return _as_json_text(node, "object", path, lowering)
    if map_values is not None or is_closed:
        return None
    if extra not in (True, {}):
        node = lowering.move_to_description(node, ["additionalProperties"], path)
    # Any key, any value: what an object allows anyway.
    return _lower_required(drop_keywords(node, "properties", "additionalProperties"), {}, path, lowering)


def _lower_required(node: Schema, properties: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """Let `required` name existing properties; where a dialect requires all, make the optional ones nullable."""
    names = node.get("required", [])
    node = drop_keywords(node, "required")
    unknown = [name for name in names if name not in properties]
    if unknown:
        reason = "these are not among the properties; moved into the description"
        node = lowering.describe(node, "required", unknown, path, reason)
    if not lowering.dialect.requires_all:
        names = [name for name in names if name in properties]
        return {**node, "required": names} if names else node
    node = {**node, "properties": {**properties}, "required": list(properties)}
    omitted: list[str] = []
    for name, sub in properties.items():
        if name in names:
            continue
        optional = lowering.clean(sub, path.child(name))
        node["properties"][name] = allow_null(optional)
        if _is_null_when_missing(optional):
            omitted.append(name)
    if omitted:
        node[RESTORATIONS_KEY] = [Restoration("omit", dict.fromkeys(omitted, ""))]
    return node


def _is_null_when_missing(node: Schema) -> bool:
    """Whether null stands for "left out": unless it is a value of its own, allowed and not what a missing
    property means.
    """
    allows_null = "null" in allowed_types(node) or NULL_SCHEMA in node.get("anyOf", [])
    return not allows_null or node.get("default") is None


def lower_property_names(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """Rename properties whose names the provider refuses."""
    dialect = lowering.dialect
    properties = node.get("properties", {})
    order = [name for name in node.get("propertyOrdering", []) if name in properties]
    node = drop_keywords(node, "propertyOrdering")
    if order:
        node["propertyOrdering"] = order
    if not dialect.name_pattern:
        return node
    if path.depth and not dialect.checks_nested_names:
        return node
    new_names = _find_legal_names(properties, dialect.name_pattern)
    if not new_names:
        return node
    for name, new_name in new_names.items():
        lowering.add_loss(
            "property name", path.child(name), f"{dialect.name} does not support it; sent as {new_name!r}"
        )
    for key in ("required", "propertyOrdering"):
        if key in node:
            node[key] = [new_names.get(name, name) for name in node[key]]
    originals = {new_name: name for name, new_name in new_names.items()}
    restorations = [*node.get(RESTORATIONS_KEY, []), Restoration("rename", originals)]
    properties = {new_names.get(name, name): sub for name, sub in properties.items()}
    return {**node, "properties": properties, RESTORATIONS_KEY: restorations}


def _find_legal_names(properties: Schema, pattern: str) -> dict[str, str]:
    """Return a legal name, not used yet, for each property that needs one."""
    legal_names = [name for name in properties if re.fullmatch(pattern, name)]
    used = {*legal_names}
    new_names: dict[str, str] = {}
    for name in properties:
        if name in legal_names:
            continue
        legal = re.sub(r"[^a-zA-Z0-9_]", "_", name)[:60]  # room for a number
        if not re.match("[a-zA-Z_]", legal):
            legal = f"_{legal}"
        new_names[name] = unique_name(legal, used)
        used.add(new_names[name])
    return new_names


def _find_map_values(node: Schema) -> Any:
    """Return the schema of a map's values; None if the object is not a map."""
    extra = node.get("additionalProperties")
    patterns = node.get("patternProperties")
    if isinstance(extra, dict) and not is_impossible(extra):
        values = cast("Schema", extra)
        form, _ = split_annotations(values)
        return values if form else None
    if not patterns or extra is True:
        return None
    forms = unique(patterns.values())
    return forms[0] if len(forms) == 1 else {"anyOf": forms}


def _map_as_pairs(node: Schema, values: Any, path: SchemaPath, lowering: Lowering) -> Schema:
    """Express a map as an array of its entries."""
    out = drop_keywords(node, "properties", "additionalProperties")
    key: Schema = {"type": "string"}
    if "propertyNames" in out:
        key = {"allOf": [key, out.pop("propertyNames")]}
    elif "patternProperties" in out and not isinstance(node.get("additionalProperties"), dict):
        key["pattern"] = "|".join(out.pop("patternProperties"))
    for ours, theirs in (("minProperties", "minItems"), ("maxProperties", "maxItems")):
        if ours in out:
            out[theirs] = out.pop(ours)
    of_objects = [name for name in out if APPLICABLE_TYPES.get(name) == ("object",)]
    out = lowering.move_to_description(out, of_objects, path)
    # The model must be told: an array of pairs is an unusual way to ask for a map.
    out = add_description(_replace_type(out, "array"), "A map: one entry for each key.")
    entry = {"type": "object", "properties": {"key": key, "value": values}, "required": ["key", "value"]}
    return {
        **out,
        "items": {**entry, "additionalProperties": False},
        RESTORATIONS_KEY: [Restoration("pairs")],
    }


def lower_array(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """Give an array `items`; express a tuple as a list of its forms where the dialect has no tuples."""
    if "array" not in allowed_types(node) or "anyOf" in node:
        return node
    dialect = lowering.dialect
    prefix = node.get("prefixItems", [])
    if is_impossible(node.get("items")):  # nothing after the prefix
        max_items = min(len(prefix), node.get("maxItems", len(prefix)))
        node = drop_keywords(node, "items") | {"maxItems": max_items}
    if prefix and not dialect.allows("prefixItems"):
        node = _tuple_as_list(node, prefix, path, lowering)
    if "items" in node or dialect.allows_bare_arrays:
        return node
    return {**node, "items": {}}


def _tuple_as_list(node: Schema, prefix: list[Any], path: SchemaPath, lowering: Lowering) -> Schema:
    """Express a tuple as a list whose items have any of its forms."""
    forms = unique(prefix)
    if "items" in node:
        forms = unique([*prefix, node["items"]])
    elif lowering.dialect.allows("maxItems"):
        node = {"minItems": len(prefix), "maxItems": len(prefix)} | node
    node = drop_keywords(node, "prefixItems")
    if len(forms) == 1:
        return {**node, "items": forms[0]}
    order = ", ".join(map(describe_schema, prefix))
    return lowering.describe({**node, "items": {"anyOf": forms}}, "prefixItems", order, path)


def describe_unsupported(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """Move what cannot stay into the description."""
    dialect = lowering.dialect
    unsupported = [key for key, value in node.items() if not _is_supported(key, value, node, dialect)]
    node = lowering.move_to_description(node, unsupported, path)
    if not path.depth and not dialect.keeps_root_description:
        lowering.root_description = node.get("description", "")
        node = drop_keywords(node, "description")
    if dialect.isolates_unions and "anyOf" in node:
        return {"anyOf": [_isolate_branch(branch, node) for branch in node["anyOf"]]}
    return node


def _isolate_branch(branch: Schema, union: Schema) -> Schema:
    """Repeat in a branch what applies to all of them, because nothing may stand beside the union."""
    branch = dict(branch)
    note = union.get("description", "")
    if note and not is_null(branch):
        branch |= add_description({"description": note}, branch.get("description", ""))
    if union.get("nullable"):
        branch["nullable"] = True
    return branch


def _is_supported(key: str, value: Any, node: Schema, dialect: Dialect) -> bool:
    if key == RESTORATIONS_KEY:  # ours, for the way back
        return True
    if key in ("$defs", "definitions"):  # those that are used come back at the end
        return dialect.refs == "free"
    if not dialect.allows(key):
        return False
    if dialect.is_open:
        return True
    if dialect.isolates_unions and "anyOf" in node:
        return key in ("anyOf", "description", "nullable")
    return _is_value_supported(key, value, dialect)


def _is_value_supported(key: str, value: Any, dialect: Dialect) -> bool:
    """Whether the dialect takes this value of a keyword that it has."""
    match key:
        case "format":
            return value in (dialect.formats or ())
        case "pattern":
            return _is_plain_pattern(value)
        case "minItems":
            return dialect.max_min_items is None or value <= dialect.max_min_items
        case "default":
            return json_type(value) not in ("object", "array", "null")
        case _:
            return True


def _is_plain_pattern(pattern: str) -> bool:
    """Whether a pattern is valid, without lookaround, which OpenAI's strict mode lacks, and without back
    references.
    """
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return not re.search(r"\(\?(?!:)|\\[1-9]", pattern)


def add_missing_items(node: Schema, path: SchemaPath, lowering: Lowering) -> Schema:
    """OpenAI, of an array without items: "array schema missing items"."""
    if lowering.dialect.allows_bare_arrays or "items" in node:
        return node
    if "array" not in allowed_types({"type": node.get("type")}):
        return node
    return {**node, "items": {}}


Pass = Callable[[Schema, SchemaPath, Lowering], Schema]

# The order matters: an enum settles the type, an object without properties may become an array of pairs, and
# only what no other pass could express is described.
PASSES: tuple[Pass, ...] = (
    lower_enum,
    lower_type,
    lower_untyped,
    lower_object,
    lower_array,
    describe_unsupported,
)
OPEN_PASSES: tuple[Pass, ...] = (lower_property_names, add_missing_items, describe_unsupported)
