"""The loop with everything around it, on the simulator: all five wires, streamed and not, with one and the
same outcome.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from toolglot.common.jsontext import dumps_text
from toolglot.errors import (
    MalformedReply,
    NameConflict,
    ProviderError,
    ToolError,
    TransportError,
    UnknownName,
    UsageError,
)
from toolglot.loop.agent.agent import Agent
from toolglot.loop.agent.config import PromptContext
from toolglot.loop.limits import RunLimits
from toolglot.tools.config import ToolConfig
from toolglot.tools.context import Context
from toolglot.tools.hooks import Hooks
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import Tool, tool
from toolglot.values.events import (
    Retrying,
    RunDone,
    RunEvent,
    RunResult,
    TextDelta,
    ThinkingDelta,
    ToolCallReady,
    ToolFinished,
    ToolOutcome,
    ToolProgress,
    ToolStarted,
)
from toolglot.values.messages import (
    Conversation,
    Reply,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    tool_results,
    user,
)
from toolglot.values.request import Options, Request, ToolChoice

from .agents import (
    PROVIDERS,
    Doc,
    StuckTool,
    Wiretap,
    check,
    check_bodies,
    collect_events,
    collect_into,
    hook,
    kinds_of,
    make_agent,
    noting,
    outcome,
    results_of,
    run,
    texts_of,
)

EVERYWHERE = pytest.mark.parametrize("provider", PROVIDERS)
STREAMED = pytest.mark.parametrize("live", [False, True], ids=["whole", "streamed"])


@tool(effects="read")
async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@tool(effects="read")
def shout(text: str) -> str:
    """Says it louder."""
    return text.upper()


@tool(effects="read")
async def fail(why: str) -> str:
    """Goes wrong."""
    raise ValueError(why)


@tool(effects="read", timeout=0.02)
async def hang() -> str:
    """Never comes back."""
    await asyncio.Event().wait()
    return "never"


TOOLS = [add, shout, fail, hang]
PROMPT = """call add {"a": 1, "b": 2} call shout {"text": "hi"} call fail {"why": "no luck"} call hang {}
then call add {"a": 3, "b": 4}
then say all done"""


def tools_sent(body: Doc) -> set[str]:
    """The names of the tools in a body, whatever the wire."""
    text = dumps_text(body.get("tools", []))
    names = {"add", "shout", "fail", "hang", "secret", "get", "late", "final_answer", "write", "read"}
    return {name for name in names if f'"name":"{name}"' in text}


def meaning(result: RunResult) -> tuple[Any, ...]:
    """What a run came to, without what differs by wire: ids, state, usage, times."""
    shown = [
        (outcome.call.name, outcome.call.arguments, outcome.result.text, outcome.result.error_kind)
        for outcome in result.outcomes
    ]
    lines = [
        (message.role, message.text, len(message.calls), len(message.results)) for message in result.messages
    ]
    return result.text, result.stop, shown, lines, result.iterations


# ---- one conversation everywhere


@EVERYWHERE
@STREAMED
def test_tools_errors_and_timeouts_on_every_wire(provider: str, live: bool) -> None:
    wiretap = Wiretap()
    agent = make_agent(provider, wiretap, tools=TOOLS, system="Be brief.")
    result = run(outcome(agent, PROMPT, streamed=live))
    shown = [
        (outcome.result.text.partition(".")[0], outcome.result.error_kind) for outcome in result.outcomes
    ]
    assert shown == [
        ("3", None),
        ("HI", None),
        ("ValueError: no luck", "execution"),
        ("The tool 'hang' did not finish within 0", "timeout"),
        ("7", None),
    ]
    assert (result.text, result.stop, result.iterations) == ("all done", "end", 3)
    assert result.messages == tuple(agent.conversation[1:])
    assert result.usage.input > 0
    assert result.usage.output > 0
    assert wiretap.open == 0
    check(agent.conversation)
    check_bodies(agent.view().engine, wiretap)


def test_every_wire_streamed_or_not_comes_to_the_same() -> None:
    results = [
        run(outcome(make_agent(provider, tools=TOOLS), PROMPT, streamed=streamed))
        for provider in PROVIDERS
        for streamed in (False, True)
    ]
    assert [meaning(result) for result in results] == [meaning(results[0])] * len(results)


@EVERYWHERE
def test_events_have_a_grammar(provider: str) -> None:
    agent = make_agent(provider, tools=TOOLS)
    events = run(collect_events(agent.stream(PROMPT)))
    assert isinstance(events[-1], RunDone)
    assert sum(isinstance(event, RunDone) for event in events) == 1
    open_: list[str] = []
    ready: list[ToolCall] = []
    for event in events:
        match event:
            case ToolCallReady():
                ready.append(event.call)
            case ToolStarted():
                assert event.call in ready
                open_.append(event.call.id)
            case ToolFinished():
                open_.remove(event.outcome.call.id)
            case Retrying() | RunDone():
                pass
            case _:
                assert not open_, "the model is asked only when all tools are done"
    assert open_ == []
    finished = [event.outcome.call for event in events if isinstance(event, ToolFinished)]
    assert sorted(call.id for call in finished) == sorted(call.id for call in ready)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)).endswith("all done")
    assert events[-1].result.outcomes


@EVERYWHERE
async def test_turn_after_turn_in_one_conversation(provider: str) -> None:
    wiretap = Wiretap()
    agent = make_agent(provider, wiretap, tools=TOOLS)
    for number in range(6):
        result = await outcome(agent, f'call add {{"a": {number}, "b": 1}}', streamed=bool(number % 2))
        assert result.outcomes[0].result.text == str(number + 1)
    check(agent.conversation)
    check_bodies(agent.view().engine, wiretap)
    assert len(agent.conversation) == 24


def test_progress_is_shown_between_start_and_finish() -> None:
    @tool
    def work(context: Context) -> str:
        """Takes a while."""
        context.report("half")
        return "done"

    events = run(collect_events(make_agent("anthropic", tools=[work]).stream("call work {}")))
    kinds = [type(event) for event in events if isinstance(event, ToolStarted | ToolProgress | ToolFinished)]
    assert kinds == [ToolStarted, ToolProgress, ToolFinished]


# ---- conversations


@pytest.mark.parametrize("is_own", [True, False], ids=["own", "other"])
async def test_two_runs_at_once_on_one_conversation_are_refused(is_own: bool) -> None:
    slow = StuckTool()
    agent = make_agent("anthropic", tools=[slow.tool])
    there: dict[str, Any] = {"conversation": agent.conversation if is_own else Conversation()}
    first = asyncio.create_task(agent.run("call slow {}", **there))
    await slow.inside.wait()
    before = len(there["conversation"])
    for attempt in (
        agent.run("me too", **there),
        collect_events(agent.stream("me too", **there)),
        agent.resume({}, **there),
    ):
        with pytest.raises(UsageError):
            await attempt
    assert len(there["conversation"]) == before
    slow.gate.set()
    assert (await first).stop == "end"
    check(there["conversation"])


async def test_two_agents_at_once_on_one_conversation_are_refused() -> None:
    stuck, shared = StuckTool(), Conversation()
    first, other = make_agent("anthropic", tools=[stuck.tool]), make_agent("gemini", conversation=shared)
    task = asyncio.create_task(first.run("call slow {}", conversation=shared))
    await stuck.inside.wait()
    with pytest.raises(UsageError, match="in progress"):
        await other.run("say hi")
    stuck.gate.set()
    await task
    assert (await other.run("say hi")).text == "hi"
    check(shared)


def test_without_an_asyncio_loop_the_error_says_what_to_do() -> None:
    with pytest.raises(UsageError, match="run_sync"):
        make_agent("anthropic").run("say hi").send(None)  # as another framework would drive it


@EVERYWHERE
async def test_other_conversations_are_kept_apart(provider: str) -> None:
    agent = make_agent(provider, tools=TOOLS)
    others = [Conversation() for _ in range(20)]
    prompts = [f'call add {{"a": {number}, "b": 100}}' for number in range(20)]
    pairs = zip(prompts, others, strict=True)
    results = await asyncio.gather(*(agent.run(prompt, conversation=other) for prompt, other in pairs))
    assert [result.outcomes[0].result.text for result in results] == [
        str(number + 100) for number in range(20)
    ]
    assert len(agent.conversation) == 0
    for other in others:
        check(other, everywhere=False)


async def test_uses_are_counted_in_a_conversation_also_in_another_one() -> None:
    agent = make_agent("anthropic", tools=[add], config=ToolConfig(max_uses={"add": 1}))
    other = Conversation()
    await agent.run('call add {"a": 1, "b": 1}', conversation=other)
    await agent.run('call add {"a": 2, "b": 1}', conversation=other)
    assert kinds_of(other) == [None, "limit"]


def test_a_conversation_of_the_caller_continues() -> None:
    call = ToolCall("c1", "add", {"a": 1, "b": 1})
    conversation = Conversation(
        [user("hi"), assistant([call]), tool_results(ToolResult("c1", (Text("2"),), "add"))]
    )
    wiretap = Wiretap()
    agent = make_agent("anthropic", wiretap, tools=TOOLS, conversation=conversation)
    result = run(agent.run("say and now"))
    assert agent.conversation is conversation
    assert result.text == "and now"
    check(conversation)


def test_a_conversation_with_an_open_call_is_repaired_and_that_is_reported() -> None:
    conversation = Conversation([user("hi"), assistant([ToolCall("c1", "add", {"a": 1, "b": 1})])])
    wiretap = Wiretap()
    agent = make_agent("anthropic", wiretap, tools=TOOLS, conversation=conversation)
    result = run(agent.run("say and now"))
    assert result.text == "and now"
    assert any("result" in str(repair) for repair in result.repairs)
    check_bodies(agent.view().engine, wiretap)


# ---- the last turn


@pytest.mark.parametrize("provider", [*PROVIDERS, "mistral", "deepseek", "groq"])
@STREAMED
def test_the_last_turn_keeps_the_tools_if_the_wire_can_forbid_calls(provider: str, live: bool) -> None:
    wiretap = Wiretap(*(f'call add {{"a": {number}, "b": 1}}' for number in range(2)))
    agent = make_agent(provider, wiretap, tools=[add], limits=RunLimits(max_iterations=2))
    result = run(outcome(agent, "go", streamed=live))
    assert result.iterations == 3
    assert result.stop == "end"
    *before, last = wiretap.bodies
    assert all(tools_sent(body) == {"add"} for body in before)
    if provider in ("ollama", "mistral"):
        assert tools_sent(last) == set()
        assert any("tool" in str(loss) for loss in result.losses)
    else:
        assert tools_sent(last) == {"add"}
        assert "none" in dumps_text(last.get("tool_choice") or last.get("toolConfig")).lower()
    check(agent.conversation)


@EVERYWHERE
@STREAMED
def test_a_model_that_calls_in_its_last_turn_runs_nothing(provider: str, live: bool) -> None:
    ran: list[str] = []
    wiretap = Wiretap(*([lambda request: Reply((ToolCall("", "count", {}),), "tools")] * 5))  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]
    agent = make_agent(
        provider, wiretap, tools=[noting(ran, "count", polls=True)], limits=RunLimits(max_iterations=2)
    )
    result = run(outcome(agent, "go", streamed=live))
    assert result.stop == "max_iterations"
    assert len(ran) == 2
    assert kinds_of(agent.conversation)[-1] == "limit"
    check(agent.conversation)


# ---- what goes wrong

FAULTS: list[tuple[str, type[Exception] | None]] = [
    ("rate-limit", None),
    ("server-error", None),
    ("overloaded", None),
    ("reset", None),
    ("html", None),
    ("error-in-200-first", None),
    ("duplicate-ids", None),
    ("unknown-tool", None),
    ("quota", ProviderError),
    ("unauthorized", ProviderError),
    ("context-too-long", ProviderError),
]


@EVERYWHERE
@STREAMED
@pytest.mark.parametrize(("fault", "error"), FAULTS)
async def test_each_fault_has_an_outcome_and_a_next_turn(
    provider: str, live: bool, fault: str, error: type[Exception] | None
) -> None:
    ran: list[int] = []

    @tool(name="add")
    def counted(a: int, b: int) -> int:
        """Adds two numbers."""
        ran.append(a)
        return a + b

    if fault == "quota" and provider in ("gemini", "ollama"):
        error = None  # they say the same where waiting helps
    wiretap = Wiretap(faults=[fault])
    agent = make_agent(provider, wiretap, tools=[counted])
    if error is None:
        await outcome(agent, 'call add {"a": 1, "b": 2}', streamed=live)
    else:
        with pytest.raises(error):
            await outcome(agent, 'call add {"a": 1, "b": 2}', streamed=live)
    check(agent.conversation)
    assert (await agent.run("say on we go")).text == "on we go"
    assert len(ran) <= (2 if fault == "duplicate-ids" else 1)
    assert wiretap.open == 0
    check(agent.conversation)
    check_bodies(agent.view().engine, wiretap)


CUTS = ["reset-mid-stream", "half-json", "truncated", "error-in-200"]


@EVERYWHERE
@pytest.mark.parametrize("fault", CUTS)
async def test_a_stream_that_breaks_after_it_was_shown_is_not_started_again(
    provider: str, fault: str
) -> None:
    wiretap = Wiretap("say one two three four five six seven eight nine ten eleven twelve", faults=[fault])
    agent = make_agent(provider, wiretap)
    shown: list[RunEvent] = []
    with pytest.raises((TransportError, MalformedReply, ProviderError)):
        await collect_into(agent.stream("go"), shown)
    assert len(wiretap.requests) == 1
    check(agent.conversation)
    await agent.run("say on we go")
    assert any(isinstance(event, TextDelta | ThinkingDelta) for event in shown)
    assert wiretap.open == 0
    check(agent.conversation)


@EVERYWHERE
@STREAMED
def test_a_call_cut_by_the_length_limit_never_runs(provider: str, live: bool) -> None:
    ran: list[dict[str, Any]] = []

    @tool(effects="read")
    def put(text: str = "") -> str:
        """Puts a text."""
        ran.append({"text": text})
        return "ok"

    for early in (False, True):
        wiretap = Wiretap(faults=["length"])
        agent = make_agent(provider, wiretap, tools=[put], config=ToolConfig(eager_start=early))
        run(outcome(agent, 'call put {"text": "abcdefghijk"}\nthen say done', streamed=live))
        assert kinds_of(agent.conversation)[0] == "truncated"
        assert ran == [], f"early_start={early}"
        check(agent.conversation)


# ---- error handling


async def test_abort_ends_the_run_with_the_error() -> None:
    ran: list[str] = []
    agent = make_agent("anthropic", tools=[fail, noting(ran, "other")], config=ToolConfig(on_error="abort"))
    with pytest.raises(ToolError, match="no luck") as caught:
        await agent.run('call fail {"why": "no luck"} call other {}')
    assert (caught.value.tool, caught.value.kind) == ("fail", "execution")
    check(agent.conversation)
    assert kinds_of(agent.conversation) == ["execution", None]
    assert (await agent.run("say well")).text == "well"
    assert ran == ["other"]


# ---- hooks


class Watch(Hooks):
    """Writes down what it sees."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def before_request(self, request: Request) -> None:
        self.seen.append(f"request {len(request.messages)}")

    async def after_reply(self, reply: Reply) -> None:
        self.seen.append(f"reply {len(reply.calls)}")

    def before_tool(self, call: ToolCall) -> None:
        self.seen.append(f"before {call.name}")

    async def after_tool(self, outcome: Any) -> None:
        self.seen.append(f"after {outcome.result.text}")


