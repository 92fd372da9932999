"""A conversation through facades: saved, loaded, handed to other models and back, on every wire; every
request is accepted, what a model said goes back to it as it was, and rules speak of base tools whatever the
model calls them."""

import asyncio
import json
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace
from tests.agent_kit import change, setup_of
from tests.handover.harness import (
    WIRE_PROFILES,
    SentRequest,
    collect_events,
    list_refusals,
    list_unpaired,
    make_engine,
    make_transport,
    referee_errors,
)
from tests.handover.test_wire_pairs import bound_items

from toolglot.builtin.tools import coding_tools
from toolglot.common.jsontext import loads_object
from toolglot.facades.view import Facade
from toolglot.loop.agent.agent import Agent
from toolglot.loop.limits import RunLimits
from toolglot.simulator.core import Script
from toolglot.tools.audit import AuditLog
from toolglot.tools.config import ToolConfig
from toolglot.tools.results import ResultStore
from toolglot.tools.tool import Tool, tool
from toolglot.values.approvals import ApprovalRequest
from toolglot.values.events import ToolOutcome
from toolglot.values.messages import BaseCall, Conversation, Message, Reply, Text, Thinking, ToolCall, load
from toolglot.values.request import ToolChoice
from toolglot.wire.codec import decode_request

from .sample_facades import ACME, BRAVO, base_tools

NEUTRAL = Facade(id="ours", title="Ours", views=())
PATCH = "*** Begin Patch\n*** End Patch"


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall("", name, arguments)


def turn(*calls: ToolCall) -> Reply:
    return Reply((Thinking("Well."), Text("Let me see."), *calls), "tools")


def end(words: str) -> Reply:
    return Reply((Thinking("So."), Text(words)))


def script(second: str) -> Script:
    """In capital letters; with commands; in our words; and in capital letters again."""
    spaces = second == "openai-responses"  # elsewhere the model sees one flat name
    run = ToolCall(
        "", "run" if spaces else "term__run", {"argv": ["pwd"]}, namespace="term" if spaces else ""
    )
    return Script([*FIRST, turn(run), *REST])


FIRST = [
    turn(call("Read", file_path="a.txt", offset=2, limit=1), call("Bash", command="ls -l", timeout=2000)),
    turn(call("Read", file_path="nowhere"), call("Read"), call("Nothing", x=1)),
    turn(call("Edit", file_path="a.txt", old_string="one", new_string="1"), call("ast_search", pattern="x")),
    end("Acme is done."),
    turn(call("editor", command="view", path="a.txt", to=1), call("editor", command="undo", path="a.txt")),
    turn(ToolCall("", "apply_patch", None, PATCH, freeform=True)),
]
REST = [
    end("Bravo is done."),
    turn(call("read", path="a.txt"), call("patch", text=PATCH)),
    end("Ours is done."),
    turn(call("Write", file_path="b.txt", content="b"), call("Cat", file_path="b.txt")),
    end("All is done."),
]


class Played(NamedTuple):
    first: str
    second: str
    live: bool
    sent: list[SentRequest]
    conversation: Conversation
    outcomes: list[ToolOutcome]
    ran: list[str]


@cache
def play_through(first: str, second: str, live: bool) -> Played:
    """One conversation: Acme on the first, Bravo and ours on the second, Acme again on the first; saved and
    loaded between.
    """

    async def play() -> Played:
        transport, ran, outcomes = make_transport(script(second)), list[str](), list[ToolOutcome]()
        tools, data = base_tools(ran=ran), b""
        for profile, facade, words in (
            (first, ACME, "Acme"),
            (second, BRAVO, "Bravo"),
            (second, NEUTRAL, "Ours"),
            (first, ACME, "All"),
        ):
            engine = make_engine(profile, transport)
            options: dict[str, Any] = {"tools": tools, "facade": facade, "system": "Be exact."}
            agent = Agent.load(data, engine, **options) if data else Agent(engine, **options)
            transport.watched = agent.conversation
            result = (
                (await collect_events(agent, f"Go on, {words}."))[1]
                if live
                else await agent.run(f"Go on, {words}.")
            )
            assert result.text == f"{words} is done."
            outcomes += result.outcomes
            data = agent.save()
        return Played(first, second, live, transport.sent, load(data)[0], outcomes, ran)

    return asyncio.run(play())


