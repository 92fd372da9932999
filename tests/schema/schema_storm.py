"""Random schemas: any keyword anywhere (`storm`), and simple ones with values that are valid for them
(`fair`, `valid_for`).
"""

import json
from collections.abc import Callable
from random import Random
from typing import Any, cast

from toolglot.schema.lowering_result import LoweredSchema

NAMES = ["a", "b", "c", "kind", "$ref", "items", "user name", "type", "a/b~c", ""]
TYPES = ["object", "array", "string", "number", "integer", "boolean", "null"]
LOCAL = [
    "#",
    "#/$defs/A",
    "#/$defs/A",
    "#/$defs/B",
    "#/$defs/B",
    "#/$defs/a~1b",
    "#/definitions/C",
    "#/properties/a",
]
STRANGE = [
    "#/properties/a/items",
    "#/anyOf/0",
    "#/$defs/none",
    "https://example.com/x",
    "#anchor",
    "#/allOf/0/properties/b",
]


def scalar(r: Random) -> Any:
    return r.choice([None, True, False, 0, 1, -2, 5, "", "x", "yes", 2.5, 1.0])


def names(r: Random) -> list[str]:
    return [r.choice(NAMES) for _ in range(r.randint(0, 3))]


def some(r: Random, deep: int) -> dict[str, Any]:
    return {r.choice(NAMES): schema(r, deep) for _ in range(r.randint(0, 3))}


def few(r: Random, deep: int) -> list[Any]:
    return [schema(r, deep) for _ in range(r.randint(1, 3))]


def schema(r: Random, deep: int) -> Any:
    if deep <= 0 or r.random() < 0.1:
        leaves = [True, False, {}, {"const": "v"}, *({"type": kind} for kind in TYPES), "nonsense"]
        return r.choice(leaves)
    out: dict[str, Any] = {}
    mode = r.random()
    if mode < 0.45:
        kind = r.choice([*TYPES, "object", "object", "array"])
        out["type"] = kind if r.random() < 0.8 else [kind, r.choice(TYPES)]
        add(out, KEYWORDS_OF.get(kind, ["enum", "const", "default"]), r, deep, r.randint(0, 3))
    elif mode < 0.65:
        out["$ref"] = r.choice(LOCAL if r.random() < 0.7 else STRANGE)
    elif mode < 0.85:
        out[r.choice(["anyOf", "oneOf", "allOf"])] = few(r, deep - 1)
        add(out, ["type", "properties", "required", "enum", "anyOf", "allOf"], r, deep, r.randint(0, 1))
    else:
        add(out, list(KEYWORDS), r, deep, r.randint(1, 4))
    add(
        out,
        ["description", "title", "default", "examples", "nullable", "x-mine", "$id", "$anchor"],
        r,
        deep,
        r.randint(0, 1),
    )
    if r.random() < 0.02:
        out[r.choice(list(KEYWORDS))] = scalar(r)
    return out


def add(out: dict[str, Any], keys: list[str], r: Random, deep: int, count: int) -> None:
    for key in r.choices(keys, k=count):
        out[key] = KEYWORDS[key](r, deep - 1)


def plainly(*values: Any) -> Callable[[Random, int], Any]:
    return lambda r, _: r.choice(values)


