"""JSON-RPC messages over two file descriptors, one object per line.

The connection survives any input: anything but a JSON object is answered with an error and skipped.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, cast

from toolglot.common.jsontext import dumps, loads

__all__ = ["LineTransport"]

MAX_LINE = 64_000_000
"""Maximum bytes per message; prompts carry images."""
_CLOSE_SECONDS = 1.0  # to finish writing: an editor that does not read would block us forever
_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600
Message = dict[str, Any]


def _is_message(fields: Message) -> bool:
    """Return whether the SDK accepts a message: one that it does not accept ends its connection."""
    has_id, method = isinstance(fields.get("id"), int | str | None), fields.get("method")
    is_response = "id" in fields and isinstance(fields.get("error"), dict | None)
    return has_id and (isinstance(method, str) or (method is None and is_response))


class LineTransport:
    """Reads in one thread and writes in another, so that pipes, files and terminals work on every platform."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd, self._write_fd = read_fd, write_fd
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._outgoing: SimpleQueue[tuple[bytes, asyncio.Future[None]] | None] = SimpleQueue()
        self._is_closed = False
        self._writer = threading.Thread(target=self._write_messages, name="toolglot-acp-write", daemon=True)
        self._writer.start()
        threading.Thread(target=self._read_lines, name="toolglot-acp-read", daemon=True).start()

    async def receive(self) -> Message | None:
        """Return the next message; None at the end."""
        while (line := await self._lines.get()) is not None:
            if len(line) > MAX_LINE:
                await self._reject(_INVALID_REQUEST, f"the message has more than {MAX_LINE:,} bytes")
                continue
            try:
                message = loads(line)
            except ValueError as e:
                await self._reject(_PARSE_ERROR, f"the message is not valid JSON: {e}")
                continue
            if isinstance(message, dict) and _is_message(fields := cast(Message, message)):
                return fields
            await self._reject(
                _INVALID_REQUEST, "a message must be a JSON-RPC 2.0 request, notification or response"
            )
        return None

    async def send(self, message: Message) -> None:
        """Write a message, and wait until it is written. Raises ConnectionError if the other side is gone."""
        if self._is_closed:
            raise ConnectionError("the connection is closed")
        written = self._loop.create_future()
        self._outgoing.put((dumps(message) + b"\n", written))
        await written

    async def close(self) -> None:
        """Finish pending writes, and accept no more."""
        self._is_closed = True
        self._outgoing.put(None)
        await asyncio.to_thread(self._writer.join, _CLOSE_SECONDS)

    async def _reject(self, code: int, reason: str) -> None:
        await self.send({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": reason}})

    def _write_messages(self) -> None:
        while (item := self._outgoing.get()) is not None:
            data, written = memoryview(item[0]), item[1]
            error: ConnectionError | None = None
            try:
                while data:
                    data = data[os.write(self._write_fd, data) :]
            except OSError as e:
                error = ConnectionError(f"the editor has disconnected: {e}")
            self._call_in_loop(_resolve, written, error)

    def _read_lines(self) -> None:
        parts, size = list[bytes](), 0
        while True:
            try:
                chunk = os.read(self._read_fd, 1 << 16)
            except OSError:
                chunk = b""
            if not chunk:
                break
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                self._deliver(b"".join((*parts, line)))
                parts, size = [], 0
            size += len(rest)
            # The rest of an overlong line is dropped; what is kept shows that it is too long.
            if rest and size <= MAX_LINE + len(chunk):
                parts.append(rest)
        self._deliver(b"".join(parts))
        self._deliver(None)

    def _deliver(self, line: bytes | None) -> None:
        if line is None or line.strip():
            self._call_in_loop(self._lines.put_nowait, line)

    def _call_in_loop(self, function: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: no one waits for more
            self._loop.call_soon_threadsafe(function, *arguments)


def _resolve(written: asyncio.Future[None], error: ConnectionError | None) -> None:
    if written.cancelled():
        return
    if error is None:
        written.set_result(None)
    else:
        written.set_exception(error)