@STREAMED
def test_hooks_see_everything_in_order(live: bool) -> None:
    watch = Watch()
    run(
        outcome(
            make_agent("anthropic", tools=[add], hooks=[watch]), 'call add {"a": 1, "b": 2}', streamed=live
        )
    )
    assert watch.seen == ["request 1", "reply 1", "before add", "after 3", "request 3", "reply 0"]


def test_a_hook_redacts_what_is_sent_and_not_what_is_kept() -> None:
    def redact(request: Request) -> Request:
        return replace(
            request, messages=[user(message.text.replace("4711", "****")) for message in request.messages]
        )

    wiretap = Wiretap()
    agent = make_agent("anthropic", wiretap, hooks=[hook(before_request=redact)])
    run(agent.run("my code is 4711"))
    assert b"4711" not in wiretap.requests[0].body
    assert "4711" in agent.conversation[0].text


def test_a_hook_redacts_what_the_model_reads() -> None:
    def redact(outcome: ToolOutcome) -> ToolOutcome:
        return replace(outcome, result=replace(outcome.result, content=(Text("[hidden]"),), data=None))

    wiretap = Wiretap()
    agent = make_agent("anthropic", wiretap, tools=[shout], hooks=[hook(after_tool=redact)])
    result = run(agent.run('call shout {"text": "password"}'))
    assert results_of(agent.conversation)[0].text == "[hidden]"
    assert b"PASSWORD" not in b"".join(request.body for request in wiretap.requests)
    assert result.outcomes[0].result.text == "[hidden]"


