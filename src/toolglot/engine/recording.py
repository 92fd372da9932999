"""Record exchanges to a file of JSON lines, and replay them: tests without a network.

A line: {"request": {"method", "path", "body"}, "answer": {"status", "headers", "body" | "base64"}}. It never contains a key:
request headers are not recorded, and texts are redacted. A replay answers equal requests in the order of their
recording; a miss names the nearest recording and the first difference.
"""

import asyncio
import base64
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from toolglot.engine.transport import HttpRequest, HttpResponse, Transport
from toolglot.errors import MalformedData, ReplayMiss, UsageError
from toolglot.jsontext import dumps, dumps_text, loads
from toolglot.redact import redact

__all__ = ["RecordingTransport", "ReplayTransport"]

_RECORDED_HEADERS = ("content-type", "retry-after", "retry-after-ms", "x-should-retry")  # all that the engine reads
_PUBLIC_HEADERS = frozenset({"content-type", "user-agent", "accept", "anthropic-version", "anthropic-beta", "editor-version"})
_QUERY_KEY = re.compile(r"([?&](?:key|api[_-]?key|token|access_token|sig|signature)=)[^&]*", re.IGNORECASE)
_MISSING: Any = object()


class _RequestRecord(msgspec.Struct, frozen=True):
    method: str
    path: str
    body: Any


class _ResponseRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    status: int
    headers: dict[str, str]
    body: str | None = None
    base64: str | None = None

    @property
    def data(self) -> bytes:
        if self.base64 is not None:
            return base64.b64decode(self.base64)
        if self.body is None:
            raise ValueError("the answer has no body")
        return self.body.encode()


class _Exchange(msgspec.Struct, frozen=True):
    request: _RequestRecord
    answer: _ResponseRecord


# ---- recording


class RecordingTransport:
    """Sends through another transport and writes every exchange to a file, which is truncated first."""

    def __init__(self, inner: Transport, path: str | Path) -> None:
        self._inner, self._path = inner, Path(path)
        try:
            self._path.write_bytes(b"")
        except OSError as e:
            raise UsageError(f"cannot write the recording {str(path)!r}: {e.strerror}") from None

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request, and record the exchange once the response is read."""
        return _RecordingResponse(await self._inner.send(request), request, self._path)

    async def close(self) -> None:
        """Close the inner transport."""
        close = getattr(self._inner, "close", None)
        if close is not None:
            await close()


class _RecordingResponse:
    """Passes a response through. It is recorded as far as it was read; one that failed half-way is not recorded."""

    def __init__(self, inner: HttpResponse, request: HttpRequest, path: Path) -> None:
        self._inner, self._request, self._path = inner, request, path
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
        body, secrets = b"".join(self._parts), _secret_header_values(self._request)
        headers = {name: redact(self.headers[name], secrets) for name in _RECORDED_HEADERS if name in self.headers}
        try:
            response = _ResponseRecord(self.status, headers, redact(body.decode(), secrets))
        except UnicodeDecodeError:
            for secret in filter(None, secrets):
                body = body.replace(secret.encode(), b"[hidden]")
            response = _ResponseRecord(self.status, headers, base64=base64.b64encode(body).decode())
        line = dumps(_Exchange(_record_request(self._request), response)) + b"\n"

        def append() -> None:
            with self._path.open("ab") as file:  # one write: exchanges that end at the same time do not mix
                file.write(line)

        await asyncio.to_thread(append)


def _secret_header_values(request: HttpRequest) -> list[str]:
    """Every header that is not known to be public may hold a secret: callers add headers of their own."""
    return [value.removeprefix("Bearer ") for name, value in request.headers.items() if name.lower() not in _PUBLIC_HEADERS]


def _record_request(request: HttpRequest) -> _RequestRecord:
    """A request as it is stored and compared."""
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
    """Answers from recordings only."""

    def __init__(self, *paths: str | Path) -> None:
        self._remaining = [exchange for path in paths for exchange in _load_exchanges(Path(path))]
        self._replayed: list[_Exchange] = []

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Return the recorded response. Raises ReplayMiss."""
        record = _record_request(request)
        for exchange in self._remaining:  # the first match: equal requests are answered in the order of recording
            if next(_compare_requests(exchange.request, record), None) is None:
                self._remaining.remove(exchange)
                self._replayed.append(exchange)
                return _ReplayedResponse(exchange.answer)
        raise ReplayMiss(self._describe_miss(record))

    @property
    def remaining_count(self) -> int:
        """How many recorded exchanges have not been requested yet."""
        return len(self._remaining)

    def _describe_miss(self, request: _RequestRecord) -> str:
        if not self._remaining:
            used = f": all {len(self._replayed)} recorded exchanges were used" if self._replayed else ""
            return f"nothing is recorded for {request.method} {request.path}{used}"
        if any(next(_compare_requests(exchange.request, request), None) is None for exchange in self._replayed):
            return (
                f"the recording of this request ({request.method} {request.path}) was already used: it was sent once too often"
            )
        candidates = [(list(_compare_requests(exchange.request, request)), exchange.request) for exchange in self._remaining]
        differences, nearest = min(candidates, key=lambda candidate: len(candidate[0]))
        where, recorded, actual = differences[0]
        others = f" (and {len(differences) - 1} more)" if len(differences) > 1 else ""
        return (
            f"no recording of this request; the nearest is {nearest.method} {nearest.path}, which differs at {where}: "
            f"recorded {_abbreviate(recorded, actual)}, sent {_abbreviate(actual, recorded)}{others}"
        )


