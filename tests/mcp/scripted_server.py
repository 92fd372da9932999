"""An MCP server on stdin and stdout that needs no package, so that it starts at once: `scripted_server.py
DIRECTORY [modern]`.

It speaks 2025-11-25 with a session, or 2026-07-28 without one (`modern`), and writes what happens to files of
the directory."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
DIRECTORY = Path(sys.argv[1])
MODERN = "modern" in sys.argv[2:]
FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name"},
        "age": {"type": "integer", "minimum": 18, "default": 30},
        "color": {"type": "string", "enum": ["red", "green"], "description": "what you like"},
    },
    "required": ["name"],
}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
READ_ONLY = {"readOnlyHint": True}
TOOLS: dict[str, dict[str, Any]] = {
    "echo": {"inputSchema": TEXT, "annotations": READ_ONLY, "description": "Return the text."},
    "context": {
        "inputSchema": {
            "type": "object",
            "properties": {"context": {"type": "string"}, "self": {}, "arguments": {}},
        },
        "annotations": READ_ONLY,
    },
    "environment": {"annotations": READ_ONLY},
    "write": {"inputSchema": TEXT},
    "admin.tools.list": {"annotations": READ_ONLY},
    "any_of": {
        "inputSchema": {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "annotations": READ_ONLY,
    },
    "broken_schema": {"inputSchema": {"type": "object", "properties": {"x": {"type": "nonsense"}}}},
    "no_schema": {"inputSchema": "none"},
    "media": {"annotations": READ_ONLY},
    "data": {
        "annotations": READ_ONLY,
        "outputSchema": {"type": "object", "properties": {"sum": {"type": "integer"}}},
    },
    "wrong_data": {
        "annotations": READ_ONLY,
        "outputSchema": {
            "type": "object",
            "properties": {"sum": {"pattern": "^(a+)+$"}},
            "required": ["sum"],
        },
    },
    "hologram": {"annotations": READ_ONLY},
    "half": {"annotations": READ_ONLY},
    "fail": {"annotations": READ_ONLY},
    "refuse": {"annotations": READ_ONLY},
    "progress": {"annotations": READ_ONLY},
    "hang": {"annotations": READ_ONLY},
    "die": {"annotations": {"readOnlyHint": False}},
    "die_once": {"annotations": {"idempotentHint": True}},
    "ask": {"annotations": READ_ONLY},
    "ask_url": {"annotations": READ_ONLY},
    "nag": {"annotations": READ_ONLY},
    "change": {"annotations": READ_ONLY},
    "flood": {"annotations": READ_ONLY},
    "huge": {"annotations": READ_ONLY},
    "child": {"annotations": READ_ONLY},
}
LOCK = threading.Lock()
WAITING: dict[str, Any] = {}
"""Requests of ours by id: an event, and the answer."""
NUMBERS = iter(range(1, 1_000_000))


def send(message: dict[str, Any]) -> None:
    with LOCK:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def notify(method: str, **params: Any) -> None:
    send({"method": method, "params": params})


def note(name: str, text: str = "x") -> None:
    with open(DIRECTORY / name, "a", encoding="utf-8") as file:
        file.write(text + "\n")


def elicit(**params: Any) -> Any:
    """Ask the client, in the older protocol."""
    id = f"q{next(NUMBERS)}"
    event = threading.Event()
    WAITING[id] = event
    send({"id": id, "method": "elicitation/create", "params": params})
    event.wait()
    return WAITING.pop(id)


def text_result(text: str, **fields: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], **fields}


def list_tools(cursor: str | None) -> dict[str, Any]:
    extra = {"extra": {"annotations": READ_ONLY}} if (DIRECTORY / "changed").exists() else {}
    tools = [
        {"name": name, "inputSchema": {"type": "object"}, **fields}
        for name, fields in {**TOOLS, **extra}.items()
    ]
    start = int(cursor or 0)
    page: dict[str, Any] = {"tools": tools[start : start + 10]}
    return page | ({"nextCursor": str(start + 10)} if start + 10 < len(tools) else {})


def call(params: dict[str, Any]) -> dict[str, Any]:
    name: str = params["name"]
    arguments: dict[str, Any] = params.get("arguments") or {}
    note("calls", f"{name} {json.dumps(arguments, sort_keys=True)}")
    match name:
        case "echo" | "write" | "extra":
            return text_result(arguments.get("text", "nothing"))
        case "context":
            return text_result(json.dumps(arguments, sort_keys=True))
        case "environment":
            return text_result(" ".join(sorted(os.environ)))
        case "media":
            return {
                "content": [
                    {"type": "text", "text": "one"},
                    {"type": "image", "data": PNG, "mimeType": "image/jpeg"},
                    {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
                    {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "inside"}},
                    {
                        "type": "resource",
                        "resource": {"uri": "file:///b.pdf", "blob": "JVBERi0=", "mimeType": "text/x"},
                    },
                    {
                        "type": "resource_link",
                        "uri": "file:///c.txt",
                        "name": "c",
                        "description": "another",
                        "size": 5,
                    },
                    {"type": "image", "data": "***", "mimeType": "image/png"},
                ]
            }
        case "data":
            return {"content": [], "structuredContent": {"sum": 3}, "_meta": {"x": 1}}
        case "wrong_data":
            return text_result("the text", structuredContent={"sum": "a" * 40 + "!"})
        case "hologram":
            return {"content": [{"type": "hologram", "depth": 3}, {"type": "text", "text": "and text"}]}
        case "half":
            return text_result("half \ud83d \U0001f600")
        case "fail":
            return text_result("it went wrong", isError=True)
        case "progress":
            token = params["_meta"]["progressToken"]
            for step in (1, 2, 3):
                notify(
                    "notifications/progress",
                    progressToken=token,
                    progress=step,
                    total=3,
                    message=f"step {step}",
                )
            return text_result("done")
        case "die":
            print("about to die", file=sys.stderr, flush=True)
            os._exit(3)
        case "die_once":
            if not (DIRECTORY / "died").exists():
                note("died")
                os._exit(3)
            return text_result("alive")
        case "ask":
            return ask(params, {"mode": "form", "message": "Who are you?", "requestedSchema": FORM})
        case "nag":
            answers = [
                elicit(mode="form", message="Again?", requestedSchema={"type": "object", "properties": {}})
            ]
            while answers[-1]["action"] == "accept":
                answers.append(
                    elicit(
                        mode="form", message="Again?", requestedSchema={"type": "object", "properties": {}}
                    )
                )
            return text_result(f"{len(answers)} answers")
        case "ask_url":
            fields = {} if MODERN else {"elicitationId": "1"}
            return ask(
                params, {"mode": "url", "message": "Pay first.", "url": "https://pay.example/1", **fields}
            )
        case "change":
            note("changed")
            notify("notifications/tools/list_changed")
            return text_result("changed")
        case "flood":
            print("this is no JSON")
            for step in range(300):
                notify("notifications/message", level="info", data=f"message {step}")
                notify("notifications/tools/list_changed")
            return text_result("survived")
        case "huge":
            return text_result("x" * 300_000)
        case "child":
            code = "import time; time.sleep(60)"
            return text_result(str(subprocess.Popen([sys.executable, "-I", "-S", "-c", code]).pid))
        case _:
            return text_result("?")


def ask(params: dict[str, Any], question: dict[str, Any]) -> dict[str, Any]:
    if not MODERN:
        return text_result(json.dumps(elicit(**question)))
    if "inputResponses" not in params:
        request = {"method": "elicitation/create", "params": question}
        return {"resultType": "input_required", "inputRequests": {"who": request}, "requestState": "opaque"}
    assert params["requestState"] == "opaque"
    return text_result(json.dumps(params["inputResponses"]["who"]))


def answer(message: dict[str, Any]) -> None:
    method, id = message["method"], message["id"]
    params: dict[str, Any] = message.get("params") or {}
    result: dict[str, Any]
    match method:
        case "server/discover" if MODERN:
            capabilities: dict[str, Any] = {"tools": {}, "prompts": {}, "resources": {}}
            result = {
                "supportedVersions": ["2026-07-28"],
                "capabilities": capabilities,
                "instructions": "Be kind.",
            }
        case "initialize" if not MODERN:
            result = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": True}, "prompts": {}, "resources": {}},
                "serverInfo": {"name": "scripted", "version": "1.2"},
                "instructions": "Be kind.",
            }
        case "tools/list":
            result = list_tools(params.get("cursor"))
        case "tools/call" if params["name"] == "hang":
            return
        case "tools/call" if params["name"] == "refuse":
            error = {"code": -32602, "message": "no such value; the key is SECRET-VALUE-1"}
            send({"id": id, "error": error})
            return
        case "tools/call":
            result = call(params)
        case "prompts/list" if "stuck" in sys.argv[2:]:
            return
        case "prompts/list":
            arguments = [{"name": "topic", "required": True}]
            result = {"prompts": [{"name": "explain", "description": "Explain it.", "arguments": arguments}]}
        case "prompts/get":
            content = {"type": "text", "text": f"Explain {params['arguments']['topic']}."}
            result = {"messages": [{"role": "user", "content": content}]}
        case "resources/list":
            result = {"resources": [{"uri": "note://1", "name": "one", "mimeType": "text/plain"}]}
        case "resources/templates/list":
            result = {"resourceTemplates": [{"uriTemplate": "note://{id}", "name": "any"}]}
        case "resources/read":
            result = {"contents": [{"uri": params["uri"], "text": "the note"}]}
        case _:
            send({"id": id, "error": {"code": -32601, "message": f"no method {method}"}})
            return
    if MODERN:
        result = {"resultType": "complete", **result}
        if method.endswith(("/list", "/read", "/discover")):
            result |= {"ttlMs": 1 if method == "tools/list" else 0, "cacheScope": "private"}
    send({"id": id, "result": result})


def main() -> None:
    note("starts")
    note("pid", str(os.getpid()))
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "notifications/cancelled":
            note("cancelled")
        elif "method" in message and "id" in message:
            threading.Thread(target=answer, args=(message,), daemon=True).start()
        elif message.get("id") in WAITING:
            event = WAITING[message["id"]]
            WAITING[message["id"]] = message.get("result", message.get("error"))
            event.set()
    note("ends")


main()
