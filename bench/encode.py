"""What the next request of a long conversation costs: the whole encoded anew, or only what is new."""

from statistics import median
from time import process_time

from bench.measure import Figure, Table
from bench.streams import BUILDERS, words
from toolglot.common.jsontext import dumps, loads
from toolglot.providers.catalog import resolve_profile
from toolglot.values.messages import (
    Conversation,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    system,
    tool_results,
    user,
)
from toolglot.values.request import Request, ToolDefinition
from toolglot.wire.codec import encode_request
from toolglot.wire.prefix import PrefixEncoder
from toolglot.wire.spec import SPECS

TURNS = 200
RESULT = "".join(words(2600))[: 10 * 1024]
MIN_SPEEDUP = 10.0
MODELS = dict(
    zip(BUILDERS, ("gpt-4.1", "gpt-5.2", "claude-sonnet-4-5", "gemini-2.5-flash", "qwen3:4b"), strict=True)
)
SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Relative to the project."},
        "lines": {"type": "integer"},
    },
    "required": ["path"],
}
TOOLS = tuple(
    ToolDefinition(name, f"{name} in the project", SCHEMA)
    for name in ("read", "list", "stat", "head", "tail")
)


def add_turn(conversation: Conversation, turn: int) -> None:
    """The user asks, the model calls, the tool answers with 10 KB."""
    id = f"call_{turn:012d}"
    conversation.append(
        user(f"Read chapter {turn}, please."),
        assistant(
            [
                Text(f"I read chapter {turn}."),
                ToolCall(id, "read", {"path": f"chapters/{turn}.md", "lines": 200}),
            ]
        ),
        tool_results(ToolResult(id, (Text(f"{turn}: {RESULT}"),))),
    )


def encode_table(*, quick: bool) -> Table:
    table = Table(
        f"The next request of a growing conversation ({TURNS} turns, {TURNS * len(RESULT) / 1e6:.0f} MB): "
        "CPU µs",
        f"ours = turns {TURNS - 19} to {TURNS}, early = turns 10 to 29; whole = encode_request + dumps of "
        "everything",
    )
    for wire in BUILDERS:
        rounds = [_measure_round(wire) for _ in range(3 if quick else 7)]
        turns = [1e6 * median(times) for times in zip(*(times for times, _ in rounds), strict=True)]
        whole = 1e6 * median(whole for _, whole in rounds)
        early, late = median(turns[9:29]), median(turns[-20:])
        table.rows.append(
            {
                "": wire,
                "whole ÷ ours": Figure(whole / late, minimum=MIN_SPEEDUP),
                "late ÷ early": Figure(late / early),
                "ours": late,
                "whole": whole,
                "ours, early": early,
            }
        )
    return table


def _measure_round(wire: str) -> tuple[list[float], float]:
    """CPU time of each turn's request, and of the last one encoded whole."""
    profile = resolve_profile(SPECS[wire].default_profile, MODELS[wire])
    encoder, conversation, times = PrefixEncoder(profile), Conversation([system("Be brief.")]), list[float]()
    request, body = Request(MODELS[wire], conversation, TOOLS), b""
    for turn in range(TURNS):
        add_turn(conversation, turn)
        request = Request(MODELS[wire], conversation, TOOLS)
        start = process_time()
        body = encoder.encode(request).body
        times.append(process_time() - start)
    start = process_time()
    whole = dumps(encode_request(request, profile).body)
    took = process_time() - start
    assert loads(body) == loads(whole), f"{wire}: the two encodings differ"
    assert len(body) > TURNS * len(RESULT)
    assert all(body.count(f"chapters/{turn}.md".encode()) == 1 for turn in range(TURNS))
    return times, took
