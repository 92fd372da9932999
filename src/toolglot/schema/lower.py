"""A tool's schema in the words of a wire, what was lost on the way, and the way back for arguments.

Law: pure, total, idempotent. Any JSON value gives a schema that the dialect accepts, or UsageError if it is no schema;
lowering twice changes and loses nothing more. What a dialect cannot say is told in the description, as a Loss.

The walk goes from the root down. At each node:
    tidied      older drafts made 2020-12, nonsense dropped (open dialects: this, and what else is refused)
    settled     `$ref` resolved, allOf merged, oneOf made anyOf, unions of one dissolved
    STEPS       choices → typed → anything → object → array → told: enum values; types and null; JSON text where a type
                is needed; maps, closing, required, names; tuples and items; last, what must go into the description
    descended   the same for its children
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import msgspec

from toolglot.errors import UsageError
from toolglot.jsontext import dumps_text, loads
from toolglot.losses import Loss
from toolglot.schema.dialects import SILENT, WORDS, Dialect
from toolglot.schema.plain import (
    ANNOTATIONS,
    APPLIES,
    LISTS,
    MAPS,
    NODES,
    Document,
    Found,
    Schema,
    escape,
    fits,
    from_openapi,
    json_type,
    merge,
    plain,
    tidy,
    types,
    unique,
    walk,
    without,
)

__all__ = [
    "JsonText",
    "Lowered",
    "Omit",
    "Pairs",
    "Rename",
    "Way",
    "from_openapi",
    "lower",
    "restore",
    "strict_problems",
]

MAX_DEPTH = 50  # levels of schemas in what is sent
UNROLL = 2  # how often a recursive definition is written out before it is cut
SPARE_NODES = 2_000  # how many nodes may be added by copying before it is cut
MAX_TEXT = 500  # characters of one value in a description
NULL = {"type": "null"}


class Omit(msgspec.Struct, frozen=True, tag="omit"):
    """Null for one of these properties means that it was not given."""

    names: tuple[str, ...]
    at: str = ""


class Rename(msgspec.Struct, frozen=True, tag="rename"):
    """These properties have other names in the original: sent -> original."""

    names: dict[str, str]
    at: str = ""


class Pairs(msgspec.Struct, frozen=True, tag="pairs"):
    """This array of {key, value} is a map."""

    at: str = ""


class JsonText(msgspec.Struct, frozen=True, tag="json"):
    """This string is the JSON text of a value, of this kind if one is named."""

    kind: str = ""
    at: str = ""


Way = Omit | Rename | Pairs | JsonText
_WAYS = "\0ways"  # where a node carries its ways until its place in the schema is known


class Lowered(msgspec.Struct, frozen=True):
    """A schema that a dialect accepts. `note` belongs into the tool's own description: the root has no place for it."""

    schema: Schema
    losses: tuple[Loss, ...] = ()
    ways_back: tuple[Way, ...] = ()
    note: str = ""


def lower(schema: Mapping[str, Any] | None, dialect: Dialect, *, tool: str) -> Lowered:
    """The parameters of a tool as the dialect accepts them. No schema means no arguments."""
    raw = plain(schema or {})
    if not isinstance(raw, (dict, bool)):
        raise UsageError(f"the parameters of tool {tool!r} are {raw!r:.80}, not a JSON Schema")
    run = _Run(tidy(raw)[0], dialect, tool)
    out, ways = _root(raw, run), list[Way]()
    definitions = _definitions(run)
    out = _harvest(out | ({"$defs": definitions} if definitions else {}), "#", ways)
    return Lowered(out, tuple(run.losses), tuple(ways), run.note)


# ---- the walk


class _At(msgspec.Struct, frozen=True):
    """Where the walk is: the path that a Loss names, and what the rules for references need to know."""

    path: str = "$"
    depth: int = 0
    cyclic: bool = False  # in the text of a definition that may reach itself
    stack: tuple[str, ...] = ()  # the definitions that are written out around here
    optional: bool = False  # inside a property that may be left out
    top: bool = False  # a definition, which is never a mere reference: such could lead in a circle

    def down(self, step: str, *, optional: bool = False) -> "_At":
        path = f"{self.path}.{step}" if step else self.path
        return _At(path, self.depth + 1, self.cyclic, self.stack, self.optional or optional)


