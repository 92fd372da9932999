"""Agents as tools of agents: nothing that happens inside is lost, and nothing that did not finish is a success."""

import asyncio
import json
from typing import Any, TypedDict

import pytest
from tests.loop.agents import (
    PROVIDERS,
    Wiretap,
    check,
    check_bodies,
    kinds_of,
    make_agent,
    results_of,
    run,
)
from tests.loop.test_open_calls import edit

from toolglot.errors import MalformedData, UsageError
from toolglot.loop.agent.agent import Agent
from toolglot.loop.limits import RunLimits
from toolglot.loop.saved_runs import sign
from toolglot.tools.config import RetryConfig
from toolglot.tools.context import Context
from toolglot.tools.tool import Tool
from toolglot.values.approvals import Allow, Answer, ApprovalRequest, Decision
from toolglot.values.definitions import ToolDefinition
from toolglot.values.events import InnerEvent, RunDone, RunEvent, RunResult, ToolFinished, ToolStarted
from toolglot.values.messages import Conversation, Reply, Text, ToolCall


class Bank:
    """Tools of an agent that settles invoices."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    @property
    def tools(self) -> list[Any]:
        def pay(amount: int) -> str:
            """Pay an amount."""
            self.paid.append(amount)
            return f"paid {amount}"

        def look(place: str) -> str:
            """Look somewhere."""
            return f"nothing at {place}"

        return [Tool(pay, approval=True, inline=True), Tool(look, inline=True)]


def ask(name: str, *lines: str) -> str:
    """A prompt for the simulator: call an agent with these lines."""
    return f"call {name} {json.dumps({'prompt': chr(10).join(lines)})}"


def nest(bank: Bank, provider: str, depth: int = 1, **options: Any) -> tuple[Agent, list[Tool]]:
    """An agent over `depth` levels of agents, all called research; the last has the bank's tools."""
    tools: list[Any] = bank.tools
    for _ in range(depth):
        tools = [make_agent(provider, tools=tools, **options).as_tool("research", "Research and settle.")]
    return make_agent(provider, tools=tools), tools


def reload(agent: Agent, provider: str, tools: list[Tool], **options: Any) -> Agent:
    return Agent.load(agent.save(), f"simulator:{provider}", transport=Wiretap(), tools=tools, **options)


def say_yes(request: ApprovalRequest) -> Decision:
    return True


def say_no(request: ApprovalRequest) -> Decision:
    return "no"


def say_later(request: ApprovalRequest) -> Decision:
    return "later"


PAY = 'call pay {"amount": 90}'


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_answer_of_an_agent_is_the_result_of_its_call(provider: str) -> None:
    wiretap = Wiretap()
    child = make_agent(provider, tools=Bank().tools).as_tool("research", "Researches.")
    agent = make_agent(provider, wiretap, tools=[child])
    result = run(agent.run(ask("research", 'call look {"place": "home"}')))
    assert (result.stop, result.results[0].text) == ("end", "Here is what came back. look: nothing at home.")
    check(agent.conversation)
    check_bodies(agent.view().engine, wiretap)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_all_that_waits_inside_is_shown_with_its_own_path(provider: str) -> None:
    """Case 16: two agents, three calls with the same ids; each is decided on by itself, in any order."""
    bank = Bank()
    agent, tools = nest(bank, provider)
    first = run(agent.run(f"{ask('research', PAY, PAY)}\n{ask('research', PAY)}"))
    assert first.stop == "approval"
    paths = [item.path for item in first.pending]
    assert [len(path) for path in paths] == [2, 2, 2]
    assert paths[0][0] == paths[1][0] != paths[2][0]
    assert len({item.fingerprint for item in first.pending}) == 3
    assert {(item.request.tool, item.request.agent) for item in first.pending} == {("pay", "research")}
    agent = reload(agent, provider, tools)
    assert [item.fingerprint for item in run(agent.list_pending())] == [
        item.fingerprint for item in first.pending
    ]
    second = run(agent.resume({first.pending[2].id: True}))
    assert (second.stop, bank.paid) == ("approval", [90])
    assert [item.path for item in second.pending] == paths[:2]
    agent = reload(agent, provider, tools)
    third = run(agent.resume({first.pending[1].fingerprint: False}))
    assert [item.path for item in third.pending] == paths[:1]
    agent = reload(agent, provider, tools)
    assert run(agent.resume({first.pending[0].id: True})).stop == "end"
    assert bank.paid == [90, 90]
    texts = [result.text for result in results_of(agent.conversation)]
    assert ["paid 90" in text for text in texts] == [True, True]
    assert "did not approve" in texts[0]
    check(agent.conversation)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_call_three_levels_down_runs_once(provider: str) -> None:
    """Case 17: equal agent names, a restart at every step, nothing is asked again."""
    bank = Bank()
    agent, tools = nest(bank, provider, depth=3)
    prompt = ask("research", ask("research", ask("research", PAY)))
    first = run(agent.run(prompt))
    [waiting] = first.pending
    assert (len(waiting.path), waiting.request.agent) == (4, "research/research/research")
    assert waiting.request.arguments == {"amount": 90}
    agent = reload(agent, provider, tools)
    [again] = run(agent.list_pending())
    assert (again.id, again.fingerprint) == (waiting.id, waiting.fingerprint)
    last = run(agent.resume({waiting.id: True}))
    assert (last.stop, bank.paid) == ("end", [90])
    assert "paid 90" in results_of(agent.conversation)[0].text
    check(agent.conversation)