def _raise(error: BaseException) -> Any:
    raise error


HOOK_POINTS = ["before_request", "after_reply", "before_tool", "after_tool"]


@STREAMED
@pytest.mark.parametrize("point", HOOK_POINTS)
@pytest.mark.parametrize(
    "error", [ValueError("hook"), TimeoutError("hook"), KeyError()], ids=lambda error: type(error).__name__
)
@pytest.mark.parametrize("early", [False, True], ids=["", "early"])
async def test_a_hook_that_fails_leaves_a_valid_conversation(
    live: bool, point: str, error: Exception, early: bool
) -> None:
    def fail(_: Any) -> Any:
        raise error

    agent = make_agent(
        "anthropic", tools=[add, shout], hooks=[hook(**{point: fail})], config=ToolConfig(eager_start=early)
    )
    with pytest.raises(type(error)):
        await outcome(agent, 'call add {"a": 1, "b": 2} call shout {"text": "x"}', streamed=live)
    check(agent.conversation)
    after = make_agent("anthropic", tools=[add, shout], conversation=agent.conversation)
    assert (await after.run("say on")).text == "on"


# ---- the system prompt


def system_of(body: Doc) -> str:
    return dumps_text(
        body.get("system") or body.get("instructions") or body.get("systemInstruction") or body["messages"][0]
    )