class _Run:
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

    def lose(self, what: str, at: _At, why: str) -> None:
        self.losses.append(Loss(what, f"tool {self.tool!r} at {at.path}", why))

    def tidied(self, schema: Any, at: _At) -> Schema:
        """A node well-formed; in the fewest keywords for a dialect that takes few."""
        node, wrong = tidy(schema)
        for what in wrong:
            self.lose(what, at, "this is not valid JSON Schema; dropped")
        node = without(node, _WAYS, *(["$id"] if at.depth else []))  # a nested $id would change what a $ref names
        return node if self.dialect.open else _fewer_keywords(node, self.dialect)

    def merged(self, first: Schema, second: Schema, at: _At) -> Schema:
        """Two nodes as one; where they contradict each other, the first holds and the second is told."""
        node, clash = merge(first, second)
        for key, value in clash.items():
            node = self.told(node, key, value, at, "it contradicts the rest of the schema; moved into the description")
        return node

    def told(self, node: Schema, key: str, value: Any, at: _At, why: str = "") -> Schema:
        """The node with a keyword in its description that it cannot have: a Loss."""
        words = _words(key, value)
        if words:
            self.lose(key, at, why or f"{self.dialect.name} does not take it; moved into the description")
        elif key not in SILENT and key not in WORDS:
            self.lose(key, at, f"{self.dialect.name} does not know it; dropped")
        return _described(node, words)

    def moved(self, node: Schema, keys: Iterable[str], at: _At) -> Schema:
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
            self.names[found.pointer] = _fresh(wanted, self.names.values())
            self.definitions.append((self.names[found.pointer], found))
        return f"#/$defs/{self.names[found.pointer]}"


def _root(raw: Any, run: _Run) -> Schema:
    """A plain object: "must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"."""
    start = _At(cyclic="#" in run.cycles, stack=("#",))
    node, at = _plain_object(run.tidied(raw, start), start, run)
    if not _may_be_object(node):
        run.lose("type", at, "arguments are always an object")
    node = run.moved(node, ("not", "enum", "const"), at)
    node = node if "type" in node else {"type": "object", **node}
    return _node({**node, "type": "object", "properties": node.get("properties", {})}, at, run)


def _node(schema: Any, at: _At, run: _Run) -> Schema:
    """A schema, and all inside it, as the dialect accepts it."""
    run.budget -= 1
    node = run.tidied(schema, at)
    if at.depth and (run.budget < 0 or at.depth > MAX_DEPTH) and not _leaf(node, run.dialect):
        node = _cut(node, at, run, "the schema is too deep or too large here; cut")
    node, at = _settled(node, at, run)
    for step in OPEN_STEPS if run.dialect.open else STEPS if "$ref" not in node else ():
        node = step(node, at, run)
    return _descended(node, at, run)


def _leaf(node: Schema, dialect: Dialect) -> bool:
    """Whether a node stays a single one whatever the steps make of it."""
    kinds = types(node)
    nests = any(key in node for key in (*MAPS, *LISTS, *NODES, "$ref")) or ("nullable" in node and not dialect.nullable)
    return not nests and len(kinds) < 2 and "array" not in kinds


def _cut(node: Schema, at: _At, run: _Run, why: str) -> Schema:
    if run.budget >= 0 or all(loss.why != why for loss in run.losses):  # said once when all the rest goes
        run.lose("schema", at, why)
    return _described({"type": "object"} if "object" in types(node) else {}, node.get("description", ""))


