"""Record exchanges to a JSON Lines file and replay them, for tests without a network.

A line: {"request": {"method", "path", "body"}, "answer": {"status", "headers", "body", "base64"}}. It never
contains a key: request headers are not recorded, and texts are redacted. A replay answers equal requests in
the order in which they were recorded; a miss names the nearest recording and the first difference. A streamed
reply can also be replayed whole, and vice versa, so that one recording serves both `run` and `stream`.
"""

import asyncio
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from toolglot.common.jsontext import dumps, dumps_text, loads
from toolglot.common.loggers import get_logger
from toolglot.common.redact import REDACTED, encode_secret, redact
from toolglot.engine.transport import PUBLIC_HEADERS, HttpRequest, HttpResponse, Transport, send
from toolglot.errors import MalformedData, ReplayMiss, ToolglotError, UsageError
from toolglot.simulator.routes import find_route
from toolglot.wire.codec import create_reader, load_reply_encoder
from toolglot.wire.reply_encoding import split_reply
from toolglot.wire.spec import SPECS

__all__ = ["RecordingTransport", "ReplayTransport"]

log = get_logger("toolglot.engine")
# all that the engine reads
_RECORDED_HEADERS = ("content-type", "retry-after", "retry-after-ms", "x-should-retry")
_QUERY_KEY = re.compile(r"([?&](?:key|api[_-]?key|token|access_token|sig|signature)=)[^&]*", re.IGNORECASE)
_STREAM_FIELD = re.compile(r"body\.stream(_options(\..*)?)?")
_FlatRequest = dict[str, str]
"""The path of each value in a request, such as `body.messages[0].content`, and the value as JSON."""


class _RequestRecord(msgspec.Struct, frozen=True):
    method: str
    path: str
    body: Any


class _ResponseRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    status: int
    headers: dict[str, str]
    body: str
    base64: bytes = b""  # the body if it is not text, such as an AWS event stream


class _Exchange(msgspec.Struct, frozen=True):
    request: _RequestRecord
    answer: _ResponseRecord


# ---- recording


