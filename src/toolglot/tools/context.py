"""What a running tool can know about its call.

A tool gets it in a parameter annotated `Context`, whatever its name.
"""

from collections.abc import Awaitable, Callable, Sequence
from threading import Event
from typing import Annotated, Any, Generic, Protocol, cast

import msgspec

from toolglot.common.type_parameters import Data
from toolglot.common.value_checks import check_values
from toolglot.values.approvals import Allow, ApprovalRequest, Deny, Ruling, Rulings, Suspended
from toolglot.values.definitions import ToolDefinition
from toolglot.values.events import ToolOutcome
from toolglot.values.messages import Message, ToolCall

__all__ = ["CallSuspended", "CancelFlag", "Context", "InnerTools", "Later", "answer_elsewhere"]


class CallSuspended(Exception):
    """Raised by a tool that waits: for decisions on calls that its code or its sub-agent has made, or for the
    answer to a question.

    Once there is one, the tool is called again with the rulings; if there will never be one, `release` is
    called instead.
    """

    blocks_later = True
    """Whether the calls after it wait as well."""

    def __init__(
        self, *waiting: ApprovalRequest | Suspended, release: Callable[[], None] = lambda: None
    ) -> None:
        """`waiting`: what is asked; or the calls of a sub-agent that wait, with their paths from there on."""
        super().__init__(len(waiting))
        self.waiting, self.release = waiting, release

    def save(self) -> Any:
        """Return with what the tool continues in another process, as JSON; None: it cannot."""
        return None

    async def check(self, rulings: Rulings) -> None:
        """Raise UsageError for rulings on what waits below the call that cannot be carried out."""


class Later(msgspec.Struct, frozen=True):
    """Returned by a tool whose answer comes from elsewhere: the run waits for an `Answer`, also in another
    process. The function is not called again.
    """

    key: str = ""
    """Another name for the call, by which the answer can be given: the number of a job, for example."""
    schema: dict[str, Any] | None = None
    """The JSON Schema of the answer; by default, the output schema of the tool."""
    expires: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """Seconds after which the call has failed; None: `ToolConfig.answer_timeout`, if it is set."""

    def __post_init__(self) -> None:
        check_values(self)


_LATER = Later()


def answer_elsewhere(_text: str = "", /, **_arguments: Any) -> Later:
    """The function of a tool that has only a definition: each of its calls waits for an answer."""
    return _LATER


class InnerTools(Protocol):
    """The tools that code run by a tool may call.

    Each call is checked, approved, run and recorded like one of the model's.
    """

    definitions: tuple[ToolDefinition, ...]
    rulings: Rulings
    """Decisions and answers for what the tool was suspended for."""
    suspension: CallSuspended | None
    """The exception that the tool raised to be suspended."""
    emit: Callable[[Any], None] | None
    """Passes an event on to whoever watches the run."""
    owner: object
    """The run that the call belongs to; None if it belongs to none."""
    can_ask: bool
    """Whether an approver decides at once; otherwise the tool can raise `CallSuspended` to make the run
    wait."""

    def call(
        self, call: ToolCall, ruling: Ruling | None = None, on_asking: Callable[[bool], None] = ...
    ) -> Awaitable[ToolOutcome | Suspended]:
        """Run a call and return its outcome with the whole result, or the call as `Suspended` if it must wait.

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
