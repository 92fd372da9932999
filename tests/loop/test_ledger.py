"""What a run may use counts over all of its legs, and with the runs below it; waiting for people takes none of
its time.
"""

import asyncio
import re
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from toolglot.bridges.imported_tools import ask_user
from toolglot.builtin.tool_state import UserAnswer, UserQuestion
from toolglot.builtin.tools import builtins
from toolglot.errors import MalformedData, UsageError
from toolglot.loop.agent.agent import Agent
from toolglot.loop.ledger import Ledger, TimeIsUp
from toolglot.loop.limits import RunLimits
from toolglot.loop.run import Spent
from toolglot.providers.profile import Price
from toolglot.tools.config import ToolConfig
from toolglot.tools.context import Context
from toolglot.tools.tool import Tool
from toolglot.values.approvals import ApprovalRequest, Suspended
from toolglot.values.events import RunDone, RunResult
from toolglot.values.messages import Reply, ToolCall, Usage
from toolglot.values.request import Request

from .agents import (
    PROVIDERS,
    StuckTool,
    Wiretap,
    check,
    check_bodies,
    collect_events,
    kinds_of,
    make_agent,
    outcome,
    results_of,
    run,
    texts_of,
)
from .virtual_time import VirtualLoop, run_virtual, use_clock

LIVE = pytest.mark.parametrize("live", [False, True], ids=["whole", "streamed"])
EVERYWHERE = pytest.mark.parametrize("provider", PROVIDERS)
ASK = ToolConfig(ask=frozenset({"write"}))
HOUR = 3600.0
STEPS = 5


def call_in_steps() -> list[Any]:
    """A model that makes one call after the other."""
    numbers = count()

    def reply(request: Request) -> Reply:
        return Reply((ToolCall(f"call_{(n := next(numbers))}", "write", {"n": n}),), "tools")

    return [*[reply] * STEPS, "done", *["done"] * STEPS]


def make_tool(seconds: float = 0.0) -> Tool:
    async def write(n: int) -> str:
        if seconds:
            await asyncio.sleep(seconds)
        return f"wrote {n}"

    return Tool(write, effects="write", description="Writes.")


def yes(request: ApprovalRequest) -> bool:
    return True


async def in_one_leg(provider: str, limits: RunLimits) -> tuple[Agent, RunResult]:
    agent = make_agent(
        provider,
        Wiretap(*call_in_steps()),
        tools=[make_tool()],
        config=ASK,
        limits=limits,
        approve=yes,
    )
    return agent, await agent.run("go")


async def in_legs(
    provider: str, limits: RunLimits, *, live: bool, is_saved: bool
) -> tuple[Agent, RunResult, int]:
    """The same with a pause before each call; `is_saved`: each leg in another agent."""
    wiretap = Wiretap(*call_in_steps())
    options: dict[str, Any] = {"tools": [make_tool()], "config": ASK, "limits": limits}
    agent = make_agent(provider, wiretap, **options)
    result, legs = await outcome(agent, "go", streamed=live), 1
    while result.stop == "approval":
        if is_saved:
            agent = Agent.load(agent.save(), f"simulator:{provider}", transport=wiretap, **options)
        decisions, legs = {request.id: True for request in result.requests}, legs + 1
        if live:
            last = (await collect_events(agent.resume_stream(decisions)))[-1]
            assert isinstance(last, RunDone)
            result = last.result
        else:
            result = await agent.resume(decisions)
    check_bodies(agent.view().engine, wiretap)
    return agent, result, legs


def describe(agent: Agent, result: RunResult) -> tuple[Any, ...]:
    """What must be the same however many legs a run has."""
    cost = None if result.cost is None else round(result.cost, 9)
    used = (result.usage.input, result.usage.output, cost, result.iterations)
    return result.stop, used, kinds_of(agent.conversation), texts_of(agent.conversation)


LIMITS = {
    "none": (RunLimits(), "end"),
    "tokens": (RunLimits(max_total_tokens=600), "budget"),
    "money": (RunLimits(max_cost=0.0012), "budget"),
    "requests": (RunLimits(max_iterations=3), "max_iterations"),
}