PAIRS = [
    (first, WIRE_PROFILES[(index + step) % 5], step % 2 == 0)
    for index, first in enumerate(WIRE_PROFILES)
    for step in (1, 2)
]


@pytest.fixture(params=PAIRS, ids=lambda pair: f"{pair[0]}-{pair[1]}-{'streamed' if pair[2] else 'whole'}")
def play_result(request: pytest.FixtureRequest) -> Played:
    return play_through(*request.param)


def names(messages: Sequence[Message]) -> list[str]:
    return [call.name for message in messages for call in message.calls]


class TestHandOver:
    def test_nobody_refuses_a_request(self, play_result: Played) -> None:
        assert list_refusals(play_result.sent) == []

    def test_the_referee_accepts_every_request(self, play_result: Played) -> None:
        assert [error for request in play_result.sent for error in referee_errors(request)] == []

    def test_every_call_is_interpreted_correctly(self, play_result: Played) -> None:
        assert [(outcome.call.name, outcome.result.error_kind) for outcome in play_result.outcomes] == [
            *(("read", None), ("shell", None)),
            *(("read", "not_found"), ("read", "validation"), ("Nothing", "not_found")),
            *(("edit", None), ("ast_search", None)),
            *(("read", None), ("editor", "validation")),
            *(("patch", None), ("shell", None)),
            *(("read", None), ("patch", None)),
            *(("write", None), ("read", None)),
        ]
        assert play_result.ran == [
            "read a.txt",
            "ls -l",
            "read a.txt",
            PATCH,
            "pwd",
            "read a.txt",
            PATCH,
            "read b.txt",
        ]

    def test_results_are_rendered_as_in_the_harness(self, play_result: Played) -> None:
        texts = [outcome.result.text for outcome in play_result.outcomes]
        assert texts[:3] == [
            "2\ttwo",
            "$ ls -l: 2\n[ls -l]",
            "<error kind=not_found>there is no nowhere</error>",
        ]
        assert texts[3].startswith("<error kind=validation>The call to Read was not run")
        assert texts[7] == "1"

    def test_calls_and_results_are_paired(self, play_result: Played) -> None:
        assert list_unpaired(play_result.conversation) == []
        for request in play_result.sent:
            calls = [call.id for message in request.history for call in message.calls]
            assert [result.call_id for message in request.history for result in message.results] == calls

    def test_calls_are_shown_under_the_names_of_whoever_is_asked(self, play_result: Played) -> None:
        sent = play_result.sent
        acme = ["Read", "Bash", "Read", "Read", "Nothing", "Edit", "ast_search"]
        assert names(sent[3].history) == acme
        bravo, ours = names(sent[7].history), names(sent[9].history)
        run = "run" if play_result.second == "openai-responses" else "term__run"
        assert bravo == [
            *("editor", run, "editor", "Read", "Nothing", "edit", "ast_search"),
            *("editor", "editor", "apply_patch", run),
        ]
        # What this very model said a moment ago stays as it was said.
        assert ours == [
            *("read", "shell", "read", "Read", "Nothing", "edit", "ast_search"),
            *(*bravo[7:], "read", "patch"),
        ]
        assert names(sent[-1].history) == [
            *acme,
            *("Read", "editor", "patch", "Bash", "Read", "patch", "Write", "Cat"),
        ]

    def test_arguments_have_native_names(self, play_result: Played) -> None:
        sent = play_result.sent
        shown = [call.arguments for message in sent[-1].history for call in message.calls]
        assert shown[0] == {"file_path": "a.txt", "offset": 2, "limit": 1}
        assert shown[7] == {"file_path": "a.txt", "limit": 1}
        assert shown[10] == {"command": "pwd"}

    def test_the_conversation_keeps_native_and_base_calls(self, play_result: Played) -> None:
        calls = [call for message in play_result.conversation for call in message.calls]
        names = [
            "Read",
            "Bash",
            "Read",
            "Read",
            "Nothing",
            "Edit",
            "ast_search",
            "editor",
            "editor",
            "apply_patch",
            "run",
        ]
        assert [call.name for call in calls] == [*names, "read", "patch", "Write", "Cat"]
        meant = [call.base_call.tool if call.base_call else None for call in calls]
        assert meant == [
            *("read", "shell", "read", None, None, "edit", "ast_search"),
            *("read", None, "patch", "shell", "read", "patch", "write", "read"),
        ]

    def test_a_model_gets_back_what_it_wrote_unchanged(self, play_result: Played) -> None:
        if play_result.live:
            pytest.skip("only a whole answer can be compared with what goes back")
        answers: dict[str, list[Any]] = {}
        for request in play_result.sent:
            wire, profile = request.profile.wire, request.profile.id
            held = bound_items(wire, request.body, answer=False)
            assert [item for item in answers.get(profile, []) if item not in held] == []
            answers.setdefault(profile, []).extend(
                bound_items(wire, loads_object(bytes(request.answer)), answer=True)
            )
        assert answers[play_result.first]

    def test_within_a_facade_every_body_starts_with_the_one_before(self, play_result: Played) -> None:
        bodies = [request.request.body for request in play_result.sent]
        for begin, stop in ((0, 4), (4, 8), (8, 10), (10, 12)):
            for before, after in pairwise(bodies[begin:stop]):
                assert after.startswith(before[: -len("]}")])

    def test_returning_to_a_model_continues_with_the_same_bytes(self, play_result: Played) -> None:
        sent = play_result.sent
        assert sent[10].request.body.startswith(sent[3].request.body[: -len("]}")])


