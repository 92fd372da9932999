"""Self-made streams in the exact shape of each provider's events: fields and their order, padding, `event:`
lines, usage.

A stream says some text and makes one call whose arguments come in fragments (either may be missing). Two
wires have no fragments of JSON: Gemini (Vertex) sends pieces of values with their paths, Ollama sends a call
whole, here after as many pieces of thinking.
"""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from typing import Any, NamedTuple

import msgspec

WORDS = re.findall(
    r" ?[^ ]+",
    ' The ferry leaves at nine , so pack the blue café bag tonight . \n\n - a "map" of Malmö and 3 apples',
)
NOISE = "q7Xc0bTzL2mWv9RkHs4N"
TOOL = "write_file"
CALL_ID = "call_Zb4kQ1nY8sVwE2tRu6oPd3Lm"
NOW = 1_789_000_000

dumps = msgspec.json.encode


class StreamOutcome(NamedTuple):
    """What reading a stream must give.

    `arguments`: characters of JSON text, or of the values where no text was sent.
    """

    text: str
    calls: int
    arguments: int


class Stream(NamedTuple):
    wire: str
    name: str
    events: list[bytes]
    """Each with the separator that ends it."""
    expected: StreamOutcome

    @property
    def separator(self) -> bytes:
        return {"ollama-chat": b"\n", "gemini": b"\r\n\r\n"}.get(self.wire, b"\n\n")

    def blocks(self, size: int = 64 * 1024) -> list[bytes]:
        """The stream as a socket under load gives it."""
        data = b"".join(self.events)
        return [data[at : at + size] for at in range(0, len(data), size)]


def words(count: int) -> list[str]:
    return list(islice(cycle(WORDS), count))