def _descended(node: Schema, at: _At, run: _Run) -> Schema:
    """The node with its children lowered."""
    out, required = Schema(), node.get("required", ())
    for key, value in node.items():
        if key in MAPS:
            prefix = "" if key == "properties" else f"{key}."
            places = {name: at.down(prefix + name, optional=name not in required) for name in value}
            out[key] = {name: _node(sub, places[name], run) for name, sub in value.items()}
        elif key in LISTS:
            one = key == "anyOf" and sum(sub != NULL for sub in value) == 1  # a form or null: nobody says "branch"
            out[key] = [_node(sub, at.down("" if one else f"{key}[{i}]"), run) for i, sub in enumerate(value)]
        elif key in NODES and (isinstance(value, dict) or not key.startswith(("additional", "unevaluated"))):
            out[key] = _node(value, at.down(key), run)
        else:
            out[key] = value
    return out if run.dialect.open or "anyOf" not in out else _fewer_branches(out, run.dialect)


def _fewer_branches(node: Schema, dialect: Dialect) -> Schema:
    """A lowered union without branches that came out equal, or as mere choices of one type."""
    branches = unique(NULL if _is_null(branch) else branch for branch in node["anyOf"])
    real, apart = [branch for branch in branches if branch != NULL], dialect.type_lists == "never"
    if choices := _as_choices(real if apart else branches):
        real, branches = [choices], [choices, *([NULL] if apart and NULL in branches else [])]
    if dialect.nullable and real and NULL in branches:
        branches = unique(map(_null_flagged, real))
    rest = without(node, "anyOf")
    if len(branches) > 1 or (rest and "$ref" in branches[0] and dialect.refs == "wrap"):
        return {**rest, "anyOf": branches}
    return branches[0] if "$ref" in branches[0] else merge(rest, branches[0])[0]


def _null_flagged(node: Schema) -> Schema:
    return {"anyOf": [*map(_null_flagged, node["anyOf"])]} if "anyOf" in node else {**node, "nullable": True}


def _definitions(run: _Run) -> Schema:
    """The definitions that references name, lowered."""
    out: Schema = {}
    for name, found in run.definitions:  # grows while it is read
        at = _At(f"$.$defs.{name}", 1, found.pointer in run.cycles, (found.pointer,), top=True)
        out[name] = _node(found.node, at, run)
    return out


# ---- settled: references, allOf, unions


def _settled(node: Schema, at: _At, run: _Run) -> tuple[Schema, _At]:
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


def _expanded(node: Schema, at: _At, run: _Run, *, inline: bool = False) -> tuple[Schema, _At]:
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
            node = _cut(whole, at, run, "it is recursive, or too large when written out; cut")
        else:
            run.budget -= 1
            cyclic = found.pointer in run.cycles or (at.cyclic and bool(rest))
            at = msgspec.structs.replace(at, cyclic=cyclic, stack=(*at.stack, found.pointer))
            node = run.merged(rest, without(run.tidied(found.node, at), "$anchor"), at)
    return node, at


def _all_merged(node: Schema, at: _At, run: _Run) -> tuple[Schema, _At]:
    out = without(node, "allOf")
    for i, branch in enumerate(node["allOf"]):
        run.budget -= 1
        inner = msgspec.structs.replace(at, path=f"{at.path}.allOf[{i}]")
        part, inner = _expanded(run.tidied(branch, inner), inner, run, inline=True)
        out = run.merged(out, part, inner)
        at = msgspec.structs.replace(at, cyclic=at.cyclic or inner.cyclic, stack=inner.stack)
    return out, at


def _kept_reference(node: Schema, rest: Schema, found: Found, at: _At, run: _Run) -> Schema | None:
    """The node with its reference as the dialect writes it; None where the definition must be written out."""
    dialect = run.dialect
    if dialect.refs == "free":
        return node if found.stable else None
    closes = at.cyclic and found.pointer in run.cycles
    if at.top or dialect.refs == "inline" or (closes and (dialect.recursion == "cut" or not at.optional)):
        return None
    notes = {key: value for key, value in rest.items() if key == "description" or _words(key, value)}
    if rest.keys() - ANNOTATIONS:
        return None
    if notes and dialect.refs == "wrap":
        return {"anyOf": [{"$ref": node["$ref"]}], **notes}
    if notes and found.pointer not in at.stack:
        return None
    for key in notes:
        run.lose(key, at, f"{dialect.name} takes nothing beside a recursive $ref; dropped")
    return {"$ref": run.reference(found)}


