"""The events that a caller sees while a reply streams and while tools run.

In a reply, `index` is the position of the block. Every block ends with `ToolCallReady` (a call) or
`BlockReady` (anything else); the last event is `ReplyDone`.
A run consists of replies, with `ToolStarted` … `ToolFinished` in between for every call that ran; the last
event is `RunDone`. Attributes with a `rename` keep their older names in the JSON of `toolglot run --json`.
"""

from typing import Any, Generic, Literal

import msgspec

from toolglot.common.textutil import pluralize
from toolglot.common.type_parameters import OutputValue
from toolglot.values.approvals import ApprovalRequest, Suspended
from toolglot.values.deliveries import Delivery
from toolglot.values.losses import Loss, Repair
from toolglot.values.messages import (
    Foreign,
    Media,
    Message,
    Opaque,
    Reply,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolsChanged,
    Usage,
)


class _Event(msgspec.Struct, frozen=True, tag_field="type", tag=True):
    pass


class ReplyStarted(_Event, frozen=True, gc=False):
    """The provider has started to reply."""

    id: str
    """The provider's id of the reply."""
    model: str
    """The model that the provider names."""


class BlockStarted(_Event, frozen=True, gc=False):
    """A block of text or reasoning whose opaque state is known before its first delta; `block` has no text
    yet.
    """

    index: int
    """The position of the block in the reply."""
    block: Text | Thinking
    """The block, without its text."""


class TextDelta(_Event, frozen=True, gc=False):
    """A piece of visible text."""

    index: int
    """The position of the block in the reply."""
    text: str
    """The next piece."""


class ThinkingDelta(_Event, frozen=True, gc=False):
    """A piece of reasoning."""

    index: int
    """The position of the block in the reply."""
    text: str
    """The next piece."""


class ToolCallStarted(_Event, frozen=True, gc=False):
    """A call has started: its name is known. `freeform`: its input is plain text, not JSON."""

    index: int
    """The position of the block in the reply."""
    id: str
    """The id of the call."""
    name: str
    """The name of the tool, as the model sees it."""
    freeform: bool = False
    """The input is plain text instead of JSON."""
    namespace: str = ""
    """The namespace of the tool, if it has one."""
    opaque: Opaque | None = None
    """State of the provider that belongs to the block."""


class ToolCallDelta(_Event, frozen=True, gc=False):
    """A piece of the arguments' text."""

    index: int
    """The position of the block in the reply."""
    text: str
    """The next piece."""


class ToolCallReady(_Event, frozen=True, gc=False):
    """A call is complete."""

    index: int
    """The position of the block in the reply."""
    call: ToolCall
    """The whole call."""


class BlockReady(_Event, frozen=True, gc=False):
    """A block other than a call is complete."""

    index: int
    """The position of the block in the reply."""
    block: Text | Thinking | Media | ToolsChanged | Foreign
    """The whole block."""


class ReplyDone(_Event, frozen=True, gc=False):
    """The reply is complete."""

    reply: Reply
    """The whole reply."""


BlockEvent = (
    BlockStarted | TextDelta | ThinkingDelta | ToolCallStarted | ToolCallDelta | ToolCallReady | BlockReady
)
Event = ReplyStarted | BlockEvent | ReplyDone
"""The events of a streaming reply."""


# ---- events of a run


