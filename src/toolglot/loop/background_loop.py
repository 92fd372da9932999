"""One event loop in a thread for the whole process: synchronous callers, including notebooks, share its connections."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from toolglot.errors import UsageError

__all__ = ["run_sync"]

T = TypeVar("T")
_THREAD_NAME = "toolglot-loop"
_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the background loop. Ctrl-C cancels it, waits until it has cleaned up, and is raised again."""
    global _loop
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_run_loop, args=(_loop,), name=_THREAD_NAME, daemon=True).start()
        loop = _loop
    if threading.current_thread().name == _THREAD_NAME:
        coroutine.close()
        raise UsageError("run_sync was called inside a run; await run(…) there")
    tasks: list[asyncio.Task[T]] = []

    async def watch() -> None:
        tasks.append(asyncio.create_task(coroutine))
        await asyncio.wait(tasks)

    async def cancel() -> None:  # as a coroutine, so that it runs after `watch` has begun
        tasks[0].cancel()

    finished = asyncio.run_coroutine_threadsafe(watch(), loop)
    try:
        finished.result()
    except KeyboardInterrupt:
        asyncio.run_coroutine_threadsafe(cancel(), loop)
        finished.result()
        raise
    return tasks[0].result()


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    """What ends a program (`sys.exit` in a hook, KeyboardInterrupt in a tool) ends the run that raised it, not the loop."""
    while True:
        try:
            loop.run_forever()
        except (KeyboardInterrupt, SystemExit):  # the task keeps it, and whoever waits for the task gets it
            continue
        return


def _forget_loop() -> None:
    global _loop
    _loop = None


os.register_at_fork(after_in_child=_forget_loop)  # a forked child has the loop but not its thread
