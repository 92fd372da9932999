"""Checks tools against a provider's limits and JSON Schema before anything is sent: which tool, which limit,
which value.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec

from toolglot.common.jsontext import dumps_text
from toolglot.errors import UsageError
from toolglot.providers.profile import Profile
from toolglot.schema import dialects
from toolglot.schema.json_schema import SchemaDocument, allowed_types, clean_node, copy_schema, find_invalid
from toolglot.values.losses import Loss
from toolglot.values.request import ToolDefinition

__all__ = ["Problem", "drop_refused_tools", "preflight"]


_MAX_DEPTH = 6  # of unions in unions


class Problem(msgspec.Struct, frozen=True):
    """A limit that a tool, or the request as a whole (`tool` is ""), exceeds, or a part of a tool's schema
    that is invalid.

    `is_refused`: the provider answers with an error; otherwise the encoder works around it and reports that.
    """

    tool: str
    """The tool; "": the request as a whole."""
    quantity: str
    """What exceeds the limit, or the place in the schema."""
    value: int | str
    """How much it is."""
    limit: int | str
    """How much is allowed."""
    is_refused: bool = True
    """The provider answers with an error; otherwise the encoder works around it."""

    def __str__(self) -> str:
        owner = f"tool {self.tool!r}: " if self.tool else ""
        expected = "the limit is" if isinstance(self.limit, int) else "expected"
        return f"{owner}{self.quantity} is {self.value}, {expected} {self.limit}"


def preflight(tools: Sequence[ToolDefinition], profile: Profile) -> list[Problem]:
    """Return what the provider would refuse of these tools."""
    limits = profile.limits
    problems: list[Problem] = []
    seen: set[tuple[str, str]] = set()
    for tool in tools:
        if tool.kind == "hosted":  # the provider's own: it knows their names
            continue
        if not tool.name:
            problems.append(Problem(tool.name, "name", "empty", "at least one character"))
        elif not re.fullmatch(limits.name, tool.name):
            length = f"{len(tool.name)} characters"
            problems.append(Problem(tool.name, "name", length, f"pattern {limits.name}", is_refused=False))
        if limits.description is not None and len(tool.description) > limits.description:
            problems.append(
                Problem(tool.name, "length of the description", len(tool.description), limits.description)
            )
        if (tool.namespace, tool.name) in seen:
            problems.append(Problem(tool.name, "number of tools of this name", 2, 1, is_refused=False))
        seen.add((tool.namespace, tool.name))
        problems += _check_schema(tool, profile)
    if limits.tools is not None and len(tools) > limits.tools:
        problems.append(Problem("", "number of tools", len(tools), limits.tools))
    return problems


def _check_schema(tool: ToolDefinition, profile: Profile) -> Iterator[Problem]:
    try:
        schema = copy_schema(tool.parameters or {})
        if not isinstance(schema, (dict, bool)):
            raise UsageError("a schema must be an object")
    except UsageError as e:  # nothing of it can be sent
        yield Problem(tool.name, "schema", "unusable", f"JSON Schema ({e})")
        return
    allows_bare_arrays = getattr(dialects, profile.dialect).allows_bare_arrays
    root = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    if not _allows_objects(root, SchemaDocument(root), 0):
        value = dumps_text(root["type"])[:80] if "type" in root else "missing"
        yield Problem(tool.name, "#/type", value, "object", is_refused=False)
    for pointer, value, expected in find_invalid(root, allows_bare_arrays=allows_bare_arrays):
        shown = "missing" if value is None else dumps_text(value)[:80]
        yield Problem(tool.name, pointer, shown, expected, is_refused=False)


def _allows_objects(node: Any, document: SchemaDocument, depth: int) -> bool:
    """Whether arguments, which have names, may have this schema at all."""
    node, _ = clean_node(document.follow(node))
    if not _may_be_object(node):
        return False
    # parts of parts are not looked at: references to the root would multiply
    for part in node.get("allOf", ()):
        form, _ = clean_node(document.follow(part))
        if not _may_be_object(form):
            return False
    if "type" in node or depth == _MAX_DEPTH:
        return True
    branches = cast("list[Any]", node.get("anyOf") or node.get("oneOf"))
    if not branches:
        return True
    return any(_allows_objects(branch, document, depth + 1) for branch in branches)


def _may_be_object(node: dict[str, Any]) -> bool:
    """Whether the type of a node by itself, with its enum and const, allows objects."""
    types = allowed_types(node)
    return not types or "object" in types


def drop_refused_tools(
    tools: Sequence[ToolDefinition], profile: Profile
) -> tuple[list[ToolDefinition], list[Loss]]:
    """Return the tools that the provider accepts, and a Loss for each other one: a bad tool must not cost the
    request.
    """
    problems: dict[str, Problem] = {}
    for problem in preflight(tools, profile):
        if problem.is_refused and problem.tool:  # otherwise it is about no tool that could be named
            problems[problem.tool] = problem
    losses = [Loss(f"tool {name!r}", "tools", f"left out: {problem}") for name, problem in problems.items()]
    accepted = [tool for tool in tools if tool.name not in problems]
    limit = profile.limits.tools or len(accepted)
    reason = f"left out: {profile.title} accepts at most {limit} tools"
    losses += [Loss(f"tool {tool.name!r}", "tools", reason) for tool in accepted[limit:]]
    return accepted[:limit], losses