def _union(node: Schema, at: _At, run: _Run) -> Schema:
    """anyOf or oneOf as an anyOf of forms that can be true, with nothing but notes beside it; or dissolved."""
    key = "anyOf" if "anyOf" in node else "oneOf"
    base, branches = _branches(node, key, at, run)
    form, notes = _parted(base)
    if not branches:
        run.lose(key, at, "none of its branches can be true; dropped")
        return base
    if form.keys() <= {"type"} and (choices := _as_choices(branches)):
        return run.merged(base, choices, at)
    if any(APPLIES.get(name) == ("object",) for name in form):
        return _flattened(base, branches, key, at, run)
    if key == "oneOf" and not _apart(branches, run):
        notes = run.told(notes, key, "; ".join(map(_kind_word, branches)), at)
    if form:
        branches = [{"allOf": [form, branch]} for branch in branches]
    elif run.dialect.nullable and any(map(_is_null, branches)) and not all(map(_is_null, branches)):
        branches = [branch for branch in branches if not _is_null(branch)]
        notes = notes | {"nullable": True}
    return {**notes, "anyOf": branches}


def _branches(node: Schema, key: str, at: _At, run: _Run) -> tuple[Schema, list[Schema]]:
    """A union: what stands beside it, and its branches that can be true."""
    branches = [run.tidied(branch, at.down(f"{key}[{i}]")) for i, branch in enumerate(node[key])]
    branches = [without(branch, *SILENT) if "$ref" in branch else branch for branch in branches]
    return without(node, key), unique(branch for branch in branches if not _impossible(branch))


def _parted(node: Schema) -> tuple[Schema, Schema]:
    """What a node says about values, and the notes beside it."""
    notes = {key: value for key, value in node.items() if key in ANNOTATIONS or key == "nullable"}
    return without(node, *notes), notes


def _impossible(schema: Any) -> bool:
    return schema is False or (isinstance(schema, dict) and cast("Schema", schema).get("not") in ({}, True))


def _is_null(node: Schema) -> bool:
    return node.get("type") == "null" and not node.keys() - ANNOTATIONS - {"type"}


def _values(node: Schema) -> list[Any]:
    """The values of a node that does nothing but name them."""
    if node.keys() - ANNOTATIONS - {"type", "enum", "const"}:
        return []
    return node.get("enum") or ([node["const"]] if "const" in node else [None] if _is_null(node) else [])


def _as_choices(branches: list[Schema]) -> Schema | None:
    """Branches that only name values of one type, as one enum; what each of them means goes into the description."""
    values = [_values(branch) for branch in branches]
    kinds = unique(kind for branch in branches for kind in types(branch))
    kinds = [kind for kind in kinds if kind != "integer" or "number" not in kinds]
    real = [branch for branch in branches if not _is_null(branch)]
    if not all(values) or len([kind for kind in kinds if kind != "null"]) != 1 or len(branches) < 2:
        return None
    node = {"type": kinds if len(kinds) > 1 else kinds[0], "enum": unique(value for some in values for value in some)}
    if len(real) == 1:
        return _described(node, real[0].get("description", ""))
    names = [", ".join(map(dumps_text, some)) for some in values]
    labels = [branch.get("description") or branch.get("title") for branch in branches]
    told = "; ".join(f"{name}: {label.rstrip('.')}" for name, label in zip(names, labels, strict=True) if label)
    return _described(node, told and f"{_short(told)}.")


def _apart(branches: list[Schema], run: _Run) -> bool:
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


# ---- objects with alternatives, as one object


def _plain_object(node: Schema, at: _At, run: _Run) -> tuple[Schema, _At]:
    """A node without `$ref`, allOf, anyOf and oneOf."""
    run.budget -= 1
    node, at = _expanded(node, at, run, inline=True)
    for key in ("anyOf", "oneOf"):
        if key in node:
            node = _flattened(*_branches(node, key, at, run), key, at, run)
    return node, at


