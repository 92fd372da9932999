"""An MCP server over stdio that misbehaves as it is told: `python misbehaving.py`.

Nothing but the standard library.

The tool `misbehave` waits until a call of `healthy` has arrived, too, and misbehaves before that one is
answered."""

import json
import os
import sys
import time
from typing import Any

Doc = dict[str, Any]
MEGABYTE = 1 << 20
DEEP = '{"a":' * 300 + "1" + "}" * 300
ABYSS = "[" * 100_000 + "]" * 100_000
BROKEN_LISTS: set[str] = set()


def write(data: str | bytes) -> None:
    sys.stdout.buffer.write(data.encode() if isinstance(data, str) else data)
    sys.stdout.buffer.flush()


def send(message: Doc) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")


def text(words: str) -> Doc:
    return {"content": [{"type": "text", "text": words}]}


def answer(id: Any, words: str = "done") -> str:
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": text(words)})


def head(id: Any) -> str:
    return f'{{"jsonrpc":"2.0","id":{json.dumps(id)},'


def notify(method: str, params: Any) -> None:
    send({"method": method, "params": params})


def misbehave(kind: str, id: Any, healthy: Any, number: int) -> None:
    match kind:
        case "null result" | "list result" | "text result":
            write(
                f'{head(id)}"result":{ {"null result": "null", "list result": "[1]", "text result": "5"}[kind] }}}\n'
            )
        case "nothing":
            send({"id": id})
        case "deep result":
            write(f'{head(id)}"result":{{"content":[],"structuredContent":{DEEP}}}}}\n')
        case "deep result, id last":
            write(
                f'{{"result":{{"id":{healthy},"content":[],"structuredContent":{DEEP}}},"jsonrpc":"2.0","id":{id}}}\n'
            )
        case "abyss":
            write(f'{head(id)}"result":{{"content":[],"a":{ABYSS}}}}}\n')
        case "NaN" | "1e999" | "-Infinity":
            write(f'{head(id)}"result":{{"content":[],"structuredContent":{{"a":{kind}}}}}}}\n')
        case "huge number":
            write(f'{head(id)}"result":{{"content":[],"structuredContent":{{"a":{"9" * 5000}}}}}}}\n')
        case "invalid UTF-8":
            write(head(id).encode() + b'"result":{"content":[{"type":"text","text":"done \xff"}]}}\n')
        case "half a character":
            write(f'{head(id)}"result":{{"content":[{{"type":"text","text":"done \\ud83d"}}]}}}}\n')
        case "torn line":
            write(answer(id)[:-4] + "\n")
        case "overlong":
            write(head(id) + '"result":{"content":[{"type":"text","text":"')
            for _ in range(33):
                write("x" * MEGABYTE)
            write('"}]}}\n')
        case "overlong, id last":
            write(f'{{"jsonrpc":"2.0","result":{{"id":{healthy},"content":[{{"type":"text","text":"')
            for _ in range(33):
                write("x" * MEGABYTE)
            write(f'"}}]}},"id":{id}}}\n')
        case "cancelled":
            notify("notifications/cancelled", {"requestId": id, "reason": "out of cheese"})
        case "cancelled as text":
            notify("notifications/cancelled", {"requestId": str(id)})
        case "cancels nothing":
            others: list[Any] = [None, True, [], {}, 10**30, "no such request"]
            for other in others:
                notify("notifications/cancelled", {"requestId": other})
            notify("notifications/cancelled", None)
            write(answer(id) + "\n")
        case "error text":
            send({"id": id, "error": "out of cheese"})
        case "error without a code":
            send({"id": id, "error": {"message": "out of cheese"}})
        case "error of a lost connection":
            send({"id": id, "error": {"code": -32000, "message": "out of cheese"}})
        case "error with odd details":
            send({"id": id, "error": {"code": -32042, "message": "out of cheese", "data": ["x", 5]}})
        case "error without an id":
            send({"id": None, "error": {"code": -32603, "message": "out of cheese"}})
        case "unknown id":
            write(answer(id + 1_000_000) + "\n")
        case "id as text":
            write(answer(str(id)) + "\n")
        case "two answers":
            write(f"{answer(id)}\n{answer(id, 'wrong')}\n{answer(healthy, f'healthy {number}')}\n")
        case "banners":
            write(
                "\n\n  \nListening on port "
                f'80\n{{"level":"info","id":{id}}}\n{{"id":{healthy},"x":oops\n[]\n7\n"x"\n'
            )
            write(b"\x00\xff\xfe\n\r\n" + answer(id).encode() + b"\n")
        case "answers on one line":
            write(answer(id) + answer(healthy, f"healthy {number}") + " and a word\n")
        case "byte order mark":
            write("\ufeff" + answer(id) + "\r\n")
        case "slow pieces":
            for piece in (answer(id)[:20], answer(id)[20:40], answer(id)[40:] + "\n"):
                write(piece)
                time.sleep(0.02)
        case "flood":
            for line in range(500):
                notify("notifications/message", {"level": "info", "data": f"line {line}"})
            write(answer(id) + "\n")
        case "odd notifications":
            odd: list[Any] = [5, [1], "x", None, {}]
            odd += [{"progressToken": id, "progress": "much"}, {"progressToken": [], "total": {}}]
            for params in odd:
                notify("notifications/progress", params)
                notify("notifications/message", params)
                notify("notifications/resources/updated", params)
            write(answer(id) + "\n")
        case "odd requests":
            for offset, method in enumerate(
                ("no/such", "sampling/createMessage", "elicitation/create", "roots/list", "ping")
            ):
                # Ids that the client has used: one that it uses later could not be cancelled, as it would be
                # ours that is.
                send({"id": id - offset, "method": method, "params": {"x": 1}})
            write(
                f'{{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{DEEP}}}\n'
                + answer(id)
                + "\n"
            )
        case "content of no kind":
            send({"id": id, "result": {"content": "done"}})
        case "unknown part":
            send({"id": id, "result": {"content": [{"type": "hologram", "x": "done"}, None, 5]}})
        case "old version":
            write(answer(id).replace('"2.0"', '"1.0"') + "\n")
        case "answer and method":
            write(answer(id)[:-1] + ',"method":"x"}\n')
        case "silence":
            pass
        case "death":
            sys.stderr.write("out of cheese\n")
            sys.stderr.flush()
            os._exit(3)
        case "answer, then death":
            write(answer(id) + "\n")
            write(answer(healthy, f"healthy {number}") + "\n")
            os._exit(0)
        case "closed output":
            os.close(1)
        case "closed input":
            os.close(0)
            os._exit(0)
        case "noise on stderr":
            sys.stderr.write("x" * MEGABYTE * 4 + "\n")
            write(answer(id) + "\n")
        case "broken list":
            BROKEN_LISTS.add("tools/list")
            notify("notifications/tools/list_changed", {})
            write(answer(id) + "\n")
        case _:
            send({"id": id, "error": {"code": -32602, "message": f"unknown kind {kind}"}})


