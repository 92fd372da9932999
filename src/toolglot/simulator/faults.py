"""Faults on demand: what goes wrong in one answer, by name. A name may carry a value: `rate-limit:0.01`.

| asked by                                  | counted                                                            |
|-------------------------------------------|--------------------------------------------------------------------|
| `fault NAME [TIMES]` in the user's words  | per simulator and words, so that asking again works                |
| header `x-simulate: NAME`                 | not: every request that has it                                     |
| `Simulator(faults=[...])`                 | one for each request, in order; "" lets one pass                   |

A request that the provider would refuse is refused first: a fault never hides a bad request.
"""

import re
from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from toolglot.errors import UnknownName
from toolglot.messages import Block, Reply, Text, ToolCall
from toolglot.providers.profile import Profile
from toolglot.simulator.refusals import Refusal, RefusalKind
from toolglot.wire import spec

__all__ = [
    "FAULTS",
    "Part",
    "Reset",
    "Stall",
    "apply_to_frames",
    "apply_to_reply",
    "duplicate_ids",
    "make_refusal",
    "parse_fault",
]


class Reset(msgspec.Struct, frozen=True):
    """The connection breaks here. As the first part: before the head."""


class Stall(msgspec.Struct, frozen=True):
    """Nothing more comes, and the connection stays open. As the first part: not even the head."""


Part = bytes | Reset | Stall

_PAST_DATE = "Wed, 21 Oct 2015 07:28:00 GMT"
HTML_PAGE = (
    "<html>\n<head><title>502 Bad Gateway</title></head>\n<body><center><h1>502 Bad Gateway</h1></center></body>\n</html>\n"
)
# name -> (kind, words by wire; "" for all others)
_ERROR_FAULTS: dict[str, tuple[RefusalKind, dict[str, str]]] = {
    "rate-limit": ("rate", {"": "Rate limit reached for requests. Please try again later."}),
    "rate-limit-date": ("rate", {"": "Rate limit reached for requests. Please try again later."}),
    "quota": (
        "quota",
        {
            "": "You exceeded your current quota, please check your plan and billing details.",
            spec.ANTHROPIC_MESSAGES: "Your credit balance is too low to access the API.",
        },
    ),
    "server-error": (
        "server",
        {"": "The server had an error while processing your request.", spec.ANTHROPIC_MESSAGES: "Internal server error"},
    ),
    "overloaded": (
        "overloaded",
        {
            "": "The engine is currently overloaded, please try again later.",
            spec.ANTHROPIC_MESSAGES: "Overloaded",
            spec.GEMINI: "The model is overloaded. Please try again later.",
            spec.OLLAMA_CHAT: "server busy, please try again. maximum pending requests exceeded",
        },
    ),
    "unauthorized": (
        "auth",
        {
            "": "Incorrect API key provided.",
            spec.ANTHROPIC_MESSAGES: "invalid x-api-key",
            spec.GEMINI: "API key not valid. Please pass a valid API key.",
            spec.OLLAMA_CHAT: "unauthorized",
        },
    ),
    "context-too-long": (
        "too_long",
        {
            "": "This model's maximum context length is 128000 tokens. However, your messages resulted in 150000 tokens.",
            spec.OPENAI_RESPONSES: "Your input exceeds the context window of this model. "
            "Please adjust your input and try again.",
            spec.ANTHROPIC_MESSAGES: "prompt is too long: 210000 tokens > 200000 maximum",
            spec.GEMINI: "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            spec.OLLAMA_CHAT: "the input length exceeds the context length",
        },
    ),
}
# those that leave an answer without its end
TRUNCATING_FAULTS = ("reset", "reset-mid-stream", "stall", "stall-first", "half-json", "truncated")
# name -> what goes wrong
FAULTS = {
    "rate-limit": "429 with Retry-After; `rate-limit:0.5` says how many seconds",
    "rate-limit-date": "429 with Retry-After as a date",
    "quota": "429 or 402: out of credit, waiting does not help",
    "server-error": "500",
    "overloaded": "529, or the wire's own 503",
    "unauthorized": "401: the key is wrong",
    "context-too-long": "400: the conversation does not fit",
    "html": "502 with a proxy's HTML page",
    "reset": "the connection breaks before any byte",
    "reset-mid-stream": "the connection breaks in the middle of the answer",
    "stall": "some of the answer, then nothing more",
    "stall-first": "nothing comes at all",
    "half-json": "the answer ends in the middle of a JSON document",
    "truncated": "the stream ends before its terminal",
    "error-in-200": "an error under status 200, after some content",
    "error-in-200-first": "an error under status 200, before any content",
    "duplicate-ids": "two calls with one id",
    "wrong-index": "parallel calls that all have index 0 (Chat, streamed)",
    "length": "the arguments of the last call are cut by the length limit",
    "not-json-args": "the arguments of a call are not JSON",
    "unknown-tool": "a call to a tool that does not exist",
}
# Wires whose whole answers hold arguments as objects: nothing can be cut or broken in them.


