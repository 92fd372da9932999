"""Limits, checked before a byte is sent: which tool, which limit, which value."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from toolglot.errors import LimitExceeded
from toolglot.jsontext import dumps
from toolglot.losses import Loss
from toolglot.providers.profile import Profile
from toolglot.request import ToolDefinition

__all__ = ["Problem", "drop_refused_tools", "preflight"]


class Problem(msgspec.Struct, frozen=True):
    """A limit of the provider that a tool, or the request as a whole (`tool` is ""), goes over.

    `refused`: the provider answers with an error; otherwise the encoder finds a way and says so.
    """

    tool: str
    what: str
    value: int | str
    limit: int | str
    refused: bool = True

    def __str__(self) -> str:
        whose = f"tool {self.tool!r}: " if self.tool else ""
        return f"{whose}{self.what} is {self.value}, the limit is {self.limit}"

    def to_error(self, profile: Profile) -> LimitExceeded:
        """The problem as an error."""
        what = f"{self.what} of tool {self.tool!r}" if self.tool else self.what
        return LimitExceeded(what, self.limit, self.value, profile.title)


def preflight(tools: Sequence[ToolDefinition], profile: Profile, body: Any = None) -> list[Problem]:
    """What the provider would refuse of these tools, and of the whole body where it is given."""
    limits = profile.limits
    problems = [problem for tool in tools if tool.kind != "hosted" for problem in _check_tool(tool, profile)]
    problems += _check_duplicates(tools)
    if limits.tools is not None and len(tools) > limits.tools:
        problems.append(Problem("", "number of tools", len(tools), limits.tools))
    if body is not None:
        if limits.request_bytes is not None and (size := len(dumps(body))) > limits.request_bytes:
            problems.append(Problem("", "size of the request in bytes", size, limits.request_bytes))
        if limits.cache_marks is not None and (marks := _count_cache_marks(body)) > limits.cache_marks:
            problems.append(Problem("", "number of cache_control marks", marks, limits.cache_marks))
    return problems


def drop_refused_tools(tools: Sequence[ToolDefinition], profile: Profile) -> tuple[list[ToolDefinition], list[Loss]]:
    """The tools that the provider takes, and a Loss for each it does not: one bad tool does not cost the request."""
    bad = {problem.tool: problem for problem in preflight(tools, profile) if problem.refused and problem.tool}
    kept = [tool for tool in tools if tool.name not in bad]
    most = profile.limits.tools or len(kept)
    losses = [Loss(f"tool {name!r}", "tools", f"left out: {problem}") for name, problem in bad.items()]
    losses += [Loss(f"tool {tool.name!r}", "tools", f"left out: {profile.title} takes {most} at most") for tool in kept[most:]]
    return kept[:most], losses


def _check_tool(tool: ToolDefinition, profile: Profile) -> Iterable[Problem]:
    limits = profile.limits
    if not tool.name:
        yield Problem(tool.name, "name", "empty", "at least one character")
    elif not re.fullmatch(limits.name, tool.name):
        yield Problem(tool.name, "name", f"{len(tool.name)} characters", f"pattern {limits.name}", refused=False)
    if limits.description is not None and len(tool.description) > limits.description:
        yield Problem(tool.name, "length of the description", len(tool.description), limits.description)


def _check_duplicates(tools: Sequence[ToolDefinition]) -> Iterable[Problem]:
    seen: set[tuple[str, str]] = set()
    for tool in tools:
        key = (tool.namespace, tool.name)
        if key in seen and tool.kind != "hosted":
            yield Problem(tool.name, "number of tools of this name", 2, 1, refused=False)
        seen.add(key)


def _count_cache_marks(value: Any) -> int:
    """How often `cache_control` is set, at any depth."""
    if isinstance(value, dict):
        fields: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
        return sum(
            int(item is not None) if key == "cache_control" else _count_cache_marks(item) for key, item in fields.items()
        )
    if isinstance(value, list):
        return sum(map(_count_cache_marks, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return 0