# ---- the facades that there are, one after another

WAY = (
    *(
        "anthropic/claude-sonnet-4-5",
        "gemini/gemini-3-pro-preview",
        "openai-responses/gpt-5.5",
        "ollama/qwen3",
    ),
    *("openai-chat/gpt-4o", "openai-responses/gpt-5.1", "anthropic/claude-opus-5", "gemini/gemini-2.5-pro"),
    *(
        "openai-chat/gpt-5",
        "ollama/gpt-oss:20b",
        "openrouter/moonshotai/kimi-k3",
        "xai/grok-4",
        "anthropic/claude-sonnet-4-5",
    ),
)


def calls(number: int) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("read", {"path": "a.txt"}),
        ("edit", {"path": "a.txt", "old": f"turn {number}.", "new": f"turn {number + 1}."}),
        ("glob", {"pattern": "*.txt"}),
        ("grep", {"pattern": "turn"}),
        ("todo", {"items": [{"text": "Look.", "status": "pending"}]}),
        ("write", {"path": f"b{number}.txt", "content": "b"}),
    ]


def native(agent: Agent, number: int) -> list[ToolCall]:
    """The calls as the present model makes them."""
    facade = agent.view().model_view.facade
    assert facade is not None
    ours = tuple(
        ToolCall("", name, arguments, base_call=BaseCall(name, arguments))
        for name, arguments in calls(number)
    )
    calls_made = facade.render_message(Message("assistant", ours), is_own=False).calls
    # some lack one
    return [replace(call, base_call=None) for call in calls_made if call.name in facade.visible_names]


def test_one_conversation_goes_through_all_facades(tmp_path: Path) -> None:
    count = 0

    async def play() -> tuple[list[SentRequest], list[ToolOutcome], Agent]:
        nonlocal count
        outcomes, replies = list[ToolOutcome](), list[Reply]()
        transport, tools = make_transport(Script(replies)), coding_tools(tmp_path)
        agent = Agent(make_engine("xai", transport), tools=tools, approve=lambda request: True)
        for number, leg in enumerate(WAY):
            profile, _, model = leg.partition("/")
            agent.switch(make_engine(profile, transport, model=model))
            # a model with patches only may not have edited it
            (tmp_path / "a.txt").write_text(f"This is turn {number}.\n")
            read, *others = native(agent, number)  # a file is read before it is changed
            replies += [turn(read), turn(*others), end("Done.")]
            result = await agent.run("Go on.")
            outcomes += result.outcomes
            count += 1 + len(others)
            # some write patches, which `edit` does not become
            (tmp_path / "a.txt").write_text(f"This is turn {number + 1}.\n")
        return transport.sent, outcomes, agent

    sent, outcomes, agent = asyncio.run(play())
    assert list_refusals(sent) == []
    assert len(outcomes) == count > 2 * len(WAY)
    wrong = [
        (outcome.call.name, outcome.call.arguments, outcome.result.text)
        for outcome in outcomes
        if outcome.result.is_error
    ]
    assert wrong == []
    assert list_unpaired(agent.conversation) == []
    assert [error for request in sent for error in referee_errors(request)] == []
    strange: set[str] = set()
    # a model sees tools that it has, but for edits where it has patches, and plans where it has none
    for exchange in sent:
        asked = decode_request(exchange.profile.wire, exchange.body, profile=exchange.profile.id)
        strange = {*names(asked.messages)} - {tool.name for tool in asked.tools}
        assert strange <= {"edit", "todo"}, exchange.profile.model
    assert strange <= {"todo"}


