"""Which call each result answers: by position, for ids repeat; and what every provider is sent of it."""

from typing import Any

import pytest
from tests.wire.id_histories import TARGETS, check_histories, find_misplaced

from toolglot.providers.profile import Profile
from toolglot.values.messages import Message, Text, ToolCall, ToolResult, assistant, user
from toolglot.values.messages import tool_results as tool
from toolglot.values.request import Request
from toolglot.wire.codec import encode_request
from toolglot.wire.pairing import Position, match_mangled, match_results

HISTORIES = 1_000


def call(id: str = "x") -> ToolCall:
    return ToolCall(id, "get", {})


def result(id: str = "x") -> ToolResult:
    return ToolResult(id)


# history, and the call of each result
# fmt: off
CASES: dict[str, tuple[list[Message], dict[Position, Position]]] = {
    "each its own": ([assistant([call("a"), call("b")]), tool(result("b"), result("a"))], {(1, 0): (0, 1), (1, 1): (0, 0)}),
    "of no call": ([assistant(call("a")), tool(result("b"))], {}),
    "one id twice in a message": ([assistant([call(), call()]), tool(result(), result())], {(1, 0): (0, 0), (1, 1): (0, 1)}),
    "only the first of two has a result": ([assistant([call(), call()]), tool(result())], {(1, 0): (0, 0)}),
    "two messages in a row": ([assistant(call()), assistant(call()), tool(result(), result())],
        {(2, 0): (0, 0), (2, 1): (1, 0)}),
    "the first message was cut off": ([assistant(call()), user("?"), assistant(call()), tool(result())], {(3, 0): (2, 0)}),
    "a message of two was cut off": (
        [assistant([call(), call()]), user("?"), assistant([call(), call()]), tool(result(), result())],
        {(3, 0): (2, 0), (3, 1): (2, 1)},
    ),
    "answered one after the other": ([assistant([call(), call("y")]), tool(result()), assistant(call()), tool(result())],
        {(1, 0): (0, 0), (3, 0): (2, 0)}),
    "more results than calls": ([assistant([call(), call()]), tool(result(), result(), result())],
        {(1, 0): (0, 0), (1, 1): (0, 1), (1, 2): (0, 1)}),
    "later results of an answered call": ([assistant([call(), call("y")]), tool(result()), assistant("?"), tool(result())],
        {(1, 0): (0, 0), (3, 0): (0, 0)}),
    "before its call": ([assistant(call("y")), tool(result()), assistant(call())], {(1, 0): (2, 0)}),
    "of a call that the user made": ([user([call()]), tool(result())], {}),
    "without ids": ([assistant([call(""), call("")]), tool(result(""), result(""))], {(1, 0): (0, 0), (1, 1): (0, 1)}),
}
# fmt: on


@pytest.mark.parametrize(("history", "owners"), CASES.values(), ids=CASES)
def test_results_are_matched_by_position(history: list[Message], owners: dict[Position, Position]) -> None:
    assert match_results(history) == owners


def test_mangled_ids_are_matched_in_order_if_the_numbers_agree() -> None:
    history = [assistant([call("a"), call("b"), call("b")]), tool(result("b"), result("A"), result("B"))]
    owners = match_results(history)
    assert match_mangled(history, owners) == {(1, 1): (0, 0), (1, 2): (0, 2)}
    assert match_mangled([*history[:1], tool(result("b"), result("A"))], owners) == {}


@pytest.mark.parametrize("profile", TARGETS, ids=lambda profile: profile.id)
def test_a_server_that_numbers_its_calls_in_every_turn(profile: Profile) -> None:
    """The loop makes `call_0_2` of the second `call_0` of a turn, and so does the encoder of the second
    turn's `call_0`.
    """
    owners = {f"result{number:06d}": f"call{number:06d}" for number in range(3)}
    calls = [
        ToolCall(id, "pay", {"token": f"call{n:06d}"})
        for n, id in enumerate(("call_0", "call_0", "call_0_2"))
    ]
    results = [ToolResult(item.id, (Text(f"result{n:06d}"),), "pay") for n, item in enumerate(calls)]
    history = [user("pay"), assistant(calls[0]), tool(results[0]), assistant(calls[1:]), tool(*results[1:])]
    body = encode_request(Request(profile.model, history), profile).body
    assert find_misplaced(profile.wire, body, owners, set()) == []


@pytest.mark.untraced
@pytest.mark.parametrize("part", range(4))
def test_every_result_goes_to_its_own_call(part: int) -> None:
    """On every wire, whole and step by step, read back, saved and loaded, and handed over.

    `make attack` tries 20,000.
    """
    assert check_histories(range(part, HISTORIES, 4)) == []


def test_the_judge_of_pairs_can_fail() -> None:
    def body(*ids: str) -> dict[str, Any]:
        calls = [{"id": ids[0], "args": "call000001"}, {"id": ids[1], "args": "call000002"}]
        results = [
            {"role": "tool", "tool_call_id": id, "content": f"result00000{n}"}
            for n, id in enumerate(ids[2:], 1)
        ]
        return {"messages": [{"role": "assistant", "tool_calls": calls}, *results]}

    owners = {"result000001": "call000001", "result000002": "call000002"}
    assert find_misplaced("openai-chat", body("a", "b", "a", "b"), owners, set()) == []
    assert find_misplaced("openai-chat", body("a", "b", "b", "a"), owners, set()) == [
        "call000001: 'result000002', not 'result000001'",
        "call000002: 'result000001', not 'result000002'",
    ]
    assert find_misplaced("openai-chat", body("a", "a", "a", "c"), owners, set())[:2] == [
        "the id 'a' came twice",
        "result000002 belongs to no call",
    ]
