"""Hooks around calls: in order, sync or async, with a word of their own."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from toolglot.common.jsontext import loads
from toolglot.tools.audit import AuditLog
from toolglot.tools.config import ToolConfig
from toolglot.tools.executor import ToolExecutor
from toolglot.tools.hooks import HookChain, Hooks, Veto, apply_hooks
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import Tool, tool
from toolglot.values.approvals import ApprovalRequest
from toolglot.values.events import ToolOutcome
from toolglot.values.messages import Reply, Text, ToolCall, ToolResult, user
from toolglot.values.request import Request

CALL = ToolCall("c1", "add", {"a": 1, "b": 2})


@tool(inline=True)
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def run(*hooks: Hooks, tool: Tool = add, call: ToolCall = CALL, **options: Any) -> ToolOutcome:
    return asyncio.run(ToolExecutor(ToolRegistry([tool]), hooks=hooks, **options).run(call))


class Log(Hooks):
    """Writes down what it sees."""

    def __init__(self, name: str, seen: list[str]) -> None:
        self.name, self.seen = name, seen

    def before_tool(self, call: ToolCall) -> None:
        self.seen.append(f"{self.name} before")

    def after_tool(self, outcome: ToolOutcome) -> None:
        self.seen.append(f"{self.name} after")


class AsyncLog(Hooks):
    """The same, after a while."""

    def __init__(self, name: str, seen: list[str]) -> None:
        self.name, self.seen = name, seen

    async def before_tool(self, call: ToolCall) -> None:
        await asyncio.sleep(0)
        self.seen.append(f"{self.name} before")

    async def after_tool(self, outcome: ToolOutcome) -> None:
        await asyncio.sleep(0)
        self.seen.append(f"{self.name} after")


class Change(Hooks):
    """Changes the arguments of a call."""

    def __init__(self, change: Callable[[ToolCall], ToolCall]) -> None:
        self.change = change

    def before_tool(self, call: ToolCall) -> ToolCall:
        return self.change(call)


class Redact(Hooks):
    """Hides a word in results."""

    async def after_tool(self, outcome: ToolOutcome) -> ToolOutcome:
        await asyncio.sleep(0)
        text = outcome.result.text.replace("secret", "•••")
        return replace(outcome, result=replace(outcome.result, content=(Text(text),), data=None))


def test_hooks_are_called_in_their_order_sync_or_async() -> None:
    seen: list[str] = []
    outcome = run(Log("1", seen), AsyncLog("2", seen), Log("3", seen))
    assert seen == ["1 before", "2 before", "3 before", "1 after", "2 after", "3 after"]
    assert outcome.result.text == "3"


def test_without_hooks_nothing_is_watched() -> None:
    class Idle(Hooks):
        """Overrides nothing."""

    assert not HookChain([Idle()]).before_tool
    assert HookChain([Idle(), Log("1", [])]).before_tool
    assert run(Idle()).result.text == "3"


def test_a_veto_stops_the_call_and_is_reported() -> None:
    seen: list[str] = []
    ran: list[int] = []

    class No(Hooks):
        def before_tool(self, call: ToolCall) -> Veto:
            return Veto("it is night.")

    def work() -> None:
        ran.append(1)

    outcome = run(
        Log("1", seen), No(), Log("3", seen), tool=tool(inline=True)(work), call=ToolCall("c", "work", {})
    )
    assert (outcome.result.error_kind, outcome.ran, ran) == ("rejected", False, [])
    assert outcome.result.text == "The call did not run: it is night."
    assert outcome.result.call_id == "c"
    assert seen == ["1 before"], "what comes after a veto is not asked, and nothing ran that could be over"


def test_an_async_veto() -> None:
    class No(Hooks):
        async def before_tool(self, call: ToolCall) -> Veto:
            await asyncio.sleep(0)
            return Veto("no")

    assert run(No()).result.error_kind == "rejected"


def test_changes_go_from_hook_to_hook_and_to_the_tool() -> None:
    def more(call: ToolCall) -> ToolCall:
        assert call.arguments is not None
        return replace(call, arguments={"a": call.arguments["a"] * 10, "b": 5})

    outcome = run(Change(more), Change(more))
    assert outcome.result.text == "105"
    assert outcome.call.arguments == {"a": 100, "b": 5}


@pytest.mark.parametrize("arguments", [{"a": "one", "b": 2}, {"a": 1}, {"a": [1], "b": 2}])
def test_changed_arguments_are_checked_again(arguments: dict[str, Any]) -> None:
    outcome = run(Change(lambda call: replace(call, arguments=arguments)))
    assert (outcome.result.error_kind, outcome.ran) == ("validation", False)


def test_changed_arguments_are_repaired_like_those_of_a_model() -> None:
    assert run(Change(lambda call: replace(call, arguments={"a": "1", "b": "41"}))).result.text == "42"


def test_a_changed_name_is_another_tool() -> None:
    assert run(Change(lambda call: replace(call, name="nobody"))).result.error_kind == "not_found"


def test_the_approver_sees_the_call_as_it_will_run() -> None:
    asked: list[ApprovalRequest] = []

    def ask(question: ApprovalRequest) -> bool:
        asked.append(question)
        return True

    change = Change(lambda call: replace(call, arguments={"a": 7, "b": 7}))
    outcome = run(change, tool=add.replace(approval=True), approve=ask)
    assert outcome.result.text == "14"
    assert [question.call.arguments for question in asked] == [{"a": 7, "b": 7}]


def test_what_is_hidden_reaches_nobody() -> None:
    lines: list[bytes] = []

    def tell() -> str:
        return "the secret is 42"

    outcome = run(
        Redact(), tool=tool(inline=True)(tell), call=ToolCall("c", "tell", {}), audit=AuditLog(lines.append)
    )
    assert outcome.result.text == "the ••• is 42"
    assert b"secret" not in b"".join(lines)


async def test_what_is_hidden_does_not_come_back_page_by_page() -> None:
    """What was cut off a long result is read through the same hooks, or was hidden before it was kept."""

    def tell() -> str:
        return "x" * 500 + "secret" + "y" * 500

    runner = ToolExecutor(
        ToolRegistry([tool(inline=True)(tell)]), ToolConfig(max_result=100), hooks=[Redact()]
    )
    handle = (
        (await runner.run(ToolCall("c", "tell", {}))).result.text.partition('handle="')[2].partition('"')[0]
    )
    page = (await runner.run(ToolCall("d", "read_result", {"handle": handle, "offset": 480}))).result.text
    assert "•••" in page
    assert "secret" not in page


async def test_what_a_hook_removes_from_a_result_cannot_be_read_with_its_rest() -> None:
    @tool
    def tell() -> str:
        """Tells."""
        return "x" * 500 + "secret" + "x" * 500

    class Redact(Hooks):
        def after_tool(self, outcome: ToolOutcome) -> ToolOutcome:
            text = outcome.result.text.replace("secret", "•••")
            return replace(outcome, result=replace(outcome.result, content=(Text(text),)))

    runner = ToolExecutor(ToolRegistry([tell]), hooks=[Redact()], config=ToolConfig(max_result=300))
    shown = (await runner.run(ToolCall("c", "tell", {}))).result.text
    assert len(shown) < 500, "what a hook returns is limited as well"
    assert runner.host.store.texts == ["x" * 500 + "•••" + "x" * 500]


def test_an_outcome_that_a_hook_turned_into_an_error_is_one_everywhere() -> None:
    lines: list[bytes] = []

    class Refuse(Hooks):
        def after_tool(self, outcome: ToolOutcome) -> ToolOutcome:
            bad = ToolResult(
                outcome.call.id, (Text("withheld"),), outcome.call.name, is_error=True, error_kind="rejected"
            )
            return replace(outcome, result=bad)

    runner = ToolExecutor(ToolRegistry([add]), hooks=[Refuse()], audit=AuditLog(lines.append))
    outcome = asyncio.run(runner.run(CALL))
    assert (outcome.result.text, outcome.result.error_kind) == ("withheld", "rejected")
    assert [loads(line)["outcome"] for line in lines] == ["rejected"]
    assert runner.metrics.snapshot()["add"].errors == {"rejected": 1}


class BrokenBefore(Hooks):
    """Fails before a call."""

    def before_tool(self, call: ToolCall) -> None:
        raise LookupError("the hook is broken")


class BrokenAfter(Hooks):
    """Fails after a call."""

    async def after_tool(self, outcome: ToolOutcome) -> None:
        raise LookupError("the hook is broken")


@pytest.mark.parametrize("hook", [BrokenBefore(), BrokenAfter()])
def test_an_error_in_a_hook_is_raised_as_it_is(hook: Hooks) -> None:
    """It is a mistake of the program, and not of the tool: the model cannot help."""
    with pytest.raises(LookupError, match="the hook is broken"):
        run(hook)


def test_a_call_that_ran_is_in_the_audit_log_though_a_hook_failed() -> None:
    lines: list[bytes] = []
    with pytest.raises(LookupError):
        run(BrokenAfter(), audit=AuditLog(lines.append))
    assert [loads(line)["ran"] for line in lines] == [True]


def test_a_call_before_which_a_hook_failed_did_not_run() -> None:
    ran: list[int] = []

    def work() -> None:
        ran.append(1)

    with pytest.raises(LookupError):
        run(BrokenBefore(), tool=tool(inline=True)(work), call=ToolCall("c", "work", {}))
    assert ran == []


async def test_requests_and_replies_go_through_hooks_too() -> None:
    class Both(Hooks):
        def before_request(self, request: Request) -> Request:
            return replace(request, model=request.model + "+")

        async def after_reply(self, reply: Reply) -> Reply | None:
            return replace(reply, id=reply.id + "!") if reply.id else None

    chain = HookChain([Both(), Hooks(), Both()])
    request = await apply_hooks(chain.before_request, Request("m", [user("hi")]))
    reply, same = [await apply_hooks(chain.after_reply, reply) for reply in (Reply((), id="r"), Reply(()))]
    assert (request.model, reply.id, same.id) == ("m++", "r!!", "")
    assert not chain.before_tool


def test_hooks_may_be_any_iterable_and_a_chain_is_taken_as_it_is() -> None:
    seen: list[str] = []
    assert run(*(Log(str(n), seen) for n in range(2))).result.text == "3"
    asyncio.run(ToolExecutor(ToolRegistry([add]), hooks=HookChain(iter([Log("x", seen)]))).run(CALL))
    assert seen[-2:] == ["x before", "x after"]
