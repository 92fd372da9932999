"""Exchanges kept in a plain file of JSON lines, and answered from it again: tests without a network.

A line: {"request": {"method", "path", "body"}, "answer": {"status", "headers", "body" | "base64"}}. No key is ever in it: of a
request's head nothing is kept, and texts are redacted. A replay answers equal requests in the order of their recording; a miss
names the nearest recording and the first place where it differs.
"""

import asyncio
import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from toolglot.engine.transport import HttpRequest, HttpResponse, Transport
from toolglot.errors import MalformedData, ReplayMiss, UsageError
from toolglot.jsontext import dumps, dumps_text, loads
from toolglot.redact import redact

__all__ = ["RecordingTransport", "ReplayTransport"]

_RECORDED_HEADERS = ("content-type", "retry-after", "retry-after-ms", "x-should-retry")  # of an answer's head
_PUBLIC_HEADERS = frozenset({"content-type", "user-agent", "accept", "anthropic-version", "anthropic-beta", "editor-version"})
_QUERY_KEY = re.compile(r"([?&](?:key|api[_-]?key|token|access_token|sig|signature)=)[^&]*", re.IGNORECASE)


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
    """Sends through another transport and writes every exchange to a file, which it begins anew."""

    def __init__(self, inner: Transport, path: str | Path) -> None:
        self._inner, self._path = inner, Path(path)
        try:
            self._path.write_bytes(b"")
        except OSError as e:
            raise UsageError(f"the recording {str(path)!r} cannot be written: {e.strerror}") from None

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Sends, and records what comes back."""
        return _RecordingResponse(await self._inner.send(request), request, self._path)

    async def close(self) -> None:
        """Gives back what the inner transport holds."""
        close = getattr(self._inner, "close", None)
        if close is not None:
            await close()


class _RecordingResponse:
    """Passes an answer on. It is written when it is closed, as far as its reader wanted it; what broke off is not written."""

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
            self._is_finished = True  # it did not come whole
            raise
        self._parts.append(data)
        if not data:
            await self._write()
        return data

    async def close(self) -> None:
        await self._inner.close()
        await self._write()

    async def _write(self) -> None:
        if not self._is_finished:
            self._is_finished = True
            line = dumps(
                _Exchange(
                    _record_request(self._request),
                    _record_response(self._inner, b"".join(self._parts), _secret_header_values(self._request)),
                )
            )
            await asyncio.to_thread(_append_line, self._path, line + b"\n")


def _append_line(path: Path, line: bytes) -> None:
    with path.open("ab") as file:
        file.write(line)


def _secret_header_values(request: HttpRequest) -> list[str]:
    """Whatever in a request's head may be secret."""
    return [value.removeprefix("Bearer ") for name, value in request.headers.items() if name.lower() not in _PUBLIC_HEADERS]


def _record_request(request: HttpRequest) -> _RequestRecord:
    """A request as it is kept and compared."""
    keys, parts = _secret_header_values(request), urlsplit(request.url)
    path = _QUERY_KEY.sub(r"\1", parts.path + (f"?{parts.query}" if parts.query else ""))
    text = redact(request.body.decode("utf-8", "replace"), keys)
    try:
        body = loads(text)
    except ValueError:
        body = text
    return _RequestRecord(request.method, redact(path, keys), body)


def _record_response(response: HttpResponse, body: bytes, keys: list[str]) -> _ResponseRecord:
    headers = {name: redact(response.headers[name], keys) for name in _RECORDED_HEADERS if name in response.headers}
    try:
        return _ResponseRecord(response.status, headers, redact(body.decode(), keys))
    except UnicodeDecodeError:
        for key in filter(None, keys):
            body = body.replace(key.encode(), b"[hidden]")
        return _ResponseRecord(response.status, headers, base64=base64.b64encode(body).decode())


# ---- replay