@EVERYWHERE
@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("is_saved", [False, True], ids=["resumed", "loaded"])
@LIVE
def test_five_legs_may_use_as_much_as_one(provider: str, name: str, is_saved: bool, live: bool) -> None:
    limits, stop = LIMITS[name]
    if provider == "ollama" and name == "money":  # it has no price
        stop = "end"
    one_leg = run(in_one_leg(provider, limits))
    agent, result, legs = run(in_legs(provider, limits, live=live, is_saved=is_saved))
    assert describe(agent, result) == describe(*one_leg)
    assert (result.stop, legs) == (stop, STEPS + 1 if stop == "end" else legs)
    assert legs > 2
    check(agent.conversation)


# ---- time


def test_waiting_between_legs_takes_no_time_and_working_in_them_does() -> None:
    async def play(loop: VirtualLoop, *, is_paused: bool, is_saved: bool) -> tuple[Any, ...]:
        async def approve(request: ApprovalRequest) -> bool:
            await asyncio.sleep(HOUR)
            return True

        wiretap = Wiretap(*call_in_steps())
        options: dict[str, Any] = {
            "tools": [make_tool(3.0)],
            "config": ASK,
            "limits": RunLimits(run_timeout=10),
        }
        if not is_paused:
            options["approve"] = approve
        agent = make_agent("anthropic", wiretap, **options)
        use_clock(agent, loop.time)
        result = await agent.run("go")
        while result.stop == "approval":
            if is_saved:
                agent = Agent.load(agent.save(), "simulator:anthropic", transport=wiretap, **options)
                use_clock(agent, loop.time)
            await asyncio.sleep(HOUR)
            result = await agent.resume({request.id: True for request in result.requests})
        assert loop.now == pytest.approx(4 * HOUR + 10)  # pyright: ignore[reportUnknownMemberType]
        check(agent.conversation)
        return describe(agent, result)

    one_leg = run_virtual(lambda loop: play(loop, is_paused=False, is_saved=False))
    assert one_leg[0] == "timeout"
    assert run_virtual(lambda loop: play(loop, is_paused=True, is_saved=False)) == one_leg
    assert run_virtual(lambda loop: play(loop, is_paused=True, is_saved=True)) == one_leg
    # three calls in nine seconds; the fourth had one
    assert "wrote 2" in one_leg[3]
    assert "wrote 3" not in one_leg[3]


@LIVE
def test_a_run_without_time_left_starts_no_call(live: bool) -> None:
    async def play(loop: VirtualLoop) -> None:
        ran: list[str] = []

        async def work() -> str:
            """Works."""
            ran.append("work")
            return "ok"

        async def late() -> str:
            """Is over when the time is."""
            loop.now += 10
            return "ok"

        tools = [Tool(work, effects="write"), Tool(late, effects="read")]
        agent = make_agent("anthropic", tools=tools, config=ASK, limits=RunLimits(run_timeout=10))
        use_clock(agent, loop.time)
        paused = await agent.run("call late {} call work {}")
        assert paused.stop == "approval"
        decisions = {request.id: True for request in paused.requests}
        if live:
            assert [event async for event in agent.resume_stream(decisions)]
        else:
            assert (await agent.resume(decisions)).stop == "timeout"
        assert ran == []
        assert kinds_of(agent.conversation) == [None, "cancelled"]
        check(agent.conversation)

    run_virtual(play)


@LIVE
def test_other_calls_have_their_time_while_somebody_is_asked(live: bool) -> None:
    """The clock stands still for two hours, in which a call hangs, and then goes on."""

    async def play(loop: VirtualLoop) -> None:
        asked: list[float] = []

        async def approve(request: ApprovalRequest) -> bool:
            asked.append(loop.now)
            await asyncio.sleep(HOUR)
            return False

        hang = StuckTool("hang", effects="read", timeout=9 * HOUR)
        tools, limits = [hang.tool, make_tool()], RunLimits(run_timeout=10)
        agent = make_agent("anthropic", tools=tools, config=ASK, limits=limits, approve=approve)
        use_clock(agent, loop.time)
        prompt = 'call hang {} call write {"n": 1} call write {"n": 2}'
        assert (await outcome(agent, prompt, streamed=live)).stop == "timeout"
        assert asked == [0, HOUR]
        assert loop.now == 2 * HOUR + 10
        assert kinds_of(agent.conversation) == ["interrupted", "rejected", "rejected"]
        check(agent.conversation)

    run_virtual(play)


