"""Repair: any history becomes legal, nothing is lost, every change is said."""

from typing import Any

import pytest

from toolglot.providers.profile import HistoryRules
from toolglot.values.messages import (
    Foreign,
    Media,
    Message,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolsChanged,
    assistant,
    system,
    user,
)
from toolglot.values.messages import tool_results as tool
from toolglot.wire.repair import (
    HistoryRepairer,
    Turn,
    make_ids_unique,
    make_interrupted_result,
    make_unknown_result,
    repair_history,
    split_turns,
)

NONE = HistoryRules()
A, B = ToolCall("a", "get", {"x": 1}), ToolCall("b", "put", {})
OK_A, OK_B = ToolResult("a", (Text("one"),), "get"), ToolResult("b", (Text("two"),), "put")
HI, BYE = user("hi"), user("bye")
LOADED = ToolsChanged(loaded=("get",))
SEARCH = ToolsChanged(loaded=("get",), opaque={"item": {"type": "tool_search_output"}})
PAUSED = assistant([Foreign("anthropic-messages", {"type": "server_tool_use"})])


def orphan(*blocks: Any) -> Message:
    return user([Text("[Result of an earlier tool call to get]"), *blocks])


def rename(block: Any, id: str) -> Any:
    if isinstance(block, ToolCall):
        return ToolCall(id, block.name, block.arguments)
    return ToolResult(id, block.content, block.name)


