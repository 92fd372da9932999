"""Checks a provider's limits before anything is sent: which tool, which limit, which value."""

import re
from collections.abc import Sequence

import msgspec

from toolglot.losses import Loss
from toolglot.providers.profile import Profile
from toolglot.request import ToolDefinition

__all__ = ["Problem", "drop_refused_tools", "preflight"]


class Problem(msgspec.Struct, frozen=True):
    """A limit that a tool, or the request as a whole (`tool` is ""), exceeds.

    `is_refused`: the provider answers with an error; otherwise the encoder works around it and reports that.
    """

    tool: str
    quantity: str
    value: int | str
    limit: int | str
    is_refused: bool = True

    def __str__(self) -> str:
        owner = f"tool {self.tool!r}: " if self.tool else ""
        return f"{owner}{self.quantity} is {self.value}, the limit is {self.limit}"


def preflight(tools: Sequence[ToolDefinition], profile: Profile) -> list[Problem]:
    """Return what the provider would refuse of these tools."""
    limits, problems = profile.limits, list[Problem]()
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
            problems.append(Problem(tool.name, "length of the description", len(tool.description), limits.description))
        if (tool.namespace, tool.name) in seen:
            problems.append(Problem(tool.name, "number of tools of this name", 2, 1, is_refused=False))
        seen.add((tool.namespace, tool.name))
    if limits.tools is not None and len(tools) > limits.tools:
        problems.append(Problem("", "number of tools", len(tools), limits.tools))
    return problems


def drop_refused_tools(tools: Sequence[ToolDefinition], profile: Profile) -> tuple[list[ToolDefinition], list[Loss]]:
    """Return the tools that the provider accepts, and a Loss for each other one: a bad tool must not cost the request."""
    refused = {problem.tool: problem for problem in preflight(tools, profile) if problem.is_refused and problem.tool}
    kept = [tool for tool in tools if tool.name not in refused]
    limit = profile.limits.tools or len(kept)
    losses = [Loss(f"tool {name!r}", "tools", f"left out: {problem}") for name, problem in refused.items()]
    reason = f"left out: {profile.title} accepts at most {limit} tools"
    return kept[:limit], [*losses, *(Loss(f"tool {tool.name!r}", "tools", reason) for tool in kept[limit:])]