@EVERYWHERE
def test_system_prompts_are_texts_and_functions(provider: str) -> None:
    async def later(context: PromptContext) -> str:
        return f"async {len(context.messages)}"

    forms: list[tuple[Any, str]] = [
        ("plain words", "plain words"),
        (lambda context: f"model {context.model.partition(':')[2]} data {context.data}", "data 5"),  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType]
        (lambda context: ",".join(tool.name for tool in context.tools), "add"),  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType, reportUnknownArgumentType, reportUnknownVariableType]
        (later, "async 1"),
    ]
    for form, wanted in forms:
        wiretap = Wiretap()
        agent = make_agent(provider, wiretap, tools=[add], system=form, data=5)
        run(agent.run("say x"))
        assert wanted in system_of(wiretap.bodies[0])
        assert all(message.role != "system" for message in agent.conversation)


async def test_a_changing_system_prompt_is_sent_again() -> None:
    prompts = iter(["first", "second", "second", ""])
    wiretap = Wiretap()
    agent = make_agent("anthropic", wiretap, system=lambda _: next(prompts))  # pyright: ignore[reportUnknownLambdaType]
    for _ in range(4):
        await agent.run("say x")
    assert ["first" in str(b.get("system")) for b in wiretap.bodies] == [True, False, False, False]
    assert ["second" in str(b.get("system")) for b in wiretap.bodies] == [False, True, True, False]
    check_bodies(agent.view().engine, wiretap)


