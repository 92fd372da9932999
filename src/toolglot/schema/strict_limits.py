"""The limits of strict modes: how much a provider compiles for one request."""

import re
from collections.abc import Mapping
from typing import cast

from toolglot.schema.dialects import Dialect
from toolglot.schema.json_schema import (
    Schema,
    SchemaDocument,
    iter_nodes,
)

__all__ = ["check_strict_limits"]


def check_strict_limits(schemas: Mapping[str, Schema], dialect: Dialect) -> dict[str, str]:
    """The tools, of these lowered schemas in their order, that must be sent without `strict`, each with the reason."""
    limits, problems = dialect.limits, dict[str, str]()
    used: dict[str, int] = dict.fromkeys(("tools", "optional", "unions"), 0)
    for tool, schema in schemas.items():
        size = _measure(schema)
        counts = size | {what: count + size[what] for what, count in used.items()}
        bounds = {what: getattr(limits, what) for what in counts}
        over = [f"{what} {counts[what]} > {bound}" for what, bound in bounds.items() if bound and counts[what] > bound]
        if dialect.recursion == "cut" and SchemaDocument(schema).find_cycles():
            over.append("a recursive definition")
        if over:
            problems[tool] = f"{dialect.name} limits: {', '.join(over)}"
        else:
            used = {what: counts[what] for what in used}
    return problems


def _measure(schema: Schema) -> dict[str, int]:
    nodes = [(at.pointer, cast("Schema", at.node)) for at in iter_nodes(schema)]
    named = [sub for _, node in nodes for sub in node.get("properties", {}).values()]
    return {
        "tools": 1,
        "optional": sum(len(node.get("properties", {}).keys() - {*node.get("required", ())}) for _, node in nodes),
        "unions": sum("anyOf" in sub or isinstance(sub.get("type"), list) for sub in named),
        "depth": max(len(re.findall(r"/properties/|/items\b", pointer)) for pointer, _ in nodes),
        "properties": len(named),
        "enum_values": sum(len(node.get("enum", ())) for _, node in nodes),
    }
