"""Approvals as data: what somebody is asked about a call, and what can be answered."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec

from toolglot.errors import UsageError
from toolglot.messages import ToolCall

__all__ = ["Allow", "ApprovalRequest", "Approve", "Decision", "Deny", "Effect", "Ruling", "read_decision"]

Effect = Literal["read", "write", "execute", "network"]
"""What a tool does to the world; approvals and eager starts depend on it."""


class ApprovalRequest(msgspec.Struct, frozen=True):
    """What an approver is asked: the call, and what it would do."""

    call: ToolCall
    """The call that would run, with the arguments as they came."""
    tool: str
    effects: frozenset[Effect]
    target: str
    arguments: dict[str, Any] = {}
    """As they will be used: repaired if the model got them wrong."""
    preview: str = ""
    """What the call would do, as the tool describes it: the full command, or a diff."""
    preview_error: str = ""
    """Why the tool has no preview of this call. It may do something all the same: show the arguments, all of them."""
    reason: str = ""
    """Why somebody has to decide: the rule or the default that says so."""
    each_time: bool = False
    """Only an answer to this very call counts: it leaves the sandbox, for example. "always" means "yes" here."""
    form: dict[str, Any] | None = None
    """The JSON Schema of values that a running tool asks for: `Allow(arguments=…)` gives them, `arguments` are the defaults."""
    fingerprint: str = ""
    """Stands for everything above: an approval counts only as long as the call would do what was shown."""

    @property
    def id(self) -> str:
        """The id of the call."""
        return self.call.id


class Allow(msgspec.Struct, frozen=True):
    """Let a call run."""

    arguments: dict[str, Any] | None = None
    """What it runs with instead of its own arguments; the model is told."""
    always: bool = False
    """Do not ask about this tool again in the conversation."""
    ask_again: bool = False
    """Ask about the call with its new arguments before it runs: show what it would do now. Without `ask_again`, that is asked
    only if the new arguments need an answer of their own (`each_time`)."""


class Deny(msgspec.Struct, frozen=True):
    """Do not let a call run."""

    reason: str = ""
    """Told to the model."""


class Ruling(msgspec.Struct, frozen=True):
    """A decision, and the fingerprint of the request that it was made on."""

    fingerprint: str
    answer: Allow | Deny

    @property
    def changes_arguments(self) -> bool:
        """Whether the call must not run with its own arguments."""
        return isinstance(self.answer, Allow) and self.answer.arguments is not None


Decision = bool | Literal["yes", "no", "always", "later"] | Allow | Deny
"""On a call: True or "yes" this once, False or "no", "always" (do not ask about this tool again in the conversation), "later"
(the run pauses and can be resumed), or with more to say: `Allow(arguments=…)`, `Deny("use the staging server")`."""
Approve = Callable[[ApprovalRequest], Decision | Awaitable[Decision]]
"""Decides about a call; `Orchestrator(approve=…)`."""


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
            raise UsageError(f"{decision!r:.80} is not a decision about a call; use {choices}")
