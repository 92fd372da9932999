"""Eight threads that do what they are told, in an order that nobody decides."""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Barrier, Thread


class Senders:
    """Eight threads, each with a queue of work."""

    count = 8

    def __init__(self) -> None:
        self._queues = [SimpleQueue[Callable[[], object] | None]() for _ in range(self.count)]
        self._threads = [Thread(target=_work, args=(queue,)) for queue in self._queues]
        for thread in self._threads:
            thread.start()

    def tell(self, number: int, work: Callable[[], object]) -> None:
        """Let one of the threads do something."""
        self._queues[number].put(work)

    def wait(self) -> None:
        """Wait until everything that was told before is done."""
        barrier = Barrier(len(self._queues) + 1)
        for queue in self._queues:
            queue.put(barrier.wait)
        barrier.wait()

    def close(self) -> None:
        """End the threads."""
        for queue in self._queues:
            queue.put(None)
        for thread in self._threads:
            thread.join()


def _work(queue: "SimpleQueue[Callable[[], object] | None]") -> None:
    while (work := queue.get()) is not None:
        work()