def arguments(size: int) -> dict[str, str]:
    """Arguments whose JSON text has about this size."""
    text = "".join(islice(cycle(WORDS), size // 4))
    while len(dumps({"path": "notes/trip.md", "text": text}).decode()) > size:
        text = text[:-1]
    return {"path": "notes/trip.md", "text": text}


def split_text(text: str, size: int = 10) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def stream(wire: str, name: str, text: Sequence[str] = (), call: dict[str, str] | None = None) -> Stream:
    """A stream of one wire. `call`: the arguments of its one call."""
    events = list(BUILDERS[wire](text, call))
    if call is None:
        length = 0
    elif wire in ("gemini", "ollama-chat"):
        length = sum(map(len, call.values()))
    else:
        length = len(dumps(call).decode())
    return Stream(wire, name, events, StreamOutcome("".join(text), int(call is not None), length))


# ---- the five wires


def chat(text: Sequence[str], call: dict[str, str] | None) -> Iterator[bytes]:
    def event(choices: list[Any], text_part: str = "", usage: Any = None) -> bytes:
        doc = {
            "id": "chatcmpl-Dk2mWv9RkHs4Nq7Xc0bTzL5pYaEuI",
            "object": "chat.completion.chunk",
            "created": NOW,
            "model": "gpt-4.1-2025-04-14",
            "service_tier": "default",
            "system_fingerprint": "fp_3b7c90d2e1",
            "choices": choices,
            "usage": usage,
            "obfuscation": NOISE[: max(0, 16 - len(text_part))],
        }
        return b"data: " + dumps(doc) + b"\n\n"

    def delta(text_part: str = "", finish: str | None = None, **fields: Any) -> bytes:
        return event([{"index": 0, "delta": fields, "logprobs": None, "finish_reason": finish}], text_part)

    yield delta(role="assistant", content="", refusal=None)
    for piece in text:
        yield delta(piece, content=piece)
    if call is not None:
        head = {"index": 0, "id": CALL_ID, "type": "function", "function": {"name": TOOL, "arguments": ""}}
        yield delta(tool_calls=[head])
        for piece in split_text(dumps(call).decode()):
            yield delta(piece, tool_calls=[{"index": 0, "function": {"arguments": piece}}])
    yield delta(finish="stop" if call is None else "tool_calls")
    details = {
        "reasoning_tokens": 0,
        "audio_tokens": 0,
        "accepted_prediction_tokens": 0,
        "rejected_prediction_tokens": 0,
    }
    usage = {"prompt_tokens": 149, "completion_tokens": 2000, "total_tokens": 2149}
    usage |= {
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": details,
    }
    yield event([], usage=usage)
    yield b"data: [DONE]\n\n"


def responses(text: Sequence[str], call: dict[str, str] | None) -> Iterator[bytes]:
    number = 0
    output: list[Any] = []

    def event(kind: str, **fields: Any) -> bytes:
        nonlocal number
        number += 1
        return (
            f"event: {kind}\ndata: ".encode()
            + dumps({"type": kind, "sequence_number": number - 1, **fields})
            + b"\n\n"
        )

    def response(kind: str, status: str, usage: Any = None) -> bytes:
        parameters = {
            "type": "object",
            "properties": {"path": {"type": "string"}, "text": {"type": "string"}},
            "required": ["path", "text"],
            "additionalProperties": False,
        }
        doc = {
            "id": "resp_0c5be1d87a3f42960069f1a2b3c4d5e6f7081920a1b2c3d4e5",
            "object": "response",
            "created_at": NOW,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "max_output_tokens": None,
            "max_tool_calls": None,
            "model": "gpt-5.2-2025-12-11",
            "output": output,
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "prompt_cache_key": None,
            "reasoning": {"effort": None, "summary": None},
            "safety_identifier": None,
            "service_tier": "auto",
            "store": True,
            "temperature": 1.0,
            "text": {"format": {"type": "text"}, "verbosity": "medium"},
            "tool_choice": "auto",
            "tools": [
                {
                    "type": "function",
                    "description": "Writes",
                    "name": TOOL,
                    "parameters": parameters,
                    "strict": True,
                }
            ],
            "top_logprobs": 0,
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": usage,
            "user": None,
            "metadata": {},
        }
        return event(kind, response=doc)

    yield response("response.created", "in_progress")
    yield response("response.in_progress", "in_progress")
    if text:
        id, whole = "msg_0c5be1d87a3f42960069f1a2b40a1081928374655647382910", "".join(text)
        item = {"id": id, "type": "message", "status": "in_progress", "content": [], "role": "assistant"}
        place = {"item_id": id, "output_index": 0, "content_index": 0}
        part = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
        yield event("response.output_item.added", output_index=0, item=item)
        yield event("response.content_part.added", **place, part=part)
        for piece in text:
            padding = NOISE[: max(0, 16 - len(piece))]
            yield event("response.output_text.delta", **place, delta=piece, logprobs=[], obfuscation=padding)
        yield event("response.output_text.done", **place, text=whole, logprobs=[])
        yield event("response.content_part.done", **place, part={**part, "text": whole})
        output.append({**item, "status": "completed", "content": [{**part, "text": whole}]})
        yield event("response.output_item.done", output_index=0, item=output[-1])
    if call is not None:
        id = "fc_0c5be1d87a3f42960069f1a2b4937c819384756abcdef01234"
        whole = dumps(call).decode()
        index = len(output)
        head = {
            "id": id,
            "type": "function_call",
            "status": "in_progress",
            "arguments": "",
            "call_id": CALL_ID,
            "name": TOOL,
        }
        place = {"item_id": id, "output_index": index}
        yield event("response.output_item.added", output_index=index, item=head)
        for piece in split_text(whole):
            padding = NOISE[: max(0, 16 - len(piece))]
            yield event("response.function_call_arguments.delta", **place, delta=piece, obfuscation=padding)
        yield event("response.function_call_arguments.done", **place, arguments=whole)
        output.append({**head, "status": "completed", "arguments": whole})
        yield event("response.output_item.done", output_index=index, item=output[-1])
    usage = {"input_tokens": 107, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 2000}
    usage |= {"output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2107}
    yield response("response.completed", "completed", usage)


def anthropic(text: Sequence[str], call: dict[str, str] | None) -> Iterator[bytes]:
    number = 0

    def event(kind: str, **fields: Any) -> bytes:
        nonlocal number
        number += 1
        padding = b" " * (number * 7 % 15)  # the API pads between the last two braces
        return f"event: {kind}\ndata: ".encode() + dumps({"type": kind, **fields})[:-1] + padding + b"}\n\n"

    usage = {"input_tokens": 52, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    cached = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}
    usage_details = {
        "cache_creation": cached,
        "output_tokens": 1,
        "service_tier": "standard",
        "inference_geo": "global",
    }
    message = {
        "model": "claude-sonnet-4-6",
        "id": "msg_01Wv9RkHs4Nq7Xc0bTzL2mQd",
        "type": "message",
        "role": "assistant",
    }
    message |= {
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, **usage_details},
    }
    yield event("message_start", message=message)
    index = 0
    if text:
        yield event("content_block_start", index=index, content_block={"type": "text", "text": ""})
        yield b'event: ping\ndata: {"type": "ping"}\n\n'
        for piece in text:
            yield event("content_block_delta", index=index, delta={"type": "text_delta", "text": piece})
        yield event("content_block_stop", index=index)
        index += 1
    if call is not None:
        block = {"type": "tool_use", "id": "toolu_01Xc0bTzL2mWv9RkHs4Nq7Pd", "name": TOOL, "input": {}}
        yield event("content_block_start", index=index, content_block=block)
        for piece in split_text(dumps(call).decode()):
            yield event(
                "content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": piece}
            )
        yield event("content_block_stop", index=index)
    reason = "end_turn" if call is None else "tool_use"
    yield event(
        "message_delta",
        delta={"stop_reason": reason, "stop_sequence": None},
        usage={**usage, "output_tokens": 2000},
    )
    yield event("message_stop")


def gemini(text: Sequence[str], call: dict[str, str] | None) -> Iterator[bytes]:
    def event(part: Any, finish: str | None = None) -> bytes:
        candidate = {
            "content": {"parts": [part], "role": "model"},
            **({"finishReason": finish} if finish else {}),
            "index": 0,
        }
        counts = {"promptTokenCount": 11, "candidatesTokenCount": 204, "totalTokenCount": 267}
        counts |= {"promptTokensDetails": [{"modality": "TEXT", "tokenCount": 11}], "thoughtsTokenCount": 52}
        doc = {"candidates": [candidate], "usageMetadata": counts, "modelVersion": "gemini-3.5-flash"}
        line = json.dumps(
            {**doc, "responseId": "Hs4Nq7Xc0bTzL2mWv9RkQd8"}, separators=(",", ": "), ensure_ascii=False
        )
        return f"data: {line}\r\n\r\n".encode()

    for piece in text:
        yield event({"text": piece})
    if call is not None:
        yield event({"functionCall": {"name": TOOL, "willContinue": True}})
        for name, value in call.items():
            for piece in split_text(value):
                partial = {"jsonPath": f"$.{name}", "stringValue": piece, "willContinue": True}
                yield event({"functionCall": {"partialArgs": [partial], "willContinue": True}})
        yield event({"functionCall": {}})
    yield event({"text": ""}, finish="STOP")


def ollama(text: Sequence[str], call: dict[str, str] | None) -> Iterator[bytes]:
    number = 0

    def event(message: dict[str, Any], **fields: Any) -> bytes:
        nonlocal number
        number += 1
        full_message = {"role": "assistant", "content": "", **message}
        doc = {
            "model": "qwen3:4b",
            "created_at": f"2026-08-17T15:57:12.{number:06d}Z",
            "message": full_message,
            "done": bool(fields),
        }
        return dumps({**doc, **fields}) + b"\n"

    for piece in text:
        yield event({"content": piece})
    if call is not None:
        for piece in words(len(split_text(dumps(call).decode()))):
            yield event({"thinking": piece})
        yield event(
            {"tool_calls": [{"id": CALL_ID, "function": {"index": 0, "name": TOOL, "arguments": call}}]}
        )
    durations = {"total_duration": 2203237375, "load_duration": 336223209, "prompt_eval_count": 37}
    durations |= {"prompt_eval_duration": 355000000, "eval_count": 2000, "eval_duration": 1511000000}
    yield event({}, done_reason="stop", **durations)


BUILDERS = {
    "openai-chat": chat,
    "openai-responses": responses,
    "anthropic-messages": anthropic,
    "gemini": gemini,
    "ollama-chat": ollama,
}
