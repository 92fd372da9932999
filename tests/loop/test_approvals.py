"""Approvals: asked, put off, saved, resumed in another process; an approved call runs exactly once, a refused one never."""

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
    agent,
    cancelled,
    check,
    check_bodies,
    gathered,
    hook,
    kinds_of,
    outcome,
    results_of,
    run,
)

LIVE = pytest.mark.parametrize("live", [False, True], ids=["whole", "streamed"])
ASK = ToolConfig(approval_effects=frozenset({"write", "execute"}))


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

        return [Tool(read, effects="read"), Tool(write, effects="write", target=lambda given: f"file {given['n']}")]


MIXED = 'call read {"n": 1} call write {"n": 2} call write {"n": 3} call read {"n": 4}'


async def paused(provider: str = "anthropic", prompt: str = MIXED, **options: Any) -> tuple[Agent, Tools, RunResult]:
    tools = Tools()
    talker = agent(provider, tools=tools.all, config=ASK, **options)
    return talker, tools, await talker.run(prompt)


@pytest.mark.parametrize("provider", PROVIDERS)
@LIVE
async def test_a_run_pauses_and_continues(provider: str, live: bool) -> None:
    tools, tap = Tools(), Wiretap()
    talker = agent(provider, tap, tools=tools.all, config=ASK)
    first = await outcome(talker, MIXED, streamed=live)
    assert first.stop == "approval"
    assert [call.arguments for call in first.requests] == [{"n": 2}, {"n": 3}]
    assert talker.has_pending_run
    assert sorted(tools.ran) == ["read 1", "read 4"]
    yes, no = first.requests
    result = await talker.resume({yes.id: "yes", no.id: "no"})
    assert result.stop == "end"
    assert not talker.has_pending_run
    assert sorted(tools.ran) == ["read 1", "read 4", "write 2"]
    assert kinds_of(talker.conversation) == [None, None, "rejected", None]
    assert [one.text.partition(" ")[0] for one in results_of(talker.conversation)] == ["read", "wrote", "The", "read"]
    check(talker.conversation)
    check_bodies(talker.view().engine, tap)


async def test_events_of_a_pause_and_of_the_rest() -> None:
    tools = Tools()
    talker = agent("anthropic", tools=tools.all, config=ASK)
    events = await gathered(talker.stream(MIXED))
    assert isinstance(events[-2], ApprovalNeeded)
    assert isinstance(events[-1], RunDone)
    assert [request.arguments for request in events[-2].requests] == [{"n": 2}, {"n": 3}]
    ids = [request.id for request in events[-2].requests]
    rest = await gathered(talker.resume_stream(dict.fromkeys(ids, "yes")))
    assert [type(event) for event in rest if isinstance(event, ToolStarted | ToolFinished)].count(ToolFinished) == 2
    assert isinstance(rest[-1], RunDone)
    assert rest[-1].result.stop == "end"
    check(talker.conversation)


async def test_decisions_may_come_one_by_one() -> None:
    talker, tools, first = await paused()
    one, other = first.requests
    second = await talker.resume({other.id: "yes"})
    assert second.stop == "approval"
    assert [call.id for call in second.requests] == [one.id]
    third = await talker.resume({one.id: "yes"})
    assert third.stop == "end"
    assert tools.ran[2:] == ["write 3", "write 2"]
    assert [result.text for result in results_of(talker.conversation)] == ["read 1", "wrote 2", "wrote 3", "read 4"]


async def test_resuming_without_decisions_keeps_waiting() -> None:
    talker, tools, first = await paused()
    again = await talker.resume()
    assert (again.stop, again.requests) == ("approval", first.requests)
    assert len(tools.ran) == 2


async def test_decisions_for_unknown_calls_are_named_and_change_nothing() -> None:
    talker, tools, first = await paused()
    with pytest.raises(UsageError, match="nonsense"):
        await talker.resume({"nonsense": "yes", first.requests[0].id: "yes"})
    assert talker.has_pending_run
    assert len(tools.ran) == 2
    await talker.resume({call.id: "no" for call in first.requests})
    assert len(tools.ran) == 2
    check(talker.conversation)


