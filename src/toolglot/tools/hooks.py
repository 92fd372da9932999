"""Observe or change a run: before a request, after a reply, before and after a call.

A hook returns None to leave the value as it is, or the value to continue with. Methods may be sync or async;
only those that a class overrides are called.
"""

from collections.abc import Awaitable, Callable, Iterable
from inspect import isawaitable
from typing import Any

import msgspec

from toolglot.common.value_checks import check_arguments
from toolglot.values.events import ToolOutcome
from toolglot.values.messages import Reply, ToolCall
from toolglot.values.request import Request

__all__ = ["HookChain", "Hooks", "Veto", "apply_hooks"]


class Veto(msgspec.Struct, frozen=True):
    """Refuse a call; the model reads the reason."""

    reason: str
    """What the model reads instead of a result."""


class Hooks:
    """A base class with hooks that do nothing: override those you need."""

    def before_request(self, request: Request) -> Request | Awaitable[Request | None] | None:
        """Observe a request before it is sent, or change what is sent this time (redact)."""

    def after_reply(self, reply: Reply) -> Reply | Awaitable[Reply | None] | None:
        """Observe a complete reply, or change what is added to the conversation."""

    def before_tool(self, call: ToolCall) -> "ToolCall | Veto | Awaitable[ToolCall | Veto | None] | None":
        """Observe a call before it runs, change its arguments, or veto it.

        A call that waits for a decision is passed again when it is listed and when it is resumed.
        """

    def after_tool(self, outcome: ToolOutcome) -> ToolOutcome | Awaitable[ToolOutcome | None] | None:
        """Observe the outcome of a call, or change what the model sees of it (redact)."""


class HookChain:
    """The methods that hooks override, in the order of the hooks; a method that no hook overrides costs
    nothing.
    """

    def __init__(self, hooks: Iterable[Hooks] = ()) -> None:
        hooks = tuple(hooks)
        for hook in hooks:
            check_arguments({"hooks": hook}, {"hooks": (Hooks, "instances of subclasses of Hooks")})
        names = ("before_request", "after_reply", "before_tool", "after_tool")
        self.before_request, self.after_reply, self.before_tool, self.after_tool = (
            tuple(
                getattr(hook, name) for hook in hooks if getattr(type(hook), name) is not getattr(Hooks, name)
            )
            for name in names
        )


async def apply_hooks(methods: tuple[Callable[[Any], Any], ...], value: Any) -> Any:
    """Pass a value through hook methods in order; the first veto ends the chain and is returned."""
    for method in methods:
        answer = method(value)
        if isawaitable(answer):
            answer = await answer
        if isinstance(answer, Veto):
            return answer
        value = answer or value
    return value
