"""One call of `lower`: where the walk is, what came up so far, and the words for what a schema cannot say."""

import re
from collections.abc import Iterable
from typing import Any, cast

import msgspec

from toolglot.jsontext import dumps_text
from toolglot.losses import Loss
from toolglot.schema.dialects import SILENT, WORDS, Dialect
from toolglot.schema.plain import (
    ANNOTATIONS,
    Document,
    Found,
    Schema,
    merge,
    tidy,
    types,
    unique,
    walk,
    without,
)

__all__ = [
    "MAX_TEXT",
    "NULL",
    "SPARE_NODES",
    "UNROLL",
    "WAYS",
    "At",
    "Run",
    "cut",
    "described",
    "fresh",
    "impossible",
    "in_words",
    "is_null",
    "kind_word",
    "parted",
    "short",
    "with_null",
]


UNROLL = 2  # how often a recursive definition is written out before it is cut


SPARE_NODES = 2_000  # how many nodes may be added by copying before it is cut


MAX_TEXT = 500  # characters of one value in a description


NULL = {"type": "null"}


WAYS = "\0ways"  # where a node carries its ways until its place in the schema is known


class At(msgspec.Struct, frozen=True):
    """Where the walk is: the path that a Loss names, and what the rules for references need to know."""

    path: str = "$"
    depth: int = 0
    cyclic: bool = False  # in the text of a definition that may reach itself
    stack: tuple[str, ...] = ()  # the definitions that are written out around here
    optional: bool = False  # inside a property that may be left out
    top: bool = False  # a definition, which is never a mere reference: such could lead in a circle

    def down(self, step: str, *, optional: bool = False) -> "At":
        path = f"{self.path}.{step}" if step else self.path
        return At(path, self.depth + 1, self.cyclic, self.stack, self.optional or optional)


class Run:
    """One call of `lower`: the whole input, and what came up so far."""

    def __init__(self, raw: Schema, dialect: Dialect, tool: str) -> None:
        self.document, self.dialect, self.tool = Document(raw), dialect, tool
        self.losses: list[Loss] = []
        self.names: dict[str, str] = {}  # of the definitions that stay, by pointer
        self.definitions: list[tuple[str, Found]] = []
        self.note = ""
        self.budget = SPARE_NODES + 2 * sum(1 for _ in walk(raw))
        bound = dialect.recursion != "free" and dialect.refs != "inline"
        self.cycles = self.document.on_cycles() if bound else frozenset[str]()

    def lose(self, what: str, at: At, why: str) -> None:
        self.losses.append(Loss(what, f"tool {self.tool!r} at {at.path}", why))

    def tidied(self, schema: Any, at: At) -> Schema:
        """A node well-formed; in the fewest keywords for a dialect that takes few."""
        node, wrong = tidy(schema)
        for what in wrong:
            self.lose(what, at, "this is not valid JSON Schema; dropped")
        node = without(node, WAYS, *(["$id"] if at.depth else []))  # a nested $id would change what a $ref names
        return node if self.dialect.open else _fewer_keywords(node, self.dialect)

    def merged(self, first: Schema, second: Schema, at: At) -> Schema:
        """Two nodes as one; where they contradict each other, the first holds and the second is told."""
        node, clash = merge(first, second)
        for key, value in clash.items():
            node = self.told(node, key, value, at, "it contradicts the rest of the schema; moved into the description")
        return node

    def told(self, node: Schema, key: str, value: Any, at: At, why: str = "") -> Schema:
        """The node with a keyword in its description that it cannot have: a Loss."""
        words = in_words(key, value)
        if words:
            self.lose(key, at, why or f"{self.dialect.name} does not take it; moved into the description")
        elif key not in SILENT and key not in WORDS:
            self.lose(key, at, f"{self.dialect.name} does not know it; dropped")
        return described(node, words)

    def moved(self, node: Schema, keys: Iterable[str], at: At) -> Schema:
        """The node with these keywords in its description instead."""
        keys = [key for key in keys if key in node]
        out = without(node, *keys)
        for key in keys:
            out = self.told(out, key, node[key], at)
        return out

    def reference(self, found: Found) -> str:
        """How the lowered schema refers to a definition."""
        if found.pointer == "#":
            return "#"
        if found.pointer not in self.names:
            wanted = re.sub(r"[^a-zA-Z0-9_.-]", "_", found.pointer.rsplit("/", 1)[1]) or "_"
            self.names[found.pointer] = fresh(wanted, self.names.values())
            self.definitions.append((self.names[found.pointer], found))
        return f"#/$defs/{self.names[found.pointer]}"


