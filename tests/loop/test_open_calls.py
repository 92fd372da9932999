"""Calls whose answers come from elsewhere: each call gets one result, whoever answers it, when and where."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.loop.agents import PROVIDERS, Wiretap, check, check_bodies, kinds_of, make_agent, results_of, run

from toolglot.errors import ConnectionLost, MalformedData, UsageError
from toolglot.loop.agent.agent import Agent
from toolglot.loop.saved_runs import sign
from toolglot.tools.config import ToolConfig
from toolglot.tools.context import Context, Later
from toolglot.tools.executor import ToolExecutor
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import Tool, tool_from_definition
from toolglot.values.approvals import Allow, Answer, ApprovalRequest, Suspended
from toolglot.values.definitions import ToolDefinition
from toolglot.values.events import AnswerNeeded, ApprovalNeeded, RunDone, RunResult
from toolglot.values.messages import Media, Message, Text, ToolCall, ToolResult
from toolglot.values.request import ToolDefinition as RequestToolDefinition

COLOR = {
    "type": "object",
    "properties": {"color": {"type": "string"}},
    "required": ["color"],
    "additionalProperties": False,
}
PICK = ToolDefinition(
    "pick",
    "Let the person pick a color.",
    {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]},
    output_schema=COLOR,
)
LOCATE = ToolDefinition("locate", "Where is the browser?", {"type": "object", "properties": {}})
RED = Answer({"color": "red"})
PICKING = 'call pick {"title": "c"}'


class Desk:
    """Tools of the server beside those of a browser."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    @property
    def tools(self) -> list[Any]:
        def read(name: str) -> str:
            """Read a file."""
            self.ran.append(f"read {name}")
            return f"text of {name}"

        def send(text: str) -> str:
            """Send a mail."""
            self.ran.append(f"send {text}")
            return "sent"

        return [Tool(read, inline=True, effects="read"), Tool(send, approval=True, inline=True), PICK, LOCATE]


def continue_elsewhere(
    agent: Agent, provider: str, tools: list[Any], *, has_other_tools: bool = False, **options: Any
) -> tuple[Agent, Wiretap]:
    """The same conversation in another process."""
    wiretap = Wiretap()
    saved = agent.save()
    other = Agent.load(saved, f"simulator:{provider}", transport=wiretap, tools=tools, **options)
    before, after = (json.loads(data.partition(b"\n")[0])["run"] for data in (saved, other.save()))
    assert before.pop("tools") == after.pop("tools") or has_other_tools
    assert before == after
    return other, wiretap


