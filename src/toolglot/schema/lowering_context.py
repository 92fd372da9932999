"""One call of `lower`: where the walk is, what came up so far, and the words for what a schema cannot say."""

import re
from collections.abc import Iterable
from typing import Any, cast

import msgspec

from toolglot.jsontext import dumps_text
from toolglot.losses import Loss
from toolglot.schema.dialects import KEYWORD_PHRASES, SILENT_KEYWORDS, Dialect
from toolglot.schema.json_schema import (
    ANNOTATIONS,
    LocatedNode,
    Schema,
    SchemaDocument,
    allowed_types,
    clean_node,
    drop_keywords,
    iter_nodes,
    merge_nodes,
    unique,
)

__all__ = [
    "EXTRA_NODES",
    "MAX_PHRASE_LENGTH",
    "MAX_UNROLLS",
    "NULL_SCHEMA",
    "RESTORATIONS_KEY",
    "Lowering",
    "SchemaPath",
    "add_description",
    "allow_null",
    "describe_keyword",
    "describe_schema",
    "is_impossible",
    "is_null",
    "shorten",
    "split_annotations",
    "truncate_node",
    "unique_name",
]


MAX_UNROLLS = 2  # how often a recursive definition is written out before it is cut


EXTRA_NODES = 2_000  # how many nodes may be added by copying before it is cut


MAX_PHRASE_LENGTH = 500  # characters of one value in a description


NULL_SCHEMA = {"type": "null"}


RESTORATIONS_KEY = "\0ways"  # where a node carries its ways until its place in the schema is known


class SchemaPath(msgspec.Struct, frozen=True):
    """Where the walk is: the path that a Loss names, and what the rules for references need to know."""

    text: str = "$"
    depth: int = 0
    in_cycle: bool = False  # in the text of a definition that may reach itself
    expanded: tuple[str, ...] = ()  # the definitions that are written out around here
    in_optional: bool = False  # inside a property that may be left out
    is_definition: bool = False  # a definition, which is never a mere reference: such could lead in a circle

    def child(self, step: str, *, optional: bool = False) -> "SchemaPath":
        path = f"{self.text}.{step}" if step else self.text
        return SchemaPath(path, self.depth + 1, self.in_cycle, self.expanded, self.in_optional or optional)


class Lowering:
    """One call of `lower`: the whole input, and what came up so far."""

    def __init__(self, raw: Schema, dialect: Dialect, tool_name: str) -> None:
        self.document, self.dialect, self.tool_name = SchemaDocument(raw), dialect, tool_name
        self.losses: list[Loss] = []
        self.definition_names: dict[str, str] = {}  # of the definitions that stay, by pointer
        self.definitions: list[tuple[str, LocatedNode]] = []
        self.root_description = ""
        self.node_budget = EXTRA_NODES + 2 * sum(1 for _ in iter_nodes(raw))
        bound = dialect.recursion != "free" and dialect.refs != "inline"
        self.cyclic_pointers = self.document.find_cycles() if bound else frozenset[str]()

    def add_loss(self, what: str, path: SchemaPath, reason: str) -> None:
        self.losses.append(Loss(what, f"tool {self.tool_name!r} at {path.text}", reason))

    def clean(self, schema: Any, path: SchemaPath) -> Schema:
        """A node well-formed; in the fewest keywords for a dialect that takes few."""
        node, wrong = clean_node(schema)
        for what in wrong:
            self.add_loss(what, path, "this is not valid JSON Schema; dropped")
        node = drop_keywords(
            node, RESTORATIONS_KEY, *(["$id"] if path.depth else [])
        )  # a nested $id would change what a $ref names
        return node if self.dialect.is_open else _reduce_keywords(node, self.dialect)

    def merge(self, first: Schema, second: Schema, path: SchemaPath) -> Schema:
        """Two nodes as one; where they contradict each other, the first holds and the second is told."""
        node, clash = merge_nodes(first, second)
        for key, value in clash.items():
            node = self.describe(node, key, value, path, "it contradicts the rest of the schema; moved into the description")
        return node

    def describe(self, node: Schema, key: str, value: Any, path: SchemaPath, reason: str = "") -> Schema:
        """The node with a keyword in its description that it cannot have: a Loss."""
        words = describe_keyword(key, value)
        if words:
            self.add_loss(key, path, reason or f"{self.dialect.name} does not take it; moved into the description")
        elif key not in SILENT_KEYWORDS and key not in KEYWORD_PHRASES:
            self.add_loss(key, path, f"{self.dialect.name} does not know it; dropped")
        return add_description(node, words)

    def move_to_description(self, node: Schema, keys: Iterable[str], path: SchemaPath) -> Schema:
        """The node with these keywords in its description instead."""
        keys = [key for key in keys if key in node]
        out = drop_keywords(node, *keys)
        for key in keys:
            out = self.describe(out, key, node[key], path)
        return out

    def register_definition(self, target: LocatedNode) -> str:
        """How the lowered schema refers to a definition."""
        if target.pointer == "#":
            return "#"
        if target.pointer not in self.definition_names:
            wanted = re.sub(r"[^a-zA-Z0-9_.-]", "_", target.pointer.rsplit("/", 1)[1]) or "_"
            self.definition_names[target.pointer] = unique_name(wanted, self.definition_names.values())
            self.definitions.append((self.definition_names[target.pointer], target))
        return f"#/$defs/{self.definition_names[target.pointer]}"


