"""The state of one call of `lower`, and the sentences that replace what a dialect cannot express."""

import re
from collections.abc import Iterable
from typing import Any, cast

import msgspec

from toolglot.common.jsontext import dumps_text
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
from toolglot.values.losses import Loss

MAX_UNROLLS = 2  # how often a recursive definition is expanded before it is truncated
# how many nodes expansion may add before it stops: "billion laughs" schemas grow exponentially
EXTRA_NODES = 2_000
MAX_PHRASE_LENGTH = 500  # characters of one value in a description
NULL_SCHEMA = {"type": "null"}
# Passes attach restorations to the node itself: its pointer is only known when everything around it is
# lowered. NUL is in no real keyword.
RESTORATIONS_KEY = "\0restorations"


class SchemaPath(msgspec.Struct, frozen=True):
    """Where the walk is: the path that a Loss names, and what the rules for references depend on."""

    text: str = "$"
    depth: int = 0
    in_cycle: bool = False  # in a definition that can reach itself
    expanded: tuple[str, ...] = ()  # pointers of the definitions that are being expanded around here
    in_optional: bool = False  # inside a property that is not required
    # a definition is never a mere reference: two of them could refer to each other
    is_definition: bool = False

    def child(self, step: str, *, optional: bool = False) -> "SchemaPath":
        text = f"{self.text}.{step}" if step else self.text
        return SchemaPath(text, self.depth + 1, self.in_cycle, self.expanded, self.in_optional or optional)


class Lowering:
    """One call of `lower`: the input, the target, and the losses so far."""

    def __init__(self, raw: Schema, dialect: Dialect, tool_name: str) -> None:
        self.document = SchemaDocument(raw)
        self.dialect = dialect
        self.tool_name = tool_name
        self.losses: list[Loss] = []
        self.definition_names: dict[str, str] = {}  # by pointer, of the definitions that are kept
        self.definitions: list[tuple[str, LocatedNode]] = []
        self.root_description = ""
        self.node_budget = EXTRA_NODES + 2 * sum(1 for _ in iter_nodes(raw))
        needs_cycles = dialect.recursion != "free" and dialect.refs != "inline"
        self.cyclic_pointers = self.document.find_cycles() if needs_cycles else frozenset[str]()

    def add_loss(self, what: str, path: SchemaPath, reason: str) -> None:
        self.losses.append(Loss(what, f"tool {self.tool_name!r} at {path.text}", reason))

    def clean(self, schema: Any, path: SchemaPath) -> Schema:
        """Return a well-formed node; for a closed dialect, in the few keywords that the passes handle."""
        node, invalid = clean_node(schema)
        for key in invalid:
            self.add_loss(key, path, "not valid JSON Schema; dropped")
        node = drop_keywords(node, RESTORATIONS_KEY)
        if path.depth:  # a nested $id would change the base of every $ref below it
            node.pop("$id", None)
        if self.dialect.is_open:
            return node
        if "const" in node:
            node["enum"] = [node.pop("const")]
        extra_properties = node.pop("unevaluatedProperties", True)
        if extra_properties is not True:
            node.setdefault("additionalProperties", extra_properties)
        extra_items = node.pop("unevaluatedItems", True)
        if extra_items is not True and "prefixItems" in node:
            node.setdefault("items", extra_items)
        if self.dialect.uses_nullable and node.get("nullable"):
            return node
        is_nullable = node.pop("nullable", False)
        return allow_null(node) if is_nullable else node

    def merge(self, first: Schema, second: Schema, path: SchemaPath) -> Schema:
        """Merge two nodes. On a conflict the first wins and the second goes into the description."""
        node, conflicts = merge_nodes(first, second)
        for key, value in conflicts.items():
            node = self.describe(
                node, key, value, path, "it contradicts the rest of the schema; moved into the description"
            )
        return node

    def describe(self, node: Schema, key: str, value: Any, path: SchemaPath, reason: str = "") -> Schema:
        """Put a keyword that the node cannot have into its description, and record the Loss."""
        phrase = describe_keyword(key, value)
        if phrase:
            self.add_loss(
                key, path, reason or f"{self.dialect.name} does not support it; moved into the description"
            )
        elif key not in SILENT_KEYWORDS and key not in KEYWORD_PHRASES:
            self.add_loss(key, path, f"{self.dialect.name} does not support it; dropped")
        return add_description(node, phrase)

    def move_to_description(self, node: Schema, keys: Iterable[str], path: SchemaPath) -> Schema:
        """Move these keywords into the description."""
        keys = [key for key in keys if key in node]
        out = drop_keywords(node, *keys)
        for key in keys:
            out = self.describe(out, key, node[key], path)
        return out

    def register_definition(self, target: LocatedNode) -> str:
        """Return the lowered schema's reference to a definition, which will be lowered at the end."""
        if target.pointer == "#":
            return "#"
        if target.pointer not in self.definition_names:
            wanted = re.sub(r"[^a-zA-Z0-9_.-]", "_", target.pointer.rsplit("/", 1)[1]) or "_"
            self.definition_names[target.pointer] = unique_name(wanted, self.definition_names.values())
            self.definitions.append((self.definition_names[target.pointer], target))
        return f"#/$defs/{self.definition_names[target.pointer]}"


