"""Threads and order: what running several calls at once needs beside asyncio."""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterable, Iterator
from logging import getLogger
from typing import Any, TypeVar

__all__ = ["run_in_thread", "split_by_order"]

log = getLogger("toolglot.tools")
T = TypeVar("T")


async def run_in_thread(function: Callable[[], T]) -> T:
    """Run a function in a daemon thread of its own.

    Unlike `asyncio.to_thread`, a function that never returns blocks neither a pool nor the end of the process.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def resolve(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        elif isinstance(error, Exception) and not isinstance(error, StopIteration):
            future.set_exception(error)
        else:  # a future refuses StopIteration; SystemExit would end the event loop
            future.set_exception(RuntimeError(f"{type(error).__name__} in a tool"))

    def body() -> None:
        value, error = None, None
        try:
            value = context.run(function)
        except BaseException as e:
            error = e
        try:
            loop.call_soon_threadsafe(resolve, value, error)
        except RuntimeError:  # the loop is closed: nobody waits
            log.debug("a tool finished after its event loop was closed")

    threading.Thread(target=body, name="toolglot-tool", daemon=True).start()
    return await future


def split_by_order(items: Iterable[T], is_ordered: Callable[[T], bool]) -> Iterator[list[T]]:
    """Split items into groups that may run in parallel; an ordered item is a group of its own."""
    group: list[T] = []
    for item in items:
        if is_ordered(item):
            if group:
                yield group
            yield [item]
            group = []
        else:
            group.append(item)
    if group:
        yield group
