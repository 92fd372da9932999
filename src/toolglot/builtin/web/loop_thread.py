"""A thread with its own event loop, for what must outlive the loop of a call: a browser and its proxy."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from toolglot.errors import ToolError

__all__ = ["LoopThread"]

T = TypeVar("T")
STOP_SECONDS = 10.0


class LoopThread:
    """Starts with the first coroutine; `stop` runs `final`, then ends the thread with everything in progress."""

    def __init__(self, final: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._final, self._lock = final, threading.Lock()
        self._thread: threading.Thread | None = None
        self._started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._is_stopped = False

    async def run(self, factory: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine there; cancelling here cancels it there."""
        with self._lock:
            if self._is_stopped:
                raise ToolError("the web tools are closed", code="url_failed")
            if self._thread is None:
                self._thread = threading.Thread(target=asyncio.run, args=(self._serve(),), name="toolglot-web", daemon=True)
                self._thread.start()
        loop, _ = self._started.result()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(factory(), loop))

    async def _serve(self) -> None:
        stop = asyncio.Event()
        self._started.set_result((asyncio.get_running_loop(), stop))
        await stop.wait()
        with suppress(Exception):
            await asyncio.wait_for(self._final(), STOP_SECONDS)

    def stop(self) -> None:
        """End the thread. May be called repeatedly, from any thread."""
        with self._lock:
            thread, self._thread, self._is_stopped = self._thread, None, True
        if thread is not None and thread.is_alive():
            loop, stop = self._started.result()
            loop.call_soon_threadsafe(stop.set)
            if thread is not threading.current_thread():  # the garbage collector may run in any thread, also in this one
                thread.join(2 * STOP_SECONDS)
