"""Faults on demand: what goes wrong with one response, by name. A name may carry a value: `rate-limit:0.01`.

A fault is requested by `fault NAME [TIMES]` in the user's message (counted for each message, and over HTTP
for each connection, so that a retry succeeds), by the header `x-simulate: NAME`, or by
`Simulator(faults=[...])`. It never hides a bad request: what the provider would refuse is refused first.
"""

import re
from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from toolglot.errors import UnknownName
from toolglot.providers.profile import Profile
from toolglot.simulator.model import truncate_call
from toolglot.simulator.wires.base import Refusal, RefusalKind, load_rules
from toolglot.values.messages import Block, Reply, Text, ToolCall
from toolglot.wire import spec


class Reset(msgspec.Struct, frozen=True):
    """The connection breaks here. As the first part: before the head."""


class Stall(msgspec.Struct, frozen=True):
    """Nothing more is sent, and the connection stays open. As the first part: not even the head."""


Part = bytes | Reset | Stall

_PAST_DATE = "Wed, 21 Oct 2015 07:28:00 GMT"
HTML_PAGE = (
    "<html>\n<head><title>502 Bad Gateway</title></head>\n<body><center><h1>502 Bad "
    "Gateway</h1></center></body>\n</html>\n"
)
_ERROR_FAULTS: dict[str, RefusalKind] = {
    "rate-limit": "rate",
    "rate-limit-date": "rate",
    "quota": "quota",
    "server-error": "server",
    "overloaded": "overloaded",
    "unauthorized": "auth",
    "context-too-long": "too_long",
}
# those that leave a response without its end
TRUNCATING_FAULTS = ("reset", "reset-mid-stream", "stall", "stall-first", "half-json", "truncated")
TRANSPORT_FAULTS = (*TRUNCATING_FAULTS, "error-in-200", "error-in-200-first")
# those after which a client asks again, maybe on another connection
RETRIED_FAULTS = (*TRANSPORT_FAULTS, "rate-limit", "rate-limit-date", "server-error", "overloaded", "html")
# name -> what goes wrong
FAULTS = {
    "rate-limit": "429 with Retry-After; `rate-limit:0.5` sets the seconds",
    "rate-limit-date": "429 with Retry-After as a date",
    "quota": "429 or 402: out of credit; retrying does not help",
    "server-error": "500",
    "overloaded": "529, or the wire's own 503",
    "unauthorized": "401: the key is wrong",
    "context-too-long": "400: the conversation does not fit",
    "html": "502 with a proxy's HTML page",
    "reset": "the connection breaks before any byte",
    "reset-mid-stream": "the connection breaks in the middle of the response",
    "stall": "part of the response, then nothing",
    "stall-first": "no response at all",
    "half-json": "the response ends in the middle of a JSON document",
    "truncated": "the stream ends before its terminal",
    "error-in-200": "an error under status 200, after some content",
    "error-in-200-first": "an error under status 200, before any content",
    "duplicate-ids": "two calls with one id",
    "wrong-index": "parallel calls that all have index 0 (Chat, streamed)",
    "length": "the arguments of the last call are truncated by the length limit",
    "not-json-args": "the arguments of a call are not JSON",
    "unknown-tool": "a call to a tool that does not exist",
}


def parse_fault(text: str) -> tuple[str, str]:
    """Return a fault's name and value. Raises UnknownName."""
    name, _, value = text.strip().partition(":")
    if name not in FAULTS:
        raise UnknownName("fault", name, FAULTS)
    return name, value


def make_refusal(fault: str, value: str, profile: Profile) -> Refusal | None:
    """Return the provider's error, if the fault is one."""
    if fault not in _ERROR_FAULTS:
        return None
    kind = _ERROR_FAULTS[fault]
    retry_after = {"rate-limit": value or "0", "rate-limit-date": _PAST_DATE}.get(fault)
    return Refusal(load_rules(profile.wire).wordings[f"fault {kind}"], kind, retry_after=retry_after)


# ---- faults in what the model says


