"""Places where a program looks into a run: before and after a request, before and after a call.

A hook returns None to let things be, or the value to go on with. Methods may be sync or async; only those that a class
overrides are called.
"""

from collections.abc import Awaitable, Callable, Iterable
from inspect import isawaitable
from typing import Any

import msgspec

from toolglot.events import ToolOutcome
from toolglot.messages import Reply, ToolCall
from toolglot.request import Request

__all__ = ["HookChain", "Hooks", "Veto"]


class Veto(msgspec.Struct, frozen=True):
    """A call may not run, and this is what the model is told."""

    why: str


class Hooks:
    """Override what you need."""

    def before_request(self, request: Request) -> Request | Awaitable[Request | None] | None:
        """A request is about to be sent: observe it, or change it for this once (redact)."""

    def after_reply(self, reply: Reply) -> Reply | Awaitable[Reply | None] | None:
        """A reply is whole: observe it, or change what goes into the conversation."""

    def before_tool(self, call: ToolCall) -> "ToolCall | Veto | Awaitable[ToolCall | Veto | None] | None":
        """A call is about to run: observe it, change its arguments, or veto it."""

    def after_tool(self, outcome: ToolOutcome) -> ToolOutcome | Awaitable[ToolOutcome | None] | None:
        """A call has run: observe it, or change what the model is told (redact)."""


class HookChain:
    """Several hooks as one; what nobody overrides costs nothing."""

    def __init__(self, hooks: Iterable[Hooks] = ()) -> None:
        self._hooks = tuple(hooks)
        self._request = self._overridden("before_request")
        self._reply = self._overridden("after_reply")
        self._before = self._overridden("before_tool")
        self._after = self._overridden("after_tool")

    def _overridden(self, name: str) -> tuple[Callable[[Any], Any], ...]:
        return tuple(getattr(hook, name) for hook in self._hooks if getattr(type(hook), name) is not getattr(Hooks, name))

    async def before_request(self, request: Request) -> Request:
        """The request as it is sent."""
        return await _through(self._request, request) if self._request else request

    async def after_reply(self, reply: Reply) -> Reply:
        """The reply as it goes into the conversation."""
        return await _through(self._reply, reply) if self._reply else reply

    async def before_tool(self, call: ToolCall) -> ToolCall | Veto:
        """The call as it runs, or a veto."""
        for hook in self._before:
            found = await _value(hook(call))
            if isinstance(found, Veto):
                return found
            call = found or call
        return call

    async def after_tool(self, outcome: ToolOutcome) -> ToolOutcome:
        """The outcome as the model is told."""
        return await _through(self._after, outcome) if self._after else outcome

    @property
    def watches_requests(self) -> bool:
        """Whether requests or replies go through a hook."""
        return bool(self._request or self._reply)

    @property
    def watches_outcomes(self) -> bool:
        """Whether outcomes go through a hook."""
        return bool(self._after)

    @property
    def watches_calls(self) -> bool:
        """Whether calls go through a hook before they run."""
        return bool(self._before)


async def _through(hooks: tuple[Callable[[Any], Any], ...], value: Any) -> Any:
    for hook in hooks:
        value = await _value(hook(value)) or value
    return value


async def _value(found: Any) -> Any:
    return await found if isawaitable(found) else found
