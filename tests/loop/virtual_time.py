"""An event loop whose time passes only while everybody waits, and at once.

Only for what runs in one thread: the loop cannot know that a thread is busy.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from toolglot.loop.agent.agent import Agent

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """When nothing is ready, it is the time of the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def time(self) -> float:
        """Return the virtual time."""
        return self.now

    def _run_once(self) -> None:
        parts: Any = self  # of asyncio's own loops: what is ready, and a heap of timers
        scheduled = [timer.when() for timer in parts._scheduled if not timer.cancelled()]
        if not parts._ready:
            assert scheduled, "everybody waits for ever"
            self.now = max(self.now, min(scheduled))
        base: Any = super()
        base._run_once()


def run_virtual(work: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in a loop of its own, in no time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        return runner.run(work(loop))


def use_clock(agent: Agent[Any, Any], clock: Callable[[], float]) -> None:
    """Measure the runs of an agent by a clock."""
    agent._state.host.clock = clock  # pyright: ignore[reportPrivateUsage]
