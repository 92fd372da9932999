"""Whatever bytes come, only errors of ours come out."""

import json
import random
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from reply_reading import Doc, single
from stream_samples import CALL, STREAMS, block, chunk, frames_of, item, line, part, tool

from toolglot.errors import ToolglotError
from toolglot.providers.catalog import resolve_profile
from toolglot.values.messages import Message, Reply, Text, load, save
from toolglot.values.request import Request
from toolglot.wire.codec import create_reader, encode_request
from toolglot.wire.spec import SPECS, WIRES

pytestmark = pytest.mark.untraced

MUTANTS = 5_000  # of each wire; ten times as many with `make test-all`
EVERY_WIRE = pytest.mark.parametrize("wire", WIRES)

# ---- mutations

ODD: list[Any] = [
    *(None, True, False, 0, -1, 7, 2.5, 1e400, float("nan"), 10**30, "", "x", "null", "\ud800", "$.a[0]"),
    *(
        [],
        [None],
        [[]],
        ["x"],
        {},
        {"": {}},
        {"text": 7},
        {"type": "text"},
        {"type": []},
        {"function": []},
        {"error": 1},
    ),
    *([{"type": "text", "text": None}], [1, "x", {}]),
]
NAMES = [
    "type",
    "index",
    "id",
    "name",
    "text",
    "delta",
    "content",
    "error",
    "arguments",
    "input",
    "item",
    "output",
    "parts",
]


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    pairs: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        pairs = cast(Doc, value).items()
    elif isinstance(value, list):
        pairs = enumerate(cast(list[Any], value))
    for key, inner in pairs:
        yield from paths_of(inner, (*path, key))


def bent(doc: bytes, path: tuple[Any, ...], chance: random.Random) -> bytes:
    """The document with one value replaced, dropped or renamed."""
    node = root = json.loads(doc)
    for step in path[:-1]:
        node = node[step]
    last, way = path[-1], chance.random()
    if way < 0.7:
        node[last] = chance.choice(ODD)
    elif way < 0.85 or isinstance(node, list):
        del node[last]
    else:
        node[chance.choice(NAMES)] = node.pop(last)
    return json.dumps(root).encode()


def broken(frame: bytes, chance: random.Random) -> bytes:
    """The frame with bytes flipped, cut out or doubled."""
    at, size, way = chance.randrange(len(frame)), chance.randrange(1, 9), chance.random()
    if way < 0.4:
        return frame[:at] + bytes([frame[at] ^ 1 << chance.randrange(8)]) + frame[at + 1 :]
    if way < 0.6:
        return frame[:at] + frame[at + size :]
    if way < 0.7:
        return frame[:at]
    if way < 0.85:
        return frame[:at] + frame[at : at + size] * 2 + frame[at + size :]
    return (
        frame[:at]
        + chance.choice([b"\n", b"\r", b"\n\n", b"\x00", b"\xff", b'"', b"}", b"[", b"\\"])
        + frame[at:]
    )


def mutants(wire: str, count: int) -> Iterator[bytes]:
    """Streams, each with one frame that is not as it should be."""
    chance = random.Random(wire)
    streams = [
        [(frames_of(wire, doc), json.dumps(doc).encode(), list(paths_of(doc))) for doc in docs]
        for docs in STREAMS[wire]
    ]
    for _ in range(count):
        stream = chance.choice(streams)
        frames = [frame for frame, _, _ in stream]
        at = chance.randrange(len(stream))
        frame, doc, paths = stream[at]
        way = chance.random()
        if way < 0.65:
            frames[at] = frame.replace(doc, bent(doc, chance.choice(paths), chance))
        elif way < 0.9:
            frames[at] = broken(frame, chance)
        elif way < 0.95:
            frames.insert(chance.randrange(len(stream)), frame)
        else:
            del frames[at]
        yield b"".join(frames)


def outcome(wire: str, pieces: list[bytes], *, streaming: bool = True) -> Reply | str | None:
    reading = create_reader(wire, streaming=streaming)
    try:
        for piece in pieces:
            reading.feed(piece)
        reading.close()
    except ToolglotError as error:
        return repr(error)
    return reading.reply


# ---- the laws


@EVERY_WIRE
def test_the_streams_to_start_from_are_good(wire: str) -> None:
    for docs in STREAMS[wire]:
        assert isinstance(outcome(wire, [frames_of(wire, *docs)]), Reply)