@pytest.mark.parametrize("config", [ToolConfig(), ToolConfig(eager_start=True)], ids=["", "eager"])
@LIVE
def test_questions_of_running_tools_take_no_time(config: ToolConfig, live: bool) -> None:
    async def approve(request: ApprovalRequest) -> bool:
        await asyncio.sleep(HOUR)
        return True

    async def elicit(context: Context) -> str:
        """Asks while it runs."""
        await ask_user(context, {}, "it wants to know")
        return "known"

    async def script(context: Context) -> str:
        """Makes a call, as code would."""
        assert context.inner_tools is not None
        made = await context.inner_tools.call(ToolCall("inner", "write", {"n": 1}))
        assert not isinstance(made, Suspended)
        return made.result.text

    async def play(loop: VirtualLoop) -> None:
        tools = [
            Tool(elicit, effects="read", timeout=9 * HOUR),
            Tool(script, effects="read", timeout=9 * HOUR),
            make_tool(),
        ]
        config_with_ask = ToolConfig(ask=ASK.ask, eager_start=config.eager_start)
        limits = RunLimits(run_timeout=10)
        agent = make_agent("anthropic", tools=tools, config=config_with_ask, limits=limits, approve=approve)
        use_clock(agent, loop.time)
        result = await outcome(agent, "call elicit {} call script {} call elicit {}", streamed=live)
        assert result.stop == "end"
        assert [result.text for result in results_of(agent.conversation)] == ["known", "wrote 1", "known"]
        assert loop.now >= 3 * HOUR

    run_virtual(play)


def test_questions_of_the_model_take_no_time(tmp_path: Path) -> None:
    async def answer(questions: list[UserQuestion]) -> list[UserAnswer]:
        await asyncio.sleep(HOUR)
        return ["Blue."]

    async def play(loop: VirtualLoop) -> None:
        tools = [tool for tool in builtins(tmp_path, ask_user=answer) if tool.name == "ask_user"]
        agent = make_agent("anthropic", tools=tools, facade="neutral", limits=RunLimits(run_timeout=10))
        use_clock(agent, loop.time)
        question = '{"questions": [{"question": "Which?", "header": "Color", "kind": "text"}]}'
        assert (await agent.run(f"call ask_user {question}")).stop == "end"
        assert "Blue." in texts_of(agent.conversation)
        assert loop.now >= HOUR

    run_virtual(play)


def test_an_approver_that_blocks_the_event_loop_takes_no_time() -> None:
    async def play(loop: VirtualLoop) -> None:
        def approve(request: ApprovalRequest) -> bool:
            loop.now += HOUR
            return True

        agent = make_agent(
            "anthropic", tools=[make_tool()], config=ASK, limits=RunLimits(run_timeout=10), approve=approve
        )
        use_clock(agent, loop.time)
        assert (await agent.run('call write {"n": 1}')).stop == "end"

    run_virtual(play)


# ---- saved


async def save_paused() -> bytes:
    agent = make_agent("anthropic", Wiretap(*call_in_steps()), tools=[make_tool()], config=ASK)
    result = await agent.run("go")
    assert result.stop == "approval"
    return agent.save()


def load_paused(data: bytes) -> Agent:
    return Agent.load(data, "simulator:anthropic", tools=[make_tool()], config=ASK)


def test_a_run_saved_by_an_earlier_version_has_used_nothing() -> None:
    data = re.sub(rb',"spent":\{.*?\}(,"format")', rb"\1", run(save_paused()))
    assert b"spent" not in data
    agent = load_paused(data)
    state = agent._state.paused  # pyright: ignore[reportPrivateUsage]
    assert state is not None
    assert state.spent == Spent()


async def test_a_run_that_has_used_less_than_it_was_saved_with_is_not_trusted() -> None:
    data = re.sub(rb'"usage":\{"input":\d+', b'"usage":{"input":1', await save_paused())
    agent = load_paused(data)
    with pytest.raises(UsageError, match="is not enough to decide on a call, as the saved run was changed"):
        await agent.resume({"call_0": True})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (rb'"input":\d+', b'"input":-1'),
        (rb'"cost":[\d.e-]+', b'"cost":-0.5'),
        (rb'"seconds":[\d.e-]+', b'"seconds":-1'),
        (rb'"seconds":[\d.e-]+', b'"seconds":"x"'),
    ],
)
def test_what_no_run_can_have_used_is_refused(old: bytes, new: bytes) -> None:
    data, changes = re.subn(old, new, run(save_paused()))
    assert changes == 1
    with pytest.raises(MalformedData):
        load_paused(data)


