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

    reason: str


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
        self._request_hooks = self._find_overrides("before_request")
        self._reply_hooks = self._find_overrides("after_reply")
        self._call_hooks = self._find_overrides("before_tool")
        self._outcome_hooks = self._find_overrides("after_tool")

    def _find_overrides(self, name: str) -> tuple[Callable[[Any], Any], ...]:
        return tuple(getattr(hook, name) for hook in self._hooks if getattr(type(hook), name) is not getattr(Hooks, name))

    async def before_request(self, request: Request) -> Request:
        """The request as it is sent."""
        return await _apply_hooks(self._request_hooks, request) if self._request_hooks else request

    async def after_reply(self, reply: Reply) -> Reply:
        """The reply as it goes into the conversation."""
        return await _apply_hooks(self._reply_hooks, reply) if self._reply_hooks else reply

    async def before_tool(self, call: ToolCall) -> ToolCall | Veto:
        """The call as it runs, or a veto."""
        for hook in self._call_hooks:
            found = await _resolve(hook(call))
            if isinstance(found, Veto):
                return found
            call = found or call
        return call

    async def after_tool(self, outcome: ToolOutcome) -> ToolOutcome:
        """The outcome as the model is told."""
        return await _apply_hooks(self._outcome_hooks, outcome) if self._outcome_hooks else outcome

    @property
    def has_request_hooks(self) -> bool:
        """Whether requests or replies go through a hook."""
        return bool(self._request_hooks or self._reply_hooks)

    @property
    def has_outcome_hooks(self) -> bool:
        """Whether outcomes go through a hook."""
        return bool(self._outcome_hooks)

    @property
    def has_call_hooks(self) -> bool:
        """Whether calls go through a hook before they run."""
        return bool(self._call_hooks)


async def _apply_hooks(hooks: tuple[Callable[[Any], Any], ...], value: Any) -> Any:
    for hook in hooks:
        value = await _resolve(hook(value)) or value
    return value


async def _resolve(value: Any) -> Any:
    return await value if isawaitable(value) else value