def parse_fault(text: str) -> tuple[str, str]:
    """A fault's name and value. Raises UnknownName."""
    name, _, value = text.strip().partition(":")
    if name not in FAULTS:
        raise UnknownName("fault", name, FAULTS)
    return name, value


def make_refusal(fault: str, value: str, profile: Profile) -> Refusal | None:
    """The provider's error, where the fault is one."""
    if fault not in _ERROR_FAULTS:
        return None
    kind, words = _ERROR_FAULTS[fault]
    wait = {"rate-limit": value or "0", "rate-limit-date": _PAST_DATE}.get(fault)
    return Refusal(words.get(profile.wire, words[""]), kind, retry_after=wait)


# ---- faults in what the model says


def apply_to_reply(fault: str, reply: Reply, profile: Profile, *, streamed: bool) -> Reply:
    """The reply with its fault, before it has ids."""
    objects = spec.SPECS[profile.wire].object_arguments or (profile.wire == spec.ANTHROPIC_MESSAGES and not streamed)
    match fault:
        case "duplicate-ids" if len(reply.calls) < 2:
            call = reply.calls[0] if reply.calls else ToolCall("", "lookup", {})
            return replace(reply, blocks=(*_without_calls(reply), call, call), stop="tools")
        case "unknown-tool":
            renamed = [replace(call, name="no_such_tool") for call in reply.calls] or [ToolCall("", "no_such_tool", {})]
            return replace(reply, blocks=(*_without_calls(reply), *renamed), stop="tools")
        case "length" if reply.calls:
            last = reply.calls[-1]
            cut = (
                replace(last, arguments={}, raw="{}") if objects else replace(last, arguments=None, raw=_first_half(last.text))
            )
            return replace(reply, blocks=tuple(cut if block is last else block for block in reply.blocks), stop="length")
        case "length":
            cut_texts = (
                replace(block, text=_first_half(block.text)) if isinstance(block, Text) else block for block in reply.blocks
            )
            return replace(reply, blocks=tuple(cut_texts), stop="length")
        case "not-json-args" if profile.wire == spec.GEMINI and reply.calls:
            return replace(
                reply, blocks=_without_calls(reply), stop="error", opaque={"finishReason": "MALFORMED_FUNCTION_CALL"}
            )
        case "not-json-args" if not objects:
            broken = (
                replace(block, arguments=None, raw=f"{block.text.rstrip('}')}, oops") if isinstance(block, ToolCall) else block
                for block in reply.blocks
            )
            return replace(reply, blocks=tuple(broken))
        case _:
            return reply


def _first_half(text: str) -> str:
    return text[: max(1, len(text) // 2)]


def _without_calls(reply: Reply) -> tuple[Block, ...]:
    return tuple(block for block in reply.blocks if not isinstance(block, ToolCall))


def duplicate_ids(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """All calls with the id of the first."""
    first = next((block.id for block in blocks if isinstance(block, ToolCall)), "")
    return tuple(_replace_id(block, first) if isinstance(block, ToolCall) else block for block in blocks)


def _replace_id(call: ToolCall, id: str) -> ToolCall:
    own = call.opaque or {}
    return replace(call, id=id, opaque={**own, "id": id} if "id" in own else call.opaque)


# ---- faults on the way


def apply_to_frames(fault: str, frames: Sequence[bytes], first: int, last: int, error: Callable[[], bytes]) -> list[Part]:
    """The frames of an answer with their fault.

    `first`: how many frames it takes until something was said. `last`: where the terminal begins. A whole answer is one frame.
    """
    cut = max(first, last // 2)
    if len(frames) == 1:
        return _apply_to_body(fault, frames[0], error)
    match fault:
        case "reset":
            return [Reset()]
        case "stall-first":
            return [Stall()]
        case "reset-mid-stream":
            return [*frames[:cut], Reset()]
        case "stall":
            return [*frames[:cut], Stall()]
        case "half-json":
            broken = frames[min(cut, len(frames) - 1)]
            return [*frames[:cut], broken[: max(10, len(broken) // 2)]]
        case "truncated":
            return list(frames[:last])
        case "error-in-200":
            return [*frames[:cut], error()]
        case "error-in-200-first":
            return [error()]
        case "wrong-index":
            return [re.sub(rb'("tool_calls":\[\{"index":)\d+', rb"\g<1>0", frame) for frame in frames]
        case _:
            return list(frames)


def _apply_to_body(fault: str, body: bytes, error: Callable[[], bytes]) -> list[Part]:
    half = body[: len(body) // 2]
    match fault:
        case "reset":
            return [Reset()]
        case "stall-first":
            return [Stall()]
        case "reset-mid-stream":
            return [half, Reset()]
        case "stall":
            return [half, Stall()]
        case "half-json" | "truncated":
            return [half]
        case "error-in-200" | "error-in-200-first":
            return [error()]
        case _:
            return [body]
