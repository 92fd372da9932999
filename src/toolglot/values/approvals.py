"""Approvals as data: requests to approve a call, and the possible answers."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec

from toolglot.errors import UsageError
from toolglot.values.messages import ToolCall

__all__ = [
    "Allow",
    "ApprovalMode",
    "ApprovalRequest",
    "Approve",
    "Decision",
    "Deny",
    "Effect",
    "Ruling",
    "Suspended",
    "SuspensionKind",
    "SuspensionRecord",
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

    @property
    def id(self) -> str:
        """The id of the call."""
        return self.call.id


SuspensionKind = Literal["approval", "question"]
"""Why a call waits, for whoever shows it: somebody has to approve it, or a running tool has a question."""


class Suspended(msgspec.Struct, frozen=True):
    """A call that waits, for a decision on what it would do or for an answer; nothing of it runs meanwhile."""

    request: ApprovalRequest
    """What is asked."""
    id: str
    """Identifies the call among those that wait. A call that code has made is named after the call that runs
    the code: `call_2/call_1`."""
    kind: SuspensionKind = "approval"
    """Why it waits: for an approval, or for the answer to a question of a running tool."""
    has_started: bool = False
    """The call may have had effects already, so it must not run again from the start."""
    blocks_later: bool = False
    """The calls after it wait as well."""

    @property
    def call(self) -> ToolCall:
        """The call that waits. It may be one that the code of another call has made."""
        return self.request.call

    @property
    def fingerprint(self) -> str:
        """Identifies what is asked: a decision counts only for it."""
        return self.request.fingerprint

    @property
    def record(self) -> "SuspensionRecord":
        """What a saved run says of it."""
        return SuspensionRecord(self.id, self.kind, self.fingerprint, self.has_started, self.blocks_later)

    @property
    def needs(self) -> Literal["decision", "answer"]:
        """What it waits for.

        An answer is given as `Allow(arguments=…)`, with values for the form of `request`.
        """
        return "decision" if self.request.form is None else "answer"

    @classmethod
    def from_request(cls, request: ApprovalRequest, *, outer: ToolCall | None = None) -> "Suspended":
        """Return the call that waits for this request.

        `outer`: the call whose code has made it, which has started.
        """
        kind = "approval" if request.form is None else "question"
        if outer is None:
            return cls(request, request.id, kind)
        id = request.id if request.id == outer.id else f"{outer.id}/{request.id}"
        return cls(request, id, kind, has_started=True, blocks_later=True)


class SuspensionRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What identifies a call that waits, in a run and in a file.

    What would be shown is not kept: it is made anew, so that nobody approves what a file says.
    """

    id: str = ""
    kind: SuspensionKind = "approval"
    fingerprint: str = ""
    """Of what was last shown; empty: nothing was."""
    has_started: bool = False
    blocks_later: bool = False


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


class Ruling(msgspec.Struct, frozen=True):
    """A decision, and the fingerprint of the request that it answers."""

    fingerprint: str
    """Of the request that was decided on."""
    answer: Allow | Deny
    """The decision."""

    @property
    def changes_arguments(self) -> bool:
        """Whether the call must run with other arguments than its own."""
        return isinstance(self.answer, Allow) and self.answer.arguments is not None


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
