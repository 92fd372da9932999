"""What a running tool may ask about its call. A tool that wants it has a parameter annotated `Context`, under any name."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from toolglot.messages import Message, ToolCall

__all__ = ["CancelSignal", "Context"]


class CancelSignal(Protocol):
    """A flag that one thread sets and another one reads: `threading.Event`, `asyncio.Event`."""

    def is_set(self) -> bool: ...


def _discard_progress(text: str) -> None:
    """Progress that nobody listens to."""


class Context:
    """The call, which attempt at it this is, the caller's own `data`, the model and the conversation so far."""

    __slots__ = ("_flag", "_report", "attempt", "call", "data", "messages", "model")

    def __init__(
        self,
        call: ToolCall,
        *,
        attempt: int = 1,
        data: Any = None,
        model: str = "",
        messages: Sequence[Message] = (),
        report: Callable[[str], None] = _discard_progress,
        cancel_flag: CancelSignal | None = None,
    ) -> None:
        self.call, self.attempt, self.data, self.model, self.messages = call, attempt, data, model, messages
        self._report, self._flag = report, cancel_flag

    def report(self, text: str) -> None:
        """Tells the user how far the tool is; the model does not see it."""
        self._report(text)

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits for the result any more: a tool in a thread cannot be stopped, so it should look here."""
        return self._flag is not None and self._flag.is_set()

    def __repr__(self) -> str:
        return f"Context(call={self.call.name!r}, attempt={self.attempt})"