class _ReplayedResponse:
    def __init__(self, record: _ResponseRecord) -> None:
        self.status, self.headers = record.status, record.headers
        self._body = record.data

    async def read(self) -> bytes:
        data, self._body = self._body, b""
        return data

    async def close(self) -> None:
        pass


def _load_exchanges(path: Path) -> Iterator[_Exchange]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as e:
        raise MalformedData(f"cannot read the recording {str(path)!r}: {e.strerror}") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                exchange = msgspec.convert(loads(line), _Exchange)
                _ = exchange.answer.data  # fail now rather than in the middle of a replay
            except ValueError as e:
                raise MalformedData(f"{path.name}, line {number}: not a recorded exchange ({e})") from None
            yield exchange


def _abbreviate(value: Any, other: Any) -> str:
    """A short form of a value; for a long text, the part where it starts to differ from the other."""
    if value is _MISSING:
        return "nothing"
    if isinstance(value, str) and isinstance(other, str) and len(value) > 80:
        same = next((i for i, (a, b) in enumerate(zip(value, other, strict=False)) if a != b), min(len(value), len(other)))
        start = max(0, same - 30)
        value = ("…" if start else "") + value[start : start + 80] + ("…" if start + 80 < len(value) else "")
    text = dumps_text(value)
    return text if len(text) <= 120 else text[:117] + "…"


def _compare_requests(recorded: _RequestRecord, actual: _RequestRecord) -> Iterator[tuple[str, Any, Any]]:
    if recorded.method != actual.method:
        yield "method", recorded.method, actual.method
    if recorded.path != actual.path:
        yield "path", recorded.path, actual.path
    yield from _compare_values(recorded.body, actual.body, "body")


def _compare_values(recorded: Any, actual: Any, where: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(recorded, dict) and isinstance(actual, dict):
        left, right = cast(dict[str, Any], recorded), cast(dict[str, Any], actual)
        for key in (*left, *(key for key in right if key not in left)):
            yield from _compare_values(left.get(key, _MISSING), right.get(key, _MISSING), f"{where}.{key}")
    elif isinstance(recorded, list) and isinstance(actual, list):
        lists = cast(list[Any], recorded), cast(list[Any], actual)
        for index in range(max(map(len, lists))):
            left, right = (items[index] if index < len(items) else _MISSING for items in lists)
            yield from _compare_values(left, right, f"{where}[{index}]")
    elif recorded != actual or isinstance(recorded, bool) != isinstance(actual, bool):  # True == 1 in Python
        yield where, recorded, actual
