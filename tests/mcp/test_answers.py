"""What cannot be read ends the request that it answers, with the true reason, and no other."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from toolglot.mcp.client.answers import (
    failure_cause,
    find_answered_id,
    make_failure,
    read_answer,
    read_messages,
)

DEEP = '{"a":' * 300 + "1" + "}" * 300
ABYSS = "[" * 100_000 + "]" * 100_000
HEAD = '{"jsonrpc":"2.0","id":7,'
UNREADABLE = {
    HEAD + '"result":null}': "its result is null instead of an object",
    HEAD + '"result":[1]}': "its result is an array instead of an object",
    HEAD + '"result":"x"}': "its result is a string instead of an object",
    HEAD + '"result":true}': "its result is a boolean",
    HEAD + '"result":null,"error":null}': "its result is null instead of an object",
    HEAD + '"x":1}': "it has neither a result nor an error",
    HEAD + f'"result":{DEEP}}}': "it is nested too deeply",
    HEAD + f'"result":{{"a":{ABYSS}}}}}': "it is nested too deeply",
    HEAD + '"result":{"a":NaN}}': "it contains NaN or an infinity, or is nested more than 128 levels",
    HEAD + '"result":{"a":[-Infinity]}}': "it contains NaN or an infinity",
    HEAD + '"result":{"a":1e999}}': "it contains NaN or an infinity",
    HEAD + '"result":{"a":' + "[" * 130 + "]" * 130 + "}}": "is nested more than 128 levels",
    HEAD + '"result":{"a":' + "9" * 5000 + "}}": "it contains a number with thousands of digits",
    HEAD + '"result":{"a":1': "it is not valid JSON",
    HEAD + "\"result\":{'a':1}}": "it is not valid JSON (",
    '{"id":7,"result":{"a":1}}': 'the field "jsonrpc" is missing or wrong',
    '{"jsonrpc":"1.0","id":7,"result":{"a":1}}': 'the field "jsonrpc" is missing or wrong',
    '{"jsonrpc":"2.0","id":7.0,"result":5}': "its result is a number instead of an object",
    '{"jsonrpc":"2.0","result":{"id":8,"a":oops},"id":7}': "it is not valid JSON",
    '{"result":{"id":8,"a":oops},"jsonrpc": "2.0", "id": 7}': "it is not valid JSON",
    '{"result":{"id":8,"a":oops}, "id" : "7" , "jsonrpc": "2.0"}\n': "it is not valid JSON",
    '{"id": 7, "jsonrpc": "2.0", "error": {"code": oops}}': "it is not valid JSON",
}
NO_MESSAGES = [
    *(
        "",
        "x",
        "7",
        "null",
        "[]",
        "{}",
        "{not json",
        '"text"',
        "Listening on port 80",
        '{"level":"info","id":7}',
    ),
    '{"level":"error","id":7,"error":"the database is away"}',
    '{"id":7,"name":oops',
    '{"jsonrpc":"2.0","id":true,"result":5}',
    '{"jsonrpc":"2.0","id":null,"result":5}',
    '{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"x":oops',
    '{"jsonrpc":"2.0","method":"x","params":{"result":oops},"id":7}',
    '{"name":"log","items":[{"jsonrpc":"2.0","id":7,"result":oops',
]


def read(line: str | bytes) -> list[JSONRPCMessage]:
    return read_messages(line if isinstance(line, bytes) else line.encode())


@pytest.mark.parametrize(("line", "reason"), UNREADABLE.items(), ids=str)
def test_an_unreadable_answer_is_the_failure_of_its_request(line: str, reason: str) -> None:
    (message,) = read(line)
    assert isinstance(message, JSONRPCError)
    assert (message.id, failure_cause(message.error)) == (7, "unreadable")
    assert message.error.message.startswith("its answer cannot be read: ")
    assert reason in message.error.message
    assert "\n" not in message.error.message


@pytest.mark.parametrize("line", NO_MESSAGES)
def test_other_output_fails_no_request(line: str) -> None:
    assert read(line) == []


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (HEAD + '"error":"oops"}', "oops"),
        (HEAD + '"error":{"code":"E1","message":"no such file"}}', "no such file"),
        (HEAD + '"error":{"code":1.5}}', '{"code":1.5}'),
        (HEAD + '"error":[1]}', "[1]"),
        (HEAD + '"error":{"code":-32000,"message":"away"}}', "away"),
    ],
)
def test_an_error_of_any_form_is_the_servers(line: str, text: str) -> None:
    (message,) = read(line)
    assert isinstance(message, JSONRPCError)
    assert (message.id, message.error.message, failure_cause(message.error)) == (7, text, None)
    assert message.error.code == -32603, "not the code that means a lost connection for the SDK"


def test_messages_that_were_written_at_once_are_separated() -> None:
    good = '{"jsonrpc":"2.0","id":%d,"result":{"a":%d}}'
    messages = read(
        "\ufeff"
        + good % (1, 1)
        + good % (2, 2)
        + '{"jsonrpc":"2.0","method":"x"}  '
        + HEAD
        + '"result":null} debug'
    )
    assert [type(message) for message in messages] == [
        JSONRPCResponse,
        JSONRPCResponse,
        JSONRPCNotification,
        JSONRPCError,
    ]
    assert len(read((good % (1, 1)) * 5000)) <= 100


def test_requests_and_notifications_lose_malformed_parameters() -> None:
    """So that the server gets an error, and does not wait for an answer."""
    (request,) = read(f'{{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{DEEP}}}')
    assert isinstance(request, JSONRPCRequest)
    assert (request.method, request.params) == ("elicitation/create", None)
    (notification,) = read('{"jsonrpc":"2.0","method":"notifications/message","params":[1]}')
    assert isinstance(notification, JSONRPCNotification)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (HEAD.encode() + b'"result":{"a":"\xff"}}', "\ufffd"),
        (HEAD.encode() + b'"result":{"a":"\\ud83d"}}', "\ufffd"),
        (HEAD.encode() + b'"result":{"a":"\\ud83d\\ude00"}}', "\U0001f600"),
    ],
)
def test_damaged_text_is_repaired(line: bytes, text: str) -> None:
    (message,) = read(line)
    assert isinstance(message, JSONRPCResponse)
    assert message.result == {"a": text}


def test_a_server_cannot_imitate_our_failures() -> None:
    ours = make_failure(7, "session", "its session has expired")
    data: Any = {"toolglot": "x", "cause": "session"}
    (message,) = read(
        json.dumps({"jsonrpc": "2.0", "id": 7, "error": {"code": 1, "message": "m", "data": data}})
    )
    assert isinstance(message, JSONRPCError)
    assert (failure_cause(ours.error), failure_cause(message.error)) == ("session", None)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b"<html>", "it is not a JSON-RPC message"),
        (b'{"jsonrpc":"2.0","id":8,"result":{}}', "it answers another request (8)"),
        (b'{"jsonrpc":"2.0","id":7,"result":null}', "its result is null"),
    ],
)
def test_the_answer_to_a_request_over_http(body: bytes, reason: str) -> None:
    message = read_answer(body, 7)
    assert isinstance(message, JSONRPCError)
    assert (message.id, failure_cause(message.error)) == (7, "unreadable")
    assert reason in message.error.message


@pytest.mark.parametrize("id", ["7", 7])
def test_the_right_answer_over_http_is_passed_on(id: Any) -> None:
    assert isinstance(
        read_answer(json.dumps({"jsonrpc": "2.0", "id": id, "result": {}}).encode(), 7), JSONRPCResponse
    )
    for other in (None, "server-error", 7):
        message = read_answer(
            json.dumps({"jsonrpc": "2.0", "id": other, "error": {"code": 1, "message": "m"}}).encode(), 7
        )
        assert isinstance(message, JSONRPCError)
        assert (message.id, message.error.message) == (7, "m")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "result", "a"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(VALUES, st.integers(0, 10**17), st.permutations(["jsonrpc", "id", "result"]), st.data())
def test_a_damaged_answer_never_fails_another_request(
    value: Any, id: int, order: list[str], data: st.DataObject
) -> None:
    """However it is damaged, and whatever ids it contains."""
    fields = {"jsonrpc": "2.0", "id": id, "result": {"id": id + 1, "value": value, "items": [{"id": id + 1}]}}
    line = json.dumps({name: fields[name] for name in order}).encode()
    at = data.draw(st.integers(0, len(line)))
    damaged = line[:at] + data.draw(st.sampled_from([b"\x00", b"'", b",", b"}", b"{"])) + line[at:]
    for message in read_messages(damaged):  # the beginning of its id is left if the id itself is damaged
        assert str(id).startswith(str(getattr(message, "id", id)))
    assert find_answered_id(line[:300], line[-300:]) in (id, None)
