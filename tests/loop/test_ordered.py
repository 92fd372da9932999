"""Calls of ordered tools keep their place among the calls of a turn; the others still run at the same time."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolglot.builtin.tools import builtins
from toolglot.loop.agent.agent import Agent
from toolglot.loop.limits import RunLimits
from toolglot.tools.config import ToolConfig
from toolglot.tools.tool import Tool, tool
from toolglot.values.approvals import ApprovalRequest
from toolglot.values.events import ToolFinished, ToolStarted
from toolglot.values.messages import Reply, ToolCall

from .agents import (
    PROVIDERS,
    Wiretap,
    cancel_and_wait,
    check,
    collect_events,
    hook,
    kinds_of,
    make_agent,
    outcome,
    results_of,
    run,
)

LIVE = pytest.mark.parametrize("live", [False, True], ids=["whole", "streamed"])
SHAPES = [
    "look step look look",
    "look look step look look step",
    "step step step",
    "step look look look",
    "look look look",
]
CONFIGS = {
    "plain": ToolConfig(),
    "early": ToolConfig(eager_start=True),
    "narrow": ToolConfig(max_parallel=2),
    "narrow and early": ToolConfig(eager_start=True, max_parallel=2),
}


class Diary:
    """Who came in and who went out, in order. `look` takes its time; `step` is ordered."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, int]] = []
        look, step = tool(name="look", effects="read"), tool(name="step", effects="write", ordered=True)
        self.tools: list[Tool] = [look(self._work), step(self._work)]

    async def _work(self, n: int) -> str:
        self.lines.append(("in", n))
        for _ in range(20):
            await asyncio.sleep(0)
        self.lines.append(("out", n))
        return f"done {n}"

    def place(self, moment: str, n: int) -> int:
        return self.lines.index((moment, n))

    def check(self, shape: str) -> None:
        """Those before an ordered call are out before it is in, and it is out before those after it are in."""
        names = shape.split()
        assert len(self.lines) == 2 * len(names)
        for n, name in enumerate(names):
            if name == "step":
                assert all(self.place("out", other) < self.place("in", n) for other in range(n)), self.lines
                assert all(
                    self.place("out", n) < self.place("in", other) for other in range(n + 1, len(names))
                ), self.lines

    def together(self, *numbers: int) -> bool:
        """All of them were inside at the same time."""
        return max(self.place("in", n) for n in numbers) < min(self.place("out", n) for n in numbers)


def prompt(shape: str) -> str:
    return " ".join(f'call {name} {{"n": {number}}}' for number, name in enumerate(shape.split()))


@LIVE
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("shape", SHAPES)
def test_an_ordered_call_waits_for_those_before_it_and_those_after_wait_for_it(
    shape: str, config: ToolConfig, live: bool
) -> None:
    diary = Diary()
    agent = make_agent("openai-chat", tools=diary.tools, config=config)
    result = run(outcome(agent, prompt(shape), streamed=live))
    assert [outcome.result.text for outcome in result.outcomes] == [
        f"done {n}" for n in range(len(shape.split()))
    ]
    diary.check(shape)
    check(agent.conversation, everywhere=False)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_neighbours_that_are_not_ordered_still_run_at_the_same_time(provider: str) -> None:
    diary, shape = Diary(), "look look look step look look"
    result = run(outcome(make_agent(provider, tools=diary.tools), prompt(shape), streamed=False))
    assert [outcome.result.text for outcome in result.outcomes] == [f"done {n}" for n in range(6)]
    diary.check(shape)
    assert diary.together(0, 1, 2)
    assert diary.together(4, 5)


def test_without_order_all_run_at_the_same_time() -> None:
    diary = Diary()
    tools = [tool.replace(ordered=False) for tool in diary.tools]
    run(make_agent("anthropic", tools=tools).run(prompt("look step look step")))
    assert diary.together(0, 1, 2, 3)


@pytest.mark.parametrize("provider", ["openai-chat", "anthropic", "gemini", "ollama"])
@pytest.mark.parametrize(
    ("shape", "begun"),
    [("look step look look", {0}), ("step look look", set[int]()), ("look look step", {0, 1})],
)
def test_an_early_start_does_not_overtake_an_ordered_call(provider: str, shape: str, begun: set[int]) -> None:
    diary, at_reply = Diary(), list[set[int]]()

    async def look(reply: Reply) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        at_reply.append({n for moment, n in diary.lines if moment == "in"})

    agent = make_agent(provider, tools=diary.tools, hooks=[hook(after_reply=look)], config=CONFIGS["early"])
    run(outcome(agent, prompt(shape), streamed=True))
    assert at_reply[0] == begun
    diary.check(shape)


