"""Observe or change a run: before a request, after a reply, before and after a call.

A hook returns None to leave the value as it is, or the value to continue with. Methods may be sync or async; only those that a
class overrides are called.
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
    """Refuse a call; the model is told the reason."""

    reason: str


class Hooks:
    """Override what you need."""

    def before_request(self, request: Request) -> Request | Awaitable[Request | None] | None:
        """Observe a request before it is sent, or change it for this once (redact)."""

    def after_reply(self, reply: Reply) -> Reply | Awaitable[Reply | None] | None:
        """Observe a complete reply, or change what goes into the conversation."""

    def before_tool(self, call: ToolCall) -> "ToolCall | Veto | Awaitable[ToolCall | Veto | None] | None":
        """Observe a call before it runs, change its arguments, or veto it."""

    def after_tool(self, outcome: ToolOutcome) -> ToolOutcome | Awaitable[ToolOutcome | None] | None:
        """Observe the outcome of a call, or change what the model is told (redact)."""


class HookChain:
    """Several hooks as one; methods that no hook overrides cost nothing."""

    def __init__(self, hooks: Iterable[Hooks] = ()) -> None:
        self._hooks = tuple(hooks)
        self._request_hooks = self._find_overrides("before_request")
        self._reply_hooks = self._find_overrides("after_reply")
        self._call_hooks = self._find_overrides("before_tool")
        self._outcome_hooks = self._find_overrides("after_tool")

    def _find_overrides(self, name: str) -> tuple[Callable[[Any], Any], ...]:
        return tuple(getattr(hook, name) for hook in self._hooks if getattr(type(hook), name) is not getattr(Hooks, name))

    async def before_request(self, request: Request) -> Request:
        """Pass a request through the hooks."""
        return await _apply_hooks(self._request_hooks, request) if self._request_hooks else request

    async def after_reply(self, reply: Reply) -> Reply:
        """Pass a reply through the hooks."""
        return await _apply_hooks(self._reply_hooks, reply) if self._reply_hooks else reply

    async def before_tool(self, call: ToolCall) -> ToolCall | Veto:
        """Pass a call through the hooks, until one vetoes it."""
        for hook in self._call_hooks:
            answer = await _resolve(hook(call))
            if isinstance(answer, Veto):
                return answer
            call = answer or call
        return call

    async def after_tool(self, outcome: ToolOutcome) -> ToolOutcome:
        """Pass an outcome through the hooks."""
        return await _apply_hooks(self._outcome_hooks, outcome) if self._outcome_hooks else outcome

    @property
    def has_request_hooks(self) -> bool:
        """Whether any hook wants requests or replies."""
        return bool(self._request_hooks or self._reply_hooks)

    @property
    def has_outcome_hooks(self) -> bool:
        """Whether any hook wants outcomes."""
        return bool(self._outcome_hooks)

    @property
    def has_call_hooks(self) -> bool:
        """Whether any hook wants calls before they run."""
        return bool(self._call_hooks)


async def _apply_hooks(hooks: tuple[Callable[[Any], Any], ...], value: Any) -> Any:
    for hook in hooks:
        value = await _resolve(hook(value)) or value
    return value


async def _resolve(value: Any) -> Any:
    return await value if isawaitable(value) else value
