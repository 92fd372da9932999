"""Replies of every wire, and of the many servers that are nearly like it.

`replies/*.jsonl` has a case per line: the `frames` of a stream, its `text`, or a whole `body`, and the
complete reply (with its losses and, where their order matters, its events) or the error. A `lawless` one
breaks a law of events that no server can keep."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from reply_reading import Doc, Result, lines_of, read, read_pieces, single, sse_of
from stream_samples import in_aws

from toolglot.common.jsontext import dumps, loads
from toolglot.errors import ToolglotError
from toolglot.values.messages import StopReason
from toolglot.wire.json_values import snake_to_camel
from toolglot.wire.spec import WIRES


def load_cases(wire: str) -> dict[str, Doc]:
    lines = (Path(__file__).parent / "replies" / f"{wire}.jsonl").read_text("utf-8").splitlines()
    return {case.pop("case"): case for case in map(json.loads, lines)}


CASES = {wire: load_cases(wire) for wire in WIRES}


def to_bytes(wire: str, case: Doc) -> bytes:
    if "frames" in case:
        return lines_of(*case["frames"]) if wire == "ollama-chat" else sse_of(*case["frames"])
    return case["text"].encode() if "text" in case else json.dumps(case["body"]).encode()


@pytest.mark.parametrize(("wire", "name"), [(wire, name) for wire in WIRES for name in CASES[wire]])
def test_a_reply_is_read_as_expected(wire: str, name: str) -> None:
    case = CASES[wire][name]
    body, streaming = to_bytes(wire, case), "body" not in case
    if "error" in case:
        for pieces in ([body], single(body)):
            with pytest.raises(ToolglotError) as caught:
                read_pieces(wire, pieces, streaming=streaming)
            assert caught.value.type == case["error"]
            assert str(caught.value) == case.get("message", str(caught.value))
            assert getattr(caught.value, "retry_after", None) == case.get("retry_after")
        return
    result = read_pieces(wire, [body]) if "lawless" in case else read(wire, body, streaming=streaming)
    assert loads(dumps(result.reply)) == case["reply"]
    assert [str(loss) for loss in result.losses] == case.get("losses", [])
    if "events" in case:
        assert loads(dumps(result.events[:-1])) == case["events"]


@pytest.mark.parametrize("reason", ["stop", "", None], ids=repr)
def test_calls_of_chat_count_whatever_the_finish_reason(reason: str | None) -> None:
    for name, case in CASES["openai-chat"].items():
        if name.startswith("two calls in any form"):
            end: Doc = {
                "id": "c1",
                "model": "m1",
                "choices": [{"index": 0, "delta": {}, "finish_reason": reason}],
            }
            result = read("openai-chat", sse_of(*case["frames"][:-2], end, "[DONE]"))
            assert loads(dumps(result.reply)) == case["reply"]


def test_gemini_streams_are_read_in_any_layout() -> None:
    """Without `alt=sse`, the events are the elements of one array."""
    for case in CASES["gemini"].values():
        if "frames" in case and "error" not in case:
            for body in (json.dumps(case["frames"], indent=1).encode(), lines_of(*case["frames"])):
                assert loads(dumps(read("gemini", body).reply)) == case["reply"]


def test_claude_on_bedrock_comes_in_aws_messages() -> None:
    for case in CASES["anthropic-messages"].values():
        if "frames" in case and "reply" in case and "lawless" not in case:
            body = b"".join(in_aws("anthropic-messages", frame) for frame in case["frames"])
            assert loads(dumps(read("anthropic-messages", body).reply)) == case["reply"]


# ---- frames without content

EMPTY_DELTAS: list[Any] = [
    None,
    {},
    # zero values of Go
    {"role": "", "content": "", "refusal": "", "reasoning_content": "", "tool_calls": None, "audio": None},
    {"function_call": {"name": "", "arguments": ""}},
    {"tool_calls": [], "annotations": [], "reasoning_details": []},
    {"content": "", "padding": "abc", "obfuscation": "x", "token_ids": [1], "index": 3},
]
NOTHING: dict[str, list[Doc]] = {
    "openai-chat": [
        {"id": "c1", "model": "m1", "choices": [], "usage": {"prompt_tokens": 1}},
        # Azure's first
        {"id": "", "model": "", "object": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
        {"id": "c1", "model": "m1", "choices": None, "copilot_references": []},
        {"object": "chat.completion.chunk"},
        {"choices": [{"index": 0, "finish_reason": None, "content_filter_offsets": {"start": 0}}]},
        *(
            {"id": "c1", "model": "m1", "choices": [{"index": 0, "delta": delta, "finish_reason": ""}]}
            for delta in EMPTY_DELTAS
        ),
    ],
    "anthropic-messages": [
        {"type": "ping"},
        {"type": "vertex_event"},
        {"type": "content_block_new", "index": 0},
    ],
    "gemini": [
        {"usageMetadata": {"promptTokenCount": 1}, "modelVersion": "m1", "responseId": "r1"},
        {"candidates": [], "modelVersion": "m1", "responseId": "r1"},
        {"candidates": None, "modelVersion": "m1", "responseId": "r1"},
        {"candidates": [{}], "modelVersion": "m1", "responseId": "r1"},
        {"candidates": [{"content": {"role": "model"}, "index": 0}]},
        {},
    ],
}


@pytest.mark.parametrize(("wire", "frame"), [(wire, frame) for wire in NOTHING for frame in NOTHING[wire]])
def test_a_frame_without_content_changes_nothing_anywhere(wire: str, frame: Doc) -> None:
    def gist(result: Result) -> Any:
        reply = result.reply
        return (
            result.events[:-1],
            reply.blocks,
            reply.stop,
            reply.id,
            reply.origin,
            reply.opaque,
            result.losses,
        )

    frames = next(case["frames"] for name, case in CASES[wire].items() if name.endswith("events"))
    expected = gist(read(wire, sse_of(*frames)))
    for at in range(len(frames) + 1):
        assert gist(read(wire, sse_of(*frames[:at], frame, *frames[at:]))) == expected
    bare = sse_of(*frames).replace(
        b"event: content_block_stop", b"event: ping\ndata: \n\nevent: content_block_stop"
    )
    assert gist(read(wire, bare)) == expected


# ---- stop reasons: each function returns the body, and the frames of a stream


def chat(reason: Any) -> list[Doc]:
    choice = {"index": 0, "finish_reason": reason}
    return [
        {"choices": [choice | {"message": {"content": "a"}}]},
        {"choices": [choice | {"delta": {"content": "a"}}]},
    ]


def responses(reason: Any) -> list[Doc]:
    status, _, detail = (reason or "").partition(" ")
    body: Doc = {
        "id": "r",
        "output": [],
        "status": status or None,
        "incomplete_details": {"reason": detail} if detail else None,
    }
    kind = status if status in ("incomplete", "cancelled") else "completed"
    return [body, {"type": f"response.{kind}", "response": body}]


def anthropic(reason: Any) -> list[Doc]:
    body = {"type": "message", "id": "m", "content": [{"type": "text", "text": "a"}], "stop_reason": reason}
    start = {"type": "message_start", "message": body | {"stop_reason": None}}
    return [
        body,
        start,
        {"type": "message_delta", "delta": {"stop_reason": reason}},
        {"type": "message_stop"},
    ]


def gemini(reason: Any) -> list[Doc]:
    body = {"candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": reason}]}
    return [
        body,
        {"candidates": [{"content": {"parts": [{"text": "a"}]}}]},
        {"candidates": [{"finishReason": reason}]},
    ]


def ollama(reason: Any) -> list[Doc]:
    body = {"model": "m", "message": {"content": "a"}, "done": True, "done_reason": reason}
    return [body, body]


STOPS: dict[str, tuple[Callable[[Any], list[Doc]], dict[StopReason, tuple[Any, ...]]]] = {
    "openai-chat": (
        chat,
        {
            "end": ("stop", "tool_calls", "eos"),
            "length": ("length", "model_length"),
            "filtered": ("content_filter",),
            "error": ("insufficient_system_resource", "error"),
        },
    ),
    "openai-responses": (
        responses,
        {
            "end": ("completed", None),
            "length": ("incomplete max_output_tokens", "incomplete steered", "incomplete"),
            "filtered": ("incomplete content_filter",),
            "error": ("cancelled",),
            "pause": ("queued", "in_progress"),
        },
    ),
    "anthropic-messages": (
        anthropic,
        {
            "end": ("end_turn", "stop_sequence", "tool_use", "of_next_year", None),
            "pause": ("pause_turn",),
            "length": ("max_tokens", "model_context_window_exceeded"),
            "refusal": ("refusal",),
        },
    ),
    "gemini": (
        gemini,
        {
            "end": ("STOP", 1),
            "length": ("MAX_TOKENS", 2),
            "pause": ("CONTINUATION",),
            "filtered": (
                "SAFETY",
                "RECITATION",
                "LANGUAGE",
                "BLOCKLIST",
                "PROHIBITED_CONTENT",
                "SPII",
                "IMAGE_SAFETY",
                3,
                4,
            ),
            "error": (
                "OTHER",
                "MALFORMED_FUNCTION_CALL",
                "UNEXPECTED_TOOL_CALL",
                "TOO_MANY_TOOL_CALLS",
                "MALFORMED_RESPONSE",
                "OF_NEXT_YEAR",
                5,
            ),
        },
    ),
    "ollama-chat": (ollama, {"end": ("stop", "load", "unload", None), "length": ("length",)}),
}


@pytest.mark.parametrize(
    ("wire", "stop", "reason"),
    [(wire, stop, reason) for wire, (_, table) in STOPS.items() for stop in table for reason in table[stop]],
)
def test_stop_reasons(wire: str, stop: StopReason, reason: Any) -> None:
    body, *frames = STOPS[wire][0](reason)
    assert read(wire, json.dumps(body).encode(), streaming=False).reply.stop == stop
    assert read(wire, to_bytes(wire, {"frames": frames})).reply.stop == stop


def test_names_of_fields_in_both_spellings() -> None:
    names = {"function_call": "functionCall", "text": "text", "a_b_cD": "aBCD", "thought": "thought"}
    assert {name: snake_to_camel(name) for name in names} == names
