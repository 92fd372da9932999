"""Memory is bounded by the input, time is linear in it."""

import json
import time
import tracemalloc
from collections.abc import Callable, Iterator

import pytest
from reply_reading import Doc, lines_of, single, sse_of
from stream_samples import CALL, block, chunk, delta, frames_of, in_aws, item, line, part, tool

from aws_events import encode_aws_event
from toolglot.wire.codec import create_reader
from toolglot.wire.spec import WIRES

SIZE = 1_000_000
PIECES: dict[str, tuple[Callable[[str], Doc], Doc]] = {  # a frame with some text, the terminal
    "openai-chat": (lambda text: tool(0, text, name="f"), chunk({}, "stop")),
    "openai-responses": (
        lambda text: delta("function_call_arguments", 0, delta=text),
        {"type": "response.completed", "response": {"output": []}},
    ),
    "anthropic-messages": (
        lambda text: block("delta", 0, delta={"type": "input_json_delta", "partial_json": text}),
        {"type": "message_stop"},
    ),
    "gemini": (lambda text: part({"text": text}), part(finishReason="STOP")),
    "ollama-chat": (lambda text: line(content=text), line(True)),
}


def reads(body: bytes, size: int = 65_536) -> Iterator[bytes]:
    return (body[at : at + size] for at in range(0, len(body), size))


@pytest.mark.parametrize(
    ("wire", "write"), [*((wire, frames_of) for wire in WIRES), ("anthropic-messages", in_aws)]
)
@pytest.mark.parametrize("text", [20, 2_000, SIZE], ids=["small frames", "large frames", "one frame"])
@pytest.mark.untraced
def test_memory_is_bounded_by_the_input(wire: str, write: Callable[[str, Doc], bytes], text: int) -> None:
    frame, terminal = PIECES[wire]
    first = write(wire, frame("y" * text))
    body = first * max(SIZE // len(first), 1) + write(wire, terminal)
    tracemalloc.start()
    reading = create_reader(wire)
    for piece in reads(body):
        reading.feed(piece)
    reading.close()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 4 * len(body)


def many(
    wire: str, make: Callable[[int], Doc], count: int = 1_500
) -> tuple[str, Callable[[int], list[bytes]]]:
    """A stream of that many frames, times a factor."""
    return wire, lambda factor: list(
        reads(frames_of(wire, *map(make, range(count * factor)), PIECES[wire][1]))
    )


def bytewise(wire: str, write: Callable[[Doc], bytes]) -> tuple[str, Callable[[int], list[bytes]]]:
    """One large document, byte by byte."""
    return wire, lambda factor: single(write(line(True, content="y" * 30_000 * factor)))


def citation(number: int) -> Doc:
    return block("delta", 0, delta={"type": "citations_delta", "citation": number})


def argument(number: int) -> Doc:
    return part(
        {
            "functionCall": {
                "partialArgs": [{"jsonPath": "$.a", "stringValue": "y" * 40}],
                "willContinue": True,
            }
        }
    )


def thought(number: int) -> Doc:
    return chunk({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "y" * 40}]})


def lines(factor: int) -> list[bytes]:
    return list(reads(json.dumps(line(True, x=[1] * 15_000 * factor), indent=0).encode(), 16))


def array(factor: int) -> list[bytes]:
    return list(reads(json.dumps([part({"text": "y"}, finishReason="STOP")] * 1_500 * factor).encode(), 64))


def blank(factor: int) -> list[bytes]:
    return [b"\n"] * 8_000 * factor + [sse_of(chunk({}, "stop"))]


SHAPES = {
    **{f"{wire}: texts": many(wire, lambda _, frame=PIECES[wire][0]: frame("y" * 40)) for wire in WIRES},
    "openai-chat: calls by index": many("openai-chat", lambda n: tool(n, "{}", name="f"), 400),
    "openai-chat: calls by id": many(
        "openai-chat", lambda n: chunk({"tool_calls": [{"id": f"i{n}", "function": {"name": "f"}}]}), 400
    ),
    "openai-chat: reasoning details": many("openai-chat", thought, 6_000),
    "openai-chat: annotations": many("openai-chat", lambda n: chunk({"annotations": [n]}), 3_000),
    "openai-responses: items": many("openai-responses", lambda n: item(n, "done", **CALL)),
    "anthropic-messages: blocks": many(
        "anthropic-messages",
        lambda n: block("start", n, content_block={"type": "tool_use", "id": f"t{n}", "name": "f"}),
    ),
    "anthropic-messages: citations": many("anthropic-messages", citation, 3_000),
    "gemini: calls": many("gemini", lambda n: part({"functionCall": {"name": "f", "args": {"n": n}}})),
    "gemini: pieces of arguments": many("gemini", argument, 6_000),
    "ollama-chat: calls": many("ollama-chat", lambda _: line(tool_calls=[{"function": {"name": "f"}}])),
    "one event, byte by byte": bytewise("ollama-chat", sse_of),
    "one line, byte by byte": bytewise("ollama-chat", lines_of),
    "one aws message, byte by byte": bytewise(
        "ollama-chat", lambda doc: encode_aws_event(json.dumps(doc).encode())
    ),
    "one value over many lines": ("ollama-chat", lines),
    "one array": ("gemini", array),
    "blank lines before the answer": ("openai-chat", blank),
}


def seconds(wire: str, pieces: list[bytes]) -> float:
    start = time.process_time()
    reading = create_reader(wire)
    for piece in pieces:
        reading.feed(piece)
    reading.close()
    return time.process_time() - start


@pytest.mark.parametrize(("wire", "body"), SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.untraced
def test_time_is_linear(wire: str, body: Callable[[int], list[bytes]]) -> None:
    """Four times the input takes about four times as long; were it quadratic, it would take sixteen times,
    every time.
    """
    small, large = body(1), body(4)
    ratios = (
        min(seconds(wire, large) for _ in range(3)) / min(seconds(wire, small) for _ in range(3))
        for _ in range(5)
    )
    assert any(ratio < 8 for ratio in ratios)
