"""A hostile model: an OpenAI-compatible server on loopback whose replies a plan writes, and a web site that
waits for secrets.

A script is a generator: it yields what the model says next and gets the results of its calls; when it ends,
the model says so."""

import json
import re
import threading
from collections.abc import Generator, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, cast

__all__ = ["Call", "HostileModel", "Script", "Turn", "call", "calls", "find_handle"]


class Call(NamedTuple):
    """A tool call. `arguments`: JSON, as the model writes it."""

    name: str
    arguments: str
    id: str | None = None


class Turn(NamedTuple):
    """What the model says at once.

    `after`: frames that follow the end of its reply. `error`: it refuses with this instead.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    after: tuple[dict[str, Any], ...] = ()
    thinking: str = ""
    name: str = "hostile"
    error: str = ""


Script = Generator[Turn, list[str], None]
"""It has been started: its first `yield` has taken place."""


def call(name: str, **arguments: Any) -> Turn:
    """Return a turn with one call."""
    return calls((name, arguments))


def calls(*pairs: tuple[str, dict[str, Any]]) -> Turn:
    """Return a turn with several calls."""
    return Turn(calls=tuple(Call(name, json.dumps(arguments)) for name, arguments in pairs))


def find_handle(result: str) -> str:
    """Return the handle of a background command from its result."""
    match = re.search(r"handle='(\w+)'", result)
    assert match, result
    return match[1]


class HostileModel:
    """Serves `/v1/chat/completions`; `arrived` has every other request, `heard` what the model was sent."""

    def __init__(self) -> None:
        self.arrived: list[str] = []
        self.heard: list[str] = []
        self.failure: Exception | None = None
        """Why the plan could not be played to its end."""
        self._script: Script | None = None
        self._lock, self._count = threading.Lock(), 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.elsewhere = ""
        """Where the page /redirect leads to."""
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def begin(self, script: Script) -> None:
        """Play this plan from now on."""
        self._script, self.failure = script, None
        self.arrived.clear()
        self.heard.clear()

    @property
    def is_playing(self) -> bool:
        """Whether the plan has not ended."""
        return self._script is not None

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def reply(self, body: dict[str, Any]) -> Turn:
        """Let the plan continue with the results of its calls."""
        with self._lock:
            if self._script is None:
                return Turn("There is nothing to do.")
            try:
                return self._script.send(_results(body["messages"]))
            except StopIteration:
                self._script = None
            except Exception as e:
                self._script, self.failure = None, e
            return Turn("That was all.")

    def frames(self, turn: Turn) -> Iterable[dict[str, Any]]:
        """Yield the reply as the chunks of a stream."""
        yield _chunk({"role": "assistant", "content": "", "reasoning_content": turn.thinking}) | {
            "model": turn.name
        }
        yield _chunk({"content": turn.text})
        for index, call in enumerate(turn.calls):
            self._count += 1
            function = {"name": call.name, "arguments": call.arguments}
            id = f"call_{self._count}" if call.id is None else call.id
            yield _chunk(
                {"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]}
            )
        yield _chunk({}, "tool_calls" if turn.calls else "stop")
        yield from turn.after


def _results(messages: list[dict[str, Any]]) -> list[str]:
    """Return the results that came since the model last spoke."""
    results: list[str] = []
    for message in reversed(messages):
        if message["role"] != "tool":
            break
        content: Any = message["content"]
        if not isinstance(content, str):
            content = "".join(str(part.get("text", "")) for part in cast(list[dict[str, Any]], content))
        results.insert(0, content)
    return results


def _chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "x",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "hostile",
        "choices": [choice],
    }


def _handler(model: HostileModel) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.path != "/v1/chat/completions":
                self._arrive(body)
                return
            model.heard.append(body.decode())
            turn = model.reply(json.loads(body))
            if turn.error:
                self._answer(
                    "application/json",
                    json.dumps({"error": {"message": turn.error, "type": turn.error}}),
                    400,
                )
                return
            frames = model.frames(turn)
            self._answer(
                "text/event-stream",
                "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames) + "data: [DONE]\n\n",
            )

        def do_GET(self) -> None:
            if self.path == "/v1/models":
                self._answer(
                    "application/json",
                    json.dumps({"object": "list", "data": [{"id": "hostile", "object": "model"}]}),
                )
            else:
                self._arrive(b"")

        def _arrive(self, body: bytes) -> None:
            model.arrived.append(f"{self.command} {self.path} {body.decode(errors='replace')}".strip())
            if self.path.startswith("/redirect"):
                self.send_response(302)
                self.send_header("Location", f"http://{model.elsewhere}/stolen")
                self.send_header("Content-Length", "0")
                self.end_headers()
            elif self.path.startswith("/search"):
                hit = {"url": f"http://{model.address}/hit", "title": "hit", "content": "hit"}
                self._answer("application/json", json.dumps({"query": "", "results": [hit]}))
            else:
                self._answer(
                    "text/html", f"<html><body><p>{'A page of documentation. ' * 20}</p></body></html>"
                )

        def _answer(self, kind: str, text: str, status: int = 200) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
