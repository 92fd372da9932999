"""Threads and order: what running several calls at once needs beside asyncio."""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

__all__ = ["run_in_thread", "split_by_order"]

T = TypeVar("T")


async def run_in_thread(function: Callable[[], T]) -> T:
    """Run a function in a daemon thread of its own.

    Unlike `asyncio.to_thread`, a function that never returns blocks neither a pool nor the end of the process.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def resolve(set_outcome: Callable[[Any], None], outcome: Any) -> None:
        if not future.done():
            set_outcome(outcome)

    def body() -> None:
        try:
            done = (future.set_result, context.run(function))
        except BaseException as e:
            if isinstance(e, StopIteration) or not isinstance(e, Exception):
                e = RuntimeError(f"{type(e).__name__} in a tool")  # a future refuses the one, the others end the loop
            done = (future.set_exception, e)
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(resolve, *done)

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