def test_a_call_is_approved_as_it_is_shown() -> None:
    """Case 18: changed arguments count; so does a preview that has changed meanwhile."""
    prices = {"tea": 3}
    bought: list[str] = []

    def buy(name: str) -> str:
        """Buy."""
        bought.append(f"{name} at {prices[name]}")
        return "bought"

    tool = Tool(
        buy, approval=True, inline=True, preview=lambda arguments: f"costs {prices[arguments['name']]}"
    )
    child = make_agent("anthropic", tools=[tool]).as_tool("shop", "Buys things.")
    agent = make_agent("gemini", tools=[child])
    [shown] = run(agent.run(ask("shop", 'call buy {"name": "tea"}'))).pending
    assert shown.request.preview == "costs 3"
    prices["tea"] = 30
    paused = run(agent.resume({shown.fingerprint: True}))
    assert (paused.stop, bought, paused.pending[0].request.preview) == ("approval", [], "costs 30")
    assert paused.pending[0].fingerprint != shown.fingerprint
    with pytest.raises(UsageError, match=r"no call .* is waiting"):
        run(agent.resume({shown.fingerprint: True}))
    assert run(agent.resume({paused.pending[0].fingerprint: True})).stop == "end"
    assert bought == ["tea at 30"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_always_in_an_agent_does_not_count_outside(provider: str) -> None:
    """Case 19."""
    bank = Bank()
    child = make_agent(provider, tools=bank.tools).as_tool("research", "Researches.")
    agent = make_agent(provider, tools=[child, *bank.tools])
    first = run(agent.run(f"{ask('research', PAY, PAY)}\n{ask('research', PAY)}\n{PAY}"))
    assert len(first.pending) == 4
    second = run(agent.resume({first.pending[0].id: Allow(always=True)}))
    assert {item.id for item in second.pending} >= {first.pending[2].id, first.pending[3].id}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_approver_of_the_root_is_asked_with_the_real_call(provider: str) -> None:
    bank, asked = Bank(), list[ApprovalRequest]()

    def approve(request: ApprovalRequest) -> Decision:
        asked.append(request)
        return True

    _, tools = nest(bank, provider, depth=2)
    agent = make_agent(provider, tools=tools, approve=approve)
    assert run(agent.run(ask("research", ask("research", PAY)))).stop == "end"
    assert [(item.tool, item.arguments, item.agent) for item in asked] == [
        ("pay", {"amount": 90}, "research/research")
    ]
    assert bank.paid == [90]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_agents_own_approver_decides_first(provider: str) -> None:
    bank = Bank()
    child = make_agent(provider, tools=bank.tools, approve=say_no)
    agent = make_agent(provider, tools=[child.as_tool("research", "Researches.")])
    assert run(agent.run(ask("research", PAY))).stop == "end"
    assert bank.paid == []


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_approver_that_decides_later_lets_the_root_pause(provider: str) -> None:
    bank = Bank()
    _, tools = nest(bank, provider)
    agent = make_agent(provider, tools=tools, approve=say_later)
    [waiting] = run(agent.run(ask("research", PAY))).pending
    assert run(agent.resume({waiting.id: True})).stop == "end"
    assert bank.paid == [90]


# ---- one ledger


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_an_agent_uses_is_paid_by_the_run_that_called_it(provider: str) -> None:
    """Case 20: each request counts once, also over pauses and restarts."""
    bank = Bank()
    agent, tools = nest(bank, provider, depth=2)
    first = run(agent.run(ask("research", ask("research", PAY, PAY, PAY))))
    result, used = first, first.usage
    for waiting in first.pending:
        agent = reload(agent, provider, tools)
        result = run(agent.resume({waiting.id: True}))
        assert result.usage.input >= used.input
        used = result.usage
    assert (result.stop, result.usage.output) == ("end", count_alone(provider))


def count_alone(provider: str) -> int:
    """The tokens of the same replies, each run for itself."""
    bank = Bank()
    innermost = make_agent(provider, tools=bank.tools, approve=say_yes)
    texts = "\n".join((PAY, PAY, PAY))
    inner = run(innermost.run(texts))
    answers = {texts: inner.text}

    def answer(prompt: str) -> str:
        return answers[prompt]

    total = inner.usage.output
    for _ in range(2):
        outer = run(make_agent(provider, tools=[Tool(answer, name="research")]).run(ask("research", texts)))
        total += outer.usage.output
        answers[ask("research", texts)] = outer.text
        texts = ask("research", texts)
    return total


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_agent_cannot_spend_more_than_the_run_that_called_it(provider: str) -> None:
    """Case 20: refused before the next request, at every level."""
    bank = Bank()
    _, tools = nest(bank, provider, depth=2)
    agent = make_agent(provider, tools=tools, limits=RunLimits(max_total_tokens=150))
    look = 'call look {"place": "a"}'
    result = run(agent.run(ask("research", ask("research", look))))
    assert result.stop == "budget"
    [refused] = results_of(agent.conversation)
    assert (refused.is_error, refused.error_code) == (True, "agent_budget")
    assert "did not finish" in refused.text
    check(agent.conversation)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_agent_may_have_a_smaller_budget_of_its_own(provider: str) -> None:
    bank = Bank()
    child = make_agent(provider, tools=bank.tools)
    small = child.as_tool("research", "Researches.", limits=RunLimits(max_total_tokens=1))
    agent = make_agent(provider, tools=[small])
    result = run(agent.run(ask("research", 'call look {"place": "a"}')))
    assert (result.stop, results_of(agent.conversation)[0].error_code) == ("end", "agent_budget")


# ---- ends


def always(reply: Reply) -> Any:
    def turn(request: Any) -> Reply:
        return reply

    return turn


REFUSED = Reply((Text("I cannot"),), "refusal")
CUT_OFF = Reply((Text("It is"),), "length")
AGAIN = Reply((ToolCall("a", "look", {"place": "a"}),), "tools")


@pytest.mark.parametrize(
    ("reply", "code"),
    [(REFUSED, "agent_refusal"), (CUT_OFF, "agent_length"), (AGAIN, "agent_max_iterations")],
)
def test_a_run_that_did_not_finish_is_an_error(reply: Reply, code: str) -> None:
    """Case 23."""
    child = make_agent("anthropic", Wiretap(*[always(reply)] * 3), tools=Bank().tools)
    limits = RunLimits(max_iterations=1)
    agent = make_agent("anthropic", tools=[child.as_tool("research", "Researches.", limits=limits)])
    assert run(agent.run(ask("research", "go"))).stop == "end"
    [result] = results_of(agent.conversation)
    assert (result.is_error, result.error_code) == (True, code)
    assert "The agent research did not finish" in result.text
    check(agent.conversation)


def test_an_agent_whose_provider_fails_is_an_error_that_says_so() -> None:
    """Case 23."""
    child = Agent(
        "simulator:anthropic",
        transport=Wiretap(faults=["unauthorized"] * 9),
        retry=RetryConfig(max_retries=0),
    )
    agent = make_agent("anthropic", tools=[child.as_tool("research", "Researches.")])
    assert run(agent.run(ask("research", "say hello"))).stop == "end"
    [result] = results_of(agent.conversation)
    assert result.is_error
    assert "The agent research failed: " in result.text
    check(agent.conversation)


@pytest.mark.parametrize("way", ["cancel", "leave", "timeout"])
def test_stopping_goes_down(way: str) -> None:
    """Case 22: three conversations are valid, and no task is left."""
    started = asyncio.Event()
    conversations: list[Conversation] = []

    async def hang(context: Context) -> str:
        """Hang."""
        conversations.append(context.messages)  # pyright: ignore[reportArgumentType]
        started.set()
        await asyncio.Event().wait()
        return ""

    innermost = make_agent("anthropic", tools=[Tool(hang)])
    middle = make_agent("gemini", tools=[innermost.as_tool("inner", "Hangs.")])
    limits = RunLimits(run_timeout=0.5 if way == "timeout" else None)
    agent = make_agent("ollama", tools=[middle.as_tool("middle", "Hangs.")], limits=limits)
    prompt = ask("middle", ask("inner", "call hang {}"))

    async def stop() -> None:
        if way == "leave":
            events = agent.stream(prompt)
            async for event in events:
                if (
                    isinstance(event, InnerEvent)
                    and isinstance(event.event, ToolStarted)
                    and len(event.path) == 2
                ):
                    break
            await events.aclose()
            return
        task = asyncio.ensure_future(agent.run(prompt))
        if way == "cancel":
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return
        assert (await task).stop == "timeout"

    run(stop())
    check(agent.conversation)
    assert kinds_of(agent.conversation) == ["interrupted"]
    for conversation in conversations:
        check(conversation)
        assert kinds_of(conversation) == ["interrupted"]


def test_agents_call_each_other_only_so_deep() -> None:
    """Case 24: below that they are not offered, and refused when they are called all the same."""
    wiretap = Wiretap()
    agent = make_agent("anthropic", wiretap)
    agent.add_tools([agent.as_tool("self", "Calls itself.")])
    prompt = "say done"
    for _ in range(6):
        prompt = ask("self", prompt)
    assert run(agent.run(prompt)).stop == "end"
    offered = [[tool["name"] for tool in body.get("tools", [])] for body in wiretap.bodies]
    assert offered[:4] == [["self"], ["self"], ["self"], []]
    check(agent.conversation)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_one_agent_called_twice_at_once_has_two_conversations(provider: str) -> None:
    """Case 24."""
    met: list[tuple[int, str]] = []
    both = asyncio.Event()

    async def meet(name: str, context: Context) -> str:
        """Wait until both are here."""
        met.append((len(context.messages), name))
        if len(met) == 2:
            both.set()
        await both.wait()
        return name

    child = make_agent(provider, tools=[Tool(meet)]).as_tool("research", "Researches.")
    agent = make_agent(provider, tools=[child])
    names = ("a", "b")
    prompt = "\n".join(ask("research", f'call meet {{"name": "{name}"}}') for name in names)
    assert run(agent.run(prompt)).stop == "end"
    assert sorted(met) == [(2, "a"), (2, "b")]
    assert [
        "meet: a" in results_of(agent.conversation)[0].text,
        "meet: b" in results_of(agent.conversation)[1].text,
    ]


def test_agents_may_change_their_models_while_they_wait() -> None:
    """Case 25."""
    bank = Bank()
    child = make_agent("anthropic", tools=bank.tools)
    tools = [child.as_tool("research", "Researches.")]
    agent = make_agent("anthropic", tools=tools)
    [waiting] = run(agent.run(ask("research", 'call look {"place": "a"}', PAY))).pending
    child.switch("simulator:gemini")
    agent = reload(agent, "ollama", tools)
    assert run(agent.resume({waiting.id: True})).stop == "end"
    assert bank.paid == [90]
    check(agent.conversation)


# ---- events


def collect(agent: Agent, prompt: str) -> list[RunEvent]:
    return list(agent.stream_sync(prompt))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_inner_events_say_whose_they_are(provider: str) -> None:
    """Case 26: in order for each path; each call that has started has finished."""
    agent, _ = nest(Bank(), provider, depth=2)
    look = 'call look {"place": "a"}'
    events = collect(agent, ask("research", ask("research", look)) + "\n" + ask("research", look))
    inner = [event for event in events if isinstance(event, InnerEvent)]
    paths = {event.path for event in inner}
    assert sorted(map(len, paths)) == [1, 1, 2]
    for path in paths:
        of_path = [event.event for event in inner if event.path == path]
        assert type(of_path[0]).__name__ == "ReplyStarted"
        assert isinstance(of_path[-1], RunDone)
        starts = [event.call.id for event in of_path if isinstance(event, ToolStarted)]
        ends = [event.outcome.call.id for event in of_path if isinstance(event, ToolFinished)]
        assert starts == ends
    assert isinstance(events[-1], RunDone)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_without_a_reader_there_are_no_events(provider: str) -> None:
    agent, _ = nest(Bank(), provider)
    assert run(agent.run(ask("research", "say hello"))).results[0].text == "hello"


# ---- parameters, data, output


class Task(TypedDict):
    """What to look for."""

    place: str
    urgent: bool


def test_an_agent_may_take_other_parameters() -> None:
    wiretap = Wiretap()
    child = make_agent("anthropic", wiretap).as_tool("research", "Researches.", parameters=Task)
    agent = make_agent("anthropic", tools=[child])
    run(agent.run('call research {"place": "home", "urgent": true}'))
    assert '{"place":"home","urgent":true}' in str(wiretap.bodies[0]["messages"][0])
    with pytest.raises(UsageError, match="must be an object"):
        make_agent("anthropic").as_tool("research", "Researches.", parameters=int)


def test_an_agent_has_the_data_of_the_run_unless_it_has_its_own() -> None:
    seen: list[Any] = []

    def look(context: Context[str]) -> str:
        """Look."""
        seen.append(context.data)
        return ""

    for data in (None, "own"):
        child = make_agent("anthropic", tools=[Tool(look)], data=data or "default").as_tool(
            "research", "Looks."
        )
        run(make_agent("anthropic", tools=[child], data="outer").run(ask("research", "call look {}")))
    assert seen == ["default", "own"]


def test_an_agents_output_is_data() -> None:
    child = make_agent("anthropic", output_type=Task).as_tool("research", "Researches.")
    agent = make_agent("anthropic", tools=[child])
    run(agent.run(ask("research", "find it")))
    [result] = results_of(agent.conversation)
    assert result.data == {"place": "find it", "urgent": True}  # what the simulator fills in


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_tool_without_a_function_may_wait_inside(provider: str) -> None:
    """A front-end's tool of a sub-agent: its call surfaces at the root, and is answered there."""
    pick = ToolDefinition("pick", "Pick.", {"type": "object", "properties": {}})
    tools = [make_agent(provider, tools=[pick]).as_tool("research", "Researches.")]
    agent = make_agent(provider, tools=tools)
    first = run(agent.run(ask("research", "call pick {}")))
    [waiting] = first.pending
    assert (first.stop, waiting.kind, len(waiting.path)) == ("waiting", "external", 2)
    agent = reload(agent, provider, tools)
    with pytest.raises(UsageError, match="waits for an answer"):
        run(agent.resume({waiting.id: True}))
    assert run(agent.resume({waiting.id: Answer("red")})).stop == "end"
    assert "pick: red" in results_of(agent.conversation)[0].text


# ---- what a file says


def pause(**options: Any) -> tuple[Agent, list[Tool], RunResult]:
    agent, tools = nest(Bank(), "anthropic", **options)
    return agent, tools, run(agent.run(ask("research", PAY)))


def change_child(agent: Agent, change: Any, *, signed: bool) -> bytes:
    def apply(header: dict[str, Any]) -> None:
        header.pop("mac")
        change(header["run"]["suspended"]["0"]["state"]["own"])

    data = edit(agent.save(), apply)
    return sign(data) if signed else data


Doc = dict[str, Any]


def set_version(own: Doc) -> None:
    own["version"] = 2


def drop_lines(own: Doc) -> None:
    own["lines"] = []


def write_text(own: Doc) -> None:
    own["lines"] = "x"


def drop_run(own: Doc) -> None:
    del own["lines"][0]["run"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (set_version, "has version 2, which this version cannot read"),
        (drop_lines, "."),
        (write_text, "has an unexpected shape"),
        (drop_run, "does not wait for anything"),
    ],
)
def test_a_saved_agent_of_another_form_is_refused(change: Any, words: str) -> None:
    """Case 14: the parent stays as it is."""
    agent, tools, _ = pause()
    other = Agent.load(change_child(agent, change, signed=True), "simulator:anthropic", tools=tools)
    with pytest.raises(MalformedData, match=words):
        run(other.list_pending())
    assert other.has_pending_run


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_changed_agent_in_a_file_needs_fingerprints(provider: str) -> None:
    """Case 13: nothing inside runs by its id, and a changed call is asked about as it is now."""
    agent, tools, first = pause()

    def raise_amount(own: dict[str, Any]) -> None:
        own["lines"][0]["run"]["calls"][0]["arguments"]["amount"] = 9000

    other = Agent.load(change_child(agent, raise_amount, signed=False), f"simulator:{provider}", tools=tools)
    with pytest.raises(UsageError, match="is not enough to decide"):
        run(other.resume({first.pending[0].id: True}))
    [shown] = run(other.list_pending())
    assert (shown.request.arguments, shown.fingerprint != first.pending[0].fingerprint) == (
        {"amount": 9000},
        True,
    )


def test_a_new_prompt_gives_up_an_agent_that_waits() -> None:
    agent, _, _ = pause()
    assert run(agent.run("say never mind")).stop == "end"
    assert kinds_of(agent.conversation)[0] in ("cancelled", "interrupted")
    check(agent.conversation)


def test_an_agent_is_called_only_in_a_run() -> None:
    async def call() -> None:
        child = make_agent("anthropic").as_tool("research", "Researches.")
        from toolglot.tools.executor import ToolExecutor
        from toolglot.tools.registry import ToolRegistry
        from toolglot.values.messages import ToolCall

        outcome = await ToolExecutor(ToolRegistry([child])).run(ToolCall("a", "research", {"prompt": "x"}))
        assert "can only be called in a run of another agent" in outcome.result.text

    run(call())
