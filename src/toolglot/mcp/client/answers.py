"""Reads a server's messages.

An answer that cannot be read becomes an error, with which its request ends at once.

The SDK drops what it cannot read, and the request would wait until it times out. The errors that are made
here carry a secret, because after some of them a call is retried: a server must not be able to imitate them.
"""

import json
import re
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, cast

from toolglot.common.jsontext import MAX_DEPTH, dumps_text, is_portable, json_type_name
from toolglot.common.textutil import truncate

if TYPE_CHECKING:
    from mcp_types import ErrorData, JSONRPCError, JSONRPCMessage

__all__ = [
    "LISTS",
    "FailureCause",
    "failure_cause",
    "find_answered_id",
    "make_failure",
    "read_answer",
    "read_messages",
    "report_overlong",
]

FailureCause = Literal["session", "refused", "unreadable", "lost", "cancelled"]
"""Why a request failed without an answer of its server's own:
session: the server did not know the session; nothing ran.
refused: the request was not let through, for example because signing in failed; nothing ran.
unreadable: there is an answer that cannot be read; the request may have run.
lost: the connection ended before the answer did; the request may have run.
cancelled: the server cancelled the request, which may have had effects.
"""
_SECRET = secrets.token_hex(16)
_BOM = b"\xef\xbb\xbf"
_MAX_ERROR_CHARS = 2_000
_TOO_DEEP = "it is nested too deeply"
LISTS = {
    "tools": "tools/list",
    "prompts": "prompts/list",
    "resources": "resources/list",
    "resourceTemplates": "resources/templates/list",
}
"""The fields that hold lists, and the requests that return them: one bad item does not spoil the others."""
# Unpaired surrogates, which JSON in Python and JavaScript may contain and the SDK refuses.
_UNPAIRED_SURROGATE = re.compile(
    r"\\ud[89ab][0-9a-f]{2}(?!\\ud[c-f][0-9a-f]{2})|(?<!\\ud[89ab][0-9a-f]{2})\\ud[c-f][0-9a-f]{2}",
    re.IGNORECASE,
)
# The id of an answer that cannot be parsed: SDKs write it before or after the result. The patterns are
# anchored, because a result may contain ids, too. A request that the server sends has a method instead of a
# result.
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"'
_ID = rb'"id"\s*:\s*"?(\d{1,18})"?'
_ANSWER = rb'"(?:result|error)"\s*:'
# {"jsonrpc": "2.0", "id": 7, "result": …
_ID_FIRST = re.compile(
    rb"\s*\{\s*(?:%s\s*,\s*)?%s\s*,\s*(?:%s\s*,\s*)?%s" % (_VERSION, _ID, _VERSION, _ANSWER)
)
# {"jsonrpc": "2.0", "result": …
_ANSWER_FIRST = re.compile(rb"\s*\{\s*(?:%s\s*,\s*)?%s" % (_VERSION, _ANSWER))
# …, "id": 7}
_ID_LAST = re.compile(
    rb",\s*%s\s*(?:,\s*%s\s*)?\}\s*\Z|,\s*%s\s*,\s*%s\s*\}\s*\Z" % (_ID, _VERSION, _VERSION, _ID)
)
_MAX_PER_LINE = 100
_SEARCHED_BYTES = 300
"""Bytes at each end of an answer that are searched for its id."""


def make_failure(request_id: int | str, cause: FailureCause, reason: str) -> "JSONRPCError":
    """Return an error that ends a request in place of an answer from its server."""
    from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError

    error = ErrorData(code=INTERNAL_ERROR, message=reason, data={"toolglot": _SECRET, "cause": cause})
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def failure_cause(error: "ErrorData | Any") -> FailureCause | None:
    """Return the cause of a failure that `make_failure` made; None for an error of the server's own."""
    data = error.data
    if not isinstance(data, dict) or cast(dict[str, Any], data).get("toolglot") != _SECRET:
        return None
    return cast(dict[str, Any], data)["cause"]


def find_answered_id(head: bytes, tail: bytes) -> int | None:
    """Return the id of the request that a damaged answer belongs to, from its first and last bytes."""
    if match := _ID_FIRST.match(head):
        return int(match[1])
    if _ANSWER_FIRST.match(head) and (match := _ID_LAST.search(tail)):
        return int(match[1] or match[2])
    return None


def report_overlong(request_id: int | str, size: int, limit: int) -> "JSONRPCError":
    """Return the failure of a request whose answer is longer than the limit."""
    reason = f"its answer has {size >> 20} MB, more than the limit of {limit >> 20} MB"
    return make_failure(request_id, "unreadable", reason)


def read_messages(line: bytes) -> "list[JSONRPCMessage]":
    """Read a line: one message, or several that a server's threads wrote at once; none if it is a banner or
    debug output.
    """
    messages: list[JSONRPCMessage] = []
    for _ in range(_MAX_PER_LINE):
        message, line = _read_first(line)
        if message is not None:
            messages.append(message)
        if not line:
            break
    return messages