class ToolOutcome(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a call: its result, duration, number of retries, and repairs to its arguments."""

    call: ToolCall
    """The call."""
    result: ToolResult
    """What the model gets for it."""
    seconds: float = 0.0
    """How long it ran."""
    retries: int = 0
    """How often it was repeated after a failure."""
    repairs: tuple[Repair, ...] = ()
    """Repairs to the arguments. Reading a number or a boolean from text (`"10"` for 10) is not one."""
    ran: bool = True
    """False: the call was refused, was invalid, or was never started."""
    details: Any = None
    """Typed data about the error, if the tool provides any; its meaning depends on `result.error_code`."""


class ToolStarted(_Event, frozen=True, gc=False):
    """A call has started to run."""

    call: ToolCall
    """The call."""


class ToolProgress(_Event, frozen=True, gc=False):
    """A running tool reports its progress."""

    call: ToolCall
    """The call that is running."""
    text: str
    """What the tool reports."""


class ToolFinished(_Event, frozen=True, gc=False):
    """A call has its outcome, whether it ran or not."""

    outcome: ToolOutcome
    """The call with its result."""


class ApprovalNeeded(_Event, frozen=True, gc=False):
    """The run is waiting for decisions on these calls; `resume` continues it."""

    requests: tuple[ApprovalRequest, ...]
    """What is asked about each of them."""


class Delivered(_Event, frozen=True, gc=False):
    """A message that `Agent.deliver` has passed to the run is in the conversation; the next request has it."""

    id: str
    """The id of its delivery."""
    index: int
    """Its position in the conversation."""
    message: Message
    """The message."""


class AnswerNeeded(_Event, frozen=True, gc=False):
    """The run is waiting for the answers to these calls, which come from elsewhere; `resume` continues it."""

    calls: tuple[Suspended, ...]
    """The calls, each with the schema of its answer."""


class InnerEvent(_Event, frozen=True, gc=False):
    """An event of the run of a sub-agent, which a call of this run has started."""

    path: tuple[str, ...]
    """The ids of the calls that lead to it, outermost first."""
    event: "RunEvent"
    """The event; the last one is its `RunDone`, also when it is paused."""


class Notice(_Event, frozen=True, gc=False):
    """Something that a person who is watching should know, besides the answer."""

    @property
    def text(self) -> str:
        """The same in words."""
        raise NotImplementedError


class Retrying(Notice, frozen=True, gc=False):
    """The request is retried after a delay. No events of the failed attempt were emitted."""

    reason: str
    """What failed."""
    seconds: float
    """How long until the next attempt."""
    attempt: int
    """Its number; the first retry is 1."""

    @property
    def text(self) -> str:
        return f"retrying in {self.seconds:.1f} s: {self.reason}"


class RequestDelayed(Notice, frozen=True, gc=False):
    """The request is delayed by a rate limit configured for the model (`RunLimits.request_rates`)."""

    reason: str
    """The limit that applies."""
    seconds: float
    """How long the request waits."""

    @property
    def text(self) -> str:
        return f"waiting for {self.seconds:.1f} s: {self.reason}"


class ModelSwitched(Notice, frozen=True, gc=False):
    """The conversation continues with another model."""

    model: str
    """The model that continues."""
    reason: str
    """Why the other one cannot."""

    @property
    def text(self) -> str:
        return f"continuing with {self.model}: {self.reason}"


class ContextTruncated(Notice, frozen=True, gc=False):
    """The conversation has outgrown the context window: requests omit its older part, but the conversation
    keeps it.
    """

    message: str
    """A sentence about what was left out."""
    omitted_messages: int
    """Messages that requests no longer contain."""
    before: int
    """Estimated tokens of a request, before."""
    after: int
    """Estimated tokens of a request, before and after."""
    summary: str = ""
    """The summary that replaces the omitted messages."""
    usage: Usage = Usage()
    """What the summary has used."""

    @property
    def text(self) -> str:
        return self.message


RunStop = Literal[
    "end",
    "length",
    "refusal",
    "filtered",
    "error",
    "max_iterations",
    "budget",
    "timeout",
    "approval",
    "waiting",
    "interrupted",
]
"""Why a run ended. budget: `max_total_tokens` or `max_cost`; timeout: `run_timeout`; approval: it is paused
until there are decisions on calls, and can be resumed; waiting: it is paused and needs only answers."""


class RunResult(msgspec.Struct, Generic[OutputValue], frozen=True):
    """The result of a run."""

    text: str
    """The text of the last reply: the answer."""
    stop: RunStop = "end"
    """Why the run ended."""
    reply: Reply | None = None
    """The last reply as a whole; None if there was none."""
    output: OutputValue = None  # pyright: ignore[reportAssignmentType]
    """The structured output, an `output_type`; None if there is no such type, or while the run waits for
    approval."""
    usage: Usage = Usage()
    """The tokens of all requests of the run, from the prompt on; also of those before it was resumed."""
    outcomes: tuple[ToolOutcome, ...] = ()
    """One for each call, in the order of the calls: the call, its result, its duration, whether it ran."""
    losses: tuple[Loss, ...] = ()
    """What could not be sent to the model, or not as it was."""
    repairs: tuple[Repair, ...] = ()
    """What was changed so that the provider accepts the requests, and what was repaired in replies."""
    messages: tuple[Message, ...] = ()
    """The messages that the run added to the conversation."""
    pending: tuple[Suspended, ...] = ()
    """The calls that are waiting, each with its `request`; pass decisions and answers to `resume`."""
    iterations: int = 0
    """The number of requests to the model, from the prompt on."""
    cost: float | None = None
    """US dollars from the prompt on, if the model's price is known; with the simulator, the price of the
    simulated model applies."""
    undelivered: tuple[Delivery, ...] = ()
    """Messages for the run (`Agent.deliver`) that did not reach the model, each with the reason."""

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The results of the run's calls, in the order of `outcomes`: `result.results[0].text`, `.data`,
        `.is_error`.
        """
        return tuple(outcome.result for outcome in self.outcomes)

    @property
    def is_paused(self) -> bool:
        """Whether the run waits for decisions or answers, and can be resumed."""
        return self.stop in ("approval", "waiting")

    @property
    def requests(self) -> tuple[ApprovalRequest, ...]:
        """What is asked about the calls in `pending`."""
        return tuple(suspended.request for suspended in self.pending)

    def __repr__(self) -> str:
        output = f", output={self.output!r:.100}" if self.output is not None else ""
        calls = f", {pluralize(len(self.outcomes), 'call')}" if self.outcomes else ""
        iterations = pluralize(self.iterations, "iteration")
        return f"<RunResult {self.text!r:.100}, stop={self.stop!r}{output}{calls}, {iterations}>"

    def _repr_markdown_(self) -> str:
        """For notebooks: the answer, or why there is none."""
        return self.text or f"`{self!r}`"


class RunDone(_Event, frozen=True, gc=False):
    """The run is over."""

    result: RunResult
    """What `run` returns."""


EngineEvent = Event | Retrying | RequestDelayed
"""What `Engine.stream` yields; the last one is `ReplyDone`."""
RunEvent = (
    EngineEvent
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | ApprovalNeeded
    | Delivered
    | AnswerNeeded
    | InnerEvent
    | ModelSwitched
    | ContextTruncated
    | RunDone
)
"""What `Agent.stream` yields; the last one is `RunDone`."""