class RecordingTransport:
    """Sends requests through another transport and records every exchange in a file, which is truncated
    first.

    If an exchange cannot be written, as on a full disk, its reply is delivered all the same, an error is
    logged, and nothing more is recorded: the file keeps the exchanges before it.
    """

    def __init__(self, inner: Transport, path: str | Path) -> None:
        self._inner, self._file = inner, _RecordingFile(Path(path))
        try:
            # Readable only by its owner, because it contains whole conversations. Publishing it is the
            # owner's decision.
            with open(path, "wb", opener=partial(os.open, mode=0o600)):
                pass
        except OSError as e:
            raise UsageError(f"cannot write the recording {str(path)!r}: {e.strerror}") from None

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request, and record the exchange once the response has been read."""
        return _RecordingResponse(await send(self._inner, request), request, self._file)

    async def close(self) -> None:
        """Close the inner transport."""
        close = getattr(self._inner, "close", None)
        if close is not None:
            await close()


class _RecordingFile:
    """The file of a recording.

    Once an exchange cannot be written, `failure` says why, and nothing more is.
    """

    def __init__(self, path: Path) -> None:
        self.failure = ""
        self._path, self._lock = path, Lock()

    def append(self, line: bytes) -> None:
        """Write an exchange; never raises.

        It is a local error: the request must neither be repeated nor sent to another provider, and its reply
        is paid for.
        """
        with self._lock:  # exchanges that end at the same time do not mix
            if self.failure:
                return
            try:
                self._write(line, os.path.getsize(self._path))
            except OSError as e:
                self.failure = f"the recording {str(self._path)!r} cannot be written: {e.strerror}"
                log.error("%s; the run continues, but nothing more is recorded", self.failure)

    def _write(self, line: bytes, size: int) -> None:
        try:
            with self._path.open("ab") as file:
                file.write(line)
        except OSError:
            with suppress(OSError):  # half an exchange would make those before it useless
                os.truncate(self._path, size)
            raise


class _RecordingResponse:
    """Passes a response through and records it as far as it was read.

    A response that failed midway is not recorded.
    """

    def __init__(self, inner: HttpResponse, request: HttpRequest, file: _RecordingFile) -> None:
        self._inner, self._request, self._file = inner, request, file
        self._parts: list[bytes] = []
        self._is_finished = False

    @property
    def status(self) -> int:
        return self._inner.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._inner.headers

    async def read(self) -> bytes:
        try:
            data = await self._inner.read()
        except BaseException:
            self._is_finished = True  # a replay could not reproduce the failure
            raise
        self._parts.append(data)
        if not data:
            await self._write()
        return data

    async def close(self) -> None:
        await self._inner.close()
        await self._write()

    async def _write(self) -> None:
        if self._is_finished:
            return
        self._is_finished = True  # before the await: `close` may run meanwhile
        secrets = _secret_header_values(self._request)
        headers = {
            name: redact(self.headers[name], secrets) for name in _RECORDED_HEADERS if name in self.headers
        }
        body = b"".join(self._parts)
        try:
            response = _ResponseRecord(self.status, headers, redact(body.decode(), secrets))
        except UnicodeDecodeError:
            for form in (form for secret in filter(None, secrets) for form in encode_secret(secret)):
                body = body.replace(form.encode(), REDACTED.encode())
            response = _ResponseRecord(self.status, headers, "", body)
        line = dumps(_Exchange(_record_request(self._request), response)) + b"\n"
        await asyncio.to_thread(self._file.append, line)


def _secret_header_values(request: HttpRequest) -> list[str]:
    """Return the values of all headers not known to be public: callers add their own, which may hold secrets."""
    return [
        value.removeprefix("Bearer ")
        for name, value in request.headers.items()
        if name.lower() not in PUBLIC_HEADERS
    ]


def _record_request(request: HttpRequest) -> _RequestRecord:
    """Return a request as it is stored and compared."""
    secrets, url = _secret_header_values(request), urlsplit(request.url)
    path = _QUERY_KEY.sub(r"\1", url.path + (f"?{url.query}" if url.query else ""))
    text = redact(request.body.decode("utf-8", "replace"), secrets)
    try:
        body = loads(text)
    except ValueError:
        body = text
    return _RequestRecord(request.method, redact(path, secrets), body)


# ---- replay


class ReplayTransport:
    """Answers requests from recordings only, so tests need no API key."""

    key = "key-of-a-replay"
    """The key that an engine uses if none is passed; recordings contain no keys."""

    def __init__(self, *paths: str | Path) -> None:
        exchanges = [exchange for path in paths for exchange in _load_exchanges(Path(path))]
        self._remaining = [(_flatten_request(exchange.request), exchange.answer) for exchange in exchanges]
        self._replayed: list[_FlatRequest] = []

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Return the recorded response. Raises ReplayMiss."""
        actual = _flatten_request(_record_request(request))
        content = _drop_streaming(actual)
        indexes = range(len(self._remaining))  # equal requests: in the order of recording
        index = next((index for index in indexes if self._remaining[index][0] == actual), None)
        if index is None:
            index = next(
                (index for index in indexes if _drop_streaming(self._remaining[index][0]) == content), None
            )
        if index is None:
            raise ReplayMiss(self._describe_miss(actual))
        recorded, answer = self._remaining.pop(index)
        self._replayed.append(actual)
        if recorded != actual and answer.status == 200:
            answer = _change_streaming(answer, actual, stream=request.stream)
        return _ReplayedResponse(answer)

    @property
    def remaining_count(self) -> int:
        """The number of recorded exchanges that have not been replayed yet."""
        return len(self._remaining)

    def _describe_miss(self, actual: _FlatRequest) -> str:
        if not self._remaining:
            used = f": all {len(self._replayed)} recorded exchanges were used" if self._replayed else ""
            return f"nothing is recorded for {_describe_request(actual)}{used}"
        if actual in self._replayed:
            return (
                f"the recording of this request ({_describe_request(actual)}) was already used: it was "
                "sent once too often"
            )
        nearest: _FlatRequest = {}
        differences: list[str] | None = None
        for recorded, _ in self._remaining:
            places = [where for where in {**recorded, **actual} if recorded.get(where) != actual.get(where)]
            if differences is None or len(places) < len(differences):
                nearest = recorded
                differences = places
        assert differences
        where = differences[0]
        recorded, sent = _excerpt_difference(nearest.get(where, "nothing"), actual.get(where, "nothing"))
        others = f" (and {len(differences) - 1} more)" if len(differences) > 1 else ""
        return (
            f"no recording of this request; the nearest is {_describe_request(nearest)}, which differs at "
            f"{where}: "
            f"recorded {recorded}, sent {sent}{others}"
        )


