"""An MCP server with everything that breaks clients: `python nasty.py [odd | many | broken | endless | deep |
silent | gone]`.

A program of its own with nothing but the standard library, so that it starts at once and can do what an SDK
would prevent. It speaks 2025-11-25 over stdio.
"""

import base64
import json
import os
import sys
import zlib
from typing import Any

Doc = dict[str, Any]
LONG_NAME = "search_" + "_".join(f"level{n:02}" for n in range(10)) + "_z"  # 88 characters
assert len(LONG_NAME) == 88
PAGE = 40
HUGE = 2_000_000
FLOOD = 500


def png() -> str:
    """Return a picture of one red point."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    header = (1).to_bytes(4, "big") * 2 + b"\x08\x02\x00\x00\x00"
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\x00\xff\x00\x00")) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + parts).decode()


def text(words: object) -> Doc:
    return {"content": [{"type": "text", "text": str(words)}]}


def tool(name: str, schema: Any = None, **options: Any) -> Doc:
    return {
        "name": name,
        "description": f"Tries {name[:20]}.",
        "inputSchema": schema or {"type": "object"},
        **options,
    }


NODE = {
    "type": "object",
    "properties": {
        "value": {"type": "integer"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
    },
    "required": ["value"],
}
BY_ID = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
BY_NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
MODERN = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False},
        "kind": {"enum": ["a", "b", 3, None]},
        "anything": True,
        "key.with dots": {"type": ["string", "null"], "format": "uri", "pattern": "^h"},
    },
    "patternProperties": {"^x-": {"type": "string"}},
    "if": {"properties": {"kind": {"const": "a"}}},
    "then": {"required": ["pair"]},
    "unevaluatedProperties": False,
    "$comment": "2020-12",
}
ODD = [
    tool(LONG_NAME, BY_NAME),
    tool("files.read.v2", BY_NAME),
    tool("root_any_of", {"anyOf": [BY_ID, BY_NAME]}),
    tool("root_one_of", {"type": "object", "oneOf": [{"$ref": "#/$defs/id"}, BY_NAME], "$defs": {"id": BY_ID}}),
    tool("recursive", {"type": "object", "properties": {"tree": {"$ref": "#/$defs/node"}}, "$defs": {"node": NODE}}),
    tool("whole_root", {"$ref": "#/$defs/node", "$defs": {"node": NODE}}),
    tool("modern", MODERN),
    tool("no_type", {"properties": {"id": {}}}),
    tool("picture"),
    tool("sound"),
    tool("links"),
    tool("structured", outputSchema={"type": "object", "properties": {"n": {"type": "number"}}}),
    tool("fails"),
    tool("unknown_content"),
    tool("progress"),
    tool("noise"),
    tool("huge"),
    tool("ask"),
    tool("hang"),
    tool("die"),
    tool("count", annotations={"readOnlyHint": True}),
]  # fmt: skip
BAD = [
    tool("fine"),
    {"name": "no_schema"},
    tool("bad_type", {"type": "object", "properties": {"a": {"type": "strnig"}}}),
    tool("dangling", {"type": "object", "properties": {"a": {"$ref": "#/$defs/nowhere"}}}),
    tool("not_an_object", {"type": "array", "items": {"type": "string"}}),
    tool(""),
    tool("spaces and / slashes"),
    tool("fine"),
    {**tool("control"), "description": "\x1b[2Jcleared\x07 \u202edesrever"},
]
MANY = [tool(f"record_{n:03}", BY_ID, description=f"Reads record {n} of the archive.") for n in range(300)]


def nest(levels: int) -> Doc:
    """Return a schema that is nested this deep."""
    schema: Doc = {}
    for _ in range(levels):
        schema = {"properties": {"a": schema}}
    return schema


TOOLS = {
    "odd": ODD,
    "many": MANY,
    "broken": BAD,
    "endless": MANY[:5],
    "deep": [tool("fine"), tool("deep", nest(300))],
}


class Server:
    """Answers one client."""

    def __init__(self, mode: str) -> None:
        self.mode, self.calls, self.cancelled, self.waiting = mode, 0, list[Any](), dict[str, Any]()

    def send(self, message: Doc) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    def notify(self, method: str, **params: Any) -> None:
        self.send({"method": method, "params": params})

    def handle(self, message: Doc) -> None:
        params: Doc = message.get("params") or {}
        method, id = message.get("method"), message.get("id")
        if method == "notifications/cancelled":
            self.cancelled.append(params.get("requestId"))
        elif method is None and id in self.waiting:  # what the user answered
            answer = message.get("result") or message.get("error")
            self.send({"id": self.waiting.pop(id), "result": text(json.dumps(answer, sort_keys=True))})
        elif id is None or method is None:
            return
        elif method == "initialize":
            server = {"name": f"nasty {self.mode}", "version": "1"}
            capabilities = {"tools": {"listChanged": True}}
            self.send(
                {
                    "id": id,
                    "result": {
                        "protocolVersion": "2025-11-25",
                        "capabilities": capabilities,
                        "serverInfo": server,
                    },
                }
            )
        elif method == "tools/list":
            self.send({"id": id, "result": self.list_tools(int(params.get("cursor") or 0))})
        elif method == "tools/call":
            self.calls += 1
            meta: Doc = params.get("_meta") or {}
            result = self.call(id, params["name"], params.get("arguments"), meta.get("progressToken"))
            if result is not None:
                self.send({"id": id, "result": result})
        elif method == "ping":
            self.send({"id": id, "result": {}})
        else:
            self.send({"id": id, "error": {"code": -32601, "message": f"no {method} here"}})

    def list_tools(self, start: int) -> Doc:
        tools = TOOLS[self.mode]
        if self.mode == "endless":  # every page says that there is another: this one
            return {"tools": tools, "nextCursor": "1"}
        cursor = {"nextCursor": str(start + PAGE)} if start + PAGE < len(tools) else {}
        return {"tools": tools[start : start + PAGE], **cursor}

    def call(self, id: Any, name: str, arguments: Doc | None, token: Any) -> Doc | None:
        picture = {"type": "image", "data": png(), "mimeType": "image/png"}
        match name:
            case "picture":
                return {"content": [{"type": "text", "text": "one red point"}, picture]}
            case "sound":
                return {
                    "content": [
                        {
                            "type": "audio",
                            "data": base64.b64encode(b"RIFF0000WAVE").decode(),
                            "mimeType": "audio/wav",
                        }
                    ]
                }
            case "links":
                embedded = {
                    "uri": "file:///notes.txt",
                    "mimeType": "text/plain",
                    "text": "the notes themselves",
                }
                link = {"type": "resource_link", "uri": "file:///far.bin", "name": "far"}
                return {"content": [{"type": "resource", "resource": embedded}, link]}
            case "structured":
                return {"content": [], "structuredContent": {"n": 1.5, "list": [1, None, "x"]}}
            case "fails":
                return {**text("the disk is full"), "isError": True}
            case "unknown_content":
                return {"content": [{"type": "hologram", "data": "x"}, {"type": "text", "text": "and text"}]}
            case "progress":
                for n in range(3):
                    self.notify(
                        "notifications/progress",
                        progressToken=token,
                        progress=n + 1,
                        total=3,
                        message=f"step {n + 1}",
                    )
                return text("three steps")
            case "noise":
                sys.stdout.write("Debugger attached.\n\n{not json\n" + "x" * HUGE + "\n[]\n")
                for n in range(FLOOD):
                    self.notify("notifications/message", level="info", data=f"line {n}")
                return text("after the noise")
            case "huge":
                return text("word " * (HUGE // 5))
            case "ask":
                self.waiting[f"ask-{id}"] = id
                form = {
                    "type": "object",
                    "properties": {"color": {"type": "string", "default": "red"}},
                    "required": ["color"],
                }
                self.send(
                    {
                        "id": f"ask-{id}",
                        "method": "elicitation/create",
                        "params": {"message": "Which color?", "requestedSchema": form},
                    }
                )
                return None
            case "hang":
                return None
            case "die":
                sys.stderr.write("out of cheese\n")
                sys.stderr.flush()
                os._exit(3)
            case "count":
                return text(f"calls {self.calls}, cancelled {len(self.cancelled)}")
            case _:
                return text(f"{name} got {json.dumps(arguments, sort_keys=True)}")


def main() -> None:
    mode = sys.argv[1] if len(sys.argv) > 1 else "odd"
    if mode == "gone":
        sys.exit("cannot open display")
    server = Server(mode)
    for line in sys.stdin:
        if mode != "silent":
            server.handle(json.loads(line))


if __name__ == "__main__":
    main()
