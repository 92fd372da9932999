"""The floors: one minimal loop by hand, no checks, no retries, no types, on three HTTP clients.

rawh1 is HTTP/1.1 written by hand for this server; transport is toolglot's own transport; aiohttp is aiohttp.
JSON is msgspec's, into plain dicts. `python -m bench.loop.floors SERVER WIRE NAME`.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec

from bench.loop.runner import CONNECTIONS, Job, RunConversation, RunOutput, definitions, serve
from bench.loop.scenarios import ANTHROPIC, CHAT, PROMPT, RESPONSES

Doc = dict[str, Any]
Call = tuple[str, str, str | Doc]
"""Id, name, arguments."""

encode = msgspec.json.encode
decode = msgspec.json.Decoder().decode
MAX_JOINED_BODY = 16 * 1024
"""A longer body is not copied to stand behind its head."""
PATHS = {CHAT: "/chat/completions", ANTHROPIC: "/v1/messages", RESPONSES: "/responses"}


class ByteReader(Protocol):
    async def read(self) -> bytes:
        """The next bytes; b"" at the end."""
        ...


Send = Callable[[bytes, bool], Awaitable[ByteReader]]
"""Sends a body; whether a stream is wanted."""


async def open_floor(job: Job) -> RunConversation:
    send = await CLIENTS[sys.argv[3]](job)
    wire, scenario = WIRE_FLOORS[job.wire](job), job.scenario

    async def talk() -> RunOutput:
        history, pieces = wire.new_history(), 0
        while True:
            answer = await send(wire.encode_body(history, scenario.is_streamed), scenario.is_streamed)
            if scenario.is_streamed:
                text, calls, seen = await _read_stream(answer, wire, history)
                pieces += seen
            else:
                text, calls = wire.read_whole(decode(await _read_all(answer)), history)
            if not calls:
                return RunOutput(text, pieces)
            wire.append_results(
                history, calls, await job.call_all([(name, given) for _, name, given in calls])
            )

    return talk


async def _read_all(answer: ByteReader) -> bytes:
    data = await answer.read()
    while more := await answer.read():
        data += more
    return data


async def _read_stream(
    answer: ByteReader, wire: "WireFloor", history: list[Doc]
) -> tuple[str, list[Call], int]:
    texts: list[str] = []
    fragments: list[str] = []
    heads: list[Doc] = []
    rest, event = b"", wire.read_event
    while data := await answer.read():
        *events, rest = (rest + data if rest else data).split(b"\n\n")
        for one in events:
            if (at := one.find(b"{")) >= 0:
                event(decode(memoryview(one)[at:]), texts, heads, fragments)
    text, given = "".join(texts), "".join(fragments)
    calls: list[Call] = [(head["id"], head["name"], given) for head in heads]
    if calls:
        wire.append_calls(history, calls)
    return text, calls, len(texts) + len(fragments)


# ---- the wires


class WireFloor(Protocol):
    def new_history(self) -> list[Doc]: ...
    def encode_body(self, history: list[Doc], stream: bool) -> bytes: ...
    def read_whole(self, doc: Doc, history: list[Doc]) -> tuple[str, list[Call]]: ...
    def read_event(self, doc: Doc, texts: list[str], heads: list[Doc], fragments: list[str]) -> None: ...
    def append_calls(self, history: list[Doc], calls: list[Call]) -> None: ...
    def append_results(self, history: list[Doc], calls: list[Call], results: list[str]) -> None: ...


class Chat:
    def __init__(self, job: Job) -> None:
        self._model = job.model
        self._tools = [
            {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}
            for name, about, parameters in definitions(job.scenario)
        ]

    def new_history(self) -> list[Doc]:
        return [{"role": "user", "content": PROMPT}]

    def encode_body(self, history: list[Doc], stream: bool) -> bytes:
        return encode({"model": self._model, "messages": history, "tools": self._tools, "stream": stream})

    def read_whole(self, doc: Doc, history: list[Doc]) -> tuple[str, list[Call]]:
        message = doc["choices"][0]["message"]
        calls = message.get("tool_calls") or ()
        if calls:
            history.append({"role": "assistant", "content": message["content"], "tool_calls": calls})
        return message["content"], [
            (call["id"], call["function"]["name"], call["function"]["arguments"]) for call in calls
        ]

    def read_event(self, doc: Doc, texts: list[str], heads: list[Doc], fragments: list[str]) -> None:
        for choice in doc["choices"]:
            delta = choice["delta"]
            if text := delta.get("content"):
                texts.append(text)
            for call in delta.get("tool_calls", ()):
                if "id" in call:
                    heads.append({"id": call["id"], "name": call["function"]["name"]})
                fragments.append(call["function"]["arguments"])

    def append_calls(self, history: list[Doc], calls: list[Call]) -> None:
        made = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": given}}
            for id, name, given in calls
        ]
        history.append({"role": "assistant", "content": None, "tool_calls": made})

    def append_results(self, history: list[Doc], calls: list[Call], results: list[str]) -> None:
        for (id, _, _), result in zip(calls, results, strict=True):
            history.append({"role": "tool", "tool_call_id": id, "content": result})


class Anthropic:
    def __init__(self, job: Job) -> None:
        self._model = job.model
        self._tools = [
            {"name": name, "description": about, "input_schema": parameters}
            for name, about, parameters in definitions(job.scenario)
        ]

    def new_history(self) -> list[Doc]:
        return [{"role": "user", "content": PROMPT}]

    def encode_body(self, history: list[Doc], stream: bool) -> bytes:
        return encode(
            {
                "model": self._model,
                "max_tokens": 1000,
                "messages": history,
                "tools": self._tools,
                "stream": stream,
            }
        )

    def read_whole(self, doc: Doc, history: list[Doc]) -> tuple[str, list[Call]]:
        content = doc["content"]
        calls = [
            (block["id"], block["name"], block["input"]) for block in content if block["type"] == "tool_use"
        ]
        if calls:
            history.append({"role": "assistant", "content": content})
        return "".join(block["text"] for block in content if block["type"] == "text"), calls

    def read_event(self, doc: Doc, texts: list[str], heads: list[Doc], fragments: list[str]) -> None:
        kind = doc["type"]
        if kind == "content_block_delta":
            delta = doc["delta"]
            if delta["type"] == "text_delta":
                texts.append(delta["text"])
            else:
                fragments.append(delta["partial_json"])
        elif kind == "content_block_start" and doc["content_block"]["type"] == "tool_use":
            heads.append(doc["content_block"])

    def append_calls(self, history: list[Doc], calls: list[Call]) -> None:
        content = [
            {"type": "tool_use", "id": id, "name": name, "input": msgspec.Raw(str(given).encode())}
            for id, name, given in calls
        ]
        history.append({"role": "assistant", "content": content})

    def append_results(self, history: list[Doc], calls: list[Call], results: list[str]) -> None:
        content = [
            {"type": "tool_result", "tool_use_id": id, "content": result}
            for (id, _, _), result in zip(calls, results, strict=True)
        ]
        history.append({"role": "user", "content": content})


class Responses:
    def __init__(self, job: Job) -> None:
        self._model = job.model
        self._tools = [
            {
                "type": "function",
                "name": name,
                "description": about,
                "parameters": parameters,
                "strict": False,
            }
            for name, about, parameters in definitions(job.scenario)
        ]

    def new_history(self) -> list[Doc]:
        return [{"role": "user", "content": PROMPT}]

    def encode_body(self, history: list[Doc], stream: bool) -> bytes:
        return encode({"model": self._model, "input": history, "tools": self._tools, "stream": stream})

    def read_whole(self, doc: Doc, history: list[Doc]) -> tuple[str, list[Call]]:
        output = doc["output"]
        history += output
        text = "".join(
            part["text"] for item in output if item["type"] == "message" for part in item["content"]
        )
        return text, [
            (item["call_id"], item["name"], item["arguments"])
            for item in output
            if item["type"] == "function_call"
        ]

    def read_event(self, doc: Doc, texts: list[str], heads: list[Doc], fragments: list[str]) -> None:
        kind = doc["type"]
        if kind == "response.output_text.delta":
            texts.append(doc["delta"])
        elif kind == "response.function_call_arguments.delta":
            fragments.append(doc["delta"])
        elif kind == "response.output_item.added" and doc["item"]["type"] == "function_call":
            heads.append({"id": doc["item"]["call_id"], "name": doc["item"]["name"]})

    def append_calls(self, history: list[Doc], calls: list[Call]) -> None:
        for id, name, given in calls:
            history.append({"type": "function_call", "call_id": id, "name": name, "arguments": given})

    def append_results(self, history: list[Doc], calls: list[Call], results: list[str]) -> None:
        for (id, _, _), result in zip(calls, results, strict=True):
            history.append({"type": "function_call_output", "call_id": id, "output": result})


WIRE_FLOORS: dict[str, Callable[[Job], WireFloor]] = {CHAT: Chat, ANTHROPIC: Anthropic, RESPONSES: Responses}


# ---- HTTP/1.1 by hand


class RawConnection(asyncio.Protocol):
    """One answer at a time; the body as it comes, chunks joined."""

    def __init__(self, idle: "list[RawConnection]") -> None:
        self._idle = idle
        self._waiter: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def start(self, request: bytes, body: bytes) -> None:
        self._pieces: list[bytes] = []
        self._head: bytes | None = b""
        self._line = b""
        self._left = self._skip = 0
        self._chunked = self._done = False
        head = request % len(body)
        if len(body) < MAX_JOINED_BODY:
            self.transport.write(head + body)
        else:
            self.transport.write(head)
            self.transport.write(body)

    def data_received(self, data: bytes) -> None:
        if self._head is not None:
            head, found, data = (self._head + data).partition(b"\r\n\r\n")
            if not found:
                self._head = head
                return
            self._head, head = None, head.lower()
            if b" 200 " not in head:
                raise ConnectionError(head.decode())
            self._chunked = b"transfer-encoding: chunked" in head
            if not self._chunked:
                self._left = int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        if self._chunked:
            self._chunks(data)
        else:
            self._pieces.append(data)
            self._left -= len(data)
            self._done = not self._left
        if self._waiter is not None and (self._pieces or self._done):
            self._waiter.set_result(None)
            self._waiter = None

    def _chunks(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            if self._left:
                piece = data[at : at + self._left]
                self._pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                self._skip = 0 if self._left else 2
            elif self._skip:
                skipped = min(self._skip, len(data) - at)
                at += skipped
                self._skip -= skipped
            elif (end := data.find(b"\n", at)) < 0:
                self._line += data[at:]
                return
            else:
                self._left = int(self._line + data[at:end], 16)
                self._line, at = b"", end + 1
                if not self._left:
                    self._done = True
                    return

    async def read(self) -> bytes:
        if not self._pieces and not self._done:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        if not data and self.transport is not None:
            self._idle.append(self)
        return data


async def rawh1(job: Job) -> Send:
    url = urlsplit(job.base_url + PATHS[job.wire])
    host, port = url.hostname or "", url.port or 0
    head = (
        f"POST {url.path} HTTP/1.1\r\nhost: {url.netloc}\r\nauthorization: Bearer k\r\ncontent-type: "
        "application/json\r\n"
    )
    request = head.encode() + b"content-length: %d\r\n\r\n"
    idle: list[RawConnection] = []
    loop = asyncio.get_running_loop()

    async def send(body: bytes, stream: bool) -> ByteReader:
        if idle:
            connection = idle.pop()
        else:
            _, connection = await loop.create_connection(lambda: RawConnection(idle), host, port)
        connection.start(request, body)
        return connection

    async def close() -> None:
        for connection in idle:
            connection.transport.close()

    job.close_callbacks.append(close)
    return send


# ---- toolglot's transport, aiohttp


async def transport(job: Job) -> Send:
    from toolglot.engine.http import HttpTransport
    from toolglot.engine.transport import HttpRequest, Timeouts

    client = HttpTransport(Timeouts())
    url = job.base_url + PATHS[job.wire]
    headers = {"authorization": "Bearer k", "content-type": "application/json"}

    async def send(body: bytes, stream: bool) -> ByteReader:
        return await client.send(HttpRequest(url, headers, body, stream))

    job.close_callbacks.append(client.close)
    return send


async def aiohttp(job: Job) -> Send:
    from aiohttp import ClientSession, ClientTimeout, TCPConnector

    session = ClientSession(connector=TCPConnector(limit=CONNECTIONS), timeout=ClientTimeout(total=None))
    url = job.base_url + PATHS[job.wire]
    headers = {"authorization": "Bearer k", "content-type": "application/json"}

    class Answer:
        def __init__(self, response: Any) -> None:
            self.read = response.content.readany

    async def send(body: bytes, stream: bool) -> ByteReader:
        return Answer(await session.post(url, data=body, headers=headers))

    job.close_callbacks.append(session.close)
    return send


CLIENTS: dict[str, Callable[[Job], Awaitable[Send]]] = {
    "rawh1": rawh1,
    "transport": transport,
    "aiohttp": aiohttp,
}

if __name__ == "__main__":
    serve(open_floor)
