"""`ToolExecutor`: runs calls without the loop."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from toolglot.tools.audit import AuditLog
from toolglot.tools.caller import Caller
from toolglot.tools.calls import AnyCall
from toolglot.tools.config import ToolConfig
from toolglot.tools.execution import Emit
from toolglot.tools.hooks import HookChain, Hooks
from toolglot.tools.host import HostOptions, ToolHost
from toolglot.tools.metrics import ToolMetrics
from toolglot.tools.policy_names import PolicyNames
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.results import ResultStore
from toolglot.values.approvals import Approve
from toolglot.values.events import ToolOutcome
from toolglot.values.messages import Message

__all__ = ["ToolExecutor"]

_DEFAULT_CONFIG = ToolConfig()


class ToolExecutor:
    """Runs the calls of one conversation, for programs that have a loop of their own.

    Args:
        registry: The tools.
        config: Rules and limits for calls.
        approve: Decides on calls that need approval; without it, they are refused.
        hooks: Observe or change calls.
        audit: Logs every call.
        metrics: Counts calls; by default, its own.
        store: Where truncated results are kept; by default, its own.
        data: Passed to tools in their Context.
        run_id: Identifies the conversation in the audit log.
        find_base_tools: Returns the tools behind a model's name for them, for the names in `config`.
        clock: Returns seconds of a monotonic clock.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        config: ToolConfig = _DEFAULT_CONFIG,
        *,
        approve: Approve | None = None,
        hooks: Iterable[Hooks] | HookChain = (),
        audit: AuditLog | None = None,
        metrics: ToolMetrics | None = None,
        store: ResultStore | None = None,
        data: Any = None,
        run_id: str = "",
        find_base_tools: Callable[[str], Iterable[str]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        options = HostOptions(
            approve=approve,
            hooks=hooks if isinstance(hooks, HookChain) else HookChain(hooks),
            audit=audit,
            metrics=metrics if metrics is not None else ToolMetrics(),
            clock=clock,
        )
        self.host: ToolHost = options.open_host(store=store, run_id=run_id)
        names = PolicyNames(find_base_tools, registry.__contains__)
        self.caller = Caller(
            registry=registry, config=config, names=names, can_ask=approve is not None, data=data
        )

    @property
    def registry(self) -> ToolRegistry:
        """The tools."""
        return self.caller.registry

    @property
    def metrics(self) -> ToolMetrics:
        """Counts of calls."""
        return self.host.options.metrics

    async def run(
        self, call: AnyCall, *, emit: Emit | None = None, messages: Sequence[Message] = ()
    ) -> ToolOutcome:
        """Run one call, asking for approval if it needs one."""
        return await self.host.run(call, self.caller, emit=emit, messages=messages)

    async def run_all(
        self, calls: Sequence[AnyCall], *, emit: Emit | None = None, messages: Sequence[Message] = ()
    ) -> list[ToolOutcome]:
        """Run calls in parallel, at most `max_parallel` at a time; return the outcomes in call order.

        Calls of `ordered` tools keep their place among the others. Approval of a call is requested when its
        turn comes.
        """
        return await self.host.run_all(calls, self.caller, emit=emit, messages=messages)