def has_object_arguments(profile: Profile, *, streamed: bool) -> bool:
    """Whether arguments are objects on the wire, so that nothing in them can be truncated or broken."""
    return spec.SPECS[profile.wire].object_arguments or (
        profile.wire == spec.ANTHROPIC_MESSAGES and not streamed
    )


def apply_to_reply(fault: str, reply: Reply, profile: Profile, *, streamed: bool) -> Reply:
    """Return the reply with the fault, before it has ids."""
    has_objects = has_object_arguments(profile, streamed=streamed)
    others = [block for block in reply.blocks if not isinstance(block, ToolCall)]
    calls = reply.calls
    match fault:
        case "duplicate-ids":
            if len(calls) > 1:
                return reply  # `duplicate_ids` does it, once they have ids
            call = calls[0] if calls else ToolCall("", "lookup", {})
            return replace(reply, blocks=(*others, call, call), stop="tools")
        case "unknown-tool":
            renamed = [replace(call, name="no_such_tool") for call in calls]
            renamed = renamed or [ToolCall("", "no_such_tool", {})]
            return replace(reply, blocks=(*others, *renamed), stop="tools")
        case "length":
            last = calls[-1] if calls else None
            blocks = [_cut(block, last, object_arguments=has_objects) for block in reply.blocks]
            return replace(reply, blocks=tuple(blocks), stop="length")
        case "not-json-args":
            if profile.wire == spec.GEMINI and calls:  # the API reports it instead of the call
                opaque = {"finishReason": "MALFORMED_FUNCTION_CALL"}
                return replace(reply, blocks=tuple(others), stop="error", opaque=opaque)
            if has_objects:
                return reply
            return replace(reply, blocks=tuple(map(_break_arguments, reply.blocks)))
        case _:
            return reply


def _cut(block: Block, last_call: ToolCall | None, *, object_arguments: bool) -> Block:
    """Cut a block in half, as a reply that ends early does: the last call, or without one the text."""
    if last_call is None and isinstance(block, Text):
        return replace(block, text=block.text[: max(1, len(block.text) // 2)])
    if last_call is not None and block is last_call:
        return truncate_call(last_call, max(1, len(last_call.text) // 2), object_arguments=object_arguments)
    return block


def _break_arguments(block: Block) -> Block:
    if not isinstance(block, ToolCall):
        return block
    return replace(block, arguments=None, raw=f"{block.text.rstrip('}')}, oops")


def duplicate_ids(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """Give all calls the id of the first."""
    id = next((block.id for block in blocks if isinstance(block, ToolCall)), "")
    out: list[Block] = []
    for block in blocks:
        if not isinstance(block, ToolCall):
            out.append(block)
            continue
        opaque = block.opaque
        if opaque and "id" in opaque:
            opaque = {**opaque, "id": id}
        out.append(replace(block, id=id, opaque=opaque))
    return tuple(out)


# ---- faults on the way


def apply_to_frames(
    fault: str, frames: Sequence[bytes], first: int, last: int, error: Callable[[], bytes]
) -> list[Part]:
    """Return the frames of a reply with the fault. A reply that is not streamed is one frame.

    `first`: how many frames it takes until there is content. `last`: where the terminal begins.
    """
    is_whole = len(frames) == 1
    if is_whole and fault in TRANSPORT_FAULTS:
        (body,) = frames
        middle = len(body) // 2
        frames = (body[:middle], body[middle:])
        first = 1
        last = 1
    cut = max(first, last // 2)
    beginning = frames[:cut]
    match fault:
        case "reset":
            return [Reset()]
        case "stall-first":
            return [Stall()]
        case "reset-mid-stream":
            return [*beginning, Reset()]
        case "stall":
            return [*beginning, Stall()]
        case "half-json":
            broken = frames[min(cut, len(frames) - 1)]
            return [*beginning, broken[: max(10, len(broken) // 2)]]
        case "truncated":
            return list(frames[:last])
        case "error-in-200":
            return [error()] if is_whole else [*beginning, error()]
        case "error-in-200-first":
            return [error()]
        case "wrong-index":
            return [re.sub(rb'("tool_calls":\[\{"index":)\d+', rb"\g<1>0", frame) for frame in frames]
        case _:
            return list(frames)