@pytest.mark.parametrize("decision", ["maybe", "", "YES PLEASE", 1, None])
async def test_a_decision_that_is_neither_yes_nor_no_is_an_error(decision: Any) -> None:
    talker, tools, first = await paused()
    with pytest.raises(UsageError):
        await talker.resume({first.requests[0].id: decision})
    assert len(tools.ran) == 2
    assert talker.has_pending_run


async def test_resuming_what_does_not_wait_is_an_error() -> None:
    talker = agent("anthropic")
    with pytest.raises(UsageError, match="no run is waiting"):
        await talker.resume({})
    with pytest.raises(UsageError, match="no run is waiting"):
        await gathered(talker.resume_stream({}))


async def test_resuming_twice_runs_once() -> None:
    talker, tools, first = await paused()
    decisions: dict[str, Any] = {call.id: "yes" for call in first.requests}
    one, other = await asyncio.gather(talker.resume(decisions), talker.resume(decisions), return_exceptions=True)
    assert isinstance(one, RunResult)
    assert one.stop == "end"
    assert isinstance(other, UsageError)
    assert sorted(tools.ran) == ["read 1", "read 4", "write 2", "write 3"]


async def test_a_new_prompt_leaves_what_waited_behind() -> None:
    talker, tools, first = await paused()
    assert (await talker.run("say something else")).text == "something else"
    with pytest.raises(UsageError):
        await talker.resume({first.requests[0].id: "yes"})
    assert not talker.has_pending_run
    assert len(tools.ran) == 2
    assert kinds_of(talker.conversation) == [None, "cancelled", "cancelled", None]
    check(talker.conversation)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_another_model_may_continue_with_a_paused_run(provider: str) -> None:
    for other in PROVIDERS:
        talker, tools, first = await paused(provider)
        tap = Wiretap()
        talker.switch(f"simulator:{other}", transport=tap)
        result = await talker.resume({call.id: "yes" for call in first.requests})
        assert result.stop == "end"
        assert len(tools.ran) == 4
        check(talker.conversation, everywhere=False)
        check_bodies(talker.view().engine, tap)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_calls_of_one_id_are_decided_together_and_run_once_each(provider: str) -> None:
    tools = Tools()
    talker = agent(provider, Wiretap(faults=["duplicate-ids"]), tools=tools.all, config=ASK)
    first = await talker.run('call write {"n": 1} call write {"n": 2}')
    assert len(first.requests) == 2
    assert (await talker.resume({call.id: "yes" for call in first.requests})).stop == "end"
    assert sorted(tools.ran) == ["write 1", "write 2"]
    check(talker.conversation)


# ---- other conversations


async def test_a_pause_in_another_conversation_leaves_it_valid() -> None:
    """It can be resumed, or a new prompt says that what waited did not run."""
    tools, other = Tools(), Conversation()
    talker = agent("anthropic", tools=tools.all, config=ASK)
    first = await talker.run('call write {"n": 1}', conversation=other)
    assert first.stop == "approval"
    await talker.run("say on", conversation=other)
    assert tools.ran == []
    check(other)
    assert kinds_of(other) == ["cancelled"]


async def test_a_pause_in_another_conversation_is_not_one_of_the_own() -> None:
    tools, other = Tools(), Conversation()
    talker = agent("anthropic", tools=tools.all, config=ASK)
    await talker.run('call write {"n": 1}', conversation=other)
    assert not talker.has_pending_run
    await talker.run("say on")
    check(talker.conversation)


# ---- an approver


def test_always_counts_for_the_other_calls_of_the_same_turn() -> None:
    asked: list[str] = []
    tools = Tools()

    def approve(approval: ApprovalRequest) -> str:
        asked.append(approval.target)
        return "always"

    run(agent("anthropic", tools=tools.all, config=ASK, approve=approve).run(MIXED))
    assert asked == ["file 2"]
    assert len(tools.ran) == 4