KEYWORDS: dict[str, Callable[[Random, int], Any]] = {
    **dict.fromkeys(("properties", "patternProperties", "$defs", "dependentSchemas"), some),
    **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems"), few),
    **dict.fromkeys(("additionalProperties", "propertyNames", "not", "if", "then", "contains"), schema),
    **dict.fromkeys(("unevaluatedProperties", "unevaluatedItems", "additionalItems"), schema),
    **dict.fromkeys(("minItems", "maxItems", "maxLength", "minProperties"), lambda r, _: r.randint(0, 4)),
    **dict.fromkeys(("propertyOrdering",), lambda r, _: names(r)),
    "required": lambda r, _: names(r) if r.random() < 0.9 else True,
    "items": lambda r, deep: schema(r, deep) if r.random() < 0.7 else few(r, deep),
    "type": lambda r, _: r.choice(TYPES) if r.random() < 0.7 else r.sample(TYPES, 2),
    "enum": lambda r, _: [scalar(r) for _ in range(r.randint(1, 3))],
    "const": lambda r, _: scalar(r) if r.random() < 0.9 else {"k": [1]},
    "default": lambda r, _: scalar(r) if r.random() < 0.8 else [[1]],
    "dependencies": lambda r, deep: {r.choice(NAMES): names(r) if r.random() < 0.5 else schema(r, deep)},
    "$ref": plainly(*LOCAL, *STRANGE),
    "description": plainly("One.", "Two."),
    "nullable": plainly(True, False),
    "uniqueItems": plainly(True, False),
    "format": plainly("uri", "date-time", "email", "int32"),
    "pattern": plainly("^a", "(?=x)", "("),
    "minimum": plainly(-3, 0, 3),
    "exclusiveMinimum": plainly(True, False, 2),
    "$anchor": plainly("anchor"),
    "$id": plainly("u"),
    "title": plainly("T"),
    "examples": plainly([1], []),
    "x-mine": plainly(1, None),
}
KEYWORDS_OF = {
    "object": [
        *(
            "properties",
            "properties",
            "required",
            "additionalProperties",
            "patternProperties",
            "propertyNames",
        ),
        *("minProperties", "unevaluatedProperties", "propertyOrdering", "dependencies", "dependentSchemas"),
    ],
    "array": [
        "items",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
        "uniqueItems",
        "contains",
        "unevaluatedItems",
    ],
    "string": ["enum", "const", "format", "pattern", "maxLength", "default"],
    "number": ["minimum", "exclusiveMinimum", "enum", "default", "format"],
}


def storm(r: Random) -> dict[str, Any]:
    """A schema in which anything may happen."""
    deep = r.randint(1, 3)
    root: dict[str, Any] = {"type": "object", "properties": some(r, deep)}
    add(
        root,
        ["required", "anyOf", "oneOf", "allOf", "not", "description", "additionalProperties", "$ref"],
        r,
        deep,
        r.randint(0, 2),
    )
    if r.random() < 0.2:
        chaos = schema(r, deep + 1)
        root = cast("dict[str, Any]", chaos) if isinstance(chaos, dict) else root
    root["$defs"] = {name: schema(r, 3) for name in ("A", "B", "a/b") if r.random() < 0.8}
    root["definitions"] = {"C": schema(r, 2)}
    return root


P = {"kind": {"const": "p"}, "m": {"type": "object", "additionalProperties": {"type": "integer"}}}
Q = {"kind": {"const": "q"}, "o": {"type": "string"}}
KINDS = [
    {"type": "object", "properties": named, "required": ["kind"], "additionalProperties": False}
    for named in (P, Q)
]


def fair(r: Random, deep: int) -> dict[str, Any]:
    """A schema of which a dialect need not lose much."""
    pair = {"type": r.choice(["string", "integer"])}
    choices: list[Callable[[], dict[str, Any]]] = [
        lambda: {"type": r.choice(["string", "integer", "number", "boolean"])},
        lambda: {"type": "string", "enum": ["x", "y"]},
        lambda: {"anyOf": [pair, {"type": "null"}], "default": r.choice([None, 1])},
        lambda: {"$ref": r.choice(["#/$defs/A", "#/$defs/B"]), "description": "D."},
    ]
    if deep:
        choices += [
            lambda: fair_object(r, deep - 1),
            lambda: {"type": "array", "items": fair(r, deep - 1)},
            lambda: {"type": "object", "additionalProperties": fair(r, deep - 1)},
            lambda: {"type": "array", "prefixItems": [pair, pair], "minItems": 2, "maxItems": 2},
            lambda: {r.choice(["anyOf", "oneOf"]): [{"type": "string"}, *KINDS]},
            lambda: r.choice([{}, {"type": "object"}, {"const": "k"}]),
        ]
    return r.choice(choices)()