# name, rules, history, what comes out, words of every repair
# fmt: off
CASES: list[tuple[str, HistoryRules, list[Message], list[Message], list[str]]] = [
    ("call without a result", NONE, [HI, assistant(A)], [HI, assistant(A), tool(make_unknown_result(A))], ["no result"]),
    ("user speaks before the result", NONE, [HI, assistant(A), BYE, tool(OK_A)], [HI, assistant(A), tool(OK_A), BYE],
        ["moved right after"]),
    ("user speaks instead of the result", NONE, [assistant(A), BYE], [assistant(A), tool(make_unknown_result(A)), BYE],
        ["no result"]),
    ("one of two calls has a result", NONE, [assistant([A, B]), tool(OK_B)],
        [assistant([A, B]), tool(make_unknown_result(A), OK_B)], ["no result"]),
    ("results in the wrong order", NONE, [assistant([A, B]), tool(OK_B, OK_A)], [assistant([A, B]), tool(OK_A, OK_B)],
        ["order of their calls"]),
    ("results in two messages", NONE, [assistant([A, B]), tool(OK_A), tool(OK_B)], [assistant([A, B]), tool(OK_A, OK_B)],
        ["moved right after"]),
    ("results after the next call", NONE, [assistant(A), assistant(B), tool(OK_A, OK_B)],
        [assistant(A), tool(OK_A), assistant(B), tool(OK_B)], ["moved right after"]),
    ("result of no call", NONE, [HI, tool(OK_A)], [HI, orphan(Text("one"))], ["belongs to no call"]),
    ("result before its call", NONE, [tool(OK_A), assistant(A)],
        [orphan(Text("one")), assistant(A), tool(make_unknown_result(A))], ["belongs to no call", "no result"]),
    ("result of no call, without a name", NONE, [tool(ToolResult("z", (Text("one"), Media("image", url="http://x/y.png"))))],
        [user([Text("[Result of an earlier tool call]"), Text("one"), Media("image", url="http://x/y.png")])],
        ["belongs to no call"]),
    ("result of no call in a user message", NONE, [user([OK_A, "hi"])], [orphan(Text("one"), Text("hi"))],
        ["belongs to no call"]),
    ("result in the message of its call", NONE, [assistant([A, OK_A]), HI], [assistant(A), tool(OK_A), HI],
        ["moved right after"]),
    ("result in a user message", NONE, [assistant(A), user([OK_A, "hi"])], [assistant(A), tool(OK_A), HI], []),
    ("result of no call among others", NONE, [assistant(B), tool(OK_A, OK_B)], [assistant(B), tool(OK_B), orphan(Text("one"))],
        ["belongs to no call"]),
    ("two results for one call", NONE,
        [assistant([A, B]), tool(OK_A), tool(ToolResult("a", (Text("more"),), is_error=True), OK_B)],
        [assistant([A, B]), tool(ToolResult("a", (Text("one"), Text("more")), "get", is_error=True), OK_B)],
        ["a second result", "moved right after"]),
    ("two calls of one id in one message", NONE, [assistant([A, rename(B, "a")]), tool(OK_A, rename(OK_B, "a"))],
        [assistant([A, rename(B, "a_2")]), tool(OK_A, rename(OK_B, "a_2"))], ["used before"]),
    ("two calls of one id, results in two messages", NONE,
        [assistant([A, rename(B, "a")]), tool(OK_A), tool(rename(OK_B, "a"))],
        [assistant([A, rename(B, "a_2")]), tool(OK_A, rename(OK_B, "a_2"))], ["used before", "moved right after"]),
    ("three calls of one id", NONE, [assistant([A, A, A]), tool(OK_A, OK_A, OK_A)],
        [assistant([A, rename(A, "a_2"), rename(A, "a_3")]), tool(OK_A, rename(OK_A, "a_2"), rename(OK_A, "a_3"))],
        ["used before", "used before"]),
    ("one id in two turns", NONE, [assistant(A), tool(OK_A), assistant(A), tool(OK_A)],
        [assistant(A), tool(OK_A), assistant(rename(A, "a_2")), tool(rename(OK_A, "a_2"))], ["used before"]),
    ("one id again while the first call has no result", NONE, [assistant(A), HI, assistant(A), tool(OK_A)],
        [assistant(A), tool(make_unknown_result(A)), HI, assistant(rename(A, "a_2")), tool(rename(OK_A, "a_2"))],
        ["used before", "no result"]),
    (
        "a new id that is taken too",
        NONE,
        [assistant(A), tool(OK_A), assistant([rename(B, "a_2"), A]), tool(rename(OK_B, "a_2"), OK_A)],
        [
            assistant(A),
            tool(OK_A),
            assistant([rename(B, "a_2"), rename(A, "a_3")]),
            tool(rename(OK_B, "a_2"), rename(OK_A, "a_3")),
        ],
        ["used before"],
    ),
    ("a new id that a later call came with", NONE,
        [assistant(A), tool(OK_A), assistant([A, rename(B, "a_2")]), tool(OK_A, rename(OK_B, "a_2"))],
        [assistant(A), tool(OK_A), assistant([rename(A, "a_3"), rename(B, "a_2")]),
            tool(rename(OK_A, "a_3"), rename(OK_B, "a_2"))],
        ["used before"]),
    ("a new id that was made before", NONE,
        [assistant(A), tool(OK_A), assistant(A), tool(OK_A),
            assistant([A, rename(B, "a_2")]), tool(OK_A, rename(OK_B, "a_2"))],
        [assistant(A), tool(OK_A), assistant(rename(A, "a_2")), tool(rename(OK_A, "a_2")),
            assistant([rename(A, "a_3"), rename(B, "a_2_2")]), tool(rename(OK_A, "a_3"), rename(OK_B, "a_2_2"))],
        ["used before", "used before", "used before"]),
    ("a result of no call under a new id", NONE,
        [assistant(A), tool(OK_A), assistant([A, B]), tool(rename(OK_A, "a_2"), OK_A, OK_B)],
        [assistant(A), tool(OK_A), assistant([rename(A, "a_3"), B]), tool(rename(OK_A, "a_3"), OK_B), orphan(Text("one"))],
        ["used before", "belongs to no call"]),
    ("two messages of one id, results after both", NONE,
        [assistant(A), assistant(rename(B, "a")), tool(OK_A, rename(OK_B, "a"))],
        [assistant(A), tool(OK_A), assistant(rename(B, "a_2")), tool(rename(OK_B, "a_2"))],
        ["used before", "moved right after"]),
    ("a mangled id beside one that came twice", NONE, [assistant([A, rename(B, "a")]), tool(OK_A, rename(OK_B, "z"))],
        [assistant([A, rename(B, "a_2")]), tool(OK_A, rename(OK_B, "a_2"))], ["paired in order", "used before"]),
    ("calls without ids", NONE, [assistant([rename(A, ""), rename(B, "")]), tool(rename(OK_A, ""), rename(OK_B, ""))],
        [assistant([rename(A, "call_2"), rename(B, "call_3")]), tool(rename(OK_A, "call_2"), rename(OK_B, "call_3"))],
        ["used before", "used before"]),
    ("results with mangled ids", NONE, [assistant([A, B]), tool(rename(OK_A, "x"), rename(OK_B, "y"))],
        [assistant([A, B]), tool(OK_A, OK_B)], ["paired in order"]),
    ("a mangled id beside a good one", NONE, [assistant([A, B]), tool(OK_B, rename(OK_A, "x"))],
        [assistant([A, B]), tool(OK_A, OK_B)], ["paired in order", "order of their calls"]),
    (
        "more strangers than calls",
        NONE,
        [assistant(B), tool(ToolResult("x", (Text("1"),)), ToolResult("y", (Text("2"),)))],
        [
            assistant(B),
            tool(make_unknown_result(B)),
            user(["[Result of an earlier tool call]", "1", "[Result of an earlier tool call]", "2"]),
        ],
        ["no result", "belongs to no call", "belongs to no call"],
    ),
    ("empty turns", NONE, [user(""), HI, assistant([]), assistant("")], [HI], ["dropped"] * 3),
    ("blank text is text", NONE, [user(" ")], [user(" ")], []),
    ("blank text is none", HistoryRules(no_blank_text=True), [HI, user([" ", "\n"])], [HI], ["dropped"]),
    ("empty text with state", NONE, [assistant(Text("", {"s": 1}))], [assistant(Text("", {"s": 1}))], []),
    ("text after a call", NONE, [assistant([A, "x"]), tool(OK_A)], [assistant([A, "x"]), tool(OK_A)], []),
    ("text after a call is refused", HistoryRules(calls_last=True),
        [assistant([Thinking("t"), A, "x", B, Thinking("u")]), tool(OK_A, OK_B)],
        [assistant([Thinking("t"), "x", Thinking("u"), A, B]), tool(OK_A, OK_B)], ["moved before"]),
    ("a provider's block after a call", HistoryRules(calls_last=True), [assistant([A, PAUSED.blocks[0]]), tool(OK_A)],
        [assistant([A, PAUSED.blocks[0]]), tool(OK_A)], []),
    ("starts with the assistant", HistoryRules(starts_with_user=True), [system("s"), assistant("x"), HI],
        [system("s"), user("(start of the conversation)"), assistant("x"), HI], ["must start"]),
    ("ends with the assistant", HistoryRules(ends_with_user=True), [HI, assistant("x"), system("s")],
        [HI, assistant("x"), system("s"), user("Continue.")], ["must end"]),
    ("ends with a paused turn", HistoryRules(ends_with_user=True), [HI, PAUSED], [HI, PAUSED], []),
    ("ends with a search of the provider", HistoryRules(ends_with_user=True), [HI, assistant([SEARCH])],
        [HI, assistant([SEARCH])], []),
    ("ends with what a result without a call has loaded", HistoryRules(ends_with_user=True),
        [HI, assistant([ToolResult("a", (LOADED,))])],
        [HI, assistant(["[Result of an earlier tool call]", LOADED]), user("Continue.")], ["no call", "must end"]),
    ("ends with results", HistoryRules(ends_with_user=True), [HI, assistant(A), tool(OK_A)], [HI, assistant(A), tool(OK_A)],
        []),
    ("only instructions", HistoryRules(needs_turn=True), [system("s")], [system("s"), user("(start of the conversation)")],
        ["must be one"]),
    ("only instructions, allowed", NONE, [system("s")], [system("s")], []),
    ("nothing at all", HistoryRules(needs_turn=True), [], [user("(start of the conversation)")], ["must be one"]),
    ("user right after results", HistoryRules(filler_after_results=True), [assistant(A), tool(OK_A), system("s"), HI, BYE],
        [assistant(A), tool(OK_A), system("s"), assistant("OK."), HI, BYE], ["between results and user"]),
]
# fmt: on