def test_the_next_reply_starts_early_again() -> None:
    diary, at_reply = Diary(), list[int]()

    async def look(reply: Reply) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        at_reply.append(sum(moment == "in" for moment, _ in diary.lines))

    turns = 'call step {"n": 0} call look {"n": 1}\nthen call look {"n": 2} call look {"n": 3}\nthen say done'
    agent = make_agent(
        "openai-chat", tools=diary.tools, hooks=[hook(after_reply=look)], config=CONFIGS["early"]
    )
    assert run(outcome(agent, turns, streamed=True)).text == "done"
    assert at_reply == [0, 3, 4]


def test_the_events_of_an_ordered_call_stand_between_those_of_its_neighbours() -> None:
    diary = Diary()
    events = run(
        collect_events(make_agent("anthropic", tools=diary.tools).stream(prompt("look look step look")))
    )
    seen: list[tuple[str, Any]] = []
    for event in events:
        if isinstance(event, ToolStarted | ToolFinished):
            call = event.call if isinstance(event, ToolStarted) else event.outcome.call
            seen.append((type(event).__name__, (call.arguments or {})["n"]))
    middle = [("ToolStarted", 2), ("ToolFinished", 2)]
    assert seen[4:6] == middle
    assert {name for name, _ in seen[:2]} == {"ToolStarted"}
    assert seen[6:] == [("ToolStarted", 3), ("ToolFinished", 3)]


@LIVE
def test_calls_that_fail_or_are_refused_do_not_disturb_the_order(live: bool) -> None:
    seen: list[str] = []

    @tool(ordered=True)
    async def first(n: int) -> str:
        """Fails."""
        seen.append("first")
        for _ in range(5):
            await asyncio.sleep(0)
        raise ValueError("no luck")

    @tool(ordered=True, timeout=0.01)
    async def second() -> str:
        """Is too slow."""
        seen.append("second")
        await asyncio.Event().wait()
        return "never"

    @tool
    async def third() -> str:
        """Works."""
        seen.append("third")
        return "fine"

    agent = make_agent("openai-chat", tools=[first, second, third])
    words = 'call first {"n": 1} call second {} call! nobody {} call first {"n": "many"} call third {}'
    result = run(outcome(agent, words, streamed=live))
    assert seen == ["first", "second", "third"]
    assert [outcome.result.error_kind for outcome in result.outcomes] == [
        "execution",
        "timeout",
        "not_found",
        "validation",
        None,
    ]
    check(agent.conversation)


# ---- stopped in the middle


@LIVE
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_cancel_in_the_middle_leaves_later_calls_not_run(provider: str, live: bool) -> None:
    ran: list[int] = []
    inside = asyncio.Event()

    @tool(ordered=True)
    async def step(n: int) -> str:
        """Does a step; the second one never ends."""
        ran.append(n)
        if n == 2:
            inside.set()
            await asyncio.Event().wait()
        return f"did {n}"

    agent = make_agent(provider, tools=[step])
    task = asyncio.create_task(outcome(agent, prompt("step step step step step"), streamed=live))
    await inside.wait()
    await cancel_and_wait(task)
    check(agent.conversation)
    assert (await agent.run("say on we go")).text == "on we go"
    assert ran == [0, 1, 2]
    assert kinds_of(agent.conversation) == [None, None, "interrupted", "cancelled", "cancelled"]
    assert all("was not started" in result.text for result in results_of(agent.conversation)[3:])
    check(agent.conversation)


@LIVE
def test_a_run_that_is_out_of_time_leaves_later_calls_not_run(live: bool) -> None:
    ran: list[int] = []

    @tool(ordered=True)
    async def step(n: int) -> str:
        """Never ends, but for the first."""
        ran.append(n)
        if n:
            await asyncio.Event().wait()
        return f"did {n}"

    agent = make_agent("anthropic", tools=[step], limits=RunLimits(run_timeout=0.1))
    result = run(outcome(agent, prompt("step step step"), streamed=live))
    assert (result.stop, ran) == ("timeout", [0, 1])
    assert results_of(agent.conversation)[0].text == "did 0"
    assert all(result.is_error for result in results_of(agent.conversation)[1:])
    check(agent.conversation)


# ---- approvals


