"""Whoever gives work to the thread of the servers gets an answer, also while it ends."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import anyio
import pytest
from tests.mcp.client_kit import eventually

from toolglot.errors import UsageError
from toolglot.mcp.client.thread import ServerThread


def run_in_thread(function: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=function)
    thread.start()
    return thread


def test_it_can_be_closed_before_its_loop_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    server_thread, may_run = ServerThread(), threading.Event()
    failures, calls = list[Any](), list[str]()
    run_forever = server_thread.loop.run_forever

    def run_late() -> None:
        may_run.wait()
        run_forever()

    monkeypatch.setattr(server_thread.loop, "run_forever", run_late)
    monkeypatch.setattr(threading, "excepthook", failures.append)
    assert server_thread.start()
    assert not server_thread.start()
    server_thread.post(calls.append, "posted")
    closer = run_in_thread(server_thread.close)
    asyncio.run(eventually(lambda: _is_refused(server_thread)))
    may_run.set()
    closer.join()
    assert (failures, calls) == ([], ["posted"])
    assert server_thread.loop.is_closed()
    with pytest.raises(UsageError, match="are closed"):
        server_thread.start()


def _is_refused(server_thread: ServerThread) -> bool:
    try:
        server_thread.post(lambda: None)
    except UsageError:
        return True
    return False


def test_no_work_is_accepted_while_it_ends() -> None:
    server_thread, is_cancelled, may_end = ServerThread(), threading.Event(), threading.Event()

    async def end_slowly() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            is_cancelled.set()
            await asyncio.to_thread(may_end.wait)

    server_thread.start()
    slow = server_thread.submit(end_slowly())
    closer = run_in_thread(server_thread.close)
    is_cancelled.wait()
    with pytest.raises(UsageError, match="are closed"):
        server_thread.post(lambda: None)
    with pytest.raises(UsageError, match="not been started"):
        server_thread.submit(asyncio.sleep(0))
    may_end.set()
    closer.join()
    assert isinstance(slow.exception(), UsageError), (
        "not a cancellation, which a caller would take for its own"
    )


def test_everybody_gets_an_answer_while_it_ends() -> None:
    server_thread, futures, refusals = ServerThread(), list[Future[None]](), list[UsageError]()
    server_thread.start()

    def submit_many() -> None:
        while not refusals:
            try:
                futures.append(server_thread.submit(asyncio.sleep(3600)))
            except UsageError as e:
                refusals.append(e)

    thread = run_in_thread(submit_many)
    asyncio.run(eventually(lambda: len(futures) > 10))
    server_thread.close()
    thread.join()
    assert {type(future.exception(timeout=20)) for future in futures} == {UsageError}


def test_tasks_begin_before_they_are_cancelled() -> None:
    """Otherwise a connection that is being made leaves a coroutine that was never awaited, which Python
    reports on stderr.
    """
    server_thread, events = ServerThread(), list[str]()
    server_thread.start()

    async def connect() -> None:
        events.append("begun")
        try:
            await asyncio.sleep(3600)
        finally:
            events.append("cancelled")

    async def connect_while_it_ends() -> None:
        async with anyio.create_task_group() as group:
            server_thread.begin_close()
            await asyncio.sleep(0)
            group.start_soon(connect)
            await asyncio.sleep(3600)

    future = server_thread.submit(connect_while_it_ends())
    assert isinstance(future.exception(10), UsageError)
    assert events == ["begun", "cancelled"]


def test_it_cannot_close_itself() -> None:
    server_thread = ServerThread()
    server_thread.start()

    async def close() -> None:
        server_thread.close()

    with pytest.raises(UsageError, match="on_change cannot close"):
        server_thread.submit(close()).result()
    server_thread.close()
    server_thread.close()
