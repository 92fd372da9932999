"""The storm of misbehaving MCP servers: each kind with a call beside it, and one after it.

`KINDS` says what the call itself becomes. The calls beside it and after it get their own results, always;
only the death of a process that all calls share ends the one beside it, or the one that is sent while it
dies, with an unknown outcome."""

import asyncio
import re
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import msgspec
from msgspec.structs import replace
from tests.mcp.client_kit import run
from tests.mcp.misbehaving_http import serve_misbehaving

from toolglot import ToolResult
from toolglot.mcp import McpServer, McpServers

SCRIPT = Path(__file__).parent / "servers" / "misbehaving.py"
HANG_SECONDS = 30.0
SHORT_SECONDS = 1.5
"""The timeout of calls that are never answered."""
_RAW = re.compile(r"Traceback|pydantic|validation error|\b[A-Z]\w+(?:Error|Exception)\(|<class |object at 0x")
_numbers = count(1)


class Kind(msgspec.Struct, frozen=True):
    """A kind of misbehaviour. `text`: in the result of the call."""

    text: str
    is_error: bool = True
    is_silent: bool = False
    """Only its timeout can end the call."""
    ends_others: bool = False
    """The process ends, and with it the call beside."""
    ends_later: bool = False
    """The process ends after its answers: the next call may still be sent to it."""


DONE = Kind("done", is_error=False)
CANNOT = "s may have run the call, but its answer cannot be read: "
DEAD = Kind("may or may not have run", ends_others=True)
SILENT = Kind("did not answer within 1.5 s", is_silent=True)
STDIO = {
    "null result": Kind(CANNOT + "its result is null instead of an object."),
    "list result": Kind(CANNOT + "its result is an array instead of an object."),
    "text result": Kind(CANNOT + "its result is a number instead of an object."),
    "nothing": Kind(CANNOT + "it has neither a result nor an error."),
    "deep result": Kind(CANNOT + "it is nested too deeply."),
    "deep result, id last": Kind(CANNOT + "it is nested too deeply."),
    "abyss": Kind(CANNOT + "it is nested too deeply."),
    "NaN": Kind(CANNOT + "it contains NaN or an infinity"),
    "1e999": Kind(CANNOT + "it contains NaN or an infinity"),
    "-Infinity": Kind(CANNOT + "it contains NaN or an infinity"),
    "huge number": Kind(CANNOT + "it contains a number with thousands of digits."),
    "invalid UTF-8": Kind("done \ufffd", is_error=False),
    "half a character": Kind("done \ufffd", is_error=False),
    "torn line": Kind(CANNOT + "it is not valid JSON"),
    "overlong": Kind("s may have run the call, but its answer has 33 MB, more than the limit of 32 MB."),
    "overlong, id last": Kind(
        "s may have run the call, but its answer has 33 MB, more than the limit of 32 MB."
    ),
    "cancelled": Kind("s cancelled the call (out of cheese). It may have had effects."),
    "cancelled as text": Kind("s cancelled the call. It may have had effects."),
    "cancels nothing": DONE,
    "error text": Kind("s: out of cheese"),
    "error without a code": Kind("s: out of cheese"),
    "error of a lost connection": Kind("s: out of cheese"),
    "error with odd details": Kind("s: out of cheese"),
    "error without an id": SILENT,
    "unknown id": SILENT,
    "id as text": DONE,
    "two answers": DONE,
    "banners": DONE,
    "answers on one line": DONE,
    "byte order mark": DONE,
    "slow pieces": DONE,
    "flood": DONE,
    "odd notifications": DONE,
    "odd requests": DONE,
    "content of no kind": Kind("s may have run the call, but its response is not valid MCP"),
    "unknown part": Kind("hologram", is_error=False),
    "old version": Kind(CANNOT + 'it is not JSON-RPC 2.0: the field "jsonrpc" is missing or wrong.'),
    "silence": SILENT,
    "death": DEAD,
    "answer, then death": Kind("done", is_error=False, ends_later=True),
    "closed output": DEAD,
    "closed input": DEAD,
    "noise on stderr": DONE,
    "broken list": DONE,
}
HTTP = {
    "expired session, empty": DONE,
    "expired session, text": DONE,
    "expired session, error": DONE,
    "status 400": Kind("s: it responded with HTTP 400"),
    "status 401": Kind(
        "The call did not run: s requires you to sign in; run this in a terminal: toolglot mcp test s;"
    ),
    "status 429": Kind("s: it responded with HTTP 429"),
    "status 500": Kind("s: it responded with HTTP 500"),
    "status 503": Kind("s: it responded with HTTP 503"),
    "status 500 with an error": Kind("s: out of cheese"),
    "status 202": Kind("202"),
    "status 204": Kind("s: "),
    "redirect": Kind("http://127.0.0.1:1/ not followed"),
    "page": Kind("text/html"),
    "empty": Kind(CANNOT + "it is empty."),
    "no json": Kind(CANNOT + "it is not a JSON-RPC message."),
    "null result": Kind(CANNOT + "its result is null instead of an object."),
    "deep result": Kind(CANNOT + "it is nested too deeply."),
    "NaN": Kind(CANNOT + "it contains NaN or an infinity"),
    "another answer": Kind(CANNOT + "it answers another request ("),
    "a request": SILENT,
    "two answers": DONE,
    "events without an answer": Kind("may or may not have run"),
    "event with a null result": Kind(CANNOT + "its result is null instead of an object."),
    "event, deep": Kind(CANNOT + "it is nested too deeply."),
    "event of another call": Kind(CANNOT + "it answers another request ("),
    "event that is no json": Kind(CANNOT + "it is not a JSON-RPC message."),
    "event, cancelled": Kind("s cancelled the call (out of cheese). It may have had effects."),
    "odd events": DONE,
    "hang-up": Kind("may or may not have run"),
    "hang-up in the answer": Kind("may or may not have run"),
    "broken chunks": Kind("may or may not have run"),
    "hang-up in an event": Kind("may or may not have run"),
    "no HTTP": Kind("may or may not have run"),
    "endless header": Kind("may or may not have run"),
    "compressed": Kind("s may have run the call, but it sent compressed data (gzip) that was not requested."),
    "overlong": Kind("s may have run the call, but its answer has 32 MB, more than the limit of 32 MB."),
    "overlong event": Kind(
        "s may have run the call, but its answer has 32 MB, more than the limit of 32 MB."
    ),
    "silence": SILENT,
}
KINDS = {"stdio": STDIO, "http": HTTP}