async def test_a_system_function_that_fails_leaves_the_agent_usable() -> None:
    fails = [True]

    def prompt(context: PromptContext) -> str:
        if fails:
            raise LookupError("no prompt today")
        return "fine"

    agent = make_agent("anthropic", system=prompt)
    with pytest.raises(LookupError):
        await agent.run("one")
    fails.clear()
    assert (await agent.run("say two")).text == "two"
    check(agent.conversation)


# ---- which tools


@EVERYWHERE
def test_tools_that_are_not_allowed_are_not_shown_and_do_not_run(provider: str) -> None:
    ran: list[str] = []
    wiretap = Wiretap()
    config = ToolConfig(allow=frozenset({"add"}))
    agent = make_agent(provider, wiretap, tools=[add, noting(ran, "secret")], config=config)
    run(agent.run("call! secret {}"))
    assert all(tools_sent(body) == {"add"} for body in wiretap.bodies)
    assert kinds_of(agent.conversation) == ["not_allowed"]
    assert ran == []
    check(agent.conversation)


def test_tools_can_be_switched_off() -> None:
    wiretap = Wiretap()
    agent = make_agent(
        "anthropic",
        wiretap,
        tools=[add],
        config=ToolConfig(enabled=False, tool_choice=ToolChoice("required")),
    )
    run(agent.run("add 1 and 2"))
    assert "tools" not in wiretap.bodies[0]
    assert "tool_choice" not in wiretap.bodies[0]


@pytest.mark.parametrize("provider", ["openai-chat", "openai-responses", "anthropic", "gemini"])
def test_a_choice_is_for_the_first_request_only(provider: str) -> None:
    wiretap = Wiretap()
    agent = make_agent(
        provider, wiretap, tools=[add, shout], config=ToolConfig(tool_choice=ToolChoice("required", ("add",)))
    )
    result = run(agent.run("add 1 and 2"))
    assert result.stop == "end"

    def is_forced(body: Doc) -> bool:
        choice = dumps_text(body.get("tool_choice") or body.get("toolConfig") or {})
        return any(word in choice for word in ("add", "required", '"any"', "ANY"))

    assert [is_forced(body) for body in wiretap.bodies] == [True] + [False] * (len(wiretap.bodies) - 1)
    assert len(wiretap.bodies) > 1