class _ReplayedResponse:
    def __init__(self, record: _ResponseRecord) -> None:
        self.status, self.headers = record.status, record.headers
        self._body = record.base64 or record.body.encode()

    async def read(self) -> bytes:
        data, self._body = self._body, b""
        return data

    async def close(self) -> None:
        pass


def _excerpt_difference(left: str, right: str) -> tuple[str, str]:
    """Return both texts, or of a long one the part where they start to differ."""
    same = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        same += 1
    else:
        same = 0  # one begins with the other
    start = max(0, same - 30)
    return _excerpt(left, start), _excerpt(right, start)


def _excerpt(text: str, start: int) -> str:
    return text if len(text) <= 120 else f"…{text[start : start + 80]}…"


def _load_exchanges(path: Path) -> Iterator[_Exchange]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as e:
        raise MalformedData(f"cannot read the recording {str(path)!r}: {e.strerror}") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield msgspec.convert(loads(line), _Exchange)
            except ValueError as e:
                raise MalformedData(f"{path.name}, line {number}: not a recorded exchange ({e})") from None


def _flatten_request(request: _RequestRecord) -> _FlatRequest:
    return {"method": request.method, "path": request.path, **dict(_flatten(request.body, "body"))}


def _drop_streaming(request: _FlatRequest) -> _FlatRequest:
    """Return a request without the fields that choose between a stream and a whole reply."""
    kept = {where: value for where, value in request.items() if not _STREAM_FIELD.fullmatch(where)}
    return {**kept, "path": request["path"].replace(":streamGenerateContent?alt=sse", ":generateContent")}


def _change_streaming(answer: _ResponseRecord, request: _FlatRequest, *, stream: bool) -> _ResponseRecord:
    """Convert a recorded reply to a stream, or to a whole reply."""
    wire = find_route(request["path"]).wire
    reader = create_reader(wire, streaming=not stream, content_type=answer.headers.get("content-type", ""))
    try:
        reader.feed(answer.base64 or answer.body.encode())
        reader.close()
        reply = reader.reply
        encoder = load_reply_encoder(wire)(reply.origin.model if reply.origin else "", origin=reply.origin)
        body = (
            b"".join(encoder.feed(event) for event in split_reply(reply))
            if stream
            else dumps(encoder.encode_reply(reply))
        )
        if encoder.losses:
            raise MalformedData(str(encoder.losses[0]))
    except ToolglotError as e:
        form = "whole" if stream else "as a stream"
        raise ReplayMiss(
            f"this reply was recorded {form}, and cannot be converted ({e}): record it again"
        ) from e
    return _ResponseRecord(
        200, {"content-type": SPECS[wire].stream_type if stream else "application/json"}, body.decode()
    )


def _flatten(value: Any, where: str) -> Iterator[tuple[str, str]]:
    match value:
        case dict() if value:
            for key, item in cast(dict[str, Any], value).items():
                yield from _flatten(item, f"{where}.{key}")
        case list() if value:
            for index, item in enumerate(cast(list[Any], value)):
                yield from _flatten(item, f"{where}[{index}]")
        case _:
            yield where, dumps_text(value)


def _describe_request(request: _FlatRequest) -> str:
    return f"{request['method']} {request['path']}"
