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

__all__ = ["EarlyStarts"]

_READS: frozenset[Effect] = frozenset({"read"})
_BLOCKS = (BlockReady, BlockStarted, TextDelta, ThinkingDelta, ToolCallStarted)


class EarlyStarts:
    """The early starts of one run."""

    def __init__(self, executor: ToolExecutor, run: Run) -> None:
        self._executor, self._run = executor, run
        self._newest: tuple[int, ToolCall] | None = None
        self._last = -1  # the last block that has begun
        self._begun: dict[str, tuple[ToolCall, asyncio.Task[ToolOutcome]]] = {}  # for the present reply
        self._left: list[asyncio.Task[ToolOutcome]] = []  # for those before it
        self._is_whole = False
        self._waits = False  # a call that keeps its place has come
        self._events: list[RunEvent] = []
        self._emit: Callable[[Any], None] = self._events.append

    def watch(self, batch: Sequence[Any]) -> list[RunEvent]:
        """Looks at events of the reply; what the early starts have to tell meanwhile."""
        if batch and self._is_whole:  # another reply begins, and may use an id again
            self._left += [task for _, task in self._begun.values() if not task.done()]
            self._begun, self._is_whole, self._waits = {}, False, False
        for event in batch:
            if isinstance(event, ReplyStarted):
                self._emit = self._events.append
            elif isinstance(event, ReplyDone):
                self._newest, self._last, self._is_whole = None, -1, True
            elif isinstance(event, ToolCallReady):
                self._newest = (event.index, event.call)
            elif isinstance(event, _BLOCKS):
                self._last = max(self._last, event.index)
            if self._newest is not None and self._last > self._newest[0]:
                self._start(self._newest[1])
                self._newest = None
        events = list(self._events)
        self._events.clear()
        return events

    def follow(self, emit: Callable[[Any], None]) -> None:
        """The reply is whole: what there is to tell goes elsewhere from now on."""
        self._emit = emit
        for event in self.watch(()):
            emit(event)

    def take(self, call: ToolCall) -> "asyncio.Task[ToolOutcome] | None":
        """The work that was begun for this very call."""
        found = self._begun.get(call.id)
        if found is None or found[0] != replace(call, meant=None):  # what it means is found out when the reply is whole
            return None
        return found[1]

    async def stop(self) -> None:
        """Ends what still runs."""
        tasks = [*self._left, *(task for _, task in self._begun.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, call: ToolCall) -> None:
        executor = self._executor
        self._waits = self._waits or executor.is_ordered(call)
        if self._waits or call.id in self._begun or not executor.is_plain(call, _READS):
            return
        if sum(not task.done() for _, task in self._begun.values()) >= executor.config.max_parallel:
            return  # it has its turn when the reply is whole
        work = executor.run(call, emit=lambda event: self._emit(event), messages=self._run.conversation)
        self._begun[call.id] = (call, asyncio.create_task(work))
