"""The HTTP client of the SDK's transport: every request gets an answer that the SDK can read, and none ends
the connection.

The SDK ends a connection with all of its calls if the body of one response cannot be read, passes a 404 with
a body on as an ordinary error, and takes an answer to another request for the right one. Here a response is
read before the SDK does.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import msgspec
from mcp.client.auth import OAuthFlowError
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCMessage

from toolglot.errors import UsageError
from toolglot.mcp.client.answers import failure_cause, make_failure, read_answer, report_overlong
from toolglot.mcp.client.oauth_gate import DIRECT_HOSTS, OAuthGate
from toolglot.mcp.client.stdio import MAX_MESSAGE
from toolglot.tools.results import describe_error

__all__ = ["OWN_REQUEST", "McpHttpClient"]

OWN_REQUEST = "toolglot.own_request"
"""The mark of requests to the server itself; those that its sign-in makes have none."""
_CONNECT_SECONDS, _END_SECONDS = 30.0, 3.0
_SESSION = "mcp-session-id"
_JSON = "application/json"
_STARTING = ("initialize", "server/discover")
_LINE_END = re.compile(rb"\r\n|\r|\n")


class _Envelope(msgspec.Struct):
    """The parts of a JSON-RPC request that tell which answer belongs to it."""

    jsonrpc: str
    method: str
    id: int | str | None = None


class McpHttpClient(httpx2.AsyncClient):
    """Sends requests to one server.

    `on_status` receives every HTTP status, `on_end` why the connection must end.
    """

    def __init__(
        self,
        headers: dict[str, str],
        auth: httpx2.Auth | None,
        gate: OAuthGate | None,
        on_status: Callable[[int], None],
        on_end: Callable[[str], None],
    ) -> None:
        super().__init__(
            # Calls are timed elsewhere; an event stream may stay silent indefinitely.
            timeout=httpx2.Timeout(_CONNECT_SECONDS, read=None),
            headers={"accept-encoding": "identity", **headers},
            auth=auth,
            mounts={f"all://{host}": None for host in DIRECT_HOSTS},
            event_hooks={"request": [self._check_request], "response": [self._check_response]},
        )
        self._gate, self._on_status, self._on_end = gate, on_status, on_end

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request of the SDK's transport."""
        request.extensions = {**request.extensions, OWN_REQUEST: True}
        envelope = _read_envelope(request)
        if request.method == "DELETE":  # it ends a session, and the next one begins after it
            async with asyncio.timeout(_END_SECONDS):
                return await super().send(request, **options)
        if envelope is None:
            return await super().send(request, **options)
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as e:
            if envelope.id is None:  # a notification that is lost must not end the connection
                return httpx2.Response(202, request=request)
            # nothing was sent: the connection is made again
            if isinstance(e, httpx2.ConnectError | httpx2.ConnectTimeout):
                raise
            reason = f"it closed the connection without an answer: {describe_error(e)}"
            return _respond(request, make_failure(envelope.id, "lost", reason))
        except (UsageError, OAuthFlowError) as e:
            if envelope.method in _STARTING:
                raise
            if envelope.id is None:
                return httpx2.Response(202, request=request)
            # Other calls, which the server may let in, go on.
            reason = str(e) if isinstance(e, UsageError) else f"signing in failed: {str(e).strip()}"
            return _respond(request, make_failure(envelope.id, "refused", reason))
        return response if envelope.id is None else await self._check_answer(response, envelope.id)

    async def _check_answer(self, response: httpx2.Response, request_id: int | str) -> httpx2.Response:
        status, request = response.status_code, response.request
        media_type = response.headers.get("content-type", "").lower()
        failure: JSONRPCError | None = None
        if status == 404 and _SESSION in request.headers:  # whatever its body is
            failure = make_failure(request_id, "session", "its session has expired")
        elif (encoding := _find_encoding(response)) is not None:
            reason = f"it sent compressed data ({encoding}) that was not requested"
            failure = make_failure(request_id, "unreadable", reason)
        elif media_type.startswith(_JSON):
            response.stream = _AnswerStream(response.stream, request_id, status)
        elif status >= 400 and status != 404:  # without a session, the SDK takes 404 for an unknown method
            failure = _make_status_error(request_id, status)
        elif media_type.startswith("text/event-stream"):
            response.stream = _EventStream(response.stream, request_id)
        if failure is None:
            return response
        await response.aclose()
        return _respond(request, failure)

    async def _check_request(self, request: httpx2.Request) -> None:
        if self._gate is not None and OWN_REQUEST not in request.extensions:
            await self._gate.check_request(request)

    async def _check_response(self, response: httpx2.Response) -> None:
        request = response.request
        self._on_status(response.status_code)
        if self._gate is not None:
            self._gate.note_response(response)
        envelope = _read_envelope(request) if OWN_REQUEST in request.extensions else None
        if envelope is not None and envelope.id is not None:
            return  # `send` checks it
        if (encoding := _find_encoding(response)) is not None:
            raise self._refuse(f"it sent compressed data ({encoding}) that was not requested")
        is_events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        response.stream = _LimitedStream(response.stream, self._refuse, is_events=is_events)

    def _refuse(self, reason: str) -> Exception:
        self._on_end(reason)
        return httpx2.RemoteProtocolError(reason)