def fair_object(r: Random, deep: int) -> dict[str, Any]:
    named = {name: fair(r, deep) for name in r.sample(["a", "b", "c d", "e"], r.randint(1, 3))}
    required = [name for name in named if r.random() < 0.5]
    return {"type": "object", "properties": named, "required": required, "additionalProperties": False}


def fair_root(r: Random) -> dict[str, Any]:
    again = {"type": "array", "items": {"$ref": "#/$defs/B"}}
    node = {"type": "object", "properties": {"v": {"type": "integer"}, "kids": again}, "required": ["v"]}
    leaf = {"type": "object", "properties": {"v": {"type": "string"}}, "additionalProperties": False}
    return {**fair_object(r, 2), "$defs": {"A": leaf, "B": {**node, "additionalProperties": False}}}


class Valid:
    """Values that a model could make for a lowered schema."""

    def __init__(self, lowered: LoweredSchema, r: Random) -> None:
        self.root, self.r = lowered.schema, r
        self.ways = {way.pointer: way for way in lowered.restorations if way.kind in ("json", "pairs")}

    def value(self, node: Any, at: str = "#", level: int = 0) -> Any:
        r = self.r
        if "$ref" in node:
            target = node["$ref"]
            return self.value(
                self.root["$defs"][target.rsplit("/", 1)[1]] if "/" in target else self.root,
                target,
                level + 1,
            )
        for key in ("anyOf", "oneOf"):
            if key in node:
                i = len(node[key]) - 1 if level > 6 else r.randrange(len(node[key]))
                return self.value(node[key][i], f"{at}/{key}/{i}", level + 1)
        if "enum" in node or "const" in node:
            return r.choice(node.get("enum") or [node["const"]])
        types: Any = node.get("type", ["string", "integer"])
        kind: str = r.choice(cast("list[str]", types)) if isinstance(types, list) else types
        if kind == "null" or (node.get("nullable") and r.random() < 0.3):
            return None
        if kind == "string" and (way := self.ways.get(at)) and way.kind == "json":
            return json.dumps({"q": scalar(r)} if way.type_name else r.choice([1, "s", None, [1], {"k": 2}]))
        if kind in ("array", "object"):
            return self.array(node, at, level) if kind == "array" else self.object(node, at, level)
        return {"string": "s", "integer": r.randint(0, 5), "number": 2.5, "boolean": True}[kind]

    def array(self, node: Any, at: str, level: int) -> list[Any]:
        if "prefixItems" in node:
            return [
                self.value(sub, f"{at}/prefixItems/{i}", level + 1)
                for i, sub in enumerate(node["prefixItems"])
            ]
        count = max(node.get("minItems", 0), 0 if level > 6 else min(2, node.get("maxItems", 2)))
        items = [self.value(node.get("items", {}), f"{at}/items", level + 1) for _ in range(count)]
        if (way := self.ways.get(at)) and way.kind == "pairs":
            items = [{**item, "key": f"k{i}"} for i, item in enumerate(items)]
        return items

    def object(self, node: Any, at: str, level: int) -> dict[str, Any]:
        named = node.get("properties", {})
        present = [
            name
            for name in named
            if name in node.get("required", []) or (level < 7 and self.r.random() < 0.5)
        ]
        steps = {name: f"{at}/properties/{name.replace('~', '~0').replace('/', '~1')}" for name in present}
        free = (
            {"k": node["additionalProperties"]} if isinstance(node.get("additionalProperties"), dict) else {}
        )
        return {name: self.value(named[name], steps[name], level + 1) for name in present} | {
            name: self.value(sub, f"{at}/additionalProperties", level + 1) for name, sub in free.items()
        }