@LIVE
@pytest.mark.parametrize("answers", [(True, True), (False, True), (True, False)])
def test_ordered_calls_that_are_asked_about_keep_their_place(answers: tuple[bool, bool], live: bool) -> None:
    diary, left = Diary(), list(answers)
    config = ToolConfig(ask=frozenset({"write"}))

    def yes_or_no(_: ApprovalRequest) -> bool:
        return left.pop(0)

    agent = make_agent("anthropic", tools=diary.tools, config=config, approve=yes_or_no)
    run(outcome(agent, prompt("look step look step look"), streamed=live))
    ran = [
        n for n in range(5) if n not in {1: answers[0], 3: answers[1]} or {1: answers[0], 3: answers[1]}[n]
    ]
    assert sorted({n for _, n in diary.lines}) == ran
    for n in {1, 3} & {*ran}:
        assert all(diary.place("out", other) < diary.place("in", n) for other in ran if other < n)
        assert all(diary.place("out", n) < diary.place("in", other) for other in ran if other > n)
    check(agent.conversation)


async def test_calls_after_an_ordered_call_that_waits_for_a_decision_wait_too() -> None:
    """A file that is read after an edit is read after the edit, also where somebody has to think about the
    edit first.
    """
    diary = Diary()
    agent = make_agent("anthropic", tools=diary.tools, config=ToolConfig(ask=frozenset({"write"})))
    first = await agent.run(prompt("look step look"))
    assert first.stop == "approval"
    result = await agent.resume({first.requests[0].id: "yes"})
    assert result.stop == "end"
    diary.check("look step look")
    check(agent.conversation)


@pytest.mark.parametrize("decisions", [("yes", "yes"), ("no", "yes"), ("yes", "no")])
def test_what_has_to_be_decided_on_is_decided_on_together_also_elsewhere(decisions: tuple[Any, Any]) -> None:
    """Saved while it waits, and gone on with in another process."""
    diary, config = Diary(), ToolConfig(ask=frozenset({"write"}))
    first = make_agent("anthropic", tools=diary.tools, config=config)
    paused = run(first.run(prompt("step step")))
    assert (paused.stop, len(paused.requests), diary.lines) == ("approval", 2, [])
    other = Agent.load(first.save(), "simulator:anthropic", tools=diary.tools, config=config)
    ids = [call.id for call in paused.requests]
    result = run(other.resume(dict(zip(ids, decisions, strict=True))))
    assert result.stop == "end"
    ran = [n for n, decision in enumerate(decisions) if decision == "yes"]
    assert diary.lines == [(moment, n) for n in ran for moment in ("in", "out")]
    check(other.conversation)


# ---- the built-in tools


def make_call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall("", name, arguments)


def script(*calls: ToolCall) -> Callable[[Any], Reply]:
    return lambda _: Reply(calls, "tools")


def yes(_: ApprovalRequest) -> bool:
    return True


def coder(folder: Path, wiretap: Wiretap, config: ToolConfig, tools: list[Tool]) -> Agent:
    return make_agent(
        "anthropic", wiretap, tools=tools, config=config, approve=yes, system=f"Work in {folder}."
    )


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("config", "live"), [(CONFIGS["plain"], False), (CONFIGS["early"], True)], ids=["whole", "early"]
)
def test_commands_and_edits_of_one_turn_have_one_outcome(
    tmp_path: Path, config: ToolConfig, live: bool
) -> None:
    """The same each time: each command sees what was done before it in the turn, and nothing of what was done
    after it.
    """
    seen: list[list[str]] = []
    for number in range(5):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "note").write_text("one\n")
        builtin = builtins(folder)
        calls = script(
            make_call("Read", file_path=str(folder / "note")),
            make_call("Bash", command="cat note"),
            make_call("Edit", file_path=str(folder / "note"), old_string="one", new_string="two"),
            make_call("Bash", command="cat note"),
            make_call("Bash", command="echo three > note"),
            make_call("Bash", command="cat note"),
            make_call("Read", file_path=str(folder / "note")),
        )
        agent = coder(folder, Wiretap(calls, "say done"), config, builtin.tools)
        try:
            result = run(outcome(agent, "go", streamed=live))
        finally:
            builtin.close()
        assert (result.text, kinds_of(agent.conversation)) == ("done", [None] * 7)
        texts = [outcome.result.text.strip() for outcome in result.outcomes]
        seen.append([texts[1], texts[3], texts[5], (folder / "note").read_text()])
        assert "one" in texts[0]
        assert "three" in texts[6]
        check(agent.conversation, everywhere=False)
    assert seen == [["one", "two", "three", "three\n"]] * 5


def test_built_in_tools_that_write_or_execute_are_ordered_and_the_others_are_not(tmp_path: Path) -> None:
    builtin = builtins(tmp_path / "..", state_dir=tmp_path)
    builtin.close()
    ordered = {tool.name for tool in builtin.tools if tool.ordered}
    assert ordered == {tool.name for tool in builtin.tools if tool.effects & {"write", "execute"}}
    assert {"shell", "write", "edit", "patch"} <= ordered
    assert not {"read", "grep", "glob", "list_dir", "web_open"} & ordered