def _read_envelope(request: httpx2.Request) -> _Envelope | None:
    """Return what a request says about itself; None if it is no JSON-RPC message."""
    if request.method != "POST":
        return None
    try:
        return msgspec.json.decode(request.content, type=_Envelope)
    except msgspec.MsgspecError:  # an answer to a request of the server's
        return None


def _find_encoding(response: httpx2.Response) -> str | None:
    """Return how a body is compressed, if it is: a few bytes could become gigabytes."""
    encoding: str = response.headers.get("content-encoding", "identity").lower()
    return None if encoding == "identity" else encoding[:20]


def _respond(request: httpx2.Request, message: JSONRPCMessage) -> httpx2.Response:
    """Return a response with this message instead of the server's."""
    return httpx2.Response(
        200, headers={"content-type": _JSON}, stream=_Bytes(_encode(message)), request=request
    )


def _make_status_error(request_id: int | str, status: int) -> JSONRPCError:
    hint = ": it does not accept the Authorization header" if status in (401, 403) else ""
    error = ErrorData(code=INTERNAL_ERROR, message=f"it responded with HTTP {status}{hint}")
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def _encode(message: JSONRPCMessage) -> bytes:
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode()


class _Bytes(httpx2.AsyncByteStream):
    def __init__(self, data: bytes) -> None:
        self._data = data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._data


class _WrappedStream(httpx2.AsyncByteStream):
    """A body that is changed while it is read."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def aclose(self) -> None:
        await self._stream.aclose()


class _LimitedStream(_WrappedStream):
    """A body with a size limit: per line for an event stream, in total for anything else."""

    def __init__(self, stream: Any, refuse: Callable[[str], Exception], *, is_events: bool) -> None:
        super().__init__(stream)
        self._refuse, self._is_events = refuse, is_events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            at = chunk.rfind(b"\n") if self._is_events else -1
            size = len(chunk) - at - 1 if at >= 0 else size + len(chunk)
            if size > MAX_MESSAGE:
                raise self._refuse(f"it sent more than {MAX_MESSAGE >> 20} MB at once")
            yield chunk


class _AnswerStream(_WrappedStream):
    """A JSON body: the answer to a request, or its failure."""

    def __init__(self, stream: Any, request_id: int | str, status: int) -> None:
        super().__init__(stream)
        self._request_id, self._status = request_id, status

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body = bytearray()
        try:
            async for chunk in self._stream:
                body += chunk
                if len(body) > MAX_MESSAGE:
                    yield _encode(report_overlong(self._request_id, len(body), MAX_MESSAGE))
                    return
        except httpx2.TransportError as e:
            yield _encode(
                make_failure(self._request_id, "lost", f"its answer broke off: {describe_error(e)}")
            )
            return
        message = read_answer(bytes(body), self._request_id)
        is_error = isinstance(message, JSONRPCError) and failure_cause(message.error) is None
        if self._status >= 400 and self._status != 404 and not is_error:
            message = _make_status_error(self._request_id, self._status)
        yield _encode(message)


class _EventStream(_WrappedStream):
    """The events that answer a request: its answer comes last, or its failure."""

    def __init__(self, stream: Any, request_id: int | str) -> None:
        super().__init__(stream)
        self._request_id = request_id

    async def __aiter__(self) -> AsyncIterator[bytes]:
        event, parts, size, ends_cr = _Event(), list[bytes](), 0, False
        async for chunk in self._stream:
            if ends_cr and chunk[:1] == b"\n":  # the second half of a line break
                chunk = chunk[1:]
            ends_cr = chunk[-1:] == b"\r" or (ends_cr and not chunk)
            *lines, remainder = _LINE_END.split(chunk)
            for line in lines:
                parts.append(line)
                if event.add(b"".join(parts)):
                    yield event.encode(self._request_id)
                    event = _Event()
                parts, size = [], 0
            parts.append(remainder)
            size += len(remainder)
            if event.size + size > MAX_MESSAGE:
                failure = report_overlong(self._request_id, event.size + size, MAX_MESSAGE)
                yield b"data: " + _encode(failure) + b"\n\n"
                return
        event.add(b"".join(parts))
        if event.data:  # the server forgot the empty line
            yield event.encode(self._request_id)


class _Event:
    """A server-sent event while it is read."""

    def __init__(self) -> None:
        self.name, self.data, self.size = b"", list[bytes](), 0
        self._lines: list[bytes] = []  # for the SDK: the position in the stream, and when to return

    def add(self, line: bytes) -> bool:
        """Add a line; whether it ends the event."""
        if not line:
            return True
        self.size += len(line)
        field, _, value = line.partition(b":")
        if field == b"data":
            self.data.append(value.removeprefix(b" "))
        elif field:  # no comment
            self._lines.append(line)
        if field == b"event":
            self.name = value.strip()
        return False

    def encode(self, request_id: int | str) -> bytes:
        """Return the event for the SDK, with a message that it can read."""
        data = b"\n".join(self.data)
        if data.strip() and self.name in (b"", b"message"):
            data = _encode(read_answer(data, request_id))
        lines = [*self._lines, *(b"data: " + line for line in data.split(b"\n") if self.data)]
        return b"\n".join([*lines, b"", b""])
