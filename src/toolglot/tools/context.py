"""What a running tool can find out about its call. A tool asks for it with a parameter annotated `Context`, under any name."""

from collections.abc import Awaitable, Callable, Sequence
from threading import Event
from typing import Generic, Protocol, cast

from toolglot.approvals import Allow, ApprovalRequest, Deny, Ruling
from toolglot.definitions import ToolDefinition
from toolglot.events import ToolOutcome
from toolglot.messages import Message, ToolCall
from toolglot.type_parameters import Data

__all__ = ["CallSuspended", "CancelFlag", "Context", "InnerTools"]


class CallSuspended(Exception):
    """Raised by a tool whose inner call waits for a decision. The tool is called again, with the ruling, when there is one.

    `release` is called instead if nobody will ever decide.
    """

    def __init__(self, request: ApprovalRequest, release: Callable[[], None] = lambda: None) -> None:
        super().__init__(request.reason)
        self.request, self.release = request, release


class InnerTools(Protocol):
    """What code that a tool runs may call. Each call is checked, approved, run and recorded as if the model had made it."""

    definitions: tuple[ToolDefinition, ...]
    ruling: Ruling | None
    """The decision on the call for which the tool was suspended."""
    suspension: CallSuspended | None
    """What the tool raised when it was suspended."""
    can_ask: bool
    """Whether somebody decides at once; otherwise a tool can raise `CallSuspended`, so that the run waits."""

    def call(
        self, call: ToolCall, ruling: Ruling | None = None, on_asking: Callable[[bool], None] = ...
    ) -> Awaitable[ToolOutcome | ApprovalRequest]:
        """Run a call; returns the request if it has to wait for a decision.

        `on_asking`: called when somebody may be asked about it, and again when that is over.
        """
        ...

    def ask(self, request: ApprovalRequest) -> Awaitable[Allow | Deny | None]:
        """Ask for a decision while the tool runs; None means later. Where nobody can be asked, it is denied."""
        ...


class CancelFlag:
    """Set once, when nobody waits for the result any more; readable from any thread, and much cheaper than an `Event`."""

    __slots__ = ("_is_set",)

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set


class Context(Generic[Data]):
    """The call, the number of the attempt, the caller's own `data`, the model and the conversation so far.

    A tool that is annotated `Context[User]` gets a `data` of type User.
    """

    __slots__ = ("_cancel_flag", "_report", "approved", "attempt", "call", "data", "inner_tools", "messages", "model")

    def __init__(
        self,
        call: ToolCall,
        *,
        attempt: int = 1,
        approved: bool = False,
        data: Data | None = None,
        model: str = "",
        messages: Sequence[Message] = (),
        report: Callable[[str], None] | None = None,
        cancel_flag: CancelFlag | Event | None = None,
        inner_tools: InnerTools | None = None,
    ) -> None:
        self.call, self.attempt, self.model, self.messages = call, attempt, model, messages
        self.approved = approved
        """Whether somebody has approved this very call."""
        self.inner_tools = inner_tools
        """For tools that run code: the tools that the code may call."""
        self.data = cast(Data, data)
        self._report, self._cancel_flag = report, cancel_flag

    def report(self, text: str) -> None:
        """Report progress to the user; the model does not see it."""
        if self._report is not None:
            self._report(text)

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits for the result any more. A tool in a thread cannot be stopped, so it should check this."""
        return self._cancel_flag is not None and self._cancel_flag.is_set()

    def __repr__(self) -> str:
        return f"Context(call={self.call.name!r}, attempt={self.attempt})"