# ---- the ledger of a tree

PRICE = Price(1.0, 0.5, 2.0)


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_what_a_run_uses_the_runs_above_it_have_used_too() -> None:
    root = Ledger(RunLimits())
    child, sibling = Ledger(RunLimits(), parent=root), Ledger(RunLimits(), parent=root)
    grandchild = Ledger(RunLimits(), Spent(Usage(5, 5), 0.5), parent=child)
    grandchild.spend(Usage(100, 10, 3, 2, 1), PRICE)
    sibling.spend(Usage(1000, 1), None)
    assert grandchild.usage == Usage(105, 15, 3, 2, 1)
    assert grandchild.spent_in_leg[0] == Usage(100, 10, 3, 2, 1)
    assert (child.usage, sibling.usage) == (Usage(100, 10, 3, 2, 1), Usage(1000, 1))
    assert root.usage == Usage(1100, 11, 3, 2, 1)
    assert child.cost == pytest.approx(PRICE.cost(Usage(100, 10, 3, 2, 1)))  # pyright: ignore[reportUnknownMemberType]
    assert grandchild.cost == pytest.approx(0.5 + (child.cost or 0))  # pyright: ignore[reportUnknownMemberType]
    assert (sibling.cost, root.cost) == (None, None)


def test_a_limit_holds_for_all_runs_below() -> None:
    root = Ledger(RunLimits(max_total_tokens=1200))
    child = Ledger(RunLimits(max_total_tokens=1000), parent=root)
    other = Ledger(RunLimits(), parent=root)
    grandchild = Ledger(RunLimits(), parent=child)
    assert not any(ledger.find_exceeded() for ledger in (root, child, other, grandchild))
    grandchild.spend(Usage(990, 10), None)
    assert child.find_exceeded() == "the run has used up its 1,000 tokens (max_total_tokens)"
    assert "the run that started this one has used up its 1,000 tokens" in grandchild.find_exceeded()
    assert (root.find_exceeded(), other.find_exceeded()) == ("", "")
    other.spend(Usage(200, 0), None)
    assert "the run that started this one has used up its 1,200 tokens" in other.find_exceeded()


def test_money_without_a_price_does_not_hide_the_money_with_one() -> None:
    ledger = Ledger(RunLimits(max_cost=0.5))
    ledger.spend(Usage(1_000_000, 0), None)
    assert ledger.find_exceeded() == ""
    ledger.spend(Usage(600_000, 0), PRICE)
    assert ledger.find_exceeded() == "the run has used up its $0.5 (max_cost)"
    assert ledger.cost is None


def test_the_clock_of_a_tree_stands_still_while_any_question_is_open() -> None:
    hand = Hand()
    root = Ledger(RunLimits(run_timeout=10), read_clock=hand)
    hand.now += 2
    child = Ledger(RunLimits(run_timeout=5), Spent(seconds=1.0), parent=root)
    hand.now += 1
    child.clock.note_question(True)
    hand.now += 50
    root.clock.note_question(True)
    hand.now += 50
    child.clock.note_question(False)
    hand.now += 50
    assert (root.seconds, child.seconds) == (3, 2)
    root.clock.note_question(False)
    hand.now += 2.5
    assert not child.is_time_up
    hand.now += 0.5
    assert (root.is_time_up, child.is_time_up, child.is_time_up_above) == (False, True, False)
    hand.now += 4
    grandchild = Ledger(RunLimits(), parent=child)
    assert root.is_time_up
    assert grandchild.is_time_up_above


@pytest.mark.parametrize("who", ["root", "child"])
def test_a_question_moves_the_deadlines_of_all_waits(who: str) -> None:
    async def play(loop: VirtualLoop) -> None:
        root = Ledger(RunLimits(run_timeout=10), read_clock=loop.time)
        child = Ledger(RunLimits(run_timeout=20), parent=root)
        ended: dict[str, float] = {}

        async def wait(name: str, ledger: Ledger) -> None:
            with pytest.raises(TimeIsUp):
                await ledger.in_time(asyncio.Event().wait())
            ended[name] = loop.now

        async def ask() -> None:
            await asyncio.sleep(4)
            {"root": root, "child": child}[who].clock.note_question(True)
            await asyncio.sleep(HOUR)
            {"root": root, "child": child}[who].clock.note_question(False)

        await asyncio.gather(wait("root", root), wait("child", child), ask())
        assert ended == {"root": HOUR + 10, "child": HOUR + 20}

    run_virtual(play)