HOSTED = [("anthropic", "web_search_2"), ("openai-responses", "web_search"), ("gemini", "googleSearch")]


@pytest.mark.parametrize(("provider", "word"), HOSTED)
def test_hosted_tools_pass_through(provider: str, word: str) -> None:
    wiretap = Wiretap()
    agent = make_agent(provider, wiretap, tools=[add], hosted=["web_search"])
    result = run(agent.run("say x"))
    assert word in dumps_text(wiretap.bodies[0]["tools"])
    assert not any("web_search" in str(loss) for loss in result.losses)


@pytest.mark.parametrize("provider", ["openai-chat", "ollama"])
def test_hosted_tools_are_a_loss_elsewhere(provider: str) -> None:
    wiretap = Wiretap()
    agent = make_agent(provider, wiretap, tools=[add], hosted=["web_search"])
    result = run(agent.run("say x"))
    assert b"web_search" not in wiretap.requests[0].body
    assert any("web_search" in str(loss) for loss in result.losses)


def test_unknown_hosted_tools_are_named() -> None:
    with pytest.raises(UnknownName, match="web_search"):
        Agent("simulator", hosted=["web_serch"])


def test_tools_that_cannot_be_are_named_at_once() -> None:
    with pytest.raises(NameConflict):
        Agent("simulator", tools=[add, Tool(lambda: 1, name="add")])


# ---- tools that change the tools


@pytest.mark.parametrize("extra", ["", "final", "paging"])
def test_a_tool_may_register_another_one(extra: str) -> None:
    """The model sees it in its next turn, whatever else is offered beside it."""
    registry = ToolRegistry()

    @tool
    def late() -> str:
        """Comes late."""
        return "here I am"

    def more() -> str:
        """Adds a tool."""
        registry.register(late, replace=True)
        return "added"

    def flood() -> str:
        """Says a lot."""
        return "x" * 5000

    registry.register(more)
    registry.register(flood)
    first = {"": "call more {}", "final": "call more {}", "paging": "call flood {}\nthen call more {}"}[extra]
    options: dict[str, Any] = {"output_type": dict[str, int]} if extra == "final" else {}
    wiretap = Wiretap()
    agent = make_agent("ollama", wiretap, tools=registry, config=ToolConfig(max_result=1000), **options)
    if extra == "final":
        prompt = 'call more {}\nthen call late {}\nthen call final_answer {"value": {"x": 1}}'
    else:
        prompt = f"{first}\nthen call late {{}}\nthen say done"
    run(agent.run(prompt))
    assert "here I am" in texts_of(agent.conversation)
    assert "late" in tools_sent(wiretap.bodies[-1])
    check(agent.conversation)


@EVERYWHERE
def test_a_tool_may_take_itself_away(provider: str) -> None:
    registry = ToolRegistry()
    ran: list[int] = []

    def once() -> str:
        """Works once."""
        ran.append(1)
        registry.unregister("once")
        return "gone"

    registry.register(once)
    wiretap = Wiretap()
    agent = make_agent(provider, wiretap, tools=registry)
    result = run(agent.run("call once {}\nthen call! once {}\nthen say done"))
    assert result.text == "done"
    assert ran == [1]
    assert kinds_of(agent.conversation) == [None, "not_found"]
    check(agent.conversation)
    check_bodies(agent.view().engine, wiretap)


# ---- early starts

EARLY = ToolConfig(eager_start=True)


@EVERYWHERE
def test_early_starts_come_to_the_same(provider: str) -> None:
    early = run(outcome(make_agent(provider, tools=TOOLS, config=EARLY), PROMPT, streamed=True))
    assert meaning(early) == meaning(run(outcome(make_agent(provider, tools=TOOLS), PROMPT, streamed=True)))


@pytest.mark.parametrize("provider", ["openai-chat", "anthropic", "gemini", "ollama"])
def test_only_tools_that_only_read_start_early(provider: str) -> None:
    """The reply goes on after the calls: at its end the reader has run, the writer has not."""
    ran: list[str] = []
    at_reply: list[list[str]] = []

    async def look(reply: Reply) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        at_reply.append([*ran])

    effects = {"read": "read", "write": "write", "fetch": ("read", "network"), "anything": ()}
    tools = [noting(ran, name, effects=kinds) for name, kinds in effects.items()]
    agent = make_agent(provider, tools=tools, hooks=[hook(after_reply=look)], config=EARLY)
    run(outcome(agent, "call read {} call write {} call fetch {} call anything {}", streamed=True))
    assert at_reply[0] == ["read"]
    assert sorted(ran) == ["anything", "fetch", "read", "write"]
    check(agent.conversation)


