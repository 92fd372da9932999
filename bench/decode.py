"""What reading a streamed reply costs: against splitting and parsing the same bytes, and against the official
SDKs.
"""

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from bench.measure import Figure, Table, cpu_seconds
from bench.sdks import SDK_NAMES, load_sdk_reader
from bench.streams import BUILDERS, Stream, StreamOutcome, arguments, stream, words
from toolglot.values.events import TextDelta, ToolCallDelta
from toolglot.values.messages import Reply
from toolglot.wire.codec import create_reader
from toolglot.wire.partial import PartialArguments

MAX_FLOOR_RATIO = 2.5  # at most so many times the floor
MIN_SDK_RATIO = {"openai": 20.0, "anthropic": 6.0}  # at least so many times less than the SDK
RECORDINGS = Path(__file__).parents[2] / "shared" / "corpus" / "recordings"


def decode_ours(
    wire: str, reads: Iterable[bytes], tools: dict[str, dict[str, Any]] | None = None
) -> StreamOutcome:
    reader = create_reader(wire, text_calls=tools)
    for data in reads:
        reader.feed(data)
    reader.close()
    return summarize_reply(reader.reply)


def summarize_reply(reply: Reply) -> StreamOutcome:
    lengths = (
        len(call.raw) if call.raw is not None else sum(map(len, (call.arguments or {}).values()))
        for call in reply.calls
    )
    return StreamOutcome(reply.text, len(reply.calls), sum(lengths))


def parse_floor(separator: bytes, reads: Iterable[bytes]) -> int:
    """Split and parse, nothing else: no decoder that reads every event can cost less."""
    parse = msgspec.json.Decoder().decode
    count, remainder = 0, b""
    for data in reads:
        *events, remainder = (remainder + data).split(separator)
        for event in events:
            at = event.find(b"{")
            if at >= 0:
                parse(event[at:])
                count += 1
    return count


def decode_live(wire: str, reads: Iterable[bytes]) -> StreamOutcome:
    """As `ours`, with the arguments kept readable while they grow."""
    reader, growing = create_reader(wire), PartialArguments()
    value: object = None
    for data in reads:
        for event in reader.feed(data):
            if type(event) is ToolCallDelta:
                growing.feed(event.text)
                value = growing.value
    reader.close()
    if reader.reply.calls[0].raw is not None:
        assert value == reader.reply.calls[0].arguments
    return summarize_reply(reader.reply)


def check_streaming(stream_case: Stream) -> None:
    """What is measured tells everything while it streams, not only at the end."""
    reader = create_reader(stream_case.wire)
    events = [event for data in stream_case.events for event in reader.feed(data)]
    assert (
        "".join(event.text for event in events if isinstance(event, TextDelta)) == stream_case.expected.text
    )
    assert stream_case.wire in ("gemini", "ollama-chat") or stream_case.expected.arguments == sum(
        len(event.text) for event in events if isinstance(event, ToolCallDelta)
    )


def decode_table(*, quick: bool) -> Table:
    deltas = 500 if quick else 2000
    table = Table(
        "Reading a stream: CPU µs per event",
        f"text = {deltas} text deltas; call = case call, {deltas} fragments of arguments; floor = split + "
        "parse, nothing else",
    )
    for wire in BUILDERS:
        for case in (
            stream(wire, "text", text=words(deltas)),
            stream(wire, "call", call=arguments(10 * deltas)),
        ):
            check_streaming(case)
            table.rows.append(_row(case, "64 KB reads", [case.blocks()], quick))
            if not quick:
                table.rows.append(_row(case, "a read an event", [case.events], quick))
            if case.name == "text" and wire in ("openai-chat", "ollama-chat"):  # the wires of local servers
                table.rows.append(
                    _row(case, "calls may be in the text", [case.blocks()], quick, {"look_up": {}})
                )
    if not quick and RECORDINGS.is_dir():
        table.rows += [
            _measure_recordings(wire) for wire in ("openai-chat", "openai-responses", "anthropic-messages")
        ]
    return table


