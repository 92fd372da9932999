"""The calls of a paused run that wait, and the decisions and answers for them that come from outside."""

from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from toolglot.common.textutil import truncate
from toolglot.errors import UsageError
from toolglot.loop.conversation_state import ConversationState
from toolglot.loop.given_answers import NO_MESSAGE
from toolglot.loop.run import Run
from toolglot.schema.arguments import find_issues
from toolglot.schema.coerce import coerce
from toolglot.schema.defaults import fill_defaults
from toolglot.tools.external import check_answer
from toolglot.tools.results import as_result
from toolglot.values.approvals import (
    Allow,
    Answer,
    CheckedAnswer,
    Decision,
    Deny,
    Expired,
    Path,
    Ruling,
    WaitingRecord,
    join_path,
    read_decision,
)
from toolglot.values.deliveries import Delivery
from toolglot.values.messages import ToolCall

__all__ = ["Decisions", "WaitingCalls", "deliver_answers"]

_ONE_BY_ONE = Lock()
Decisions = Mapping[str, Decision | Answer] | None


class _Waiting(msgspec.Struct, frozen=True):
    """Something that a call of the open turn waits for."""

    index: int
    """Of the call of the turn."""
    record: WaitingRecord

    @property
    def id(self) -> str:
        return join_path(self.record.path)


class WaitingCalls:
    """The calls of a run that wait, and by which keys decisions and answers may name them."""

    def __init__(self, state: ConversationState, run: Run) -> None:
        self._state, self._run = state, run
        self._items = list(_list_waiting(run))
        self._by_fingerprint = {
            item.record.fingerprint: item for item in self._items if item.record.fingerprint
        }
        self._by_name: dict[str, list[_Waiting]] = {}
        for item in self._items:
            # A call of a script may be named by its own id alone, as long as no other has the same.
            for name in {item.id, item.record.path[-1], item.record.key} - {""}:
                self._by_name.setdefault(name, []).append(item)

    async def look_again(self, items: Mapping[str, Decision | Answer]) -> None:
        """Learn what the calls would do now, if a decision may be about that."""
        if not items.keys() <= self._by_name.keys() | self._by_fingerprint.keys():
            await self._look_again()

    def read(
        self, items: Mapping[str, Decision | Answer], *, are_in_time: bool = False
    ) -> dict[int, dict[Path, Ruling]]:
        """Return decisions and answers by call index and path, each with the fingerprint of the request that it
        is about. Calls that have expired are ruled on, too. Raises UsageError.

        `are_in_time`: the items came before their calls expired.
        """
        rulings = dict[int, dict[Path, Ruling]]()
        now = self._state.host.options.wall_clock()
        for item in self._items:
            if item.record.expires is not None and item.record.expires <= now:
                rulings.setdefault(item.index, {})[item.record.path[1:]] = Ruling("", Expired())
        for key, value in items.items():
            item = self._by_fingerprint.get(key)
            fingerprint = key
            if item is None:
                item = self._find_by_name(key)
                fingerprint = item.record.fingerprint
            answer = _read_answer(value, item)
            if answer is None:
                continue
            call_rulings, path = rulings.setdefault(item.index, {}), item.record.path[1:]
            is_late = path in call_rulings and isinstance(call_rulings[path].answer, Expired)
            if path in call_rulings and not (is_late and are_in_time):
                reason = "has expired" if is_late else "is decided on twice, under different names"
                raise UsageError(f"the call {item.id} {reason}")
            call_rulings[path] = Ruling(fingerprint, answer)
        return rulings

    async def _look_again(self) -> None:
        by_path = {item.record.path: item for item in self._items}
        for waiting in (await self._state.list_suspended(self._run)).values():
            for suspended in waiting:
                if suspended.path in by_path:
                    self._by_fingerprint[suspended.fingerprint] = by_path[suspended.path]

    def _find_by_name(self, name: str) -> _Waiting:
        items = self._by_name.get(name, [])
        if not items:
            names = ", ".join(sorted({item.id for item in self._items})) or "none"
            raise UsageError(
                f"no call {name} is waiting for a decision or an answer; agent.list_pending() lists those that "
                f"are: {names}"
            )
        if len(items) > 1:
            ids = ", ".join(item.id for item in items)
            raise UsageError(f"several calls {name} are waiting; use the whole id of one: {ids}")
        if self._run.distrust_reason:
            hint = (
                "use a fingerprint from agent.list_pending(), or share a TOOLGLOT_APPROVAL_KEY between "
                "machines"
            )
            raise UsageError(
                f"the id {name} is not enough to decide on a call, as {self._run.distrust_reason}: {hint}"
            )
        return items[0]