async def test_an_approver_may_put_off_some() -> None:
    def approve(approval: ApprovalRequest) -> str:
        return "later" if approval.target == "file 3" else "yes"

    talker, tools, first = await paused(approve=approve)
    assert [call.arguments for call in first.requests] == [{"n": 3}]
    assert sorted(tools.ran) == ["read 1", "read 4", "write 2"]
    await talker.resume({first.requests[0].id: "yes"})
    assert tools.ran[-1] == "write 3"
    check(talker.conversation)


@LIVE
@pytest.mark.parametrize("error", [ValueError, TimeoutError, KeyError, ConnectionError], ids=lambda error: error.__name__)
async def test_an_approver_that_fails_leaves_a_valid_conversation(error: type[Exception], live: bool) -> None:
    tools = Tools()

    async def approve(approval: ApprovalRequest) -> bool:
        raise error("the approver is broken")

    talker = agent("anthropic", tools=tools.all, config=ASK, approve=approve)
    with pytest.raises(error):
        await outcome(talker, MIXED, streamed=live)
    check(talker.conversation)
    assert (await talker.run("say on")).text == "on"
    assert "write 2" not in tools.ran
    check(talker.conversation)


def test_a_veto_comes_before_the_question() -> None:
    asked: list[ApprovalRequest] = []

    tools, never = Tools(), hook(before_tool=lambda _: Veto("never"))
    run(agent("anthropic", tools=tools.all, config=ASK, approve=asked.append, hooks=[never]).run('call write {"n": 1}'))
    assert (asked, tools.ran) == ([], [])


def test_early_starts_ask_too() -> None:
    tools = Tools()
    config = ToolConfig(approval_effects=frozenset({"read", "write"}), eager_start=True)
    talker = agent("anthropic", tools=tools.all, config=config)
    result = run(outcome(talker, MIXED, streamed=True))
    assert result.stop == "approval"
    assert len(result.requests) == 4
    assert tools.ran == []


async def test_abort_does_not_take_a_refusal_for_a_failure() -> None:
    tools = Tools()
    config = ToolConfig(approval_effects=frozenset({"write"}), on_error="abort")
    talker = agent("anthropic", tools=tools.all, config=config)
    first = await talker.run('call write {"n": 1}')
    assert (await talker.resume({first.requests[0].id: "no"})).stop == "end"


def test_abort_does_not_take_the_no_of_an_approver_for_a_failure() -> None:
    tools = Tools()
    config = ToolConfig(approval_effects=frozenset({"write"}), on_error="abort")
    talker = agent("anthropic", tools=tools.all, config=config, approve=lambda _: "no")  # pyright: ignore[reportUnknownLambdaType]
    assert run(talker.run('call write {"n": 1}')).stop == "end"
    assert kinds_of(talker.conversation) == ["rejected"]


async def test_cancelling_a_resumed_run_does_not_run_a_call_again() -> None:
    """An approved tool must not run twice when the cancel lands while it runs."""
    write = StuckTool("write", effects="write")
    talker = agent("anthropic", tools=[write.tool], config=ASK)
    first = await talker.run("call write {}")
    task = asyncio.create_task(talker.resume({first.requests[0].id: "yes"}))
    await write.inside.wait()
    await cancelled(task)
    assert not talker.has_pending_run
    with pytest.raises(UsageError):
        await talker.resume({first.requests[0].id: "yes"})
    await talker.run("say on")
    assert write.ended == 1
    assert kinds_of(talker.conversation) == ["interrupted"]
    check(talker.conversation)


async def test_a_resume_that_cannot_start_can_be_retried() -> None:
    """The system prompt fails once: the same decisions are good the second time."""
    fails: list[bool] = []

    def system(_: Any) -> str:
        if fails:
            fails.pop()
            raise LookupError("no prompt")
        return "fine"

    talker, tools, first = await paused(system=system)
    decisions: dict[str, Any] = {call.id: "yes" for call in first.requests}
    fails.append(True)
    with pytest.raises(LookupError):
        await talker.resume(decisions)
    assert talker.has_pending_run
    assert (await talker.resume(decisions)).stop == "end"
    assert len(tools.ran) == 4