def truncate_node(node: Schema, path: SchemaPath, lowering: Lowering, reason: str) -> Schema:
    """Leave a node open: only its description and that it is an object remain."""
    # Once the budget is used up, everything else is truncated too: report that once.
    if lowering.node_budget >= 0 or all(loss.reason != reason for loss in lowering.losses):
        lowering.add_loss("schema", path, reason)
    form: Schema = {}
    if "object" in allowed_types(node):
        form["type"] = "object"
    return add_description(form, node.get("description", ""))


def split_annotations(node: Schema) -> tuple[Schema, Schema]:
    """Split a node into what constrains values, and the annotations beside it."""
    notes = {key: value for key, value in node.items() if key in ANNOTATIONS or key == "nullable"}
    return drop_keywords(node, *notes), notes


def is_impossible(schema: Any) -> bool:
    """Whether no value is valid for a schema."""
    if not isinstance(schema, dict):
        return schema is False
    return cast("Schema", schema).get("not") in ({}, True)


def is_null(node: Schema) -> bool:
    """Whether a node allows null and nothing else."""
    return node.get("type") == "null" and not node.keys() - ANNOTATIONS - {"type"}


def allow_null(node: Schema) -> Schema:
    """Return a node, not lowered yet, that also allows null."""
    if "type" in node:
        out = {**node, "type": unique([*allowed_types(node), "null"])}
        if "enum" in node:
            out["enum"] = unique([*node["enum"], None])
        return out
    form, notes = split_annotations(node)
    branches = form["anyOf"] if form.keys() == {"anyOf"} else [form]
    return {**notes, "anyOf": unique([*branches, NULL_SCHEMA])}


def unique_name(wanted: str, taken: Iterable[str]) -> str:
    """Return the wanted name, with a number if it is taken."""
    taken = set(taken)
    name = wanted
    count = 1
    while name in taken:
        count += 1
        name = f"{wanted}_{count}"
    return name


def describe_schema(schema: Any) -> str:
    """Return a few words for what a schema is."""
    node = clean_node(schema)[0]
    return node.get("title") or node.get("description") or " or ".join(allowed_types(node)) or "any"


def shorten(text: str) -> str:
    """Truncate a text for a description."""
    if len(text) <= MAX_PHRASE_LENGTH:
        return text
    return text[: MAX_PHRASE_LENGTH - 1] + "…"


def describe_keyword(key: str, value: Any) -> str:
    """Return a keyword as a sentence; empty if it constrains nothing."""
    if value in (None, []):
        return ""
    if value is False and key != "default":
        return ""
    if key == "additionalProperties" and value in (True, {}):
        return "Other keys are allowed."
    text = items = str(value)
    if isinstance(value, list):
        items = ", ".join(map(dumps_text, cast("list[Any]", value)))
    phrase = KEYWORD_PHRASES.get(key, "")
    return phrase.format(text=shorten(text), list=shorten(items), json=shorten(dumps_text(value)))


def add_description(node: Schema, text: str) -> Schema:
    """Append a text to a node's description, unless it is there already: lowering twice must change nothing."""
    description = node.get("description", "")
    if not text or f" {text} " in f" {description} ":
        return node
    if description:
        text = f"{description} {text}"
    return {**node, "description": text}
