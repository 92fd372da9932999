"""Limits are named before a byte is sent: which tool, which limit, which value."""

from typing import Any

import pytest

from toolglot.errors import LimitExceeded
from toolglot.providers.catalog import resolve_profile
from toolglot.providers.preflight import Problem, drop_refused_tools, preflight
from toolglot.providers.profile import Profile, ProviderLimits
from toolglot.request import ToolDefinition


def tools(count: int) -> list[ToolDefinition]:
    return [ToolDefinition(f"t{number}") for number in range(count)]


SHORT = Profile(id="short", title="Short", wire="openai-chat", limits=ProviderLimits(tools=2, description=5, request_bytes=20))
# fmt: off
CASES: dict[str, tuple[Profile, list[ToolDefinition], Any, list[Problem]]] = {
    "all is well": (resolve_profile("openai-chat"), tools(128), None, []),
    "too many": (resolve_profile("openai-chat"), tools(129), None, [Problem("", "number of tools", 129, 128)]),
    "no known limit": (resolve_profile("anthropic"), tools(500), None, []),
    "no name": (SHORT, [ToolDefinition("")], None, [Problem("", "name", "empty", "at least one character")]),
    "a name that is mapped": (resolve_profile("openai-chat"), [ToolDefinition("a.b")], None,
        [Problem("a.b", "name", "3 characters", "pattern [a-zA-Z0-9_-]{1,64}", is_refused=False)]),
    "a long description": (SHORT, [ToolDefinition("a", "abcdef")], None, [Problem("a", "length of the description", 6, 5)]),
    "the same name in two namespaces": (SHORT, [ToolDefinition("a"), ToolDefinition("a", namespace="crm")], None, []),
    "twice": (SHORT, [ToolDefinition("a"), ToolDefinition("a", "x")], None,
        [Problem("a", "number of tools of this name", 2, 1, is_refused=False)]),
    "hosted tools have no limits of ours": (SHORT, [ToolDefinition("web:search", kind="hosted")] * 2, None, []),
    "a large body": (SHORT, [], {"a": "x" * 20}, [Problem("", "size of the request in bytes", 28, 20)]),
    "cache marks": (
        resolve_profile("anthropic"),
        [],
        {
            "system": [{"cache_control": {}}] * 3,
            "messages": [{"cache_control": {}}, {"cache_control": {}}, {"cache_control": None}],
        },
        [Problem("", "number of cache_control marks", 5, 4)],
    ),
    "four cache marks": (resolve_profile("anthropic"), [], [{"cache_control": {}}] * 4, []),
}
# fmt: on


@pytest.mark.parametrize(("profile", "given", "body", "problems"), CASES.values(), ids=CASES.keys())
def test_limits(profile: Profile, given: list[ToolDefinition], body: Any, problems: list[Problem]) -> None:
    assert preflight(given, profile, body) == problems


def test_a_problem_as_text_and_as_an_error() -> None:
    problem = Problem("t", "length of the description", 6, 5)
    assert str(problem) == "tool 't': length of the description is 6, the limit is 5"
    error = problem.to_error(SHORT)
    assert isinstance(error, LimitExceeded)
    assert str(error) == "length of the description of tool 't' is 6, over the limit of Short: 5"
    assert str(Problem("", "number of tools", 3, 2).to_error(SHORT)) == "number of tools is 3, over the limit of Short: 2"


def test_refused_tools_are_dropped() -> None:
    kept, losses = drop_refused_tools([ToolDefinition("long", "abcdef"), *tools(3)], SHORT)
    assert [tool.name for tool in kept] == ["t0", "t1"]
    assert [loss.subject for loss in losses] == ["tool 'long'", "tool 't2'"]
    assert "limit is 5" in losses[0].reason
    assert "at most 2 tools" in losses[1].reason


def test_accepted_tools_are_kept() -> None:
    assert drop_refused_tools(tools(3), resolve_profile("anthropic")) == (tools(3), [])