# ---- one agent


def agent_on(
    provider: str, script: list[Reply] | None = None, **options: Any
) -> tuple[Agent, list[SentRequest]]:
    transport = make_transport(Script(script) if script is not None else None)
    defaults: dict[str, Any] = {"tools": base_tools(), "facade": ACME, **options}
    return Agent(make_engine(provider, transport), **defaults), transport.sent


def run_on_claude(prompt: str, **options: Any) -> list[ToolOutcome]:
    """The outcomes of the calls that a prompt asks for; nobody refuses a request."""
    agent, sent = agent_on("anthropic", **options)
    outcomes = asyncio.run(agent.run(prompt)).outcomes
    assert list_refusals(sent) == []
    return list(outcomes)


@pytest.mark.parametrize("provider", WIRE_PROFILES)
def test_the_tools_field_has_native_names_and_the_tools_of_others(provider: str) -> None:
    @tool
    def get_weather(city: str) -> str:
        """Weather."""
        return city

    agent, sent = agent_on(provider, tools=[*base_tools(), get_weather])
    asyncio.run(agent.run("say hello"))
    text = json.dumps(sent[0].body["tools"])
    assert all(f'"{name}"' in text for name in ("Read", "Write", "Edit", "Bash", "ast_search", "get_weather"))
    assert not any(f'"name": "{name}"' in text for name in ("read", "write", "edit", "shell", "patch"))


def test_switching_in_one_agent_renames_the_history_and_nothing_else() -> None:
    transport = make_transport()
    agent = Agent(make_engine("anthropic", transport), tools=base_tools(), facade=ACME)

    async def play() -> None:
        await agent.run('call Read {"file_path": "a.txt"}')
        before = list(agent.conversation)
        change(agent, facade=BRAVO)
        agent.switch(make_engine("gemini", transport))
        await agent.run('call editor {"command": "view", "path": "a.txt"}')
        assert list(agent.conversation)[: len(before)] == before

    asyncio.run(play())
    assert list_refusals(transport.sent) == []
    assert names(transport.sent[-1].history) == ["editor", "editor"]


def test_a_body_that_is_looked_at_is_the_one_that_is_sent() -> None:
    async def play() -> tuple[bytes, bytes]:
        agent, sent = agent_on("anthropic")
        await agent.run('call Bash {"command": "ls"}')
        change(agent, facade=BRAVO)
        agent.conversation.append(Message("user", (Text("say hello"),)))
        looked = await agent.preview_request()
        await agent.run("say hello")
        return looked.body, sent[-1].request.body

    looked, sent = asyncio.run(play())
    assert json.loads(looked)["tools"] == json.loads(sent)["tools"]
    assert json.loads(looked)["messages"][1] == json.loads(sent)["messages"][1]


# ---- interrupted, refused, waiting


def hanging(started: asyncio.Event) -> list[Tool]:
    @tool(effects="execute", tags={"builtin"}, quiet=True)
    async def shell(command: str, timeout: float = 10) -> str:
        """Never comes back."""
        started.set()
        await asyncio.Event().wait()
        return command

    return [*(tool for tool in base_tools() if tool.name != "shell"), shell]


@pytest.mark.parametrize("provider", WIRE_PROFILES)
def test_the_next_model_sees_a_cancelled_call(provider: str) -> None:
    other = WIRE_PROFILES[(WIRE_PROFILES.index(provider) + 1) % 5]

    async def play() -> tuple[Agent, list[SentRequest]]:
        started, transport = asyncio.Event(), make_transport()
        agent = Agent(make_engine(provider, transport), tools=hanging(started), facade=ACME)
        run = asyncio.create_task(
            agent.run('call Read {"file_path": "a.txt"} call Bash {"command": "sleep"}')
        )
        await started.wait()
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        change(agent, facade=BRAVO)
        agent.switch(make_engine(other, transport))
        await agent.run("say I go on.")
        return agent, transport.sent

    agent, sent = asyncio.run(play())
    assert list_refusals(sent) == []
    assert list_unpaired(agent.conversation) == []
    kinds = [result.error_kind for message in agent.conversation for result in message.results]
    assert kinds == [None, "interrupted"]
    assert names(sent[-1].history) == ["editor", "run" if other == "openai-responses" else "term__run"]


