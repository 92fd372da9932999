"""Limits are reported before anything is sent: which tool, which limit, which value."""

import pytest

from toolglot.providers.catalog import resolve_profile
from toolglot.providers.preflight import Problem, drop_refused_tools, preflight
from toolglot.providers.profile import Profile, ProviderLimits
from toolglot.request import ToolDefinition


def tools(count: int) -> list[ToolDefinition]:
    return [ToolDefinition(f"t{number}") for number in range(count)]


SHORT = Profile(id="short", title="Short", wire="openai-chat", limits=ProviderLimits(tools=2, description=5))
# fmt: off
CASES: dict[str, tuple[Profile, list[ToolDefinition], list[Problem]]] = {
    "all is well": (resolve_profile("openai-chat"), tools(128), []),
    "too many": (resolve_profile("openai-chat"), tools(129), [Problem("", "number of tools", 129, 128)]),
    "no known limit": (resolve_profile("anthropic"), tools(500), []),
    "no name": (SHORT, [ToolDefinition("")], [Problem("", "name", "empty", "at least one character")]),
    "a name that is mapped": (resolve_profile("openai-chat"), [ToolDefinition("a.b")],
        [Problem("a.b", "name", "3 characters", "pattern [a-zA-Z0-9_-]{1,64}", is_refused=False)]),
    "a long description": (SHORT, [ToolDefinition("a", "abcdef")], [Problem("a", "length of the description", 6, 5)]),
    "the same name in two namespaces": (SHORT, [ToolDefinition("a"), ToolDefinition("a", namespace="crm")], []),
    "twice": (SHORT, [ToolDefinition("a"), ToolDefinition("a", "x")],
        [Problem("a", "number of tools of this name", 2, 1, is_refused=False)]),
    "hosted tools have no limits of ours": (SHORT, [ToolDefinition("web:search", kind="hosted")] * 2, []),
}
# fmt: on


@pytest.mark.parametrize(("profile", "given", "problems"), CASES.values(), ids=CASES.keys())
def test_limits(profile: Profile, given: list[ToolDefinition], problems: list[Problem]) -> None:
    assert preflight(given, profile) == problems


def test_a_problem_as_text() -> None:
    assert str(Problem("t", "length of the description", 6, 5)) == "tool 't': length of the description is 6, the limit is 5"
    assert str(Problem("", "number of tools", 3, 2)) == "number of tools is 3, the limit is 2"


def test_refused_tools_are_dropped() -> None:
    kept, losses = drop_refused_tools([ToolDefinition("long", "abcdef"), *tools(3)], SHORT)
    assert [tool.name for tool in kept] == ["t0", "t1"]
    assert [loss.subject for loss in losses] == ["tool 'long'", "tool 't2'"]
    assert "limit is 5" in losses[0].reason
    assert "at most 2 tools" in losses[1].reason


def test_accepted_tools_are_kept() -> None:
    assert drop_refused_tools(tools(3), resolve_profile("anthropic")) == (tools(3), [])