def deliver_answers(state: ConversationState, items: Mapping[str, Decision | Answer], id: str) -> Delivery:
    """Keep decisions and answers for a run that waits, or whose calls do, until it goes on. Can be called from
    any thread; what cannot be used is refused with a reason.
    """
    active = state.conversation.active_run
    # While a paused run is about to go on, it is not yet the active one.
    run: Run | None = state.paused if active is None or active.run is None else active.run
    with _ONE_BY_ONE:
        known = None if run is None else run.given.find(id)
        if known is not None:
            return known
        delivery = Delivery(id or f"answer_{uuid4().hex[:16]}", NO_MESSAGE)
        try:
            if run is None:
                raise UsageError("no run is waiting on this conversation")
            rulings = _read_now(state, run, items)
            if not rulings:
                raise UsageError(
                    "the delivery decides nothing: a call that is decided on later goes on waiting"
                )
            run.given.add(rulings, delivery)
        except UsageError as error:
            delivery.state, delivery.reason = "refused", str(error)
    return delivery


def _read_now(
    state: ConversationState, run: Run, items: Mapping[str, Decision | Answer]
) -> dict[int, dict[Path, Ruling]]:
    """Return what has come, without the calls that have expired. Raises UsageError."""
    while True:
        try:
            rulings = WaitingCalls(state, run).read(items)
            break
        except RuntimeError:  # the run's own thread has changed what waits while this one looked
            continue
    return {
        index: in_time
        for index, of_call in rulings.items()
        if (
            in_time := {
                path: ruling for path, ruling in of_call.items() if not isinstance(ruling.answer, Expired)
            }
        )
    }


def _list_waiting(run: Run) -> Iterable[_Waiting]:
    for index, call in run.waiting_calls:
        for record in run.suspended[index].waiting or (WaitingRecord(),):
            # In a run whose file cannot be trusted, a call may wait of which nothing was shown.
            yield _Waiting(index, record if record.path else replace(record, path=(call.id,)))


def _read_answer(value: Any, item: _Waiting) -> Allow | Deny | Answer | None:
    """Return what a decision or an answer means; None: later. Raises UsageError."""
    record, id = item.record, item.id
    if record.kind == "external":
        if not isinstance(value, Answer):
            raise UsageError(f"the call {id} waits for an answer, not for a decision: pass Answer(…)")
        if isinstance(value, CheckedAnswer):  # by the run that this one works for
            return value
        check_answer(value, record, id)
        return value if value.error else CheckedAnswer(as_result(value.value, ToolCall("", id)))
    if isinstance(value, Answer):
        if record.kind == "approval":
            raise UsageError(
                f"the call {id} waits for a decision, not for an answer: pass True, False or Allow(…)"
            )
        value = Deny(value.error) if value.error else Allow(value.value)
    answer = read_decision(value)
    if record.kind == "question" and isinstance(answer, Allow) and record.schema is not None:
        _check_form(answer, record.schema, id)
    return answer


def _check_form(answer: Allow, form: dict[str, Any], id: str) -> None:
    """Raise UsageError for values that do not fit the form of a question."""
    values, _ = coerce(fill_defaults(dict(answer.arguments or {}), form), form)
    if issues := find_issues(values, form):
        reasons = truncate("; ".join(map(str, issues)), 500)
        raise UsageError(f"the answer to {id} does not fit its form: {reasons}")
