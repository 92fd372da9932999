"""A thread with its own event loop, for what must outlive the loop of a call: a browser and its proxy."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from toolglot.errors import ToolError

__all__ = ["LoopThread"]

T = TypeVar("T")
STOP_SECONDS = 10.0


class LoopThread:
    """Starts with the first coroutine; `stop` ends it with everything in progress."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopped = False

    async def run(self, factory: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine there; cancelling here cancels it there."""
        with self._lock:
            if self._stopped:
                raise ToolError("the web tools are closed", code="url_failed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._run_loop, args=(self._loop,), name="toolglot-web", daemon=True)
                self._thread.start()
            loop = self._loop
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(factory(), loop))

    @staticmethod
    def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    def stop(self, final: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a last coroutine there, then end the thread. May be called repeatedly, from any thread."""
        with self._lock:
            loop, thread, self._stopped = self._loop, self._thread, True
            self._loop = self._thread = None
        if loop is None or thread is None or not thread.is_alive():
            return
        ending = asyncio.run_coroutine_threadsafe(final(), loop)
        if thread is threading.current_thread():  # the garbage collector ran in this thread, which cannot wait for itself
            ending.add_done_callback(lambda _: loop.call_soon_threadsafe(loop.stop))
            return
        with suppress(Exception):
            ending.result(STOP_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(STOP_SECONDS)