@pytest.mark.parametrize(
    ("rules", "history", "wanted", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_repairs(
    rules: HistoryRules, history: list[Message], wanted: list[Message], words: list[str]
) -> None:
    before = list(history)
    repaired = repair_history(history, rules)
    assert repaired.messages == wanted
    assert len(repaired.repairs) == len(words)
    for word in words:
        assert any(word in str(done) for done in repaired.repairs)
    assert history == before
    assert repair_history(wanted, rules).repairs == []


def test_second_result_is_added_to_the_data_of_the_first() -> None:
    """What two results hold as values is told as text: no field has room for both."""
    first = ToolResult("a", data={"x": 1})
    second, third = ToolResult("a", data="plain"), ToolResult("a", (Text("said"),), data=[1])
    (result,) = (
        repair_history([assistant([A, B]), tool(first), tool(second, third, OK_B)], NONE)
        .messages[1]
        .results[:1]
    )
    assert (result.content, result.data) == ((Text('{"x":1}'), Text("plain"), Text("said")), None)


def test_legal_messages_stay_the_same_objects() -> None:
    history = [system("s"), HI, assistant(["x", A, B]), tool(OK_A, OK_B), assistant("y"), BYE]
    strict = HistoryRules(
        calls_last=True, starts_with_user=True, ends_with_user=True, no_blank_text=True, needs_turn=True
    )
    assert all(
        message is other
        for message, other in zip(repair_history(history, strict).messages, history, strict=True)
    )


def test_blank_text_dropped_from_a_message_is_a_repair() -> None:
    repaired = repair_history([user([" ", "hi"])], HistoryRules(no_blank_text=True))
    assert repaired.messages == [HI]
    assert [done.where for done in repaired.repairs] == ["messages[0]"]


def test_an_empty_id_is_never_kept() -> None:
    calls = [HI, assistant(rename(A, "")), tool(rename(OK_A, ""))]
    assert [call.id for message in repair_history(calls, NONE).messages for call in message.calls] == [
        "call_2"
    ]


def test_a_new_id_stands_in_the_state_that_repeats_it() -> None:
    """Gemini has the id of a call in the part that goes back."""
    tool_call = ToolCall("a", "get", {}, opaque={"id": "a", "thoughtSignature": "c2ln"})
    repaired = repair_history([assistant(A), tool(OK_A), assistant(tool_call), tool(OK_A)], NONE)
    assert repaired.messages[2].calls == (
        ToolCall("a_2", "get", {}, opaque={"id": "a_2", "thoughtSignature": "c2ln"}),
    )


def test_stored_calls_keep_their_ids() -> None:
    """A result whose call the provider stores is not taken for that of a later call."""
    repaired = repair_history([tool(OK_A), assistant(A), tool(OK_A)], NONE, stateful=True)
    assert repaired.messages == [tool(OK_A), assistant(rename(A, "a_2")), tool(rename(OK_A, "a_2"))]


def test_ids_alone_can_be_made_unique() -> None:
    history = [assistant(A), BYE, assistant(A), tool(OK_A)]
    unique = make_ids_unique(history)
    assert unique.messages == [assistant(A), BYE, assistant(rename(A, "a_2")), tool(rename(OK_A, "a_2"))]
    assert [repair.where for repair in unique.repairs] == ["messages[2]"]


def test_repairs_say_where() -> None:
    repaired = repair_history([HI, assistant(A), BYE, tool(ToolResult("z", (Text("1"),)))], NONE)
    assert [(done.subject, done.where) for done in repaired.repairs] == [
        ("call 'get'", "messages[1]"),
        ("result of 'z'", "messages[3]"),
    ]


def test_results_that_the_provider_holds_the_calls_of_stay_results() -> None:
    history = [tool(OK_A), HI]
    repaired = repair_history(history, HistoryRules(needs_turn=True), stateful=True)
    assert (repaired.messages, repaired.repairs) == (history, [])
    assert repair_history([], HistoryRules(needs_turn=True), stateful=True).messages == []


def test_stateful_results_leave_the_pairs_of_their_message() -> None:
    repaired = repair_history([assistant(B), tool(OK_A, OK_B)], NONE, stateful=True)
    assert repaired.messages == [assistant(B), tool(OK_B), tool(OK_A)]


def test_moved_results_keep_where_they_came_from() -> None:
    origin = Origin("gemini", "gemini", "gemini-3-pro")
    late = Message("tool", (OK_A,), origin, {"k": 1})
    moved = repair_history([assistant(A), HI, late], NONE).messages[1]
    assert moved == late


def test_results_of_two_origins_do_not_share_their_state() -> None:
    """One message has one origin: state that another wire made must not ride along."""
    message = Message(
        "tool", (ToolResult("a", (Text("1"),), opaque={"cache_control": {}}),), Origin("anthropic-messages")
    )
    two = Message(
        "tool", (ToolResult("b", (Text("2"),), opaque={"id": "fco_1"}),), Origin("openai-responses")
    )
    merged = repair_history([assistant([A, B]), message, two], NONE).messages[1]
    assert [result.text for result in merged.results] == ["1", "2"]
    if merged.origin == message.origin:
        assert [result.opaque for result in merged.results] == [{"cache_control": {}}, None]
    else:
        assert [result.opaque for result in merged.results] == [None, None]


def test_interrupted_and_rejected_calls_differ() -> None:
    stopped, refused = make_interrupted_result(A), make_interrupted_result(B, kind="rejected")
    assert (stopped.call_id, stopped.name, stopped.is_error, stopped.error_kind) == (
        "a",
        "get",
        True,
        "interrupted",
    )
    assert (refused.call_id, refused.name, refused.is_error, refused.error_kind) == (
        "b",
        "put",
        True,
        "rejected",
    )
    assert "while it ran" in stopped.text
    assert "did not run" not in stopped.text
    assert "did not run" in refused.text
    assert make_unknown_result(A).error_kind == "unknown_outcome"
    assert "may or may not have run" in make_unknown_result(A).text


@pytest.mark.parametrize(("history", "turns"), [
    ([], []),
    ([HI, BYE], [Turn(0, 1), Turn(1, 2)]),
    ([HI, assistant(A), tool(OK_A), BYE], [Turn(0, 1), Turn(1, 3), Turn(3, 4)]),
    ([assistant([A, B]), tool(OK_B), HI, tool(OK_A), BYE], [Turn(0, 4), Turn(4, 5)]),
    ([HI, assistant(A), BYE], [Turn(0, 1), Turn(1, 3, is_closed=False)]),
    ([tool(OK_A), assistant(A)], [Turn(0, 1), Turn(1, 2, is_closed=False)]),
    ([assistant([A, A]), tool(OK_A), tool(OK_A), HI], [Turn(0, 3), Turn(3, 4)]),
    ([assistant([A, B]), tool(OK_A), assistant(A), tool(OK_B), tool(OK_A)], [Turn(0, 5)]),
], ids=["nothing", "no calls", "answered", "late result", "open", "result first", "one id twice", "one id again"])  # fmt: skip
def test_turns_end_where_every_call_has_a_result(history: list[Message], turns: list[Turn]) -> None:
    assert list(split_turns(history)) == turns


def test_turns_from_the_middle() -> None:
    assert list(split_turns([assistant(A), tool(OK_A), HI, BYE], 2)) == [Turn(2, 3), Turn(3, 4)]


def test_a_copied_repairer_continues_alone() -> None:
    mender = HistoryRepairer(HistoryRules(filler_after_results=True))
    mender.repair_turn([assistant(A), tool(OK_A)])
    other = mender.copy()
    assert other.repair_turn([HI], 2) == [assistant("OK."), HI]
    assert other.repair_turn([assistant(A), tool(OK_A)], 3)[0].calls[0].id == "a_2"
    assert mender.repairs == []
    assert (
        mender.repair_turn([assistant(rename(B, "a_2")), tool(rename(OK_B, "a_2"))], 2)[0].calls[0].id
        == "a_2"
    )
