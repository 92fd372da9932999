"""The server's answers, rendered once: every turn of every scenario, whole and streamed, in the vendors' own
shapes.

The long streams (S1, S2) are those of bench.streams. Every turn has ids of its own, as real answers have;
without that some frameworks take one message for another.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from bench.loop.scenarios import ALL, ANTHROPIC, CHAT, FINAL, RESPONSES, WIRES, Scenario, plan_calls
from bench.streams import NOW, arguments, dumps, split_text, stream, words

Call = tuple[str, str, str]
"""Id, name, arguments."""


class RenderedAnswer(NamedTuple):
    whole: bytes
    events: list[bytes]


def render_answers(scenario: Scenario, wire: str) -> dict[int, RenderedAnswer]:
    """What a request with so many tool results in it is answered with."""
    if scenario.is_streamed:
        text = words(scenario.pieces)
        call = arguments(10 * scenario.fragments) if scenario.fragments else None
        made = {0: RenderedAnswer(b"", stream(wire, scenario.name, text, call).events)}
        return made | ({1: _answer(wire, 1, FINAL, [])} if call else {})
    made, results = dict[int, RenderedAnswer](), 0
    for turn in range(scenario.turns):
        calls = [
            (_call_id(wire, turn, at), name, json.dumps(given))
            for at, (name, given) in enumerate(plan_calls(scenario, turn))
        ]
        made[results] = _answer(wire, turn, "" if calls else FINAL, calls)
        results += len(calls)
    return made


def expected_outcome(scenario: Scenario) -> tuple[str, int, int, int]:
    """What a run must give: the final text, calls, characters that the tools were given, pieces that were
    seen at least.
    """
    if scenario.pieces:
        return "".join(words(scenario.pieces)), 0, 0, scenario.pieces
    if scenario.fragments:
        given = arguments(10 * scenario.fragments)
        return FINAL, 1, len("".join(given.values())), len(split_text(dumps(given).decode())) - 1
    characters = sum(
        len(str(given["city"])) for turn in range(scenario.turns) for _, given in plan_calls(scenario, turn)
    )
    return FINAL, scenario.total_calls, scenario.conversations * characters, 0


def build_routes() -> dict[str, dict[str, dict[int, RenderedAnswer]]]:
    """By path, then by wire."""
    return {
        scenario.path: {wire: render_answers(scenario, wire) for wire in WIRES} for scenario in ALL.values()
    }


def _call_id(wire: str, turn: int, number: int) -> str:
    return (
        f"toolu_01Xc0bTzL2mWv9RkHs{turn:02}{number:02}"
        if wire == ANTHROPIC
        else f"call_Zb4kQ1nY8sVwE2tRu6oP{turn:02}{number:02}"
    )


def _answer(wire: str, turn: int, text: str, calls: Sequence[Call]) -> RenderedAnswer:
    whole, events = {
        CHAT: (_chat, _chat_events),
        ANTHROPIC: (_anthropic, _anthropic_events),
        RESPONSES: (_responses, _responses_events),
    }[wire]
    return RenderedAnswer(dumps(whole(turn, text, calls)), list(events(turn, text, calls)))


# ---- openai-chat

_CHAT_DETAILS = {
    "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
    "completion_tokens_details": {
        "reasoning_tokens": 0,
        "audio_tokens": 0,
        "accepted_prediction_tokens": 0,
        "rejected_prediction_tokens": 0,
    },
}
_CHAT_USAGE = {"prompt_tokens": 149, "completion_tokens": 40, "total_tokens": 189, **_CHAT_DETAILS}


def _chat_head(turn: int, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-Dk2mWv9RkHs4Nq7Xc0bTzL5pYa{turn:02}",
        "object": kind,
        "created": NOW + turn,
        "model": "gpt-4o-2024-08-06",
    }


def _chat(turn: int, text: str, calls: Sequence[Call]) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": text or None,
        "refusal": None,
        "annotations": [],
    }
    if calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": given}}
            for id, name, given in calls
        ]
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": "tool_calls" if calls else "stop",
    }
    tail = {"service_tier": "default", "system_fingerprint": "fp_3b7c90d2e1"}
    return {**_chat_head(turn, "chat.completion"), "choices": [choice], "usage": _CHAT_USAGE, **tail}


def _chat_events(turn: int, text: str, calls: Sequence[Call]) -> Iterator[bytes]:
    def event(choices: list[Any], usage: Any = None) -> bytes:
        doc = {
            **_chat_head(turn, "chat.completion.chunk"),
            "service_tier": "default",
            "choices": choices,
            "usage": usage,
        }
        return b"data: " + dumps(doc) + b"\n\n"

    def delta(finish: str | None = None, **fields: Any) -> bytes:
        return event([{"index": 0, "delta": fields, "logprobs": None, "finish_reason": finish}])

    yield delta(role="assistant", content=None if calls else "", refusal=None)
    for piece in split_text(text):
        yield delta(content=piece)
    for index, (id, name, given) in enumerate(calls):
        yield delta(
            tool_calls=[
                {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}
            ]
        )
        for piece in split_text(given):
            yield delta(tool_calls=[{"index": index, "function": {"arguments": piece}}])
    yield delta(finish="tool_calls" if calls else "stop")
    yield event([], _CHAT_USAGE)
    yield b"data: [DONE]\n\n"


# ---- anthropic-messages


def _anthropic_head(turn: int) -> dict[str, Any]:
    return {
        "model": "claude-sonnet-4-6",
        "id": f"msg_01Wv9RkHs4Nq7Xc0bTzL2m{turn:02}",
        "type": "message",
        "role": "assistant",
    }


_ANTHROPIC_USAGE = {
    "input_tokens": 52,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
    "output_tokens": 40,
    "service_tier": "standard",
}


def _anthropic(turn: int, text: str, calls: Sequence[Call]) -> dict[str, Any]:
    content: list[Any] = [{"type": "text", "text": text}] if text else []
    content += [
        {"type": "tool_use", "id": id, "name": name, "input": json.loads(given)} for id, name, given in calls
    ]
    stop = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    return {**_anthropic_head(turn), "content": content, **stop, "usage": _ANTHROPIC_USAGE}


def _anthropic_events(turn: int, text: str, calls: Sequence[Call]) -> Iterator[bytes]:
    def event(kind: str, **fields: Any) -> bytes:
        return f"event: {kind}\ndata: ".encode() + dumps({"type": kind, **fields}) + b"\n\n"

    message = {
        **_anthropic_head(turn),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _ANTHROPIC_USAGE,
    }
    yield event("message_start", message=message)
    if text:
        yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        for piece in split_text(text):
            yield event("content_block_delta", index=0, delta={"type": "text_delta", "text": piece})
        yield event("content_block_stop", index=0)
    for index, (id, name, given) in enumerate(calls, start=bool(text)):
        yield event(
            "content_block_start",
            index=index,
            content_block={"type": "tool_use", "id": id, "name": name, "input": {}},
        )
        for piece in split_text(given):
            yield event(
                "content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": piece}
            )
        yield event("content_block_stop", index=index)
    delta = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    yield event("message_delta", delta=delta, usage={"output_tokens": 40})
    yield event("message_stop")


# ---- openai-responses


def _message_item(turn: int, text: str) -> dict[str, Any]:
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
    id = f"msg_0c5be1d87a3f42960069f1a2b40a10819283746556473829{turn:02}"
    return {"id": id, "type": "message", "status": "completed", "content": [part], "role": "assistant"}


def _call_item(turn: int, number: int, call: Call) -> dict[str, Any]:
    id = f"fc_0c5be1d87a3f42960069f1a2b4937c819384756abcdef0{turn:02}{number:02}"
    return {
        "id": id,
        "type": "function_call",
        "status": "completed",
        "arguments": call[2],
        "call_id": call[0],
        "name": call[1],
    }


def _responses(turn: int, text: str, calls: Sequence[Call]) -> dict[str, Any]:
    output = [_message_item(turn, text)] if text else []
    output += [_call_item(turn, number, call) for number, call in enumerate(calls)]
    return _response(turn, "completed", output, _RESPONSES_USAGE)


_RESPONSES_USAGE = {
    "input_tokens": 107,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 40,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 147,
}


def _response(turn: int, status: str, output: list[Any], usage: Any) -> dict[str, Any]:
    return {
        "id": f"resp_0c5be1d87a3f42960069f1a2b3c4d5e6f7081920a1b2c3d4{turn:02}",
        "object": "response",
        "created_at": NOW + turn,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "model": "gpt-5.1-2025-11-13",
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": {"effort": "none", "summary": None},
        "safety_identifier": None,
        "service_tier": "default",
        "store": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage,
        "user": None,
        "metadata": {},
    }


def _responses_events(turn: int, text: str, calls: Sequence[Call]) -> Iterator[bytes]:
    number = -1

    def event(kind: str, **fields: Any) -> bytes:
        nonlocal number
        number += 1
        return (
            f"event: {kind}\ndata: ".encode()
            + dumps({"type": kind, "sequence_number": number, **fields})
            + b"\n\n"
        )

    done = _responses(turn, text, calls)
    yield event("response.created", response=_response(turn, "in_progress", [], None))
    for index, item in enumerate(done["output"]):
        yield event(
            "response.output_item.added",
            output_index=index,
            item={**item, "status": "in_progress", **_without_content(item)},
        )
        place = {"item_id": item["id"], "output_index": index}
        if item["type"] == "message":
            place, part = {**place, "content_index": 0}, item["content"][0]
            yield event("response.content_part.added", **place, part={**part, "text": ""})
            for piece in split_text(text):
                yield event("response.output_text.delta", **place, delta=piece, logprobs=[])
            yield event("response.output_text.done", **place, text=text, logprobs=[])
            yield event("response.content_part.done", **place, part=part)
        else:
            for piece in split_text(item["arguments"]):
                yield event("response.function_call_arguments.delta", **place, delta=piece)
            yield event(
                "response.function_call_arguments.done",
                **place,
                arguments=item["arguments"],
                name=item["name"],
            )
        yield event("response.output_item.done", output_index=index, item=item)
    yield event("response.completed", response=done)


def _without_content(item: dict[str, Any]) -> dict[str, Any]:
    return {"content": []} if item["type"] == "message" else {"arguments": ""}
