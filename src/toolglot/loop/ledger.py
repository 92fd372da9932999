"""What a run uses up, over all of its legs and with the runs that its tools start: tokens, US dollars, time.

A ledger is open for one leg of a run: from a prompt or a decision to the answer or the next pause. What the
legs before it used is in `Spent`, which is saved with the run.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from operator import add, sub
from typing import TypeVar

from msgspec.structs import astuple

from toolglot.loop.limits import RunLimits
from toolglot.loop.run import Spent
from toolglot.providers.profile import Price
from toolglot.values.messages import Usage

__all__ = ["Ledger", "RunClock", "TimeIsUp"]

T = TypeVar("T")
_NOTHING_SPENT = Spent()
_UNLIMITED = (None, None, None, None)


class TimeIsUp(TimeoutError):
    """Raised where a run waits when its time is over: not to be confused with the timeouts of others."""


class RunClock:
    """Measures the time that a tree of runs works: it stands still while somebody is asked.

    Used only in the thread of the event loop that drives the runs.
    """

    def __init__(self, read: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._question_count = 0
        self._asked_at = 0.0  # when the first of the open questions was asked
        self._asked_seconds = 0.0
        self._timeouts: dict[asyncio.Timeout, float] = {}  # of what waits now, each with its deadline

    def now(self) -> float:
        """Return the time, without that in which somebody was asked."""
        return (self._asked_at if self._question_count else self._read()) - self._asked_seconds

    def note_question(self, is_asking: bool) -> None:
        """Note that a question begins or ends. Several may be open at the same time."""
        if is_asking:
            self._question_count += 1
            if self._question_count == 1:
                self._asked_at = self._read()
                self._set_timeouts()
            return
        self._question_count -= 1
        if not self._question_count:
            self._asked_seconds += self._read() - self._asked_at
            # Not at once: some event loops read the time once per iteration, and the approver may have
            # blocked this one.
            if self._timeouts:
                asyncio.get_running_loop().call_soon(self._set_timeouts)

    def _set_timeouts(self) -> None:
        for timeout, deadline in self._timeouts.items():
            if not timeout.expired():
                loop_time = asyncio.get_running_loop().time()
                timeout.reschedule(None if self._question_count else loop_time + deadline - self.now())

    async def wait_until(self, deadline: float, awaitable: Awaitable[T]) -> T:
        """Wait for something, at most until a time of this clock. Raises TimeIsUp."""
        seconds = None if self._question_count else max(0.0, deadline - self.now())
        timeout = asyncio.timeout(seconds)
        try:
            async with timeout:
                self._timeouts[timeout] = deadline
                return await awaitable
        except TimeoutError:
            if timeout.expired():
                raise TimeIsUp from None
            raise
        finally:
            self._timeouts.pop(timeout, None)


class Ledger:
    """What one run has used, and how much it may use.

    `parent`: the ledger of the run whose tool started this one. It pays, too: its limits hold for all runs
    below it, and its clock is theirs. When its own time is up, it cancels them.
    """

    def __init__(
        self,
        limits: RunLimits,
        spent: Spent = _NOTHING_SPENT,
        *,
        parent: "Ledger | None" = None,
        read_clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits, self.parent = limits, parent
        self.usage = spent.usage
        self._known_cost, self._is_cost_known = spent.cost, spent.is_cost_known
        self._before = spent
        self.clock = RunClock(read_clock) if parent is None else parent.clock
        self._started_at = self.clock.now()
        run_timeout = limits.run_timeout
        self._deadline = None if run_timeout is None else self._started_at + run_timeout - spent.seconds
        limits_of_use = limits.max_total_tokens, limits.max_cost, run_timeout, parent
        self.is_unlimited: bool = limits_of_use == _UNLIMITED
        """Whether nothing can be used up: neither tokens nor money nor time, here or above."""

    @property
    def root(self) -> "Ledger":
        """The ledger of the run that started all the others."""
        ledger = self
        while ledger.parent is not None:
            ledger = ledger.parent
        return ledger

    @property
    def depth(self) -> int:
        """How many runs are above this one."""
        return 0 if self.parent is None else self.parent.depth + 1

    @property
    def cost(self) -> float | None:
        """US dollars; None once a model without a known price was used."""
        return self._known_cost if self._is_cost_known else None

    @property
    def seconds(self) -> float:
        """The time that all legs have worked."""
        return self._before.seconds + self.clock.now() - self._started_at

    @property
    def spent(self) -> Spent:
        """What the run has used so far, as a value."""
        return Spent(self.usage, self._known_cost, self._is_cost_known, self.seconds)

    @property
    def spent_in_leg(self) -> tuple[Usage, float | None]:
        """The tokens and the cost of this leg alone."""
        usage = Usage(*map(sub, astuple(self.usage), astuple(self._before.usage)))
        return usage, self._known_cost - self._before.cost if self._is_cost_known else None

    def spend(self, usage: Usage, price: Price | None) -> None:
        """Add the tokens of a request and its reply, also to the ledgers above."""
        cost = None if price is None else price.cost(usage)
        ledger: Ledger | None = self
        while ledger is not None:
            ledger.usage = Usage(*map(add, astuple(ledger.usage), astuple(usage)))
            if cost is None:
                ledger._is_cost_known = False
            else:
                ledger._known_cost += cost
            ledger = ledger.parent

    def find_exceeded(self) -> str:
        """Return which limit of tokens or money is used up, this run's or that of one above; "" if none is.

        Of the cost, what is known counts, even if another model's price is not.
        """
        ledger, owner = self, "the run"
        while True:
            max_tokens, max_cost = ledger.limits.max_total_tokens, ledger.limits.max_cost
            if max_tokens is not None and ledger.usage.input + ledger.usage.output >= max_tokens:
                return f"{owner} has used up its {max_tokens:,} tokens (max_total_tokens)"
            if max_cost is not None and ledger._known_cost >= max_cost:
                return f"{owner} has used up its ${max_cost:g} (max_cost)"
            if ledger.parent is None:
                return ""
            ledger, owner = ledger.parent, "the run that started this one"

    # ---- time

    @property
    def is_time_up(self) -> bool:
        """Whether the run, or one above it, has no time left."""
        if self._deadline is not None and self.clock.now() >= self._deadline:
            return True
        return self.is_time_up_above

    @property
    def is_time_up_above(self) -> bool:
        """Whether a run above this one has no time left."""
        return self.parent is not None and self.parent.is_time_up

    def in_time(self, awaitable: Awaitable[T]) -> Awaitable[T]:
        """Limit a wait to the time that the run has left."""
        return awaitable if self._deadline is None else self.clock.wait_until(self._deadline, awaitable)
