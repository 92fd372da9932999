"""The thread of a set of MCP servers, with the event loop in which all of them run.

Any thread can submit work until it is closed. Every caller that waits gets an answer: work that would never
run is refused.
"""

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from toolglot.common.loggers import get_logger
from toolglot.errors import UsageError

__all__ = ["ServerThread"]

log = get_logger("toolglot.mcp")
T = TypeVar("T")
_CLOSE_SECONDS = 10.0
_CLOSED = "these MCP servers are closed; create new McpServers"


class ServerThread:
    """A daemon thread with an event loop. Call `start` to run it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_debug(False)
        self.loop.set_exception_handler(lambda loop, details: log.debug("%s", details.get("message")))
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._end: asyncio.Task[None] | None = None
        self._lock = threading.Lock()

    @property
    def is_started(self) -> bool:
        return self._thread is not None

    def start(self) -> bool:
        """Start the thread; return False if it was started before. Raises UsageError if it is closed."""
        with self._lock:
            if self._is_closed:
                raise UsageError(_CLOSED)
            if self._thread is not None:
                return False
            self._thread = threading.Thread(target=self._run, name="toolglot-mcp", daemon=True)
            self._thread.start()
            return True

    def _run(self) -> None:
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    def post(self, callback: Callable[..., object], *args: Any) -> None:
        """Call a function in the event loop. Raises UsageError if it is closed."""
        with self._lock:  # everything posted before `close` begins before the shutdown does
            if self._is_closed:
                raise UsageError(_CLOSED)
            self.loop.call_soon_threadsafe(callback, *args)

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine in the event loop.

        Raises UsageError, and so does the future if the thread is closed meanwhile.
        """

        async def run() -> T:
            try:
                return await work
            except asyncio.CancelledError:
                # by `close`, or by a caller that no longer waits, which is not a failure
                raise UsageError(_CLOSED) from None

        problem = ""
        with self._lock:
            if self._thread is None or self._is_closed:
                problem = "the MCP servers have not been started; use `with servers:` or servers.start()"
            elif threading.current_thread() is self._thread:  # it would wait for itself
                problem = "on_change cannot wait for the MCP servers that call it; use another thread or task"
            if not problem:
                return asyncio.run_coroutine_threadsafe(run(), self.loop)
        work.close()
        raise UsageError(problem)

    def close(self) -> None:
        """Cancel all running work, and end the thread. Raises UsageError if called in that thread."""
        if threading.current_thread() is self._thread:
            raise UsageError(
                "on_change cannot close the MCP servers that call it; use another thread or task"
            )
        self.begin_close()
        if self._thread is not None:
            self._thread.join(_CLOSE_SECONDS + 2)

    def finalize(self) -> None:
        """Close it once it is unreachable; garbage collection may run in any thread, including this one."""
        self.begin_close() if threading.current_thread() is self._thread else self.close()

    def begin_close(self) -> None:
        """Accept no more work, and begin to shut down."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            if self._thread is None:
                self.loop.close()
            else:
                self.loop.call_soon_threadsafe(self._begin_end)

    def _begin_end(self) -> None:
        self._end = self.loop.create_task(self._cancel_all())

    async def _cancel_all(self) -> None:
        deadline = self.loop.time() + _CLOSE_SECONDS
        cancelled = set[asyncio.Task[Any]]()
        try:
            # Repeatedly: cancelled tasks may start others.
            while (tasks := asyncio.all_tasks() - {self._end}) and (
                seconds := deadline - self.loop.time()
            ) > 0:
                started = {task for task in tasks if _has_started(task)}
                for task in started - cancelled:
                    task.cancel()
                cancelled |= started
                if started == tasks:
                    await asyncio.wait(tasks, timeout=seconds)
                else:
                    await asyncio.sleep(0)
            await self.loop.shutdown_asyncgens()
        finally:
            self.loop.stop()


def _has_started(task: asyncio.Task[Any]) -> bool:
    """Return whether a task can be cancelled: before its first step, anyio's would leave a coroutine that
    nobody awaits.
    """
    coroutine = task.get_coro()
    return not inspect.iscoroutine(coroutine) or inspect.getcoroutinestate(coroutine) != inspect.CORO_CREATED
