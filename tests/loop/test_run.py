"""The loop as a value, step by step: what each kind of reply and of result leads to."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from toolglot.errors import MalformedData, UsageError
from toolglot.loop.run import AskModel, CallTools, Done, NeedApproval, Run, RunState, with_unique_ids
from toolglot.values.approvals import Allow, Deny, Ruling, SuspensionRecord, WaitingRecord
from toolglot.values.messages import (
    Conversation,
    Reply,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    user,
)
from toolglot.values.request import ToolChoice

from .agents import check, find_unpaired, kinds_of, results_of

HI = user("hi")
YES, NO = {(): Ruling("f", Allow())}, {(): Ruling("f", Deny())}


def shown(fingerprint: str) -> SuspensionRecord:
    return SuspensionRecord((WaitingRecord(fingerprint=fingerprint),))


CALLS = (ToolCall("a", "get", {"x": 1}), ToolCall("b", "put", {"x": 2}))


def new(**options: Any) -> Run:
    return Run(Conversation([HI]), **options)


def reply(*blocks: Any, stop: StopReason = "tools") -> Reply:
    return Reply(blocks, stop)


def ok(call: ToolCall, text: str = "fine") -> ToolResult:
    return ToolResult(call.id, (Text(text),), call.name)


def calls_in(step: Any) -> list[tuple[int, str]]:
    assert isinstance(step, CallTools)
    return [(number, call.id) for number, call in step.calls]


def reload(run: Run, **options: Any) -> Run:
    """The run in another process: everything through JSON."""
    state = msgspec.json.decode(msgspec.json.encode(run.snapshot()), type=RunState)
    messages = msgspec.json.decode(msgspec.json.encode(list(run.conversation)), type=list[type(HI)])
    return Run(Conversation(messages), state=state, **options)


def test_ids_that_repeat_in_a_reply_get_new_ones_that_no_other_call_has() -> None:
    calls = [
        ToolCall(id, "get", {"n": n}, opaque={"id": id})
        for n, id in enumerate(("x", "x", "x_2", "", "", "x"))
    ]
    renamed = with_unique_ids(reply(*calls)).calls
    assert [call.id for call in renamed] == ["x", "x_3", "x_2", "", "_2", "x_4"]
    assert [(call.opaque or {})["id"] for call in renamed] == [call.id for call in renamed]
    assert [call.arguments for call in renamed] == [call.arguments for call in calls]
    unchanged = reply(*CALLS)
    assert with_unique_ids(unchanged) is unchanged


def test_the_first_step_asks() -> None:
    assert new().next() == AskModel(None)


def test_text_ends_the_run() -> None:
    run = new()
    answer = reply(Text("hello"), stop="end")
    run.add_reply(answer)
    assert run.next() == Done("end", answer)
    assert list(run.conversation) == [HI, answer.message]


def test_calls_are_run_and_answered_in_call_order() -> None:
    run = new()
    run.add_reply(reply(*CALLS))
    assert calls_in(run.next()) == [(0, "a"), (1, "b")]
    run.mark_started(0)
    run.mark_started(1)
    run.add_result(1, ok(CALLS[1], "second"))
    assert calls_in(run.next()) == [(0, "a")]
    assert len(run.conversation) == 2, "nothing is appended before all results are there"
    run.add_result(0, ok(CALLS[0], "first"))
    assert run.next() == AskModel(None)
    assert [result.text for result in results_of(run.conversation)] == ["first", "second"]
    check(run.conversation)


def test_the_first_result_counts() -> None:
    run = new()
    run.add_reply(reply(CALLS[0]))
    run.add_result(0, ok(CALLS[0], "first"))
    run.add_result(0, ok(CALLS[0], "late"))
    run.next()
    assert [result.text for result in results_of(run.conversation)] == ["first"]


def test_a_result_under_another_id_and_name_is_put_right() -> None:
    run = new()
    run.add_reply(reply(CALLS[0]))
    run.add_result(0, ToolResult("other", (Text("x"),), "renamed"))
    run.next()
    check(run.conversation)


def test_calls_count_although_the_stop_says_end() -> None:
    run = new()
    run.add_reply(reply(CALLS[0], stop="end"))
    assert calls_in(run.next()) == [(0, "a")]


def test_a_stop_for_tools_without_calls_is_the_end() -> None:
    run = new()
    run.add_reply(reply(Text("x"), stop="tools"))
    assert isinstance(run.next(), Done)


def test_an_empty_reply_leaves_no_message() -> None:
    run = new()
    run.add_reply(reply(stop="end"))
    assert run.next() == Done("end", reply(stop="end"))
    assert list(run.conversation) == [HI]


# ---- the length limit

BROKEN = ToolCall("b", "put", None, '{"x": ')
LENGTH: list[tuple[str, Sequence[Any], list[int]]] = [
    ("the only call may be cut", (CALLS[0],), []),
    ("the last call may be cut", CALLS, [0]),
    ("a broken call", (CALLS[0], BROKEN), [0]),
    ("a broken call before a text", (CALLS[0], BROKEN, Text("and")), [0]),
    ("the text was cut, the calls are whole", (*CALLS, Text("and")), [0, 1]),
    ("the thought was cut", (*CALLS, Thinking("hm")), [0, 1]),
    ("a freeform call before another", (ToolCall("f", "patch", None, "*** x", freeform=True), CALLS[0]), [0]),
    ("a freeform call at the end", (CALLS[0], ToolCall("f", "patch", None, "*** x", freeform=True)), [0]),
]


@pytest.mark.parametrize(("blocks", "whole"), [case[1:] for case in LENGTH], ids=[case[0] for case in LENGTH])
def test_a_call_cut_by_the_length_limit_never_runs(blocks: Sequence[Any], whole: list[int]) -> None:
    run = new()
    answer = reply(*blocks, stop="length")
    run.add_reply(answer)
    step = run.next()
    if whole:
        assert [number for number, _ in calls_in(step)] == whole
    for number in whole:
        run.add_result(number, ok(answer.calls[number]))
    assert isinstance(run.next(), AskModel), "the model may try again"
    incomplete = [number for number in range(len(answer.calls)) if number not in whole]
    assert [
        number for number, kind in enumerate(kinds_of(run.conversation)) if kind == "truncated"
    ] == incomplete
    check(run.conversation)


def test_a_text_cut_by_the_length_limit_ends_the_run() -> None:
    run = new()
    run.add_reply(reply(Text("half"), stop="length"))
    assert run.next() == Done("length", run.reply)


# ---- other stops


@pytest.mark.parametrize("stop", ["refusal", "filtered", "error"])
def test_calls_of_a_stopped_reply_do_not_run(stop: StopReason) -> None:
    run = new()
    run.add_reply(reply(*CALLS, stop=stop))
    step = run.next()
    assert isinstance(step, Done)
    assert (step.stop, step.reply) == (stop, run.reply)
    assert kinds_of(run.conversation) == ["cancelled", "cancelled"]
    check(run.conversation)


def test_a_pause_asks_again() -> None:
    run = new()
    run.add_reply(reply(Text("searching"), stop="pause"))
    assert run.next() == AskModel(None)
    run.add_reply(reply(Text("found"), stop="end"))
    assert run.next() == Done("end", run.reply)


def test_a_pause_executes_nothing() -> None:
    """`pause`: ask again, execute nothing. Calls in such a reply still get a result."""
    run = new()
    run.add_reply(reply(CALLS[0], stop="pause"))
    assert isinstance(run.next(), AskModel)
    assert find_unpaired(run.conversation) == []


def test_pauses_come_to_an_end() -> None:
    run, asked = new(max_iterations=3), 0
    while isinstance(run.next(), AskModel):
        run.add_reply(reply(Text("…"), stop="pause"))
        asked += 1
    assert asked == 4


# ---- the last turn


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_the_last_turn_may_not_call_tools(limit: int) -> None:
    run = new(max_iterations=limit, tool_choice=ToolChoice("required"))
    for number in range(limit):
        assert run.next() == AskModel(ToolChoice("required") if number == 0 else None)
        run.add_reply(reply(ToolCall(str(number), "get", {})))
        run.add_result(0, ok(ToolCall(str(number), "get", {})))
    assert run.next() == AskModel(ToolChoice("none"), last=True)
    run.add_reply(reply(Text("that is all"), stop="end"))
    assert run.next() == Done("end", run.reply)
    check(run.conversation)


def test_a_model_that_calls_in_its_last_turn_is_refused() -> None:
    run = new(max_iterations=0)
    run.add_reply(reply(*CALLS))
    assert run.next() == Done("max_iterations", run.reply)
    assert kinds_of(run.conversation) == ["limit", "limit"]
    check(run.conversation)


def test_a_pause_in_the_last_turn_is_not_an_end() -> None:
    """The model had more to say: the result must not look finished."""
    run = new(max_iterations=0)
    run.add_reply(reply(Text("searching"), stop="pause"))
    step = run.next()
    assert isinstance(step, Done)
    assert step.stop == "max_iterations"


def test_the_last_turn_can_be_brought_forward() -> None:
    run = new()
    run.add_reply(reply(CALLS[0]))
    run.add_result(0, ok(CALLS[0]))
    run.disable_tools()
    assert run.next() == AskModel(ToolChoice("none"), last=True)


def test_a_last_turn_that_was_brought_forward_stays_so_in_another_process() -> None:
    run = new()
    run.add_reply(reply(*CALLS))
    run.suspend(0, SuspensionRecord())
    run.add_result(1, ok(CALLS[1]))
    run.disable_tools()
    other = reload(run)
    other.decide({0: NO})
    other.add_result(0, ok(CALLS[0]))
    assert other.next() == AskModel(ToolChoice("none"), last=True)


def test_the_choice_is_for_the_first_request_only() -> None:
    run = new(tool_choice=ToolChoice("required"))
    assert run.next() == AskModel(ToolChoice("required"))
    run.add_reply(reply(CALLS[0]))
    run.add_result(0, ok(CALLS[0]))
    assert run.next() == AskModel(None)


# ---- ids


def test_two_calls_of_one_id_have_a_result_each() -> None:
    twins = (ToolCall("same", "get", {"x": 1}), ToolCall("same", "put", {"x": 2}))
    run = new()
    run.add_reply(reply(*twins))
    run.add_result(1, ok(twins[1], "second"))
    run.add_result(0, ok(twins[0], "first"))
    run.next()
    assert [(result.name, result.text) for result in results_of(run.conversation)] == [
        ("get", "first"),
        ("put", "second"),
    ]
    check(run.conversation)


# ---- approvals


def test_nothing_continues_while_a_call_waits() -> None:
    run = new()
    run.add_reply(reply(*CALLS))
    run.suspend(1, SuspensionRecord())
    assert calls_in(run.next()) == [(0, "a")]
    run.add_result(0, ok(CALLS[0]))
    assert run.next() == NeedApproval(((1, CALLS[1]),))
    assert len(run.conversation) == 2
    run.decide({1: YES})
    assert run.rulings == {1: YES}
    assert calls_in(run.next()) == [(1, "b")]


def test_a_call_that_waits_again_has_lost_its_decision() -> None:
    run = new()
    run.add_reply(reply(*CALLS))
    run.suspend(0, shown("f"))
    run.decide({0: YES})
    run.suspend(0, shown("g"))
    run.add_result(1, ok(CALLS[1]))
    assert (run.rulings, run.suspended) == ({}, {0: shown("g")})
    assert run.next() == NeedApproval(((0, CALLS[0]),))


def test_nothing_loaded_carries_a_decision() -> None:
    run = new()
    run.add_reply(reply(*CALLS))
    records = {
        0: SuspensionRecord((WaitingRecord(("a",), fingerprint="f"),), blocks_later=True),
        1: SuspensionRecord((WaitingRecord(("b",), "question", "g"),), has_started=True),
    }
    for index, record in records.items():
        run.suspend(index, record)
    run.decide({1: YES})
    other = reload(run)
    assert (other.rulings, other.suspended) == ({}, records)
    assert [index for index, _ in other.waiting_calls] == [0, 1]


def test_every_open_call_of_a_run_that_is_doubted_waits() -> None:
    run = new()
    run.add_reply(reply(*CALLS))
    run.mark_started(0)
    other = Run(Conversation(run.conversation), state=run.snapshot(), distrust_reason="why")
    assert other.next() == NeedApproval(((1, CALLS[1]),))
    other.decide({1: YES})
    other.add_result(1, ok(CALLS[1]))
    assert (other.distrust_reason, other.next(), other.distrust_reason) == ("why", AskModel(None), "")


def test_a_decision_for_an_unknown_call_changes_nothing() -> None:
    run = new()
    run.add_reply(reply(*CALLS))
    run.suspend(0, SuspensionRecord())
    run.add_result(1, ok(CALLS[1]))
    with pytest.raises(UsageError, match="no call with the index 1 is waiting"):
        run.decide({0: YES, 1: YES})
    assert run.next() == NeedApproval(((0, CALLS[0]),))


def test_a_decision_without_a_run_is_an_error() -> None:
    with pytest.raises(UsageError, match="is waiting"):
        new().decide({0: YES})


# ---- interrupts and ends


def test_an_interrupt_tells_what_ran_from_what_did_not() -> None:
    calls = (*CALLS, ToolCall("c", "get", {}))
    run = new()
    run.add_reply(reply(*calls))
    run.mark_started(0)
    run.add_result(0, ok(calls[0]))
    run.mark_started(1)
    run.interrupt()
    assert kinds_of(run.conversation) == [None, "interrupted", "cancelled"]
    assert run.next() == Done("interrupted", run.reply)
    check(run.conversation)


@pytest.mark.parametrize(
    ("answer", "roles"), [("half a", ["user", "assistant", "user"]), (" ", ["user", "user"])]
)
def test_an_interrupted_reply_leaves_what_was_said(answer: str, roles: list[str]) -> None:
    run = new()
    run.interrupt(answer)
    assert [message.role for message in run.conversation] == roles
    assert "interrupted" in run.conversation[-1].text
    check(run.conversation)


def test_an_interrupt_before_a_request_says_nothing() -> None:
    run = new()
    run.interrupt(None)
    assert list(run.conversation) == [HI]


def test_a_waiting_call_that_is_left_did_not_run() -> None:
    run = new()
    run.add_reply(reply(CALLS[0]))
    run.suspend(0, SuspensionRecord())
    run.interrupt()
    assert kinds_of(run.conversation) == ["cancelled"]


def test_an_abandoned_turn_is_answered() -> None:
    run = new()
    run.add_reply(reply(*CALLS))
    run.mark_started(0)
    run.abandon("limit", "the budget is gone")
    assert kinds_of(run.conversation) == ["unknown_outcome", "limit"]
    check(run.conversation)
    run.abandon("limit", "again")
    assert len(results_of(run.conversation)) == 2


def test_a_finished_run_answers_its_calls_first() -> None:
    run = new()
    run.add_reply(reply(CALLS[0]))
    run.finish()
    assert calls_in(run.next()) == [(0, "a")]
    run.add_result(0, ok(CALLS[0]))
    assert run.next() == Done("end", run.reply)


def test_continuing_asks_again() -> None:
    run = new()
    run.add_reply(reply(Text("x"), stop="end"))
    run.continue_with(user("not that"))
    assert run.next() == AskModel(None)


# ---- another process


def test_what_was_started_before_a_crash_is_not_offered_again() -> None:
    calls = (*CALLS, ToolCall("c", "get", {}))
    run = new()
    run.add_reply(reply(*calls))
    run.mark_started(0)
    run.add_result(0, ok(calls[0]))
    run.mark_started(1)
    other = reload(run)
    assert calls_in(other.next()) == [(2, "c")]
    other.add_result(2, ok(calls[2]))
    other.next()
    assert kinds_of(other.conversation) == [None, "unknown_outcome", None]
    check(other.conversation)


def test_a_saved_run_belongs_to_its_conversation() -> None:
    run = new()
    run.add_reply(reply(CALLS[0]))
    with pytest.raises(UsageError, match="another conversation"):
        Run(Conversation([HI]), state=run.snapshot())


def test_iterations_continue_in_another_process() -> None:
    run = new(max_iterations=2)
    run.add_reply(reply(CALLS[0]))
    run.suspend(0, SuspensionRecord())
    other = reload(run, max_iterations=2)
    other.add_result(0, ok(CALLS[0]))
    assert other.next() == AskModel(None)
    other.add_reply(reply(CALLS[1]))
    other.add_result(0, ok(CALLS[1]))
    assert other.next() == AskModel(ToolChoice("none"), last=True)


WRONG_STATES = [
    RunState(length=1, calls=CALLS, results=[None]),
    RunState(length=1, calls=CALLS, results=[None] * 3),
    RunState(length=1, calls=CALLS, results=[None, None], started={7}),
    RunState(length=1, calls=CALLS, results=[None, None], suspended={7: SuspensionRecord()}),
    RunState(length=1, calls=CALLS, results=[None, None], suspended={-1: SuspensionRecord()}),
    RunState(length=1, calls=CALLS, results=[None, None], started={-1}),
    RunState(length=1, calls=CALLS, results=[None, None], iteration=-1),
]


@pytest.mark.parametrize("state", WRONG_STATES)
def test_a_state_that_cannot_be_is_refused(state: RunState) -> None:
    """A file that somebody edited."""
    with pytest.raises(
        MalformedData, match="the saved run is inconsistent: its calls and results do not match"
    ):
        Run(Conversation([HI]), state=state)


def test_a_state_with_open_calls_can_be_interrupted() -> None:
    state = RunState(
        length=1, calls=CALLS, results=[None, None], started={0}, suspended={1: SuspensionRecord()}
    )
    run = Run(Conversation([HI]), state=state)
    run.next()
    run.interrupt()
    assert [result.error_kind for result in results_of(run.conversation)] == ["unknown_outcome", "cancelled"]