@EVERY_WIRE
@pytest.mark.parametrize("count", [MUTANTS, pytest.param(10 * MUTANTS, marks=pytest.mark.slow)])
def test_only_errors_of_ours_come_out_of_mutated_frames(wire: str, count: int) -> None:
    escaped: dict[str, bytes] = {}
    replies = 0
    for number, body in enumerate(mutants(wire, count)):
        try:
            got = outcome(wire, [body])
            replies += isinstance(got, Reply)
            if number % 100 == 0:
                assert repr(outcome(wire, single(body))) == repr(got), body
        except AssertionError:
            raise
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            escaped.setdefault(f"{error!r} in {where.filename}:{where.lineno}", body)
    assert escaped == {}
    assert count * 0.1 < replies < count * 0.9  # the mutations are neither too weak nor too strong


NESTED: dict[str, list[Doc]] = {  # the last of each has the wrong shape
    "openai-chat": [
        tool(0, "DEEP", name="f"),
        chunk({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "DEEP"}}]}),
        chunk({"content": "DEEP"}),
        chunk({"annotations": ["DEEP"], "reasoning_details": ["DEEP"]}),
        {"choices": ["DEEP", 7]},
    ],
    "openai-responses": [
        item(0, "done", **CALL | {"arguments": "DEEP"}),
        item(0, "done", type="odd", x="DEEP"),
        {"type": "response.output_item.done", "item": "DEEP"},
    ],
    "anthropic-messages": [
        block("start", 0, content_block={"type": "tool_use", "name": "f", "input": "DEEP"}),
        block("start", 0, content_block={"type": "odd", "x": "DEEP"}),
        {"type": "content_block_start", "content_block": "DEEP"},
    ],
    "gemini": [
        part({"functionCall": {"name": "f", "args": {"a": "DEEP"}}}),
        part({"odd": "DEEP"}),
        part({"text": "DEEP"}),
        {"candidates": ["DEEP", 7], "usageMetadata": 7, "promptFeedback": 7},
    ],
    "ollama-chat": [
        line(tool_calls=[{"function": {"name": "f", "arguments": "DEEP"}}]),
        line(odd="DEEP"),
        line(content="DEEP"),
        line(tool_calls=["DEEP", 7]),
    ],
}
DEPTHS = [10, 100, 200, 300, 400, 450, 500, 600, 700, 800, 900, 950, *range(960, 1000, 3), 2_000, 100_000]


@EVERY_WIRE
@pytest.mark.parametrize("open", ['{"a":', "["], ids=["objects", "arrays"])
def test_only_errors_of_ours_come_out_of_deep_nesting(wire: str, open: str) -> None:
    last = frames_of(wire, STREAMS[wire][0][-1])
    for doc in (*NESTED[wire], {"error": "DEEP"}, {"error": {"message": "DEEP"}}, {"x": "DEEP"}):
        for depth in DEPTHS:
            deep = (open * depth + "0" + ("}" if open == '{"a":' else "]") * depth).encode()
            outcome(wire, [frames_of(wire, doc).replace(b'"DEEP"', deep) + last])  # raises what is not ours


# ---- leaves


def leaf_mutants(wire: str) -> Iterator[tuple[bytes, bool]]:
    """Every reply of `replies/`, streamed and whole, with each of its leaves in turn replaced by a value of
    another type.
    """
    lines = (Path(__file__).parent / "replies" / f"{wire}.jsonl").read_text("utf-8").splitlines()
    for case in map(json.loads, lines):
        docs: list[Doc] = [doc for doc in case.get("frames", [case.get("body")]) if isinstance(doc, dict)]
        for at, doc in enumerate(docs):
            before, after = frames_of(wire, *docs[:at]), frames_of(wire, *docs[at + 1 :])
            for path in paths_of(doc):
                for value in (None, 7, ["x"], {"a": 1}):
                    root = json.loads(json.dumps(doc))
                    node = root
                    for step in path[:-1]:
                        node = node[step]
                    node[path[-1]] = value
                    whole = "body" in case
                    yield (
                        json.dumps(root).encode() if whole else before + frames_of(wire, root) + after,
                        not whole,
                    )


@EVERY_WIRE
def test_a_leaf_of_a_wrong_type_never_enters_a_conversation(wire: str) -> None:
    """What can be read can be saved, loaded and sent again, to every wire."""
    replies = 0
    for body, streaming in leaf_mutants(wire):
        reply = outcome(wire, [body], streaming=streaming)
        if isinstance(reply, Reply):
            replies += 1
            history = (Message("user", (Text("q"),)), reply.message)
            assert load(save(history))[0][-1].text == reply.text, body
            encode_request(Request("m", history), resolve_profile(SPECS[wire].default_profile, "m"))
    assert replies > 100