# ---- another process


async def test_a_saved_run_continues_in_a_fresh_agent() -> None:
    for provider in PROVIDERS:
        talker, tools, first = await paused(provider)
        data = talker.save()
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
    talker, _, _ = await paused()
    other = Agent.load(talker.save(), "simulator:anthropic", tools=Tools().all, config=ASK)
    assert other.save() == talker.save()


def test_a_saved_simulator_stays_one() -> None:
    """Loading without a model goes on where it was saved: not at a real provider."""
    talker = agent("openai-chat")
    run(talker.run("say hi"))
    other = Agent.load(talker.save())
    assert other.view().engine.profile.base_url == talker.view().engine.profile.base_url


HARM: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("cut", lambda data: data[: len(data) // 2]),
    ("results of another turn", lambda data: data.replace(b'"results":[{', b'"results":[null,{', 1)),
    ("a started call that is none", lambda data: data.replace(b'"started":[', b'"started":[99,', 1)),
    ("a waiting call that is none", lambda data: data.replace(b'"waiting":[', b'"waiting":[99,', 1)),
    ("a negative number", lambda data: data.replace(b'"waiting":[', b'"waiting":[-1,', 1)),
    ("another length", lambda data: data.replace(b'"length":2', b'"length":3', 1)),
    ("the wrong shape", lambda data: data.replace(b'"iteration":1', b'"iteration":"x"', 1)),
]


@pytest.mark.parametrize("change", [case[1] for case in HARM], ids=[case[0] for case in HARM])
async def test_a_damaged_file_is_refused_with_our_error(change: Callable[[bytes], bytes]) -> None:
    talker, _, _ = await paused()
    data = change(talker.save())
    assert data != talker.save()
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

    options = dict(tools=[counted("read", "read"), counted("write", ("write", "network", "execute"))], config=ToolConfig(approval_effects=frozenset({"write"})))
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
    for what in ("start", "first", "second"):
        program = PROGRAM % (provider, provider)
        done = subprocess.run([sys.executable, "-c", program, str(tmp_path), what], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
    assert sorted((tmp_path / "ran").read_text().splitlines()) == ["read 1", "write 2", "write 3"]
    end = Agent.load((tmp_path / "saved").read_bytes(), f"simulator:{provider}")
    assert not end.has_pending_run
    assert [result.text for result in results_of(end.conversation)] == ["read 1", "write 2", "write 3"]
    check(end.conversation)


def test_uses_are_counted_across_processes() -> None:
    """max_uses is a limit of the conversation, and the conversation is the same."""
    config = ToolConfig(max_uses={"read": 1}, approval_effects=frozenset({"write"}))
    tools = Tools()
    talker = agent("anthropic", tools=tools.all, config=config)
    run(talker.run('call read {"n": 1}'))
    other = Agent.load(talker.save(), "simulator:anthropic", tools=tools.all, config=config)
    run(other.run('call read {"n": 2}'))
    assert kinds_of(other.conversation) == [None, "limit"]


async def test_changed_tools_are_noticed(caplog: pytest.LogCaptureFixture) -> None:
    talker, tools, first = await paused()
    other = Agent.load(talker.save(), "simulator:anthropic", tools=tools.all[:1], config=ASK)
    assert "tools have changed" in caplog.text
    with pytest.raises(UsageError, match=r"waiting to call write, which is not among the agent's tools: pass tools="):
        await other.resume({call.id: "yes" for call in first.requests})
    assert other.has_pending_run, "the approved calls are not used up"
    again = Agent.load(other.save(), tools=tools.all, config=ASK)
    await again.resume({call.id: "yes" for call in first.requests})
    assert kinds_of(again.conversation) == [None] * 4
    await other.resume({call.id: "no" for call in first.requests})
    assert kinds_of(other.conversation) == [None, "rejected", "rejected", None]
    check(other.conversation)
