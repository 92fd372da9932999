"""The loopback server: `python -m bench.loop.server` prints its port and serves until standard input ends.

All bytes are made before the first request. A request is not parsed: its length is read, its tool results and
its wish for a stream are found by searching bytes. Streams go out in chunks of 16 KB, as under load, or
paced: one event a write."""

import asyncio
import resource
import sys
from typing import Any

from bench.loop.replies import RenderedAnswer, build_routes
from bench.loop.scenarios import ALL, ANTHROPIC, CHAT, PACE_SECONDS, RESPONSES

WIRES = {b"completions": CHAT, b"messages": ANTHROPIC, b"responses": RESPONSES}
RESULT_MARKERS = {CHAT: b'"tool_call_id"', ANTHROPIC: b'"tool_use_id"', RESPONSES: b'"function_call_output"'}
"""What each tool result in a request has once."""
CHUNK = 16 * 1024
CONTENT_LENGTH = b"content-length:"
PACED_PATHS = {scenario.path for scenario in ALL.values() if scenario.is_paced}
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-request-id: "
    b"req_1\r\ntransfer-encoding: chunked\r\n\r\n"
)

PreparedAnswers = dict[tuple[str, str, bool], dict[int, Any]]
"""Path, wire, streamed; then by the number of results: bytes, or a list of writes where they are paced."""


def prepare_answers() -> PreparedAnswers:
    ready: PreparedAnswers = {}
    for path, wires in build_routes().items():
        for wire, answers in wires.items():
            ready[path, wire, False] = {
                count: _encode_whole(answer.whole) for count, answer in answers.items() if answer.whole
            }
            streamed = _encode_paced if path in PACED_PATHS else _encode_burst
            ready[path, wire, True] = {count: streamed(answer) for count, answer in answers.items()}
    return ready


def _encode_whole(body: bytes, status: bytes = b"200 OK") -> bytes:
    head = (
        b"HTTP/1.1 %b\r\ncontent-type: application/json\r\nx-request-id: req_1\r\ncontent-length: %d\r\n\r\n"
    )
    return head % (status, len(body)) + body


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _encode_burst(answer: RenderedAnswer) -> bytes:
    data = b"".join(answer.events)
    return (
        STREAM_HEAD
        + b"".join(_chunk(data[at : at + CHUNK]) for at in range(0, len(data), CHUNK))
        + b"0\r\n\r\n"
    )


def _encode_paced(answer: RenderedAnswer) -> list[bytes]:
    first, *others = map(_chunk, answer.events)
    return [STREAM_HEAD + first, *others, b"0\r\n\r\n"]


class Connection(asyncio.Protocol):
    def __init__(self, ready: PreparedAnswers) -> None:
        self._ready = ready
        self._buffer = bytearray()
        self._head = b""
        self._missing = -1  # bytes of the body; -1: the head is not here yet

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while self._request():
            pass

    def _request(self) -> bool:
        """Answers one request where it is all here."""
        buffer = self._buffer
        if self._missing < 0:
            if (end := buffer.find(b"\r\n\r\n")) < 0:
                return False
            self._head = bytes(buffer[:end])
            del buffer[: end + 4]
            _, separator, remainder = self._head.lower().partition(CONTENT_LENGTH)
            self._missing = int(remainder.split(b"\r\n", 1)[0]) if separator else 0
        if len(buffer) < self._missing:
            return False
        body = bytes(buffer[: self._missing])
        del buffer[: self._missing]
        self._missing = -1
        self._answer(body)
        return True

    def _answer(self, body: bytes) -> None:
        parts = self._head.split(b" ", 2)[1].partition(b"?")[0].split(b"/")
        wire = WIRES.get(parts[-1], "")
        streamed = b'"stream":true' in body or b'"stream": true' in body
        answers = self._ready.get((parts[1].decode(), wire, streamed), {})
        answer = answers.get(body.count(RESULT_MARKERS[wire]) if wire else 0)
        if answer is None:
            reason = f"no such turn: {b'/'.join(parts).decode()}, streamed: {streamed}, {len(body)} bytes"
            self._transport.write(
                _encode_whole(
                    b'{"type": "error", "error": {"type": "bench", "message": "%b"}}' % reason.encode(),
                    b"400 No",
                )
            )
        elif isinstance(answer, bytes):
            self._transport.write(answer)
        else:
            self._pace(answer, 0)

    def _pace(self, writes: list[bytes], at: int) -> None:
        self._transport.write(writes[at])
        if at + 1 < len(writes) and not self._transport.is_closing():
            asyncio.get_running_loop().call_later(PACE_SECONDS, self._pace, writes, at + 1)


async def main() -> None:
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
    ready, loop = prepare_answers(), asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(ready), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
