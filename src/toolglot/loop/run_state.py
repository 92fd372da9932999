"""A run as a value: what is saved of it, in which form, and how earlier forms are read."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec

from toolglot.errors import MalformedData, ToolErrorKind
from toolglot.values.approvals import SuspensionRecord
from toolglot.values.events import RunStop
from toolglot.values.messages import Text, ToolCall, ToolResult
from toolglot.wire.repair import make_unknown_result

__all__ = ["RUN_FORMAT", "RunState", "upgrade_run"]

RUN_FORMAT = 2
"""1: calls that wait in `waiting`, `shown` and `holding`. 2: in `suspended`."""


class RunState(msgspec.Struct, omit_defaults=True):
    """A run without its conversation, so that it can be saved and resumed in another process. Calls are identified by index."""

    iteration: int = 0
    """Requests so far."""
    length: int = 0
    """Messages in the conversation when the turn began; a different length means a different conversation."""
    calls: tuple[ToolCall, ...] = ()
    """The calls of the open turn; empty if no turn is open."""
    results: list[ToolResult | None] = []
    started: set[int] = set()
    suspended: dict[int, SuspensionRecord] = {}
    """Calls that wait. Decisions are never saved, so a loaded run has none."""
    tools: str = ""
    """A fingerprint of the tools that the calls were made for."""
    stop: RunStop | None = None
    last: bool = False
    """The model may call no more tools."""
    format: int = 1
    """Which version of this form was saved: see `RUN_FORMAT`."""

    def open_indexes(self) -> list[int]:
        """Return the indexes of the calls without a result."""
        return [index for index, result in enumerate(self.results) if result is None]

    def refuse(
        self,
        kind: ToolErrorKind,
        text: str,
        only: Sequence[int] | None = None,
        started: Callable[[ToolCall], ToolResult] = make_unknown_result,
        code: str = "",
    ) -> None:
        """Answer open calls without running them. `started`: the result of those that were started."""
        for index in self.open_indexes():
            if only is None or index in only:
                call = self.calls[index]
                refusal = ToolResult(call.id, (Text(text),), call.name, is_error=True, error_kind=kind, error_code=code)
                self.results[index] = started(call) if index in self.started else refusal

    def copy_turn(self) -> "RunState":
        """Return a copy of the open turn, without the fields that describe the run."""
        return RunState(
            calls=self.calls, results=[*self.results], started={*self.started}, suspended={**self.suspended}, format=RUN_FORMAT
        )

    def is_consistent(self) -> bool:
        """Return whether this can be the state of a run."""
        indexes = {*self.started, *self.suspended}
        are_calls_known = len(self.results) == len(self.calls) and indexes <= set(range(len(self.calls)))
        return are_calls_known and self.iteration >= 0


class _Format1(msgspec.Struct, frozen=True):
    """What format 1 says of calls that wait."""

    waiting: set[int] = set()
    shown: dict[int, str] = {}
    """The fingerprints of what was shown."""
    holding: set[int] = set()
    """Calls that the ones after them wait for."""


def upgrade_run(saved: Any) -> Any:
    """Return a saved run in the present format. Raises MalformedData for a later one, and msgspec's error for another shape."""
    if not isinstance(saved, dict):
        return saved
    fields = cast(dict[str, Any], saved)
    format = fields.get("format", 1)
    if format == RUN_FORMAT:
        return fields
    if format != 1:
        raise MalformedData(f"line 1: the saved run has format {format!r}, which this version cannot read: update toolglot")
    old = msgspec.convert(fields, _Format1, str_keys=True)
    suspended = {
        index: SuspensionRecord(fingerprint=old.shown.get(index, ""), blocks_later=index in old.holding)
        for index in old.waiting
    }
    return {**fields, "suspended": suspended, "format": RUN_FORMAT}