async def test_a_timeout_inside_a_wait_is_not_that_of_the_run() -> None:
    async def fail() -> None:
        raise TimeoutError("of somebody else")

    ledger = Ledger(RunLimits(run_timeout=30))
    with pytest.raises(TimeoutError, match="of somebody else") as error:
        await ledger.in_time(fail())
    assert not isinstance(error.value, TimeIsUp)


def test_without_a_time_limit_nothing_is_wrapped() -> None:
    future: Callable[[], Any] = object
    assert Ledger(RunLimits()).in_time(future) is future  # pyright: ignore[reportArgumentType]


# ---- a run inside a tool of another run

CHILD_PROMPT = 'call write {"n": 1} then call write {"n": 2} then call write {"n": 3}'


class Tree:
    """A parent whose tool runs a child: the second ledger that is opened is below the first one."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        clock: Callable[[], float],
        wiretap: Wiretap | None = None,
        **child: Any,
    ) -> None:
        self.ledgers: list[Ledger] = []
        self._clock = clock
        self.child = make_agent("anthropic", wiretap, **child)
        use_clock(self.child, clock)
        self.prompt = CHILD_PROMPT
        self.result: RunResult | None = None
        monkeypatch.setattr("toolglot.loop.driver.Ledger", self._open)

    def _open(self, limits: RunLimits, spent: Spent, *, parent: Ledger | None, **options: Any) -> Ledger:
        parent = parent or (self.ledgers[0] if self.ledgers else None)
        self.ledgers.append(Ledger(limits, spent, parent=parent, **options))
        return self.ledgers[-1]

    async def run(self, **options: Any) -> RunResult:
        async def delegate() -> str:
            """Asks the child."""
            self.result = await self.child.run(self.prompt)
            return self.result.text

        agent = make_agent("anthropic", tools=[Tool(delegate, effects="read", timeout=9 * HOUR)], **options)
        use_clock(agent, self._clock)
        result = await agent.run("call delegate {} then say done")
        check(agent.conversation)
        check(self.child.conversation)
        return result


def test_a_child_sends_no_request_beyond_the_tokens_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(loop: VirtualLoop) -> None:
        wiretap = Wiretap()
        tree = Tree(monkeypatch, loop.time, wiretap, tools=[make_tool()])
        result = await tree.run(limits=RunLimits(max_total_tokens=300))
        root, child = tree.ledgers
        assert tree.result is not None
        assert (result.stop, tree.result.stop) == ("budget", "budget")
        assert result.usage == root.usage
        assert tree.result.usage == child.usage
        assert root.usage.input - child.usage.input > 0
        assert 0 < len(wiretap.requests) == tree.result.iterations < 4
        assert "The call did not run: the run that started this one has used up its 300 tokens" in texts_of(
            tree.child.conversation
        )

    run_virtual(play)


def test_the_time_of_a_parent_ends_its_child(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(loop: VirtualLoop) -> None:
        tree = Tree(monkeypatch, loop.time, tools=[make_tool(4.0)], config=ToolConfig(max_parallel=1))
        tree.prompt = " ".join(f'call write {{"n": {n}}}' for n in range(1, 5))
        assert (await tree.run(limits=RunLimits(run_timeout=10))).stop == "timeout"
        assert loop.now == 10
        texts = texts_of(tree.child.conversation)
        assert "wrote 2" in texts
        assert "The call was not started: the time limit was reached." in texts
        assert kinds_of(tree.child.conversation) == [None, None, "interrupted", "cancelled"]

    run_virtual(play)


def test_a_question_of_a_child_takes_none_of_its_parents_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def approve(request: ApprovalRequest) -> bool:
        await asyncio.sleep(HOUR)
        return True

    async def play(loop: VirtualLoop) -> None:
        tree = Tree(monkeypatch, loop.time, tools=[make_tool(2.0)], config=ASK, approve=approve)
        assert (await tree.run(limits=RunLimits(run_timeout=10))).stop == "end"
        assert loop.now == 3 * HOUR + 6
        assert [ledger.seconds for ledger in tree.ledgers] == [6, 6]

    run_virtual(play)
