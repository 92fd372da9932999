"""JSON-RPC messages over two file descriptors, one object per line.

Whatever the other side sends, the connection survives: what is not a JSON object is answered with an error and skipped.
"""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from toolglot.jsontext import dumps, loads

__all__ = ["LineTransport"]

MAX_LINE = 64_000_000
"""Bytes of a message. Prompts carry images."""
_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600
Message = dict[str, Any]


def _is_message(fields: Message) -> bool:
    """Return whether the SDK can take a message: what it cannot take ends its connection."""
    has_id, method = isinstance(fields.get("id"), int | str | None), fields.get("method")
    is_response = "id" in fields and isinstance(fields.get("error"), dict | None)
    return has_id and (isinstance(method, str) or (method is None and is_response))


class LineTransport:
    """Reads in a thread of its own and writes in another, so that it works with pipes, files and terminals of any platform."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd, self._write_fd = read_fd, write_fd
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._writer = ThreadPoolExecutor(1, "toolglot-acp-write")
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
            await self._reject(_INVALID_REQUEST, "a message must be a request, a notification or a response of JSON-RPC 2.0")
        return None

    async def send(self, message: Message) -> None:
        """Write a message; returns when it is written. Raises ConnectionError if the other side is gone."""

        def write() -> None:
            data = memoryview(dumps(message) + b"\n")
            while data:
                data = data[os.write(self._write_fd, data) :]

        try:
            await self._loop.run_in_executor(self._writer, write)
        except (OSError, RuntimeError) as e:
            raise ConnectionError(f"the editor is gone: {e}") from None

    async def close(self) -> None:
        """Write nothing more."""
        self._writer.shutdown(wait=False)

    async def _reject(self, code: int, reason: str) -> None:
        await self.send({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": reason}})

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
            # The rest of a line that is too long is not kept; what is kept shows that it is too long.
            if rest and size <= MAX_LINE + len(chunk):
                parts.append(rest)
        self._deliver(b"".join(parts))
        self._deliver(None)

    def _deliver(self, line: bytes | None) -> None:
        if line is None or line.strip():
            try:
                self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
            except RuntimeError:  # the loop is closed: nobody waits for more
                return