@contextmanager
def open_servers(transport: str) -> Generator[dict[bool, McpServers]]:
    """Connect to a misbehaving server; by whether its calls are never answered."""
    with serve_misbehaving() as url:
        if transport == "stdio":
            patient = McpServer(command=sys.executable, args=("-I", "-S", str(SCRIPT)))
        else:
            patient = McpServer(url=url)
        hasty = replace(patient, timeout=SHORT_SECONDS)
        with McpServers({"s": patient}) as answering, McpServers({"s": hasty}) as silent:
            yield {False: answering, True: silent}


async def find_faults(servers: dict[bool, McpServers], name: str, kind: Kind) -> list[str]:
    """Let a server misbehave; return what went wrong besides."""
    used = servers[kind.is_silent]
    first, second = next(_numbers), next(_numbers)
    try:
        async with asyncio.timeout(HANG_SECONDS):
            call, beside = await asyncio.gather(
                run(used, "misbehave", kind=name), run(used, "healthy", number=first, is_beside=True)
            )
            after = await run(used, "healthy", number=second, is_beside=False)
            if kind.ends_later and "may or may not have run" in after.text:
                after = await run(used, "healthy", number=second, is_beside=False)
    except TimeoutError:
        return [f"{name}: a call hangs"]
    except Exception as e:  # not a typed error, or one that is not a result
        return [f"{name}: raised {e!r}"]
    faults = [
        *_compare(call, kind.text, is_error=kind.is_error),
        *_compare(after, f"healthy {second}", is_error=False),
    ]
    if not kind.ends_others:
        faults += _compare(beside, f"healthy {first}", is_error=False)
    elif beside.is_error:
        faults += _compare(beside, "may or may not have run", is_error=True)
    return [f"{name}: {fault}" for fault in faults]


def _compare(result: ToolResult, text: str, *, is_error: bool) -> Iterable[str]:
    if text not in result.text or result.is_error is not is_error:
        yield f"expected {text!r}, got {result.text[:300]!r}"
    if match := _RAW.search(result.text):
        yield f"a raw exception: {match[0]!r} in {result.text[:300]!r}"
    if not is_error and text.startswith("healthy") and result.text != text:
        yield f"a wrong result: {result.text[:300]!r}"
