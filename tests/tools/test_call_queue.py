"""The queue of calls: first come, first served, in one event loop or in several threads."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from toolglot.tools.call_queue import UNLIMITED, CallQueue


async def take_turn(queue: CallQueue, name: str, log: list[str], max_parallel: int = 2) -> None:
    async with queue.turn(max_parallel, is_ordered=name.isupper()):
        log.append(name)
        await asyncio.sleep(0)
        log.append(f"-{name}")


@pytest.mark.parametrize(
    ("names", "max_parallel", "order"),
    [
        ("abc", 8, "abc-a-b-c"),
        ("abc", 1, "a-ab-bc-c"),
        ("ABC", 8, "A-AB-BC-C"),
        ("aXb", 8, "a-aX-Xb-b"),
        ("Xab", 8, "X-Xab-a-b"),
    ],
)
async def test_an_ordered_call_runs_alone(names: str, max_parallel: int, order: str) -> None:
    queue, log = CallQueue(), list[str]()
    await asyncio.gather(*(take_turn(queue, name, log, max_parallel) for name in names))
    assert "".join(log) == order


async def test_calls_run_in_their_order_at_linear_cost() -> None:
    queue, log = CallQueue(), list[str]()
    tasks = [asyncio.create_task(take_turn(queue, name, log)) for name in "abcXdYe"]
    await asyncio.sleep(0)
    tasks[4].cancel()  # d waits
    await asyncio.gather(*tasks, return_exceptions=True)
    assert "".join(log) == "ab-a-bc-cX-XY-Ye-e"
    await asyncio.gather(
        *(take_turn(queue, "n", log) for _ in range(5000))
    )  # not done after minutes, when each wakes all others
    assert log.count("-n") == 5000


async def test_a_turn_can_end_early_and_ends_once() -> None:
    queue, log = CallQueue(), list[str]()
    async with queue.turn(1) as turn:
        other = asyncio.create_task(take_turn(queue, "a", log, 1))
        await asyncio.sleep(0)
        assert log == []
        turn.end()
        await other
        assert log == ["a", "-a"]
    async with queue.turn(1):
        blocked = asyncio.create_task(take_turn(queue, "b", log, 1))
        await asyncio.sleep(0)
        assert log == ["a", "-a"], "the turn that ended twice has made no room for another"
    await blocked


async def test_a_call_that_is_cancelled_when_its_turn_comes_makes_room() -> None:
    queue, log = CallQueue(), list[str]()
    async with queue.turn(1):
        waiting = asyncio.create_task(take_turn(queue, "a", log, 1))
        await asyncio.sleep(0)
    waiting.cancel()  # it was admitted, and has not run since
    await asyncio.gather(waiting, return_exceptions=True)
    assert log == []
    await take_turn(queue, "b", log, 1)
    assert log == ["b", "-b"]


def in_threads(*bodies: Callable[[], None]) -> None:
    threads = [threading.Thread(target=body, daemon=True) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)


def test_ordered_calls_of_many_threads_never_overlap() -> None:
    queue, log = CallQueue(), list[str]()

    def body(name: str) -> Callable[[], None]:
        async def take_turns() -> None:
            await asyncio.gather(*(take_turn(queue, name, log, UNLIMITED) for _ in range(20)))

        return lambda: asyncio.run(take_turns())

    in_threads(*map(body, "ABCDEFGH"))
    assert len(log) == 8 * 20 * 2
    assert all(end == f"-{start}" for start, end in zip(log[::2], log[1::2], strict=True))


def test_calls_whose_event_loop_has_ended_are_skipped() -> None:
    """A loop that is closed without its tasks being cancelled leaves calls behind that nobody waits for."""
    queue, log = CallQueue(), list[str]()
    abandoned = asyncio.new_event_loop()
    abandoned.set_exception_handler(lambda loop, context: None)  # "Task was destroyed but it is pending"

    async def use() -> None:
        async with queue.turn(1):
            lost = abandoned.create_task(take_turn(queue, "lost", log, 1))
            await asyncio.to_thread(abandoned.run_until_complete, asyncio.sleep(0))
            abandoned.close()
            waiting = asyncio.create_task(take_turn(queue, "a", log, 1))
            await asyncio.sleep(0)
        await waiting
        assert not lost.done()

    asyncio.run(use())
    assert log == ["a", "-a"]