def truncate_node(node: Schema, path: SchemaPath, lowering: Lowering, reason: str) -> Schema:
    """A node that is left open: only its description and that it is an object stay."""
    if lowering.node_budget >= 0 or all(loss.reason != reason for loss in lowering.losses):  # said once when all the rest goes
        lowering.add_loss("schema", path, reason)
    return add_description({"type": "object"} if "object" in allowed_types(node) else {}, node.get("description", ""))


def split_annotations(node: Schema) -> tuple[Schema, Schema]:
    """What a node says about values, and the notes beside it."""
    notes = {key: value for key, value in node.items() if key in ANNOTATIONS or key == "nullable"}
    return drop_keywords(node, *notes), notes


def is_impossible(schema: Any) -> bool:
    """Whether nothing can be valid for a schema."""
    return schema is False or (isinstance(schema, dict) and cast("Schema", schema).get("not") in ({}, True))


def is_null(node: Schema) -> bool:
    """Whether a node says null and nothing else."""
    return node.get("type") == "null" and not node.keys() - ANNOTATIONS - {"type"}


def _reduce_keywords(node: Schema, dialect: Dialect) -> Schema:
    """A node in the keywords that the steps know: const, nullable and unevaluated… said with others."""
    out = dict(node)
    if "const" in out:
        out["enum"] = [out.pop("const")]
    if (extra := out.pop("unevaluatedProperties", True)) is not True:
        out.setdefault("additionalProperties", extra)
    if (extra := out.pop("unevaluatedItems", True)) is not True and "prefixItems" in out:
        out.setdefault("items", extra)
    if dialect.uses_nullable and out.get("nullable"):
        return out
    return allow_null(out) if out.pop("nullable", False) else out


def allow_null(node: Schema) -> Schema:
    """A node, not lowered yet, that allows null too."""
    if "type" in node:
        more = {"enum": unique([*node["enum"], None])} if "enum" in node else {}
        return {**node, "type": unique([*allowed_types(node), "null"]), **more}
    form, notes = split_annotations(node)
    return {**notes, "anyOf": unique([*(form["anyOf"] if form.keys() == {"anyOf"} else [form]), NULL_SCHEMA])}


def unique_name(wanted: str, taken: Iterable[str]) -> str:
    """A name that is not taken, as near to the wanted one as can be."""
    taken, name, count = set(taken), wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted}_{count}"
    return name


def describe_schema(schema: Any) -> str:
    """A few words for what a schema is."""
    node = clean_node(schema)[0]
    return node.get("title") or node.get("description") or " or ".join(allowed_types(node)) or "any"


def shorten(text: str) -> str:
    """A text cut for a description."""
    return text if len(text) <= MAX_PHRASE_LENGTH else text[: MAX_PHRASE_LENGTH - 1] + "…"


def describe_keyword(key: str, value: Any) -> str:
    """A keyword in plain words; empty for one that says nothing."""
    if value in (None, []) or (value is False and key != "default"):
        return ""
    if key == "additionalProperties" and value in (True, {}):
        return "Other keys are allowed."
    text = str(value)
    items = ", ".join(map(dumps_text, cast("list[Any]", value))) if isinstance(value, list) else text
    return KEYWORD_PHRASES.get(key, "").format(text=shorten(text), list=shorten(items), json=shorten(dumps_text(value)))


def add_description(node: Schema, text: str) -> Schema:
    """The node with a text added to its description, once."""
    said = node.get("description", "")
    new = text and f" {text} " not in f" {said} "
    return {**node, "description": f"{said} {text}" if said else text} if new else node