class ReplayTransport:
    """Answers from recordings, and from nothing else."""

    def __init__(self, *paths: str | Path) -> None:
        self._remaining = [exchange for path in paths for exchange in _load_exchanges(Path(path))]
        self._replayed: list[_Exchange] = []

    async def send(self, request: HttpRequest) -> HttpResponse:
        """The recorded answer. Raises ReplayMiss."""
        asked = _record_request(request)
        for exchange in self._remaining:
            if next(_compare_requests(exchange.request, asked), None) is None:
                self._remaining.remove(exchange)
                self._replayed.append(exchange)
                return _ReplayedResponse(exchange.answer)
        raise ReplayMiss(_describe_miss(asked, self._remaining, self._replayed))

    @property
    def remaining_count(self) -> int:
        """Recorded exchanges that nobody asked for yet."""
        return len(self._remaining)


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
        raise MalformedData(f"the recording {str(path)!r} cannot be read: {e.strerror}") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                exchange = msgspec.convert(loads(line), _Exchange)
                _ = exchange.answer.data
            except ValueError as e:
                raise MalformedData(f"{path.name}, line {number}: not a recorded exchange ({e})") from None
            yield exchange


def _describe_miss(request: _RequestRecord, remaining: Sequence[_Exchange], replayed: Sequence[_Exchange]) -> str:
    """What is said of a request that was not recorded."""
    found = [(list(_compare_requests(one.request, request)), one.request) for one in remaining]
    if not found:
        done = f": all {len(replayed)} recorded exchanges were used" if replayed else ""
        return f"nothing is recorded for {request.method} {request.path}{done}"
    if any(next(_compare_requests(one.request, request), None) is None for one in replayed):
        return f"the recording of this request ({request.method} {request.path}) was used already: it was asked once too often"
    differences, nearest = min(found, key=lambda one: len(one[0]))
    where, recorded, now = differences[0]
    more = f" (and {len(differences) - 1} more places)" if len(differences) > 1 else ""
    said = f"recorded {_abbreviate(recorded, now)}, asked {_abbreviate(now, recorded)}{more}"
    return f"no recording of this request; the nearest is {nearest.method} {nearest.path}, and it differs at {where}: {said}"


def _abbreviate(value: Any, other: Any) -> str:
    """A value in few words; of a long text the part where it begins to differ from the other."""
    if value is _MISSING:
        return "nothing"
    if isinstance(value, str) and isinstance(other, str) and len(value) > 80:
        same = next((i for i, (a, b) in enumerate(zip(value, other, strict=False)) if a != b), min(len(value), len(other)))
        start = max(0, same - 30)
        value = ("…" if start else "") + value[start : start + 80] + ("…" if start + 80 < len(value) else "")
    text = dumps_text(value)
    return text if len(text) <= 120 else text[:117] + "…"


_MISSING: Any = object()


def _compare_requests(recorded: _RequestRecord, request: _RequestRecord) -> Iterator[tuple[str, Any, Any]]:
    if recorded.method != request.method:
        yield "method", recorded.method, request.method
    if recorded.path != request.path:
        yield "path", recorded.path, request.path
    yield from _compare_values(recorded.body, request.body, "body")


def _compare_values(recorded: Any, actual: Any, where: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(recorded, dict) and isinstance(actual, dict):
        one, other = cast(dict[str, Any], recorded), cast(dict[str, Any], actual)
        for key in (*one, *(key for key in other if key not in one)):
            yield from _compare_values(one.get(key, _MISSING), other.get(key, _MISSING), f"{where}.{key}")
    elif isinstance(recorded, list) and isinstance(actual, list):
        first, second = cast(list[Any], recorded), cast(list[Any], actual)
        for index in range(max(len(first), len(second))):
            one_item, other_item = (items[index] if index < len(items) else _MISSING for items in (first, second))
            yield from _compare_values(one_item, other_item, f"{where}[{index}]")
    elif recorded != actual or isinstance(recorded, bool) != isinstance(actual, bool):
        yield where, recorded, actual