def main() -> None:
    waiting: tuple[str, Any] | None = None
    for line in sys.stdin:
        message = json.loads(line)
        method, id = message.get("method"), message.get("id")
        if method == "initialize":
            info = {"name": "misbehaving", "version": "1"}
            capabilities = {"tools": {"listChanged": True}}
            send(
                {
                    "id": id,
                    "result": {
                        "protocolVersion": "2025-11-25",
                        "capabilities": capabilities,
                        "serverInfo": info,
                    },
                }
            )
        elif method in BROKEN_LISTS:
            BROKEN_LISTS.clear()
            write(f'{head(id)}"result":{{"tools":[{DEEP}]}}}}\n')
        elif method == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("misbehave", "healthy")]
            send({"id": id, "result": {"tools": tools}})
        elif method == "tools/call" and message["params"]["name"] == "misbehave":
            waiting = message["params"]["arguments"]["kind"], id
        elif method == "tools/call":
            number = message["params"]["arguments"]["number"]
            if waiting is not None:
                misbehave(*waiting, id, number)
                waiting = None
            send({"id": id, "result": text(f"healthy {number}")})
        elif method is not None and id is not None:
            send({"id": id, "error": {"code": -32601, "message": f"no {method} here"}})


if __name__ == "__main__":
    main()
