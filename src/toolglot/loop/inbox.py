"""Messages for the run in progress on one conversation, put in by any thread and taken by the run.

Invariants: a message is either taken by the run or refused with a reason, never both and never neither: each
step is taken under one lock, and an empty inbox is closed under the same lock that finds it empty. A step
costs time for the messages that it is about only. An id that was seen means the same delivery, always.
"""

from collections.abc import Iterable
from threading import Lock
from uuid import uuid4

import msgspec

from toolglot.errors import MalformedData, UsageError
from toolglot.values.deliveries import Delivery, DeliveryState, DeliveryTime
from toolglot.values.messages import Message

__all__ = ["Inbox", "SavedDelivery"]

_MAX_REMEMBERED = 1_000  # ids of messages that are no longer queued
_MAX_QUEUED = 1_000
_NO_RUN = "no run is in progress on this conversation: send the message as a prompt, with run"
_FULL = f"{_MAX_QUEUED:,} messages are queued for this run already: wait until it has taken some"
_NOT_SAVED_RUN = "the process ended before the run could take the message: send it as a prompt, with run"
_UNKNOWN = Message("user", ())  # a saved id without its message


class SavedDelivery(msgspec.Struct, frozen=True, omit_defaults=True):
    """A delivery in the header of a saved conversation. `message`: of one that is queued."""

    id: str
    when: DeliveryTime = "soon"
    state: DeliveryState = "queued"
    reason: str = ""
    index: int | None = None
    message: Message | None = None


class Inbox:
    """The messages for the run of one conversation. It is open while a run is in progress or waits."""

    # Every conversation has one, and few are ever used: it is small.
    __slots__ = ("__weakref__", "_idle", "_lock", "_past", "is_open", "refused", "urgent")

    def __init__(self) -> None:
        self.is_open = False
        """Whether it accepts messages."""
        self.refused: tuple[Delivery, ...] = ()
        """Messages that were queued for the present run, or for the paused run it has replaced, and that the
        model has not got."""
        self.urgent: dict[str, Delivery] = {}
        """What is queued for the next request, by id. For looking only: without the lock it may change."""
        self._idle: dict[str, Delivery] = {}
        self._past: dict[str, Delivery] = {}
        self._lock = Lock()

    # ---- for whoever sends messages, from any thread

    def add(self, message: Message, when: DeliveryTime, id: str) -> Delivery:
        """Queue a message, or refuse it; with an id that was seen, return the delivery that has it."""
        with self._lock:
            known = self._find(id)
            if known is not None:
                return _check_same(known, message)
            delivery = Delivery(id or f"message_{uuid4().hex[:16]}", message, when)
            if not self.is_open:
                self._refuse(delivery, _NO_RUN)
            elif len(self.urgent) + len(self._idle) >= _MAX_QUEUED:
                self._refuse(delivery, _FULL)
            else:
                self._queue(delivery)
            return delivery

    def withdraw(self, delivery: Delivery) -> bool:
        """Take a message back; return whether it was still queued."""
        with self._lock:
            queue = self._queue_of(delivery)
            if queue.get(delivery.id) is not delivery:
                return False
            del queue[delivery.id]
            delivery.state = "withdrawn"
            self._remember(delivery)
            return True

    # ---- for the run

    def open(self, reason: str) -> None:
        """Accept messages for a new run. Those for the paused run that it replaces are refused."""
        with self._lock:
            self.refused = ()
            self._refuse_queued(reason)
            self.is_open = True

    def take_urgent(self, index: int) -> list[Delivery]:
        """Take the messages for the next request. `index`: the position of the first in the conversation."""
        with self._lock:
            return self._take_urgent(index)

    def take_or_close(self, index: int) -> list[Delivery]:
        """Take the messages that a run continues with instead of ending: all urgent ones, or the first.

        Without any, accept no more.
        """
        with self._lock:
            if self.urgent:
                return self._take_urgent(index)
            if not self._idle:
                self.is_open = False
                return []
            return [self._mark_delivered(self._idle.pop(next(iter(self._idle))), index)]

    def close_if_empty(self) -> bool:
        """Accept no more messages if none is queued; return whether that is so."""
        with self._lock:
            self.is_open = bool(self.urgent or self._idle)
            return not self.is_open

    def close(self, reason: str) -> None:
        """Accept no more messages, and refuse those that are queued."""
        with self._lock:
            self.is_open = False
            self._refuse_queued(reason)

    # ---- save and restore

    def snapshot(self) -> list[SavedDelivery]:
        """Return everything that is queued, and the ids that were seen."""
        with self._lock:
            past = [
                SavedDelivery(known.id, known.when, known.state, known.reason, known.index)
                for known in self._past.values()
            ]
            queued = [
                SavedDelivery(delivery.id, delivery.when, message=delivery.message)
                for delivery in (*self.urgent.values(), *self._idle.values())
            ]
            return past + queued

    def restore(self, saved: Iterable[SavedDelivery], *, is_waiting: bool) -> None:
        """Take over what `snapshot` returned. `is_waiting`: the run was saved too, and can be resumed.

        Raises MalformedData.
        """
        with self._lock:
            self.is_open = is_waiting
            for item in saved:
                message = item.message or _UNKNOWN
                if self._find(item.id) is not None or not item.id:
                    raise MalformedData(f"line 1: two messages for the run have the id {item.id!r:.80}")
                if item.state == "queued" and (item.message is None or message.role != "user"):
                    raise MalformedData(f"line 1: the queued message {item.id!r:.80} is not one of the user")
                delivery = Delivery(item.id, message, item.when, item.state, item.reason, item.index)
                if item.state != "queued":
                    self._remember(delivery)
                elif is_waiting:
                    self._queue(delivery)
                else:  # saved in the middle of a run, which has no saved form
                    self._refuse(delivery, _NOT_SAVED_RUN)
                    self.refused += (delivery,)

    # ---- under the lock

    def _find(self, id: str) -> Delivery | None:
        return self.urgent.get(id) or self._idle.get(id) or self._past.get(id)

    def _queue_of(self, delivery: Delivery) -> dict[str, Delivery]:
        return self.urgent if delivery.when == "soon" else self._idle

    def _queue(self, delivery: Delivery) -> None:
        delivery.attach(self)
        self._queue_of(delivery)[delivery.id] = delivery

    def _take_urgent(self, index: int) -> list[Delivery]:
        taken = [self._mark_delivered(delivery, index + n) for n, delivery in enumerate(self.urgent.values())]
        self.urgent.clear()
        return taken

    def _mark_delivered(self, delivery: Delivery, index: int) -> Delivery:
        delivery.index = index
        delivery.state = "delivered"  # last: who sees the state sees the index
        self._remember(delivery)
        return delivery

    def _refuse(self, delivery: Delivery, reason: str) -> None:
        delivery.reason = reason
        delivery.state = "refused"
        self._remember(delivery)

    def _refuse_queued(self, reason: str) -> None:
        queued = (*self.urgent.values(), *self._idle.values())
        for delivery in queued:
            self._refuse(delivery, reason)
        self.refused += queued
        self.urgent.clear()
        self._idle.clear()

    def _remember(self, delivery: Delivery) -> None:
        self._past[delivery.id] = delivery
        if len(self._past) > _MAX_REMEMBERED:
            del self._past[next(iter(self._past))]


def _check_same(known: Delivery, message: Message) -> Delivery:
    """Return the delivery that an id stands for. Raises UsageError for another message."""
    if known.message is _UNKNOWN:
        known.message = message
    elif known.message != message:
        raise UsageError(
            f"the id {known.id!r:.80} belongs to another message: pass a new id for each message"
        )
    return known
