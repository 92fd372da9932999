"""Waiting for threads and for many tasks. A thread that nobody waits for is told through a flag, and dies with the process."""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterable, Iterator
from logging import getLogger
from typing import Any, TypeVar

__all__ = ["CancelFlag", "gather_or_cancel", "run_in_thread", "split_by_order"]

log = getLogger("toolglot.tools")
T = TypeVar("T")


class CancelFlag:
    """Set once, by whoever waited, when nobody waits any more; read from any thread."""

    __slots__ = ("_set",)

    def __init__(self) -> None:
        self._set = False

    def set(self) -> None:
        self._set = True

    def is_set(self) -> bool:
        return self._set


async def run_in_thread(function: Callable[[], T]) -> T:
    """The value of a function that runs in a thread of its own."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        elif isinstance(error, Exception) and not isinstance(error, StopIteration):
            future.set_exception(error)
        else:
            future.set_exception(RuntimeError(f"{type(error).__name__} in a tool"))

    def body() -> None:
        value, error = None, None
        try:
            value = context.run(function)
        except BaseException as e:
            error = e
        try:
            loop.call_soon_threadsafe(settle, value, error)
        except RuntimeError:  # the loop is closed: nobody waits
            log.debug("a tool finished after its loop had gone")

    threading.Thread(target=body, name="toolglot-tool", daemon=True).start()
    return await future


async def gather_or_cancel(tasks: "Iterable[asyncio.Task[T]]") -> list[T]:
    """The values of tasks, in order. Where one fails or the wait is cancelled, the others are cancelled and waited for."""
    tasks = list(tasks)
    try:
        return await asyncio.gather(*tasks)
    finally:
        if running := [task for task in tasks if not task.done()]:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)


def split_by_order(items: Iterable[T], is_ordered: Callable[[T], bool]) -> Iterator[list[T]]:
    """What may be done at the same time, part by part: what is ordered is a part of its own."""
    together: list[T] = []
    for one in items:
        if is_ordered(one):
            if together:
                yield together
            yield [one]
            together = []
        else:
            together.append(one)
    if together:
        yield together
