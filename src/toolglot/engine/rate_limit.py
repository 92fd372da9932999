"""Limits on requests to models: a request beyond them waits. Pure: the clock is an argument.

A limit is shared by everything in the process that sets the same one, because a provider counts per account,
not per agent.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from operator import attrgetter
from threading import Lock
from typing import Annotated

import msgspec
from msgspec import Meta

from toolglot.common.value_checks import OptionMeta, check_values
from toolglot.providers.catalog import select_row

__all__ = ["RequestRate", "Slot", "cancel_slot", "reserve_slot"]

_lock = Lock()  # event loops in several threads may share a limit
_TIME = attrgetter("time")


class RequestRate(msgspec.Struct, metaclass=OptionMeta, frozen=True, kw_only=True):
    """Maximum requests to a model, and tokens in them and their replies, per `seconds` seconds.

    None: no limit.
    """

    requests: Annotated[int, Meta(ge=1)] | None = None
    """Maximum requests in the period."""
    tokens: Annotated[int, Meta(ge=1)] | None = None
    """Maximum tokens in the period."""
    seconds: Annotated[float, Meta(gt=0)] = 60.0
    """The length of the period."""

    def __post_init__(self) -> None:
        check_values(self)


class Slot(msgspec.Struct, eq=False):
    """The moment at which a request may be sent, and the tokens that it counts for: an estimate until it is
    answered.
    """

    time: float
    tokens: int
    pattern: str = ""
    """The limit that it waits for."""
    rate: RequestRate | None = None


def reserve_slot(rates: Mapping[str, RequestRate], name: str, now: float, tokens: int) -> Slot:
    """Reserve the first moment that all limits of a model allow. `name`: PROVIDER:MODEL."""
    slot = Slot(now, tokens)
    with _lock:
        matches = list(_matching_slots(rates, name))
        is_settled = False
        while not is_settled:
            is_settled = True
            for pattern, rate, slots in matches:
                del slots[: _count_past(slots, rate, now)]
                if (time := _find_time(slots, rate, slot.time, tokens)) > slot.time:
                    slot.time, slot.pattern, slot.rate, is_settled = time, pattern, rate, False
        for _, _, slots in matches:
            insort(slots, slot, key=_TIME)
    return slot


def cancel_slot(rates: Mapping[str, RequestRate], name: str, slot: Slot) -> None:
    """Give back the slot of a request that was not sent."""
    with _lock:
        for _, _, slots in _matching_slots(rates, name):
            if slot in slots:
                slots.remove(slot)


def _matching_slots(
    rates: Mapping[str, RequestRate], name: str
) -> Iterator[tuple[str, RequestRate, list[Slot]]]:
    provider, _, model = name.partition(":")
    for pattern, rate in rates.items():
        pattern_provider, _, pattern_model = pattern.partition(":")
        if select_row(pattern_provider, model) == provider and fnmatchcase(model, pattern_model or "*"):
            yield pattern, rate, _slots_of(pattern, rate)


@cache
def _slots_of(pattern: str, rate: RequestRate) -> list[Slot]:
    """The slots of one limit, in the order of time; those that no longer count are removed when the next one
    is reserved.
    """
    return []


def _count_past(slots: list[Slot], rate: RequestRate, time: float) -> int:
    """The number of slots that no longer count at a moment."""
    # Not `time - seconds`, which rounds otherwise: `_find_time` would find the same moment again and again.
    return bisect_right(slots, time, key=lambda slot: slot.time + rate.seconds)


def _find_time(slots: list[Slot], rate: RequestRate, time: float, tokens: int) -> float:
    """The first moment from `time` on at which one more request is allowed."""
    while True:
        # Every span that the moment is in lies between these two; slots after it are reserved already.
        near = slots[_count_past(slots, rate, time) : bisect_left(slots, time + rate.seconds, key=_TIME)]
        has_requests = rate.requests is None or len(near) < rate.requests
        has_tokens = rate.tokens is None or tokens + sum(slot.tokens for slot in near) <= rate.tokens
        if not near or (has_requests and has_tokens):  # a request that is larger than the limit is sent alone
            return time
        time = near[0].time + rate.seconds
