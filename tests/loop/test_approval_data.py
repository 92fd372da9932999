"""Approvals as data: what was shown is what runs, decisions say more than yes and no, and nothing loaded
carries one.
"""

import asyncio
import json
import logging
import os
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace
from tests.builtin.file_kit import snapshot

from toolglot.builtin.tools import builtins
from toolglot.common.jsontext import loads
from toolglot.errors import MalformedData, UsageError
from toolglot.facades.catalog import list_facades
from toolglot.loop.agent.agent import Agent
from toolglot.loop.saved_runs import sign
from toolglot.tools.audit import AuditLog
from toolglot.tools.config import ToolConfig
from toolglot.tools.context import Context
from toolglot.tools.rules import Subject
from toolglot.tools.tool import Tool, tool
from toolglot.values.approvals import Allow, ApprovalRequest, Decision, Deny
from toolglot.values.events import RunDone, RunResult
from toolglot.values.messages import BaseCall, Conversation, Message, Reply, ToolCall

from .agents import Wiretap, check, collect_events, hook, kinds_of, make_agent, outcome, results_of, run

LIVE = pytest.mark.parametrize("live", [False, True], ids=["whole", "streamed"])
WRITES = ToolConfig(ask={"write", "execute"})


class Vault:
    """Tools on a few named values, which somebody else may change as well."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.ran: list[str] = []

    @property
    def tools(self) -> list[Tool]:
        def put(key: str, value: str) -> str:
            """Puts a value."""
            self.ran.append(f"put {key}={value}")
            self.values[key] = value
            return f"put {value}"

        def get(key: str) -> str:
            """Gets a value."""
            self.ran.append(f"get {key}")
            return self.values.get(key, "nothing")

        def show(arguments: dict[str, Any]) -> str:
            return f"{self.values.get(arguments['key'], 'nothing')} -> {arguments['value']}"

        return [
            Tool(
                put,
                effects=("write", "network"),
                ordered=True,
                inline=True,
                target=_key,
                preview=show,
                tags={"a", "b", "c"},
            ),
            Tool(get, effects="read", inline=True),
        ]


def _key(arguments: dict[str, Any]) -> str:
    return f"vault/{arguments['key']}"


def requests_of(waiting: Agent, conversation: Conversation | None = None) -> list[ApprovalRequest]:
    """What is asked about the calls that wait."""
    return [suspended.request for suspended in waiting.list_pending_sync(conversation)]


PUT = 'call put {"key": "a", "value": "1"}'


def pause(prompt: str = PUT, vault: Vault | None = None, **options: Any) -> tuple[Agent, Vault, RunResult]:
    vault = vault or Vault()
    agent = make_agent("anthropic", tools=vault.tools, config=WRITES, **options)
    return agent, vault, run(agent.run(prompt))


def reload(data: bytes | str, vault: Vault, **options: Any) -> Agent:
    everything: dict[str, Any] = {"tools": vault.tools, "config": WRITES, **options}
    return Agent.load(data, "simulator:anthropic", **everything)


async def resume(agent: Agent, decisions: dict[str, Any], *, live: bool) -> RunResult:
    if not live:
        return await agent.resume(decisions)
    last = (await collect_events(agent.resume_stream(decisions)))[-1]
    assert isinstance(last, RunDone)
    return last.result


def calling(*calls: ToolCall) -> Callable[[Any], Reply]:
    return lambda _: Reply(calls, "tools")


class Asked:
    """An approver that keeps what it was shown, and looks at the world at that moment."""

    def __init__(self, *answers: Decision, look: Callable[[], Any] = tuple) -> None:
        self.requests: list[ApprovalRequest] = []
        self.seen: list[Any] = []
        self._answers, self._look = list(answers), look

    def __call__(self, request: ApprovalRequest) -> Decision:
        self.requests.append(request)
        self.seen.append(self._look())
        return self._answers.pop(0) if self._answers else True


# ---- a call is asked about when its turn comes

TURNS: dict[str, tuple[list[ToolCall], str]] = {
    "write after read": (
        [
            ToolCall("1", "read", {"path": "app.cfg"}),
            ToolCall("2", "write", {"path": "app.cfg", "content": "EVIL\n"}),
        ],
        "-KEEP=1\n+EVIL",
    ),
    "edit after write": (
        [
            ToolCall("1", "write", {"path": "n.py", "content": "a = 1\n"}),
            ToolCall("2", "edit", {"path": "n.py", "old": "a", "new": "evil"}),
        ],
        "-a = 1\n+evil = 1",
    ),
    "edit after a command": (
        [
            ToolCall("1", "read", {"path": "app.cfg"}),
            ToolCall("2", "shell", {"command": "ln -s app.cfg other.cfg; echo more > new.txt"}),
            ToolCall("3", "read", {"path": "new.txt"}),
            ToolCall("4", "insert", {"path": "new.txt", "after_line": 1, "text": "EVIL"}),
        ],
        " more\n+EVIL",
    ),
}


@LIVE
@pytest.mark.untraced
@pytest.mark.parametrize(("calls", "diff"), TURNS.values(), ids=list(TURNS))
def test_what_a_call_would_do_is_shown_after_the_calls_before_it(
    tmp_path: Path, calls: list[ToolCall], diff: str, live: bool
) -> None:
    """S3: with a preview made too early, the user was shown "this will fail", and none of the text that was
    then written.
    """
    (tmp_path / "app.cfg").write_text("KEEP=1\n")
    asked = Asked(look=lambda: snapshot(tmp_path))
    builtin = builtins(tmp_path, state_dir=tmp_path.parent / "state")
    try:
        wiretap = Wiretap(calling(*calls), "say done")
        agent = make_agent(
            "anthropic", wiretap, tools=builtin.tools, config=WRITES, approve=asked, facade="neutral"
        )
        run(outcome(agent, "go", streamed=live))
    finally:
        builtin.close()
    assert kinds_of(agent.conversation) == [None] * len(calls)
    last = asked.requests[-1]
    assert (last.id, last.preview_error) == (calls[-1].id, "")
    assert diff in last.preview
    assert all(request.preview_error == "" for request in asked.requests)


@pytest.mark.untraced
def test_a_path_rule_sees_the_links_that_earlier_calls_of_the_turn_made(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "file").write_text("keep\n")
    calls = [
        ToolCall("1", "shell", {"command": "ln -s ../secret src/x"}),
        ToolCall("2", "read", {"path": "src/x/file"}),
        ToolCall("3", "write", {"path": "src/x/file", "content": "evil\n"}),
    ]
    asked, builtin = Asked(False), builtins(tmp_path, state_dir=tmp_path.parent / "state")
    config = ToolConfig(approve=["shell(ln *)", "write(src/**)"])
    try:
        wiretap = Wiretap(calling(*calls), "say done")
        agent = make_agent(
            "anthropic", wiretap, tools=builtin.tools, config=config, approve=asked, facade="neutral"
        )
        run(agent.run("go"))
    finally:
        builtin.close()
    assert kinds_of(agent.conversation) == [None, None, "rejected"]
    assert [request.target for request in asked.requests] == [str(tmp_path / "secret" / "file")]
    assert (tmp_path / "secret" / "file").read_text() == "keep\n"


def test_plain_calls_have_finished_before_a_question() -> None:
    vault = Vault()
    asked = Asked(look=lambda: [*vault.ran])
    prompt = f'call get {{"key": "x"}} {PUT} call get {{"key": "y"}} call put {{"key": "a", "value": "2"}}'
    run(make_agent("anthropic", tools=vault.tools, config=WRITES, approve=asked).run(prompt))
    assert [request.preview for request in asked.requests] == ["nothing -> 1", "1 -> 2"]
    assert asked.seen == [["get x"], ["get x", "put a=1", "get y"]]


async def test_calls_without_a_preview_are_asked_about_one_after_the_other_and_run_together() -> None:
    inside, running = asyncio.Barrier(2), list[int]()

    async def send(n: int) -> str:
        """Sends."""
        running.append(n)
        await inside.wait()
        return "sent"

    asked = Asked(look=lambda: [*running])
    agent = make_agent("anthropic", tools=[Tool(send, approval=True)], approve=asked)
    await agent.run('call send {"n": 1} call send {"n": 2}')
    assert (asked.seen, sorted(running)) == ([[], []], [1, 2])


def test_what_was_shown_runs_before_the_next_question_takes_its_time() -> None:
    vault = Vault()
    put = vault.tools[0].replace(ordered=False)

    @tool(approval=True, inline=True)
    def pay() -> str:
        """Pays."""
        return "paid"

    asked = Asked(look=lambda: [*vault.ran])
    run(make_agent("anthropic", tools=[put, pay], config=WRITES, approve=asked).run(f"{PUT} call pay {{}}"))
    assert asked.seen == [[], ["put a=1"]]


# ---- what was shown is what runs


def test_what_changes_while_somebody_thinks_is_asked_about_again() -> None:
    vault = Vault()

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        if len(asked) == 1:
            vault.values["a"] = "changed meanwhile"
        return len(asked) < 3

    asked: list[ApprovalRequest] = []
    run(make_agent("anthropic", tools=vault.tools, config=WRITES, approve=approve).run(PUT))
    assert [request.preview for request in asked] == ["nothing -> 1", "changed meanwhile -> 1"]
    assert len({request.fingerprint for request in asked}) == 2
    assert "has changed since it was approved" in asked[1].reason
    assert vault.ran == ["put a=1"]


def test_what_never_stays_the_same_does_not_run() -> None:
    vault = Vault()

    def approve(request: ApprovalRequest) -> bool:
        vault.values["a"] = f"{len(vault.values)}{request.preview}"
        asked.append(request)
        return True

    asked: list[ApprovalRequest] = []
    agent = make_agent("anthropic", tools=vault.tools, config=WRITES, approve=approve)
    run(agent.run(PUT))
    assert (len(asked), vault.ran, kinds_of(agent.conversation)) == (4, [], ["rejected"])
    assert "changed each time" in results_of(agent.conversation)[0].text


@LIVE
@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "loaded"])
def test_a_paused_call_that_would_do_something_else_by_now_waits_again(live: bool, elsewhere: bool) -> None:
    agent, vault, first = pause()
    if elsewhere:
        agent = reload(agent.save(), vault)
    vault.values["a"] = "changed meanwhile"
    again = run(resume(agent, {first.requests[0].id: True}, live=live))
    assert (again.stop, vault.ran) == ("approval", [])
    assert [request.preview for request in again.requests] == ["changed meanwhile -> 1"]
    assert "has changed since it was approved" in again.requests[0].reason
    assert run(resume(agent, {again.requests[0].id: True}, live=live)).stop == "end"
    assert vault.ran == ["put a=1"]
    check(agent.conversation)


def test_calls_that_are_decided_on_together_are_shown_again_where_one_changes_the_other() -> None:
    agent, vault, first = pause(
        f'{PUT} call put {{"key": "b", "value": "2"}} call put {{"key": "a", "value": "3"}}'
    )
    assert [request.preview for request in first.requests] == ["nothing -> 1", "nothing -> 2", "nothing -> 3"]
    again = run(agent.resume({request.fingerprint: True for request in first.requests}))
    assert [request.preview for request in again.requests] == ["1 -> 3"]
    assert vault.ran == ["put a=1", "put b=2"]
    assert run(agent.resume({again.requests[0].fingerprint: True})).stop == "end"
    assert vault.ran[2:] == ["put a=3"]


def test_a_preview_that_fails_leaves_the_arguments_to_be_shown(tmp_path: Path) -> None:
    asked = Asked(False)
    builtin = builtins(tmp_path, state_dir=tmp_path.parent / "state")
    agent = make_agent("anthropic", tools=builtin.tools, config=WRITES, approve=asked, facade="neutral")
    run(agent.run('call edit {"path": "none.txt", "old": "a", "new": "b"}'))
    builtin.close()
    [request] = asked.requests
    assert (request.preview, request.arguments) == ("", {"path": "none.txt", "old": "a", "new": "b"})
    assert "none.txt" in request.preview_error


Change = Callable[[Vault], dict[str, Any]]
CHANGES: dict[str, Change] = {
    "another version": lambda vault: {"tools": [vault.tools[0].replace(version="2"), vault.tools[1]]},
    "another schema": lambda vault: {
        "tools": [vault.tools[0].replace(description="Now it is another."), vault.tools[1]]
    },
    "other effects": lambda vault: {
        "tools": [vault.tools[0].replace(effects=("write", "execute")), vault.tools[1]]
    },
    "another policy": lambda vault: {"config": ToolConfig(ask={"write"})},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_a_decision_counts_for_the_tool_and_the_policy_of_its_time(
    change: Change, caplog: pytest.LogCaptureFixture
) -> None:
    agent, vault, first = pause()
    other = reload(agent.save(), vault, **change(vault))
    for key in (first.requests[0].id, first.requests[0].fingerprint):
        assert run(other.resume({key: True})).stop == "approval"
        other = reload(agent.save(), vault, **change(vault))
    assert vault.ran == []
    assert run(other.resume({run(other.list_pending())[0].fingerprint: True})).stop == "end"
    assert vault.ran == ["put a=1"]


# ---- what waits can be listed


def test_what_waits_is_listed_with_all_that_matters() -> None:
    agent, vault, first = pause()
    [request] = first.requests
    assert (request.tool, request.target, request.preview) == ("put", "vault/a", "nothing -> 1")
    assert (request.effects, request.reason) == (
        {"write", "network"},
        "it can change files, and no rule allows it",
    )
    assert (request.arguments, request.id) == ({"key": "a", "value": "1"}, request.call.id)
    assert len(request.fingerprint) == 64
    assert run(agent.list_pending()) == first.pending
    other = reload(agent.save(), vault)
    assert other.list_pending_sync() == first.pending
    assert vault.ran == []
    vault.values["a"] = "0"
    assert requests_of(other)[0].preview == "0 -> 1"
    assert run(other.resume({request.id: True})).stop == "end", "the id means what was listed last"
    assert run(other.list_pending()) == ()


def test_nothing_is_listed_where_nothing_waits() -> None:
    agent = make_agent("anthropic")
    assert run(agent.list_pending()) == ()
    assert agent.list_pending_sync(Conversation()) == ()


def test_what_waits_for_a_tool_that_is_gone_is_listed_and_can_be_refused() -> None:
    agent, vault, _ = pause()
    other = reload(agent.save(), vault, tools=vault.tools[1:])
    [request] = requests_of(other)
    assert (request.tool, request.arguments, request.effects) == (
        "put",
        {"key": "a", "value": "1"},
        frozenset(),
    )
    assert "no such tool" in request.preview_error
    with pytest.raises(UsageError, match="waiting to call put"):
        run(other.resume({request.fingerprint: True}))
    assert run(other.resume({request.fingerprint: Deny("it is gone")})).stop == "end"
    assert kinds_of(other.conversation) == ["rejected"]


# ---- decisions

ANSWERS: list[tuple[Any, bool, bool]] = [
    (True, True, False), ("yes", True, False), (Allow(), True, False),
    ("always", True, True), (Allow(always=True), True, True),
    (False, False, False), ("no", False, False), (Deny(), False, False), (Deny("why"), False, False),
]  # fmt: skip


@LIVE
@pytest.mark.parametrize("way", ["approve", "resume"])
@pytest.mark.parametrize(("answer", "runs", "always"), ANSWERS, ids=str)
def test_a_decision_has_many_forms(answer: Any, runs: bool, always: bool, way: str, live: bool) -> None:
    asked = Asked(answer)
    agent, vault, result = pause(approve=asked) if way == "approve" else pause()
    if way == "resume":
        result = run(resume(agent, {result.requests[0].id: answer}, live=live))
    assert (result.stop, vault.ran) == ("end", ["put a=1"] if runs else [])
    assert [outcome.ran for outcome in result.outcomes] == [runs]
    again = run(agent.run('call put {"key": "b", "value": "2"}'))
    if way == "approve":
        assert len(asked.requests) == (1 if always else 2)
    else:
        assert again.stop == ("end" if always else "approval")


def test_later_keeps_a_call_waiting() -> None:
    agent, vault, first = pause()
    again = run(agent.resume({first.requests[0].id: "later"}))
    assert (again.stop, again.requests, vault.ran) == ("approval", first.requests, [])


@pytest.mark.parametrize(
    "wrong", [1, None, "maybe", replace(Allow(), arguments="x"), replace(Deny(), reason=3)]
)
def test_what_is_no_decision_is_an_error(wrong: Any) -> None:
    agent, vault, first = pause()
    with pytest.raises(UsageError, match="not a decision on a call"):
        run(agent.resume({first.requests[0].id: wrong}))
    assert agent.has_pending_run
    assert vault.ran == []


def test_the_model_reads_why_it_was_refused_under_every_facade(tmp_path: Path) -> None:
    builtin = builtins(tmp_path, state_dir=tmp_path.parent / "state")
    deny, command = Deny("use the staging server"), {"command": "touch ran"}
    base = Message("assistant", (ToolCall("1", "shell", command, base_call=BaseCall("shell", command)),))
    for facade in list_facades():
        for approve in (Asked(deny), None):
            losses: dict[Any, None] = {}
            [call] = (
                make_agent("anthropic", tools=builtin.tools, facade=facade.id)
                .view()
                .model_view.render_message(base, losses)
                .calls
            )
            wiretap = Wiretap(calling(replace(call, base_call=None)), "say done")
            agent = make_agent(
                "anthropic", wiretap, tools=builtin.tools, facade=facade.id, approve=approve, config=WRITES
            )
            result = run(agent.run("go"))
            if approve is None:
                assert result.requests[0].tool == "shell"
                result = run(agent.resume({result.requests[0].id: deny}))
            [refusal] = results_of(agent.conversation)
            assert (refusal.error_kind, refusal.name) == ("rejected", call.name), facade.id
            assert "use the staging server" in refusal.text, facade.id
    builtin.close()
    assert not [*tmp_path.iterdir()]


@LIVE
@pytest.mark.parametrize("way", ["approve", "resume"])
def test_an_approver_may_change_the_arguments_and_the_model_is_told(way: str, live: bool) -> None:
    lines: list[bytes] = []
    change = Allow({"key": "b", "value": 2})
    options: dict[str, Any] = {"audit": AuditLog(lines.append)}
    agent, vault, result = pause(approve=Asked(change), **options) if way == "approve" else pause(**options)
    if way == "resume":
        result = run(resume(agent, {result.requests[0].id: change}, live=live))
    assert vault.ran == ["put b=2"]
    [changed] = result.outcomes
    assert changed.call.arguments == {"key": "b", "value": 2}
    assert any("changed" in repair.reason for repair in changed.repairs)
    text = results_of(agent.conversation)[0].text
    assert text.startswith('[The user changed the arguments of this call to {"key":"b","value":"2"}]')
    assert "put 2" in text
    assert agent.conversation[1].calls[0].arguments == {"key": "a", "value": "1"}, (
        "the model's own words stay"
    )
    line = loads(lines[-1])
    assert (line["target"], line["approved"], line["decided_by"]) == ("vault/b", True, "user")
    check(agent.conversation)


def test_arguments_that_were_replaced_never_run_even_if_nobody_has_to_be_asked_by_now() -> None:
    agent, vault, first = pause()
    other = reload(agent.save(), vault, config=ToolConfig(ask=()))
    change = Allow({"key": "b", "value": "2"})
    again = run(other.resume({first.requests[0].id: change}))
    assert (again.stop, vault.ran) == ("approval", [])
    assert run(other.resume({again.requests[0].id: change})).stop == "end"
    assert vault.ran == ["put b=2"]


def test_the_audit_names_what_a_hook_made_of_a_call_that_was_denied() -> None:
    lines: list[bytes] = []
    vault = Vault()
    elsewhere = hook(before_tool=lambda call: replace(call, arguments={"key": "z", "value": "1"}))
    asked, audit = Asked(False), AuditLog(lines.append)
    run(
        make_agent(
            "anthropic", tools=vault.tools, config=WRITES, approve=asked, hooks=[elsewhere], audit=audit
        ).run(PUT)
    )
    assert (asked.requests[0].target, loads(lines[-1])["target"], vault.ran) == ("vault/z", "vault/z", [])


def test_changed_arguments_have_to_fit() -> None:
    agent, vault, first = pause()
    with pytest.raises(UsageError, match=r"Allow\(arguments=…\) does not fit the tool 'put'.*value"):
        run(agent.resume({first.requests[0].id: Allow({"key": "b"})}))
    assert (agent.has_pending_run, vault.ran) == (True, [])
    with pytest.raises(UsageError, match="does not fit the tool 'put'"):
        pause(approve=Asked(Allow({"key": "b"})))


@pytest.mark.parametrize("way", ["approve", "resume"])
def test_a_rule_that_denies_also_denies_what_an_approver_changed(way: str) -> None:
    vault, lines = Vault(), list[bytes]()
    put = vault.tools[0].replace(
        scope=lambda arguments: [Subject("path", f"/vault/{arguments['key']}", "/vault")]
    )
    config = ToolConfig(ask={"write"}, deny=["put(secret/**)"])
    change = Allow({"key": "secret/b", "value": "2"})
    approve = Asked(change) if way == "approve" else None
    agent = make_agent("anthropic", tools=[put], config=config, approve=approve, audit=AuditLog(lines.append))
    result = run(agent.run(PUT))
    if way == "resume":
        result = run(agent.resume({result.requests[0].id: change}))
    assert (vault.ran, kinds_of(agent.conversation)) == ([], ["not_allowed"])
    line = loads(lines[-1])
    assert (line["decided_by"], line["target"], line["ran"]) == ("rule", "vault/a", False)
    assert "secret" in line["reason"]


def test_always_does_not_cover_a_call_that_needs_an_answer_of_its_own() -> None:
    ran: list[bool] = []

    @tool(
        effects="execute",
        always_ask=lambda arguments: "it leaves the sandbox" if arguments["outside"] else "",
    )
    def act(outside: bool, context: Context) -> str:
        """Acts."""
        ran.append(context.approved)
        return "done"

    asked = Asked("always", "always", "always")
    agent = make_agent("anthropic", tools=[act], config=WRITES, approve=asked)
    for outside in ("false", "false", "true", "true", "false"):
        run(agent.run(f'call act {{"outside": {outside}}}'))
    assert [(request.each_time, request.reason) for request in asked.requests] == [
        (False, "it can run commands, and no rule allows it"),
        (True, "it leaves the sandbox"), (True, "it leaves the sandbox"),
    ]  # fmt: skip
    assert ran == [True, False, True, True, False], "a tool can see whether somebody approved this very call"


@pytest.mark.parametrize("way", ["approve", "refuse", "again", "resume", "resume, ask again"])
def test_a_changed_call_that_leaves_the_sandbox_is_a_question_of_its_own(way: str) -> None:
    ran: list[bool] = []

    @tool(
        effects="execute",
        always_ask=lambda arguments: "it leaves the sandbox" if arguments["outside"] else "",
    )
    def act(outside: bool) -> str:
        """Acts."""
        ran.append(outside)
        return "done"

    change = Allow({"outside": True}, ask_again=way == "resume, ask again")
    tell = 'call act {"outside": false}'
    if way.startswith("resume"):
        agent = make_agent("anthropic", tools=[act], config=WRITES)
        first = run(agent.run(tell))
        run(agent.resume({first.requests[0].id: change}))
        assert (ran, kinds_of(agent.conversation)) == ([], ["rejected"])
        return
    asked = Asked(change, change if way == "again" else way == "approve")
    run(make_agent("anthropic", tools=[act], config=WRITES, approve=asked).run(tell))
    assert [(request.each_time, request.arguments["outside"]) for request in asked.requests] == [
        (False, False),
        (True, True),
    ]
    assert ran == ([] if way == "refuse" else [True])


def test_an_approver_can_ask_to_see_what_changed_arguments_would_do() -> None:
    change = Allow({"key": "b", "value": "2"}, ask_again=True)
    asked = Asked(change, True)
    _, vault, result = pause(approve=asked)
    assert [request.target for request in asked.requests] == ["vault/a", "vault/b"]
    assert (vault.ran, result.outcomes[0].result.text[:10]) == (["put b=2"], "[The user ")
    _, vault, _ = pause(approve=Asked(change, False))
    assert vault.ran == []


# ---- nothing loaded carries a decision


def edit_header(data: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    header, _, remainder = data.partition(b"\n")
    fields = json.loads(header)
    change(fields)
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n" + remainder


def to_format_1(header: dict[str, Any]) -> None:
    """Write a saved run as it was before calls that wait had a form of their own."""
    suspended = header["run"].pop("suspended")
    del header["run"]["format"]
    header["run"]["waiting"] = [int(index) for index in suspended]
    header["run"]["shown"] = {
        index: record["waiting"][0]["fingerprint"] for index, record in suspended.items()
    }
    if holding := [int(index) for index, record in suspended.items() if record.get("blocks_later")]:
        header["run"]["holding"] = holding


def to_format_2(header: dict[str, Any]) -> None:
    """Write a saved run as it was when each call waited for one thing."""
    suspended = header["run"]["suspended"]
    for record in suspended.values():
        waiting = record.pop("waiting")[0]
        record.update(waiting, id=waiting.pop("path")[0])
    header["run"]["format"] = 2


EVIL: dict[str, Callable[[dict[str, Any]], object]] = {
    "decisions of an older version": lambda header: header["run"].update(
        suspended={}, decisions={"0": "yes"}
    ),
    "rulings": lambda header: header["run"].update(
        suspended={}, rulings={"0": {"fingerprint": "", "answer": {}}}
    ),
    "nothing waits": lambda header: header["run"].update(suspended={}),
    "nothing was shown": lambda header: header["run"].update(suspended={"0": {}}),
    "a file of format 1 that nobody signed": to_format_1,
    "a file of format 2 that nobody signed": to_format_2,
    "no mac": lambda header: header.pop("mac"),
    "an empty mac": lambda header: header.update(mac=""),
    "another mac": lambda header: header.update(mac="0" * 64),
    "a mac that is no text": lambda header: header.update(mac=1),
}


@pytest.mark.parametrize("change", EVIL.values(), ids=list(EVIL))
def test_a_changed_file_runs_nothing_unasked(change: Callable[[dict[str, Any]], object]) -> None:
    """S6: not even what needs no approval otherwise, as nobody knows whose call it is."""
    agent, vault, first = pause(f'{PUT} call get {{"key": "a"}}')
    data = edit_header(agent.save(), change)
    other = reload(data, vault)
    assert run(other.resume()).stop == "approval"
    assert [request.tool for request in requests_of(other)] == ["put", "get"]
    assert requests_of(other)[1].reason == "the saved run was changed, or was saved with another approval key"
    with pytest.raises(UsageError, match=r"the id .* is not enough.*approval key.*fingerprint.*list_pending"):
        run(other.resume({first.requests[0].id: True}))
    assert vault.ran == []
    asked = Asked(False, False)
    other = reload(data, vault, approve=asked)
    assert run(other.resume()).stop == "end"
    assert [(request.tool, request.each_time) for request in asked.requests] == [
        ("put", False),
        ("get", True),
    ]
    assert vault.ran == []


@pytest.mark.parametrize(
    ("change", "mark"),
    [
        (to_format_1, b'"waiting":[0],"shown":{"0":'),
        (to_format_2, b'"suspended":{"0":{"blocks_later":true,"fingerprint":"'),
    ],
)
def test_a_run_that_was_saved_in_an_earlier_format_continues(
    change: Callable[[dict[str, Any]], object], mark: bytes
) -> None:
    agent, vault, first = pause(f'{PUT} call get {{"key": "a"}}')
    data = edit_header(agent.save(), lambda header: (change(header), header.pop("mac")))
    assert mark in data
    other = reload(sign(data), vault)
    assert [suspended.fingerprint for suspended in other.list_pending_sync()] == [
        first.requests[0].fingerprint
    ]
    assert run(other.resume({first.requests[0].id: True})).stop == "end"
    assert sorted(vault.ran) == ["get a", "put a=1"]


WRONG_RUNS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "of a later version": (
        lambda header: header["run"].update(format=4),
        "line 1: the saved run has format 4, which this version cannot read: update toolglot",
    ),
    "no object": (
        lambda header: header.update(run=[]),
        "line 1: the saved state has an unexpected shape: .*object.*",
    ),
    "a format that is none": (
        lambda header: header["run"].update(format=[]),
        "line 1: the saved run has format .*",
    ),
    "format 1 of another shape": (
        lambda header: header["run"].update(format=1, waiting="all"),
        "line 1: the saved state has an unexpected shape: .*waiting.*",
    ),
    "a kind that there is not": (
        lambda header: header["run"]["suspended"]["0"]["waiting"][0].update(kind="magic"),
        "line 1: the saved state has an unexpected shape: .*magic.*",
    ),
}


@pytest.mark.parametrize(("change", "message"), WRONG_RUNS.values(), ids=list(WRONG_RUNS))
def test_a_saved_run_of_another_form_is_refused(
    change: Callable[[dict[str, Any]], object], message: str
) -> None:
    agent, vault, _ = pause('call put {"key": "a.txt", "value": "1"}')
    with pytest.raises(MalformedData, match=message):
        reload(edit_header(agent.save(), change), vault)


def test_a_call_that_was_changed_in_the_file_does_not_run() -> None:
    """Row 25: the approved id ran whatever the file said."""
    agent, vault, first = pause('call put {"key": "a.txt", "value": "1"}')
    data = agent.save()
    evil = data.replace(b"a.txt", b"/etc/passwd")
    other = reload(evil, vault)
    with pytest.raises(UsageError, match="is not enough"):
        run(other.resume({first.requests[0].id: True}))
    result = run(other.resume({first.requests[0].fingerprint: True}))
    assert (result.stop, [request.arguments["key"] for request in result.requests], vault.ran) == (
        "approval",
        ["/etc/passwd"],
        [],
    )
    good = reload(data, vault)
    assert run(good.resume({first.requests[0].fingerprint: True})).stop == "end"
    assert vault.ran == ["put a.txt=1"]


JUNK: list[Any] = [
    None,
    True,
    0,
    1,
    -1,
    "",
    "yes",
    "put",
    "get",
    "b",
    [],
    {},
    [0],
    {"0": "yes"},
    {"key": "b", "value": "9"},
]


def mutate(value: Any, rng: random.Random) -> None:
    """Remove or replace something in a JSON value, at any depth."""
    node: Any = value
    while True:
        keys = [*cast(Any, node)] if isinstance(node, dict) else [*range(len(node))]
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(node[key], dict | list) and rng.random() < 0.8:
            node = cast(Any, node[key])
        elif rng.random() < 0.3:
            del node[key]
            return
        else:
            node[key] = deepcopy(rng.choice(JUNK))
            return


def test_whatever_is_changed_in_a_file_only_what_was_shown_can_run() -> None:
    """Random changes of the run in the header; then yes to the id, to the fingerprint, or to both."""
    agent, vault, first = pause(f'{PUT} call get {{"key": "a"}}')
    data, rng, refused = agent.save(), random.Random(14), 0
    [request] = first.requests
    logging.disable(logging.WARNING)
    for _ in range(400):
        header, _, messages = data.partition(b"\n")
        fields = json.loads(header)
        for _ in range(rng.randint(1, 4)):
            mutate(fields["run"], rng)
        vault.ran.clear()
        key = rng.choice([request.id, request.fingerprint, ""])
        try:
            other = reload(json.dumps(fields, separators=(",", ":")).encode() + b"\n" + messages, vault)
            run(other.resume({key: True} if key else {}))
        except (MalformedData, UsageError):
            refused += 1
        assert vault.ran in ([], ["put a=1"] if key == request.fingerprint else []), fields
    logging.disable(logging.NOTSET)
    assert 0 < refused < 400


def test_a_changed_run_is_not_made_good_by_saving_it_again() -> None:
    agent, vault, first = pause()
    other = reload(agent.save().replace(b'"a"', b'"b"'), vault)
    again = reload(other.save(), vault)
    with pytest.raises(UsageError, match="is not enough"):
        run(again.resume({first.requests[0].id: True}))


def test_a_fingerprint_of_now_counts_in_a_run_that_is_doubted() -> None:
    agent, vault, _ = pause(f'{PUT} call get {{"key": "a"}}')
    other = reload(edit_header(agent.save(), lambda header: header.pop("mac")), vault)
    put, get = other.list_pending_sync()
    result = run(other.resume({put.fingerprint: True, get.fingerprint: True}))
    assert (result.stop, vault.ran) == ("end", ["put a=1", "get a"])
    assert run(other.run('call get {"key": "b"}')).stop == "end", "later turns are not doubted"
    check(other.conversation)


def test_an_unknown_fingerprint_is_an_error() -> None:
    agent, vault, first = pause()
    with pytest.raises(
        UsageError, match=f"no call {'0' * 64} is waiting.*list_pending.*{first.requests[0].id}"
    ):
        run(agent.resume({"0" * 64: True}))
    assert vault.ran == []


# ---- the key


def test_machines_can_share_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLGLOT_APPROVAL_KEY", "one")
    agent, vault, first = pause()
    data = agent.save()
    assert run(reload(data.decode(), vault).resume({first.requests[0].id: True})).stop == "end"
    monkeypatch.setenv("TOOLGLOT_APPROVAL_KEY", "two")
    with pytest.raises(UsageError, match="is not enough"):
        run(reload(data, vault).resume({first.requests[0].id: True}))


def test_the_key_is_its_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLGLOT_STATE", str(tmp_path / "state"))
    agent, vault, first = pause()
    data = agent.save()
    key = tmp_path / "state" / "approval.key"
    if os.name == "posix":
        assert (key.stat().st_mode & 0o777, key.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert agent.save() == data, "the key stays"
    assert key.read_bytes() not in data
    key.write_bytes(b"")
    with pytest.raises(UsageError, match="is not enough"):
        run(reload(data, vault).resume({first.requests[0].id: True}))


@pytest.mark.parametrize("damaged", [b"", b"short", None])
def test_a_damaged_key_is_replaced_and_links_are_not_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: bytes | None
) -> None:
    def fail(*_: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setenv("TOOLGLOT_STATE", str(tmp_path))
    if damaged is None:
        monkeypatch.setattr(os, "link", fail)
    else:
        (tmp_path / "approval.key").write_bytes(damaged)
    agent, vault, first = pause()
    data = agent.save()
    assert agent.save() == data, "the key stays"
    assert run(reload(data, vault).resume({first.requests[0].id: True})).stop == "end"
    assert [path.name for path in tmp_path.iterdir()] == ["approval.key"]


def test_agents_that_save_for_the_first_time_together_have_one_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLGLOT_STATE", str(tmp_path / "state"))
    agents = [pause() for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        files = [*pool.map(Agent.save, [agent for agent, _, _ in agents])]
    for (_, vault, first), data in zip(agents, files, strict=True):
        assert run(reload(data, vault).resume({first.requests[0].id: True})).stop == "end"
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["approval.key"]


def test_without_a_place_for_the_key_only_fingerprints_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TOOLGLOT_STATE", str(tmp_path / "file" / "state"))
    agent, vault, first = pause()
    data = agent.save()
    assert b'"mac"' not in data
    assert "saved unsigned, as no key can be stored" in caplog.text
    with pytest.raises(UsageError, match=r"is not enough.*TOOLGLOT_APPROVAL_KEY"):
        run(reload(data, vault).resume({first.requests[0].id: True}))
    assert run(reload(data, vault).resume({first.requests[0].fingerprint: True})).stop == "end"
    assert vault.ran == ["put a=1"]


def test_a_conversation_without_a_paused_run_needs_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLGLOT_STATE", str(tmp_path / "state"))
    agent = make_agent("anthropic")
    run(agent.run("say hi"))
    assert b'"mac"' not in agent.save()
    assert not (tmp_path / "state").exists()


# ---- other conversations


def test_the_paused_run_of_any_conversation_can_be_saved() -> None:
    vault, first, second = Vault(), Conversation(), Conversation()
    agent = make_agent("anthropic", tools=vault.tools, config=WRITES)
    run(agent.run("say mine"))
    for key, conversation in (("a", first), ("b", second)):
        run(agent.run(f'call put {{"key": "{key}", "value": "1"}}', conversation=conversation))
    assert [request.target for request in requests_of(agent, second)] == ["vault/b"]
    assert (agent.list_pending_sync(), agent.has_pending_run) == ((), False)
    other = reload(agent.save(second), vault)
    assert [request.target for request in requests_of(other)] == ["vault/b"]
    assert run(other.resume({other.list_pending_sync()[0].id: True})).stop == "end"
    assert run(agent.resume({agent.list_pending_sync(first)[0].id: True}, conversation=first)).stop == "end"
    assert vault.ran == ["put b=1", "put a=1"]
    assert reload(agent.save(), vault).conversation == agent.conversation
