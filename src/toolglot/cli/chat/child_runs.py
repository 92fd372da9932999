"""What a chat shows of sub-agents: while one works, a line with what it does now; then what it did, folded."""

import time
from collections.abc import Iterator

import msgspec

from toolglot.common.sanitize import shorten
from toolglot.common.textutil import pluralize
from toolglot.loop.format_call import format_arguments
from toolglot.values.events import (
    AnswerNeeded,
    ApprovalNeeded,
    InnerEvent,
    Notice,
    ReplyStarted,
    RunDone,
    RunEvent,
    RunResult,
    TextDelta,
    ThinkingDelta,
    ToolCallStarted,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from toolglot.values.messages import ToolCall

__all__ = ["ChildRuns", "LiveRun"]

_MAX_STEPS = 1_000  # of which a fold tells
_TAIL = 300  # characters of a text that is being written
_ASKS = "asks the model"


class LiveRun(msgspec.Struct):
    """A run of a sub-agent that is in progress."""

    name: str
    depth: int
    """0 for a run that a call of the agent itself has started."""
    started_at: float
    requests: int = 0
    activity: str = _ASKS
    text: str = ""
    """The end of what it writes now; empty while it does something else."""
    calls: dict[str, str] = {}
    """What runs, by the id of the call."""

    def set_activity(self, activity: str) -> None:
        self.activity, self.text = activity, ""

    def end_call(self, call_id: str) -> None:
        self.calls.pop(call_id, None)
        self.set_activity(next(reversed(self.calls.values()), _ASKS))

    def describe(self, width: int) -> str:
        """Return what it does now; of a text, its end. `width`: of a line with `head`."""
        if not self.text:
            return self.activity
        room = max(10, width - len(self.head))
        line = " ".join(self.text.split())
        return line if len(line) <= room else f"…{line[1 - room :]}"

    @property
    def head(self) -> str:
        """The name, how long it works, and how often it has asked its model."""
        seconds = f"{time.monotonic() - self.started_at:.0f} s"
        requests = f", request {self.requests}" if self.requests > 1 else ""
        return f"{'  ' * self.depth}{self.name} {seconds}{requests}"


class ChildRuns:
    """The runs of sub-agents that one call has started: its own, and those inside it."""

    def __init__(self, call_id: str, name: str) -> None:
        self._names: dict[tuple[str, ...], str] = {(call_id,): name}
        self._live: dict[tuple[str, ...], LiveRun] = {}
        self._steps: list[str] = []
        self._result: RunResult | None = None

    @property
    def live(self) -> Iterator[LiveRun]:
        """The runs that are in progress, each below the one that has started it."""
        return (self._live[path] for path in sorted(self._live, key=self._sort_key))

    def _sort_key(self, path: tuple[str, ...]) -> list[int]:
        order = list(self._names)
        return [order.index(path[: length + 1]) for length in range(len(path))]

    @property
    def summary(self) -> str:
        """What the run has used: requests and tokens."""
        return _summarize(self._result) if self._result is not None else "stopped"

    @property
    def steps(self) -> str:
        """What the runs have done, a line for each step."""
        hidden = len(self._steps) - _MAX_STEPS
        more = [f"… {pluralize(hidden, 'more step')}"] if hidden > 0 else []
        return "\n".join([*self._steps[:_MAX_STEPS], *more])

    def take(self, event: InnerEvent) -> None:
        """Note an event of a sub-agent."""
        path, inner = event.path, event.event
        run = self._live.get(path)
        if run is None:
            name = self._names.setdefault(path, path[-1])
            run = self._live[path] = LiveRun(shorten(name, 40), len(path) - 1, time.monotonic())
        if isinstance(inner, RunDone):
            self._end(path, inner.result)
        else:
            self._update(path, run, inner)

    def _end(self, path: tuple[str, ...], result: RunResult) -> None:
        del self._live[path]
        if len(path) == 1:
            self._result = result
        else:
            self._add_step(path, f"{self._names[path]}: {_summarize(result)}")

    def _update(self, path: tuple[str, ...], run: LiveRun, event: RunEvent) -> None:
        match event:
            case ReplyStarted():
                run.requests += 1
            case ThinkingDelta():
                run.set_activity("thinks")
            case TextDelta(text=text):
                run.text = (run.text + text)[-_TAIL:]
            case ToolCallStarted(name=name):
                run.set_activity(f"calls {name}")
            case ToolStarted(call):
                self._names[(*path, call.id)] = call.name
                run.calls[call.id] = _describe(call)
                run.set_activity(_describe(call))
            case ToolProgress(call, text):
                run.set_activity(f"{call.name}: {text}")
            case ToolFinished(outcome):
                run.end_call(outcome.call.id)
                mark = "✗" if outcome.result.is_error else "●"
                self._add_step(path, f"{mark} {_describe(outcome.call)}  {outcome.seconds:.1f} s")
            case ApprovalNeeded():
                run.set_activity("waits for approval")
            case AnswerNeeded():
                run.set_activity("waits for an answer")
            case Notice():
                run.set_activity(event.text)
                self._add_step(path, event.text)
            case _:
                pass

    def _add_step(self, path: tuple[str, ...], text: str) -> None:
        self._steps.append(f"{'  ' * (len(path) - 1)}{shorten(text, 500)}")


def _describe(call: ToolCall) -> str:
    return f"{call.name} {format_arguments(call)}".rstrip()


def _summarize(result: RunResult) -> str:
    tokens = result.usage.input + result.usage.output
    return f"{pluralize(result.iterations, 'request')}, {tokens:,} tokens"