@EVERYWHERE
async def test_a_reply_that_breaks_discards_what_was_started_early(provider: str) -> None:
    slow = StuckTool("read", effects="read")
    wiretap = Wiretap(
        lambda _: Reply((ToolCall("", "read", {}), Text("words " * 40)), "tools"),  # pyright: ignore[reportUnknownLambdaType]
        faults=["truncated"],
    )
    agent = make_agent(provider, wiretap, tools=[slow.tool], config=EARLY)
    with pytest.raises((MalformedReply, TransportError, ProviderError)):
        async for _ in agent.stream("go"):
            pass
    assert slow.ended == slow.inside.is_set()
    assert results_of(agent.conversation) == []
    check(agent.conversation)


def test_an_early_start_that_nobody_wants_is_quiet() -> None:
    """A hook that takes the call out of the reply: what was begun is forgotten, without noise."""
    out = hook(
        before_tool=lambda _: _raise(ValueError("early and wrong")),
        after_reply=lambda _: Reply((Text("nothing to do"),), "end"),
    )
    agent = make_agent("openai-chat", tools=[noting([], "read", effects="read")], hooks=[out], config=EARLY)
    assert run(outcome(agent, "call read {}", streamed=True)).text == "nothing to do"
    check(agent.conversation)


def test_an_early_result_is_of_the_call_that_is_kept() -> None:
    """A hook that changes the arguments of the reply: the result is of the new ones."""

    def other(reply: Reply) -> Reply | None:
        if not reply.calls:
            return None
        return replace(
            reply, blocks=tuple(replace(call, arguments={"a": 40, "b": 2}, raw=None) for call in reply.calls)
        )

    agent = make_agent("openai-chat", tools=[add], hooks=[hook(after_reply=other)], config=EARLY)
    run(outcome(agent, 'call add {"a": 1, "b": 1}', streamed=True))
    assert results_of(agent.conversation)[0].text == "42"


@pytest.mark.parametrize("config", [ToolConfig(), EARLY], ids=["late", "early"])
@pytest.mark.parametrize("provider", ["openai-chat", "anthropic"])
def test_an_early_start_is_of_its_own_reply_also_if_ids_are_used_again(
    provider: str, config: ToolConfig
) -> None:
    """Some servers number their calls anew in every answer: what was read before is not the answer to a new
    question.
    """
    written: list[int] = []

    @tool(effects="read", polls=True)
    async def look() -> str:
        """Looks."""
        return f"{len(written)} written"

    @tool(effects="write")
    async def write(n: int) -> str:
        """Writes."""
        written.append(n)
        return "written"

    def turn(number: int) -> Callable[[Any], Reply]:
        return lambda _: Reply(
            (ToolCall("call_0", "look", {}), ToolCall("call_1", "write", {"n": number})), "tools"
        )

    agent = make_agent(
        provider, Wiretap(turn(1), turn(2), turn(3), "say done"), tools=[look, write], config=config
    )
    result = run(outcome(agent, "go", streamed=True))
    assert result.text == "done"
    assert [outcome.result.text for outcome in result.outcomes if outcome.call.name == "look"] == [
        "0 written",
        "1 written",
        "2 written",
    ]
    check(agent.conversation, everywhere=False)


def test_what_an_earlier_reply_left_running_is_ended_with_the_run() -> None:
    """A hook takes a call out of the first reply: its early start is nobody's, and does not outlive the run."""
    forever = StuckTool("forever", effects="read")

    async def out(reply: Reply) -> Reply:
        for _ in range(5):
            await asyncio.sleep(0)
        return replace(
            reply, blocks=tuple(block for block in reply.blocks if getattr(block, "name", "") != "forever")
        )

    wiretap = Wiretap('call forever {} call add {"a": 1, "b": 1}', 'call add {"a": 2, "b": 2}', "say done")
    agent = make_agent(
        "openai-chat", wiretap, tools=[forever.tool, add], hooks=[hook(after_reply=out)], config=EARLY
    )
    result = run(outcome(agent, "go", streamed=True))
    assert (result.text, [outcome.result.text for outcome in result.outcomes]) == ("done", ["2", "4"])
    assert forever.ended == 1