def _row(
    stream_case: Stream,
    how: str,
    replies: list[list[bytes]],
    quick: bool,
    tools: dict[str, dict[str, Any]] | None = None,
) -> dict[str, object]:
    """`replies`: the reads of each reply. `tools`: calls to them may be in the text."""
    official = load_sdk_reader(stream_case.wire)
    docs = sum(b"{" in event for event in stream_case.events)
    runs = {
        "ours": lambda: _add_outcomes(decode_ours(stream_case.wire, reads, tools) for reads in replies),
        "floor": lambda: sum(parse_floor(stream_case.separator, reads) for reads in replies),
        **({"sdk": lambda: _add_outcomes(official(reads) for reads in replies)} if official else {}),
    }
    expected = {"ours": stream_case.expected, "floor": docs, "sdk": stream_case.expected}
    took = {
        name: 1e6 * seconds / docs for name, seconds in cpu_seconds(runs, expected, 3 if quick else 5).items()
    }
    return {
        "": f"{stream_case.wire} {stream_case.name}, {how}",
        "ours ÷ floor": Figure(took["ours"] / took["floor"], maximum=None if tools else MAX_FLOOR_RATIO),
        "SDK ÷ ours": Figure(
            took["sdk"] / took["ours"], minimum=MIN_SDK_RATIO.get(SDK_NAMES[stream_case.wire])
        )
        if official
        else None,
        "ours": took["ours"],
        "floor": took["floor"],
        "SDK": took.get("sdk"),
    }


def _add_outcomes(outcomes: Iterable[StreamOutcome]) -> StreamOutcome:
    texts, calls, lengths = zip(*outcomes, strict=True)
    return StreamOutcome("".join(texts), sum(calls), sum(lengths))


def _measure_recordings(wire: str) -> dict[str, object]:
    """Real streams case after another.

    What they say is taken from the official SDK: ours must read the same.
    """
    lines = (RECORDINGS / f"{wire}.jsonl").read_bytes().splitlines()
    bodies = [
        record["response_body"].encode() for record in map(json.loads, lines) if _is_plain_recording(record)
    ]
    official = load_sdk_reader(wire)
    expected = _add_outcomes(official([body]) if official else decode_ours(wire, [body]) for body in bodies)
    events = [event + b"\n\n" for body in bodies for event in body.split(b"\n\n")]
    case = Stream(wire, f"{len(bodies)} recordings", events, expected)
    return _row(case, "whole", [[body] for body in bodies], quick=False)


def _is_plain_recording(record: dict[str, Any]) -> bool:
    """Text and function calls as the vendor itself streamed them: what the few lines around the SDKs join."""
    body, request = record["response_body"], record["request"] or {}
    first_party = record["provider"] in ("openai", "anthropic") and record["fidelity"] == "verbatim"
    special = {
        "refusal",
        "custom-tools",
        "legacy-function-call",
        "server-tools",
        "truncated",
        "error",
    }.intersection(record["tags"])
    whole = (
        record["streaming"] and record["status"] == 200 and body.endswith("\n\n") and body.count("\n\n") > 10
    )
    return first_party and whole and not special and request.get("n", 1) == 1


def flat_table(*, quick: bool) -> Table:
    """Cost per event against the size of the arguments."""
    sizes = (5, 39) if quick else (5, 10, 20, 39)
    table = Table(
        "Growing arguments: CPU µs per event, fragments of 10 characters, live partial arguments on",
        "Gemini has no fragments of JSON (pieces of values instead), so nothing is live there; Ollama sends "
        "calls whole",
    )
    for wire in ("openai-chat", "openai-responses", "anthropic-messages", "gemini"):
        streams = {f"{size} KB": stream(wire, "call", call=arguments(1000 * size)) for size in sizes}
        runs = {name: partial(decode_live, wire, case.blocks()) for name, case in streams.items()}
        took = cpu_seconds(runs, {name: case.expected for name, case in streams.items()}, 3 if quick else 15)
        each = {name: 1e6 * seconds / len(streams[name].events) for name, seconds in took.items()}
        table.rows.append(
            {"": wire, "39 KB ÷ 5 KB": Figure(each["39 KB"] / each["5 KB"], maximum=1.1), **each}
        )
    return table
