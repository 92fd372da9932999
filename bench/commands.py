"""Lines per CPU second of the batch commands, once they have started."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from bench.measure import Table, child_cpu
from bench.streams import arguments, stream, words
from toolglot.common.jsontext import dumps

Doc = dict[str, Any]
CALL = arguments(200)
TEXT = words(20)


def commands_table(*, quick: bool) -> Table:
    count = 500 if quick else 2000
    table = Table(f"Batch commands: lines per CPU second, {count:,} lines")
    for wire in ("openai-chat", "anthropic-messages", "gemini"):
        command = ["decode", "--wire", wire]
        table.rows.append(_row(command, _exchange(wire), _check_reply, count, quick))
    for source, target in (("openai-chat", "anthropic-messages"), ("anthropic-messages", "openai-responses")):
        command = ["convert", "--from", source, "--to", target]
        table.rows.append(_row(command, {"request": REQUESTS[source]}, _check_request, count, quick))
    return table


def _row(command: list[str], payload: Doc, check: Callable[[Doc], None], count: int, quick: bool) -> Doc:
    ids = [str(number) for number in range(count)]
    times, starts = list[float](), list[float]()
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        arguments = ["-m", "toolglot.cli.main", *command, "--jsonl"]
        Path(file.name).write_bytes(b"".join(dumps({"id": id, **payload}) + b"\n" for id in ids))
        child_cpu([*arguments, "/dev/null"])  # warm-up: byte code
        for _ in range(1 if quick else 3):
            start, nothing = child_cpu([*arguments, "/dev/null"])
            took, out = child_cpu([*arguments, file.name])
            answers = [json.loads(line) for line in out.splitlines()]
            assert not nothing
            assert [answer["id"] for answer in answers] == ids
            for answer in answers:
                check(answer)
            times.append(took - start)
            starts.append(start)
    seconds = median(times)
    return {
        "": " ".join(command),
        "lines/s": round(count / seconds),
        "µs a line": 1e6 * seconds / count,
        "start, ms": 1e3 * median(starts),
    }


def _exchange(wire: str) -> dict[str, Any]:
    body = b"".join(stream(wire, "both", TEXT, CALL).events).decode()
    content_type = "text/event-stream"
    return {"streaming": True, "status": 200, "response_content_type": content_type, "response_body": body}


def _check_reply(answer: dict[str, Any]) -> None:
    text, call = answer["reply"]["blocks"]
    assert (text["text"], call["arguments"]) == ("".join(TEXT), CALL), answer


def _check_request(answer: dict[str, Any]) -> None:
    body = answer["request"]
    text = json.dumps(body)
    assert len(body["tools"]) == len(_TOOLS), answer
    assert text.count("sunny in place") == 4, answer
    assert all(f"place {n}" in text for n in range(4)), answer


# ---- requests: instructions, three tools, four calls with results

_SCHEMA = {
    "type": "object",
    "properties": {
        "place": {"type": "string", "description": "City or coordinates"},
        "units": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "days": {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 7}},
    },
    "required": ["place"],
    "additionalProperties": False,
}
_TOOLS = ("weather", "forecast", "history")


def _chat_request() -> dict[str, Any]:
    messages: list[Any] = [
        {"role": "system", "content": "You are brief."},
        {"role": "user", "content": "How is the weather?"},
    ]
    for n in range(4):
        function = {"name": "weather", "arguments": json.dumps({"place": f"place {n}", "days": [1, 2]})}
        messages += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"call_{n}", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": f"call_{n}", "content": f"It is sunny in place number {n}."},
        ]
    tools = [
        {"type": "function", "function": {"name": name, "description": name, "parameters": _SCHEMA}}
        for name in _TOOLS
    ]
    return {"model": "gpt-4.1", "messages": messages, "tools": tools, "max_tokens": 1000, "temperature": 0.2}


def _anthropic_request() -> dict[str, Any]:
    messages: list[Any] = [{"role": "user", "content": "How is the weather?"}]
    for n in range(4):
        call = {
            "type": "tool_use",
            "id": f"toolu_{n}",
            "name": "weather",
            "input": {"place": f"place {n}", "days": [1, 2]},
        }
        result = {
            "type": "tool_result",
            "tool_use_id": f"toolu_{n}",
            "content": f"It is sunny in place number {n}.",
        }
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    tools = [{"name": name, "description": name, "input_schema": _SCHEMA} for name in _TOOLS]
    return {
        "model": "claude-sonnet-4-5",
        "system": "You are brief.",
        "messages": messages,
        "tools": tools,
        "max_tokens": 1000,
    }


REQUESTS = {"openai-chat": _chat_request(), "anthropic-messages": _anthropic_request()}
