"""The limits of strict modes: how much grammar a provider compiles for one request."""

import re
from collections.abc import Mapping
from typing import cast

from toolglot.schema.dialects import Dialect
from toolglot.schema.json_schema import Schema, SchemaDocument, iter_nodes

__all__ = ["check_strict_limits"]


def check_strict_limits(schemas: Mapping[str, Schema], dialect: Dialect) -> dict[str, str]:
    """Return the tools that must be sent without `strict`, each with the reason. `schemas` are lowered, in request order."""
    limits, problems = dialect.limits, dict[str, str]()
    # Anthropic counts these over all strict tools of a request; OpenAI's limits are per tool.
    totals: dict[str, int] = dict.fromkeys(("tools", "optional", "unions"), 0)
    for tool, schema in schemas.items():
        nodes = [(at.pointer, cast("Schema", at.node)) for at in iter_nodes(schema)]
        properties = [sub for _, node in nodes for sub in node.get("properties", {}).values()]
        counts = {
            "tools": 1,
            "optional": sum(len(node.get("properties", {}).keys() - {*node.get("required", ())}) for _, node in nodes),
            "unions": sum("anyOf" in sub or isinstance(sub.get("type"), list) for sub in properties),
            # Counted without following references (pydantic-ai 2.66, live-tested 2026).
            "depth": max(len(re.findall(r"/properties/|/items\b", pointer)) for pointer, _ in nodes),
            "properties": len(properties),
            "enum_values": sum(len(node.get("enum", ())) for _, node in nodes),
        }
        counts |= {name: total + counts[name] for name, total in totals.items()}
        bounds = {name: getattr(limits, name) for name in counts}
        over = [f"{name} {counts[name]} > {bound}" for name, bound in bounds.items() if bound and counts[name] > bound]
        if dialect.recursion == "never" and SchemaDocument(schema).find_cycles():
            over.append("a recursive definition")
        if over:
            problems[tool] = f"{dialect.name} limits: {', '.join(over)}"
        else:
            totals = {name: counts[name] for name in totals}
    return problems
