"""Approvals: asked, put off, saved, resumed in another process; an approved call runs exactly once, a refused
one never.
"""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from toolglot.errors import MalformedData, UsageError
from toolglot.loop.agent.agent import Agent
from toolglot.tools.config import ToolConfig
from toolglot.tools.hooks import Veto
from toolglot.tools.tool import Tool
from toolglot.values.approvals import ApprovalRequest
from toolglot.values.events import ApprovalNeeded, RunDone, RunResult, ToolFinished, ToolStarted
from toolglot.values.messages import Conversation

from .agents import (
    PROVIDERS,
    StuckTool,
    Wiretap,
    cancel_and_wait,
    check,
    check_bodies,
    collect_events,
    hook,
    kinds_of,
    make_agent,
    outcome,
    results_of,
    run,
)

LIVE = pytest.mark.parametrize("live", [False, True], ids=["whole", "streamed"])
ASK = ToolConfig(ask=frozenset({"write", "execute"}))


class Tools:
    """Tools that count."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    @property
    def all(self) -> list[Tool]:
        async def read(n: int) -> str:
            """Reads."""
            self.ran.append(f"read {n}")
            return f"read {n}"

        async def write(n: int) -> str:
            """Writes."""
            self.ran.append(f"write {n}")
            return f"wrote {n}"

        return [
            Tool(read, effects="read"),
            Tool(write, effects="write", target=lambda arguments: f"file {arguments['n']}"),
        ]


MIXED = 'call read {"n": 1} call write {"n": 2} call write {"n": 3} call read {"n": 4}'


async def pause(
    provider: str = "anthropic", prompt: str = MIXED, **options: Any
) -> tuple[Agent, Tools, RunResult]:
    tools = Tools()
    agent = make_agent(provider, tools=tools.all, config=ASK, **options)
    return agent, tools, await agent.run(prompt)


@pytest.mark.parametrize("provider", PROVIDERS)
@LIVE
async def test_a_run_pauses_and_continues(provider: str, live: bool) -> None:
    tools, wiretap = Tools(), Wiretap()
    agent = make_agent(provider, wiretap, tools=tools.all, config=ASK)
    first = await outcome(agent, MIXED, streamed=live)
    assert first.stop == "approval"
    assert [call.arguments for call in first.requests] == [{"n": 2}, {"n": 3}]
    assert agent.has_pending_run
    assert sorted(tools.ran) == ["read 1", "read 4"]
    yes, no = first.requests
    result = await agent.resume({yes.id: "yes", no.id: "no"})
    assert result.stop == "end"
    assert not agent.has_pending_run
    assert sorted(tools.ran) == ["read 1", "read 4", "write 2"]
    assert kinds_of(agent.conversation) == [None, None, "rejected", None]
    assert [result.text.partition(" ")[0] for result in results_of(agent.conversation)] == [
        "read",
        "wrote",
        "The",
        "read",
    ]
    check(agent.conversation)
    check_bodies(agent.view().engine, wiretap)


async def test_events_of_a_pause_and_of_the_rest() -> None:
    tools = Tools()
    agent = make_agent("anthropic", tools=tools.all, config=ASK)
    events = await collect_events(agent.stream(MIXED))
    assert isinstance(events[-2], ApprovalNeeded)
    assert isinstance(events[-1], RunDone)
    assert [request.arguments for request in events[-2].requests] == [{"n": 2}, {"n": 3}]
    ids = [request.id for request in events[-2].requests]
    remaining = await collect_events(agent.resume_stream(dict.fromkeys(ids, "yes")))
    assert [type(event) for event in remaining if isinstance(event, ToolStarted | ToolFinished)].count(
        ToolFinished
    ) == 2
    assert isinstance(remaining[-1], RunDone)
    assert remaining[-1].result.stop == "end"
    check(agent.conversation)


async def test_decisions_may_come_one_by_one() -> None:
    agent, tools, first = await pause()
    request, other = first.requests
    second = await agent.resume({other.id: "yes"})
    assert second.stop == "approval"
    assert [call.id for call in second.requests] == [request.id]
    third = await agent.resume({request.id: "yes"})
    assert third.stop == "end"
    assert tools.ran[2:] == ["write 3", "write 2"]
    assert [result.text for result in results_of(agent.conversation)] == [
        "read 1",
        "wrote 2",
        "wrote 3",
        "read 4",
    ]


async def test_resuming_without_decisions_keeps_waiting() -> None:
    agent, tools, first = await pause()
    again = await agent.resume()
    assert (again.stop, again.requests) == ("approval", first.requests)
    assert len(tools.ran) == 2


async def test_decisions_for_unknown_calls_are_named_and_change_nothing() -> None:
    agent, tools, first = await pause()
    with pytest.raises(UsageError, match="nonsense"):
        await agent.resume({"nonsense": "yes", first.requests[0].id: "yes"})
    assert agent.has_pending_run
    assert len(tools.ran) == 2
    await agent.resume({call.id: "no" for call in first.requests})
    assert len(tools.ran) == 2
    check(agent.conversation)


@pytest.mark.parametrize("decision", ["maybe", "", "YES PLEASE", 1, None])
async def test_a_decision_that_is_neither_yes_nor_no_is_an_error(decision: Any) -> None:
    agent, tools, first = await pause()
    with pytest.raises(UsageError):
        await agent.resume({first.requests[0].id: decision})
    assert len(tools.ran) == 2
    assert agent.has_pending_run


async def test_resuming_what_does_not_wait_is_an_error() -> None:
    agent = make_agent("anthropic")
    with pytest.raises(UsageError, match="no run is waiting"):
        await agent.resume({})
    with pytest.raises(UsageError, match="no run is waiting"):
        await collect_events(agent.resume_stream({}))


async def test_resuming_twice_runs_once() -> None:
    agent, tools, first = await pause()
    decisions: dict[str, Any] = {call.id: "yes" for call in first.requests}
    result, other = await asyncio.gather(
        agent.resume(decisions), agent.resume(decisions), return_exceptions=True
    )
    assert isinstance(result, RunResult)
    assert result.stop == "end"
    assert isinstance(other, UsageError)
    assert sorted(tools.ran) == ["read 1", "read 4", "write 2", "write 3"]


async def test_a_new_prompt_leaves_what_waited_behind() -> None:
    agent, tools, first = await pause()
    assert (await agent.run("say something else")).text == "something else"
    with pytest.raises(UsageError):
        await agent.resume({first.requests[0].id: "yes"})
    assert not agent.has_pending_run
    assert len(tools.ran) == 2
    assert kinds_of(agent.conversation) == [None, "cancelled", "cancelled", None]
    check(agent.conversation)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_another_model_may_continue_with_a_paused_run(provider: str) -> None:
    for other in PROVIDERS:
        agent, tools, first = await pause(provider)
        wiretap = Wiretap()
        agent.switch(f"simulator:{other}", transport=wiretap)
        result = await agent.resume({call.id: "yes" for call in first.requests})
        assert result.stop == "end"
        assert len(tools.ran) == 4
        check(agent.conversation, everywhere=False)
        check_bodies(agent.view().engine, wiretap)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_calls_of_one_id_are_decided_together_and_run_once_each(provider: str) -> None:
    tools = Tools()
    agent = make_agent(provider, Wiretap(faults=["duplicate-ids"]), tools=tools.all, config=ASK)
    first = await agent.run('call write {"n": 1} call write {"n": 2}')
    assert len(first.requests) == 2
    assert (await agent.resume({call.id: "yes" for call in first.requests})).stop == "end"
    assert sorted(tools.ran) == ["write 1", "write 2"]
    check(agent.conversation)


# ---- other conversations


async def test_a_pause_in_another_conversation_leaves_it_valid() -> None:
    """It can be resumed, or a new prompt says that what waited did not run."""
    tools, other = Tools(), Conversation()
    agent = make_agent("anthropic", tools=tools.all, config=ASK)
    first = await agent.run('call write {"n": 1}', conversation=other)
    assert first.stop == "approval"
    await agent.run("say on", conversation=other)
    assert tools.ran == []
    check(other)
    assert kinds_of(other) == ["cancelled"]


async def test_a_pause_in_another_conversation_is_not_one_of_the_own() -> None:
    tools, other = Tools(), Conversation()
    agent = make_agent("anthropic", tools=tools.all, config=ASK)
    await agent.run('call write {"n": 1}', conversation=other)
    assert not agent.has_pending_run
    await agent.run("say on")
    check(agent.conversation)


# ---- an approver


def test_always_counts_for_the_other_calls_of_the_same_turn() -> None:
    asked: list[str] = []
    tools = Tools()

    def approve(approval: ApprovalRequest) -> str:
        asked.append(approval.target)
        return "always"

    run(make_agent("anthropic", tools=tools.all, config=ASK, approve=approve).run(MIXED))
    assert asked == ["file 2"]
    assert len(tools.ran) == 4


async def test_an_approver_may_put_off_some() -> None:
    def approve(approval: ApprovalRequest) -> str:
        return "later" if approval.target == "file 3" else "yes"

    agent, tools, first = await pause(approve=approve)
    assert [call.arguments for call in first.requests] == [{"n": 3}]
    assert sorted(tools.ran) == ["read 1", "read 4", "write 2"]
    await agent.resume({first.requests[0].id: "yes"})
    assert tools.ran[-1] == "write 3"
    check(agent.conversation)


@LIVE
@pytest.mark.parametrize(
    "error", [ValueError, TimeoutError, KeyError, ConnectionError], ids=lambda error: error.__name__
)
async def test_an_approver_that_fails_leaves_a_valid_conversation(error: type[Exception], live: bool) -> None:
    tools = Tools()

    async def approve(approval: ApprovalRequest) -> bool:
        raise error("the approver is broken")

    agent = make_agent("anthropic", tools=tools.all, config=ASK, approve=approve)
    with pytest.raises(error):
        await outcome(agent, MIXED, streamed=live)
    check(agent.conversation)
    assert (await agent.run("say on")).text == "on"
    assert "write 2" not in tools.ran
    check(agent.conversation)


def test_a_veto_comes_before_the_question() -> None:
    asked: list[ApprovalRequest] = []

    tools, never = Tools(), hook(before_tool=lambda _: Veto("never"))
    run(
        make_agent("anthropic", tools=tools.all, config=ASK, approve=asked.append, hooks=[never]).run(
            'call write {"n": 1}'
        )
    )
    assert (asked, tools.ran) == ([], [])


def test_early_starts_ask_too() -> None:
    tools = Tools()
    config = ToolConfig(ask=frozenset({"read", "write"}), eager_start=True)
    agent = make_agent("anthropic", tools=tools.all, config=config)
    result = run(outcome(agent, MIXED, streamed=True))
    assert result.stop == "approval"
    assert len(result.requests) == 4
    assert tools.ran == []


async def test_abort_does_not_take_a_refusal_for_a_failure() -> None:
    tools = Tools()
    config = ToolConfig(ask=frozenset({"write"}), on_error="abort")
    agent = make_agent("anthropic", tools=tools.all, config=config)
    first = await agent.run('call write {"n": 1}')
    assert (await agent.resume({first.requests[0].id: "no"})).stop == "end"


def test_abort_does_not_take_the_no_of_an_approver_for_a_failure() -> None:
    tools = Tools()
    config = ToolConfig(ask=frozenset({"write"}), on_error="abort")
    agent = make_agent("anthropic", tools=tools.all, config=config, approve=lambda _: "no")  # pyright: ignore[reportUnknownLambdaType]
    assert run(agent.run('call write {"n": 1}')).stop == "end"
    assert kinds_of(agent.conversation) == ["rejected"]


async def test_cancelling_a_resumed_run_does_not_run_a_call_again() -> None:
    """An approved tool must not run twice when the cancel lands while it runs."""
    write = StuckTool("write", effects="write")
    agent = make_agent("anthropic", tools=[write.tool], config=ASK)
    first = await agent.run("call write {}")
    task = asyncio.create_task(agent.resume({first.requests[0].id: "yes"}))
    await write.inside.wait()
    await cancel_and_wait(task)
    assert not agent.has_pending_run
    with pytest.raises(UsageError):
        await agent.resume({first.requests[0].id: "yes"})
    await agent.run("say on")
    assert write.ended == 1
    assert kinds_of(agent.conversation) == ["interrupted"]
    check(agent.conversation)


async def test_a_resume_that_cannot_start_can_be_retried() -> None:
    """The system prompt fails once: the same decisions are good the second time."""
    fails: list[bool] = []

    def system(_: Any) -> str:
        if fails:
            fails.pop()
            raise LookupError("no prompt")
        return "fine"

    agent, tools, first = await pause(system=system)
    decisions: dict[str, Any] = {call.id: "yes" for call in first.requests}
    fails.append(True)
    with pytest.raises(LookupError):
        await agent.resume(decisions)
    assert agent.has_pending_run
    assert (await agent.resume(decisions)).stop == "end"
    assert len(tools.ran) == 4


# ---- another process


async def test_a_saved_run_continues_in_a_fresh_agent() -> None:
    for provider in PROVIDERS:
        agent, tools, first = await pause(provider)
        data = agent.save()
        later = Tools()
        other = Agent.load(data, f"simulator:{provider}", tools=later.all, config=ASK)
        assert other.has_pending_run
        result = await other.resume({call.id: "yes" for call in first.requests})
        assert result.stop == "end"
        assert later.ran == ["write 2", "write 3"]
        assert tools.ran == ["read 1", "read 4"]
        check(other.conversation, everywhere=False)
        assert other.save()


async def test_saving_twice_gives_the_same() -> None:
    agent, _, _ = await pause()
    other = Agent.load(agent.save(), "simulator:anthropic", tools=Tools().all, config=ASK)
    assert other.save() == agent.save()


def test_a_saved_simulator_stays_one() -> None:
    """Loading without a model goes on where it was saved: not at a real provider."""
    agent = make_agent("openai-chat")
    run(agent.run("say hi"))
    other = Agent.load(agent.save())
    assert other.view().engine.profile.base_url == agent.view().engine.profile.base_url


HARM: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("cut", lambda data: data[: len(data) // 2]),
    ("results of another turn", lambda data: data.replace(b'"results":[{', b'"results":[null,{', 1)),
    ("a started call that is none", lambda data: data.replace(b'"started":[', b'"started":[99,', 1)),
    ("a waiting call that is none", lambda data: data.replace(b'"suspended":{', b'"suspended":{"99":{},', 1)),
    ("a negative number", lambda data: data.replace(b'"suspended":{', b'"suspended":{"-1":{},', 1)),
    ("another length", lambda data: data.replace(b'"length":2', b'"length":3', 1)),
    ("the wrong shape", lambda data: data.replace(b'"iteration":1', b'"iteration":"x"', 1)),
]


@pytest.mark.parametrize("change", [case[1] for case in HARM], ids=[case[0] for case in HARM])
async def test_a_damaged_file_is_refused_with_our_error(change: Callable[[bytes], bytes]) -> None:
    agent, _, _ = await pause()
    data = change(agent.save())
    assert data != agent.save()
    with pytest.raises((MalformedData, UsageError)):
        Agent.load(data, "simulator:anthropic", tools=Tools().all, config=ASK)


PROGRAM = dedent(
    """
    import sys
    from pathlib import Path
    from toolglot import Agent, ToolConfig, tool

    folder, what = Path(sys.argv[1]), sys.argv[2]

    def counted(name, effects):
        def body(n: int) -> str:
            with open(folder / "ran", "a") as file:
                file.write(f"{name} {n}\\n")
            return f"{name} {n}"
        body.__doc__ = name
        return tool(body, name=name, effects=effects, tags={"a", "b", "c"})

    options = dict(tools=[counted("read", "read"), counted("write", ("write", "network", "execute"))], config=ToolConfig(ask=frozenset({"write"})))
    if what == "start":
        agent = Agent("simulator:%s", **options)
        result = agent.run_sync('call read {"n": 1} call write {"n": 2} call write {"n": 3}')
        assert result.stop == "approval", result
    else:
        agent = Agent.load((folder / "saved").read_bytes(), "simulator:%s", **options)
        first, second = (call.id for call in agent.conversation[-1].calls[1:])
        result = agent.resume_sync({first: "yes"} if what == "first" else {second: "yes"})
        assert result.stop == ("approval" if what == "first" else "end"), result
    (folder / "saved").write_bytes(agent.save())
    """  # noqa: E501
)


@pytest.mark.untraced
@pytest.mark.parametrize("provider", ["anthropic", "gemini"])
def test_three_processes_run_each_call_exactly_once(provider: str, tmp_path: Path) -> None:
    for step in ("start", "first", "second"):
        program = PROGRAM % (provider, provider)
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path), step], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
    assert sorted((tmp_path / "ran").read_text().splitlines()) == ["read 1", "write 2", "write 3"]
    end = Agent.load((tmp_path / "saved").read_bytes(), f"simulator:{provider}")
    assert not end.has_pending_run
    assert [result.text for result in results_of(end.conversation)] == ["read 1", "write 2", "write 3"]
    check(end.conversation)


def test_uses_are_counted_across_processes() -> None:
    """max_uses is a limit of the conversation, and the conversation is the same."""
    config = ToolConfig(max_uses={"read": 1}, ask=frozenset({"write"}))
    tools = Tools()
    agent = make_agent("anthropic", tools=tools.all, config=config)
    run(agent.run('call read {"n": 1}'))
    other = Agent.load(agent.save(), "simulator:anthropic", tools=tools.all, config=config)
    run(other.run('call read {"n": 2}'))
    assert kinds_of(other.conversation) == [None, "limit"]


async def test_changed_tools_are_noticed(caplog: pytest.LogCaptureFixture) -> None:
    agent, tools, first = await pause()
    other = Agent.load(agent.save(), "simulator:anthropic", tools=tools.all[:1], config=ASK)
    assert "tools have changed" in caplog.text
    with pytest.raises(
        UsageError, match=r"waiting to call write, which is not among the agent's tools: pass tools="
    ):
        await other.resume({call.id: "yes" for call in first.requests})
    assert other.has_pending_run, "the approved calls are not used up"
    again = Agent.load(other.save(), tools=tools.all, config=ASK)
    await again.resume({call.id: "yes" for call in first.requests})
    assert kinds_of(again.conversation) == [None] * 4
    await other.resume({call.id: "no" for call in first.requests})
    assert kinds_of(other.conversation) == [None, "rejected", "rejected", None]
    check(other.conversation)
