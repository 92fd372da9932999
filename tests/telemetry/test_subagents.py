"""What runs of sub-agents tell OpenTelemetry: they nest in the calls that run them, also after a pause, and every
token is counted once.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from tests.loop.agents import make_agent, run
from tests.loop.test_subagents import PAY, Bank, ask, reload, say_yes
from tests.telemetry.recorder import Recorder

from toolglot import Agent, RunLimits, Tool

LOOK = 'call look {"place": "a"}'
BOSS = "invoke_agent boss"
RESEARCH = f"{BOSS} > execute_tool research > invoke_agent research"
PAYMENTS = f"{RESEARCH} > execute_tool payments > invoke_agent payments"
CHAT = "chat claude-sonnet-4-5"


def nest(recorder: Recorder, **options: Any) -> tuple[Agent, list[Tool]]:
    """A boss, a research agent that works for it, and an agent for payments that works for that one."""
    inner = make_agent(
        "anthropic", tools=Bank().tools, telemetry=recorder.telemetry("payments"), **options
    ).as_tool("payments", "Pays.")
    middle = make_agent("anthropic", tools=[inner], telemetry=recorder.telemetry("research"))
    tools = [middle.as_tool("research", "Researches.")]
    return make_agent("anthropic", tools=tools, telemetry=recorder.telemetry("boss")), tools


def attributes_of(span: ReadableSpan) -> Mapping[str, Any]:
    return span.attributes or {}


def count_tokens(span: ReadableSpan) -> int:
    attributes = attributes_of(span)
    return attributes["gen_ai.usage.input_tokens"] + attributes["gen_ai.usage.output_tokens"]


def list_below(recorder: Recorder, span: ReadableSpan) -> list[ReadableSpan]:
    """All spans that are nested in this one, at any level."""
    assert span.context is not None
    ids, below = {span.context.span_id}, list[ReadableSpan]()
    for other in sorted(recorder.spans, key=lambda span: span.start_time or 0):
        if other.parent is not None and other.parent.span_id in ids and other.context is not None:
            ids.add(other.context.span_id)
            below.append(other)
    return below


def check_tokens(recorder: Recorder) -> None:
    """A run has the tokens of the requests that are nested in it, and the metric has each once."""
    chats = [span for span in recorder.spans if span.name == CHAT]
    for span in recorder.spans:
        if span.name.startswith("invoke_agent"):
            inside = [other for other in list_below(recorder, span) if other.name == CHAT]
            assert count_tokens(span) == sum(map(count_tokens, inside)) > 0
    [measured] = [recorder.points()["gen_ai.client.token.usage"]]
    assert sum(point.sum for _, point in measured) == sum(map(count_tokens, chats))


def test_runs_of_sub_agents_nest_in_the_calls_that_run_them() -> None:
    recorder = Recorder()
    agent, _ = nest(recorder)
    result = run(agent.run(ask("research", ask("payments", LOOK))))
    assert set(recorder.tree()) == {
        BOSS,
        f"{BOSS} > {CHAT}",
        f"{BOSS} > execute_tool research",
        RESEARCH,
        f"{RESEARCH} > {CHAT}",
        f"{RESEARCH} > execute_tool payments",
        PAYMENTS,
        f"{PAYMENTS} > {CHAT}",
        f"{PAYMENTS} > execute_tool look",
    }
    assert len(recorder.spans) == 12  # two requests of each agent
    assert count_tokens(recorder.span(BOSS)) == result.usage.input + result.usage.output
    check_tokens(recorder)


def test_each_agent_has_its_own_conversation_in_its_spans() -> None:
    recorder = Recorder()
    agent, _ = nest(recorder)
    run(agent.run(ask("research", ask("payments", LOOK))))
    names = ("boss", "research", "payments")
    ids = [attributes_of(recorder.span(f"invoke_agent {name}"))["gen_ai.conversation.id"] for name in names]
    assert len(set(ids)) == 3


@pytest.mark.parametrize("way", ["here", "elsewhere", "elsewhere, after a look"])
def test_a_run_that_continues_nests_again(way: str) -> None:
    recorder = Recorder()
    agent, tools = nest(recorder)
    first = run(agent.run(ask("research", ask("payments", LOOK, PAY))))
    check_tokens(recorder)
    before = recorder.spans
    for name in ("boss", "research", "payments"):
        assert attributes_of(recorder.span(f"invoke_agent {name}"))["toolglot.stop"] == "approval"
    if way != "here":
        agent = reload(agent, "anthropic", tools, telemetry=recorder.telemetry("boss"))
    if way.endswith("look"):
        assert len(run(agent.list_pending())) == 1
    done = run(agent.resume({first.pending[0].id: True}))
    assert done.stop == "end"
    later = recorder.tree()
    assert all(path.startswith(BOSS) for path in later)
    assert later.count(f"{PAYMENTS} > execute_tool pay") == 1
    # Each part of the run is a tree of its own, with its own tokens.
    assert [later.count(path) for path in (BOSS, RESEARCH, PAYMENTS)] == [2, 2, 2]
    new = [span for span in recorder.spans if span not in before]
    trace_ids = {span.context.trace_id for span in new if span.context is not None}
    assert len(trace_ids) == 1
    assert not trace_ids & {span.context.trace_id for span in before if span.context is not None}
    check_tokens(recorder)
    roots = [span for span in recorder.spans if span.name == BOSS]
    assert sum(map(count_tokens, roots)) == done.usage.input + done.usage.output


def test_decisions_are_events_of_the_run_that_makes_the_call() -> None:
    recorder = Recorder()
    agent, _ = nest(recorder, approve=say_yes)
    run(agent.run(ask("research", ask("payments", PAY))))
    decided = recorder.events("invoke_agent payments")["toolglot.approval_decided"]
    assert (decided["gen_ai.tool.name"], decided["decision"]) == ("pay", "allow")
    assert not recorder.events("invoke_agent research")
    assert not recorder.events(BOSS)
    check_tokens(recorder)


def test_a_run_that_did_not_finish_is_an_error_of_its_call() -> None:
    recorder = Recorder()
    child = make_agent("anthropic", tools=Bank().tools, telemetry=recorder.telemetry("payments"))
    tool = child.as_tool("payments", "Pays.", limits=RunLimits(max_total_tokens=1))
    agent = make_agent("anthropic", tools=[tool], telemetry=recorder.telemetry("boss"))
    run(agent.run(ask("payments", LOOK)))
    call = recorder.span("execute_tool payments")
    assert (call.status.status_code.name, attributes_of(call)["error.type"]) == ("ERROR", "agent_budget")
