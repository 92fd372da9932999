"""Read-only tools, started while the reply still streams.

A call is started when the block after it has begun: only then is it certain that it was not truncated; and
not if a call before it has to finish first. What the complete reply turns out not to contain is dropped: it
only read.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from toolglot.loop.request_builder import RequestBuilder
from toolglot.loop.run import Run
from toolglot.tools.calls import AnyCall, InterpretedCall, base_call
from toolglot.values.approvals import Effect
from toolglot.values.events import ReplyDone, ReplyStarted, RunEvent, ToolCallReady, ToolOutcome
from toolglot.values.messages import ToolCall

__all__ = ["EagerTools"]

_READ_ONLY: frozenset[Effect] = frozenset({"read"})


class EagerTools:
    """The eager starts of one run."""

    def __init__(self, run: Run, requests: RequestBuilder, on_ask: Callable[[bool], None]) -> None:
        self._run, self._requests, self._on_ask = run, requests, on_ask
        # the newest complete call, with the index of its block
        self._candidate: tuple[int, ToolCall] | None = None
        self._last_index = -1  # the last block that has begun
        self._running: dict[str, tuple[ToolCall, asyncio.Task[ToolOutcome]]] = {}  # of the present reply
        self._stale: list[asyncio.Task[ToolOutcome]] = []  # of replies before it
        self._is_complete = False
        self._is_blocked = False  # an ordered call has come: what follows has to wait for it
        self._events: list[RunEvent] = []
        self._emit: Callable[[Any], None] = self._events.append

    def observe(self, batch: Sequence[Any]) -> list[RunEvent]:
        """Look at events of the reply; returns the events of the tools that were started."""
        if batch and self._is_complete:  # another reply begins, and may use an id again
            self._stale += [task for _, task in self._running.values() if not task.done()]
            self._running, self._is_complete, self._is_blocked = {}, False, False
        for event in batch:
            if isinstance(event, ReplyStarted):
                self._emit = self._events.append
            elif isinstance(event, ReplyDone):
                self._candidate, self._last_index, self._is_complete = None, -1, True
            elif isinstance(event, ToolCallReady):
                self._candidate = (event.index, event.call)
            else:  # an event of a block has its index
                self._last_index = max(self._last_index, getattr(event, "index", -1))
            if self._candidate is not None and self._last_index > self._candidate[0]:
                self._start(self._candidate[1])
                self._candidate = None
        events = list(self._events)
        self._events.clear()
        return events

    def redirect(self, emit: Callable[[Any], None]) -> None:
        """Send events elsewhere from now on: the reply is complete."""
        self._emit = emit
        for event in self.observe(()):
            emit(event)

    def take(self, call: AnyCall) -> "asyncio.Task[ToolOutcome] | None":
        """Return the task that was started for exactly this call."""
        native = call.call if isinstance(call, InterpretedCall) else call
        started = self._running.get(native.id)
        if started is None or started[0] != replace(native, base_call=None):
            return None
        return started[1]

    async def stop(self) -> None:
        """Cancel what still runs."""
        tasks = [*self._stale, *(task for _, task in self._running.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, call: ToolCall) -> None:
        host, caller = self._requests.state.host, self._requests.state.caller
        interpreted = caller.interpret(call)
        tool = host.find_tool(interpreted, caller)
        if tool is not None and tool.ordered:
            self._is_blocked = True
        if tool is None or tool.is_external or self._is_blocked or call.id in self._running:
            return
        offer = self._requests.offer
        if offer.is_single or offer.check(call) is not None:
            return
        if tool.effects != _READ_ONLY or not host.runs_unasked(tool, base_call(interpreted), caller):
            return
        running = sum(not task.done() for _, task in self._running.values())
        if running >= caller.config.max_parallel:
            return  # it gets its turn when the reply is complete
        work = host.run(
            interpreted,
            caller,
            emit=lambda event: self._emit(event),
            messages=self._run.conversation,
            on_ask=self._on_ask,
        )
        self._running[call.id] = (call, asyncio.create_task(work))
