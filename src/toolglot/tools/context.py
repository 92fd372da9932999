"""What a running tool can know about its call.

A tool gets it in a parameter annotated `Context`, whatever its name.
"""

from collections.abc import Awaitable, Callable, Sequence
from threading import Event
from typing import Generic, Protocol, cast

from toolglot.common.type_parameters import Data
from toolglot.values.approvals import Allow, ApprovalRequest, Deny, Ruling
from toolglot.values.definitions import ToolDefinition
from toolglot.values.events import ToolOutcome
from toolglot.values.messages import Message, ToolCall

__all__ = ["CallSuspended", "CancelFlag", "Context", "InnerTools"]


class CallSuspended(Exception):
    """Raised by a tool whose inner call waits for a decision.

    Once it is made, the tool is called again with the ruling.

    If no decision will ever be made, `release` is called instead.
    """

    def __init__(self, request: ApprovalRequest, release: Callable[[], None] = lambda: None) -> None:
        super().__init__(request.reason)
        self.request, self.release = request, release


class InnerTools(Protocol):
    """The tools that code run by a tool may call.

    Each call is checked, approved, run and recorded like one of the model's.
    """

    definitions: tuple[ToolDefinition, ...]
    ruling: Ruling | None
    """The decision on the call for which the tool was suspended."""
    suspension: CallSuspended | None
    """The exception that the tool raised to be suspended."""
    can_ask: bool
    """Whether an approver decides at once; otherwise the tool can raise `CallSuspended` to make the run
    wait."""

    def call(
        self, call: ToolCall, ruling: Ruling | None = None, on_asking: Callable[[bool], None] = ...
    ) -> Awaitable[ToolOutcome | ApprovalRequest]:
        """Run a call and return its outcome with the whole result, or the approval request if it must wait
        for a decision.

        `on_asking`: called before the approver may be asked about the call, and again afterwards.
        """
        ...

    def ask(self, request: ApprovalRequest) -> Awaitable[Allow | Deny | None]:
        """Ask for a decision while the tool runs; None means later.

        If there is no approver, the request is denied.
        """
        ...

    def on_ask(self, is_asking: bool, /) -> None:
        """Note that the tool itself asks a person, and again when there is an answer: that takes none of the
        run's time.
        """
        ...


class CancelFlag:
    """Set once, when the result is no longer needed; readable from any thread, and much cheaper than an
    `Event`.
    """

    __slots__ = ("_is_set",)

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set


class Context(Generic[Data]):
    """The call, the number of the attempt, the caller's own `data`, the model and the conversation so far.

    With the annotation `Context[User]`, `data` has the type User.
    """

    __slots__ = (
        *("_cancel_flag", "_inner_tools", "_open_inner_tools", "_report"),
        *("approved", "attempt", "call", "data", "messages", "model"),
    )

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
        open_inner_tools: Callable[[], InnerTools] | None = None,
    ) -> None:
        self.call, self.attempt, self.model, self.messages = call, attempt, model, messages
        self.approved = approved
        """Whether this particular call was approved."""
        self.data = cast(Data, data)
        self._report, self._cancel_flag = report, cancel_flag
        self._inner_tools: InnerTools | None = None
        self._open_inner_tools = open_inner_tools

    def report(self, text: str) -> None:
        """Report progress to the user; the model does not see it."""
        if self._report is not None:
            self._report(text)

    @property
    def inner_tools(self) -> InnerTools | None:
        """For tools that run code: the tools that the code may call."""
        if self._inner_tools is None and self._open_inner_tools is not None:
            self._inner_tools = self._open_inner_tools()
        return self._inner_tools

    @property
    def is_cancelled(self) -> bool:
        """Whether the result is no longer needed.

        A tool in a thread cannot be stopped, so it should check this.
        """
        return self._cancel_flag is not None and self._cancel_flag.is_set()

    def __repr__(self) -> str:
        return f"Context(call={self.call.name!r}, attempt={self.attempt})"
