"""Checks a provider's limits before anything is sent: which tool, which limit, which value."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from toolglot.errors import LimitExceeded
from toolglot.jsontext import dumps
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

    def to_error(self, profile: Profile) -> LimitExceeded:
        """Return the problem as an error."""
        quantity = f"{self.quantity} of tool {self.tool!r}" if self.tool else self.quantity
        return LimitExceeded(quantity, self.limit, self.value, profile.title)


def preflight(tools: Sequence[ToolDefinition], profile: Profile, body: Any = None) -> list[Problem]:
    """Return what the provider would refuse of these tools, and of the whole body if it is passed."""
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
    if body is not None:
        if limits.request_bytes is not None and (size := len(dumps(body))) > limits.request_bytes:
            problems.append(Problem("", "size of the request in bytes", size, limits.request_bytes))
        if limits.cache_marks is not None and (marks := _count_cache_marks(body)) > limits.cache_marks:
            problems.append(Problem("", "number of cache_control marks", marks, limits.cache_marks))
    return problems


def drop_refused_tools(tools: Sequence[ToolDefinition], profile: Profile) -> tuple[list[ToolDefinition], list[Loss]]:
    """Return the tools that the provider accepts, and a Loss for each other one: a bad tool must not cost the request."""
    refused = {problem.tool: problem for problem in preflight(tools, profile) if problem.is_refused and problem.tool}
    kept = [tool for tool in tools if tool.name not in refused]
    limit = profile.limits.tools or len(kept)
    losses = [Loss(f"tool {name!r}", "tools", f"left out: {problem}") for name, problem in refused.items()]
    reason = f"left out: {profile.title} accepts at most {limit} tools"
    return kept[:limit], [*losses, *(Loss(f"tool {tool.name!r}", "tools", reason) for tool in kept[limit:])]


def _count_cache_marks(value: Any) -> int:
    """Count where `cache_control` is set, at any depth."""
    if isinstance(value, dict):
        fields: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
        return sum(
            int(item is not None) if key == "cache_control" else _count_cache_marks(item) for key, item in fields.items()
        )
    if isinstance(value, list):
        return sum(map(_count_cache_marks, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return 0