ASK = ToolConfig(ask=frozenset({"execute"}))


def refuse(_: ApprovalRequest) -> bool:
    return False


def test_a_refused_call_is_explained_in_native_terms() -> None:
    (outcome,) = run_on_claude('call Bash {"command": "rm"}', config=ASK, approve=refuse)
    assert (outcome.call.name, outcome.result.name, outcome.result.error_kind) == (
        "shell",
        "Bash",
        "rejected",
    )
    assert outcome.result.text == "Exit: The user did not approve the call. It did not run."


def test_a_call_that_waits_runs_in_another_process_on_another_model() -> None:
    async def play() -> list[ToolOutcome]:
        agent, _ = agent_on("anthropic", config=ASK)
        paused = await agent.run('call Bash {"command": "ls -l", "timeout": 3000}')
        assert [request.tool for request in paused.requests] == ["shell"]
        transport, ran = make_transport(), list[str]()
        other = Agent.load(
            agent.save(), make_engine("gemini", transport), tools=base_tools(ran=ran), facade=BRAVO
        )
        result = await other.resume({paused.requests[0].id: "yes"})
        assert ran == ["ls -l"]
        assert list_refusals(transport.sent) == []
        return list(result.outcomes)

    (outcome,) = asyncio.run(play())
    assert (outcome.call.name, outcome.result.text, outcome.result.is_error) == ("shell", "$ ls -l: 3", False)


# ---- rules speak of base tools


class TestRules:
    def test_only_views_of_allowed_tools_are_shown_and_run(self) -> None:
        agent, sent = agent_on("anthropic", config=ToolConfig(allow=frozenset({"read"})))
        result = asyncio.run(agent.run('call Read {"file_path": "a.txt"} call! Bash {"command": "ls"}'))
        assert [tool["name"] for tool in sent[0].body["tools"]] == ["Read"]
        assert [outcome.result.is_error for outcome in result.outcomes] == [False, True]

    def test_a_view_with_commands_runs_only_what_is_allowed(self) -> None:
        prompt = (
            'call editor {"command": "view", "path": "a.txt"} call editor {"command": "add", "path": '
            '"a.txt", "text": "x"}'
        )
        outcomes = run_on_claude(prompt, facade=BRAVO, config=ToolConfig(allow=frozenset({"read"})))
        assert [(outcome.call.name, outcome.result.error_kind) for outcome in outcomes] == [
            ("read", None),
            ("write", "not_allowed"),
        ]

    def test_uses_are_counted_by_base_name(self) -> None:
        outcomes = run_on_claude(
            'call Bash {"command": "a"} call Bash {"command": "b"}', config=ToolConfig(max_uses={"shell": 1})
        )
        assert [outcome.result.error_kind for outcome in outcomes] == [None, "limit"]
        assert outcomes[1].result.text.startswith("Exit: The call did not run")

    def test_an_approval_is_about_the_base_tool(self) -> None:
        asked: list[ApprovalRequest] = []

        def approve(approval: ApprovalRequest) -> str:
            asked.append(approval)
            return "always"

        prompt = 'call Bash {"command": "a", "timeout": 1000} call Bash {"command": "b"}'
        outcomes = run_on_claude(prompt, config=ASK, approve=approve)
        assert [outcome.result.is_error for outcome in outcomes] == [False, False]
        assert [(request.tool, request.arguments) for request in asked] == [
            ("shell", {"command": "a", "timeout": 1.0})
        ]

    def test_the_audit_log_and_the_metrics_have_base_names(self, tmp_path: Path) -> None:
        agent, _ = agent_on("anthropic", audit=AuditLog(tmp_path / "audit.jsonl"))
        asyncio.run(
            agent.run(
                'call Read {"file_path": "a.txt"} call Read {"file_path": "b"} call Bash {"command": "ls"}'
            )
        )
        lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
        assert sorted((line["tool"], line["outcome"]) for line in lines) == [
            ("read", "not_found"),
            ("read", "ok"),
            ("shell", "ok"),
        ]
        assert {*setup_of(agent).config.metrics.snapshot()} == {"read", "shell"}

    def test_a_call_that_is_not_valid_counts_for_its_base_tool_too(self) -> None:
        agent, _ = agent_on("anthropic")
        asyncio.run(agent.run("call Bash {}"))
        assert {*setup_of(agent).config.metrics.snapshot()} == {"shell"}

    def test_a_call_that_is_never_valid_does_not_go_on_for_ever(self) -> None:
        script = [turn(call("Bash")) for _ in range(12)]
        agent, sent = agent_on("anthropic", [*script, end("Enough.")], limits=RunLimits(max_iterations=12))
        outcomes = asyncio.run(agent.run("Go.")).outcomes
        assert "limit" in [outcome.result.error_kind for outcome in outcomes]
        assert len(sent) < 12

    def test_an_unknown_tool_is_answered_with_native_names(self) -> None:
        (outcome,) = run_on_claude('call! Bsh {"command": "ls"}')
        assert outcome.result.error_kind == "not_found"
        assert "'Bash'" in outcome.result.text

    def test_a_forced_choice_is_of_the_tool_as_the_model_sees_it(self) -> None:
        agent, sent = agent_on("anthropic", config=ToolConfig(tool_choice=ToolChoice("required", ("read",))))
        asyncio.run(agent.run('call Read {"file_path": "a.txt"}'))
        assert list_refusals(sent) == []
        assert sent[0].body["tool_choice"]["name"] == "Read"


