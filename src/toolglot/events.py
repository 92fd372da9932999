"""What a caller sees while a reply streams and while tools run.

Of a reply: `index` is the place of the block in it. Every block ends with `ToolCallReady` (a call) or `BlockReady` (anything
else); the last event is `ReplyDone`.
Of a run: replies, and between them `ToolStarted` … `ToolFinished` for every call that ran; the last event is `RunDone`.
"""

from typing import Any, Literal

import msgspec

from toolglot.losses import Loss, Repair
from toolglot.messages import Foreign, Media, Message, Opaque, Reply, Text, Thinking, ToolCall, ToolResult, Usage

__all__ = [
    "ApprovalNeeded",
    "BlockReady",
    "BlockStarted",
    "ContextCut",
    "Event",
    "ModelSwitched",
    "ReplyDone",
    "ReplyStarted",
    "Retrying",
    "RunDone",
    "RunEvent",
    "RunResult",
    "RunStop",
    "TextDelta",
    "ThinkingDelta",
    "ToolCallDelta",
    "ToolCallReady",
    "ToolCallStarted",
    "ToolFinished",
    "ToolOutcome",
    "ToolProgress",
    "ToolStarted",
]


class _Event(msgspec.Struct, frozen=True, tag_field="type", tag=True):
    pass


class ReplyStarted(_Event, frozen=True, gc=False):
    """The provider began to answer."""

    id: str
    model: str


class BlockStarted(_Event, frozen=True, gc=False):
    """State of a text or a thought that is known before its first piece; `block` has no text yet."""

    index: int
    block: Text | Thinking


class TextDelta(_Event, frozen=True, gc=False):
    """More visible text."""

    index: int
    text: str


class ThinkingDelta(_Event, frozen=True, gc=False):
    """More reasoning."""

    index: int
    text: str


class ToolCallStarted(_Event, frozen=True, gc=False):
    """A call began: its name is known. `freeform`: its input is plain text, not JSON."""

    index: int
    id: str
    name: str
    freeform: bool = False
    namespace: str = ""
    opaque: Opaque | None = None


class ToolCallDelta(_Event, frozen=True, gc=False):
    """More of the arguments' text."""

    index: int
    text: str


class ToolCallReady(_Event, frozen=True, gc=False):
    """A call is whole."""

    index: int
    call: ToolCall


class BlockReady(_Event, frozen=True, gc=False):
    """Any other block is whole."""

    index: int
    block: Text | Thinking | Media | Foreign


class ReplyDone(_Event, frozen=True, gc=False):
    """The reply is whole."""

    reply: Reply


Event = (
    ReplyStarted
    | BlockStarted
    | TextDelta
    | ThinkingDelta
    | ToolCallStarted
    | ToolCallDelta
    | ToolCallReady
    | BlockReady
    | ReplyDone
)


# ---- of a run


class ToolOutcome(msgspec.Struct, frozen=True, gc=False):
    """How a call went: its result, how long it took, how often it was tried again, what was mended in its arguments."""

    call: ToolCall
    result: ToolResult
    seconds: float = 0.0
    retries: int = 0
    repairs: tuple[Repair, ...] = ()
    ran: bool = True
    """False: the call was refused, was not valid, or was never started."""
    details: Any = None
    """Typed data of the error, where the tool gave some; `result.error_code` says what it is about."""


class ToolStarted(_Event, frozen=True, gc=False):
    """A call is running."""

    call: ToolCall


class ToolProgress(_Event, frozen=True, gc=False):
    """A running tool says how far it is."""

    call: ToolCall
    text: str


class ToolFinished(_Event, frozen=True, gc=False):
    """A call is over, whatever came of it."""

    outcome: ToolOutcome


class ApprovalNeeded(_Event, frozen=True, gc=False):
    """The run waits for a decision on these calls: it goes on with `resume`."""

    calls: tuple[ToolCall, ...]


class Retrying(_Event, frozen=True, gc=False):
    """The provider is asked again after a while. Nothing of the failed attempt was shown."""

    why: str
    seconds: float
    attempt: int


class ModelSwitched(_Event, frozen=True, gc=False):
    """The conversation goes on with another model."""

    model: str
    why: str


class ContextCut(_Event, frozen=True, gc=False):
    """The conversation has outgrown its model: requests no longer show its older part. The conversation still has it."""

    said: str
    """What was left out, in a sentence."""
    left_out: int
    """Messages that requests no longer show."""
    before: int
    after: int
    """Tokens of a request, about."""
    summary: str = ""
    """What stands in their place."""


RunStop = Literal["end", "length", "refusal", "filtered", "error", "max_iterations", "budget", "approval", "interrupted"]


class RunResult(msgspec.Struct, frozen=True):
    """What came of a run. `output`: the structured output where one was asked for."""

    text: str
    stop: RunStop = "end"
    reply: Reply | None = None
    output: Any = None
    usage: Usage = Usage()
    outcomes: tuple[ToolOutcome, ...] = ()
    losses: tuple[Loss, ...] = ()
    repairs: tuple[Repair, ...] = ()
    messages: tuple[Message, ...] = ()
    """What the run added to the conversation."""
    pending: tuple[ToolCall, ...] = ()
    """Calls that wait for approval."""
    iterations: int = 0
    cost: float | None = None
    """US dollars, where the catalog knows the model's price."""


class RunDone(_Event, frozen=True, gc=False):
    """The run is over."""

    result: RunResult


RunEvent = Event | ToolStarted | ToolProgress | ToolFinished | ApprovalNeeded | Retrying | ModelSwitched | ContextCut | RunDone
