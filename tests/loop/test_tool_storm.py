"""Tools over time, with another model in every turn: random histories. `make attack` plays 2,600."""

import pytest

from toolglot.engine.factory import create_engine
from toolglot.values.messages import Text, ToolCall, ToolResult, assistant, tool_results, user
from toolglot.values.request import Request
from toolglot.wire.codec import encode_request

from .agents import PROVIDERS
from .tool_storm import Storm, make_tool, play_history


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("seeds", "is_odd"),
    [(range(20), False), (range(25), True), (range(25, 50), True)],
    ids=["plain", "odd", "odder"],
)
def test_tools_that_change_while_models_change(seeds: range, is_odd: bool) -> None:
    """Each request is accepted; each result is with its call; every tool is declared as it is now; nothing is
    lost.
    """
    problems: list[str] = []
    request_count = 0
    for seed in seeds:
        count, wrong = play_history(seed, is_odd=is_odd)
        request_count += count
        problems += wrong
    assert problems == []
    assert request_count > len(seeds) * 4


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_storm_judges_what_is_sent(provider: str) -> None:
    """Its judges see an old definition, a missing one, and a result that is not with its call."""
    profile = create_engine(f"simulator:{provider}").profile
    tools = [make_tool("alpha", 1).definition, make_tool("beta", 1).definition]
    calls = [ToolCall(id, "alpha", {"v1": f"call00000{number}"}) for number, id in enumerate("ab")]
    results = [ToolResult(id, (Text(f"result00000{number}"),), "alpha") for number, id in enumerate("ab")]
    storm = Storm(1, is_odd=False)
    storm.calls = ["call000000", "call000001"]
    storm.results = {"call000000": "result000000", "call000001": "result000001"}
    history = [user("hi"), assistant(calls), tool_results(*results)]
    body = encode_request(Request(profile.model, history, tools), profile).body
    storm.versions = {"alpha": 1, "beta": 1}
    assert (storm.judge_pairs(profile, body), storm.judge_tools(profile, body)) == ([], [])
    storm.versions = {"alpha": 2, "beta": 1, "gamma": 1}
    assert storm.judge_tools(profile, body) == ["alpha is declared with v1", "gamma is not declared"]
    storm.results["call000001"] = "result000000"
    assert storm.judge_pairs(profile, body) == ["call000001: 'result000001' instead of 'result000000'"]
    storm.calls.append("call000002")
    assert storm.judge_pairs(profile, body)[0].startswith("calls ['call000000', 'call000001'] instead of")