def cut(node: Schema, at: At, run: Run, why: str) -> Schema:
    """A node that is left open: only its description and that it is an object stay."""
    if run.budget >= 0 or all(loss.why != why for loss in run.losses):  # said once when all the rest goes
        run.lose("schema", at, why)
    return described({"type": "object"} if "object" in types(node) else {}, node.get("description", ""))


def parted(node: Schema) -> tuple[Schema, Schema]:
    """What a node says about values, and the notes beside it."""
    notes = {key: value for key, value in node.items() if key in ANNOTATIONS or key == "nullable"}
    return without(node, *notes), notes


def impossible(schema: Any) -> bool:
    """Whether nothing can be valid for a schema."""
    return schema is False or (isinstance(schema, dict) and cast("Schema", schema).get("not") in ({}, True))


def is_null(node: Schema) -> bool:
    """Whether a node says null and nothing else."""
    return node.get("type") == "null" and not node.keys() - ANNOTATIONS - {"type"}


def _fewer_keywords(node: Schema, dialect: Dialect) -> Schema:
    """A node in the keywords that the steps know: const, nullable and unevaluated… said with others."""
    out = dict(node)
    if "const" in out:
        out["enum"] = [out.pop("const")]
    if (extra := out.pop("unevaluatedProperties", True)) is not True:
        out.setdefault("additionalProperties", extra)
    if (extra := out.pop("unevaluatedItems", True)) is not True and "prefixItems" in out:
        out.setdefault("items", extra)
    if dialect.nullable and out.get("nullable"):
        return out
    return with_null(out) if out.pop("nullable", False) else out


def with_null(node: Schema) -> Schema:
    """A node, not lowered yet, that allows null too."""
    if "type" in node:
        more = {"enum": unique([*node["enum"], None])} if "enum" in node else {}
        return {**node, "type": unique([*types(node), "null"]), **more}
    form, notes = parted(node)
    return {**notes, "anyOf": unique([*(form["anyOf"] if form.keys() == {"anyOf"} else [form]), NULL])}


def fresh(wanted: str, taken: Iterable[str]) -> str:
    """A name that is not taken, as near to the wanted one as can be."""
    taken, name, count = set(taken), wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted}_{count}"
    return name


def kind_word(schema: Any) -> str:
    """A few words for what a schema is."""
    node = tidy(schema)[0]
    return node.get("title") or node.get("description") or " or ".join(types(node)) or "any"


def short(text: str) -> str:
    """A text cut for a description."""
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def in_words(key: str, value: Any) -> str:
    """A keyword in plain words; empty for one that says nothing."""
    if value in (None, []) or (value is False and key != "default"):
        return ""
    if key == "additionalProperties" and value in (True, {}):
        return "Other keys are allowed."
    text = str(value)
    items = ", ".join(map(dumps_text, cast("list[Any]", value))) if isinstance(value, list) else text
    return WORDS.get(key, "").format(text=short(text), list=short(items), json=short(dumps_text(value)))


def described(node: Schema, text: str) -> Schema:
    """The node with a text added to its description, once."""
    said = node.get("description", "")
    new = text and f" {text} " not in f" {said} "
    return {**node, "description": f"{said} {text}" if said else text} if new else node
