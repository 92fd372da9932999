"""Whose turn it is: calls that come from several places, such as the code of a script, an MCP client or
another framework.

First come, first served. An ordered call runs alone: it waits for those before it, and those after it wait
for it. The calls may wait in several event loops and threads.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from threading import RLock
from types import TracebackType
from typing import Literal

__all__ = ["UNLIMITED", "CallQueue", "Turn"]

UNLIMITED = 2**31
"""`max_parallel` where somebody else limits the calls."""


class Turn:
    """The turn of one call: `async with queue.turn(8): …`, or `queue.turn(8).call_when_admitted(start)` and
    `end`.
    """

    __slots__ = ("_loop", "_queue", "_wake", "is_ordered", "state")

    def __init__(self, queue: "CallQueue", *, is_ordered: bool) -> None:
        self._queue, self.is_ordered = queue, is_ordered
        self.state: Literal["new", "waiting", "running", "over"] = "new"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: Callable[[], None] | None = None

    async def __aenter__(self) -> "Turn":
        if self._queue.enter(self):
            return self
        self._loop = asyncio.get_running_loop()
        admission = self._loop.create_future()
        self._wake = partial(_resolve, admission)
        try:
            if not self._queue.is_admitted(self):  # it may have been since it was told to wait
                await admission
        except BaseException:
            self._queue.leave(self)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._queue.leave(self)

    def call_when_admitted(self, start: Callable[[], None]) -> None:
        """Call a function in this event loop as soon as the call may run, which may be at once."""
        if self._queue.enter(self, start):
            start()

    def end(self) -> None:
        """End the turn, also one that still waits. A turn ends once."""
        self._queue.leave(self)

    def wait(self, wake: Callable[[], None] | None) -> None:
        """Note that the call waits, and what to call in this event loop when it may run."""
        self.state = "waiting"
        if wake is not None:
            self._loop, self._wake = asyncio.get_running_loop(), wake

    def forget(self) -> None:
        """Forget whom to tell: that may refer to the turn, and a cycle would be left for the garbage
        collector.
        """
        self._wake = None

    def notify(self) -> None:
        """Tell whoever waits, from any thread. Raises RuntimeError if the event loop is closed."""
        wake, self._wake = self._wake, None
        if wake is None or self._loop is None:  # nobody has begun to wait
            return
        if self._loop is _running_loop():
            wake()
        else:
            self._loop.call_soon_threadsafe(wake)


def _resolve(admission: "asyncio.Future[None]") -> None:
    if not admission.done():
        admission.set_result(None)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class CallQueue:
    """The calls of one conversation that run, and those that wait for their turn."""

    __slots__ = ("_is_ordered_running", "_lock", "_max_parallel", "_running", "_waiting")

    def __init__(self) -> None:
        self._lock = RLock()  # the garbage collector may end a turn while this thread holds it
        self._waiting: deque[Turn] | None = None  # until a call has to wait, which is rare
        self._running = 0
        self._max_parallel = 1
        self._is_ordered_running = False

    def turn(self, max_parallel: int, *, is_ordered: bool = False) -> Turn:
        """Return the turn of a call. `max_parallel`: how many calls may run at the same time from now on."""
        self._max_parallel = max_parallel
        return Turn(self, is_ordered=is_ordered)

    def enter(self, turn: Turn, wake: Callable[[], None] | None = None) -> bool:
        """Queue up; return whether the call may run at once.

        Otherwise `wake` is called when it may, if there is one.
        """
        with self._lock:
            if not self._waiting and self._has_room(turn):
                self._let_run(turn)
                return True
            turn.wait(wake)
            if self._waiting is None:
                self._waiting = deque()
            self._waiting.append(turn)
            self._admit()
            return wake is None and turn.state == "running"

    def is_admitted(self, turn: Turn) -> bool:
        with self._lock:
            return turn.state == "running"

    def leave(self, turn: Turn) -> None:
        """End a turn, whether the call runs or still waits."""
        with self._lock:
            if turn.state == "over":
                return
            if turn.state == "running":
                self._running -= 1
                self._is_ordered_running = False  # such a call runs alone
            turn.state = "over"
            turn.forget()
            if self._waiting:
                self._admit()

    def _has_room(self, turn: Turn) -> bool:
        if self._is_ordered_running or self._running >= self._max_parallel:
            return False
        return not (turn.is_ordered and self._running)

    def _let_run(self, turn: Turn) -> None:
        turn.state = "running"
        self._running += 1
        self._is_ordered_running = turn.is_ordered

    def _admit(self) -> None:
        """Start the calls whose turn it is."""
        while self._waiting:
            turn = self._waiting[0]
            is_over = turn.state == "over"  # it was cancelled
            if not is_over and not self._has_room(turn):
                return
            self._waiting.popleft()
            if is_over:
                continue
            self._let_run(turn)
            try:
                turn.notify()
            except RuntimeError:  # its event loop has ended: nobody waits any more
                self.leave(turn)