def _may_be_object(node: Schema) -> bool:
    return not types(node) or "object" in types(node)


def _flattened(base: Schema, branches: list[Schema], key: str, at: _At, run: _Run) -> Schema:
    """An object with alternatives as one object: all properties, required what all demand, the choice in words."""
    parts = [part for branch in branches if _may_be_object(part := _plain_object(branch, at, run)[0])]
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


def _property(name: str, ours: Schema, parts: list[Schema], at: _At, run: _Run) -> Any:
    """A property that alternatives describe each in their way."""
    given = [part["properties"][name] for part in parts if name in part.get("properties", {})]
    forms = [run.tidied(form, at.down(name)) for form in unique(given)]
    one = forms[0] if len(forms) == 1 else _as_choices(forms)
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


# ---- steps: one node, its children still as they came


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
    return _nullable(out) if out.pop("nullable", False) else out


def _nullable(node: Schema) -> Schema:
    """A node, not lowered yet, that allows null too."""
    if "type" in node:
        more = {"enum": unique([*node["enum"], None])} if "enum" in node else {}
        return {**node, "type": unique([*types(node), "null"]), **more}
    form, notes = _parted(node)
    return {**notes, "anyOf": unique([*(form["anyOf"] if form.keys() == {"anyOf"} else [form]), NULL])}


def _choices(node: Schema, at: _At, run: _Run) -> Schema:
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
    return {**node, "enum": values} if values else _described(without(node, "enum"), "May be empty.")


def _typed(node: Schema, at: _At, run: _Run) -> Schema:
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
    form, notes = _parted(node)
    return {**notes, "anyOf": [_of_kind(form, kind) for kind in kinds]}


def _of_kind(form: Schema, kind: str) -> Schema:
    """What a node says about one of its types."""
    out = {key: value for key, value in form.items() if kind in APPLIES.get(key, [kind])}
    values = [value for value in out.pop("enum", []) if fits(value, [kind]) and kind != "null"]
    return {**out, "type": kind, **({"enum": values} if values else {})}


def _anything(node: Schema, at: _At, run: _Run) -> Schema:
    """A value of no type, asked for as JSON text where the dialect wants a type."""
    return node if "type" in node or "anyOf" in node or run.dialect.freeform else _as_text(node, "", at, run)


def _as_text(node: Schema, kind: str, at: _At, run: _Run) -> Schema:
    out = run.moved(node, [key for key in node if key not in ("description", "type", "nullable")], at)
    out = _described(out, f"{'A JSON object' if kind else 'Any JSON value'}, written as JSON text.")
    return _retyped(out, "string") | {_WAYS: [JsonText(kind)]}


def _retyped(node: Schema, kind: str) -> Schema:
    return {**node, "type": [kind, "null"] if "null" in types(node) else kind}


def _object(node: Schema, at: _At, run: _Run) -> Schema:
    """An object with named properties; free keys as the dialect says them."""
    if "object" not in types(node) or "anyOf" in node:
        return node
    dialect, extra, values = run.dialect, node.get("additionalProperties"), _map_values(node)
    named = {name: sub for name, sub in node.get("properties", {}).items() if not _impossible(sub)}
    never = _impossible(extra)  # no key but the named ones
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


def _required(node: Schema, named: Schema, at: _At, run: _Run) -> Schema:
    """`required` with names of properties; where a dialect requires all, the optional ones are nullable."""
    names, node = node.get("required", []), without(node, "required")
    if unknown := [name for name in names if name not in named]:
        node = run.told(node, "required", unknown, at, "these are not among the properties; moved into the description")
    if not run.dialect.all_required:
        names = [name for name in names if name in named]
        return node | ({"required": names} if names else {})
    optional = {name: run.tidied(sub, at.down(name)) for name, sub in named.items() if name not in names}
    omit = tuple(name for name, sub in optional.items() if not _null_has_meaning(sub))
    nullable = {name: _nullable(sub) for name, sub in optional.items()}
    ways = {_WAYS: [Omit(omit)]} if omit else {}
    return {**node, "properties": named | nullable, "required": list(named), **ways}


