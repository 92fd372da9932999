"""Tools that only read, started while the reply still streams.

A call is started when the block after it has begun: only then is it certain that it was not cut off; and not where a call
before it has to be over first. What the reply turns out not to contain is dropped; it only read.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from toolglot.events import (
    BlockReady,
    BlockStarted,
    ReplyDone,
    ReplyStarted,
    RunEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallReady,
    ToolCallStarted,
    ToolOutcome,
)
from toolglot.loop.run import Run
from toolglot.messages import ToolCall
from toolglot.tools.config import Effect
from toolglot.tools.executor import ToolExecutor

__all__ = ["EagerTools"]

_READ_ONLY: frozenset[Effect] = frozenset({"read"})
_BLOCK_EVENTS = (BlockReady, BlockStarted, TextDelta, ThinkingDelta, ToolCallStarted)


class EagerTools:
    """The early starts of one run."""

    def __init__(self, executor: ToolExecutor, run: Run) -> None:
        self._executor, self._run = executor, run
        self._candidate: tuple[int, ToolCall] | None = None
        self._last_index = -1  # the last block that has begun
        self._running: dict[str, tuple[ToolCall, asyncio.Task[ToolOutcome]]] = {}  # for the present reply
        self._stale: list[asyncio.Task[ToolOutcome]] = []  # for those before it
        self._is_complete = False
        self._is_blocked = False  # a call that keeps its place has come
        self._events: list[RunEvent] = []
        self._emit: Callable[[Any], None] = self._events.append

    def observe(self, batch: Sequence[Any]) -> list[RunEvent]:
        """Looks at events of the reply; what the early starts have to tell meanwhile."""
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
            elif isinstance(event, _BLOCK_EVENTS):
                self._last_index = max(self._last_index, event.index)
            if self._candidate is not None and self._last_index > self._candidate[0]:
                self._start(self._candidate[1])
                self._candidate = None
        events = list(self._events)
        self._events.clear()
        return events

    def redirect(self, emit: Callable[[Any], None]) -> None:
        """The reply is whole: what there is to tell goes elsewhere from now on."""
        self._emit = emit
        for event in self.observe(()):
            emit(event)

    def take(self, call: ToolCall) -> "asyncio.Task[ToolOutcome] | None":
        """The work that was begun for this very call."""
        found = self._running.get(call.id)
        if found is None or found[0] != replace(call, base_call=None):  # what it means is found out when the reply is whole
            return None
        return found[1]

    async def stop(self) -> None:
        """Ends what still runs."""
        tasks = [*self._stale, *(task for _, task in self._running.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, call: ToolCall) -> None:
        executor = self._executor
        self._is_blocked = self._is_blocked or executor.is_ordered(call)
        if self._is_blocked or call.id in self._running or not executor.can_start_eagerly(call, _READ_ONLY):
            return
        if sum(not task.done() for _, task in self._running.values()) >= executor.config.max_parallel:
            return  # it has its turn when the reply is whole
        work = executor.run(call, emit=lambda event: self._emit(event), messages=self._run.conversation)
        self._running[call.id] = (call, asyncio.create_task(work))
