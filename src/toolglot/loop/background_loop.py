"""One event loop in a thread for the whole process: synchronous callers, including notebooks, share its
connections.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import suppress
from functools import wraps
from types import AsyncGeneratorType
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from toolglot.errors import UsageError

__all__ = ["blocking", "iterate_sync", "run_sync"]

T = TypeVar("T")
_Self = TypeVar("_Self")
_P = ParamSpec("_P")
_THREAD_NAME = "toolglot-loop"
_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None
_EXIT_SECONDS = 2.0


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the background loop.

    Ctrl-C cancels it, waits until it has cleaned up, and is raised again.
    """
    global _loop, _thread
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            # with -X dev it would complain that imports take long, which hold up nobody here
            _loop.set_debug(False)
            _thread = threading.Thread(target=_run_loop, args=(_loop,), name=_THREAD_NAME, daemon=True)
            _thread.start()
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


def blocking(
    method: Callable[Concatenate[_Self, _P], Coroutine[Any, Any, T]], name: str = ""
) -> Callable[Concatenate[_Self, _P], T]:
    """Return the form of an async method for callers without an event loop, with the same signature.

    `name`: what it is called; by default `METHOD_sync`.
    """

    @wraps(method)
    def call(self: _Self, /, *args: _P.args, **options: _P.kwargs) -> T:
        # a subclass may have a method of its own
        return run_sync(getattr(self, method.__name__)(*args, **options))

    call.__name__ = name or f"{method.__name__}_sync"
    call.__qualname__ = f"{method.__qualname__.rpartition('.')[0]}.{call.__name__}"
    call.__doc__ = (
        f"Like `{method.__name__}`, for callers without an event loop. Ctrl-C leaves a valid conversation."
    )
    return call


def iterate_sync(events: AsyncGenerator[T]) -> Generator[T, None, None]:
    """Read a stream in the background loop. Leaving the generator closes the stream."""

    async def read_next() -> T | None:
        return await anext(events, None)

    try:
        while (event := run_sync(read_next())) is not None:
            yield event
    finally:
        if cast(AsyncGeneratorType[Any, Any], events).ag_frame is not None:  # it has not ended by itself
            run_sync(events.aclose())


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    """What ends a program (`sys.exit` in a hook) ends the run that raised it, not the loop."""
    while True:
        try:
            loop.run_forever()
        except (KeyboardInterrupt, SystemExit):  # the task keeps it, and whoever waits for the task gets it
            continue
        return


def _close_loop() -> None:
    """End the loop with the program: cancel what runs, and close the connections, about which Python would
    complain.
    """
    loop, thread = _loop, _thread
    if loop is None or thread is None or not thread.is_alive():
        return

    async def finish() -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_EXIT_SECONDS)
        await loop.shutdown_asyncgens()

    with suppress(TimeoutError):  # whatever hangs: the program ends
        asyncio.run_coroutine_threadsafe(finish(), loop).result(2 * _EXIT_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_EXIT_SECONDS)
        if not thread.is_alive():
            loop.close()


def _forget_loop() -> None:
    global _loop
    _loop = None


atexit.register(_close_loop)
if register_at_fork := getattr(os, "register_at_fork", None):  # Windows does not fork
    register_at_fork(after_in_child=_forget_loop)  # a forked child has the loop but not its thread