def test_what_a_call_of_another_model_loses_is_a_loss_of_the_run() -> None:
    async def play() -> list[str]:
        agent, _ = agent_on("anthropic")
        assert (await agent.run('call Bash {"command": "ls", "timeout": 1000}')).losses == ()
        change(agent, facade=BRAVO)
        agent.switch(make_engine("anthropic", make_transport(), model="claude-opus-4-1"))
        return [loss.subject for loss in (await agent.run("say hello")).losses]

    assert "parameter 'timeout'" in asyncio.run(play())


# ---- early starts, long results


def test_a_native_call_that_is_started_early_runs_once() -> None:
    async def play() -> tuple[list[str], list[ToolOutcome]]:
        ran = list[str]()
        agent, sent = agent_on("anthropic", tools=base_tools(ran=ran), config=ToolConfig(eager_start=True))
        prompt = 'call Read {"file_path": "a.txt"} call Bash {"command": "ls"} call Bash {"command": "pwd"}'
        _, result = await collect_events(agent, prompt)
        assert list_refusals(sent) == []
        return ran, list(result.outcomes)

    ran, outcomes = asyncio.run(play())
    assert sorted(ran) == ["ls", "pwd", "read a.txt"]
    assert [outcome.result.text for outcome in outcomes][:2] == ["1\tone\n2\ttwo\n3\tthree", "$ ls: 10\n[ls]"]


def test_a_long_result_is_paged_as_the_model_has_seen_it() -> None:
    files = {"long.txt": "\n".join(f"line {number}" for number in range(1, 200))}
    handle = ResultStore().put("\n".join(f"{number}\tline {number}" for number in range(1, 200)))
    prompt = (
        f'call Read {{"file_path": "long.txt"}}\nthen call read_result {{"handle": "{handle}", '
        f'"offset": 0, "limit": 40}}'
    )
    outcomes = run_on_claude(prompt, tools=base_tools(files), config=ToolConfig(max_result=300))
    first, page = (outcome.result.text for outcome in outcomes)
    assert first.startswith("1\tline 1\n2\tline 2\n")
    assert f'read_result(handle="{handle}"' in first
    assert page.startswith("1\tline 1\n2\tline 2\n3\tline 3\n4\t")


def test_a_user_may_have_a_tool_of_a_native_name() -> None:
    @tool
    def Read(file_path: str) -> str:
        """Somebody's own."""
        return f"mine: {file_path}"

    (outcome,) = run_on_claude('call Read {"file_path": "a.txt"}', tools=[*base_tools(), Read])
    assert outcome.result.text == "mine: a.txt"
    assert replace(outcome.call, id="").base_call is None