def _read_first(data: bytes) -> "tuple[JSONRPCMessage | None, bytes]":
    """Read the first message; return what follows it, too."""
    from mcp_types import jsonrpc_message_adapter

    data = data.removeprefix(_BOM)
    with suppress(ValueError):  # pydantic's; most messages are valid
        return _make_reliable(jsonrpc_message_adapter.validate_json(data, by_name=False)), b""
    # Bytes that are not UTF-8 and unpaired surrogates, which the SDK refuses, lose only the characters that
    # they stand for.
    text = _UNPAIRED_SURROGATE.sub(r"\\ufffd", data.decode(errors="replace"))
    with suppress(ValueError):
        return _make_reliable(jsonrpc_message_adapter.validate_json(text, by_name=False)), b""
    try:  # JSON with a structure that the SDK refuses, or that pydantic's parser does
        return _read_odd_message(json.loads(text)), b""
    except (ValueError, RecursionError) as e:
        if isinstance(e, json.JSONDecodeError) and e.msg == "Extra data":  # one value, and then another
            return _read_first(text[: e.pos].encode())[0], text[e.pos :].encode()
        # Not JSON: what its beginning and its end still tell.
        request_id = find_answered_id(text[:_SEARCHED_BYTES].encode(), text[-_SEARCHED_BYTES:].encode())
        return None if request_id is None else _make_unreadable(request_id, _describe_syntax(e)), b""


def read_answer(data: bytes, request_id: int | str) -> "JSONRPCMessage":
    """Read a message that was sent in answer to this request alone.

    If it is not an answer to it, return a failure.
    """
    from mcp_types import JSONRPCError, JSONRPCResponse

    message, _ = _read_first(data)
    if message is None:
        return _make_unreadable(request_id, "it is not a JSON-RPC message" if data.strip() else "it is empty")
    # servers that refuse a request before reading it do not know its id
    if isinstance(message, JSONRPCError):
        return JSONRPCError(jsonrpc="2.0", id=request_id, error=message.error)
    if isinstance(message, JSONRPCResponse) and str(message.id) != str(request_id):
        return _make_unreadable(request_id, f"it answers another request ({truncate(str(message.id), 40)})")
    return message


def _make_reliable(message: "JSONRPCMessage") -> "JSONRPCMessage":
    """Return a message with an error code and values that mean what the SDK and conversations take them for.

    The SDK validates the structure of a message only: its code may be one that the SDK uses itself, and its
    values such that no JSON can be written of them.
    """
    from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, JSONRPCError, JSONRPCResponse

    if isinstance(message, JSONRPCError) and message.error.code == CONNECTION_CLOSED:
        # the SDK uses the other to say that a connection has ended; servers, for anything
        message.error.code = INTERNAL_ERROR
    if isinstance(message, JSONRPCResponse):
        # whose items are checked singly
        fields = {name: value for name, value in message.result.items() if name not in LISTS}
        if not is_portable(fields):
            return _make_unreadable(
                message.id, f"it contains NaN or an infinity, or is nested more than {MAX_DEPTH} levels"
            )
    return message


def _read_odd_message(value: Any) -> "JSONRPCMessage | None":
    """Return the message that an unusual structure stands for; for an answer, the failure of its request."""
    from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest

    if not isinstance(value, dict):
        return None
    message = cast(dict[str, Any], value)
    # a line of a log, perhaps
    if "jsonrpc" not in message and not message.keys() <= {"id", "result", "error"}:
        return None
    request_id, method = message.get("id"), message.get("method")
    if isinstance(method, str) and "id" not in message:
        return JSONRPCNotification(jsonrpc="2.0", method=method)
    if isinstance(request_id, float) and request_id.is_integer():  # JSON knows one kind of number
        request_id = int(request_id)
    if not isinstance(request_id, int | str) or isinstance(request_id, bool):
        return None
    # without its malformed parameters, so that the server gets an error instead of no answer
    if isinstance(method, str):
        return JSONRPCRequest(jsonrpc="2.0", id=request_id, method=method)
    if (error := message.get("error")) is not None:
        text = cast(dict[str, Any], error).get("message") if isinstance(error, dict) else error
        text = text if isinstance(text, str) else dumps_text(error)
        return JSONRPCError(
            jsonrpc="2.0",
            id=request_id,
            error=ErrorData(code=INTERNAL_ERROR, message=truncate(text, _MAX_ERROR_CHARS)),
        )
    if "result" not in message:
        return _make_unreadable(request_id, "it has neither a result nor an error")
    if not isinstance(message["result"], dict):
        return _make_unreadable(
            request_id, f"its result is {json_type_name(message['result'])} instead of an object"
        )
    if message.get("jsonrpc") != "2.0":
        return _make_unreadable(request_id, 'it is not JSON-RPC 2.0: the field "jsonrpc" is missing or wrong')
    return _make_unreadable(request_id, _TOO_DEEP)


def _make_unreadable(request_id: int | str, reason: str) -> "JSONRPCError":
    """Return the failure of a request whose answer cannot be read.

    `reason`: a clause whose subject, "it", is the answer.
    """
    return make_failure(request_id, "unreadable", f"its answer cannot be read: {reason}")


def _describe_syntax(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return _TOO_DEEP
    if isinstance(error, json.JSONDecodeError):
        return f"it is not valid JSON ({error.msg} at character {error.pos + 1})"
    # The only other ValueError of json.loads: CPython refuses to convert integers of more than 4300 digits.
    return "it contains a number with thousands of digits"
