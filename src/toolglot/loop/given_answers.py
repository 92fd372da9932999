"""Decisions and answers for calls that wait, which have come from any thread and which the run has not used yet.

Invariants: the first for a call counts, and is used once. What a file says is used only if the file is intact.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from toolglot.errors import MalformedData, UsageError
from toolglot.values.approvals import Allow, Answer, CheckedAnswer, Deny, Expired, Path, Ruling
from toolglot.values.deliveries import Delivery
from toolglot.values.messages import Message, ToolResult

__all__ = ["GivenAnswers", "SavedRuling"]

NO_MESSAGE = Message("user", ())
_Key = tuple[int, Path]
"""The index of a call of the open turn, and the path below it."""


class SavedRuling(msgspec.Struct, frozen=True, omit_defaults=True):
    """A decision or an answer in a saved run: one of the four."""

    index: int
    path: Path
    fingerprint: str
    id: str = ""
    """Of the delivery."""
    allow: Allow | None = None
    deny: Deny | None = None
    result: ToolResult | None = None
    error: str | None = None


class GivenAnswers:
    """What has come for the calls of one turn, by call.

    The run takes it in its own thread; others add to it, one at a time: each step here is one that no other
    thread can interrupt. The values of answers are results already, so that they can be saved.
    """

    def __init__(self) -> None:
        self._open: dict[_Key, tuple[Ruling, Delivery]] = {}
        self._deliveries: dict[str, Delivery] = {}  # all of the turn, by id
        self._taken: dict[int, Delivery] = {}  # for calls of the turn themselves
        self._end = ""  # why nothing is taken any more

    def find(self, id: str) -> Delivery | None:
        """Return the delivery with an id."""
        return self._deliveries.get(id) if id else None

    def add(self, rulings: Mapping[int, Mapping[Path, Ruling]], delivery: Delivery) -> None:
        """Keep rulings until the run takes them. Raises UsageError for a call that has one already.

        What came before a call expired counts, however late the run goes on.
        """
        items = {
            (index, path): (ruling, delivery)
            for index, of_call in rulings.items()
            for path, ruling in of_call.items()
            if not (isinstance(ruling.answer, Expired) and (index, path) in self._open)
        }
        if items.keys() & self._open.keys():
            raise UsageError("there is a decision or an answer for the call already: the first counts")
        self._open.update(items)
        if delivery.id:
            self._deliveries[delivery.id] = delivery
        if self._end:  # the turn has ended in the meantime
            self.end(self._end)

    def is_for(self, indexes: Collection[int]) -> bool:
        """Return whether anything has come for these calls."""
        return any(index in indexes for index, _ in [*self._open])

    def take(self, indexes: Collection[int], checked: Collection[Ruling]) -> dict[int, dict[Path, Ruling]]:
        """Take what has come for calls that still wait.

        `checked`: what to take; what another thread has added meanwhile stays.
        """
        ids, taken = {*map(id, checked)}, dict[int, dict[Path, Ruling]]()
        for key in list(self._open):
            ruling, delivery = self._open[key]
            if key[0] not in indexes or id(ruling) not in ids:
                continue
            del self._open[key]
            taken.setdefault(key[0], {})[key[1]] = ruling
            delivery.state = "delivered"
            if not key[1]:
                self._taken[key[0]] = delivery
        return taken

    def list(self) -> "list[tuple[_Key, Ruling]]":
        """Return the rulings, each with the index of the call of the turn and the path below it."""
        return [(key, ruling) for key, (ruling, _) in [*self._open.items()]]

    def drop(self, key: _Key, reason: str) -> None:
        """Refuse a ruling. Its delivery is refused if none of its rulings was or will be used."""
        if (found := self._open.pop(key, None)) is None:  # two threads may end it
            return
        delivery = found[1]
        delivery.reason = reason
        if delivery.state == "queued" and not any(other is delivery for _, other in [*self._open.values()]):
            delivery.state = "refused"

    def give_back(self, index: int, reason: str) -> None:
        """Refuse after all what was taken for a call that was stopped before it could be used."""
        delivery = self._taken.pop(index, None)
        if delivery is not None:
            delivery.reason = reason
            if not any(other is delivery for other in self._taken.values()):
                delivery.state = "refused"

    def end(self, reason: str) -> None:
        """Refuse what was not used, and all that still comes: the calls do not wait any more."""
        self._end = reason
        while self._open:
            for key in [*self._open]:
                self.drop(key, reason)

    # ---- save and restore

    def save(self) -> tuple[SavedRuling, ...]:
        """Return what was not used yet."""
        return tuple([_save(key, ruling, delivery.id) for key, (ruling, delivery) in [*self._open.items()]])

    @classmethod
    def restore(cls, saved: Iterable[SavedRuling]) -> "GivenAnswers":
        """Return what `save` has returned. Raises MalformedData."""
        given = cls()
        for item in saved:
            delivery = given.find(item.id) or Delivery(item.id, NO_MESSAGE)
            given.add({item.index: {item.path: Ruling(item.fingerprint, _read(item))}}, delivery)
        return given


def _save(key: _Key, ruling: Ruling, id: str) -> SavedRuling:
    index, path = key
    answer = ruling.answer
    fields = {"allow": answer} if isinstance(answer, Allow) else {"deny": answer}
    if isinstance(answer, Answer):
        fields = {"error": answer.error} if answer.error else {"result": answer.value}
    return SavedRuling(index, path, ruling.fingerprint, id, **fields)  # pyright: ignore[reportArgumentType]


def _read(saved: SavedRuling) -> Allow | Deny | Answer:
    if saved.error is not None:
        return Answer(error=saved.error)
    # The result is as our own code has made it of the answer, and the file is intact.
    answer = saved.allow or saved.deny or (None if saved.result is None else CheckedAnswer(saved.result))
    if answer is None:
        raise MalformedData("line 1: an answer of the saved run is empty")
    return answer