def pending_ids(agent: Agent) -> dict[str, str]:
    """The ids of what waits, by the name of the tool."""
    return {item.request.tool: item.id for item in run(agent.list_pending())}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_call_of_a_tool_without_a_function_waits(provider: str) -> None:
    agent = make_agent(provider, tools=[PICK])
    events = list(agent.stream_sync(PICKING))
    last = events[-1]
    assert isinstance(last, RunDone)
    result: RunResult[Any] = last.result
    [waiting] = result.pending
    assert (result.stop, result.is_paused, waiting.kind, waiting.needs) == (
        "waiting",
        True,
        "external",
        "answer",
    )
    assert (waiting.request.arguments, waiting.schema) == ({"title": "c"}, COLOR)
    assert [event.calls for event in events if isinstance(event, AnswerNeeded)] == [(waiting,)]
    assert not any(isinstance(event, ApprovalNeeded) for event in events)
    done = run(agent.resume({waiting.id: RED}))
    assert (done.stop, done.results[0].data) == ("end", {"color": "red"})
    check(agent.conversation)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_three_kinds_of_calls_in_one_turn(provider: str) -> None:
    """Case 1: one runs, two wait for different things; the model is asked once, after the last."""
    desk, wiretap = Desk(), Wiretap()
    agent = make_agent(provider, wiretap, tools=desk.tools)
    prompt = f'{PICKING}\ncall read {{"name": "a"}}\ncall send {{"text": "hi"}}'
    first = run(agent.run(prompt))
    assert (first.stop, desk.ran) == ("approval", ["read a"])
    assert [(item.request.tool, item.needs) for item in first.pending] == [
        ("pick", "answer"),
        ("send", "decision"),
    ]
    check_bodies(agent.view().engine, wiretap)
    ids = pending_ids(agent)
    agent, wiretap = continue_elsewhere(agent, provider, desk.tools)
    second = run(agent.resume({ids["send"]: True}))
    assert (second.stop, desk.ran, len(wiretap.requests)) == ("waiting", ["read a", "send hi"], 0)
    agent, wiretap = continue_elsewhere(agent, provider, desk.tools)
    third = run(agent.resume({ids["pick"]: RED}))
    assert (third.stop, len(wiretap.requests)) == ("end", 1)
    check_bodies(agent.view().engine, wiretap)
    check(agent.conversation)
    assert [result.name for result in results_of(agent.conversation)] == ["pick", "read", "send"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_answers_come_in_reverse_order_over_three_processes(provider: str) -> None:
    """Case 2: results are in the order of the calls, whoever was asked in between."""
    later = list(PROVIDERS[PROVIDERS.index(provider) :] + PROVIDERS)[1:3]
    desk = Desk()
    agent = make_agent(provider, tools=desk.tools)
    first = run(agent.run(f"{PICKING}\ncall locate {{}}\n{PICKING}"))
    ids = [item.id for item in first.pending]
    for other, id, answer in zip(later, ids[:0:-1], (RED, Answer("Paris")), strict=True):
        agent, _ = continue_elsewhere(agent, other, desk.tools)
        assert run(agent.resume({id: answer})).stop == "waiting"
    done = run(agent.resume({ids[0]: Answer({"color": "blue"})}))
    assert (done.stop, [result.text for result in results_of(agent.conversation)]) == (
        "end",
        ['{"color":"blue"}', "Paris", '{"color":"red"}'],
    )
    check(agent.conversation)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_decision_is_no_answer_and_an_answer_no_decision(provider: str) -> None:
    """Case 3: both are refused, and both calls still wait."""
    desk = Desk()
    agent = make_agent(provider, tools=desk.tools)
    run(agent.run(f'{PICKING}\ncall send {{"text": "hi"}}'))
    ids = pending_ids(agent)
    for wrong, words in [
        ({ids["pick"]: True}, "waits for an answer, not for a decision"),
        ({ids["pick"]: Allow({"color": "red"})}, "waits for an answer, not for a decision"),
        ({ids["send"]: Answer("yes")}, "waits for a decision, not for an answer"),
        ({ids["send"]: True, ids["pick"]: False}, "waits for an answer"),
    ]:
        with pytest.raises(UsageError, match=words):
            run(agent.resume(wrong))
        assert (pending_ids(agent), desk.ran) == (ids, [])
    assert run(agent.resume({ids["send"]: True, ids["pick"]: RED})).stop == "end"
    check(agent.conversation)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_answer_counts_once(provider: str) -> None:
    """Case 4."""
    desk = Desk()
    agent = make_agent(provider, tools=desk.tools)
    first = run(agent.run(f"{PICKING}\ncall locate {{}}"))
    id, other = (item.id for item in first.pending)
    with pytest.raises(UsageError, match="decided on twice"):
        run(agent.resume({id: RED, first.pending[0].fingerprint: Answer({"color": "blue"})}))
    run(agent.resume({id: RED}))
    with pytest.raises(UsageError, match=f"no call {id} is waiting"):
        run(agent.resume({id: Answer({"color": "blue"})}))
    assert run(agent.resume({other: Answer("Paris")})).results[0].text == "Paris"
    assert results_of(agent.conversation)[0].data == {"color": "red"}


WRONG_ANSWERS: dict[str, tuple[Any, str]] = {
    "another shape": ({"colour": 1}, "does not fit its schema: .*color"),
    "no object": ("red", "does not fit its schema"),
    "what JSON has not": ({"color": object()}, "must be JSON, text, or content"),
    "a result that claims to be rendered": (
        ToolResult("x", (Text("hi"),), "pick", is_rendered=True),
        "must be JSON, text, or content",
    ),
    "a message": (Message("user", (Text("hi"),)), "must be JSON, text, or content"),
    "content and something else": ([Text("a"), {"b": 1}], "mixes content with dict"),
    "content where the schema asks for data": (
        Media.from_bytes(b"x", "image/png"),
        "is content, but its schema asks for data",
    ),
}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(("value", "words"), WRONG_ANSWERS.values(), ids=list(WRONG_ANSWERS))
def test_an_answer_that_does_not_fit_is_refused_and_the_call_waits_on(
    provider: str, value: Any, words: str
) -> None:
    """Case 5."""
    agent = make_agent(provider, tools=[PICK])
    [waiting] = run(agent.run(PICKING)).pending
    with pytest.raises(UsageError, match=f"the answer to {waiting.id} {words}"):
        run(agent.resume({waiting.id: Answer(value)}))
    assert run(agent.list_pending()) == (waiting,)
    assert run(agent.resume({waiting.id: RED})).stop == "end"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_answer_is_limited_and_cleaned_like_any_result(provider: str) -> None:
    """Case 5: 5 MB, lone surrogates."""
    agent = make_agent(provider, tools=[LOCATE])
    [waiting] = run(agent.run("call locate {}")).pending
    run(agent.resume({waiting.id: Answer("\udc00" + "x" * 5_000_000)}))
    [result] = results_of(agent.conversation)
    assert len(result.text) < 70_000
    assert "\udc00" not in result.text
    check(agent.conversation)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_answer_may_say_that_there_is_none(provider: str) -> None:
    agent = make_agent(provider, tools=[PICK])
    [waiting] = run(agent.run(PICKING)).pending
    run(agent.resume({waiting.id: Answer(error="The tab was closed.")}))
    [result] = results_of(agent.conversation)
    assert (result.is_error, result.text, result.error_code) == (
        True,
        "The tab was closed.",
        "answered_with_error",
    )


def test_an_answer_may_be_an_image() -> None:
    agent = make_agent("anthropic", tools=[LOCATE])
    [waiting] = run(agent.run("call locate {}")).pending
    picture = Media.from_bytes(b"\x89PNG\r\n\x1a\n", "image/png")
    run(agent.resume({waiting.id: Answer([Text("Here:"), picture])}))
    assert results_of(agent.conversation)[0].content == (Text("Here:"), picture)
    check(agent.conversation)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_invalid_arguments_are_answered_at_once(provider: str) -> None:
    """Case 7: the client never sees the call."""
    agent = make_agent(provider, tools=[PICK])
    result = run(agent.run("call pick {}"))
    assert (result.stop, result.pending) == ("end", ())
    assert kinds_of(agent.conversation) == ["validation"]
    check(agent.conversation)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("decision", [True, False])
def test_the_client_sees_a_call_only_after_it_is_approved(provider: str, decision: bool) -> None:
    """Case 8."""
    pick = tool_from_definition(PICK, approval=True)
    agent = make_agent(provider, tools=[pick])
    first = run(agent.run(PICKING))
    assert (first.stop, first.pending[0].kind) == ("approval", "approval")
    agent, _ = continue_elsewhere(agent, provider, [pick])
    second = run(agent.resume({first.pending[0].id: decision}))
    if not decision:
        assert (second.stop, kinds_of(agent.conversation)) == ("end", ["rejected"])
        return
    [waiting] = second.pending
    assert (second.stop, waiting.kind) == ("waiting", "external")
    assert waiting.fingerprint != first.pending[0].fingerprint
    agent, _ = continue_elsewhere(agent, provider, [pick])
    assert run(agent.resume({waiting.id: RED})).results[0].data == {"color": "red"}
    check(agent.conversation)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_client_gets_the_arguments_that_the_approver_gave(provider: str) -> None:
    pick = tool_from_definition(PICK, approval=True)
    agent = make_agent(provider, tools=[pick])
    [asked] = run(agent.run(PICKING)).pending
    [waiting] = run(agent.resume({asked.id: Allow({"title": "other"})})).pending
    agent, _ = continue_elsewhere(agent, provider, [pick])
    assert run(agent.list_pending()) == (waiting,)
    assert waiting.request.arguments == {"title": "other"}
    run(agent.resume({waiting.id: RED}))
    assert "The user changed the arguments" in results_of(agent.conversation)[0].text


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_call_expires(provider: str) -> None:
    """Case 11: also while the run is saved; an answer afterwards is refused."""
    now = 1000.0
    pick = tool_from_definition(PICK, timeout=60)
    agent = make_agent(provider, tools=[pick])
    set_wall_clock(agent, lambda: now)
    [waiting] = run(agent.run(PICKING)).pending
    assert waiting.expires == 1060.0
    agent, _ = continue_elsewhere(agent, provider, [pick])
    set_wall_clock(agent, lambda: now)
    assert run(agent.resume()).stop == "waiting"
    now = 1061.0
    with pytest.raises(UsageError, match=f"the call {waiting.id} has expired"):
        run(agent.resume({waiting.id: RED}))
    assert run(agent.resume()).stop == "end"
    assert kinds_of(agent.conversation) == ["timeout"]
    check(agent.conversation)


def set_wall_clock(agent: Agent, clock: Callable[[], float]) -> None:
    host = agent._state.host  # pyright: ignore[reportPrivateUsage]
    host.options = type(host.options)(wall_clock=clock)


def test_all_calls_of_an_agent_can_expire() -> None:
    agent = make_agent("anthropic", tools=[PICK], config=ToolConfig(answer_timeout=5))
    set_wall_clock(agent, lambda: 100.0)
    assert run(agent.run(PICKING)).pending[0].expires == 105.0


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_tool_that_has_a_function_by_now_is_answered_all_the_same(provider: str) -> None:
    """Case 15: the function is not called."""
    agent = make_agent(provider, tools=[PICK])
    [waiting] = run(agent.run(PICKING)).pending
    ran: list[str] = []

    def pick(title: str) -> str:
        ran.append(title)
        return title

    agent, _ = continue_elsewhere(agent, provider, [Tool(pick)], has_other_tools=True)
    run(agent.resume({waiting.id: RED}))
    assert (ran, results_of(agent.conversation)[0].data) == ([], {"color": "red"})


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_tool_that_is_gone_is_answered_all_the_same(provider: str) -> None:
    agent = make_agent(provider, tools=[PICK])
    [waiting] = run(agent.run(PICKING)).pending
    agent, _ = continue_elsewhere(agent, provider, [], has_other_tools=True)
    run(agent.resume({waiting.id: RED}))
    assert results_of(agent.conversation)[0].data == {"color": "red"}
    check(agent.conversation)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_new_prompt_gives_up_the_calls_that_wait(provider: str) -> None:
    agent = make_agent(provider, tools=[PICK])
    run(agent.run(PICKING))
    assert run(agent.run("Never mind.")).stop == "end"
    assert kinds_of(agent.conversation) == ["cancelled"]
    check(agent.conversation)


# ---- a tool that answers later


class Cluster:
    """A tool that starts a job; its answer comes when the job has ended."""

    def __init__(self) -> None:
        self.started: list[str] = []

    @property
    def tools(self) -> list[Tool]:
        def train(data: str, context: Context) -> Later:
            """Train a model."""
            self.started.append(data)
            return Later(key=f"job-{len(self.started)}", schema={"type": "number"}, expires=3600)

        return [Tool(train, inline=True)]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_job_is_answered_by_its_key_in_another_process(provider: str) -> None:
    cluster = Cluster()
    agent = make_agent(provider, tools=cluster.tools)
    first = run(agent.run('call train {"data": "may"}\ncall train {"data": "june"}'))
    assert [(item.key, item.has_started) for item in first.pending] == [("job-1", True), ("job-2", True)]
    agent, _ = continue_elsewhere(agent, provider, cluster.tools)
    with pytest.raises(UsageError, match="does not fit its schema"):
        run(agent.resume({"job-2": Answer("good")}))
    assert run(agent.resume({"job-2": Answer(0.9)})).stop == "waiting"
    agent, _ = continue_elsewhere(agent, provider, cluster.tools)
    assert run(agent.resume({"job-1": Answer(0.8)})).stop == "end"
    assert [result.data for result in results_of(agent.conversation)] == [0.8, 0.9]
    assert cluster.started == ["may", "june"]
    check(agent.conversation)


def yes(request: ApprovalRequest) -> bool:
    return True


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_approver_does_not_start_a_job_again(provider: str) -> None:
    cluster = Cluster()
    agent = make_agent(provider, tools=cluster.tools, approve=yes)
    run(agent.run('call train {"data": "may"}'))
    assert run(agent.resume()).stop == "waiting"
    agent, _ = continue_elsewhere(agent, provider, cluster.tools, approve=yes)
    assert run(agent.resume()).stop == "waiting"
    assert cluster.started == ["may"]


# ---- what a file says


def edit(data: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    header, _, messages = data.partition(b"\n")
    fields = json.loads(header)
    change(fields)
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n" + messages


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_file_that_was_changed_needs_fingerprints(provider: str) -> None:
    """Case 13: a call that waits for a decision cannot be turned into one that waits for an answer."""
    send = Desk().tools[1]
    agent = make_agent(provider, tools=[send])
    [asked] = run(agent.run('call send {"text": "hi"}')).pending

    def flip(header: dict[str, Any]) -> None:
        record = header["run"]["suspended"]["0"]
        record["waiting"][0]["kind"] = "external"
        record["state"] = {"own": {}, "arguments": {"text": "other"}, "approved": True}

    other = Agent.load(edit(agent.save(), flip), f"simulator:{provider}", tools=[send])
    with pytest.raises(UsageError, match="is not enough to decide"):
        run(other.resume({asked.id: Answer("done")}))
    [shown] = run(other.list_pending())
    assert shown.fingerprint != asked.fingerprint
    with pytest.raises(UsageError, match="waits for an answer"):
        run(other.resume({shown.fingerprint: True}))


@pytest.mark.parametrize("state", [1, [], {"own": {}}, {"own": {}, "arguments": [], "approved": None}])
def test_a_saved_call_of_another_shape_is_refused(state: Any) -> None:
    agent = make_agent("anthropic", tools=[PICK])
    run(agent.run(PICKING))
    data = edit(
        agent.save(), lambda header: (header.pop("mac"), header["run"]["suspended"]["0"].update(state=state))
    )
    other = Agent.load(sign(data), "simulator:anthropic", tools=[PICK])
    with pytest.raises(MalformedData, match="the saved state of a call that waits has an unexpected shape"):
        run(other.list_pending())


def test_a_definition_is_a_tool_wherever_tools_are_taken() -> None:
    agent = make_agent("anthropic")
    agent.add_tools([PICK])
    assert [item.request.tool for item in run(agent.run(PICKING)).pending] == ["pick"]
    assert isinstance(agent.tools.get("pick"), Tool)
    assert agent.tools.get("pick").is_external
    assert agent.tools.get("pick").replace(timeout=3).is_external


def test_a_freeform_call_waits_too() -> None:
    note = RequestToolDefinition("note", "Write down.", kind="freeform")
    agent = make_agent("openai-responses", tools=[note])
    [waiting] = run(agent.run("call note hello")).pending
    assert isinstance(waiting, Suspended)
    assert run(agent.resume({waiting.id: Answer("kept")})).results[0].text == "kept"


async def test_where_nothing_waits_the_model_is_told() -> None:
    """Only the runs of an agent wait: a program that runs calls itself has nowhere to keep them."""
    outcome = await ToolExecutor(ToolRegistry([tool_from_definition(PICK)])).run(
        ToolCall("a", "pick", {"title": "c"})
    )
    assert (outcome.result.error_code, outcome.result.is_error) == ("cannot_wait", True)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_crash_starts_a_job_again_or_loses_an_answer(provider: str) -> None:
    """Case 12: a process ends before the save, before the answer, and before the request that follows it."""
    cluster = Cluster()
    agent = make_agent(provider, tools=cluster.tools)
    before = agent.save()
    [waiting] = run(agent.run('call train {"data": "may"}')).pending
    lost = Agent.load(before, f"simulator:{provider}", tools=cluster.tools)  # the save came too late
    assert (lost.has_pending_run, len(lost.conversation)) == (False, 0)
    saved = agent.save()
    agent = Agent.load(saved, f"simulator:{provider}", tools=cluster.tools)  # before the answer
    assert agent.deliver({"job-1": Answer(0.9)}).state == "queued"
    answered = agent.save()
    unreachable = Wiretap(errors=[ConnectionResetError("gone")] * 9)
    agent = Agent.load(answered, f"simulator:{provider}", transport=unreachable, tools=cluster.tools)
    with pytest.raises(ConnectionLost):
        run(agent.resume())
    check(agent.conversation)
    agent = Agent.load(answered, f"simulator:{provider}", tools=cluster.tools)  # before the request
    assert run(agent.resume()).stop == "end"
    assert ([result.data for result in results_of(agent.conversation)], cluster.started) == ([0.9], ["may"])
    assert waiting.key == "job-1"