@pytest.mark.parametrize("limit", [1, 2, 3])
@pytest.mark.parametrize(
    "calls", ["look look look look look", "write write look write look look", "look write look look write"]
)
def test_early_starts_count_among_the_tools_that_run_at_once(calls: str, limit: int) -> None:
    """As many are inside at the same time as may be, and not more, wherever among the calls the early ones
    are.
    """
    inside, peak = [0], [0]

    async def busy(n: int) -> int:
        inside[0] += 1
        peak[0] = max(peak[0], inside[0])
        for _ in range(200):
            await asyncio.sleep(0)
        inside[0] -= 1
        return n

    tools = [tool(name="look", effects="read")(busy), tool(name="write", effects="write")(busy)]
    config = ToolConfig(eager_start=True, max_parallel=limit)
    prompt = " ".join(f'call {name} {{"n": {number}}}' for number, name in enumerate(calls.split()))
    agent = make_agent("openai-chat", tools=tools, config=config)
    result = run(outcome(agent, prompt, streamed=True))
    assert [outcome.result.text for outcome in result.outcomes] == [
        str(number) for number in range(len(calls.split()))
    ]
    assert peak[0] == limit
    check(agent.conversation, everywhere=False)


# ---- small things


def test_a_tool_sees_the_conversation_the_data_and_the_model() -> None:
    seen: list[Any] = []

    @tool
    def look(context: Context) -> str:
        """Looks around."""
        seen.extend(
            [context.data, context.model, [message.role for message in context.messages], context.attempt]
        )
        seen.extend([context.call.name, context.is_cancelled])
        return "ok"

    agent = make_agent("anthropic", tools=[look], data={"user": 7})
    run(agent.run("call look {}"))
    assert seen == [{"user": 7}, agent.model, ["user", "assistant"], 1, "look", False]


def test_a_new_config_counts_from_the_next_run() -> None:
    ran: list[str] = []
    agent = make_agent("anthropic", tools=[noting(ran, "work")])
    agent.config = ToolConfig(allow=frozenset())
    run(agent.run("call work {}"))
    assert ran == []


@STREAMED
def test_a_model_that_repeats_itself_is_asked_for_its_last_words(live: bool) -> None:
    def again(request: Request) -> Reply:
        if request.tool_choice and request.tool_choice.mode == "none":
            return Reply((Text("I give up."),), "end")
        return Reply((ToolCall("", "add", {"a": 1, "b": 1}),), "tools")

    wiretap = Wiretap(*[again] * 30)
    agent = make_agent("anthropic", wiretap, tools=[add])
    result = run(outcome(agent, "go", streamed=live))
    assert result.text == "I give up."
    assert len(wiretap.bodies) < 12
    check(agent.conversation)


async def test_what_a_run_added_is_in_its_result() -> None:
    agent = make_agent("anthropic", tools=[add])
    await agent.run("say one")
    messages = (await agent.run('call add {"a": 1, "b": 1}')).messages
    assert [message.role for message in messages] == ["assistant", "tool", "assistant"]


Factory = Callable[[], Any]
ODD: list[tuple[str, Factory]] = [
    ("nothing", lambda: None),
    ("an object", object),
    ("bytes", lambda: b"\xff\x00"),
    ("not a number", lambda: float("nan")),
    ("a set", lambda: {1, 2}),
    ("a lone surrogate", lambda: "\ud800"),
]


@EVERYWHERE
@pytest.mark.parametrize("make", [case[1] for case in ODD], ids=[case[0] for case in ODD])
def test_odd_values_do_not_break_the_loop(provider: str, make: Factory) -> None:
    def odd() -> Any:
        """Gives something odd."""
        return make()

    wiretap = Wiretap()
    agent = make_agent(provider, wiretap, tools=[odd])
    result = run(agent.run("call odd {}"))
    assert result.stop == "end"
    check(agent.conversation)
    check_bodies(agent.view().engine, wiretap)


@pytest.mark.parametrize(
    ("options", "marked"), [({}, True), ({"temperature": 0.5}, True), ({"cache": False}, False)]
)
async def test_options_do_not_turn_the_prompt_cache_off(options: dict[str, Any], marked: bool) -> None:
    body = (await Agent("simulator:anthropic", options=Options(**options)).preview_request()).body
    assert (b"cache_control" in body) == marked