def _null_has_meaning(node: Schema) -> bool:
    """Whether null for an optional property is a value of its own: allowed, and not what a missing one stands for."""
    return ("null" in types(node) or NULL in node.get("anyOf", [])) and node.get("default") is not None


def _named(node: Schema, at: _At, run: _Run) -> Schema:
    """An object with names of properties that the provider takes."""
    named, dialect = node.get("properties", {}), run.dialect
    order = [name for name in node.get("propertyOrdering", []) if name in named]
    node = without(node, "propertyOrdering") | ({"propertyOrdering": order} if order else {})
    if not dialect.names or (at.depth and not dialect.names_below_root):
        return node
    sent: dict[str, str] = {name: name for name in named if re.fullmatch(dialect.names, name)}
    for name in [name for name in named if name not in sent]:
        legal = re.sub(r"[^a-zA-Z0-9_]", "_", name)[:60]
        sent[name] = _fresh(legal if re.match("[a-zA-Z_]", legal) else f"_{legal}", sent.values())
        run.lose("property name", at.down(name), f"{dialect.name} does not take it; sent as {sent[name]!r}")
    back = {new: old for old, new in sent.items() if new != old}
    if not back:
        return node
    listed = [key for key in ("required", "propertyOrdering") if key in node]
    lists = {key: [sent.get(name, name) for name in node[key]] for key in listed}
    ways = [*node.get(_WAYS, []), Rename(back)]
    return {**node, **lists, "properties": {sent[name]: sub for name, sub in named.items()}, _WAYS: ways}


def _fresh(wanted: str, taken: Iterable[str]) -> str:
    taken, name, count = set(taken), wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted}_{count}"
    return name


def _map_values(node: Schema) -> Any:
    """The schema of the values of a map; None for an object that is none."""
    extra, patterns = node.get("additionalProperties"), node.get("patternProperties")
    if isinstance(extra, dict) and not _impossible(extra):
        return cast("Schema", extra) if _parted(cast("Schema", extra))[0] else None
    forms = unique(patterns.values()) if patterns and extra is not True else []
    return {"anyOf": forms} if len(forms) > 1 else forms[0] if forms else None


def _as_pairs(node: Schema, values: Any, at: _At, run: _Run) -> Schema:
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
    out = _described(_retyped(out, "array"), "A map: one entry for each key.")
    entry = {"type": "object", "properties": {"key": key, "value": values}, "required": ["key", "value"]}
    return {**out, "items": {**entry, "additionalProperties": False}, _WAYS: [Pairs()]}


def _array(node: Schema, at: _At, run: _Run) -> Schema:
    """An array with `items`; a tuple as a list of its forms where the dialect has no tuples."""
    if "array" not in types(node) or "anyOf" in node:
        return node
    out, dialect, prefix = dict(node), run.dialect, node.get("prefixItems", [])
    if _impossible(out.get("items")):
        out = without(out, "items") | {"maxItems": min(len(prefix), out.get("maxItems", len(prefix)))}
    if prefix and not dialect.says("prefixItems"):
        forms = unique([*prefix, *([out["items"]] if "items" in out else [])])
        if "items" not in out and dialect.says("maxItems"):
            out = out | {"minItems": len(prefix), "maxItems": len(prefix)} | out
        out = without(out, "prefixItems") | {"items": {"anyOf": forms} if len(forms) > 1 else forms[0]}
        if len(forms) > 1:
            out = run.told(out, "prefixItems", ", ".join(map(_kind_word, prefix)), at)
    return out if "items" in out or dialect.bare_arrays else {**out, "items": {}}


def _kind_word(schema: Any) -> str:
    node = tidy(schema)[0]
    return node.get("title") or node.get("description") or " or ".join(types(node)) or "any"


def _told(node: Schema, at: _At, run: _Run) -> Schema:
    """The node with what cannot stay in its description."""
    dialect = run.dialect
    gone = [key for key, value in node.items() if key != _WAYS and not _may_stay(key, value, node, dialect)]
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
    texts = [_described({"description": note}, branch.get("description", "")) for branch in node["anyOf"]]
    notes = [text if note and not _is_null(branch) else {} for text, branch in zip(texts, node["anyOf"], strict=True)]
    return {"anyOf": [{**branch, **text, **flag} for branch, text in zip(node["anyOf"], notes, strict=True)]}


