"""Approvals as data: requests to approve a call, and the possible answers."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from toolglot.errors import UsageError
from toolglot.values.messages import ToolCall

__all__ = [
    "Allow",
    "Answer",
    "ApprovalMode",
    "ApprovalRequest",
    "Approve",
    "CheckedAnswer",
    "Decision",
    "Deny",
    "Effect",
    "Expired",
    "Path",
    "Ruling",
    "Rulings",
    "Suspended",
    "SuspensionKind",
    "SuspensionRecord",
    "WaitingRecord",
    "join_path",
    "read_decision",
]

Effect = Literal["read", "write", "execute", "network"]
"""What a tool may do; approvals and eager starts depend on it."""


ApprovalMode = Literal["ask", "sandboxed"]
"""What runs without approval: only what reads; or also what the sandbox confines to the workspace, without
network."""


class ApprovalRequest(msgspec.Struct, frozen=True):
    """A request for approval: the call, and what it would do."""

    call: ToolCall
    """The call, with the arguments as the model sent them."""
    tool: str
    """The name of the tool that would run."""
    effects: frozenset[Effect]
    """What the tool may do."""
    target: str
    """What the call touches, as the tool describes it: a path, a command; "" if it does not say."""
    arguments: dict[str, Any] = {}
    """The arguments as they will be used: repaired if the model got them wrong."""
    preview: str = ""
    """What the call would do, as the tool describes it: the full command, or a diff."""
    preview_error: str = ""
    """Why the tool cannot preview this call. The call may still have effects: show all of its arguments."""
    reason: str = ""
    """Why a decision is needed: the rule or the default that requires it."""
    each_time: bool = False
    """The call needs its own approval, for example because it leaves the sandbox. "always" means "yes"
    here."""
    form: dict[str, Any] | None = None
    """The JSON Schema of values that a running tool requests: `Allow(arguments=…)` passes them, `arguments`
    has defaults."""
    fingerprint: str = ""
    """Identifies everything above: an approval is valid only as long as the call would do what was shown."""
    agent: str = ""
    """The name of the sub-agent that makes the call; with those that it works for, outermost first:
    `research/payments`."""

    @property
    def id(self) -> str:
        """The id of the call."""
        return self.call.id


SuspensionKind = Literal["approval", "question", "external"]
"""Why a call waits: somebody has to approve it, a running tool has a question, or its answer comes from
elsewhere: a browser, a job, another program."""

Path = tuple[str, ...]
"""The ids of the calls that lead to a call, outermost first, and its own."""


def join_path(path: Path) -> str:
    """Return a path as a text. Ids that contain a slash stay apart, as in a JSON Pointer."""
    return "/".join([id.replace("~", "~0").replace("/", "~1") for id in path])


class Suspended(msgspec.Struct, frozen=True):
    """A call that waits, for a decision on what it would do or for an answer; nothing of it runs meanwhile."""

    request: ApprovalRequest
    """What is asked."""
    path: Path
    """Its id; before that, if code or a sub-agent made the call, the ids of the calls that run those."""
    kind: SuspensionKind = "approval"
    """Why it waits."""
    has_started: bool = False
    """The call may have had effects already, so it must not run again from the start."""
    blocks_later: bool = False
    """The calls after it wait as well."""
    schema: dict[str, Any] | None = None
    """The JSON Schema of the answer, if it waits for one and there is one."""
    key: str = ""
    """Another name for the call, which its tool has given it: the number of a job, for example."""
    expires: float | None = None
    """When, in Unix time, the call ends without an answer; None: never."""

    @property
    def id(self) -> str:
        """Identifies the call among those that wait: `call_2`, or `call_2/call_1` for one that the code or
        the sub-agent of `call_2` has made.
        """
        return self.path[0] if len(self.path) == 1 else join_path(self.path)

    @property
    def call(self) -> ToolCall:
        """The call that waits. It may be one that the code of another call has made."""
        return self.request.call

    @property
    def fingerprint(self) -> str:
        """Identifies what is asked: a decision counts only for it."""
        return self.request.fingerprint

    @property
    def needs(self) -> Literal["decision", "answer"]:
        """What it waits for. The answer to a question can also be given as `Allow(arguments=…)`, with values
        for the form of `request`.
        """
        return "decision" if self.kind == "approval" else "answer"

    @property
    def record(self) -> "WaitingRecord":
        """What a saved run says of it."""
        return WaitingRecord(
            self.path,
            self.kind,
            self.fingerprint,
            self.key,
            self.expires,
            None if self.kind == "approval" else self.schema,
        )

    @classmethod
    def from_request(cls, request: ApprovalRequest, *, outer: ToolCall | None = None) -> "Suspended":
        """Return the call that waits for this request.

        `outer`: the call whose code has made it, which has started.
        """
        kind = "approval" if request.form is None else "question"
        if outer is None:
            return cls(request, (request.id,), kind, schema=request.form)
        path = (outer.id,) if request.id == outer.id else (outer.id, request.id)
        return cls(request, path, kind, has_started=True, blocks_later=True, schema=request.form)


class WaitingRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run remembers of something that a call waits for, also in a file.

    What would be shown is not kept: it is made anew, so that nobody approves what a file says.
    """

    path: Path = ()
    kind: SuspensionKind = "approval"
    fingerprint: str = ""
    """Of what was last shown; empty: nothing was."""
    key: str = ""
    expires: float | None = None
    schema: dict[str, Any] | None = None


class SuspensionRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run remembers of a call of its turn that waits, also in a file."""

    waiting: tuple[WaitingRecord, ...] = ()
    """What it waits for: one thing, or what the code or the sub-agent waits for that it runs."""
    has_started: bool = False
    blocks_later: bool = False
    state: Any = None
    """With what the call continues in another process; None: it cannot."""

    @property
    def is_external(self) -> bool:
        """Whether the answer to the call itself comes from elsewhere."""
        return any(item.kind == "external" and len(item.path) == 1 for item in self.waiting)

    @classmethod
    def of(cls, waiting: Sequence[Suspended]) -> "SuspensionRecord":
        """Return the record of one call. `waiting`: all that it waits for."""
        records = tuple([suspended.record for suspended in waiting])
        return cls(records, waiting[0].has_started, waiting[0].blocks_later)


class Allow(msgspec.Struct, frozen=True):
    """Let a call run."""

    arguments: dict[str, Any] | None = None
    """Arguments to run it with instead of its own; the model is told."""
    always: bool = False
    """Do not ask about this tool again in the conversation."""
    ask_again: bool = False
    """Request approval again with the new arguments before the call runs, to show what it would do now.
    Without `ask_again`, that happens only if the new arguments need their own approval (`each_time`)."""


class Deny(msgspec.Struct, frozen=True):
    """Do not let a call run."""

    reason: str = ""
    """Shown to the model."""


class Answer(msgspec.Struct, frozen=True):
    """The answer to a call that waits for one: whatever its tool may return, or why there is none."""

    value: Any = None
    """What the model gets as the result: text, data, or content such as `Media`."""
    error: str = ""
    """What went wrong; the call has failed then."""


class CheckedAnswer(Answer, frozen=True):
    """An answer that fits its call; its value is a `ToolResult`, as it can be saved."""


class Expired(msgspec.Struct, frozen=True):
    """Nobody has answered in time."""


class Ruling(msgspec.Struct, frozen=True):
    """A decision or an answer, and the fingerprint of the request that it is for."""

    fingerprint: str
    """Of the request that was decided on."""
    answer: Allow | Deny | Answer | Expired
    """The decision, or the answer."""

    @property
    def changes_arguments(self) -> bool:
        """Whether the call must run with other arguments than its own."""
        return isinstance(self.answer, Allow) and self.answer.arguments is not None


Rulings = Mapping[Path, Ruling]
"""Rulings on a call and on those that its code or its sub-agent has made, by the path below the call: `()` is
the call itself."""


Decision = bool | Literal["yes", "no", "always", "later"] | Allow | Deny
"""True or "yes": allow this call. False or "no": deny it. "always": allow it, and do not ask about this tool
again in the conversation. "later": pause the run, to be resumed. With details: `Allow(arguments=…)`,
`Deny("use the test server")`."""
Approve = Callable[[ApprovalRequest], Decision | Awaitable[Decision]]
"""A function that decides on a call; pass it as `Agent(approve=…)`."""


def read_decision(decision: object) -> Allow | Deny | None:
    """Return what a decision means; None for "later". Raises UsageError."""
    match decision:
        case Allow(arguments=None | dict(), always=bool(), ask_again=bool()) | Deny(reason=str()):
            return decision
        case True | "yes":
            return Allow()
        case "always":
            return Allow(always=True)
        case False | "no":
            return Deny()
        case "later":
            return None
        case _:
            choices = "True, False, 'yes', 'no', 'always', 'later', Allow(…) or Deny(…)"
            raise UsageError(f"{decision!r:.80} is not a decision on a call; use {choices}")