def _open_root(node: Schema, at: _At, run: _Run) -> Schema:
    return node if at.depth else _named(node, at, run)


def _open_array(node: Schema, at: _At, run: _Run) -> Schema:
    """OpenAI: "array schema missing items"."""
    bare = "array" in types({"type": node.get("type")}) and "items" not in node and not run.dialect.bare_arrays
    return {**node, "items": {}} if bare else node


Step = Callable[[Schema, _At, _Run], Schema]
STEPS: tuple[Step, ...] = (_choices, _typed, _anything, _object, _array, _told)
OPEN_STEPS: tuple[Step, ...] = (_open_root, _open_array, _told)


# ---- words


def _short(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def _words(key: str, value: Any) -> str:
    """A keyword in plain words; empty for one that says nothing."""
    if value in (None, []) or (value is False and key != "default"):
        return ""
    if key == "additionalProperties" and value in (True, {}):
        return "Other keys are allowed."
    text = str(value)
    items = ", ".join(map(dumps_text, cast("list[Any]", value))) if isinstance(value, list) else text
    return WORDS.get(key, "").format(text=_short(text), list=_short(items), json=_short(dumps_text(value)))


def _described(node: Schema, text: str) -> Schema:
    said = node.get("description", "")
    new = text and f" {text} " not in f" {said} "
    return {**node, "description": f"{said} {text}" if said else text} if new else node


# ---- the way back


def _harvest(node: Schema, pointer: str, ways: list[Way]) -> Schema:
    """A lowered schema without the ways that its nodes carry; these go to `ways`, each with its place."""
    out = without(node, _WAYS)
    ways += [msgspec.structs.replace(way, at=pointer) for way in node.get(_WAYS, ())]
    for key, value in out.items():
        if key in MAPS:
            out[key] = {name: _harvest(sub, f"{pointer}/{key}/{escape(name)}", ways) for name, sub in value.items()}
        elif key in LISTS:
            out[key] = [_harvest(sub, f"{pointer}/{key}/{i}", ways) for i, sub in enumerate(value)]
        elif key in NODES and isinstance(value, dict):
            out[key] = _harvest(cast("Schema", value), f"{pointer}/{key}", ways)
    return out


def restore(arguments: dict[str, Any], lowered: Lowered) -> dict[str, Any]:
    """Arguments that a model made for the lowered schema, as the original schema wants them."""
    if not lowered.ways_back:
        return arguments
    places: dict[str, list[Way]] = {}
    for way in lowered.ways_back:
        places.setdefault(way.at, []).append(way)
    return _Restoring(Document(lowered.schema), places).value(arguments, lowered.schema, "#", 0)


class _Restoring(msgspec.Struct, frozen=True):
    """A walk of arguments along the schema that they were made for."""

    document: Document
    places: dict[str, list[Way]]

    def value(self, value: Any, node: Any, at: str, level: int) -> Any:
        if not isinstance(node, dict) or level > 2 * MAX_DEPTH:
            return value
        node = cast("Schema", node)
        if "$ref" in node:
            found = self.document.find(node["$ref"])
            return self.value(value, found.node, found.pointer, level + 1) if found else value
        if "anyOf" in node:
            i = next((i for i, branch in enumerate(node["anyOf"]) if self.suits(value, branch, level)), None)
            return value if i is None else self.value(value, node["anyOf"][i], f"{at}/anyOf/{i}", level + 1)
        if isinstance(value, dict):
            value = {name: self.property(name, sub, node, at, level + 1) for name, sub in cast("Schema", value).items()}
        elif isinstance(value, list):
            value = [self.item(i, sub, node, at, level + 1) for i, sub in enumerate(cast("list[Any]", value))]
        for way in self.places.get(at, ()):
            value = _back(value, way)
        return value

    def property(self, name: str, value: Any, node: Schema, at: str, level: int) -> Any:
        named = node.get("properties", {})
        if name in named:
            return self.value(value, named[name], f"{at}/properties/{escape(name)}", level)
        return self.value(value, node.get("additionalProperties"), f"{at}/additionalProperties", level)

    def item(self, i: int, value: Any, node: Schema, at: str, level: int) -> Any:
        prefix = node.get("prefixItems", [])
        if i < len(prefix):
            return self.value(value, prefix[i], f"{at}/prefixItems/{i}", level)
        return self.value(value, node.get("items"), f"{at}/items", level)

    def suits(self, value: Any, node: Schema, level: int) -> bool:
        """Whether a value looks like one for this branch of a union."""
        if "$ref" in node:
            found = self.document.find(node["$ref"])
            return found is not None and level < 2 * MAX_DEPTH and self.suits(value, found.node, level + 1)
        if "anyOf" in node:
            return any(self.suits(value, branch, level + 1) for branch in node["anyOf"])
        if value is None and node.get("nullable"):
            return True
        if not fits(value, types(node) or [json_type(value)]) or value not in node.get("enum", [value]):
            return False
        if not isinstance(value, dict):
            return True
        given, named = cast("Schema", value), node.get("properties", {})
        known = node.get("additionalProperties") is not False or all(name in named for name in given)
        fixed = all(given[name] in named[name]["enum"] for name in given if "enum" in named.get(name, {}))
        return known and fixed and all(name in given for name in node.get("required", ()))


def _back(value: Any, way: Way) -> Any:
    """A value one step back; what does not look as it should stays as it is."""
    match way:
        case Omit(names=names) if isinstance(value, dict):
            return {name: sub for name, sub in cast("Schema", value).items() if sub is not None or name not in names}
        case Rename(names=names) if isinstance(value, dict):
            return {names.get(name, name): sub for name, sub in cast("Schema", value).items()}
        case Pairs() if isinstance(value, list):
            entries = cast("list[Any]", value)
            whole = all(json_type(entry) == "object" and isinstance(entry.get("key"), str) for entry in entries)
            return {entry["key"]: entry.get("value") for entry in entries} if whole else entries
        case JsonText(kind=kind) if isinstance(value, str):
            try:
                meant = loads(value)
            except ValueError:
                return value
            return meant if kind in ("", json_type(meant)) else value
        case _:
            return value


# ---- the limits of strict modes


def strict_problems(schemas: Mapping[str, Schema], dialect: Dialect) -> dict[str, str]:
    """The tools, of these lowered schemas in their order, that must be sent without `strict`, each with the reason."""
    limits, problems = dialect.limits, dict[str, str]()
    used: dict[str, int] = dict.fromkeys(("tools", "optional", "unions"), 0)
    for tool, schema in schemas.items():
        size = _size(schema)
        counts = size | {what: count + size[what] for what, count in used.items()}
        bounds = {what: getattr(limits, what) for what in counts}
        over = [f"{what} {counts[what]} > {bound}" for what, bound in bounds.items() if bound and counts[what] > bound]
        if dialect.recursion == "cut" and Document(schema).on_cycles():
            over.append("a recursive definition")
        if over:
            problems[tool] = f"{dialect.name} limits: {', '.join(over)}"
        else:
            used = {what: counts[what] for what in used}
    return problems


def _size(schema: Schema) -> dict[str, int]:
    nodes = [(at.pointer, cast("Schema", at.node)) for at in walk(schema)]
    named = [sub for _, node in nodes for sub in node.get("properties", {}).values()]
    return {
        "tools": 1,
        "optional": sum(len(node.get("properties", {}).keys() - {*node.get("required", ())}) for _, node in nodes),
        "unions": sum("anyOf" in sub or isinstance(sub.get("type"), list) for sub in named),
        "depth": max(len(re.findall(r"/properties/|/items\b", pointer)) for pointer, _ in nodes),
        "properties": len(named),
        "enum_values": sum(len(node.get("enum", ())) for _, node in nodes),
    }
